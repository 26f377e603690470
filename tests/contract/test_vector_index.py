"""What every vector index must do, whatever it is built on."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray
from qdrant_client import QdrantClient

from tests.conftest import Opener
from twofold import Memory, Message, Scope
from twofold.embed import ModelInfo
from twofold.engines import Engine, Layout, Quantization
from twofold.engines.edge import EdgeEngine
from twofold.engines.qdrant import QdrantEngine, Server
from twofold.engines.replica import Replica
from twofold.errors import ModelMismatch
from twofold.store import Store, models
from twofold.vectors import VectorHits, VectorIndex, VectorSearch
from twofold.vectors.exact import ExactIndex
from twofold.vectors.external import ExternalIndex
from twofold.vectors.points import points

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]

MODEL = ModelInfo("test", 8, "1")
ALL = Scope("all")
Floats = NDArray[np.float32]

Floats = NDArray[np.float32]
Maker = Callable[[Store, ModelInfo], VectorIndex]

# In the file; in each engine with all delivered before a search; in an engine that serves and is told nothing.
KINDS = ["exact", "edge", "edge scalar", "edge binary", "edge late", "qdrant memory", "qdrant path"]
SERVER = os.environ.get("QDRANT_URL")  # as docs/scale.md has it
if SERVER:
    KINDS += ["qdrant server", "qdrant scalar"]


def units(count: int, seed: int = 0) -> Floats:
    rows = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
    return unit


@pytest.fixture
def memory(open_memory: Opener) -> Memory:
    """Forty episodes in four sessions, two of them in a project; no vectors."""
    memory = open_memory(None)
    memory.import_(
        Message(f"text {n}", session=f"s{n % 4}", project="p" if n % 4 < 2 else None, source=str(n)) for n in range(40)
    )
    return memory


class Delivered:
    """An index over a replica that is told all there is before it is asked."""

    def __init__(self, index: ExternalIndex, replica: Replica) -> None:
        self._index = index
        self._replica = replica

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def prepare(self, scope: Scope, exclude: Collection[int], limit: int) -> VectorSearch:
        while self._index.is_current() and self._replica.deliver():
            pass
        with self._replica._store.read() as db:
            served = self._replica.serving(db) or db.txn_state() == apsw.SQLITE_TXN_WRITE
            assert served or not self._index.is_current() or self._index.counts()[0] == 0
        return self._index.prepare(scope, exclude, limit)


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine | None]:
    """The engine of the kind under test, one for all doors: only one can have it open."""
    kind = request.getfixturevalue("kind")
    if kind == "exact":
        yield None
        return
    if kind.startswith("edge"):
        made: Engine = EdgeEngine(tmp_path / "edge")
    elif kind in ("qdrant server", "qdrant scalar"):
        key = os.environ.get("QDRANT_API_KEY", "")
        made = QdrantEngine(Server(str(SERVER), f"twofold-test-{secrets.token_hex(4)}", key))
    else:
        place = {"location": ":memory:"} if kind == "qdrant memory" else {"path": str(tmp_path / "qdrant")}
        made = QdrantEngine(Server("local", "twofold-test"), lambda server: QdrantClient(**place))
    yield made
    if SERVER and not kind.startswith("edge"):
        for name in made.collections():
            made.drop(name)
    made.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def replica_of(store: Store, engine: Engine, model: ModelInfo, kept: str = "none") -> Replica:
    layout = Layout(model.dimension, cast(Quantization, kept))
    return Replica(store, engine, "vectors", layout, points, kept, lambda db: models.find(db, model.key))


@pytest.fixture
def make(kind: str, engine: Engine | None, tmp_path: Path, memory: Memory) -> Iterator[Callable[..., VectorIndex]]:
    """Makes an index of the kind under test over the file, as often as it is called."""
    stores: list[Store] = []

    def make_(model: ModelInfo = MODEL) -> VectorIndex:
        store = Store(tmp_path / "memories.db")
        stores.append(store)
        if engine is None:
            return ExactIndex(store, model)
        _, _, kept = kind.partition(" ")
        replica = replica_of(store, engine, model, kept if kept in ("scalar", "binary") else "none")
        index = ExternalIndex(store, model, replica)
        if kind != "edge late":
            return cast(VectorIndex, Delivered(index, replica))
        with store.write() as db:
            models.make(db, model.key)
            begun = replica.targets(db)
        if not begun:
            assert replica.deliver() == 1  # the collection was made
            assert replica.deliver() == 0  # and serves from now on
        return index

    yield make_
    for store in stores:
        store.close()


@pytest.fixture
def index(make: Callable[..., VectorIndex]) -> VectorIndex:
    """One vector for each of the forty episodes."""
    index = make()
    index.put((n + 1, row[None, :]) for n, row in enumerate(units(40)))
    return index


def brute(query: Floats, ids: list[int]) -> list[tuple[int, float]]:
    scores = units(40).astype(np.float64) @ query.astype(np.float64)
    return sorted(((id_, float(scores[id_ - 1])) for id_ in ids), key=lambda hit: (-hit[1], hit[0]))


def same(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> bool:
    return [id_ for id_, _ in found] == [id_ for id_, _ in expected] and np.allclose(
        [score for _, score in found], [score for _, score in expected], atol=1e-6
    )


QUERY = units(1, seed=9)[0]


def search(index: VectorIndex, scope: Scope, exclude: Collection[int], limit: int) -> VectorHits:
    return index.prepare(scope, exclude, limit)(QUERY)


@pytest.mark.parametrize("limit", [1, 5, 40, 100])
def test_the_nearest_are_found_exactly(index: VectorIndex, limit: int) -> None:
    assert same(search(index, ALL, (), limit).ranking, brute(QUERY, list(range(1, 41)))[:limit])


def test_a_limit_of_zero_finds_none(index: VectorIndex) -> None:
    assert search(index, ALL, (), 0).ranking == []


def test_a_scope_is_applied_before_ranking(index: VectorIndex) -> None:
    in_session = [id_ for id_ in range(1, 41) if (id_ - 1) % 4 == 2]
    in_project = [id_ for id_ in range(1, 41) if (id_ - 1) % 4 < 2]
    assert same(search(index, Scope("sessions", (3,)), (), 3).ranking, brute(QUERY, in_session)[:3])
    assert same(search(index, Scope("project", (1,)), (), 30).ranking, brute(QUERY, in_project))
    assert search(index, Scope("sessions"), (), 5).ranking == []


def test_excluded_episodes_leave_their_places_to_others(index: VectorIndex) -> None:
    best = [id_ for id_, _ in brute(QUERY, list(range(1, 41)))]
    found = search(index, ALL, best[:30], 5).ranking
    assert [id_ for id_, _ in found] == best[30:35]


def test_the_floor_is_the_mean_similarity_of_what_may_be_seen(index: VectorIndex) -> None:
    left = [id_ for id_ in range(1, 41) if (id_ - 1) % 4 == 2 and id_ != 3]
    expected = np.mean([score for _, score in brute(QUERY, left)])
    assert search(index, Scope("sessions", (3,)), [3], 2).floor == pytest.approx(expected, abs=1e-5)


def test_the_spread_is_how_far_the_best_stands_above_the_others(index: VectorIndex) -> None:
    scores = [score for _, score in brute(QUERY, list(range(1, 41)))]
    assert search(index, ALL, (), 5).spread == pytest.approx(scores[0] - np.mean(scores[1:]), abs=1e-4)
    assert search(index, ALL, list(range(2, 41)), 5).spread is None


def test_given_episodes_are_scored_as_the_search_scores_them(index: VectorIndex) -> None:
    ranking = dict(search(index, ALL, (), 40).ranking)
    assert index.score(QUERY, list(ranking)) == ranking
    assert index.score(QUERY, [1, 999]).keys() == {1}
    assert index.score(QUERY, []) == {}


def test_equal_scores_are_ordered_by_id(make: Callable[..., VectorIndex]) -> None:
    index = make()
    row = units(1)
    index.put((id_, row) for id_ in (7, 3, 30, 12))
    for limit in (1, 2, 3, 4):
        assert [id_ for id_, _ in search(index, ALL, (), limit).ranking] == [3, 7, 12, 30][:limit]


def test_an_episode_is_as_near_as_its_best_piece(make: Callable[..., VectorIndex]) -> None:
    index = make()
    rows = units(6)
    index.put([(1, rows[:3]), (2, rows[3:4]), (3, rows[4:])])
    scores = rows.astype(np.float64) @ QUERY.astype(np.float64)
    expected = {1: max(scores[:3]), 2: scores[3], 3: max(scores[4:])}
    found = dict(search(index, ALL, (), 10).ranking)
    assert found == pytest.approx(expected, abs=1e-6)
    assert index.score(QUERY, [1, 2, 3]) == found


def test_new_vectors_replace_the_old_ones_of_an_episode(index: VectorIndex) -> None:
    search(index, ALL, (), 1)
    index.put([(5, QUERY[None, :])])
    (first, *_) = search(index, ALL, (), 40).ranking
    assert first == (5, pytest.approx(1.0, abs=1e-3))
    assert len(search(index, ALL, (), 100).ranking) == 40


def test_a_second_door_sees_what_the_first_adds_and_removes(
    index: VectorIndex, make: Callable[..., VectorIndex], memory: Memory
) -> None:
    second = make()
    assert len(search(second, ALL, (), 100).ranking) == 40
    index.put([(5, QUERY[None, :])])
    assert search(second, ALL, (), 1).ranking[0][0] == 5
    memory.forget(episode=5)
    assert len(search(second, ALL, (), 100).ranking) == 39
    assert len(search(index, ALL, (), 100).ranking) == 39
    assert 5 not in dict(search(index, ALL, (), 100).ranking)


def test_what_a_failed_transaction_put_is_never_seen(index: VectorIndex, tmp_path: Path) -> None:
    store = index._store  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError), store.write():
        index.put([(5, QUERY[None, :])])
        assert search(index, ALL, (), 1).ranking[0][0] == 5
        raise RuntimeError
    assert same(search(index, ALL, (), 100).ranking, brute(QUERY, list(range(1, 41))))


def test_the_vectors_of_given_episodes_are_their_own_whatever_the_order_they_came_in(index: VectorIndex) -> None:
    rows = units(40)
    index.put([(5, rows[30:33])])
    found = index.vectors([9, 5, 40, 999])
    assert found.keys() == {5, 9, 40}
    assert np.array_equal(found[5], rows[30:33])
    assert np.array_equal(found[9], rows[8:9])
    assert np.array_equal(found[40], rows[39:40])
    assert index.vectors([]) == {}


def test_missing_vectors_are_listed_in_order(make: Callable[..., VectorIndex]) -> None:
    index = make()
    assert index.counts() == (0, 40)
    index.put([(2, units(1)), (4, units(2))])
    assert index.missing(0, 3) == [1, 3, 5]
    assert index.missing(5, 2) == [6, 7]
    assert index.counts() == (2, 38)


def test_another_model_is_refused_until_it_is_switched_to(index: VectorIndex, make: Callable[..., VectorIndex]) -> None:
    other = make(ModelInfo("other", 8, "1"))
    assert not other.is_current()
    with pytest.raises(ModelMismatch, match=r"made by test \(8 dimensions\), not by other \(8\)"):
        search(other, ALL, (), 5)
    assert other.counts() == (0, 40)
    other.put((n + 1, row[None, :]) for n, row in enumerate(units(40, seed=5)))
    other.switch()
    assert other.is_current()
    assert len(search(other, ALL, (), 100).ranking) == 40
    with pytest.raises(ModelMismatch, match="made by other"):
        search(index, ALL, (), 5)
