"""Qdrant Edge: the engine of Qdrant inside this process, one folder a collection.

Its calls hold Python's global lock. Searches take a millisecond or two and points are put in small batches, but to
build an index takes seconds to minutes, so that is for another process (`builds_apart`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from collections.abc import Collection as Container
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twofold.engines import Layout, Point, Terms
from twofold.errors import EngineBusy, EngineError, EngineLost
from twofold.store.lock import Lock
from twofold.types import Scope

VECTOR, TERMS = "vector", "terms"
BATCH = 256  # points put at once: some 3 ms in which no other thread runs
# How many the walk through the index keeps in sight. Of 100,000 drawn vectors' ten nearest .98 are found so, and .90
# with Qdrant's own 100, which saves .3 ms; of a million's .87 and, with twice as many in sight, .95 for 1.5 ms more.
EF, EF_OF_MANY = 256, 512
MANY = 300_000  # vectors
# Candidates looked at again with their whole vectors, where these are kept smaller; one bit says little of a number.
OVERSAMPLING = {"scalar": 3.0, "binary": 10.0}
PASSING = ("Too many open files", "No space left", "Cannot allocate memory")  # no fault of the folder's

Result = TypeVar("Result")


class EdgeEngine:
    """`Engine` over a folder. Where there is an `owner`, only the process that holds this lock opens what is in it."""

    name = "edge"
    builds_apart = True
    may_forget = True  # seen with 0.9: points that were flushed are gone after a kill during a later flush

    def __init__(self, folder: Path, owner: Lock | None = None) -> None:
        self.folder = folder
        self._owner = owner
        self._open: dict[str, EdgeCollection] = {}
        self._opening = threading.Lock()

    def collections(self) -> list[str]:
        """The names of all collections in the folder."""
        return sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir()) if self.folder.is_dir() else []

    def create(self, name: str, layout: Layout) -> None:
        """Make an empty collection, in the place of what is left of one of that name."""
        self.drop(name)
        with self._opening:
            self._open[name] = EdgeCollection(_library(), self.folder / name, layout, new=True)

    def open(self, name: str, layout: Layout) -> EdgeCollection:
        """A collection that was made. Raises EngineLost where it is gone, EngineBusy where another process has it."""
        if self._owner and not self._owner.take():
            raise _busy(self.folder)
        with self._opening:
            if name not in self._open:
                self._open[name] = EdgeCollection(_library(), self.folder / name, layout)
            return self._open[name]

    def expose(self, name: str) -> None:
        """Nothing: nobody else looks into the folder."""

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        known = self._open.pop(name, None)
        if known:
            with suppress(EngineError):  # what goes need not be whole
                known.close()
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def close(self) -> None:
        """Let go of what is open."""
        with ExitStack() as closing:
            while self._open:
                closing.callback(self._open.popitem()[1].close)


class EdgeCollection:
    """`Collection` over one shard."""

    def __init__(self, edge: Any, folder: Path, layout: Layout, *, new: bool = False) -> None:
        self._edge = edge
        self._folder = folder
        self._layout = layout
        self._shard: Any = self._call(self._create if new else self._load)
        self._points = int(self._call(lambda: self._shard.info()).points_count)  # about
        for field in ("session", "project"):
            self._update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Integer))

    def put(self, points: Sequence[Point], moment: int) -> None:
        """Set points; on disk when this returns. Calls arrive in order here, so that `moment` says nothing new."""
        for start in range(0, len(points), BATCH):
            batch = [
                self._edge.Point(
                    id=point.id,
                    vector=self._content(point.content),
                    payload={"session": point.session, "project": point.project},
                )
                for point in points[start : start + BATCH]
            ]
            self._update(self._edge.UpdateOperation.upsert_points(batch))
        self._points += len(points)
        self._call(lambda: self._shard.flush())

    def remove(self, ids: Sequence[int], moment: int) -> None:
        """Remove points, those that are there; for good when this returns."""
        for start in range(0, len(ids), BATCH):
            self._update(self._edge.UpdateOperation.delete_points(list(ids[start : start + BATCH])))
        self._call(lambda: self._shard.flush())

    def search(
        self, query: NDArray[np.float32] | Terms, scope: Scope, exclude: Container[int], limit: int
    ) -> list[int]:
        """The ids of about the best `limit` points in scope, without the excluded, best first."""
        edge = self._edge
        using = TERMS if isinstance(query, Terms) else VECTOR
        params = None
        if using == VECTOR:
            more = OVERSAMPLING.get(self._layout.quantization)
            again = edge.QuantizationSearchParams(rescore=True, oversampling=more) if more else None
            params = edge.SearchParams(hnsw_ef=EF if self._points < MANY else EF_OF_MANY, quantization=again)
        request = edge.QueryRequest(
            query=edge.Query.Nearest(self._content(query)[using], using=using),
            filter=self._filter(scope, exclude),
            params=params,
            limit=limit,
        )
        shard = self._shard
        if shard is None:
            raise EngineLost(f"the index in {self._folder} was replaced by another meanwhile")
        return [hit.id for hit in self._call(lambda: shard.query(request))]

    def count(self) -> int:
        """How many points there are."""
        return int(self._call(lambda: self._shard.count(self._edge.CountRequest(exact=True))))

    def ids(self, after: int, limit: int) -> list[int]:
        """Up to `limit` ids above `after`, rising."""
        request = self._edge.ScrollRequest(offset=after + 1, limit=limit, with_payload=False, with_vector=False)
        return [record.id for record in self._call(lambda: self._shard.scroll(request))[0]]

    def unindexed(self) -> int:
        """How many points every search has to walk through, for want of an index over them."""
        if not self._layout.dimension:
            return 0  # terms are always indexed
        info = self._call(lambda: self._shard.info())
        return int(max(0, info.points_count - info.indexed_vectors_count))

    def index(self) -> None:
        """Build the index over all points; other calls have to wait."""
        self._call(lambda: self._shard.optimize())
        self._call(lambda: self._shard.flush())

    def close(self) -> None:
        """Let go of it."""
        shard, self._shard = self._shard, None
        if shard is not None:
            self._call(shard.flush)
            self._call(shard.close)

    def _create(self) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._edge.EdgeShard.create(str(self._folder), self._config())

    def _load(self) -> Any:
        try:
            return self._edge.EdgeShard.load(str(self._folder))
        except BaseException as error:
            if _is_ours(error) and not any(text in str(error) for text in ("WouldBlock", *PASSING)):
                raise EngineLost(f"the index in {self._folder} cannot be read ({error})") from None
            raise

    def _config(self) -> Any:
        edge, layout = self._edge, self._layout
        if not layout.dimension:
            return edge.EdgeConfig(sparse_vectors={TERMS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)})
        smaller = None
        if layout.quantization == "scalar":
            smaller = edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, memory=edge.Memory.Pinned)
        elif layout.quantization == "binary":
            smaller = edge.BinaryQuantizationConfig(memory=edge.Memory.Pinned)
        return edge.EdgeConfig(
            vectors={
                VECTOR: edge.EdgeVectorParams(
                    size=layout.dimension,
                    distance=edge.Distance.Dot,
                    datatype=edge.VectorStorageDatatype.Float16,
                    quantization_config=smaller,
                )
            },
            hnsw_config=edge.HnswIndexConfig(
                m=16, ef_construct=100, full_scan_threshold=10_000, max_indexing_threads=_half_the_cores()
            ),
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1),
        )

    def _content(self, content: NDArray[np.float32] | Terms) -> dict[str, Any]:
        if isinstance(content, Terms):
            return {TERMS: self._edge.SparseVector(indices=list(content.numbers), values=list(content.weights))}
        return {VECTOR: content.tolist()}

    def _filter(self, scope: Scope, exclude: Container[int]) -> Any:
        edge = self._edge
        must = []
        if scope.kind == "project":
            must = [edge.FieldCondition(key="project", match=edge.MatchValue(scope.ids[0]))]
        elif scope.kind == "sessions":
            must = [edge.FieldCondition(key="session", match=edge.MatchAny(list(scope.ids)))]
        without = [edge.HasIdCondition(set(exclude))] if exclude else []
        return edge.Filter(must=must, must_not=without) if must or without else None

    def _update(self, operation: Any) -> None:
        self._call(lambda: self._shard.update(operation))

    def _call(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except EngineLost:
            raise
        except BaseException as error:
            if not _is_ours(error):
                raise
            if "WouldBlock" in str(error):
                raise _busy(self._folder) from None
            raise EngineError(
                f"the index in {self._folder} gave no answer ({error}); mend it with: twofold doctor --repair"
            ) from error


def _library() -> Any:
    try:
        import qdrant_edge
    except ImportError:
        raise EngineError(
            "vectors is 'edge', which needs qdrant-edge-py; install it with: pip install 'twofold[edge]'"
        ) from None
    return qdrant_edge


def _busy(folder: Path) -> EngineBusy:
    return EngineBusy(
        f"another process has {folder} open, and only one can; ask the service that runs on it, or set vectors to exact"
    )


def _is_ours(error: BaseException) -> bool:
    """Whether the engine raised it: where it panics, what it raises is no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _half_the_cores() -> int:
    return max(1, (os.cpu_count() or 2) // 2)
