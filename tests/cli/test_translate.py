"""Translating: a line in is a line out, and each option is what the model is asked for."""

import gzip
import io
import json
import random
import re
import shutil
from dataclasses import asdict

import pytest
import tensorflow as tf
from rich.console import Console

from tests.cli.command import assert_mistake
from tests.eager import eagerly
from tests.tiny_run import MAX_LENGTH, PAIRS
from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.session import c_api
from tf_transformer.terminal.lines import translation_line
from tf_transformer.translation.texts import Translation

pytestmark = pytest.mark.usefixtures("loaded_once")

GERMAN = dict(PAIRS)


def test_one_line_in_is_one_line_out_in_order(command, tiny_saved_model, tmp_path):
    sources = [source for source, _ in PAIRS] + [""]
    sources = random.Random(5).sample(sources * 2, 2 * len(sources))
    file = tmp_path / "sources.txt"
    file.write_text("".join(source + "\n" for source in sources), encoding="utf-8")
    # With 2 at once the text is more than one window.
    outcome = command("translate", tiny_saved_model, file, "--batch-size", 2)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines == [GERMAN.get(source, "") for source in sources]
    assert command("translate", tiny_saved_model, stdin=file.read_bytes()).out == outcome.out


@pytest.mark.thorough
def test_where_the_library_is_not_tensorflow_for_python_does_it(command, tiny_saved_model, monkeypatch):
    monkeypatch.setattr(c_api, "LIBRARIES", ("libtensorflow_of_another_system",))
    assert command("translate", tiny_saved_model, stdin=b"A man sees a house.\n").lines == ["Ein Mann sieht ein Haus."]


def test_gzip_and_standard_input_by_its_name(command, tiny_saved_model, tmp_path):
    plain = "".join(source + "\n" for source, _ in PAIRS).encode()
    packed = tmp_path / "sources.gz"
    packed.write_bytes(gzip.compress(plain))
    for words, stdin in ([packed], b""), (["-"], plain), (["-"], packed.read_bytes()):
        outcome = command("translate", tiny_saved_model, *words, stdin=stdin)
        assert (outcome.status, outcome.err) == (0, "")
        assert outcome.lines == [target for _, target in PAIRS]


def test_progress_is_shown_in_a_terminal_alone(command, tiny_saved_model, tmp_path, monkeypatch):
    """On standard error; the other tests, whose is none, see nothing there."""
    file = tmp_path / "sources.txt"
    file.write_text("".join(source + "\n" for source, _ in PAIRS))
    screen = io.StringIO()
    monkeypatch.setattr("tf_transformer.terminal.lines.notes", Console(file=screen, force_terminal=True, width=100))
    outcome = command("translate", tiny_saved_model, file, "--batch-size", 7)
    assert (outcome.status, outcome.lines) == (0, [target for _, target in PAIRS])
    assert "translated" in screen.getvalue()
    assert "24/24" in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())


def test_a_single_checkpoint_translates(command, tiny_run_directory):
    """The one of the middle of the training, which knows less surely."""
    source, target = PAIRS[0]
    words = ["--beam-size", 1, "--json"]
    with eagerly():
        best, middle = (
            json.loads(command("translate", tiny_run_directory.checkpoints / name, *words, stdin=source.encode()).out)
            for name in ("best.keras", "step-00000050.keras")
        )
    assert best["translation"] == target
    assert middle["score"] < best["score"]


def test_more_tokens_than_an_export_has_positions_for(command, tiny_saved_model):
    outcome = command("translate", tiny_saved_model, "--min-length", MAX_LENGTH + 1, stdin=b"A man.\n")
    assert_mistake(outcome, f"--min-length is {MAX_LENGTH + 1}", "more than the model has positions")


