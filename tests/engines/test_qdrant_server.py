"""Delivery to a Qdrant server over a network that loses, delays and reorders requests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from benchmarks.chaos_delivery import differences
from tests.engines.delivery import is_whole, until, wait_until_delivered
from tests.fake_qdrant import KEY, FakeQdrant, Fault
from twofold import Memory, Message
from twofold.embed.hashing import HashEmbedder
from twofold.engines import Layout, Point, Terms, courier, qdrant
from twofold.engines.qdrant import QdrantEngine, Server
from twofold.errors import EngineError, EngineLost
from twofold.store import outbox
from twofold.types import Scope

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")

Opening = Callable[..., Memory]
ALL = Scope("all")


@pytest.fixture
def server() -> Iterator[FakeQdrant]:
    fake = FakeQdrant()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: FakeQdrant) -> Iterator[Opening]:
    """Opens a memory whose vectors and words are found by the server."""
    settings = {"VECTORS": "qdrant", "KEYWORD": "qdrant", "QDRANT_URL": server.url, "QDRANT_GRPC_PORT": "0"}
    for name, value in {**settings, "QDRANT_TIMEOUT": "1"}.items():
        monkeypatch.setenv(f"TWOFOLD_{name}", value)
    monkeypatch.setattr(courier, "TICK", 0.02)
    monkeypatch.setattr(courier, "LINGER", 0.0)
    monkeypatch.setattr(courier, "LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(qdrant, "WAITS", (0.01, 0.02))
    monkeypatch.setattr(qdrant, "REST", 0.03)
    opened: list[Memory] = []

    def open_(**changes: str) -> Memory:
        for name, value in changes.items():
            monkeypatch.setenv(f"TWOFOLD_{name}", value)
        opened.append(Memory.open(tmp_path / "memories.db", embedder=HashEmbedder()))
        return opened[-1]

    yield open_
    server.faults.clear()
    server.chance = lambda request: "none"
    for memory in opened:
        memory.close()


def filled(memory: Memory, count: int = 30) -> Memory:
    memory.import_(Message(f"apples word{n}", session=f"s{n % 3}", source=f"first{n}") for n in range(count))
    wait_until_delivered(memory)
    return memory


def write(memory: Memory, chance: random.Random, number: int) -> None:
    """One random change."""
    with memory._store.read() as db:
        there = [row[0] for row in db.execute("SELECT id FROM episodes ORDER BY id")]
    kind = chance.choice(["add", "add", "edit", "edit", "forget"]) if there else "add"
    if kind == "add":
        memory.add(f"apples word{number}", session=f"s{number % 3}")
    elif kind == "edit":
        memory.edit(chance.choice(there), f"edited word{number}" if number % 5 else "!?")
    else:
        memory.forget(episode=chance.choice(there))


def agree_with_the_file(memory: Memory) -> None:
    """Every word and every vector is found by the server as the file has it."""
    with memory._store.read() as db:
        contents = dict(db.execute("SELECT id, content FROM episodes"))
    embedder = HashEmbedder()
    assert memory._vectors
    for id_, content in contents.items():
        words = [word for word in content.split() if word.startswith("word")]
        holding = {other for other, text in contents.items() if words and words[0] in text.split()}
        assert {hit.episode.id for hit in memory.search(words[0], limit=1000)} == holding if words else True
        vector = embedder.embed_query(content)
        ranking = dict(memory._vectors.prepare(ALL, (), 1000)(vector).ranking)
        assert ranking.keys() == contents.keys()
        assert ranking[id_] == pytest.approx(1.0, abs=1e-3)


def settled(memory: Memory) -> None:
    """All is delivered, and the server has what the file has."""
    until(lambda: is_whole(memory), "delivery once the faults are over")
    assert differences(memory) == {}
    agree_with_the_file(memory)


def test_what_is_written_is_delivered_and_found(opening: Opening, server: FakeQdrant) -> None:
    memory = filled(opening())
    memory.edit(3, "edited word3")
    memory.forget(episode=4)
    settled(memory)
    assert memory.recall("apples word7").degraded == {}
    assert any("points/query" in one for one in server.asked)
    names = {one.rsplit("-", 1)[0] for one in server.ids()}
    assert len(names) == 2
    aliases = {one.alias_name for one in server._client.get_aliases().aliases}
    assert aliases == names


FAULTS: list[Fault] = ["cut before", "cut after", "500", "429", "429 later", "no result", "html"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_every_kind_loses_nothing(opening: Opening, server: FakeQdrant, fault: Fault) -> None:
    chance = random.Random(fault)
    server.faults.extend([fault] * 8)  # also the very first requests, by which collections are made
    memory = opening()
    for number in range(30):
        write(memory, chance, number)
        server.faults.extend([fault] if number % 3 else [])
    settled(memory)


def test_answers_that_come_too_late_lose_nothing(opening: Opening, server: FakeQdrant) -> None:
    memory = filled(opening())
    server.faults.extend(["slow", "none", "slow"])
    chance = random.Random(1)
    for number in range(10):
        write(memory, chance, 100 + number)
    settled(memory)


@pytest.mark.parametrize("seed", [1, 2])
def test_requests_that_are_applied_after_later_ones_undo_nothing(
    opening: Opening, server: FakeQdrant, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    memory = filled(opening(), 10)
    monkeypatch.setattr(qdrant, "REST", 0.0)
    kinds: list[Fault] = ["none", "cut before", "cut after", "held"]
    server.chance = lambda request: chance.choice(kinds) if is_write(request) else "none"
    late = 0
    for number in range(30):
        write(memory, chance, number)
        with suppress(EngineError):
            memory._indexes.deliver()
        if number % 5 == 4:
            late += len(server.held)
            server.release()
    server.chance = lambda request: "none"
    until(lambda: not any(lags(memory)), "delivery once the faults are over")
    server.release()
    assert late > 5
    assert {kind: lack for kind, (lack, _) in differences(memory).items() if lack} == {}
    agree_with_the_file(memory)


def is_write(request: str) -> bool:
    return request.endswith(("/points", "/points/delete"))


def lags(memory: Memory) -> list[int]:
    with memory._store.read() as db:
        return [outbox.lag(db, target.id)[0] for target in outbox.targets(db)]


def test_a_point_that_a_late_request_brings_back_is_in_no_answer(opening: Opening, server: FakeQdrant) -> None:
    memory = filled(opening())
    server.chance = lambda request: "held" if request.startswith("PUT") else "none"
    added = memory.add("quinces")
    until(lambda: len(server.held) > 4, "a request that is held")
    server.chance = lambda request: "none"
    wait_until_delivered(memory)
    memory.forget(episode=added.id)
    wait_until_delivered(memory)
    assert differences(memory) == {}
    server.release()
    assert any(extra for _, extra in differences(memory).values())
    assert added.id not in {hit.episode.id for hit in memory.recall("quinces", limit=100).hits}
    assert memory.search("quinces") == ()


def test_an_edit_is_not_undone_by_the_request_of_before(server: FakeQdrant) -> None:
    engine = QdrantEngine(Server(server.url, "test", grpc_port=0))
    engine.create("words-1", Layout(0))
    words = engine.open("words-1", Layout(0))
    old, new = (Point(1, 1, 0, Terms([number], [1.0])) for number in (10, 20))
    words.put([new], 7)
    words.put([old], 5)
    assert words.search(Terms([20], [1.0]), ALL, (), 5) == [1]
    assert words.search(Terms([10], [1.0]), ALL, (), 5) == []
    words.remove([1], 6)
    assert words.ids(0, 10) == [1]
    words.put([old], 8)
    assert words.search(Terms([10], [1.0]), ALL, (), 5) == [1]
    words.remove([1], 9)
    assert words.ids(0, 10) == []
    engine.close()


def test_a_server_that_has_lost_all_is_told_all_again(opening: Opening, server: FakeQdrant) -> None:
    memory = filled(opening())
    server.wipe()
    settled(memory)
    assert memory.recall("apples word7").degraded == {}
    memory.close()
    server.wipe()
    settled(opening())


def test_an_index_that_cannot_be_told_holds_up_no_other(opening: Opening, server: FakeQdrant) -> None:
    memory = filled(opening())
    server.chance = lambda request: "500" if "-vectors" in request and request.endswith("/points") else "none"
    added = memory.add("quinces elsewhere")
    words = next(name for name in server.ids() if "-words" in name)
    until(lambda: added.id in server.ids()[words], "the words, while the vectors are refused")
    assert {lag.kind: lag.waiting for lag in memory.status().external_indexes}["vectors"] == 1
    server.chance = lambda request: "none"
    settled(memory)


def test_a_server_that_is_away_is_told_of_and_words_carry_on_at_once(opening: Opening, server: FakeQdrant) -> None:
    memory = filled(opening())
    server.stop()
    added = memory.add("quinces elsewhere")
    start = time.monotonic()
    for _ in range(10):
        recalled = memory.recall("quinces")
        assert server.url in recalled.degraded["semantic"]
        assert [hit.episode.id for hit in recalled.hits][:1] == [added.id]
    assert time.monotonic() - start < 2.0
    server.start()
    settled(memory)
    until(lambda: memory.recall("quinces").degraded == {}, "the server to be asked again")
    assert memory.recall("quinces").hits[0].episode.id == added.id


def test_a_server_that_does_not_answer_holds_up_one_recall_and_not_the_next(
    opening: Opening, server: FakeQdrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(opening())
    monkeypatch.setattr(qdrant, "REST", 20.0)
    server.chance = lambda request: "slow"
    assert "gave no answer" in memory.recall("apples word7").degraded["semantic"]
    start = time.monotonic()
    for _ in range(10):
        recalled = memory.recall("apples word7")
        assert "a moment ago" in recalled.degraded["semantic"]
        assert recalled.hits
    assert time.monotonic() - start < 0.8


def test_a_memory_opens_and_closes_quickly_without_its_server(opening: Opening, server: FakeQdrant) -> None:
    filled(opening()).close()
    server.stop()
    start = time.monotonic()
    memory = opening()
    added = memory.add("quinces")
    assert memory.recall("quinces").hits[0].episode.id == added.id
    memory.close()
    assert time.monotonic() - start < 2.0
    server.start()
    settled(opening())


@pytest.mark.parametrize("key", ["", "another key"])
def test_a_wrong_key_is_told_of_and_the_right_one_delivers(opening: Opening, server: FakeQdrant, key: str) -> None:
    filled(opening()).close()
    server.key = KEY
    memory = opening(QDRANT_API_KEY=key)
    recalled = memory.recall("apples word7")
    assert "401" in recalled.degraded["semantic"]
    assert "qdrantApiKey" in recalled.degraded["semantic"]
    assert KEY not in str(recalled.degraded)
    memory.add("quinces")
    memory.close()
    settled(opening(QDRANT_API_KEY=KEY))


@pytest.mark.parametrize("end", ["", "/"])
def test_an_address_with_a_path_is_asked_under_that_path(opening: Opening, server: FakeQdrant, end: str) -> None:
    server.prefix = "/search/qdrant"
    memory = filled(opening(QDRANT_URL=server.url + end))
    settled(memory)
    assert memory.recall("apples word7").degraded == {}


def test_an_address_that_sends_elsewhere_is_refused_with_the_other_address(
    opening: Opening, server: FakeQdrant
) -> None:
    filled(opening()).close()
    server.elsewhere = "https://vectors.example.org"
    memory = opening()
    reason = memory.recall("apples word7").degraded["semantic"]
    assert "https://vectors.example.org" in reason
    assert "qdrantUrl" in reason


def test_a_proxy_that_knows_no_such_path_does_not_count_as_a_lost_collection(
    opening: Opening, server: FakeQdrant
) -> None:
    filled(opening()).close()
    before = server.ids()
    server.prefix = "/moved"
    memory = opening()
    assert "404" in memory.recall("apples word7").degraded["semantic"]
    memory.add("quinces")
    until(lambda: courier_problem(memory), "the courier's word")
    server.prefix = ""
    settled(memory)
    assert server.ids().keys() == before.keys()


def courier_problem(memory: Memory) -> str | None:
    assert memory._indexes.courier
    return memory._indexes.courier.problem


def test_stores_that_share_a_server_leave_each_others_collections_alone(
    opening: Opening, server: FakeQdrant, tmp_path: Path
) -> None:
    memory = filled(opening())
    with Memory.open(tmp_path / "another.db", embedder=HashEmbedder()) as another:
        another.add("pears")
        wait_until_delivered(another)
        assert differences(another) == {}
        assert differences(memory) == {}
        assert len(server.ids()) == 4
        assert {hit.episode.content for hit in another.recall("apples pears").hits} == {"pears"}
    settled(memory)


def test_what_is_not_there_is_lost_and_what_does_not_answer_is_not(server: FakeQdrant) -> None:
    engine = QdrantEngine(Server(server.url, "test", grpc_port=0, timeout=1))
    with pytest.raises(EngineLost):
        engine.open("vectors-1", Layout(4))
    engine.create("vectors-1", Layout(4))
    points = engine.open("vectors-1", Layout(4))
    points.put([Point(1, 1, 0, np.ones(4, dtype=np.float32))], 1)
    engine.drop("vectors-1")
    with pytest.raises(EngineLost):
        points.put([Point(2, 1, 0, np.ones(4, dtype=np.float32))], 2)
    with pytest.raises(EngineLost):
        points.search(np.ones(4, dtype=np.float32), ALL, (), 5)
    server.stop()
    with pytest.raises(EngineError) as raised:
        points.search(np.ones(4, dtype=np.float32), ALL, (), 5)
    assert not isinstance(raised.value, EngineLost)
    engine.close()
