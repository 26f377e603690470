"""What a store holds, and whether its parts work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from twofold import reembed
from twofold.embed import Embedder
from twofold.errors import TwofoldError
from twofold.indexing import Indexes
from twofold.keyword import KeywordIndex
from twofold.retrieve import Retriever
from twofold.store import Store, models, rows
from twofold.types import Lag, Part, Scope, Status
from twofold.vectors import VectorIndex

LATE = 60.0  # seconds that a point may wait to be told to an engine
PROBE = "health"  # a word that is embedded, and looked up, to see whether that works


def status(store: Store, indexes: Indexes, embedder: Embedder | None) -> Status:
    """What the store holds, how many episodes wait for a vector, and what indexes outside the file wait for."""
    vectors = indexes.vectors
    with store.read() as db:
        projects, sessions, episodes = rows.counts(db)
        made, waiting = vectors.counts() if vectors else (0, episodes)
        current = models.current(db)
        return Status(
            path=str(store.path),
            bytes=store.size(),
            schema=int(db.pragma("user_version")),
            projects=projects,
            sessions=sessions,
            episodes=episodes,
            vectors=made,
            waiting=waiting,
            model=embedder.info.name if embedder else None,
            current=current[0] if current else None,
            building=reembed.building(db),
            external_indexes=indexes.lags(db),
        )


def parts(store: Store, indexes: Indexes, retriever: Retriever) -> dict[str, Part]:
    """Each part with its state, tried out: store, keywordIndex, vectors, externalIndex, embedder."""
    return {
        "store": _tried(lambda: _read(store), "down"),
        "keywordIndex": _tried(lambda: _look_up(indexes.keyword), "down"),
        "vectors": _tried(lambda: _count(store, indexes.vectors)),
        "externalIndex": _tried(lambda: _ask(store, indexes)),
        "embedder": _tried(lambda: _embed(retriever)),
    }


def _tried(work: Callable[[], Part], worst: Literal["degraded", "down"] = "degraded") -> Part:
    try:
        return work()
    except TwofoldError as error:
        return Part(worst, str(error))


def _read(store: Store) -> Part:
    with store.read() as db:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return Part("ok", "the file can be read")


def _look_up(keyword: KeywordIndex) -> Part:
    keyword.search([PROBE], Scope("all"), (), 1)
    return Part("ok", "the index answers")


def _count(store: Store, vectors: VectorIndex | None) -> Part:
    if vectors is None:
        return Part("off", "opened without an embedder")
    with store.read() as db:
        current, build, waiting = models.current(db), reembed.building(db), vectors.counts()[1]
        is_current = vectors.is_current()
    beside = f"; of {build.model} {build.vectors:,} are made beside, {build.waiting:,} to go" if build else ""
    if current and not is_current:
        sentence = f"the vectors are of {current[0]}, another model; open the memory again, or make new ones with: "
        return Part("degraded", f"{sentence}twofold embed{beside}")
    of_whom = f" of {current[0]}" if current else ""
    if waiting:
        sentence = f"{waiting:,} episodes wait for a vector{of_whom}; make them with: "
        return Part("degraded", f"{sentence}twofold embed{beside}")
    return Part("ok", f"every episode has its vector{of_whom}{beside}")


def _ask(store: Store, indexes: Indexes) -> Part:
    """Whether the engine answers, and has been told what is not all new."""
    if not indexes.replicas:
        return Part("off", "every index is in the file")
    with store.read() as db:
        lags = indexes.lags(db)
        serving = [replica.serving(db) for replica in indexes.replicas]
    for one in serving:
        if one:
            one[1].ids(0, 1)
    told = "; ".join(map(_told, lags))
    late = any(lag.problem or lag.seconds > LATE for lag in lags)
    return Part("degraded" if late else "ok", told)


def _told(lag: Lag) -> str:
    name = f"{lag.kind} in {lag.engine}"
    if lag.problem:
        return f"{name}: {lag.problem}"
    built = "" if lag.serves else ", and until it is built the file answers alone"
    if not lag.waiting:
        return f"{name}: all is told{built}"
    return f"{name}: {lag.waiting:,} points wait to be told, the oldest for {lag.seconds:,.0f} s{built}"


def _embed(retriever: Retriever) -> Part:
    retriever.embed(PROBE)
    return Part("ok", "the model answers")
