"""The command line as a person or a script uses it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twofold import Memory, cli

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `twofold` as a process of its own, over the test's database."""

    def run_(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from twofold.cli import main; main()", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            input=stdin,
            cwd=tmp_path,
            env=os.environ | {"TWOFOLD_DB": str(tmp_path / "memories.db")} | environment,
            check=False,
        )

    return run_


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_command_is_a_method_of_memory() -> None:
    method = {"import": "import_", "embed": "embed_missing"}
    elsewhere = {
        "bench": "measures Memory in stores that it makes, so it lives above it, in twofold.bench",
        "eval": "judges what Memory answers, so it lives above it, in twofold.evaluate",
        "tune": "judges what Memory finds, so it lives above it, in twofold.tune",
        "mcp": "is the adapter around Memory, in twofold.mcp_server",
        "serve": "is the adapter around Memory, in twofold.http",
        "token": "is memory.tokens",
        "feedback": "is memory.feedback",
        "demo": "is import and recall, on the samples",
        "export": "is memory.archive.export",
        "backup": "is memory.archive.backup",
        "restore": "makes a store, so there is no Memory yet: twofold.archive.restore",
    }
    for name in cli.twofold.commands.keys() - elsewhere:
        assert inspect.isfunction(getattr(Memory, method.get(name, name.replace("-", "_")))), name


def test_every_command_that_prints_data_prints_json_and_takes_a_database() -> None:
    for name, command in cli.twofold.commands.items():
        if name in ("serve", "mcp", "token", "feedback", "export"):
            continue
        assert {"db", "as_json"} <= {parameter.name for parameter in command.params}, name
        assert command.help, name


def test_add_recall_show_edit_and_forget(run: Run) -> None:
    added = told(run("add", "We moved billing to Stripe in March.", "--session", "ops", "--project", "acme", "--json"))
    assert (added["session"], added["project"], added["role"]) == ("ops", "acme", "user")
    run("add", "-", "--session", "home", stdin="The cat sleeps on the sofa.")
    found = told(run("recall", "how", "do", "customers", "pay", "us?", "--project", "acme", "--json", "--explain"))
    assert found["hits"][0]["episode"]["content"] == "We moved billing to Stripe in March."
    assert found["explanation"]["method"] == "convex"
    assert found["explanation"]["leftOut"]
    plain = run("recall", "billing", "--session", "ops", "--project", "acme", "--explain")
    assert "1. " in plain.stdout
    assert "acme / ops" in plain.stdout
    assert "keyword rank 1" in plain.stdout
    assert "semantic rank 1" in plain.stdout
    assert "fusion   convex" in plain.stdout
    assert "We moved" in run("show", "ops", "--project", "acme").stdout
    assert "recalled: it is recalled, at place 1" in run("why-not", "billing", "--episode", str(added["id"])).stdout
    assert "to Adyen" in run("edit", str(added["id"]), "Billing moved to Adyen.").stdout
    assert [session["name"] for session in told(run("sessions", "--json"))] == ["home", "ops"]
    assert [project["name"] for project in told(run("projects", "--json"))] == ["acme"]
    assert told(run("forget", "--project", "acme", "--yes", "--json")) == {"forgotten": 1}
    assert told(run("status", "--json"))["episodes"] == 1


def test_settings_are_shown_and_changed(run: Run) -> None:
    assert told(run("settings", "--json"))["keywordWeight"] == 0.0
    assert told(run("settings", "keywordWeight=1.5", "method=rsf", "--json"))["weights"] == "fixed"
    assert "a number from 0 to 5" in run("settings").stdout


def test_an_import_says_what_it_did_and_does_nothing_twice(run: Run, tmp_path: Path) -> None:
    lines = [{"session": "s", "content": f"message {n}", "time": "2026-01-01T00:00:00Z"} for n in range(5)]
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, lines)))
    first = told(run("import", "history.jsonl", "--project", "p", "--json"))
    assert first["report"] == {"added": 5, "updated": 0, "duplicates": 0, "kept": 0, "sessions": 1, "waiting": 0}
    assert run("import", "history.jsonl", "--project", "p").stdout.splitlines() == [
        "added 0 episodes in 1 session; 5 were there",
        "read 5 messages of 1 conversation, 2026-01-01 to 2026-01-01",
    ]
    assert told(run("sessions", "--project", "p", "--json"))[0]["episodes"] == 5


