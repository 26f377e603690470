"""What users said of recalled episodes, in the file."""

from __future__ import annotations

from typing import Any

import apsw

from twofold.store.rows import moment
from twofold.types import Judgement

_JUDGEMENT = """SELECT f.id, f.query, p.name, s.name, f.episode_id, f.useful, f.time FROM feedback f
    LEFT JOIN projects p ON p.id = f.project_id LEFT JOIN sessions s ON s.id = f.session_id"""


def put(
    db: apsw.Connection, query: str, where: tuple[int | None, int | None], episode: int, useful: bool, time: int
) -> int:
    """Keep a word on an episode that was recalled there (project, session), in place of an earlier one; its id."""
    place = (query, *where, episode)
    db.execute(
        """DELETE FROM feedback WHERE query = ?1 AND project_id IS ?2 AND session_id IS ?3 AND episode_id = ?4""", place
    )
    db.execute(
        """INSERT INTO feedback (query, project_id, session_id, episode_id, useful, time) VALUES (?, ?, ?, ?, ?, ?)""",
        (*place, int(useful), time),
    )
    return db.last_insert_rowid()


def bring(
    db: apsw.Connection, query: str, where: tuple[int | None, int | None], episode: int, useful: bool, time: int
) -> bool:
    """Keep a word of another store unless a later one on the same is here; whether it was kept and says more."""
    known: Any = db.execute(
        """SELECT time, useful FROM feedback
        WHERE query = ?1 AND project_id IS ?2 AND session_id IS ?3 AND episode_id = ?4""",
        (query, *where, episode),
    ).fetchone()
    if known and known[0] >= time:
        return False
    put(db, query, where, episode, useful, time)
    return True


def get(db: apsw.Connection, id_: int, project: int | None) -> Judgement | None:
    """One by id, if it was said in that project or none is given."""
    row = db.execute(f"{_JUDGEMENT} WHERE f.id = ?1 AND (?2 IS NULL OR f.project_id = ?2)", (id_, project)).fetchone()
    return None if row is None else _judgement(row)


def before(db: apsw.Connection, project: int | None, id_: int | None, limit: int) -> list[Judgement]:
    """Up to `limit` of those said in a project, or of all, the newest first, before that of the id."""
    found = db.execute(
        f"""{_JUDGEMENT} WHERE (?1 IS NULL OR f.project_id = ?1) AND (?2 IS NULL OR f.id < ?2)
        ORDER BY f.id DESC LIMIT ?3""",
        (project, id_, limit),
    )
    return [_judgement(row) for row in found]


def remove(db: apsw.Connection, id_: int) -> None:
    """Take one back."""
    db.execute("DELETE FROM feedback WHERE id = ?", (id_,))


def _judgement(row: Any) -> Judgement:
    id_, query, project, session, episode, useful, time = row
    return Judgement(id_, query, project, session, episode, bool(useful), moment(time))
