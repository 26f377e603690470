"""Claude exports: words in blocks, attachments, chats without a name or without messages."""

from __future__ import annotations

from datetime import UTC, datetime

from twofold.importers import Losses, read

from .shapes import Read, Save, claude, said


def test_a_conversation_becomes_messages_with_ids_times_and_title(taken: Read) -> None:
    messages, losses = taken([claude(said("m1", "How long?"), said("m2", "An hour.", "assistant"))])
    assert [(message.role, message.content, message.source) for message in messages] == [
        ("user", "How long?", "claude:talk-1/m1"),
        ("assistant", "An hour.", "claude:talk-1/m2"),
    ]
    assert messages[0].time == datetime(2024, 3, 10, 9, 0, 30, tzinfo=UTC)
    assert (messages[0].session, messages[0].title, messages[0].project) == ("talk-1", "Bread", None)
    assert not losses


def test_a_message_with_empty_text_is_read_from_its_blocks(taken: Read) -> None:
    blocks = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    (message,), losses = taken([claude(said("m1", "", content=blocks))])
    assert message.content == "One.\n\nTwo." and not losses


def test_blocks_go_before_the_text_that_stands_in_for_them(taken: Read) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "name": "search", "input": {}},
        {"type": "tool_result", "content": [{"type": "text", "text": "a page"}]},
        {"type": "text", "text": "Here it is."},
        {"type": "voice_note", "text": "spoken"},
        None,
    ]
    text = "This block is not supported on your current device yet.\n\nHere it is."
    (message,), losses = taken([claude(said("m1", text, "assistant", content=blocks))])
    assert message.content == "Here it is.\n\nspoken\n\n[unknown]"
    assert losses == {
        "thinking block (not taken)": 1,
        "tool use block (not taken)": 1,
        "tool result block (not taken)": 1,
        "unknown block type 'voice_note'": 1,
        "unknown block type null": 1,
    }


def test_a_message_of_tool_blocks_alone_is_an_empty_message(taken: Read) -> None:
    messages, losses = taken([claude(said("m1", content=[{"type": "tool_use"}]))])
    assert messages == []
    assert losses == {"tool use block (not taken)": 1, "empty message": 1}


def test_attached_text_is_appended_and_other_files_leave_a_placeholder(taken: Read) -> None:
    (message,), losses = taken(
        [
            claude(
                said(
                    "m1",
                    "See these.",
                    attachments=[
                        {"file_name": "notes.txt", "extracted_content": "flour, water"},
                        {"file_name": "scan.pdf", "extracted_content": ""},
                        {"extracted_content": "loose text"},
                        9,
                    ],
                    files=[{"file_name": "photo.png"}, {"file_name": "notes.txt"}],
                )
            )
        ]
    )
    assert message.content == (
        "See these.\n\n[attachment: notes.txt]\nflour, water\n\n[file: scan.pdf]\n\n"
        "[attachment: unnamed]\nloose text\n\n[file: photo.png]"
    )
    assert message.metadata == {"id": "m1", "attachments": ["notes.txt", "scan.pdf", "unnamed", "photo.png"]}
    assert losses == {"file (placeholder kept)": 2, "attachment that is not a file (left out)": 1}


def test_an_unnamed_chat_has_no_title_and_an_empty_chat_is_counted(taken: Read) -> None:
    messages, losses = taken([claude(said("m1", "hello"), name=""), claude(uuid="talk-2")])
    assert [message.title for message in messages] == [None]
    assert losses == {"empty conversation": 1}


def test_only_the_branch_last_seen_is_taken_where_messages_were_edited(taken: Read) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    listed = [
        said("a", "first wording", parent_message_uuid=root),
        said("b", "first answer", "assistant", parent_message_uuid="a"),
        said("a2", "second wording", parent_message_uuid=root),
        said("b2", "second answer", "assistant", parent_message_uuid="a2"),
    ]
    messages, losses = taken([claude(*listed)])
    assert [message.content for message in messages] == ["second wording", "second answer"]
    assert losses == {"message on an abandoned branch": 2}
    messages, _ = taken([claude(*listed, current_leaf_message_uuid="b")])
    assert [message.content for message in messages] == ["first wording", "first answer"]
    messages, losses = taken([claude(*listed[:2])])
    assert len(messages) == 2 and not losses


def test_abandoned_branches_are_kept_as_alternatives_when_asked_for(taken: Read) -> None:
    listed = [
        said("a", "question"),
        said("b", "first answer", "assistant", parent_message_uuid="a"),
        said("b2", "second answer", "assistant", parent_message_uuid="a"),
    ]
    messages, losses = taken([claude(*listed)], all_branches=True)
    assert [message.content for message in messages] == ["question", "second answer", "first answer"]
    assert messages[2].metadata == {"id": "b", "alternative": True, "parent": "a"}
    assert losses == {"message on an abandoned branch (kept as an alternative)": 1}


def test_a_project_comes_with_its_instructions_and_documents(taken: Read) -> None:
    project = {
        "uuid": "p-1",
        "name": "Bakery",
        "description": "Recipes and suppliers",
        "prompt_template": "Answer as a baker.",
        "created_at": "2024-03-01T08:00:00+00:00",
        "docs": [
            {"uuid": "d-1", "filename": "flour.md", "content": "Type 550", "created_at": "2024-03-02T08:00:00Z"},
            {"filename": "flour.md", "content": "Type 700"},
            {"filename": "photo.png"},
            7,
        ],
    }
    messages, losses = taken([project, {"uuid": "p-2", "docs": []}])
    assert [(message.role, message.content, message.source) for message in messages] == [
        ("system", "Answer as a baker.", "claude:p-1/instructions"),
        ("user", "Recipes and suppliers", "claude:p-1/description"),
        ("user", "[document: flour.md]\nType 550", "claude:p-1/d-1"),
        ("user", "[document: flour.md]\nType 700", "claude:p-1/flour.md"),
    ]
    assert messages[0].title == "Bakery" and messages[0].metadata == {"part": "instructions", "hidden": True}
    assert messages[2].metadata == {"document": "flour.md"}
    assert losses == {
        "document that is not text": 2,
        "empty project": 1,
        "hidden or system message (kept, not recalled)": 1,
        "message without a time (given its neighbour's)": 3,
    }


def test_messages_without_an_id_or_with_the_same_one_stay_apart(taken: Read) -> None:
    messages, _ = taken([claude(said("m", "one"), said("m", "two"), said("", "three"), said("", "three"))])
    assert len({message.source for message in messages}) == 4


def test_a_newer_export_names_old_messages_alike(save: Save) -> None:
    old = [said("m1", "one"), said("", "two")]
    before = [m.source for m in read(save([claude(*old)], "old.json"), Losses())]
    after = [m.source for m in read(save([claude(*old, said("m3", "three"))], "new.json"), Losses())]
    assert after[:2] == before and len(set(after)) == 3


def test_wrong_types_are_counted(taken: Read) -> None:
    chat = claude(said("m1", "hello", content=7, attachments=3, files="x"), 5, said("m2", text=9), name=[1])
    messages, losses = taken([chat, {"chat_messages": 4}, "x"])
    assert [message.content for message in messages] == ["hello"]
    assert losses == {
        "entry that is not a message": 1,
        "title that is not text (left out)": 1,
        "empty message": 1,
        "entry that is not a conversation": 2,
    }
