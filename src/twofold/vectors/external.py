"""Vector search in an engine outside the file: the engine finds candidates, the file has the vectors.

What an engine returns is looked up in the file, within the scope, and compared with the query's vector there. So the
cosines are those of exact search, to the last digit, whatever the engine keeps; what is gone from the file is gone
from the answer; and what has not been delivered yet is compared as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from twofold.embed import ModelInfo
from twofold.engines import Collection as Points
from twofold.engines.replica import Replica
from twofold.errors import EngineLost, ModelMismatch
from twofold.store import Store, models, outbox, rows
from twofold.store import vectors as stored
from twofold.types import Scope
from twofold.vectors import VectorHits, VectorSearch
from twofold.vectors.exact import FLOOR_DIGITS, SLACK, ExactIndex, best

Floats = NDArray[np.float32]

PIECES = 2  # candidates for each episode that is asked for: some come in several pieces, some are gone
MORE = 4  # times as many, where those were not enough
MOST_CANDIDATES = 20_000
FEW_IN_TIME = 20_000  # episodes within the times of a scope that are compared one by one: an engine knows no times
MOST_PENDING = 2_000  # not delivered yet and compared with the query; what is before them is found by words


class ExternalIndex:
    """`VectorIndex` over a replica. While the first one is built, exact search answers."""

    def __init__(self, store: Store, model: ModelInfo, replica: Replica) -> None:
        self._store = store
        self._model = model
        self._replica = replica
        self._exact = ExactIndex(store, model)

    @property
    def computes_beside(self) -> bool:
        """Whether the engine is in another process, and not in this one's way."""
        return not self._replica.engine.builds_apart

    def prepare(self, scope: Scope, exclude: Collection[int], limit: int) -> VectorSearch:
        """A search for the best `limit` episodes in scope, without the excluded.

        Raises EngineError where the engine cannot be had, and ModelMismatch.
        """
        with self._store.read() as db:
            self._check_model()
            serving = self._replica.serving(db)
            if serving is None:
                return self._exact.prepare(scope, exclude, limit)
        points = serving[1]
        target = serving[0].id
        if limit <= 0 or (scope.kind == "sessions" and not scope.ids):
            return lambda vector: VectorHits([])

        def search(vector: Floats) -> VectorHits:
            try:
                return self._search(points, target, vector, scope, exclude, limit)
            except EngineLost:  # another index took its place between the two
                return self._exact.prepare(scope, exclude, limit)(vector)

        return search

    def score(self, vector: Floats, ids: Sequence[int]) -> dict[int, float]:
        """The cosine of each given episode that has a vector."""
        return best(self.vectors(ids), vector)

    def vectors(self, ids: Collection[int]) -> dict[int, Floats]:
        """The pieces, shape (pieces, dimension), of each given episode that has a vector."""
        with self._store.read() as db:
            self._check_model()
            return stored.pieces(db, models.find(db, self._model.key), self._model.dimension, ids)

    def put(self, pieces: Iterable[tuple[int, Floats]]) -> None:
        """Set the vectors of episodes: for each its pieces, shape (pieces, dimension), unit length."""
        self._exact.put(pieces)

    def missing(self, after: int, limit: int) -> list[int]:
        """Up to `limit` episodes above the id `after` that have no vector of this model, in order."""
        return self._exact.missing(after, limit)

    def counts(self) -> tuple[int, int]:
        """How many episodes have a vector of this model, and how many have none."""
        return self._exact.counts()

    def is_current(self) -> bool:
        """Whether this model's vectors are the ones that are searched, or there are none of any model."""
        return self._exact.is_current()

    def switch(self) -> None:
        """Make this model's vectors the ones that are searched."""
        self._exact.switch()

    def _search(
        self, points: Points, target: int, vector: Floats, scope: Scope, exclude: Collection[int], limit: int
    ) -> VectorHits:
        with self._store.read() as db:
            said = rows.within_times(db, scope, FEW_IN_TIME + 1) if scope.times else None
            if said is not None and len(said) <= FEW_IN_TIME:
                return self._among(set(said) - set(exclude), vector, limit)
            model = models.find(db, self._model.key)
            without = stored.rows_of(db, model, exclude) if exclude else ()
            waiting = outbox.newest_of(db, target, MOST_PENDING)
            episodes: list[int] = []
            asked = PIECES * limit + SLACK
            while True:
                found = points.search(vector, scope, without, asked)
                episodes = stored.episodes_of(db, model, {*found, *waiting}, scope)
                if len(episodes) >= limit or len(found) < asked or asked >= MOST_CANDIDATES:
                    break
                asked = min(MORE * asked, MOST_CANDIDATES)
            left_out = stored.episodes_of(db, model, without, scope)
            pieces = stored.pieces(db, model, self._model.dimension, set(episodes) - set(left_out))
            hidden = stored.pieces(db, model, self._model.dimension, left_out)
            total, count = stored.total(db, model, scope)
        ranking = sorted(best(pieces, vector).items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
        count -= sum(map(len, hidden.values()))
        if total is None or count <= 0:
            return VectorHits(ranking, pieces=pieces)
        total = total - sum(pieces.sum(axis=0, dtype=np.float64) for pieces in hidden.values())
        return VectorHits(ranking, round(float(total @ vector.astype(np.float64)) / count, FLOOR_DIGITS), count, pieces)

    def _among(self, ids: Collection[int], vector: Floats, limit: int) -> VectorHits:
        """The best of episodes that are few enough to be compared one by one."""
        near = best(self.vectors(ids), vector)
        ranking = sorted(near.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
        floor = round(sum(near.values()) / len(near), FLOOR_DIGITS) if near else 0.0
        return VectorHits(ranking, floor, len(near))

    def _check_model(self) -> None:
        with self._store.read() as db:
            current = models.current(db)
        if current not in (None, self._model.key):
            raise ModelMismatch(self._model.refuses(current))
