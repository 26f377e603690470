"""ChatGPT exports: the branch last seen, and every type of content."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from twofold.importers import Losses, read

from .shapes import Read, Save, chatgpt, chatgpt_of, node


def test_a_conversation_becomes_messages_in_order_with_ids_times_and_model(taken: Read) -> None:
    messages, losses = taken(
        [
            chatgpt(
                node("root", None),
                node("a", "root", "How long do I proof?"),
                node("b", "a", "An hour.", "assistant", metadata={"model_slug": "gpt-4o"}),
            )
        ]
    )
    question, answer = messages
    assert (question.content, question.role, question.source) == (
        "How long do I proof?",
        "user",
        "chatgpt:chat-1/a",
    )
    assert question.time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert (answer.role, answer.session, answer.title) == ("assistant", "chat-1", "Bread")
    assert answer.metadata == {"id": "b", "model": "gpt-4o"} and question.metadata == {"id": "a"}
    assert answer.project is None and not losses


def test_a_single_conversation_object_is_read_like_an_array_of_one(taken: Read) -> None:
    conversation = chatgpt(node("a", None, "hello"))
    assert taken(conversation) == taken([conversation])


@pytest.mark.parametrize("key", ["id", "conversation_id"])
def test_the_session_is_the_conversations_id(taken: Read, key: str) -> None:
    conversation = chatgpt(node("a", None, "hello"), id=None) | {key: "c-7"}
    (message,), _ = taken([conversation])
    assert (message.session, message.source) == ("c-7", "chatgpt:c-7/a")


def test_a_conversation_without_an_id_is_named_after_the_file(taken: Read) -> None:
    nameless = chatgpt(node("a", None, "hello"), id=None)
    messages, losses = taken([nameless, nameless])
    assert [message.session for message in messages] == ["history", "history-2"]
    assert losses == {"conversation without an id (named after the file)": 2}


@pytest.mark.parametrize("title", [None, "", "  "])
def test_an_empty_title_is_none(taken: Read, title: object) -> None:
    (message,), losses = taken([chatgpt(node("a", None, "hello"), title=title)])
    assert message.title is None and not losses


EDITED = (
    node("root", None),
    node("a", "root", "first wording"),
    node("b", "a", "answer to the first", "assistant"),
    node("a2", "root", "second wording", create_time=1700000100.0),
    node("b2", "a2", "answer to the second", "assistant", create_time=1700000200.0),
    node("b3", "a2", "another answer", "assistant", create_time=1700000150.0),
)


def test_only_the_branch_of_the_current_node_is_taken_and_the_rest_is_counted(taken: Read) -> None:
    messages, losses = taken([chatgpt(*EDITED, current="b")])
    assert [message.content for message in messages] == ["first wording", "answer to the first"]
    assert losses == {"message on an abandoned branch": 3}


@pytest.mark.parametrize("current", ["gone", 7, ["b"]])
def test_without_a_current_node_the_newest_branch_is_taken(taken: Read, current: object) -> None:
    messages, _ = taken([chatgpt(*EDITED, current=current)])
    assert [message.content for message in messages] == ["second wording", "answer to the second"]


def test_without_a_current_node_and_times_the_deepest_branch_is_taken(taken: Read) -> None:
    nodes = [node("root", None), node("a", "root", "one"), node("b", "a", "two"), node("c", "root", "three")]
    for one in nodes[1:]:
        one["message"]["create_time"] = None
    messages, _ = taken([chatgpt(*nodes, current="gone")])
    assert [message.content for message in messages] == ["one", "two"]


@pytest.mark.parametrize("current", ["b", "gone"])
def test_a_circle_of_parents_ends(taken: Read, current: str) -> None:
    messages, _ = taken([chatgpt(node("a", "b", "one"), node("b", "a", "two"), current=current)])
    assert sorted(message.content for message in messages) == ["one", "two"]


def test_a_very_long_conversation_is_walked_without_recursion(taken: Read) -> None:
    nodes = [node("0", None, "0"), *(node(str(n), str(n - 1), str(n)) for n in range(1, 5_000))]
    for current in ("4999", "gone"):
        messages, losses = taken([chatgpt(*nodes, current=current)])
        assert len(messages) == 5_000 and messages[-1].content == "4999" and not losses


def test_abandoned_branches_are_kept_as_alternatives_when_asked_for(taken: Read) -> None:
    messages, losses = taken([chatgpt(*EDITED, current="b")], all_branches=True)
    assert [message.content for message in messages if not message.metadata.get("alternative")] == [
        "first wording",
        "answer to the first",
    ]
    others = {message.content: message.metadata["parent"] for message in messages if "alternative" in message.metadata}
    assert others == {"second wording": "root", "answer to the second": "a2", "another answer": "a2"}
    assert losses == {"message on an abandoned branch (kept as an alternative)": 3}


def test_hidden_and_system_messages_are_kept_and_marked(taken: Read) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    messages, losses = taken(
        [
            chatgpt(
                node("a", None, "You are helpful.", "system"),
                node("b", "a", "", "system", metadata=hidden),
                node("c", "b", "About me", "user", metadata=hidden),
                node("d", "c", "hello"),
            )
        ]
    )
    assert [(message.content, message.metadata.get("hidden")) for message in messages] == [
        ("You are helpful.", True),
        ("About me", True),
        ("hello", None),
    ]
    assert losses == {"hidden or system message (kept, not recalled)": 2, "empty message": 1}


def test_a_null_time_is_that_of_the_message_before_or_else_after(taken: Read) -> None:
    messages, losses = taken(
        [
            chatgpt(
                node("a", None, "one", create_time=None),
                node("b", "a", "two"),
                node("c", "b", "three", create_time=1700000100.0),
                node("d", "c", "four", create_time=None),
            )
        ]
    )
    assert [message.time and message.time.timestamp() for message in messages] == [
        1700000000.0,
        1700000000.0,
        1700000100.0,
        1700000100.0,
    ]
    assert losses == {"message without a time (given its neighbour's)": 2}


def test_where_no_message_has_a_time_all_get_the_conversations(taken: Read) -> None:
    messages, _ = taken([chatgpt(node("a", None, "one", create_time=None), node("b", "a", "two", create_time=None))])
    assert [message.time for message in messages] == [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)] * 2


CONTENT: list[tuple[Any, str | None, dict[str, int]]] = [
    ({"content_type": "text", "parts": ["one", "two"]}, "one\ntwo", {}),
    ({"content_type": "code", "language": "unknown", "text": "print(1)"}, "print(1)", {}),
    ({"content_type": "execution_output", "text": "1\n"}, "1\n", {}),
    ({"content_type": "tether_quote", "url": "u", "title": "t", "text": "quoted"}, "quoted", {}),
    ({"content_type": "tether_browsing_display", "result": "found", "summary": None}, "found", {}),
    (
        {
            "content_type": "user_editable_context",
            "user_profile": "A baker.",
            "user_instructions": "Be brief.",
        },
        "A baker.\n\nBe brief.",
        {},
    ),
    ({"content_type": "system_error", "name": "E", "text": "failed"}, "failed", {}),
    ({"content_type": "thoughts", "thoughts": [{"content": "hm"}]}, None, {"thoughts (not taken)": 1}),
    ({"content_type": "reasoning_recap", "content": "5 s"}, None, {"reasoning recap (not taken)": 1}),
    ({"content_type": "foo", "text": "kept"}, "kept", {"unknown content type 'foo'": 1}),
    ({"content_type": "foo", "result": "kept"}, "kept", {"unknown content type 'foo'": 1}),
    ({"content_type": "foo", "parts": ["kept"]}, "kept", {"unknown content type 'foo'": 1}),
    ({"content_type": "foo", "other": "gone"}, "[unknown: foo]", {"unknown content type 'foo'": 1}),
    ({"content_type": ["foo"], "text": "kept"}, "kept", {"unknown content type list": 1}),
    ("bare words", "bare words", {}),
    (7, None, {"empty message": 1}),
    (None, None, {"empty message": 1}),
    ({"content_type": "text", "parts": 5}, None, {"empty message": 1}),
    ({"content_type": "text", "parts": {"a": 1}}, None, {"empty message": 1}),
    (
        {
            "content_type": "multimodal_text",
            "parts": [
                {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-9"},
                "What is this?",
            ],
        },
        "[image: file-9]\nWhat is this?",
        {"image (placeholder kept)": 1},
    ),
    (
        {
            "content_type": "multimodal_text",
            "parts": [
                {"content_type": "audio_transcription", "text": "spoken", "direction": "in"},
                {
                    "content_type": "real_time_user_audio_video_asset_pointer",
                    "audio_asset_pointer": {"asset_pointer": "sediment://file_3"},
                },
                {"content_type": "video_container_asset_pointer"},
                {"content_type": "hologram", "text": "shine"},
                None,
            ],
        },
        "spoken\n[audio: file_3]\n[video: unnamed]\nshine\n[unknown]",
        {
            "audio (placeholder kept)": 1,
            "video (placeholder kept)": 1,
            "unknown part type 'hologram'": 1,
            "unknown part type null": 1,
        },
    ),
]


@pytest.mark.parametrize(("content", "text", "lost"), CONTENT)
def test_every_type_of_content_is_taken_or_counted(
    taken: Read, content: Any, text: str | None, lost: dict[str, int]
) -> None:
    messages, losses = taken([chatgpt_of(content)])
    assert [message.content for message in messages] == ([] if text is None else [text])
    assert losses == lost


def test_the_language_of_code_and_the_title_of_a_quote_are_metadata(taken: Read) -> None:
    (code,), _ = taken([chatgpt_of({"content_type": "code", "language": "python", "text": "print(1)"})])
    (quote,), _ = taken([chatgpt_of({"content_type": "tether_quote", "title": "T", "url": "u", "text": "q"})])
    assert code.metadata == {"id": "a", "language": "python"}
    assert quote.metadata == {"id": "a", "title": "T", "url": "u"}


def test_attachments_are_named_in_the_metadata_and_counted(taken: Read) -> None:
    metadata = {"attachments": [{"name": "plan.pdf", "id": "file-1"}, {"id": "file-2"}, 5]}
    (message,), losses = taken([chatgpt(node("a", None, "See the plan.", metadata=metadata))])
    assert message.metadata == {"id": "a", "attachments": ["plan.pdf"]}
    assert losses == {"attachment (name kept)": 3}


def test_a_tool_answers_as_tool_and_an_unknown_role_is_kept_as_user(taken: Read) -> None:
    messages, losses = taken([chatgpt(node("a", None, "1", "tool"), node("b", "a", "2", "critic"))])
    assert [message.role for message in messages] == ["tool", "user"]
    assert messages[1].metadata["role"] == "critic"
    assert losses == {"unknown role 'critic' (kept as user)": 1}


def test_the_same_file_twice_and_a_newer_export_name_old_messages_alike(save: Save) -> None:
    old = [node("a", None, "one"), node("b", "a", "two", "assistant")]
    first = read(save([chatgpt(*old)], "old.json"), Losses())
    newer = read(save([chatgpt(*old, node("c", "b", "three"))], "new.json"), Losses())
    before, after = [message.source for message in first], [message.source for message in newer]
    assert after[:2] == before and len(set(after)) == 3


def test_wrong_types_are_counted(taken: Read) -> None:
    good = chatgpt(node("a", None, "hello"))
    messages, losses = taken([good, 5, None, {"mapping": []}, {"mapping": {}}])
    assert len(messages) == 1
    assert losses["entry that is not a conversation"] == 3
    assert losses["empty conversation"] == 1
    broken = chatgpt(node("a", None, "hello"), current="b")
    broken["mapping"] |= {"b": {"parent": "a", "message": "text"}, "c": 5}
    messages, losses = taken([broken])
    assert [message.content for message in messages] == ["hello"]
    assert losses == {"entry that is not a message": 2}
