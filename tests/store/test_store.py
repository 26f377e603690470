"""The file: what goes wrong is said in one sentence, and nothing is damaged."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import Opener
from twofold import Memory, Message
from twofold.errors import InvalidInput, StoreError, StoreTooNew
from twofold.store import Store
from twofold.store.migrations import APPLICATION_ID, MIGRATIONS


def test_a_new_file_has_the_newest_schema_and_our_mark(tmp_path: Path) -> None:
    Store(tmp_path / "new.db").close()
    with sqlite3.connect(tmp_path / "new.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are notes, not a database.\n" * 100)
    with pytest.raises(StoreError, match=r"notes\.txt is not a SQLite database; name another"):
        Memory.open(file, embedder=None)
    assert file.read_text().startswith("These are notes")


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="of another program"):
        Memory.open(tmp_path / "other.db", embedder=None)
    with sqlite3.connect(tmp_path / "other.db") as db:
        assert [name for (name,) in db.execute("SELECT name FROM sqlite_schema")] == ["theirs"]


def test_a_file_of_a_newer_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    Store(tmp_path / "new.db").close()
    with sqlite3.connect(tmp_path / "new.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match=r"has schema 99, this Twofold knows up to .*; upgrade with"):
        Memory.open(tmp_path / "new.db", embedder=None)


def test_a_folder_or_a_missing_folder_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "such" / "folder.db"):
        with pytest.raises(StoreError, match="cannot be opened; check that its folder exists"):
            Memory.open(path, embedder=None)


def test_a_damaged_file_is_said_to_be_damaged(open_memory: Opener, tmp_path: Path) -> None:
    memory = open_memory(None)
    memory.import_(Message(f"apple {n} " * 50, session=f"s{n}") for n in range(300))
    memory.forget(session="s0", purge=True)
    memory.close()
    file = tmp_path / "memories.db"
    data = bytearray(file.read_bytes())
    for page in range(20, len(data) // 4096 - 1):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged"), Memory.open(file, embedder=None) as memory:
        assert memory.doctor().is_healthy
        memory.recall("apple")


def test_a_file_that_may_only_be_read_is_read_and_says_why_it_is_not_written(
    open_memory: Opener, tmp_path: Path
) -> None:
    open_memory(None).add("apple pie")
    script = f"""
import os
from twofold import Memory, TwofoldError
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
memory = Memory.open({str(tmp_path / "memories.db")!r}, embedder=None)
print([hit.episode.content for hit in memory.recall("apple")])
try:
    memory.add("pear")
except TwofoldError as error:
    print(error)
"""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.getuid() and parent.stat().st_mode & 0o5 != 0o5:
            parent.chmod(parent.stat().st_mode | 0o5)
    for file in tmp_path.glob("memories.db*"):
        file.chmod(0o444 if os.getuid() == 0 else 0o400)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd="/", check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == "['apple pie']"
    assert "cannot be written; check the permissions" in lines[1]


def test_a_full_disk_is_said_and_nothing_is_half_written(open_memory: Opener, tmp_path: Path) -> None:
    memory = open_memory(None)
    memory.add("apple pie")
    memory.close()
    size = sum(file.stat().st_size for file in tmp_path.glob("memories.db*"))
    script = f"""
from twofold import Memory, TwofoldError
memory = Memory.open({str(tmp_path / "memories.db")!r}, embedder=None)
done = 0
try:
    for number in range(10_000):
        memory.add(f"pear {{number}} " * 100, session=f"s{{number}}")
        done += 1
except TwofoldError as error:
    print(error)
print(done)
"""

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2_000_000, size + 2_000_000))

    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{script}"],
        capture_output=True,
        text=True,
        preexec_fn=little_room,
        env=environment,
        check=False,
    )
    sentence, count = done.stdout.splitlines()
    assert "memories.db" in sentence
    again = open_memory(None)
    assert again.status().episodes == 1 + int(count)
    assert again.doctor().is_healthy


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "new.db")
    with pytest.raises(ZeroDivisionError), store.write() as db:
        db.execute("INSERT INTO projects (name) VALUES ('p')")
        raise ZeroDivisionError
    assert store.connection.execute("SELECT count(*) FROM projects").get == 0
    store.close()


def test_threads_add_and_recall_side_by_side(memory: Memory) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(25):
                added = memory.add(f"apple {name} {number}", session=name)
                assert added.id in {hit.episode.id for hit in memory.recall(f"{name} {number}", session=name)}
        except BaseException as error:  # noqa: BLE001  what a thread raises is shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"thread{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert memory.status().episodes == 150
    assert memory.doctor().is_healthy


WORKER = """
import sys
from twofold import Memory
from twofold.embed.hashing import HashEmbedder
path, name = sys.argv[1:]
with Memory.open(path, embedder=HashEmbedder()) as memory:
    for number in range(20):
        added = memory.add(f"apple {name} {number}", session=name)
        found = memory.recall(f"apple {name}", session=name, limit=50)
        assert added.id in {hit.episode.id for hit in found}
        if number % 7 == 6:
            memory.forget(episode=added.id)
"""


def test_eight_processes_write_and_read_one_file_without_a_lock_error(open_memory: Opener, tmp_path: Path) -> None:
    memory = open_memory()
    command = [sys.executable, "-c", WORKER, str(tmp_path / "memories.db")]
    workers = [subprocess.Popen([*command, f"process{n}"], stderr=subprocess.PIPE, text=True) for n in range(8)]
    errors = [worker.communicate()[1] for worker in workers]
    assert errors == [""] * 8
    assert memory.status().episodes == 8 * 18
    assert len(memory.recall("apple process3 5", session="process3", limit=50)) == 18
    assert memory.doctor().is_healthy


def test_a_long_read_and_a_write_do_not_wait_for_each_other(open_memory: Opener) -> None:
    reader = open_memory(None)
    reader.add("apple")
    writer = open_memory(None)
    with reader._store.read() as db:
        rows = db.execute("SELECT id FROM episodes")
        writer.add("pear")
        assert len(list(rows)) == 1
    assert reader.status().episodes == 2


def test_an_import_that_is_refused_leaves_the_file_usable(memory: Memory) -> None:
    with pytest.raises(InvalidInput):
        memory.import_([Message("good"), Message("bad", role="robot")])  # type: ignore[arg-type]
    assert memory.status().episodes == 0
    memory.add("apple")
    assert memory.doctor().is_healthy
