"""What the files in deploy/ name is there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from twofold import cli
from twofold.settings import SPECS

ROOT = Path(__file__).parents[1]
UNIT = (ROOT / "deploy" / "twofold.service").read_text(encoding="utf-8")
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
README = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")


def options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def test_the_commands_and_options_are_those_of_twofold() -> None:
    started = [re.search(r"^ExecStart=\S+ (.*)$", UNIT, re.MULTILINE)]
    lines = [found[1] for found in started if found] + [" ".join(re.findall(r'"([^"]+)"', CONTAINER.split("\nCMD")[1]))]
    lines += re.findall(r"twofold (token add .*)", README)
    assert len(lines) >= 3
    for line in lines:
        command: click.Command = cli.twofold
        words = shlex.split(line)
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        assert {word for word in words if word.startswith("--")} <= options(command), line


def test_the_variables_are_known_settings() -> None:
    known = {spec.variable for spec in SPECS.values()} | {"TWOFOLD_DB", "TWOFOLD_TOKEN"}
    assert set(re.findall(r"TWOFOLD_[A-Z_]+", UNIT + CONTAINER + README)) <= known


def test_the_files_that_are_copied_are_there() -> None:
    for line in re.findall(r"^COPY (.*)$", CONTAINER, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
    for name in re.findall(r"(?:deploy|requirements)/[\w.]+", README):
        assert (ROOT / name).exists(), name


def test_stopping_takes_no_longer_than_systemd_waits() -> None:
    from twofold.http.server import GRACE

    assert int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)[1]) > GRACE  # type: ignore[index]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "twofold.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