def test_what_ends_a_line_and_what_does_not(command, tiny_saved_model):
    lines = [
        b"\xef\xbb\xbfA man sees a house.\r\n",  # a byte order mark, and Windows' line end
        b"\n",
        "The child finds\u2028the green apple.\n".encode(),  # a line separator to Unicode, a blank to us
        b"\r\n",
        b"Our dog loves\x0b a house.\n",
        b" \n",
        b"A woman sees the green apple.",  # no end
    ]
    outcome = command("translate", tiny_saved_model, stdin=b"".join(lines))
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines == [
        "Ein Mann sieht ein Haus.",
        "",
        "Das Kind findet den grünen Apfel.",
        "",
        "Unser Hund liebt ein Haus.",
        "",
        "Eine Frau sieht den grünen Apfel.",
    ]


def test_a_translation_of_several_lines_is_written_as_one():
    translation = Translation("Ein Mann\nsieht\u2028ein\r\nHaus.\n", -0.5, False)
    assert translation_line(1, translation, as_json=False, nbest=False) == b"Ein Mann sieht ein Haus.\n"


def test_nothing_in_is_nothing_out(command, tiny_saved_model):
    assert command("translate", tiny_saved_model, stdin=b"") == (0, b"", "")


def test_translate_as_json(command, tiny_saved_model):
    text = "A man sees a house.\n\n" + "house " * 2 * MAX_LENGTH
    outcome = command("translate", tiny_saved_model, "--json", "--cut", stdin=text.encode())
    assert (outcome.status, outcome.err) == (0, "")
    known, empty, long = (json.loads(line) for line in outcome.lines)
    assert (known["translation"], known["truncated"]) == ("Ein Mann sieht ein Haus.", False)
    assert -1 < known["score"] < 0
    assert empty == {"translation": "", "score": 0.0, "truncated": False}
    assert long["truncated"] is True


def test_a_sentence_too_long_is_cut_on_request(command, mistakes):
    outcome = command("translate", mistakes / "versions" / "3", mistakes / "long.en", "--cut")
    assert (outcome.status, outcome.err, len(outcome.lines)) == (0, "", 3)
    assert outcome.lines[1]
    assert outcome.lines[0] == outcome.lines[2]  # it does not hang on its neighbours


# Paragraphs

PARAGRAPHS = (
    "A man sees a house.  Our dog loves a house.\tA woman finds a house.\n"
    "\n"
    " \u00a0The child sees a house.\u2028---\u2028A man loves a house. \r\n"
    "Our dog finds a house."
)


def translated_by_hand(text):
    for source, target in PAIRS:
        text = text.replace(source, target)
    return text


def test_a_paragraph_is_translated_by_sentences_and_keeps_its_blanks(command, tiny_saved_model, tmp_path):
    file = tmp_path / "paragraphs.txt"
    file.write_text(PARAGRAPHS * 3, encoding="utf-8", newline="")
    expected = translated_by_hand(PARAGRAPHS * 3).replace("\r\n", "\n") + "\n"
    assert "house" not in expected
    # With 1 at once the text is more than one window.
    for size in (1, 64):
        outcome = command("translate", tiny_saved_model, file, "--paragraphs", "--batch-size", size)
        assert (outcome.status, outcome.out.decode(), outcome.err) == (0, expected, "")


def test_paragraphs_as_json(command, tiny_saved_model):
    outcome = command("translate", tiny_saved_model, "--paragraphs", "--json", stdin=PARAGRAPHS.encode())
    assert (outcome.status, outcome.err) == (0, "")
    rows = [json.loads(line) for line in outcome.out.decode().removesuffix("\n").split("\n")]
    lines = [line.removesuffix("\r") for line in PARAGRAPHS.split("\n")]
    assert [row["translation"] for row in rows] == [translated_by_hand(line) for line in lines]
    assert [len(row["sentences"]) for row in rows] == [3, 0, 2, 1]
    scores = [
        json.loads(command("translate", tiny_saved_model, "--json", stdin=sentence["source"].encode()).out)["score"]
        for sentence in rows[0]["sentences"]
    ]
    for sentence, score in zip(rows[0]["sentences"], scores, strict=True):
        assert sentence["translation"] == GERMAN[sentence["source"]]
        assert sentence["score"] == pytest.approx(score, abs=1e-5) and not sentence["truncated"]


