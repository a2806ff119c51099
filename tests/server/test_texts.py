"""Texts and HTML around a model that copies: what a reader sees of them is then the same before and after."""

import asyncio
import html
import re
import threading
import time
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tf_transformer.protection.patterns import KEPT
from tf_transformer.server import texts
from tf_transformer.server.markup import escaped, html_parts, in_one_line, is_inline
from tf_transformer.server.texts import Translated, _parts, translate_documents
from tf_transformer.translation.texts import Translation

PIECES = (
    *("A dog", " runs. ", "AT&T", "1 < 2", "<&#98;>", "&nbsp;", "&auml;", "&amp;", "&", "\n"),
    *("&lt;", "&gt;", "&LT;", "&#60;", "&#x3C;", "&#62;", "&lt", "&gtb", "&#60;b&#62;", "&lt;!--&gt;", "&lt;?&gt;"),
    *("&amp;lt;", "&#38;lt;", "&AMP;gt;", "&amp;amp;", "&amplt;"),
    *("<b>", "</b>", '<b title="&quot; x=&quot;1">', '<a href="?a&amp;lt=1">', "<p>", "</p>", "<!-- a -->"),
)


def translated(text: str, others: dict[str, list[str]], tags=(), **options) -> tuple[Translated, dict]:
    """What a model makes of a text that copies, with others in turn for some sentences; and what it was asked for."""
    asked = {}

    async def translate(version, sentences, **given):
        asked.update(given)
        return [Translation(each, 0.0, False, [(text, 0.0) for text in others.get(each, [])]) for each in sentences]

    limits = SimpleNamespace(limits=SimpleNamespace(queue=1024))
    model = SimpleNamespace(batcher=limits, translate=translate)
    version = SimpleNamespace(languages=("en", "de"), language_tags=tags)
    (found,) = asyncio.run(translate_documents(model, version, [text], **options))
    return found, asked


def copied(text: str, protect: bool) -> str:
    return translated(text, {}, markup=True, protect=protect)[0].text


