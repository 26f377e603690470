"""The keyword index inside the file: an FTS5 table of terms, ranked by BM25 with neighbours as context.

A search restricts by tokens in the index itself (`scope : ... AND {terms context} : ...`), so that FTS5
intersects posting lists instead of ranking the whole store. The formula is FTS5's own bm25(): Robertson and
Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with k1 = 1.2 and b = 0.75.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold.keyword import KeywordHits
from twofold.store import Store, rows
from twofold.text import ANALYSER, index_terms
from twofold.types import Scope

K1 = 1.2
B = 0.75
CONTEXT_WEIGHT = 0.35  # of a term in a neighbour, against 1 in the episode itself
NEIGHBOURS = 2  # episodes before and after that count as context
LEAST_IDF = 1e-6  # bm25()'s: a term that most rows hold still ranks

MOST_TERMS = 64  # a pasted text is searched by its rarest terms
MOST_LOOKUPS = 1024  # of a longer one only so many, the longest words, are looked up at all
PRUNE_ABOVE = 20_000  # postings; below, ranking all of them is faster than thinking about it
PRUNE_FETCH = 1_000  # rows that may have to be scored to make up for terms left out
MOST_SCOPE_TOKENS = 64  # sessions named in the expression; each costs FTS5 20 us, more are joined instead

HASH_BYTES = 4
_SCOPE_TOKENS = 2  # every row names a session and a project


@dataclass(frozen=True, slots=True)
class _Term:
    """A query term that the index holds."""

    text: str
    rows: int
    idf: float

    @property
    def most(self) -> float:
        """More than this a term adds to no row's score, however often the row holds it."""
        return self.idf * (K1 + 1.0)


class Fts5Index:
    """`KeywordIndex` over the store's own file."""

    def __init__(self, store: Store) -> None:
        self._store = store
        if _statistics(store.connection).analyser != ANALYSER:
            self.rebuild()

    def rebuild(self) -> None:
        """Make the whole index anew from the rows."""
        with self._store.write() as db:
            db.execute("INSERT INTO keyword (keyword) VALUES ('delete-all')")
            db.execute("DELETE FROM keyword_docs")
            db.execute("UPDATE counters SET value = 0 WHERE name LIKE 'keyword_%'")
            for session in rows.sessions(db, None):
                self.put(rows.episodes_in_scope(db, Scope("sessions", (session.id,))))
            db.execute("UPDATE counters SET value = ? WHERE name = 'keyword_analyser'", (ANALYSER,))

    def put(self, ids: Iterable[int]) -> None:
        """Make the entries of these episodes, and of those whose neighbours they are, what the rows say now."""
        with self._store.write() as db:
            for session, scope, members in _by_session(db, ids):
                order = _stretch(db, session, members)
                _put_rows(db, scope, order, _near(order, members))

    def remove(self, ids: Iterable[int]) -> None:
        """Drop the entries of these episodes, whose rows are still there; their neighbours close the gap."""
        with self._store.write() as db:
            removed = set(ids)
            for session, scope, members in _by_session(db, removed):
                order = _stretch(db, session, members)
                left = [id_ for id_ in order if id_ not in removed]
                _put_rows(db, scope, left, _near(order, members) - removed)
            _drop_rows(db, removed)

    def search(self, terms: Sequence[str], scope: Scope, exclude: Collection[int], limit: int) -> KeywordHits:
        """The best `limit` episodes in scope, without the excluded, that hold at least one term."""
        with self._store.read() as db:
            known = _look_up(db, terms)
            used = known[:MOST_TERMS]
            shown = tuple(term.text for term in used)
            left_out = tuple(term for term in terms if term not in set(shown))
            if not used or limit <= 0 or (scope.kind == "sessions" and not scope.ids):
                return KeywordHits([], shown, left_out)
            search = _Search(db, scope, exclude)
            prune = scope.kind == "all" and sum(term.rows for term in used) > PRUNE_ABOVE
            ranking = search.pruned(used, limit) if prune else None
            return KeywordHits(search.ranked(used, limit) if ranking is None else ranking, shown, left_out)

    def score(self, terms: Sequence[str], ids: Sequence[int]) -> list[float]:
        """For each given episode the score that `search` would give it; 0 where it holds no term."""
        with self._store.read() as db:
            return _score(db, _look_up(db, terms)[:MOST_TERMS], ids)

    def context_share(self) -> float:
        """How much of an average entry its neighbours' words are: 0 for single texts, 0.8 for long conversations."""
        with self._store.read() as db:
            counted = _statistics(db)
            return counted.context / max(counted.own + counted.context, 1)

    def check(self) -> None:
        """FTS5's own integrity check. Raises StoreError when the index is damaged."""
        with self._store.write() as db:
            db.execute("INSERT INTO keyword (keyword) VALUES ('integrity-check')")

    def purge(self) -> None:
        """Merge the index into one piece, so that the terms of removed episodes are in none."""
        with self._store.write() as db:
            db.execute("INSERT INTO keyword (keyword) VALUES ('optimize')")


