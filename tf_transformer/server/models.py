"""The models that are served: each by its name, its highest version loaded, a newer one taken up while it works."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_transformer.cores import cores
from tf_transformer.errors import UserError, reason
from tf_transformer.files.model_formats import numbered_versions
from tf_transformer.server.batching import Batcher, BatchLimits, DeadlineExceeded
from tf_transformer.server.metrics import Metrics
from tf_transformer.server.requests import together
from tf_transformer.server.versions import Version, kind_of, load_version
from tf_transformer.translation.texts import Translation

log = logging.getLogger("tf_transformer.server")

# Text of most languages has about four bytes a token, whatever the script. The tokenizer itself is in the model.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Source:
    """Where a model's versions come from.

    Attributes:
        name: what it is served as.
        folder: of one version, or of versions that have their number as name.
        number: of the one version; None for a folder of versions.
    """

    name: str
    folder: Path
    number: int | None = None

    def versions(self) -> dict[int, Path]:
        """The folders of the versions that are there now, by number; one that can't be looked into is not there yet."""
        return numbered_versions(self.folder, kind_of) if self.number is None else {self.number: self.folder}


def find_source(path: Path) -> Source:
    """What a path on the command line names.

    Args:
        path: `savedmodels/demo`, with its highest version, one version `savedmodels/demo/1`, or a CTranslate2 folder.

    Raises:
        UserError: nothing of the kind is there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     version = Path(folder, "demo", "3")
        ...     version.mkdir(parents=True)
        ...     _ = (version / "saved_model.pb").write_bytes(b"")
        ...     source = find_source(Path(folder, "demo"))
        ...     source.name, list(source.versions())
        ('demo', [3])
    """
    folder = path.resolve() if ".." in path.parts else path.absolute()  # for its name
    if kind_of(folder):
        if folder.name.isdecimal():
            return Source(folder.parent.name, folder, int(folder.name))
        return Source(folder.name, folder, 1)
    source = Source(folder.name, folder)
    if source.versions():
        return source
    if not path.exists():
        raise UserError(f"{path}: no such folder; give the folder of a SavedModel or of a CTranslate2 model")
    from tf_transformer.runs.directory import is_run

    if is_run(path):
        raise UserError(f"{path}: a run, not an export; run `tf-transformer export` on it and serve the result")
    raise UserError(f"{path}: neither a SavedModel, nor a folder of its versions, nor a CTranslate2 model")


def find_sources(paths: Iterable[Path]) -> list[Source]:
    """The sources of several paths.

    Raises:
        UserError: see `find_source`; or two have one name.
    """
    sources: dict[str, Source] = {}
    for path in paths:
        source = find_source(path)
        if other := sources.get(source.name):
            raise UserError(
                f"two models are named {source.name}: {other.folder} and {source.folder}; give one of the folders "
                "another name, or a symbolic link with another name"
            )
        sources[source.name] = source
    return list(sources.values())


@dataclass(frozen=True)
class _Translation:
    """The key of texts, which share a batch with others for the same version, with the same options."""

    version: Version
    options: frozenset[tuple[str, Any]]


@dataclass(eq=False, frozen=True)
class _Call:
    """The key of a signature's call, which shares a batch with no other."""

    version: Version
    signature: str


