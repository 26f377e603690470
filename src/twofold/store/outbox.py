"""Indexes outside the file, and what each has still to be told.

A change queues the points it touches in its own transaction, by triggers, so that no way of writing forgets it. What
is queued says only which point; what becomes of it, the file says at the time of delivery: there as it is now, or
gone. So a delivery may be repeated, and repeated late, without harm.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apsw

Kind = Literal["vectors", "words"]


@dataclass(frozen=True, slots=True)
class Target:
    """One index outside the file: in which engine, of what, made how, under which name; whether it serves yet.

    `length` is how many terms an average episode had when it was begun.
    """

    id: int
    engine: str
    kind: Kind
    model: int | None
    options: str
    collection: str
    length: float
    serves: bool


@dataclass(frozen=True, slots=True)
class Queued:
    """A point that is to be made what the file says now, by the number of the entry and the id of the point."""

    entry: int
    point: int


_TARGET = "SELECT id, engine, kind, model_id, options, collection, length, serves FROM targets"


def uid(db: apsw.Connection) -> str:
    """What this store is known by where several share a server."""
    found: str = db.execute("SELECT uid FROM identity").get
    return found


def targets(db: apsw.Connection) -> list[Target]:
    """Every index outside the file, in the order they were made."""
    return [_target(row) for row in db.execute(f"{_TARGET} ORDER BY id")]


def find(db: apsw.Connection, engine: str, kind: Kind, model: int | None, options: str) -> list[Target]:
    """The targets of one sort, those that serve first, the newest of each before the others."""
    found = db.execute(
        f"""{_TARGET} WHERE engine = ? AND kind = ? AND model_id IS ? AND options = ? ORDER BY serves DESC, id DESC""",
        (engine, kind, model, options),
    )
    return [_target(row) for row in found]


def enrol(db: apsw.Connection, engine: str, kind: Kind, model: int | None, options: str) -> Target:
    """A new target, with everything that is there queued for it."""
    name = f"{kind}-{db.execute('SELECT lower(hex(randomblob(8)))').get}"
    db.execute(
        """INSERT INTO targets (engine, kind, model_id, options, collection, length) VALUES (?, ?, ?, ?, ?,
            (SELECT value FROM counters WHERE name = 'keyword_own') * 1.0
            / max(1, (SELECT value FROM counters WHERE name = 'keyword_rows')))""",
        (engine, kind, model, options, name),
    )
    made = db.last_insert_rowid()
    queue_all(db, made)
    row: Any = db.execute(f"{_TARGET} WHERE id = ?", (made,)).fetchone()
    return _target(row)


def queue_all(db: apsw.Connection, target: int) -> None:
    """Queue every point that the file has for a target."""
    db.execute(
        """INSERT OR REPLACE INTO outbox (target_id, point)
        SELECT t.id, v.id FROM targets t JOIN vectors v ON v.model_id = t.model_id
        WHERE t.id = ?1 AND t.kind = 'vectors'
        UNION ALL
        SELECT t.id, e.id FROM targets t, episodes e WHERE t.id = ?1 AND t.kind = 'words' ORDER BY 2""",
        (target,),
    )


def queue(db: apsw.Connection, target: int, points: Collection[int]) -> None:
    """Queue some points for a target."""
    db.executemany(
        "INSERT OR REPLACE INTO outbox (target_id, point) VALUES (?, ?)", [(target, point) for point in sorted(points)]
    )


def points_of(db: apsw.Connection, target: Target) -> Iterator[int]:
    """The ids of all points that a target should have once it was told everything, rising."""
    if target.kind == "vectors":
        found = db.execute("SELECT id FROM vectors WHERE model_id = ? ORDER BY id", (target.model,))
    else:
        found = db.execute(
            "SELECT d.id FROM keyword_docs d JOIN episodes e ON e.id = d.id WHERE d.own > 0 ORDER BY d.id"
        )
    yield from (row[0] for row in found)


def waiting_of(db: apsw.Connection, target: int) -> Iterator[int]:
    """The ids of all points that a target has not been told of."""
    yield from (row[0] for row in db.execute("SELECT point FROM outbox WHERE target_id = ?", (target,)))


def next_of(db: apsw.Connection, target: int, limit: int) -> list[Queued]:
    """Up to `limit` of what a target has to be told, oldest first."""
    found = db.execute("SELECT id, point FROM outbox WHERE target_id = ? ORDER BY id LIMIT ?", (target, limit))
    return [Queued(*row) for row in found]


def newest_of(db: apsw.Connection, target: int, limit: int) -> list[int]:
    """Up to `limit` points that a target has not been told of, the newest first."""
    found = db.execute("SELECT point FROM outbox WHERE target_id = ? ORDER BY id DESC LIMIT ?", (target, limit))
    return [row[0] for row in found]


def delivered(db: apsw.Connection, entries: Sequence[int]) -> None:
    """Take entries out; one whose point was queued again meanwhile has another number and stays."""
    db.execute("DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(entries)),))


def lag(db: apsw.Connection, target: int) -> tuple[int, int]:
    """How many points a target has still to be told, and for how many microseconds the oldest has waited."""
    row: Any = db.execute(
        """SELECT count(*), ifnull(CAST(unixepoch('subsec') * 1000000 AS INTEGER) - (
            SELECT since FROM outbox WHERE target_id = ?1 ORDER BY id LIMIT 1), 0)
        FROM outbox WHERE target_id = ?1""",
        (target,),
    ).fetchone()
    return row[0], max(0, row[1])


def is_in_hand(db: apsw.Connection, target: int) -> bool:
    """Whether a process has begun to tell a target something and has not let go of it in order."""
    return bool(db.execute("SELECT count(*) FROM counters WHERE name = ?", (_in_hand(target),)).get)


def take_in_hand(db: apsw.Connection, target: int) -> None:
    """Note that a process tells a target something from now on."""
    db.execute("INSERT OR REPLACE INTO counters VALUES (?, 1)", (_in_hand(target),))


def let_go(db: apsw.Connection, target: int) -> None:
    """Note that the process that told a target has closed it in order."""
    db.execute("DELETE FROM counters WHERE name = ?", (_in_hand(target),))


def serve(db: apsw.Connection, target: int) -> None:
    """Search by this target from now on."""
    db.execute("UPDATE targets SET serves = 1 WHERE id = ?", (target,))


def begin_again(db: apsw.Connection, target: int) -> None:
    """Queue everything for a target that has lost it, and do not search by it until it is told."""
    db.execute("UPDATE targets SET serves = 0 WHERE id = ?", (target,))
    queue_all(db, target)


def drop(db: apsw.Connection, target: int) -> None:
    """Forget a target and what it was to be told."""
    let_go(db, target)
    db.execute("DELETE FROM targets WHERE id = ?", (target,))


def _in_hand(target: int) -> str:
    return f"target_in_hand_{target}"


def _target(row: Any) -> Target:
    id_, engine, kind, model, options, collection, length, serves = row
    return Target(id_, engine, kind, model, options, collection, length, bool(serves))
