"""What is remembered comes out again, and in again, as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from twofold import Memory, Message, export
from twofold.cli import twofold
from twofold.embed.hashing import HashEmbedder
from twofold.errors import InvalidInput, NotAllowed, NotFound
from twofold.history import Brought, Wanted, bring_in

EXAMPLES = int(os.environ.get("EXPORT_EXAMPLES", "25"))
NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=timezone.utc)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "one.db", embedder=HashEmbedder()) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "other.db", embedder=HashEmbedder()) as opened:
        yield opened


def jsonl(memory: Memory, **what: object) -> str:
    return "".join(export.text(memory.archive.export(**what), "jsonl"))  # type: ignore[arg-type]


def brought(memory: Memory, text: str, folder: Path, **how: object) -> Brought:
    path = folder / "export.jsonl"
    path.write_text(text, encoding="utf-8")
    return bring_in(memory, [path], Wanted(**how))  # type: ignore[arg-type]


def filled(memory: Memory) -> Memory:
    """A store with something of everything."""
    memory.import_(
        [
            Message("The harbour closes at five.", "user", "s1", "harbour", NOON, {"zone": "+02:00"}, "a1", "Opening"),
            Message("Noted: five o'clock.", "assistant", "s1", "harbour", NOON + timedelta(seconds=1), {}, "a2"),
            Message("be brief", "system", "s1", "harbour", NOON, {"hidden": True}, "a0"),
            Message("twice", "user", "s2", None, NOON),
            Message("twice", "user", "s2", None, NOON),
            Message("東京の桜は四月に咲く\n\n```py\nprint(1)\n```", "user", "s2", None, NOON, {"tags": ["旅"]}),
        ]
    )
    memory.edit(2, "Noted: half past five.")
    memory.entities.add("Harbour", "place", description="A port", aliases=["the docks"], project="harbour")
    memory.entities.add("Tokyo", "place", session=memory.catalog.find_session("s2").id)  # type: ignore[union-attr]
    memory.feedback.add("when does it close", 1, True, project="harbour")
    memory.feedback.add("when does it close", 2, False)
    memory.catalog.add_project("empty")
    memory.catalog.add_session("quiet", project="harbour", title="Nothing yet")
    return memory


def test_an_export_imported_into_an_empty_store_is_exported_the_same(
    memory: Memory, other: Memory, tmp_path: Path
) -> None:
    text = jsonl(filled(memory), vectors=True)
    done = brought(other, text, tmp_path)
    assert jsonl(other, vectors=True) == text
    assert (done.report.added, done.entities, done.losses.skipped, done.losses.changed) == (6, 2, {}, {})
    assert [hit.episode.content for hit in other.recall("harbour closes").hits] == [
        hit.episode.content for hit in memory.recall("harbour closes").hits
    ]
    assert other.entities.page().items[0].mentions == memory.entities.page().items[0].mentions


def test_an_export_imported_where_it_came_from_changes_nothing(memory: Memory, tmp_path: Path) -> None:
    text = jsonl(filled(memory), vectors=True)
    done = brought(memory, text, tmp_path)
    assert (done.report.added, done.report.updated, done.report.duplicates, done.entities) == (0, 0, 6, 0)
    assert jsonl(memory, vectors=True) == text


def test_of_equal_messages_without_a_source_as_many_are_added_as_lack(memory: Memory, tmp_path: Path) -> None:
    text = jsonl(filled(memory))
    memory.forget(episode=4)
    assert brought(memory, text, tmp_path).report.added == 1
    assert sorted(one.content for one in memory.show("s2")).count("twice") == 2


@pytest.mark.parametrize("what", ["session", "episode"])
def test_what_was_exported_and_forgotten_comes_back_by_its_import(memory: Memory, tmp_path: Path, what: str) -> None:
    before = jsonl(filled(memory))
    text = jsonl(memory, session="s1", project="harbour") if what == "session" else jsonl(memory, episode=2)
    if what == "session":
        memory.forget(session="s1", project="harbour")
    else:
        memory.forget(episode=2)
    assert jsonl(memory) != before
    brought(memory, text, tmp_path)
    assert jsonl(memory) == before


def test_vectors_come_along_and_are_made_anew_for_another_model(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = jsonl(filled(memory), vectors=True)
    told: list[str] = []
    embed = HashEmbedder.embed_documents

    def tell(self: HashEmbedder, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        told.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(HashEmbedder, "embed_documents", tell)
    with Memory.open(tmp_path / "same.db", embedder=HashEmbedder()) as same:
        brought(same, text, tmp_path)
        assert same.status().waiting == 0
        assert told == ["Harbour (place): A port", "Tokyo (place)"]
    monkeypatch.undo()
    with Memory.open(tmp_path / "another.db", embedder=HashEmbedder(dimension=32)) as another:
        brought(another, text, tmp_path)
        assert another.status().waiting == 0
        assert '"dimension":32' in jsonl(another, vectors=True)


def test_vectors_of_other_words_are_not_taken(memory: Memory, other: Memory, tmp_path: Path) -> None:
    text = jsonl(filled(memory), vectors=True).replace("closes at five", "opens at nine")
    done = brought(other, text, tmp_path)
    assert done.losses.changed == {"vectors that do not fit their message (made anew)": 1}
    expected = HashEmbedder().embed_query("The harbour opens at nine.")
    found = other.search("opens nine")[0].episode.id
    assert other._vectors
    assert other._vectors.score(expected, [found])[found] == pytest.approx(1.0, abs=1e-2)


def test_a_part_is_exported_alone(memory: Memory) -> None:
    filled(memory)
    lines = [json.loads(line) for line in jsonl(memory, project="harbour").splitlines()]
    assert {line.get("project") for line in lines[1:]} == {"harbour"}
    assert [line["session"] for line in lines if "session" in line] == ["quiet", "s1", "s1", "s1"]
    (alone,) = [json.loads(line) for line in jsonl(memory, episode=5).splitlines()][1:]
    assert alone["content"] == "twice"
    with pytest.raises(NotFound, match="no project 'none'"):
        memory.archive.export(project="none")
    with pytest.raises(InvalidInput, match="by its id alone"):
        memory.archive.export(project="harbour", episode=1)


def test_a_door_on_one_project_exports_no_other(memory: Memory, tmp_path: Path) -> None:
    door = filled(memory).within(memory.projects()[1].id)
    assert jsonl(door) == jsonl(memory, project="harbour")
    with pytest.raises(NotFound):
        door.archive.export(episode=4)
    with pytest.raises(NotAllowed):
        door.archive.backup(tmp_path / "copy.db")


def test_an_export_is_of_one_moment_whatever_is_written_meanwhile(memory: Memory) -> None:
    before = jsonl(filled(memory))
    pieces = export.text(memory.archive.export(), "jsonl")
    begun = next(pieces)
    memory.add("later", session="s2")
    memory.forget(project="harbour")
    assert begun + "".join(pieces) == before


def test_a_newer_format_is_refused_with_the_way_out(other: Memory, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="upgrade with: pip install --upgrade twofold"):
        brought(other, '{"twofold": 99}\n{"session": "s", "role": "user", "content": "c"}\n', tmp_path)


LINES: list[tuple[str, str]] = [
    ('{"session":"s","role":"robot","content":"c"}', "message that no export has so (left out)"),
    ('{"session":"s","role":"user","content":5}', "message that no export has so (left out)"),
    ('{"role":"user","content":"c"}', "message that no export has so (left out)"),
    ('{"entity":"e","type":5}', "entity that no export has so (left out)"),
    ('{"entity":"e","type":"place","aliases":"a"}', "entity that no export has so (left out)"),
    ("{}", "line that is neither a message nor anything else of an export"),
    (
        '{"session":"s","role":"user","content":"c","feedback":[{"query":1}]}',
        "feedback that no export has so (left out)",
    ),
    ('{"session":"s","role":"user","content":"c","metadata":{"a":NaN}}', "metadata that cannot be stored (left out)"),
    ('{"session":"s","role":"user","content":"c","time":"noon"}', "time that cannot be read (left out)"),
    (
        '{"session":"s","role":"user","content":"c","vectors":{"of":"x"}}',
        "vectors that do not fit their message (made anew)",
    ),
    ('{"session":"s","role":"user","content":"c","mood":1}', "unknown key 'mood'"),
]


@pytest.mark.parametrize(("line", "reason"), LINES, ids=[reason for _, reason in LINES])
def test_what_no_export_has_is_a_line_in_the_report(other: Memory, tmp_path: Path, line: str, reason: str) -> None:
    losses = brought(other, f'{{"twofold":1}}\n{line}\n', tmp_path).losses
    assert {**losses.skipped, **losses.changed, **losses.unknown} == {reason: 1}


# every history

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
names = st.one_of(st.sampled_from(["s", "t", " s", "S"]), texts)
messages = st.builds(
    Message,
    content=texts,
    role=st.sampled_from(["user", "assistant", "system", "tool"]),
    session=names,
    project=st.one_of(st.none(), names),
    time=st.one_of(st.none(), st.sampled_from([NOON, NOON + timedelta(microseconds=1)])),
    metadata=st.dictionaries(st.sampled_from(["hidden", "edited", "zone", "k"]), st.booleans() | texts, max_size=2),
    source=st.one_of(st.none(), st.sampled_from(["x", " x", "y" * 512]), texts),
    title=st.one_of(st.none(), texts),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(messages, max_size=8))
def test_any_history_comes_out_as_it_went_in(tmp_path_factory: pytest.TempPathFactory, said: list[Message]) -> None:
    folder = tmp_path_factory.mktemp("any")
    with (
        Memory.open(folder / "one.db", embedder=None) as one,
        Memory.open(folder / "two.db", embedder=None) as two,
    ):
        one.import_(said)
        text = jsonl(one)
        brought(two, text, folder)
        assert jsonl(two) == text
        assert brought(one, text, folder).report.added == 0
        assert jsonl(one) == text


# formats and the command


def run(*arguments: object) -> tuple[str, int]:
    result = CliRunner().invoke(twofold, [str(argument) for argument in arguments])
    return result.output if result.exception is None else str(result.exception), result.exit_code


def test_markdown_has_a_file_for_each_session_in_the_folder_of_its_project(memory: Memory, tmp_path: Path) -> None:
    filled(memory)
    memory.add("one", session="A/B")
    memory.add("two", session="a b")
    out = tmp_path / "notes"
    run("export", "--format", "markdown", "-o", out, "--db", memory.path)
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*.md"))
    assert files == ["A-B.md", "a-b-2.md", "harbour/Opening.md", "s2.md"]
    text = (out / "harbour" / "Opening.md").read_text("utf-8")
    assert text.startswith(
        "# Opening\n\nproject harbour, session s1\n\n## User, 2026-03-01 12:00 UTC\n\nThe harbour closes"
    )
    assert "## System, 2026-03-01 12:00 UTC, hidden\n\nbe brief\n" in text
    assert run("export", "--format", "markdown", "-o", out, "--db", memory.path) == (
        f"{out} is there and not an empty folder; name a new one with --output",
        1,
    )


def test_openai_messages_can_be_imported_again(memory: Memory, other: Memory, tmp_path: Path) -> None:
    text = "".join(export.text(filled(memory).archive.export(), "openai"))
    first = json.loads(text.splitlines()[0])
    assert first == {
        "session": "s2",
        "messages": [{"role": "user", "content": one.content} for one in memory.show("s2")],
    }
    assert brought(other, text, tmp_path).report.added == 6


def test_the_command_writes_to_a_file_that_is_whole_or_not_there(memory: Memory, tmp_path: Path) -> None:
    filled(memory)
    out = tmp_path / "all.jsonl"
    assert run("export", "--with-vectors", "-o", out, "--db", memory.path) == ("", 0)
    assert out.read_text("utf-8") == jsonl(memory, vectors=True)
    assert run("export", "--db", memory.path)[0] == jsonl(memory)
    assert "no place for vectors" in run("export", "--format", "openai", "--with-vectors", "--db", memory.path)[0]
    where = tmp_path / "none" / "all.jsonl"
    assert run("export", "-o", where, "--db", memory.path) == (
        f"{where} cannot be written (No such file or directory); name another file with --output",
        1,
    )
    assert "no database" in run("export", "--db", tmp_path / "none.db")[0]


Check = Callable[[Path], None]


def test_exported_chats_of_others_come_back_whole(tmp_path: Path, other: Memory) -> None:
    exports = Path(os.environ.get("TWOFOLD_DATA", os.devnull))
    if not exports.is_dir():
        pytest.skip("TWOFOLD_DATA names no folder with example exports")
    with Memory.open(tmp_path / "chats.db", embedder=None) as chats:
        bring_in(chats, sorted(exports.iterdir()), Wanted(all_branches=True))
        text = jsonl(chats)
        done = brought(other, text, tmp_path)
        assert done.report.added == chats.status().episodes > 400
        assert jsonl(other) == text
