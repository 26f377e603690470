"""Readers that turn a file of conversations into a stream of messages.

What a file holds is seen from its content, not from its name. Nothing vanishes silently: whatever was
not taken as it stood is counted in `Losses`, and a file that cannot be read is one `ImportFailed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC
from hashlib import sha256
from pathlib import Path

from twofold import quoting
from twofold.errors import ImportFailed, InvalidInput
from twofold.importers import chatgpt, claude, claudecode, codex, gemini, jsonl, mcpmemory, openai, prose, sharegpt
from twofold.importers.entries import CutOff, entries
from twofold.importers.fields import Found, Losses, TooLarge, clean
from twofold.importers.files import Document, NoHistory, documents, ending, inside, size
from twofold.importers.kinds import kind_of
from twofold.messages import MOST_NAME
from twofold.types import Message

__all__ = ["KINDS", "Found", "Losses", "read", "size"]

_READERS: Mapping[str, Callable[[Iterable[object], str, Losses, bool], Iterator[Message]]] = {
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "claude-code": claudecode.read,
    "codex": codex.read,
    "gemini": gemini.read,
    "sharegpt": sharegpt.read,
    "openai": openai.read,
    "mcp-memory": mcpmemory.read,
    "jsonl": jsonl.read,
}
_PROSE = "text"
_LOGS = ("claude-code", "codex", "gemini")
_LINES = ("claude-code", "codex", "mcp-memory", "jsonl")
KINDS = (*_READERS, _PROSE)

# The store refuses a longer message.
_MAX_MESSAGE_BYTES = 2 * 1024**2
# Four bytes a character at most: a part of this many is always short enough.
_PART_CHARACTERS = 500_000
_MOST_SOURCE = MOST_NAME - 12  # room for the number of a part
_BEFORE_ZONE = len("2026-03-14T09:30:00")


def read(path: Path, losses: Losses, *, kind: str | None = None, all_branches: bool = False) -> Iterator[Message]:
    """Yield the messages of a file in their order, or those of the files in a folder.

    `kind` is one of KINDS, None to see it from the content. With `all_branches` the abandoned branches of edited
    conversations come as well, marked `alternative` in their metadata. Raises ImportFailed, also after the first
    messages, where a file cannot be read on; one in a folder is a line in `losses` instead.
    """
    if kind is not None and kind not in KINDS:
        raise InvalidInput(f"'{kind}' is no kind of history: use one of {', '.join(KINDS)}")
    return _folder(path, losses, kind, all_branches) if path.is_dir() else _file(path, losses, kind, all_branches)


def _folder(folder: Path, losses: Losses, kind: str | None, all_branches: bool) -> Iterator[Message]:
    count = 0
    for path, stem in inside(folder, losses):
        count += 1
        try:
            yield from _file(path, losses, kind, all_branches, stem)
        except NoHistory:
            losses.skip(f"file of no known kind ({ending(path.name)}, not read)")
        except ImportFailed as error:
            losses.skip(str(error))
    if not count:
        raise ImportFailed(f"'{folder}' holds no file: name a file or another folder")


def _file(
    path: Path, losses: Losses, kind: str | None, all_branches: bool, stem: str | None = None
) -> Iterator[Message]:
    for document in documents(path, losses, stem):
        try:
            for message in _messages(document, losses, kind, all_branches):
                for storable in _storable(message, losses):
                    losses.took(storable)
                    yield storable
        except TooLarge as error:
            raise ImportFailed(f"{document.label} is {error}") from error


def _messages(document: Document, losses: Losses, kind: str | None, all_branches: bool) -> Iterator[Message]:
    if kind == _PROSE or (kind is None and document.is_prose):
        return prose.read(document, losses)
    given = kind
    found = entries(document, lines=kind in _LINES)
    kind, some, found = found.known(lambda value, lines: given or kind_of(value, lines))
    if not some:
        losses.skip("empty list of conversations")
        return iter(())
    if kind is None:
        known = ", ".join(KINDS)
        raise NoHistory(f"{document.label} is no known history ({known}): name its kind with --as KIND")
    values = _whole(found.values, losses) if kind in _LOGS else found.values
    return _READERS[kind](values, document.stem, losses, all_branches)


def _whole(values: Iterator[object], losses: Losses) -> Iterator[object]:
    """Yield the entries up to a last one that breaks off, as a log's does whose writer was stopped."""
    try:
        yield from values
    except CutOff:
        losses.skip("last line of a file, which breaks off")


def _storable(message: Message, losses: Losses) -> Iterator[Message]:
    """Yield the message as the store takes it: not blank, in UTF-8, in UTC, in parts where it is too long."""
    if not message.content.strip():
        losses.skip("empty message")
        return
    whole = clean(message.content, losses)
    content = quoting.unquoted(whole)
    if not content.strip():
        losses.skip("nothing but quoted memory (left out)")
        return
    if content != whole:
        losses.note("quoted memory in a message (left out)")
    message = _in_utc(message)
    if len(content) <= _PART_CHARACTERS or len(content.encode()) <= _MAX_MESSAGE_BYTES:
        message = _named(message, losses, MOST_NAME)
        yield message if content == message.content else replace(message, content=content, made=None)
        return
    message = _named(replace(message, made=None), losses, _MOST_SOURCE)
    losses.note("message over 2 MiB (cut into parts)")
    for number, start in enumerate(range(0, len(content), _PART_CHARACTERS), 1):
        part = content[start : start + _PART_CHARACTERS]
        if not part.strip():
            losses.skip("blank part of a message over 2 MiB (left out)")
            continue
        yield replace(message, content=part, source=f"{message.source}#{number}")


def _in_utc(message: Message) -> Message:
    """The message with its time in UTC, and the zone it was given in among its metadata."""
    if message.time is None or message.time.tzinfo is UTC:
        return message
    time = message.time.astimezone(UTC)
    if not message.time.utcoffset():
        return replace(message, time=time)
    zone = message.time.isoformat(timespec="seconds")[_BEFORE_ZONE:]
    return replace(message, time=time, metadata={"zone": zone, **message.metadata})


def _named(message: Message, losses: Losses, most_source: int) -> Message:
    """The message with names that are no longer than the store takes, none of which becomes another's."""
    if (
        max(map(len, (message.session, message.project or "", message.title or "", message.source or "")))
        <= most_source
    ):
        return message

    def short(kind: str, name: str | None, most: int = MOST_NAME) -> str | None:
        if name is None or len(name) <= most:
            return name
        losses.note(f"{kind} of over {most} characters (shortened)")
        digest = "" if kind == "title" else f" {sha256(name.encode()).hexdigest()}"
        return name[: most - len(digest)].rstrip() + digest

    return replace(
        message,
        session=short("session", message.session) or "",
        project=short("project", message.project),
        title=short("title", message.title),
        source=short("source", message.source, most_source),
    )
