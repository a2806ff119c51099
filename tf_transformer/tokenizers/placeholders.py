"""The tokens that stand for protected text, in a model that has learned what they are."""

# Brackets that hardly any text has: in a text that is to be translated they mark what is to come out as it is.
OPENING, CLOSING = "⟦", "⟧"

# A sentence has rarely more; what comes beyond them is put back by the alignment.
PLACEHOLDERS = tuple(f"{OPENING}{number}{CLOSING}" for number in range(10))
