"""`tune`: chooses a store's prior from judged queries, and applies only what is shown better on queries held out.

Every query is looked up once; each setting then fuses the same candidates. What a choice is worth is measured by
nested cross-validation: a setting is chosen on four folds of the queries and counted on the fifth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

import numpy as np
from numpy.typing import NDArray

from twofold import retrieve, significance
from twofold.errors import EmbedderError, InvalidInput, NotFound
from twofold.judged import Judged
from twofold.memory import Memory
from twofold.query import characterize
from twofold.retrieve import Plan, Prior
from twofold.settings import Value
from twofold.store import rows
from twofold.types import Scope

LEAST = 20  # judged queries; with fewer nothing could be shown
DEPTH = 10  # of nDCG
FOLDS = 5
SHUFFLES = 10  # whose results are averaged for each query, so that it hardly matters which queries share a fold
SEED = 20_250_101

# A setting nearer to the current one is taken where it is less than this many standard errors below the best.
# On samples of 200 queries the choice loses .004 on SciFact, where nothing helps, and .008 without this; on CoSQA it
# gains .020 with and without.
WITHIN = 0.5
# The share that the other side keeps where one arm is chosen: it orders what is equal, and answers where the arm
# finds nothing or fails. This much is what that may cost.
LEFT = 1e-6
COST = 0.0005

LEVEL = significance.LEVEL
SECOND_LEVEL = 1.0 - (1.0 - LEVEL) / 2.0  # of what is tried after a first choice has failed

Progress = Callable[[int], None]
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gain:
    """A mean difference in nDCG@10 over the queries, its interval of that level, and its p-value."""

    mean: float
    low: float
    high: float
    level: float
    p: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What tuning found. The scores are nDCG@10: `held_out` that of the choice, on queries it was not chosen on.

    `gain` is over the current setting, `over_arm` over the better of keyword and semantic recall alone, which `arm`
    names. Where the best fusion falls behind that arm, the arm is chosen, and `instead` says so. `curve` is the mean by
    the weight of the keyword side, with all else as it is measured. `dropped` counts the judged queries none of whose
    episodes are there; `refused` is why nothing may be applied, empty where it may.
    """

    queries: int
    current: Prior
    chosen: Prior
    current_score: float
    held_out: float
    gain: Gain
    arm: str
    arm_score: float
    over_arm: Gain
    instead: str
    refused: str
    curve: tuple[tuple[float, float], ...] = ()
    dropped: int = 0
    applied: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    """A judged query with its scope and the ids of its answers in it."""

    query: str
    scope: Scope
    relevant: frozenset[int]


def grid() -> list[Prior]:
    """The settings that are tried; the first two are the single arms but for LEFT."""
    tuned = [Prior(share, origin="tuned") for share in (1.0 - LEFT, LEFT)]
    for twentieth in range(1, 20):
        share = twentieth / 20
        tuned += [Prior(share, leans=leans, origin="tuned") for leans in (True, False)]
        if retrieve.WORDS_SHARE / 2 <= share <= 1.0 - retrieve.WORDS_SHARE / 2:
            measured = replace(retrieve.measured_prior(are_conversations=False), keyword=share, origin="tuned")
            tuned.append(measured)
        if twentieth % 2 == 0:
            tuned += [Prior(share, method, False, None, "tuned") for method in ("rsf", "dbsf")]
            tuned += [Prior(share, "rrf", False, k, "tuned") for k in (10.0, 20.0, 60.0)]
    return tuned


