"""Episodes by their sources: what is stored of a message already, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import apsw

from twofold.store.rows import as_json, project_id, session_id
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
