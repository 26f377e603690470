"""Files made to harm: each is read or refused in one sentence that names it, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from twofold.errors import ImportFailed
from twofold.importers import KINDS, Losses, files, read
from twofold.messages import check

from .shapes import Object, chatgpt, claude, node, said
from .test_files import EACH
from .test_logs import CODEX, RESULT, TALK, TOOL, line
from .test_others import GRAPH, NOTE

MIB = 1 << 20


def jsonl(values: list[Any]) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


WHOLE: dict[str, bytes] = {
    "chatgpt": json.dumps(
        [chatgpt(node("r", None), node("a", "r", "one"), node("b", "a", "two", "assistant"))]
    ).encode(),
    "claude": json.dumps([claude(said("m1", "one"), said("m2", "", content=[{"type": "text", "text": "é"}]))]).encode(),
    "claude-code": jsonl([line("u1", None, "one"), line("u2", "u1", [TOOL], "assistant"), line("u3", "u2", RESULT)]),
    "codex": jsonl(CODEX),
    "gemini": json.dumps({"sessionId": "g", "startTime": None, "messages": TALK}, indent=1).encode(),
    "sharegpt": json.dumps([{"conversations": [{"from": "human", "value": "one"}]}]).encode(),
    "openai": json.dumps([{"role": "user", "content": [{"type": "text", "text": "one"}]}]).encode(),
    "mcp-memory": jsonl(GRAPH),
    "jsonl": jsonl([{"session": "s", "content": "one", "metadata": {"a": [1]}, "time": "2026-01-01T00:00:00Z"}]),
    "text": NOTE.encode(),
}


def taken(path: Path, kind: str | None = None) -> int:
    """Read a file, and hold every message against what the store takes; a fault must name the file and its way out."""
    count = 0
    losses = Losses()
    try:
        for message in read(path, losses, kind=kind, all_branches=True):
            check(message)
            count += 1
    except ImportFailed as error:
        sentence = str(error)
        assert sentence.isprintable() and not sentence.endswith(".") and len(sentence) < 500
    assert all(reason.isprintable() and len(reason) < 300 for reason in losses)
    assert losses.messages == count
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_anywhere_gives_what_it_still_holds(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cut"
    whole = WHOLE[kind]
    path.write_bytes(whole)
    all_of_it = taken(path, kind)
    assert all_of_it > 0
    for end in range(0, len(whole), max(1, len(whole) // 150)):
        path.write_bytes(whole[:end])
        assert taken(path) <= all_of_it
        taken(path, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_and_swapped_bytes_harm_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "flipped"
    chance = random.Random(kind)
    for _ in range(150):
        data = bytearray(WHOLE[kind])
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.choice([chance.randrange(256), *b'"{}[]:,\\0-1\n'])
        path.write_bytes(data)
        taken(path)
        taken(path, kind)


KEYS = ("content", "metadata", "parts", "observations", "value", "mapping", "payload", "role", "text", "messages")


def nested(depth: int) -> list[str]:
    """Values of this depth, and each in all the places where readers look."""
    values = ["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth]
    found = [*values]
    for kind, whole in EACH.items():
        text = json.dumps(whole)
        for key in KEYS:
            before, sign, after = text.partition(f'"{key}": ')
            found += [f'{before}{sign}{value}, "{kind}": {after}' for value in values if sign]
    return found


@pytest.mark.parametrize("depth", [100, 700, 980, 10_000])
def test_deep_nesting_is_read_or_refused(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.json"
    for text in nested(depth):
        path.write_text(text)
        taken(path)
        path.write_text(f"[{text}]")
        taken(path)


def hundred_megabytes(path: Path, before: bytes, after: bytes) -> None:
    with path.open("wb") as file:
        file.write(before)
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(after)


PROBE = """
import re, sys
from pathlib import Path
from twofold.errors import ImportFailed
from twofold.importers import Losses, read
count = 0
try:
    for message in read(Path(sys.argv[1]), Losses()):
        count += 1
except ImportFailed as error:
    print(error)
print(count, int(re.search(r"VmHWM:[^0-9]*([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="where the peak of memory is told")
@pytest.mark.parametrize(
    ("name", "before", "after", "says"),
    [
        ("string.json", b'[{"role": "user", "content": "one"}, {"role": "user", "content": "', b'"}]', "split it"),
        ("key.json", b'[{"', b'": 1}]', "split it"),
        ("line.jsonl", b'{"content": "one"}\n{"content": "', b'"}\n', "line 2: one conversation of more than"),
        ("object.json", b'{\n"messages": [{"role": "user", "content": "', b'"}]}', "split it"),
        ("text.txt", b"", b"", ""),
    ],
)
def test_a_hundred_megabytes_in_one_string_fill_no_memory(
    tmp_path: Path, name: str, before: bytes, after: bytes, says: str
) -> None:
    path = tmp_path / name
    hundred_megabytes(path, before, after)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    *sentences, last = done.stdout.splitlines()
    count, peak = map(int, last.split())
    assert peak <= 400, f"{peak} MiB"
    if says:
        assert len(sentences) == 1 and says in sentences[0] and name in sentences[0]
    else:
        assert count > 200  # in parts


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    blanks = b" " * (200 * MIB)
    packed, archive = tmp_path / "bomb.json.gz", tmp_path / "bomb.zip"
    packed.write_bytes(gzip.compress(blanks, 9))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as members:
        members.writestr("conversations.json", blanks)
    for path in (packed, archive):
        losses = Losses()
        with pytest.raises(ImportFailed, match="unpacks to more than 250 times its size"):
            list(read(path, losses))
        assert losses.bytes < 70 * MIB


def test_a_zip_of_too_many_members_is_refused_before_their_names_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as members:
        members.writestr("conversations.json", WHOLE["chatgpt"])
        for number in range(200):
            members.writestr(f"image-{number}.png", b"")
    assert taken(path) == 2
    monkeypatch.setattr(files, "MAX_MEMBERS_BYTES", 10_000)
    with pytest.raises(ImportFailed, match="a zip of too many files"):
        list(read(path, Losses()))


def test_a_reason_for_every_line_does_not_fill_the_report(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(jsonl([{"content": "x", f"key-{number}": 1} for number in range(5_000)]))
    losses = Losses()
    assert len(list(read(path, losses))) == 5_000
    assert len(losses) < 600 and sum(losses.values()) == 5_000
    assert sum(sum(kind.values()) for kind in (losses.report().unknown, losses.report().changed)) == 5_000


@pytest.mark.parametrize("key", ["session", "project", "title", "source"])
def test_names_of_any_length_come_in_apart(tmp_path: Path, key: str) -> None:
    path = tmp_path / "long.jsonl"
    rows: list[Object] = [{"content": "x", key: "n" * 600 + str(number)} for number in range(2)]
    path.write_bytes(jsonl(rows))
    messages = list(read(path, Losses()))
    assert all(len(check(message).session) <= 512 for message in messages)
    assert len({getattr(message, key) for message in messages}) == (1 if key == "title" else 2)
