"""What is wrong within the file: what SQLite itself finds, rows whose parent is gone, vectors that are none."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold.store.vectors import ALL, PROJECT, SESSION, SUM_ROWS, matrix

Key = tuple[int, int, int]  # model, kind and what a sum is of
Vectors = Literal["vectors", "entity_vectors"]  # the tables that hold some

OF_INDEXES = ("missing from index", "# of entries in index")  # faults that making the indexes anew mends
OF_KEYWORDS = "fts5"  # is in what SQLite says of the keyword index
DRIFT = 1e-3  # of a component of the mean: more than rounding comes to where sums are kept as vectors come and go
SAID = ("episodes", "sessions", "entities")  # rows that hold what somebody said: their parents are made again
PARENTS = {"sessions": "INSERT INTO sessions (id, name) ", "projects": "INSERT INTO projects (id, name) "}


@dataclass(frozen=True, slots=True)
class Reference:
    """A column that names rows of another table."""

    table: str
    column: str
    parent: str

    @property
    def dangling(self) -> str:
        """The condition on rows whose parent is not there."""
        return f"{self.column} IS NOT NULL AND {self.column} NOT IN (SELECT id FROM {self.parent})"

    @property
    def holds_what_was_said(self) -> bool:
        """Whether the rows are not to be lost with a parent that can be made again."""
        return self.table in SAID and self.parent in PARENTS


def faults(db: apsw.Connection) -> list[str]:
    """What SQLite's own check of the whole file finds, in its words; the first hundred."""
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check")]
    return [] if found == ["ok"] else found


def index_again(db: apsw.Connection) -> None:
    """Make SQLite's own indexes anew from their tables."""
    db.execute("REINDEX")


def dangling(db: apsw.Connection) -> dict[Reference, int]:
    """How many rows name a parent that is not there, by reference."""
    counts: dict[Reference, int] = defaultdict(int)
    known: dict[tuple[str, int], Reference] = {}
    for table, _, _, number in db.execute("PRAGMA foreign_key_check"):
        if (table, number) not in known:
            columns: Any = db.execute(f"PRAGMA foreign_key_list({table})")
            known |= {(table, row[0]): Reference(table, row[3], row[2]) for row in columns}
        counts[known[table, number]] += 1
    return dict(counts)


def tie_up(db: apsw.Connection) -> None:
    """Make the sessions and projects anew that what was said names; drop the other rows whose parent is gone."""
    for child in ("episodes", "entities", "sessions"):  # a session that is made again names no project
        for reference in [one for one in dangling(db) if one.table == child and one.holds_what_was_said]:
            db.execute(
                f"""{PARENTS[reference.parent]}
                SELECT DISTINCT {reference.column}, 'recovered ' || {reference.column} FROM {child}
                WHERE {reference.dangling}"""
            )
    for reference in dangling(db):
        db.execute(f"DELETE FROM {reference.table} WHERE {reference.dangling}")


def current_models(db: apsw.Connection) -> tuple[int, int]:
    """How many models are current, and how many there are."""
    row: Any = db.execute("SELECT count(*) FILTER (WHERE current), count(*) FROM models").fetchone()
    return row[0], row[1]


def choose_model(db: apsw.Connection) -> None:
    """Of several current models, or of all where none is, let the one with the most vectors be the current one."""
    db.execute(
        """UPDATE models SET current = (id = (
            SELECT m.id FROM models m LEFT JOIN vectors v ON v.model_id = m.id
            GROUP BY m.id ORDER BY m.current DESC, count(v.id) DESC, m.id DESC LIMIT 1))"""
    )


def of_other_models(db: apsw.Connection) -> int:
    """How many vectors are of models that are not the current one."""
    count: int = db.execute(
        "SELECT count(*) FROM vectors WHERE model_id IN (SELECT id FROM models WHERE NOT current)"
    ).get
    return count