def test_a_sentence_of_a_paragraph_too_long_is_told_or_cut(command, tiny_saved_model):
    house = "A man sees a house. "
    stdin = (house * MAX_LENGTH + "\n" + house + "house " * 2 * MAX_LENGTH + "\n" + house).encode()
    outcome = command("translate", tiny_saved_model, "--paragraphs", stdin=stdin)
    assert_mistake(outcome, "standard input, line 2: longer than the model's maximum length", "--cut")
    outcome = command("translate", tiny_saved_model, "--paragraphs", "--cut", "--json", stdin=stdin)
    first, second, third = (json.loads(line) for line in outcome.lines)
    assert [row["truncated"] for row in (first, second, third)] == [False, True, False]
    assert [sentence["truncated"] for sentence in second["sentences"]] == [False, True]
    assert first["translation"] == (GERMAN[house.strip()] + " ") * MAX_LENGTH


def test_the_progress_of_paragraphs_is_counted_in_lines(command, tiny_saved_model, tmp_path, monkeypatch):
    file = tmp_path / "paragraphs.txt"
    file.write_text(PARAGRAPHS, encoding="utf-8", newline="")
    screen = io.StringIO()
    monkeypatch.setattr("tf_transformer.terminal.lines.notes", Console(file=screen, force_terminal=True, width=100))
    assert command("translate", tiny_saved_model, file, "--paragraphs").status == 0
    assert "4/4" in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())


# What it is asked for

EXPORTED = DecodingOptions(beam_size=2, alpha=0.3, extra_length=7)
OF_THE_EXPORT = ("extra_length", "length_offset")  # and no input of its signature


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """A SavedModel that answers with the options it is given, as its only words but the text itself."""
    names = [name for name in asdict(EXPORTED) if name not in OF_THE_EXPORT]
    kinds = {int: tf.int32, float: tf.float32, bool: tf.bool, type(None): tf.int32}
    options = [tf.TensorSpec([], kinds[type(getattr(EXPORTED, name))], name) for name in names]
    text = tf.TensorSpec([None], tf.string, "text")

    def translate(text):
        return {"translation": text, "score": tf.zeros(tf.shape(text)), "truncated": tf.zeros(tf.shape(text), tf.bool)}

    def translate_with_options(text, prefix, *values):
        told = [
            tf.strings.join([f'"{name}": ', tf.strings.as_string(v)]) for name, v in zip(names, values, strict=True)
        ]
        answers = tf.strings.join([text, prefix, "{", tf.strings.join(told, separator=", "), "}"])
        number = values[names.index("num_hypotheses")]
        # Of nothing there is one translation.
        ranks = tf.cast(tf.range(number), tf.float32)
        scores = tf.where((text == "")[:, None] & (ranks > 0), -float("inf"), -0.25 * (ranks + 1))
        return {
            "translation": tf.repeat(answers[:, None], number, axis=1),
            "score": scores,
            "truncated": tf.zeros(tf.shape(text), tf.bool),
        }

    module = tf.Module()
    module.translate = tf.function(translate, [text])
    module.asked = tf.function(translate_with_options, [text, tf.TensorSpec([None], tf.string, "prefix"), *options])
    folder = tmp_path_factory.mktemp("echo") / "1"
    signatures = {"translate": module.translate, "translate_with_options": module.asked}
    tf.saved_model.save(module, str(folder), signatures)
    (folder / "assets.extra").mkdir(exist_ok=True)
    (folder / "assets.extra" / "decoding_options.json").write_text(json.dumps(asdict(EXPORTED)))
    return folder


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("--beam-size 3", {"beam_size": 3}),
        ("--alpha 1.5", {"alpha": 1.5}),
        ("--alpha 0", {"alpha": 0}),
        ("--min-length 2 --max-length 9", {"min_length": 2, "max_length": 9}),
        (
            "--temperature 0.75 --top-k 5 --top-p 0.5 --seed 3",
            {"temperature": 0.75, "top_k": 5, "top_p": 0.5, "seed": 3},
        ),
        ("--replace-unknown", {"replace_unknown": True}),
        ("--protect", {"protect": True}),
    ],
)
def test_an_option_is_asked_for_in_place_of_the_exports_own(command, echo, words, changed):
    outcome = command("translate", echo, *words.split(), stdin=b"A man.\n\n")
    assert (outcome.status, outcome.err) == (0, "")
    expected = {**asdict(EXPORTED), "max_length": 0, **changed}
    expected = {name: value for name, value in expected.items() if name not in OF_THE_EXPORT}
    for line, text in zip(outcome.lines, ("A man.", ""), strict=True):
        assert line.startswith(text + "{")
        assert json.loads(line.removeprefix(text)) == pytest.approx(expected)


