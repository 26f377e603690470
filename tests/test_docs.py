"""What the documents say is run, and what is made from the code is up to date."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from twofold import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_the_readme_example_prints_the_right_message_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks(ROOT / "README.md", "python")[0], {})
    assert "We moved billing to Stripe in March." in capsys.readouterr().out.splitlines()[0]


def test_shell_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DB", str(tmp_path / "memories.db"))
    (tmp_path / "conversations.json").write_text(json.dumps([{"role": "user", "content": "The gate is green."}]))
    lines = [
        line
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("twofold ")
    ]
    assert len(lines) >= 5
    monkeypatch.chdir(tmp_path)
    for line in lines:
        done = CliRunner().invoke(cli.twofold, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, (line, done.output, done.exception)


def test_the_make_targets_that_documents_name_are_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for page in PAGES for name in re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", page.read_text(), re.MULTILINE)
    }
    assert {name for pair in named for name in pair if name} <= targets
    assert ("demo", "") in named


def test_links_between_documents_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_the_reference_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import runpy, json; pages = runpy.run_path('scripts/reference.py')['PAGES'];"
            "print(json.dumps({name: page() for name, page in pages.items()}))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name, page in json.loads(done.stdout).items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page, "run: python scripts/reference.py"


def test_every_command_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in cli.twofold.commands:
        assert f"## twofold {name}\n" in text


def test_the_repository_keeps_to_the_sizes_it_set_itself() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path.name
