"""Why an episode was recalled, or why not: the stages of a recall, read backwards."""

from __future__ import annotations

from collections.abc import Collection

from twofold import retrieve
from twofold.keyword import KeywordHits
from twofold.retrieve import Found, Plan, Retriever
from twofold.types import Explanation, Scope, WhyNot

DEEP = 5_000  # candidates of each retriever, to see how far outside the window an episode stands


def explain(text: str, plan: Plan, found: Found, window: int) -> Explanation:
    """What a recall did, for a person."""
    floors = {name: floor for name, floor in retrieve.floors(found).items() if name in found.weights}
    return Explanation(
        query=text,
        kind=plan.query.kind,
        terms=found.keyword.used,
        left_out=found.keyword.left_out,
        method=plan.method,
        k=plan.k,
        prior=plan.prior,
        times=tuple((span.start, span.end) for span in plan.spans),
        weights=dict(found.weights),
        floors=floors if plan.method == "convex" else {},
        windows={
            "asked": window,
            "keyword": len(found.keyword.ranking),
            "semantic": len(found.semantic.ranking),
        },
        milliseconds=dict(found.milliseconds),
    )


def why_not(
    retriever: Retriever,
    text: str,
    plan: Plan,
    scope: Scope,
    episode: int,
    *,
    exclude: Collection[int],
    window: int,
    limit: int,
) -> WhyNot:
    """At which stage an episode of this scope is lost, and what would have kept it."""
    if episode in exclude:
        return WhyNot("excluded", "it was among the excluded episodes; recall without excluding it")
    found = retriever.recall(text, plan, scope, exclude=exclude, window=window, limit=None)
    fused = [hit.id for hit in found.fused]
    if episode in fused:
        return _by_place(found, fused.index(episode), limit)
    deep = retriever.recall(text, plan, scope, exclude=exclude, window=DEEP, limit=0)
    ranks = {"keyword": _rank(deep.keyword.ranking, episode), "semantic": _rank(deep.semantic.ranking, episode)}
    return _outside(ranks, deep.keyword, window)


def _by_place(found: Found, place: int, limit: int) -> WhyNot:
    """An episode that was fused: recalled, or below the cut."""
    ranks = {given.ranking: given.rank for given in found.fused[place].contributions}
    ranked = (ranks.get("keyword"), ranks.get("semantic"))
    if place < limit:
        return WhyNot("recalled", f"it is recalled, at place {place + 1}", *ranked)
    if limit == 0:
        return WhyNot("cut", f"a limit of 0 recalls nothing; it stands at place {place + 1}", *ranked)
    short = found.fused[limit - 1].score - found.fused[place].score
    return WhyNot(
        "cut",
        f"it stands at place {place + 1}, {short:.4f} below the last of {limit}; ask with a limit of {place + 1}",
        *ranked,
        short_by=short,
    )


def _outside(ranks: dict[str, int | None], keyword: KeywordHits, window: int) -> WhyNot:
    """An episode that neither retriever brought: none of the terms, too far down, or both."""
    words = "has no word of the query" if ranks["keyword"] is None else f"has keyword rank {ranks['keyword']}"
    near = f"semantic rank {ranks['semantic']}" if ranks["semantic"] else f"no semantic rank within {DEEP:,}"
    reachable = [rank for rank in ranks.values() if rank is not None]
    way_out = f"a window of {min(reachable)} would reach it" if reachable else "no window would reach it"
    if ranks["keyword"] is None and not keyword.used:
        words = "the query has no word that is in the index"
    return WhyNot(
        "terms" if ranks["keyword"] is None else "window",
        f"it {words} and {near}, outside the window of {window}; {way_out}",
        ranks["keyword"],
        ranks["semantic"],
    )


def _rank(ranking: list[tuple[int, float]], episode: int) -> int | None:
    return next((rank for rank, (id_, _) in enumerate(ranking, start=1) if id_ == episode), None)
