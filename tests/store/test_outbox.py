"""What each way of writing queues for indexes outside the file, and the sums of vectors by scope."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.conftest import Opener
from twofold import Memory, Message
from twofold.embed.hashing import HashEmbedder
from twofold.store import Store, faults, models, outbox, vectors
from twofold.store.outbox import Target


class Queue:
    """A target for vectors and one for words, and what was queued for them since it was last looked at."""

    def __init__(self, store: Store) -> None:
        self.store = store
        with store.write() as db:
            model = models.make(db, ("hash", 64, "1"))
            self.vectors = outbox.enrol(db, "edge", "vectors", model, "{}")
            self.words = outbox.enrol(db, "edge", "words", None, "{}")

    def told(self, target: Target) -> set[int]:
        with self.store.write() as db:
            entries = outbox.next_of(db, target.id, 10_000)
            outbox.delivered(db, [entry.entry for entry in entries])
        return {entry.point for entry in entries}

    def since(self) -> tuple[set[int], set[int]]:
        """Points of vectors and of words."""
        return self.told(self.vectors), self.told(self.words)

    def rows(self, *episodes: int) -> set[int]:
        """The vectors of episodes."""
        with self.store.read() as db:
            return set(vectors.rows_of(db, self.vectors.model or 0, episodes))


@pytest.fixture
def queue(memory: Memory) -> Queue:
    return Queue(memory._store)


def test_nothing_is_queued_where_there_is_no_index_outside_the_file(memory: Memory) -> None:
    added = memory.add("apples")
    memory.edit(added.id, "pears")
    memory.forget(episode=added.id)
    with memory._store.read() as db:
        assert outbox.targets(db) == []
        assert db.execute("SELECT count(*) FROM outbox").get == 0


def test_a_new_target_has_to_be_told_all_there_is(memory: Memory) -> None:
    for text in ("apples", "pears", "plums"):
        memory.add(text)
    memory.forget(episode=2)
    queue = Queue(memory._store)
    assert queue.since() == (queue.rows(1, 3), {1, 3})


def test_an_added_episode_is_queued_with_every_piece_of_its_vector(memory: Memory, queue: Queue) -> None:
    added = memory.add("apples " * 450)
    assert len(queue.rows(added.id)) == 3
    assert queue.since() == (queue.rows(added.id), {added.id})
    memory.import_([Message("pears", source="1"), Message("plums", source="2")])
    assert queue.since() == (queue.rows(2, 3), {2, 3})
    memory.import_([Message("pears", source="1")])
    assert queue.since() == (set(), set())


def test_an_edit_queues_the_old_vector_and_the_new_one(memory: Memory, queue: Queue) -> None:
    added = memory.add("apples")
    old = queue.rows(added.id)
    queue.since()
    memory.edit(added.id, "pears")
    new = queue.rows(added.id)
    assert old.isdisjoint(new)
    assert queue.since() == (old | new, {added.id})


def test_whatever_is_forgotten_is_queued(memory: Memory, queue: Queue) -> None:
    for number in range(8):
        memory.add(f"apples {number}", session=f"s{number // 2}", project="p" if number < 4 else None)
    rows = {id_: queue.rows(id_) for id_ in range(1, 9)}
    queue.since()
    memory.forget(episode=8)
    assert queue.since() == (rows[8], {8})
    memory.forget(session="s2")
    assert queue.since() == (rows[5] | rows[6], {5, 6})
    memory.forget(project="p")
    assert queue.since() == (rows[1] | rows[2] | rows[3] | rows[4], {1, 2, 3, 4})


def test_rows_that_go_by_cascade_alone_are_queued_too(memory: Memory, queue: Queue) -> None:
    memory.add("apples", session="s", project="p")
    rows = queue.rows(1)
    queue.since()
    with memory._store.write() as db:
        db.execute("DELETE FROM projects")
    assert queue.since() == (rows, {1})


def test_a_transaction_that_fails_queues_nothing(memory: Memory, queue: Queue) -> None:
    with pytest.raises(RuntimeError), memory._store.write():
        memory.add("apples")
        raise RuntimeError
    assert queue.since() == (set(), set())


def test_the_vectors_of_another_model_are_for_another_target(memory: Memory, queue: Queue, open_memory: Opener) -> None:
    memory.add("apples")
    old = queue.rows(1)
    queue.since()
    other = open_memory(HashEmbedder(32, "other"))
    assert other.embed_missing() == 1
    told, words = queue.since()
    assert told <= old
    assert words == set()
    other.add("pears")
    assert queue.since() == (set(), {2})


def test_only_a_changed_text_is_queued_for_words(memory: Memory, queue: Queue) -> None:
    memory.add("apples", session="s")
    queue.since()
    memory.catalog.change_session(1, name="renamed", title="another")
    with memory._store.write() as db:
        db.execute("UPDATE episodes SET time = time + 1")
    assert queue.since() == (set(), set())


def test_what_was_queued_again_meanwhile_stays_when_the_first_is_delivered(memory: Memory, queue: Queue) -> None:
    memory.add("apples")
    with queue.store.write() as db:
        (first,) = outbox.next_of(db, queue.words.id, 10)
    memory.edit(1, "pears")
    with queue.store.write() as db:
        outbox.delivered(db, [first.entry])
        (again,) = outbox.next_of(db, queue.words.id, 10)
        assert again.point == first.point
        assert again.entry > first.entry
        outbox.delivered(db, [again.entry])
        assert outbox.next_of(db, queue.words.id, 10) == []


def test_a_point_that_is_queued_again_by_hand_has_a_new_entry(memory: Memory, queue: Queue) -> None:
    memory.add("apples")
    with queue.store.write() as db:
        (first,) = outbox.next_of(db, queue.words.id, 10)
        outbox.queue(db, queue.words.id, [9, 1])
        assert [entry.point for entry in outbox.next_of(db, queue.words.id, 10)] == [1, 9]
        outbox.delivered(db, [first.entry])
    assert queue.told(queue.words) == {1, 9}


def test_entries_come_oldest_first_and_the_newest_points_can_be_had(memory: Memory, queue: Queue) -> None:
    for number in range(5):
        memory.add(f"apples {number}")
    memory.edit(2, "pears")
    with queue.store.read() as db:
        assert [entry.point for entry in outbox.next_of(db, queue.words.id, 3)] == [1, 3, 4]
        assert outbox.newest_of(db, queue.words.id, 2) == [2, 5]


def test_a_target_that_lost_all_has_to_be_told_all_again_and_does_not_serve(memory: Memory, queue: Queue) -> None:
    for text in ("apples", "pears"):
        memory.add(text)
    queue.since()
    with queue.store.write() as db:
        outbox.serve(db, queue.words.id)
        assert outbox.find(db, "edge", "words", None, "{}")[0].serves
        outbox.begin_again(db, queue.words.id)
        assert not outbox.find(db, "edge", "words", None, "{}")[0].serves
    assert queue.since() == (set(), {1, 2})


def test_the_lag_is_how_many_wait_and_how_long_the_oldest_has(memory: Memory, queue: Queue) -> None:
    memory.add("apples")
    memory.add("pears")
    with queue.store.write() as db:
        db.execute("UPDATE outbox SET since = since - 60000000 WHERE point = 1")
        count, waited = outbox.lag(db, queue.words.id)
        assert count == 2
        assert 60_000_000 <= waited < 90_000_000
        db.execute("UPDATE outbox SET since = since + 3600000000")
        assert outbox.lag(db, queue.words.id) == (2, 0)
    queue.since()
    with queue.store.read() as db:
        assert outbox.lag(db, queue.words.id) == (0, 0)


def test_a_target_that_is_dropped_leaves_nothing_queued(memory: Memory, queue: Queue) -> None:
    memory.add("apples")
    with queue.store.write() as db:
        outbox.drop(db, queue.words.id)
        assert outbox.targets(db) == [queue.vectors]
        assert db.execute("SELECT count(*) FROM outbox WHERE target_id = ?", (queue.words.id,)).get == 0
    memory.add("pears")
    with queue.store.read() as db:
        assert outbox.lag(db, queue.vectors.id)[0] == 2


def sums(store: Store) -> dict[tuple[int, int, int], tuple[int, tuple[float, ...]]]:
    with store.read() as db:
        found = db.execute("SELECT model_id, kind, of, count, total FROM vector_sums").fetchall()
    return {
        (model, kind, of): (count, tuple(np.frombuffer(total, dtype=np.float32).tolist()))
        for model, kind, of, count, total in found
    }


def summed(store: Store) -> dict[tuple[int, int, int], tuple[int, tuple[float, ...]]]:
    """The same from every vector in the file."""
    groups: dict[tuple[int, int, int], list[bytes]] = defaultdict(list)
    with store.read() as db:
        for model, session, project, blob in db.execute(
            """SELECT v.model_id, e.session_id, ifnull(s.project_id, 0), v.vector FROM vectors v
            JOIN episodes e ON e.id = v.episode_id JOIN sessions s ON s.id = e.session_id"""
        ):
            for key in ((model, 0, 0), (model, 1, project), (model, 2, session)):
                groups[key].append(blob)
    return {
        key: (len(blobs), tuple(np.stack([np.frombuffer(blob, np.float16) for blob in blobs]).sum(0, np.float64)))
        for key, blobs in groups.items()
    }


place = st.tuples(st.sampled_from(["s1", "s2", "s3"]), st.sampled_from([None, "p", "q"]))
change = st.one_of(
    st.tuples(st.just("add"), place, st.integers(1, 450)),
    st.tuples(st.just("edit"), st.integers(0, 30), st.integers(1, 450)),
    st.tuples(st.just("forget"), st.integers(0, 30)),
    st.tuples(st.just("forget session"), place),
    st.tuples(st.just("forget project"), st.sampled_from(["p", "q"])),
    st.tuples(st.just("other model")),
)


@hypothesis_settings(max_examples=25)
@given(st.lists(change, max_size=15))
def test_sums_stay_those_of_the_vectors_whatever_is_written(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, ...]]
) -> None:
    file = tmp_path_factory.mktemp("sums") / "memories.db"
    memory = Memory.open(file, embedder=HashEmbedder(16))
    try:
        for number, one in enumerate(changes):
            memory = apply(memory, file, number, one)
        kept, made = sums(memory._store), summed(memory._store)
        assert kept.keys() == made.keys()
        for key, (count, total) in made.items():
            assert kept[key][0] == count
            assert kept[key][1] == pytest.approx(total, abs=1e-3)
        with memory._store.write() as db:
            assert faults.differing_sums(db) == 0
            vectors.sum_again(db)
        assert sums(memory._store).keys() == made.keys()
    finally:
        memory.close()


def apply(memory: Memory, file: Path, number: int, one: tuple[object, ...]) -> Memory:
    """One random change; the memory to go on with."""
    with memory._store.read() as db:
        there = [row[0] for row in db.execute("SELECT id FROM episodes ORDER BY id")]
        sessions = set(db.execute("SELECT s.name, p.name FROM sessions s LEFT JOIN projects p ON p.id = s.project_id"))
        projects = {row[0] for row in db.execute("SELECT name FROM projects")}
    match one:
        case ("add", (str() as session, project), int() as words):
            memory.add(f"word{number} " * words, session=session, project=project)
        case ("edit", int() as which, int() as words) if there:
            memory.edit(there[which % len(there)], f"edited{number} " * words)
        case ("forget", int() as which) if there:
            memory.forget(episode=there[which % len(there)])
        case ("forget session", (str() as session, project)) if (session, project) in sessions:
            memory.forget(session=session, project=project)
        case ("forget project", str() as project) if project in projects:
            memory.forget(project=project)
        case ("other model",):
            memory.close()
            memory = Memory.open(file, embedder=HashEmbedder(16, f"hash{number}"))
            memory.embed_missing()
    return memory
