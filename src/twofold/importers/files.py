"""Opens a history: plain, gzipped, or the account zip whose members are read where they lie."""

from __future__ import annotations

import gzip
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import IO, Protocol

from twofold.errors import ImportFailed
from twofold.importers.fields import Losses

# No account export comes near it, and a decompression bomb stops here.
MAX_BYTES = 4 * 1024**3
# Text packs 3 to 20 times, deflate at most 1,032 times.
MAX_RATIO = 250
# What little is unpacked is harmless at any ratio.
HARMLESS_BYTES = 64 * 1024**2
# A directory of a million members would take half a gigabyte of memory.
MAX_MEMBERS_BYTES = 32 * 1024**2

_CHUNK = 1 << 20
_HEAD = 512
_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_MEMBER = re.compile(r"(?:^|[\\/])(conversations|projects)(?:-(\d+))?\.json$", re.IGNORECASE)
_PROSE = (".md", ".markdown", ".mdown", ".txt", ".text", ".rst", ".org")
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*[\[{"\]]|\{\s*["}])')
# What gzip, zipfile and the file system raise over bytes that are not what they should be. RuntimeError is
# zipfile's word for an encrypted member.
_BROKEN = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, ValueError, struct.error)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


class Stream:
    """The bytes of one file or member, read forward and never past MAX_BYTES.

    `packed` tells how many bytes they were unpacked from so far; what unpacks beyond MAX_RATIO is refused.
    """

    def __init__(
        self, raw: _Readable, label: str, losses: Losses | None = None, packed: Callable[[], int] | None = None
    ) -> None:
        self._raw = raw
        self._label = label
        self._losses = Losses() if losses is None else losses  # an empty one is false
        self._packed = packed
        self._taken = 0

    def line(self, limit: int | None = None) -> bytes:
        """Return the next line with its end, or its first `limit` bytes; b"" at the end of the file."""
        room = MAX_BYTES - self._taken + 1
        return self._counted(lambda: self._raw.readline(room if limit is None else min(limit, room)))

    def read(self, size: int = _CHUNK) -> bytes:
        """Return up to `size` bytes that were not read yet; b"" at the end of the file."""
        return self._counted(lambda: self._raw.read(size))

    def _counted(self, read: Callable[[], bytes]) -> bytes:
        try:
            data = read()
        except _BROKEN as error:
            raise _damaged(self._label, error) from error
        self._taken += len(data)
        self._losses.bytes += len(data)
        if self._taken > MAX_BYTES:
            raise _too_large(self._label)
        if self._packed and self._taken > HARMLESS_BYTES and self._taken > MAX_RATIO * self._packed():
            raise ImportFailed(
                f"{self._label} unpacks to more than {MAX_RATIO} times its size, as no history does: "
                "unpack it yourself if you trust it, and import what comes out"
            )
        return data


class NoHistory(ImportFailed):
    """A file that is of no known kind."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text: `label` names it in messages, `stem` its conversations where they have no id; `time` is the file's.

    `is_prose` is told by the ending of its name, unless it begins as JSON: prose has no shape to be known by.
    """

    label: str
    stem: str
    stream: Stream
    time: datetime
    is_prose: bool = False


def documents(path: Path, losses: Losses, stem: str | None = None) -> Iterator[Document]:
    """Yield the texts of a file, each to be read before the next is asked for."""
    label = f"'{_utf8(str(path))}'"
    stem = stem or _stem(path)
    with _opened(path, label) as raw:
        head = _head(raw, label)
        state = os.fstat(raw.fileno())
        time = datetime.fromtimestamp(max(0.0, state.st_mtime), UTC)
        if head.startswith(_ZIP):
            for member, name, stream in _members(raw, label, stem, losses):
                yield Document(member, name, stream, time)
        elif head.startswith(_GZIP):
            with gzip.GzipFile(fileobj=raw) as unzipped:
                inner = _head(unzipped, label)
                if inner.startswith((_GZIP, *_ZIP)):
                    raise ImportFailed(f"{label} holds another archive inside the gzip: unpack it once first")
                stream = Stream(unzipped, label, losses, raw.tell)
                yield Document(label, stem, stream, time, _is_prose(path.stem, inner))
        elif state.st_size > MAX_BYTES:
            raise _too_large(label)
        else:
            yield Document(label, stem, Stream(raw, label, losses), time, _is_prose(path.name, head))


