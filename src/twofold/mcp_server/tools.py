"""The tools: what an agent may do with a memory, few and short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from twofold import dates, quoting
from twofold.errors import InvalidInput, NotFound
from twofold.mcp_server import shapes
from twofold.messages import zone as zone_of
from twofold.text import query_terms
from twofold.types import Episode

if TYPE_CHECKING:
    from twofold.memory import Memory

Arguments = TypeVar("Arguments", bound=BaseModel)
Work = Callable[["Here", Any], "BaseModel | dict[str, Any]"]

SNIPPET = 60  # tokens of a hit; the whole is one call away
PART = 8_000  # characters that `get` gives at once
FETCHED = 100_000  # characters that `fetch` gives, which has no parts
NOTES = "notes"  # the session of what is remembered without one
HITS, SESSIONS, ENTITIES = 8, 20, 10
TITLE = 80  # characters of a title in search


@dataclass(frozen=True, slots=True)
class Here:
    """What a call is about: the memory that it may see, and the project and the zone where it names none.

    Without a zone it is that of this machine for a client on it, and UTC for one that came over the network.
    """

    memory: Memory
    project: str | None = None
    zone: str | None = None
    local: bool = True

    def place(self, project: str | None) -> str | None:
        """The project that is meant."""
        return project or self.project

    def now(self, zone: str | None) -> datetime:
        """The time where the user is. Raises InvalidInput for a zone that is none."""
        name = zone or self.zone
        return datetime.now().astimezone() if self.local and not name else datetime.now(zone_of(name))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what it is called and for, its shapes, its work, and what a client may be told of its effects."""

    name: str
    title: str
    description: str
    takes: type[BaseModel]
    gives: type[BaseModel] | None
    work: Work
    reads: bool = True
    destroys: bool = False
    idempotent: bool = True


def remember(here: Here, asked: shapes.RememberIn) -> shapes.Remembered:
    metadata = {"tags": asked.tags} if asked.tags else {}
    kept = here.memory.add(
        asked.text,
        role="assistant",
        session=asked.session or NOTES,
        project=here.place(asked.project),
        metadata=metadata,
    )
    return shapes.Remembered(project=kept.project, id=kept.id, session=kept.session)


def recall(here: Here, asked: shapes.RecallIn) -> shapes.Recalled:
    now = here.now(asked.zone)
    project = here.place(asked.project)
    found = here.memory.recall(
        asked.query,
        session=asked.session,
        project=project,
        limit=asked.limit or HITS,
        zone=asked.zone or here.zone,
        since=dates.moment("since", asked.since, now),
        before=dates.moment("before", asked.before, now),
    )
    terms = query_terms(asked.query)
    return shapes.Recalled(
        project=_seen(here, project),
        session=asked.session,
        hits=[_hit(hit.episode, terms) for hit in found.hits],
        degraded=dict(found.degraded),
    )


def context(here: Here, asked: shapes.ContextIn) -> shapes.ContextOut:
    project = here.place(asked.project)
    made = here.memory.context(asked.message, session=asked.session, project=project, zone=asked.zone or here.zone)
    return shapes.ContextOut(
        project=_seen(here, project),
        session=asked.session,
        text=made.text,
        recent=[_hit(episode, ()) for episode in made.recent],
        tokens=made.tokens,
        degraded=dict(made.degraded),
    )


def get(here: Here, asked: shapes.GetIn) -> shapes.Got:
    (episode,) = here.memory.show(episode=asked.id)
    start = asked.start or 0
    if start and start >= len(episode.content):
        raise InvalidInput(f"start is {start}, the text has {len(episode.content)} characters; begin before its end")
    end = start + PART
    return shapes.Got(
        project=episode.project,
        id=episode.id,
        session=episode.session,
        title=episode.title,
        role=episode.role,
        time=episode.time,
        text=episode.content[start:end],
        start=start,
        next=end if end < len(episode.content) else None,
        tags=_tags(episode),
        metadata={name: value for name, value in episode.metadata.items() if name != "tags"},
    )


def forget(here: Here, asked: shapes.ForgetIn) -> shapes.Forgotten:
    memory = here.memory
    if (asked.id is not None) + (asked.session is not None or asked.project is not None) != 1:
        raise InvalidInput("give what to forget: an id, a session (with its project, if it is in one), or a project")
    project: str | None
    if asked.id is not None:
        (episode,) = memory.show(episode=asked.id)
        count, what, project = 1, f"episode {episode.id} of session {episode.session!r}", episode.project
    elif asked.session is not None:
        project = here.place(asked.project)
        count = len(memory.show(asked.session, project=project))
        what = f"session {asked.session!r}" + (f" of project {project!r}" if project else "")
    else:
        known = next((one for one in memory.projects() if one.name == asked.project), None)
        if known is None:
            raise NotFound(f"there is no project {asked.project!r}; list_sessions names the projects")
        count, what, project = known.episodes, f"project {known.name!r} with {known.sessions} sessions", known.name
    if asked.confirm:
        memory.forget(episode=asked.id, session=asked.session, project=None if asked.id is not None else project)
    return shapes.Forgotten(
        project=project, forgotten=count if asked.confirm else 0, would_forget=0 if asked.confirm else count, what=what
    )


