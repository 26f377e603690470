"""The command line: a command is a method of Memory, same name, same words."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from twofold import __version__, dates, messages, output, samples
from twofold.cli_history import backup, export, import_, restore
from twofold.cli_options import as_json, bar, database, existing, in_project, in_session
from twofold.cli_quality import bench, eval_, tune
from twofold.cli_service import feedback, mcp, serve, token
from twofold.errors import InvalidInput, TwofoldError
from twofold.importers import Losses, read
from twofold.memory import Memory
from twofold.settings import spec
from twofold.types import ROLES, Role

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="twofold")
def twofold() -> None:
    """Long-term memory for AI assistants that recalls by meaning and by word, and shows why."""


@twofold.command()
@click.argument("text")
@in_session
@in_project
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True)
@click.option("--time", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%SZ"]), help="With its zone.")
@database
@as_json
def add(
    text: str,
    session: str | None,
    project: str | None,
    role: Role,
    time: datetime | None,
    db: Path | None,
    as_json: bool,
) -> None:
    """Store one message; - reads it from standard input."""
    content = sys.stdin.read() if text == "-" else text
    with Memory.open(db) as memory:
        episode = memory.add(content, role=role, session=session, project=project, time=time)
    output.show(episode, as_json, lambda: [f"stored as episode {episode.id} in {output.place(episode)}"])


@twofold.command()
@click.argument("query", nargs=-1, required=True)
@in_session
@in_project
@click.option("--all", "everything", is_flag=True, help="Search everything, which is also the default.")
@click.option("--limit", type=int, help="How many episodes; the setting semanticLimit where not given.")
@click.option("--zone", help="Your zone, as in Europe/Zurich, for words as yesterday; else UTC.")
@click.option("--since", help="Only what was said from then on: an ISO date or time, or words as last week.")
@click.option("--before", help="Only what was said before then.")
@click.option("--explain", is_flag=True, help="Say how the query was read and what each stage did.")
@database
@as_json
def recall(
    query: tuple[str, ...],
    session: str | None,
    project: str | None,
    everything: bool,
    limit: int | None,
    zone: str | None,
    since: str | None,
    before: str | None,
    explain: bool,
    db: Path | None,
    as_json: bool,
) -> None:
    """Find the episodes that fit a query best."""
    if everything and (session or project):
        raise click.UsageError("--all searches everything; leave out --session and --project, or --all")
    now = datetime.now(messages.zone(zone))
    with Memory.open(existing(db)) as memory:
        found = memory.recall(
            " ".join(query),
            session=session,
            project=project,
            limit=limit,
            zone=zone,
            since=dates.moment("since", since, now),
            before=dates.moment("before", before, now),
            explain=explain,
        )
    output.show(found, as_json, lambda: output.recall(found))


@twofold.command()
@click.argument("query", nargs=-1, required=True)
@in_session
@in_project
@click.option("--limit", type=int, help="How many episodes; the setting semanticLimit where not given.")
@database
@as_json
def search(
    query: tuple[str, ...], session: str | None, project: str | None, limit: int | None, db: Path | None, as_json: bool
) -> None:
    """Find the episodes that hold the words of a query."""
    with Memory.open(existing(db)) as memory:
        hits = memory.search(" ".join(query), session=session, project=project, limit=limit)
    output.show(hits, as_json, lambda: output.hits(hits))


@twofold.command()
@click.argument("message", nargs=-1, required=True)
@in_session
@in_project
@click.option("--budget", type=int, help="Tokens; the setting tokenBudget where not given.")
@click.option("--zone", help="Zone of the dates, as in Europe/Zurich; else UTC.")
@database
@as_json
def context(
    message: tuple[str, ...],
    session: str | None,
    project: str | None,
    budget: int | None,
    zone: str | None,
    db: Path | None,
    as_json: bool,
) -> None:
    """Print what an assistant is given to answer a message of a session."""
    with Memory.open(existing(db)) as memory:
        made = memory.context(" ".join(message), session=session, project=project, budget=budget, zone=zone)
    output.show(made, as_json, lambda: output.context(made))


@twofold.command(name="why-not")
@click.argument("query", nargs=-1, required=True)
@click.option("--episode", type=int, required=True, help="The episode that was expected.")
@in_session
@in_project
@click.option("--limit", type=int, help="As in the recall.")
@database
@as_json
def why_not(
    query: tuple[str, ...],
    episode: int,
    session: str | None,
    project: str | None,
    limit: int | None,
    db: Path | None,
    as_json: bool,
) -> None:
    """Say at which stage a recall loses an episode, and what would have kept it."""
    with Memory.open(existing(db)) as memory:
        told = memory.why_not(" ".join(query), episode, session=session, project=project, limit=limit)
    output.show(told, as_json, lambda: [f"{told.stage}: {told.sentence}"])


@twofold.command()
@in_project
@database
@as_json
def sessions(project: str | None, db: Path | None, as_json: bool) -> None:
    """List the sessions, the one that spoke last first."""
    with Memory.open(existing(db)) as memory:
        listed = memory.sessions(project)
    output.show(listed, as_json, lambda: output.sessions(listed))


@twofold.command()
@database
@as_json
def projects(db: Path | None, as_json: bool) -> None:
    """List the projects."""
    with Memory.open(existing(db)) as memory:
        listed = memory.projects()
    output.show(listed, as_json, lambda: output.projects(listed))


@twofold.command()
@click.argument("session", required=False)
@in_project
@click.option("--episode", type=int, help="One episode by id.")
@database
@as_json
def show(session: str | None, project: str | None, episode: int | None, db: Path | None, as_json: bool) -> None:
    """Print a session from its beginning, or one episode."""
    with Memory.open(existing(db)) as memory:
        listed = memory.show(session, project=project, episode=episode)
    output.show(listed, as_json, lambda: [line for one in listed for line in output.episode(one)])


@twofold.command()
@click.argument("episode", type=int)
@click.argument("text")
@database
@as_json
def edit(episode: int, text: str, db: Path | None, as_json: bool) -> None:
    """Give an episode other words."""
    with Memory.open(existing(db)) as memory:
        changed = memory.edit(episode, text)
    output.show(changed, as_json, lambda: output.episode(changed))


@twofold.command()
@click.option("--episode", type=int, help="One episode by id.")
@in_session
@in_project
@click.option("--purge", is_flag=True, help="Also rewrite the file, so that no deleted text stays on disk.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@database
@as_json
def forget(
    episode: int | None,
    session: str | None,
    project: str | None,
    purge: bool,
    yes: bool,
    db: Path | None,
    as_json: bool,
) -> None:
    """Delete an episode, a session or a project for good."""
    if not yes and (session or project):
        if not sys.stdin.isatty():
            raise InvalidInput("forgetting a session or a project asks first; without a terminal say --yes")
        click.confirm(f"Forget all of {f'session {session!r}' if session else f'project {project!r}'}?", abort=True)
    with Memory.open(existing(db)) as memory:
        count = memory.forget(episode=episode, session=session, project=project, purge=purge)
    output.show({"forgotten": count}, as_json, lambda: [f"forgot {output.count(count, 'episode')}"])


@twofold.command()
@click.argument("changes", nargs=-1, metavar="[NAME=VALUE]...")
@database
@as_json
def settings(changes: tuple[str, ...], db: Path | None, as_json: bool) -> None:
    """Show all settings, after changing those that are named."""
    wanted: dict[str, object] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign:
            raise InvalidInput(f"{change!r} sets nothing; write NAME=VALUE, as in keywordWeight=1")
        wanted[spec(name).name] = spec(name).read(value)
    with Memory.open(db) as memory:
        values = memory.settings(wanted)
    output.show(values, as_json, lambda: output.settings(values))


@twofold.command()
@database
@as_json
def status(db: Path | None, as_json: bool) -> None:
    """Say what the store holds."""
    with Memory.open(existing(db)) as memory:
        state = memory.status()
    output.show(state, as_json, lambda: output.status(state))


@twofold.command()
@click.option("--repair", is_flag=True, help="Mend from the file what can be mended.")
@database
@as_json
def doctor(repair: bool, db: Path | None, as_json: bool) -> None:
    """Compare the file with every index; exit with 1 where something is wrong, or still is after --repair."""
    with Memory.open(existing(db)) as memory:
        report = memory.doctor(repair=repair)
    output.show(report, as_json, lambda: output.report_of_doctor(report))
    if not report.is_healthy:
        sys.exit(1)


@twofold.command()
@click.option("--model", help="Make all anew by this model, then use it: minilm, fastembed:..., openai:...")
@click.option("--drop-old", is_flag=True, help="Then remove the vectors of all other models.")
@database
@as_json
def embed(model: str | None, drop_old: bool, db: Path | None, as_json: bool) -> None:
    """Make the vectors that are missing."""
    with Memory.open(existing(db), embedder=model or "default") as memory:
        state = memory.status()
        with bar("episodes", state.waiting) as progress:
            made = memory.embed_missing(progress=progress)
        dropped = memory.drop_old_vectors() if drop_old else None
    done = {"model": state.model, "embedded": made, "dropped": dropped or 0}
    output.show(done, as_json, lambda: output.embedded(state.model, made, dropped))


@twofold.command()
@database
@as_json
def demo(db: Path | None, as_json: bool) -> None:
    """Import a sample history into a store that is thrown away, and ask it three questions."""
    questions = json.loads(samples.path("questions.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, Memory.open(db or Path(folder) / "demo.db") as memory:
        history = read(samples.path("history.jsonl"), Losses())
        memory.import_(history)
        recalls = [memory.recall(q["question"], project=q["project"], limit=3, explain=True) for q in questions]
        state = memory.status()
    output.show(recalls, as_json, lambda: output.demo(state, [q["shows"] for q in questions], recalls))


for command in (backup, bench, eval_, export, import_, mcp, restore, tune, feedback, serve, token):
    twofold.add_command(command)


def main() -> None:
    """The entry point: exit 0, 1 with one clear sentence, or 2 for wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # Windows code pages lack most characters
    try:
        twofold.main(standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped; what was confirmed before is kept")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has what it wanted
    except TwofoldError as error:
        _fail(str(error))
    except Exception as error:  # noqa: BLE001  the last adapter: no traceback reaches a user
        _fail(f"unexpected {type(error).__name__}: {error}; please report this with what you did")


def _fail(sentence: str) -> None:
    click.echo(f"twofold: {sentence}", err=True)
    sys.exit(1)
