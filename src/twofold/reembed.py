"""Vectors made late: those that are missing, all of them by another model beside those in use, and old ones removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold.embed import Embedder, ModelInfo
from twofold.embed import models as by_name
from twofold.errors import Conflict, EmbedderError
from twofold.settings import Value
from twofold.store import Store, entities, models, outbox, rows, vectors
from twofold.types import Build
from twofold.vectors import VectorIndex

BATCH = 128  # episodes that are committed at once: what a killed process has to make again
DROP_BATCH = 1024  # episodes whose old vectors are removed at once, so that nobody waits long for the file

# A name among the stored settings that is nobody's to set by hand: the model whose vectors are being made.
BUILDING = "building"

Pieces = NDArray[np.float32]
Progress = Callable[[int], None]


def opened(store: Store, asked: Embedder | str | None, base: Mapping[str, Value]) -> Embedder | None:
    """The embedder of a name, or as it was given; "default" is the store's own. `base` are the settings of the start.

    Raises InvalidInput; EmbedderError and MissingExtra for a model that was asked for by name.
    """
    if not isinstance(asked, str):
        return asked
    with store.read() as db:
        settings = {**base, **rows.read_settings(db)}
        current, known = models.current(db), models.every(db)
    return by_name.of_store(settings, current) if asked == "default" else by_name.named(asked, settings, known)


def complete(
    store: Store,
    index: VectorIndex | None,
    embedder: Embedder | None,
    embed_entities: Callable[[], object],
    progress: Progress | None,
) -> int:
    """Make all vectors that a model lacks, then search by it; returns how many episodes got theirs.

    `embed_entities` makes those of entities. What others write meanwhile is made up for, and the switch is one
    transaction that finds nothing missing. Raises EmbedderError; what was made stays for the next run.
    """
    if index is None or embedder is None:
        raise EmbedderError("this memory was opened without an embedder; open it with one")
    model = embedder.info.key
    if not embedder.info.dimension:
        embedder.embed_documents([])  # which says why it cannot
    _begin(store, model)
    done = 0
    while True:
        with store.read() as db:
            entities_before = entities.changed(db)
        made, hopeless = make_missing(store, index, embedder, progress and _beyond(progress, done))
        done += made
        embed_entities()
        with store.write() as db:  # in which nobody else writes
            left = index.missing(0, len(hopeless) + 1)
            contents = dict(rows.contents(db, left))
            tried = all(hopeless.get(id_) == contents[id_] for id_ in left)
            if tried and entities.changed(db) == entities_before:
                _switch(db, index, embedder.info, len(left))
                return done


def make_missing(
    store: Store, index: VectorIndex, embedder: Embedder, progress: Progress | None
) -> tuple[int, dict[int, str]]:
    """Make the vectors of episodes that a model lacks, in one walk through them.

    Returns how many got theirs, and the texts of which the model makes no direction. Raises EmbedderError.
    """
    done = last = 0
    hopeless: dict[int, str] = {}
    while True:
        with store.read() as db:
            ids = index.missing(last, BATCH)
            contents = dict(rows.contents(db, ids))
        if not ids:
            return done, hopeless
        last = ids[-1]
        pieces = usable(embedder.embed_documents([contents[id_] for id_ in ids]), embedder.info)
        with store.write() as db:
            now = dict(rows.contents(db, ids))  # an episode may have been edited or forgotten meanwhile
            same = [(i, p) for i, p in zip(ids, pieces, strict=True) if now.get(i) == contents[i]]
            usable_ones = [(i, p) for i, p in same if p is not None]
            if usable_ones:
                index.put(usable_ones)
        hopeless |= {i: contents[i] for i, p in same if p is None}
        done += len(usable_ones)
        if progress:
            progress(done)


def building(db: apsw.Connection) -> Build | None:
    """The vectors that are being made beside those in use; None where there are none."""
    stored = rows.read_settings(db).get(BUILDING)
    if not stored:
        return None
    made = vectors.embedded(db, models.find(db, tuple(stored)))
    return Build(stored[0], made, max(0, rows.recalled(db) - made))


def drop_old(store: Store, model: ModelInfo | None) -> int:
    """Remove the vectors of all models but the one that is searched by; returns how many.

    Raises Conflict where that is not `model`: then its own would be among them.
    """
    with store.write() as db:
        current = models.current(db)
        if model and current and current != model.key:
            raise Conflict(
                f"the vectors in use are {current[0]}'s, and those of {model.name} would be removed; open the memory "
                "by that model, or make all of this one first with: twofold embed"
            )
        old = models.others(db)
        rows.write_settings(db, {BUILDING: None})
        for target in outbox.targets(db):
            if target.model in old:
                outbox.drop(db, target.id)  # before its vectors go, so that nothing is queued for it
    return sum(_drop(store, number) for number in old)


def usable(made: Sequence[Pieces], model: ModelInfo) -> list[Pieces | None]:
    """Vectors that have a direction; a broken embedder's zeros and NaN are as good as none. Raises EmbedderError."""
    found: list[Pieces | None] = []
    for pieces in made:
        if pieces.ndim != 2 or pieces.shape[1] != model.dimension:
            raise EmbedderError(
                f"{model.name} gave vectors of shape {pieces.shape}, not of {model.dimension} dimensions; "
                "none was stored, check which model answers"
            )
        kept = pieces[np.isfinite(pieces).all(axis=1) & pieces.any(axis=1)]
        found.append(kept if len(kept) else None)
    return found


def _begin(store: Store, model: models.Model) -> None:
    """Write down which vectors are made, where those of another model are in use."""
    with store.write() as db:
        if models.current(db) not in (None, model):
            rows.write_settings(db, {BUILDING: list(model)})


def _switch(db: apsw.Connection, index: VectorIndex, model: ModelInfo, hopeless: int) -> None:
    """Search by this model from now on. Raises EmbedderError where it made nothing that could be searched."""
    current = models.current(db)
    if current == model.key:
        return
    if current and hopeless and not index.counts()[0]:
        raise EmbedderError(
            f"{model.name} gave no usable vector for any of {hopeless:,} episodes; those of {current[0]} stay in use"
        )
    index.switch()
    if rows.read_settings(db).get(BUILDING) == list(model.key):
        rows.write_settings(db, {BUILDING: None})


def _beyond(progress: Progress, before: int) -> Progress:
    return lambda done: progress(before + done)


def _drop(store: Store, number: int) -> int:
    """Remove the vectors of one model, and the model; returns how many."""
    dropped = last = 0
    while True:
        with store.write() as db:
            if number not in models.others(db):
                return dropped  # another process has dropped it, or searches by it
            found = models.episodes(db, number, last, DROP_BATCH)
            if not found:
                return dropped + models.forget(db, number)
            vectors.remove(db, list(found), number)
        last = max(found)
        dropped += sum(found.values())
