"""What a command costs that does little: wall time, processor time and peak memory of whole processes, in turns.

python benchmarks/start_up.py savedmodels/demo/1 [--ctranslate2 FOLDER] [--beside CHECKOUT] [--lines FILE]

The medians go to standard output as a Markdown table. `--beside` runs the same with another checkout of the package,
such as one of an earlier version. `--lines` times the translation of a file and of the same text from a pipe too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from machine import describe_machine

SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."
HERE = Path(__file__).resolve().parents[1]
RUN = "from tf_transformer.cli import command; command()"

# Where the time of one sentence goes, with a SavedModel in a session of the C API. The second call is one of many.
STAGES = """
import json, sys, time
from pathlib import Path
times = [time.perf_counter()]
from tf_transformer.session.loading import session_loader
from tf_transformer.terminal.process import quiet_tensorflow
model, changes = Path(sys.argv[1]), json.loads(sys.argv[2])
load = session_loader(model)
with quiet_tensorflow(streams=True, session=load is not None):
    from tf_transformer.translation.loading import load_translate
    from tf_transformer.translation.texts import translate_texts
    import tf_transformer.session.signature
times.append(time.perf_counter())
translate = load_translate(model, changes, load=load)
times.append(time.perf_counter())
for _ in range(21):
    list(translate_texts(translate, [sys.argv[3]]))
    times.append(time.perf_counter())
later = sorted(after - before for before, after in zip(times[3:], times[4:]))
print(json.dumps([*(after - before for before, after in zip(times[:3], times[1:4])), later[len(later) // 2]]))
"""


class Cost(NamedTuple):
    """What a process took: seconds of wall time, seconds of processor time, MiB at its peak."""

    wall: float
    processor: float
    mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a SavedModel")
    parser.add_argument("--ctranslate2", type=Path, help="the same model, exported in CTranslate2's format")
    parser.add_argument("--beside", type=Path, help="another checkout of the package, to compare with")
    parser.add_argument("--lines", type=Path, help="file of sentences")
    parser.add_argument("--times", type=int, default=7, help="runs of each command; the median is reported")
    arguments = parser.parse_args()
    checkouts = {"": HERE, **({f"{arguments.beside}: ": arguments.beside.resolve()} if arguments.beside else {})}
    costs: dict[str, list[Cost]] = {}
    stages: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.times + 1):  # in the first one files come from the disk
            print(f"turn {turn} of {arguments.times}", file=sys.stderr)
            for prefix, checkout in checkouts.items():
                for name, (words, text) in settings(arguments, Path(folder)).items():
                    cost = timed(words, text, checkout)
                    if turn:
                        costs.setdefault(prefix + name, []).append(cost)
            for name, changes in {"beam": {}, "greedy": {"beam_size": 1}}.items():
                words = [sys.executable, "-c", STAGES, arguments.model, json.dumps(changes), SENTENCE]
                output = subprocess.run(words, env=environment(HERE), capture_output=True, check=True).stdout
                if turn:
                    stages.setdefault(name, []).append(json.loads(output))
    print(json.dumps(describe_machine(os.cpu_count())), "\n")
    print("| medians | wall, s | processor, s | peak, MiB |\n| --- | --- | --- | --- |")
    for name, found in costs.items():
        wall, processor, mib = map(median, zip(*found, strict=True))
        print(f"| {name} | {wall:.2f} | {processor:.2f} | {mib:,.0f} |")
    print("\n| seconds | import | load | first call | later calls |\n| --- | --- | --- | --- | --- |")
    for name, found in stages.items():
        print(f"| {name} | {' | '.join(f'{median(column):.3f}' for column in zip(*found, strict=True))} |")


def settings(arguments: argparse.Namespace, folder: Path) -> dict[str, tuple[list, str]]:
    """The commands by name: their words, and what they read from a pipe."""
    model, sentence = arguments.model.resolve(), SENTENCE + "\n"
    pair = folder / "sentence.txt"
    pair.write_text(sentence)
    page = folder / "page.html"
    page.unlink(missing_ok=True)
    chosen = {
        "translate, the export's own beam": (["translate", model], sentence),
        "translate --beam-size 1": (["translate", model, "--beam-size", "1"], sentence),
        "translate --nbest 3": (["translate", model, "--nbest", "3"], sentence),
        "inspect --html": (["inspect", model, SENTENCE, "--html", page], ""),
        "evaluate, one sentence": (["evaluate", model, "--source", pair, "--reference", pair], ""),
    }
    if arguments.ctranslate2:
        other = arguments.ctranslate2.resolve()
        chosen["translate --engine ctranslate2"] = (["translate", other, "--engine", "ctranslate2"], sentence)
    if arguments.lines:
        lines = arguments.lines.resolve()
        chosen[f"translate {lines.name}"] = (["translate", model, lines], "")
        chosen[f"translate {lines.name} from a pipe"] = (["translate", model], lines.read_text(encoding="utf-8"))
    return chosen


def timed(words: list, text: str, checkout: Path) -> Cost:
    """Runs the command of a checkout."""
    with tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *map(str, words)],
            cwd=checkout,
            env=environment(checkout),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        process.stdin.write(text.encode())
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, words))}: {errors.read().decode()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout)}


if __name__ == "__main__":
    main()
