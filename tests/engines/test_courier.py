"""Delivery to Qdrant Edge by a real memory: soon, by one process, built anew where it is lost."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks import chaos_delivery
from benchmarks.chaos_delivery import differences, is_delivered
from tests.engines.delivery import is_whole, until, wait_until_delivered
from twofold import Memory, Message
from twofold.embed.hashing import HashEmbedder
from twofold.engines import Point, Terms, courier, replica
from twofold.engines.edge import EdgeEngine
from twofold.errors import EngineBusy, EngineError, EngineLost
from twofold.store import Store, outbox
from twofold.store.lock import Lock
from twofold.types import Scope

Opening = Callable[[], Memory]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memories.db"


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch, file: Path) -> Iterator[Opening]:
    """Opens a memory whose vectors and words are found by Qdrant Edge."""
    monkeypatch.setenv("TWOFOLD_VECTORS", "edge")
    monkeypatch.setenv("TWOFOLD_KEYWORD", "qdrant")
    monkeypatch.setattr(courier, "TICK", 0.05)
    monkeypatch.setattr(courier, "LINGER", 0.0)
    opened: list[Memory] = []

    def open_() -> Memory:
        opened.append(Memory.open(file, embedder=HashEmbedder()))
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


def filled(memory: Memory, count: int = 30) -> Memory:
    memory.import_(Message(f"apples word{n}", session=f"s{n % 3}", source=f"first{n}") for n in range(count))
    wait_until_delivered(memory)
    return memory


def answers(memory: Memory) -> list[tuple[int, float]]:
    recalled = memory.recall("apples word7 word21", limit=50)
    assert recalled.degraded == {}
    return [(hit.episode.id, round(hit.score, 9)) for hit in recalled.hits]


def waiting(file: Path) -> list[int]:
    """How much each index outside the file has still to be told, without a courier that would."""
    store = Store(file)
    with store.read() as db:
        result = [outbox.lag(db, target.id)[0] for target in outbox.targets(db)]
    store.close()
    return result


def courier_of(memory: Memory) -> courier.Courier:
    assert memory._indexes.courier
    return memory._indexes.courier


def folder(file: Path) -> Path:
    return file.with_name(file.name + "-edge")


def collection(memory: Memory, kind: str) -> str:
    with memory._store.read() as db:
        return next(target.collection for target in outbox.targets(db) if target.kind == kind and target.serves)


def exact(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """The answers of the file alone."""
    with monkeypatch.context() as patched:
        patched.setenv("TWOFOLD_VECTORS", "exact")
        patched.setenv("TWOFOLD_KEYWORD", "fts5")
        with Memory.open(file, embedder=HashEmbedder()) as alone:
            return answers(alone)


def run(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process over the same file, with the settings of this one."""
    command = [sys.executable, "-c", "import sys\nfrom twofold import Memory\n" + script, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def test_what_is_written_is_delivered_soon_and_the_answers_are_those_of_the_file(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(opening())
    memory.edit(8, "apples edited word7")
    memory.forget(episode=22)
    memory.forget(session="s2")
    memory.add("apples and word21")
    assert answers(memory) == exact(file, monkeypatch)
    wait_until_delivered(memory)
    assert differences(memory) == {}
    assert answers(memory) == exact(file, monkeypatch)


def only_at_the_end(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the courier deliver nothing before the memory is closed."""
    ending = courier_of(memory)._ending
    deliver = replica.Replica.deliver
    monkeypatch.setattr(replica.Replica, "deliver", lambda self: deliver(self) if ending.is_set() else 0)


def test_close_delivers_what_is_left(opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled(opening())
    only_at_the_end(memory, monkeypatch)
    memory.import_(Message(f"pears {n}", source=str(n)) for n in range(50))
    assert not is_delivered(memory)
    memory.close()
    assert waiting(file) == [0, 0]


def test_a_round_that_found_nothing_before_the_end_was_asked_for_is_not_the_last(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(opening())
    ending, inside = courier_of(memory)._ending, threading.Event()
    go_round = courier.Courier._round

    def late(self: courier.Courier) -> int:
        if ending.is_set():
            return go_round(self)
        inside.set()
        assert ending.wait(20.0)
        return 0

    monkeypatch.setattr(courier.Courier, "_round", late)
    assert inside.wait(20.0)
    memory.add("pears")
    memory.close()
    assert waiting(file) == [0, 0]


def test_close_leaves_to_the_next_start_what_would_take_too_long(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(opening())
    only_at_the_end(memory, monkeypatch)
    monkeypatch.setattr(courier, "PARTING", 0.0)
    monkeypatch.setattr(courier, "TICK", 10.0)
    monkeypatch.setattr(replica, "BATCH", 1)
    memory.import_(Message(f"pears {n}", source=str(n)) for n in range(50))
    memory.close()
    assert min(waiting(file)) > 40
    monkeypatch.undo()
    monkeypatch.setenv("TWOFOLD_VECTORS", "edge")
    monkeypatch.setenv("TWOFOLD_KEYWORD", "qdrant")
    again = opening()
    wait_until_delivered(again)
    assert differences(again) == {}


OTHER = """
import time
from twofold.embed.hashing import HashEmbedder
with Memory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    print(memory.recall("apples word7").degraded.get("semantic", ""), flush=True)
    print(memory.add("quinces from elsewhere").id, flush=True)
    print(len(memory.recall("quinces").hits), flush=True)
    sys.stdin.readline()
    last = time.monotonic() + 20.0
    while memory.recall("quinces").degraded and time.monotonic() < last:
        time.sleep(0.01)
    print(memory.recall("quinces").degraded, flush=True)
"""


def test_a_second_process_is_told_that_another_has_the_folder_writes_and_takes_over_when_that_ends(
    opening: Opening, file: Path
) -> None:
    memory = filled(opening())
    with run(OTHER, str(file)) as other:
        assert other.stdout and other.stdin
        assert "another process has" in other.stdout.readline()
        added = int(other.stdout.readline())
        assert int(other.stdout.readline()) > 0
        wait_until_delivered(memory)
        assert differences(memory) == {}
        assert memory.recall("quinces from elsewhere").hits[0].episode.id == added
        memory.close()
        other.stdin.write("it has ended\n")
        other.stdin.flush()
        assert other.stdout.readline() == "{}\n"
    assert other.returncode == 0


def test_who_does_not_deliver_does_not_open_the_folder_either(tmp_path: Path) -> None:
    """Else the one could not deliver, and the other would not."""
    first, second = Lock(tmp_path / "role"), Lock(tmp_path / "role")
    assert first.take() and not second.take()
    engine = EdgeEngine(tmp_path / "edge", second)
    with pytest.raises(EngineBusy, match="another process has"):
        engine.open("words-1", replica.Layout(0))
    first.release()
    with pytest.raises(EngineLost):
        engine.open("words-1", replica.Layout(0))
    assert not first.take()
    second.release()


def test_an_engine_that_panics_is_an_engine_error(tmp_path: Path) -> None:
    """Its library raises what is no Exception then."""
    engine = EdgeEngine(tmp_path / "edge")
    layout = replica.Layout(4)
    engine.create("vectors-1", layout)
    engine.close()
    (status,) = (tmp_path / "edge" / "vectors-1").glob("segments/*/vector_storage*/vectors/status.dat")
    status.write_bytes(b"")
    with pytest.raises(EngineError):
        engine.open("vectors-1", layout)
    engine.create("vectors-1", layout)
    assert engine.open("vectors-1", layout).count() == 0
    engine.close()


def delete(where: Path) -> None:
    gone = where.rename(where.with_name("gone"))  # at once: the courier would put something into what is half deleted
    shutil.rmtree(gone)


def garble(where: Path) -> None:
    for file in where.glob("*/edge_config.json"):
        file.write_text("{")


def empty(where: Path) -> None:
    for inside in where.iterdir():
        shutil.rmtree(inside)
        inside.mkdir()


@pytest.mark.parametrize("damage", [delete, garble, empty])
def test_a_folder_that_was_lost_is_built_anew_without_a_wrong_answer_meanwhile(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    memory = filled(opening())
    expected = answers(memory)
    memory.close()
    damage(folder(file))
    again = opening()
    assert answers(again) == expected
    until(lambda: is_whole(again), "the folder, built anew")
    assert answers(again) == expected
    assert courier_of(again).problem is None


def test_a_folder_that_is_deleted_under_a_running_process_is_built_anew(opening: Opening, file: Path) -> None:
    memory = filled(opening())
    expected = answers(memory)
    delete(folder(file))
    until(lambda: folder(file).is_dir() and is_delivered(memory), "the folder, built anew")
    until(lambda: answers_or_none(memory) == expected, "the answers of before")
    assert differences(memory) == {}
    memory.close()
    again = opening()
    wait_until_delivered(again)
    assert differences(again) == {}
    assert answers(again) == expected


def answers_or_none(memory: Memory) -> list[tuple[int, float]] | None:
    recalled = memory.recall("apples word7 word21", limit=50)
    return None if recalled.degraded else [(hit.episode.id, round(hit.score, 9)) for hit in recalled.hits]


def in_hand(file: Path) -> list[bool]:
    """For each index outside the file whether it was not let go of in order."""
    store = Store(file)
    with store.read() as db:
        result = [outbox.is_in_hand(db, target.id) for target in outbox.targets(db)]
    store.close()
    return result


def test_what_an_engine_lost_with_a_killed_process_is_made_up_for_without_a_wrong_answer_meanwhile(
    opening: Opening, file: Path
) -> None:
    memory = filled(opening())
    memory.edit(8, "apples edited word7")
    wait_until_delivered(memory)
    expected = answers(memory)
    names = collection(memory, "vectors"), collection(memory, "words")
    assert in_hand(file) == [True, True]
    memory.close()
    assert in_hand(file) == [False, False]
    engine = EdgeEngine(folder(file))
    vectors, words = engine.open(names[0], replica.Layout(64)), engine.open(names[1], replica.Layout(0))
    vectors.remove(vectors.ids(0, 100)[5:25], 1)
    words.put([Point(8, 1, 0, Terms([1, 2, 3], [1.0, 1.0, 1.0]))], 1)
    engine.close()
    store = Store(file)
    with store.write() as db:
        for target in outbox.targets(db):
            outbox.take_in_hand(db, target.id)
    store.close()
    again = opening()
    assert answers(again) == expected
    until(lambda: is_whole(again), "what was lost")
    assert answers(again) == expected
    assert memory_words(again, "edited") == {8}


def memory_words(memory: Memory, text: str) -> set[int]:
    return {hit.episode.id for hit in memory.search(text, limit=100)}


def test_what_is_left_of_former_indexes_is_swept(opening: Opening, file: Path) -> None:
    memory = filled(opening())
    (folder(file) / "vectors-of-before").mkdir()
    until(lambda: not (folder(file) / "vectors-of-before").exists(), "the sweep")
    assert differences(memory) == {}


def test_a_grown_index_is_built_by_another_process_and_takes_over_without_a_wrong_answer(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(opening())
    expected, before = answers(memory), collection(memory, "vectors")
    monkeypatch.setattr(replica, "FEW", 20)
    rounds = 0
    while collection(memory, "vectors") == before:
        assert answers(memory) == expected
        if rounds == 3:
            memory.add("written meanwhile")
            expected = answers(memory)
        rounds += 1
        assert rounds < 10_000
    assert answers(memory) == expected
    wait_until_delivered(memory)
    assert differences(memory) == {}
    until(lambda: len(list(folder(file).iterdir())) == 2, "the sweep of the former index")
    assert answers(memory) == expected
    serving = memory._indexes.replicas[0]
    assert not serving.wants_index()


def test_a_search_whose_index_is_replaced_before_it_is_made_is_answered_by_the_file(opening: Opening) -> None:
    memory = filled(opening())
    expected, index = answers(memory), memory._vectors
    assert index
    vector = HashEmbedder().embed_query("apples word7")
    search = index.prepare(Scope("all"), (), 10)
    before = search(vector).ranking
    with courier_of(memory).held():
        replicas = memory._indexes.replicas
        replicas[0].engine.drop(collection(memory, "vectors"))
        assert search(vector).ranking == before
    until(lambda: is_whole(memory), "the index that was dropped")
    assert answers(memory) == expected


def test_an_index_begins_to_serve_also_where_something_is_written_all_the_time(opening: Opening) -> None:
    memory = opening()
    written = itertools.count()

    def serves() -> bool:
        memory.add(f"apples {next(written)}")
        with memory._store.read() as db:
            return [target.serves for target in outbox.targets(db)] == [True, True]

    deliver = replica.Replica.deliver
    with pytest.MonkeyPatch.context() as busy:
        busy.setattr(replica.Replica, "deliver", lambda self: memory.add("pears").id * 0 + deliver(self))
        until(serves, "the indexes to serve")
    wait_until_delivered(memory)
    assert differences(memory) == {}


def test_a_grown_index_is_built_also_where_there_is_always_something_to_deliver(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(opening())
    before = collection(memory, "vectors")
    deliver = replica.Replica.deliver
    with monkeypatch.context() as busy:
        busy.setattr(replica.Replica, "deliver", lambda self: max(1, deliver(self)))
        busy.setattr(courier, "LINGER", 0.02)
        busy.setattr(courier, "TIDY", 0.1)
        courier_of(memory)._tidy_at = 0.0
        busy.setattr(replica, "FEW", 20)
        until(lambda: collection(memory, "vectors") != before, "the index, built anew")


def test_a_builder_that_is_killed_is_followed_by_another(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "AGAIN", 0.2)
    memory = filled(opening())
    expected, before = answers(memory), collection(memory, "vectors")
    monkeypatch.setattr(replica, "FEW", 20)
    building = courier_of(memory)._building
    until(lambda: len(list(folder(file).iterdir())) == 3 or collection(memory, "vectors") != before, "a builder")
    building["vectors"].kill()
    until(lambda: collection(memory, "vectors") != before, "another builder")
    wait_until_delivered(memory)
    assert differences(memory) == {}
    assert answers(memory) == expected


def test_a_builder_that_fails_is_not_started_again_at_once(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    class Failing(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **rest: Any) -> None:
            started.append(command)
            super().__init__([sys.executable, "-S", "-c", "raise SystemExit(1)"], **rest)

    memory = filled(opening())
    expected = answers(memory)
    monkeypatch.setattr(courier.subprocess, "Popen", Failing)
    monkeypatch.setattr(replica, "FEW", 20)
    until(lambda: started, "a builder")
    number = memory.add("written meanwhile").id
    memory.forget(episode=number)
    wait_until_delivered(memory)
    until(lambda: courier_of(memory)._building["vectors"].poll() == 1, "its end")
    rounds = threading.Event()
    sweep = courier.Courier._sweep

    def counted(self: courier.Courier) -> None:
        rounds.set()
        sweep(self)

    monkeypatch.setattr(courier.Courier, "_sweep", counted)
    assert rounds.wait(20.0)
    assert len(started) == 1
    assert answers(memory) == expected


@pytest.mark.parametrize("served", [False, True])
def test_an_engine_that_is_not_installed_is_told_of_and_the_file_carries_on(
    opening: Opening, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    if served:
        filled(opening()).close()
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    memory = opening()
    added = memory.add("quinces and medlars")
    until(lambda: courier_of(memory).problem, "the courier's word")
    assert "pip install 'twofold[edge]'" in str(courier_of(memory).problem)
    recalled = memory.recall("quinces")
    assert recalled.hits[0].episode.id == added.id
    assert ("pip install 'twofold[edge]'" in recalled.degraded.get("semantic", "")) == served


def test_an_index_of_earlier_settings_that_nobody_tells_for_a_week_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memories.db"
    with Memory.open(file, embedder=HashEmbedder()) as memory:
        memory.settings({"vectors": "edge"})
        memory.add("The lighthouse is painted red.")
    with Memory.open(file, embedder=HashEmbedder()) as memory:
        wait_until_delivered(memory)
        memory.settings({"vectors": "exact"})
    week = 7 * 86_400_000_000
    for aged, left in ((0, 1), (week + 1, 0)):
        with Memory.open(file, embedder=HashEmbedder()) as memory:
            memory.add("The harbour is full.")
            with memory._store.write() as db:
                db.execute("UPDATE outbox SET since = since - ?", (aged,))
        with Memory.open(file, embedder=HashEmbedder()) as memory, memory._store.read() as db:
            assert len(outbox.targets(db)) == left
    assert not list((tmp_path / "memories.db-edge").iterdir())


@pytest.mark.parametrize("built", [False, True])
def test_the_file_and_the_engine_agree_after_a_kill(
    opening: Opening, file: Path, monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    """`make chaos` does it a hundred times."""
    if built:
        monkeypatch.setattr(replica, "FEW", chaos_delivery.FEW)
        monkeypatch.setattr(replica, "GROWN", 0.0)
    killed = chaos_delivery.kill(file, 0.1, 1, built)
    assert killed.writes > 0
    if killed.builder:
        with suppress(ProcessLookupError):
            os.kill(killed.builder, signal.SIGKILL)
    faults, _ = chaos_delivery.verify(file)
    assert faults == ""
