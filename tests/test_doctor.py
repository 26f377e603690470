"""What doctor names, what it mends, and that it finds nothing where nothing is wrong."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient

from tests.conftest import Opener
from twofold import Memory, Message, cli, health
from twofold.doctor import LATE, Doctor, Report
from twofold.embed.hashing import HashEmbedder
from twofold.engines import Layout, Point
from twofold.engines.courier import Courier
from twofold.engines.qdrant import QdrantEngine, Server
from twofold.engines.replica import Replica
from twofold.errors import EngineError, NotAllowed
from twofold.indexing import Indexes
from twofold.store import models, outbox
from twofold.store.lock import Lock
from twofold.vectors.external import ExternalIndex
from twofold.vectors.points import points as located

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]

TEXTS = (
    "apple pie with cinnamon",
    "the gate code is 4711",
    "Ada Example mends the pipes",
    "marmalade of bitter oranges",
    "getUserById reads the cache",
    "the plumber charged 180 for the pipes",
)
SIZE = 64  # dimensions of HashEmbedder
Harm = Callable[[apsw.Connection], object]
Run = Callable[..., tuple[int, str]]


def fill(memory: Memory) -> Memory:
    """Two dozen episodes in four sessions, two of them in a project; two entities."""
    memory.entities.add("Ada Example", "person", description="the plumber", project="house")
    memory.entities.add("Cinnamon", "spice", project="house")
    memory.import_(
        Message(f"{TEXTS[n % 6]}, said for the {n}th time", session=f"s{n % 4}", project="house" if n % 2 else None)
        for n in range(24)
    )
    return memory


@pytest.fixture
def filled(memory: Memory) -> Memory:
    return fill(memory)


@pytest.fixture
def kind() -> str:
    """Which index is outside the file."""
    return "vectors"


@pytest.fixture
def outside(open_memory: Opener, monkeypatch: pytest.MonkeyPatch, kind: str) -> Memory:
    """The same with an index in Qdrant Edge, told everything."""
    if kind in ("vectors", "both"):
        monkeypatch.setenv("TWOFOLD_VECTORS", "edge")
    if kind in ("words", "both"):
        monkeypatch.setenv("TWOFOLD_KEYWORD", "qdrant")
    memory = fill(open_memory())
    deliver(memory)
    return memory


def deliver(memory: Memory) -> None:
    courier = memory._indexes.courier
    assert courier
    with courier.held() as alone:
        assert alone
        memory._indexes.deliver()


def answers(memory: Memory) -> list[Any]:
    """What recall, keyword search and entity search find, with the scores."""
    found: list[Any] = []
    for query in ("who mends pipes?", "apple cinnamon", "gate code"):
        recalled = memory.recall(query, limit=30)
        assert not recalled.degraded
        found.append([(hit.episode.id, round(hit.score, 6)) for hit in recalled])
        found.append([(hit.episode.id, round(hit.score, 6)) for hit in memory.search(query, limit=30)])
        hits = memory.entities.search(query, project="house").hits
        found.append([(hit.entity.name, round(hit.score, 6)) for hit in hits])
    return found


def harm(memory: Memory, *work: str | Harm) -> None:
    """Do what no code of ours does, with foreign keys off."""
    db = memory._store.connection
    db.execute("PRAGMA foreign_keys = OFF")
    for one in work:
        db.execute(one) if isinstance(one, str) else one(db)
    db.execute("PRAGMA foreign_keys = ON")


def named(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in report.findings:
        found.setdefault(finding.part, []).append(finding.problem)
    return found


def is_mended(memory: Memory, part: str, words: str, count: int | None = None) -> None:
    """Doctor names it, and leaves it; with `repair` it mends it; then it finds nothing."""
    courier = memory._indexes.courier
    with courier.held() if courier else nullcontext():  # which might see it first
        report = memory.doctor()
        told = [finding for finding in report.findings if finding.part == part and words in finding.problem]
        assert len(told) == 1, report
        assert told[0].repairable and not told[0].repaired
        assert count in (None, told[0].count)
        assert not report.is_healthy
        assert "--repair" in report.left_to_do[0]
        assert told[0] in memory.doctor().findings, "it was only looked at"
        mended = memory.doctor(repair=True)
        assert mended.is_healthy, mended
        assert any(
            finding.part == part and words in finding.problem and finding.repaired for finding in mended.findings
        )
        assert memory.doctor().findings == ()


# Nothing is wrong


def test_an_empty_store_is_healthy(memory: Memory) -> None:
    assert memory.doctor() == Report(())


def test_a_store_is_healthy_and_a_repair_changes_nothing(filled: Memory) -> None:
    before, state = answers(filled), filled._store.connection.execute("SELECT * FROM keyword_docs").fetchall()
    assert filled.doctor() == Report(())
    assert filled.doctor(repair=True) == Report(())
    assert answers(filled) == before
    assert filled._store.connection.execute("SELECT * FROM keyword_docs").fetchall() == state


@pytest.mark.parametrize("kind", ("both",))
def test_a_store_with_indexes_outside_is_healthy(outside: Memory) -> None:
    assert outside.doctor() == Report(())
    assert outside.doctor(repair=True) == Report(())


def test_what_another_connection_wrote_is_no_fault(filled: Memory) -> None:
    filled.import_(Message(f"door number {n} is painted", session="s0") for n in range(60))
    assert filled.doctor().findings == ()
    session = filled.catalog.find_session("s0")
    assert session
    for work in (
        lambda: filled.catalog.move_session(session.id, "garden"),
        lambda: filled.forget(session="s0", project="garden"),
        lambda: filled.add("apples again", session="s0", project="garden"),
    ):
        beside = threading.Thread(target=work)
        beside.start()
        beside.join()
    assert filled.doctor().findings == ()


def test_episodes_that_wait_for_a_vector_are_no_fault_and_are_told(open_memory: Opener) -> None:
    open_memory(None).add("apple")
    report = open_memory().doctor()
    assert report.findings == ()
    assert report.left_to_do == ("1 episodes wait for a vector; make them with: twofold embed",)


def test_vectors_of_a_model_of_before_are_no_fault_and_are_told(open_memory: Opener) -> None:
    open_memory().add("apple")
    memory = open_memory(HashEmbedder(32))
    memory.embed_missing()
    report = memory.doctor(repair=True)
    assert report.findings == ()
    assert "1 vectors are of models that are not searched by" in report.left_to_do[0]


WORDS = st.sampled_from(("apple", "gate", "Ada Example", "getUserById", "北京", "don't", "", "#1", "the"))
TEXT = st.lists(WORDS, min_size=1, max_size=6).map(" ".join).filter(str.strip)
STEP = st.one_of(
    st.tuples(st.just("add"), TEXT, st.sampled_from("ab"), st.sampled_from(("p", None))),
    st.tuples(st.just("edit"), TEXT),
    st.tuples(st.just("forget")),
    st.tuples(st.just("forget session"), st.sampled_from("ab")),
    st.tuples(st.just("entity"), st.sampled_from(("Ada Example", "gate", "apple")), st.sampled_from("pq")),
    st.tuples(st.just("embed")),
)


def write(memory: Memory, step: tuple[Any, ...]) -> None:
    ids = [row[0] for row in memory._store.connection.execute("SELECT id FROM episodes ORDER BY time, id")]
    match step:
        case ("add", text, session, project):
            memory.add(text, session=session, project=project)
        case ("edit", text) if ids:
            memory.edit(ids[len(ids) // 2], text)
        case ("forget",) if ids:
            memory.forget(episode=ids[len(ids) // 2])
        case ("forget session", session) if any(one.name == session and not one.project for one in memory.sessions()):
            memory.forget(session=session)
        case ("entity", name, project) if not memory.entities.page(project=project).items:
            memory.entities.add(name, "thing", project=project)
        case ("embed",):
            memory.embed_missing()


@settings(max_examples=20)
@given(st.lists(STEP, min_size=1, max_size=25), st.booleans())
def test_whatever_is_written_doctor_finds_nothing(steps: list[tuple[Any, ...]], embeds: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "m.db", embedder=HashEmbedder()) as memory:
        memory.catalog.add_project("p")
        memory.catalog.add_project("q")
        for step in steps:
            write(memory, step)
        assert memory.doctor().findings == ()


# Harm within the file


def bytes_of(*values: float) -> str:
    row = np.zeros(SIZE, dtype=np.float16)
    row[: len(values)] = values
    return f"x'{row.tobytes().hex()}'"


def other_words(db: apsw.Connection) -> None:
    scope = "#1 +0"
    db.execute("DELETE FROM keyword WHERE rowid = 1")
    db.execute("INSERT INTO keyword (rowid, terms, scope) VALUES (1, 'banana pie with sugar', ?)", (scope,))


def other_session(db: apsw.Connection) -> None:
    terms = "appl pie cinnamon"
    db.execute("DELETE FROM keyword WHERE rowid = 1")
    db.execute("INSERT INTO keyword (rowid, terms, scope) VALUES (1, ?, '#9 +9')", (terms,))


KEYWORDS: tuple[tuple[str | Harm, str, int | None], ...] = (
    ("DELETE FROM keyword_docs WHERE id = 3", "episodes have no entry", 1),
    ("UPDATE keyword_docs SET hashes = zeroblob(length(hashes)) WHERE id IN (2, 7)", "another than their words", 2),
    ("UPDATE keyword_docs SET own = own - 1 WHERE id = 2", "another than their words", 1),
    ("UPDATE keyword_docs SET near = x'07'", "another than their words", 24),
    ("INSERT INTO keyword_docs VALUES (99, 0, x'', x'')", "entries belong to no episode", 1),
    ("DELETE FROM keyword WHERE rowid = 3", "in one of the two tables alone", 1),
    ("INSERT INTO keyword (rowid, terms, scope) VALUES (99, 'appl', '#1 +0')", "in one of the two tables alone", 1),
    ("UPDATE counters SET value = value + 1 WHERE name = 'keyword_own'", "counts by which words are weighed", 1),
    ("UPDATE counters SET value = 0 WHERE name LIKE 'keyword_%' AND name != 'keyword_analyser'", "counts by which", 3),
    (other_words, "lists hold other words", 1),
    (other_session, "lists hold other words", 1),
    ("UPDATE keyword_data SET block = zeroblob(20) WHERE id > 10", "lists damaged", 1),
    ("DELETE FROM keyword_data", "lists damaged", 1),
)


@pytest.mark.parametrize(("work", "words", "count"), KEYWORDS)
def test_the_keyword_index_is_made_anew(filled: Memory, work: str | Harm, words: str, count: int | None) -> None:
    before = answers(filled)
    harm(filled, work)
    is_mended(filled, "keywordIndex", words, count)
    assert answers(filled) == before


BAD = ("x'00'", f"zeroblob({2 * SIZE})", bytes_of(float("nan"), 1.0), bytes_of(float("inf")), f"zeroblob({SIZE})")


@pytest.mark.parametrize("blob", BAD)
def test_vectors_that_are_none_are_dropped_and_embed_makes_them(filled: Memory, blob: str) -> None:
    before = answers(filled)
    harm(filled, f"UPDATE vectors SET vector = {blob} WHERE id IN (2, 5)")
    is_mended(filled, "vectors", "make them anew with: twofold embed", 2)
    assert filled.doctor().left_to_do == ("2 episodes wait for a vector; make them with: twofold embed",)
    assert filled.embed_missing() == 2
    assert filled.doctor() == Report(())
    assert answers(filled) == before


@pytest.mark.parametrize(
    "work",
    (
        "UPDATE vector_sums SET count = count + 1 WHERE kind = 0",
        "UPDATE vector_sums SET total = zeroblob(length(total)) WHERE kind = 2 AND of = 2",
        "UPDATE vector_sums SET total = x'00' WHERE kind = 1 AND of = 1",
        "DELETE FROM vector_sums WHERE kind = 1 AND of = 0",
        "INSERT INTO vector_sums VALUES (1, 2, 77, 1, zeroblob(256))",
    ),
)
def test_sums_are_made_again(filled: Memory, work: str) -> None:
    before = filled._store.connection.execute("SELECT * FROM vector_sums ORDER BY kind, of").fetchall()
    harm(filled, work)
    is_mended(filled, "vectors", "sums of vectors", 1)
    assert filled._store.connection.execute("SELECT * FROM vector_sums ORDER BY kind, of").fetchall() == before


@pytest.mark.parametrize(
    ("work", "words"),
    (
        ("INSERT INTO models (name, dimension, digest, current) VALUES ('other', 8, '1', 1)", "current one at once"),
        ("UPDATE models SET current = 0", "none is the current one"),
    ),
)
def test_the_model_with_the_most_vectors_becomes_the_current_one(filled: Memory, work: str, words: str) -> None:
    before = answers(filled)
    harm(filled, work)
    is_mended(filled, "vectors", words)
    assert answers(filled) == before


@pytest.mark.parametrize("blob", ("x'00'", f"zeroblob({2 * SIZE})"))
def test_an_entitys_vector_that_is_none_is_dropped(filled: Memory, blob: str) -> None:
    before = answers(filled)
    harm(filled, f"UPDATE entity_vectors SET vector = {blob} WHERE entity_id = 1")
    is_mended(filled, "entities", "make them anew with: twofold embed", 1)
    filled.embed_missing()
    assert answers(filled) == before


def test_an_entity_without_a_name_gets_one(filled: Memory) -> None:
    harm(filled, "DELETE FROM entity_names WHERE entity_id = 2")
    is_mended(filled, "entities", "have no name", 1)
    assert filled.entities.get(2).name == "entity 2"


def test_names_are_looked_up_by_what_they_are(filled: Memory) -> None:
    harm(filled, "UPDATE entity_names SET key = 'x', folded = 'x' WHERE entity_id = 1")
    is_mended(filled, "entities", "looked up wrongly", 1)
    filled.add("Ada Example called", project="house", session="s1")
    assert filled.entities.get(1).mentions == 1


def test_what_was_said_in_a_session_that_is_gone_is_kept_in_another(filled: Memory) -> None:
    texts = {episode.content for episode in filled.show("2")}
    harm(filled, "DELETE FROM sessions WHERE id = 2")
    is_mended(filled, "store", "session or project that is gone", 6)
    assert {episode.content for episode in filled.show("recovered 2")} == texts
    assert {hit.episode.content for hit in filled.recall(min(texts), session="recovered 2", limit=10)} == texts


def test_sessions_and_entities_of_a_project_that_is_gone_are_kept_in_another(filled: Memory) -> None:
    before = [hit.episode.id for hit in filled.recall("pipes", project="house", limit=30)]
    harm(filled, "DELETE FROM projects WHERE id = 1")
    is_mended(filled, "store", "session or project that is gone", 4)
    assert [project.name for project in filled.projects()] == ["recovered 1"]
    assert filled.entities.get(1).project == "recovered 1"
    assert [hit.episode.id for hit in filled.recall("pipes", project="recovered 1", limit=30)] == before
    assert len(before) == 12


@pytest.mark.parametrize(
    "work",
    (
        "INSERT INTO mentions VALUES (1, 99)",
        "INSERT INTO mentions VALUES (99, 1)",
        "INSERT INTO entity_names VALUES (99, 'x', 'x', 'x', 0)",
        f"INSERT INTO vectors (model_id, episode_id, vector) VALUES (1, 99, {bytes_of(1.0)})",
        f"INSERT INTO vectors (model_id, episode_id, vector) VALUES (9, 1, {bytes_of(1.0)})",
        "INSERT INTO tokens (name, digest, project_id, created) VALUES ('x', 'x', 99, 0)",
        "INSERT INTO outbox (target_id, point) VALUES (99, 1)",
    ),
)
def test_rows_whose_owner_is_gone_go_as_well(filled: Memory, work: str) -> None:
    before = answers(filled)
    harm(filled, work)
    is_mended(filled, "store", "belong to others that are gone", 1)
    assert answers(filled) == before


def test_an_index_of_sqlite_that_is_not_what_its_table_says_is_made_anew(filled: Memory, open_memory: Opener) -> None:
    before = answers(filled)

    def swap(db: apsw.Connection) -> None:
        """Let two indexes stand where the other one's entries are."""
        pages: Any = db.execute("SELECT name, rootpage FROM sqlite_schema WHERE name IN ('spare', 'session_project')")
        (one, first), (other, second) = pages.fetchall()
        db.execute("PRAGMA writable_schema = ON")
        db.executemany("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", [(first, other), (second, one)])
        db.execute("PRAGMA writable_schema = OFF")

    harm(filled, "CREATE INDEX spare ON sessions (project_id) WHERE id < 0", swap)
    filled.close()
    memory = open_memory()
    is_mended(memory, "store", "SQLite's indexes")
    assert answers(memory) == before


