"""An index outside the file compared with the file: which points it lacks, and which it should not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.engines import Collection as Points
from twofold.engines.replica import Replica
from twofold.store import Store, outbox
from twofold.store.outbox import Target

Ints = NDArray[np.int64]

PAGE = 10_000  # ids that an engine is asked for at once


@dataclass(frozen=True, slots=True)
class Difference:
    """The ids of points that the file has and the engine lacks, and of those that are only in the engine.

    What is queued is neither: the engine will be told.
    """

    missing: Ints
    strangers: Ints


def compare(store: Store, replica: Replica, target: Target, points: Points, *, alone: bool) -> Difference:
    """What differs between file and engine. Raises EngineError.

    Unless this process is `alone` in telling the engine, what was told while its points were listed looks like a
    difference: only what differs a second time as well is one, as no point comes back that has gone.
    """
    first = _once(store, replica, target, points)
    if alone or not (len(first.missing) or len(first.strangers)):
        return first
    second = _once(store, replica, target, points)
    return Difference(np.intersect1d(first.missing, second.missing), np.intersect1d(first.strangers, second.strangers))


def _once(store: Store, replica: Replica, target: Target, points: Points) -> Difference:
    with store.read() as db:
        expected = _array(outbox.points_of(db, target))
        waiting = _array(outbox.waiting_of(db, target.id))
    replica.try_out(points)
    held = _array(_all(points))
    missing = np.setdiff1d(np.setdiff1d(expected, held, assume_unique=True), waiting, assume_unique=True)
    strangers = np.setdiff1d(np.setdiff1d(held, expected, assume_unique=True), waiting, assume_unique=True)
    return Difference(missing, strangers)


def _all(points: Points) -> Iterator[int]:
    last = 0
    while page := points.ids(last, PAGE):
        yield from page
        last = page[-1]


def _array(ids: Iterator[int]) -> Ints:
    return np.fromiter(ids, dtype=np.int64)
