"""What a file is, is seen from its content; what cannot be read is one clear sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from twofold.errors import ImportFailed, InvalidInput
from twofold.importers import KINDS, Losses, files, read

from .shapes import Object, Save, chatgpt, claude, node, said

CHATGPT = chatgpt(node("a", None, "from ChatGPT"))
CLAUDE = claude(said("m1", "from Claude"))
EACH: dict[str, object] = {
    "chatgpt": [CHATGPT],
    "claude": [CLAUDE],
    "openai": [{"role": "user", "content": "from OpenAI"}],
    "jsonl": {"content": "from a line"},
    "sharegpt": [{"conversations": [{"from": "human", "value": "from ShareGPT"}]}],
    "claude-code": {
        "type": "user",
        "sessionId": "s",
        "uuid": "u",
        "message": {"role": "user", "content": "from Claude Code"},
    },
    "codex": {
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "from Codex"}]},
    },
    "gemini": {"sessionId": "s", "startTime": None, "messages": [{"type": "user", "content": "from Gemini"}]},
    "mcp-memory": {"type": "entity", "name": "from a graph", "entityType": "person", "observations": []},
}
SHAPED = [kind for kind in KINDS if kind != "text"]


def contents(path: Path, losses: Losses | None = None, kind: str | None = None) -> list[str]:
    return [message.content for message in read(path, Losses() if losses is None else losses, kind=kind)]


def failure(path: Path, kind: str | None = None) -> str:
    with pytest.raises(ImportFailed) as caught:
        contents(path, kind=kind)
    text = str(caught.value)
    assert not text.endswith(".") and "\n" not in text and str(path) in text
    return text


def zipped(path: Path, members: Mapping[str, object]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))
    return path


def other(name: str) -> Object:
    return chatgpt(node("a", None, name), id=name)


@pytest.mark.parametrize("kind", SHAPED)
@pytest.mark.parametrize("name", ["conversations.json", "x.jsonl", "x"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_kind_is_seen_from_the_content_not_from_the_name(
    tmp_path: Path, kind: str, name: str, indent: int | None
) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf\n \n" + json.dumps(EACH[kind], indent=indent).encode())
    found = contents(path)
    if indent is None:
        assert found == contents(path, kind=kind)
    assert len(found) == 1 and found[0].startswith("from")


@pytest.mark.parametrize("kind", SHAPED)
def test_a_gzipped_file_of_any_kind_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "old chats"
    path.write_bytes(gzip.compress(json.dumps(EACH[kind]).encode()))
    assert len(contents(path)) == 1


def test_the_session_of_a_gzipped_file_is_its_name_without_endings(tmp_path: Path) -> None:
    path = tmp_path / "team.chat.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"content": "x"}'))
    (message,) = read(path, Losses())
    assert message.session == "team.chat"


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names are always UTF-8 there")
def test_a_name_that_is_not_utf8_still_names_a_session(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    path.write_bytes(b'{"content": "x"}')
    (message,) = read(path, Losses())
    assert message.session == "caf?"
    path.write_bytes(b"")
    with pytest.raises(ImportFailed) as caught:
        contents(path)
    assert str(caught.value).encode()


def test_an_account_zip_is_read_at_any_depth_and_the_rest_of_it_counted(tmp_path: Path) -> None:
    losses = Losses()
    members: dict[str, object] = {
        "export/conversations.json": [CHATGPT],
        "export/user.json": {},
        "chat.html": "",
    }
    assert contents(zipped(tmp_path / "export.zip", members), losses) == ["from ChatGPT"]
    assert losses == {
        "file in the zip that is no conversation (.html, not read)": 1,
        "file in the zip that is no conversation (.json, not read)": 1,
    }
    assert contents(zipped(tmp_path / "claude.zip", {"conversations.json": [CLAUDE]})) == ["from Claude"]


def test_shards_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    members = {f"conversations-{n:03}.json": [other(f"number {n}")] for n in (10, 2, 0)}
    assert contents(zipped(tmp_path / "export.zip", members)) == ["number 0", "number 2", "number 10"]


def test_a_member_that_points_outside_is_read_and_written_nowhere(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = zipped(inner / "export.zip", {"../conversations.json": [CHATGPT], "../../evil.json": {}})
    assert contents(path) == ["from ChatGPT"]
    assert sorted(tmp_path.rglob("*")) == [inner, path]


def test_a_zip_without_conversations_says_what_to_do(tmp_path: Path) -> None:
    assert "unpack it" in failure(zipped(tmp_path / "photos.zip", {"my-conversations.json.bak": []}))


def test_a_broken_zip_fails_with_one_sentence(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "export.zip", {"conversations.json": [CHATGPT]}).read_bytes()
    cut = tmp_path / "cut.zip"
    cut.write_bytes(whole[:-30])
    assert "damaged" in failure(cut)
    start = whole.index(b"conversations.json") + 18
    cut.write_bytes(whole[:start] + bytes(20) + whole[start + 20 :])
    assert "damaged" in failure(cut)


def test_no_damage_to_an_archive_raises_anything_else(tmp_path: Path) -> None:
    zip_bytes = zipped(tmp_path / "export.zip", {"conversations.json": [CHATGPT]}).read_bytes()
    path = tmp_path / "damaged"
    for whole in (zip_bytes, gzip.compress(json.dumps([CHATGPT]).encode(), mtime=0)):
        for place in range(len(whole)):
            for value in (0, 1, 255):
                path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
                try:
                    contents(path)
                except ImportFailed as error:
                    assert not str(error).endswith(".")


def test_a_gzip_that_ends_early_or_holds_an_archive_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(json.dumps([CHATGPT]).encode())[:-12])
    assert "damaged" in failure(path)
    path.write_bytes(gzip.compress(gzip.compress(b"[]")))
    assert "unpack" in failure(path)


def test_nothing_is_read_past_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 2_000)
    long = [{"role": "user", "content": "x" * 3_000}]
    plain, packed, lines = tmp_path / "a.json", tmp_path / "a.json.gz", tmp_path / "b.jsonl.gz"
    plain.write_text(json.dumps(long))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    lines.write_bytes(gzip.compress(b'{"content": "short"}\n' * 200))
    shards = {f"conversations-{n}.json": [other("x" * 700)] for n in range(3)}
    archives = [
        zipped(tmp_path / "a.zip", {"conversations.json": long}),
        zipped(tmp_path / "b.zip", shards),
    ]
    for path in (plain, packed, lines, *archives):
        text = failure(path)
        assert "2,000 bytes" in text and "split it" in text


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    assert "does not exist" in failure(tmp_path / "gone.json")
    assert "holds no file" in failure(tmp_path)
    with pytest.raises(ImportFailed):
        contents(Path("a\0b"))


def test_a_folder_is_read_file_by_file_and_what_is_no_history_is_counted(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "notes.md").write_text("not read")
    (tmp_path / "b.json").write_text(json.dumps([CHATGPT]))
    (tmp_path / "deep" / "er" / "a.jsonl").write_text('{"content": "from a line"}\n')
    (tmp_path / "deep" / "notes.md").write_text("from a note")
    (tmp_path / "deep" / "broken.jsonl").write_text('{"content": "whole"}\n{"content": \n')
    (tmp_path / "photo.PNG").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (tmp_path / "user.json").write_text('{"id": "user-1", "email": "a@example.org"}')
    (tmp_path / "empty.json").touch()
    losses = Losses()
    messages = list(read(tmp_path, losses))
    assert [(message.session, message.content) for message in messages] == [
        ("chat-1", "from ChatGPT"),
        ("deep/broken", "whole"),
        ("deep/notes", "from a note"),
        ("deep/er/a", "from a line"),
    ]
    broken = losses.report().skipped
    assert [times for reason, times in broken.items() if "broken.jsonl', line 2" in reason] == [1]
    assert {reason: times for reason, times in broken.items() if "broken" not in reason} == {
        "file of no known kind (.json, not read)": 2,
        "file of no known kind (.png, not read)": 1,
        "file or folder whose name begins with a dot (not read)": 1,
    }


def test_a_text_is_told_by_its_name_unless_it_begins_as_json(tmp_path: Path) -> None:
    export, note = tmp_path / "conversations.txt", tmp_path / "note.txt"
    export.write_text(json.dumps([CHATGPT]))
    note.write_text("[a link](https://example.org) and more")
    assert contents(export) == ["from ChatGPT"]
    assert contents(note) == ["[a link](https://example.org) and more"]
    (tmp_path / "README").write_text("plain words")
    assert "not JSON" in failure(tmp_path / "README")
    assert contents(tmp_path / "README", kind="text") == ["plain words"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.touch(0o000)
    assert "permissions" in failure(path)


def test_what_is_not_json_says_where(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for data, said_so in {
        b"": "is empty",
        b" \n\n": "is empty",
        b"hello": "line 1: not JSON",
        b"\n\n<html>": "line 3: not JSON",
        b'[{"role": "user",\n  "content": }]': "line 2, column 14: not JSON",
        b'\n\n{\n"mapping": }': "line 4, column 12: not JSON",
        b'[{"role": "user",\n "content": "\xff"}]': "line 2: not UTF-8",
        b"[" * 200_000: "nested too deeply",
        b'{"mapping":' * 200_000: "nested too deeply",
        b"[" + b"1" * 5_000 + b"]": "number is too long",
        b"\xff\xfe[\0]\0": "UTF-16",
    }.items():
        path.write_bytes(data)
        assert said_so in failure(path)


def test_a_broken_line_is_named_after_the_lines_before_it_were_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('\n{"content": "one"}\n\n{"content": "two"}\n{"content": \n{"content": "four"}\n')
    got = []
    with pytest.raises(ImportFailed, match="line 5, column 12: not JSON"):
        for message in read(path, Losses()):
            got.append(message.content)
    assert got == ["one", "two"]


def test_a_broken_first_line_is_named_where_the_kind_is_given(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"content": "one"\n{"content": "two"}\n')
    assert "line 1, column" in failure(path, "jsonl")


@pytest.mark.parametrize("value", [{}, {"a": 1}, [1, "x", None], [{"conversation": []}], [[]]])
def test_an_unknown_shape_names_the_kinds_and_the_option(save: Save, value: object) -> None:
    text = failure(save(value))
    assert "--as KIND" in text and all(kind in text for kind in KINDS)


def test_an_empty_export_holds_nothing_and_says_so(save: Save) -> None:
    losses = Losses()
    assert contents(save([]), losses) == []
    assert losses == {"empty list of conversations": 1}


def test_the_first_known_entry_decides_the_kind(save: Save) -> None:
    losses = Losses()
    assert contents(save([None, {"id": "deleted"}, CHATGPT]), losses) == ["from ChatGPT"]
    assert losses == {"entry that is not a conversation": 2}


def test_a_kind_that_does_not_exist_is_refused_at_once(save: Save) -> None:
    with pytest.raises(InvalidInput, match="'csv' is no kind of history: use one of chatgpt, claude"):
        read(save([]), Losses(), kind="csv")


def test_an_encrypted_or_oddly_packed_member_fails_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("conversations.json", "[]")
    assert "unpack the zip" in failure(path)
    data = bytearray(zipped(path, {"conversations.json": []}).read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "encrypted" in failure(path)


def test_lines_are_streamed(save_lines: Save) -> None:
    path = save_lines([{"content": str(n)} for n in range(1_000)])
    reader = read(path, Losses())
    assert next(reader).content == "0"
    with path.open("ab") as file:
        file.write(b"broken")
    with pytest.raises(ImportFailed, match="line 1001"):
        list(reader)


@pytest.mark.parametrize("kind", ["claude-code", "codex"])
def test_the_last_line_of_a_log_may_break_off(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(EACH[kind]) + '\n{"type": "us')
    losses = Losses()
    assert len(contents(path, losses)) == 1
    assert losses["last line of a file, which breaks off"] == 1


def test_a_stream_reads_to_its_end() -> None:
    stream = files.Stream(io.BytesIO(b"one\ntwo"), "x")
    assert (stream.line(2), stream.line(), stream.read(), stream.read()) == (b"on", b"e\n", b"two", b"")
