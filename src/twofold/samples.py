"""The sample history that comes with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def path(name: str) -> Path:
    """A file of the sample history: in the package, or in the repository that it is installed from."""
    packaged = Path(str(files("twofold"))) / "examples" / name
    return packaged if packaged.exists() else Path(__file__).parents[2] / "examples" / name