def tune(
    memory: Memory,
    judged: Iterable[Judged],
    *,
    apply: bool = False,
    seed: int = SEED,
    progress: Progress | None = None,
) -> Tuning:
    """Choose the prior that suits the judged queries best, and with `apply` set it unless there is reason to refuse.

    Raises InvalidInput (fewer than LEAST queries, or settings under which no prior is used), NotFound for a session
    or project that is not there, and EmbedderError where semantic recall fails.
    """
    settings = memory.settings()
    for name in ("weights", "method"):
        if settings[name] != "auto":
            raise InvalidInput(f"{name} is {settings[name]!r}, so no prior would be used; set {name}=auto first")
    cases, dropped = _cases(memory, list(judged))
    if (different := len(set(_groups(cases)))) < LEAST:
        left_out = f" ({dropped} more have no episode that is there)" if dropped else ""
        raise InvalidInput(f"{different} different queries are judged{left_out}; give at least {LEAST}")
    current = memory.prior()
    priors = list(dict.fromkeys([*grid(), replace(current, origin="tuned")]))
    tried = []
    for done, case in enumerate(cases, start=1):
        tried.append(_tried(memory, case, settings, [current, *priors]))
        if progress:
            progress(done)
    result = replace(_judge(np.array(tried), cases, current, priors, seed), dropped=dropped)
    if apply and not result.refused:
        memory.set_prior(result.chosen)
        return replace(result, applied=True)
    return result


def _cases(memory: Memory, judged: Sequence[Judged]) -> tuple[list[_Case], int]:
    """The queries with an answer in their scope, and how many have none; one that is judged twice has both answers."""
    found: dict[tuple[str, Scope], set[int]] = {}
    with memory._store.read() as db:
        by_source = rows.episodes_of_sources(db, {source for one in judged for source in one.sources})
        for one in judged:
            try:
                scope = memory._reach.resolve(db, one.session, one.project)
            except NotFound as error:
                raise NotFound(f"{one.place}: {error}") from None
            ids = {*one.episodes, *(id_ for source in one.sources for id_ in by_source.get(source, ()))}
            found.setdefault((one.query, scope), set()).update(id_ for id_ in ids if rows.sees(db, scope, id_))
    cases = [_Case(query, scope, frozenset(ids)) for (query, scope), ids in found.items() if ids]
    return cases, len(found) - len(cases)


def _tried(memory: Memory, case: _Case, settings: Mapping[str, Value], priors: Sequence[Prior]) -> list[float]:
    """The score of a query by each arm, keyword first, and with each prior: looked up once, fused with each."""
    kind, now = characterize(case.query), datetime.now(timezone.utc)
    # Looked up as recall does it under an automatic prior, words for times included.
    whole = retrieve.plan(case.query, {"weights": "auto", "method": "convex"}, Prior(0.5), now)
    whole = replace(whole, weights={"keyword": 0.5, "semantic": 0.5})
    arms = [Plan(kind, "convex", {"keyword": share, "semantic": 1.0 - share}, None) for share in (1.0, 0.0)]
    window = max(int(settings["window"]), DEPTH)
    with memory._store.read():
        found = memory._retriever.recall(case.query, whole, case.scope, window=window, limit=0)
    for part, why in found.failed.items():
        raise EmbedderError(f"nothing can be tuned while {part} recall fails: {why}")
    plans = [*arms, *(retrieve.plan(case.query, settings, prior, now) for prior in priors)]
    return [ndcg([hit.id for hit in retrieve.fuse(found, plan, DEPTH)], case.relevant) for plan in plans]


def ndcg(ranked: Sequence[int], relevant: Collection[int], depth: int = DEPTH) -> float:
    """nDCG of a ranking whose episodes are relevant or not (Jarvelin and Kekalainen, 2002; discount log2(rank + 1))."""
    gained = [1.0 / math.log2(rank + 1) for rank, id_ in enumerate(ranked[:depth], start=1) if id_ in relevant]
    ideal = [1.0 / math.log2(rank + 1) for rank in range(1, min(depth, len(relevant)) + 1)]
    return math.fsum(gained) / math.fsum(ideal)


