"""The vectors of episodes in the file, and their sums by scope: float16 rows, one a piece of an episode.

A row's id is never used twice and a row is never changed, so that it names the same vector for ever, in every
index outside the file as well.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold.store import models
from twofold.store.rows import SHOWN, in_time, sessions_in_scope
from twofold.types import Scope

Floats = NDArray[np.float32]

ALL, PROJECT, SESSION = 0, 1, 2  # what a sum is of
SUM_ROWS = 4096  # vectors that are summed at once where all sums are made anew


def matrix(blobs: Sequence[bytes], dimension: int) -> Floats:
    """Rows of the file as an array of shape (rows, dimension)."""
    return np.frombuffer(b"".join(blobs), dtype=np.float16).reshape(len(blobs), dimension).astype(np.float32)


def put(db: apsw.Connection, model: models.Model, pieces: Iterable[tuple[int, Floats]]) -> None:
    """Set the vectors of a model for episodes: for each its pieces, shape (pieces, dimension), unit length."""
    number = models.make(db, model)
    rows = [(id_, row.astype(np.float16).tobytes()) for id_, vectors in pieces for row in vectors]
    episodes = {id_ for id_, _ in rows}
    remove(db, episodes, number)
    db.executemany("INSERT INTO vectors (model_id, episode_id, vector) VALUES (?, ?, ?)", [(number, *r) for r in rows])
    _count(db, _stored(db, episodes, number), +1)


def remove(db: apsw.Connection, episodes: Collection[int], model: int | None = None) -> None:
    """Delete the vectors of episodes, those of one model or of every one; their rows must still be there."""
    _count(db, _stored(db, episodes, model), -1)
    db.execute(
        "DELETE FROM vectors WHERE episode_id IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR model_id = ?2)",
        (json.dumps(sorted(episodes)), model),
    )


def pieces(db: apsw.Connection, model: int, dimension: int, episodes: Collection[int]) -> dict[int, Floats]:
    """The vectors of a model for the given episodes that have some, each of shape (pieces, dimension), by id."""
    found: Any = db.execute(
        """SELECT episode_id, vector FROM vectors WHERE episode_id IN (SELECT value FROM json_each(?)) AND model_id = ?
        ORDER BY episode_id, id""",
        (json.dumps(sorted(episodes)), model),
    ).fetchall()
    return _by_episode([row[0] for row in found], [row[1] for row in found], dimension)


def episodes_of(db: apsw.Connection, model: int, rows: Collection[int], scope: Scope) -> list[int]:
    """The episodes in scope to which those of the given vectors belong that are there, rising."""
    sessions = sessions_in_scope(db, scope)
    found = db.execute(
        """SELECT DISTINCT v.episode_id FROM vectors v JOIN episodes e ON e.id = v.episode_id
        WHERE v.id IN (SELECT value FROM json_each(?1)) AND v.model_id = ?2
        AND (?3 IS NULL OR e.session_id IN (SELECT value FROM json_each(?3))) ORDER BY 1""",
        (json.dumps(sorted(rows)), model, None if sessions is None else json.dumps(sessions)),
    )
    return in_time(db, [row[0] for row in found], scope)


def rows_of(db: apsw.Connection, model: int, episodes: Collection[int]) -> list[int]:
    """The ids of the vectors of the given episodes."""
    found = db.execute(
        "SELECT id FROM vectors WHERE episode_id IN (SELECT value FROM json_each(?)) AND model_id = ? ORDER BY id",
        (json.dumps(sorted(episodes)), model),
    )
    return [row[0] for row in found]


def located(db: apsw.Connection, model: int, rows: Collection[int]) -> list[tuple[int, int, int, bytes]]:
    """Those of the given vectors that are there: id, session, project (0 for none) and the vector as it is kept."""
    found: Any = db.execute(
        """SELECT v.id, e.session_id, ifnull(s.project_id, 0), v.vector FROM vectors v
        JOIN episodes e ON e.id = v.episode_id JOIN sessions s ON s.id = e.session_id
        WHERE v.id IN (SELECT value FROM json_each(?)) AND v.model_id = ? ORDER BY v.id""",
        (json.dumps(sorted(rows)), model),
    )
    return list(found)


def removed(db: apsw.Connection) -> int:
    """How many vectors the file has lost since it was made."""
    count: int = db.execute("SELECT value FROM counters WHERE name = 'vectors_removed'").get
    return count


def ids(db: apsw.Connection) -> Iterator[int]:
    """The ids of all vectors, of whatever model."""
    return (row[0] for row in db.execute("SELECT id FROM vectors"))


def newer(db: apsw.Connection, last: int, model: int) -> tuple[int, int]:
    """How many vectors of a model have an id above `last`, and the highest id of a vector of any model."""
    row: Any = db.execute(
        """SELECT (SELECT count(*) FROM vectors WHERE id > ? AND model_id = ?),
        (SELECT ifnull(max(id), 0) FROM vectors)""",
        (last, model),
    ).fetchone()
    return row[0], row[1]


def after(db: apsw.Connection, last: int, model: int) -> Iterator[tuple[int, int, int, bytes]]:
    """The vectors of a model with an id above `last`, rising: id, episode, session, and the vector as it is kept."""
    found: Any = db.execute(
        """SELECT v.id, v.episode_id, e.session_id, v.vector FROM vectors v
        JOIN episodes e ON e.id = v.episode_id WHERE v.id > ? AND v.model_id = ? ORDER BY v.id""",
        (last, model),
    )
    return iter(found)


def missing(db: apsw.Connection, model: int, after: int, limit: int) -> list[int]:
    """Up to `limit` episodes above the id `after`, not hidden, that have no vector of a model, in order."""
    found = db.execute(
        f"""SELECT id FROM episodes e WHERE id > ? AND {SHOWN} AND NOT EXISTS (
            SELECT 1 FROM vectors WHERE episode_id = e.id AND model_id = ?) ORDER BY id LIMIT ?""",
        (after, model, limit),
    )
    return [row[0] for row in found]


def embedded(db: apsw.Connection, model: int) -> int:
    """How many episodes have a vector of a model."""
    count: int = db.execute("SELECT count(DISTINCT episode_id) FROM vectors WHERE model_id = ?", (model,)).get
    return count


def total(db: apsw.Connection, model: int, scope: Scope) -> tuple[NDArray[np.float64] | None, int]:
    """The sum of all vectors of a model in scope, and of how many; None where there is none."""
    kind = {"all": ALL, "project": PROJECT, "sessions": SESSION}[scope.kind]
    found: Any = db.execute(
        """SELECT count, total FROM vector_sums WHERE model_id = ? AND kind = ?
        AND of IN (SELECT value FROM json_each(?)) ORDER BY of""",
        (model, kind, json.dumps([0] if kind == ALL else list(scope.ids))),
    ).fetchall()
    count = sum(row[0] for row in found)
    if not count:
        return None, 0
    sums = np.stack([np.frombuffer(row[1], dtype=np.float32) for row in found])
    return sums.sum(axis=0, dtype=np.float64), count


def sum_again(db: apsw.Connection) -> None:
    """Make all sums anew from the vectors."""
    db.execute("DELETE FROM vector_sums")
    reading: Any = db.execute(_SUMMED)
    while chunk := list(islice(reading, SUM_ROWS)):
        _count(db, chunk, +1)


_SUMMED = """SELECT v.model_id, e.session_id, ifnull(s.project_id, 0), v.vector FROM vectors v
    JOIN episodes e ON e.id = v.episode_id JOIN sessions s ON s.id = e.session_id"""


def _stored(db: apsw.Connection, episodes: Collection[int], model: int | None) -> list[tuple[int, int, int, bytes]]:
    found: Any = db.execute(
        f"""{_SUMMED} WHERE v.episode_id IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR v.model_id = ?2)
        ORDER BY v.id""",
        (json.dumps(sorted(episodes)), model),
    )
    return list(found)


def _count(db: apsw.Connection, stored: Iterable[tuple[int, int, int, bytes]], sign: int) -> None:
    """Keep the sums in step with vectors, given as (model, session, project or 0, row), that come or go (sign)."""
    groups: dict[tuple[int, int, int], list[bytes]] = defaultdict(list)
    for model, session, project, blob in stored:
        for kind, of in ((ALL, 0), (PROJECT, project), (SESSION, session)):
            groups[model, kind, of].append(blob)
    for (model, kind, of), blobs in groups.items():
        key = (model, kind, of)
        known: Any = db.execute(
            "SELECT count, total FROM vector_sums WHERE model_id = ? AND kind = ? AND of = ?", key
        ).fetchone()
        total = matrix(blobs, len(blobs[0]) // 2).sum(axis=0, dtype=np.float64) * sign
        count = len(blobs) * sign
        if known:
            total, count = total + np.frombuffer(known[1], dtype=np.float32), count + known[0]
        if count:
            db.execute(
                "INSERT OR REPLACE INTO vector_sums (model_id, kind, of, count, total) VALUES (?, ?, ?, ?, ?)",
                (*key, count, total.astype(np.float32).tobytes()),
            )
        else:
            db.execute("DELETE FROM vector_sums WHERE model_id = ? AND kind = ? AND of = ?", key)


def _by_episode(episodes: Sequence[int], blobs: Sequence[bytes], dimension: int) -> dict[int, Floats]:
    """Rows of the file that stand by episode, as an array for each."""
    if not episodes:
        return {}
    rows, owners = matrix(blobs, dimension), np.asarray(episodes)
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    ends = np.r_[starts[1:], len(owners)]
    return {int(owners[at]): rows[at:end] for at, end in zip(starts.tolist(), ends.tolist(), strict=True)}
