"""Models by name, and a store's way from one to another: beside the old, resumed, switched, cleaned up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import Opener
from tests.embed import tiny
from tests.embed.fake_server import FakeServer
from twofold import Memory, Message, entities, reembed, settings
from twofold.embed import Embedder, models
from twofold.embed.hashing import HashEmbedder
from twofold.embed.minilm import NAME as BUNDLED
from twofold.errors import Conflict, EmbedderError, InvalidInput, MissingExtra, NotAllowed
from twofold.store import Store, faults, outbox
from twofold.store import models as stored_models
from twofold.types import Build

NOBODY = "http://127.0.0.1:9/v1"  # the discard port: nothing listens there
EPISODES = 300
Start = Callable[..., subprocess.Popen[str]]
COMMAND = [sys.executable, "-c", "from twofold.cli import main; main()"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with FakeServer() as running:
        monkeypatch.setenv("TWOFOLD_EMBED_BASE_URL", running.url)
        yield running


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWOFOLD_DB", str(tmp_path / "memories.db"))
    return tmp_path / "memories.db"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `twofold` as a process of its own, which is over at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start_(*arguments: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start_
    for process in started:
        process.kill()
        process.communicate()


def run(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(memory: Memory, count: int = EPISODES) -> None:
    memory.import_(Message(f"apple number{n}", session=f"s{n % 5}", source=str(n)) for n in range(count))


def best(memory: Memory, query: str) -> str:
    """The first hit, to which both retrievers have given something."""
    found = memory.recall(query, limit=5)
    assert found.degraded == {}
    assert {given.ranking for given in found[0].contributions} == {"keyword", "semantic"}
    return found[0].episode.content


def models_of(file: Path) -> list[tuple[str, int, int]]:
    """The models of a file, the current one first: name, vectors of episodes, vectors of entities."""
    store = Store(file)
    try:
        with store.read() as db:
            assert faults.differing_sums(db) == 0
            return list(
                db.execute(
                    """SELECT name, (SELECT count(*) FROM vectors WHERE model_id = m.id),
                    (SELECT count(*) FROM entity_vectors WHERE model_id = m.id)
                    FROM models m ORDER BY current DESC, id"""
                )
            )
    finally:
        store.close()


def vectors_of(memory: Memory, episodes: list[int]) -> list[NDArray[np.float32]]:
    """The pieces of the given episodes that have some, by the memory's model."""
    assert memory._vectors
    return list(memory._vectors.vectors(episodes).values())


def stopped(after: int) -> Callable[[], None]:
    """Called after each write; ends the process at the last, as far as Python is concerned."""
    left = list(range(after))

    def count() -> None:
        left.pop()
        if not left:
            raise KeyboardInterrupt

    return count


# Names


@pytest.mark.parametrize("name", ["", "nonsense", "openai:", "fastembed:", "minilm:x", "OPENAI:small", "default"])
def test_a_name_that_is_none_is_answered_with_what_can_be_named(name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        models.named(name, settings.base())
    assert str(raised.value).startswith(f"there is no embedding model {name!r}; name minilm for the bundled one, ")


def test_every_kind_of_model_has_a_name_that_leads_back_to_it(server: FakeServer, tmp_path: Path) -> None:
    pytest.importorskip("fastembed")
    folder = tiny.make(tmp_path / "tiny")
    for name in ("minilm", "openai:small", "openai:wide@32", f"fastembed:{folder}"):
        info = models.named(name, settings.base()).info
        assert models.has_name(info.name)
        assert models.named(info.name, settings.base()).info == info
    assert models.named("minilm", settings.base()).info.name == BUNDLED


def test_a_folder_is_told_by_how_its_path_begins_and_not_by_where_the_process_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastembed")
    folder = tiny.make(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("fastembed:./tiny", "fastembed:~/tiny", f"fastembed:{folder}"):
        assert models.named(name, settings.base()).info.name == f"fastembed:{folder}"
    with pytest.raises(InvalidInput, match="no embedding model 'tiny'"):
        models.named("fastembed:tiny", settings.base())


def test_a_model_that_may_not_be_fetched_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastembed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EmbedderError, match="is not fetched unasked; allow that with TWOFOLD_ALLOW_DOWNLOAD=on"):
        models.named("fastembed:BAAI/bge-small-en-v1.5", settings.base())
    monkeypatch.setenv("TWOFOLD_ALLOW_DOWNLOAD", "on")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderError, match="could not be fetched"):
        models.named("fastembed:BAAI/bge-small-en-v1.5", settings.base())