def _judge(tried: Scores, cases: Sequence[_Case], current: Prior, priors: Sequence[Prior], seed: int) -> Tuning:
    """What the scores, shape (queries, 2 arms + the current prior + priors), allow to be said."""
    arms, now, scores = tried[:, :2], tried[:, 2], tried[:, 3:]
    better = int(arms.mean(axis=0).argmax())
    name, arm = ("keyword", "semantic")[better], arms[:, better]
    far = np.array([_distance(prior, current) for prior in priors])
    groups, level, instead = _groups(cases), LEVEL, ""
    choose: Callable[[Scores], int] = partial(_choose, far)
    held_out = _held_out(scores, choose, groups, seed)
    if (over_arm := _gain(held_out - arm, level)).mean < 0.0:
        instead = f"the best fusion is {over_arm.mean:+.4f} against {name} recall on held-out queries"
        choose, level = _choose_arm, SECOND_LEVEL
        held_out = _held_out(scores, choose, groups, seed)
        over_arm = _gain(held_out - arm, level)
    chosen, gain = priors[choose(scores)], _gain(held_out - now, level)
    return Tuning(
        queries=len(cases),
        current=current,
        chosen=chosen,
        current_score=float(now.mean()),
        held_out=float(held_out.mean()),
        gain=gain,
        arm=name,
        arm_score=float(arm.mean()),
        over_arm=over_arm,
        instead=instead,
        curve=_curve(priors, scores),
        refused=_reason(chosen == replace(current, origin="tuned"), gain, name, over_arm),
    )


def _curve(priors: Sequence[Prior], scores: Scores) -> tuple[tuple[float, float], ...]:
    """The mean score of convex fusion that leans, by the weight it starts from."""
    means = scores.mean(axis=0)
    plain = [
        (prior.keyword, float(mean))
        for prior, mean in zip(priors, means, strict=True)
        if prior.method == "convex" and prior.leans and not prior.words_share
    ]
    return tuple(sorted(plain))


def _distance(prior: Prior, current: Prior) -> float:
    """How much of another setting it is: its method above all, then its weight."""
    far = 10.0 * (prior.method != current.method) + (prior.k != current.k) + abs(prior.keyword - current.keyword)
    return far + 0.1 * (prior.leans != current.leans) + 0.1 * (prior.words_share != current.words_share)


def _choose(far: Scores, scores: Scores) -> int:
    """The setting nearest to the current one among those that are as good as the best but for noise."""
    means = scores.mean(axis=0)
    short = scores[:, [int(means.argmax())]] - scores
    noise = short.std(axis=0, ddof=1) / math.sqrt(len(scores))
    level = short.mean(axis=0) <= WITHIN * noise + 1e-12
    return int(np.lexsort((-means, np.where(level, far, np.inf)))[0])


def _choose_arm(scores: Scores) -> int:
    return int(scores[:, :2].mean(axis=0).argmax())


def _groups(cases: Sequence[_Case]) -> list[int]:
    """A number for each query; those of the same words have the same, whatever their scope."""
    words = [" ".join(case.query.casefold().split()) for case in cases]
    number = {text: place for place, text in enumerate(dict.fromkeys(words))}
    return [number[text] for text in words]


def _held_out(scores: Scores, choose: Callable[[Scores], int], groups: list[int], seed: int) -> Scores:
    """For each query the mean score of the settings that are chosen on the folds without it, one for each shuffle."""
    rng = np.random.default_rng(seed)
    total = np.zeros(len(scores))
    for _ in range(SHUFFLES):
        fold = rng.permutation(max(groups) + 1)[groups] % FOLDS
        for one in range(FOLDS):
            out = fold == one
            total[out] += scores[out, choose(scores[~out])]
    return total / SHUFFLES


def _gain(differences: Scores, level: float) -> Gain:
    differences = np.round(differences, 12)  # a mean of equal scores may be off by the last bit
    low, high = significance.interval(differences, level=level)
    return Gain(float(differences.mean()), low, high, level, significance.sign_flip(differences))


def _reason(same: bool, gain: Gain, arm: str, over_arm: Gain) -> str:
    """Why the choice may not be applied; empty where it may."""
    if same:
        return "no setting is better than the current one beyond noise"
    if gain.low <= 0.0:
        return (
            f"the choice is not shown better than the current setting: {gain.mean:+.4f} on held-out queries, and the "
            f"{100 * gain.level:g} % interval from {gain.low:+.4f} to {gain.high:+.4f} does not lie above 0"
        )
    if over_arm.mean < -COST:
        return f"the choice is worse than {arm} recall alone: {over_arm.mean:+.4f} on held-out queries"
    return ""
