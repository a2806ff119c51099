"""What the documents say of Apache Beam: options that it has, and a program that runs."""

import argparse
import shutil

import pytest

pytest.importorskip("apache_beam", reason="needs Apache Beam: make test-beam")

from apache_beam.options.pipeline_options import PipelineOptions

from tests.documents.reading import ROOT, blocks_of, commands_of, script_of
from tf_transformer.apache_beam import __main__ as program

PAGE = "docs/translating_a_corpus.md"
VARIABLES = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "32"}


def test_the_options_are_those_of_beam(tmp_path):
    """Also those of runners that are not there: each of them has its class of options."""
    known = argparse.ArgumentParser()
    for options in PipelineOptions.__subclasses__():
        if options.__module__ == PipelineOptions.__module__:
            options._add_argparse_args(known)
    commands = [
        each
        for each in commands_of(script_of(PAGE, []), tmp_path, VARIABLES)
        if each.program == "python" and each.arguments[:2] == ["-m", "tf_transformer.apache_beam"]
    ]
    runners = []
    for command in commands:
        given, others = program.parser().parse_known_args(command.arguments[2:])
        assert (given.engine, given.batch_size) == ("tensorflow", 64)
        chosen, unknown = known.parse_known_args(others)
        assert unknown == []
        runners.append(chosen.runner)
    assert runners == [None, "DataflowRunner", "FlinkRunner", "SparkRunner"]


def test_the_program_of_one_s_own_runs(tiny_saved_model, tmp_path, monkeypatch, capfd):
    shutil.copytree(tiny_saved_model, tmp_path / "savedmodels" / "demo" / "1")
    monkeypatch.chdir(tmp_path)
    (block,) = blocks_of(PAGE, "python")
    text = block.text.replace("The dog sees", "Our dog sees")
    assert text != block.text
    exec(compile("\n" * (block.line - 1) + text, ROOT / PAGE, "exec"), {})
    shown = capfd.readouterr().out.splitlines()
    assert "first Unser Hund sieht ein Haus. None" in shown
    assert len([line for line in shown if line.startswith("second ")]) == 1
