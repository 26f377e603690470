"""What users say of what was recalled: useful or not. `memory.feedback` keeps it, and `tune` learns from it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from twofold import messages as incoming
from twofold.errors import InvalidInput, NotFound
from twofold.pages import PAGE, Page, cursor, one_more, paged
from twofold.scopes import Reach
from twofold.store import Store, rows, sources
from twofold.store import feedback as stored
from twofold.types import Judgement, Said


class Feedback:
    """The words of users on hits, within the reach of the door it belongs to."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach

    def add(
        self, query: str, episode: int, useful: bool, *, session: str | None = None, project: str | None = None
    ) -> Judgement:
        """Say whether an episode was useful to a query that was asked in a session, a project, or everywhere.

        A later word on the same takes the place of the earlier. Raises InvalidInput, and NotFound for what is not
        in that scope.
        """
        incoming.content("the query", query)
        if not isinstance(useful, bool):
            raise InvalidInput(f"useful is {str(useful)[:40]!r}; give true or false")
        with self._store.write() as db:
            scope = self._reach.resolve(db, session, project)
            self._reach.episode(db, episode)
            if not rows.sees(db, scope, episode):
                raise NotFound(f"there is no episode {episode} in this scope; recall and show print the ids")
            in_project, in_session = (scope.ids[0] if scope.kind == "project" else None), None
            if scope.kind == "sessions":
                in_session = scope.ids[0]
                in_project = rows.project_of_session(db, in_session)
            now = rows.microseconds(datetime.now(timezone.utc))
            return self._get(stored.put(db, query, (in_project, in_session), episode, useful, now))

    def bring(self, words: Iterable[Said]) -> int:
        """Keep what was said of messages in another store, now that they are in this one; how many words were new."""
        count = 0
        with self._store.write() as db:
            for word in words:
                project = self._reach.project_id(db, word.message.project) if word.message.project else None
                session = rows.session_id(db, word.message.session, project)
                episode = None if session is None else sources.find(db, session, word.message)
                if session is None or episode is None:
                    continue
                places = {"everywhere": (None, None), "project": (project, None), "session": (project, session)}
                time = rows.microseconds(word.time)
                count += stored.bring(db, word.query, places[word.place], episode, word.useful, time)
        return count

    def page(self, *, project: str | None = None, after: str | None = None, limit: int = PAGE) -> Page[Judgement]:
        """What was said in a project, or all, the newest first."""
        with self._store.read() as db:
            before = cursor(after, (int,))
            project_id = self._reach.project_id(db, project)
            found = stored.before(db, project_id, before and before[0], one_more(limit))
        return paged(found, limit, lambda said: [said.id])

    def remove(self, id_: int) -> None:
        """Take a word back. Raises NotFound."""
        with self._store.write() as db:
            self._get(id_)
            stored.remove(db, id_)

    def _get(self, id_: int) -> Judgement:
        incoming.ids("feedback", [id_])
        with self._store.read() as db:
            found = stored.get(db, id_, self._reach.only)
        if found is None:
            raise NotFound(f"there is no feedback {id_}; list it with: twofold feedback list")
        return found
