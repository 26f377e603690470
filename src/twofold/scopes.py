"""From names and ids to what a search may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import apsw

from twofold import messages as incoming
from twofold.errors import NotAllowed, NotFound
from twofold.store import rows
from twofold.types import Episode, Message, Project, Scope, Session

LONGEST_ID = 18  # digits that surely fit in SQLite's integers


@dataclass(frozen=True, slots=True)
class Reach:
    """What a door opens on: everything, or the one project of that id, outside of which there is nothing.

    Every name and every id that a caller gives becomes a scope or a row here, and nowhere else.
    """

    only: int | None = None

    def resolve(
        self,
        db: apsw.Connection,
        session: str | None,
        project: str | None,
        sessions: Sequence[int] | None = None,
    ) -> Scope:
        """The scope that a session, a project or ids of sessions mean; nothing named means everything in reach.

        Ids of sessions outside the project are left out. Raises NotFound for a name that is not there.
        """
        project_id = self.project_id(db, project)
        if sessions is not None:
            asked = incoming.ids("sessions", sessions)
            if project_id is None:
                return Scope("sessions", asked)
            allowed = set(rows.sessions_in_scope(db, Scope("project", (project_id,))) or ())
            return Scope("sessions", tuple(session for session in asked if session in allowed))
        if session:
            return Scope("sessions", (self._session_id(db, session, project_id),))
        return Scope("all") if project_id is None else Scope("project", (project_id,))

    def project_id(self, db: apsw.Connection, name: str | None) -> int | None:
        """The id of a project, of the only one in reach where none is named. Raises NotFound."""
        if not name:
            return self.only
        incoming.name("project", name)
        found = rows.project_id(db, name)
        if found is None or self.only not in (None, found):
            raise NotFound(f"there is no project {name!r}; list them with: twofold projects")
        return found

    def home(self, db: apsw.Connection, name: str | None) -> str | None:
        """The project that something new belongs to, which need not be there yet. Raises NotFound outside the reach."""
        if self.only is None:
            return name or None
        project_id = self.project_id(db, name)
        return self.project(db, project_id or 0).name

    def at_home(self, db: apsw.Connection, message: Message) -> Message:
        """The message, put into the one project that is in reach where there is only one. Raises NotFound."""
        if self.only is None:
            return replace(message, project=None) if message.project == "" else message
        return replace(message, project=self.home(db, message.project))

    def project(self, db: apsw.Connection, id_: int) -> Project:
        """One project by id. Raises NotFound."""
        incoming.ids("project", [id_])
        found = rows.project(db, id_) if self.only in (None, id_) else None
        if found is None:
            raise NotFound(f"there is no project {id_}; projects lists the ids")
        return found

    def session(self, db: apsw.Connection, id_: int) -> Session:
        """One session by id. Raises NotFound."""
        incoming.ids("session", [id_])
        found = rows.session(db, id_)
        if found is None or not self._reaches(db, id_):
            raise NotFound(f"there is no session {id_}; sessions lists the ids")
        return found

    def episode(self, db: apsw.Connection, id_: int) -> Episode:
        """One episode by id. Raises NotFound."""
        incoming.ids("episode", [id_])
        found = rows.episodes(db, [id_]).get(id_)
        if found is None or not self._reaches(db, found.session_id):
            raise NotFound(f"there is no episode {id_}; recall and show print the ids")
        return found

    def must_be_whole(self, what: str) -> None:
        """Raises NotAllowed for a door on one project."""
        if self.only is not None:
            raise NotAllowed(f"a token that is bound to one project cannot {what}; use one that is not bound")

    def _reaches(self, db: apsw.Connection, session: int) -> bool:
        return self.only is None or rows.project_of_session(db, session) == self.only

    def _session_id(self, db: apsw.Connection, session: str, project: int | None) -> int:
        """The session of that name in that project, else the one of that id."""
        incoming.name("session", session)
        found = rows.session_id(db, session, project)
        if found is None and session.isdecimal() and len(session) <= LONGEST_ID:
            by_id = rows.session(db, int(session))
            if by_id is not None and project in (None, rows.project_of_session(db, by_id.id)):
                return by_id.id
        if found is None:
            raise NotFound(_not_found(db, session, project))
        return found


def _not_found(db: apsw.Connection, session: str, project: int | None) -> str:
    known = None if project is None else rows.project(db, project)
    where = f"in project {known.name!r}" if known else "without a project"
    others = [f"project {name!r}" for name in rows.projects_of_session(db, session) if name]
    elsewhere = f"; there is one in {', '.join(others)}: name the project" if others and project is None else ""
    return f"there is no session {session!r} {where}{elsewhere or '; list them with: twofold sessions'}"
