"""Sessions and projects as resources, and the prompt that asks what is remembered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import mcp_types as types

from twofold import export
from twofold.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twofold.mcp_server.tools import Here
    from twofold.memory import Memory

LISTED = 50  # sessions, the ones that spoke last
MOST_TEXT = 400_000  # characters of a resource
SCHEME = "twofold://"

TEMPLATES = (
    types.ResourceTemplate(
        name="session",
        uri_template=SCHEME + "session/{id}",
        description="A whole conversation, by its id",
        mime_type="text/markdown",
    ),
    types.ResourceTemplate(
        name="project",
        uri_template=SCHEME + "project/{name}",
        description="The sessions and entities of a project",
        mime_type="text/markdown",
    ),
)
PROMPT = types.Prompt(
    name="what_do_you_remember",
    title="What do you remember about ...",
    description="Ask the memory about something, and have the answer told",
    arguments=[types.PromptArgument(name="about", description="A person, a project, a question", required=True)],
)


def listed(memory: Memory) -> list[types.Resource]:
    """The projects, and the sessions that spoke last."""
    found = [
        types.Resource(
            name=one.name,
            uri=f"{SCHEME}project/{quote(one.name, safe='')}",
            description=f"Project with {one.sessions} sessions",
            mime_type="text/markdown",
        )
        for one in memory.projects()
    ]
    return found + [
        types.Resource(
            name=one.title or one.name,
            uri=f"{SCHEME}session/{one.id}",
            description=f"Session with {one.episodes} messages" + (f", project {one.project}" if one.project else ""),
            mime_type="text/markdown",
        )
        for one in memory.catalog.sessions(limit=LISTED).items
    ]


def read(memory: Memory, uri: str) -> str:
    """A resource as Markdown. Raises NotFound and InvalidInput."""
    kind, _, name = str(uri).removeprefix(SCHEME).partition("/")
    name = unquote(name)
    if not str(uri).startswith(SCHEME) or kind not in ("session", "project") or not name:
        raise InvalidInput(f"there is no resource {str(uri)[:80]!r}; give {SCHEME}session/ID or {SCHEME}project/NAME")
    return _session(memory, name) if kind == "session" else _project(memory, name)


def prompt(here: Here, about: str) -> str:
    """The question with what memory has on it. Raises InvalidInput."""
    if not about.strip():
        raise InvalidInput("about is empty; give what to look for: a person, a project, a question")
    made = here.memory.context(about, project=here.project, zone=here.zone)
    found = made.text or "Nothing in the memory fits it."
    return f"What do you remember about {about.strip()}? Answer from this memory, and say what is not in it.\n\n{found}"


def _session(memory: Memory, number: str) -> str:
    if not (number.isascii() and number.isdecimal() and len(number) <= 18):
        raise NotFound(f"there is no session {number[:40]!r}; list_sessions gives the ids")
    session = memory.catalog.session(int(number))
    records = memory.archive.export(session=session.name, project=session.project)
    return _within_bounds(export.text(records, "markdown"))


def _project(memory: Memory, name: str) -> str:
    sessions = memory.catalog.sessions(name, limit=LISTED).items
    lines = [f"# {name}", "", "## Sessions", ""]
    lines += [f"- {one.title or one.name} ({one.episodes} messages): {SCHEME}session/{one.id}" for one in sessions]
    entities = memory.entities.page(project=name, limit=LISTED).items
    lines += ["", "## Entities", ""] if entities else []
    lines += [f"- {one.name} ({one.type}): {one.description}" for one in entities]
    return "\n".join(lines) + "\n"


def _within_bounds(pieces: Iterable[str]) -> str:
    held, size = [], 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > MOST_TEXT:
            held.append("\n… the rest is left out; recall finds parts of it, get gives single messages\n")
            break
    return "".join(held)
