"""Fusion: several rankings in, one ranking out. Pure functions, standard library only.

All methods share these rules. A ranking is one retriever's answer, best first, higher scores better; ranks
are 1-based; an id repeated inside a ranking counts at its best place only. A ranking of weight 0 is not
there. An id that a ranking lacks gets nothing from it. The order is total and does not depend on the order
of the rankings: score descending, then best rank in any ranking, then id.

Sources. rrf: Cormack, Clarke, Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank
learning methods", SIGIR 2009. rsf (relative score fusion, min-max) and dbsf (distribution-based score
fusion, mean and three standard deviations): as the search engines that named them define them. convex:
Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023 (there TM2C2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from twofold.errors import InvalidInput
from twofold.types import Contribution

Id: TypeAlias = Any  # hashable and sortable among its like: int or str
Rankings: TypeAlias = Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]]
Numbers: TypeAlias = Mapping[str, float] | Sequence[float]

RRF_K = 60.0  # the paper's constant; it found results flat around it
DBSF_DEVIATIONS = 3.0  # a normal distribution has 99.7 % within three standard deviations


class _Part(NamedTuple):
    """One ranking after normalisation: distinct ids in rank order and, aligned with them, the numbers."""

    name: str
    weight: float
    ids: Sequence[Id]
    raws: Sequence[float] | None
    values: Sequence[float]
    contributions: Sequence[float]


class _Why:
    """What every hit of one fusion shares: enough to build its contributions when someone reads them."""

    __slots__ = ("_parts", "_places")

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts
        self._places: list[dict[Id, int]] | None = None

    def places(self) -> list[dict[Id, int]]:
        """For each ranking its ids' 0-based places."""
        if self._places is None:
            self._places = [dict(zip(part.ids, range(len(part.ids)), strict=True)) for part in self._parts]
        return self._places

    def contributions(self, id_: Id) -> tuple[Contribution, ...]:
        """What each ranking that holds the id gave to it."""
        found = []
        for part, places in zip(self._parts, self.places(), strict=True):
            place = places.get(id_)
            if place is None:
                continue
            raw = None if part.raws is None else part.raws[place]
            value, given = part.values[place], part.contributions[place]
            found.append(Contribution(part.name, place + 1, raw, value, part.weight, given))
        return tuple(found)


class Fused:
    """One fused hit: `id`, `score` and, built when read, the `contributions` that add up to the score."""

    __slots__ = ("_why", "id", "score")

    def __init__(self, id_: Id, score: float, why: _Why) -> None:
        self.id = id_
        self.score = score
        self._why = why

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """Per ranking that holds the id: its rank, raw score, normalised value, weight and contribution."""
        return self._why.contributions(self.id)

    def __repr__(self) -> str:
        return f"Fused(id={self.id!r}, score={self.score!r})"


def rrf(
    rankings: Rankings,
    *,
    weights: Numbers | None = None,
    k: float = RRF_K,
    normalize: bool = False,
    limit: int | None = None,
) -> list[Fused]:
    """Reciprocal rank fusion: the sum of w / (k + rank).

    `rankings`: a mapping of name to ranking or a sequence of rankings; a ranking is a sequence of ids, or of
    (id, score) pairs whose order counts. `weights` default to 1. `normalize` divides by sum(w) / (k + 1), so
    that first in every ranking is 1. Raises InvalidInput naming the argument. Source: see the module.
    """
    named = _named(rankings)
    weighted = _numbers("weights", weights, named, default=1.0, minimum=0.0)
    _check_k(k)
    shares = _shares(weighted) if normalize else weighted
    parts = []
    for (name, ranking), weight, share in zip(named, weighted, shares, strict=True):
        if weight == 0.0:
            continue
        ids, raws = _ranked_ids(name, ranking)
        values = _reciprocals(k, len(ids), normalize)
        given = values if share == 1.0 else [share * value for value in values]
        parts.append(_Part(name, share, ids, raws, values, given))
    return _combine(parts, limit)


def rsf(rankings: Rankings, *, weights: Numbers | None = None, limit: int | None = None) -> list[Fused]:
    """Relative score fusion: the sum of w * (s - min) / (max - min), 1 where all are equal.

    `rankings` hold (id, score) pairs, in any order. `weights` default to 1/n. Raises InvalidInput.
    """
    return _fuse_scores(rankings, weights, limit, lambda _name: _min_max)


def dbsf(rankings: Rankings, *, weights: Numbers | None = None, limit: int | None = None) -> list[Fused]:
    """Distribution-based score fusion: w * (s - (m - 3 sd)) / 6 sd clipped to 0..1, 0.5 where all are equal.

    m and sd are the mean and the sample's standard deviation of one ranking's scores. Otherwise as `rsf`.
    """
    return _fuse_scores(rankings, weights, limit, lambda _name: _three_deviations)


