"""Small histories of every kind, written into a temporary directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from twofold.importers import Losses, read
from twofold.types import Message

from .shapes import Read, Save


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a value as JSON, or several as JSONL, under a name."""

    def write(value: object, name: str = "history.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write


@pytest.fixture
def save_lines(tmp_path: Path) -> Save:
    def write(values: Iterable[object], name: str = "history.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
        return path

    return write


@pytest.fixture
def taken(save: Save) -> Read:
    """Read a value back through a file: its messages, and what was lost."""

    def through(value: object, kind: str | None = None, *, all_branches: bool = False) -> tuple[list[Message], Losses]:
        losses = Losses()
        return list(read(save(value), losses, kind=kind, all_branches=all_branches)), losses

    return through


@pytest.fixture
def exports() -> Path:
    """The directory of example exports, where TWOFOLD_DATA names one."""
    data = os.environ.get("TWOFOLD_DATA")
    if not data:
        pytest.skip("TWOFOLD_DATA is not set")
    return Path(data) / "chat-exports"
