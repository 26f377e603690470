"""Twofold in the files of MCP clients."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from twofold.cli import twofold
from twofold.clients import CLIENTS, install, snippet, uninstall
from twofold.errors import InvalidInput

COMMAND = ["/opt/bin/twofold", "mcp", "--project", "acme"]
JSON = [name for name in CLIENTS if name != "codex"]


def read(name: str, home: Path) -> dict[str, object]:
    text = CLIENTS[name].path(home).read_text("utf-8")
    return tomllib.loads(text) if name == "codex" else json.loads(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", CLIENTS)
def test_an_entry_is_written_once_and_taken_out_again(tmp_path: Path, name: str) -> None:
    client = CLIENTS[name]
    done = install(client, COMMAND, tmp_path)
    assert (done.changed, done.path, done.backup) == (True, client.path(tmp_path), None)
    entry = read(name, tmp_path)[client.table]["twofold"]  # type: ignore[index]
    assert (entry["command"], entry["args"]) == (COMMAND[0], COMMAND[1:])
    assert not install(client, COMMAND, tmp_path).changed
    assert install(client, COMMAND[:2], tmp_path).changed
    assert uninstall(client, tmp_path).changed
    assert read(name, tmp_path) == {}
    assert not uninstall(client, tmp_path).changed


@pytest.mark.parametrize("name", JSON)
def test_what_is_there_stays_with_its_order_and_indentation(tmp_path: Path, name: str) -> None:
    client = CLIENTS[name]
    path = client.path(tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.dumps(
        {"z": 1, client.table: {"other": {"command": "x", "é": 2}}, "a": [1]}, indent=4, ensure_ascii=False
    )
    path.write_text(before + "\n", encoding="utf-8")
    path.chmod(0o600)
    done = install(client, COMMAND, tmp_path)
    assert done.backup and done.backup.read_text("utf-8") == before + "\n"
    assert list(read(name, tmp_path)) == ["z", client.table, "a"]
    assert '\n    "z": 1' in path.read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    uninstall(client, tmp_path)
    assert path.read_text("utf-8") == before + "\n"


def test_comments_in_toml_stay(tmp_path: Path) -> None:
    path = CLIENTS["codex"].path(tmp_path)
    path.parent.mkdir()
    before = '# mine\nmodel = "m"  # the best\n\n[mcp_servers.other]\ncommand = "x" # keep\n'
    path.write_text(before)
    install(CLIENTS["codex"], COMMAND, tmp_path)
    text = path.read_text()
    assert text.startswith(before.rstrip())
    assert tomllib.loads(text)["mcp_servers"]["twofold"]["args"] == COMMAND[1:]
    uninstall(CLIENTS["codex"], tmp_path)
    assert path.read_text().rstrip() == before.rstrip()


@pytest.mark.parametrize(
    "text", ['{"a": 1, // a comment\n}', '{"mcpServers": {', "[1]", '{"mcpServers": 5}', '{"servers": []}']
)
@pytest.mark.parametrize("name", ["cursor", "vscode"])
def test_a_file_that_cannot_be_changed_without_loss_is_left_alone(tmp_path: Path, name: str, text: str) -> None:
    client = CLIENTS[name]
    path = client.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    if json_table(text, client.table):
        with pytest.raises(InvalidInput, match="was left as it is") as raised:
            install(client, COMMAND, tmp_path)
        assert snippet(client, COMMAND) in str(raised.value)
        assert path.read_text() == text
    else:
        assert install(client, COMMAND, tmp_path).changed


def json_table(text: str, table: str) -> bool:
    """Whether a text is no JSON object, or one whose table is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return True
    return not isinstance(found, dict) or (table in found and not isinstance(found[table], dict))


def test_the_command_installs_prints_and_takes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(twofold, ["mcp", *arguments])
        return result.output if result.exception is None else str(result.exception)

    path = CLIENTS["cursor"].path(tmp_path)
    assert '"mcpServers"' in run("--print", "cursor", "--project", "acme")
    assert not path.exists()
    assert run("--install", "cursor", "--project", "acme") == (
        f"wrote twofold into {path}; restart cursor to have it\n"
    )
    entry = json.loads(path.read_text())["mcpServers"]["twofold"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-2:] == ["--project", "acme"]
    assert run("--install", "cursor", "--project", "acme") == f"{path} has it already\n"
    assert run("--uninstall", "cursor") == f"took twofold out of {path}\n"
    both = CliRunner().invoke(twofold, ["mcp", "--install", "cursor", "--uninstall", "cursor"])
    assert "give one of --install, --uninstall and --print" in both.output


def test_paths_are_those_of_the_system(tmp_path: Path) -> None:
    if sys.platform == "linux":
        assert CLIENTS["vscode"].path(tmp_path) == tmp_path / ".config" / "Code" / "User" / "mcp.json"
