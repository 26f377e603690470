"""Judged retrieval sets in the uniform layout: corpus.jsonl.gz, queries.jsonl.gz, qrels.tsv, qrels_session.tsv.

A corpus row has `id` and `text`, and may have `title`, `group` (rows of a group are searched by its own
queries only), `session`, `speaker` and `time`. A row without a session is a session of its own.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from twofold import Message

Qrels = dict[str, dict[str, int]]

_TIMES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M")


@dataclass(frozen=True)
class Query:
    """One judged question; `group` is the project that it searches, None for everything."""

    id: str
    text: str
    group: str | None


@dataclass(frozen=True)
class Dataset:
    """A set ready to be imported and asked."""

    name: str
    messages: list[Message]  # `source` holds the row's id
    queries: list[Query]
    qrels: Qrels
    session_qrels: Qrels | None

    @property
    def judged(self) -> list[Query]:
        """The queries that have a relevant row or session."""
        return [q for q in self.queries if q.id in self.qrels or q.id in (self.session_qrels or {})]


def load(folder: Path) -> Dataset:
    """Read a set."""
    rows = list(_rows(folder / "corpus.jsonl.gz"))
    by_session = folder / "qrels_session.tsv"
    return Dataset(
        folder.name,
        [_message(row) for row in rows],
        [Query(str(row["id"]), row["text"], row.get("group")) for row in _rows(folder / "queries.jsonl.gz")],
        _qrels(folder / "qrels.tsv"),
        _qrels(by_session) if by_session.exists() else None,
    )


def _message(row: dict[str, Any]) -> Message:
    words = ": ".join(part for part in (row.get("speaker"), row["text"]) if part)
    text = "\n".join(part for part in (row.get("title"), words) if part)
    return Message(
        text or "(empty)",
        session=str(row.get("session") or row["id"]),
        project=row.get("group"),
        time=_time(row.get("time")),
        source=str(row["id"]),
    )


def _time(text: str | None) -> datetime | None:
    for shape in _TIMES if text else ():
        try:
            return datetime.strptime(text or "", shape).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
    return None


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _qrels(path: Path) -> Qrels:
    qrels: Qrels = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            if int(row["score"]) > 0:
                qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return qrels