def inside(folder: Path, losses: Losses) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder and of those in it, by name, each with its place in the folder without its ending.

    Folders and files whose names begin with a dot are left out, and what is no plain file.
    """

    def refuse(error: OSError) -> None:
        losses.skip(f"folder that cannot be read ({error.strerror})")

    for at, folders, names in os.walk(folder, onerror=refuse):
        hidden = [name for name in (*folders, *names) if name.startswith(".")]
        losses.skip("file or folder whose name begins with a dot (not read)", len(hidden))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(at) / name
            if path.is_file():
                yield path, _utf8(path.relative_to(folder).with_name(_stem(path)).as_posix())
            else:
                losses.skip("what is no plain file (not read)")


def size(path: Path) -> int | None:
    """Return how many bytes reading a file or a folder takes, unpacked; None where only reading it tells."""
    try:
        if path.is_dir():
            sizes = [size(file) for file, _ in inside(path, Losses())]
            return None if None in sizes else sum(one or 0 for one in sizes)
        with path.open("rb") as raw:
            state = os.fstat(raw.fileno())
            head = raw.peek(4)[:4]
            if head.startswith(_GZIP) or not stat.S_ISREG(state.st_mode):
                return None
            if head.startswith(_ZIP):
                with zipfile.ZipFile(raw) as archive:
                    return sum(info.file_size for info in _chosen(archive))
            return state.st_size
    except _BROKEN:
        return None  # reading it says what is wrong


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


def _members(raw: BufferedReader, label: str, stem: str, losses: Losses) -> Iterator[tuple[str, str, Stream]]:
    try:
        _check_directory(raw, label)
        archive = zipfile.ZipFile(raw)
    except _BROKEN as error:
        raise _damaged(label, error) from error
    with archive:
        chosen = _chosen(archive)
        if not chosen:
            raise NoHistory(f"{label} is a zip without conversations.json: unpack it and name the file to read")
        if sum(info.file_size for info in chosen) > MAX_BYTES:
            raise _too_large(label)
        taken = {info.filename for info in chosen}
        for info in archive.infolist():
            if info.filename not in taken and not info.is_dir():
                losses.skip(f"file in the zip that is no conversation ({ending(info.filename)}, not read)")
        for info in chosen:
            inner = f"{label} ({info.filename!r})"
            name = stem if len(chosen) == 1 else f"{stem}-{_number(info)}"
            with _member(archive, info, inner) as member:
                yield inner, name, Stream(member, inner, losses, lambda info=info: info.compress_size)  # type: ignore[misc]


def _chosen(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The members that hold conversations, in their order."""
    return sorted((info for info in archive.infolist() if _MEMBER.search(info.filename)), key=_order)


def _check_directory(raw: BufferedReader, label: str) -> None:
    """Refuse a zip whose list of members is too long to be read into memory. Raises what damaged bytes raise."""
    end = raw.seek(0, os.SEEK_END)
    raw.seek(max(0, end - (1 << 16) - 22))
    tail = raw.read()
    at = tail.rfind(b"PK\x05\x06")
    length = struct.unpack_from("<I", tail, at + 12)[0] if at >= 0 else 0
    large = tail.rfind(b"PK\x06\x06", 0, max(at, 0))
    if length == 0xFFFFFFFF and large >= 0:
        length = struct.unpack_from("<Q", tail, large + 40)[0]
    if length > MAX_MEMBERS_BYTES:
        raise ImportFailed(f"{label} is a zip of too many files ({length:,} bytes of names): unpack it and name one")
    raw.seek(0)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str) -> IO[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ImportFailed(f"{label} is compressed in a way that is not read here: unpack the zip and name the file")
    try:
        return archive.open(info)
    except _BROKEN as error:
        raise _damaged(label, error) from error


def _number(info: zipfile.ZipInfo) -> int:
    found = _MEMBER.search(info.filename)
    return int(found[2]) if found and found[2] else 0


def _order(info: zipfile.ZipInfo) -> tuple[int, str]:
    return _number(info), info.filename


def ending(name: str) -> str:
    """Return the ending of a file's name as it may stand in a reason."""
    ending = Path(name).suffix.lower()
    return ending if ending.isascii() and ending.isprintable() and 1 < len(ending) <= 10 else "without an ending"


def _opened(path: Path, label: str) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise ImportFailed(f"{label} does not exist: check the path") from error
    except PermissionError as error:
        raise ImportFailed(f"{label} may not be read by this user: change its permissions or copy it") from error
    except (OSError, ValueError) as error:
        raise ImportFailed(f"{label} cannot be opened ({error}): check the path") from error


def _head(raw: BufferedReader | gzip.GzipFile, label: str) -> bytes:
    try:
        return raw.peek(_HEAD)[:_HEAD]
    except _BROKEN as error:
        raise _damaged(label, error) from error


def _is_prose(name: str, head: bytes) -> bool:
    return name.lower().endswith(_PROSE) and not _JSON.match(head)


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
