"""Entities: named things with a home, kept, changed and found. `memory.entities` is one door to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from twofold import drafts, mentions
from twofold import messages as incoming
from twofold.drafts import MOST_ALIASES, MOST_DESCRIPTION, MOST_NAME, Draft, text_of
from twofold.embed import Embedder
from twofold.entityindex import EntityIndex
from twofold.errors import Conflict, EmbedderError, InvalidInput, NotFound
from twofold.keyword import KeywordIndex
from twofold.pages import PAGE, Page, cursor, one_more, paged
from twofold.recaller import MOST_LIMIT
from twofold.scopes import Reach
from twofold.store import Store, models, rows
from twofold.store import entities as stored
from twofold.store.entities import Home, View
from twofold.store.models import Model
from twofold.types import Entity, EntityHit, EntityRecall, Episode, Scope

__all__ = ["MOST_ALIASES", "MOST_DESCRIPTION", "MOST_NAME", "Entities"]

BATCH = 256  # entities whose missing vectors are made at once

Vector = NDArray[np.float32]


class Entities:
    """The entities within the reach of the door it belongs to; NotFound is raised for any other.

    Which episodes mention one follows from its names: those of its home in whose texts a name stands. One that
    is stored while the embedder fails has no vector: found by name at once, by meaning after `embed_missing`.
    """

    def __init__(
        self, store: Store, keyword: KeywordIndex, embedder: Embedder | None, reach: Reach, index: EntityIndex
    ) -> None:
        self._store = store
        self._keyword = keyword
        self._embedder = embedder
        self._reach = reach
        self._index = index

    def add(
        self,
        name: str,
        type: str,
        *,
        description: str = "",
        aliases: Sequence[str] = (),
        project: str | None = None,
        session: int | None = None,
    ) -> Entity:
        """A new entity of a project, which is made if it is not there, or of a session and so of its project if any.

        With neither, every session without a project knows it. Raises Conflict where an entity of that type has
        one of the names already, InvalidInput and NotFound.
        """
        draft = drafts.check(name, aliases, type, description)
        if project:
            incoming.name("project", project)
        vector = self._embed(draft.text)
        with self._store.write() as db:
            home = self._home(db, project, session)
            _must_be_free(db, home, draft)
            id_ = stored.insert(db, home, draft.type, draft.description)
            self._put(db, id_, draft, vector)
            mentions.link_entity(db, self._keyword, id_, home)
            return self._entity(db, id_)

    def change(
        self,
        id_: int,
        *,
        name: str | None = None,
        type: str | None = None,
        description: str | None = None,
        aliases: Sequence[str] | None = None,
    ) -> Entity:
        """Give an entity another name, type or description, or other aliases. Raises Conflict, InvalidInput."""

        def changed(db: apsw.Connection) -> Draft:
            old = self._entity(db, id_)
            return drafts.check(
                old.name if name is None else name,
                old.aliases if aliases is None else aliases,
                old.type if type is None else type,
                old.description if description is None else description,
            )

        text, vector = self._embedded(changed)
        with self._store.write() as db:
            draft, old, home = changed(db), self._entity(db, id_), stored.home(db, id_) or Home()
            _must_be_free(db, home, draft, id_)
            self._replace(db, old, draft, vector if text == draft.text else None)
            if {one.text for one in draft.names} != {old.name, *old.aliases}:
                mentions.link_entity(db, self._keyword, id_, home)
            return self._entity(db, id_)

    def merge(self, id_: int, into: int) -> Entity:
        """Let an entity be part of another of the same home, which gets its names, mentions and description.

        Two descriptions are joined, unless the one holds the other or both are too long: then that of `into`
        stays. Raises Conflict, InvalidInput.
        """
        if id_ == into:
            raise InvalidInput(f"entity {id_} cannot be merged into itself; name two")

        def merged(db: apsw.Connection) -> Draft:
            one, other = self._entity(db, into), self._entity(db, id_)
            if stored.home(db, id_) != stored.home(db, into):
                raise InvalidInput(
                    f"entity {id_} does not belong where {into} does; merge two of one project or session"
                )
            aliases = (*one.aliases, other.name, *other.aliases)
            return drafts.check(one.name, aliases, one.type, drafts.joined(one.description, other.description))

        text, vector = self._embedded(merged)
        with self._store.write() as db:
            draft, old = merged(db), self._entity(db, into)
            _must_be_free(db, stored.home(db, into) or Home(), draft, id_, into)
            stored.move_mentions(db, id_, into)
            stored.delete(db, id_)
            self._replace(db, old, draft, vector if text == draft.text else None)
            return self._entity(db, into)

    def forget(self, id_: int) -> None:
        """Delete an entity; the episodes that mention it stay."""
        with self._store.write() as db:
            self._entity(db, id_)
            stored.delete(db, id_)

    def get(self, id_: int) -> Entity:
        """One entity."""
        with self._store.read() as db:
            return self._entity(db, id_)

    def page(
        self,
        *,
        project: str | None = None,
        session: int | None = None,
        type: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Entity]:
        """Entities by name: of a project, those that a session knows, or all. Raises InvalidInput."""
        wanted = None if type is None else drafts.checked_type(type)
        with self._store.read() as db:
            if session is not None:
                self._reach.session(db, session)
            scope = self._reach.resolve(db, None, project, None if session is None else [session])
            view = View(scope, self._reach.only)
            found = paged(
                stored.page(db, view, wanted, cursor(after, (str, int)), one_more(limit)), limit, lambda one: one
            )
            entities = stored.entities(db, [id_ for _, id_ in found.items])
        return Page(tuple(entities[id_] for _, id_ in found.items), found.next)

    def episodes(self, id_: int, *, after: str | None = None, limit: int = PAGE) -> Page[Episode]:
        """The episodes that mention an entity, by time. Raises InvalidInput."""
        with self._store.read() as db:
            self._entity(db, id_)
            ids = stored.mentioned_in(db, id_, cursor(after, (int, int)), one_more(limit))
            found = rows.episodes(db, ids)
        return paged([found[one] for one in ids], limit, lambda one: [rows.microseconds(one.time), one.id])

    def search(
        self,
        query: str,
        *,
        session: str | None = None,
        project: str | None = None,
        sessions: Sequence[int] | None = None,
        limit: int = 10,
    ) -> EntityRecall:
        """The entities that a query names, if only in part, or that are like it; the scope is that of `Memory.recall`.

        Where no vectors can be compared they are found by name alone, and `degraded` says why. Raises
        InvalidInput and NotFound.
        """
        incoming.content("the query", query)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_LIMIT:
            raise InvalidInput(f"limit is {limit!r}; give a whole number from 0 to {MOST_LIMIT}")
        vector, failed = self._query_vector(query)
        with self._store.read() as db:
            scope = self._reach.resolve(db, session, project, sessions)
            failed = failed or _mismatch(db, self._embedder)
            hits = self.find(db, query, vector, scope, limit)
        return EntityRecall(query, hits, {"semantic": failed} if failed else {})

    def find(
        self, db: apsw.Connection, text: str, vector: Vector | None, scope: Scope, limit: int
    ) -> tuple[EntityHit, ...]:
        """The best entities for a text and its vector, shape (dimension,), in the snapshot of `db`; see `search`.

        Without a vector, or where the store's vectors are another model's, they are found by name alone.
        """
        usable = vector is not None and bool(np.isfinite(vector).all() and vector.any())
        comparable = self._embedder is not None and not _mismatch(db, self._embedder)
        model = models.find(db, self._embedder.info.key) if self._embedder and comparable else 0
        visible = stored.visible(db, View(scope, self._reach.only))
        ranking = self._index.current(db, model).search(text, vector if usable else None, visible, limit)
        entities = stored.entities(db, [id_ for id_, _ in ranking])
        return tuple(EntityHit(entities[id_], score) for id_, score in ranking)

    def embed_missing(self) -> int:
        """Make the vectors of the embedder's model that entities lack, beside those of others; returns how many.

        Raises EmbedderError at the first batch that fails; what was made stays.
        """
        self._reach.must_be_whole("make the vectors of the whole store")
        if self._embedder is None:
            raise EmbedderError("this memory was opened without an embedder; open it with one")
        model = self._embedder.info.key
        done = last = 0
        while texts := self._texts_without_vector(model, last):
            last = max(texts)
            vectors = dict(zip(texts, _directions(self._embedder, list(texts.values())), strict=True))
            with self._store.write() as db:
                now = stored.entities(db, list(texts))  # one may have been changed or forgotten meanwhile
                for entity in now.values():
                    vector = vectors[entity.id]
                    if vector is not None and text_of(entity) == texts[entity.id]:
                        stored.put_vector(db, entity.id, model, _bytes(vector))
                        done += 1
        return done

    def _entity(self, db: apsw.Connection, id_: int) -> Entity:
        """One entity in reach. Raises NotFound."""
        incoming.ids("entity", [id_])
        home = stored.home(db, id_)
        if home is None or self._reach.only not in (None, home.project):
            raise NotFound(f"there is no entity {id_}; entities lists the ids")
        return stored.entities(db, [id_])[id_]

    def _home(self, db: apsw.Connection, project: str | None, session: int | None) -> Home:
        """Where a new entity belongs. Raises NotFound, and InvalidInput where project and session do not agree."""
        if session is None:
            named = self._reach.home(db, project)
            return Home(project=rows.make_project(db, named) if named else None)
        known = self._reach.session(db, session)
        if project and project != known.project:
            where = f"in project {known.project!r}" if known.project else "in no project"
            raise InvalidInput(f"session {session} is {where}, not in {project!r}; name one of the two")
        whose = rows.project_of_session(db, session)
        return Home(session=session) if whose is None else Home(project=whose)

    def _embedded(self, draft: Callable[[apsw.Connection], Draft]) -> tuple[str, Vector | None]:
        """The text of what a change makes of the present state, and its vector, made before the write lock."""
        with self._store.read() as db:
            text = draft(db).text
        return text, self._embed(text)

    def _replace(self, db: apsw.Connection, old: Entity, draft: Draft, vector: Vector | None) -> None:
        """Make an entity what the draft says; a vector that was made of another text is gone."""
        stored.update(db, old.id, draft.type, draft.description)
        if draft.text != text_of(old):
            stored.delete_vectors(db, old.id)
        self._put(db, old.id, draft, vector)

    def _put(self, db: apsw.Connection, id_: int, draft: Draft, vector: Vector | None) -> None:
        """Write names and vector."""
        stored.put_names(db, id_, draft.names)
        if vector is not None and self._embedder:
            stored.put_vector(db, id_, self._embedder.info.key, _bytes(vector))

    def _embed(self, text: str) -> Vector | None:
        """The vector of an entity's text; None where there is none to be had, which `embed_missing` makes up for."""
        if self._embedder is None:
            return None
        with self._store.read() as db:
            if _mismatch(db, self._embedder):
                return None
        try:
            return _directions(self._embedder, [text])[0]
        except EmbedderError:
            return None

    def _query_vector(self, query: str) -> tuple[Vector | None, str]:
        """The query's vector, or a sentence why there is none."""
        if self._embedder is None:
            return None, "this memory was opened without an embedder"
        try:
            vector = self._embedder.embed_query(query)
        except EmbedderError as error:
            return None, str(error)
        if vector.shape != (self._embedder.info.dimension,) or not np.isfinite(vector).all() or not vector.any():
            return None, f"{self._embedder.info.name} gave no usable vector for the query"
        return vector, ""

    def _texts_without_vector(self, model: Model, after: int) -> dict[int, str]:
        """What the vectors of some entities above an id are to be made of."""
        with self._store.read() as db:
            ids = stored.without_vector(db, models.find(db, model), after, BATCH)
            found = stored.entities(db, ids)
        return {id_: text_of(found[id_]) for id_ in ids}


