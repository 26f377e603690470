"""Brings whole histories in: files and folders of any kind, their messages and the named things that they describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from twofold.errors import Conflict, ImportFailed, InvalidInput, NotFound
from twofold.importers import Found, Losses, read
from twofold.memory import Memory
from twofold.text import fold
from twofold.types import Entity, ImportReport, LossReport, Message
from twofold.writer import Progress

Reading = Callable[[int, int], None]  # messages taken and bytes read so far


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be taken of files, and how they are read.

    `kind` is one of `importers.KINDS`, None to see it from the content; `project` takes all sessions; what was said
    before `since` is left out; `all_branches` takes the abandoned branches of edited conversations as well.
    """

    kind: str | None = None
    project: str | None = None
    since: datetime | None = None
    all_branches: bool = False


@dataclass(frozen=True, slots=True)
class Brought:
    """What came in, what did not, how many entities are new or changed, and why reading ended early, if it did."""

    report: ImportReport
    losses: LossReport
    entities: int
    failed: str | None


def messages(paths: Sequence[Path], wanted: Wanted, losses: Losses) -> Iterator[Message]:
    """Yield what is wanted of the messages of files and folders. Raises ImportFailed."""
    for path in paths:
        found = read(path, losses, kind=wanted.kind, all_branches=wanted.all_branches)
        for message in _since(found, wanted.since, losses) if wanted.since else found:
            yield replace(message, project=wanted.project) if wanted.project else message


def bring_in(
    memory: Memory,
    paths: Sequence[Path],
    wanted: Wanted,
    *,
    dry_run: bool = False,
    embed: bool = True,
    reading: Reading | None = None,
    embedding: Progress | None = None,
) -> Brought:
    """Import files and folders; what was read before a fault stays, and importing again doubles nothing.

    `reading` is told of the progress, `embedding` of the vectors' as in `Memory.import_`. Raises ImportFailed where
    nothing could be read at all.
    """
    losses = Losses()
    failures: list[ImportFailed] = []
    report = memory.import_(
        _until_failure(messages(paths, wanted, losses), failures),
        progress=(lambda taken: reading(taken, losses.bytes)) if reading else None,
        embed=embed,
        embedding=embedding,
        dry_run=dry_run,
    )
    if failures and not losses.messages:
        raise failures[0]
    if dry_run:
        return Brought(report, losses.report(), len(losses.entities), str(failures[0]) if failures else None)
    _put_empty(memory, losses, wanted.project)
    entities = _put_entities(memory, losses, wanted.project)
    memory.feedback.bring(
        replace(word, message=replace(word.message, project=wanted.project)) if wanted.project else word
        for word in losses.said
    )
    return Brought(report, losses.report(), entities, str(failures[0]) if failures else None)


def _until_failure(found: Iterable[Message], failures: list[ImportFailed]) -> Iterator[Message]:
    """Yield messages as long as they can be read, so that those before a fault are stored."""
    try:
        yield from found
    except ImportFailed as error:
        failures.append(error)


def _since(found: Iterable[Message], since: datetime, losses: Losses) -> Iterator[Message]:
    """Yield the messages from a time on; one without a time is as old as the one before it in its session."""
    last: tuple[str | None, str, datetime | None] = (None, "", None)
    for message in found:
        known = last[2] if last[:2] == (message.project, message.session) else None
        last = (message.project, message.session, message.time or known)
        if last[2] is None or last[2] >= since:
            yield message
        else:
            losses.skip(f"message before {since:%Y-%m-%d} (left out)")


def _put_empty(memory: Memory, losses: Losses, project: str | None) -> None:
    """Make the projects and sessions in which nothing was said, as far as they are not there."""
    for empty in losses.empty:
        with suppress(Conflict):
            if empty.session:
                memory.catalog.add_session(empty.session, project=project or empty.project, title=empty.title)
            elif not project and empty.project and not memory.is_bound:  # whose project is there
                memory.catalog.add_project(empty.project)


def _put_entities(memory: Memory, losses: Losses, project: str | None) -> int:
    """Add what a history describes by name, or give it the description that it has now; returns how many changed."""
    homes: dict[tuple[str | None, int | None], dict[tuple[str, str], Entity]] = {}
    changed = 0
    for found in losses.entities:
        try:
            home = _home(memory, found, project)
            known = homes.get(home) or homes.setdefault(home, _known(memory, *home))
            before = known.get((found.type, fold(found.name)))
            if before is None:
                memory.entities.add(
                    found.name,
                    found.type,
                    description=found.description,
                    aliases=found.aliases,
                    project=home[0],
                    session=home[1],
                )
                changed += 1
            elif before.description != found.description.strip():
                memory.entities.change(before.id, description=found.description)
                changed += 1
        except (Conflict, InvalidInput) as error:
            losses.skip(f"entity {_shown(found)}: {error}")
    return changed


def _home(memory: Memory, found: Found, project: str | None) -> tuple[str | None, int | None]:
    """The project that an entity belongs to, or the id of the session; neither where it belongs to none."""
    if project or found.project or not found.session:
        return project or found.project, None
    session = memory.catalog.find_session(found.session) or memory.catalog.add_session(found.session)
    return None, session.id


def _known(memory: Memory, project: str | None, session: int | None) -> dict[tuple[str, str], Entity]:
    """The entities of a project, of a session, or those that belong to none, by type and each of their names."""
    known: dict[tuple[str, str], Entity] = {}
    after: str | None = None
    while True:
        try:
            page = memory.entities.page(project=project, session=session, after=after)
        except NotFound:  # nothing was stored for the project yet
            return known
        for entity in page.items:
            if entity.project == project and entity.session_id == session:
                known |= {(entity.type, fold(name)): entity for name in (entity.name, *entity.aliases)}
        after = page.next
        if after is None:
            return known


def _shown(found: Found) -> str:
    return repr(found.name[:40])
