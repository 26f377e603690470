"""Shared fixtures: real files, and an embedder that needs no model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from twofold import Memory
from twofold.embed import Embedder
from twofold.embed.hashing import HashEmbedder

settings.register_profile(
    "twofold", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("twofold")

Opener = Callable[..., Memory]


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests see neither the user's settings file nor the user's memories."""
    for name in [name for name in os.environ if name.startswith("TWOFOLD_") and name != "TWOFOLD_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Opener]:
    """Opens the test's database as often as it is called, and closes every door at the end."""
    opened: list[Memory] = []

    def open_(embedder: Embedder | None = HashEmbedder(), name: str = "memories.db") -> Memory:  # noqa: B008
        opened.append(Memory.open(tmp_path / name, embedder=embedder))
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory: Opener) -> Memory:
    """An empty memory with the hashing embedder."""
    return open_memory()
