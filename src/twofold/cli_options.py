"""What commands share: options, a progress bar, the database that is to be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click

from twofold.errors import StoreError
from twofold.settings import database as known_database

database = click.option("--db", type=click.Path(path_type=Path), help="Database file; else TWOFOLD_DB, else your own.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
in_project = click.option("--project", help="Name of the project.")
in_session = click.option("--session", help="Name of the session.")


@contextmanager
def bar(unit: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar for work over a second, on stderr, when that is a terminal."""
    from tqdm import tqdm  # only some commands need it

    with tqdm(total=total, unit=f" {unit}", delay=1, disable=None, file=sys.stderr) as shown:
        yield lambda done: cast(None, shown.update(done - shown.n))


def existing(db: Path | None) -> Path:
    """The database to be read. Raises StoreError where there is none: a mistyped name must not look empty."""
    path = db or known_database()
    if not path.exists():
        raise StoreError(f"there is no database {path}; add and import make one, --db and TWOFOLD_DB name another")
    return path
