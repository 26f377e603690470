"""What every keyword index must do, whatever finds its candidates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import apsw
import pytest
from qdrant_client import QdrantClient

from tests.conftest import Opener
from twofold import Memory, Message, Scope
from twofold.engines import Engine, Layout
from twofold.engines.edge import EdgeEngine
from twofold.engines.qdrant import QdrantEngine, Server
from twofold.engines.replica import Replica
from twofold.keyword import KeywordHits, KeywordIndex, outside
from twofold.keyword.bm25 import Term
from twofold.keyword.fts5 import LEAST_CANDIDATES, Fts5Index
from twofold.keyword.outside import Outside, points
from twofold.store import Store
from twofold.text import query_terms

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

# In the file; in each engine with all delivered before a search; in an engine that serves and is told nothing.
KINDS = ("fts5", "edge", "edge late", "qdrant memory", "qdrant memory late", "qdrant path")

ALL = Scope("all")
START = datetime(2024, 3, 1, tzinfo=timezone.utc)


class Asked(Outside):
    """Candidates of an engine that is brought up to date first, unless it is to be late, and has to answer."""

    def __init__(self, replica: Replica, late: bool) -> None:
        super().__init__(replica)
        self._late = late

    def bring_up_to_date(self) -> None:
        while not self._late and self._replica.deliver():
            pass

    def best(self, db: apsw.Connection, terms: Sequence[Term], scope: Scope, limit: int) -> list[int] | None:
        found = super().best(db, terms, scope, limit)
        assert found is not None, "FTS5 was asked in its stead"
        return found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def memory(open_memory: Opener) -> Memory:
    """Four sessions of three texts each, the first two sessions in a project; no vectors."""
    memory = open_memory(None)
    kinds = ("apples in the orchard", "pears and plums", "the harvest of apples")
    memory.import_(
        Message(
            f"{kinds[n % 3]} number{n}",
            session=f"s{n // 3}",
            project="p" if n < 6 else None,
            source=str(n),
            time=START + timedelta(hours=n),
        )
        for n in range(12)
    )
    return memory


@pytest.fixture
def make(kind: str, memory: Memory, tmp_path: Path) -> Iterator[Callable[[], Callable[..., list[tuple[int, float]]]]]:
    """Opens the index under test, as after a start of the program; each call gives its search."""
    opened: list[tuple[Store, Replica | None]] = []
    shared = QdrantClient(":memory:") if kind.startswith("qdrant memory") else None

    def engine() -> Engine:
        if kind.startswith("edge"):
            return EdgeEngine(tmp_path / "edge")
        place = str(tmp_path / "qdrant")
        return QdrantEngine(Server("local", "test"), lambda server: shared or QdrantClient(path=place))

    def close() -> None:
        while opened:
            store, used = opened.pop()
            if used and not shared:
                used.engine.close()
                used.let_go()
            store.close()

    def make_() -> Callable[..., list[tuple[int, float]]]:
        close()
        store = Store(tmp_path / "memories.db")
        opened.append((store, None))
        if kind == "fts5":
            return searching(Fts5Index(store), lambda: None)
        replica = Replica(store, engine(), "words", Layout(0), points, "{}", lambda db: None)
        opened[-1] = store, replica
        asked = Asked(replica, kind.endswith("late"))
        with store.read() as db:
            begun = replica.targets(db)
        while not begun and replica.deliver():
            pass
        return searching(Fts5Index(store, asked), asked.bring_up_to_date)

    yield make_
    close()


def searching(index: KeywordIndex, first: Callable[[], None]) -> Callable[..., list[tuple[int, float]]]:
    """A search by a text, which must give the hits that FTS5 alone gives."""
    store = index._store  # type: ignore[attr-defined]
    alone = Fts5Index(store)

    def search(
        text: str, scope: Scope = ALL, exclude: Collection[int] = (), limit: int = 50, *, own: bool = False
    ) -> list[tuple[int, float]]:
        first()
        found: KeywordHits = index.search(query_terms(text), scope, exclude, limit, own=own)
        assert found.ranking == alone.search(query_terms(text), scope, exclude, limit, own=own).ranking
        return found.ranking

    return search


@pytest.fixture
def search(make: Callable[[], Callable[..., list[tuple[int, float]]]]) -> Callable[..., list[tuple[int, float]]]:
    return make()


def ids(ranking: list[tuple[int, float]]) -> set[int]:
    return {id_ for id_, _ in ranking}


Search = Callable[..., list[tuple[int, float]]]


def test_what_holds_a_word_is_found_and_its_neighbours_after_it(search: Search) -> None:
    ranking = search("number4")
    assert ranking[0][0] == 5
    assert ids(ranking) == {4, 5, 6}
    assert ids(search("number4", own=True)) == {5}
    assert search("nowhere") == []


def test_what_is_added_is_found_at_once(search: Search, memory: Memory) -> None:
    added = memory.add("quinces for number4", session="s9").id
    assert ids(search("quinces")) == {added}
    assert ids(search("number4", own=True)) == {5, added}


def test_an_edited_text_is_found_by_its_new_words_alone(search: Search, memory: Memory) -> None:
    memory.edit(2, "medlars instead")
    assert ids(search("medlars", own=True)) == {2}
    assert search("number1", own=True) == []
    assert 2 not in ids(search("plums", own=True))
    memory.edit(2, "!?")
    assert search("medlars") == []
    memory.edit(2, "sloes at last")
    assert ids(search("sloes", own=True)) == {2}


def test_a_neighbours_word_does_not_stand_for_an_own_one_that_was_edited_away(search: Search, memory: Memory) -> None:
    memory.edit(1, "nothing of that kind")
    assert 1 not in ids(search("apples", own=True))
    assert 1 in ids(search("apples"))


def test_what_is_forgotten_is_found_no_more(search: Search, memory: Memory) -> None:
    memory.forget(episode=5)
    assert search("number4") == []
    assert 5 not in ids(search("plums pears"))
    memory.forget(session="s3")
    assert ids(search("harvest", own=True)) == {3, 6, 9}
    memory.forget(project="p")
    assert ids(search("harvest", own=True)) == {9}


def test_only_what_the_scope_may_see_is_found(search: Search, memory: Memory) -> None:
    (project,) = memory.projects()
    assert ids(search("harvest", Scope("sessions", (2,)), own=True)) == {6}
    assert ids(search("harvest", Scope("sessions", (1, 4)), own=True)) == {3, 12}
    assert ids(search("harvest", Scope("project", (project.id,)), own=True)) == {3, 6}
    assert ids(search("harvest", Scope("project", (project.id + 1,)))) == set()
    assert search("harvest", Scope("sessions")) == []
    memory.add("another harvest", session="s1", project="p")
    memory.add("another harvest", session="s1")
    assert ids(search("harvest", Scope("project", (project.id,)), own=True)) == {3, 6, 13}
    assert 14 not in ids(search("harvest", Scope("sessions", (2,))))


def test_excluded_episodes_leave_their_places_to_others(search: Search) -> None:
    best = [id_ for id_, _ in search("harvest", own=True)]
    assert [id_ for id_, _ in search("harvest", ALL, best[:2], 1, own=True)] == best[2:3]
    assert not ids(search("harvest", ALL, best)) & set(best)


def test_so_many_are_found_as_the_limit_says(search: Search) -> None:
    whole = search("apples pears")
    assert len(whole) == 12
    for limit in (0, 1, 5):
        assert search("apples pears", limit=limit) == whole[:limit]


def test_equal_scores_are_ordered_by_id(search: Search, memory: Memory) -> None:
    added = [memory.add("a walnut", session=f"alone{n}").id for n in range(5)]
    ranking = search("walnut")
    assert [id_ for id_, _ in ranking] == added
    assert len({score for _, score in ranking}) == 1
    assert search("walnut", limit=3) == ranking[:3]


def test_what_was_told_is_known_after_a_start(
    search: Search, make: Callable[[], Callable[..., list[tuple[int, float]]]], memory: Memory
) -> None:
    before = search("apples harvest number7")
    memory.add("quinces", session="s9")
    again = make()
    assert ids(again("quinces")) == {13}
    assert [id_ for id_, _ in again("apples harvest number7")] == [id_ for id_, _ in before]


def test_chinese_and_japanese_are_found_by_their_pairs(search: Search, memory: Memory) -> None:
    memory.add("我们在上海的图书馆见面", session="z1")
    memory.add("東京タワーで会いましょう", session="z2")
    memory.add("图书很多", session="z3")
    assert [id_ for id_, _ in search("图书馆", own=True)] == [13, 15]
    assert ids(search("東京", own=True)) == {14}


def test_identifiers_are_found_whole_and_by_their_parts(search: Search, memory: Memory) -> None:
    memory.add("call parseHTTPHeader with max_retry_count", session="z1")
    memory.add("ticket ABC-1234 is open", session="z2")
    assert ids(search("parseHTTPHeader", own=True)) == {13}
    assert ids(search("max_retry_count", own=True)) == {13}
    assert ids(search("header", own=True)) == {13}
    assert ids(search("ABC-1234", own=True)) == {14}


def test_a_word_that_more_rows_hold_than_are_looked_at_is_ranked_like_any(
    make: Callable[[], Callable[..., list[tuple[int, float]]]], memory: Memory
) -> None:
    count = 4 * LEAST_CANDIDATES
    memory.import_(
        Message("common " + "and " * (n % 7) + ("rare" if n % 100 == 50 else ""), session=f"many{n}", source=str(n))
        for n in range(count)
    )
    search = make()
    assert ids(search("rare common", limit=4, own=True)) == {12 + n + 1 for n in range(50, count, 100)}
    assert len(search("rare", limit=10)) == 4


def test_more_waiting_points_than_are_looked_through_are_a_matter_for_fts5(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside, "MOST_PENDING", 3)
    store = Store(tmp_path / "memories.db")
    engine = EdgeEngine(tmp_path / "edge")
    replica = Replica(store, engine, "words", Layout(0), points, "{}", lambda db: None)
    while replica.deliver():
        pass
    term = Term("number4", 1, 1.0)
    for number in range(4):
        with store.read() as db:
            assert (Outside(replica).best(db, [term], ALL, 10) is None) == (number > 3)
        memory.add(f"one more {number}", session="more")
    with store.read() as db:
        assert Outside(replica).best(db, [term], ALL, 10) is None
    engine.close()
    store.close()
