"""Vector indexes: which episodes are near a query's vector. `VectorIndex` is all one has to be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twofold.types import Scope


@dataclass(frozen=True, slots=True)
class VectorHits:
    """A ranking of (id, cosine), and the floor: the mean cosine of the query to all `rows` in scope.

    `pieces` are vectors of episodes that had to be read for it, so that nobody reads them again.
    """

    ranking: list[tuple[int, float]]
    floor: float = 0.0
    rows: int = 0
    pieces: Mapping[int, NDArray[np.float32]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def spread(self) -> float | None:
        """How far the best hit stands above the mean of the other rows; None where there are no others."""
        if self.rows < 2 or not self.ranking:
            return None
        best = self.ranking[0][1]
        return best - (self.floor * self.rows - best) / (self.rows - 1)


VectorSearch: TypeAlias = Callable[[NDArray[np.float32]], VectorHits]


class VectorIndex(Protocol):
    """An index over the vectors of one model. Every call runs in the transaction its caller has open, if any."""

    @property
    def computes_beside(self) -> bool:
        """Whether a search leaves Python's global lock to other threads for the most part of its time."""
        ...

    def put(self, pieces: Iterable[tuple[int, NDArray[np.float32]]]) -> None:
        """Set the vectors of episodes: for each its pieces, shape (pieces, dimension), unit length."""
        ...

    def prepare(self, scope: Scope, exclude: Collection[int], limit: int) -> VectorSearch:
        """A search for the best `limit` episodes in scope, without the excluded, in the state that the caller sees.

        It takes a query's vector and uses no transaction, so that it may run in another thread. An episode is
        as near as its best piece. Raises ModelMismatch where the store's current vectors are another model's.
        """
        ...

    def score(self, vector: NDArray[np.float32], ids: Sequence[int]) -> dict[int, float]:
        """The cosine of each given episode that has a vector."""
        ...

    def vectors(self, ids: Collection[int]) -> dict[int, NDArray[np.float32]]:
        """The pieces, shape (pieces, dimension), of each given episode that has a vector."""
        ...

    def missing(self, after: int, limit: int) -> list[int]:
        """Up to `limit` episodes above the id `after` that have no vector of this model, in order."""
        ...

    def counts(self) -> tuple[int, int]:
        """How many episodes have a vector of this model, and how many have none."""
        ...

    def is_current(self) -> bool:
        """Whether this model's vectors are the ones that are searched, or there are none of any model."""
        ...

    def switch(self) -> None:
        """Make this model's vectors the ones that are searched."""
        ...
