"""Turns a JSON text into its entries: the elements of an array, the lines of JSONL, or one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twofold.errors import ImportFailed
from twofold.importers.files import Document, Stream

_LOOK = 1 << 16
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Entries:
    """`values` are read once; `sample` are those known beforehand, to see what kind of history it is."""

    values: Iterator[object]
    sample: Sequence[object]
    lines: bool


def entries(document: Document, *, lines: bool) -> Entries:
    """Return the entries of a document; `lines` says that an object is a line, not the whole file."""
    label, stream = document.label, document.stream
    number, head = _first_line(stream, label)
    if head[:_LOOK].lstrip(_SPACE).startswith(b"["):
        array = _parsed(head + stream.rest(), label, number)
        values = array if isinstance(array, list) else [array]
        return Entries(iter(values), values, lines=False)
    if lines or _is_json(head):
        first = _parsed(head.rstrip(_SPACE), label, number)
        return Entries(_lines(first, stream, label, number), [first], lines=True)
    whole = _parsed(head + stream.rest(), label, number)
    return Entries(iter([whole]), [whole], lines=False)


def _first_line(stream: Stream, label: str) -> tuple[int, bytes]:
    """Return the first line that is not blank, and its number."""
    number = 1
    piece = stream.line(_LOOK)
    if piece.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ImportFailed(f"{label} is UTF-16: save it as UTF-8")
    piece = piece.removeprefix(_BOM)
    while piece and not piece.strip(_SPACE):
        number += piece.endswith(b"\n")
        piece = stream.line(_LOOK)
    if not piece:
        raise ImportFailed(f"{label} is empty: name a file that holds a history")
    if piece.lstrip(_SPACE)[:1] not in (b"[", b"{"):
        raise ImportFailed(
            f"{label}, line {number}: not JSON, which begins with [ or {{: name the export's JSON or zip"
        )
    return number, piece if piece.endswith(b"\n") else piece + stream.line()


def _lines(first: object, stream: Stream, label: str, number: int) -> Iterator[object]:
    yield first
    while line := stream.line():
        number += 1
        if line := line.rstrip(_SPACE):
            yield _parsed(line, label, number)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(data: bytes, label: str, number: int) -> object:
    """Return the value; `number` is the line of the file that `data` begins in."""
    try:
        value: object = json.loads(data)
    except json.JSONDecodeError as error:
        where = f"{label}, line {number + error.lineno - 1}, column {error.colno}"
        raise ImportFailed(f"{where}: not JSON ({error.msg}): correct it there or download the file again") from error
    except UnicodeDecodeError as error:
        line = number + data.count(b"\n", 0, error.start)
        raise ImportFailed(f"{label}, line {line}: not UTF-8 ({error.reason}): save the file as UTF-8") from error
    except ValueError as error:
        raise ImportFailed(f"{label}, from line {number}: a number is too long ({error}): shorten it") from error
    except RecursionError as error:
        raise ImportFailed(f"{label}, from line {number}: nested too deeply to be a history: flatten it") from error
    return value
