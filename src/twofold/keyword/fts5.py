"""The keyword index inside the file: FTS5 finds candidates by their own words, BM25 ranks them with their context.

FTS5 indexes each episode's own terms and restricts a search by tokens in the index itself (`scope : ... AND
terms : ...`), so that it intersects posting lists instead of ranking the whole store. The best candidates and
their neighbours in the session are then scored with the neighbours' terms counted at a lower weight, as if
these were a second column: an answer is found by the words of its question. An episode that holds no term and
has no candidate beside it has no such score, so nothing is missed but the far end of the ranking.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import apsw
import numpy as np

from twofold.keyword import KeywordHits, faults
from twofold.keyword.bm25 import HASH_BYTES, K1, B, Document, Term, bm25, term_hash
from twofold.keyword.candidates import Candidates
from twofold.keyword.entries import Statistics, documents_of, look_up, neighbours_of, statistics
from twofold.keyword.outside import Outside
from twofold.store import Store, rows
from twofold.text import ANALYSER, LONGEST_TERM, compounds, terms_of
from twofold.types import Scope

CONTEXT_WEIGHT = 0.35  # of a term in a neighbour, against 1 in the episode itself
# Chosen on half of LoCoMo: the turns of a conversation want less of BM25's length normalisation than single texts,
# which keep FTS5's own constants (SciFact and CoSQA lose by these).
TURN_K1 = 0.9
TURN_B = 0.4
NEIGHBOURS = 2  # episodes before and after that count as context

# Measured on LoCoMo: with 100 candidates for 50 hits the ranking is that of scoring every row.
CANDIDATES = 2  # by their own words, for each hit that is asked for
LEAST_CANDIDATES = 100

MOST_TERMS = 64  # a pasted text is searched by its rarest terms


class Fts5Index:
    """`KeywordIndex` over the store's own file."""

    def __init__(self, store: Store, outside: Outside | None = None) -> None:
        self._store = store
        self._outside = outside
        if statistics(store.connection).analyser != ANALYSER:
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

    def search(
        self, terms: Sequence[str], scope: Scope, exclude: Collection[int], limit: int, *, own: bool = False
    ) -> KeywordHits:
        """The best `limit` episodes in scope, without the excluded, that hold a term or stand beside one that does.

        With `own` only those that hold one themselves.
        """
        with self._store.read() as db:
            counted = statistics(db)
            used = look_up(db, terms, counted)[:MOST_TERMS]

            def rate(documents: Sequence[Document]) -> list[float]:
                k1, b = (TURN_K1, TURN_B) if counted.are_conversations else (K1, B)
                return bm25(documents, used, counted.mean_length, context_weight=CONTEXT_WEIGHT, k1=k1, b=b)

            def score(ids: Sequence[int]) -> list[float]:
                documents = documents_of(db, ids)
                return rate([documents.get(id_, Document(0, b"", ())) for id_ in ids])

            blind = not used or limit <= 0 or (scope.kind == "sessions" and not scope.ids)
            # Excluded episodes may be the neighbours by whose words others are found: they count as candidates.
            wanted = max(LEAST_CANDIDATES, CANDIDATES * limit) + len(exclude)
            documents = {} if blind else self._candidates(db, counted, used, scope, wanted)
            beside = {near for document in documents.values() for near in document.near} - documents.keys()
            documents |= {} if own else documents_of(db, rows.in_time(db, beside - set(exclude), scope))
        scores = rate(list(documents.values()))
        hits = [(id_, s) for id_, s in zip(documents, scores, strict=True) if s > 0.0 and id_ not in exclude]
        ranking = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit] if limit > 0 else []
        shown = tuple(term.text for term in used)
        return KeywordHits(ranking, shown, tuple(term for term in terms if term not in set(shown)), score)

    def _candidates(
        self, db: apsw.Connection, counted: Statistics, used: Sequence[Term], scope: Scope, wanted: int
    ) -> dict[int, Document]:
        """The best by their own words; of the engine outside, if there is one and it knows enough."""
        found = self._outside.best(db, used, scope, wanted) if self._outside else None
        return documents_of(db, Candidates(db, counted, scope).best(used, wanted)) if found is None else found

    def neighbours(self, ids: Collection[int]) -> dict[int, Sequence[int]]:
        """Who stands beside each of these episodes in its session, near enough to count as its context."""
        with self._store.read() as db:
            return neighbours_of(db, ids)

    def are_conversations(self) -> bool:
        """Whether the store holds conversations rather than single texts, by what an average entry consists of."""
        with self._store.read() as db:
            return statistics(db).are_conversations

    def faults(self) -> dict[str, int]:
        """What is wrong with the index, by sentences, and how often: every entry is made again and compared."""
        with self._store.read() as db:
            return faults.found(db, NEIGHBOURS)

    def purge(self) -> None:
        """Merge the index into one piece, so that the terms of removed episodes are in none."""
        with self._store.write() as db:
            db.execute("INSERT INTO keyword (keyword) VALUES ('optimize')")


