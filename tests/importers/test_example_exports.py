"""The example exports, where TWOFOLD_DATA names their directory: exact counts, and nothing doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from twofold import Memory
from twofold.history import Wanted, bring_in
from twofold.importers import Losses, read


@pytest.mark.parametrize(
    ("name", "roles", "sessions", "lost"),
    [
        ("membridge_chatgpt_export.json", {"user": 3, "assistant": 3}, 2, {"empty message": 1}),
        ("membridge_claude_export.json", {"user": 5, "assistant": 5}, 3, {}),
        (
            "synthetic_chatgpt_conversations.json.gz",
            {"user": 135, "assistant": 136, "tool": 1},
            24,
            {
                "empty message": 24,
                "message on an abandoned branch": 1,
                "image (placeholder kept)": 1,
            },
        ),
        (
            "synthetic_claude_conversations.json.gz",
            {"user": 135, "assistant": 135},
            24,
            {
                "thinking block (not taken)": 1,
                "tool use block (not taken)": 1,
                "tool result block (not taken)": 1,
                "file (placeholder kept)": 1,
                "empty conversation": 1,
            },
        ),
    ],
)
def test_an_example_export_is_read_whole(
    exports: Path, name: str, roles: dict[str, int], sessions: int, lost: dict[str, int]
) -> None:
    losses = Losses()
    messages = list(read(exports / name, losses))
    assert Counter(message.role for message in messages) == roles
    assert len({message.session for message in messages}) == sessions
    assert losses == lost
    assert all(message.time for message in messages)
    assert len({message.source for message in messages}) == len(messages)
    assert [message.source for message in read(exports / name, Losses())] == [m.source for m in messages]


def test_the_example_exports_come_in_once_however_often_they_are_imported(exports: Path, memory: Memory) -> None:
    first = bring_in(memory, [exports], Wanted(), embed=False)
    again = bring_in(memory, [exports], Wanted(), embed=False)
    assert first.report.added == first.losses.messages == again.report.duplicates == memory.status().episodes
    assert (again.report.added, again.report.updated) == (0, 0)
    assert first.losses == again.losses
    assert memory.doctor().is_healthy
