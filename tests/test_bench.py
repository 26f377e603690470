"""`twofold bench`: it measures what it says, on stores that are what they are said to be; the page has its figures."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Opener
from twofold import Memory, bench, benchtable, output
from twofold.embed.hashing import HashEmbedder
from twofold.errors import EmbedderError, InvalidInput, StoreError
from twofold.synthetic import SESSION, Drawn, History

ROOT = Path(__file__).parents[1]
EPISODES, QUERIES, SEED = 300, 6, 11


@dataclass(frozen=True)
class Measured:
    folder: Path
    figures: bench.Figures
    ticks: list[int]

    @property
    def file(self) -> Path:
        (file,) = self.folder.iterdir()
        return file


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A small store, measured once and kept; a run that was stopped had left its half."""
    folder, ticks = tmp_path_factory.mktemp("bench"), list[int]()
    (folder / f"bench-{bench.FORM}-{SEED}-{EPISODES}.half").write_bytes(b"no database")
    return Measured(folder, bench.measure(EPISODES, QUERIES, SEED, folder, progress=ticks.append), ticks)


def test_everything_is_measured(measured: Measured) -> None:
    figures = measured.figures
    assert figures.recalls.keys() == benchtable.SCOPES.keys()
    for spent in (*figures.recalls.values(), figures.search, figures.context, figures.add):
        assert 0 < spent.p50 <= spent.p95
    for scope, spent in figures.recalls.items():
        assert set(spent.stages) == set(benchtable.STAGES), scope
        assert all(0 < stage < spent.p95 for stage in spent.stages.values()), scope
    assert figures.import_rate and figures.import_rate > 0
    assert figures.start > figures.recalls["wholeStore"].p50
    assert figures.resident is None or 50e6 < figures.resident < 1e9


def test_progress_counts_every_step_up_to_the_last(measured: Measured) -> None:
    assert measured.ticks == sorted(set(measured.ticks))
    assert measured.ticks[-1] == bench.steps(EPISODES, QUERIES)


def test_the_kept_store_is_whole_and_without_the_single_adds(measured: Measured) -> None:
    with Memory.open(measured.file) as memory:
        assert memory.doctor().is_healthy
        state = memory.status()
        stored = [memory.show(episode=id_)[0].content for id_ in range(1, EPISODES + 1)]
        assert memory.catalog.find_session(bench.ADDED) is None
    assert (state.episodes, state.vectors, state.waiting) == (EPISODES, EPISODES, 0)
    assert stored == [message.content for message in History(SEED).messages(EPISODES)]
    assert 0 < measured.figures.bytes <= measured.file.stat().st_size


