"""Entity search: by name and by meaning, over what one state of the file says of names and vectors.

A snapshot is made anew where the file has changed since, also by other processes, and never changed itself, so
that searches run side by side. Which entities may be seen is the caller's to say, and decides before ranking.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold import fusion
from twofold.mentions import words
from twofold.store import entities as stored
from twofold.text import fold, index_terms, stands_in

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Ranking = list[tuple[int, float]]

WEIGHTS = {"name": 0.5, "semantic": 0.5}
NEARLY = 0.9  # of 1 for a name that stands in the query: all its words do, but apart, inflected or inside others

# An entity that is not named is returned where its cosine stands by CLEARLY above what an unrelated one would have:
# the mean of the scope. Few entities may all be related, so that the mean is taken as if USUAL_ROWS others at
# USUAL_COSINE, the model's own for unrelated pairs, were there. On a sample of 26 queries and 16 entities (unrelated
# pairs .06, standard deviation .08) 15 of the 16 related ones are returned and 11 of the 400 others.
CLEARLY = 0.15
USUAL_COSINE = 0.06
USUAL_ROWS = 8
SLACK = 16  # candidates beyond the limit that are scored again, in double precision and row by row
DIGITS = 6  # of the mean, so that the order of summation cannot be seen


@dataclass(frozen=True, slots=True)
class Named:
    """A name of an entity, folded, and its words."""

    entity: int
    folded: str
    words: frozenset[str]

    def score(self, text: str, held: Collection[str]) -> float:
        """How far a folded text whose terms are `held` names it: 0 not at all, 1 where the name stands in it."""
        if not self.words:
            return float(self.folded == text)
        share = sum(word in held for word in self.words) / len(self.words)
        return 1.0 if share == 1.0 and stands_in(self.folded, text) else min(share, NEARLY)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The names of all entities, and their vectors of one model, at one state of the file."""

    changed: int
    model: int
    names: Mapping[str, Sequence[Named]]  # by each of their words; by the whole where they have none
    ids: Ints  # of the entities with a vector, rising
    matrix: Floats  # (entities, dimension), unit length

    def search(self, text: str, vector: Floats | None, visible: Sequence[int], limit: int) -> Ranking:
        """The best `limit` of the visible entities (ids, rising) as (id, score), for a text and, if any, its vector."""
        by_name = self._by_name(text, set(visible))
        if vector is None or not len(self.ids):
            return [(hit.id, hit.score) for hit in fusion.convex({"name": by_name}, floors=[0.0], limit=limit)]
        by_meaning, floor = self._by_meaning(vector, np.asarray(visible, dtype=np.int64), dict(by_name), limit)
        fused = fusion.convex(
            {"name": by_name, "semantic": by_meaning},
            floors={"name": 0.0, "semantic": floor},
            weights=WEIGHTS,
            limit=limit,
        )
        return [(hit.id, hit.score) for hit in fused]

    def _by_name(self, text: str, visible: Collection[int]) -> Ranking:
        """The entities that a text names, in part at least; each as well as the best of its names."""
        folded, held = fold(text), set(index_terms(text))
        best: dict[int, float] = defaultdict(float)
        for named in {named for key in (*held, folded) for named in self.names.get(key, ())}:
            if named.entity in visible:
                best[named.entity] = max(best[named.entity], named.score(folded, held))
        return sorted(((id_, score) for id_, score in best.items() if score > 0.0), key=lambda hit: (-hit[1], hit[0]))

    def _by_meaning(self, vector: Floats, visible: Ints, named: Collection[int], limit: int) -> tuple[Ranking, float]:
        """The cosines of the named entities and of the best `limit` above the floor, and the floor."""
        places = np.flatnonzero(np.isin(self.ids, visible))
        rough = np.einsum("ij,j->i", self.matrix[places], vector)
        total = float(rough.sum(dtype=np.float64)) + USUAL_ROWS * USUAL_COSINE
        floor = round(total / (len(rough) + USUAL_ROWS) + CLEARLY, DIGITS)
        order = np.argsort(-rough, kind="stable")[: limit + SLACK]
        chosen = np.union1d(places[order], np.flatnonzero(np.isin(self.ids, sorted(named))))
        exact = (self.matrix[chosen].astype(np.float64) * vector.astype(np.float64)).sum(axis=1)
        scored = zip(self.ids[chosen].tolist(), exact.tolist(), strict=True)
        return [(id_, cosine) for id_, cosine in scored if cosine > floor or id_ in named], floor


class EntityIndex:
    """The snapshot of the moment, shared by every door and thread of a memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None

    def current(self, db: apsw.Connection, model: int) -> Snapshot:
        """The state that `db`'s transaction sees, with the vectors of the model of that number (0: none)."""
        changed = stored.changed(db)
        with self._lock:
            known = self._snapshot
            if known is not None and (known.changed, known.model) == (changed, model):
                return known
            snapshot = _load(db, changed, model)
            if db.txn_state() != apsw.SQLITE_TXN_WRITE:  # what is not committed yet may never be
                self._snapshot = snapshot
            return snapshot


def _load(db: apsw.Connection, changed: int, model: int) -> Snapshot:
    names: dict[str, list[Named]] = defaultdict(list)
    for entity, folded in stored.all_names(db):
        named = Named(entity, folded, frozenset(words(folded)))
        for key in named.words or (folded,):
            names[key].append(named)
    vectors = stored.vectors(db, model)
    flat = np.frombuffer(b"".join(blob for _, blob in vectors), dtype=np.float16).astype(np.float32)
    ids = np.array([id_ for id_, _ in vectors], dtype=np.int64)
    return Snapshot(changed, model, dict(names), ids, flat.reshape(len(vectors), -1) if vectors else flat.reshape(0, 0))
