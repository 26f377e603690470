"""What the index holds, read from its tables: its counts, its terms, its entries."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from twofold.keyword.bm25 import SCOPE_TOKENS, Document, Term, inverse_frequency
from twofold.store import rows
from twofold.types import Scope

MOST_LOOKUPS = 1024  # of a query's terms so many are looked up; of a longer one the longest words


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the file counts: the index's rows, their tokens by column, and which analyser made them."""

    rows: int
    own: int
    context: int
    analyser: int

    @property
    def mean_own_length(self) -> float:
        """Tokens of an average row of the FTS5 table."""
        return self.own / max(self.rows, 1) + SCOPE_TOKENS

    @property
    def are_conversations(self) -> bool:
        """Whether at least half of an average entry is its neighbours' words."""
        return self.context >= max(self.own, 1)

    @property
    def mean_length(self) -> float:
        """Tokens of an average row with its context."""
        return self.mean_own_length + self.context / max(self.rows, 1)


def statistics(db: apsw.Connection) -> Statistics:
    """The index's counters, as of the caller's transaction."""
    counted: Any = db.execute("SELECT name, value FROM counters WHERE name LIKE 'keyword_%'")
    return Statistics(**{name.removeprefix("keyword_"): value for name, value in counted})


def look_up(db: apsw.Connection, terms: Sequence[str], counted: Statistics) -> list[Term]:
    """The terms that the index holds, rarest first."""
    asked = terms if len(terms) <= MOST_LOOKUPS else sorted(terms, key=len, reverse=True)[:MOST_LOOKUPS]
    found = db.execute(
        "SELECT term, doc FROM keyword_terms WHERE term IN (SELECT value FROM json_each(?)) ORDER BY doc, term",
        (json.dumps(list(asked)),),
    )
    return [Term(term, held, inverse_frequency(counted.rows, held)) for term, held in found]


def documents_of(db: apsw.Connection, ids: Collection[int]) -> dict[int, Document]:
    """The entries of the given episodes that have one, in the order of the ids."""
    if not ids:
        return {}
    found: Any = db.execute(
        "SELECT id, own, hashes, near FROM keyword_docs WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(ids)),),
    )
    return {id_: Document(own, hashes, memoryview(near).cast("q")) for id_, own, hashes, near in found}


def neighbours_of(db: apsw.Connection, ids: Collection[int]) -> dict[int, Sequence[int]]:
    """The neighbours of the given episodes that have an entry."""
    found: Any = db.execute(
        "SELECT id, near FROM keyword_docs WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(ids)),)
    )
    return {id_: memoryview(near).cast("q").tolist() for id_, near in found}


def located(db: apsw.Connection, ids: Collection[int]) -> list[tuple[int, int, int, int, bytes]]:
    """Those of the given episodes that have an entry: id, session, project (0 for none), own and hashes."""
    found: Any = db.execute(
        """SELECT d.id, e.session_id, ifnull(s.project_id, 0), d.own, d.hashes FROM keyword_docs d
        JOIN episodes e ON e.id = d.id JOIN sessions s ON s.id = e.session_id
        WHERE d.id IN (SELECT value FROM json_each(?)) ORDER BY d.id""",
        (json.dumps(sorted(ids)),),
    )
    return list(found)


def seen(db: apsw.Connection, ids: Collection[int], scope: Scope) -> list[int]:
    """Those of the given episodes that the scope may see, rising."""
    sessions = rows.sessions_in_scope(db, scope)
    found = db.execute(
        """SELECT id FROM episodes WHERE id IN (SELECT value FROM json_each(?1))
        AND (?2 IS NULL OR session_id IN (SELECT value FROM json_each(?2))) ORDER BY id""",
        (json.dumps(sorted(ids)), None if sessions is None else json.dumps(sessions)),
    )
    return rows.in_time(db, [row[0] for row in found], scope)
