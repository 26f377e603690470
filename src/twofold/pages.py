"""Lists in pages: some items and a cursor that says where the next page begins."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from twofold import messages as incoming
from twofold.errors import InvalidInput

PAGE = 50
MOST_PAGE = 500

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items of a list, and the cursor that the next page begins after; None where this is the last."""

    items: tuple[Item, ...]
    next: str | None


def one_more(limit: int) -> int:
    """How many items to ask for, so that `paged` sees whether there are more. Raises InvalidInput."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_PAGE:
        raise InvalidInput(f"limit is {limit!r}; give a whole number from 1 to {MOST_PAGE}")
    return limit + 1


def paged(found: Sequence[Item], limit: int, key: Callable[[Item], Sequence[int | str]]) -> Page[Item]:
    """The page, of which `found` holds one item more than asked for where there are more.

    `key` gives what an item is ordered by.
    """
    items = tuple(found[:limit])
    if len(found) <= limit:
        return Page(items, None)
    return Page(items, base64.urlsafe_b64encode(json.dumps(list(key(items[-1]))).encode()).decode())


def cursor(after: str | None, kinds: Sequence[type]) -> Any:
    """What a cursor holds, one value of each kind; None without one. Raises InvalidInput for one that no page gave."""
    if not after:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(after.encode()))
        if isinstance(values, list) and [type(value) for value in values] == list(kinds):
            incoming.ids("after", [value for value in values if isinstance(value, int)])
            return values
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidInput(f"after is {after[:40]!r}, which no page of this list gave as next; begin again without it")
