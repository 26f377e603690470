"""Episodes by their sources: what is stored of a message already, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import apsw

from twofold.store.rows import as_json, microseconds, project_id, session_id
from twofold.types import Message


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored of a source already, and whether it was edited here since."""

    id: int
    content: str
    is_edited: bool


def sessions_of(db: apsw.Connection, messages: Iterable[Message]) -> dict[tuple[str | None, str], int | None]:
    """The ids of the sessions of messages, by the names of project and session; None where there is none yet."""
    found: dict[tuple[str | None, str], int | None] = {}
    for message in messages:
        key = (message.project, message.session)
        if key not in found:
            project = project_id(db, message.project) if message.project else None
            is_new = message.project is not None and project is None
            found[key] = None if is_new else session_id(db, message.session, project)
    return found


def known(
    db: apsw.Connection, messages: Iterable[Message], sessions: Mapping[tuple[str | None, str], int | None]
) -> dict[tuple[int, str], Known]:
    """What is stored of the sources of messages, by session, whose ids are given, and source."""
    asked = {(sessions[one.project, one.session], one.source) for one in messages}
    found = db.executemany(
        """SELECT session_id, source, id, content, json_extract(metadata, '$.edited') FROM episodes
        WHERE session_id = ? AND source = ?""",
        [pair for pair in asked if None not in pair],
    )
    return {(session, source): Known(id_, text, edited == 1) for session, source, id_, text, edited in found}


class Nameless:
    """Messages without a source, which are known by their session, time, role and words.

    Of equal ones as many are known as are stored: `is_known` is asked once for each that comes.
    """

    def __init__(self) -> None:
        self._came: Counter[bytes] = Counter()

    def is_known(self, db: apsw.Connection, session: int | None, message: Message) -> bool:
        """Whether more of these are stored than came so far."""
        if message.time is None:
            return False
        at = microseconds(message.time)
        named = (message.project, message.session, at, message.role, message.content)
        key = blake2b(repr(named).encode("utf-8", "surrogatepass"), digest_size=12).digest()
        self._came[key] += 1
        stored: int = db.execute(
            """SELECT count(*) FROM episodes WHERE session_id = ? AND time = ? AND role = ? AND content = ?
            AND source IS NULL""",
            (session, at, message.role, message.content),
        ).get
        return stored >= self._came[key]


def find(db: apsw.Connection, session: int, message: Message) -> int | None:
    """The episode that a message became: by its source, else by its time, role and words."""
    at = message.time and microseconds(message.time)
    found: int | None = db.execute(
        """SELECT id FROM episodes WHERE session_id = ?1 AND source IS ?2
        AND (?2 IS NOT NULL OR (time = ?3 AND role = ?4 AND content = ?5)) ORDER BY id""",
        (session, message.source, at, message.role, message.content),
    ).get
    return found


def replace_episode(db: apsw.Connection, episode: int, message: Message) -> None:
    """Make an episode say what its source says now; the caller renews its index entries in the same transaction."""
    db.execute(
        "UPDATE episodes SET role = ?, content = ?, metadata = ? WHERE id = ?",
        (message.role, message.content, as_json(dict(message.metadata)), episode),
    )


def mark_edited(db: apsw.Connection, episode: int) -> None:
    """Note that an episode of some source was edited here, so that a later import does not undo it."""
    db.execute(
        """UPDATE episodes SET metadata = json_set(metadata, '$.edited', json('true'))
        WHERE id = ? AND source IS NOT NULL""",
        (episode,),
    )
