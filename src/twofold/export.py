"""The records of an export as text: JSONL that an import turns into an equal store, messages for OpenAI's, Markdown."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Literal, cast

from twofold.errors import InvalidInput, StoreError

Format = Literal["jsonl", "markdown", "openai"]
FORMATS: tuple[Format, ...] = ("jsonl", "markdown", "openai")
MEDIA_TYPES: Mapping[Format, str] = {
    "jsonl": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
    "openai": "application/x-ndjson",
}
LONGEST_NAME = 80  # characters of a file's name

Record = Mapping[str, object]

_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_UNSAFE = re.compile(r"[^\w.-]+")


def text(records: Iterable[Record], kind: Format) -> Iterator[str]:
    """The records in one of FORMATS, in pieces that end with a line."""
    if kind == "jsonl":
        yield from (f"{_as_json(record)}\n" for record in records)
    elif kind == "openai":
        for first, messages in _conversations(records):
            yield _openai(first, messages)
    else:
        for first, messages in _conversations(records):
            yield from markdown(first, messages)


def write_folder(records: Iterable[Record], folder: Path) -> int:
    """Write a Markdown file for each session, those of a project into a folder of its own; returns how many.

    Raises InvalidInput for a folder that is not empty, and StoreError for one that cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} is there and not an empty folder; name a new one with --output")
    used: set[Path] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for first, messages in _conversations(records):
            project = first.get("project")
            home = folder / _safe(str(project)) if project else folder
            home.mkdir(exist_ok=True)
            path = _free(home / f"{_safe(str(first.get('title') or first['session']))}.md", used)
            with path.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(markdown(first, messages))
    except OSError as error:
        raise StoreError(f"{folder} cannot be written ({error.strerror}); name another with --output") from None
    return len(used)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """A file to write a text to, which gets its name when it is whole; what was there of that name is replaced then.

    Raises StoreError where it cannot be written.
    """
    half = path.with_name(path.name + ".part")
    try:
        with half.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror}); name another file with --output") from None
    finally:
        half.unlink(missing_ok=True)


def markdown(first: Record, messages: Iterable[Record]) -> Iterator[str]:
    """One session as Markdown: a heading for each message, and what was said as it was said."""
    title, session = first.get("title") or first["session"], first["session"]
    where = f"project {first['project']}, session {session}" if first.get("project") else f"session {session}"
    yield f"# {_line(title)}\n\n{_line(where)}\n"
    for message in messages:
        when = str(message["time"])[:16].replace("T", " ")
        metadata = cast(Record, message.get("metadata", {}))
        marks = "".join(f", {mark}" for mark in ("hidden", "alternative") if metadata.get(mark) is True)
        yield f"\n## {str(message['role']).capitalize()}, {when} UTC{marks}\n\n{str(message['content']).rstrip()}\n"
    yield "\n"


def _openai(first: Record, messages: Iterable[Record]) -> str:
    """One session as a line with a list of messages, as the chat API takes them."""
    listed = [{"role": message["role"], "content": message["content"]} for message in messages]
    named = {key: first[key] for key in ("title", "session", "project") if key in first}
    return f"{_as_json({**named, 'messages': listed})}\n"


def _conversations(records: Iterable[Record]) -> Iterator[tuple[Record, Iterator[Record]]]:
    """The sessions in which something was said, each with its messages, one after the other."""
    said = (record for record in records if "content" in record)
    for _, group in groupby(said, lambda record: (record.get("project"), record["session"])):
        first = next(group)
        yield first, chain([first], group)  # noqa: B031  what was taken of it is put back


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _safe(name: str) -> str:
    """A name for a file on any system."""
    plain = _UNSAFE.sub("-", unicodedata.normalize("NFC", name)).strip("-.")[:LONGEST_NAME]
    return plain or "unnamed"


def _free(path: Path, used: set[Path]) -> Path:
    """The path, with a number where another session has it already, on a disk that knows no case too."""
    number, chosen = 1, path
    while Path(str(chosen).lower()) in used:
        number += 1
        chosen = path.with_name(f"{path.stem}-{number}{path.suffix}")
    used.add(Path(str(chosen).lower()))
    return chosen
