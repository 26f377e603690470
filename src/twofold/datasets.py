"""Judged retrieval sets: the rows that are stored, the queries, and which rows or sessions answer them.

A set is a folder with `corpus.jsonl`, `queries.jsonl` (either may be gzipped) and judgements: `qrels.tsv` by row,
`qrels_session.tsv` by session, or both; BEIR's layout has `qrels/test.tsv` instead. A corpus row has `id` (or `_id`)
and `text`, and may have `title`, `group` (a project: its rows are searched by its own queries only), `session`,
`speaker` and `time`; a row without a session is a session of its own. A query has `id` and `text`, and may have
`group` and `category`. A judgement is a line `query-id`, `corpus-id`, `score` under a header of these words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from twofold.errors import ImportFailed, InvalidInput
from twofold.importers.files import numbered_lines
from twofold.messages import check, content
from twofold.types import Message

Qrels = dict[str, dict[str, int]]

ROW = "row"  # where a message keeps the id of its row, in `metadata`

_HEADER = ["query-id", "corpus-id", "score"]
_TIMES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M")  # LoCoMo's and LongMemEval's


@dataclass(frozen=True, slots=True)
class Query:
    """One question; `group` is the project that it searches, None for everything."""

    id: str
    text: str
    group: str | None = None
    category: str | None = None


@dataclass(frozen=True)
class Dataset:
    """A set ready to be imported and asked; `losses` counts the judgements that name nothing that is there."""

    name: str
    messages: list[Message]  # `source` and `metadata[ROW]` hold the row's id
    queries: list[Query]
    qrels: Qrels
    session_qrels: Qrels | None
    losses: Mapping[str, int]

    @property
    def judged(self) -> list[Query]:
        """The queries that have a relevant row or session, and a group that has rows."""
        groups = {None, *(message.project for message in self.messages)}
        judged = self.qrels.keys() | (self.session_qrels or {}).keys()
        return [query for query in self.queries if query.id in judged and query.group in groups]


def locate(path: Path) -> list[Path]:
    """What there is to load: the path itself, or the sets among a folder's folders. Raises ImportFailed."""
    if not path.exists():
        raise ImportFailed(f"'{path}' does not exist: check the path")
    if not path.is_dir() or _either(path, "corpus.jsonl"):
        return [path]
    found = sorted(child for child in path.iterdir() if child.is_dir() and _either(child, "corpus.jsonl"))
    if not found:
        raise ImportFailed(f"'{path}' holds no set, nor does a folder in it: a set has corpus.jsonl or corpus.jsonl.gz")
    return found


def load(path: Path) -> Dataset:
    """Read a set; a .tsv that is named takes the place of the judgements by row (by session: qrels_session*.tsv).

    Raises ImportFailed naming file and line.
    """
    folder, rows, sessions = _judgements(path)
    messages = list(_messages(_needed(folder, "corpus.jsonl")))
    queries = list(_queries(_needed(folder, "queries.jsonl")))
    asked, losses = {query.id for query in queries}, Counter[str]()
    qrels = _qrels(rows, asked, {message.source for message in messages}, losses) if rows else {}
    by_session = _qrels(sessions, asked, {message.session for message in messages}, losses) if sessions else None
    name = folder.resolve().name + (f"/{path.stem}" if path.suffix == ".tsv" else "")
    dataset = Dataset(name, messages, queries, qrels, by_session, losses)
    if not dataset.judged:
        raise ImportFailed(f"no query of '{folder}' has a judgement that names what is in its corpus: compare the ids")
    return dataset


def only(dataset: Dataset, categories: Collection[str]) -> Dataset:
    """The set with the queries of these categories alone, or as it is where none is named. Raises InvalidInput."""
    known = {query.category for query in dataset.judged if query.category is not None}
    for category in categories:
        if category not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"{dataset.name} has no judged query of category {category!r}; it has {there}")
    if not categories:
        return dataset
    return replace(dataset, queries=[query for query in dataset.queries if query.category in categories])


