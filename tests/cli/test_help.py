# Help


def test_help_answers_without_tensorflow():
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    process = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, env=environment, timeout=60)
    print(f"tf-transformer --help: {time.perf_counter() - began:.2f} s")
    assert process.returncode == 0
    for name in ("train", "evaluate", "translate", "export", "presets", "demo"):
        assert f" {name} " in process.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in process.stderr.splitlines()}
    assert "tf_transformer" in imported
    assert not imported & {"tensorflow", "keras", "numpy", "pydantic"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("train", ["recipe", "--set", "--run-dir", "--json"]),
        ("evaluate", ["model", "--source", "--reference", "--lowercase", "--batch-size", "--json"]),
        ("translate", ["model", "[file]", "--cut", "--batch-size", "--json"]),
        ("export", ["run", "dest"]),
        ("presets", ["--json"]),
        ("demo", []),
    ],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_each_command(command, name, options, flag):
    outcome = command(name, flag)
    assert (outcome.status, outcome.err) == (0, "")
    for option in ("usage:", name, *options):
        assert option in outcome.out.decode().lower()


# Presets


def test_presets_as_json(command):
    outcome = command("presets", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    presets = {preset["name"]: preset for preset in json.loads(outcome.out)}
    assert {"base", "big"} <= set(presets)
    for name, preset in presets.items():
        arguments = {key: value for key, value in preset.items() if key not in ("name", "parameters")}
        sizes = {"input_vocab_size": 37_000, "target_vocab_size": 37_000}
        assert preset["parameters"] == count_parameters(**arguments, **sizes), name
    assert presets["big"]["d_model"] == 1024


def test_presets_as_a_table(command):
    outcome = command("presets")
    assert outcome.status == 0
    rows = [line.split() for line in outcome.lines]
    assert ["base", "6", "512", "2048", "8", "64", "64", "0.1", "63,082,496", "65", "M"] in rows


@pytest.mark.parametrize(
    "words",
    [
        ["trian"],
        ["train"],
        ["translate", ".", "--beam"],
        ["translate", ".", "--batch-size", "0"],
        ["evaluate", ".", "--source", "a"],
    ],
)
def test_a_mistyped_command_is_status_2(command, words):
    outcome = command(*words)
    assert (outcome.status, outcome.out) == (2, b"")
    assert "Usage:" in outcome.err
    assert "Traceback" not in outcome.err
