"""The rows: projects, sessions and episodes, read and written through a connection that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import apsw

from twofold.types import Episode, Message, Project, Scope, Session

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

# Of an episode `e` that is kept without being recalled or given to an assistant.
SHOWN = "json_extract(e.metadata, '$.hidden') IS NOT 1"

as_json = json.JSONEncoder(ensure_ascii=False).encode

_EPISODE = """
    SELECT e.id, e.session_id, s.name, s.title, p.name, e.role, e.content, e.time, e.metadata
    FROM episodes e JOIN sessions s ON s.id = e.session_id LEFT JOIN projects p ON p.id = s.project_id
"""
_PROJECT = """
    SELECT p.id, p.name, count(DISTINCT s.id), count(e.id)
    FROM projects p LEFT JOIN sessions s ON s.project_id = p.id LEFT JOIN episodes e ON e.session_id = s.id
"""
_SESSION = """
    SELECT s.id, s.name, s.title, p.name, count(e.id), min(e.time), max(e.time)
    FROM sessions s LEFT JOIN projects p ON p.id = s.project_id LEFT JOIN episodes e ON e.session_id = s.id
"""


def microseconds(time: datetime) -> int:
    """An aware time as the file keeps it."""
    return (time - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """A time of the file, aware UTC."""
    return _EPOCH + value * _MICROSECOND


def _episode(row: tuple[Any, ...]) -> Episode:
    id_, session_id, session, title, project, role, content, time, metadata = row
    return Episode(id_, session_id, session, title, project, role, content, moment(time), json.loads(metadata))


def _session(row: tuple[Any, ...]) -> Session:
    id_, name, title, project, episodes, first, last = row
    return Session(id_, name, title, project, episodes, first and moment(first), last and moment(last))


def project_id(db: apsw.Connection, name: str) -> int | None:
    """The id of a project, None if there is none of that name."""
    found: int | None = db.execute("SELECT id FROM projects WHERE name = ?", (name,)).get
    return found


def make_project(db: apsw.Connection, name: str) -> int:
    """The id of a project, made if it was not there."""
    found = project_id(db, name)
    if found is None:
        db.execute("INSERT INTO projects (name) VALUES (?)", (name,))
        found = db.last_insert_rowid()
    return found


def session_id(db: apsw.Connection, name: str, project: int | None) -> int | None:
    """The id of a session of that name in that project, or among those without one."""
    found: int | None = db.execute(
        "SELECT id FROM sessions WHERE name = ? AND ifnull(project_id, 0) = ?", (name, project or 0)
    ).get
    return found


def make_session(db: apsw.Connection, name: str, project: int | None, title: str | None) -> int:
    """The id of a session, made if it was not there; a title is taken where there was none."""
    found = session_id(db, name, project)
    if found is None:
        db.execute("INSERT INTO sessions (project_id, name, title) VALUES (?, ?, ?)", (project, name, title))
        return db.last_insert_rowid()
    if title is not None:
        db.execute("UPDATE sessions SET title = ? WHERE id = ? AND title IS NULL", (title, found))
    return found


def projects_of_session(db: apsw.Connection, name: str) -> list[str | None]:
    """The projects that have a session of that name; None stands for no project."""
    rows = db.execute(
        "SELECT p.name FROM sessions s LEFT JOIN projects p ON p.id = s.project_id WHERE s.name = ? ORDER BY 1",
        (name,),
    )
    return [row[0] for row in rows]


def projects(db: apsw.Connection) -> list[Project]:
    """Every project, by name."""
    return [Project(*row) for row in db.execute(f"{_PROJECT} GROUP BY p.id ORDER BY p.name")]


def projects_after(db: apsw.Connection, after: Sequence[Any] | None, limit: int) -> list[Project]:
    """Up to `limit` projects by name, after the name that `after` holds."""
    found = db.execute(
        f"{_PROJECT} WHERE ?1 IS NULL OR p.name > ?1 GROUP BY p.id ORDER BY p.name LIMIT ?2",
        (after[0] if after else None, limit),
    )
    return [Project(*row) for row in found]


def project(db: apsw.Connection, project: int) -> Project | None:
    """One project by id."""
    row = db.execute(f"{_PROJECT} WHERE p.id = ? GROUP BY p.id", (project,)).fetchone()
    return None if row is None else Project(*row)


def rename_project(db: apsw.Connection, project: int, name: str) -> None:
    """Another name for a project, which no other has."""
    db.execute("UPDATE projects SET name = ? WHERE id = ?", (name, project))


def sessions(db: apsw.Connection, project: int | None) -> list[Session]:
    """The sessions of one project, or all; the one that spoke last first."""
    where = "" if project is None else "WHERE s.project_id = ?"
    values = () if project is None else (project,)
    rows = db.execute(f"{_SESSION} {where} GROUP BY s.id ORDER BY max(e.time) DESC, s.id DESC", values)
    return [_session(row) for row in rows]


def sessions_after(db: apsw.Connection, project: int | None, after: Sequence[Any] | None, limit: int) -> list[Session]:
    """Up to `limit` sessions of one project, or of all, the one that spoke last first, after (last time, id)."""
    time, id_ = after or (None, None)
    found = db.execute(
        f"""{_SESSION} WHERE ?1 IS NULL OR s.project_id = ?1 GROUP BY s.id
        HAVING ?2 IS NULL OR (ifnull(max(e.time), 0), s.id) < (?2, ?3)
        ORDER BY ifnull(max(e.time), 0) DESC, s.id DESC LIMIT ?4""",
        (project, time, id_, limit),
    )
    return [_session(row) for row in found]


def update_session(db: apsw.Connection, session: int, name: str, title: str | None) -> None:
    """Another name, which no other session of its project has, and another title."""
    db.execute("UPDATE sessions SET name = ?, title = ? WHERE id = ?", (name, title, session))


def project_of_session(db: apsw.Connection, session: int) -> int | None:
    """The id of the project of a session, if it has one."""
    found: int | None = db.execute("SELECT project_id FROM sessions WHERE id = ?", (session,)).get
    return found


def session(db: apsw.Connection, session: int) -> Session | None:
    """One session by id."""
    row = db.execute(f"{_SESSION} WHERE s.id = ? GROUP BY s.id", (session,)).fetchone()
    return None if row is None else _session(row)


def move_session(db: apsw.Connection, session: int, project: int | None) -> None:
    """Another project for a session; the caller renews what stands by project in the same transaction."""
    db.execute("UPDATE sessions SET project_id = ? WHERE id = ?", (project, session))
    db.execute(
        """UPDATE feedback SET project_id = ?2 WHERE project_id IS NOT NULL
        AND episode_id IN (SELECT id FROM episodes WHERE session_id = ?1)""",
        (session, project),
    )


def delete_session(db: apsw.Connection, session: int) -> None:
    """A session and, by the schema, its episodes and all that hangs on them."""
    db.execute("DELETE FROM sessions WHERE id = ?", (session,))


def delete_project(db: apsw.Connection, project: int) -> None:
    """A project and, by the schema, its sessions and all that hangs on them."""
    db.execute("DELETE FROM projects WHERE id = ?", (project,))


def sessions_in_scope(db: apsw.Connection, scope: Scope) -> list[int] | None:
    """The ids of the sessions that a scope may see; None stands for all of them."""
    if scope.kind == "all":
        return None
    if scope.kind == "sessions":
        return list(scope.ids)
    rows = db.execute("SELECT id FROM sessions WHERE project_id = ?", (scope.ids[0],))
    return [row[0] for row in rows]


def in_time(db: apsw.Connection, ids: Iterable[int], scope: Scope) -> list[int]:
    """Those of the given episodes that were said within the times of a scope, in their order."""
    listed = list(ids)
    if scope.times is None:
        return listed
    said = times(db, listed)
    return [id_ for id_ in listed if id_ in said and scope.times[0] <= said[id_] < scope.times[1]]


def weeks(db: apsw.Connection, scope: Scope, offset: int) -> list[tuple[int, int]]:
    """The weeks in which something was said, as numbers counted from Monday 5 January 1970, and how many episodes.

    `offset` are the microseconds by which the zone's clocks are ahead.
    """
    sessions = sessions_in_scope(db, scope)
    found: Any = db.execute(
        """SELECT (time + ?1 - 345600000000) / 604800000000 - (time + ?1 < 345600000000) AS week, count(*) FROM episodes
        WHERE ?2 IS NULL OR session_id IN (SELECT value FROM json_each(?2)) GROUP BY week ORDER BY week""",
        (offset, None if sessions is None else json.dumps(sessions)),
    )
    return list(found)


def within_times(db: apsw.Connection, scope: Scope, limit: int | None = None) -> list[int]:
    """The ids of the episodes in a scope that has times, rising; up to `limit` of them."""
    sessions = sessions_in_scope(db, scope)
    first, end = scope.times or (0, 0)
    found = db.execute(
        """SELECT id FROM episodes WHERE time >= ?1 AND time < ?2
        AND (?3 IS NULL OR session_id IN (SELECT value FROM json_each(?3))) ORDER BY id LIMIT ?4""",
        (first, end, None if sessions is None else json.dumps(sessions), -1 if limit is None else limit),
    )
    return [row[0] for row in found]


def sees(db: apsw.Connection, scope: Scope, episode: int) -> bool:
    """Whether there is such an episode and the scope may see it."""
    sessions = sessions_in_scope(db, scope)
    session: int | None = db.execute("SELECT session_id FROM episodes WHERE id = ?", (episode,)).get
    return session is not None and (sessions is None or session in sessions) and bool(in_time(db, [episode], scope))


def insert_episodes(db: apsw.Connection, messages: Sequence[tuple[int, Message, datetime]]) -> list[int]:
    """The ids of new episodes, made of messages with the ids of their sessions and their times, in that order."""
    last: int = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'episodes'").get or 0
    ids = list(range(last + 1, last + 1 + len(messages)))
    db.executemany(
        "INSERT INTO episodes (id, session_id, role, content, time, metadata, source) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (id_, session, one.role, one.content, microseconds(time), as_json(dict(one.metadata)), one.source)
            for id_, (session, one, time) in zip(ids, messages, strict=True)
        ],
    )
    return ids


def update_content(db: apsw.Connection, episode: int, content: str) -> bool:
    """New words for an episode; the caller renews its index entries in the same transaction. False if it is gone."""
    db.execute("UPDATE episodes SET content = ? WHERE id = ?", (content, episode))
    return bool(db.changes())


def delete_episode(db: apsw.Connection, episode: int) -> None:
    """An episode and, by the schema, its vectors and mentions."""
    db.execute("DELETE FROM episodes WHERE id = ?", (episode,))


def episodes(db: apsw.Connection, ids: Sequence[int]) -> dict[int, Episode]:
    """The episodes of the given ids that exist, in one query."""
    rows = db.execute(f"{_EPISODE} WHERE e.id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),))
    return {row[0]: _episode(row) for row in rows}


def session_episodes(db: apsw.Connection, session: int) -> list[Episode]:
    """A session from its beginning."""
    return [_episode(row) for row in db.execute(f"{_EPISODE} WHERE e.session_id = ? ORDER BY e.time, e.id", (session,))]


def session_episodes_after(db: apsw.Connection, session: int, after: Sequence[Any] | None, limit: int) -> list[Episode]:
    """Up to `limit` episodes of a session by time, after (time, id)."""
    time, id_ = after or (None, None)
    found = db.execute(
        f"""{_EPISODE} WHERE e.session_id = ?1 AND (?2 IS NULL OR (e.time, e.id) > (?2, ?3))
        ORDER BY e.time, e.id LIMIT ?4""",
        (session, time, id_, limit),
    )
    return [_episode(row) for row in found]


def episodes_after(db: apsw.Connection, scope: Scope, after: Sequence[Any] | None, limit: int) -> list[Episode]:
    """Up to `limit` episodes that a scope may see, in the order they were stored, after (id)."""
    sessions = sessions_in_scope(db, scope)
    found = db.execute(
        f"""{_EPISODE} WHERE e.id > ?1 AND (?2 IS NULL OR e.session_id IN (SELECT value FROM json_each(?2)))
        ORDER BY e.id LIMIT ?3""",
        (after[0] if after else 0, None if sessions is None else json.dumps(sessions), limit),
    )
    return [_episode(row) for row in found]


def last_episodes(db: apsw.Connection, session: int, limit: int) -> list[Episode]:
    """The last `limit` episodes of a session that are not hidden, oldest first."""
    where = f"e.session_id = ? AND {SHOWN}"
    found = db.execute(f"{_EPISODE} WHERE {where} ORDER BY e.time DESC, e.id DESC LIMIT ?", (session, limit))
    return [_episode(row) for row in found][::-1]


def episodes_in_scope(db: apsw.Connection, scope: Scope) -> list[int]:
    """The ids of the episodes that a scope may see."""
    sessions = sessions_in_scope(db, scope)
    rows = db.execute(
        "SELECT id FROM episodes WHERE ?1 IS NULL OR session_id IN (SELECT value FROM json_each(?1))",
        (None if sessions is None else json.dumps(sessions),),
    )
    return [row[0] for row in rows]


def episodes_of_sources(db: apsw.Connection, sources: Iterable[str]) -> dict[str, list[int]]:
    """The ids of the episodes of each source, which is one in each session at most."""
    found: dict[str, list[int]] = {}
    for source, id_ in db.execute(
        "SELECT source, id FROM episodes WHERE source IN (SELECT value FROM json_each(?))", (json.dumps(list(sources)),)
    ):
        found.setdefault(source, []).append(id_)
    return found


def last_time(db: apsw.Connection, session: str, project: str | None) -> datetime | None:
    """The time of the last episode of a session, given by names."""
    value: int | None = db.execute(
        """SELECT max(e.time) FROM episodes e JOIN sessions s ON s.id = e.session_id
        WHERE s.name = ? AND ifnull(s.project_id, 0) = ifnull((SELECT id FROM projects WHERE name = ?), 0)""",
        (session, project),
    ).get
    return None if value is None else moment(value)


def shown(db: apsw.Connection, ids: Iterable[int]) -> list[int]:
    """Those of the given episodes that are not hidden, rising."""
    found = db.execute(
        f"SELECT id FROM episodes e WHERE id IN (SELECT value FROM json_each(?)) AND {SHOWN} ORDER BY id",
        (json.dumps(list(ids)),),
    )
    return [row[0] for row in found]


def contents(db: apsw.Connection, ids: Iterable[int]) -> Iterator[tuple[int, str]]:
    """The words of the given episodes."""
    yield from db.execute(
        "SELECT id, content FROM episodes WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )


def times(db: apsw.Connection, ids: Iterable[int]) -> dict[int, int]:
    """When the given episodes were said, in microseconds since 1970."""
    found: Any = db.execute(
        "SELECT id, time FROM episodes WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return dict(found)


def counts(db: apsw.Connection) -> tuple[int, int, int]:
    """How many projects, sessions and episodes there are."""
    row: Any = db.execute(
        "SELECT (SELECT count(*) FROM projects), (SELECT count(*) FROM sessions), (SELECT count(*) FROM episodes)"
    ).fetchone()
    return row[0], row[1], row[2]


def recalled(db: apsw.Connection) -> int:
    """How many episodes are not hidden: those that have their entry in the keyword index."""
    count: int = db.execute("SELECT value FROM counters WHERE name = 'keyword_rows'").get
    return count


def read_settings(db: apsw.Connection) -> dict[str, Any]:
    """The stored settings by name."""
    return {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM settings")}


def write_settings(db: apsw.Connection, values: Mapping[str, object]) -> None:
    """Store settings over those that are there."""
    db.executemany(
        "INSERT OR REPLACE INTO settings VALUES (?, ?)", [(name, json.dumps(value)) for name, value in values.items()]
    )


def episodes_around(db: apsw.Connection, episode: Episode, count: int) -> tuple[list[Episode], list[Episode]]:
    """Up to `count` episodes before and after one in its session that are not hidden, in either list nearest first."""
    at = (episode.session_id, microseconds(episode.time), episode.id, count)
    before = db.execute(
        f"{_EPISODE} WHERE e.session_id = ? AND (e.time, e.id) < (?, ?) AND {SHOWN} "
        "ORDER BY e.time DESC, e.id DESC LIMIT ?",
        at,
    )
    after = db.execute(
        f"{_EPISODE} WHERE e.session_id = ? AND (e.time, e.id) > (?, ?) AND {SHOWN} ORDER BY e.time, e.id LIMIT ?",
        at,
    )
    return [_episode(row) for row in before], [_episode(row) for row in after]


def episodes_of_contents(db: apsw.Connection, session: int, contents: Iterable[str]) -> list[int]:
    """The ids of a session's episodes whose text is one of these."""
    found = db.execute(
        "SELECT id FROM episodes WHERE session_id = ? AND content IN (SELECT value FROM json_each(?))",
        (session, json.dumps(list(contents))),
    )
    return [row[0] for row in found]