def _judgements(path: Path) -> tuple[Path, Path | None, Path | None]:
    """The set's folder, its judgements by row and those by session."""
    folder = path if path.is_dir() else path.parent
    if path.suffix == ".tsv" and folder.name == "qrels" and not _either(folder, "corpus.jsonl"):
        folder = folder.parent
    elif not path.is_dir() and path.suffix != ".tsv" and _either(folder, "corpus.jsonl") != path:
        raise ImportFailed(f"'{path}' is no set: name its folder, its corpus.jsonl or a .tsv of judgements")
    if path.suffix == ".tsv" and path.name.startswith("qrels_session"):
        return folder, None, path
    rows, sessions = (path if path.suffix == ".tsv" else folder / "qrels.tsv"), folder / "qrels_session.tsv"
    if not rows.exists() and path.suffix != ".tsv":
        rows = folder / "qrels" / "test.tsv"
    by_row, by_session = (rows if rows.exists() else None), (sessions if sessions.exists() else None)
    if by_row is None and (by_session is None or path.suffix == ".tsv"):
        raise ImportFailed(f"'{folder}' has no judgements: give it qrels.tsv, qrels_session.tsv or qrels/test.tsv")
    return folder, by_row, by_session


def _either(folder: Path, name: str) -> Path | None:
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


def _needed(folder: Path, name: str) -> Path:
    found = _either(folder, name)
    if found is None:
        raise ImportFailed(f"'{folder}' has neither {name} nor {name}.gz: a set needs one")
    return found


def _messages(path: Path) -> Iterator[Message]:
    for place, row in _rows(path):
        words = ": ".join(part for part in (_text(place, row, "speaker"), _text(place, row, "text")) if part)
        text = "\n".join(part for part in (_text(place, row, "title"), words) if part)
        message = Message(
            text if text.strip() else "(empty)",
            session=_name(place, row, "session") or row["id"],
            project=_name(place, row, "group"),
            time=_time(row.get("time")),
            metadata={ROW: row["id"]},
            source=row["id"],
        )
        try:
            yield check(message)
        except InvalidInput as error:
            raise ImportFailed(f"{place}: {error}") from None


def _queries(path: Path) -> Iterator[Query]:
    for place, row in _rows(path):
        text = _text(place, row, "text") or ""
        try:
            content("the query", text)
        except InvalidInput as error:
            raise ImportFailed(f"{place}: {error}") from None
        yield Query(row["id"], text, _name(place, row, "group"), _name(place, row, "category"))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, each with its place; `id` is a text that no other has."""
    seen = set()
    for place, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise ImportFailed(f"{place}: not JSON; a line is one object") from None
        if not isinstance(row, dict):
            raise ImportFailed(f'{place}: {line[:40]!r} is no object; write {{"id": ..., "text": ...}}')
        id_ = _name(place, row, "id") or _name(place, row, "_id")
        if id_ is None:
            raise ImportFailed(f"{place}: there is no id; give each line its own")
        if id_ in seen:
            raise ImportFailed(f"{place}: the id {id_!r} is there twice; give each line its own")
        seen.add(id_)
        yield place, row | {"id": id_}


def _qrels(path: Path, asked: Collection[str], known: Collection[str | None], losses: Counter[str]) -> Qrels:
    """The judgements above 0 whose query and row or session are there; the others are counted in `losses`."""
    qrels: Qrels = {}
    lines = numbered_lines(path)
    place, head = next(lines, (f"'{path}'", ""))
    if head.split("\t")[:3] != _HEADER:
        raise ImportFailed(f"{place}: {head[:40]!r} is no header; write {', '.join(_HEADER)} with tabs between them")
    for place, line in lines:
        try:
            query, row, score = line.split("\t")[:3]
            grade = int(score)
        except ValueError:
            raise ImportFailed(f"{place}: {line[:40]!r} is no judgement; write query, row and a whole number") from None
        if query not in asked:
            losses["judgements of no query"] += 1
        elif row not in known:
            losses["judgements of nothing in the corpus"] += 1
        elif grade > 0:
            qrels.setdefault(query, {})[row] = grade
    return qrels


def _text(place: str, row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ImportFailed(f"{place}: {key} is {str(value)[:40]!r}; give a text")


def _name(place: str, row: Mapping[str, Any], key: str) -> str | None:
    """A text or a whole number as a text; None where there is none."""
    value = row.get(key)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(place, row, key) or None


def _time(text: object) -> datetime | None:
    """An aware time, UTC where it names no zone; None where it cannot be read."""
    if not isinstance(text, str):
        return None
    for shape in _TIMES:
        try:
            return datetime.strptime(text, shape).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=timezone.utc)
