"""The rows of entities: their names, mentions and vectors, through a connection that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from twofold.store import models
from twofold.store.models import Model
from twofold.types import Entity, Scope

# What a scope sees. One session of a project sees of the project's entities those that are mentioned in it.
_IN_SCOPE = {
    "all": "TRUE",
    "project": "e.project_id = :project",
    "sessions": """(
        e.id IN (SELECT m.entity_id FROM mentions m JOIN episodes x ON x.id = m.episode_id
            JOIN sessions s ON s.id = x.session_id
            WHERE s.id IN (SELECT value FROM json_each(:sessions)) AND s.project_id = e.project_id)
        OR e.session_id IN (SELECT value FROM json_each(:sessions))
        OR (e.project_id IS NULL AND e.session_id IS NULL AND EXISTS (SELECT 1 FROM sessions
            WHERE id IN (SELECT value FROM json_each(:sessions)) AND project_id IS NULL)))""",
}

_AT_HOME = """(e.project_id IN (SELECT value FROM json_each(:projects))
    OR e.session_id IN (SELECT value FROM json_each(:sessions))
    OR (:homeless AND e.project_id IS NULL AND e.session_id IS NULL))"""


@dataclass(frozen=True, slots=True)
class Home:
    """Where an entity belongs: a project, a session without one, or neither."""

    project: int | None = None
    session: int | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """One name of an entity: as shown, as compared, and the term by which texts that may hold it are looked up."""

    text: str
    folded: str
    key: str


@dataclass(frozen=True, slots=True)
class View:
    """What a scope sees of the entities, and of that only the project `only` where it is given."""

    scope: Scope
    only: int | None = None

    @property
    def where(self) -> str:
        """The condition on `entities e`, which `values` completes."""
        return f"(:only IS NULL OR e.project_id = :only) AND {_IN_SCOPE[self.scope.kind]}"

    @property
    def values(self) -> dict[str, Any]:
        """The values that `where` names."""
        first = self.scope.ids[0] if self.scope.kind == "project" else None
        return {"only": self.only, "project": first, "sessions": json.dumps(self.scope.ids)}


def exist(db: apsw.Connection) -> bool:
    """Whether there is any entity."""
    return bool(db.execute("SELECT 1 FROM entities LIMIT 1").get)


def changed(db: apsw.Connection) -> int:
    """A number that is another after every change of entities, names or vectors."""
    value: int = db.execute("SELECT value FROM counters WHERE name = 'entities_changed'").get
    return value


def entities(db: apsw.Connection, ids: Sequence[int]) -> dict[int, Entity]:
    """The entities of the given ids that exist."""
    listed = (json.dumps(list(ids)),)
    names: dict[int, list[str]] = {}
    for id_, name in db.execute(
        """SELECT entity_id, name FROM entity_names WHERE entity_id IN (SELECT value FROM json_each(?))
        ORDER BY entity_id, alias""",
        listed,
    ):
        names.setdefault(id_, []).append(name)
    found = db.execute(
        """SELECT e.id, e.type, e.description, p.name, e.session_id,
            (SELECT count(*) FROM mentions WHERE entity_id = e.id)
        FROM entities e LEFT JOIN projects p ON p.id = e.project_id
        WHERE e.id IN (SELECT value FROM json_each(?))""",
        listed,
    )
    return {
        id_: Entity(id_, names[id_][0], type_, description, tuple(names[id_][1:]), project, session, mentions)
        for id_, type_, description, project, session, mentions in found
    }


def home(db: apsw.Connection, entity: int) -> Home | None:
    """Where an entity belongs; None if it is not there."""
    row: Any = db.execute("SELECT project_id, session_id FROM entities WHERE id = ?", (entity,)).fetchone()
    return None if row is None else Home(*row)


def visible(db: apsw.Connection, view: View) -> list[int]:
    """The ids of the entities that a view sees, in order."""
    return [row[0] for row in db.execute(f"SELECT e.id FROM entities e WHERE {view.where} ORDER BY e.id", view.values)]


def page(
    db: apsw.Connection, view: View, type_: str | None, after: Sequence[Any] | None, limit: int
) -> list[tuple[str, int]]:
    """The folded names and ids of up to `limit` entities that a view sees, in that order, after (name, id)."""
    name, id_ = after or (None, None)
    found: Any = db.execute(
        f"""SELECT n.folded, e.id FROM entities e JOIN entity_names n ON n.entity_id = e.id AND n.alias = 0
        WHERE {view.where} AND (:type IS NULL OR e.type = :type)
        AND (:name IS NULL OR (n.folded, e.id) > (:name, :id)) ORDER BY n.folded, e.id LIMIT :limit""",
        view.values | {"type": type_, "name": name, "id": id_, "limit": limit},
    )
    return list(found)


def bring_home(db: apsw.Connection, session: int, project: int | None) -> None:
    """Let the entities that belong to a session alone belong to the project that it comes to."""
    if project is not None:
        db.execute("UPDATE entities SET session_id = NULL, project_id = ? WHERE session_id = ?", (project, session))


def namesake(
    db: apsw.Connection, home: Home, type_: str, folded: Iterable[str], but: Collection[int]
) -> tuple[int, str] | None:
    """An entity of that home and type that has one of the names, and the name; the ids `but` do not count."""
    row: Any = db.execute(
        """SELECT e.id, n.name FROM entity_names n JOIN entities e ON e.id = n.entity_id
        WHERE n.folded IN (SELECT value FROM json_each(?)) AND e.type = ?
        AND e.project_id IS ? AND e.session_id IS ? AND e.id NOT IN (SELECT value FROM json_each(?))
        ORDER BY e.id LIMIT 1""",
        (json.dumps(list(folded)), type_, home.project, home.session, json.dumps(list(but))),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def insert(db: apsw.Connection, home: Home, type_: str, description: str) -> int:
    """The id of a new entity, whose names the caller puts in the same transaction."""
    db.execute(
        "INSERT INTO entities (project_id, session_id, type, description) VALUES (?, ?, ?, ?)",
        (home.project, home.session, type_, description),
    )
    return db.last_insert_rowid()


def update(db: apsw.Connection, entity: int, type_: str, description: str) -> None:
    """Another type and description."""
    db.execute("UPDATE entities SET type = ?, description = ? WHERE id = ?", (type_, description, entity))


def delete(db: apsw.Connection, entity: int) -> None:
    """An entity and, by the schema, its names, mentions and vectors."""
    db.execute("DELETE FROM entities WHERE id = ?", (entity,))


def put_names(db: apsw.Connection, entity: int, names: Sequence[Name]) -> None:
    """The names of an entity in place of those it had; the first is the one that is shown."""
    db.execute("DELETE FROM entity_names WHERE entity_id = ?", (entity,))
    db.executemany(
        "INSERT INTO entity_names (entity_id, folded, name, key, alias) VALUES (?, ?, ?, ?, ?)",
        [(entity, name.folded, name.text, name.key, place) for place, name in enumerate(names)],
    )


def all_names(db: apsw.Connection) -> Iterator[tuple[int, str]]:
    """Every entity with each of its names, folded."""
    yield from db.execute("SELECT entity_id, folded FROM entity_names ORDER BY entity_id, folded")


def nameless(db: apsw.Connection) -> list[int]:
    """The entities that have no name."""
    return [
        row[0] for row in db.execute("SELECT id FROM entities WHERE id NOT IN (SELECT entity_id FROM entity_names)")
    ]


def kept_names(db: apsw.Connection) -> Iterator[tuple[int, Name]]:
    """Every entity with each of its names as it is kept, the shown one first."""
    found = db.execute("SELECT entity_id, name, folded, key FROM entity_names ORDER BY entity_id, alias")
    yield from ((id_, Name(text, folded, key)) for id_, text, folded, key in found)


def names_of(db: apsw.Connection, entity: int) -> list[tuple[str, str]]:
    """The names of an entity, folded, each with its key."""
    found: Any = db.execute("SELECT folded, key FROM entity_names WHERE entity_id = ?", (entity,))
    return list(found)


def live_in(db: apsw.Connection, homes: Collection[Home]) -> bool:
    """Whether any entity belongs to one of these homes."""
    return bool(db.execute(f"SELECT 1 FROM entities e WHERE {_AT_HOME} LIMIT 1", _places(homes)).get)


def named_by(
    db: apsw.Connection, keys: Iterable[str], homes: Collection[Home]
) -> Iterator[tuple[str, str, int, int | None, int | None]]:
    """The names with one of these keys of the entities of these homes: key, folded, entity, project, session."""
    yield from db.execute(
        f"""SELECT n.key, n.folded, e.id, e.project_id, e.session_id FROM json_each(:keys) k
        CROSS JOIN entity_names n ON n.key = k.value CROSS JOIN entities e ON e.id = n.entity_id WHERE {_AT_HOME}""",
        _places(homes) | {"keys": json.dumps(list(keys))},
    )


def _places(homes: Collection[Home]) -> dict[str, Any]:
    """The values that `_AT_HOME` names."""
    return {
        "projects": json.dumps([home.project for home in homes if home.project is not None]),
        "sessions": json.dumps([home.session for home in homes if home.session is not None]),
        "homeless": Home() in homes,
    }


def said(db: apsw.Connection, episodes: Iterable[int]) -> Iterator[tuple[int, int, int | None, str]]:
    """The given episodes: id, session, the session's project and the words."""
    yield from db.execute(
        """SELECT x.id, s.id, s.project_id, x.content FROM episodes x JOIN sessions s ON s.id = x.session_id
        WHERE x.id IN (SELECT value FROM json_each(?))""",
        (json.dumps(list(episodes)),),
    )


