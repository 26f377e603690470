"""The write path: rows, keyword index and vectors of an episode in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold import mentions, reembed
from twofold import messages as incoming
from twofold.embed import Embedder
from twofold.errors import EmbedderError
from twofold.keyword import KeywordIndex
from twofold.store import Store, outbox, rows, sources, vectors
from twofold.types import ImportReport, Message, Scope
from twofold.vectors import VectorIndex

BATCH = 512  # episodes that an import commits at once
LARGE_BATCH = 4096  # of an import that makes no vectors

Pieces = NDArray[np.float32]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Messages to be stored and, aligned with them, their vectors.

    `taken` counts those that were there already as well, `kept` those of them that were edited here.
    """

    messages: list[Message]
    pieces: list[Pieces | None]
    taken: int
    kept: int


@dataclass(frozen=True, slots=True)
class Written:
    """The ids of new episodes, and of those whose words were replaced by what their source says now."""

    new: list[int]
    changed: list[int]


class Writer:
    """Everything that changes episodes. Texts are embedded before the write lock is taken, never under it."""

    def __init__(
        self, store: Store, keyword: KeywordIndex, vectors: VectorIndex | None, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._vectors = vectors
        self._embedder = embedder

    def prepare(
        self, messages: Sequence[Message], *, embed: bool = True, nameless: sources.Nameless | None = None
    ) -> Prepared:
        """What of checked messages is new or says something new, with its vectors; nothing is written yet.

        With `nameless` one without a source that is stored already is not new.
        """
        with self._store.read() as db:
            sessions = sources.sessions_of(db, messages)
            known = sources.known(db, messages, sessions)
            wanted, kept = [], 0
            for message in messages:
                before = known.get(_key(message, sessions))
                kept += before is not None and before.is_edited and before.content != message.content
                if before is None:
                    session = sessions[message.project, message.session]
                    if message.source or not nameless or not nameless.is_known(db, session, message):
                        wanted.append(message)
                elif before.content != message.content and not before.is_edited:
                    wanted.append(message)
        return Prepared(wanted, self._vectors_of(wanted, embed), len(messages), kept)

    def store(self, prepared: Prepared, *, update: bool = False) -> Written:
        """Store it in one transaction, leaving out what another writer has brought meanwhile.

        A message whose source is there with other words replaces these with `update`, and is left out without.
        """
        with self._store.write() as db:
            new, changed = _sorted_out(db, prepared.messages, update)
            before = [id_ for _, id_ in changed]
            if before:
                self._keyword.remove(before)
                vectors.remove(db, before)
            for place, id_ in changed:
                sources.replace_episode(db, id_, prepared.messages[place])
            added = _insert(db, [prepared.messages[place] for place in new])
            ids = [*added, *before]
            self._keyword.put(ids)
            places = [*new, *(place for place, _ in changed)]
            self._put_vectors(ids, [prepared.pieces[place] for place in places])
            mentions.link(db, rows.shown(db, ids))
        return Written(added, before)

    def import_(
        self,
        messages: Iterable[Message],
        progress: Progress | None,
        *,
        embed: bool,
        embedding: Progress | None,
        dry_run: bool,
    ) -> ImportReport:
        """Store a stream of messages in batches.

        With `embedding` the vectors are made after the last, and it is told of how many; else those of a batch while
        the one before is written. A dry run stores nothing and counts what would be.
        """
        touched: set[tuple[str | None, str]] = set()
        at_once = embed and embedding is None
        batches = incoming.batches(messages, BATCH if at_once else LARGE_BATCH, touched)
        added = updated = kept = taken = 0
        nameless = sources.Nameless()
        work = self._survey(batches, nameless) if dry_run else self._stream(batches, at_once, nameless)
        for prepared, written in work:
            added, updated = added + len(written.new), updated + len(written.changed)
            kept, taken = kept + prepared.kept, taken + prepared.taken
            if progress:
                progress(taken)
        if embed and embedding and not dry_run and self._embedder and self._vectors and self._vectors.is_current():
            with suppress(EmbedderError):  # as at any write; `waiting` counts what has no vector
                reembed.make_missing(self._store, self._vectors, self._embedder, embedding)
        with self._store.read() as db:
            waiting = self._vectors.counts()[1] if self._vectors else rows.recalled(db)
        return ImportReport(added, updated, taken - added - updated - kept, kept, len(touched), waiting)

    def _stream(
        self, batches: Iterable[list[Message]], embed: bool, nameless: sources.Nameless
    ) -> Iterator[tuple[Prepared, Written]]:
        """Store batches of checked messages; yields each when it is on disk."""
        if not embed:  # two threads would only wait for each other
            for batch in batches:
                prepared = self.prepare(batch, embed=False, nameless=nameless)
                yield prepared, self.store(prepared, update=True)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="twofold-write") as beside:
            writing: tuple[Prepared, Future[Written]] | None = None
            for batch in batches:
                prepared = self.prepare(batch, nameless=nameless)
                if writing:
                    yield writing[0], writing[1].result()
                writing = prepared, beside.submit(self.store, prepared, update=True)
            if writing:
                yield writing[0], writing[1].result()

    def _survey(
        self, batches: Iterable[list[Message]], nameless: sources.Nameless
    ) -> Iterator[tuple[Prepared, Written]]:
        """What storing batches would do, as far as the file tells before it: the place of each stands for its id."""
        for batch in batches:
            prepared = self.prepare(batch, embed=False, nameless=nameless)
            with self._store.read() as db:
                new, changed = _sorted_out(db, prepared.messages, True)
            yield prepared, Written(new, [place for place, _ in changed])

    def edit(self, episode: int, content: str) -> None:
        """Give an episode other words; the old ones and their vectors go in the same transaction."""
        pieces = self._embed([content])
        with self._store.write() as db:
            if not rows.update_content(db, episode, content):
                return  # forgotten while its text was embedded
            sources.mark_edited(db, episode)
            vectors.remove(db, [episode])
            self._keyword.put([episode])
            if rows.shown(db, [episode]):
                self._put_vectors([episode], pieces)
                mentions.link(db, [episode])

    def move_session(self, session: int, project: int | None) -> None:
        """Put a session into another project, or into none, with all that stands by project."""
        with self._store.write() as db:
            ids = rows.episodes_in_scope(db, Scope("sessions", (session,)))
            kept = self._vectors.vectors(ids) if self._vectors and self._vectors.is_current() else {}
            self._keyword.remove(ids)
            vectors.remove(db, ids)
            rows.move_session(db, session, project)
            self._keyword.put(ids)
            if kept and self._vectors:
                self._vectors.put(list(kept.items()))
            for target in outbox.targets(db):
                if target.kind == "words":  # whose points name the project, and no word of them has changed
                    outbox.queue(db, target.id, ids)
            mentions.unlink(db, ids)
            mentions.link(db, rows.shown(db, ids))

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

    def _vectors_of(self, messages: Sequence[Message], embed: bool) -> list[Pieces | None]:
        """The vectors of messages: those that they bring, else made now where `embed` says so."""
        found = [self._brought(message) if message.made else None for message in messages]
        if not embed:
            return found
        lacking = [
            place for place, message in enumerate(messages) if found[place] is None and not incoming.is_hidden(message)
        ]
        for place, made in zip(lacking, self._embed([messages[place].content for place in lacking]), strict=True):
            found[place] = made
        return found

    def _brought(self, message: Message) -> Pieces | None:
        """The vectors that a message has from another store, where they are the same model's as here."""
        model = self._embedder.info if self._embedder else None
        if not message.made or model is None or message.made.model != model.key or incoming.is_hidden(message):
            return None
        pieces = vectors.matrix(message.made.rows, model.dimension)
        return reembed.usable([pieces], model)[0]

    def _embed(self, texts: list[str]) -> list[Pieces | None]:
        """The vectors of texts; None for each that got none, which `embed_missing` makes up for."""
        if not texts or self._embedder is None or self._vectors is None or not self._vectors.is_current():
            return [None] * len(texts)
        try:
            return reembed.usable(self._embedder.embed_documents(texts), self._embedder.info)
        except EmbedderError:
            return [None] * len(texts)

    def _put_vectors(self, ids: Sequence[int | None], pieces: Sequence[Pieces | None]) -> None:
        made = [(i, p) for i, p in zip(ids, pieces, strict=True) if i is not None and p is not None]
        if self._vectors is not None and made and self._vectors.is_current():
            self._vectors.put(made)


