"""Opens a history: plain, gzipped, or the account zip whose members are read where they lie."""

from __future__ import annotations

import gzip
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Protocol

from twofold.errors import ImportFailed
from twofold.importers.fields import Losses

# No account export comes near it, and a decompression bomb stops here.
MAX_BYTES = 4 * 1024**3

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_MEMBER = re.compile(r"(?:^|[\\/])conversations(?:-(\d+))?\.json$", re.IGNORECASE)
# What gzip, zipfile and the file system raise over bytes that are not what they should be. RuntimeError is
# zipfile's word for an encrypted member.
_BROKEN = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, ValueError, struct.error)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


class Stream:
    """The bytes of one file or member, read forward and never past MAX_BYTES."""

    def __init__(self, raw: _Readable, label: str) -> None:
        self._raw = raw
        self._label = label
        self._taken = 0

    def line(self, limit: int | None = None) -> bytes:
        """Return the next line with its end, or its first `limit` bytes; b"" at the end of the file."""
        room = MAX_BYTES - self._taken + 1
        return self._counted(lambda: self._raw.readline(room if limit is None else min(limit, room)))

    def rest(self) -> bytes:
        """Return everything that was not read yet."""
        return b"".join(iter(lambda: self._counted(lambda: self._raw.read(_CHUNK)), b""))

    def _counted(self, read: Callable[[], bytes]) -> bytes:
        try:
            data = read()
        except _BROKEN as error:
            raise _damaged(self._label, error) from error
        self._taken += len(data)
        if self._taken > MAX_BYTES:
            raise _too_large(self._label)
        return data


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON text: `label` names it in messages, `stem` names its conversations where they have no id."""

    label: str
    stem: str
    stream: Stream


def documents(path: Path, losses: Losses) -> Iterator[Document]:
    """Yield the JSON texts of a file, each to be read before the next is asked for."""
    label = f"'{_utf8(str(path))}'"
    with _opened(path, label) as raw:
        head = _head(raw, label)
        if head.startswith(_ZIP):
            yield from _members(raw, label, _stem(path), losses)
        elif head.startswith(_GZIP):
            with gzip.GzipFile(fileobj=raw) as unzipped:
                if _head(unzipped, label).startswith((_GZIP, *_ZIP)):
                    raise ImportFailed(f"{label} holds another archive inside the gzip: unpack it once first")
                yield Document(label, _stem(path), Stream(unzipped, label))
        elif os.fstat(raw.fileno()).st_size > MAX_BYTES:
            raise _too_large(label)
        else:
            yield Document(label, _stem(path), Stream(raw, label))


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a plain or gzipped text file that are not blank, each with its place for an error."""
    for document in documents(path, Losses()):
        number = 0
        while line := document.stream.line():
            number += 1
            place = f"{document.label}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise ImportFailed(f"{place}: not UTF-8; save the file as UTF-8") from None
            if text.strip():
                yield place, text


def _members(raw: BufferedReader, label: str, stem: str, losses: Losses) -> Iterator[Document]:
    try:
        archive = zipfile.ZipFile(raw)
    except _BROKEN as error:
        raise _damaged(label, error) from error
    with archive:
        files = [info for info in archive.infolist() if not info.filename.endswith("/")]
        chosen = sorted((info for info in files if _MEMBER.search(info.filename)), key=_order)
        if not chosen:
            raise ImportFailed(f"{label} is a zip without conversations.json: unpack it and name the file to read")
        if sum(info.file_size for info in chosen) > MAX_BYTES:
            raise _too_large(label)
        losses.note("other file in the zip (not read)", len(files) - len(chosen))
        for info in chosen:
            inside = f"{label} ({info.filename!r})"
            member_stem = stem if len(chosen) == 1 else f"{stem}-{_number(info)}"
            with _member(archive, info, inside) as member:
                yield Document(inside, member_stem, Stream(member, inside))


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str) -> IO[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ImportFailed(f"{label} is compressed in a way that is not read here: unpack the zip and name the file")
    try:
        return archive.open(info)
    except _BROKEN as error:
        raise _damaged(label, error) from error


def _number(info: zipfile.ZipInfo) -> int:
    found = _MEMBER.search(info.filename)
    return int(found[1]) if found and found[1] else 0


def _order(info: zipfile.ZipInfo) -> tuple[int, str]:
    return _number(info), info.filename


def _opened(path: Path, label: str) -> BufferedReader:
    try:
        if path.is_dir():
            raise ImportFailed(f"{label} is a directory: name a file, for example the export's zip")
        return path.open("rb")
    except FileNotFoundError as error:
        raise ImportFailed(f"{label} does not exist: check the path") from error
    except PermissionError as error:
        raise ImportFailed(f"{label} may not be read by this user: change its permissions or copy it") from error
    except (OSError, ValueError) as error:
        raise ImportFailed(f"{label} cannot be opened ({error}): check the path") from error


def _head(raw: BufferedReader | gzip.GzipFile, label: str) -> bytes:
    try:
        return raw.peek(4)[:4]
    except _BROKEN as error:
        raise _damaged(label, error) from error


def _stem(path: Path) -> str:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return _utf8(Path(name).stem) or "history"


def _utf8(name: str) -> str:
    """Return a file's name without the bytes that were no UTF-8."""
    return name.encode("utf-8", "replace").decode()


def _damaged(label: str, error: Exception) -> ImportFailed:
    return ImportFailed(f"{label} is damaged or encrypted ({error}): download or copy it again, or unpack it first")


def _too_large(label: str) -> ImportFailed:
    return ImportFailed(f"{label} is larger than {MAX_BYTES:,} bytes when unpacked: split it and import the parts")
