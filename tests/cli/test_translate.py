# Translate

GERMAN = dict(PAIRS)


def test_one_line_in_is_one_line_out_in_order(command, saved_model, tmp_path):
    sources = [source for source, _ in PAIRS] + [""]
    sources = random.Random(5).sample(sources * 2, 2 * len(sources))
    file = tmp_path / "sources.txt"
    file.write_text("".join(source + "\n" for source in sources), encoding="utf-8")
    # With 2 at once the text is more than one window.
    outcome = command("translate", saved_model, file, "--batch-size", 2)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines == [GERMAN.get(source, "") for source in sources]
    assert command("translate", saved_model, stdin=file.read_bytes()).out == outcome.out


def test_what_ends_a_line_and_what_does_not(command, saved_model):
    lines = [
        b"\xef\xbb\xbfA man sees a house.\r\n",  # a byte order mark, and Windows' line end
        b"\n",
        "The child finds\u2028the green apple.\n".encode(),  # a line separator to Unicode, a blank to us
        b"\r\n",
        b"Our dog loves\x0b a house.\n",
        b" \n",
        b"A woman sees the green apple.",  # no end
    ]
    outcome = command("translate", saved_model, stdin=b"".join(lines))
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


def test_a_translation_of_several_lines_is_written_as_one(capsysbinary):
    cli._write_line("Ein Mann\nsieht\u2028ein\r\nHaus.\n")
    sys.stdout.flush()
    assert capsysbinary.readouterr().out == b"Ein Mann sieht ein Haus.\n"


def test_nothing_in_is_nothing_out(command, saved_model):
    assert command("translate", saved_model, stdin=b"") == (0, b"", "")


def test_translate_as_json(command, saved_model):
    text = "A man sees a house.\n\n" + "house " * 2 * MAX_LENGTH
    outcome = command("translate", saved_model, "--json", "--cut", stdin=text.encode())
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
