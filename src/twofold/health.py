"""What a store holds, and whether its parts work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from twofold.embed import Embedder
from twofold.errors import TwofoldError
from twofold.keyword import KeywordIndex
from twofold.retrieve import Retriever
from twofold.store import Store, rows
from twofold.types import Part, Scope, Status
from twofold.vectors import VectorIndex

PROBE = "health"  # a word that is embedded, and looked up, to see whether that works


def status(store: Store, vectors: VectorIndex | None, embedder: Embedder | None) -> Status:
    """What the store holds, and how many episodes wait for a vector."""
    with store.read() as db:
        projects, sessions, episodes = rows.counts(db)
        made, waiting = vectors.counts() if vectors else (0, episodes)
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
        )


def parts(store: Store, keyword: KeywordIndex, vectors: VectorIndex | None, retriever: Retriever) -> dict[str, Part]:
    """Each part with its state, tried out: store, keywordIndex, vectors, embedder."""
    return {
        "store": _tried(lambda: _read(store), "down"),
        "keywordIndex": _tried(lambda: _look_up(keyword), "down"),
        "vectors": Part("off", "opened without an embedder") if vectors is None else _tried(lambda: _count(vectors)),
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


def _count(vectors: VectorIndex) -> Part:
    if not vectors.is_current():
        return Part("degraded", "the vectors are another model's; make new ones with: twofold embed")
    waiting = vectors.counts()[1]
    if waiting:
        return Part("degraded", f"{waiting:,} episodes wait for a vector; make them with: twofold embed")
    return Part("ok", "every episode has its vector")


def _embed(retriever: Retriever) -> Part:
    retriever.embed(PROBE)
    return Part("ok", "the model answers")
