"""Keyword indexes: which episodes hold a query's terms, and how well. `KeywordIndex` is all one has to be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from twofold.types import Scope

TEN = 10


@dataclass(frozen=True, slots=True)
class KeywordHits:
    """A ranking of (id, score), higher is better, and which of the query's terms were looked up or not.

    `score` gives any episodes the score that the search gave or would give them, 0 where there is no term in
    sight; it is called in the transaction of the search.
    """

    ranking: list[tuple[int, float]]
    used: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    score: Callable[[Sequence[int]], list[float]] = lambda ids: [0.0] * len(ids)

    @property
    def standing(self) -> float | None:
        """How far the best hit stands above the eleventh, as a part of its score; None where there are fewer."""
        if len(self.ranking) <= TEN or self.ranking[0][1] <= 0.0:
            return None
        return 1.0 - self.ranking[TEN][1] / self.ranking[0][1]


class KeywordIndex(Protocol):
    """An index over the terms of episodes. Every call runs in the transaction its caller has open, if any."""

    def put(self, ids: Iterable[int]) -> None:
        """Make the entries of these episodes, and of those whose neighbours they are, what the rows say now."""
        ...

    def remove(self, ids: Iterable[int]) -> None:
        """Drop the entries of these episodes, whose rows are still there; their neighbours close the gap."""
        ...

    def search(
        self, terms: Sequence[str], scope: Scope, exclude: Collection[int], limit: int, *, own: bool = False
    ) -> KeywordHits:
        """The best `limit` episodes in scope, without the excluded, that hold a term or stand beside one that does.

        With `own` only those that hold one themselves.
        """
        ...

    def neighbours(self, ids: Collection[int]) -> dict[int, Sequence[int]]:
        """Who stands beside each of these episodes in its session, near enough to count as its context."""
        ...

    def are_conversations(self) -> bool:
        """Whether the store holds conversations rather than single texts."""
        ...

    def faults(self) -> dict[str, int]:
        """What is wrong with the index, by sentences, and how often; `rebuild` mends all of it."""
        ...

    def rebuild(self) -> None:
        """Make the whole index anew from the rows."""
        ...

    def purge(self) -> None:
        """Leave no trace of removed entries in the index."""
        ...
