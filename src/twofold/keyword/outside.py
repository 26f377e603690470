"""Candidates from an engine outside the file: episodes as sparse vectors of their own terms, weighed as in BM25."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import apsw
import numpy as np

from twofold.engines import Point, Terms
from twofold.engines.replica import Replica
from twofold.errors import EngineError
from twofold.keyword.bm25 import HASH_BYTES, K1, B, Document, Term, term_hash
from twofold.keyword.entries import documents_of, located, seen
from twofold.store import outbox
from twofold.store.outbox import Target
from twofold.types import Scope

MOST_PENDING = 2_000  # not delivered yet and looked through one by one; where there are more, FTS5 is asked


class Outside:
    """The episodes whose own words fit best, by a replica of the index."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def best(self, db: apsw.Connection, terms: Sequence[Term], scope: Scope, limit: int) -> dict[int, Document] | None:
        """About the best `limit`, by id, with all that the engine does not know yet; None where it cannot tell.

        It knows no times: of the best in scope there may be none within those of the scope.

        Then FTS5, which knows everything, is the one to ask: also where the engine is away.
        """
        if scope.times:
            return None
        try:
            serving = self._replica.serving(db)
            if serving is None:
                return None
            waiting = outbox.newest_of(db, serving[0].id, MOST_PENDING + 1)
            if len(waiting) > MOST_PENDING:
                return None
            query = Terms([term_hash(term.text) for term in terms], [1.0] * len(terms))
            found = serving[1].search(query, scope, (), limit)
        except EngineError:
            return None
        # What the engine knows of an episode may be late: which of them hold a term, the file says.
        return _holding(db, seen(db, {*found, *waiting}, scope), terms)


def points(db: apsw.Connection, target: Target, ids: Collection[int]) -> dict[int, Point]:
    """Those of the given episodes that are in the index, each with its own terms."""
    return {
        id_: Point(id_, session, project, weighed(hashes[: own * HASH_BYTES], target.length))
        for id_, session, project, own, hashes in located(db, ids)
        if own
    }


def weighed(hashes: bytes, mean_length: float) -> Terms:
    """Terms with BM25's weight of their frequency, which the engine multiplies by their rarity."""
    numbers, counts = np.unique(np.frombuffer(hashes, dtype=np.uint32), return_counts=True)
    length = int(counts.sum())
    saturation = K1 * (1.0 - B + B * length / max(mean_length, 1.0))
    return Terms(numbers.tolist(), (counts * (K1 + 1.0) / (counts + saturation)).tolist())


def _holding(db: apsw.Connection, ids: Sequence[int], terms: Sequence[Term]) -> dict[int, Document]:
    """Those of the episodes that hold one of the terms themselves."""
    documents = documents_of(db, ids)
    owns = [document.own for document in documents.values()]
    hashes = b"".join([document.hashes[: document.own * HASH_BYTES] for document in documents.values()])
    wanted = np.array([term_hash(term.text) for term in terms], dtype=np.uint32)
    owner = np.repeat(np.arange(len(owns)), owns)[np.isin(np.frombuffer(hashes, dtype=np.uint32), wanted)]
    holding = set(owner.tolist())
    return {id_: document for place, (id_, document) in enumerate(documents.items()) if place in holding}
