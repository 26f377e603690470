"""Memory: the one door to everything that Twofold keeps and finds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Literal

import apsw

from twofold import messages as incoming
from twofold import retrieve
from twofold import settings as known_settings
from twofold.embed import Embedder
from twofold.embed.minilm import MiniLM
from twofold.errors import InvalidInput, NotFound
from twofold.keyword import KeywordIndex
from twofold.keyword.fts5 import Fts5Index
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
)
from twofold.vectors import VectorIndex
from twofold.vectors.exact import ExactIndex
from twofold.writer import BATCH, Progress, Writer

MOST_LIMIT = 1000  # hits of one recall


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
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._vectors = vectors
        self._embedder = embedder
        self._base = base
        self._retriever = retrieve.Retriever(keyword, vectors, embedder)
        self._writer = Writer(store, keyword, vectors, embedder)

    @classmethod
    def open(
        cls, path: str | Path | None = None, *, embedder: Embedder | Literal["default"] | None = "default"
    ) -> Memory:
        """Open a database file, made if it is not there; without a path the user's own.

        `embedder` makes the vectors: the bundled model unless another is given; None stores and finds by
        words alone. Raises StoreError or InvalidInput (a bad setting in the environment or the TOML file).
        """
        base = known_settings.base()
        file = Path(path) if path is not None else known_settings.database()
        if path is None:
            file.parent.mkdir(parents=True, exist_ok=True)
        chosen = MiniLM(threads=int(base["embedThreads"])) if isinstance(embedder, str) else embedder
        store = Store(file)
        vectors = None if chosen is None else ExactIndex(store, chosen.info)
        return cls(store, Fts5Index(store), vectors, chosen, base)

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
        (id_,) = self._writer.add([message])
        assert id_ is not None  # only a message with a source can be there already
        return self.show(episode=id_)[0]

    def import_(self, messages: Iterable[Message], *, progress: Progress | None = None) -> ImportReport:
        """Store a stream of messages in batches; what a batch holds is durable and can be found at once.

        A message whose `source` its session already has is left as it is. `progress` is called with the
        number of messages taken so far. Raises InvalidInput at the first message that cannot be stored,
        naming its place; the batches before stay.
        """
        added = duplicates = taken = 0
        touched: set[tuple[str | None, str]] = set()
        stream = iter(messages)
        while batch := list(islice(stream, BATCH)):
            for place, message in enumerate(batch, start=taken + 1):
                _check_at(place, message)
            touched |= {(message.project, message.session) for message in batch}
            new = sum(id_ is not None for id_ in self._writer.add(batch))
            added, duplicates, taken = added + new, duplicates + len(batch) - new, taken + len(batch)
            if progress:
                progress(taken)
        return ImportReport(added, duplicates, len(touched), self.status().waiting)

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
        with self._store.write():
            if episode is not None:
                self.show(episode=episode)
                self._writer.forget_episode(episode)
                count = 1
            elif session or project:
                count = self._writer.forget_scope(self._scope(session, project))
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
        incoming.content("the query", query)
        exclude = incoming.ids("exclude", exclude)
        with self._store.read() as db:
            settings = self._settings()
            limit = _limit(int(settings["semanticLimit"]) if limit is None else limit)
            scope = self._scope(session, project, sessions)
            plan = retrieve.plan(query, settings, retrieve.keyword_prior(self._keyword.are_conversations()))
            window = max(int(settings["window"]), limit)
            found = self._retriever.recall(query, plan, scope, exclude=exclude, window=window, limit=limit)
            episodes = rows.episodes(db, [hit.id for hit in found.fused])
        hits = tuple(
            Hit(episodes[fused.id], fused.score, fused.contributions) for fused in found.fused if fused.id in episodes
        )
        why = retrieve.explain(query, plan, found, window) if explain else None
        return Recall(query, hits, found.failed, why)

    def sessions(self, project: str | None = None) -> list[Session]:
        """The sessions of a project, or all; the one that spoke last first."""
        with self._store.read() as db:
            return rows.sessions(db, _project(db, project) if project else None)

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
            return rows.session_episodes(db, self._scope(session, project).ids[0])

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

    def _scope(self, session: str | None, project: str | None, sessions: Sequence[int] | None = None) -> Scope:
        """The scope that names mean. Raises NotFound for one that is not there."""
        if session:
            incoming.name("session", session)
        with self._store.read() as db:
            project_id = _project(db, project) if project else None
            if sessions is not None:
                sessions = incoming.ids("sessions", sessions)
                allowed = set(rows.sessions_in_scope(db, Scope("project", (project_id,))) or ()) if project_id else None
                return Scope("sessions", tuple(s for s in sessions if allowed is None or s in allowed))
            if not session:
                return Scope("all") if project_id is None else Scope("project", (project_id,))
            found = rows.session_id(db, session, project_id)
            by_id = (
                rows.session(db, int(session)) if found is None and session.isdecimal() and len(session) < 19 else None
            )
            if by_id is not None and project in (None, "", by_id.project):
                found = by_id.id
            if found is None:
                raise NotFound(_no_session(db, session, project))
            return Scope("sessions", (found,))


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_LIMIT:
        raise InvalidInput(f"limit is {limit!r}; give a whole number from 0 to {MOST_LIMIT}")
    return limit


def _check_at(place: int, message: Message) -> None:
    try:
        incoming.check(message)
    except InvalidInput as error:
        raise InvalidInput(f"message {place}: {error}") from None


def _episode(db: apsw.Connection, id_: int) -> Episode:
    incoming.ids("episode", [id_])
    found = rows.episodes(db, [id_]).get(id_)
    if found is None:
        raise NotFound(f"there is no episode {id_}; recall and show print the ids")
    return found


def _project(db: apsw.Connection, name: str) -> int:
    incoming.name("project", name)
    found = rows.project_id(db, name)
    if found is None:
        raise NotFound(f"there is no project {name!r}; list them with: twofold projects")
    return found


def _no_session(db: apsw.Connection, session: str, project: str | None) -> str:
    where = f"in project {project!r}" if project else "without a project"
    others = [f"project {name!r}" for name in rows.projects_of_session(db, session) if name]
    elsewhere = f"; there is one in {', '.join(others)}: name the project" if others and not project else ""
    return f"there is no session {session!r} {where}{elsewhere or '; list them with: twofold sessions'}"