def sessions_without_project(db: apsw.Connection) -> list[int]:
    """The ids of the sessions that belong to no project."""
    return [row[0] for row in db.execute("SELECT id FROM sessions WHERE project_id IS NULL ORDER BY id")]


def put_mentions(db: apsw.Connection, episodes: Iterable[int], mentions: Iterable[tuple[int, int]]) -> None:
    """The mentions, as (entity, episode), of these episodes in place of those they had."""
    listed = (json.dumps(list(episodes)),)
    db.execute("DELETE FROM mentions WHERE episode_id IN (SELECT value FROM json_each(?))", listed)
    db.executemany("INSERT INTO mentions (entity_id, episode_id) VALUES (?, ?)", mentions)


def put_mentions_of(db: apsw.Connection, entity: int, episodes: Iterable[int]) -> None:
    """The episodes that mention an entity in place of those that did."""
    db.execute("DELETE FROM mentions WHERE entity_id = ?", (entity,))
    db.executemany("INSERT INTO mentions (entity_id, episode_id) VALUES (?, ?)", [(entity, id_) for id_ in episodes])


def move_mentions(db: apsw.Connection, entity: int, into: int) -> None:
    """Let the episodes that mention one entity mention another."""
    db.execute(
        "INSERT OR IGNORE INTO mentions (entity_id, episode_id) SELECT ?, episode_id FROM mentions WHERE entity_id = ?",
        (into, entity),
    )


