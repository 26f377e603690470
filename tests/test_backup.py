"""A copy of the whole store while others write, and back again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from twofold import Memory, Message
from twofold.archive import restore
from twofold.cli import twofold
from twofold.embed.hashing import HashEmbedder
from twofold.errors import StoreError
from twofold.store import Store, outbox

WRITER = """
import sys
from twofold import Memory
with Memory.open(sys.argv[1], embedder=None) as memory:
    number = 0
    while True:
        memory.add_all([__import__("twofold").Message(f"n{number} part{part}", session="s") for part in range(3)])
        number += 1
        print(number, flush=True)
"""


def opened(file: Path) -> Memory:
    return Memory.open(file, embedder=HashEmbedder())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.db"
    with opened(path) as memory:
        memory.import_([Message(f"apples {n}", session="s", source=str(n)) for n in range(20)])
        memory.settings({"semanticLimit": 7})
    return path


def contents(file: Path) -> list[str]:
    with opened(file) as memory:
        return [one.content for one in memory.show("s")]


def uid(file: Path) -> str:
    store = Store(file)
    with store.read() as db:
        found = outbox.uid(db)
    store.close()
    return found


def test_a_backup_comes_back_with_everything_but_its_name_on_servers(file: Path, tmp_path: Path) -> None:
    with opened(file) as memory:
        memory.archive.backup(tmp_path / "copy.db")
        asked = [(hit.episode.id, hit.score) for hit in memory.recall("apples 7").hits]
        memory.forget(session="s")
    restore(tmp_path / "copy.db", tmp_path / "new" / "two.db")
    with opened(tmp_path / "new" / "two.db") as memory:
        assert [(hit.episode.id, hit.score) for hit in memory.recall("apples 7").hits] == asked
        assert memory.settings()["semanticLimit"] == 7
        assert memory.doctor().findings == ()
    assert uid(tmp_path / "new" / "two.db") != uid(file)
    assert sorted(one.name for one in (tmp_path / "new").iterdir()) == ["two.db"]


def test_a_backup_beside_a_writer_is_one_of_its_moments(tmp_path: Path) -> None:
    file = tmp_path / "busy.db"
    opened(file).close()
    with subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        with opened(file) as memory:
            for number in range(5):
                memory.archive.backup(tmp_path / f"copy{number}.db")
        writer.kill()
    for number in range(5):
        found = contents(tmp_path / f"copy{number}.db")
        count = len(found) // 3
        assert count >= 20
        assert found == [f"n{n} part{part}" for n in range(count) for part in range(3)]
        with opened(tmp_path / f"copy{number}.db") as memory:
            assert memory.doctor().findings == ()


def test_restore_replaces_a_store_only_when_told_and_when_nobody_has_it_open(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with opened(file) as memory:
        memory.archive.backup(copy)
        memory.add("newer", session="s")
        with pytest.raises(StoreError, match="is there already; name a new file"):
            memory.archive.backup(copy)
        with pytest.raises(StoreError, match="is there already; name another file with --db"):
            restore(copy, file)
        with pytest.raises(StoreError, match="is in use by another process"):
            restore(copy, file, force=True)
        assert memory.show("s")[-1].content == "newer"
    restore(copy, file, force=True)
    assert contents(file) == [f"apples {n}" for n in range(20)]
    assert not list(tmp_path.glob("*.restoring*"))


def test_a_damaged_store_is_replaced(file: Path, tmp_path: Path) -> None:
    with opened(file) as memory:
        memory.archive.backup(tmp_path / "copy.db")
    file.write_bytes(b"no database at all" * 1000)
    restore(tmp_path / "copy.db", file, force=True)
    assert len(contents(file)) == 20


@pytest.mark.parametrize("damage", ["truncated", "garbled", "text", "foreign", "newer", "missing"])
def test_what_is_no_whole_backup_is_refused_and_nothing_is_changed(file: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy.db"
    with opened(file) as memory:
        memory.archive.backup(copy)
    data = bytearray(copy.read_bytes())
    if damage == "truncated":
        copy.write_bytes(data[: len(data) // 2])
    elif damage == "garbled":
        data[8192 : 8192 * 6] = b"\xff" * (8192 * 5)
        copy.write_bytes(data)
    elif damage == "text":
        copy.write_text("a letter")
    elif damage == "missing":
        copy.unlink()
    else:
        copy.unlink()
        with sqlite3.connect(copy) as db:
            db.execute("CREATE TABLE t (x)")
            if damage == "newer":
                db.execute(f"PRAGMA application_id = {0x32464C44}")
                db.execute("PRAGMA user_version = 99")
    says = {"foreign": "no store of Twofold", "newer": "upgrade with", "missing": "there is no file"}
    with pytest.raises(StoreError, match=says.get(damage, "damaged")):
        restore(copy, file, force=True)
    assert len(contents(file)) == 20
    assert not list(tmp_path.glob("*.restoring*"))


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "older.db"
    with opened(path) as memory:
        memory.import_([Message(f"pears {n}", session="s") for n in range(2000)], embed=False)
    yield path


def test_a_restore_that_is_killed_leaves_the_old_store_or_the_new(file: Path, older: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with opened(older) as memory:
        memory.archive.backup(copy)
    command = """
import sys
from pathlib import Path
from twofold.archive import restore
print("now", flush=True)
while True:
    restore(Path(sys.argv[1]), Path(sys.argv[2]), force=True)
    print("done", flush=True)
"""
    first, second = [f"apples {n}" for n in range(20)], [f"pears {n}" for n in range(2000)]
    for rounds in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", command, str(copy), str(file)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(1 + rounds):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert contents(file) in (first, second)


def test_the_commands_say_what_they_did(file: Path, tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        result = CliRunner().invoke(twofold, [str(argument) for argument in arguments], catch_exceptions=True)
        return result.output if result.exception is None else str(result.exception)

    copy = tmp_path / "copy.db"
    said = run("backup", copy, "--db", file)
    assert said.startswith(f"wrote {copy} (") and said.endswith(f"bring it back with: twofold restore {copy}\n")
    assert run("restore", copy, "--db", tmp_path / "two.db") == (
        f"restored 20 episodes in 1 sessions to {tmp_path / 'two.db'}\n"
    )
    assert "there is no database" in run("backup", copy, "--db", tmp_path / "none.db")
