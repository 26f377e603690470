"""Logs of coding agents: what was said, once, in its order; tools by name alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from twofold.errors import ImportFailed
from twofold.importers import Losses, agentlog, read
from twofold.types import Message

from .shapes import Object, Read, Save


def line(uuid: str, parent: str | None, content: object, role: str = "user", **more: object) -> Object:
    """Return a line of a Claude Code log."""
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "session-1",
        "timestamp": f"2026-02-01T10:00:{int(uuid[1:]):02}Z",
        "message": {"role": role, "content": content, **({"model": "claude-x"} if role == "assistant" else {})},
        **more,
    }


TOOL = {"type": "tool_use", "name": "Bash", "input": {"command": "make"}}
READ = TOOL | {"name": "Read"}
RESULT = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]


def of(path: Path, losses: Losses | None = None, **more: Any) -> list[Message]:
    return list(read(path, Losses() if losses is None else losses, **more))


def test_claude_code_gives_what_was_said_with_its_tools_folded(save_lines: Save) -> None:
    losses = Losses()
    messages = of(
        save_lines(
            [
                {"type": "summary", "summary": "The broken build", "leafUuid": "u6"},
                line("u1", None, "Why does the build fail?", cwd="/srv/bakery", gitBranch="main"),
                line("u2", "u1", [{"type": "thinking", "thinking": "hm"}, TOOL], "assistant"),
                line("u3", "u2", RESULT),
                line(
                    "u4", "u3", [{"type": "text", "text": "A header is missing."}, TOOL | {"name": "Read"}], "assistant"
                ),
                line("u5", "u4", RESULT),
                line("u6", "u5", [{"type": "text", "text": "Fixed."}], "assistant"),
                {"type": "file-history-snapshot", "snapshot": {}},
                {"type": "mystery", "sessionId": "session-1"},
            ]
        ),
        losses,
    )
    question, first, second = messages
    assert (question.content, question.role, question.session, question.title) == (
        "Why does the build fail?",
        "user",
        "session-1",
        "The broken build",
    )
    assert question.metadata == {"id": "u1", "cwd": "/srv/bakery", "branch": "main"}
    assert question.source == "claude-code:session-1/u1"
    assert question.time == datetime(2026, 2, 1, 10, 0, 1, tzinfo=UTC)
    assert (first.content, first.metadata) == ("A header is missing.", {"id": "u4", "model": "claude-x"})
    assert (second.content, second.metadata["tools"]) == ("Fixed.", ["Bash", "Read"])
    assert losses == {
        "tool call (name kept)": 2,
        "tool result (not taken)": 2,
        "thinking block (not taken)": 1,
        "line of type 'file-history-snapshot' (no message)": 1,
        "line of type 'mystery' (no message)": 1,
    }
    assert losses.conversations == 1


def test_a_turn_of_tools_alone_is_a_message_that_names_them(save_lines: Save) -> None:
    messages = of(
        save_lines(
            [
                line("u1", None, "Run the tests"),
                line("u2", "u1", [TOOL, TOOL, READ], "assistant"),
                line("u3", "u2", RESULT),
                line("u4", "u3", "Thanks"),
            ]
        )
    )
    assert [message.content for message in messages] == ["Run the tests", "[tools: Bash, Read]", "Thanks"]


def test_a_prompt_that_was_said_anew_is_an_abandoned_branch_with_all_that_followed(save_lines: Save) -> None:
    path = save_lines(
        [
            line("u1", None, "Hello"),
            line("u2", "u1", [{"type": "text", "text": "Yes?"}], "assistant"),
            line("u3", "u2", "Bake bread"),
            line("u4", "u3", [{"type": "text", "text": "White or dark?"}], "assistant"),
            line("u5", "u2", "Bake rolls"),
            line("u6", "u5", [TOOL], "assistant"),
            line("u7", "u5", [{"type": "text", "text": "Done."}], "assistant"),  # beside the tool, not instead of it
        ]
    )
    losses = Losses()
    assert [message.content for message in of(path, losses)] == ["Hello", "Yes?", "Bake rolls", "Done."]
    assert losses["message on an abandoned branch"] == 2
    alternatives = [one for one in of(path, all_branches=True) if one.metadata.get("alternative")]
    assert [(one.content, one.metadata["parent"]) for one in alternatives] == [
        ("Bake bread", "u2"),
        ("White or dark?", "u3"),
    ]


def test_a_chain_that_begins_anew_loses_nothing_of_what_was_before(save_lines: Save) -> None:
    compacted = {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "uuid": "u2",
        "parentUuid": None,
        "logicalParentUuid": "u1",
        "sessionId": "session-1",
    }
    path = save_lines(
        [
            line("u1", None, "Before"),
            compacted,
            line("u3", "u2", "This session continues another.", isCompactSummary=True),
            line("u4", "u3", "After"),
            line("u5", "gone", "From another file"),
        ]
    )
    messages = of(path)
    assert [message.content for message in messages if not message.metadata.get("hidden")] == [
        "Before",
        "After",
        "From another file",
    ]
    assert [message.content for message in messages if message.metadata.get("hidden")] == [
        "Conversation compacted",
        "This session continues another.",
    ]


def test_what_subagents_said_is_marked_and_what_nobody_said_is_hidden(save_lines: Save) -> None:
    messages = of(
        save_lines(
            [
                line("u1", None, "<command-name>/clear</command-name>"),
                line("u2", "u1", "Caveat: The messages below were generated", isMeta=True),
                line("u3", "u2", [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, "Look here"]),
                line("u4", None, "Find the oven", isSidechain=True, agentId="a1"),
                line("u5", "u4", "In the kitchen", "assistant", isSidechain=True, agentId="a1"),
            ]
        )
    )
    assert [(one.content, one.metadata.get("hidden"), one.metadata.get("sidechain")) for one in messages] == [
        ("<command-name>/clear</command-name>", True, None),
        ("Caveat: The messages below were generated", True, None),
        ("Look here", None, None),
        ("Find the oven", None, True),
        ("In the kitchen", None, True),
    ]
    assert messages[-1].metadata["agent"] == "a1"


def test_a_log_too_long_for_memory_is_refused(save_lines: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentlog, "MOST_CHARACTERS", 20_000)
    fits = [line(f"u{n}", None, RESULT) for n in range(19)]
    assert of(save_lines(fits)) == []
    for lines in ([*fits, line("u20", None, "x")], [line("u1", None, "x" * 20_000)]):
        with pytest.raises(ImportFailed, match=r"history.jsonl' is a session log of more than 20,000"):
            of(save_lines(lines))


def codex(type_: str, payload: Object, second: int = 0) -> Object:
    return {"timestamp": f"2026-02-01T10:00:{second:02}.000Z", "type": type_, "payload": payload}


def item(role: str, text: str, second: int = 0) -> Object:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return codex("response_item", {"type": "message", "role": role, "content": [part]}, second)


CODEX = [
    codex("session_meta", {"id": "rollout-1", "timestamp": "2026-02-01T09:59:00Z", "cwd": "/srv/bakery"}),
    item("developer", "Be careful.", 1),
    item("user", "<environment_context>linux</environment_context>", 1),
    item("user", "Count the ovens", 2),
    codex("event_msg", {"type": "user_message", "message": "Count the ovens"}, 2),
    codex("turn_context", {"model": "gpt-5-codex", "cwd": "/srv/bakery"}, 2),
    codex("event_msg", {"type": "agent_reasoning", "text": "**Counting**"}, 3),
    codex("response_item", {"type": "reasoning", "summary": [], "encrypted_content": "xx"}, 3),
    codex("response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"}, 4),
    codex("response_item", {"type": "function_call_output", "call_id": "c", "output": "3"}, 4),
    codex("event_msg", {"type": "agent_message", "message": "Three."}, 5),
    item("assistant", "Three.", 5),
    codex("event_msg", {"type": "agent_message", "message": "Said in an event alone."}, 6),
    codex("event_msg", {"type": "token_count", "info": {}}, 6),
    codex("response_item", {"type": "ghost_snapshot"}, 6),
    codex("compacted", {"message": "Three ovens were counted."}, 7),
]


def test_codex_counts_what_an_event_repeats_once(save_lines: Save) -> None:
    losses = Losses()
    messages = of(save_lines(CODEX), losses)
    assert [(message.role, message.content, message.metadata.get("hidden")) for message in messages] == [
        ("system", "Be careful.", True),
        ("user", "<environment_context>linux</environment_context>", True),
        ("user", "Count the ovens", None),
        ("assistant", "Three.", None),
        ("assistant", "Said in an event alone.", None),
        ("system", "Three ovens were counted.", True),
    ]
    assert messages[0].metadata["role"] == "developer"
    assert messages[4].metadata == {"model": "gpt-5-codex", "cwd": "/srv/bakery", "tools": ["shell"]}
    assert {message.session for message in messages} == {"rollout-1"}
    assert losses == {
        "hidden or system message (kept, not recalled)": 3,
        "event that repeats a message": 2,
        "event of type 'agent_reasoning' (no message)": 1,
        "event of type 'token_count' (no message)": 1,
        "reasoning (not taken)": 1,
        "tool call (name kept)": 1,
        "tool result (not taken)": 1,
        "item of type 'ghost_snapshot' (no message)": 1,
    }


def test_a_codex_log_that_grew_names_its_messages_alike(save_lines: Save) -> None:
    whole = [message.source for message in of(save_lines(CODEX, "whole.jsonl"))]
    begun = [message.source for message in of(save_lines(CODEX[:5], "begun.jsonl"))]
    assert whole[: len(begun)] == begun


def test_older_codex_logs_have_their_items_as_they_are(save_lines: Save) -> None:
    lines = [
        {"id": "old-1", "timestamp": "2025-07-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count the ovens"}]},
        {"type": "local_shell_call", "status": "completed"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Three."}]},
    ]
    losses = Losses()
    messages = of(save_lines(lines), losses)
    assert [(one.session, one.content) for one in messages] == [("old-1", "Count the ovens"), ("old-1", "Three.")]
    assert messages[1].metadata["tools"] == ["local_shell"]
    assert losses["line of type 'state' (no message)"] == 1


TALK: list[Object] = [
    {"id": "m1", "timestamp": "2026-02-01T10:00:00Z", "type": "user", "content": [{"text": "Which flour?"}]},
    {
        "id": "m2",
        "timestamp": "2026-02-01T10:00:05Z",
        "type": "gemini",
        "content": "Rye.",
        "model": "gemini-x",
        "thoughts": [{"subject": "Flour"}],
        "toolCalls": [{"name": "search", "result": []}],
    },
    {"id": "m3", "timestamp": "2026-02-01T10:00:06Z", "type": "info", "content": "Request cancelled."},
]


def test_gemini_is_read_as_one_object_and_as_lines(taken: Read, save_lines: Save) -> None:
    about = {"sessionId": "g-1", "projectHash": "f00", "startTime": "2026-02-01T10:00:00Z", "summary": "Flour"}
    messages, losses = taken({**about, "messages": TALK})
    assert [(one.role, one.content, one.source, one.title) for one in messages] == [
        ("user", "Which flour?", "gemini:g-1/m1", "Flour"),
        ("assistant", "Rye.", "gemini:g-1/m2", "Flour"),
        ("system", "Request cancelled.", "gemini:g-1/m3", "Flour"),
    ]
    assert messages[1].metadata == {"id": "m2", "model": "gemini-x", "tools": ["search"]}
    assert messages[2].metadata == {"id": "m3", "hidden": True, "role": "info"}
    expected = {
        "thought (not taken)": 1,
        "tool call (name kept)": 1,
        "tool result (not taken)": 1,
        "hidden or system message (kept, not recalled)": 1,
    }
    assert losses == expected
    of_lines = Losses()
    lines = [{"type": "session_metadata", **about}, *TALK, {"type": "message_update", "id": "m2", "tokens": {}}]
    assert of(save_lines(lines), of_lines) == messages
    assert of_lines == expected | {"line of type 'message_update' (no message)": 1}


def test_what_a_later_gemini_line_says_of_a_message_holds(save_lines: Save) -> None:
    lines = [
        {"type": "session_metadata", "sessionId": "g-1"},
        {"id": "m1", "type": "user", "content": "Which flour?"},
        {"id": "m2", "type": "gemini", "content": "R"},
        {"id": "m2", "type": "gemini", "content": "Rye."},
        {"id": "m3", "type": "user", "content": "No, taken back"},
        {"$rewindTo": "m3"},
    ]
    losses = Losses()
    assert [message.content for message in of(save_lines(lines), losses)] == ["Which flour?", "Rye."]
    assert losses == {
        "message that a later line says anew (the later one taken)": 1,
        "message that was taken back": 1,
    }
