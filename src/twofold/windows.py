"""All that both retrievers brought for a query, with what another fusion of it needs: for a person who tries out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from twofold import diagnose, quoting, retrieve
from twofold.marks import marks
from twofold.recaller import Asked, Question, Recaller
from twofold.retrieve import Found, Plan
from twofold.scopes import Reach
from twofold.store import Store, rows
from twofold.text import query_terms
from twofold.types import Episode, Explanation

METHODS = ("rrf", "rsf", "dbsf", "convex")
SHOWN = 120  # tokens of a candidate's text, around the matching words

Ranking = tuple[tuple[int, float], ...]
Rankings = Mapping[str, Ranking]


@dataclass(frozen=True, slots=True)
class Fusion:
    """What one method fuses by: weights and, where it has them, k, floors and scores completed on both sides."""

    weights: Mapping[str, float]
    k: float | None = None
    floors: Mapping[str, float] | None = None
    completed: Rankings | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """An episode that a retriever brought: the part of its text around the matching words, these as UTF-16 offsets."""

    episode: Episode
    text: str
    cut: bool
    marks: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Windows:
    """Both windows of a query, whatever the weights are, and the fusion of now.

    `auto` are the methods as automatic weights would have them, `fixed` is convex fusion with weights that are set,
    `method` is the one that is meant by "auto". `fused` are the hits of the present settings, best first.
    """

    explanation: Explanation
    rankings: Rankings
    auto: Mapping[str, Fusion]
    fixed: Fusion
    method: str
    fused: Ranking
    candidates: Sequence[Candidate]
    degraded: Mapping[str, str]


class Lookout:
    """Answers a query with its windows, within the reach of the door it belongs to."""

    def __init__(self, store: Store, recaller: Recaller, retriever: retrieve.Retriever, reach: Reach) -> None:
        self._store = store
        self._recaller = recaller
        self._retriever = retriever
        self._reach = reach

    def windows(
        self,
        query: str,
        *,
        session: str | None = None,
        project: str | None = None,
        sessions: Sequence[int] | None = None,
        limit: int | None = None,
        zone: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Windows:
        """The windows of a query; the arguments are those of `Memory.recall`. Raises InvalidInput and NotFound."""
        question = Question(query, session, project, sessions, (), limit, zone, since, before)
        with self._store.read() as db:
            asked = self._recaller.asked(question, question.scope(db, self._reach))
            plans = {method: self._recaller.automatic(asked, method, zone) for method in (*METHODS, "auto")}
            found = self._found(asked, plans["convex"])
            plain = self._retriever.completed(found, found.vector, in_context=False)
            ids = sorted({id_ for ranking in found.completed.values() for id_, _ in ranking})
            episodes = rows.episodes(db, ids)
        fused = retrieve.fuse(_as_planned(found, asked.plan, plain), asked.plan, asked.limit)
        terms = query_terms(query)
        return Windows(
            explanation=diagnose.explain(query, asked.plan, found, asked.window),
            rankings=_frozen({"keyword": found.keyword.ranking, "semantic": found.semantic.ranking}),
            auto={method: _fusion(found, plans[method]) for method in METHODS},
            fixed=Fusion({}, None, _floors(found, plain), _frozen(plain)),
            method=plans["auto"].method,
            fused=tuple((hit.id, hit.score) for hit in fused),
            candidates=[_candidate(episodes[id_], terms) for id_ in ids if id_ in episodes],
            degraded=found.failed,
        )

    def _found(self, asked: Asked, plan: Plan) -> Found:
        """What both retrievers find, completed as convex fusion wants it, with the weights of now told."""
        both = plan if min(plan.weights.values()) > 0.0 else replace(plan, weights={"keyword": 0.5, "semantic": 0.5})
        found = self._retriever.recall(
            asked.text, both, asked.scope, exclude=asked.exclude, window=asked.window, limit=0
        )
        found.weights = retrieve.weigh(found, asked.plan)
        return found


def _as_planned(found: Found, plan: Plan, plain: Mapping[str, list[tuple[int, float]]]) -> Found:
    """What was found, completed as the plan would have it: weights that are set know of no context."""
    return found if plan.prior else replace(found, completed=dict(plain))


def _fusion(found: Found, plan: Plan) -> Fusion:
    weights = dict(retrieve.weigh(found, plan))
    if plan.method != "convex":
        return Fusion({name: weights[name] for name in ("keyword", "semantic")}, plan.k)
    completed = {name: ranking for name, ranking in found.completed.items() if name in weights}
    return Fusion({name: weights[name] for name in completed}, None, _floors(found, completed), _frozen(completed))


def _floors(found: Found, rankings: Mapping[str, object]) -> dict[str, float]:
    return {name: retrieve.floors(found)[name] for name in rankings}


def _frozen(rankings: Mapping[str, Sequence[tuple[int, float]]]) -> Rankings:
    return {name: tuple(ranking) for name, ranking in rankings.items()}


def _candidate(episode: Episode, terms: Sequence[str]) -> Candidate:
    text = quoting.excerpt(episode.content, terms, SHOWN)
    return Candidate(episode, text, text != episode.content, marks(text, terms))
