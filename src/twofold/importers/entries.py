"""Turns a JSON text into its entries: the elements of an array, the lines of JSONL, or one object.

An array is parsed element by element from a window on the file, so that a file of any size takes the memory of its
largest entry. The parser is Python's own: in a window it reads as fast as a streaming one, knows line and column of
what is wrong, and shows broken characters instead of repairing them unseen.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from twofold.errors import ImportFailed
from twofold.importers.files import Document, NoHistory, Stream

MOST_ENTRY = 64 * 1024**2  # bytes of a conversation, or of a line of JSONL
MOST_LOOKED_AT = 20  # entries, until one is seen to be of a kind

_LOOK = 1 << 16
_CHUNK = 1 << 20
_SPACE = b" \t\r\n"
_BLANKS = re.compile(r"[ \t\r\n]*")
_BOM = b"\xef\xbb\xbf"
_SHORT = 100  # characters
_NEAR_END = 16  # characters: a literal, a number's end or an escape that the window's end may have cut


class CutOff(ImportFailed):
    """The last line of a file breaks off, as that of a log does whose writer was stopped."""


@dataclass(frozen=True, slots=True)
class Entries:
    """`values` are read once; `lines` says that each stands on a line of its own."""

    values: Iterator[object]
    lines: bool

    def known(self, kind_of: Callable[[object, bool], str | None]) -> tuple[str | None, bool, Entries]:
        """The kind of the first entry that has one, whether there are entries at all, and the entries as they were."""
        seen: list[object] = []
        kind = None
        for value in self.values:
            kind = kind_of(value, self.lines)
            seen.append(value if kind else _outline(value))
            if kind or len(seen) >= MOST_LOOKED_AT:
                break
        return kind, bool(seen), Entries(chain(seen, self.values), self.lines)


def entries(document: Document, *, lines: bool) -> Entries:
    """Return the entries of a document; `lines` says that an object is a line, not the whole file."""
    label, stream = document.label, document.stream
    number, head = _beginning(stream, label)
    if head.lstrip(_SPACE).startswith(b"["):
        return Entries(_Window(stream, label, head, number).elements(), lines=False)
    if not head.endswith(b"\n"):
        head += _whole_line(stream, label, number, MOST_ENTRY - len(head))
    if lines or _is_json(head):
        return Entries(_lines(head, stream, label, number), lines=True)
    return Entries(_Window(stream, label, head, number).only(), lines=False)


class _Window:
    """A stretch of a JSON text, decoded, and where it stands in the file."""

    def __init__(self, stream: Stream, label: str, head: bytes, line: int) -> None:
        self._stream = stream
        self._label = label
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._place = 0
        self._line = line
        self._column = 0  # characters of the window's first line that stand before it
        self._is_at_end = False
        self._add(head)

    def elements(self) -> Iterator[object]:
        """Yield the elements of an array, each as soon as it is read."""
        self._sign()  # the bracket
        self._place += 1
        if self._sign() == "]":
            self._place += 1
        else:
            while True:
                yield self._value()
                sign = self._sign()
                if sign not in (",", "]"):
                    raise self._wrong("Expecting ',' delimiter", self._place)
                self._place += 1
                if sign == "]":
                    break
        if self._sign():
            raise self._wrong("Extra data", self._place)

    def only(self) -> Iterator[object]:
        """Yield the one value that the text is."""
        value = self._value()
        if self._sign():
            raise self._wrong("Extra data", self._place)
        yield value

    def _value(self) -> object:
        """Return the value that stands here, after reading as much as it takes."""
        self._sign()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or len(self._text) - error.pos <= _NEAR_END
                if not (cut and self._more()):
                    raise self._wrong(error.msg, error.pos) from error
            except (ValueError, RecursionError) as error:
                raise _refused(error, self._label, self._where(self._place)[0]) from error
            else:
                if end + _NEAR_END < len(self._text) or not self._more():  # else a number may go on
                    self._place = end
                    return value

    def _sign(self) -> str:
        """Return the next character that is not blank, without taking it; empty at the end of the file."""
        while True:
            blanks = _BLANKS.match(self._text, self._place)
            self._place = blanks.end() if blanks else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on, at least as much again as the window holds; False at the end of the file."""
        if self._is_at_end:
            return False
        self._line, self._column = self._where(self._place)
        self._text, self._place = self._text[self._place :], 0
        if len(self._text) > MOST_ENTRY:
            raise _too_long(self._label, self._line)
        wanted = min(max(_CHUNK, len(self._text)), MOST_ENTRY + 1 - len(self._text))
        parts: list[bytes] = []
        while wanted > 0 and (data := self._stream.read(min(wanted, _CHUNK))):
            parts.append(data)
            wanted -= len(data)
        self._is_at_end = wanted > 0
        self._add(b"".join(parts))
        return True

    def _add(self, data: bytes) -> None:
        try:
            self._text += self._decoder.decode(data, self._is_at_end)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n") + data.count(b"\n", 0, error.start)
            raise _not_utf8(self._label, line, error) from error

    def _where(self, place: int) -> tuple[int, int]:
        """Return the line of a place in the window, and how many characters of that line stand before it."""
        breaks = self._text.count("\n", 0, place)
        if not breaks:
            return self._line, self._column + place
        return self._line + breaks, place - self._text.rindex("\n", 0, place) - 1

    def _wrong(self, what: str, place: int) -> ImportFailed:
        line, before = self._where(place)
        return _not_json(self._label, line, before + 1, what)


