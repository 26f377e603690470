"""Writes the measured table of docs/performance.md: python scripts/performance.py [FILE.json]

FILE is what `twofold bench --json` printed, and is kept as docs/performance.json; without it that one is used.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twofold import benchtable

DOCS = Path(__file__).parents[1] / "docs"
PART = re.compile(r"(?s)(<!-- made by scripts/performance\.py -->\n).*?(<!-- end -->\n)")


def page(text: str, report: Mapping[str, Any]) -> str:
    """The page with the table that a report gives, between its two marks."""
    made, times = PART.subn(lambda part: f"{part[1]}\n{benchtable.markdown(report)}\n{part[2]}", text)
    if times != 1:
        sys.exit("performance.md has no two marks, or more than one pair of them, to put the table between")
    return made


if __name__ == "__main__":
    kept = DOCS / "performance.json"
    if sys.argv[1:]:
        kept.write_text(Path(sys.argv[1]).read_text(encoding="utf-8"), encoding="utf-8")
    target = DOCS / "performance.md"
    report = json.loads(kept.read_text(encoding="utf-8"))
    target.write_text(page(target.read_text(encoding="utf-8"), report), encoding="utf-8")
