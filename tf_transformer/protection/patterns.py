"""What is protected, as regular expressions that RE2 (TensorFlow's) and Python's `re` read alike."""

from __future__ import annotations

from tf_transformer.tokenizers.placeholders import CLOSING, OPENING

# What the user has marked comes out without the brackets: ⟦Hund⟧, or ⟦dog|Hund⟧, of which the model may read "dog".
MARKED = f"{OPENING}[^{OPENING}{CLOSING}]*{CLOSING}"
PARTS_OF_MARKED = f"(?s)^{OPENING}(?:([^|]*)\\|)?(.*){CLOSING}$"

# Letters and marks of scripts that write no blanks between words: of Thai, Lao, Burmese, Khmer, Japanese and Chinese.
WITHOUT_BLANKS = (
    "[\u0e01-\u0e4f\u0e81-\u0ecf\u0edc-\u0edf\u1000-\u103f\u104a-\u108f\u109a-\u109f\u1780-\u17dd\ua9e0-\ua9ef\ua9fa-\ua9fe"
    "\uaa60-\uaa7f\u3005-\u3007\u3031-\u3035\u303b\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)

# What ends a link, beside the marks below. Blanks are written out, since \s is not the same in RE2 as in `re`. Chinese
# and Japanese have none between a link and the next word: there a mark ends it, and hiragana, as of particles, do. Any
# other letter may be of its path.
_NOT_IN_LINK = (
    "\x01-\x20\x7f-\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f"
    "\u3000-\u3004\u3008-\u3020\u3030-\u309f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
# A link may end in a bracket that was opened in it: https://en.wikipedia.org/wiki/Mercury_(planet)
_IN_LINK = rf"""[^{_NOT_IN_LINK}<>"(){OPENING}{CLOSING}]"""
_BRACKETS = rf"\((?:{_IN_LINK}|\({_IN_LINK}*\))*\)"
_LINK_END = rf"""[^{_NOT_IN_LINK}<>"(){OPENING}{CLOSING}.,;:!?'”’«»\]}}]"""
_LINK = (
    rf"(?:(?:https?|ftp)://|www\.)(?:{_IN_LINK}|{_BRACKETS}|\))*(?:{_LINK_END}|{_BRACKETS})"
    rf"(?:\({_IN_LINK}*{_LINK_END})?"  # one that is never closed
)
MAIL = r"[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
# {name}, {{name}}, ${name}, %s, %1$d, %(name)s
_PLACEHOLDER = r"\{\{[^{}]+\}\}|\$?\{[^{}]*\}|%(?:[0-9]+\$|\([A-Za-z_]+\))?[sd]\b"
_TAG = r"</?[A-Za-z][^<>]*>|&(?:#[0-9]+|#x[0-9A-Fa-f]+|[A-Za-z]+);"

# 12 000: a blank may stand between groups of three digits.
_DIGITS = "(?:\\b[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+\\b|[0-9]+)"
_NUMBER = f"[-−+]?{_DIGITS}(?:[.,:'’][0-9]+)*"
_BLANK = "[ \u00a0\u202f]?"
_SIGN = r"°[CF]|[kcdmµ]?m[²³]|[%‰]\B|[€£¥°]"
_UNIT = (
    "(?:km/h|m/s|mph|[kcdmµn]?m|mi|ft|yd|[kmµ]?g|lbs?|oz|t|[mcdh]?[lL]|ms|s|min|h|[kMG]?Hz|[kMG]?Wh?|[km]?V|m?Ah?|"
    r"[kMG]bit/s|[kKMGT]i?B|px|pt|dpi|fps|[kMh]?Pa|k?J|k?cal|EUR|USD|GBP|CHF)\b"
)
QUANTITY = f"[$€£¥] ?{_DIGITS}(?:[.,][0-9]+)*|{_NUMBER}{_BLANK}(?:{_SIGN}|{_UNIT})"
# A row of numbers, to its end, behind which there is no unit: no quantity begins in it. (`re` alone reads this.)
NUMBERS_WITHOUT_UNIT = f"(?>[0-9](?:[ \u00a0\u202f.,:'’]?[0-9])*)(?!{_BLANK}(?:{_SIGN}|{_UNIT}))"
# No quantities: "3 hübsche", since RE2 takes ü for no letter and "3 h" for three hours; and the end of "F16 m".
_NUMBER_AND_WORD = f"{_NUMBER}{_BLANK}[A-Za-z]{{1,3}}[\u00c0-\u024f\u0370-\u1fff]"
WORD_WITH_DIGIT = "[A-Za-z_][A-Za-z0-9_]*[0-9]"

_PICTURE = "[\U0001f000-\U0001f1e5\U0001f200-\U0001faff\u2600-\u27bf\u231a-\u23ff\u25fd\u25fe\u2b1b\u2b1c\u2b50\u2b55]"
_VARIANT = "[\U0001f3fb-\U0001f3ff\ufe0f]*"
# Flags are two letters, or a black flag with letters that are not seen. Keys have a square around them. Signs are
# pictures where a character of no width says so. Families are pictures with a joiner of no width between them.
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}|\U0001f3f4[\U000e0061-\U000e007a]+\U000e007f"
_KEY = "[0-9#*]\ufe0f?\u20e3"
_SIGNS = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u24c2\u25aa-\u25fe\u2934\u2935\u2b05-\u2b1c\u3030\u303d\u3297\u3299]"
    "\ufe0f"
)
EMOJI = f"{_FLAG}|{_KEY}|{_SIGNS}|{_PICTURE}{_VARIANT}(?:\u200d(?:{_PICTURE}{_VARIANT}|{_SIGNS}))*"

KEPT = "|".join([MARKED, _LINK, MAIL, _PLACEHOLDER, _TAG])
KEPT_BUT_MAIL = "|".join([MARKED, _LINK, _PLACEHOLDER, _TAG])
# Groups 1 and 3 are what is protected, group 2 what is not. Of two that match at one place the first counts.
PATTERN = f"({KEPT})|({_NUMBER_AND_WORD}|{WORD_WITH_DIGIT})|({QUANTITY}|{EMOJI})"
