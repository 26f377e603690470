"""The commands of the service: serve, the tokens that open it, and what users say of hits."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from twofold import clients, output
from twofold.cli_options import as_json, database, existing
from twofold.clients import CLIENTS, Client
from twofold.memory import Memory

_client = click.Choice(list(CLIENTS))


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; other than loopback: tokens."
)
@click.option("--port", type=click.IntRange(0, 65535), default=4000, show_default=True, help="0 for any that is free.")
@click.option("--allow-host", "hosts", multiple=True, help="A name in Host that is also ours; may be repeated.")
@click.option("--cors-origin", "origins", multiple=True, help="A page's origin that may ask us; may be repeated.")
@click.option("--require-token", is_flag=True, help="Ask for a token on loopback too, as behind a proxy.")
@database
def serve(
    host: str, port: int, hosts: tuple[str, ...], origins: tuple[str, ...], require_token: bool, db: Path | None
) -> None:
    """Serve the memory over HTTP until stopped; docs/service.md has the routes."""
    from twofold.http.server import serve as run  # FastAPI takes its time: only who serves shall wait for it

    with Memory.open(db) as memory:
        run(memory, host=host, port=port, hosts=hosts, origins=origins, require_token=require_token)


@click.command()
@click.option("--project", help="The project that is meant where a call names none.")
@click.option("--zone", help="Your zone, as in Europe/Zurich; else that of this machine.")
@click.option("--install", type=_client, help="Write it into the configuration of this client, and end.")
@click.option("--uninstall", type=_client, help="Take it out of there again, and end.")
@click.option("--print", "printed", type=_client, help="Print what the client's file has to hold, and end.")
@database
def mcp(
    project: str | None,
    zone: str | None,
    install: str | None,
    uninstall: str | None,
    printed: str | None,
    db: Path | None,
) -> None:
    """Serve one MCP client over standard input and output; docs/mcp.md says how a client is told of it."""
    if (install is not None) + (uninstall is not None) + (printed is not None) > 1:
        raise click.UsageError("give one of --install, --uninstall and --print")
    if client := install or uninstall or printed:
        given = {"--project": project, "--zone": zone, "--db": db and str(db.absolute())}
        options = [part for name, value in given.items() if value for part in (name, value)]
        for line in _configured(CLIENTS[client], [*_ourselves(), "mcp", *options], install, uninstall):
            click.echo(line)
        return
    from twofold.mcp_server import serve as run  # which takes its time; the memory is opened at the first call

    run(lambda: Memory.open(db), project=project, zone=zone)


def _configured(client: Client, command: list[str], install: str | None, uninstall: str | None) -> list[str]:
    """Do what is asked with a client's file; what to say of it."""
    if install:
        done = clients.install(client, command, Path.home())
        kept = f", and kept {done.backup.name} beside it" if done.backup else ""
        wrote = f"wrote twofold into {done.path}{kept}; restart {client.name} to have it"
        return [wrote if done.changed else f"{done.path} has it already"]
    if uninstall:
        done = clients.uninstall(client, Path.home())
        return [f"took twofold out of {done.path}" if done.changed else f"{done.path} has no twofold"]
    return [f"in {client.path(Path.home())}:", clients.snippet(client, command).rstrip()]


def _ourselves() -> list[str]:
    """The command that is running, by a path that holds wherever a client starts it."""
    here = Path(sys.argv[0])
    if here.stem == "twofold" and here.exists():
        return [str(here.absolute())]
    return [sys.executable, "-m", "twofold"]


@click.group()
def token() -> None:
    """Make, list and take back the service's tokens."""


@token.command(name="add")
@click.argument("name")
@click.option("--project", help="Bind it to this project, outside of which it sees nothing.")
@database
@as_json
def add(name: str, project: str | None, db: Path | None, as_json: bool) -> None:
    """Make a token; its secret is printed this once."""
    with Memory.open(db) as memory:
        made, secret = memory.tokens.add(name, project=project)
    output.show({"token": made, "secret": secret}, as_json, lambda: [secret])


@token.command(name="list")
@database
@as_json
def list_(db: Path | None, as_json: bool) -> None:
    """List the tokens, without their secrets."""
    with Memory.open(db) as memory:
        known = memory.tokens.list()
    output.show(
        known,
        as_json,
        lambda: [f"{one.name}  {one.project or 'everything'}  made {one.created:%Y-%m-%d}" for one in known],
    )


@token.command(name="remove")
@click.argument("name")
@database
def remove(name: str, db: Path | None) -> None:
    """Take a token back."""
    with Memory.open(db) as memory:
        memory.tokens.remove(name)


@click.group()
def feedback() -> None:
    """Say what was useful of what was recalled, list it and take it back; tune --feedback learns from it."""


@feedback.command(name="add")
@click.argument("query")
@click.option("--episode", type=int, required=True, help="Id of an episode that was recalled for it.")
@click.option("--useful/--useless", required=True, default=None, help="Whether it was of use.")
@click.option("--session", help="Session that the query was asked in.")
@click.option("--project", help="Project that the query was asked in; everywhere if neither is named.")
@database
@as_json
def add_feedback(
    query: str, episode: int, useful: bool, session: str | None, project: str | None, db: Path | None, as_json: bool
) -> None:
    """Say whether an episode was useful to a query; a later word takes the place of the earlier."""
    with Memory.open(existing(db)) as memory:
        said = memory.feedback.add(query, episode, useful, session=session, project=project)
    output.show(said, as_json, lambda: [output.judgement(said)])


@feedback.command(name="list")
@click.option("--project", help="Only what was said in this project.")
@click.option("--after", help="The cursor that a page before this one gave.")
@click.option("--limit", type=int, default=50, show_default=True, help="How many at most.")
@database
@as_json
def list_feedback(project: str | None, after: str | None, limit: int, db: Path | None, as_json: bool) -> None:
    """List what was said, the newest first."""
    with Memory.open(existing(db)) as memory:
        page = memory.feedback.page(project=project, after=after, limit=limit)
    more = [f"more with: --after {page.next}"] if page.next else []
    output.show(page, as_json, lambda: [*map(output.judgement, page.items), *more])


@feedback.command(name="remove")
@click.argument("id_", metavar="ID", type=int)
@database
def remove_feedback(id_: int, db: Path | None) -> None:
    """Take a word back."""
    with Memory.open(existing(db)) as memory:
        memory.feedback.remove(id_)
