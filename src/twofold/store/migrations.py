"""Numbered migrations: plain functions, each applied once, in order, in one transaction with its number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from twofold.errors import StoreError, StoreTooNew

APPLICATION_ID = 0x32464C44  # "2FLD" in the file's header


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the file to this version's schema. Raises StoreTooNew, or StoreError for a foreign database."""
    version = _version(connection, path)
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(connection, path), len(MIGRATIONS)):
            MIGRATIONS[number](connection)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: apsw.Connection, path: Path) -> int:
    version = int(connection.pragma("user_version"))
    ours = connection.pragma("application_id") == APPLICATION_ID
    if not ours and connection.execute("SELECT count(*) FROM sqlite_schema").get:
        raise StoreError(f"{path} is a SQLite database of another program; name another file with --db")
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"{path} has schema {version}, this Twofold knows up to {len(MIGRATIONS)}; "
            "upgrade with: pip install --upgrade twofold"
        )
    return version


def _first(connection: apsw.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE projects (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE
        ) STRICT;

        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            project_id INTEGER REFERENCES projects ON DELETE CASCADE,
            name TEXT NOT NULL,
            title TEXT
        ) STRICT;
        CREATE UNIQUE INDEX session_name ON sessions (ifnull(project_id, 0), name);
        CREATE INDEX session_project ON sessions (project_id);

        CREATE TABLE episodes (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
            content TEXT NOT NULL,
            time INTEGER NOT NULL,              -- microseconds since 1970, UTC
            metadata TEXT NOT NULL DEFAULT '{}',
            source TEXT
        ) STRICT;
        CREATE INDEX episode_order ON episodes (session_id, time, id);
        CREATE UNIQUE INDEX episode_source ON episodes (session_id, source) WHERE source IS NOT NULL;

        CREATE TABLE entities (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            project_id INTEGER REFERENCES projects ON DELETE CASCADE,
            name TEXT NOT NULL,
            type TEXT NOT NULL,
            description TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE UNIQUE INDEX entity_name ON entities (ifnull(project_id, 0), type, name);

        CREATE TABLE mentions (
            entity_id INTEGER NOT NULL REFERENCES entities ON DELETE CASCADE,
            episode_id INTEGER NOT NULL REFERENCES episodes ON DELETE CASCADE,
            PRIMARY KEY (entity_id, episode_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX mention_episode ON mentions (episode_id);

        CREATE TABLE models (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL,
            dimension INTEGER NOT NULL,
            digest TEXT NOT NULL,
            current INTEGER NOT NULL DEFAULT 0,    -- 1 for the one whose vectors are searched
            UNIQUE (name, dimension, digest)
        ) STRICT;

        CREATE TABLE vectors (
            id INTEGER PRIMARY KEY AUTOINCREMENT,  -- only ever grows: what is above is new to a reader
            model_id INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
            episode_id INTEGER NOT NULL REFERENCES episodes ON DELETE CASCADE,
            vector BLOB NOT NULL                   -- float16, one piece of the episode
        ) STRICT;
        CREATE INDEX vector_episode ON vectors (episode_id, model_id);

        CREATE TABLE settings (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL                    -- JSON
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE counters (
            name TEXT PRIMARY KEY,
            value INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        INSERT INTO counters VALUES
            ('vectors_removed', 0), ('keyword_analyser', 0),
            ('keyword_rows', 0), ('keyword_own', 0), ('keyword_context', 0);
        CREATE TRIGGER vector_removed AFTER DELETE ON vectors BEGIN
            UPDATE counters SET value = value + 1 WHERE name = 'vectors_removed';
        END;

        -- `terms` holds what text.py made of the episode, `scope` the tokens that name its session and project.
        -- No text of a user gives a term that begins with `#` or `+`.
        CREATE VIRTUAL TABLE keyword USING fts5 (
            terms, scope, content = '', contentless_delete = 1, tokenize = "ascii tokenchars '_+#'"
        );
        CREATE VIRTUAL TABLE keyword_terms USING fts5vocab (keyword, row);
        -- The terms of the episode and of its neighbours as 32-bit hashes, its own first, so that a given episode
        -- is scored without a walk through the index; and who the neighbours are.
        CREATE TABLE keyword_docs (
            id INTEGER PRIMARY KEY,
            own INTEGER NOT NULL,
            hashes BLOB NOT NULL,
            near BLOB NOT NULL                     -- ids, 64 bits each
        ) STRICT;
        """
    )


def _second(connection: apsw.Connection) -> None:
    """Entities with a home and several names, their vectors; tokens; the threads of OpenAI-compatible clients."""
    connection.execute(
        """
        DROP TABLE mentions;
        DROP TABLE entities;
        CREATE TABLE entities (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            project_id INTEGER REFERENCES projects ON DELETE CASCADE,
            session_id INTEGER REFERENCES sessions ON DELETE CASCADE,  -- of one without a project
            type TEXT NOT NULL,
            description TEXT NOT NULL DEFAULT '',
            CHECK (project_id IS NULL OR session_id IS NULL)
        ) STRICT;
        CREATE INDEX entity_project ON entities (project_id);
        CREATE INDEX entity_session ON entities (session_id);

        CREATE TABLE entity_names (
            entity_id INTEGER NOT NULL REFERENCES entities ON DELETE CASCADE,
            folded TEXT NOT NULL,                  -- what names are compared by
            name TEXT NOT NULL,
            key TEXT NOT NULL,                     -- the term by which texts that may hold the name are looked up
            alias INTEGER NOT NULL,                -- 0 for the one that is shown, then the others in order
            PRIMARY KEY (entity_id, folded)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX entity_name_folded ON entity_names (folded);
        CREATE INDEX entity_name_key ON entity_names (key);

        CREATE TABLE mentions (
            entity_id INTEGER NOT NULL REFERENCES entities ON DELETE CASCADE,
            episode_id INTEGER NOT NULL REFERENCES episodes ON DELETE CASCADE,
            PRIMARY KEY (entity_id, episode_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX mention_episode ON mentions (episode_id);

        CREATE TABLE entity_vectors (
            entity_id INTEGER NOT NULL REFERENCES entities ON DELETE CASCADE,
            model_id INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
            vector BLOB NOT NULL,                  -- float16
            PRIMARY KEY (entity_id, model_id)
        ) STRICT, WITHOUT ROWID;

        -- What entity search keeps in memory is made anew when this has changed.
        INSERT INTO counters VALUES ('entities_changed', 0);
        """
    )
    for table in ("entities", "entity_names", "entity_vectors"):
        for event in ("INSERT", "UPDATE", "DELETE"):
            connection.execute(
                f"""CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON {table} BEGIN
                    UPDATE counters SET value = value + 1 WHERE name = 'entities_changed';
                END"""
            )
    connection.execute(
        """
        -- Which session a conversation goes on in, by a digest of all that was said in it so far.
        CREATE TABLE threads (
            digest TEXT PRIMARY KEY,
            session_id INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX thread_session ON threads (session_id);

        CREATE TABLE tokens (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            digest TEXT NOT NULL UNIQUE,           -- SHA-256; the token itself is kept nowhere
            project_id INTEGER REFERENCES projects ON DELETE CASCADE,  -- NULL: not bound to one
            created INTEGER NOT NULL
        ) STRICT;
        """
    )


def _third(connection: apsw.Connection) -> None:
    """Indexes outside the file, what they have still to be told, and the sums of vectors by scope."""
    connection.execute(
        """
        -- What this store is known by where several share a server.
        CREATE TABLE identity (uid TEXT NOT NULL) STRICT;
        INSERT INTO identity VALUES (lower(hex(randomblob(8))));

        CREATE TABLE targets (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            engine TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('vectors', 'words')),
            model_id INTEGER REFERENCES models ON DELETE CASCADE,      -- of vectors
            options TEXT NOT NULL,                 -- JSON: how it was made; another way makes another target
            collection TEXT NOT NULL UNIQUE,       -- its name where it is
            length REAL NOT NULL,                  -- terms of an average episode when it was begun
            serves INTEGER NOT NULL DEFAULT 0,     -- 1 once it has all that was there when it was begun
            CHECK ((kind = 'vectors') = (model_id IS NOT NULL))
        ) STRICT;

        -- Which points of a target are to be made what the file says now: there with these words, or gone.
        CREATE TABLE outbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            target_id INTEGER NOT NULL REFERENCES targets ON DELETE CASCADE,
            point INTEGER NOT NULL,                -- vectors.id, or episodes.id for words
            since INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
            UNIQUE (target_id, point)
        ) STRICT;

        -- The sum of a model's vectors in the store (kind 0), a project (1; 0 for none) or a session (2).
        CREATE TABLE vector_sums (
            model_id INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
            kind INTEGER NOT NULL,
            of INTEGER NOT NULL,
            count INTEGER NOT NULL,
            total BLOB NOT NULL,                   -- float32
            UNIQUE (model_id, kind, of)
        ) STRICT;
        """
    )
    for table, event, row, point, which in (
        ("vectors", "INSERT", "NEW", "id", "kind = 'vectors' AND model_id = NEW.model_id"),
        ("vectors", "DELETE", "OLD", "id", "kind = 'vectors' AND model_id = OLD.model_id"),
        ("episodes", "INSERT", "NEW", "id", "kind = 'words'"),
        ("episodes", "UPDATE OF content", "NEW", "id", "kind = 'words'"),
        ("episodes", "DELETE", "OLD", "id", "kind = 'words'"),
    ):
        connection.execute(
            f"""CREATE TRIGGER outbox_{table}_{event.split()[0].lower()} AFTER {event} ON {table} BEGIN
                INSERT OR REPLACE INTO outbox (target_id, point)
                SELECT id, {row}.{point} FROM targets WHERE {which};
            END"""
        )
    from twofold.store import vectors  # numpy is needed where there are vectors of before

    vectors.sum_again(connection)


def _fourth(connection: apsw.Connection) -> None:
    """What users said of recalled episodes."""
    connection.execute(
        """
        CREATE TABLE feedback (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            query TEXT NOT NULL,
            project_id INTEGER REFERENCES projects ON DELETE CASCADE,  -- where it was asked; NULL for everywhere
            session_id INTEGER REFERENCES sessions ON DELETE CASCADE,
            episode_id INTEGER NOT NULL REFERENCES episodes ON DELETE CASCADE,
            useful INTEGER NOT NULL CHECK (useful IN (0, 1)),
            time INTEGER NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX feedback_once
            ON feedback (query, ifnull(project_id, 0), ifnull(session_id, 0), episode_id);
        CREATE INDEX feedback_project ON feedback (project_id);
        CREATE INDEX feedback_session ON feedback (session_id);
        CREATE INDEX feedback_episode ON feedback (episode_id);
        """
    )


def _fifth(connection: apsw.Connection) -> None:
    """The last runs of eval and tune."""
    connection.execute(
        """
        CREATE TABLE runs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL CHECK (kind IN ('eval', 'tune')),
            time INTEGER NOT NULL,
            report TEXT NOT NULL                   -- JSON
        ) STRICT;
        """
    )


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (_first, _second, _third, _fourth, _fifth)
