"""Projects, sessions and episodes by id, and pages of them. `memory.catalog` is one."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from twofold import messages as incoming
from twofold.errors import Conflict
from twofold.pages import PAGE, Page, cursor, one_more, paged
from twofold.scopes import Reach
from twofold.store import Store, entities, rows
from twofold.types import Episode, Project, Scope, Session, Week
from twofold.writer import Writer

MONDAY = date(1970, 1, 5)  # from which weeks are counted


class Catalog:
    """What is there, within the reach of the door it belongs to. Raises NotFound for anything outside."""

    def __init__(self, store: Store, writer: Writer, reach: Reach) -> None:
        self._store = store
        self._writer = writer
        self._reach = reach

    def projects(self, *, after: str | None = None, limit: int = PAGE) -> Page[Project]:
        """Projects by name."""
        with self._store.read() as db:
            if self._reach.only is not None:
                return Page((self._reach.project(db, self._reach.only),), None)
            found = rows.projects_after(db, cursor(after, (str,)), one_more(limit))
        return paged(found, limit, lambda project: [project.name])

    def sessions(self, project: str | None = None, *, after: str | None = None, limit: int = PAGE) -> Page[Session]:
        """The sessions of a project, or all; the one that spoke last first."""
        with self._store.read() as db:
            project_id = self._reach.project_id(db, project)
            found = rows.sessions_after(db, project_id, cursor(after, (int, int)), one_more(limit))
        return paged(found, limit, lambda session: [rows.microseconds(session.last) if session.last else 0, session.id])

    def episodes(
        self, *, session: int | None = None, project: str | None = None, after: str | None = None, limit: int = PAGE
    ) -> Page[Episode]:
        """The episodes of one session by time, or of a project or everything in the order they were stored."""
        with self._store.read() as db:
            if session is not None:
                self._reach.session(db, session)
                found = rows.session_episodes_after(db, session, cursor(after, (int, int)), one_more(limit))
                return paged(found, limit, lambda episode: [rows.microseconds(episode.time), episode.id])
            scope = self._reach.resolve(db, None, project)
            found = rows.episodes_after(db, scope, cursor(after, (int,)), one_more(limit))
        return paged(found, limit, lambda episode: [episode.id])

    def project(self, id_: int) -> Project:
        """One project."""
        with self._store.read() as db:
            return self._reach.project(db, id_)

    def session(self, id_: int) -> Session:
        """One session."""
        with self._store.read() as db:
            return self._reach.session(db, id_)

    def find_session(self, name: str, project: str | None = None) -> Session | None:
        """The session of that name, or of that id, in a project or without one; None if it is not there."""
        incoming.name("session", name)
        with self._store.read() as db:
            if project and rows.project_id(db, project) is None and self._reach.only is None:
                return None
            project_id = self._reach.project_id(db, project)
            found = rows.session_id(db, name, project_id)
            return None if found is None else rows.session(db, found)

    def add_project(self, name: str) -> Project:
        """A new project. Raises Conflict where there is one of that name, InvalidInput, NotAllowed."""
        self._reach.must_be_whole("make a project")
        incoming.name("project", name)
        with self._store.write() as db:
            if rows.project_id(db, name) is not None:
                raise Conflict(f"there is a project {name!r} already; take another name")
            return self._reach.project(db, rows.make_project(db, name))

    def add_session(self, name: str, *, project: str | None = None, title: str | None = None) -> Session:
        """A new session; its project is made if it is not there. Raises Conflict, InvalidInput."""
        _check_session(name, title)
        with self._store.write() as db:
            home = self._reach.home(db, project)
            if home:
                incoming.name("project", home)
            project_id = rows.make_project(db, home) if home else None
            if rows.session_id(db, name, project_id) is not None:
                raise Conflict(f"there is a session {name!r} in this project already; take another name")
            return self._reach.session(db, rows.make_session(db, name, project_id, title))

    def rename_project(self, id_: int, name: str) -> Project:
        """Give a project another name. Raises Conflict, InvalidInput, NotAllowed."""
        # A door on one project learns nothing of the others, not even that a name is taken.
        self._reach.must_be_whole("rename a project")
        incoming.name("project", name)
        with self._store.write() as db:
            self._reach.project(db, id_)
            if rows.project_id(db, name) not in (None, id_):
                raise Conflict(f"there is a project {name!r} already; take another name")
            rows.rename_project(db, id_, name)
            return self._reach.project(db, id_)

    def change_session(self, id_: int, *, name: str | None = None, title: str | None = None) -> Session:
        """Give a session another name or title; an empty title takes it away. Raises Conflict, InvalidInput."""
        with self._store.write() as db:
            old = self._reach.session(db, id_)
            new_name = old.name if name is None else name
            new_title = old.title if title is None else title or None
            _check_session(new_name, new_title)
            if rows.session_id(db, new_name, rows.project_of_session(db, id_)) not in (None, id_):
                raise Conflict(f"there is a session {new_name!r} in this project already; take another name")
            rows.update_session(db, id_, new_name, new_title)
            return self._reach.session(db, id_)

    def move_session(self, id_: int, project: str | None) -> Session:
        """Put a session into another project, which is made if it is not there, or into none.

        Entities of the session alone become the project's. Raises Conflict, InvalidInput, NotAllowed and NotFound.
        """
        self._reach.must_be_whole("move a session to another project")
        if project:
            incoming.name("project", project)
        with self._store.write() as db:
            session = self._reach.session(db, id_)
            target = rows.make_project(db, project) if project else None
            if target == rows.project_of_session(db, id_):
                return session
            if rows.session_id(db, session.name, target) is not None:
                where = f"in project {project!r}" if project else "without a project"
                raise Conflict(f"there is a session {session.name!r} {where} already; rename one of the two first")
            entities.bring_home(db, id_, target)
            self._writer.move_session(id_, target)
            return self._reach.session(db, id_)

    def weeks(self, *, project: str | None = None, session: int | None = None, zone: str | None = None) -> list[Week]:
        """How many episodes were said in each week that has some, in order; weeks begin on Monday in the zone."""
        clock = incoming.zone(zone)
        with self._store.read() as db:
            if session is not None:
                self._reach.session(db, session)
            scope = self._reach.resolve(db, None, project, None if session is None else [session])
            ahead = (datetime.now(clock).utcoffset() or timedelta()) // timedelta(microseconds=1)
            return [Week(MONDAY + timedelta(weeks=number), count) for number, count in rows.weeks(db, scope, ahead)]

    def around(self, id_: int, count: int) -> list[Episode]:
        """An episode and up to `count` before and after it in its session that are not hidden, in order."""
        with self._store.read() as db:
            episode = self._reach.episode(db, id_)
            before, after = rows.episodes_around(db, episode, count)
        return [*before[::-1], episode, *after]

    def forget_project(self, id_: int) -> int:
        """Delete a project with all that hangs on it; returns how many episodes went with it."""
        with self._store.write() as db:
            return self._writer.forget_scope(Scope("project", (self._reach.project(db, id_).id,)))

    def forget_session(self, id_: int) -> int:
        """Delete a session; returns how many episodes went with it."""
        with self._store.write() as db:
            return self._writer.forget_scope(Scope("sessions", (self._reach.session(db, id_).id,)))


def _check_session(name: str, title: str | None) -> None:
    incoming.name("session", name)
    if title is not None:
        incoming.name("title", title)