def _by_session(db: apsw.Connection, ids: Iterable[int]) -> Iterator[tuple[int, str, list[int]]]:
    """The episodes that are not hidden, by session, with the tokens that name the session and its project."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    found = db.execute(
        f"""SELECT e.id, s.id, ifnull(s.project_id, 0) FROM episodes e JOIN sessions s ON s.id = e.session_id
        WHERE e.id IN (SELECT value FROM json_each(?)) AND {rows.SHOWN} ORDER BY e.time, e.id""",
        (json.dumps(list(ids)),),
    )
    for id_, session, project in found:
        groups[session, f"#{session} +{project}"].append(id_)
    for (session, scope), members in groups.items():
        yield session, scope, members


def _stretch(db: apsw.Connection, session: int, members: list[int]) -> list[int]:
    """The ids of a session's part from the first member to the last, with enough more on both sides that the
    neighbours of the members' neighbours are among them."""
    held: int = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM episodes WHERE session_id = ? LIMIT ?)", (session, len(members) + 1)
    ).get
    if held == len(members):  # they are all of it, as those of an imported session are
        return members
    edge = f"""(SELECT time, id FROM episodes e WHERE session_id = :session AND {rows.SHOWN} AND (time, id) {{0}}
        (SELECT time, id FROM episodes WHERE id = {{1}}) ORDER BY time {{2}}, id {{2}} LIMIT {{3}})"""
    first = edge.format("<=", ":first", "DESC", 2 * NEIGHBOURS + 1)
    last = edge.format(">=", ":last", "ASC", 2 * NEIGHBOURS + 1)
    found = db.execute(
        f"""SELECT id FROM episodes e WHERE session_id = :session AND {rows.SHOWN}
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
    own = {id_: _entry(text) for id_, text in rows.contents(db, _near(order, members))} if members else {}
    documents = []
    for place, id_ in enumerate(order):
        if id_ in members:
            near = _beside(order, place)
            hashes = b"".join(own[one][1] for one in (id_, *near))
            documents.append((id_, len(own[id_][1]) // HASH_BYTES, hashes, np.array(near, dtype=np.int64).tobytes()))
    _drop_rows(db, members, changed)
    db.executemany(
        "INSERT INTO keyword (rowid, terms, scope) VALUES (?, ?, ?)",
        [(id_, own[id_][0], scope) for id_ in changed],
    )
    db.executemany("INSERT INTO keyword_docs (id, own, hashes, near) VALUES (?, ?, ?, ?)", documents)
    _count(db, documents, +1)


def _entry(text: str) -> tuple[str, bytes]:
    """A text as its terms, a blank after each, and as their hashes."""
    found = [_short_word(word) if len(word) <= LONGEST_TERM else _word(word) for word in compounds(text)]
    return "".join([terms for terms, _ in found]), b"".join([hashes for _, hashes in found])


def _word(compound: str) -> tuple[str, bytes]:
    terms = terms_of(compound)
    return "".join(f"{term} " for term in terms), array("I", map(term_hash, terms)).tobytes()


_short_word = lru_cache(maxsize=1 << 16)(_word)


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
