"""Exact vector search: numpy over the vectors in the file. Recall is 1 and a scope costs nothing extra.

The first search that needs the whole store loads it; later ones only what other writes, also those of other
processes, have added or removed since. A snapshot is never changed once it was handed out, so that searches
run side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold.embed import ModelInfo
from twofold.errors import ModelMismatch
from twofold.store import Store, models, rows
from twofold.store import vectors as stored
from twofold.types import Scope
from twofold.vectors import VectorHits, VectorSearch

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

SLACK = 16  # candidates beyond the limit that are scored again, in double precision and row by row
FLOOR_DIGITS = 6  # of the mean similarity, so that the order of summation cannot be seen
FIRST_ROWS = 1024
LOAD_ROWS = 4096


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The vectors of one model at one state of the file. Pieces of an episode stand side by side."""

    matrix: Floats  # (pieces, dimension)
    piece_ids: Ints
    episode_of: Ints  # per piece
    session_of: Ints  # per piece
    last: int  # the highest vector id that was read
    removed: int  # how many vectors the file had lost by then

    def search(
        self,
        vector: Floats,
        sessions: Sequence[int] | None,
        exclude: Collection[int],
        limit: int,
        only: Sequence[int] | None = None,
    ) -> VectorHits:
        """The best `limit` episodes of these sessions and only these episodes (None: of all), without the excluded."""
        places = self._places(sessions, exclude, only)
        # einsum reads memory as fast as one BLAS thread does, and leaves the other cores to keyword search.
        scores = np.einsum("ij,j->i", self.matrix if places is None else self.matrix[places], vector)
        episodes = self.episode_of if places is None else self.episode_of[places]
        if not len(scores) or limit <= 0:
            return VectorHits([])
        best, at = _best_pieces(scores, episodes)
        floor = round(float(best.mean(dtype=np.float64)), FLOOR_DIGITS)
        chosen = at[_top(best, min(limit + SLACK, len(best)))]
        exact = cosines(self.matrix[chosen if places is None else places[chosen]], vector)
        ranking = sorted(zip(episodes[chosen].tolist(), exact, strict=True), key=lambda hit: (-hit[1], hit[0]))
        return VectorHits(ranking[:limit], floor, len(best))

    def pieces_of(self, ids: Collection[int]) -> dict[int, Floats]:
        """The rows of the given episodes, by episode."""
        wanted = np.array(sorted(ids), dtype=np.int64)
        order = None if self._is_sorted() else np.argsort(self.episode_of, kind="stable")
        first = np.searchsorted(self.episode_of, wanted, "left", order)
        last = np.searchsorted(self.episode_of, wanted, "right", order)
        spans = zip(wanted.tolist(), first.tolist(), last.tolist(), strict=True)
        if order is None:
            return {id_: self.matrix[start:end] for id_, start, end in spans if start < end}
        return {id_: self.matrix[order[start:end]] for id_, start, end in spans if start < end}

    def _is_sorted(self) -> bool:
        """Whether the episodes stand by id, as they do until one is edited or embedded late."""
        return bool((self.episode_of[1:] >= self.episode_of[:-1]).all())

    def _places(
        self, sessions: Sequence[int] | None, exclude: Collection[int], only: Sequence[int] | None
    ) -> Ints | None:
        """The rows that may be seen, None for all of them."""
        if sessions is None and not exclude and only is None:
            return None
        seen = np.ones(len(self.episode_of), dtype=bool)
        if sessions is not None:
            seen = np.isin(self.session_of, np.asarray(sessions, dtype=np.int64))
        if only is not None:
            seen &= np.isin(self.episode_of, np.asarray(only, dtype=np.int64))
        if exclude:
            seen &= ~np.isin(self.episode_of, np.asarray(sorted(exclude), dtype=np.int64))
        return np.flatnonzero(seen)


