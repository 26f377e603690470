"""What tests of delivery share: waiting for it with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.chaos_delivery import differences, is_delivered
from twofold import Memory
from twofold.errors import EngineError

DEADLINE = 20.0  # seconds; what is waited for takes a small part of one


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds, and fail after DEADLINE."""
    last = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < last, f"waited {DEADLINE:g} seconds in vain: {what}"
        time.sleep(0.01)


def wait_until_delivered(memory: Memory) -> None:
    until(lambda: is_delivered(memory), "delivery of all that was written")


def is_whole(memory: Memory) -> bool:
    """Whether all is delivered and the engine has what the file has, no more and no less."""
    try:
        return is_delivered(memory) and differences(memory) == {}
    except EngineError:
        return False
