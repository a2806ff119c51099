"""Every command of every page does what the page says.

Commands of a reader's first pages run, on tiny data; those of the other pages, which take hours, several machines or
a server, are read by the very command line that they are for.
"""

import argparse
import io
import json
import runpy
import shlex
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml

from tests.documents.reading import PAGES, PROGRAMS, ROOT, Command, blocks_of, commands_of, replaced, script_of
from tests.eager import eagerly
from tests.translation.conftest import with_nothing_but
from tf_transformer import __version__, cli
from tf_transformer.commands import app
from tf_transformer.distributed.cluster import read_cluster
from tf_transformer.experiment import exporting
from tf_transformer.recipe import load_recipe

LANGUAGES = "python", "sh", "yaml", ""  # the last: formulas, figures and folders
LANGUAGES += ("{code-cell} ipython3",)  # a notebook's, which test_tutorial.py runs

# What differs here: each must be in the text.
IN_THE_SHELL = {
    # What is said of more trainings in comments: the options that the command above them gets.
    "train/experiments.md": [
        ("\n#      --set", " --set"),
        ("#  $", "tf-transformer train train/recipes/multi30k_en_de_tok.yaml $"),
    ],
    "docs/several_machines.md": [("/shared/", "shared/")],
    "docs/installing.md": [("python3.11 -m venv .venv", ":")],  # the reader's `own` folder has one
    # Multi30k is not in the repository.
    "docs/fine_tuning.md": [("head -n $n $DATA/multi30k/train.$language > $DATA/multi30k/train_$n.$language", ":")],
}
VARIABLES = {"DATA": "data", "TOK": "data", "TATOEBA": "data", "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_PROCID": "1"}
VARIABLES |= {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "32"}
# Pages whose commands run one after another, since each page uses what those before it have made.
RUN = [
    "README.md",
    *(f"docs/{name}.md" for name in ("first_model", "your_own_corpus", "averaging", "scoring", "translating")),
    *(f"docs/{name}.md" for name in ("decoding_options", "exporting", "tensorboard")),
]
# Commands that a person ends; tests/server/ and tests/cli/test_interactive.py run them.
UNTIL_ENDED = {"serve", "--interactive"}
ONLY_READ = {
    "train/README.md": "hours of training on corpora that are not in the repository",
    "train/experiments.md": "hours of training on corpora that are not in the repository",
    "docs/serving.md": "servers; tests/server/test_documents.py runs curl and the client",
    "serving/README.md": "needs Docker and a server; tests/export/test_serving.py runs curl and the client",
    "benchmarks/README.md": "hours; tests/benchmarks/ runs the scripts",
    "docs/several_machines.md": "several machines; test_multi_worker.py and test_launcher.py in tests/distributed/",
    "docs/training.md": "installs, and needs JAX; tests/backends/ trains on it",
    "docs/fault_tests.md": "ten minutes; tests/benchmarks/test_serving_load.py runs the script",
    "docs/page.md": "a server, which runs until it is ended; tests/server/page/ looks at the page in a browser",
    "docs/parsing.md": "a minute or two of training; tests/cli/test_parse.py does it with fewer trees",
    "docs/model.md": "hours of training; tests/test_recurrent_run.py trains a tiny one",
    "docs/installing.md": "installs; tests/test_package.py does it with the wheel",
    "docs/small_corpus.md": "hours of training; tests/recipe/test_project_recipes_train.py does two steps",
    "docs/ensembles.md": "two trainings and a server; tests/cli/test_ensembles.py and tests/export/test_ensemble.py",
    "docs/distillation.md": "a day of training; each command has its tests, and ensembles tests/cli/test_ensembles.py",
    "docs/fine_tuning.md": "hours of training; tests/experiment/test_fine_tuning.py does it with tiny models",
    "docs/gpu.md": "needs a GPU",
    "docs/mixed_precision.md": "two minutes; tests/training/test_options.py trains in each precision",
    "docs/resuming.md": "tests/runs/ breaks trainings off and goes on",
    "docs/layers.md": "twenty minutes; tests/benchmarks/test_layers.py does a few sizes",
    "docs/paper.md": "hours; tests/benchmarks/test_layers.py and tests/sweep/ do parts of it",
    "docs/protected_text.md": "tests/cli/test_translate.py does it; and half an hour for the figures",
    "docs/translating_a_corpus.md": "several machines; tests/cli/test_shards.py, tests/shards/ and tests/apache_beam/",
    "docs/more_text.md": "hours; tests/cli/ and tests/recipe/test_back_translation.py run them on few lines",
    "docs/opus_mt.md": "needs a model from the network; tests/marian/ does it with random ones",
    "docs/sweeps.md": "half an hour; tests/sweep/ does it with two trainings of two steps",
}


