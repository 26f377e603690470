"""A lock between processes that goes with the process that holds it."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw

from twofold.errors import StoreError


class Lock:
    """Held by one process at a time, by SQLite's own lock on an empty database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taking = threading.Lock()
        self._held: apsw.Connection | None = None

    def take(self) -> bool:
        """Take it unless another process has it; whether it is ours."""
        with self._taking:
            if self._held is None:
                self._held = self._try()
            return self._held is not None

    def release(self) -> None:
        """Let others have it."""
        with self._taking:
            if self._held is not None:
                self._held.close()
                self._held = None

    def _try(self) -> apsw.Connection | None:
        try:
            connection = apsw.Connection(str(self._path))
        except apsw.Error as error:
            raise self._cannot(error) from error
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except apsw.BusyError:
            connection.close()
            return None
        except apsw.Error as error:
            connection.close()
            raise self._cannot(error) from error
        return connection

    def _cannot(self, error: apsw.Error) -> StoreError:
        return StoreError(f"{self._path} cannot be made ({error}); check the permissions of its folder")
