"""Tokens of the service in the file: of each its digest, never itself."""

from __future__ import annotations

from typing import Any

import apsw

from twofold.store.rows import moment
from twofold.types import Token

_TOKEN = "SELECT t.id, t.name, p.name, t.created FROM tokens t LEFT JOIN projects p ON p.id = t.project_id"


def add(db: apsw.Connection, name: str, digest: str, project: int | None, created: int) -> Token | None:
    """A new token; None where there is one of that name."""
    db.execute(
        "INSERT INTO tokens (name, digest, project_id, created) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
        (name, digest, project, created),
    )
    return _token(db.execute(f"{_TOKEN} WHERE t.name = ?", (name,)).fetchone()) if db.changes() else None


def all_of_them(db: apsw.Connection) -> list[Token]:
    """All tokens, the oldest first."""
    return [_token(row) for row in db.execute(f"{_TOKEN} ORDER BY t.id")]


def remove(db: apsw.Connection, name: str) -> bool:
    """Delete a token; whether it was there."""
    db.execute("DELETE FROM tokens WHERE name = ?", (name,))
    return bool(db.changes())


def digests(db: apsw.Connection) -> list[tuple[str, int | None]]:
    """The digest of each token, and the project that it is bound to."""
    found: Any = db.execute("SELECT digest, project_id FROM tokens")
    return list(found)


def _token(row: Any) -> Token:
    id_, name, project, created = row
    return Token(id_, name, project, moment(created))