def test_questions_come_from_all_over_the_store_and_are_the_same_for_the_same_seed(measured: Measured) -> None:
    with Memory.open(measured.file, embedder=None) as memory:
        asked = bench.questions(memory, EPISODES, QUERIES, SEED)
        assert asked == bench.questions(memory, EPISODES, QUERIES, SEED)
        assert asked != bench.questions(memory, EPISODES, QUERIES, SEED + 1)
        for episode, text in asked:
            assert memory.search(text, session=str(episode.session_id), limit=SESSION)
    assert sorted(episode.id for episode, _ in asked) == [1 + EPISODES * n // QUERIES for n in range(QUERIES)]


def test_the_command_takes_a_kept_store_as_it_is_and_no_settings_of_the_user(measured: Measured) -> None:
    command = [sys.executable, "-c", "from twofold.cli import main; main()", "bench", "--db", str(measured.folder)]
    options = ["--episodes", str(EPISODES), "--queries", "3", "--seed", str(SEED), "--json"]
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"TWOFOLD_METHOD": "rrf"},  # which completes no scores
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["queries"], report["seed"], report["machine"]["cores"]) == (3, SEED, os.cpu_count())
    (store,) = report["stores"]
    assert (store["episodes"], store["importRate"]) == (EPISODES, None)
    assert store["recalls"]["wholeStore"]["stages"]["complete"] > 0
    assert len(list(measured.folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--episodes", "10", "episodes is 10; give a whole number from 200 to 2000000"),
        ("--queries", "0", "queries is 0; give a whole number from 1 to 10000"),
        ("--seed", "-1", "seed is -1; give a whole number from 0 to 4294967295"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_made(
    option: str, value: str, says: str, tmp_path: Path
) -> None:
    from click.testing import CliRunner

    from twofold import cli

    place = tmp_path / "kept"
    done = CliRunner().invoke(cli.twofold, ["bench", "--db", str(place), option, value])
    assert isinstance(done.exception, InvalidInput)
    assert str(done.exception) == says
    assert not place.exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="name another"):
        bench.measure(EPISODES, QUERIES, SEED, tmp_path / "file")


def test_a_new_process_that_fails_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        bench._first_recall(tmp_path / "broken.db", "mooring fee", lambda: None)


def test_recall_without_its_semantic_half_is_not_measured(measured: Measured) -> None:
    with (
        Memory.open(measured.file, embedder=None) as memory,
        pytest.raises(EmbedderError, match="its semantic part failed: this memory was opened without an embedder"),
    ):
        bench._calls(memory, bench.questions(memory, EPISODES, 1, SEED), lambda: None)


def test_a_run_that_stops_during_the_single_adds_takes_them_out_too(open_memory: Opener) -> None:
    class StoppedError(Exception):
        pass

    def stop() -> None:
        raise StoppedError

    memory = open_memory()
    with pytest.raises(StoppedError):
        bench._adds(memory, stop)
    assert memory.status().episodes == 0


def test_drawn_vectors_are_unit_and_lie_together_by_session() -> None:
    model = HashEmbedder(dimension=384)
    drawn = np.concatenate(Drawn(model, SEED).embed_documents([""] * 10 * SESSION))
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1.0, atol=1e-6)
    cosines = drawn @ drawn.T
    own = np.kron(np.eye(10, dtype=bool), np.ones((SESSION, SESSION), dtype=bool))
    assert cosines[own & ~np.eye(len(own), dtype=bool)].mean() > cosines[~own].mean() + 0.2
    assert Drawn(model, SEED).info == model.info


def test_drawn_vectors_are_the_same_however_they_are_asked_for() -> None:
    sizes = (0, 3, 37, SESSION, 1, 512)
    one, other = (Drawn(HashEmbedder(), SEED) for _ in range(2))
    parts = [vector for size in sizes for vector in one.embed_documents([""] * size)]
    whole = other.embed_documents([""] * sum(sizes))
    assert all(np.array_equal(a, b) for a, b in zip(parts, whole, strict=True))


def test_a_history_is_the_same_for_the_same_seed_and_in_sessions_of_projects() -> None:
    messages = list(History(SEED).messages(EPISODES))
    assert messages == list(History(SEED).messages(EPISODES))
    assert messages[0].content != next(History(SEED + 1).messages(1)).content
    assert set(Counter(message.session for message in messages).values()) == {SESSION}
    assert len({message.project for message in messages}) == 2


def test_the_table_has_a_column_for_each_store_and_a_dash_for_what_is_not_known(measured: Measured) -> None:
    unknown = output.plain(measured.figures) | {"importRate": None, "resident": None}
    machine = output.plain(bench.machine())
    report = {"machine": machine, "seed": 1, "queries": 2, "stores": [output.plain(measured.figures), unknown]}
    lines = list(benchtable.lines(report))
    (imported,) = (line.split() for line in lines if line.startswith("import"))
    assert imported[-2:] == [f"{measured.figures.import_rate:,.0f}", "-"]
    assert len({len(line) for line in lines[2:]}) == 1
    table = [line for line in benchtable.markdown(report).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {4}
    assert len(table) == len(lines[2:]) + 1


Page = Callable[[str, Any], str]


@pytest.fixture(scope="module")
def page() -> Page:
    """The function that puts a report's table into the page."""
    made: Page = runpy.run_path(str(ROOT / "scripts" / "performance.py"))["page"]
    return made


def test_the_performance_page_says_what_was_measured(page: Page) -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    report = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
    assert page(text, report) == text, "run: python scripts/performance.py"
    other = report | {"stores": [report["stores"][0] | {"start": 987654.0}]}
    assert "| 987,654 |" in page(text, other)
    assert page(page(text, other), report) == text


def test_a_page_without_a_place_for_the_table_is_not_written(page: Page) -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    report = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
    with pytest.raises(SystemExit, match="no two marks"):
        page(re.sub("<!-- end -->\n", "", text), report)
