"""Which episodes name which entities: always what the texts say now.

A name counts as mentioned where it stands in the text as words of its own, whatever its case or diacritics.
One of its terms, its key, says which texts may hold it, so that thousands of names cost little. A name of stop
words alone (`It`, `The Who`) has no key and is never linked: it would be found in nearly every text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import apsw

from twofold.keyword import KeywordIndex
from twofold.store import entities as stored
from twofold.store.entities import Home, Name
from twofold.text import fold, index_terms, query_terms, stands_in
from twofold.types import Scope

MOST_LINKED = 50_000  # stored episodes, best first, that are read for one name of a new entity


def name(text: str) -> Name:
    """A name as it is kept."""
    folded = fold(text)
    return Name(text, folded, max(words(folded), key=len, default=""))


def words(folded: str) -> list[str]:
    """The terms of a name that stand for single words; every text in which it stands has them all.

    Of a compound the parts alone: its own term depends on what it is part of, as `acme/web` in `acme/web/api`.
    """
    return [term for term in query_terms(folded) if not set(term) & set("_+#")]


def unlink(db: apsw.Connection, episodes: Sequence[int]) -> None:
    """Forget what these episodes mention."""
    stored.put_mentions(db, episodes, [])


def link(db: apsw.Connection, episodes: Sequence[int]) -> None:
    """Make the mentions of these episodes what their texts say now."""
    if not episodes or not stored.exist(db):
        return
    said = [(id_, _homes(session, project), content) for id_, session, project, content in stored.said(db, episodes)]
    homes = {home for _, known, _ in said for home in known}
    if not stored.live_in(db, homes):
        return
    terms = {id_: set(index_terms(content)) for id_, _, content in said}
    names: dict[str, list[tuple[str, int, Home]]] = defaultdict(list)
    for key, folded, entity, project, session in stored.named_by(db, set().union(*terms.values()), homes):
        names[key].append((folded, entity, Home(project, session)))
    mentions = []
    for id_, known, content in said:
        possible = [one for key in terms[id_] & names.keys() for one in names[key] if one[2] in known]
        text = fold(content) if possible else ""
        mentions += [(entity, id_) for entity in {entity for name, entity, _ in possible if stands_in(name, text)}]
    stored.put_mentions(db, episodes, mentions)


def link_entity(db: apsw.Connection, keyword: KeywordIndex, entity: int, home: Home) -> None:
    """Make the mentions of an entity what the stored episodes of its home say, of any name MOST_LINKED at most."""
    scope = _scope(db, home)
    found: set[int] = set()
    for folded, key in stored.names_of(db, entity):
        if key:
            candidates = [id_ for id_, _ in keyword.search([key], scope, (), MOST_LINKED).ranking]
            found |= {id_ for id_, _, _, content in stored.said(db, candidates) if stands_in(folded, fold(content))}
    stored.put_mentions_of(db, entity, sorted(found))


def _homes(session: int, project: int | None) -> tuple[Home, ...]:
    """The homes whose entities a session's episodes may name."""
    return (Home(project=project),) if project is not None else (Home(session=session), Home())


def _scope(db: apsw.Connection, home: Home) -> Scope:
    """Where the episodes are that may name the entities of a home."""
    if home.project is not None:
        return Scope("project", (home.project,))
    sessions = [home.session] if home.session is not None else stored.sessions_without_project(db)
    return Scope("sessions", tuple(sessions))