class ServedModel:
    """A model by its name. Its work is done in the threads of its batcher.

    A request takes `version` once, and keeps to it: it may be answered when a newer one has been loaded.

    Args:
        source: where its versions come from.
        limits: how batches are put together.
        seconds: a request's deadline.
        metrics: where its work is counted.

    Attributes:
        version: what is loaded; None before it is.
        loading: the number of the version that is being loaded; None for none.
    """

    def __init__(self, source: Source, limits: BatchLimits, seconds: float, metrics: Metrics) -> None:
        self.source, self.seconds, self.metrics = source, seconds, metrics
        self.version: Version | None = None
        self.loading: int | None = None
        self._replaced: list[tuple[weakref.ref[Version], float]] = []  # with the time until which requests may wait
        self.batcher = Batcher(self._work, limits, lambda items: metrics.batch_began(self.name, items))
        metrics.watch_queue(self.name, self.batcher.__len__)

    @property
    def name(self) -> str:
        """What it is served as."""
        return self.source.name

    @property
    def number(self) -> int | None:
        """The version's number; None before it is loaded."""
        return self.version.number if self.version else None

    async def translate(self, version: Version, texts: Sequence[str | bytes], /, **options: Any) -> list[Translation]:
        """Translates sentences, each an item of its own for the batcher.

        Args:
            version: what translates them.
            texts: sentences.
            **options: those that differ from the export's own; see `DecodingOptions`.

        Raises:
            TooMany, QueueFull: they are more than may wait; or than may wait now.
            DeadlineExceeded: it took too long.
            UserError: an option that can't be.
        """
        encoded = [text.encode() if isinstance(text, str) else text for text in texts]
        payloads = [(text, tokens_of(text)) for text in encoded]
        translations = await self._results(payloads, _Translation(version, frozenset(options.items())))
        tokens = sum(length for _, length in payloads)
        characters = sum(len(text.decode("utf-8", "replace")) for text in encoded)
        self.metrics.translated(self.name, characters, tokens, sum(len(t.text) for t in translations))
        return translations

    async def call(self, version: Version, signature: str, /, **inputs: Any) -> dict[str, Any]:
        """Calls one of a version's signatures.

        Args:
            version: whose.
            signature: its name.
            **inputs: lists, arrays or tensors by name.

        Returns:
            NumPy arrays by name.

        Raises:
            QueueFull, DeadlineExceeded: as `translate`.
            UserError: no such signature, or inputs that it refuses.
        """
        (result,) = await self._results([(inputs, 1)], _Call(version, signature))
        return result

    async def _results(self, payloads: Sequence[tuple[Any, int]], key: _Translation | _Call) -> list[Any]:
        futures = [asyncio.wrap_future(f) for f in self.batcher.submit(payloads, key, self.seconds)]
        try:
            async with asyncio.timeout(self.seconds):
                return await together(*futures)
        except TimeoutError:
            raise DeadlineExceeded from None

    def _work(self, key: _Translation | _Call, payloads: list[Any]) -> list[Any]:
        began, failed = time.perf_counter(), True
        try:
            if isinstance(key, _Call):
                results = [key.version.call(key.signature, inputs) for inputs in payloads]
            else:
                results = key.version.translate(payloads, dict(key.options))
            failed = False
        except UserError:
            failed = False
            raise
        finally:
            self.metrics.batch_ended(self.name, time.perf_counter() - began, failed)
        return results

    def load_newest(self) -> None:
        """Loads the highest version unless it is loaded, and switches to it; what has come ends with the old one.

        Raises:
            UserError: it can't be loaded; the old one stays.
        """
        versions = self.source.versions()
        number = max(versions, default=self.number)
        if number is None:
            raise UserError(f"{self.source.folder}: the model's versions are gone; export it again")
        if number == self.number:
            return
        self.loading = number
        try:
            began = time.perf_counter()
            version = load_version(versions[number])
            version.number = number
            seconds = time.perf_counter() - began
            # A later version leaves the other cores to the requests that the old one answers.
            warm = version.warm_up(threads=1 if self.version else cores())
        except Exception as error:  # whatever another program's model makes of the first requests
            self.metrics.loaded(self.name, None)
            if isinstance(error, UserError):
                raise
            raise UserError(f"{versions[number]}: can't be served ({reason(error)})") from error
        finally:
            self.loading = None
        old, self.version = self.version, version
        self.metrics.loaded(self.name, number)
        log.info("model %s version %d: loaded in %.1f s, warmed up in %.1f s", self.name, number, seconds, warm)
        if old:
            self._replaced.append((weakref.ref(old), time.monotonic() + self.seconds))

    def free_replaced(self) -> None:
        """Frees the memory of old versions whose last requests have been answered."""
        now = time.monotonic()
        left = [(old, until) for old, until in self._replaced if old() is not None and now < until]
        if len(left) < len(self._replaced):
            self._replaced = left
            gc.collect()  # rings of objects are left of them, and of requests that failed, which hold them


class Models(Mapping[str, ServedModel]):
    """The served models by name, in the order of the command line.

    Args:
        sources: where they come from.
        limits: how each model's batches are put together.
        seconds: a request's deadline.
    """

    def __init__(self, sources: Iterable[Source], limits: BatchLimits | None = None, seconds: float = 30.0) -> None:
        self.metrics = Metrics()
        limits = limits or BatchLimits()
        self._models = {source.name: ServedModel(source, limits, seconds, self.metrics) for source in sources}

    def __getitem__(self, name: str) -> ServedModel:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def pairs(self) -> dict[tuple[str, str], tuple[ServedModel, Version]]:
        """The models that translate, and their versions, by source and target language; of two for a pair the first."""
        pairs: dict[tuple[str, str], tuple[ServedModel, Version]] = {}
        for model in self.values():
            version = model.version
            if version is not None and version.translates:
                pairs.setdefault(version.languages, (model, version))
        return pairs


def tokens_of(text: bytes) -> int:
    """About how many tokens a text has.

    Example:
        >>> tokens_of(b"The dog sleeps.")
        4
    """
    return len(text) // BYTES_PER_TOKEN + 1