# Which model a store is opened by


def test_an_empty_store_takes_the_model_of_the_settings_and_keeps_it(
    server: FakeServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_EMBED_MODEL", "openai:small")
    monkeypatch.setenv("TWOFOLD_EMBED_API_KEY", "sk-not-a-real-key")
    with Memory.open(file) as memory:
        memory.add("apple pie")
        assert best(memory, "apple") == "apple pie"
        assert "sk-not-a-real-key" not in str(memory.settings())
        with pytest.raises(InvalidInput, match="embedModel cannot be changed while Twofold runs"):
            memory.settings({"embedModel": "minilm"})
    monkeypatch.setenv("TWOFOLD_EMBED_MODEL", "openai:wide")
    asked = len(server.bodies)
    with Memory.open(file) as memory:
        assert memory.status().model == "openai:small"
        assert len(server.bodies) == asked, "the length of its vectors is known"
        assert best(memory, "apple") == "apple pie"


def test_a_setting_that_names_no_model_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_EMBED_MODEL", "bert")
    with pytest.raises(InvalidInput, match="there is no embedding model 'bert'"):
        Memory.open(file)


def test_a_new_store_whose_server_is_away_goes_on_by_words_and_says_so(
    server: FakeServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_EMBED_MODEL", "openai:small")
    monkeypatch.setenv("TWOFOLD_EMBED_BASE_URL", NOBODY)
    with Memory.open(file) as memory:
        with pytest.raises(EmbedderError, match="no embedding server answers"):
            memory.embed_missing()
        memory.add("apple pie")
        memory.entities.add("Ada Example", "person")
        found = memory.recall("apple")
        assert [hit.episode.content for hit in found] == ["apple pie"]
        assert found.degraded["semantic"].startswith(f"no embedding server answers at {NOBODY}")
        assert memory.health()["embedder"].state == "degraded"
        assert (memory.status().model, memory.status().current, memory.status().waiting) == ("openai:small", None, 1)
    assert models_of(file) == []
    monkeypatch.setenv("TWOFOLD_EMBED_BASE_URL", server.url)
    with Memory.open(file) as memory:
        assert memory.embed_missing() == 1
        assert best(memory, "apple") == "apple pie"
    assert models_of(file) == [("openai:small", 1, 1)]


def test_a_server_that_goes_away_leaves_words_and_nothing_of_another_size_is_written(
    server: FakeServer, file: Path
) -> None:
    with Memory.open(file, embedder="openai:small") as memory:
        memory.add("apple pie")
        server.size = 64
        memory.add("apple tart")
        found = memory.recall("apple")
        assert {hit.episode.content for hit in found} == {"apple pie", "apple tart"}
        assert "gave vectors of 64 dimensions for small, not of 48" in found.degraded["semantic"]
        server.size = None
        server.failing = 500
        assert "status 500" in memory.recall("apple").degraded["semantic"]
        server.failing = None
        assert memory.embed_missing() == 1
        assert best(memory, "apple tart") == "apple tart"
    assert models_of(file) == [("openai:small", 2, 0)]


def test_nothing_is_sent_to_another_server_than_the_store_was_given_to(
    server: FakeServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(file, embedder="openai:small") as memory:
        memory.add("apple pie")
    with FakeServer() as other:
        monkeypatch.setenv("TWOFOLD_EMBED_BASE_URL", other.url)
        with Memory.open(file) as memory:
            memory.add("apple tart")
            found = memory.recall("apple")
            assert len(found) == 2
            assert found.degraded["semantic"] == (
                f"this store's vectors were made by openai:small on another server than {other.url}; name that one "
                "with TWOFOLD_EMBED_BASE_URL, or make new vectors with: twofold embed --model openai:small"
            )
            with pytest.raises(EmbedderError, match="another server"):
                memory.embed_missing()
        assert other.bodies == []
        with Memory.open(file, embedder="openai:small") as memory:
            assert "made by another openai:small" in memory.recall("apple").degraded["semantic"]
            assert memory.embed_missing() == 2
            assert best(memory, "apple tart") == "apple tart"


def test_a_folder_that_is_gone_leaves_words_and_is_named(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastembed")
    folder = tiny.make(tmp_path / "tiny")
    with Memory.open(file, embedder=f"fastembed:{folder}") as memory:
        memory.add("the green gate")
        assert best(memory, "gate") == "the green gate"
    folder.rename(tmp_path / "elsewhere")
    with Memory.open(file) as memory:
        assert f"folder {folder} is not there" in memory.recall("gate").degraded["semantic"]
        assert memory.status().model == f"fastembed:{folder}"
    with pytest.raises(EmbedderError, match="is not there"):
        Memory.open(file, embedder=f"fastembed:{folder}")
    (tmp_path / "elsewhere").rename(folder)
    with Memory.open(file) as memory:
        assert best(memory, "gate") == "the green gate"


def test_a_store_whose_extra_is_not_installed_leaves_words_and_says_how_to_get_it(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastembed")
    folder = tiny.make(tmp_path / "tiny")
    with Memory.open(file, embedder=f"fastembed:{folder}") as memory:
        memory.add("the green gate")
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with Memory.open(file) as memory:
        assert "pip install 'twofold[fastembed]'" in memory.recall("gate").degraded["semantic"]
    with pytest.raises(MissingExtra):
        Memory.open(file, embedder=f"fastembed:{folder}")


# From one model to another


def test_a_build_beside_holds_up_nobody_and_switches_when_all_is_there(
    server: FakeServer, file: Path, open_memory: Opener, start: Start
) -> None:
    """The old memory reads and writes in this process while the command builds in its own."""
    memory = open_memory()
    fill(memory)
    ada = memory.entities.add("Ada Example", "person", description="repairs apple trees")
    server.free = 1 + reembed.BATCH // 32  # the length, and the first batch that is committed
    building = start("embed", "--model", "openai:wide", "--json")
    assert server.held.wait(30)

    state = memory.status()
    assert (state.model, state.current, state.vectors, state.waiting) == ("hash", "hash", EPISODES, 0)
    assert state.building == Build("openai:wide", reembed.BATCH, EPISODES - reembed.BATCH)
    part = memory.health()["vectors"]
    assert part.state == "ok"
    assert part.detail == "every episode has its vector of hash; of openai:wide 128 are made beside, 172 to go"
    assert best(memory, "number7") == "apple number7"
    added = memory.add("a quokka in the garden")
    memory.edit(1, "a wombat in the garden")  # whose new vector was made already
    memory.edit(EPISODES, "a numbat in the garden")
    memory.forget(episode=2)
    memory.entities.change(ada.id, description="keeps a quokka")
    memory.entities.add("Bo Example", "person", description="keeps a wombat")
    for animal in ("quokka", "wombat", "numbat"):
        assert best(memory, animal) == f"a {animal} in the garden"

    server.released.set()
    out, _ = building.communicate(timeout=30)
    assert building.returncode == 0
    assert json.loads(out) == {"model": "openai:wide", "embedded": EPISODES + 2, "dropped": 0}
    assert models_of(file) == [("openai:wide", EPISODES, 2), ("hash", EPISODES, 2)]
    with Memory.open(file) as now:
        state = now.status()
        assert (state.model, state.current, state.waiting, state.building) == ("openai:wide", "openai:wide", 0, None)
        for animal in ("quokka", "wombat", "numbat"):
            assert best(now, animal) == f"a {animal} in the garden"
        assert now.entities.search("who keeps a quokka?").hits[0].entity.id == ada.id
        assert added.id in {hit.episode.id for hit in now.recall("quokka")}

        late = memory.recall("quokka")
        assert late[0].episode.id == added.id
        assert "made by openai:wide (96 dimensions), not by hash" in late.degraded["semantic"]
        assert "open the memory again" in memory.health()["vectors"].detail
        memory.add("a bilby in the garden")
        assert now.status().waiting == 1
        assert now.embed_missing() == 1
        assert best(now, "bilby") == "a bilby in the garden"


def test_a_build_that_was_killed_goes_on_where_it_was(
    server: FakeServer, file: Path, open_memory: Opener, start: Start
) -> None:
    memory = open_memory()
    fill(memory)
    server.free = 1 + 2 * reembed.BATCH // 32
    building = start("embed", "--model", "openai:wide")
    assert server.held.wait(30)
    building.send_signal(signal.SIGKILL)
    building.wait()
    server.released.set()
    assert models_of(file) == [("hash", EPISODES, 0), ("openai:wide", 2 * reembed.BATCH, 0)]
    assert best(memory, "number7") == "apple number7"
    said = run("status")
    assert "building  256 of openai:wide; 44 to go: twofold embed --model openai:wide" in said
    assert "those in use are of hash" in said
    server.bodies.clear()
    assert "made vectors for 44 episodes" in run("embed", "--model", "openai:wide")
    assert [text for text in server.texts if text != "length"] == [f"apple number{n}" for n in range(256, EPISODES)]
    assert memory.status().building is None
    assert models_of(file) == [("openai:wide", EPISODES, 0), ("hash", EPISODES, 0)]


class Other(HashEmbedder):
    """Another model: makes no direction of texts with `hopeless` in them, and lets others write while it works."""

    def __init__(self, *meanwhile: Callable[[], object], hopeless: str = "\0") -> None:
        super().__init__(32, "other")
        self._meanwhile = list(meanwhile)
        self._hopeless = hopeless

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        if self._meanwhile:
            self._meanwhile.pop(0)()
        made = super().embed_documents(texts)
        return [pieces * (self._hopeless not in text) for text, pieces in zip(texts, made, strict=True)]


def test_what_others_write_during_a_build_is_made_up_for_before_the_switch(file: Path, open_memory: Opener) -> None:
    old = open_memory()
    fill(old, 3)
    changes: list[Callable[[], object]] = [
        lambda: old.edit(1, "late wombat"),
        lambda: old.add("late quokka"),
        lambda: old.entities.add("Ada Example", "person"),
        lambda: old.forget(episode=2),
    ]
    new = open_memory(Other(*changes))
    new.embed_missing()
    assert models_of(file) == [("other", 3, 1), ("hash", 3, 1)]
    assert new.status().waiting == 0
    (pieces,) = vectors_of(new, [1])
    assert pieces == pytest.approx(HashEmbedder(32).embed_documents(["late wombat"])[0], abs=1e-3)


def test_the_switch_itself_sees_that_nothing_is_missing(
    file: Path, open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An episode is edited when the walk is past it."""
    monkeypatch.setattr(reembed, "BATCH", 1)
    old = open_memory()
    fill(old, 3)
    edits = [lambda: None, lambda: None, lambda: old.edit(1, "late wombat")]
    new = open_memory(Other(*edits, hopeless="number2"))
    new.embed_missing()
    assert models_of(file) == [("other", 2, 0), ("hash", 3, 0)]
    assert len(vectors_of(new, [1])) == 1
    assert old.show(episode=1)[0].content == "late wombat"


def test_the_switch_itself_sees_that_no_entity_has_changed(
    file: Path, open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entity is changed when the walk is past it."""
    monkeypatch.setattr(entities, "BATCH", 1)
    old = open_memory()
    ada = old.entities.add("Ada Example", "person").id
    old.entities.add("number2", "thing")
    changes = [lambda: None, lambda: old.entities.change(ada, description="a potter")]
    new = open_memory(Other(*changes, hopeless="number2"))
    new.embed_missing()
    assert models_of(file) == [("other", 0, 1), ("hash", 0, 2)]
    assert old.entities.get(ada).description == "a potter"


def test_a_text_that_gets_no_vector_does_not_keep_the_others_from_theirs(file: Path, open_memory: Opener) -> None:
    old = open_memory()
    fill(old, 20)
    old.entities.add("number7", "thing")
    new = open_memory(Other(hopeless="number7"))
    assert new.embed_missing() == 19
    assert models_of(file)[0] == ("other", 19, 0)
    assert best(new, "number8") == "apple number8"
    assert new.embed_missing() == 0


def test_a_model_that_makes_no_vector_at_all_is_never_switched_to(file: Path, open_memory: Opener) -> None:
    old = open_memory()
    fill(old, 20)
    new = open_memory(Other(hopeless="apple"))
    with pytest.raises(EmbedderError, match="other gave no usable vector for any of 20 episodes; those of hash stay"):
        new.embed_missing()
    assert best(old, "number7") == "apple number7"
    assert models_of(file) == [("hash", 20, 0)]


def test_a_server_that_breaks_during_a_build_leaves_what_was_made_and_the_old_in_use(
    server: FakeServer, file: Path, open_memory: Opener
) -> None:
    old = open_memory()
    fill(old)
    with Memory.open(file, embedder="openai:wide") as new:

        def break_down(done: int) -> None:
            server.failing = 500

        with pytest.raises(EmbedderError, match="status 500"):
            new.embed_missing(progress=break_down)
        assert best(old, "number7") == "apple number7"
        server.failing = None
        shown: list[int] = []
        assert new.embed_missing(progress=shown.append) == EPISODES - reembed.BATCH
        assert shown == [reembed.BATCH, EPISODES - reembed.BATCH]
        assert best(new, "number7") == "apple number7", "the same memory recalls by the new vectors"


def test_an_empty_store_is_given_a_model_as_well(server: FakeServer, file: Path) -> None:
    with Memory.open(file, embedder="openai:small") as memory:
        assert memory.embed_missing() == 0
    with Memory.open(file) as memory:
        assert memory.status().model == "openai:small"


# Old vectors


def test_old_vectors_are_removed_after_the_switch_and_counted(
    server: FakeServer, file: Path, open_memory: Opener
) -> None:
    old = open_memory()
    fill(old, 40)
    old.add("word " * 1000)
    old.entities.add("Ada Example", "person")
    said = run("embed", "--model", "openai:small", "--drop-old")
    assert (
        said == "made vectors for 41 episodes; recall uses those of openai:small\nremoved 46 vectors of other models\n"
    )
    assert [name for name, *_ in models_of(file)] == ["openai:small"]
    with Memory.open(file) as memory:
        assert best(memory, "number7") == "apple number7"
        assert memory.doctor().is_healthy
        assert memory.drop_old_vectors() == 0
    assert old.recall("number7").degraded.keys() == {"semantic"}
    old.add("another apple")
    assert [name for name, *_ in models_of(file)] == ["openai:small"], "nobody writes vectors of the old model"


def test_a_removal_that_was_stopped_leaves_the_file_in_step_and_goes_on(
    file: Path, open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(open_memory(), 40)
    new = open_memory(HashEmbedder(32, "other"))
    new.embed_missing()
    monkeypatch.setattr(reembed, "DROP_BATCH", 10)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(new._store, "after_write", stopped(3))
        new.drop_old_vectors()
    assert models_of(file) == [("other", 40, 0), ("hash", 20, 0)]
    assert best(new, "number7") == "apple number7"
    assert new.drop_old_vectors() == 20
    assert models_of(file) == [("other", 40, 0)]


def test_an_engine_is_told_nothing_of_the_vectors_that_are_removed(
    file: Path, open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its whole collection goes; a removal that was stopped has left no million of points for it to take out."""
    old = open_memory()
    fill(old, 20)
    with old._store.write() as db:
        (number,) = [stored_models.find(db, model) for model in stored_models.every(db)]
        target = outbox.enrol(db, "edge", "vectors", number, "{}")
        assert outbox.lag(db, target.id)[0] == 20
    new = open_memory(HashEmbedder(32, "other"))
    new.embed_missing()
    monkeypatch.setattr(reembed, "DROP_BATCH", 10)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(new._store, "after_write", stopped(2))
        new.drop_old_vectors()
    with new._store.read() as db:
        assert outbox.targets(db) == []
        assert db.execute("SELECT count(*) FROM outbox").get == 0
    assert new.drop_old_vectors() == 10


def test_the_vectors_in_use_are_not_removed_by_who_has_another_model(open_memory: Opener) -> None:
    fill(open_memory(), 5)
    other = open_memory(HashEmbedder(32, "other"))
    with pytest.raises(Conflict, match="the vectors in use are hash's, and those of other would be removed"):
        other.drop_old_vectors()
    project = open_memory().catalog.add_project("house").id
    with pytest.raises(NotAllowed):
        open_memory().within(project).drop_old_vectors()


def test_a_build_that_was_given_up_is_removed_as_well(server: FakeServer, file: Path, open_memory: Opener) -> None:
    memory = open_memory()
    fill(memory)
    embedder: Embedder = Other(lambda: None, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_memory(embedder).embed_missing()
    assert memory.status().building == Build("other", reembed.BATCH, EPISODES - reembed.BATCH)
    assert memory.drop_old_vectors() == reembed.BATCH
    assert memory.status().building is None
    assert best(memory, "number7") == "apple number7"


def test_a_hidden_message_needs_no_vector_of_any_model(file: Path, open_memory: Opener) -> None:
    old = open_memory()
    old.add("apple pie")
    old.add("apple of nobody's eye", metadata={"hidden": True})
    assert open_memory(HashEmbedder(32, "other")).embed_missing() == 1
    assert models_of(file) == [("other", 1, 0), ("hash", 1, 0)]


def test_the_command_tells_of_a_model_that_cannot_be_had_in_one_sentence(
    server: FakeServer, file: Path, open_memory: Opener
) -> None:
    fill(open_memory(), 5)
    done = subprocess.run([*COMMAND, "embed", "--model", "openai:huge"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    said = "has no embedding model 'huge', or is not its address: model 'huge' not found"
    assert done.stderr.startswith(f"twofold: {server.url} {said}")
    assert models_of(file) == [("hash", 5, 0)]
