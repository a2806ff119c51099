"""Translates a file in an Apache Beam pipeline: `python -m tf_transformer.apache_beam MODEL INPUT OUTPUT`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tf_transformer.cli import USER_MISTAKE
from tf_transformer.errors import UserError
from tf_transformer.shards.source import SHARD_LINES
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
        UserError: files of that name are there already, or Apache Beam isn't.
    """
    given, others = parser().parse_known_args(arguments)
    try:
        import apache_beam as beam
    except ImportError as error:
        raise UserError(
            f"Apache Beam can't be imported ({error}); install it: pip install 'tf_transformer[beam]'"
        ) from error
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    from tf_transformer.apache_beam.handler import TranslationHandler
    from tf_transformer.apache_beam.pipeline import translate_file

    if FileSystems.match([f"{given.output}-*"])[0].metadata_list:
        raise UserError(f"{given.output}-*: such files exist and were not changed; give another OUTPUT")
    options = {name: value for name in ("beam_size", "alpha") if (value := getattr(given, name)) is not None}
    handler = TranslationHandler(given.model, given.engine, given.batch_size, cut=given.cut, options=options)
    with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
        translate_file(pipeline, given.source, given.output, handler, given.shard_lines)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"python -m tf_transformer.apache_beam: {error}", file=sys.stderr)
        sys.exit(USER_MISTAKE)
