"""What is protected, as regular expressions that RE2 (TensorFlow's) and Python's `re` read alike."""

from __future__ import annotations

from tf_transformer.protection.placeholders import CLOSING, OPENING

# What the user has marked comes out without the brackets: ⟦Hund⟧, or ⟦dog|Hund⟧, of which the model may read "dog".
MARKED = f"{OPENING}[^{OPENING}{CLOSING}]*{CLOSING}"
PARTS_OF_MARKED = f"(?s)^{OPENING}(?:([^|]*)\\|)?(.*){CLOSING}$"

_LINK = rf"""(?:(?:https?|ftp)://|www\.)[^\s<>"{OPENING}{CLOSING}]*[^\s<>"{OPENING}{CLOSING}.,;:!?'”’«»)\]}}]"""
_MAIL = r"[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
# {name}, {{name}}, ${name}, %s, %1$d, %(name)s
_PLACEHOLDER = r"\{\{[^{}]+\}\}|\$?\{[^{}]*\}|%(?:[0-9]+\$|\([A-Za-z_]+\))?[sd]\b"
_TAG = r"</?[A-Za-z][^<>]*>|&(?:#[0-9]+|#x[0-9A-Fa-f]+|[A-Za-z]+);"

_NUMBER = "[-−+]?[0-9]+(?:[.,:'’][0-9]+)*"
_BLANK = "[ \u00a0\u202f]?"
_SIGN = r"°[CF]|[kcdmµ]?m[²³]|[%‰]\B|[€£¥°]"
_UNIT = (
    "(?:km/h|m/s|mph|[kcdmµn]?m|mi|ft|yd|[kmµ]?g|lbs?|oz|t|[mcdh]?[lL]|ms|s|min|h|[kMG]?Hz|[kMG]?Wh?|[km]?V|m?Ah?|"
    r"[kMG]bit/s|[kKMGT]i?B|px|pt|dpi|fps|[kMh]?Pa|k?J|k?cal|EUR|USD|GBP|CHF)\b"
)
_QUANTITY = f"[$€£¥] ?[0-9]+(?:[.,][0-9]+)*|{_NUMBER}{_BLANK}(?:{_SIGN}|{_UNIT})"
# No quantities: "3 hübsche", since RE2 takes ü for no letter and "3 h" for three hours; and the end of "F16 m".
_NO_QUANTITY = f"{_NUMBER}{_BLANK}[A-Za-z]{{1,3}}[\u00c0-\u024f\u0370-\u1fff]|[A-Za-z_][A-Za-z0-9_]*[0-9]"

_PICTURE = "[\U0001f000-\U0001f1e5\U0001f200-\U0001faff\u2600-\u27bf\u231a-\u23ff\u2b50\u2b55]"
_VARIANT = "[\U0001f3fb-\U0001f3ff\ufe0f]*"
# Flags are two letters; families are pictures with a joiner of no width between them.
_EMOJI = f"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}{_VARIANT}(?:\u200d{_PICTURE}{_VARIANT})*"

# Groups 1 and 3 are what is protected, group 2 what is not. Of two that match at one place the first counts.
PATTERN = f"({'|'.join([MARKED, _LINK, _MAIL, _PLACEHOLDER, _TAG])})|({_NO_QUANTITY})|({'|'.join([_QUANTITY, _EMOJI])})"
