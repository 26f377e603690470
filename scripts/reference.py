"""Writes docs/cli.md and docs/settings.md from the code: python scripts/reference.py"""

from __future__ import annotations

from pathlib import Path

import click

from twofold.cli import twofold
from twofold.settings import SPECS

DOCS = Path(__file__).parents[1] / "docs"


def cli() -> str:
    """Every command with its help text."""
    parts = ["# Commands\n\nMade from the commands themselves by `scripts/reference.py`.\n"]
    for name, command in sorted(twofold.commands.items()):
        context = click.Context(command, info_name=f"twofold {name}", terminal_width=100, max_content_width=100)
        parts.append(f"## twofold {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def settings() -> str:
    """Every setting with its default, range and names."""
    lines = [
        "# Settings\n",
        "Made from `twofold.settings` by `scripts/reference.py`. In rising order a value comes from the default,",
        "`settings.toml` in the user's configuration directory (`twofold/` in it), the environment, and the database",
        "(`twofold settings NAME=VALUE`, `Memory.settings`), where it acts from the next call on. Setting a weight",
        "sets `weights` to `fixed`.\n",
        "| setting | environment | default | may be | what it does |",
        "|---|---|---|---|---|",
    ]
    for spec in SPECS.values():
        lines.append(f"| `{spec.name}` | `{spec.variable}` | `{spec.default}` | {spec.allowed} | {spec.description} |")
    return "\n".join(lines) + "\n"


PAGES = {"cli.md": cli, "settings.md": settings}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
