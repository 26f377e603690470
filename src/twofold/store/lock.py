"""A lock between processes that goes with the process that holds it."""

from __future__ import annotations

from pathlib import Path

import apsw

from twofold.errors import StoreError


class Lock:
    """Held by one process at a time, by SQLite's own lock on an empty database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: apsw.Connection | None = None

    def take(self) -> bool:
        """Take it unless another process has it; whether it is ours."""
        if self._held is None:
            try:
                connection = apsw.Connection(str(self._path))
                connection.execute("BEGIN EXCLUSIVE")
            except apsw.BusyError:
                connection.close()
                return False
            except apsw.Error as error:
                raise StoreError(
                    f"{self._path} cannot be made ({error}); check the permissions of its folder"
                ) from error
            self._held = connection
        return True

    def release(self) -> None:
        """Let others have it."""
        if self._held is not None:
            self._held.close()
            self._held = None
