"""Prepares the pairs of a split: reads and tokenises them once, into a folder.

The texts are read here; threads tokenise them, one for each core. They are no processes, since the tokenizers release
Python's lock: two threads tokenise 1.8 times as fast as one, and neither start nor pass on anything.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from rich.console import Console

from tf_transformer.console import tell
from tf_transformer.cores import cores
from tf_transformer.data.aligned import rows_of
from tf_transformer.data.counting import PairCounter
from tf_transformer.data.filters import check_limits
from tf_transformer.data.fingerprint import Fingerprint, fingerprint
from tf_transformer.data.mixture import WeightedSource, sources_of
from tf_transformer.data.pairs import Pairs, state_of
from tf_transformer.data.prepared.bar import pairs_bar
from tf_transformer.data.prepared.parts import SIDES, Part, load_part, make_part, save_part
from tf_transformer.data.prepared.store import (
    LINKS,
    MANIFEST,
    Manifest,
    PreparedPairs,
    PreparedSource,
    file_name,
)
from tf_transformer.errors import UserError
from tf_transformer.files.checksums import CHECKSUMS, replace_checked, write_checksums
from tf_transformer.files.locks import lock
from tf_transformer.files.whole import AGAIN, folder_written_whole

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair

# Pairs in a part: what a kill loses at most, for each core.
PART = 20_000

SETTINGS = "settings.json"  # beside the parts: what they were made with
_OF_TOKENS = ("max_length", "max_ratio", "tokenizer")  # settings that change no text


def prepare_pairs(
    pairs: Pairs,
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_length: int,
    max_ratio: float | None,
    settings: dict[str, Any],
    console: Console,
) -> PreparedPairs:
    """Opens the prepared pairs of a split; makes them where they are missing, or of something else than is asked for.

    Several processes may call it for one folder: one of them makes it, and the others wait.

    Args:
        pairs: the split; of a `Mixture` each source is counted.
        tokenizers: a `TokenizerPair`.
        folder: where they are, or are to be.
        max_length: the most tokens on either side, END counted.
        max_ratio: how many times as long as the other a side may be; None for any.
        settings: what else decides which pairs there are, by name, as JSON has it.
        console: where progress is shown, and what is prepared again.

    Raises:
        UserError: `pairs` can't be read, or the folder can't be written, or it holds something else.
    """
    check_limits(max_length, max_ratio)
    settings = {**settings, "max_length": max_length, "max_ratio": max_ratio, "tokenizer": tokenizers.checksum}
    settings = json.loads(json.dumps(settings))  # as the manifest has them
    with told_in_one_line(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Many read through what is there at the same time; there may be many gigabytes, whose checksums take minutes.
        with locked(folder.parent, console, shared=True):
            prepared = _unchanged(pairs, folder, settings)
            if prepared is not None:
                shutil.rmtree(_parts(folder), ignore_errors=True)  # a kill may have left them
                return prepared
        with locked(folder.parent, console):
            prepared = _current(pairs, folder, settings, console)
            if prepared is None:
                _make(pairs, tokenizers, folder, settings, console)
                prepared = PreparedPairs(folder)
            shutil.rmtree(_parts(folder), ignore_errors=True)
            return prepared


def known_fingerprint(pairs: Pairs, folder: Path, settings: dict[str, Any]) -> str:
    """The fingerprint of a split; a pass over its texts only where it may be another than was prepared.

    Args:
        pairs: the split.
        folder: where it is prepared; there may be nothing, or another recipe's.
        settings: as for `prepare_pairs`. A tag and noise change the texts, and not the state of their files.
    """
    return fingerprint_there(folder, state_of(pairs), settings) or fingerprint(pairs)


def fingerprint_there(folder: Path, state: list | None, settings: dict[str, Any]) -> str | None:
    """The fingerprint of the split that is prepared in a folder; None where none is, or one of other files.

    Args:
        folder: where it is prepared.
        state: that of its files.
        settings: as for `prepare_pairs`.
    """
    manifest = Manifest.read(folder)
    if manifest and state and manifest.state == state:
        of_texts = {key: value for key, value in manifest.settings.items() if key not in _OF_TOKENS}
        if of_texts == json.loads(json.dumps(settings)):
            return manifest.fingerprint
    return None


@contextmanager
def locked(folder: Path, console: Console, shared: bool = False) -> Iterator[None]:
    """Within it, no other process prepares in a folder; the system unlocks it when the process ends, however.

    Unless it is shared, none checks there what is prepared either.

    Args:
        folder: where pairs or vocabularies are prepared.
        console: where it is told that another process is waited for.
        shared: whether this one only reads there, at the same time as others that do.

    Raises:
        UserError: the file system has no locks.
    """
    advice = "with data.prepared"
    with (folder / "lock").open("a+") as file:
        if not lock(file, folder, advice, shared=shared):
            tell(console, f"{folder}: waiting for another process that is preparing or checking the data there")
            lock(file, folder, advice, shared=shared, wait=True)
        yield


@contextmanager
def told_in_one_line(folder: Path) -> Iterator[None]:
    """Within it, that something can't be written is a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder}: the prepared data can't be written: {error.strerror or error}; {AGAIN}") from None