def test_without_options_it_is_not_asked_for_any(command, echo):
    assert command("translate", echo, stdin=b"A man.\n").lines == ["A man."]


@pytest.mark.parametrize(
    ("words", "beam_size"), [([], 3), (["--beam-size", 5], 5), (["--temperature", 1, "--beam-size", 1], 1)]
)
def test_nbest(command, echo, words, beam_size):
    """A line for each: the number of the text's line, the score, the translation."""
    widened = "" if words else "--nbest 3 raises the beam size from 2 to 3; set another with --beam-size\n"
    words = ["translate", echo, "--nbest", 3, *words]
    outcome = command(*words, stdin=b"A man.\n\nA dog.\n")
    assert (outcome.status, outcome.err) == (0, widened)
    rows = [line.split("\t") for line in outcome.lines]
    scores = ["-0.2500", "-0.5000", "-0.7500"]
    assert [row[:2] for row in rows] == [*(["1", s] for s in scores), ["2", scores[0]], *(["3", s] for s in scores)]
    assert {row[2].partition("{")[0] for row in rows} == {"A man.", "", "A dog."}
    asked = json.loads(rows[0][2].removeprefix("A man."))
    assert (asked["num_hypotheses"], asked["beam_size"]) == (3, beam_size)

    man, nothing, _ = (json.loads(line) for line in command(*words, "--json", stdin=b"A man.\n\nA dog.\n").lines)
    assert man["nbest"] == [{"translation": rows[0][2], "score": score} for score in (-0.25, -0.5, -0.75)]
    assert (man["translation"], man["score"]) == (rows[0][2], -0.25)
    assert len(nothing["nbest"]) == 1


def test_the_nbest_of_a_model(command, tiny_saved_model, tiny_run_directory):
    """Best first, the first of them what is translated without; on a run as on its export."""
    source, target = PAIRS[0]
    stdin = f"{source}\nOur dog\n".encode()
    plain = command("translate", tiny_saved_model, stdin=stdin).lines
    assert plain[0] == target
    with eagerly():
        outcomes = [
            command("translate", model, "--nbest", 3, stdin=stdin)
            for model in (tiny_saved_model, tiny_run_directory.path)
        ]
    of_export, of_run = ([line.split("\t") for line in outcome.lines] for outcome in outcomes)
    assert [number for number, *_ in of_export] == ["1"] * 3 + ["2"] * 3
    assert [text for _, _, text in of_export[::3]] == plain
    for rows in of_export[:3], of_export[3:]:
        scores = [float(score) for _, score, _ in rows]
        assert scores == sorted(scores, reverse=True) and scores[0] > scores[2]
        assert len({text for _, _, text in rows}) == 3
    assert [(number, text) for number, _, text in of_run] == [(number, text) for number, _, text in of_export]
    assert [float(row[1]) for row in of_run] == pytest.approx([float(row[1]) for row in of_export], abs=2e-4)


def test_a_glossary_marks_terms(command, echo, tmp_path):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("man\tHerr\n", encoding="utf-8")
    outcome = command("translate", echo, "--glossary", glossary, stdin="A Man at www.man.org, €5.\n".encode())
    text, _, asked = outcome.lines[0].partition("{")
    assert text == "A ⟦Man|Herr⟧ at www.man.org, €5."
    assert json.loads("{" + asked)["protect"] is True


