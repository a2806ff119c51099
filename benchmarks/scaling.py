"""Reckons how training scales over devices, and measures it with a few processes. See docs/scaling.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tf_transformer.distributed.launcher import worker_configs
from tf_transformer.models.presets import PRESETS

DEVICES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
BYTES = 4  # gradients are summed in float32, in mixed precision too
PAPER_BATCH = 25_000  # target tokens of a batch, and as many source tokens


@dataclass(frozen=True)
class Link:
    """What a device sends over.

    Attributes:
        bytes_per_second: in one direction.
        latency: seconds that a message takes beside its bytes.
        devices: how many it reaches at most.
    """

    name: str
    bytes_per_second: float
    latency: float
    devices: int = 256


# Target tokens a second of one device. The CPU's are measured (benchmarks/README.md), and the H100's too (docs/gpu.md),
# without XLA, which several GPUs can't have. The A100's are assumed: the H100's in the ratio of the peaks that their
# maker gives for bfloat16, without sparsity.
CPU_RATE = {"base": 304.0}
H100_RATE = {"base": 131_000.0, "big": 76_400.0}
A100_SHARE = 312 / 989
GPU_RATES = {"A100": {name: A100_SHARE * rate for name, rate in H100_RATE.items()}, "H100": H100_RATE}
CPU_TOKENS, GPU_TOKENS = 2_000, 12_500  # of one device's share of a batch

# Assumed too: the speeds that the links are sold by, and what of them the gradients get.
LINKS = [
    Link("10 Gb Ethernet", 10e9 / 8, 50e-6),
    Link("100 Gb Ethernet", 100e9 / 8, 20e-6),
    Link("400 Gb InfiniBand", 400e9 / 8, 5e-6),
    Link("NVLink of an A100, in one machine", 300e9, 3e-6, devices=8),
]
LINK_SHARE = 0.8


def all_reduce_seconds(size: float, devices: int, link: Link) -> float:
    """A ring all-reduce: each device sends its gradient but for a share, twice, in 2 (n - 1) messages."""
    rounds = 2 * (devices - 1)
    return rounds / devices * size / (LINK_SHARE * link.bytes_per_second) + rounds * link.latency


def efficiency(compute: float, communication: float) -> float:
    """Share of a step in which the device works: nothing is sent while it does, which is the worst case."""
    return compute / (compute + communication)


def reckon() -> str:
    """The tables of docs/scaling.md."""
    lines = ["| preset | parameters | gradient, MB |", "| --- | --- | --- |"]
    for name in ("base", "big"):
        size = PRESETS[name].parameters
        lines.append(f"| {name} | {size:,} | {BYTES * size / 1e6:,.0f} |")
    rate = CPU_RATE["base"]
    title = f"base on 2 CPU cores, {CPU_TOKENS:,} target tokens a device, {rate:,.0f} a second (measured)"
    lines += _table(title, "base", rate, lambda devices: CPU_TOKENS, LINKS[:2])
    for name in ("base", "big"):
        for gpu, rates in GPU_RATES.items():
            rate, source = rates[name], "measured" if gpu == "H100" else "assumed"
            title = f"{name} on {gpu}, {GPU_TOKENS:,} target tokens a device, {rate:,.0f} a second ({source})"
            lines += _table(title, name, rate, lambda devices: GPU_TOKENS, LINKS)
    for name in ("base", "big"):
        title = f"{name} on A100, the paper's batch of {PAPER_BATCH:,} target tokens shared by all"
        lines += _table(title, name, GPU_RATES["A100"][name], lambda devices: PAPER_BATCH / devices, LINKS)
    return "\n".join(lines)


def _table(title: str, preset: str, rate: float, tokens: Callable[[int], float], links: list[Link]) -> list[str]:
    """A row for each link: time and efficiency of a step on so many devices, of so many tokens a device."""
    lines = ["", f"**{title}**", "", f"| devices | {' | '.join(map(str, DEVICES))} |"]
    lines.append("|" + " --- |" * (len(DEVICES) + 1))
    for link in links:
        cells = []
        for devices in DEVICES:
            compute = tokens(devices) / rate
            sent = all_reduce_seconds(BYTES * PRESETS[preset].parameters, devices, link)
            time_and_share = f"{1000 * (compute + sent):,.0f} ms, {efficiency(compute, sent):.0%}"
            cells.append(time_and_share if devices <= link.devices else "")
        lines.append(f"| {link.name} | " + " | ".join(cells) + " |")
    return lines


# -- measuring ----


def measure(counts: list[int], steps: int) -> None:
    """Times steps with so many processes at once, one core each, on batches of one size for each process."""
    cores = sorted(os.sched_getaffinity(0))
    print("| processes | ms a step, median (fastest–slowest) | CPU ms a step and process | against 1, wall | CPU |")
    print("| --- | --- | --- | --- | --- |")
    first: dict[str, float] = {}
    for count in counts:
        processes = []
        for index, config in enumerate(worker_configs(count)):
            os.sched_setaffinity(0, {cores[index % len(cores)]})
            environment = {**os.environ, "TF_CONFIG": config, "TF_CPP_MIN_LOG_LEVEL": "3"}
            command = [sys.executable, __file__, "--worker", str(steps)]
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        os.sched_setaffinity(0, cores)
        told = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
        wall = [1000 * seconds for seconds in told[0]["wall"]]
        cpu = 1000 * sum(each["cpu"] for each in told) / count / steps
        first = first or {"wall": median(wall), "cpu": cpu}
        spread = f"{median(wall):,.0f} ({min(wall):,.0f}–{max(wall):,.0f})"
        print(f"| {count} | {spread} | {cpu:,.0f} | {median(wall) / first['wall']:.2f} | {cpu / first['cpu']:.2f} |")


def work(steps: int) -> None:
    """A worker: takes steps of a small model on 1,024 target tokens of its own, and tells how long they took."""
    import keras
    import numpy as np
    import tensorflow as tf

    from tf_transformer import SmoothedCrossEntropy, Transformer, TransformerAdam, make_strategy
    from tf_transformer.distributed.multi_worker import worker_share

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = make_strategy("mirrored")
    rows = 32 * strategy.num_replicas_in_sync
    ids = np.random.default_rng(0).integers(4, 6000, (rows, 32)).astype("int32")
    batches = tf.data.Dataset.from_tensors(((ids, ids), ids)).repeat(steps + 3)
    options = tf.data.Options()
    options.autotune.enabled = False
    with strategy.scope():
        model = Transformer(3, 256, 8, 512, 6000, 6000, share_embeddings="all", max_length=64)
        model.compile(TransformerAdam(1e-4), SmoothedCrossEntropy(), jit_compile=False)

    class Clock(keras.callbacks.Callback):
        times: list[tuple[float, float]] = []

        def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
            self.times.append((time.perf_counter(), time.process_time()))

    model.fit(worker_share(batches.with_options(options), strategy), shuffle=False, verbose=0, callbacks=[Clock()])
    times = Clock.times[2:]  # those before are traced, and warm up
    wall = [later[0] - earlier[0] for earlier, later in zip(times, times[1:], strict=False)]
    print(json.dumps({"wall": wall, "cpu": times[-1][1] - times[0][1]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--measure", nargs="*", type=int, metavar="PROCESSES", help="numbers of processes to time instead"
    )
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
    elif arguments.measure is not None:
        measure(arguments.measure or [1, 2, 4], arguments.steps)
    else:
        print(reckon())


if __name__ == "__main__":
    main()