def convex(
    rankings: Rankings,
    *,
    floors: Numbers,
    weights: Numbers | None = None,
    limit: int | None = None,
) -> list[Fused]:
    """Convex combination with known minima: w * clip((s - floor) / (max - floor), 0, 1), 0 if max <= floor.

    Wants completed scores: every candidate scored by every retriever. `floors` has one number a ranking, the
    least score the retriever can mean anything by. Otherwise as `rsf`.
    """
    named = _named(rankings)
    if floors is None:
        raise InvalidInput("floors is None; give the least score that each retriever can mean anything by")
    floor_of = dict(zip([n for n, _ in named], _numbers("floors", floors, named), strict=True))

    def above(name: str) -> Callable[[list[float]], list[float]]:
        return lambda scores: _above_floor(scores, floor_of[name])

    return _fuse_scores(dict(named), weights, limit, above)


def _fuse_scores(
    rankings: Rankings,
    weights: Numbers | None,
    limit: int | None,
    normaliser: Callable[[str], Callable[[list[float]], list[float]]],
) -> list[Fused]:
    named = _named(rankings)
    default = 1.0 / len(named) if named else 1.0
    weighted = _numbers("weights", weights, named, default=default, minimum=0.0)
    parts = []
    for (name, ranking), weight in zip(named, weighted, strict=True):
        pairs = _ranked_pairs(name, ranking) if weight > 0.0 else []
        if not pairs:
            continue
        raws = [score for _, score in pairs]
        values = normaliser(name)(raws)
        given = [weight * value for value in values]
        parts.append(_Part(name, weight, [id_ for id_, _ in pairs], raws, values, given))
    return _combine(parts, limit)


def _combine(parts: list[_Part], limit: int | None) -> list[Fused]:
    """Add up the contributions of every id and order the ids."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"limit is {limit!r}; give a whole number from 0, or None for all")
    if not parts or limit == 0:
        return []
    _check_one_kind_of_id(*(part.ids for part in parts))
    why = _Why(parts)
    sums = _sums_of_two(*parts) if len(parts) == 2 else _sums(parts)
    ids = sorted(sums, key=sums.__getitem__, reverse=True)
    return [Fused(id_, sums[id_], why) for id_ in ids[:limit]]


def _sums(parts: list[_Part]) -> dict[Id, float]:
    """Each id's correctly rounded sum. The ids stand in the order of their best rank, then of themselves,
    so that a stable sort by score ends in the total order."""
    entries = sorted(
        (rank, id_, given)
        for part in parts
        for rank, (id_, given) in enumerate(zip(part.ids, part.contributions, strict=True))
    )
    given_to: dict[Id, list[float]] = {}
    for _, id_, given in entries:
        given_to.setdefault(id_, []).append(given)
    return {id_: math.fsum(given) for id_, given in given_to.items()}


def _sums_of_two(one: _Part, two: _Part) -> dict[Id, float]:
    """As `_sums`, for the common case, in a third of the time: adding two floats rounds correctly by itself."""
    sums: dict[Id, float] = {}
    get = sums.get
    for a, b, to_a, to_b in zip(one.ids, two.ids, one.contributions, two.contributions):  # noqa: B905
        if b < a:
            sums[b] = get(b, 0.0) + to_b
            sums[a] = get(a, 0.0) + to_a
        else:
            sums[a] = get(a, 0.0) + to_a
            sums[b] = get(b, 0.0) + to_b
    short = min(len(one.ids), len(two.ids))
    longer = one if len(one.ids) > short else two
    for id_, given in zip(longer.ids[short:], longer.contributions[short:], strict=True):
        sums[id_] = get(id_, 0.0) + given
    return sums


def _shares(weights: list[float]) -> list[float]:
    """The weights as parts of 1, rounded so that they never add up to more."""
    total = math.fsum(weights)
    while total > 0.0 and math.fsum(weight / total for weight in weights) > 1.0:
        total = math.nextafter(total, math.inf)
    return [weight / total if weight else 0.0 for weight in weights]


@lru_cache(maxsize=64)
def _reciprocals(k: float, count: int, normalize: bool) -> tuple[float, ...]:
    top = k + 1.0 if normalize else 1.0
    return tuple([top / (k + rank) for rank in range(1, count + 1)])


def _scaled(scores: list[float], *others: float) -> tuple[list[float], tuple[float, ...]]:
    """The same numbers times a power of two where their differences or squares could leave a float's range."""
    largest = max(map(abs, (*scores, *others)))
    if largest == 0.0 or 1e-100 < largest < 1e100:
        return scores, others
    shift = -math.frexp(largest)[1]
    return [math.ldexp(s, shift) for s in scores], tuple(math.ldexp(o, shift) for o in others)


