"""The recall pipeline: analyse the query, embed it once, ask both retrievers, complete the scores, fuse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twofold import fusion, when
from twofold.embed import Embedder, Fluent
from twofold.errors import EmbedderError, EngineError, ModelMismatch
from twofold.keyword import KeywordHits, KeywordIndex
from twofold.query import Query, characterize, select_k, select_weights
from twofold.settings import Value
from twofold.store import Store, rows
from twofold.text import query_terms
from twofold.types import Scope
from twofold.vectors import VectorHits, VectorIndex, VectorSearch
from twofold.when import Span

# The keyword side's share under automatic weights, measured in docs/quality.md. Where an episode is indexed with
# its neighbours (conversations) the keyword side knows what the vector of one turn does not.
DOCUMENT_PRIOR = 0.45
CONVERSATION_PRIOR = 0.75

# In a store of single texts the keyword side's share grows by so much from few words in the index to many, half of it
# below the prior and half above: three words say little, eight say a lot. And it moves by so much with how far the
# best hit stands above the eleventh: words that many rows hold alike choose none of them.
WORDS_SHARE = 0.3
FEW_WORDS, MANY_WORDS = 2, 8
STANDING_SHARE = 0.6
USUAL_STANDING = 0.5
LEAST_SHARE = 0.02  # of either side, so that its hits are still there

# Where nothing in scope is like the query the best cosine hardly stands above the mean, and what the semantic side
# ranks is noise: its weight falls with the square of that spread, and is the prior's at the usual one.
USUAL_SPREAD = 0.4
LEAST_SPREAD = 0.04  # so that its hits are still there, behind the others
# Of a language that the model does not know it sees letters, and what it ranks by is chance: so much of its weight is
# left at least.
LEAST_FLUENCY = 0.3
CONTEXT_WEIGHT = 0.35  # of a neighbour's vector beside the episode's own, as of its words in the keyword index
# In a store of single texts, of an episode's first piece beside its nearest: how a text begins says what it is about.
BEGINNING_WEIGHT = 0.6

# Of having been said when the query says, beside the two rankings; it falls by days outside that time. Of what is
# said of a day, much is said some days later.
TIME_WEIGHT = 0.3
TIME_DAYS = 7.0
LEAST_CLOSENESS = 0.01
DAY = 86_400_000_000  # microseconds
KEYWORD_FLOOR = 0.0  # BM25 of a row that holds none of the terms

THREADS = 8  # semantic searches that run at once

Vector = NDArray[np.float32]
Rankings = dict[str, list[tuple[int, float]]]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a query and the settings decide before anything is looked up.

    `leans` says that the weights are only where to start from: the prior of a store, which `leaning` turns to the
    side that knows more about the query at hand, also by how many words it has (`words_share`) and how far the best
    keyword hit stands out (`standing_share`). `prior` is the origin of that prior, empty where it was not asked.
    `spans` are the times that the query names, as far as they count.
    """

    query: Query
    method: str
    weights: Mapping[str, float]
    k: float | None
    leans: bool = False
    prior: str = ""
    words_share: float = 0.0
    standing_share: float = 0.0
    spans: tuple[Span, ...] = ()


@dataclass(slots=True)
class Found:
    """One recall on its way: what each stage gave, and how long it took."""

    keyword: KeywordHits = field(default_factory=lambda: KeywordHits([]))
    semantic: VectorHits = field(default_factory=lambda: VectorHits([]))
    vector: Vector | None = None
    fluency: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    completed: Rankings = field(default_factory=dict)
    fused: list[fusion.Fused] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.milliseconds[stage] = round((time.perf_counter() - start) * 1000.0, 3)

    def attempt(self, retriever: str, work: Callable[[], Result]) -> Result | None:
        """What a part of a retriever gives; None, and a note why, where it fails in a way that others can make up."""
        try:
            return work()
        except (EmbedderError, EngineError, ModelMismatch) as error:
            self.failed[retriever] = str(error)
            return None


@dataclass(frozen=True, slots=True)
class Prior:
    """What a store's automatic weights start from: measured before anyone asked, or tuned on its own questions."""

    keyword: float
    method: str = "convex"
    leans: bool = True
    k: float | None = None
    origin: str = "measured"
    words_share: float = 0.0
    standing_share: float = 0.0


