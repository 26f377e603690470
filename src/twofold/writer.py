"""The write path: rows, keyword index and vectors of an episode in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold import mentions
from twofold import messages as incoming
from twofold.embed import Embedder, ModelInfo
from twofold.errors import EmbedderError
from twofold.keyword import KeywordIndex
from twofold.store import Store, rows, vectors
from twofold.types import Message, Scope
from twofold.vectors import VectorIndex

BATCH = 512  # episodes that an import, or the making of missing vectors, commits at once

Pieces = NDArray[np.float32]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """New messages and, aligned with them, their vectors; `taken` counts those that were there already as well."""

    messages: list[Message]
    pieces: list[Pieces | None]
    taken: int


class Writer:
    """Everything that changes episodes. Texts are embedded before the write lock is taken, never under it."""

    def __init__(
        self, store: Store, keyword: KeywordIndex, vectors: VectorIndex | None, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._vectors = vectors
        self._embedder = embedder

    def prepare(self, messages: Sequence[Message]) -> Prepared:
        """What is new of checked messages, with its vectors; nothing is written yet."""
        with self._store.read() as db:
            known = rows.known_sources(db, messages)
        new = [message for message, there in zip(messages, known, strict=True) if not there]
        return Prepared(new, self._embed([message.content for message in new]), len(messages))

    def store(self, prepared: Prepared) -> list[int]:
        """Store it in one transaction; the ids of those messages that another writer has not brought meanwhile."""
        with self._store.write() as db:
            ids = _insert(db, prepared.messages)
            stored = [id_ for id_ in ids if id_ is not None]
            self._keyword.put(stored)
            self._put_vectors(ids, prepared.pieces)
            mentions.link(db, stored)
        return stored

    def stream(self, batches: Iterable[list[Message]]) -> Iterator[tuple[int, int]]:
        """Store batches of checked messages, one written while the next is embedded.

        Yields, for each batch that is on disk, how many of its messages were stored and how many it had.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="twofold-write") as beside:
            writing: tuple[Future[list[int]], int] | None = None
            for batch in batches:
                prepared = self.prepare(batch)
                if writing:
                    yield len(writing[0].result()), writing[1]
                writing = beside.submit(self.store, prepared), prepared.taken
            if writing:
                yield len(writing[0].result()), writing[1]

    def edit(self, episode: int, content: str) -> None:
        """Give an episode other words; the old ones and their vectors go in the same transaction."""
        pieces = self._embed([content])
        with self._store.write() as db:
            if not rows.update_content(db, episode, content):
                return  # forgotten while its text was embedded
            vectors.remove(db, [episode])
            self._keyword.put([episode])
            self._put_vectors([episode], pieces)
            mentions.link(db, [episode])

    def forget_episode(self, episode: int) -> None:
        """Delete one episode."""
        with self._store.write() as db:
            self._keyword.remove([episode])
            vectors.remove(db, [episode])
            rows.delete_episode(db, episode)

    def forget_scope(self, scope: Scope) -> int:
        """Delete the one session or project of a scope; returns how many episodes went with it."""
        with self._store.write() as db:
            ids = rows.episodes_in_scope(db, scope)
            self._keyword.remove(ids)
            vectors.remove(db, ids)
            delete = rows.delete_project if scope.kind == "project" else rows.delete_session
            delete(db, scope.ids[0])
            return len(ids)

    def purge(self) -> None:
        """Leave no trace of deleted text in the file."""
        self._keyword.purge()
        self._store.compact()

    def embed_missing(self, progress: Progress | None) -> int:
        """Make the vectors that are missing of the embedder's model, then search by that model."""
        if self._vectors is None or self._embedder is None:
            raise EmbedderError("this memory was opened without an embedder; open it with one")
        done = last = 0
        while ids := self._vectors.missing(last, BATCH):
            last = ids[-1]
            with self._store.read() as db:
                contents = dict(rows.contents(db, ids))
            pieces = _usable(self._embedder.embed_documents([contents[id_] for id_ in ids]), self._embedder.info)
            with self._store.write() as db:
                now = dict(rows.contents(db, ids))  # an episode may have been edited or forgotten meanwhile
                made = [(i, p) for i, p in zip(ids, pieces, strict=True) if p is not None and now.get(i) == contents[i]]
                self._vectors.put(made)
            done += len(made)
            if progress:
                progress(done)
        self._vectors.switch()
        return done

    def _embed(self, texts: list[str]) -> list[Pieces | None]:
        """The vectors of texts; None for each that got none, which `embed_missing` makes up for."""
        if not texts or self._embedder is None or self._vectors is None or not self._vectors.is_current():
            return [None] * len(texts)
        try:
            return _usable(self._embedder.embed_documents(texts), self._embedder.info)
        except EmbedderError:
            return [None] * len(texts)

    def _put_vectors(self, ids: Sequence[int | None], pieces: Sequence[Pieces | None]) -> None:
        made = [(i, p) for i, p in zip(ids, pieces, strict=True) if i is not None and p is not None]
        if self._vectors is not None and made and self._vectors.is_current():
            self._vectors.put(made)


def _insert(db: apsw.Connection, messages: Sequence[Message]) -> list[int | None]:
    """Make the rows of messages with their sessions and projects; None for a message that is there already."""

    def last_time(message: Message) -> datetime | None:
        return rows.last_time(db, message.session, message.project)

    ids = []
    times = incoming.times(messages, last_time, datetime.now(timezone.utc))
    for message, time in zip(messages, times, strict=True):
        project = rows.make_project(db, message.project) if message.project else None
        session = rows.make_session(db, message.session, project, message.title)
        ids.append(rows.insert_episode(db, session, message, time))
    return ids


def _usable(vectors: Sequence[Pieces], model: ModelInfo) -> list[Pieces | None]:
    """Vectors that have a direction; a broken embedder's zeros and NaN are as good as none."""
    usable: list[Pieces | None] = []
    for pieces in vectors:
        if pieces.ndim != 2 or pieces.shape[1] != model.dimension:
            raise EmbedderError(
                f"{model.name} gave vectors of shape {pieces.shape}, not of {model.dimension} dimensions; "
                "none was stored, check which model answers"
            )
        kept = pieces[np.isfinite(pieces).all(axis=1) & pieces.any(axis=1)]
        usable.append(kept if len(kept) else None)
    return usable
