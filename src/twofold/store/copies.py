"""A copy of the file while others write, and a copy put in the file's place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from twofold.errors import StoreError
from twofold.store.connection import Store
from twofold.store.migrations import APPLICATION_ID, MIGRATIONS

PATIENCE = 1_000  # milliseconds in which others may let go of the file that is to be replaced


def copy(db: apsw.Connection, path: Path) -> None:
    """Copy a database to a new file by SQLite's online backup; it gets its name when it is whole and on disk.

    Raises StoreError where there is such a file, or it cannot be written.
    """
    if path.exists():
        raise StoreError(f"{path} is there already; name a new file")
    half = path.with_name(path.name + ".part")
    with _told(half):
        half.unlink(missing_ok=True)
        with closing(apsw.Connection(str(half))) as target:
            _pour(db, target)
            target.execute("PRAGMA journal_mode = DELETE")  # so that it is one file, on a read-only disk as well
        _to_disk(half)
    half.rename(path)
    _to_disk(path.parent)


def restore(source: Path, target: Path, *, force: bool = False) -> None:
    """Check a copy of a store and put it in the place of a file.

    The store it becomes has another identity than the one that was copied, and no index outside the file. With
    `force` a file that is there is replaced in one transaction, as long as no other process has it open. Raises
    StoreError; then the target is as it was.
    """
    if not source.is_file():
        raise StoreError(f"there is no file {source}; name one that twofold backup wrote")
    if target.exists() and not force:
        raise StoreError(f"{target} is there already; name another file with --db, or replace it with --force")
    half = target.with_name(target.name + ".restoring")
    with _told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(half)
    try:
        with _told(source):
            _check_header(source)
            with (
                closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as old,
                closing(apsw.Connection(str(half))) as new,
            ):
                _pour(old, new)
        _made_ready(half, source)
        with _told(target):
            if not target.exists():
                half.rename(target)
            else:
                _replace(half, target)
            _to_disk(target.parent)
    finally:
        _remove(half)


def _check_header(source: Path) -> None:
    with closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        if db.pragma("application_id") != APPLICATION_ID:
            raise StoreError(f"{source} is no store of Twofold; name a file that twofold backup wrote")
        version = db.pragma("user_version")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{source} has schema {version}, this Twofold knows up to {len(MIGRATIONS)}; "
                "upgrade with: pip install --upgrade twofold"
            )


def _made_ready(half: Path, source: Path) -> None:
    """Check the copy through and through, bring it to this schema, and make it a store of its own."""
    with closing(Store(half)) as store:
        with store.write() as db:
            found = [row[0] for row in db.execute("PRAGMA integrity_check")]
            found += [f"a row of {row[0]} refers to none" for row in db.execute("PRAGMA foreign_key_check")]
            if found != ["ok"]:
                raise StoreError(f"{source} is damaged ({found[0]}); nothing was restored, take another copy")
            db.execute("DELETE FROM targets")
            db.execute("UPDATE identity SET uid = lower(hex(randomblob(8)))")
        store.connection.execute("PRAGMA journal_mode = DELETE")
    _to_disk(half)


def _replace(half: Path, target: Path) -> None:
    """Make the file's content that of another, in one transaction that a kill undoes."""
    with closing(apsw.Connection(str(target))) as into:
        into.set_busy_timeout(PATIENCE)
        try:
            into.execute("PRAGMA locking_mode = EXCLUSIVE")
            into.execute("PRAGMA journal_mode = DELETE")  # which fails while another has the file open
            into.execute("BEGIN EXCLUSIVE")
            into.execute("COMMIT")
        except apsw.BusyError:
            raise StoreError(
                f"{target} is in use by another process; end it (the service, an MCP client) and try again"
            ) from None
        except (apsw.NotADBError, apsw.CorruptError):  # which is what a copy may be restored for
            into.close()
            for left in ("-wal", "-shm", "-journal"):
                target.with_name(target.name + left).unlink(missing_ok=True)
            half.replace(target)
            return
        with closing(apsw.Connection(str(half), flags=apsw.SQLITE_OPEN_READONLY)) as source:
            _pour(source, into)


def _pour(source: apsw.Connection, target: apsw.Connection) -> None:
    with target.backup("main", source, "main") as backup:
        backup.step(-1)


def _to_disk(path: Path) -> None:
    with suppress(OSError):  # a folder cannot be opened everywhere
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(half: Path) -> None:
    for left in ("", "-wal", "-shm", "-journal"):
        half.with_name(half.name + left).unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's and the system's errors as a sentence."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreError(f"{path} is damaged or no database ({error}); nothing was changed") from None
    except (apsw.Error, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"{path} cannot be read or written ({reason}); nothing was changed") from None