def _unchanged(pairs: Pairs, folder: Path, settings: dict[str, Any]) -> PreparedPairs | None:
    """What a folder holds, if that is whole, and nothing has to be looked at but the state of the files to see so."""
    manifest, state = Manifest.read(folder), state_of(pairs)
    if manifest and state and manifest.state == state and manifest.settings == settings:
        with suppress(UserError, OSError, ValueError):
            return PreparedPairs(folder)
    return None


def _current(pairs: Pairs, folder: Path, settings: dict[str, Any], console: Console) -> PreparedPairs | None:
    """What a folder holds, if that is what is asked for; tells why it is not, where there is something else."""
    if not folder.exists():
        return None
    manifest, prepared = Manifest.read(folder), None
    if manifest is None and not (folder / MANIFEST).exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: not empty, and not prepared data; give another folder with data.prepared")
    if manifest is not None:
        with suppress(UserError, OSError, ValueError):
            prepared = PreparedPairs(folder)
    if prepared is None:
        return _tell_again(folder, "the prepared data is damaged, or from another version", console)
    if manifest.settings != settings:
        changed = [key for key in settings | manifest.settings if manifest.settings.get(key) != settings.get(key)]
        return _tell_again(folder, f"the prepared data differs in {', '.join(changed)}", console)
    state = state_of(pairs)
    if state is None or state != manifest.state:
        now = fingerprint(pairs)
        if now != manifest.fingerprint:
            why = f"the prepared data is from other pairs ({manifest.fingerprint}; now {now})"
            return _tell_again(folder, why, console)
        if state is not None:  # the same texts, in files that were copied or moved
            renewed = dataclasses.replace(manifest, state=state)
            replace_checked(folder, MANIFEST, renewed.to_json(), "the prepared data")
    return prepared


def _tell_again(folder: Path, why: str, console: Console) -> None:
    """Tells why what is there can't be used, and is replaced.

    Raises:
        UserError: there is something else with it.
    """
    own = {MANIFEST, CHECKSUMS, *(file_name(side, what) for side in (*SIDES, LINKS) for what in ("ids", "offsets"))}
    others = [path.name for path in folder.iterdir() if path.name not in own and not path.name.startswith(".")]
    if others:
        raise UserError(
            f"{folder}: {why}; it was not replaced, since it also holds {min(others)}, which is not prepared data; "
            "give another folder with data.prepared, or move that file away"
        )
    tell(console, f"{folder.name}: {why}; preparing it again")


def _make(pairs: Pairs, tokenizers: TokenizerPair, folder: Path, settings: dict[str, Any], console: Console) -> None:
    parts = _parts(folder)
    _keep_only_parts_of(settings, parts)
    sizes = [tokenizer.vocab_size for tokenizer in (tokenizers.source, tokenizers.target)]
    dtype = np.dtype(np.uint16 if max(sizes) <= 2**16 else np.uint32)
    looked_at, sources, paths = Fingerprint(), [], []

    def make(chunk: list[tuple[str, ...]], path: Path, checksum: int) -> None:
        if load_part(path, checksum) is None:
            save_part(
                make_part(tokenizers, chunk, settings["max_length"], settings["max_ratio"], dtype), path, checksum
            )

    with pairs_bar(f"preparing {folder.name}", console) as advance:
        for number, source in enumerate(sources_of(pairs)):
            if number:
                looked_at.next_source()
            made = _make_parts(source, parts, len(paths), make, looked_at, advance)
            paths += made
            sources.append(_prepared_source(source, made))
    with folder_written_whole(folder) as partial:
        _join(paths, sources, dtype, partial)
        _write_manifest(partial, Manifest(settings, state_of(pairs), str(looked_at), sources))


