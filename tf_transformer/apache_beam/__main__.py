"""Translates a file in an Apache Beam pipeline: `python -m tf_transformer.apache_beam MODEL INPUT OUTPUT`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tf_transformer.apache_beam.checks import check_on_this_machine, is_local, runs_here
from tf_transformer.cli import USER_MISTAKE
from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError, reason
from tf_transformer.shards.source import SHARD_LINES
from tf_transformer.terminal.arguments import in_the_users_words
from tf_transformer.translation.loading import ENGINES


def at_least_one(text: str) -> int:
    """The value of an option that is a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} was given; it must be a whole number, at least 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """What reads the program's own options; all others are Beam's and its runner's."""
    parser = argparse.ArgumentParser(
        prog="python -m tf_transformer.apache_beam",
        description="Translates a file in an Apache Beam pipeline.",
        epilog="All other options are Beam's and its runner's, such as --runner.",
        allow_abbrev=False,  # what looks like the beginning of an option here may be one of theirs
    )
    parser.add_argument("model", metavar="MODEL", help="folder of the model, on each worker")
    parser.add_argument(
        "source", metavar="INPUT", help="file of sentences, one per line, on any file system that Beam supports"
    )
    parser.add_argument("output", metavar="OUTPUT", help="beginning of the output files' names")
    parser.add_argument("--engine", default="tensorflow", choices=ENGINES)
    parser.add_argument("--beam-size", type=int, help="beam size; 1 is greedy search")
    parser.add_argument("--alpha", type=float, help="exponent of the length penalty")
    parser.add_argument("--batch-size", type=at_least_one, default=64, help="sentences per batch")
    parser.add_argument("--shard-lines", type=at_least_one, default=SHARD_LINES, help="lines per shard")
    parser.add_argument(
        "--cut", action="store_true", help="cut sentences that are too long, instead of setting them aside"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Translates a file in a pipeline.

    Raises:
        UserError: Apache Beam isn't installed, an option is invalid, files of the output's name exist, or, as far as
            this machine can tell, the model or the file is missing, or the output can't be written.
    """
    given, others = parser().parse_known_args(arguments)
    try:
        import apache_beam as beam
    except ImportError as error:
        raise UserError(
            f"Apache Beam can't be imported ({error}); install it: pip install 'tf_transformer[beam]'"
        ) from error
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    from tf_transformer.apache_beam.handler import TranslationHandler
    from tf_transformer.apache_beam.pipeline import translate_file

    options = {name: value for name in ("beam_size", "alpha") if (value := getattr(given, name)) is not None}
    DecodingOptions().changed(**options)
    for_beam = PipelineOptions(others)
    FileSystems.set_options(for_beam)  # without them hdfs:// and s3:// can't be looked at
    _check_files(given.source, given.output)
    if runs_here(for_beam.view_as(StandardOptions).runner):
        check_on_this_machine(given.model, given.engine, given.source, given.output)
    handler = TranslationHandler(given.model, given.engine, given.batch_size, cut=given.cut, options=options)
    with beam.Pipeline(options=for_beam) as pipeline:
        translate_file(pipeline, given.source, given.output, handler, given.shard_lines)


def _check_files(source: str, output: str) -> None:
    """Checks what can be seen from any machine: that no output exists, and that storage holds the source.

    Raises:
        UserError: it is otherwise, or the output's storage can't be reached.
    """
    from apache_beam.io.filesystems import FileSystems

    try:
        existing = FileSystems.match([f"{output}-*"])[0].metadata_list
    except (OSError, ValueError) as error:
        raise UserError(f"{output}-*: Beam can't look for such files: {reason(error)}") from error
    if existing:
        raise UserError(f"{output}-*: such files exist and were not changed; give another OUTPUT")
    if is_local(source):  # there may be such a file on the workers alone
        return
    try:
        found = FileSystems.exists(source)
    except (OSError, ValueError):  # only the workers may have the right to read it
        return
    if not found:
        raise UserError(f"{source}: no such file; give a file of sentences, one per line")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"python -m tf_transformer.apache_beam: {in_the_users_words(str(error))}", file=sys.stderr)
        sys.exit(USER_MISTAKE)
