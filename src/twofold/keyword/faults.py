"""What is wrong with the keyword index, seen from the texts: every entry is made again and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold.keyword.bm25 import HASH_BYTES, term_hash
from twofold.keyword.entries import statistics
from twofold.store.rows import SHOWN
from twofold.text import index_terms

# Each hash is spread over 64 bits before all are added, so that two bags of hashes hardly have the same sum.
MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)
MODULUS = 1 << 64


def found(db: apsw.Connection, neighbours: int) -> dict[str, int]:
    """What is wrong, by sentences, and how often; where FTS5's lists are damaged, they are not compared."""
    wrong = {
        "episodes have no entry, or another than their words make": differing_entries(db, neighbours),
        "counts by which words are weighed are not those of the entries": differing_counts(db),
        "entries belong to no episode": strangers(db),
    }
    if is_damaged(db):
        wrong["FTS5 finds its lists damaged"] = 1
    else:
        wrong["entries stand in one of the two tables alone"] = alone(db)
        wrong["FTS5's lists hold other words than the entries"] = int(lists_other_words(db))
    return {sentence: count for sentence, count in wrong.items() if count}


def is_damaged(db: apsw.Connection) -> bool:
    """Whether FTS5's own check of its lists finds a fault, or cannot be made."""
    try:
        # Its check looks at the state that this connection knows, which a search brings up to date.
        db.execute("SELECT rowid FROM keyword WHERE keyword MATCH 'terms : \"a\"' LIMIT 1").fetchall()
        return bool(db.execute("PRAGMA integrity_check(keyword)").get != "ok")
    except (apsw.CorruptError, apsw.SQLError):  # so it is where one of FTS5's own tables is gone
        return True


def differing_entries(db: apsw.Connection, neighbours: int) -> int:
    """How many episodes have no entry, or another one than their words and their neighbours' make."""
    reading: Any = db.execute(
        f"""SELECT e.session_id, e.id, e.content, d.own, d.hashes, d.near
        FROM episodes e LEFT JOIN keyword_docs d ON d.id = e.id WHERE {SHOWN} ORDER BY e.session_id, e.time, e.id"""
    )
    return sum(
        not _is_right(entry, beside)
        for _, session in groupby(reading, key=lambda row: row[0])
        for entry, beside in _with_neighbours(map(_hashed, session), neighbours)
    )


def strangers(db: apsw.Connection) -> int:
    """How many entries belong to no episode, or to one that is hidden."""
    count: int = db.execute(
        f"SELECT count(*) FROM keyword_docs WHERE id NOT IN (SELECT id FROM episodes e WHERE {SHOWN})"
    ).get
    return count


def alone(db: apsw.Connection) -> int:
    """How many entries stand in FTS5's table or in that of the hashes, and not in the other."""
    count: int = db.execute(
        """SELECT (SELECT count(*) FROM keyword_docs WHERE id NOT IN (SELECT rowid FROM keyword))
        + (SELECT count(*) FROM keyword WHERE rowid NOT IN (SELECT id FROM keyword_docs))"""
    ).get
    return count


def differing_counts(db: apsw.Connection) -> int:
    """How many of the counts by which words are weighed are not those of the entries."""
    row: Any = db.execute(
        f"""SELECT count(*), ifnull(sum(own), 0), ifnull(sum(length(hashes) / {HASH_BYTES} - own), 0)
        FROM keyword_docs"""
    ).fetchone()
    kept = statistics(db)
    return sum(one != other for one, other in zip(row, (kept.rows, kept.own, kept.context), strict=True))


def lists_other_words(db: apsw.Connection) -> bool:
    """Whether FTS5's lists hold other words than the entries, or other sessions and projects."""
    listed = held = 0
    for term, count in db.execute("SELECT term, cnt FROM keyword_terms"):
        listed += _mixed([term_hash(term)]) * count
    for size, hashes in db.execute("SELECT own, hashes FROM keyword_docs"):
        held += _mixed(np.frombuffer(hashes, dtype=np.uint32)[:size])
    for session, project, count in db.execute(
        """SELECT e.session_id, ifnull(s.project_id, 0), count(*) FROM keyword_docs d
        JOIN episodes e ON e.id = d.id JOIN sessions s ON s.id = e.session_id GROUP BY 1"""
    ):
        held += _mixed([term_hash(f"#{session}"), term_hash(f"+{project}")]) * count
    return listed % MODULUS != held % MODULUS


def _mixed(hashes: Sequence[int] | NDArray[np.uint32]) -> int:
    """A number for a bag of hashes, to which others may be added."""
    spread = np.asarray(hashes, dtype=np.uint64) * MIX
    return int((spread ^ (spread >> SHIFT)).sum(dtype=np.uint64))


Row = Sequence[Any]  # session, id, the hashes of the text's terms, then own, hashes and near as they are kept


def _hashed(row: Row) -> Row:
    session, id_, content, *kept = row
    return session, id_, np.array([term_hash(t) for t in index_terms(content)], dtype=np.uint32).tobytes(), *kept


def _with_neighbours(rows: Iterable[Row], neighbours: int) -> Iterator[tuple[Row, list[Row]]]:
    """Each row of a session with those beside it, without holding more of the session than these."""
    nobody: list[Row | None] = [None] * neighbours
    window: deque[Row | None] = deque(nobody, 2 * neighbours + 1)
    for row in chain(rows, nobody):
        window.append(row)
        if len(window) > 2 * neighbours and (middle := window[neighbours]) is not None:
            yield middle, [one for place, one in enumerate(window) if one is not None and place != neighbours]


def _is_right(entry: Row, beside: Sequence[Row]) -> bool:
    _, _, terms, own, hashes, near = entry
    ids = np.array([one[1] for one in beside], dtype=np.int64).tobytes()
    right = (len(terms) // HASH_BYTES, b"".join([terms, *(one[2] for one in beside)]), ids)
    return right == (own, hashes, near)
