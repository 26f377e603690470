"""Which session a conversation goes on in, for clients that send all of it each time and no name. In `threads`."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.scopes import Reach
from twofold.store import Store, rows
from twofold.store import threads as stored
from twofold.types import Session

Said = Sequence[tuple[str, ...]]  # of each message the role and what else tells it from others, oldest first


class Threads:
    """Conversations by all that was said in them so far, within the reach of a door.

    A session is known by all that was said up to its last answer, and whoever goes on in it takes that away: of two
    conversations that begin alike and then differ, the second finds nothing and gets a session of its own.
    """

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach

    def take(self, said: Said, project: str | None) -> Session | None:
        """The session of that project, or without one, that ends with what was said; it is then known no longer.

        Whoever takes it puts it back, with what was said since. Raises NotFound for a project out of reach.
        """
        with self._store.read() as db:
            home = self._reach.only
            if project and home is None:
                home = rows.project_id(db, project)
                if home is None:
                    return None
            elif project:
                home = self._reach.project_id(db, project)
            digest = _digest(home, said)
            if not stored.known(db, digest):
                return None
        with self._store.write() as db:
            found = stored.take(db, digest, home)
            return None if found is None else rows.session(db, found)

    def put(self, said: Said, session: int) -> None:
        """From now on the conversation in which this was said goes on in that session, if it is still there."""
        with self._store.write() as db:
            stored.put(db, _digest(rows.project_of_session(db, session), said), session)


def _digest(project: int | None, said: Said) -> str:
    from hashlib import sha256  # loads OpenSSL, which a recall has no need of

    link = sha256(str(project or "").encode()).digest()
    for fields in said:
        step = sha256(link)
        for field in fields:
            data = field.encode("utf-8", "surrogatepass")
            step.update(len(data).to_bytes(8, "big"))
            step.update(data)
        link = step.digest()
    return link.hex()
