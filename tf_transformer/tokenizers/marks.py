"""How the pieces of a vocabulary mark words and blanks, and which of its tokens stand for any word or for no text."""

BLANK = "\u2581"  # SentencePiece: a blank, as it stands before a word
CONTINUATION = "##"  # WordPiece: no blank here
WORD = "XX"  # in linearised trees: any word
NO_TEXT = frozenset({"<pad>", "<s>", "</s>", "[PAD]", "[START]", "[END]"})