def test_a_term_with_the_end_of_a_sentence_is_marked_in_paragraphs(command, echo, tmp_path):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Jeopardy! Night\tQuizabend\n", encoding="utf-8")
    words = "translate", echo, "--glossary", glossary, "--paragraphs", "--json"
    (line,) = command(*words, stdin=b"It was Jeopardy! Night. He left.\n").lines
    first, second = json.loads(line)["sentences"]
    assert (first["source"], second["source"]) == ("It was Jeopardy! Night.", "He left.")
    assert first["translation"].startswith("It was ⟦Jeopardy! Night|Quizabend⟧.")


def test_spans_survive(command, tiny_saved_model, tmp_path):
    """In the process of a command, with the model's own tokenizer."""
    source, target = PAIRS[0]
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("house\tSchloss\n", encoding="utf-8")
    stdin = f"{source} {{name}}\n{source}\n".encode()
    assert command("translate", tiny_saved_model, "--protect", stdin=stdin).lines == [f"{target} {{name}}", target]
    for line in command("translate", tiny_saved_model, "--glossary", glossary, stdin=stdin).lines:
        assert line.count("Schloss") == 1


def test_alignments_go_to_a_file_of_their_own(command, tiny_saved_model, tmp_path):
    source, target = PAIRS[0]
    file = tmp_path / "alignments.txt"
    words = "translate", tiny_saved_model, "--alignments", file
    outcome = command(*words, stdin=f"{source}\n\n{source}\n".encode())
    assert (outcome.lines, outcome.err) == ([target, "", target], "")
    first, nothing, last = file.read_text(encoding="utf-8").split("\n")[:-1]
    assert nothing == "" and first == last
    links = [tuple(map(int, link.split("-"))) for link in first.split()]
    assert {word for _, word in links} == set(range(len(target.split())))  # each goes with something
    assert {word for word, _ in links} <= set(range(len(source.split())))
    for more in ([], ["--protect"], ["--paragraphs"]):
        outcome = command(*words, *more, stdin=source.encode())
        assert (outcome.status, outcome.lines) == (2, [])


def test_alignments_are_there_once_all_is_translated(command, tiny_saved_model, tmp_path):
    """Not where the command stops, so that `--cut` can be added to it; nor is anything else left then."""
    source, target = PAIRS[0]
    words = "translate", tiny_saved_model, "--batch-size", 1, "--alignments", tmp_path / "new.txt"
    stdin = f"{source}\n{'house ' * 2 * MAX_LENGTH}\n".encode()
    outcome = command(*words, stdin=stdin)
    assert_mistake(outcome, "standard input, line 2: longer than", "--cut")
    assert list(tmp_path.iterdir()) == []
    assert command(*words, "--cut", stdin=stdin).lines[0] == target
    assert len((tmp_path / "new.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert command(*words[:-1], tmp_path / "empty.txt").lines == []
    assert (tmp_path / "empty.txt").read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "words"),
    [("paragraphs", "--paragraphs"), ("protect", "--protect"), ("engine", "--engine ctranslate2")],
    ids=["paragraphs", "protect", "engine"],
)
def test_alignments_are_of_whole_lines_as_the_model_has_them(command, echo, tmp_path, name, words):
    outcome = command("translate", echo, "--alignments", tmp_path / "new.txt", *words.split())
    assert outcome.status == 2
    assert f"--{name}" in outcome.err and not (tmp_path / "new.txt").exists()


def test_an_export_of_an_earlier_version_works_without_newer_options(command, echo, tmp_path):
    """Its signature does not take them, and its options do not name them."""
    older = shutil.copytree(echo, tmp_path / "older")
    file = older / "assets.extra" / "decoding_options.json"
    options = json.loads(file.read_text())
    del options["replace_unknown"]
    file.write_text(json.dumps(options))
    outcome = command("translate", older, "--replace-unknown", stdin=b"A man.\n")
    assert outcome.status == 2 and "--replace-unknown" in outcome.err and "export it again" in outcome.err