def _min_max(raws: list[float]) -> list[float]:
    scores, _ = _scaled(raws)
    low, high = scores[-1], scores[0]
    span = high - low
    return [(s - low) / span for s in scores] if span > 0.0 else [1.0] * len(scores)


def _three_deviations(raws: list[float]) -> list[float]:
    scores, _ = _scaled(raws)
    if scores[0] == scores[-1]:
        return [0.5] * len(scores)
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum([(s - mean) ** 2 for s in scores]) / (len(scores) - 1))
    half = DBSF_DEVIATIONS * deviation
    if half == 0.0:
        return [0.5] * len(scores)
    return [min(1.0, max(0.0, (s - (mean - half)) / (2.0 * half))) for s in scores]


def _above_floor(raws: list[float], floor: float) -> list[float]:
    scores, (low,) = _scaled(raws, floor)
    span = scores[0] - low
    if span <= 0.0:
        return [0.0] * len(scores)
    return [max(0.0, (s - low) / span) for s in scores]


def _named(rankings: Rankings) -> list[tuple[str, Sequence[Any]]]:
    if isinstance(rankings, Mapping):
        return list(rankings.items())
    return [(str(place), ranking) for place, ranking in enumerate(rankings)]


def _numbers(
    argument: str,
    given: Numbers | None,
    named: list[tuple[str, Sequence[Any]]],
    *,
    default: float = 0.0,
    minimum: float = -math.inf,
) -> list[float]:
    """One finite number a ranking, in the rankings' order."""
    if given is None:
        return [default] * len(named)
    if not isinstance(given, (Mapping, Sequence)):
        raise InvalidInput(f"{argument} is {given!r}; give one number for each ranking")
    if isinstance(given, Mapping):
        names = [name for name, _ in named]
        if set(given) != set(names):
            raise InvalidInput(f"{argument} name {sorted(map(str, given))}, the rankings are {sorted(names)}")
        given = [given[name] for name in names]
    if len(given) != len(named):
        raise InvalidInput(f"{argument} has {len(given)} numbers for {len(named)} rankings; give one for each")
    for number in given:
        if not _is_finite(number) or number < minimum:
            least = "" if minimum == -math.inf else f" from {minimum:g}"
            raise InvalidInput(f"{argument} holds {number!r}; each must be a finite number{least}")
    if minimum == 0.0 and math.isinf(sum(map(float, given))):
        raise InvalidInput(f"{argument} add up to infinity; give smaller numbers")
    return [float(number) for number in given]


def _is_finite(value: object) -> bool:
    """Whether a value is a number that a float can hold; a bool is none."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _check_k(k: float) -> None:
    if not _is_finite(k) or k < 0:
        raise InvalidInput(f"k is {k!r}; give a finite number from 0")


def _ranked_ids(name: str, ranking: Sequence[Any]) -> tuple[Sequence[Id], Sequence[float] | None]:
    """Distinct ids, best place first, and their raw scores where pairs were given."""
    if isinstance(ranking, str):
        raise InvalidInput(f"rankings: {name!r} is the text {ranking[:40]!r}; give a sequence of ids")
    if not ranking:
        return (), None
    if isinstance(ranking[0], (tuple, list)):
        best = dict(reversed(_pairs(name, ranking)))
        ids = list(dict.fromkeys(id_ for id_, _ in ranking))
        return ids, [best[id_] for id_ in ids]
    return (tuple(ranking), None) if len(set(ranking)) == len(ranking) else (list(dict.fromkeys(ranking)), None)


def _ranked_pairs(name: str, ranking: Sequence[Any]) -> list[tuple[Id, float]]:
    """Distinct (id, score) pairs ordered by score, then id; a repeated id keeps its best score."""
    pairs = _pairs(name, ranking)
    for id_, score in pairs:
        if not _is_finite(score):
            raise InvalidInput(f"rankings: {name!r} scores {id_!r} with {score!r}; scores must be finite numbers")
    _check_one_kind_of_id([id_ for id_, _ in pairs])
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    best: dict[Id, float] = {}
    for id_, score in pairs:
        best.setdefault(id_, float(score))
    return list(best.items())


def _pairs(name: str, ranking: Sequence[Any]) -> list[tuple[Id, float]]:
    try:
        return [(id_, score) for id_, score in ranking]
    except (TypeError, ValueError):
        raise InvalidInput(f"rankings: {name!r} must hold (id, score) pairs") from None


def _check_one_kind_of_id(*rankings: Sequence[Id]) -> None:
    """4 and "4" would be two hits for one row, so that a caller who mixes them is told."""
    kinds = {issubclass(kind, str) for ids in rankings for kind in set(map(type, ids))}
    if len(kinds) > 1:
        raise InvalidInput("rankings: some ids are text and some are not; give every id as the same type")
