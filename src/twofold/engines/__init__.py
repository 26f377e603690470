"""Search engines outside the file: points with a vector or with weighted terms, found within a scope.

An engine only proposes candidates. Which of them are there, and how near they are, the file says; so a point that
is late, or left over, is never a wrong answer. `Engine` and `Collection` are all that one has to be; both raise
EngineError and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from twofold.types import Scope

Quantization = Literal["none", "scalar", "binary"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms as numbers of 32 bits, each once, with their weights."""

    numbers: Sequence[int]
    weights: Sequence[float]


@dataclass(frozen=True, slots=True)
class Point:
    """What an engine keeps: a unit vector or terms, and where it belongs (project 0: to none)."""

    id: int
    session: int
    project: int
    content: NDArray[np.float32] | Terms


@dataclass(frozen=True, slots=True)
class Layout:
    """What a collection holds: vectors of `dimension`, kept smaller by `quantization`, or terms (dimension 0).

    Terms are weighed by their rarity in the engine.
    """

    dimension: int
    quantization: Quantization = "none"


class Collection(Protocol):
    """The points of one index."""

    def put(self, points: Sequence[Point], moment: int) -> None:
        """Set points; they outlive this process when this returns.

        `moment` rises from one call to the next; a call that arrives after a later one leaves alone what that one did
        to points whose content may change.
        """
        ...

    def remove(self, ids: Sequence[int], moment: int) -> None:
        """Remove points, those that are there; gone for good when this returns. `moment` as in `put`."""
        ...

    def search(
        self, query: NDArray[np.float32] | Terms, scope: Scope, exclude: Container[int], limit: int
    ) -> list[int]:
        """The ids of about the best `limit` points in scope, without the excluded, best first."""
        ...

    def count(self) -> int:
        """How many points there are."""
        ...

    def ids(self, after: int, limit: int) -> list[int]:
        """Up to `limit` ids above `after`, rising."""
        ...

    def unindexed(self) -> int:
        """How many points every search has to walk through, for want of an index over them."""
        ...

    def index(self) -> None:
        """Build the index over all points; other calls may have to wait."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Engine(Protocol):
    """Where collections are."""

    @property
    def name(self) -> str:
        """The engine's name in settings."""
        ...

    @property
    def builds_apart(self) -> bool:
        """Whether an index is built in a process of its own, because it holds up everything else in this one."""
        ...

    @property
    def may_forget(self) -> bool:
        """Whether a process that is killed may take with it some of what was durable."""
        ...

    def collections(self) -> list[str]:
        """The names of all collections of this store."""
        ...

    def create(self, name: str, layout: Layout) -> None:
        """Make an empty collection, in the place of what is left of one of that name."""
        ...

    def open(self, name: str, layout: Layout) -> Collection:
        """A collection that was made. Raises EngineLost where it is gone, EngineBusy where another process has it."""
        ...

    def expose(self, name: str) -> None:
        """Show to others that this collection serves now."""
        ...

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...
