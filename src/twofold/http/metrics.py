"""What Prometheus reads: requests, stages, recall sizes, degraded turns, missing vectors, lag. One registry an
app.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from twofold.memory import Memory
from twofold.types import Explanation, Lag

MEDIA_TYPE = CONTENT_TYPE_LATEST
_METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS")  # no label is made of what a client wrote
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class _Held(Collector):
    """What the store holds, looked up when it is asked for."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample of each."""
        state = self._memory.status()
        for name, what, value in (
            ("episodes", "Episodes in the store", state.episodes),
            ("sessions", "Sessions in the store", state.sessions),
            ("projects", "Projects in the store", state.projects),
            ("missing_vectors", "Episodes that wait for a vector", state.waiting),
            ("file_bytes", "Bytes of the database on disk, its log included", state.bytes),
        ):
            family = GaugeMetricFamily(f"twofold_{name}", what)
            family.add_metric([], value)
            yield family
        yield from _lags(state.external_indexes)


def _lags(lags: Iterable[Lag]) -> Iterator[GaugeMetricFamily]:
    waiting = GaugeMetricFamily(
        "twofold_outbox_waiting", "Points that an index outside the file has still to be told", labels=["index"]
    )
    seconds = GaugeMetricFamily(
        "twofold_outbox_lag_seconds", "How long the oldest of them has waited", labels=["index"]
    )
    for lag in lags:
        waiting.add_metric([lag.kind], lag.waiting)
        seconds.add_metric([lag.kind], lag.seconds)
    yield waiting
    yield seconds


class Metrics:
    """The figures of one app."""

    def __init__(self, memory: Memory) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Held(memory))
        self._requests = Counter(
            "twofold_requests", "Requests answered", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "twofold_request_seconds",
            "Time to the end of an answer",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._stages = Histogram(
            "twofold_stage_seconds", "Time of a recall's stage", ["stage"], buckets=_SECONDS, registry=self._registry
        )
        self._hits = Histogram(
            "twofold_recall_hits", "Hits of a recall", buckets=(0, 1, 2, 5, 10, 20, 50, 200), registry=self._registry
        )
        self._degraded = Counter(
            "twofold_degraded", "Recalls and turns that went on without a part", ["part"], registry=self._registry
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answered request; `route` is the pattern, never the path."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def recall(self, why: Explanation | None, hits: int, degraded: Iterable[str]) -> None:
        """Note a recall: its stages, its size, what failed."""
        self._hits.observe(hits)
        for stage, milliseconds in (why.milliseconds if why else {}).items():
            self._stages.labels(stage).observe(milliseconds / 1000.0)
        for part in degraded:
            self._degraded.labels(part).inc()

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
