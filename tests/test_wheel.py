"""What a user installs is whole."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_the_model_the_sample_and_the_licences(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in (
        "twofold/models/minilm.onnx",
        "twofold/models/tokenizer.json",
        "twofold/models/LICENSE",
        "twofold/models/PROVENANCE.md",
        "twofold/examples/history.jsonl",
        "twofold/examples/questions.json",
        *(f"twofold/http/page/{path.name}" for path in (ROOT / "src/twofold/http/page").iterdir()),
        "twofold/py.typed",
    ):
        assert name in names
    assert not {name for name in names if name.startswith(("tests/", "benchmarks/", "requirements/"))}
    assert wheel.stat().st_size < 60_000_000