def _key(message: Message, sessions: Mapping[tuple[str | None, str], int | None]) -> tuple[int, str]:
    """By what a message is known in the file; by nothing that is there where it has no source or no session yet."""
    return sessions[message.project, message.session] or 0, message.source or ""


def _sorted_out(
    db: apsw.Connection, messages: Sequence[Message], update: bool
) -> tuple[list[int], list[tuple[int, int]]]:
    """The places of messages that are new, and of those that say something new, with the ids of their episodes."""
    sessions = sources.sessions_of(db, messages)
    known = sources.known(db, messages, sessions)
    new: list[int] = []
    changed: dict[int, int] = {}
    seen: set[tuple[str | None, str, str]] = set()
    for place, message in enumerate(messages):
        before = known.get(_key(message, sessions))
        if before is None:
            named = (message.project, message.session, message.source or "")
            if not message.source or named not in seen:
                new.append(place)
            seen.add(named)
        elif update and before.content != message.content and not before.is_edited:
            changed.setdefault(before.id, place)
    return new, [(place, id_) for id_, place in changed.items()]


def _insert(db: apsw.Connection, messages: Sequence[Message]) -> list[int]:
    """Make the rows of new messages with their sessions and projects."""

    def last_time(message: Message) -> datetime | None:
        return rows.last_time(db, message.session, message.project)

    times = incoming.times(messages, last_time, datetime.now(timezone.utc))
    sessions: dict[tuple[str | None, str, str | None], int] = {}
    placed = []
    for message, time in zip(messages, times, strict=True):
        key = (message.project, message.session, message.title)
        if key not in sessions:
            project = rows.make_project(db, message.project) if message.project else None
            sessions[key] = rows.make_session(db, message.session, project, message.title)
        placed.append((sessions[key], message, time))
    return rows.insert_episodes(db, placed)
