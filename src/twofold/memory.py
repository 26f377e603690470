"""Memory: the one door to everything that Twofold keeps and finds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Literal

import apsw

from twofold import diagnose, priors, retrieve, scopes
from twofold import messages as incoming
from twofold import settings as known_settings
from twofold.embed import Embedder
from twofold.embed.minilm import MiniLM
from twofold.errors import InvalidInput, NotFound
from twofold.keyword import KeywordIndex
from twofold.keyword.fts5 import Fts5Index
from twofold.rerank import TOP as RERANK_TOP
from twofold.rerank import Reranker, rerank
from twofold.settings import Value
from twofold.store import Store, rows
from twofold.types import (
    Episode,
    Hit,
    ImportReport,
    Message,
    Project,
    Recall,
    Role,
    Scope,
    Session,
    Status,
    WhyNot,
)
from twofold.vectors import VectorIndex
from twofold.vectors.exact import ExactIndex
from twofold.writer import BATCH, Progress, Writer

MOST_LIMIT = 1000  # hits of one recall


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a recall is asked for."""

    plan: retrieve.Plan
    scope: Scope
    exclude: tuple[int, ...]
    limit: int
    window: int


class Memory:
    """Conversations that were, found again by meaning and by word. Use as a context manager, from any thread.

    Session and project are names; a session's name counts within its project, and where a session is only looked
    for, its id will do (`"12"`). An empty name means none.
    """

    def __init__(
        self,
        store: Store,
        keyword: KeywordIndex,
        vectors: VectorIndex | None,
        embedder: Embedder | None,
        base: Mapping[str, Value],
        reranker: Reranker | None = None,
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._vectors = vectors
        self._embedder = embedder
        self._base = base
        self._reranker = reranker
        self._retriever = retrieve.Retriever(keyword, vectors, embedder)
        self._writer = Writer(store, keyword, vectors, embedder)

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        embedder: Embedder | Literal["default"] | None = "default",
        reranker: Reranker | None = None,
    ) -> Memory:
        """Open a database file, made if it is not there; without a path the user's own.

        `embedder` makes the vectors: the bundled model unless another is given; None stores and finds by
        words alone. `reranker` puts the first hits of every recall in order again; by default there is none.
        Raises StoreError or InvalidInput (a bad setting in the environment or the TOML file).
        """
        base = known_settings.base()
        file = Path(path) if path is not None else known_settings.database()
        if path is None:
            file.parent.mkdir(parents=True, exist_ok=True)
        chosen = MiniLM(threads=int(base["embedThreads"])) if isinstance(embedder, str) else embedder
        store = Store(file)
        vectors = None if chosen is None else ExactIndex(store, chosen.info)
        return cls(store, Fts5Index(store), vectors, chosen, base, reranker)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._retriever.close()
        self._store.close()

    def add(
        self,
        content: str,
        *,
        role: Role = "user",
        session: str | None = None,
        project: str | None = None,
        time: datetime | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Episode:
        """Store one message; it is on disk and can be found when this returns.

        `time` is aware and defaults to now. Raises InvalidInput. An embedder that fails leaves the episode
        without a vector: found by words at once, by meaning after `embed_missing`.
        """
        message = incoming.check(
            Message(content, role, session or "default", project or None, time or _now(), metadata or {})
        )
        (id_,) = self._writer.store(self._writer.prepare([message]))
        return self.show(episode=id_)[0]

    def import_(self, messages: Iterable[Message], *, progress: Progress | None = None) -> ImportReport:
        """Store a stream of messages in batches; what a batch holds is durable and can be found at once.

        A message whose `source` its session already has is left as it is. `progress` is called with the
        number of messages taken so far. Raises InvalidInput at the first message that cannot be stored,
        naming its place; the batches before stay.
        """
        added = taken = 0
        touched: set[tuple[str | None, str]] = set()
        for stored, read in self._writer.stream(_batches(messages, touched)):
            added, taken = added + stored, taken + read
            if progress:
                progress(taken)
        return ImportReport(added, taken - added, len(touched), self.status().waiting)

    def edit(self, episode: int, content: str) -> Episode:
        """Give an episode other words; the old ones and their vector are gone in the same transaction."""
        incoming.content("the text", content)
        self.show(episode=episode)
        self._writer.edit(episode, content)
        return self.show(episode=episode)[0]

    def forget(
        self,
        *,
        episode: int | None = None,
        session: str | None = None,
        project: str | None = None,
        purge: bool = False,
    ) -> int:
        """Delete an episode, a session or a project with all that hangs on it; returns how many episodes.

        `purge` also rewrites the file, so that no trace of any deleted text stays in its free pages. Raises
        NotFound, or InvalidInput when nothing is named.
        """
        with self._store.write() as db:
            if episode is not None:
                self.show(episode=episode)
                self._writer.forget_episode(episode)
                count = 1
            elif session or project:
                count = self._writer.forget_scope(scopes.resolve(db, session, project))
            else:
                raise InvalidInput("nothing to forget was named; give an episode, a session or a project")
        if purge:
            self._writer.purge()
        return count

    def recall(
        self,
        query: str,
        *,
        session: str | None = None,
        project: str | None = None,
        sessions: Sequence[int] | None = None,
        limit: int | None = None,
        exclude: Collection[int] = (),
        explain: bool = False,
    ) -> Recall:
        """The episodes that fit a query best, with the reasons.

        Searched is one session, one project, the sessions of the given ids (none: nothing), or everything.
        `limit` defaults to the setting semanticLimit. A retriever that fails is named in `degraded` and the
        other carries on. Raises InvalidInput and NotFound.
        """
        with self._store.read() as db:
            asked = self._asked(db, query, session, project, sessions, limit, exclude)
            top = RERANK_TOP if self._reranker and asked.limit else 0
            found = self._retriever.recall(
                query,
                asked.plan,
                asked.scope,
                exclude=asked.exclude,
                window=max(asked.window, top),
                limit=max(asked.limit, top),
            )
            episodes = rows.episodes(db, [hit.id for hit in found.fused])
        hits = tuple(
            Hit(episodes[fused.id], fused.score, fused.contributions) for fused in found.fused if fused.id in episodes
        )
        if self._reranker:
            hits = _reranked(query, hits, self._reranker, found)[: asked.limit]
        why = diagnose.explain(query, asked.plan, found, asked.window) if explain else None
        return Recall(query, hits, found.failed, why)

    def why_not(
        self,
        query: str,
        episode: int,
        *,
        session: str | None = None,
        project: str | None = None,
        sessions: Sequence[int] | None = None,
        limit: int | None = None,
        exclude: Collection[int] = (),
    ) -> WhyNot:
        """At which stage a recall with the same arguments loses an episode, and what would have kept it.

        An episode outside the scope and one that is not there are told apart by nothing.
        """
        incoming.ids("episode", [episode])
        with self._store.read() as db:
            asked = self._asked(db, query, session, project, sessions, limit, exclude)
            if not rows.sees(db, asked.scope, episode):
                return WhyNot("scope", f"there is no episode {episode} in this scope; recall and show print the ids")
            return diagnose.why_not(
                self._retriever,
                query,
                asked.plan,
                asked.scope,
                episode,
                exclude=asked.exclude,
                window=asked.window,
                limit=asked.limit,
            )

    def sessions(self, project: str | None = None) -> list[Session]:
        """The sessions of a project, or all; the one that spoke last first."""
        with self._store.read() as db:
            return rows.sessions(db, scopes.project(db, project) if project else None)

    def projects(self) -> list[Project]:
        """All projects by name."""
        with self._store.read() as db:
            return rows.projects(db)

    def show(
        self, session: str | None = None, *, project: str | None = None, episode: int | None = None
    ) -> list[Episode]:
        """A session from its beginning, or one episode. Raises NotFound."""
        with self._store.read() as db:
            if episode is not None:
                return [_episode(db, episode)]
            if not session:
                raise InvalidInput("nothing to show was named; give a session or an episode")
            return rows.session_episodes(db, scopes.resolve(db, session, project).ids[0])

    def settings(self, changes: Mapping[str, object] | None = None) -> dict[str, Value]:
        """All settings by public name, after storing `changes`, which act from the next call on.

        Raises InvalidInput naming the setting and what it may be; then nothing is changed.
        """
        if changes:
            checked = known_settings.checked(changes)
            with self._store.write() as db:
                rows.write_settings(db, checked)
        with self._store.read():
            return self._settings()

    def prior(self) -> retrieve.Prior:
        """What automatic weights start from: tuned if it was, else measured for this kind of store."""
        with self._store.read() as db:
            return priors.read(db) or retrieve.measured_prior(self._keyword.are_conversations())

    def set_prior(self, prior: retrieve.Prior | None) -> retrieve.Prior:
        """Set another, from the next recall on; None takes the last back. Returns what counts. Raises InvalidInput."""
        with self._store.write() as db:
            priors.write(db, prior) if prior else priors.take_back(db)
            return self.prior()

    def status(self) -> Status:
        """What the store holds, and how many episodes wait for a vector."""
        with self._store.read() as db:
            projects, sessions, episodes = rows.counts(db)
            vectors, waiting = self._vectors.counts() if self._vectors else (0, episodes)
            return Status(
                path=str(self._store.path),
                bytes=self._store.size(),
                schema=int(db.pragma("user_version")),
                projects=projects,
                sessions=sessions,
                episodes=episodes,
                vectors=vectors,
                waiting=waiting,
                model=self._embedder.info.name if self._embedder else None,
            )

    def embed_missing(self, *, progress: Progress | None = None) -> int:
        """Make the vectors that are missing; returns how many episodes got theirs.

        In a store whose vectors another model made, all are made anew beside the old ones, which stay in use
        until the last is done. Raises EmbedderError at the first batch that fails; what was made stays.
        """
        return self._writer.embed_missing(progress)

    def check(self) -> None:
        """FTS5's integrity check and SQLite's. Raises StoreError when the file is damaged."""
        self._keyword.check()
        self._store.check()

    def demo(self, history: Iterable[Message], questions: Iterable[tuple[str, str | None]]) -> list[Recall]:
        """Import a sample history and ask it questions, each a text and the project it is about."""
        self.import_(history)
        return [self.recall(text, project=project, limit=3, explain=True) for text, project in questions]

    def _settings(self) -> dict[str, Value]:
        with self._store.read() as db:
            stored = rows.read_settings(db)
        return dict(self._base) | {name: value for name, value in stored.items() if name in known_settings.SPECS}

    def _asked(
        self,
        db: apsw.Connection,
        query: str,
        session: str | None,
        project: str | None,
        sessions: Sequence[int] | None,
        limit: int | None,
        exclude: Collection[int],
    ) -> _Asked:
        """The arguments of a recall, checked and read with the settings of now."""
        incoming.content("the query", query)
        settings = self._settings()
        cut = _limit(int(settings["semanticLimit"]) if limit is None else limit)
        return _Asked(
            retrieve.plan(query, settings, self.prior()),
            scopes.resolve(db, session, project, sessions),
            incoming.ids("exclude", exclude),
            cut,
            max(int(settings["window"]), cut),
        )


def _reranked(query: str, hits: tuple[Hit, ...], reranker: Reranker, found: retrieve.Found) -> tuple[Hit, ...]:
    by_place = [(place, hit.score, hit.episode.content) for place, hit in enumerate(hits)]
    with found.timed("rerank"):
        result = rerank(query, by_place, reranker)
    if result.failed:
        found.failed["reranker"] = result.failed
    return tuple(hits[place] for place in result.order)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_LIMIT:
        raise InvalidInput(f"limit is {limit!r}; give a whole number from 0 to {MOST_LIMIT}")
    return limit


def _batches(messages: Iterable[Message], touched: set[tuple[str | None, str]]) -> Iterator[list[Message]]:
    """Checked messages, BATCH at a time, their sessions noted. Raises InvalidInput naming a bad message's place."""
    stream = enumerate(messages, start=1)
    while batch := list(islice(stream, BATCH)):
        for place, message in batch:
            try:
                incoming.check(message)
            except InvalidInput as error:
                raise InvalidInput(f"message {place}: {error}") from None
            touched.add((message.project, message.session))
        yield [message for _, message in batch]


def _episode(db: apsw.Connection, id_: int) -> Episode:
    incoming.ids("episode", [id_])
    found = rows.episodes(db, [id_]).get(id_)
    if found is None:
        raise NotFound(f"there is no episode {id_}; recall and show print the ids")
    return found