_DECODER = json.JSONDecoder()


def _outline(value: object) -> object:
    """What need be kept of an entry of no known kind, however large: its short scalars."""
    if isinstance(value, dict):
        return {key: inner for key, inner in value.items() if _is_short(inner)}
    return value if _is_short(value) else []


def _is_short(value: object) -> bool:
    return isinstance(value, bool | int | float | type(None)) or (isinstance(value, str) and len(value) < _SHORT)


def _beginning(stream: Stream, label: str) -> tuple[int, bytes]:
    """Return the beginning of the first line that is not blank, and the number of that line."""
    number = 1
    piece = stream.line(_LOOK)
    if piece.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ImportFailed(f"{label} is UTF-16: save it as UTF-8")
    piece = piece.removeprefix(_BOM)
    while piece and not piece.strip(_SPACE):
        number += piece.endswith(b"\n")
        piece = stream.line(_LOOK)
    if not piece:
        raise NoHistory(f"{label} is empty: name a file that holds a history")
    if piece.lstrip(_SPACE)[:1] not in (b"[", b"{"):
        raise NoHistory(f"{label}, line {number}: not JSON, which begins with [ or {{: name the export's JSON or zip")
    return number, piece


def _lines(head: bytes, stream: Stream, label: str, number: int) -> Iterator[object]:
    line = head
    while line:
        if stripped := line.rstrip(_SPACE):
            try:
                yield _parsed(stripped, label, number)
            except ImportFailed as error:
                raise error if line.endswith(b"\n") or number == 1 else CutOff(str(error)) from error
        number += 1
        line = _whole_line(stream, label, number, MOST_ENTRY)


def _whole_line(stream: Stream, label: str, number: int, most: int) -> bytes:
    line = stream.line(most)
    if len(line) >= most and not line.endswith(b"\n"):
        raise _too_long(label, number)
    return line


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(data: bytes, label: str, number: int) -> object:
    """Return the value of a line."""
    try:
        value: object = json.loads(data)
    except json.JSONDecodeError as error:
        raise _not_json(label, number + error.lineno - 1, error.colno, error.msg) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(label, number, error) from error
    except (ValueError, RecursionError) as error:
        raise _refused(error, label, number) from error
    return value


def _not_json(label: str, line: int, column: int, what: str) -> ImportFailed:
    where = f"{label}, line {line}, column {column}"
    return ImportFailed(f"{where}: not JSON ({what}): correct it there or download the file again")


def _not_utf8(label: str, line: int, error: UnicodeDecodeError) -> ImportFailed:
    return ImportFailed(f"{label}, line {line}: not UTF-8 ({error.reason}): save the file as UTF-8")


def _refused(error: Exception, label: str, line: int) -> ImportFailed:
    if isinstance(error, RecursionError):
        return ImportFailed(f"{label}, from line {line}: nested too deeply to be a history: flatten it")
    return ImportFailed(f"{label}, from line {line}: a number is too long ({error}): shorten it")


def _too_long(label: str, line: int) -> ImportFailed:
    return ImportFailed(
        f"{label}, from line {line}: one conversation of more than {MOST_ENTRY:,} bytes: split it into several"
    )
