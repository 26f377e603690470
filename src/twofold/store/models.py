"""Which models made the vectors of a file; one of them is current, which is searched by."""

from __future__ import annotations

from typing import Any, TypeAlias

import apsw

Model: TypeAlias = tuple[str, int, str]  # name, dimension and digest


def current(db: apsw.Connection) -> Model | None:
    """The model whose vectors are searched; None where there are no vectors."""
    row: Any = db.execute("SELECT name, dimension, digest FROM models WHERE current").fetchone()
    return None if row is None else (row[0], row[1], row[2])


def find(db: apsw.Connection, model: Model) -> int:
    """The model's number in this file; 0, which no model has, where it made no vector yet."""
    found: int | None = db.execute("SELECT id FROM models WHERE name = ? AND dimension = ? AND digest = ?", model).get
    return found or 0


def make(db: apsw.Connection, model: Model) -> int:
    """The model's number, made if it was not there; the first of a file is the current one."""
    db.execute(
        """INSERT INTO models (name, dimension, digest, current)
        VALUES (?, ?, ?, NOT EXISTS (SELECT 1 FROM models WHERE current)) ON CONFLICT DO NOTHING""",
        model,
    )
    return find(db, model)


def switch(db: apsw.Connection, model: Model) -> None:
    """Search by this model from now on."""
    db.execute("UPDATE models SET current = (id = ?)", (make(db, model),))


def every(db: apsw.Connection) -> list[Model]:
    """All models that made a vector, the current one first."""
    found: Any = db.execute("SELECT name, dimension, digest FROM models ORDER BY current DESC, id")
    return [(row[0], row[1], row[2]) for row in found]


def others(db: apsw.Connection) -> list[int]:
    """The numbers of the models that are not searched by."""
    return [row[0] for row in db.execute("SELECT id FROM models WHERE NOT current ORDER BY id")]


def episodes(db: apsw.Connection, number: int, after: int, limit: int) -> dict[int, int]:
    """How many vectors of a model up to `limit` episodes above the id `after` have that have some, in order."""
    found: Any = db.execute(
        """SELECT episode_id, count(*) FROM vectors WHERE model_id = ? AND episode_id > ?
        GROUP BY episode_id ORDER BY episode_id LIMIT ?""",
        (number, after, limit),
    )
    return {row[0]: row[1] for row in found}


def forget(db: apsw.Connection, number: int) -> int:
    """Forget a model with the vectors of entities that it made; returns how many."""
    db.execute("DELETE FROM entity_vectors WHERE model_id = ?", (number,))
    count = db.changes()
    db.execute("DELETE FROM models WHERE id = ?", (number,))
    return count