def test_every_block_is_of_a_kind_that_is_tested():
    assert {page for page in PAGES if blocks_of(page, "sh")} == {*RUN, *ONLY_READ}
    for page in PAGES:
        assert {block.language for block in blocks_of(page)} <= set(LANGUAGES)
        for block in blocks_of(page, ""):
            started = {line.split()[0].rpartition("/")[2] for line in block.text.splitlines() if line.strip()}
            assert not started & set(PROGRAMS), f"{page}, line {block.line}: a command, to be marked as sh"


@cache
def the_command_line():
    """The commands by name, which take a tenth of a second to make."""
    return typer.main.get_command(app).commands


def read_by_the_command_line(arguments):
    """What the command makes of its arguments; a recipe is loaded with all that is set."""
    command, *rest = arguments
    context = the_command_line()[command].make_context(command, rest)
    if command == "train":
        load_recipe(context.params["recipe"], context.params["overrides"] or [])
    return context.params


class Read(Exception):
    """A script has read its arguments."""


def read_by_the_script(script, arguments, monkeypatch):
    """Has a script read its arguments, and no more; one that reads none must be given none."""
    if "argparse" not in script.read_text(encoding="utf-8"):
        assert not arguments
        return
    parse = argparse.ArgumentParser.parse_args

    def stop(parser, args=None, namespace=None):
        raise Read(parse(parser, args, namespace))

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        patch.setattr(sys, "argv", [str(script), *arguments])
        patch.syspath_prepend(str(script.parent.resolve()))
        with pytest.raises(Read):
            runpy.run_path(str(script), run_name="__main__")


def read(command: Command, monkeypatch):
    """Has a command's arguments read by what it starts."""
    program, arguments = command.program, command.arguments
    if program == "tf-transformer":
        read_by_the_command_line(arguments)
        assert not command.cluster or read_cluster_of(command, monkeypatch)
    elif program == "python" and arguments[0] == "-m":  # of which tests/apache_beam/test_documents.py reads the options
        assert arguments[1] == "tf_transformer.apache_beam"
    elif program == "python":
        read_by_the_script(Path(arguments[0]), arguments[1:], monkeypatch)
    elif program == "make":
        made = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
        for line in made.stdout.splitlines():
            words = shlex.split(line)
            if words[0].endswith("/tf-transformer"):
                read_by_the_command_line(words[1:])
            elif words[0].endswith("/python") and words[1].startswith("benchmarks/"):
                read_by_the_script(Path(words[1]), words[2:], monkeypatch)
    elif program == "tensorboard":
        from tensorboard import default, program

        program.TensorBoard(default.get_plugins()).configure(["tensorboard", *arguments])
    elif program == "pip":
        *_, package = arguments
        if package.endswith(".whl"):
            assert package == f"tf_transformer-{__version__}-py3-none-any.whl"
            return
        assert package[1:] == "" or f"\n{package[2:-1]} =" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
    elif program == "docker" and arguments[0] == "build":
        assert Path(arguments[arguments.index("--file") + 1]).is_file()
    elif program == "docker" and "--file" in arguments:
        assert yaml.safe_load(Path(arguments[arguments.index("--file") + 1]).read_text(encoding="utf-8"))["services"]
    elif program == "curl":
        # tests/export/test_serving.py and tests/server/test_documents.py run those of these pages.
        pages = (ROOT / page for page in ("serving/README.md", "docs/serving.md"))
        assert any(arguments[-1] in page.read_text(encoding="utf-8") for page in pages)
    else:
        assert program == "sacrebleu" or arguments[:2] == ["run", "--read-only"]


def read_cluster_of(command, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", command.cluster)
    return read_cluster()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "sh") and page in ONLY_READ])
def test_commands_are_read_by_what_they_start(page, own, monkeypatch):
    commands = commands_of(script_of(page, IN_THE_SHELL.get(page, [])), own, VARIABLES)
    assert {command.line for command in commands} == {block.line for block in blocks_of(page, "sh")}
    for command in commands:
        read(command, monkeypatch)


