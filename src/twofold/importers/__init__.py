"""Readers that turn a file of conversations into a stream of messages.

What a file holds is seen from its content, not from its name. Nothing vanishes silently: whatever was
not taken as it stood is counted in `Losses`, and a file that cannot be read is one `ImportFailed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from twofold import quoting
from twofold.errors import ImportFailed, InvalidInput
from twofold.importers import chatgpt, claude, jsonl, openai
from twofold.importers.entries import Entries, entries
from twofold.importers.fields import Losses, clean
from twofold.importers.files import documents
from twofold.types import Message

__all__ = ["KINDS", "Losses", "read"]

_READERS: Mapping[str, Callable[[Iterable[object], str, Losses], Iterator[Message]]] = {
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "openai": openai.read,
    "jsonl": jsonl.read,
}
KINDS = tuple(_READERS)

# The store refuses a longer message.
_MAX_MESSAGE_BYTES = 2 * 1024**2
# Four bytes a character at most: a part of this many is always short enough.
_PART_CHARACTERS = 500_000


def read(path: Path, losses: Losses, *, kind: str | None = None) -> Iterator[Message]:
    """Yield the messages of a file in their order; `kind` is one of KINDS, None to see it from the content.

    Raises ImportFailed, also after the first messages, where the file cannot be read on.
    """
    if kind is not None and kind not in _READERS:
        raise InvalidInput(f"'{kind}' is no kind of history: use one of {', '.join(KINDS)}")
    return _read(path, losses, kind)


def _read(path: Path, losses: Losses, kind: str | None) -> Iterator[Message]:
    for document in documents(path, losses):
        found = entries(document, lines=kind == "jsonl")
        name = kind or _recognised(found)
        if not found.sample:
            losses.note("empty list of conversations")
        elif name is None:
            known = ", ".join(KINDS)
            raise ImportFailed(f"{document.label} is no known history ({known}): name its kind with --as KIND")
        else:
            for message in _READERS[name](found.values, document.stem, losses):
                yield from _storable(message, losses)


def _recognised(found: Entries) -> str | None:
    kinds = (_kind_of(value, found.lines) for value in found.sample)
    return next((kind for kind in kinds if kind), None)


def _kind_of(value: object, lines: bool) -> str | None:
    if not isinstance(value, dict):
        return None
    for key, kind in (("mapping", "chatgpt"), ("chat_messages", "claude"), ("messages", "openai")):
        if key in value:
            return kind
    if "content" not in value and "role" not in value:
        return None
    return "jsonl" if lines or "session" in value or "source" in value else "openai"


def _storable(message: Message, losses: Losses) -> Iterator[Message]:
    """Yield the message as the store takes it: not blank, in UTF-8, in parts where it is too long."""
    if not message.content.strip():
        losses.note("empty message")
        return
    whole = clean(message.content, losses)
    content = quoting.unquoted(whole)
    if not content.strip():
        losses.note("nothing but quoted memory (left out)")
        return
    if content != whole:
        losses.note("quoted memory in a message (left out)")
    if len(content) <= _PART_CHARACTERS or len(content.encode()) <= _MAX_MESSAGE_BYTES:
        yield replace(message, content=content)
        return
    losses.note("message over 2 MiB (cut into parts)")
    for number, start in enumerate(range(0, len(content), _PART_CHARACTERS), 1):
        part = content[start : start + _PART_CHARACTERS]
        if not part.strip():
            losses.note("blank part of a message over 2 MiB (left out)")
            continue
        yield replace(message, content=part, source=f"{message.source}#{number}")
