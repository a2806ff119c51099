"""LibreTranslate's interface on a real server, asked by its own client and by another program's."""

import pytest
from libretranslatepy import LibreTranslateAPI

from tests.tiny_run import PAIRS

SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))


def translate(client, **asked):
    asked = {"source": "en", "target": "de", **asked}
    return client.post("/translate", json=asked)


@pytest.mark.thorough
def test_libretranslates_own_client(server):
    api = LibreTranslateAPI(server.url)
    assert api.translate(SOURCES[0], "en", "de") == TARGETS[0]
    assert [language["code"] for language in api.languages()] == ["en", "de"]
    assert api.detect("whatever") == [{"confidence": 0.0, "language": "en"}]


def test_as_weblate_asks(client):
    """weblate/machinery/libretranslate.py: languages first, then lists of texts."""
    codes = [language["code"] for language in client.get("/languages").json()]
    assert {"en", "de"} <= set(codes)
    body = {"api_key": "", "q": SOURCES[:5], "source": "en", "target": "de"}
    answer = client.post("/translate", json=body)
    assert answer.json()["translatedText"] == TARGETS[:5]


def test_a_text_and_a_list_of_texts(client):
    assert translate(client, q=SOURCES[1]).json() == {"translatedText": TARGETS[1]}
    answer = translate(client, q=SOURCES)
    assert (answer.status_code, answer.json()) == (200, {"translatedText": TARGETS})
    assert translate(client, q=[]).json() == {"translatedText": []}
    assert translate(client, q=["", "  \n"]).json() == {"translatedText": ["", "  \n"]}


def test_a_form_is_json(client):
    form = {"q": SOURCES[2], "source": "en", "target": "de", "format": "text"}
    assert client.post("/translate", data=form).json() == {"translatedText": TARGETS[2]}
    assert client.post("/translate", params=form).json() == {"translatedText": TARGETS[2]}


@pytest.mark.parametrize("where", ["data", "params"])
def test_several_texts_in_a_form(client, where):
    form = {"q": SOURCES[:3], "source": "en", "target": ["de", "de"]}
    assert client.post("/translate", **{where: form}).json() == {"translatedText": TARGETS[:3]}
    answer = client.post("/translate", **{where: form | {"target": ["de", "fr"]}})
    told = "target is given 2 times, with different values; give it once"
    assert (answer.status_code, answer.json()) == (400, {"error": told})


def test_as_many_texts_in_a_form_as_in_json(client):
    form = {"q": [""] * 256, "source": "en", "target": "de"}
    assert client.post("/translate", data=form).json() == {"translatedText": [""] * 256}
    answer = client.post("/translate", data=form | {"q": [""] * 257})
    assert (answer.status_code, answer.json()["error"]) == (400, "q has 257 texts; at most 256 are allowed")


def test_auto_is_the_one_source_language_and_says_that_nothing_was_detected(client):
    detected = {"confidence": 0.0, "language": "en"}
    one = translate(client, q=SOURCES[0], source="auto").json()
    assert one == {"translatedText": TARGETS[0], "detectedLanguage": detected}
    many = translate(client, q=SOURCES[:2], source="auto").json()
    assert many == {"translatedText": TARGETS[:2], "detectedLanguage": [detected] * 2}


def test_alternatives(client):
    one = translate(client, q=SOURCES[0], alternatives=2).json()
    assert one["translatedText"] == TARGETS[0]
    assert 1 <= len(one["alternatives"]) <= 2
    assert len({TARGETS[0], *one["alternatives"]}) == 1 + len(one["alternatives"])
    many = translate(client, q=SOURCES[:3], alternatives=2).json()
    assert many["alternatives"][0] == one["alternatives"]
    assert [len(others) <= 2 for others in many["alternatives"]] == [True] * 3
    assert "alternatives" not in translate(client, q=SOURCES[0]).json()


def test_paragraphs_keep_their_blanks_and_line_breaks(client):
    text = f"  {SOURCES[0]}  {SOURCES[1]}\n\n\t{SOURCES[2]}\r\n---\n"
    expected = f"  {TARGETS[0]}  {TARGETS[1]}\n\n\t{TARGETS[2]}\r\n---\n"
    assert translate(client, q=text).json() == {"translatedText": expected}
    many = "\n".join(SOURCES * 3)
    assert translate(client, q=many).json() == {"translatedText": "\n".join(TARGETS * 3)}