def test_the_lines_of_a_loss_report_say_what_became_of_everything(run: Run, tmp_path: Path) -> None:
    lines = [
        {"session": "s", "content": "one", "time": "2026-01-01T00:00:00Z", "source": "1"},
        {"session": "s", "content": [{"type": "image_url"}], "time": "2026-01-03T00:00:00", "source": "2"},
        {"session": "s", "content": " "},
        {"session": "s", "content": "two", "mood": "good", "source": "3"},
    ]
    history = tmp_path / "kept" / "history.jsonl"
    history.parent.mkdir()
    history.write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "kept" / "photo.png").write_bytes(b"\x89PNG")
    rest = [
        "read 3 messages of 1 conversation, 2026-01-01 to 2026-01-03",
        "not taken:",
        "  1 x empty message",
        "  1 x file of no known kind (.png, not read)",
        "kept by name alone:",
        "  1 x image (placeholder kept)",
        "of unknown types:",
        "  1 x unknown key 'mood'",
        "taken otherwise than it stood:",
        "  1 x time without a zone (taken as UTC)",
    ]
    dry = run("import", "kept", "--dry-run").stdout.splitlines()
    assert dry == ["would add 3 episodes in 1 session; 0 were there", *rest]
    assert "there is no database" in run("status").stderr
    made = run("import", "kept", "--no-embed").stdout.splitlines()
    late = "3 episodes without a vector; make them with: twofold embed"
    assert made == ["added 3 episodes in 1 session; 0 were there", *rest, late]
    lines[0]["content"] = "one, edited"
    history.write_text("\n".join(map(json.dumps, lines)))
    again = run("import", "kept", "--since", "2026-01-02").stdout.splitlines()
    assert again[0] == "added 0 episodes in 1 session; 2 were there"
    assert "  1 x message before 2026-01-02 (left out)" in again
    third = run("import", "kept").stdout.splitlines()
    assert third[0] == "added 0 episodes in 1 session; 1 updated; 2 were there"
    assert third[1:] == rest


def test_what_comes_before_a_fault_is_stored_and_the_fault_is_named(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"content": f"message {n}"}) for n in range(1200)]
    (tmp_path / "long.jsonl").write_text("\n".join([*lines, '{"content": ']))
    assert run("import", "long.jsonl", "--dry-run").returncode == 1
    assert "there is no database" in run("status").stderr
    for added in ("added 1,200 episodes", "added 0 episodes"):
        done = run("import", "long.jsonl", "--no-embed")
        assert done.returncode == 1
        assert "line 1201" in done.stderr and "what comes before it is stored" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout.startswith(added)
    assert told(run("status", "--json"))["episodes"] == 1200


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["recall"], 2, "Missing argument"),
        (["recall", "x", "--all", "--project", "p"], 2, "--all searches everything"),
        (["nonsense"], 2, "No such command"),
        (["recall", "x", "--project", "nope"], 1, "there is no project 'nope'"),
        (["recall", "x", "--limit", "-1"], 1, "limit is -1; give a whole number from 0 to 1000"),
        (["show", "--episode", "7"], 1, "there is no episode 7"),
        (["show"], 1, "nothing to show was named"),
        (["add", ""], 1, "the text is empty"),
        (["settings", "keywordWeight"], 1, "write NAME=VALUE"),
        (["settings", "keywordWeight=9"], 1, "keywordWeight is '9'; give a number from 0 to 5"),
        (["settings", "colour=red"], 1, "there is no setting 'colour'"),
        (["import", "missing.json"], 1, "missing.json"),
        (["import", "cut.json"], 1, "line 1, column"),
        (["forget", "--session", "s"], 1, "without a terminal say --yes"),
        (["status", "--db", "broken.jsonl"], 1, "is not a SQLite database"),
        (["status", "--db", "mistyped.db"], 1, "there is no database mistyped.db; add and import make one"),
        (["add", "x", "--db", "no/such/folder/x.db"], 1, "cannot be opened"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_an_exit_status(
    run: Run, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    (tmp_path / "cut.json").write_text('[{"content": "one"')
    (tmp_path / "broken.jsonl").write_text('{"content": "one"}\n{"content": \n' * 40)
    run("settings")
    done = run(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    if code == 1:
        assert done.stderr.startswith("twofold: ")
        assert len(done.stderr.splitlines()) == 1


def test_emoji_are_printed_whatever_the_terminal_says(run: Run) -> None:
    run("add", "we launched 🚀 today")
    done = run("recall", "🚀", PYTHONIOENCODING="cp1252")
    assert "we launched 🚀 today" in done.stdout


def test_a_reader_that_stops_early_causes_no_noise(run: Run, tmp_path: Path) -> None:
    run("add", "apple " * 20_000)
    command = f"{sys.executable} -c 'from twofold.cli import main; main()' show default --db memories.db | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""


def test_the_demo_answers_its_three_questions(run: Run) -> None:
    recalls = told(run("demo", "--json"))
    questions = json.loads((Path(__file__).parents[1] / "examples" / "questions.json").read_text(encoding="utf-8"))
    assert len(recalls) == 3
    for found, question in zip(recalls, questions, strict=True):
        assert any(question["answer_contains"] in hit["episode"]["content"] for hit in found["hits"]), question
    by_meaning, by_word, by_both = (found["hits"] for found in recalls)
    assert [given["ranking"] for given in by_meaning[0]["contributions"]] == ["semantic"]
    assert by_word[0]["contributions"][0]["ranking"] == "keyword"
    assert {given["ranking"] for given in by_both[0]["contributions"]} == {"keyword", "semantic"}
    assert "A sample history: 266 messages in 16 sessions." in run("demo").stdout


def test_heavy_packages_are_imported_when_they_are_needed() -> None:
    late = ("tqdm", "onnxruntime", "tokenizers", "fastapi", "pydantic", "openai")
    script = f"import sys, twofold.cli; print([m for m in {late} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
