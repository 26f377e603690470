"""Reads the lines of an export of Twofold: what a store holds is taken as it stands, or not at all."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, cast

from twofold.archive import FORMAT, mark
from twofold.errors import ImportFailed, InvalidInput
from twofold.importers.fields import Empty, Found, Losses
from twofold.messages import check_metadata
from twofold.types import ROLES, Made, Message, Said

MARK = "twofold"  # the key of the first line, with the number of the format
MOST_BESIDE = 1_000_000  # entities, words on messages and empty sessions, which are held in memory to the end

_KEYS = {
    "message": {
        "project",
        "session",
        "title",
        "role",
        "time",
        "content",
        "metadata",
        "source",
        "feedback",
        "vectors",
    },
    "entity": {"project", "session", "entity", "type", "aliases", "description"},
    "empty": {"project", "session", "title"},
}
_PLACES = ("session", "project", "everywhere")


class Exported:
    """The lines after the first one, which says by what model vectors were made, if there are any."""

    def __init__(self, first: Mapping[str, object], losses: Losses) -> None:
        self._losses = losses
        if not isinstance(first[MARK], int) or first[MARK] not in range(1, FORMAT + 1):
            raise ImportFailed(
                f"this export has the format {str(first[MARK])[:40]!r}, this Twofold reads up to {FORMAT}; "
                "upgrade with: pip install --upgrade twofold"
            )
        model = first.get("model")
        self._model: tuple[str, int, str] | None = None
        if isinstance(model, dict):
            name, dimension, digest = (model.get(key) for key in ("name", "dimension", "digest"))
            if isinstance(name, str) and isinstance(dimension, int) and isinstance(digest, str):
                self._model = name, dimension, digest

    def read(self, entry: Mapping[str, object]) -> Message | None:
        """The message of a line; what is none is left in the losses."""
        kind = "message" if "content" in entry else "entity" if "entity" in entry else "empty"
        for key in entry:
            if key not in _KEYS[kind]:
                self._losses.unknown("key", key)
        if kind != "message":
            (self._entity if kind == "entity" else self._empty)(entry)
            return None
        content, role, time = entry["content"], entry.get("role"), self._time(entry.get("time"))
        metadata = entry.get("metadata", {})
        session = self._text(entry, "session")
        if not isinstance(content, str) or role not in ROLES or not isinstance(metadata, dict) or session is None:
            self._losses.skip("message that no export has so (left out)")
            return None
        message = Message(
            content=content,
            role=role,
            session=session,
            project=self._text(entry, "project"),
            time=time,
            metadata=self._metadata(metadata),
            source=self._text(entry, "source"),
            title=self._text(entry, "title"),
            made=self._made(entry.get("vectors"), content),
        )
        self._said(entry.get("feedback", []), message)
        return message

    def _metadata(self, metadata: Mapping[str, object]) -> Mapping[str, object]:
        try:
            check_metadata(metadata)
        except InvalidInput:
            self._losses.note("metadata that cannot be stored (left out)")
            return {}
        return metadata

    def _entity(self, entry: Mapping[str, object]) -> None:
        name, type_, aliases = entry["entity"], entry.get("type"), entry.get("aliases", [])
        description = entry.get("description", "")
        is_list = isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)
        if not (isinstance(name, str) and isinstance(type_, str) and isinstance(description, str) and is_list):
            self._losses.skip("entity that no export has so (left out)")
            return
        home = self._text(entry, "project"), self._text(entry, "session")
        if self._has_room():
            listed = cast("list[str]", aliases)
            self._losses.entities.append(Found(name, type_, description, tuple(listed), *home))

    def _empty(self, entry: Mapping[str, object]) -> None:
        empty = Empty(*(self._text(entry, key) for key in ("project", "session", "title")))
        if empty.project is None and empty.session is None:
            self._losses.skip("line that is neither a message nor anything else of an export")
        elif self._has_room():
            self._losses.empty.append(empty)

    def _said(self, listed: object, message: Message) -> None:
        for word in listed if isinstance(listed, list) else [listed]:
            found = word if isinstance(word, dict) else {}
            query, useful, place = found.get("query"), found.get("useful"), found.get("in")
            time = self._time(found.get("time"))
            if isinstance(query, str) and isinstance(useful, bool) and place in _PLACES and time:
                if self._has_room():
                    where = cast(Literal["session", "project", "everywhere"], place)
                    self._losses.said.append(Said(query, useful, time, where, message))
            else:
                self._losses.skip("feedback that no export has so (left out)")

    def _made(self, vectors: object, content: str) -> Made | None:
        """Vectors, where they are whole and were made of this text."""
        if vectors is None:
            return None
        found = vectors if isinstance(vectors, dict) else {}
        listed = found.get("pieces")
        if self._model and isinstance(listed, list) and listed and found.get("of") == mark(content):
            try:
                rows = tuple(base64.b64decode(piece, validate=True) for piece in listed)
            except (ValueError, TypeError):
                rows = ()
            if rows and all(len(row) == 2 * self._model[1] for row in rows):
                return Made(self._model, rows)
        self._losses.note("vectors that do not fit their message (made anew)")
        return None

    def _text(self, entry: Mapping[str, object], key: str) -> str | None:
        value = entry.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self._losses.note(f"{key} that is not text (left out)")
        return None

    def _time(self, value: object) -> datetime | None:
        if value is None:
            return None
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else None
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            self._losses.note("time that cannot be read (left out)")
            return None
        return time

    def _has_room(self) -> bool:
        held = len(self._losses.entities) + len(self._losses.said) + len(self._losses.empty)
        if held >= MOST_BESIDE:
            self._losses.skip(f"entity, feedback or empty session after the first {MOST_BESIDE:,} (left out)")
        return held < MOST_BESIDE