def _mismatch(db: apsw.Connection, embedder: Embedder | None) -> str:
    """A sentence where the store's vectors are another model's than the embedder's; else empty."""
    current = models.current(db)
    if embedder is None or current is None or current == embedder.info.key:
        return ""
    return embedder.info.refuses(current)


def _directions(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """For each text one vector of unit length, the mean of its pieces; None for zeros and NaN, which have none.

    Raises EmbedderError.
    """
    found: list[Vector | None] = []
    for pieces in embedder.embed_documents(texts):
        if pieces.ndim != 2 or pieces.shape[1] != embedder.info.dimension:
            raise EmbedderError(
                f"{embedder.info.name} gave vectors of shape {pieces.shape}, not of {embedder.info.dimension} "
                "dimensions; none was stored, check which model answers"
            )
        kept = pieces[np.isfinite(pieces).all(axis=1)]
        mean = kept.mean(axis=0, dtype=np.float64) if len(kept) else np.zeros(1)
        norm = np.linalg.norm(mean)
        found.append((mean / norm).astype(np.float32) if norm > 0.0 else None)
    return found


def _bytes(vector: Vector) -> bytes:
    """A vector as the file keeps it."""
    return vector.astype(np.float16).tobytes()


def _must_be_free(db: apsw.Connection, home: Home, draft: Draft, *but: int) -> None:
    """Raises Conflict where an entity of that home and type, none of `but`, has one of the names."""
    taken = stored.namesake(db, home, draft.type, [one.folded for one in draft.names], but)
    if taken:
        raise Conflict(
            f"there is a {draft.type} {taken[1]!r} here already, entity {taken[0]}; change that one or merge the two"
        )
