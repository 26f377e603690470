"""What a message must be before it is stored, and the times of those that came without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone, tzinfo
from itertools import islice

from twofold import quoting
from twofold.errors import InvalidInput
from twofold.types import ROLES, Message

MOST_BYTES = 2 * 1024 * 1024  # of a message in UTF-8
MOST_ID = 2**63 - 1  # SQLite's
MOST_NAME = 512  # characters of a session's, project's or source's name
MOST_DEPTH = 64  # of metadata, values in values

_as_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def check(message: Message) -> Message:
    """The message without memory that it quotes. Raises InvalidInput naming what cannot be stored, and the way out."""
    if not isinstance(message, Message):
        raise InvalidInput(f"{str(message)[:40]!r} is no message; give twofold.Message objects")
    text = own_words(message.content)
    if message.role not in ROLES:
        raise InvalidInput(f"role is {message.role!r}; give one of {', '.join(ROLES)}")
    name("session", message.session)
    for kind, value in (("project", message.project), ("source", message.source), ("title", message.title)):
        if value is not None:
            name(kind, value)
    if message.time is not None and (not isinstance(message.time, datetime) or message.time.tzinfo is None):
        raise InvalidInput(f"time {str(message.time)[:40]!r} has no zone; give an aware datetime, e.g. in UTC")
    try:
        _ = message.time and message.time.astimezone(timezone.utc)
    except OverflowError:
        raise InvalidInput(f"time {message.time} is outside the years 1 to 9999 in UTC; give another") from None
    check_metadata(message.metadata)
    return message if text == message.content else replace(message, content=text, made=None)


def check_metadata(metadata: Mapping[str, object]) -> None:
    """Refuse what could not be given back: to a reader of JSON, in UTF-8, inside answers that nest it deeper still."""
    if isinstance(metadata, Mapping) and not metadata:
        return
    try:
        _as_json(dict(metadata)).encode()
        level: list[object] = [metadata]
        for _ in range(MOST_DEPTH):
            level = [inner for outer in level for inner in _members(outer)]
            if not level:
                return
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata cannot be kept as JSON ({error}); give plain finite values") from None
    raise InvalidInput(f"metadata is nested more than {MOST_DEPTH} deep; give flatter values")


def is_hidden(message: Message) -> bool:
    """Whether a message is kept without being recalled: one whose metadata say `"hidden": true`."""
    return message.metadata.get("hidden") == 1  # which is what SQLite reads of true


def _members(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def batches(messages: Iterable[Message], size: int, touched: set[tuple[str | None, str]]) -> Iterator[list[Message]]:
    """Checked messages, `size` at a time, their projects and sessions noted, without those that only quote memory.

    Raises InvalidInput naming a bad message's place.
    """
    stream = enumerate(messages, start=1)
    while batch := list(islice(stream, size)):
        checked = []
        for place, message in batch:
            try:
                if not is_quotation(message):
                    checked.append(check(message))
                    touched.add((message.project, message.session))
            except InvalidInput as error:
                raise InvalidInput(f"message {place}: {error}") from None
        yield checked


def is_quotation(message: Message) -> bool:
    """Whether a message is nothing but memory that came back, which is stored already."""
    text = message.content if isinstance(message, Message) else None
    return isinstance(text, str) and bool(text.strip()) and not quoting.unquoted(text).strip()


def own_words(text: str) -> str:
    """What a message says beside the memory that it quotes. Raises InvalidInput."""
    content("the text", text)
    own = quoting.unquoted(text)
    if not own.strip():
        raise InvalidInput("the text is nothing but quoted memory, which is stored already; give what was said to it")
    return own


def content(kind: str, text: str) -> None:
    """Check a message's or a query's words."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{kind} is empty; give at least one character that is not blank")
    size = len(encoded(kind, text))
    if size > MOST_BYTES:
        raise InvalidInput(f"{kind} has {size:,} bytes, the most is {MOST_BYTES:,}; split it into parts")


def ids(kind: str, values: Collection[int]) -> tuple[int, ...]:
    """Ids that the file can hold; others are no rows of it."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_ID:
            raise InvalidInput(f"{kind} holds {str(value)[:40]!r}; give ids, which are whole numbers")
    return tuple(values)


def name(kind: str, value: str) -> None:
    """Check a session's, project's or source's name."""
    if not isinstance(value, str) or not value.strip() or len(value) > MOST_NAME:
        raise InvalidInput(f"{kind} is {str(value)[:40]!r}; give 1 to {MOST_NAME} characters, not only blanks")
    encoded(kind, value)


def zone(name: str | None) -> tzinfo:
    """The zone of that IANA name, UTC without one. Raises InvalidInput."""
    if not name:
        return timezone.utc
    from zoneinfo import ZoneInfo  # of which most calls have no need

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        raise InvalidInput(f"zone is {str(name)[:40]!r}; give the IANA name of a zone, as in Europe/Lisbon") from None


def encoded(kind: str, text: str) -> bytes:
    """The text in UTF-8, which a lone surrogate has no place in."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{kind} holds half a character (a lone surrogate) at position {error.start}; "
            "decode it with errors='replace' first"
        ) from None


def times(
    messages: Sequence[Message], last_known: Callable[[Message], datetime | None], now: datetime
) -> list[datetime]:
    """A time for every message: its own, else that of the one before it in its session, else of the one after.

    `last_known` gives the time of the last stored episode of a message's session. Messages of equal time
    keep the order in which they were stored.
    """
    first: dict[tuple[str | None, str], datetime] = {}
    for message in messages:
        if message.time is not None:
            first.setdefault((message.project, message.session), message.time)
    latest: dict[tuple[str | None, str], datetime] = {}
    result = []
    for message in messages:
        key = (message.project, message.session)
        time = message.time
        if time is None:
            time = latest.get(key) or last_known(message) or first.get(key) or now
        latest[key] = time
        result.append(time.astimezone(timezone.utc))
    return result
