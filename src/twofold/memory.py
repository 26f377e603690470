"""Memory: the one door to everything that Twofold keeps and finds."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from twofold import health, priors, reembed, retrieve
from twofold import messages as incoming
from twofold import settings as known_settings
from twofold.archive import Archive
from twofold.catalog import Catalog
from twofold.context import Assembler, Held
from twofold.doctor import Doctor, Report
from twofold.embed import Embedder
from twofold.entities import Entities
from twofold.entityindex import EntityIndex
from twofold.errors import Conflict, InvalidInput
from twofold.feedback import Feedback
from twofold.indexing import Indexes, open_indexes
from twofold.recaller import Question, Recaller
from twofold.rerank import Reranker
from twofold.runs import Runs
from twofold.scopes import Reach
from twofold.settings import Value
from twofold.store import Store, rows
from twofold.threads import Threads
from twofold.tokens import Tokens
from twofold.types import (
    Context,
    Episode,
    Hit,
    ImportReport,
    Message,
    Part,
    Project,
    Recall,
    Role,
    Session,
    Status,
    WhyNot,
)
from twofold.windows import Lookout
from twofold.writer import Progress, Writer


class Memory:
    """Conversations that were, found again by meaning and by word. Use as a context manager, from any thread.

    Session and project are names; a session's name counts within its project, and where a session is only looked
    for, its id will do (`"12"`). An empty name means none. `catalog` has projects, sessions and episodes by id and in
    pages, `feedback` what was said of hits, `archive` takes all along, `lookout` shows windows,
    `runs` are the last ones of `eval` and `tune`.
    """

    archive: Archive
    catalog: Catalog
    feedback: Feedback
    entities: Entities
    lookout: Lookout
    runs: Runs
    threads: Threads
    tokens: Tokens

    def __init__(
        self,
        store: Store,
        indexes: Indexes,
        embedder: Embedder | None,
        base: Mapping[str, Value],
        reranker: Reranker | None = None,
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._keyword, self._vectors = indexes.keyword, indexes.vectors
        self._embedder = embedder
        self._base = base
        self._retriever = retrieve.Retriever(store, self._keyword, self._vectors, embedder)
        self._recaller = Recaller(store, self._keyword, self._retriever, reranker, self._settings, _now)
        self._writer = Writer(store, self._keyword, self._vectors, embedder)
        self._entity_index = EntityIndex()
        self._open_on(Reach())

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        embedder: Embedder | str | None = "default",
        reranker: Reranker | None = None,
    ) -> Memory:
        """Open a database file, made if it is not there; without a path the user's own.

        `embedder` makes the vectors: by default the model that made the store's, in an empty store the one that
        the setting embedModel names; else an object or a name (docs/models.md). None stores and finds by words
        alone. `reranker` puts the first hits of every recall in order again; by default there is none. Raises
        StoreError, InvalidInput (also for a bad setting), and for a model by name EmbedderError and MissingExtra.
        """
        base = known_settings.base()
        file = Path(path) if path is not None else known_settings.database()
        if path is None:
            file.parent.mkdir(parents=True, exist_ok=True)
        store = Store(file)
        chosen = reembed.opened(store, embedder, base)
        return cls(store, open_indexes(store, chosen.info if chosen else None, base), chosen, base, reranker)

    def within(self, project: int) -> Memory:
        """The same memory, opened on one project: what lies outside is not there. Closing either closes both."""
        door = copy.copy(self)
        door._open_on(Reach(project))
        return door

    def _open_on(self, reach: Reach) -> None:
        self._reach = reach
        self.archive = Archive(self._store, reach)
        self.catalog = Catalog(self._store, self._writer, reach)
        self.entities = Entities(self._store, self._keyword, self._embedder, reach, self._entity_index)
        self.feedback = Feedback(self._store, reach)
        self.lookout = Lookout(self._store, self._recaller, self._retriever, reach)
        self.runs = Runs(self._store, reach)
        self.threads = Threads(self._store, reach)
        self.tokens = Tokens(self._store, reach)
        self._assembler = Assembler(self._store, self._recaller, self._retriever, self.entities, reach)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_bound(self) -> bool:
        """Whether this door opens on one project alone."""
        return self._reach.only is not None

    @property
    def path(self) -> Path:
        """The database file."""
        return self._store.path

    def close(self) -> None:
        """Close the file, and let go of what is outside it."""
        self._retriever.close()
        self._indexes.close()
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
        source: str | None = None,
    ) -> Episode:
        """Store one message; it is on disk and can be found when this returns.

        `time` is aware and defaults to now. Raises InvalidInput, and Conflict where the session has a message of
        that `source`. An embedder that fails leaves the episode without a vector: found by words at once, by
        meaning after `embed_missing`.
        """
        message = Message(content, role, session or "default", project, time or _now(), metadata or {}, source)
        stored = self.add_all([message])
        if not stored:
            raise Conflict(f"session {message.session!r} has a message of the source {source!r} already")
        return stored[0]

    def add_all(self, messages: Sequence[Message]) -> list[Episode]:
        """Store a few messages in one transaction, all or none of them; `import_` is for many. Raises InvalidInput.

        A message whose `source` its session already has is left out.
        """
        prepared = self._writer.prepare([incoming.check(self._at_home(message)) for message in messages])
        with self._store.write() as db:
            ids = self._writer.store(prepared).new
            stored = rows.episodes(db, ids)
        return [stored[id_] for id_ in ids]

    def import_(
        self,
        messages: Iterable[Message],
        *,
        progress: Progress | None = None,
        embed: bool = True,
        embedding: Progress | None = None,
        dry_run: bool = False,
    ) -> ImportReport:
        """Store a stream of messages in batches; what a batch holds is durable and can be found by words at once.

        A message of a known `source` replaces its words if it has others, unless they were edited here; one that is
        nothing but quoted memory is left out. `progress` is told how many messages were taken. With `embedding`
        vectors are made when all is stored, and it is told how many; without `embed` they are left to
        `embed_missing`. A `dry_run` stores nothing. Raises InvalidInput at the first message that cannot be stored,
        naming its place; the batches before stay.
        """
        home = map(self._at_home, messages)
        return self._writer.import_(home, progress, embed=embed, embedding=embedding, dry_run=dry_run)

    def edit(self, episode: int, content: str) -> Episode:
        """Give an episode other words; the old ones and their vector are gone in the same transaction."""
        own = incoming.own_words(content)
        self.show(episode=episode)
        self._writer.edit(episode, own)
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

        `purge` also calls `purge`. Raises NotFound, or InvalidInput when nothing is named.
        """
        with self._store.write() as db:
            if episode is not None:
                self._reach.episode(db, episode)
                self._writer.forget_episode(episode)
                count = 1
            elif session or project:
                count = self._writer.forget_scope(self._reach.resolve(db, session, project))
            else:
                raise InvalidInput("nothing to forget was named; give an episode, a session or a project")
        if purge:
            self.purge()
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
        zone: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        explain: bool = False,
    ) -> Recall:
        """The episodes that fit a query best, with the reasons.

        Searched is one session, one project, the sessions of the given ids (none: nothing), or everything, said from
        `since` on and before `before`. `limit` defaults to the setting semanticLimit; `zone` is the asker's IANA zone.
        A retriever that fails is named in `degraded`, the other carries on. Raises InvalidInput and NotFound.
        """
        question = Question(query, session, project, sessions, exclude, limit, zone, since, before)
        return self._recaller.recall(question, self._reach, explain=explain)

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
        zone: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> WhyNot:
        """At which stage the same recall loses an episode (one out of scope is as good as none), and what keeps it."""
        question = Question(query, session, project, sessions, exclude, limit, zone, since, before)
        return self._recaller.why_not(question, self._reach, episode)

    def search(
        self,
        query: str,
        *,
        session: str | None = None,
        project: str | None = None,
        sessions: Sequence[int] | None = None,
        limit: int | None = None,
    ) -> tuple[Hit, ...]:
        """Keyword search alone, with BM25 as scores; stop words find nothing. Raises InvalidInput and NotFound."""
        return self._recaller.search(Question(query, session, project, sessions, (), limit), self._reach)

    def context(
        self,
        message: str,
        *,
        session: str | None = None,
        project: str | None = None,
        budget: int | None = None,
        zone: str | None = None,
        held: Held = Held(),  # noqa: B008  frozen
    ) -> Context:
        """What an assistant is given to answer `message`, the next one of a session: see `Context`.

        Recalled are the episodes of the session's project, or of the session where it has none, without its last
        ones, which `recent` gives. A session or a project that is not there yet has nothing to recall. `budget` is
        in tokens and defaults to the setting tokenBudget; `zone` is the IANA name of the zone that dates are given
        in, else UTC; `held` is what the caller has already. The message is embedded once; what fails is named in
        `degraded` and leaves its part empty. Raises InvalidInput.
        """
        return self._assembler.context(
            message, session=session, project=project, budget=budget, zone=zone, held=held, settings=self._settings()
        )

    def sessions(self, project: str | None = None) -> list[Session]:
        """The sessions of a project, or all; the one that spoke last first."""
        with self._store.read() as db:
            return rows.sessions(db, self._reach.project_id(db, project))

    def projects(self) -> list[Project]:
        """All projects by name."""
        with self._store.read() as db:
            return [one for one in rows.projects(db) if self._reach.only in (None, one.id)]

    def show(
        self, session: str | None = None, *, project: str | None = None, episode: int | None = None
    ) -> list[Episode]:
        """A session from its beginning, or one episode. Raises NotFound."""
        with self._store.read() as db:
            if episode is not None:
                return [self._reach.episode(db, episode)]
            if not session:
                raise InvalidInput("nothing to show was named; give a session or an episode")
            return rows.session_episodes(db, self._reach.resolve(db, session, project).ids[0])

    def settings(self, changes: Mapping[str, object] | None = None) -> dict[str, Value]:
        """All settings but secrets by public name, after storing `changes`, which act from the next call on.

        Raises InvalidInput naming the setting and what it may be; then nothing is changed.
        """
        if changes:
            self._reach.must_be_whole("change settings, which are everybody's")
            checked = known_settings.checked(changes)
            with self._store.write() as db:
                rows.write_settings(db, checked)
        return {name: value for name, value in self._settings().items() if not known_settings.SPECS[name].secret}

    def prior(self) -> retrieve.Prior:
        """What automatic weights start from: tuned if it was, else measured for this kind of store."""
        return self._recaller.prior()

    def set_prior(self, prior: retrieve.Prior | None) -> retrieve.Prior:
        """Set another, from the next recall on; None takes the last back. Returns what counts. Raises InvalidInput."""
        self._reach.must_be_whole("tune the store")
        with self._store.write() as db:
            priors.write(db, prior) if prior else priors.take_back(db)
            return self.prior()

    def status(self) -> Status:
        """What the store holds, how many episodes wait for a vector, and what indexes outside the file wait for."""
        self._reach.must_be_whole("see what the whole store holds")
        return health.status(self._store, self._indexes, self._embedder)

    def health(self) -> dict[str, Part]:
        """Whether store, keywordIndex, vectors, externalIndex and embedder work, each tried out."""
        return health.parts(self._store, self._indexes, self._retriever)

    def purge(self) -> None:
        """Rewrite the file, so that no trace of any deleted text stays in its free pages."""
        self._writer.purge()

    def embed_missing(self, *, progress: Progress | None = None) -> int:
        """Make the vectors that are missing; returns how many episodes got theirs.

        In a store whose vectors another model made, all are made anew beside the old ones, which stay in use
        until the last is done. Raises EmbedderError at the first batch that fails; what was made stays.
        """
        self._reach.must_be_whole("make the vectors of the whole store")
        return reembed.complete(self._store, self._vectors, self._embedder, self.entities.embed_missing, progress)

    def drop_old_vectors(self) -> int:
        """Remove the vectors of all models but the one in use; returns how many. Raises Conflict if it is another's."""
        self._reach.must_be_whole("remove vectors of the whole store")
        return reembed.drop_old(self._store, self._embedder.info if self._embedder else None)

    def doctor(self, *, repair: bool = False) -> Report:
        """Compare the file with every index; with `repair` mend what can be mended. Damage is a finding, no error."""
        self._reach.must_be_whole("examine the whole store")
        return Doctor(self._store, self._indexes).examine(repair=repair)

    def _settings(self) -> dict[str, Value]:
        with self._store.read() as db:
            stored = rows.read_settings(db)
        return dict(self._base) | {name: value for name, value in stored.items() if name in known_settings.SPECS}

    def _at_home(self, message: Message) -> Message:
        if not isinstance(message, Message) or (self._reach.only is None and message.project != ""):
            return message
        with self._store.read() as db:
            return self._reach.at_home(db, message)


def _now() -> datetime:
    return datetime.now(timezone.utc)
