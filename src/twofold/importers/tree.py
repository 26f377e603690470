"""A conversation with edited or regenerated messages is a tree; what was last seen is one branch of it."""

from __future__ import annotations

import math
from collections.abc import Mapping


def branch(parents: Mapping[str, object], end: object, times: Mapping[str, float]) -> list[str]:
    """Return the keys from the root to `end`, or to the newest leaf where `end` is no key.

    `parents` holds every key and its parent. A circle of parents ends the walk.
    """
    start = end if isinstance(end, str) and end in parents else _newest_leaf(parents, times)
    if start is None:
        return []
    return _way_up(parents, start, {})[::-1]


def _newest_leaf(parents: Mapping[str, object], times: Mapping[str, float]) -> str | None:
    """Return the leaf with the newest time on its branch; of equals the deepest, then the last."""
    inner = {parent for parent in parents.values() if isinstance(parent, str)}
    leaves = [key for key in parents if key not in inner] or list(parents)
    known: dict[str, tuple[float, int]] = {}
    for leaf in leaves:
        way = _way_up(parents, leaf, known)
        above = parents[way[-1]] if way else None
        newest, depth = known.get(above, (-math.inf, 0)) if isinstance(above, str) else (-math.inf, 0)
        for key in reversed(way):
            newest, depth = max(newest, times.get(key, -math.inf)), depth + 1
            known[key] = (newest, depth)
    return max(reversed(leaves), key=known.__getitem__, default=None)


def _way_up(parents: Mapping[str, object], start: str, known: Mapping[str, object]) -> list[str]:
    """Return `start` and the keys above it, up to the root, a known key or a circle."""
    way: dict[str, None] = {}
    at: object = start
    while isinstance(at, str) and at in parents and at not in way and at not in known:
        way[at] = None
        at = parents[at]
    return list(way)
