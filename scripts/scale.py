"""Write the tables of docs/scale.md: python scripts/scale.py [FILE.json ...]

The files are what `python -m benchmarks.scale --json FILE` wrote; they become docs/scale.json. Without one the page
is made anew from what is there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
MARKS = re.compile(r"(<!-- made by scripts/scale.py -->\n).*?(<!-- end -->)", re.DOTALL)
SCOPES = ("tenSessions", "oneProject", "wholeStore")
COLUMNS = ("way", "told, s", "index, s", "disk, MB", "memory, MB")
COLUMNS += ("ten sessions, ms", "a project, ms", "whole store, ms", "recall@10")


def page(text: str, reports: Sequence[Mapping[str, Any]]) -> str:
    """The page with the tables of these reports."""
    made = "\n".join(f"\n{table(report)}\n" for report in reports)
    return MARKS.sub(lambda marks: marks[1] + made + "\n" + marks[2], text)


def table(report: Mapping[str, Any]) -> str:
    """One size: a row for each way, times as p50 / p95."""
    lines = [_row(COLUMNS), _row(["---", *["---:"] * (len(COLUMNS) - 1)])]
    for way in report["ways"]:
        seconds = [way["seconds"][part] for part in ("deliver", "build")]
        lines.append(
            _row(
                [
                    way["way"],
                    *(f"{took:,.0f}" if took >= 0.5 else "" for took in seconds),
                    f"{way['disk'] / 1e6:,.0f}" if way["disk"] else "",
                    f"{way['resident'] / 1e6:,.0f}",
                    *(f"{way['recall'][scope]['p50']:.1f} / {way['recall'][scope]['p95']:.1f}" for scope in SCOPES),
                    f"{way['recall@10']:.2f}",
                ]
            )
        )
    return f"{report['episodes']:,} episodes, {report['machine']}:\n\n" + "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Keep the figures that are given, and write the page."""
    kept = DOCS / "scale.json"
    if sys.argv[1:]:
        reports = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
        kept.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    reports = json.loads(kept.read_text(encoding="utf-8"))
    place = DOCS / "scale.md"
    place.write_text(page(place.read_text(encoding="utf-8"), reports), encoding="utf-8")


if __name__ == "__main__":
    main()
