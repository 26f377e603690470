"""From names and ids to what a search may see."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from twofold import messages as incoming
from twofold.errors import NotFound
from twofold.store import rows
from twofold.types import Scope

LONGEST_ID = 18  # digits that surely fit in SQLite's integers


def resolve(
    db: apsw.Connection, session: str | None, project_name: str | None, sessions: Sequence[int] | None = None
) -> Scope:
    """The scope that a session, a project or ids of sessions mean; nothing named means everything.

    Ids of sessions outside the named project are left out. Raises NotFound for a name that is not there.
    """
    project_id = project(db, project_name) if project_name else None
    if sessions is not None:
        asked = incoming.ids("sessions", sessions)
        if project_id is None:
            return Scope("sessions", asked)
        allowed = set(rows.sessions_in_scope(db, Scope("project", (project_id,))) or ())
        return Scope("sessions", tuple(session for session in asked if session in allowed))
    if session:
        return Scope("sessions", (_session(db, session, project_name, project_id),))
    return Scope("all") if project_id is None else Scope("project", (project_id,))


def project(db: apsw.Connection, name: str) -> int:
    """The id of a project. Raises NotFound."""
    incoming.name("project", name)
    found = rows.project_id(db, name)
    if found is None:
        raise NotFound(f"there is no project {name!r}; list them with: twofold projects")
    return found


def _session(db: apsw.Connection, session: str, project_name: str | None, project_id: int | None) -> int:
    """The session of that name in that project, else the one of that id."""
    incoming.name("session", session)
    found = rows.session_id(db, session, project_id)
    if found is None and session.isdecimal() and len(session) <= LONGEST_ID:
        by_id = rows.session(db, int(session))
        if by_id is not None and project_name in (None, "", by_id.project):
            return by_id.id
    if found is None:
        raise NotFound(_not_found(db, session, project_name))
    return found


def _not_found(db: apsw.Connection, session: str, project_name: str | None) -> str:
    where = f"in project {project_name!r}" if project_name else "without a project"
    others = [f"project {name!r}" for name in rows.projects_of_session(db, session) if name]
    elsewhere = f"; there is one in {', '.join(others)}: name the project" if others and not project_name else ""
    return f"there is no session {session!r} {where}{elsewhere or '; list them with: twofold sessions'}"
