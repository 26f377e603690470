"""Runs of `eval` and `tune` in the file."""

from __future__ import annotations

import json
from typing import Any

import apsw

from twofold.store.rows import moment
from twofold.types import Run

KEPT = 10  # of each kind


def add(db: apsw.Connection, kind: str, time: int, report: str) -> None:
    """Keep a run, and no more than KEPT of its kind."""
    db.execute("INSERT INTO runs (kind, time, report) VALUES (?, ?, ?)", (kind, time, report))
    db.execute(
        """DELETE FROM runs WHERE kind = ?1
        AND id NOT IN (SELECT id FROM runs WHERE kind = ?1 ORDER BY id DESC LIMIT ?2)""",
        (kind, KEPT),
    )


def all_(db: apsw.Connection) -> list[Run]:
    """All that are kept, the newest first."""
    found: Any = db.execute("SELECT kind, time, report FROM runs ORDER BY id DESC")
    return [Run(kind, moment(time), json.loads(report)) for kind, time, report in found]
