"""Reads Twofold's own JSONL: one message a line, of which only `content` is required."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, name_of, role_of, shown, time_of
from twofold.importers.openai import content_text
from twofold.types import Message

_KEYS = frozenset({"session", "title", "project", "role", "content", "time", "metadata", "source"})


def read(entries: Iterable[object], stem: str, losses: Losses) -> Iterator[Message]:
    """Yield a message a line; `stem` is the session of a line that names none."""
    chain = Chain()
    for entry in entries:
        if not isinstance(entry, dict):
            losses.note("line that is not an object")
            continue
        for key in entry:
            if key not in _KEYS:
                losses.note(f"unknown key {shown(key)}")
        content = content_text(entry.get("content"), losses)
        if content is None:
            continue
        session = name_of(entry.get("session"), "session", losses) or stem
        project = name_of(entry.get("project"), "project", losses)
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
    """Return metadata that can be written as JSON again, in UTF-8."""
    if value is None:
        return {}
    if isinstance(value, dict):
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            pass
        else:
            return value
    losses.note("metadata that cannot be stored (left out)")
    return {}