def bad_vectors(db: apsw.Connection, table: Vectors) -> list[int]:
    """The rows of a table of vectors that hold none: not of the model's length, not finite, or zero."""
    owner = "id" if table == "vectors" else "entity_id"
    reading: Any = db.execute(
        f"SELECT v.{owner}, m.dimension, v.vector FROM {table} v JOIN models m ON m.id = v.model_id ORDER BY v.{owner}"
    )
    bad: list[int] = []
    while chunk := list(islice(reading, SUM_ROWS)):
        good = _usable([row[1] for row in chunk], [row[2] for row in chunk])
        bad += [row[0] for row, is_good in zip(chunk, good.tolist(), strict=True) if not is_good]
    return bad


def drop_vectors(db: apsw.Connection, table: Vectors, bad: Sequence[int]) -> None:
    """Delete rows that hold no vector; an entity's of every model."""
    owner = "id" if table == "vectors" else "entity_id"
    db.execute(f"DELETE FROM {table} WHERE {owner} IN (SELECT value FROM json_each(?))", (json.dumps(list(bad)),))


def differing_sums(db: apsw.Connection) -> int:
    """How many of the sums of vectors are not there, or are not what the vectors come to, or are of nothing."""
    expected = alike = 0
    for key, total, count in _sums(db):
        row: Any = db.execute(
            "SELECT count, total FROM vector_sums WHERE model_id = ? AND kind = ? AND of = ?", key
        ).fetchone()
        if row and row[0] == count and len(row[1]) == 4 * len(total):
            far = np.abs(np.frombuffer(row[1], dtype=np.float32) - total)
            alike += bool((far <= DRIFT * count).all())  # and not so where it is NaN
        expected += 1
    kept: int = db.execute("SELECT count(*) FROM vector_sums").get
    return max(expected, kept) - alike


def _sums(db: apsw.Connection) -> Iterator[tuple[Key, NDArray[np.float64], int]]:
    """Every sum with the number of its vectors, made from those that are some."""
    sums: dict[Key, tuple[NDArray[np.float64], int]] = {}
    reading: Any = db.execute(
        """SELECT v.model_id, e.session_id, ifnull(s.project_id, 0), m.dimension, v.vector
        FROM episodes e INDEXED BY episode_order CROSS JOIN vectors v ON v.episode_id = e.id
        JOIN sessions s ON s.id = e.session_id JOIN models m ON m.id = v.model_id ORDER BY e.session_id"""
    )
    while chunk := list(islice(reading, SUM_ROWS)):
        good = _usable([row[3] for row in chunk], [row[4] for row in chunk])
        _add(sums, [row for row, is_good in zip(chunk, good.tolist(), strict=True) if is_good])
        for key in [key for key in sums if key[1] == SESSION and key[2] != chunk[-1][1]]:
            yield (key, *sums.pop(key))
    for key, (total, count) in sums.items():
        yield key, total, count


def _add(sums: dict[Key, tuple[NDArray[np.float64], int]], rows: Sequence[Any]) -> None:
    groups: dict[Key, list[bytes]] = defaultdict(list)
    for model, session, project, _, blob in rows:
        for kind, of in ((ALL, 0), (PROJECT, project), (SESSION, session)):
            groups[model, kind, of].append(blob)
    for key, blobs in groups.items():
        total = matrix(blobs, len(blobs[0]) // 2).sum(axis=0, dtype=np.float64)
        known, count = sums.get(key, (0.0, 0))
        sums[key] = known + total, count + len(blobs)


def _usable(dimensions: Sequence[int], blobs: Sequence[bytes]) -> NDArray[np.bool_]:
    """Which of these are vectors of their length, finite and not zero."""
    good = np.array([len(blob) == 2 * size for size, blob in zip(dimensions, blobs, strict=True)])
    for size in set(dimensions):
        at = np.flatnonzero(good & (np.array(dimensions) == size))
        rows = matrix([blobs[place] for place in at.tolist()], size)
        good[at] = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
    return good
