"""What the command line prints: lines for a person, or JSON for a program."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import click

from twofold.doctor import Report
from twofold.history import Brought
from twofold.judged import Heard
from twofold.retrieve import Prior
from twofold.settings import SPECS
from twofold.tune import Gain, Tuning
from twofold.types import (
    Context,
    Contribution,
    Episode,
    Explanation,
    Hit,
    Judgement,
    Project,
    Recall,
    Session,
    Status,
)

SNIPPET = 280  # characters of a recalled message that a list shows
RETRIEVERS = ("keyword", "semantic")


def show(value: object, as_json: bool, lines: Callable[[], Iterable[str]]) -> None:
    """Print a value as JSON or as its lines."""
    if as_json:
        click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2))
        return
    for line in lines():
        click.echo(line)


def plain(value: Any) -> Any:
    """A value as JSON has it: records as objects with camelCase keys, times in ISO 8601."""
    if is_dataclass(value):
        return {_camel(field.name): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def count(number: int, noun: str) -> str:
    """`1 episode`, `2 episodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def place(episode: Episode) -> str:
    """Project and session of an episode, the session by its title where it has one."""
    session = f"{episode.title} (session {episode.session_id})" if episode.title else episode.session
    return f"{episode.project} / {session}" if episode.project else session


def episode(one: Episode) -> Iterator[str]:
    """One episode in full."""
    yield f"#{one.id}  {one.time:%Y-%m-%d %H:%M}  {place(one)}  {one.role}"
    yield from (f"    {line}" for line in one.content.splitlines())


def recall(found: Recall) -> Iterator[str]:
    """Hits with their places in both rankings."""
    for retriever, reason in found.degraded.items():
        yield f"({retriever} recall is off: {reason})"
    if not found.hits:
        yield "nothing found"
    yield from hits(found.hits)
    if found.explanation:
        yield from explanation(found.explanation)


def hits(found: Iterable[Hit]) -> Iterator[str]:
    """Each hit with its place in both rankings."""
    for number, hit in enumerate(found, start=1):
        one = hit.episode
        yield f"{number:2}. {hit.score:.4f}  {one.time:%Y-%m-%d}  {place(one)}  {one.role}  #{one.id}"
        given = {contribution.ranking: contribution for contribution in hit.contributions}
        yield "    " + "   ".join(f"{name} {_rank(given.get(name))}" for name in RETRIEVERS)
        words = " ".join(one.content.split())
        yield f"    {words if len(words) <= SNIPPET else words[:SNIPPET].rstrip() + ' …'}"


def context(made: Context) -> Iterator[str]:
    """What a context holds, as an assistant reads it."""
    for part, reason in made.degraded.items():
        yield f"({part} is off: {reason})"
    yield from made.text.splitlines()
    for one in made.recent:
        yield f"{one.role}: {one.content}"
    left = "".join(f", {number} left out as {why}" for why, number in made.left_out.items() if number)
    yield f"{made.tokens:,} of {made.budget:,} tokens{left}"


def _rank(given: Contribution | None) -> str:
    if given is None:
        return "-"
    raw = "" if given.raw is None else f", scored {given.raw:.3g}"
    return f"rank {given.rank}{raw}, gives {given.contribution:.4f}"


def explanation(why: Explanation) -> Iterator[str]:
    """How a query was read, and what each stage did."""
    yield ""
    yield f"query    {why.kind}: looked up {', '.join(why.terms) or 'no words'}" + (
        f"; not in the index or left out {', '.join(why.left_out)}" if why.left_out else ""
    )
    k = "" if why.k is None else f", k {why.k:g}"
    weights = ", ".join(f"{name} {weight:g}" for name, weight in why.weights.items())
    floors = "".join(f", {name} floor {floor:g}" for name, floor in why.floors.items())
    prior = f"; {why.prior} prior" if why.prior else ""
    yield f"fusion   {why.method}{k}: {weights}{floors}{prior}"
    if why.times:
        yield "times    " + ", ".join(f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M %Z}" for start, end in why.times)
    yield "windows  " + ", ".join(f"{name} {size}" for name, size in why.windows.items())
    yield "time     " + ", ".join(f"{stage} {spent:.1f} ms" for stage, spent in why.milliseconds.items())


def sessions(listed: Iterable[Session]) -> Iterator[str]:
    """A line a session."""
    for one in listed:
        name = f"{one.project} / {one.name}" if one.project else one.name
        when = f"{one.first:%Y-%m-%d} to {one.last:%Y-%m-%d}" if one.first and one.last else "empty"
        yield f"{one.id:5}  {name}  {count(one.episodes, 'episode')}, {when}" + (f"  {one.title}" if one.title else "")


def projects(listed: Iterable[Project]) -> Iterator[str]:
    """A line a project."""
    for one in listed:
        yield f"{one.id:5}  {one.name}  {count(one.sessions, 'session')}, {count(one.episodes, 'episode')}"


def brought(done: Brought, dry_run: bool) -> Iterator[str]:
    """What an import did, and everything that it could not take as it stood."""
    report, losses = done.report, done.losses
    yield f"{'would add' if dry_run else 'added'} {count(report.added, 'episode')} in " + "; ".join(
        [
            count(report.sessions, "session"),
            *([f"{report.updated:,} updated"] if report.updated else []),
            f"{report.duplicates:,} were there",
            *([f"{report.kept:,} were edited here and stay so"] if report.kept else []),
        ]
    )
    if done.entities:
        yield f"{'would add or change' if dry_run else 'added or changed'} {done.entities:,} entities"
    span = f", {losses.first:%Y-%m-%d} to {losses.last:%Y-%m-%d}" if losses.first and losses.last else ""
    yield f"read {count(losses.messages, 'message')} of {count(losses.conversations, 'conversation')}{span}"
    for heading, kind in (
        ("not taken", losses.skipped),
        ("kept by name alone", losses.placeholders),
        ("of unknown types", losses.unknown),
        ("taken otherwise than it stood", losses.changed),
    ):
        if kind:
            yield f"{heading}:"
            yield from (f"  {times:,} x {reason}" for reason, times in kind.items())
    if report.waiting and not dry_run:
        yield f"{count(report.waiting, 'episode')} without a vector; make them with: twofold embed"


def settings(values: Mapping[str, object]) -> Iterator[str]:
    """A line a setting, with what it may be."""
    for name, value in values.items():
        known = SPECS[name]
        yield f"{name:15} {value!s:8} {known.description} ({known.allowed})"


def status(state: Status) -> Iterator[str]:
    """What a store holds."""
    yield f"file      {state.path} ({state.bytes / 1e6:.1f} MB, schema {state.schema})"
    yield f"holds     {count(state.projects, 'project')}, {count(state.sessions, 'session')}, " + count(
        state.episodes, "episode"
    )
    yield f"vectors   {state.vectors:,} of {state.model or 'no model'}; {state.waiting:,} waiting"
    if state.current and state.model and state.current != state.model:
        yield f"          those in use are of {state.current}"
    if state.building:
        yield f"building  {state.building.vectors:,} of {state.building.model}; {state.building.waiting:,} to go: " + (
            f"twofold embed --model {state.building.model}"
        )
    for lag in state.external_indexes:
        built = "" if lag.serves else ", still built"
        oldest = f" for up to {lag.seconds:,.0f} s" if lag.waiting else ""
        yield f"{lag.engine:9} {lag.kind}{built}; {lag.waiting:,} to be told{oldest}"
        if lag.problem:
            yield f"          {lag.problem}"


def embedded(model: str | None, made: int, dropped: int | None) -> Iterator[str]:
    """What the making of vectors did."""
    yield f"made vectors for {count(made, 'episode')}; recall uses those of {model}"
    if dropped is not None:
        yield f"removed {count(dropped, 'vector')} of other models"


def report_of_doctor(report: Report) -> Iterator[str]:
    """What was wrong, what of it is mended, and what is left to do."""
    for finding in report.findings:
        state = "mended" if finding.repaired else "wrong"
        yield f"{state:6}  {finding.part}: {finding.count:,} x {finding.problem}"
    if not report.findings:
        yield "nothing is wrong"
    yield from report.left_to_do


def prior(one: Prior) -> str:
    """A prior in a line."""
    k = "" if one.k is None else f", k {one.k:g}"
    leans = ", leaning to the side that found more" if one.leans else ""
    leans += f", by number of words {one.words_share:g}" if one.words_share else ""
    leans += f", by how far its best hit stands out {one.standing_share:g}" if one.standing_share else ""
    return f"{one.method}{k}, keyword {one.keyword:.2f}, semantic {1.0 - one.keyword:.2f}{leans} ({one.origin})"


def tuning(done: Tuning) -> Iterator[str]:
    """What tuning found, and what came of it."""
    dropped = f"; {done.dropped:,} left out, their episodes are not there" if done.dropped else ""
    yield f"{done.queries:,} judged queries{dropped}; nDCG@10 of"
    yield f"  current   {done.current_score:.4f}  {prior(done.current)}"
    yield f"  {done.arm:8}  {done.arm_score:.4f}  the better of keyword and semantic recall alone"
    yield f"  choice    {done.held_out:.4f}  on held-out queries"
    if done.instead:
        yield f"{done.instead}, so the better of them alone is the choice"
    yield f"chosen: {prior(done.chosen)}"
    yield f"  against current   {_gain(done.gain)}"
    yield f"  against {done.arm:8}  {_gain(done.over_arm)}"
    if done.refused:
        yield f"refused, nothing is changed: {done.refused}"
    elif done.applied:
        yield "applied; take it back with: twofold tune --undo"
    else:
        yield "shown better, nothing is changed yet; use it with: --apply"


def judgement(said: Judgement) -> str:
    """One word of a user on a hit."""
    where = " / ".join(name for name in (said.project, said.session) if name)
    where = f"in {where}" if where else "everywhere"
    useful = "useful" if said.useful else "useless"
    query = textwrap.shorten(said.query, SNIPPET, placeholder=" ...")
    return f"{said.id}  episode {said.episode} was {useful} to {query!r}, asked {where}"


def heard(feedback: Heard) -> Iterator[str]:
    """What there is in feedback to learn from."""
    yield (
        f"{len(feedback.queries):,} queries with a useful episode; {feedback.left_out:,} without one are left out; "
        f"an episode was useless {count(feedback.useless, 'time')}"
    )


def _gain(gain: Gain) -> str:
    return f"{gain.mean:+.4f} ({100 * gain.level:g} % from {gain.low:+.4f} to {gain.high:+.4f}, p {gain.p:.4f})"


def demo(state: Status, shows: Iterable[str], recalls: Iterable[Recall]) -> Iterator[str]:
    """The three questions and what was recalled for each."""
    yield f"A sample history: {count(state.episodes, 'message')} in {count(state.sessions, 'session')}."
    for point, found in zip(shows, recalls, strict=True):
        yield ""
        yield f"? {found.query}"
        yield f"  {point}"
        yield from recall(found)
