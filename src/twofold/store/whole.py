"""What an export reads: everything in the file, in an order that does not depend on ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from twofold.store.rows import sessions_in_scope
from twofold.types import Scope


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session as it is exported: its id here, and what names it anywhere."""

    id: int
    project: str | None
    name: str
    title: str | None


def conversations(db: apsw.Connection, scope: Scope) -> Iterator[Conversation]:
    """The sessions in scope by project, those without one first, and name."""
    found: Any = db.execute(
        """SELECT s.id, p.name, s.name, s.title FROM sessions s LEFT JOIN projects p ON p.id = s.project_id
        WHERE ?1 IS NULL OR s.id IN (SELECT value FROM json_each(?1)) ORDER BY p.name IS NOT NULL, p.name, s.name""",
        (_listed(db, scope),),
    )
    for row in found:
        yield Conversation(*row)


def empty_projects(db: apsw.Connection, scope: Scope) -> list[str]:
    """The names of the projects in scope that have no session."""
    only = scope.ids[0] if scope.kind == "project" else None
    found = db.execute(
        """SELECT name FROM projects WHERE id NOT IN (SELECT project_id FROM sessions WHERE project_id IS NOT NULL)
        AND (?1 IS NULL OR id = ?1) ORDER BY name""",
        (only,),
    )
    return [row[0] for row in found] if scope.kind != "sessions" else []


def messages(
    db: apsw.Connection, session: int, episode: int | None
) -> Iterator[tuple[int, str, int, str, str, str | None]]:
    """A session's episodes from its beginning, or one of them: id, role, time, content, metadata, source."""
    found: Any = db.execute(
        """SELECT id, role, time, content, metadata, source FROM episodes
        WHERE session_id = ?1 AND (?2 IS NULL OR id = ?2) ORDER BY time, id""",
        (session, episode),
    )
    yield from found


def said(db: apsw.Connection, session: int) -> dict[int, list[tuple[str, bool, int, str]]]:
    """What users said of a session's episodes, by episode: query, useful, time, and where it was asked."""
    words: dict[int, list[tuple[str, bool, int, str]]] = {}
    found: Any = db.execute(
        """SELECT f.episode_id, f.query, f.useful, f.time, CASE WHEN f.session_id IS NOT NULL THEN 'session'
        WHEN f.project_id IS NOT NULL THEN 'project' ELSE 'everywhere' END AS place
        FROM feedback f JOIN episodes e ON e.id = f.episode_id WHERE e.session_id = ?
        ORDER BY f.time, f.query, place""",
        (session,),
    )
    for episode, query, useful, time, place in found:
        words.setdefault(episode, []).append((query, bool(useful), time, place))
    return words


def vectors(db: apsw.Connection, session: int, model: int) -> dict[int, list[bytes]]:
    """The vectors of a model for a session's episodes, as the file keeps them, by episode."""
    pieces: dict[int, list[bytes]] = {}
    found: Any = db.execute(
        """SELECT v.episode_id, v.vector FROM episodes e JOIN vectors v ON v.episode_id = e.id
        WHERE e.session_id = ? AND v.model_id = ? ORDER BY v.episode_id, v.id""",
        (session, model),
    )
    for episode, vector in found:
        pieces.setdefault(episode, []).append(vector)
    return pieces


def entities(db: apsw.Connection, scope: Scope) -> list[int]:
    """The ids of the entities that belong to a scope: of one session its own, of a project the project's."""
    home = {"all": "TRUE", "project": "project_id = :id", "sessions": "session_id = :id"}[scope.kind]
    found = db.execute(f"SELECT id FROM entities WHERE {home}", {"id": scope.ids[0] if scope.ids else None})
    return [row[0] for row in found]


def _listed(db: apsw.Connection, scope: Scope) -> str | None:
    sessions = sessions_in_scope(db, scope)
    return None if sessions is None else json.dumps(sessions)