def test_html_keeps_its_tags(client):
    text = f'<!-- A man. --><p class="a>b">{SOURCES[0]}<br/>{SOURCES[1]}</p><script>A man</script>&amp; &lt;'
    expected = text.replace(SOURCES[0], TARGETS[0]).replace(SOURCES[1], TARGETS[1])
    assert translate(client, q=text, format="html").json() == {"translatedText": expected}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "missing q"),
        ({"q": "a", "source": None}, "missing source"),
        ({"q": "a", "target": ""}, "missing target"),
        ({"q": "a", "source": "fr"}, "fr to de is not supported; this server translates en to de"),
        ({"q": "a", "source": "de", "target": "en"}, "de to en is not supported"),
        ({"q": "a", "target": 3}, "target must be a string"),
        ({"q": "a", "format": "pdf"}, "choose text or html"),
        ({"q": "a", "alternatives": "many"}, "alternatives must be a whole number"),
        ({"q": "a", "alternatives": -1}, "alternatives is -1"),
        ({"q": "a", "alternatives": 10**9}, "from 0 to 10"),
        ({"q": "a", "alternatives": float("inf")}, "alternatives must be a whole number"),
        ({"q": "a", "source": "\ud800"}, "? to de is not supported"),
        ({"q": 7}, "q must be a string"),
        ({"q": ["a", None]}, "q[1] must be a string"),
        ({"q": {"a": "b"}}, "q must be a string"),
        ({"q": ["a"] * 257}, "257 texts; at most 256"),
        ({"q": "a" * 20_001}, "20,001 characters; at most 20,000"),
        ({"q": "house " * 100}, "is too long for the model"),
        ({"q": "\ud800"}, "surrogate"),
    ],
)
def test_mistakes_are_400_with_one_line(client, asked, told):
    import json

    body = json.dumps({"source": "en", "target": "de", **asked})
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert told in answer.json()["error"]


def test_nothing_but_the_methods_that_there_are(client):
    assert client.get("/translate").status_code == 405
    assert client.get("/nothing").status_code == 404
    assert set(client.get("/nothing").json()) == {"error"}
    assert client.post("/translate", files={"file": b"A man."}).status_code == 415


def test_settings_name_the_limits(client):
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 20_000
    assert settings["keyRequired"] is False
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_protected_text(client):
    text = f"{SOURCES[0]} {{name}}"
    assert translate(client, q=text, protect=True).json() == {"translatedText": f"{TARGETS[0]} {{name}}"}
    form = {"q": text, "source": "en", "target": "de", "protect": "true"}
    assert client.post("/translate", data=form).json() == {"translatedText": f"{TARGETS[0]} {{name}}"}
    assert translate(client, q=SOURCES, protect=False).json() == {"translatedText": TARGETS}
    many = translate(client, q=[text], protect=True, alternatives=2).json()
    assert all(other.count("{name}") == 1 for other in many["alternatives"][0])
    for wrong in ("yes", 1, [True]):
        answer = translate(client, q=text, protect=wrong)
        assert (answer.status_code, answer.json()["error"]) == (400, "protect must be true or false")


def test_tags_inside_of_a_sentence_do_not_part_it(client):
    """The sentence is translated as a whole; its tags and entities are there once, and block tags stay outside."""
    words = SOURCES[0].split()
    html = (
        f'<p>{words[0]} <a href="x.html?a&amp;b">{" ".join(words[1:])}</a> &lt;b&gt; &amp;<br></p>\n<p>{SOURCES[1]}</p>'
    )
    answer = translate(client, q=html, format="html", protect=True).json()["translatedText"]
    first, second = answer.split("\n")
    assert second == f"<p>{TARGETS[1]}</p>"
    assert first.startswith("<p>") and first.endswith("</p>")
    inside = first.removeprefix("<p>").removesuffix("</p>")
    for span in ('<a href="x.html?a&amp;b">', "</a>", "&lt;", "&gt;", "&amp;", "<br>"):
        assert inside.count(span) == 1
        inside = inside.replace(span, " ")
    assert "<" not in inside and "&" not in inside
