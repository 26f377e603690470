"""Everything out of a store again: the records of an export, and a copy of the file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import apsw

from twofold.errors import InvalidInput
from twofold.scopes import Reach
from twofold.store import Store, copies, models, rows, whole
from twofold.store import entities as stored
from twofold.types import Scope

FORMAT = 1  # of an export; a reader refuses those that are newer

Record = dict[str, object]


class Archive:
    """What the reach of a door holds, as records or as a file."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach

    def export(
        self,
        *,
        project: str | None = None,
        session: str | None = None,
        episode: int | None = None,
        vectors: bool = False,
    ) -> Iterator[Record]:
        """All that an import into another store needs to make it equal, as records for JSON, of one moment.

        Of a project, a session, one episode, or everything; with `vectors` those of the current model as well.
        `twofold.export` makes texts of the records. Raises InvalidInput and NotFound at once, not with the first one.
        """
        if episode is not None and (project or session):
            raise InvalidInput("an episode is exported by its id alone; leave project and session out")
        with self._store.read() as db:
            if episode is None:
                scope = self._reach.resolve(db, session, project)
            else:
                scope = Scope("sessions", (self._reach.episode(db, episode).session_id,))
        return self._read(scope, episode, vectors)

    def backup(self, path: Path | str) -> None:
        """Copy the file to a new one as it is at one moment, while others write; `restore` brings it back.

        Raises StoreError and NotAllowed.
        """
        self._reach.must_be_whole("copy the whole store")
        with self._store.read() as db:
            copies.copy(db, Path(path))

    def _read(self, scope: Scope, episode: int | None, vectors: bool) -> Iterator[Record]:
        with _snapshot(self._store.path) as db:
            model = models.current(db) if vectors else None
            yield {"twofold": FORMAT} | (
                {"model": dict(zip(("name", "dimension", "digest"), model, strict=True))} if model else {}
            )
            if episode is None:
                for name in whole.empty_projects(db, scope):
                    yield {"project": name}
            for one in whole.conversations(db, scope):
                yield from _conversation(db, one, episode, models.find(db, model) if model else 0)
            if episode is None:
                yield from _entities(db, scope)


def restore(source: Path | str, target: Path | str, *, force: bool = False) -> None:
    """Check what `backup` wrote, and make it the store at `target`, which knows of no index outside the file yet.

    With `force` in the place of one that is there, which no process may have open. Raises StoreError; then nothing
    was changed.
    """
    copies.restore(Path(source), Path(target), force=force)


@contextmanager
def _snapshot(path: Path) -> Iterator[apsw.Connection]:
    """The file at one moment. A stream may take long and be read by several threads, so it has its own connection."""
    with closing(Store(path)) as store, store.read() as db:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the moment is that of the first read
        yield db


def _conversation(db: apsw.Connection, one: whole.Conversation, episode: int | None, model: int) -> Iterator[Record]:
    named = _without_nothing({"project": one.project, "session": one.name, "title": one.title})
    words = whole.said(db, one.id)
    pieces = whole.vectors(db, one.id, model) if model else {}
    is_empty = True
    for id_, role, time, content, metadata, source in whole.messages(db, one.id, episode):
        is_empty = False
        yield {
            **named,
            **_without_nothing({"role": role, "time": _iso(time), "content": content}),
            **_without_nothing({"metadata": json.loads(metadata), "source": source}),
            **({"feedback": [_word(*word) for word in words[id_]]} if id_ in words else {}),
            **({"vectors": _vectors(content, pieces[id_])} if id_ in pieces else {}),
        }
    if is_empty:
        yield named


def _entities(db: apsw.Connection, scope: Scope) -> Iterator[Record]:
    """Entities by their home, type and names; whom they are mentioned by follows from the names."""
    found = stored.entities(db, whole.entities(db, scope)).values()
    names = {one.id: one.name for one in whole.conversations(db, Scope("all"))} if found else {}
    records = [
        _without_nothing(
            {
                "project": entity.project,
                "session": None if entity.session_id is None else names[entity.session_id],
                "entity": entity.name,
                "type": entity.type,
                "aliases": list(entity.aliases),
                "description": entity.description,
            }
        )
        for entity in found
    ]
    yield from sorted(records, key=lambda record: json.dumps(record, sort_keys=True))


def _word(query: str, useful: bool, time: int, place: str) -> Record:
    return {"query": query, "useful": useful, "time": _iso(time), "in": place}


def _vectors(content: str, pieces: list[bytes]) -> Record:
    """Vectors with a mark of the text that they were made of."""
    return {"of": mark(content), "pieces": [base64.b64encode(piece).decode() for piece in pieces]}


def mark(content: str) -> str:
    """What tells whether a text is still the one that vectors were made of."""
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _iso(time: int) -> str:
    return rows.moment(time).isoformat()


def _without_nothing(record: Record) -> Record:
    return {name: value for name, value in record.items() if value not in (None, "", [], {})}
