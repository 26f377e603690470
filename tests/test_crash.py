"""What was confirmed survives kill -9. `make chaos` runs many more rounds of the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks import chaos
from tests.conftest import Opener
from twofold import Memory
from twofold.embed.hashing import HashEmbedder


@pytest.mark.parametrize("seed", [1, 2])
def test_every_confirmed_add_is_there_after_a_kill(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = tmp_path / "memories.db"
    for _ in range(2):
        confirmed = chaos.killed(chaos.ADD, file, chance.uniform(0.0, 0.4))
        chaos.verify(file, confirmed)


def test_every_part_of_the_file_agrees_after_a_kill_during_edits_and_forgets(tmp_path: Path) -> None:
    file = tmp_path / "memories.db"
    chaos.killed(chaos.CHANGE, file, 0.3)
    with Memory.open(file, embedder=HashEmbedder()) as memory:
        chaos.agree(memory)


def test_an_import_that_was_killed_goes_on_without_doubling(tmp_path: Path, open_memory: Opener) -> None:
    file = tmp_path / "memories.db"
    confirmed = chaos.killed(chaos.IMPORT, file, 0.2)
    chaos.verify(file, confirmed)
    memory = open_memory()
    there = memory.status().episodes
    report = memory.import_(chaos.history()[: there + 100])
    assert (report.added, report.duplicates) == (100, there)
