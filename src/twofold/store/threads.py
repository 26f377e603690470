"""Which session a conversation goes on in, by a digest of what was said in it so far."""

from __future__ import annotations

import apsw


def known(db: apsw.Connection, digest: str) -> bool:
    """Whether a conversation of that digest goes on somewhere."""
    return db.execute("SELECT 1 FROM threads WHERE digest = ?", (digest,)).get is not None


def take(db: apsw.Connection, digest: str, project: int | None) -> int | None:
    """The session of that project, or without one, in which it goes on, which is then known no longer."""
    # The digest begins with the project; the row is asked all the same, so that no scope hangs on a hash alone.
    found: int | None = db.execute(
        """DELETE FROM threads WHERE digest = ?1
        AND (SELECT project_id FROM sessions WHERE id = session_id) IS ?2 RETURNING session_id""",
        (digest, project),
    ).get
    return found


def put(db: apsw.Connection, digest: str, session: int) -> None:
    """Let it go on in that session, if this is still there."""
    db.execute("INSERT OR REPLACE INTO threads SELECT ?, id FROM sessions WHERE id = ?", (digest, session))