def _parts(folder: Path) -> Path:
    """Where the parts are until all are there."""
    return folder.with_name(f".parts-{folder.name}")


def _keep_only_parts_of(settings: dict[str, Any], parts: Path) -> None:
    """Removes parts that were made with other settings."""
    written = json.dumps(settings)
    found = (parts / SETTINGS).read_text(encoding="utf-8") if (parts / SETTINGS).is_file() else None
    if found != written:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        (parts / SETTINGS).write_text(written, encoding="utf-8")


def _make_parts(
    source: WeightedSource,
    parts: Path,
    first: int,
    make: Callable[[list[tuple[str, ...]], Path, int], None],
    looked_at: Fingerprint,
    advance: Callable[[int], None],
) -> list[Path]:
    """Makes the parts of a source, the first of which has the number `first`; gives their files."""
    stream, paths, under_way = rows_of(source.pairs), [], deque()
    at_once = cores()
    threads = ThreadPoolExecutor(at_once)
    try:
        while chunk := list(itertools.islice(stream, PART)):
            looked_at.add(chunk)
            paths.append(parts / f"{first + len(paths):06d}.npz")
            under_way.append((threads.submit(make, chunk, paths[-1], looked_at.checksum), len(chunk)))
            if len(under_way) > 2 * at_once:  # no more are held in memory
                _wait_for_first(under_way, advance)
        while under_way:
            _wait_for_first(under_way, advance)
    finally:
        threads.shutdown(cancel_futures=True)
    return paths


def _wait_for_first(under_way: deque[tuple[Future, int]], advance: Callable[[int], None]) -> None:
    made, pairs = under_way.popleft()
    made.result()
    advance(pairs)


def _prepared_source(source: WeightedSource, paths: list[Path]) -> PreparedSource:
    """Counts what was kept of a source, and what was not."""
    counter, aligned = PairCounter(), 0
    for path in paths:
        part = _whole(path)
        counter.add(part)
        aligned += int(np.count_nonzero(_lengths(part, LINKS)))
    skipped, lost = getattr(source.pairs, "skipped", 0), list(getattr(source.pairs, "lost", ()))
    return PreparedSource(source.name, counter.counts(), skipped, lost, aligned)


def _join(paths: list[Path], sources: list[PreparedSource], dtype: np.dtype, folder: Path) -> None:
    """Writes the files of both sides, and of the links if there are any, out of all parts, each read once."""
    dtypes = dict.fromkeys(SIDES, dtype)
    if any(source.aligned for source in sources):
        dtypes[LINKS] = np.dtype(np.uint32)
    lengths = {side: [np.zeros(0, np.int64)] for side in dtypes}
    with ExitStack() as opened:
        files = {side: opened.enter_context((folder / file_name(side, "ids")).open("wb")) for side in dtypes}
        for side, file in files.items():
            _write_header(file, dtypes[side], 0)
        for part in map(_whole, paths):
            for side, file in files.items():
                file.write(part.get(f"{side}_ids", np.zeros(0, dtypes[side])).data)
                lengths[side].append(_lengths(part, side))
        for side, file in files.items():
            file.seek(0)  # a header has room for any number
            _write_header(file, dtypes[side], sum(int(each.sum()) for each in lengths[side]))
    for side in dtypes:
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths[side]))]).astype(np.int64)
        np.save(folder / file_name(side, "offsets"), offsets)


def _write_header(file: BinaryIO, dtype: np.dtype, number: int) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": (number,)}
    np.lib.format.write_array_header_1_0(file, header)


def _lengths(part: Part, side: str) -> np.ndarray:
    """How many tokens each pair has on a side, or how many links; pairs that are not aligned have none."""
    return part.get(f"{side}_lengths", np.zeros_like(part["source_lengths"]))


def _whole(path: Path) -> Part:
    part = load_part(path)
    if part is None:
        raise UserError(f"{path}: damaged while the data was prepared; remove it, and give the command again")
    return part


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    write_checksums(folder)