def mentioned_in(db: apsw.Connection, entity: int, after: Sequence[Any] | None, limit: int) -> list[int]:
    """The ids of up to `limit` episodes that mention an entity, by time, after (time, id)."""
    time, id_ = after or (None, None)
    found = db.execute(
        """SELECT x.id FROM mentions m JOIN episodes x ON x.id = m.episode_id
        WHERE m.entity_id = ?1 AND (?2 IS NULL OR (x.time, x.id) > (?2, ?3)) ORDER BY x.time, x.id LIMIT ?4""",
        (entity, time, id_, limit),
    )
    return [row[0] for row in found]


def delete_vectors(db: apsw.Connection, entity: int) -> None:
    """An entity's vectors of every model."""
    db.execute("DELETE FROM entity_vectors WHERE entity_id = ?", (entity,))


def put_vector(db: apsw.Connection, entity: int, model: Model, vector: bytes) -> None:
    """An entity's vector of one model, which becomes the one that is searched by where there is none yet."""
    db.execute("INSERT OR REPLACE INTO entity_vectors VALUES (?, ?, ?)", (entity, models.make(db, model), vector))


def vectors(db: apsw.Connection, model: int) -> list[tuple[int, bytes]]:
    """The vectors of a model with their entities, in the order of these."""
    found: Any = db.execute(
        "SELECT entity_id, vector FROM entity_vectors WHERE model_id = ? ORDER BY entity_id", (model,)
    )
    return list(found)


def without_vector(db: apsw.Connection, model: int, after: int, limit: int) -> list[int]:
    """Up to `limit` entities above the id `after` that have no vector of a model, in order."""
    found = db.execute(
        """SELECT id FROM entities e WHERE id > ? AND NOT EXISTS (
            SELECT 1 FROM entity_vectors WHERE entity_id = e.id AND model_id = ?) ORDER BY id LIMIT ?""",
        (after, model, limit),
    )
    return [row[0] for row in found]
