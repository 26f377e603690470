"""A user's own judged queries: a JSONL file with a query and what answers it on each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold import messages as incoming
from twofold.errors import ImportFailed, InvalidInput
from twofold.feedback import Feedback
from twofold.importers.files import numbered_lines
from twofold.pages import MOST_PAGE

SHAPE = '{"query": "...", "episodes": [12, 40]} or {"query": "...", "sources": ["..."]}'


@dataclass(frozen=True, slots=True)
class Judged:
    """A query, the episodes that answer it (by id or by source), and where they are looked for.

    `place` is where it was read, for messages.
    """

    query: str
    episodes: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    session: str | None = None
    project: str | None = None
    place: str = "a judged query"


@dataclass(frozen=True, slots=True)
class Heard:
    """The judged queries in feedback; how many had nothing useful and are left out, how often a hit was useless."""

    queries: tuple[Judged, ...]
    left_out: int
    useless: int


def read(path: Path, project: str | None = None) -> Iterator[Judged]:
    """The judged queries of a file; `project` is that of the lines that name none.

    Raises ImportFailed naming file and line.
    """
    for place, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise ImportFailed(f"{place}: not JSON; write {SHAPE}") from None
        if not isinstance(row, dict):
            raise ImportFailed(f"{place}: {line[:40]!r} is no object; write {SHAPE}")
        try:
            yield _judged(place, {"project": project} | row)
        except InvalidInput as error:
            raise ImportFailed(f"{place}: {error}") from None


def of_feedback(feedback: Feedback, project: str | None = None) -> Heard:
    """What users said of hits as judged queries: of those that were asked in a project, or of all.

    The episodes found useful answer a query. One found useless is known not to, which is what any other is taken
    for as well. Raises NotFound.
    """
    useful: dict[tuple[str, str | None, str | None], list[int]] = {}
    useless = 0
    after: str | None = None
    while True:
        page = feedback.page(project=project, after=after, limit=MOST_PAGE)
        for said in page.items:
            found = useful.setdefault((said.query, said.session, said.project), [])
            if said.useful:
                found.append(said.episode)
            else:
                useless += 1
        after = page.next
        if after is None:
            break
    queries = tuple(
        Judged(query, tuple(sorted(episodes)), (), session, project, f"the feedback on {query[:40]!r}")
        for (query, session, project), episodes in useful.items()
        if episodes
    )
    return Heard(queries, len(useful) - len(queries), useless)


def _judged(place: str, row: dict[str, Any]) -> Judged:
    query = row.get("query")
    if not isinstance(query, str):
        raise InvalidInput(f"there is no query, a text; write {SHAPE}")
    incoming.content("the query", query)
    for scope in ("session", "project"):
        if row.get(scope) is not None:
            incoming.name(scope, row[scope])
    given = [key for key in ("episodes", "sources") if row.get(key) is not None]
    if len(given) != 1:
        raise InvalidInput(f"give either episodes or sources; write {SHAPE}")
    values = row[given[0]]
    if not isinstance(values, list) or not values:
        raise InvalidInput(f"{given[0]} is {str(values)[:40]!r}; give a list of at least one")
    if given == ["sources"]:
        for source in values:
            incoming.name("source", source)
        return Judged(query, (), tuple(values), row.get("session"), row["project"], place)
    return Judged(query, incoming.ids("episodes", values), (), row.get("session"), row["project"], place)