def measured_prior(are_conversations: bool) -> Prior:
    """The prior of a store that nobody has tuned."""
    if are_conversations:
        return Prior(CONVERSATION_PRIOR)
    return Prior(DOCUMENT_PRIOR, words_share=WORDS_SHARE, standing_share=STANDING_SHARE)


def plan(text: str, settings: Mapping[str, Value], prior: Prior, now: datetime | None = None) -> Plan:
    """Method, weights and k for one query, as FUSION's last section has it.

    `now` is the time at which it is asked, in the asker's zone; without one no words for times are read.
    """
    query = characterize(text)
    fixed = settings["weights"] == "fixed"
    method = str(settings["method"])
    if method == "auto":
        method = "rrf" if fixed else prior.method
    if fixed:
        weights = {name: float(settings[f"{name}Weight"]) for name in ("keyword", "semantic")}
        total = sum(weights.values())
        if method != "rrf" and total > 0.0:
            weights = {name: weight / total for name, weight in weights.items()}
    elif (prior.origin == "measured" and method in ("rrf", "rsf")) or query.is_phrase or query.is_boolean:
        weights = select_weights(query)
    else:
        weights = {"keyword": prior.keyword, "semantic": 1.0 - prior.keyword}
        k = (prior.k or select_k(query)) if method == "rrf" else None
        convex = method == "convex"
        spans = when.spans(text, now) if convex and now else ()
        return Plan(
            query,
            method,
            weights,
            k,
            prior.leans and convex,
            prior.origin,
            prior.words_share,
            prior.standing_share,
            spans,
        )
    origin = "" if fixed else prior.origin
    if method != "rrf":
        return Plan(query, method, weights, None, prior=origin)
    return Plan(query, method, weights, fusion.RRF_K if fixed else select_k(query), prior=origin)


def leaning(plan: Plan, keyword: KeywordHits, semantic: VectorHits, fluency: float = 1.0) -> dict[str, float]:
    """The plan's weights, turned to the side that has found something; they add up to 1.

    A side without hits gives its weight to the other. A semantic side whose best hit hardly stands above the
    mean of its scope counts for little, and so does one whose model does not know the language (`fluency`, 0 to 1).
    Measured in docs/quality.md.
    """
    spread = USUAL_SPREAD if semantic.spread is None else semantic.spread
    many = min(1.0, max(0.0, (len(keyword.used) - FEW_WORDS) / (MANY_WORDS - FEW_WORDS)))
    standing = USUAL_STANDING if keyword.standing is None else keyword.standing
    share = plan.weights["keyword"]
    moved = plan.words_share * (many - 0.5) + plan.standing_share * (standing - USUAL_STANDING)
    if moved:
        share = min(1.0 - LEAST_SHARE, max(LEAST_SHARE, share + moved))
    known = max(spread, LEAST_SPREAD) ** 2 / USUAL_SPREAD**2 * max(fluency, LEAST_FLUENCY)
    by_word = share if keyword.ranking else 0.0
    by_meaning = (1.0 - share) * known if semantic.ranking else 0.0
    total = by_word + by_meaning
    if total == 0.0:
        return dict(plan.weights)
    return {"keyword": by_word / total, "semantic": by_meaning / total}


