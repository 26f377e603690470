"""Rerankers read query and text together, which is slow and good: they put the first of a fused ranking in order.

`Reranker` is all that one has to be, `rerank` is how it is used. None is used unless the user gives one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from twofold.errors import InvalidInput, RerankerError, TwofoldError

# As many as each retriever is asked for by default: what is behind them neither retriever put high.
TOP = 50

Id = TypeVar("Id", bound=Hashable)


class Reranker(Protocol):
    """Scores texts against a query. `score` raises a `TwofoldError`, best a `RerankerError`, and nothing else."""

    @property
    def name(self) -> str:
        """What it is called, known without loading it."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """For each text a finite score, higher is better; only scores of one query are compared."""
        ...


@dataclass(frozen=True, slots=True)
class Reranked(Generic[Id]):
    """The ids in their new order, the scores of those that were read, and why there are none where it failed."""

    order: tuple[Id, ...]
    scores: Mapping[Id, float]
    failed: str | None = None


def rerank(query: str, found: Sequence[tuple[Id, float, str]], reranker: Reranker, top: int = TOP) -> Reranked[Id]:
    """The first `top` of a fused ranking by the reranker's score, those behind as they were.

    `found` holds id, fused score and text, best first; ids are distinct. Equal scores keep the fused order. A
    reranker that fails changes nothing and is told in `failed`. Raises InvalidInput for a negative `top`.
    """
    if top < 0:
        raise InvalidInput(f"top is {top}; give 0 or more hits to rerank")
    ids = tuple(id_ for id_, _, _ in found)
    read = found[:top]
    if len(read) < 2:
        return Reranked(ids, {})
    try:
        scores = _checked(reranker, reranker.score(query, [text for _, _, text in read]), len(read))
    except TwofoldError as error:
        return Reranked(ids, {}, str(error))
    # Sorting is stable, so that ties keep their order.
    places = sorted(range(len(read)), key=lambda place: -scores[place])
    return Reranked((*(ids[place] for place in places), *ids[len(read) :]), dict(zip(ids, scores, strict=False)))


def _checked(reranker: Reranker, scores: Sequence[float], texts: int) -> Sequence[float]:
    if len(scores) != texts:
        raise RerankerError(f"the reranker {reranker.name} gave {len(scores)} scores for {texts} texts")
    if not all(math.isfinite(score) for score in scores):
        raise RerankerError(f"the reranker {reranker.name} gave a score that is not finite")
    return scores
