"""A session that is moved to another project takes everything along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.delivery import wait_until_delivered
from twofold import Memory, Message
from twofold.embed.hashing import HashEmbedder
from twofold.errors import Conflict, InvalidInput, NotAllowed, NotFound


@pytest.fixture(params=["exact", "edge"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    if request.param == "edge":
        pytest.importorskip("qdrant_edge")
        monkeypatch.setenv("TWOFOLD_VECTORS", "edge")
        monkeypatch.setenv("TWOFOLD_KEYWORD", "qdrant")
    with Memory.open(tmp_path / "one.db", embedder=HashEmbedder()) as opened:
        opened.entities.add("Ada", "person", project="old")
        opened.import_([Message(f"Ada paints door {n}", session="doors", project="old") for n in range(12)])
        opened.import_([Message(f"Ada paints wall {n}", session="walls", project="old") for n in range(3)])
        opened.entities.add("Ada", "person", project="new")
        opened.feedback.add("which door", 1, True, project="old")
        if request.param == "edge":
            wait_until_delivered(opened)
        yield opened


def session_of(memory: Memory, name: str) -> int:
    return next(one.id for one in memory.sessions() if one.name == name)


@pytest.mark.parametrize("target", ["new", "made", None])
def test_it_is_found_where_it_is_and_nowhere_else(memory: Memory, target: str | None) -> None:
    moved = memory.catalog.move_session(session_of(memory, "doors"), target)
    assert (moved.project, moved.episodes) == (target, 12)
    if memory._indexes.courier:
        wait_until_delivered(memory)
    where = {"project": target} if target else {"session": "doors"}
    found = memory.recall("which door does Ada paint", limit=12, **where)  # type: ignore[arg-type]
    assert {hit.episode.session for hit in found.hits} == {"doors"}
    assert not found.degraded
    assert len(memory.search("door", **where)) == 10  # type: ignore[arg-type]
    assert not memory.search("door", project="old")
    assert {hit.episode.session for hit in memory.recall("door", project="old").hits} <= {"walls"}
    mentioned = {(one.project, one.mentions) for one in memory.entities.page().items}
    assert mentioned == {("old", 3), ("new", 12 if target == "new" else 0)}
    assert memory.feedback.page().items[0].project == target
    assert memory.doctor().findings == ()


def test_what_cannot_be_moved_is_refused_and_nothing_is_changed(memory: Memory) -> None:
    doors = session_of(memory, "doors")
    memory.add("another", session="doors", project="new")
    with pytest.raises(Conflict, match="there is a session 'doors' in project 'new' already"):
        memory.catalog.move_session(doors, "new")
    with pytest.raises(InvalidInput, match="project is"):
        memory.catalog.move_session(doors, " ")
    with pytest.raises(NotFound):
        memory.catalog.move_session(999, "new")
    project = next(one.id for one in memory.projects() if one.name == "old")
    with pytest.raises(NotAllowed):
        memory.within(project).catalog.move_session(doors, "new")
    assert len(memory.show("doors", project="old")) == 12
    assert memory.catalog.move_session(doors, "old").project == "old"
