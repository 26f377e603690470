"""OpenAI-style messages and Twofold's own JSONL, whose messages carry no ids."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from twofold.importers import Losses, read

from .shapes import Read, Save

TURN = [{"role": "user", "content": "How long?"}, {"role": "assistant", "content": "An hour."}]


def sources(save: Save, *arguments: Any) -> list[str | None]:
    return [message.source for message in read(save(*arguments), Losses())]


def test_an_array_of_messages_is_one_session_named_after_the_file(taken: Read) -> None:
    messages, losses = taken(TURN)
    assert [(message.role, message.content) for message in messages] == [
        ("user", "How long?"),
        ("assistant", "An hour."),
    ]
    assert {message.session for message in messages} == {"history"} and not losses


def test_objects_of_messages_are_sessions_in_an_array_and_in_lines(taken: Read, save_lines: Save) -> None:
    conversations = [{"messages": TURN, "title": "Bread"}, {"messages": TURN}, {"messages": []}]
    messages, losses = taken(conversations)
    assert [message.session for message in messages] == ["history", "history", "history-2", "history-2"]
    assert [message.title for message in messages] == ["Bread", "Bread", None, None]
    assert losses == {"empty conversation": 1}
    assert list(read(save_lines(conversations), Losses())) == messages
    assert taken(conversations[0])[0] == messages[:2]


@pytest.mark.parametrize(
    ("message", "text", "lost"),
    [
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}, "c"]},
            "a\nb\nc",
            {},
        ),
        ({"content": [{"type": "text", "text": {"value": "a"}}]}, "a", {}),
        ({"content": None, "tool_calls": [{}, {}]}, None, {"tool call (not taken)": 2}),
        ({"content": "ok", "tool_calls": [{}]}, "ok", {"tool call (not taken)": 1}),
        ({"content": None}, None, {"empty message": 1}),
        ({}, None, {"empty message": 1}),
        ({"content": None, "refusal": "No."}, "No.", {}),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "No.", {}),
        ({"content": 5}, None, {"content that is not text (left out)": 1}),
        ({"content": {"a": 1}}, None, {"content that is not text (left out)": 1}),
        (
            {"content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
            "[image: https://example.com/a.png]",
            {"image (placeholder kept)": 1},
        ),
        (
            {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            "[image: unnamed]",
            {"image (placeholder kept)": 1},
        ),
        (
            {"content": [{"type": "file", "file": {"filename": "plan.pdf", "file_data": "AAAA"}}]},
            "[file: plan.pdf]",
            {"file (placeholder kept)": 1},
        ),
        (
            {"content": [{"type": "foo", "text": "kept"}, {"type": "bar"}, 7]},
            "kept\n[unknown: bar]\n[unknown]",
            {"unknown part type 'foo'": 1, "unknown part type 'bar'": 1, "unknown part type number": 1},
        ),
    ],
)
def test_content_is_a_string_null_or_parts(
    taken: Read, message: dict[str, Any], text: str | None, lost: dict[str, int]
) -> None:
    messages, losses = taken([{"role": "user", **message}])
    assert [message.content for message in messages] == ([] if text is None else [text])
    assert losses == lost


@pytest.mark.parametrize(
    ("role", "taken_as"),
    [
        ("developer", "system"),
        ("function", "tool"),
        ("human", "user"),
        ("ai", "assistant"),
        ("model", "assistant"),
        ("Assistant", "assistant"),
    ],
)
def test_other_names_of_the_roles_are_known(taken: Read, role: str, taken_as: str) -> None:
    (message,), losses = taken([{"role": role, "content": "x"}])
    assert message.role == taken_as
    assert losses == ({"hidden or system message (kept, not recalled)": 1} if taken_as == "system" else {})
    assert message.metadata.get("role") == (role if role in ("developer", "function") else None)


def test_a_role_nobody_knows_is_kept_as_user_and_counted(taken: Read) -> None:
    messages, losses = taken([{"role": "x", "content": "1"}, {"role": [], "content": "2"}, {"content": "3"}])
    assert {message.role for message in messages} == {"user"}
    assert losses == {
        "unknown role 'x' (kept as user)": 1,
        "unknown role list (kept as user)": 1,
        "message without a role (kept as user)": 1,
    }


def test_a_line_takes_every_key_and_needs_only_content(save_lines: Save) -> None:
    line = {
        "session": "s-1",
        "title": "Bread",
        "project": "kitchen",
        "role": "assistant",
        "content": "An hour.",
        "time": "2024-03-10T10:00:00+01:00",
        "metadata": {"model": "m"},
        "source": "here:1",
    }
    losses = Losses()
    full, bare = read(save_lines([line, {"content": "x"}]), losses)
    assert (full.session, full.title, full.project, full.role) == ("s-1", "Bread", "kitchen", "assistant")
    assert (full.content, full.source, full.metadata) == ("An hour.", "here:1", {"model": "m", "zone": "+01:00"})
    assert full.time == datetime(2024, 3, 10, 9, tzinfo=UTC)
    assert (bare.session, bare.title, bare.project, bare.role, bare.time) == (
        "history",
        None,
        None,
        "user",
        None,
    )
    assert not losses


def test_an_array_of_twofolds_own_messages_keeps_their_sessions(taken: Read) -> None:
    (message,), _ = taken([{"session": "s-1", "content": "x", "project": "kitchen"}])
    assert (message.session, message.project) == ("s-1", "kitchen")


def test_wrong_types_in_a_line_are_counted(save_lines: Save) -> None:
    losses = Losses()
    lines: list[Any] = [
        {
            "content": "x",
            "session": ["a"],
            "title": {},
            "project": 4,
            "metadata": [1],
            "source": 2.5,
            "time": {},
        },
        {"content": "y", "metadata": {"x": float("nan")}, "timestamp": "2024"},
        {"content": 3},
        [],
    ]
    messages = list(read(save_lines(lines), losses))
    assert [(message.content, message.session, message.project) for message in messages] == [
        ("x", "history", "4"),
        ("y", "history", None),
    ]
    assert losses == {
        "session that is not text (left out)": 1,
        "title that is not text (left out)": 1,
        "source that is not text (left out)": 1,
        "metadata that cannot be stored (left out)": 2,
        "time that cannot be read (left out)": 1,
        "unknown key 'timestamp'": 1,
        "content that is not text (left out)": 1,
        "line that is not an object": 1,
    }


@pytest.mark.parametrize(
    ("time", "expected", "lost"),
    [
        ("2024-03-10T09:00:00Z", datetime(2024, 3, 10, 9, tzinfo=UTC), None),
        ("2024-03-10T09:00:00.123456-05:00", datetime(2024, 3, 10, 14, 0, 0, 123456, UTC), None),
        (1700000000, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), None),
        (-1.5, datetime(1969, 12, 31, 23, 59, 58, 500000, UTC), None),
        (None, None, None),
        ("2024-03-10T09:00:00", datetime(2024, 3, 10, 9, tzinfo=UTC), "time without a zone (taken as UTC)"),
        ("2024-03-10", datetime(2024, 3, 10, tzinfo=UTC), "time without a zone (taken as UTC)"),
    ],
)
def test_times_become_aware_utc_or_are_counted(
    taken: Read, time: object, expected: datetime | None, lost: str | None
) -> None:
    (message,), losses = taken([{"content": "x", "time": time}], "jsonl")
    assert message.time == expected and (expected is None or message.time is not None)
    assert losses == ({lost: 1} if lost else {})


@pytest.mark.parametrize(
    "time",
    [
        *("yesterday", "", "\ud83d", "0001-01-01T00:00:00+14:00"),
        *(True, [], 1700000000000, 10**400, float("nan"), float("inf")),
    ],
)
def test_a_time_that_cannot_be_read_is_none_and_counted(taken: Read, time: object) -> None:
    (message,), losses = taken([{"content": "x", "time": time}], "jsonl")
    assert message.time is None
    assert losses == {"time that cannot be read (left out)": 1}


def test_equal_messages_at_two_places_of_a_session_stay_two(save_lines: Save) -> None:
    assert len(set(sources(save_lines, [{"content": "yes"}] * 3))) == 3


def test_equal_messages_of_two_sessions_projects_or_roles_stay_two(save_lines: Save) -> None:
    lines = [
        {"content": "x"},
        {"content": "x", "session": "a"},
        {"content": "x", "session": "b", "role": "tool"},
    ]
    assert len(set(sources(save_lines, lines))) == 3
    assert sources(save_lines, [{"content": "x"}]) != sources(save_lines, [{"content": "x", "project": "p"}])


def test_a_file_that_grew_at_its_end_doubles_nothing(save_lines: Save, save: Save) -> None:
    lines = [{"content": str(n), "session": f"s{n % 2}"} for n in range(6)]
    assert sources(save_lines, lines)[:4] == sources(save_lines, lines[:4])
    assert sources(save, TURN + TURN)[:2] == sources(save, TURN)
    one = {"messages": TURN}
    assert sources(save_lines, [one, one])[:2] == sources(save_lines, [one])


def test_a_renamed_file_doubles_nothing_where_the_lines_name_their_session(save_lines: Save) -> None:
    lines = [{"content": "x", "session": "s"}]
    assert sources(save_lines, lines, "a.jsonl") == sources(save_lines, lines, "b.jsonl")


def test_lines_with_their_own_source_do_not_move_the_others(save_lines: Save) -> None:
    own = {"content": "own", "source": "s:1"}
    assert sources(save_lines, [own, {"content": "x"}])[1] == sources(save_lines, [{"content": "x"}])[0]


def test_a_lone_surrogate_is_replaced_and_counted(taken: Read) -> None:
    messages, losses = taken([{"role": "user", "content": "\ud83d half"}, {"role": "user", "content": "\U0001f600"}])
    assert [message.content for message in messages] == ["\ufffd half", "\U0001f600"]
    assert losses == {"broken character (replaced by U+FFFD)": 1}


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u4e2d", "\U0001f600"])
def test_a_message_over_two_mebibytes_is_cut_into_parts_that_join_to_the_whole(taken: Read, letter: str) -> None:
    text = letter * (2 * 1024**2 // len(letter.encode()))
    (whole,), losses = taken([{"role": "user", "content": text}])
    assert whole.content == text and not losses
    messages, losses = taken([{"role": "user", "content": text + letter}])
    assert "".join(message.content for message in messages) == text + letter
    assert max(len(message.content.encode()) for message in messages) <= 2 * 1024**2
    assert [str(message.source)[-2:] for message in messages] == [f"#{n + 1}" for n in range(len(messages))]
    assert losses == {"message over 2 MiB (cut into parts)": 1}


def test_a_part_of_nothing_but_space_is_counted_not_taken(taken: Read) -> None:
    messages, losses = taken([{"role": "user", "content": "x" + " " * 2 * 1024**2}])
    assert [message.content.strip() for message in messages] == ["x"]
    assert losses["blank part of a message over 2 MiB (left out)"] == 4
