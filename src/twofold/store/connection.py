"""One SQLite file, opened by any number of threads and processes at once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from twofold.errors import StoreError
from twofold.store.migrations import migrate

BUSY_MILLISECONDS = 60_000  # longer than any write of ours, so that a caller never sees "database is locked"
PAGE_CACHE_KIB = 32_768

_SENTENCES: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.NotADBError, "{path} is not a SQLite database; name another file with --db or TWOFOLD_DB"),
    (apsw.CorruptError, "{path} is damaged ({error}); restore a copy, or export what can still be read"),
    (apsw.ReadOnlyError, "{path} cannot be written; check the permissions of the file and of its folder"),
    (apsw.FullError, "the disk that holds {path} is full; nothing was changed, free some space and try again"),
    (apsw.BusyError, "{path} stayed locked by another process for a minute; end that process or try again"),
    (apsw.CantOpenError, "{path} cannot be opened; check that its folder exists and may be written"),
    (apsw.IOError, "{path} cannot be read or written ({error}); check the disk"),
    (apsw.PermissionsError, "{path} may not be opened; check its permissions"),
)


class Store:
    """The file and its transactions.

    Every thread has its own connection, so that reads run side by side; writes of this process take turns
    in front of SQLite's lock. `read` gives one snapshot, `write` one durable transaction; both nest. `after_write`
    is called when one is on disk.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._local = threading.local()
        self._connections: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._writing = threading.RLock()
        self._closed = False
        self.after_write: Callable[[], None] = lambda: None
        with self._errors(), self._writing:
            migrate(self.connection, self.path)

    def close(self) -> None:
        """Close every thread's connection. A closed store cannot be used again."""
        self._closed = True
        for connection in list(self._connections):
            with suppress(apsw.ThreadingViolationError):  # in use by a thread, which finds the store closed next
                connection.close()

    @property
    def connection(self) -> apsw.Connection:
        """This thread's connection."""
        if self._closed:
            raise StoreError(f"{self.path} was closed; open it again with Memory.open")
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._connections.add(connection)
        return connection

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """One snapshot for several statements; never takes the write lock."""
        with self._errors():
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """One transaction: all of it is on disk when the block ends, or nothing of it if the block raises."""
        with self._errors(), self._writing:
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self.after_write()

    def size(self) -> int:
        """Bytes on disk, the log included."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def compact(self) -> None:
        """Rewrite the file without its free pages, and empty the log, so that deleted text is gone from disk."""
        with self._errors(), self._writing:
            self.connection.execute("VACUUM")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors as sentences for a person."""
        try:
            yield
        except apsw.Error as error:
            for kind, sentence in _SENTENCES:
                if isinstance(error, kind):
                    raise StoreError(sentence.format(path=self.path, error=error)) from error
            raise StoreError(f"{self.path}: SQLite reports {error}") from error
