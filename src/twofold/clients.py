"""Twofold in the configuration of MCP clients: written in beside what is there, and taken out again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from twofold.errors import InvalidInput, StoreError

NAME = "twofold"  # of our entry

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """A program that takes MCP servers: the file it reads them from, and the table in it."""

    name: str
    path: Callable[[Path], Path]  # from the user's home
    table: str
    typed: bool = False  # whether an entry says that it is for stdio

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        """Our entry: an absolute path and its arguments."""
        entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
        return {"type": "stdio", **entry} if self.typed else entry


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to a client's file, or that there was nothing to do; the copy of what it was before."""

    client: str
    path: Path
    changed: bool
    backup: Path | None = None


def _programs(home: Path) -> Path:
    """Where programs keep what belongs to the user."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return home / "AppData" / "Roaming" if os.name == "nt" else home / ".config"


CLIENTS = {
    client.name: client
    for client in (
        Client("claude-desktop", lambda home: _programs(home) / "Claude" / "claude_desktop_config.json", "mcpServers"),
        Client("claude-code", lambda home: home / ".claude.json", "mcpServers", typed=True),
        Client("codex", lambda home: home / ".codex" / "config.toml", "mcp_servers"),
        Client("cursor", lambda home: home / ".cursor" / "mcp.json", "mcpServers"),
        Client("vscode", lambda home: _programs(home) / "Code" / "User" / "mcp.json", "servers", typed=True),
    )
}


def snippet(client: Client, command: Sequence[str]) -> str:
    """What the client's file has to hold, to be pasted by hand."""
    return _written(client, {client.table: {NAME: client.entry(command)}}, 2)


def install(client: Client, command: Sequence[str], home: Path) -> Change:
    """Write our entry into a client's file, in the place of an older one; what else is there stays.

    Raises InvalidInput for a file that cannot be changed without loss, with the text to paste, and StoreError for one
    that cannot be written.
    """
    path = client.path(home)
    text, known = _read(client, path, snippet(client, command))
    table = known.setdefault(client.table, _table(client))
    if not isinstance(table, MutableMapping):
        raise _unfit(path, f"{client.table} is no table", snippet(client, command))
    if table.get(NAME) == client.entry(command):
        return Change(client.name, path, False)
    table[NAME] = _of(client, client.entry(command))
    return _write(client, path, text, _written(client, known, _indent(text)))


def uninstall(client: Client, home: Path) -> Change:
    """Take our entry out of a client's file; what else is there stays. Raises InvalidInput and StoreError."""
    path = client.path(home)
    text, known = _read(client, path, f"(without {NAME})")
    table = known.get(client.table)
    if not isinstance(table, MutableMapping) or NAME not in table:
        return Change(client.name, path, False)
    del table[NAME]
    if not table:
        del known[client.table]
    return _write(client, path, text, _written(client, known, _indent(text)))


def _read(client: Client, path: Path, paste: str) -> tuple[str, MutableMapping[str, Any]]:
    """The file's text and what it says; nothing where it is not there."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8"
        raise StoreError(f"{path} cannot be read ({reason}); nothing was changed") from None
    if not text.strip():
        return text, cast("MutableMapping[str, Any]", _table(client))
    try:
        known = _parsed(client, text)
    except ValueError as error:
        raise _unfit(path, f"it cannot be read without loss ({error})", paste) from None
    if not isinstance(known, MutableMapping):
        raise _unfit(path, "it holds no object", paste)
    return text, known


def _unfit(path: Path, why: str, paste: str) -> InvalidInput:
    return InvalidInput(f"{path} was left as it is: {why}; put this into it by hand:\n{paste}")


def _parsed(client: Client, text: str) -> Any:
    if client.name != "codex":
        return json.loads(text)  # which takes no comments: what it takes can be written again without loss
    import tomlkit

    return tomlkit.parse(text)


def _table(client: Client) -> Any:
    if client.name != "codex":
        return {}
    import tomlkit

    return tomlkit.document()


def _of(client: Client, entry: Entry) -> Any:
    if client.name != "codex":
        return entry
    import tomlkit

    return tomlkit.item(dict(entry))


def _written(client: Client, known: Mapping[str, Any], indent: int | str) -> str:
    if client.name == "codex":
        import tomlkit

        return tomlkit.dumps(known)
    return json.dumps(known, ensure_ascii=False, indent=indent) + "\n"


def _indent(text: str) -> int | str:
    """How the file is indented: as its first indented line."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        if blank and line.strip():
            return blank
    return 2


def _write(client: Client, path: Path, before: str, after: str) -> Change:
    """Put the new text into the file at once, the old one beside it."""
    backup = path.with_name(f"{path.name}.before-{NAME}") if before else None
    half = path.with_name(f"{path.name}.{NAME}-part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if backup:
            backup.write_text(before, encoding="utf-8")
        half.write_text(after, encoding="utf-8")
        if before:
            half.chmod(path.stat().st_mode)
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written ({error.strerror}); nothing was changed") from None
    return Change(client.name, path, True, backup)
