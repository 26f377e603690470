"""A moment as people write it: an ISO date or time, or words as "last week"."""

from __future__ import annotations

from datetime import datetime

from twofold import when
from twofold.errors import InvalidInput


def moment(name: str, text: str | None, now: datetime) -> datetime | None:
    """The moment that a text names, of a day or a longer time its beginning; None for none or an empty one.

    `now` is aware and in the asker's zone, which dates without one are read in. Raises InvalidInput, which calls the
    value by `name`.
    """
    if text is None or not text.strip():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        spans = when.spans(text, now)
        if not spans:
            raise InvalidInput(
                f"{name} is {text[:40]!r}, which names no time; give an ISO date as 2026-03-01, or words as last week"
            ) from None
        return spans[0].start
    return time if time.tzinfo else time.replace(tzinfo=now.tzinfo)