class ExactIndex:
    """`VectorIndex` over the store's own file."""

    computes_beside = True

    def __init__(self, store: Store, model: ModelInfo) -> None:
        self._store = store
        self._model = model
        self._lock = threading.Lock()
        self._snapshot: _Snapshot | None = None

    def put(self, pieces: Iterable[tuple[int, Floats]]) -> None:
        """Set the vectors of episodes: for each its pieces, shape (pieces, dimension), unit length."""
        with self._store.write() as db:
            stored.put(db, self._model.key, pieces)

    def prepare(self, scope: Scope, exclude: Collection[int], limit: int) -> VectorSearch:
        """A search for the best `limit` episodes in scope, without the excluded, in the state that the caller sees."""
        with self._store.read() as db:
            self._check_model(db)
            sessions = rows.sessions_in_scope(db, scope)
            said = rows.within_times(db, scope) if scope.times else None
            snapshot = self._current(db)
        return lambda vector: snapshot.search(vector, sessions, exclude, limit, said)

    def score(self, vector: Floats, ids: Sequence[int]) -> dict[int, float]:
        """The cosine of each given episode that has a vector."""
        return best(self.vectors(ids), vector)

    def vectors(self, ids: Collection[int]) -> dict[int, Floats]:
        """The pieces, shape (pieces, dimension), of each given episode that has a vector."""
        with self._store.read() as db:
            self._check_model(db)
            return self._current(db).pieces_of(ids)

    def missing(self, after: int, limit: int) -> list[int]:
        """Up to `limit` episodes above the id `after` that have no vector of this model, in order."""
        with self._store.read() as db:
            return stored.missing(db, models.find(db, self._model.key), after, limit)

    def is_current(self) -> bool:
        """Whether this model's vectors are the ones that are searched, or there are none of any model."""
        with self._store.read() as db:
            return models.current(db) in (None, self._model.key)

    def switch(self) -> None:
        """Make this model's vectors the ones that are searched."""
        with self._store.write() as db:
            models.switch(db, self._model.key)

    def counts(self) -> tuple[int, int]:
        """How many episodes have a vector of this model, and how many that are not hidden have none."""
        with self._store.read() as db:
            have = stored.embedded(db, models.find(db, self._model.key))
            return have, rows.recalled(db) - have

    def _check_model(self, db: apsw.Connection) -> None:
        current = models.current(db)
        if current not in (None, self._model.key):
            raise ModelMismatch(self._model.refuses(current))

    def _current(self, db: apsw.Connection) -> _Snapshot:
        """The state that `db`'s transaction sees, or a newer one that another thread has loaded."""
        with self._lock:
            removed = stored.removed(db)
            old = self._snapshot or self._empty()
            if removed > old.removed:
                old = self._without_removed(db, old, removed)
            snapshot = self._with_new(db, old)
            if db.txn_state() != apsw.SQLITE_TXN_WRITE:  # what is not committed yet may never be
                self._snapshot = snapshot
            return snapshot

    def _empty(self) -> _Snapshot:
        none: Ints = np.empty(0, dtype=np.int64)
        return _Snapshot(np.empty((0, self._model.dimension), dtype=np.float32), none, none, none, 0, 0)

    def _without_removed(self, db: apsw.Connection, old: _Snapshot, removed: int) -> _Snapshot:
        left = np.fromiter(stored.ids(db), dtype=np.int64)
        kept = np.flatnonzero(np.isin(old.piece_ids, left))
        if len(kept) == len(old.piece_ids):
            return _Snapshot(old.matrix, old.piece_ids, old.episode_of, old.session_of, old.last, removed)
        return _Snapshot(
            old.matrix[kept], old.piece_ids[kept], old.episode_of[kept], old.session_of[kept], old.last, removed
        )

    def _with_new(self, db: apsw.Connection, old: _Snapshot) -> _Snapshot:
        new = (old.last, models.find(db, self._model.key))
        count, last = stored.newer(db, *new)
        # Of whatever model: ids only grow, and those that another one's build adds are not looked at twice.
        last = max(old.last, last)
        if not count:
            return old if last == old.last else replace(old, last=last)
        found = stored.after(db, *new)
        matrix, place = _room(old.matrix, count), len(old.matrix)
        numbers: Ints = np.empty((count, 3), dtype=np.int64)
        while chunk := list(islice(found, LOAD_ROWS)):  # the whole of it as Python objects would be far larger
            numbers[place - len(old.matrix) :][: len(chunk)] = [row[:3] for row in chunk]
            matrix[place : place + len(chunk)] = stored.matrix([row[3] for row in chunk], self._model.dimension)
            place += len(chunk)
        return _Snapshot(
            matrix,
            np.concatenate([old.piece_ids, numbers[:, 0]]),
            np.concatenate([old.episode_of, numbers[:, 1]]),
            np.concatenate([old.session_of, numbers[:, 2]]),
            last,
            old.removed,
        )


def _room(old: Floats, count: int) -> Floats:
    """`old` with `count` more rows to be filled: its buffer's spare rows where it has them, else a copy."""
    total = len(old) + count
    buffer = old.base if isinstance(old.base, np.ndarray) and old.base.ndim == 2 else None
    if buffer is None or len(buffer) < total:
        buffer = np.empty((max(FIRST_ROWS, total + total // 8), old.shape[1]), dtype=np.float32)
        buffer[: len(old)] = old
    return buffer[:total]


def _best_pieces(scores: Floats, episodes: Ints) -> tuple[Floats, Ints]:
    """Each episode's best score and the place it stands at; pieces of an episode stand side by side."""
    starts = np.flatnonzero(np.r_[True, episodes[1:] != episodes[:-1]])
    if len(starts) == len(scores):
        return scores, np.arange(len(scores))
    best = np.maximum.reduceat(scores, starts)
    owner = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(scores)]))
    at_best = np.flatnonzero(scores == best[owner])
    where = np.empty(len(starts), dtype=np.int64)
    where[owner[at_best[::-1]]] = at_best[::-1]
    return best, where


def _top(scores: Floats, count: int) -> Ints:
    """The places of the `count` highest scores, and of any that equal the last of them."""
    if count >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= least)


def cosines(matrix: Floats, vector: Floats) -> list[float]:
    """Dot products of unit vectors, summed alike whatever rows stand beside a row."""
    products: NDArray[np.float64] = (matrix.astype(np.float64) * vector.astype(np.float64)).sum(axis=1)
    return [float(product) for product in products]


def best(pieces: dict[int, Floats], vector: Floats) -> dict[int, float]:
    """The cosine of each episode's nearest piece."""
    if not pieces:
        return {}
    scores = np.array(cosines(np.concatenate(list(pieces.values())), vector))
    starts = np.cumsum([0, *map(len, pieces.values())])[:-1]
    return dict(zip(pieces, np.maximum.reduceat(scores, starts).tolist(), strict=True))