class _Search:
    """One query's view of the index: what it may see, and the two ways to the best rows."""

    def __init__(self, db: apsw.Connection, scope: Scope, exclude: Collection[int]) -> None:
        self._db = db
        self._exclude = json.dumps(sorted(exclude))
        few = len(scope.ids) <= MOST_SCOPE_TOKENS
        self._expression = _scope_expression(scope) if few else ""
        self._sessions = None if few else json.dumps(scope.ids)

    def ranked(self, terms: Sequence[_Term], limit: int) -> list[tuple[int, float]]:
        """Let FTS5 score every row that holds a term."""
        any_term = " OR ".join(f'"{term.text}"' for term in terms)
        found: Any = self._db.execute(
            f"""SELECT rowid, -bm25(keyword, 1.0, {CONTEXT_WEIGHT}, 0.0) AS score FROM keyword
            WHERE keyword MATCH ?1 AND rowid NOT IN (SELECT value FROM json_each(?2))
            AND (?3 IS NULL OR +rowid IN (
                SELECT id FROM episodes WHERE session_id IN (SELECT value FROM json_each(?3))))
            ORDER BY score DESC, rowid LIMIT ?4""",
            (f"{self._expression}{{terms context}} : ({any_term})", self._exclude, self._sessions, limit),
        )
        return list(found)

    def pruned(self, terms: Sequence[_Term], limit: int) -> list[tuple[int, float]] | None:
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
        ids = [id_ for id_, _ in partial]
        full = sorted(zip(ids, _score(self._db, terms, ids), strict=True), key=lambda hit: (-hit[1], hit[0]))
        if len(full) < limit:
            return None
        theta, rest = full[limit - 1][1], _most(terms[kept:])
        if rest >= theta or (len(partial) == PRUNE_FETCH and partial[-1][1] + rest >= theta):
            return None
        return full[:limit]

    def _threshold(self, terms: Sequence[_Term], rare: Sequence[_Term], limit: int) -> float:
        """A score that at least `limit` rows reach; 0 if there are not so many."""
        ids = [id_ for id_, _ in self.ranked(rare, limit)]
        scores = _score(self._db, terms, ids)
        return min(scores) if len(scores) == limit else 0.0


def _most(terms: Iterable[_Term]) -> float:
    return sum(term.most for term in terms)


def _enough_rows(terms: Sequence[_Term], wanted: int) -> int:
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


def _look_up(db: apsw.Connection, terms: Sequence[str]) -> list[_Term]:
    """The terms that the index holds, rarest first."""
    total = _statistics(db).rows
    asked = terms if len(terms) <= MOST_LOOKUPS else sorted(terms, key=len, reverse=True)[:MOST_LOOKUPS]
    found = db.execute(
        "SELECT term, doc FROM keyword_terms WHERE term IN (SELECT value FROM json_each(?)) ORDER BY doc, term",
        (json.dumps(list(asked)),),
    )
    return [_Term(term, held, _idf(total, held)) for term, held in found]


def _idf(total: int, held: int) -> float:
    idf = math.log((total - held + 0.5) / (held + 0.5))
    return idf if idf > 0.0 else LEAST_IDF


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What the file counts: the index's rows, their tokens by column, and which analyser made them."""

    rows: int
    own: int
    context: int
    analyser: int

    @property
    def mean_length(self) -> float:
        """Tokens of an average row, those of its scope included."""
        return (self.own + self.context) / max(self.rows, 1) + _SCOPE_TOKENS


def _statistics(db: apsw.Connection) -> _Statistics:
    counted: Any = db.execute("SELECT name, value FROM counters WHERE name LIKE 'keyword_%'")
    return _Statistics(**{name.removeprefix("keyword_"): value for name, value in counted})