class Retriever:
    """Both retrievers behind one question. Runs in the snapshot that its caller has open."""

    def __init__(
        self, store: Store, keyword: KeywordIndex, vectors: VectorIndex | None, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._vectors = vectors
        self._embedder = embedder
        self._beside = ThreadPoolExecutor(THREADS, thread_name_prefix="twofold-semantic")

    def close(self) -> None:
        """Let go of the threads."""
        self._beside.shutdown()

    def embed(self, text: str) -> Vector:
        """The query's vector. Raises EmbedderError, also for a vector that is no direction."""
        if self._embedder is None:
            raise EmbedderError("this memory was opened without an embedder")
        vector = self._embedder.embed_query(text)
        if vector.shape != (self._embedder.info.dimension,) or not np.isfinite(vector).all() or not vector.any():
            raise EmbedderError(f"{self._embedder.info.name} gave no usable vector for the query")
        return vector

    def recall(
        self,
        text: str,
        plan: Plan,
        scope: Scope,
        *,
        vector: Vector | None = None,
        exclude: Collection[int] = (),
        window: int,
        limit: int | None,
    ) -> Found:
        """The fused ranking of one query; its vector is made unless it is given.

        Semantic search runs in a thread beside keyword search: the one computes, the other reads the file. Where
        the index cannot compute beside, the query is embedded there and searched for afterwards.
        """
        found = Found()
        semantic = search = beside = None
        if plan.weights["semantic"] > 0.0 and self._vectors is not None:
            vectors = self._vectors
            search = found.attempt("semantic", lambda: vectors.prepare(scope, exclude, window))
            beside = search if vectors.computes_beside else None
            semantic = search and self._beside.submit(self._by_meaning, found, text, vector, beside)
        elif plan.weights["semantic"] > 0.0:
            found.attempt("semantic", lambda: self.embed(text))
        terms = query_terms(text) if plan.weights["keyword"] > 0.0 else []
        with found.timed("keyword"):
            if terms:
                found.keyword = self._keyword.search(terms, scope, exclude, window)
        # What could not be searched is not scored either.
        vector = found.attempt("semantic", semantic.result) if semantic else None
        if vector is not None and search and beside is None:
            known, look = vector, search
            vector = found.attempt("semantic", lambda: _near(found, known, look))
        found.vector = vector
        if plan.method == "convex":
            with found.timed("complete"):
                found.completed = self.completed(found, vector, in_context=bool(plan.prior))
                if plan.spans:
                    found.completed |= self._in_time(found.completed, plan.spans)
        found.weights = weigh(found, plan)
        with found.timed("fuse"):
            found.fused = fuse(found, plan, limit)
        return found

    def _by_meaning(self, found: Found, text: str, vector: Vector | None, search: VectorSearch | None) -> Vector:
        """The query's vector, made if it is not there; what is near it is noted if there is a search."""
        with found.timed("embed"):
            vector = self.embed(text) if vector is None else vector
            if isinstance(self._embedder, Fluent):
                found.fluency = self._embedder.fluency(text)
        return _near(found, vector, search) if search else vector

    def _in_context(self, vector: Vector, found: Found, ids: Collection[int]) -> dict[int, float]:
        """The cosines of the query to candidates with their context: an episode's vector plus its neighbours'.

        Of an episode in pieces the nearest counts. An answer that says little by itself is near by its question.
        """
        neighbours = self._keyword.neighbours(ids)
        pieces = self._pieces(found, {*ids, *(near for beside in neighbours.values() for near in beside)})
        place = {id_: number for number, id_ in enumerate(pieces)}
        best = np.stack([_nearest(rows, vector) for rows in pieces.values()] + [np.zeros_like(vector)])
        known = sorted(id_ for id_ in ids if id_ in place)
        beside = [[place[near] for near in neighbours.get(id_, ()) if near in place] for id_ in known]
        widest = max(map(len, beside), default=0)
        padded = np.array([places + [-1] * (widest - len(places)) for places in beside], dtype=np.int64)
        context = best[padded.reshape(len(known), widest)].sum(axis=1)
        summed = best[[place[id_] for id_ in known]] + CONTEXT_WEIGHT * context
        cosines = np.einsum("ij,j->i", summed, vector) / np.maximum(np.linalg.norm(summed, axis=1), 1e-9)
        return dict(zip(known, cosines.tolist(), strict=True))

    def _with_beginning(self, vector: Vector, found: Found, ids: Collection[int]) -> dict[int, float]:
        """The cosines of the query to candidates, each the mean of its nearest piece's and its first one's."""
        pieces = self._pieces(found, ids)
        if not pieces:
            return {}
        rows_ = np.concatenate(list(pieces.values())).astype(np.float64)
        cosines = (rows_ * vector.astype(np.float64)).sum(axis=1)
        starts = np.cumsum([0, *map(len, pieces.values())])[:-1]
        best = np.maximum.reduceat(cosines, starts)
        mixed = (1.0 - BEGINNING_WEIGHT) * best + BEGINNING_WEIGHT * cosines[starts]
        return dict(zip(pieces, mixed.tolist(), strict=True))

    def _pieces(self, found: Found, ids: Collection[int]) -> dict[int, NDArray[np.float32]]:
        """The vectors of episodes, read as far as semantic search has not."""
        read = {id_: found.semantic.pieces[id_] for id_ in ids if id_ in found.semantic.pieces}
        assert self._vectors is not None
        return read | self._vectors.vectors([id_ for id_ in ids if id_ not in read])

    def _in_time(self, completed: Rankings, spans: Sequence[Span]) -> Rankings:
        """The candidates by how close they are to the times that the query names; nothing where none is in them."""
        ids = sorted({id_ for ranking in completed.values() for id_, _ in ranking})
        with self._store.read() as db:
            times = rows.times(db, ids)
        bounds = [(rows.microseconds(span.start), rows.microseconds(span.end)) for span in spans]
        close = [(id_, max(_closeness(times[id_], *bound) for bound in bounds)) for id_ in ids if id_ in times]
        if not any(closeness == 1.0 for _, closeness in close):
            return {}
        return {"time": [(id_, closeness) for id_, closeness in close if closeness >= LEAST_CLOSENESS]}

    def completed(self, found: Found, vector: Vector | None, *, in_context: bool) -> Rankings:
        """Every candidate of either retriever scored by both, its context included where that is wanted.

        An episode without a vector has no cosine, one that holds no term has no place among the keyword hits:
        its score would be the floor, its rank would say something that is not so.
        """
        keyword, semantic = dict(found.keyword.ranking), dict(found.semantic.ranking)
        only_semantic = [id_ for id_ in semantic if id_ not in keyword]
        only_keyword = [id_ for id_ in keyword if id_ not in semantic]
        if only_semantic:
            scores = zip(only_semantic, found.keyword.score(only_semantic), strict=True)
            keyword.update((id_, score) for id_, score in scores if score > KEYWORD_FLOOR)
        if vector is not None and self._vectors is not None:
            if in_context and self._keyword.are_conversations():
                semantic = self._in_context(vector, found, keyword.keys() | semantic.keys())
            elif in_context:
                semantic = self._with_beginning(vector, found, keyword.keys() | semantic.keys())
            elif only_keyword:
                semantic.update(self._vectors.score(vector, only_keyword))
        return {"keyword": list(keyword.items()), "semantic": list(semantic.items())}


def _near(found: Found, vector: Vector, search: VectorSearch) -> Vector:
    """Note what is near the query's vector; that vector."""
    with found.timed("semantic"):
        found.semantic = search(vector)
    return vector


def _nearest(pieces: NDArray[np.float32], vector: Vector) -> Vector:
    """The piece of an episode that is nearest to the query."""
    nearest: Vector = pieces[int(np.argmax(np.einsum("ij,j->i", pieces, vector)))] if len(pieces) > 1 else pieces[0]
    return nearest


def _closeness(time: int, start: int, end: int) -> float:
    """1 within a time, and less by days outside it."""
    if start <= time < end:
        return 1.0
    return math.exp(-min(abs(time - start), abs(time - end)) / (TIME_DAYS * DAY))


def floors(found: Found) -> dict[str, float]:
    """What is nothing, by ranking: no term, a cosine like that of any row in scope, no nearness in time."""
    return {"keyword": KEYWORD_FLOOR, "semantic": found.semantic.floor, "time": 0.0}


def weigh(found: Found, plan: Plan) -> Mapping[str, float]:
    """The weights of a plan for what was found."""
    weights = plan.weights
    if plan.leans:
        weights = leaning(plan, found.keyword, found.semantic, found.fluency)
    return {**weights, "time": TIME_WEIGHT} if plan.spans and "time" in found.completed else weights


def fuse(found: Found, plan: Plan, limit: int | None) -> list[fusion.Fused]:
    """The fused ranking that a plan makes of what was found, also of what a plan with other weights above 0 found."""
    weights, rankings = weigh(found, plan), {"keyword": found.keyword.ranking, "semantic": found.semantic.ranking}
    if plan.method == "convex":
        # A retriever whose weight is 0 was never asked, and completes nothing.
        asked = found.completed if min(plan.weights.values()) > 0.0 else rankings
        asked = {name: ranking for name, ranking in asked.items() if name in weights}
        return fusion.convex(asked, floors={name: floors(found)[name] for name in asked}, weights=weights, limit=limit)
    if plan.method == "rrf":
        return fusion.rrf(rankings, weights=weights, k=plan.k or 0.0, limit=limit)
    by_score: Callable[..., list[fusion.Fused]] = fusion.rsf if plan.method == "rsf" else fusion.dbsf
    return by_score(rankings, weights=weights, limit=limit)
