"""The keyword index inside the file: FTS5 finds candidates by their own words, BM25 ranks them with their context.

FTS5 indexes each episode's own terms and restricts a search by tokens in the index itself (`scope : ... AND
terms : ...`), so that it intersects posting lists instead of ranking the whole store. The best candidates and
their neighbours in the session are then scored with the neighbours' terms counted at a lower weight, as if
these were a second column: an answer is found by the words of its question. An episode that holds no term and
has no candidate beside it has no such score, so nothing is missed but the far end of the ranking.

The formula is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009)
with FTS5's constants.
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

# Measured on LoCoMo: with 100 candidates for 50 hits the ranking is that of scoring every row.
CANDIDATES = 2  # by their own words, for each hit that is asked for
LEAST_CANDIDATES = 100

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
                _put_rows(db, scope, order, _near(order, members), members)

    def remove(self, ids: Iterable[int]) -> None:
        """Drop the entries of these episodes, whose rows are still there; their neighbours close the gap."""
        with self._store.write() as db:
            removed = set(ids)
            for session, scope, members in _by_session(db, removed):
                order = _stretch(db, session, members)
                left = [id_ for id_ in order if id_ not in removed]
                _put_rows(db, scope, left, _near(order, members) - removed, ())
            _drop_rows(db, removed, removed)

    def search(self, terms: Sequence[str], scope: Scope, exclude: Collection[int], limit: int) -> KeywordHits:
        """The best `limit` episodes in scope, without the excluded, that hold a term or stand beside one that does."""
        with self._store.read() as db:
            counted = _statistics(db)
            known = _look_up(db, terms, counted)
            used = known[:MOST_TERMS]
            shown = tuple(term.text for term in used)
            left_out = tuple(term for term in terms if term not in set(shown))
            if not used or limit <= 0 or (scope.kind == "sessions" and not scope.ids):
                return KeywordHits([], shown, left_out)
            # Excluded episodes may be the neighbours by whose words others are found: they count as candidates.
            wanted = max(LEAST_CANDIDATES, CANDIDATES * limit) + len(exclude)
            candidates = _Candidates(db, counted, scope).best(used, wanted)
            documents = _documents(db, candidates)
            beside = {near for document in documents.values() for near in document.near} - documents.keys()
            documents |= _documents(db, beside - set(exclude))
            scores = _score(list(documents.values()), used, counted.mean_length, CONTEXT_WEIGHT)
        hits = [
            (id_, score) for id_, score in zip(documents, scores, strict=True) if id_ not in exclude and score > 0.0
        ]
        return KeywordHits(sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit], shown, left_out)

    def score(self, terms: Sequence[str], ids: Sequence[int]) -> list[float]:
        """For each given episode the score that `search` would give it; 0 where there is no term in sight."""
        with self._store.read() as db:
            counted = _statistics(db)
            used = _look_up(db, terms, counted)[:MOST_TERMS]
            documents = _documents(db, ids)
        found = [documents.get(id_, _Document(0, b"", ())) for id_ in ids]
        return _score(found, used, counted.mean_length, CONTEXT_WEIGHT)

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


@dataclass(frozen=True, slots=True)
class _Document:
    """An entry of the index: how many of its hashed terms are its own, these terms, and who stands beside it."""

    own: int
    hashes: bytes
    near: Sequence[int]


class _Candidates:
    """The episodes in scope whose own words fit best, by FTS5's bm25()."""

    def __init__(self, db: apsw.Connection, counted: _Statistics, scope: Scope) -> None:
        self._db = db
        self._counted = counted
        self._prunes = scope.kind == "all"
        few = len(scope.ids) <= MOST_SCOPE_TOKENS
        self._expression = _scope_expression(scope) if few else ""
        self._sessions = None if few else json.dumps(scope.ids)

    def best(self, terms: Sequence[_Term], limit: int) -> list[int]:
        """The ids of the best `limit`, in order."""
        prune = self._prunes and sum(term.rows for term in terms) > PRUNE_ABOVE
        ranking = self.pruned(terms, limit) if prune else None
        return [id_ for id_, _ in (self.ranked(terms, limit) if ranking is None else ranking)]

    def ranked(self, terms: Sequence[_Term], limit: int) -> list[tuple[int, float]]:
        """Let FTS5 score every row that holds a term."""
        any_term = " OR ".join(f'"{term.text}"' for term in terms)
        found: Any = self._db.execute(
            """SELECT rowid, -bm25(keyword) AS score FROM keyword WHERE keyword MATCH ?1
            AND (?2 IS NULL OR +rowid IN (
                SELECT id FROM episodes WHERE session_id IN (SELECT value FROM json_each(?2))))
            ORDER BY score DESC, rowid LIMIT ?3""",
            (f"{self._expression}terms : ({any_term})", self._sessions, limit),
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
        full = self._scored([id_ for id_, _ in partial], terms)
        if len(full) < limit:
            return None
        theta, rest = full[limit - 1][1], _most(terms[kept:])
        if rest >= theta or (len(partial) == PRUNE_FETCH and partial[-1][1] + rest >= theta):
            return None
        return full[:limit]

    def _threshold(self, terms: Sequence[_Term], rare: Sequence[_Term], limit: int) -> float:
        """A score that at least `limit` rows reach; 0 if there are not so many."""
        scored = self._scored([id_ for id_, _ in self.ranked(rare, limit)], terms)
        return scored[-1][1] if len(scored) == limit else 0.0

    def _scored(self, ids: Sequence[int], terms: Sequence[_Term]) -> list[tuple[int, float]]:
        """Given rows with the score that bm25() gives them for all terms, best first."""
        documents = _documents(self._db, ids)
        own = [_Document(d.own, d.hashes[: d.own * HASH_BYTES], ()) for d in documents.values()]
        scores = _score(own, terms, self._counted.mean_own_length, 0.0)
        return sorted(zip(documents, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))


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


def _look_up(db: apsw.Connection, terms: Sequence[str], counted: _Statistics) -> list[_Term]:
    """The terms that the index holds, rarest first."""
    asked = terms if len(terms) <= MOST_LOOKUPS else sorted(terms, key=len, reverse=True)[:MOST_LOOKUPS]
    found = db.execute(
        "SELECT term, doc FROM keyword_terms WHERE term IN (SELECT value FROM json_each(?)) ORDER BY doc, term",
        (json.dumps(list(asked)),),
    )
    return [_Term(term, held, _idf(counted.rows, held)) for term, held in found]


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
    def mean_own_length(self) -> float:
        """Tokens of an average row of the FTS5 table."""
        return self.own / max(self.rows, 1) + _SCOPE_TOKENS

    @property
    def mean_length(self) -> float:
        """Tokens of an average row with its context."""
        return self.mean_own_length + self.context / max(self.rows, 1)


def _statistics(db: apsw.Connection) -> _Statistics:
    counted: Any = db.execute("SELECT name, value FROM counters WHERE name LIKE 'keyword_%'")
    return _Statistics(**{name.removeprefix("keyword_"): value for name, value in counted})


def _documents(db: apsw.Connection, ids: Collection[int]) -> dict[int, _Document]:
    """The entries of the given episodes that have one, in the order of the ids."""
    found: Any = db.execute(
        "SELECT id, own, hashes, near FROM keyword_docs WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(ids)),),
    )
    return {id_: _Document(own, hashes, memoryview(near).cast("q")) for id_, own, hashes, near in found}


def _score(
    documents: Sequence[_Document], terms: Sequence[_Term], mean_length: float, context_weight: float
) -> list[float]:
    """BM25 of entries from their hashed terms: bm25()'s arithmetic, so that both give the same number."""
    if not terms or not documents:
        return [0.0] * len(documents)
    hashes = np.frombuffer(b"".join(document.hashes for document in documents), dtype=np.uint32)
    lengths = np.array([len(document.hashes) // HASH_BYTES for document in documents])
    starts = np.cumsum(lengths) - lengths
    owns = np.array([document.own for document in documents])
    saturation = K1 * (1.0 - B + B * (lengths + _SCOPE_TOKENS) / mean_length)
    scores: NDArray[np.float64] = np.zeros(len(documents))
    for term in terms:
        at = np.flatnonzero(hashes == _hash(term.text))
        row = np.searchsorted(starts, at, side="right") - 1
        weight = np.where(at - starts[row] < owns[row], 1.0, context_weight)
        frequency = np.bincount(row, weights=weight, minlength=len(documents))
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


def _put_rows(db: apsw.Connection, scope: str, order: list[int], members: set[int], changed: Collection[int]) -> None:
    """Write the entries of `members`, which stand in `order`; FTS5's only for those whose own words changed."""
    own = {id_: index_terms(text) for id_, text in rows.contents(db, _near(order, members))} if members else {}
    documents = []
    for place, id_ in enumerate(order):
        if id_ in members:
            near = _beside(order, place)
            terms = own[id_] + [term for neighbour in near for term in own[neighbour]]
            hashes = np.fromiter(map(_hash, terms), dtype=np.uint32, count=len(terms))
            documents.append((id_, len(own[id_]), hashes.tobytes(), np.array(near, dtype=np.int64).tobytes()))
    _drop_rows(db, members, changed)
    db.executemany(
        "INSERT INTO keyword (rowid, terms, scope) VALUES (?, ?, ?)",
        [(id_, " ".join(own[id_]), scope) for id_ in changed],
    )
    db.executemany("INSERT INTO keyword_docs (id, own, hashes, near) VALUES (?, ?, ?, ?)", documents)
    _count(db, documents, +1)


def _drop_rows(db: apsw.Connection, ids: Collection[int], of_fts5: Collection[int]) -> None:
    listed = json.dumps(sorted(ids))
    chosen = "IN (SELECT value FROM json_each(?))"
    documents: Any = db.execute(
        f"SELECT id, own, hashes, near FROM keyword_docs WHERE id {chosen}", (listed,)
    ).fetchall()
    if documents:
        indexed = {document[0] for document in documents}
        db.executemany("DELETE FROM keyword WHERE rowid = ?", [(id_,) for id_ in of_fts5 if id_ in indexed])
        db.execute(f"DELETE FROM keyword_docs WHERE id {chosen}", (listed,))
        _count(db, documents, -1)


def _count(db: apsw.Connection, documents: Sequence[tuple[int, int, bytes, bytes]], sign: int) -> None:
    """Keep the counters in step with entries that come (sign 1) or go (-1)."""
    own = sum(document[1] for document in documents)
    tokens = sum(len(document[2]) // HASH_BYTES for document in documents)
    for name, number in (("rows", len(documents)), ("own", own), ("context", tokens - own)):
        db.execute("UPDATE counters SET value = value + ? WHERE name = ?", (sign * number, f"keyword_{name}"))
