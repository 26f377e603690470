"""What tests of delivery share: waiting for it with a deadline, and comparing the file with the engine."""

from __future__ import annotations

import time
from collections.abc import Callable

import apsw

from twofold import Memory
from twofold.engines.replica import Replica
from twofold.errors import EngineError
from twofold.store import outbox

DEADLINE = 20.0  # seconds; what is waited for takes a small part of one


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds, and fail after DEADLINE."""
    last = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < last, f"waited {DEADLINE:g} seconds in vain: {what}"
        time.sleep(0.01)


def is_delivered(memory: Memory) -> bool:
    """Whether every index outside the file serves and has nothing more to be told."""
    with memory._store.read() as db:
        by_replica = [replica.targets(db)[:1] for replica in memory._indexes.replicas]
        return all(found and found[0].serves and not outbox.lag(db, found[0].id)[0] for found in by_replica)


def wait_until_delivered(memory: Memory) -> None:
    until(lambda: is_delivered(memory), "delivery of all that was written")


def points_of_file(db: apsw.Connection, replica: Replica) -> set[int]:
    """The points that an index of this sort has to have."""
    if replica.kind == "words":
        return {row[0] for row in db.execute("SELECT id FROM keyword_docs WHERE own > 0")}
    model = replica.targets(db)[0].model
    return {row[0] for row in db.execute("SELECT id FROM vectors WHERE model_id = ?", (model,))}


def points_of_engine(db: apsw.Connection, replica: Replica) -> set[int]:
    """The points that the serving index has, read in pages."""
    points = replica.open(replica.targets(db)[0])
    found: list[int] = []
    while page := points.ids(found[-1] if found else 0, 100):
        found += page
    assert points.count() == len(found) == len(set(found))
    return set(found)


def differences(memory: Memory) -> dict[str, tuple[set[int], set[int]]]:
    """By sort of index: what the engine lacks, and what it has that the file has not."""
    result = {}
    for replica in memory._indexes.replicas:
        with memory._store.read() as db:
            there, held = points_of_file(db, replica), points_of_engine(db, replica)
        if there != held:
            result[replica.kind] = there - held, held - there
    return result


def is_whole(memory: Memory) -> bool:
    """Whether all is delivered and the engine has what the file has, no more and no less."""
    try:
        return is_delivered(memory) and differences(memory) == {}
    except EngineError:
        return False
