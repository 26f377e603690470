"""Reads Twofold's own JSONL: one message a line, of which only `content` is required.

What `twofold export` wrote begins with a line of its own, and what follows is taken as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twofold.errors import InvalidInput
from twofold.importers.chain import Chain
from twofold.importers.exported import MARK, Exported
from twofold.importers.fields import Losses, name_of, role_of, time_of
from twofold.importers.openai import content_text
from twofold.messages import check_metadata
from twofold.types import Message

_KEYS = frozenset({"session", "title", "project", "role", "content", "time", "metadata", "source"})


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield a message a line; `stem` is the session of a line that names none."""
    chain = Chain()
    last = ""
    exported: Exported | None = None
    for entry in entries:
        if not isinstance(entry, dict):
            losses.skip("line that is not an object")
            continue
        if MARK in entry:
            exported = Exported(entry, losses)
            continue
        if exported:
            found = exported.read(entry)
            losses.conversations += found is not None and last != (last := f"{found.project}/{found.session}")
            yield from [found] if found else ()
            continue
        for key in entry:
            if key not in _KEYS:
                losses.unknown("key", key)
        content = content_text(entry.get("content"), losses)
        if content is None:
            continue
        session = name_of(entry.get("session"), "session", losses) or stem
        project = name_of(entry.get("project"), "project", losses)
        losses.conversations += last != (last := f"{project}/{session}")
        role = "user" if entry.get("role") is None else role_of(entry["role"], losses)
        source = name_of(entry.get("source"), "source", losses)
        yield Message(
            content=content,
            role=role,
            session=session,
            project=project,
            time=time_of(entry.get("time"), losses),
            metadata=_metadata(entry.get("metadata"), losses),
            source=source or chain.source(session, project, role, content),
            title=name_of(entry.get("title"), "title", losses),
        )


def _metadata(value: object, losses: Losses) -> dict[str, object]:
    """Return metadata that the store takes, and gives back as it is."""
    if value is None:
        return {}
    if isinstance(value, dict):
        try:
            check_metadata(value)
        except InvalidInput:
            pass
        else:
            return value
    losses.note("metadata that cannot be stored (left out)")
    return {}
