"""The fields of a message as an export holds them, made safe. What changes on the way is counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from twofold.types import Message, Role

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_NAMES: dict[type, str] = {dict: "object", list: "list", bool: "true or false", type(None): "null"}
_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


class Losses(Counter[str]):
    """How often something was not taken as it stood, by reason, in plain words."""

    def note(self, reason: str, times: int = 1) -> None:
        """Count `reason`; nothing is recorded for zero times."""
        if times:
            self[reason] += times


def shown(value: object) -> str:
    """Return a value from the file as it may stand in a reason: short, on one line, printable."""
    return repr(value[:40]) if isinstance(value, str) else _JSON_NAMES.get(type(value), "number")


def clean(text: str, losses: Losses) -> str:
    """Return the text with each lone surrogate, which UTF-8 cannot hold, as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        losses.note("broken character (replaced by U+FFFD)")
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def name_of(value: object, what: str, losses: Losses) -> str | None:
    """Return an id, a title or another name; None where it is missing, blank or no name."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        return clean(value.strip(), losses) or None
    if value is not None:
        losses.note(f"{what} that is not text (left out)")
    return None


def role_of(value: object, losses: Losses) -> Role:
    """Return the role that `value` stands for; one nobody knows counts, and is kept as user."""
    role = _ROLES.get(value.strip().lower()) if isinstance(value, str) else None
    if role is not None:
        return role
    if value is None:
        losses.note("message without a role (kept as user)")
    else:
        losses.note(f"unknown role {shown(value)} (kept as user)")
    return "user"


def time_of(value: object, losses: Losses) -> datetime | None:
    """Return an ISO 8601 string or epoch seconds as aware UTC; None where there is no time to be had."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value.strip())
            if time.tzinfo is None:
                time = time.replace(tzinfo=UTC)
                losses.note("time without a zone (taken as UTC)")
            return time.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return _EPOCH + timedelta(seconds=value)
    except (ValueError, OverflowError):
        pass
    losses.note("time that cannot be read (left out)")
    return None


def dated(messages: Sequence[Message], started: object, losses: Losses) -> Sequence[Message]:
    """Return the messages of one conversation; where none has a time, the first gets the conversation's."""
    if not messages or any(message.time for message in messages):
        return messages
    return [replace(messages[0], time=time_of(started, losses)), *messages[1:]]