def _score(db: apsw.Connection, terms: Sequence[_Term], ids: Sequence[int]) -> list[float]:
    """BM25 of given rows from their hashed terms, the same arithmetic as bm25() in the same order."""
    if not terms or not ids:
        return [0.0] * len(ids)
    average = _statistics(db).mean_length
    documents = {
        id_: (own, blob)
        for id_, own, blob in db.execute(
            "SELECT id, own, hashes FROM keyword_docs WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids)),),
        )
    }
    found = [documents.get(id_, (0, b"")) for id_ in ids]
    lengths = np.array([len(blob) // HASH_BYTES for _, blob in found])
    hashes = np.frombuffer(b"".join(blob for _, blob in found), dtype=np.uint32)
    row = np.repeat(np.arange(len(ids)), lengths)
    place = np.arange(len(hashes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    weight = np.where(place < np.array([own for own, _ in found])[row], 1.0, CONTEXT_WEIGHT)
    saturation = K1 * (1.0 - B + B * (lengths + _SCOPE_TOKENS) / average)
    scores: NDArray[np.float64] = np.zeros(len(ids))
    for term in terms:
        at = np.flatnonzero(hashes == _hash(term.text))
        frequency = np.bincount(row[at], weights=weight[at], minlength=len(ids))
        scores += term.idf * ((frequency * (K1 + 1.0)) / (frequency + saturation))
    return [float(score) for score in scores]


@lru_cache(maxsize=1 << 16)
def _hash(term: str) -> int:
    return zlib.crc32(term.encode())


def _by_session(db: apsw.Connection, ids: Iterable[int]) -> Iterator[tuple[int, str, list[int]]]:
    """The episodes grouped by session, with the tokens that name the session and its project."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    found = db.execute(
        """SELECT e.id, s.id, ifnull(s.project_id, 0) FROM episodes e JOIN sessions s ON s.id = e.session_id
        WHERE e.id IN (SELECT value FROM json_each(?)) ORDER BY e.time, e.id""",
        (json.dumps(list(ids)),),
    )
    for id_, session, project in found:
        groups[session, f"#{session} +{project}"].append(id_)
    for (session, scope), members in groups.items():
        yield session, scope, members


def _stretch(db: apsw.Connection, session: int, members: list[int]) -> list[int]:
    """The ids of a session's part from the first member to the last, with enough more on both sides that the
    neighbours of the members' neighbours are among them."""
    edge = """(SELECT time, id FROM episodes WHERE session_id = :session AND (time, id) {0}
        (SELECT time, id FROM episodes WHERE id = {1}) ORDER BY time {2}, id {2} LIMIT {3})"""
    first = edge.format("<=", ":first", "DESC", 2 * NEIGHBOURS + 1)
    last = edge.format(">=", ":last", "ASC", 2 * NEIGHBOURS + 1)
    found = db.execute(
        f"""SELECT id FROM episodes WHERE session_id = :session
        AND (time, id) >= (SELECT time, id FROM {first} ORDER BY time, id LIMIT 1)
        AND (time, id) <= (SELECT time, id FROM {last} ORDER BY time DESC, id DESC LIMIT 1)
        ORDER BY time, id""",
        {"session": session, "first": members[0], "last": members[-1]},
    )
    return [row[0] for row in found]


def _beside(order: Sequence[int], place: int) -> list[int]:
    """The neighbours of what stands at a place."""
    return [*order[max(0, place - NEIGHBOURS) : place], *order[place + 1 : place + 1 + NEIGHBOURS]]


def _near(order: Sequence[int], members: Collection[int]) -> set[int]:
    """The members and their neighbours."""
    place = {id_: place for place, id_ in enumerate(order)}
    return set(members) | {id_ for member in members for id_ in _beside(order, place[member])}


def _put_rows(db: apsw.Connection, scope: str, order: list[int], members: set[int]) -> None:
    """Write the entries of `members`, which stand in `order` with their neighbours."""
    own = {id_: index_terms(text) for id_, text in rows.contents(db, _near(order, members))} if members else {}
    _drop_rows(db, members)
    index, documents = [], []
    for place, id_ in enumerate(order):
        if id_ not in members:
            continue
        context = [term for neighbour in _beside(order, place) for term in own[neighbour]]
        index.append((id_, " ".join(own[id_]), " ".join(context), scope))
        hashes = np.fromiter(map(_hash, own[id_] + context), dtype=np.uint32, count=len(own[id_]) + len(context))
        documents.append((id_, len(own[id_]), hashes.tobytes()))
    db.executemany("INSERT INTO keyword (rowid, terms, context, scope) VALUES (?, ?, ?, ?)", index)
    db.executemany("INSERT INTO keyword_docs (id, own, hashes) VALUES (?, ?, ?)", documents)
    _count(db, documents, +1)


def _drop_rows(db: apsw.Connection, ids: Collection[int]) -> None:
    listed = json.dumps(sorted(ids))
    chosen = "IN (SELECT value FROM json_each(?))"
    documents: Any = db.execute(f"SELECT id, own, hashes FROM keyword_docs WHERE id {chosen}", (listed,)).fetchall()
    if documents:
        db.execute(f"DELETE FROM keyword WHERE rowid {chosen}", (listed,))
        db.execute(f"DELETE FROM keyword_docs WHERE id {chosen}", (listed,))
        _count(db, documents, -1)


def _count(db: apsw.Connection, documents: Sequence[tuple[int, int, bytes]], sign: int) -> None:
    """Keep the counters in step with rows that come (sign 1) or go (-1)."""
    own = sum(own for _, own, _ in documents)
    tokens = sum(len(hashes) // HASH_BYTES for _, _, hashes in documents)
    for name, number in (("rows", len(documents)), ("own", own), ("context", tokens - own)):
        db.execute("UPDATE counters SET value = value + ? WHERE name = ?", (sign * number, f"keyword_{name}"))
