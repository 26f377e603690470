"""Keys to the service. `memory.tokens` keeps them; of each only a digest is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from twofold import messages as incoming
from twofold.errors import Conflict, NotFound
from twofold.scopes import Reach
from twofold.store import Store, rows
from twofold.store import tokens as stored
from twofold.types import Token

PREFIX = "twofold_"  # so that a lost one is known for what it is
BYTES = 32


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token opens: the project of that id, or everything."""

    project: int | None


class Tokens:
    """The tokens of a store. Only for a door that opens on everything: raises NotAllowed on others."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach

    def add(self, name: str, *, project: str | None = None) -> tuple[Token, str]:
        """A new token and its secret, which is shown this once. Raises Conflict, InvalidInput, NotFound."""
        self._reach.must_be_whole("make tokens")
        incoming.name("token", name)
        import secrets  # late, as hmac and hashlib are: they load OpenSSL, which a recall has no need of

        secret = PREFIX + secrets.token_urlsafe(BYTES)
        with self._store.write() as db:
            project_id = self._reach.project_id(db, project)
            made = stored.add(db, name, _digest(secret), project_id, rows.microseconds(datetime.now(timezone.utc)))
            if made is None:
                raise Conflict(f"there is a token {name!r} already; take another name or remove it")
            return made, secret

    def list(self) -> list[Token]:
        """All tokens, the oldest first."""
        self._reach.must_be_whole("list tokens")
        with self._store.read() as db:
            return stored.all_of_them(db)

    def remove(self, name: str) -> None:
        """Take a token back; it opens nothing from now on. Raises NotFound."""
        self._reach.must_be_whole("remove tokens")
        incoming.name("token", name)
        with self._store.write() as db:
            if not stored.remove(db, name):
                raise NotFound(f"there is no token {name!r}; list them with: twofold token list")

    def grant(self, secret: str) -> Grant | None:
        """What a secret opens; None where it is no token of this store. Takes as long for any wrong one."""
        import hmac

        digest = _digest(secret)
        found = None
        with self._store.read() as db:
            for known, project in stored.digests(db):
                if hmac.compare_digest(known, digest):
                    found = Grant(project)
        return found

    def exist(self) -> bool:
        """Whether the store has any token."""
        with self._store.read() as db:
            return bool(stored.digests(db))


def _digest(secret: str) -> str:
    import hashlib

    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
