"""What `twofold bench` prints, and the same table for a page: both from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SCOPES = {"tenSessions": "ten sessions", "oneProject": "one project", "wholeStore": "the whole store"}
STAGES = {
    "embed": "query embedding",
    "keyword": "keyword search",
    "semantic": "semantic search",
    "complete": "completion",
    "fuse": "fusion",
}
INDENT = "  "

Row = tuple[str, list[str]]
Store = Mapping[str, Any]


def rows(stores: Sequence[Store]) -> Iterator[Row]:
    """A label with a value for each store; what is part of the row before it is indented."""
    yield "episodes", [f"{store['episodes']:,}" for store in stores]
    yield "import with given vectors, messages/s", [_whole(store["importRate"]) for store in stores]
    for scope, name in SCOPES.items():
        yield f"recall in {name}, ms", [_spent(store["recalls"][scope]) for store in stores]
        for stage, what in STAGES.items():
            yield f"{INDENT}{what}", [_one(store["recalls"][scope]["stages"].get(stage)) for store in stores]
    yield "keyword search alone, the whole store, ms", [_spent(store["search"]) for store in stores]
    yield "context of a turn, in a project, ms", [_spent(store["context"]) for store in stores]
    yield "one durable add, ms", [_spent(store["add"]) for store in stores]
    yield "new process: opening to first recall, ms", [_whole(store["start"]) for store in stores]
    yield f"{INDENT}resident, at most, MB", [_whole(store["resident"], 1e6) for store in stores]
    yield "file, MB", [f"{store['bytes'] / 1e6:,.1f}" for store in stores]
    yield f"{INDENT}bytes an episode", [_whole(store["bytes"], store["episodes"]) for store in stores]


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The table for a terminal."""
    yield about(report)
    yield ""
    for label, values in rows(report["stores"]):
        yield f"{label:42}" + "".join(f"{value:>18}" for value in values)


def markdown(report: Mapping[str, Any]) -> str:
    """The table for a page."""
    (head, sizes), *rest = rows(report["stores"])
    table = [[head, *sizes], ["---", *("---:" for _ in sizes)]]
    table += [[label.replace(INDENT, "&nbsp;&nbsp;"), *values] for label, values in rest]
    return "\n".join([about(report), "", *(f"| {' | '.join(cells)} |" for cells in table)]) + "\n"


def about(report: Mapping[str, Any]) -> str:
    """What was measured on what, in a sentence."""
    of = report["machine"]
    return (
        f"{of['processor']}, {of['cores']} cores, {of['system']}, Python {of['python']}; {report['queries']:,} "
        f"queries of each kind, seed {report['seed']}; p50 / p95, of stages the medians."
    )


def _spent(spent: Mapping[str, Any]) -> str:
    return f"{_one(spent['p50'])} / {_one(spent['p95'])}"


def _one(milliseconds: float | None) -> str:
    """Two digits below ten, so that what takes little is still told apart."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:,.2f}" if milliseconds < 10 else f"{milliseconds:,.1f}"


def _whole(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:,.0f}"