@pytest.fixture
def export_what_is_used(monkeypatch):
    """SavedModels are written with the one graph of a dozen that the pages' commands use of them."""
    write = exporting.export_saved_model

    def with_one(translator, *arguments):
        return write(with_nothing_but(translator, "translate"), *arguments)

    monkeypatch.setattr(exporting, "export_saved_model", with_one)


@pytest.mark.usefixtures("export_what_is_used")
def test_commands_of_the_first_pages_run(own, models, monkeypatch, capsysbinary):
    """One after another, in this process, which has TensorFlow. What two pages have runs once."""
    commands = {}
    for page in RUN:
        of_page = commands_of(script_of(page, []), own, VARIABLES)
        assert {command.line for command in of_page} == {block.line for block in blocks_of(page, "sh")}
        for command in of_page:
            commands.setdefault((command.stdin, command.program, *command.arguments), command)
    for command in commands.values():
        read(command, monkeypatch)
        if command.program == "tf-transformer" and not UNTIL_ENDED & set(command.arguments):
            monkeypatch.setattr(sys, "argv", ["tf-transformer", *command.arguments])
            given = io.BufferedReader(io.BytesIO(command.stdin.encode() + b"\n"))
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
            exports = command.arguments[0] == "export"
            with nullcontext() if exports else eagerly(), pytest.raises(SystemExit) as ended:
                cli.main()
            assert not ended.value.code, (command, capsysbinary.readouterr().err.decode())
    assert (own / "runs" / "NAME" / "scores.json").is_file()
    assert (own / "savedmodels" / "NAME" / "1").is_dir() and (own / "models" / "NAME").is_dir()
    assert (own / "attention.html").is_file() and list((own / "runs" / "inspected").rglob("*tfevents*"))


# In place of what the script for Slurm starts: two workers, each of which first has SIGTERM sent to the bash above it.
SLURM = {
    "scontrol": 'if [ "$1" = show ]; then echo node0; echo node1; else echo "$@" >> requeued; fi',
    "srun": """highest=0
for number in 0 1; do
  code=0
  SLURM_PROCID=$number "$@" || code=$?
  [ $code -gt $highest ] && highest=$code
done
echo $highest > highest
exit $highest""",
    "tf-transformer": """kill -TERM $PPID
statuses=($STATUSES)
exit ${statuses[$SLURM_PROCID]}""",
}


@pytest.mark.parametrize(
    ("statuses", "highest", "requeued"),
    [("0 0", 0, False), ("2 75", 254, False), ("75 2", 254, False), ("75 75", 75, True), ("75 137", 137, True)],
)
def test_the_job_of_slurm_is_queued_again_unless_a_mistake_ended_it(tmp_path, statuses, highest, requeued):
    for name, text in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (script,) = [block.text for block in blocks_of("docs/several_machines.md", "sh") if "srun" in block.text]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "STATUSES": statuses, "SLURM_JOB_ID": "7"}
    subprocess.run(["bash", "-uc", script], cwd=tmp_path, env={**environment, "SLURM_JOB_NODELIST": "node[0-1]"})
    assert int((tmp_path / "highest").read_text()) == highest
    assert (tmp_path / "requeued").exists() == requeued


def test_the_job_of_kubernetes_tells_each_pod_of_the_others(own, monkeypatch):
    (block,) = blocks_of("docs/several_machines.md", "yaml")
    service, job = yaml.safe_load_all(block.text)
    assert [service["kind"], job["kind"]] == ["Service", "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bash", "-c"]
    script = replaced(container["args"][0], [("/shared/", "shared/")])
    (command,) = commands_of(script, own, {"JOB_COMPLETION_INDEX": "2"})
    read(command, monkeypatch)
    cluster = json.loads(command.cluster)
    assert len(cluster["cluster"]["worker"]) == job["spec"]["completions"]
    assert cluster["cluster"]["worker"][2] == "transformer-2.transformer:2222" and cluster["task"]["index"] == 2


def test_the_job_of_kubernetes_gives_each_pod_its_share(own):
    (block,) = blocks_of("docs/translating_a_corpus.md", "yaml")
    job = yaml.safe_load(block.text)["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (command,) = commands_of(container["args"][0], own, {"JOB_COMPLETION_INDEX": "2"})
    assert read_by_the_command_line(command.arguments)["job"] == f"2/{job['completions']}"