def page_of(memory: Memory, table: str) -> tuple[int, int]:
    db = memory._store.connection
    size = int(db.pragma("page_size"))
    return (int(db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get) - 1) * size, size


def test_a_damaged_page_is_a_finding_that_names_the_way_out(filled: Memory, open_memory: Opener) -> None:
    place, size = page_of(filled, "mentions")
    filled.close()
    with filled.path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * size)
    memory = open_memory()
    for repair in (False, True):
        report = memory.doctor(repair=repair)
        assert not report.is_healthy
        damage = [finding for finding in report.findings if "restore a copy" in finding.problem]
        assert damage and not any(finding.repairable or finding.repaired for finding in damage)
        assert {finding.part for finding in damage} >= {"store"}
    assert len(memory.recall("pipes", limit=30)) == 24, "the rest goes on"


def test_a_damaged_text_is_a_finding_and_the_other_parts_are_examined(filled: Memory) -> None:
    harm(filled, "UPDATE episodes SET content = CAST(x'61ff' AS TEXT) WHERE id = 4", "UPDATE models SET current = 0")
    found = named(filled.doctor())
    assert "text that is damaged" in found["keywordIndex"][0]
    assert "none is the current one" in found["vectors"][0]


def test_several_harms_are_mended_in_one_repair(filled: Memory) -> None:
    before = answers(filled)
    harm(
        filled,
        "DELETE FROM keyword_data",
        "DELETE FROM vector_sums",
        "UPDATE models SET current = 0",
        "INSERT INTO mentions VALUES (1, 99)",
    )
    report = filled.doctor(repair=True)
    assert report.is_healthy
    assert named(report).keys() == {"store", "keywordIndex", "vectors"}
    assert filled.doctor() == Report(())
    assert answers(filled) == before


