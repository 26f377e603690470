"""From a question to hits: scope and settings of the moment, the recall, the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold import diagnose, priors, retrieve
from twofold import messages as incoming
from twofold.errors import InvalidInput
from twofold.keyword import KeywordIndex
from twofold.rerank import TOP as RERANK_TOP
from twofold.rerank import Reranker, rerank
from twofold.retrieve import Found, Plan, Prior, Retriever
from twofold.scopes import Reach
from twofold.settings import Value
from twofold.store import Store, rows
from twofold.text import query_terms
from twofold.types import Contribution, Hit, Recall, Scope, WhyNot

MOST_LIMIT = 1000  # hits of one recall


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks: a text, where to look by names or ids of sessions, what to leave out, how many.

    `zone` is the IANA name of the asker's, UTC without one: what "yesterday" means. What was said from `since` on and
    before `before` is seen alone.
    """

    text: str
    session: str | None = None
    project: str | None = None
    sessions: Sequence[int] | None = None
    exclude: Collection[int] = ()
    limit: int | None = None
    zone: str | None = None
    since: datetime | None = None
    before: datetime | None = None

    def scope(self, db: apsw.Connection, reach: Reach) -> Scope:
        """Where and when it looks. Raises NotFound, and InvalidInput for times that are none or leave nothing."""
        scope = reach.resolve(db, self.session, self.project, self.sessions)
        if self.since is None and self.before is None:
            return scope
        for name, time in (("since", self.since), ("before", self.before)):
            if time is not None and (not isinstance(time, datetime) or time.tzinfo is None):
                raise InvalidInput(f"{name} is {str(time)[:40]!r}, which has no zone; give an aware datetime")
        if self.since and self.before and self.since >= self.before:
            raise InvalidInput(f"since is {self.since}, which is not before {self.before}; give an earlier one")
        first = rows.microseconds(self.since) if self.since else -(2**62)
        return replace(scope, times=(first, rows.microseconds(self.before) if self.before else 2**62))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was checked and read with the settings of now."""

    text: str
    plan: Plan
    scope: Scope
    exclude: tuple[int, ...]
    limit: int
    window: int


class Recaller:
    """Asks the retriever within one snapshot of the file. `settings` and `clock` give what they are now."""

    def __init__(
        self,
        store: Store,
        keyword: KeywordIndex,
        retriever: Retriever,
        reranker: Reranker | None,
        settings: Callable[[], Mapping[str, Value]],
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._retriever = retriever
        self._reranker = reranker
        self._settings = settings
        self._clock = clock

    def recall(self, question: Question, reach: Reach, *, explain: bool) -> Recall:
        """The hits of a question. Raises InvalidInput and NotFound."""
        with self._store.read() as db:
            scope = question.scope(db, reach)
            return self.answer(db, self.asked(question, scope), explain=explain)

    def within(
        self, db: apsw.Connection, question: Question, scope: Scope, vector: NDArray[np.float32] | None
    ) -> Recall:
        """The hits of a question whose scope and vector are known, explained; by words alone without a vector."""
        asked = self.asked(question, scope)
        if vector is None:
            asked = replace(asked, plan=replace(asked.plan, weights={**asked.plan.weights, "semantic": 0.0}))
        return self.answer(db, asked, vector=vector, explain=True)

    def answer(
        self, db: apsw.Connection, asked: Asked, *, vector: NDArray[np.float32] | None = None, explain: bool
    ) -> Recall:
        """The hits of a question in the snapshot of `db`."""
        top = RERANK_TOP if self._reranker and asked.limit else 0
        found = self._retriever.recall(
            asked.text,
            asked.plan,
            asked.scope,
            vector=vector,
            exclude=asked.exclude,
            window=max(asked.window, top),
            limit=max(asked.limit, top),
        )
        episodes = rows.episodes(db, [hit.id for hit in found.fused])
        hits = tuple(
            Hit(episodes[fused.id], fused.score, fused.contributions) for fused in found.fused if fused.id in episodes
        )
        if self._reranker:
            hits = _reranked(asked.text, hits, self._reranker, found)[: asked.limit]
        why = diagnose.explain(asked.text, asked.plan, found, asked.window) if explain else None
        return Recall(asked.text, hits, found.failed, why)

    def why_not(self, question: Question, reach: Reach, episode: int) -> WhyNot:
        """At which stage a question loses an episode. Raises InvalidInput and NotFound."""
        incoming.ids("episode", [episode])
        with self._store.read() as db:
            scope = question.scope(db, reach)
            asked = self.asked(question, scope)
            if not rows.sees(db, scope, episode):
                return WhyNot("scope", f"there is no episode {episode} in this scope; recall and show print the ids")
            return diagnose.why_not(
                self._retriever,
                asked.text,
                asked.plan,
                asked.scope,
                episode,
                exclude=asked.exclude,
                window=asked.window,
                limit=asked.limit,
            )

    def search(self, question: Question, reach: Reach) -> tuple[Hit, ...]:
        """The episodes that hold the words, best first; each score is BM25. Raises InvalidInput and NotFound."""
        incoming.content("the query", question.text)
        with self._store.read() as db:
            scope = question.scope(db, reach)
            limit = self._limit(question.limit)
            excluded = incoming.ids("exclude", question.exclude)
            terms = query_terms(question.text)
            ranking = self._keyword.search(terms, scope, excluded, limit, own=True).ranking if terms else []
            episodes = rows.episodes(db, [id_ for id_, _ in ranking])
        return tuple(
            Hit(episodes[id_], score, (Contribution("keyword", rank, score, score, 1.0, score),))
            for rank, (id_, score) in enumerate(ranking, start=1)
            if id_ in episodes
        )

    def prior(self) -> Prior:
        """What automatic weights start from: tuned if it was, else measured for this kind of store."""
        with self._store.read() as db:
            return priors.read(db) or retrieve.measured_prior(self._keyword.are_conversations())

    def automatic(self, asked: Asked, method: str, zone: str | None) -> Plan:
        """The plan that automatic weights and a method, or "auto", would make of a question."""
        settings = {**self._settings(), "weights": "auto", "method": method}
        return retrieve.plan(asked.text, settings, self.prior(), self._clock().astimezone(incoming.zone(zone)))

    def asked(self, question: Question, scope: Scope) -> Asked:
        """The question with the settings of now. Raises InvalidInput."""
        incoming.content("the query", question.text)
        settings = self._settings()
        limit = self._limit(question.limit)
        # Fixed weights ask no prior: a keyword weight of 0 shall not touch the keyword index at all.
        prior = Prior(0.5) if settings["weights"] == "fixed" else self.prior()
        return Asked(
            question.text,
            retrieve.plan(question.text, settings, prior, self._clock().astimezone(incoming.zone(question.zone))),
            scope,
            incoming.ids("exclude", question.exclude),
            limit,
            max(int(settings["window"]), limit),
        )

    def _limit(self, limit: int | None) -> int:
        if limit is None:
            return int(self._settings()["semanticLimit"])
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_LIMIT:
            raise InvalidInput(f"limit is {limit!r}; give a whole number from 0 to {MOST_LIMIT}")
        return limit


def _reranked(query: str, hits: tuple[Hit, ...], reranker: Reranker, found: Found) -> tuple[Hit, ...]:
    by_place = [(place, hit.score, hit.episode.content) for place, hit in enumerate(hits)]
    with found.timed("rerank"):
        result = rerank(query, by_place, reranker)
    if result.failed:
        found.failed["reranker"] = result.failed
    return tuple(hits[place] for place in result.order)
