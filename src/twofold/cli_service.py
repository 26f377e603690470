"""The commands of the service: serve, and the tokens that open it."""

from __future__ import annotations

from pathlib import Path

import click

from twofold import output
from twofold.cli_options import as_json, database
from twofold.memory import Memory


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
