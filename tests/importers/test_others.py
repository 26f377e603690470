"""ShareGPT, the graph of the MCP memory server, Markdown and plain text."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import ImportFailed
from twofold.importers import Found, Losses, mcpmemory, read

from .shapes import Read, Save


def test_sharegpt_conversations_are_sessions(taken: Read) -> None:
    messages, losses = taken(
        [
            {
                "id": "chat-7",
                "conversations": [
                    {"from": "system", "value": "Be brief."},
                    {"from": "human", "value": "How long do I proof?"},
                    {"from": "gpt", "value": "An hour."},
                    {"from": "critic", "value": "Too short."},
                    {"from": "gpt", "value": ""},
                    5,
                ],
            },
            {"conversations": [{"from": "human", "value": "Hello"}]},
            {"conversations": []},
            {"other": 1},
        ]
    )
    assert [(one.session, one.role, one.content) for one in messages] == [
        ("chat-7", "system", "Be brief."),
        ("chat-7", "user", "How long do I proof?"),
        ("chat-7", "assistant", "An hour."),
        ("chat-7", "user", "Too short."),
        ("history", "user", "Hello"),
    ]
    assert messages[0].metadata == {"hidden": True} and messages[3].metadata == {"role": "critic"}
    assert losses == {
        "hidden or system message (kept, not recalled)": 1,
        "unknown role 'critic' (kept as user)": 1,
        "empty message": 1,
        "entry that is not a message": 1,
        "conversation without an id (named after the file)": 2,
        "empty conversation": 1,
        "entry that is not a conversation": 1,
    }
    assert losses.conversations == 3


GRAPH = [
    {"type": "entity", "name": "Ada Example", "entityType": "Person", "observations": ["bakes", "rises at four"]},
    {"type": "entity", "name": "Mill", "entityType": "Work Place", "observations": [" ", 7]},
    {"type": "relation", "from": "Ada Example", "to": "Mill", "relationType": "works at"},
    {"type": "relation", "from": "Mill", "to": "River", "relationType": "stands on"},
    {"type": "relation", "from": "Mill", "to": "", "relationType": "stands on"},
    {"type": "entity", "name": "", "entityType": "person", "observations": []},
    {"type": "entity", "name": "Ada Example", "entityType": "person", "observations": ["bakes", "sings"], "tag": 1},
    "not an object",
]


def test_a_graph_becomes_entities_and_a_message_for_each_with_all_that_is_known(save_lines: Save) -> None:
    losses = Losses()
    messages = list(read(save_lines(GRAPH, "memory.jsonl"), losses))
    assert [(one.session, one.source, one.content) for one in messages] == [
        (
            "memory",
            "mcp-memory:Ada Example",
            "Ada Example (Person)\n- bakes\n- rises at four\n- works at Mill\n- sings",
        ),
        ("memory", "mcp-memory:Mill", "Mill (Work Place)\n- stands on River"),
        ("memory", "mcp-memory:River", "River"),
    ]
    assert losses.entities == [
        Found("Ada Example", "person", "bakes; rises at four; works at Mill; sings"),
        Found("Mill", "work-place", "stands on River"),
        Found("River", "thing", ""),
    ]
    assert losses == {
        "observation that is not text": 1,
        "empty observation": 1,
        "type of an entity (written with a-z, 0-9, - and _)": 1,
        "entity that only a relation names (made)": 1,
        "relation without both ends and a type": 1,
        "entity without a name": 1,
        "unknown key 'tag'": 1,
        "line that is neither an entity nor a relation": 1,
    }


def test_of_a_description_that_is_too_long_the_message_has_all(save_lines: Save) -> None:
    facts = [f"fact number {number}" for number in range(300)]
    losses = Losses()
    graph = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": facts},
        {"type": "entity", "name": "x" * 300, "entityType": "person", "observations": ["long"]},
    ]
    first, second = read(save_lines(graph), losses)
    assert first.content.splitlines()[1:] == [f"- {fact}" for fact in facts]
    (ada,) = losses.entities
    assert len(ada.description) == 2000 and ada.description.endswith("…")
    assert second.content.endswith("- long") and len(str(second.source)) <= 512
    assert losses == {
        "description of an entity (cut to 2,000 characters; its message has all of it)": 1,
        "entity with a name of over 200 characters (kept as a message alone)": 1,
    }


def test_a_graph_too_large_for_memory_is_refused(save_lines: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcpmemory, "MOST_ENTITIES", 2)
    graph = [{"type": "entity", "name": str(n), "entityType": "x", "observations": []} for n in range(3)]
    assert len(list(read(save_lines(graph[:2]), Losses()))) == 2
    with pytest.raises(ImportFailed, match=r"history.jsonl' is a memory of more than 2 entities"):
        list(read(save_lines(graph), Losses()))


NOTE = """\
Before any heading.

# Bread
An hour.

```sh
# no heading, a comment
```

## Rye ##
Dark.

## Rye
Darker.

# Rolls
"""


def test_a_markdown_file_is_a_session_and_each_heading_a_message(tmp_path: Path) -> None:
    path = tmp_path / "kitchen.md"
    path.write_text(NOTE, encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    losses = Losses()
    messages = list(read(path, losses))
    assert [(one.content, one.source) for one in messages] == [
        ("Before any heading.", "text:kitchen#"),
        ("# Bread\nAn hour.\n\n```sh\n# no heading, a comment\n```", "text:kitchen#Bread"),
        ("## Rye ##\nDark.", "text:kitchen#Bread / Rye"),
        ("## Rye\nDarker.", "text:kitchen#Bread / Rye~2"),
        ("# Rolls", "text:kitchen#Rolls"),
    ]
    assert {one.session for one in messages} == {"kitchen"}
    assert {one.time for one in messages} == {datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}
    assert messages[2].metadata == {"heading": "Bread / Rye"}
    assert not losses and losses.conversations == 1


def test_the_files_of_a_folder_are_sessions_by_their_place_in_it(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    for name in ("bread.md", "recipes/bread.md", "recipes/plan.txt"):
        (tmp_path / name).write_text(f"text of {name}")
    messages = list(read(tmp_path, Losses()))
    assert [(one.session, one.content) for one in messages] == [
        ("bread", "text of bread.md"),
        ("recipes/bread", "text of recipes/bread.md"),
        ("recipes/plan", "text of recipes/plan.txt"),
    ]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(1, 50))
def test_nothing_but_line_ends_around_pieces_is_lost_of_a_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, most: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_text(text, encoding="utf-8", newline="")
    losses = Losses()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twofold.importers.prose._MOST_LINE", most)
        patch.setattr("twofold.importers.prose._MOST_PIECE", most)
        said = "".join(one.content for one in read(path, losses, kind="text"))
    bare = str.maketrans("", "", "\n\ufeff")
    assert said.translate(bare).split() == text.translate(bare).split()
    assert bool(said) or losses == {"text that says nothing": 1}


def test_a_text_that_is_no_utf8_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes("one\ntwo\ncaf\xe9".encode("latin-1"))
    with pytest.raises(ImportFailed, match=r"line 3: not UTF-8"):
        list(read(path, Losses()))
