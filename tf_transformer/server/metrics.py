"""What /metrics reports to Prometheus: counts and durations; no text and no address."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tf_transformer.server.batching import Item

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ITEMS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The server's metrics, in a registry of their own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        ProcessCollector(registry=registry)

        def histogram(name: str, told: str, label: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"tf_transformer_{name}", told, [label], buckets=buckets, registry=registry)

        def counter(name: str, told: str, *labels: str) -> Counter:
            return Counter(f"tf_transformer_{name}", told, labels, registry=registry)

        self._requests = counter("requests", "Requests answered.", "path", "status")
        self._request_seconds = histogram(
            "request_seconds", "Seconds from a request's header to its answer.", "path", SECONDS
        )
        self._queue_seconds = histogram(
            "queue_seconds", "Seconds that sentences waited in the queue.", "model", SECONDS
        )
        self._batch_items = histogram("batch_items", "Sentences in a batch.", "model", ITEMS)
        self._batch_seconds = histogram("batch_seconds", "Seconds that the model took for a batch.", "model", SECONDS)
        self._characters = counter("source_characters", "Characters of the source texts.", "model")
        self._tokens = counter(
            "source_tokens_estimate", "Tokens of the source texts, as estimated for batching.", "model"
        )
        self._translated = counter("translation_characters", "Characters of the translations.", "model")
        self._failures = counter("batch_failures", "Batches in which the model failed.", "model")
        self._loads = counter("model_loads", "Versions loaded, and versions that failed to load.", "model", "result")
        self._version = Gauge("tf_transformer_model_version", "The version served.", ["model"], registry=registry)
        self._queue = Gauge(
            "tf_transformer_queue_items", "Sentences waiting in the queue.", ["model"], registry=registry
        )
        self._under_way = Gauge("tf_transformer_requests_under_way", "Requests in progress.", registry=registry)

    def text(self) -> tuple[bytes, str]:
        """All metrics in Prometheus's text format, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def watch_queue(self, model: str, length: Callable[[], int]) -> None:
        """Tells a queue's length by what `length` gives."""
        self._queue.labels(model).set_function(length)

    def request_began(self) -> None:
        """A request's header is here."""
        self._under_way.inc()

    def request_ended(self, path: str, status: int, seconds: float) -> None:
        """A request was answered, or its client has gone: status 499."""
        self._under_way.dec()
        self._requests.labels(path, status).inc()
        self._request_seconds.labels(path).observe(seconds)

    def batch_began(self, model: str, items: Sequence[Item]) -> None:
        """The items' wait is over."""
        now = time.monotonic()
        self._batch_items.labels(model).observe(len(items))
        for item in items:
            self._queue_seconds.labels(model).observe(now - item.since)

    def batch_ended(self, model: str, seconds: float, failed: bool) -> None:
        """The model has answered."""
        self._batch_seconds.labels(model).observe(seconds)
        if failed:
            self._failures.labels(model).inc()

    def translated(self, model: str, characters: int, tokens: int, translation_characters: int) -> None:
        """Sentences were translated, of so many characters and about so many tokens."""
        self._characters.labels(model).inc(characters)
        self._tokens.labels(model).inc(tokens)
        self._translated.labels(model).inc(translation_characters)

    def loaded(self, model: str, version: int | None) -> None:
        """A version is served; None: one could not be loaded."""
        self._loads.labels(model, "failed" if version is None else "loaded").inc()
        if version is not None:
            self._version.labels(model).set(version)
