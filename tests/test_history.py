"""Whole histories brought in: everything once, what was edited anew, and every loss on a line."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from twofold import Memory, Message
from twofold.errors import EmbedderError, ImportFailed
from twofold.history import Brought, Wanted, bring_in
from twofold.types import Episode, LossReport
from twofold.writer import BATCH, LARGE_BATCH

from .conftest import Opener
from .importers.shapes import chatgpt, chatgpt_of, claude, node, said
from .importers.test_logs import CODEX, RESULT, TALK, TOOL, line
from .importers.test_others import GRAPH, NOTE


def content(memory: Memory) -> list[tuple[Any, ...]]:
    """All that a store holds, but for its own numbers."""
    found: list[tuple[Any, ...]] = []
    for session in sorted(memory.sessions(), key=lambda one: (one.project or "", one.name)):
        for one in memory.show(str(session.id)):
            found.append(
                (one.project, one.session, one.title, one.role, one.content, one.time, json.dumps(dict(one.metadata)))
            )
    entities = memory.entities.page().items
    return found + [(one.name, one.type, one.description, one.aliases, one.project, one.mentions) for one in entities]


def zipped(path: Path, members: Mapping[str, object]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))


def lines(path: Path, values: list[Any]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


def chatgpt_zip(path: Path) -> None:
    edited = chatgpt(
        node("root", None),
        node("s", "root", "", "system", metadata={"is_visually_hidden_from_conversation": True}),
        node("i", "s", "About me: a baker", "user", metadata={"is_visually_hidden_from_conversation": True}),
        node("a", "i", "first wording"),
        node("a2", "i", "second wording", create_time=None),
        node("b", "a2", "The answer.", "assistant", metadata={"model_slug": "gpt-x"}),
        current="b",
        title="",
    )
    odd = chatgpt_of({"content_type": "multimodal_text", "parts": [{"content_type": "hologram"}, "See"]}) | {
        "id": "chat-2"
    }
    shards = {"a/conversations-000.json": [edited, 7], "a/conversations-001.json": [odd, chatgpt(id="chat-3")]}
    zipped(path, {**shards, "a/user.json": {}, "../../evil.json": {}})


def claude_zip(path: Path) -> None:
    talk = claude(
        said("m1", "", content=[{"type": "text", "text": "What now?"}], attachments=[
            {"file_name": "plan.txt", "extracted_content": "Bake at four"}]),
        said("m2", "", "assistant", content=[{"type": "tool_use"}, {"type": "text", "text": "Sleep."}]),
        said("m3", "", files=[{"file_name": "oven.png"}]),
        name="",
    )  # fmt: skip
    projects = [{"uuid": "p-1", "name": "Bakery", "prompt_template": "", "docs": [{"filename": "a", "content": "Rye"}]}]
    zipped(path, {"conversations.json": [talk, claude(uuid="talk-2")], "projects.json": projects, "users.json": []})


def claude_code(path: Path) -> None:
    lines(
        path,
        [
            line("u1", None, "Why?"),
            line("u2", "u1", [TOOL, {"type": "text", "text": "So."}], "assistant"),
            line("u3", "u2", RESULT),
            line("u4", None, "Aside", isSidechain=True),
        ],
    )
    with path.open("a") as file:
        file.write('{"type": "user", "mess')


def report(**more: Any) -> LossReport:
    times = {
        "first": datetime(2026, 2, 1, 10, tzinfo=timezone.utc),
        "last": datetime(2026, 2, 1, 10, 0, 7, tzinfo=timezone.utc),
    }
    nothing: dict[str, Any] = {"skipped": {}, "placeholders": {}, "unknown": {}, "changed": {}}
    return LossReport(**{**times, **nothing, **more})


HIDDEN = "hidden or system message (kept, not recalled)"
NEIGHBOUR = "message without a time (given its neighbour's)"
CHATGPT_TIME = datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)

HISTORIES: dict[str, tuple[Any, LossReport]] = {
    "chatgpt.zip": (
        chatgpt_zip,
        report(
            conversations=3,
            messages=4,
            first=CHATGPT_TIME,
            last=CHATGPT_TIME,
            skipped={
                "empty conversation": 1,
                "empty message": 1,
                "entry that is not a conversation": 1,
                "file in the zip that is no conversation (.json, not read)": 2,
                "message on an abandoned branch": 1,
            },
            unknown={"unknown part type 'hologram'": 1},
            changed={HIDDEN: 1, NEIGHBOUR: 1},
        ),
    ),
    "claude.zip": (
        claude_zip,
        report(
            conversations=3,
            messages=4,
            first=datetime(2024, 3, 10, 9, 0, 30, tzinfo=timezone.utc),
            last=datetime(2024, 3, 10, 9, 0, 30, tzinfo=timezone.utc),
            skipped={
                "empty conversation": 1,
                "file in the zip that is no conversation (.json, not read)": 1,
                "tool use block (not taken)": 1,
            },
            placeholders={"file (placeholder kept)": 1},
        ),
    ),
    "log.jsonl": (
        claude_code,
        report(
            conversations=1,
            messages=3,
            first=datetime(2026, 2, 1, 10, 0, 1, tzinfo=timezone.utc),
            last=datetime(2026, 2, 1, 10, 0, 4, tzinfo=timezone.utc),
            skipped={"last line of a file, which breaks off": 1, "tool result (not taken)": 1},
            placeholders={"tool call (name kept)": 1},
        ),
    ),
    "rollout.jsonl": (
        lambda path: lines(path, CODEX),
        report(
            conversations=1,
            messages=6,
            first=datetime(2026, 2, 1, 10, 0, 1, tzinfo=timezone.utc),
            skipped={
                "event of type 'agent_reasoning' (no message)": 1,
                "event of type 'token_count' (no message)": 1,
                "event that repeats a message": 2,
                "item of type 'ghost_snapshot' (no message)": 1,
                "reasoning (not taken)": 1,
                "tool result (not taken)": 1,
            },
            placeholders={"tool call (name kept)": 1},
            changed={HIDDEN: 3},
        ),
    ),
    "gemini.json": (
        lambda path: path.write_text(json.dumps({"sessionId": "g", "startTime": None, "messages": TALK})),
        report(
            conversations=1,
            messages=3,
            last=datetime(2026, 2, 1, 10, 0, 6, tzinfo=timezone.utc),
            skipped={"thought (not taken)": 1, "tool result (not taken)": 1},
            placeholders={"tool call (name kept)": 1},
            changed={HIDDEN: 1},
        ),
    ),
    "sharegpt.json": (
        lambda path: path.write_text(
            json.dumps([{"conversations": [{"from": "human", "value": "Hi"}, {"from": "bird", "value": "Peep"}]}])
        ),
        report(
            conversations=1,
            messages=2,
            first=None,
            last=None,
            unknown={"unknown role 'bird' (kept as user)": 1},
            changed={"conversation without an id (named after the file)": 1},
        ),
    ),
    "openai.json": (
        lambda path: path.write_text(
            json.dumps(
                [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [{}]}, 3]}]
            )
        ),
        report(
            conversations=1,
            messages=1,
            first=None,
            last=None,
            skipped={"entry that is not a message": 1, "tool call (not taken)": 1},
        ),
    ),
    "memory.jsonl": (
        lambda path: lines(path, GRAPH),
        report(
            conversations=1,
            messages=3,
            first=None,
            last=None,
            skipped={
                "empty observation": 1,
                "entity without a name": 1,
                "line that is neither an entity nor a relation": 1,
                "observation that is not text": 1,
                "relation without both ends and a type": 1,
            },
            unknown={"unknown key 'tag'": 1},
            changed={
                "entity that only a relation names (made)": 1,
                "type of an entity (written with a-z, 0-9, - and _)": 1,
            },
        ),
    ),
    "own.jsonl": (
        lambda path: lines(
            path,
            [
                {"session": "a", "content": "one", "time": "2026-02-01T11:00:00+01:00"},
                {"session": "b", "content": "two", "time": "2026-02-01T10:00:07", "colour": 1},
                {"session": "b", "content": "half \ud83d"},
            ],
        ),
        report(
            conversations=2,
            messages=3,
            unknown={"unknown key 'colour'": 1},
            changed={
                "broken character (replaced by U+FFFD)": 1,
                "time without a zone (taken as UTC)": 1,
            },
        ),
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_shape_comes_in_with_its_losses_on_lines_and_a_second_time_changes_nothing(
    memory: Memory, tmp_path: Path, name: str
) -> None:
    write, expected = HISTORIES[name]
    write(tmp_path / name)
    first = bring_in(memory, [tmp_path / name], Wanted())
    assert first.losses == expected
    assert (first.report.added, first.report.updated, first.report.duplicates) == (expected.messages, 0, 0)
    assert first.report.waiting == 0 and first.failed is None
    before = content(memory)
    again = bring_in(memory, [tmp_path / name], Wanted())
    assert again.losses == expected
    assert (again.report.added, again.report.updated, again.report.duplicates) == (0, 0, expected.messages)
    assert again.entities == 0
    assert content(memory) == before
    assert memory.doctor().is_healthy


def test_a_folder_of_all_shapes_comes_in_as_each_of_them_alone(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    for name, (write, _) in HISTORIES.items():
        write(folder / name)
    (folder / "note.md").write_text(NOTE)
    done = bring_in(memory, [folder], Wanted(project="old"))
    assert done.report.added == sum(expected.messages for _, expected in HISTORIES.values()) + 5
    assert done.losses.conversations == sum(expected.conversations for _, expected in HISTORIES.values()) + 1
    assert {session.project for session in memory.sessions()} == {"old"}
    assert [entity.project for entity in memory.entities.page().items] == ["old"] * 3
    assert bring_in(memory, [folder], Wanted(project="old")).report.added == 0


def test_a_newer_export_adds_what_is_new_and_renews_what_was_edited(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    old = [node("a", None, "the oven is green"), node("b", "a", "noted", "assistant")]
    path.write_text(json.dumps([chatgpt(*old)]))
    bring_in(memory, [path], Wanted())
    new = [node("a", None, "the oven is crimson"), old[1], node("c", "b", "and the door")]
    path.write_text(json.dumps([chatgpt(*new)]))
    planned = bring_in(memory, [path], Wanted(), dry_run=True)
    assert [one.content for one in memory.show("chat-1")] == ["the oven is green", "noted"]
    done = bring_in(memory, [path], Wanted())
    assert planned.report == done.report
    assert (done.report.added, done.report.updated, done.report.duplicates) == (1, 1, 1)
    assert [one.content for one in memory.show("chat-1")] == ["the oven is crimson", "noted", "and the door"]
    assert memory.search("crimson") and not memory.search("green")
    (hit, *_) = memory.recall("which colour is the crimson oven")
    assert hit.episode.content == "the oven is crimson" and {one.ranking for one in hit.contributions} >= {"semantic"}
    assert memory.doctor().is_healthy


def test_what_was_edited_here_is_not_undone_by_its_source(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    lines(path, [{"content": "one", "source": "1"}, {"content": "two", "source": "2"}])
    bring_in(memory, [path], Wanted())
    first = memory.show("own")[0]
    assert memory.edit(first.id, "mine").metadata == {"edited": True}
    done = bring_in(memory, [path], Wanted())
    assert (done.report.updated, done.report.kept, done.report.duplicates) == (0, 1, 1)
    assert [one.content for one in memory.show("own")] == ["mine", "two"]


@pytest.mark.parametrize("batch", [BATCH, LARGE_BATCH])
def test_of_a_source_that_comes_twice_the_last_words_hold_whatever_the_batches(memory: Memory, batch: int) -> None:
    def of(number: int, text: str) -> Message:
        return Message(text, session="s", source=str(number))

    fillers = [of(number, f"filler {number}") for number in range(2, batch + 2)]
    done = memory.import_([of(1, "early"), *fillers, of(1, "late")], embed=batch == BATCH)
    assert (done.added, done.updated) == (batch + 1, 1)
    assert memory.show("s")[0].content == "late"
    assert not memory.search("early") and memory.search("late")


def test_hidden_messages_are_kept_and_neither_recalled_nor_given_to_an_assistant(
    memory: Memory, open_memory: Opener, tmp_path: Path
) -> None:
    path = tmp_path / "own.jsonl"
    talk = ["the gate is green", "you are a gatekeeper", "I see a gate", "and a gatekeeper's gate"]
    lines(
        path,
        [
            {"content": text, "session": "s", "source": text, "metadata": {"hidden": True} if n == 1 else {}}
            for n, text in enumerate(talk)
        ],
    )
    assert bring_in(memory, [path], Wanted()).report.waiting == 0
    shown = memory.show("s")
    assert [one.content for one in shown] == talk
    hidden = shown[1].id
    for found in (memory.recall("you are a gatekeeper", limit=10), memory.search("gatekeeper gate", limit=10)):
        assert found and all(hit.episode.id != hidden for hit in found)
    context = memory.context("who is the gatekeeper", session="s")
    assert "you are" not in context.text and [one.id for one in context.recent] == [
        one.id for one in shown if one.id != hidden
    ]
    assert memory.status().waiting == 0 and memory.embed_missing() == 0
    memory.edit(hidden, "you are a doorkeeper")
    assert not memory.search("doorkeeper") and memory.status().waiting == 0
    memory._keyword.rebuild()  # type: ignore[attr-defined]
    assert not memory.search("doorkeeper") and len(memory.search("gate", limit=10)) == 3
    memory.forget(episode=hidden)
    assert memory.doctor().is_healthy


def test_a_message_that_its_source_hides_later_is_recalled_no_more(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    for text, metadata in (("the gate is green", {}), ("the gate was green", {"hidden": True})):
        lines(
            path,
            [
                {"content": "before", "source": "0"},
                {"content": text, "source": "1", "metadata": metadata},
                {"content": "after", "source": "2"},
            ],
        )
        bring_in(memory, [path], Wanted())
    assert memory.show("own")[1].content == "the gate was green"
    assert not memory.search("green") and memory.status().waiting == 0
    lines(path, [{"content": "the gate is green again", "source": "1"}])
    bring_in(memory, [path], Wanted())
    assert memory.search("green")[0].episode.content == "the gate is green again"
    assert memory.status().waiting == 0
    assert memory.doctor().is_healthy


def test_messages_before_a_day_are_left_out_and_those_without_a_time_are_as_old_as_the_one_before(
    memory: Memory, tmp_path: Path
) -> None:
    path = tmp_path / "own.jsonl"
    lines(
        path,
        [
            {"session": "a", "content": "old", "time": "2025-12-31T23:59:59Z"},
            {"session": "a", "content": "as old"},
            {"session": "b", "content": "without any time"},
            {"session": "a", "content": "new", "time": "2026-01-01T00:00:00Z"},
            {"session": "a", "content": "as new"},
        ],
    )
    done = bring_in(memory, [path], Wanted(since=datetime(2026, 1, 1, tzinfo=timezone.utc)))
    assert [one.content for one in memory.show("a")] == ["new", "as new"]
    assert [one.content for one in memory.show("b")] == ["without any time"]
    assert done.losses.skipped == {"message before 2026-01-01 (left out)": 2}


def test_named_things_of_a_graph_are_found_and_renewed(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    lines(path, GRAPH)
    assert bring_in(memory, [path], Wanted(), dry_run=True).entities == 3
    assert memory.entities.page().items == ()
    assert bring_in(memory, [path], Wanted()).entities == 3
    ada = memory.entities.search("Ada Example").hits[0].entity
    assert (ada.type, ada.description, ada.mentions) == ("person", "bakes; rises at four; works at Mill; sings", 1)
    lines(path, [*GRAPH, {"type": "entity", "name": "Ada Example", "entityType": "x", "observations": ["swims"]}])
    again = bring_in(memory, [path], Wanted())
    assert (again.entities, again.report.updated) == (1, 1)
    assert memory.entities.get(ada.id).description.endswith("sings; swims")


def test_vectors_follow_or_are_left_for_later_and_words_are_found_at_once(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    lines(path, [{"content": f"message number {n}"} for n in range(20)])
    done = bring_in(memory, [path], Wanted(project="later"), embed=False)
    assert done.report.waiting == 20 and memory.search("message number 7", project="later")
    told: list[tuple[int, int]] = []
    made: list[int] = []
    done = bring_in(
        memory,
        [path],
        Wanted(project="now"),
        reading=lambda messages, size: told.append((messages, size)),
        embedding=made.append,
    )
    assert told == [(20, path.stat().st_size)]
    assert made[-1] == 40 and done.report.waiting == 0  # those of before as well


def test_an_embedder_that_fails_leaves_the_messages_without_vectors(open_memory: Opener, tmp_path: Path) -> None:
    memory = open_memory()

    def fail(texts: object) -> list[Any]:
        raise EmbedderError("the server is away")

    memory._embedder.embed_documents = fail  # type: ignore[union-attr, method-assign, assignment]
    path = tmp_path / "own.jsonl"
    lines(path, [{"content": "one"}])
    done = bring_in(memory, [path], Wanted(), embedding=lambda made: None)
    assert (done.report.added, done.report.waiting) == (1, 1)


def test_what_was_read_before_a_fault_stays_and_the_fault_is_told(memory: Memory, tmp_path: Path) -> None:
    good, broken = tmp_path / "good.jsonl", tmp_path / "broken.json"
    lines(good, [{"content": "one"}])
    broken.write_text('[{"role": "user", "content": "two"}, {"role": "user"')
    done = bring_in(memory, [good, broken], Wanted())
    assert done.report.added == 2 and done.failed and "line 1, column" in done.failed
    with pytest.raises(ImportFailed, match="does not exist"):
        bring_in(memory, [tmp_path / "gone"], Wanted())
    assert isinstance(done, Brought)


def test_alternatives_come_with_all_branches_beside_what_is_there(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "chatgpt.zip"
    chatgpt_zip(path)
    bring_in(memory, [path], Wanted())
    done = bring_in(memory, [path], Wanted(all_branches=True))
    assert (done.report.added, done.report.duplicates) == (1, 4)
    alternatives: list[Episode] = [one for one in memory.show("chat-1") if one.metadata.get("alternative")]
    assert [one.content for one in alternatives] == ["first wording"]
    assert memory.search("first wording")