def as_read(text: str) -> list:
    """The tags with their attributes and the text between them, as a browser has them."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append((tag, attributes))

        def handle_endtag(self, tag):
            found.append(tag)

        def handle_comment(self, comment):
            found.append(("comment", comment))

        def handle_decl(self, declaration):
            found.append(("declaration", declaration))

        def handle_pi(self, instruction):
            found.append(("instruction", instruction))

        def handle_data(self, text):
            if found and isinstance(found[-1], list):
                text = found.pop()[0] + text
            found.append([text])

    reader = Reader()
    reader.feed(text)
    reader.close()
    return found


def test_alternatives_are_of_one_rank_each_and_differ():
    """The second of both sentences; then the third of one, and the last that there is of the other."""
    others = {"A dog runs.": ["Dog 2.", "Dog 3."], "It rains.": ["Rain 2."]}
    found, asked = translated("A dog runs. It rains.", others, alternatives=4)
    assert found == Translated("A dog runs. It rains.", ["Dog 2. Rain 2.", "Dog 3. Rain 2."])
    assert asked == {"num_hypotheses": 5}
    found, _ = translated("A dog runs. It rains.", others, alternatives=1)
    assert found.others == ["Dog 2. Rain 2."]
    found, _ = translated("It rains.", {"It rains.": ["It rains.", "Rain 3."]}, alternatives=2)
    assert found.others == ["Rain 3."]  # the best one is no alternative to itself


@pytest.mark.parametrize(
    ("text", "markup", "read"),
    [
        (">>deu<< A dog. A cat.", False, ">>deu<< A dog. >>deu<< A cat."),
        ("<p>&gt;&gt;deu&lt;&lt; A dog.</p> <p>A cat.", True, "<p>>>deu<< A dog.</p> <p>>>deu<< A cat."),
        (">>deu<< <p>A dog.</p> <p>>>nld<< A cat.", True, "<p>>>deu<< A dog.</p> <p>>>nld<< A cat."),
    ],
    ids=["text", "HTML", "before HTML"],
)
def test_language_tags_hold_for_all_sentences_behind_them(text, markup, read):
    found, _ = translated(text, {}, tags=[">>deu<<", ">>nld<<"], markup=markup)
    assert html.unescape(found.text) == read


@pytest.mark.parametrize("protect", [False, True])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=8))
@example(pieces=["<b>", "<&#98;>"])
@example(pieces=["<&#98;>", "<b>"])
def test_text_stays_text_and_tags_stay_tags(protect, pieces):
    text = "".join(pieces)
    assert as_read(copied(text, protect)) == as_read(text)


@pytest.mark.parametrize("tag", ['<a class="btn"\n   href="https://x.org">', '<a title="1 > 0 < 2">', "<a\r\nb=c>"])
def test_a_tag_in_a_sentence_is_one_span_however_it_is_written(tag):
    text = f"<p>Please {tag}click</a> now."
    assert as_read(copied(text, protect=True)) == as_read(text)
    ((_, sentence, _),) = [part.pieces for part in _parts(text, "en", [], True, True) if not part.is_tag]
    assert [found[0] for found in re.finditer(KEPT, sentence)] == [in_one_line(tag), "</a>"]


@pytest.mark.parametrize("protect", [False, True])
@pytest.mark.parametrize(
    "text", ["A &#60;img src=x onerror=y&#62; dog.", "&lt;!--&gt; A dog.", '<b title="&quot; onclick=y x=&quot;">A</b>']
)
def test_what_the_source_shows_as_text_is_no_markup_of_the_answer(protect, text):
    assert as_read(copied(text, protect)) == as_read(text)


@pytest.mark.parametrize(
    "tag",
    [
        "<p title=it's>",
        "<p title=a\"b='c>",
        "<p it's>",
        "<p title= >",
        "<p title==it's>",
        "</p it's>",
        "<!doctype it's>",
        '<p title="1 > 0">',
        "<p title = '\"1\" > 0' lang=en>",
        "<p title='a'\"b>",
        "<!-->",
        "<!--->",
        "<!-- it's > -- -->",
        "<!---->",
        "<!-- a --!>",
        "<!--!> -->",
    ],
)
def test_a_tag_ends_where_it_ends_in_a_browser(tag):
    parts = [(True, tag), (False, "The dog"), (True, "</p>"), (False, "it's -- late"), (True, "<!-- b -->")]
    assert list(html_parts("".join(part for _, part in parts))) == parts


@pytest.mark.parametrize("protect", [False, True])
def test_numbers_of_characters_may_have_thousands_of_digits(protect):
    text = f"<p>A&#{'1' * 5_000};<b>&#x{'1' * 5_000};</b>&#{'0' * 5_000}65;"
    assert copied(text, protect) == "<p>A\ufffd<b>\ufffd</b>A"


@pytest.mark.parametrize("tag", ["<textarea-autosize>", "<style-guide/>", "<script.x>", "<b-card a=1>", "</a:b>"])
def test_a_custom_element_is_not_the_one_that_its_name_begins_with(tag):
    assert list(html_parts(f"{tag}A dog</p>")) == [(True, tag), (False, "A dog"), (True, "</p>")]
    assert not is_inline(tag)


@pytest.mark.parametrize("tag", ["<b>", "<B\n>", "<br/>", "</a >", "<i", "<a\thref=x>"])
def test_tags_inside_of_a_sentence(tag):
    assert is_inline(tag)


@pytest.mark.parametrize("tag", ["<p title='a>b", '<p title= "a>b', "<p title=it's", "<!-- a > b"])
def test_what_is_never_closed_goes_on_to_the_end(tag):
    assert list(html_parts(f"A dog{tag}")) == [(False, "A dog"), (True, tag)]


def test_what_is_never_closed_is_markup_at_the_end_alone():
    text = "A <b>dog</b> <b x='1 > 0 \n y"
    assert copied(text, protect=True) == text
    assert escaped("<b x <b", ["<b x", "<b"]) == "&lt;b x <b"


OWN = ["<b>", "</b>", "<i a>", "<a b='&lt;c&gt;'>", "&lt;", "&gt;", "&amp;"]


@given(
    pieces=st.lists(st.sampled_from([*OWN, "<i", "<", ">", "&", "lt;", "amp;", "a", "&lt;b&gt;"]), max_size=8),
    own=st.sets(st.sampled_from(OWN)),
)
def test_tags_are_found_as_if_each_were_tried_at_each_place(pieces, own):
    text = "".join(pieces)
    markup = {html.escape(each, quote=False): each for each in sorted(own, key=len, reverse=True)}
    tried = "|".join(map(re.escape, markup)) or "(?!)"
    assert escaped(text, own) == re.sub(tried, lambda found: markup[found[0]], html.escape(text, quote=False))


def test_thousands_of_tags_are_found_at_once():
    own = [f"<b {number}>" for number in range(30_000)]
    text = "".join(own) + "<b 5x>" * 30_000
    began = time.thread_time()
    assert escaped(text, own) == "".join(own) + "&lt;b 5x&gt;" * 30_000
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("long", [False, True])
def test_long_texts_are_split_and_joined_in_a_thread(monkeypatch, long):
    threads = []

    def seen(work):
        return lambda *given, **options: (threads.append(threading.current_thread()), work(*given, **options))[1]

    for name in ("split_text", "join_sentences"):
        monkeypatch.setattr(texts, name, seen(getattr(texts, name)))
    text = "<p>A dog.</p>" * (1_000 if long else 1)
    assert copied(text, protect=False) == text
    assert len(threads) > 1
    assert [thread is threading.main_thread() for thread in threads] == [not long] * len(threads)


@pytest.mark.parametrize("text", ["= ", "=", "='", "=''", "a='b", "=a", "\"'", "<p =", "<p ='>", "<!-->-", "<!---"])
def test_a_hostile_text_is_split_at_once(text):
    began = time.thread_time()
    for begun in (f"<p {text * 50_000}", f"<p ={' ' * 50_000}{text * 50_000}", f"<!--{text * 50_000}"):
        assert "".join(part for _, part in html_parts(begun)) == begun
    assert time.thread_time() - began < 2