def list_sessions(here: Here, asked: shapes.ListIn) -> shapes.Sessions:
    project = here.place(asked.project)
    page = here.memory.catalog.sessions(project, after=asked.after, limit=asked.limit or SESSIONS)
    rows = [
        shapes.SessionRow(
            id=one.id, name=one.name, title=one.title, project=one.project, episodes=one.episodes, last=one.last
        )
        for one in page.items
    ]
    return shapes.Sessions(project=_seen(here, project), sessions=rows, next=page.next)


def entities(here: Here, asked: shapes.EntitiesIn) -> shapes.EntitiesOut:
    project, limit = here.place(asked.project), asked.limit or ENTITIES
    degraded: Mapping[str, str] = {}
    if asked.query:
        found = here.memory.entities.search(asked.query, project=project, limit=limit)
        known, degraded = [hit.entity for hit in found.hits], found.degraded
    else:
        known = list(here.memory.entities.page(project=project, limit=limit).items)
    rows = [
        shapes.EntityRow(
            id=one.id,
            name=one.name,
            type=one.type,
            description=one.description,
            aliases=list(one.aliases),
            mentions=one.mentions,
        )
        for one in known
    ]
    return shapes.EntitiesOut(project=_seen(here, project), entities=rows, degraded=dict(degraded))


def search(here: Here, asked: shapes.SearchIn) -> dict[str, Any]:
    found = here.memory.recall(asked.query, project=here.project, limit=10, zone=here.zone)
    return {"results": [_result(hit.episode) for hit in found.hits]}


def fetch(here: Here, asked: shapes.FetchIn) -> dict[str, Any]:
    number = str(asked.id).strip()
    if not (number.isascii() and number.isdecimal() and len(number) <= 18):
        raise NotFound(f"there is no {number[:40]!r}; fetch takes the ids that search gives")
    (episode,) = here.memory.show(episode=int(number))
    metadata = {
        "session": episode.session,
        "role": episode.role,
        "time": episode.time.isoformat(),
        **({"project": episode.project} if episode.project else {}),
        **({"cut": f"{FETCHED} of {len(episode.content)} characters"} if len(episode.content) > FETCHED else {}),
    }
    return {**_result(episode), "text": episode.content[:FETCHED], "metadata": metadata}


def _result(episode: Episode) -> dict[str, Any]:
    return {"id": str(episode.id), "title": _title(episode), "url": f"twofold://episode/{episode.id}"}


def _title(episode: Episode) -> str:
    first = " ".join(episode.content.split())
    words = first if len(first) <= TITLE else first[: TITLE - 1].rstrip() + "…"
    return f"{episode.title or episode.session}, {episode.time:%Y-%m-%d}: {words}"


def _hit(episode: Episode, terms: list[str] | tuple[str, ...]) -> shapes.Hit:
    text = quoting.excerpt(episode.content, terms, SNIPPET)
    return shapes.Hit(
        id=episode.id,
        project=episode.project,
        session=episode.session,
        role=episode.role,
        time=episode.time,
        text=text,
        cut=text != episode.content,
        tags=_tags(episode),
    )


def _tags(episode: Episode) -> list[str]:
    tags = episode.metadata.get("tags")
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def _seen(here: Here, project: str | None) -> str | None:
    """The project that was looked at: of a door on one project that one, whatever was named."""
    if project is None and here.memory.is_bound:
        return here.memory.projects()[0].name
    return project


TOOLS = (
    Tool(
        "remember",
        "Remember",
        "Store something for later conversations: a fact, a decision, a preference, what was done. One thing a call.",
        shapes.RememberIn,
        shapes.Remembered,
        remember,
        reads=False,
        idempotent=False,
    ),
    Tool(
        "recall",
        "Recall",
        "Find what was said or remembered before, by meaning and by word, best first. Ask before you say that you do "
        "not know something about the user or earlier work. Hits are short parts; get gives the whole of one.",
        shapes.RecallIn,
        shapes.Recalled,
        recall,
    ),
    Tool(
        "context",
        "Context for a message",
        "All that memory has for answering one message: matching passages with what stood around them, and entities, "
        "as one quoted text.",
        shapes.ContextIn,
        shapes.ContextOut,
        context,
    ),
    Tool("get", "Get one", "The whole text of one episode, in parts if it is long.", shapes.GetIn, shapes.Got, get),
    Tool(
        "forget",
        "Forget",
        "Delete one episode, a session or a project, for good. Call it without confirm first, show the user what would "
        "be deleted, and repeat it with confirm once they agree.",
        shapes.ForgetIn,
        shapes.Forgotten,
        forget,
        reads=False,
        destroys=True,
    ),
    Tool(
        "list_sessions",
        "List sessions",
        "The conversations that are stored, the one that spoke last first.",
        shapes.ListIn,
        shapes.Sessions,
        list_sessions,
    ),
    Tool(
        "entities",
        "Entities",
        "People, places, projects and other named things that memory knows, with descriptions.",
        shapes.EntitiesIn,
        shapes.EntitiesOut,
        entities,
    ),
    Tool("search", "Search", "Search the memory; gives ids for fetch.", shapes.SearchIn, None, search),
    Tool("fetch", "Fetch", "The whole of what search found, by its id.", shapes.FetchIn, None, fetch),
)
