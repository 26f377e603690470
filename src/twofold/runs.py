"""The last runs of `eval` and `tune`, kept to be looked at. `memory.runs` is one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from twofold.scopes import Reach
from twofold.store import Store, rows
from twofold.store import runs as stored
from twofold.types import Run


class Runs:
    """What was measured, of the whole store: a door on one project has none. Raises NotAllowed."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach

    def add(self, kind: str, report: Mapping[str, object]) -> None:
        """Keep a run; the oldest of its kind go."""
        self._reach.must_be_whole("keep what was measured")
        with self._store.write() as db:
            stored.add(db, kind, rows.microseconds(datetime.now(timezone.utc)), rows.as_json(dict(report)))

    def last(self) -> list[Run]:
        """All that are kept, the newest first."""
        self._reach.must_be_whole("see what was measured of the whole store")
        with self._store.read() as db:
            return stored.all_(db)
