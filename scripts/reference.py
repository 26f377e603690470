"""Writes docs/cli.md and docs/settings.md from the code: python scripts/reference.py"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from twofold.cli import twofold
from twofold.settings import SPECS

DOCS = Path(__file__).parents[1] / "docs"


def cli() -> str:
    """Every command with its help text."""
    parts = ["# Commands\n\nMade from the commands themselves by `scripts/reference.py`.\n"]
    for name, command in sorted(_commands()):
        context = click.Context(command, info_name=f"twofold {name}", terminal_width=100, max_content_width=100)
        parts.append(f"## twofold {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its name, those of groups by both words."""
    for name, command in twofold.commands.items():
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {word}", member) for word, member in command.commands.items())


def settings() -> str:
    """Every setting with its default, range and names."""
    lines = [
        "# Settings\n",
        "Made from `twofold.settings` by `scripts/reference.py`. In rising order a value comes from the default,",
        "`settings.toml` in the user's configuration directory (`twofold/` in it), the environment, and the database",
        "(`twofold settings NAME=VALUE`, `Memory.settings`), where it acts from the next call on. Setting a weight",
        "sets `weights` to `fixed`. What says *at the start* comes from the environment or the TOML file alone.",
        "`TWOFOLD_DB` names the database, `TWOFOLD_TOKEN` a token for the service.\n",
        "| setting | environment | default | may be | what it does |",
        "|---|---|---|---|---|",
    ]
    for spec in SPECS.values():
        default = f"`{spec.default}`" if spec.default != "" else "none"
        what = f"{spec.description}{' *(at the start)*' if spec.at_start else ''}"
        lines.append(f"| `{spec.name}` | `{spec.variable}` | {default} | {spec.allowed} | {what} |")
    return "\n".join(lines) + "\n"


PAGES = {"cli.md": cli, "settings.md": settings}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
