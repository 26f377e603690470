"""What a store holds, and whether its parts work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from twofold import reembed
from twofold.embed import Embedder
from twofold.errors import TwofoldError
from twofold.keyword import KeywordIndex
from twofold.retrieve import Retriever
from twofold.store import Store, models, rows
from twofold.types import Part, Scope, Status
from twofold.vectors import VectorIndex

PROBE = "health"  # a word that is embedded, and looked up, to see whether that works


def status(store: Store, vectors: VectorIndex | None, embedder: Embedder | None) -> Status:
    """What the store holds, and how many episodes wait for a vector."""
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
        )


def parts(store: Store, keyword: KeywordIndex, vectors: VectorIndex | None, retriever: Retriever) -> dict[str, Part]:
    """Each part with its state, tried out: store, keywordIndex, vectors, embedder."""
    return {
        "store": _tried(lambda: _read(store), "down"),
        "keywordIndex": _tried(lambda: _look_up(keyword), "down"),
        "vectors": _tried(lambda: _count(store, vectors)),
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


def _embed(retriever: Retriever) -> Part:
    retriever.embed(PROBE)
    return Part("ok", "the model answers")
