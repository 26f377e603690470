"""The fields of a message as an export holds them, made safe. What changes on the way is counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from twofold.errors import ImportFailed
from twofold.types import LossReport, Message, Role, Said

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_NAMES: dict[type, str] = {dict: "object", list: "list", bool: "true or false", type(None): "null"}
_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "gemini": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_PLAIN = _ROLES.keys() - {"developer", "function"}
# A file made to harm may give a reason of its own in every line.
_MOST_REASONS = 500

Kind = Literal["changed", "skipped", "placeholders", "unknown"]


class TooLarge(ImportFailed):
    """What must be held in memory as a whole is too large for it; who opened the file says which it is."""


@dataclass(frozen=True, slots=True)
class Found:
    """A named thing that a history describes beside its messages, and the project or the session that it is of."""

    name: str
    type: str
    description: str
    aliases: tuple[str, ...] = ()
    project: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Empty:
    """A project in which nothing was said, or a session."""

    project: str | None
    session: str | None = None
    title: str | None = None


class Losses(Counter[str]):
    """How often something was not taken as it stood, by reason, in plain words; and how much was read at all.

    `entities` are the named things that were found, `empty` where nothing was said, `said` what was said of
    messages; `bytes` counts what was read, unpacked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conversations = self.messages = self.bytes = 0
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.entities: list[Found] = []
        self.empty: list[Empty] = []
        self.said: list[Said] = []
        self._kinds: dict[str, Kind] = {}

    def note(self, reason: str, times: int = 1, kind: Kind = "changed") -> None:
        """Count what was taken otherwise than it stood; nothing is recorded for zero times."""
        if times:
            if reason not in self and len(self) >= _MOST_REASONS:
                reason = f"for other reasons than these {_MOST_REASONS}"
            self[reason] += times
            self._kinds.setdefault(reason, kind)

    def skip(self, reason: str, times: int = 1) -> None:
        """Count what is not in the store at all."""
        self.note(reason, times, "skipped")

    def placeholder(self, medium: str) -> None:
        """Count what only its name was kept of."""
        self.note(f"{medium} (placeholder kept)", 1, "placeholders")

    def unknown(self, what: str, value: object) -> None:
        """Count a type that no reader knows."""
        self.note(f"unknown {what} {shown(value)}", 1, "unknown")

    def took(self, message: Message) -> None:
        """Count a message that was read, with its time."""
        self.messages += 1
        if message.time is not None:
            self.first = min(self.first or message.time, message.time)
            self.last = max(self.last or message.time, message.time)

    def report(self) -> LossReport:
        """What was read, and every loss under its kind."""

        def of(kind: Kind) -> Mapping[str, int]:
            return {reason: times for reason, times in sorted(self.items()) if self._kinds[reason] == kind}

        return LossReport(
            conversations=self.conversations,
            messages=self.messages,
            first=self.first,
            last=self.last,
            skipped=of("skipped"),
            placeholders=of("placeholders"),
            unknown=of("unknown"),
            changed=of("changed"),
        )


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
        try:
            value = str(value)
        except ValueError:  # more digits than Python turns into text
            value = []
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
        losses.note(f"unknown role {shown(value)} (kept as user)", kind="unknown")
    return "user"


def said_role(value: object) -> str | None:
    """Return the source's own word for a role where none of ours says the same, to be kept in the metadata."""
    word = value.strip() if isinstance(value, str) else ""
    return clean(word[:40], Losses()) if word and word.lower() not in _PLAIN else None


def time_of(value: object, losses: Losses) -> datetime | None:
    """Return an ISO 8601 string or epoch seconds as an aware time in its own zone; None where there is none."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value.strip())
            if time.tzinfo is None:
                time = time.replace(tzinfo=UTC)
                losses.note("time without a zone (taken as UTC)")
            time.astimezone(UTC)  # it may lie outside the calendar
            return time
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return _EPOCH + timedelta(seconds=value)
    except (ValueError, OverflowError):
        pass
    losses.note("time that cannot be read (left out)")
    return None


def dated(messages: Sequence[Message], started: object, losses: Losses) -> Iterator[Message]:
    """Yield the messages of one conversation, each without a time with that of its neighbour.

    The neighbour is the one before, for the first ones the one after; where none has a time, the conversation's
    own start.
    """
    known = next((message.time for message in messages if message.time), None)
    if known is None and messages:
        known = time_of(started, losses)
    if known is not None:
        untimed = sum(not message.time and bool(message.content.strip()) for message in messages)
        losses.note("message without a time (given its neighbour's)", untimed)
    for message in messages:
        known = message.time or known
        yield message if message.time or known is None else replace(message, time=known)
