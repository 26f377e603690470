"""The episodes whose own words fit a query best: FTS5's ranking, or a shortcut that ends in the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from twofold.keyword.bm25 import HASH_BYTES, Document, Term, bm25
from twofold.keyword.entries import Statistics, documents_of
from twofold.types import Scope

PRUNE_ABOVE = 20_000  # postings; below, ranking all of them is faster than thinking about it
PRUNE_FETCH = 1_000  # rows that may have to be scored to make up for terms left out
MOST_SCOPE_TOKENS = 64  # sessions named in the expression; each costs FTS5 20 us, more are joined instead


class Candidates:
    """The episodes in scope whose own words fit best, by FTS5's bm25()."""

    def __init__(self, db: apsw.Connection, counted: Statistics, scope: Scope) -> None:
        self._db = db
        self._counted = counted
        self._prunes = scope.kind == "all" and scope.times is None
        self._times = scope.times or (None, None)
        few = len(scope.ids) <= MOST_SCOPE_TOKENS
        self._expression = _scope_expression(scope) if few else ""
        self._sessions = None if few else json.dumps(scope.ids)

    def best(self, terms: Sequence[Term], limit: int) -> list[int]:
        """The ids of the best `limit`, in order."""
        prune = self._prunes and sum(term.rows for term in terms) > PRUNE_ABOVE
        ranking = self.pruned(terms, limit) if prune else None
        return [id_ for id_, _ in (self.ranked(terms, limit) if ranking is None else ranking)]

    def ranked(self, terms: Sequence[Term], limit: int) -> list[tuple[int, float]]:
        """Let FTS5 score every row that holds a term."""
        any_term = " OR ".join(f'"{term.text}"' for term in terms)
        found: Any = self._db.execute(
            """SELECT rowid, -bm25(keyword) AS score FROM keyword WHERE keyword MATCH ?1
            AND (?2 IS NULL OR +rowid IN (
                SELECT id FROM episodes WHERE session_id IN (SELECT value FROM json_each(?2))))
            AND (?4 IS NULL OR EXISTS (
                SELECT 1 FROM episodes e WHERE e.id = keyword.rowid AND e.time >= ?4 AND e.time < ?5))
            ORDER BY score DESC, rowid LIMIT ?3""",
            (f"{self._expression}terms : ({any_term})", self._sessions, limit, *self._times),
        )
        return list(found)

    def pruned(self, terms: Sequence[Term], limit: int) -> list[tuple[int, float]] | None:
        """The same rows and scores as `ranked` without walking the common terms; None if that is not certain.

        As in MaxScore (Turtle and Flood 1995): a row that holds only left-out terms scores at most the sum
        of what these can add. Once `limit` rows are known to score more, it is out; and so is a row whose
        score by the other terms falls short of the worst of them by more than that sum.
        """
        rare = _enough_rows(terms, 4 * limit)
        theta = self._threshold(terms, terms[:rare], limit)
        kept = next((n for n in range(rare, len(terms)) if _most(terms[n:]) <= theta / 2.0), len(terms))
        if sum(t.rows for t in terms[kept:]) * 2 < sum(t.rows for t in terms):
            return None
        partial = self.ranked(terms[:kept], PRUNE_FETCH)
        full = self._scored([id_ for id_, _ in partial], terms)
        if len(full) < limit:
            return None
        theta, rest = full[limit - 1][1], _most(terms[kept:])
        if rest >= theta or (len(partial) == PRUNE_FETCH and partial[-1][1] + rest >= theta):
            return None
        return full[:limit]

    def _threshold(self, terms: Sequence[Term], rare: Sequence[Term], limit: int) -> float:
        """A score that at least `limit` rows reach; 0 if there are not so many."""
        scored = self._scored([id_ for id_, _ in self.ranked(rare, limit)], terms)
        return scored[-1][1] if len(scored) == limit else 0.0

    def _scored(self, ids: Sequence[int], terms: Sequence[Term]) -> list[tuple[int, float]]:
        """Given rows with the score that bm25() gives them for all terms, best first."""
        documents = documents_of(self._db, ids)
        own = [Document(d.own, d.hashes[: d.own * HASH_BYTES], ()) for d in documents.values()]
        scores = bm25(own, terms, self._counted.mean_own_length)
        return sorted(zip(documents, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))


def _most(terms: Iterable[Term]) -> float:
    return sum(term.most for term in terms)


def _enough_rows(terms: Sequence[Term], wanted: int) -> int:
    """How many of the terms, rarest first, have so many postings between them."""
    total = 0
    for count, term in enumerate(terms, start=1):
        total += term.rows
        if total >= wanted:
            return count
    return len(terms)


def _scope_expression(scope: Scope) -> str:
    if scope.kind == "all":
        return ""
    sign = "+" if scope.kind == "project" else "#"
    return "scope : (" + " OR ".join(f'"{sign}{id_}"' for id_ in scope.ids) + ") AND "