def test_a_remedy_that_fails_is_told_and_nothing_is_said_to_be_mended(
    filled: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    harm(filled, "UPDATE models SET current = 0")
    harm(filled, "CREATE TRIGGER stuck BEFORE UPDATE ON models BEGIN SELECT raise(ABORT, 'stuck'); END")
    report = filled.doctor(repair=True)
    assert not report.is_healthy
    assert any("could not be mended" in problem and "stuck" in problem for problem in named(report)["vectors"])
    assert not any(finding.repaired for finding in report.findings)


# Harm outside the file


def replica(memory: Memory, kind: str) -> Replica:
    return next(one for one in memory._indexes.replicas if one.kind == kind)


def serving(memory: Memory, kind: str) -> tuple[outbox.Target, Any]:
    with memory._store.read() as db:
        found = replica(memory, kind).serving(db)
    assert found
    return found


@pytest.mark.parametrize("kind", ("vectors", "words"))
def test_points_that_an_engine_lost_are_told_again(outside: Memory, kind: str) -> None:
    before = answers(outside)
    points = serving(outside, kind)[1]
    points.remove([1, 5, 24], 1)
    is_mended(outside, "externalIndex", f"missing from the index of {kind}", 3)
    assert points.ids(0, 100) == list(range(1, 25))
    assert answers(outside) == before


def test_points_that_are_not_in_the_file_go_from_the_engine(outside: Memory) -> None:
    before = answers(outside)
    points = serving(outside, "vectors")[1]
    points.put([Point(id_, 1, 0, np.full(SIZE, 0.125, dtype=np.float32)) for id_ in (77, 99)], 1)
    is_mended(outside, "externalIndex", "in the index of vectors and not in the file", 2)
    assert points.count() == 24
    assert answers(outside) == before


def test_collections_without_an_index_are_dropped(outside: Memory) -> None:
    courier = outside._indexes.courier
    assert courier
    with courier.held():  # it would sweep it sooner or later
        outside._indexes.replicas[0].engine.create("vectors-left", Layout(8))
        is_mended(outside, "externalIndex", "collections belong to no index", 1)
        assert len(outside._indexes.replicas[0].engine.collections()) == 1


@pytest.mark.parametrize("kind", ("vectors", "words"))
def test_an_index_whose_folder_is_gone_is_made_anew(outside: Memory, kind: str) -> None:
    before = answers(outside)
    target, _ = serving(outside, kind)
    shutil.rmtree(outside.path.with_name(f"{outside.path.name}-edge") / target.collection)
    is_mended(outside, "externalIndex", f"the index of {kind} is gone", 1)
    assert serving(outside, kind)[1].count() == 24
    assert answers(outside) == before


@pytest.mark.parametrize("broken", ("segment.json", "chunk_0.mmap"))
def test_an_index_that_cannot_be_read_is_made_anew(
    outside: Memory, open_memory: Opener, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    before = answers(outside)
    target, _ = serving(outside, "vectors")
    outside.close()
    (found,) = (outside.path.with_name(f"{outside.path.name}-edge") / target.collection).rglob(broken)
    found.unlink()
    monkeypatch.setattr(Courier, "wake", lambda self: None)  # which might see it first
    memory = open_memory()
    is_mended(memory, "externalIndex", "the index of vectors cannot be read", 1)
    assert serving(memory, "vectors")[1].count() == 24
    assert answers(memory) == before


def test_what_waits_for_long_is_told(outside: Memory) -> None:
    courier = outside._indexes.courier
    assert courier
    with courier.held():
        outside.add("pear tart", session="s1")
        assert outside.doctor() == Report(()), "what waits for a moment is no fault"
        harm(outside, f"UPDATE outbox SET since = since - {int(LATE * 1e6)}")
        is_mended(outside, "externalIndex", "waited for more than ten minutes", 1)
        assert all(not lag.waiting for lag in outside.status().external_indexes)


def test_a_bad_vector_is_no_fault_of_the_engine_and_goes_from_it_too(outside: Memory) -> None:
    before = answers(outside)
    harm(outside, f"UPDATE vectors SET vector = {BAD[1]} WHERE id = 1")
    assert named(outside.doctor()).keys() == {"vectors"}
    is_mended(outside, "vectors", "make them anew", 1)
    assert 1 not in serving(outside, "vectors")[1].ids(0, 100)
    outside.embed_missing()
    deliver(outside)
    assert outside.doctor() == Report(())
    assert answers(outside) == before


@pytest.mark.parametrize("kind", ("words",))
def test_words_that_are_indexed_anew_are_told_anew(outside: Memory) -> None:
    before = answers(outside)
    harm(outside, "DELETE FROM keyword_docs WHERE id < 20")
    assert outside.doctor(repair=True).is_healthy
    assert outside.doctor() == Report(())
    assert serving(outside, "words")[1].count() == 24
    assert answers(outside) == before


def test_an_engine_that_another_process_has_is_not_compared_and_the_rest_is(
    outside: Memory, open_memory: Opener
) -> None:
    other = open_memory()  # has engine and courier of its own, as another process would
    harm(other, "DELETE FROM vector_sums")
    found = named(other.doctor())
    (problem,) = found["externalIndex"]
    assert problem.startswith("not compared: another process has")
    assert len(found["vectors"]) == 1
    assert not other.doctor(repair=True).is_healthy
    assert outside.doctor() == Report(())


def test_what_another_process_tells_meanwhile_is_no_difference(
    outside: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is asked, after the file was, while its points come and go: it looks again before it speaks."""
    _, points = serving(outside, "vectors")
    real, asked = type(points).ids, iter(range(1000))

    def ids(self: Any, after: int, limit: int) -> list[int]:
        if next(asked) == 0:
            gone = outside.add("pear tart").id
            outside.forget(episode=3)
            outside.forget(episode=gone)
            outside.add("plum tart")
            outside._indexes.deliver()
        return real(self, after, limit)

    monkeypatch.setattr(type(points), "ids", ids)
    monkeypatch.setattr(Courier, "held", lambda self: nullcontext(False))  # as if another process were the courier
    assert Doctor(outside._store, outside._indexes).diagnose().findings == ()
    assert next(asked) > 2


def test_an_index_that_is_still_built_is_no_fault_and_is_told_of(outside: Memory) -> None:
    target, points = serving(outside, "vectors")
    courier = outside._indexes.courier
    assert courier
    with courier.held():
        harm(outside, "UPDATE targets SET serves = 0", lambda db: outbox.queue(db, target.id, [1, 2]))
        points.remove([1, 2], 1)
        report = outside.doctor()
        assert report.findings == ()
        assert report.left_to_do == ("the index of vectors in edge is still built; until then the file answers alone",)
        points.remove([5], 1)
        is_mended(outside, "externalIndex", "missing from the index of vectors", 1)


def test_a_server_is_compared_as_well_and_one_that_is_away_is_a_finding(filled: Memory) -> None:
    client, away = QdrantClient(":memory:"), False

    def connect(server: Server) -> QdrantClient:
        if away:
            raise ConnectionRefusedError("nobody listens")
        return client

    store, info = filled._store, HashEmbedder().info
    engine = QdrantEngine(Server("local", "twofold-test"), connect)
    follower = Replica(store, engine, "vectors", Layout(SIZE), located, "none", lambda db: models.find(db, info.key))
    courier = Courier(store, engine, [follower], Lock(store.path.with_name("role")))
    index = ExternalIndex(store, info, follower)
    doctor = Doctor(store, Indexes(filled._indexes.keyword, index, courier, (follower,)))
    while follower.deliver():
        pass
    assert doctor.diagnose() == Report(())
    with store.read() as db:
        points = follower.open(follower.targets(db)[0])
    points.remove([1, 2], 1)
    points.put([Point(99, 1, 0, np.full(SIZE, 0.125, dtype=np.float32))], 1)
    engine.create("vectors-left", Layout(8))
    counts = {finding.problem.split()[0]: finding.count for finding in doctor.diagnose().findings}
    assert len(doctor.diagnose().findings) == 3
    assert counts["collections"] == 1
    assert doctor.repair().is_healthy
    assert doctor.diagnose() == Report(())
    assert points.ids(0, 100) == list(range(1, 25))
    engine._made, away = None, True  # as after a lost connection
    (finding,) = doctor.diagnose().findings
    assert finding.problem.startswith("not compared: the Qdrant server at local gave no answer")
    assert not finding.repairable
    courier.close()
    client.close()


def test_a_door_on_one_project_does_not_examine_the_whole_store(filled: Memory) -> None:
    with pytest.raises(NotAllowed, match="examine the whole store"):
        filled.within(1).doctor()


# Lag


@pytest.mark.parametrize("kind", ("both",))
def test_status_tells_what_indexes_outside_wait_for(outside: Memory) -> None:
    courier = outside._indexes.courier
    assert courier
    with courier.held():
        outside.add("pear tart")
        harm(outside, "UPDATE outbox SET since = since - 90000000")
        lags = outside.status().external_indexes
        assert [(lag.engine, lag.kind, lag.serves, lag.waiting) for lag in lags] == [
            ("edge", "vectors", True, 1),
            ("edge", "words", True, 1),
        ]
        assert all(90.0 <= lag.seconds < 100.0 and lag.problem is None for lag in lags)
        part = outside.health()["externalIndex"]
        assert part.state == "degraded"
        assert "1 points wait to be told, the oldest for 9" in part.detail
    deliver(outside)
    assert [(lag.waiting, lag.seconds) for lag in outside.status().external_indexes] == [(0, 0.0), (0, 0.0)]
    assert outside.health()["externalIndex"].state == "ok"


def test_health_tells_of_an_engine_that_fails(outside: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*given: object) -> list[int]:
        raise EngineError("the engine is away; start it")

    monkeypatch.setattr(type(serving(outside, "vectors")[1]), "ids", away)
    part = outside.health()["externalIndex"]
    assert (part.state, part.detail) == ("degraded", "the engine is away; start it")


def test_health_tells_what_the_courier_met(outside: Memory) -> None:
    courier = outside._indexes.courier
    assert courier
    with courier.held():
        courier.problem = "the engine is away; start it"
        part = outside.health()["externalIndex"]
        assert outside.status().external_indexes[0].problem == courier.problem
    assert (part.state, "away" in part.detail) == ("degraded", True)


def test_without_an_index_outside_there_is_nothing_to_wait_for(filled: Memory) -> None:
    assert filled.status().external_indexes == ()
    assert filled.health()["externalIndex"].state == "off"
    assert health.LATE < LATE


# The command


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `twofold`; its exit status and what it prints."""

    def run_(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["twofold", *arguments])
        capsys.readouterr()
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
        told = capsys.readouterr()
        return status, told.out + told.err

    return run_


def test_the_exit_status_says_whether_something_is_left(open_memory: Opener, run: Run) -> None:
    memory = fill(open_memory(None))
    waiting = "24 episodes wait for a vector; make them with: twofold embed"
    db = ("--db", str(memory.path))
    assert run("doctor", *db) == (0, f"nothing is wrong\n{waiting}\n")
    harm(memory, "DELETE FROM keyword WHERE rowid < 8")
    harm(memory, "INSERT INTO keyword_docs VALUES (99, 0, x'', x'')")
    status, told = run("doctor", *db)
    assert status == 1
    assert "wrong   keywordIndex: 1 x entries belong to no episode" in told
    assert "twofold doctor --repair" in told
    status, told = run("doctor", "--repair", "--json", *db)
    assert status == 0
    found = json.loads(told)
    assert found["leftToDo"] == [waiting]
    assert {
        "part": "keywordIndex",
        "problem": "entries belong to no episode",
        "count": 1,
        "repairable": True,
        "repaired": True,
    } in found["findings"]
    assert run("doctor", *db)[0] == 0
    assert run("doctor", "--mend", *db)[0] == 2
    assert run("doctor", "--db", "mistyped.db")[0] == 1


def test_status_prints_the_lag(open_memory: Opener, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_KEYWORD", "qdrant")
    memory = fill(open_memory(None))
    deliver(memory)
    status, told = run("status", "--db", str(memory.path))
    assert status == 0
    assert "edge      words; 0 to be told" in told
