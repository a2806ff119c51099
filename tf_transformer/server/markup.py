"""HTML: its tags, what lies between them as plain text, and a translation as HTML again."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Iterator

_BEGIN_OF_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
# As browsers read them: a quote opens a value only behind =, and > is part of a tag only in such a value. With `*+` a
# value that is never closed is not tried in other ways, which could take long.
_TAG = re.compile(r"""<[a-zA-Z/!?](?:[^>=]|=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*|(?=>)))*+>""")
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_END_OF_NAME = r"(?=[\s/>]|$)"  # <b-card> is no <b>
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|br|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|u|var|"
    r"wbr)" + _END_OF_NAME,
    re.IGNORECASE,
)
# What `html.unescape` takes for an entity.
_ENTITY = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")
# Of a character's number the digits behind its zeros.
_NUMBER = re.compile("&#0*([0-9]+)")
_ENTITY_OF_MARKUP = re.compile("&(?:lt|gt|amp);")
# A tag as `in_one_line` gives it.
_TAG_IN_ONE_LINE = re.compile("(<[^<>]*>)")
# What `html.escape` changes. An entity is one: what has become of &amp;amp; is not the beginning of another.
_CHARACTER = re.compile("&(?:lt|gt|amp);|[<>&]")
# What stands in these is no text.
_CLOSED = re.compile(r"<(script|style|textarea)" + _END_OF_NAME, re.IGNORECASE)


def html_parts(text: str) -> Iterator[tuple[bool, str]]:
    """Splits HTML into tags and text, in order; comments, scripts and styles count as tags.

    Example:
        >>> list(html_parts("<p>A <b>dog</b>"))
        [(True, '<p>'), (False, 'A '), (True, '<b>'), (False, 'dog'), (True, '</b>')]
    """
    start = position = 0
    while (position := text.find("<", position)) >= 0:
        if not _BEGIN_OF_TAG.match(text, position):
            position += 1  # less than
            continue
        if position > start:
            yield False, text[start:position]
        end = _end_of_tag(text, position)
        yield True, text[position:end]
        start = position = end
    if start < len(text):
        yield False, text[start:]


def is_inline(tag: str) -> bool:
    """Whether a tag stands inside of a sentence, such as <b>.

    Example:
        >>> is_inline("</b>"), is_inline("<p>")
        (True, False)
    """
    return _INLINE.match(tag) is not None


def in_one_line(tag: str) -> str:
    """The same tag to a browser, without line breaks, and in its values without < and >: as `protect` knows tags.

    Example:
        >>> in_one_line('<a class="b"\\n href="x?1>0">')
        '<a class="b"  href="x?1&gt;0">'
    """
    if not tag.endswith(">"):  # never closed, it is text to a browser as well
        return tag
    inside = re.sub(r"[\r\n\f]+", " ", tag[1:-1])
    return f"<{inside.replace('<', '&lt;').replace('>', '&gt;')}>"


def unescaped(text: str) -> str:
    """The plain text of what lies between two tags.

    Example:
        >>> unescaped("caf&eacute; &#65;")
        'café A'
    """
    # Of more digits than Python makes a number of, `html.unescape` makes an error, and a browser U+FFFD, as it does of
    # each number beyond the last character.
    beyond = sys.maxunicode + 1
    return html.unescape(_NUMBER.sub(lambda found: f"&#{found[1] if len(found[1]) < 8 else beyond}", text))


def unescaped_beside_tags(text: str) -> tuple[str, set[str]]:
    """The plain text of a sentence that tags are part of: entities that stand for characters of markup stay entities.

    Returns:
        The text, and the entities that it has.

    Example:
        >>> unescaped_beside_tags("caf&eacute; &lt;b>")
        ('café &lt;b>', {'&lt;'})
    """
    # What begins a tag only now, as of <&#98;>, is none.
    plain = _BEGIN_OF_TAG.sub("&lt;", unescaped(_ENTITY.sub(_kept, text)))
    return plain, set(_ENTITY_OF_MARKUP.findall(plain))


def escaped(text: str, own: Iterable[str]) -> str:
    """A translation as HTML, in which only what is the source's own is markup.

    Example:
        >>> escaped("<b>1 < 2</b>", own=["<b>", "</b>"])
        '<b>1 &lt; 2</b>'
    """
    own = frozenset(own)

    def looked_up(found: re.Match) -> str:
        return found[0] if found[0] in own else html.escape(found[0], quote=False)

    # What is never closed goes on to the end, and may have < and > in it.
    open_tags = [each for each in own if each.startswith("<") and not each.endswith(">") and text.endswith(each)]
    last = max(open_tags, key=len, default="")
    # Each tag is looked up: to try them all at each place takes long where there are thousands.
    parts = _TAG_IN_ONE_LINE.split(text.removesuffix(last))
    return "".join(part if part in own else _CHARACTER.sub(looked_up, part) for part in parts) + last


def _kept(entity: re.Match) -> str:
    """Of an entity that stands for a character of markup what `html.unescape` makes `&lt;`, `&gt;` or `&amp;` of.

    It stays that where tags are part of a sentence: else <b> and &lt;b&gt; would look the same there.
    """
    plain = unescaped(entity[0])
    return html.escape(html.escape(plain, quote=False), quote=False) if plain != entity[0] else entity[0]


def _end_of_tag(text: str, position: int) -> int:
    """Where a tag, a comment or an element without text ends; what is never closed goes on to the end of the text."""
    if text.startswith("<!--", position):
        comment = _COMMENT.match(text, position)
        return comment.end() if comment else len(text)
    tag = _TAG.match(text, position)
    if tag and (element := _CLOSED.match(text, position)):
        closing = re.compile(rf"</{element[1]}\s*>", re.IGNORECASE).search(text, tag.end())
        return closing.end() if closing else len(text)
    return tag.end() if tag else len(text)
