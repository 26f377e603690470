"""What `twofold eval` prints and writes: the table, JSON, CSV and a chart."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold import metrics
from twofold.errors import InvalidInput, MissingExtra
from twofold.evaluate import Evaluation, Result
from twofold.significance import PERMUTATIONS, interval

PICTURES = (".png", ".svg", ".pdf")

_KEYS = (*metrics.ROWS, *(f"session {name}" for name in metrics.SESSIONS))
_HEADS = ("nDCG@10", "R@10", "R@20", "MRR", "s any@1", "s any@5", "s any@10", "s all@5", "s frac@10", "s MRR")


def lines(one: Evaluation, by_category: bool) -> Iterator[str]:
    """A set's table, and what is shown about the differences."""
    asked, dropped = len(one.dataset.judged), len(one.dataset.queries) - len(one.dataset.judged)
    yield ""
    yield f"{one.dataset.name}: {len(one.dataset.messages):,} rows, ready in {one.import_seconds:.1f} s"
    yield f"{asked:,} queries ({_judged(one)}); dropped: " + ", ".join(
        [f"{dropped:,} without a judgement or a group of rows"]
        + [f"{times:,} {reason}" for reason, times in sorted(one.dataset.losses.items())]
    )
    for category, among in _groups(one, by_category).items():
        yield ""
        if category is not None:
            yield f"category {category}: {len(among or ()):,} queries"
        yield f"{'':10}" + "".join(f"{head:>10}" for head in _HEADS) + ("" if among else f"{'seconds':>9}")
        for result in one.results:
            figures = "".join("         -" if value is None else f"{value:10.4f}" for value in _row(result, among))
            yield f"{result.name:10}{figures}" + ("" if among else f"{result.seconds:9.1f}")
    yield from _differences(one)


def as_json(sets: Sequence[Evaluation], by_category: bool) -> dict[str, object]:
    """Everything as plain values; what is not judged is null."""
    return {"sets": [_set(one, by_category) for one in sets]}


def as_run(sets: Sequence[Evaluation]) -> dict[str, object]:
    """What is kept of a run: for each set every method's mean by the measure compared, with its 95 % interval."""
    return {
        "sets": [
            {
                "name": one.dataset.name,
                "measure": f"{one.measure[1]} by {one.measure[0]}",
                "queries": len(one.compared(one.results[0]).queries),
                "runs": [_kept(result.name, one.compared(result).values[one.measure[1]]) for result in one.results],
            }
            for one in sets
        ]
    }


def _kept(name: str, values: NDArray[np.float64]) -> dict[str, object]:
    low, high = interval(values)
    return {"name": name, "value": float(values.mean()), "low": low, "high": high}


def write_csv(file: Path, sets: Sequence[Evaluation], by_category: bool) -> None:
    """A line for each set, method and category (empty for all queries). Raises InvalidInput."""
    try:
        with file.open("w", encoding="utf-8", newline="") as target:
            writer = csv.writer(target)
            writer.writerow(["set", "method", "category", "queries", *_KEYS, "seconds"])
            for one in sets:
                for category, among in _groups(one, by_category).items():
                    queries = len(one.dataset.judged) if among is None else len(among)
                    for result in one.results:
                        spent = result.seconds if among is None else None
                        writer.writerow([one.dataset.name, result.name, category, queries, *_row(result, among), spent])
    except OSError as error:
        raise _unwritable(file, error) from None


def check_plot(file: Path) -> None:
    """Raise MissingExtra or InvalidInput now rather than after the work."""
    if file.suffix.lower() not in PICTURES:
        raise InvalidInput(f"'{file}' is no picture that can be made; end its name with {', '.join(PICTURES)}")
    try:
        import matplotlib.figure  # noqa: F401  an extra, looked for only here
    except ImportError:
        raise MissingExtra("a chart needs matplotlib; get it with: pip install 'twofold[eval]'") from None


def plot(file: Path, sets: Sequence[Evaluation]) -> None:
    """Bars for each set and method, by the measure that is compared. Raises MissingExtra and InvalidInput."""
    check_plot(file)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3 + 2 * len(sets), 4), layout="constrained")
    axes = figure.subplots()
    methods = [result.name for result in sets[0].results]
    for number, method in enumerate(methods):
        heights = [float(one.compared(one.results[number]).values[one.measure[1]].mean()) for one in sets]
        places = [place + (number - (len(methods) - 1) / 2) / (len(methods) + 1) for place in range(len(sets))]
        axes.bar(places, heights, 1 / (len(methods) + 1), label=method)
    axes.set_xticks(range(len(sets)), [f"{one.dataset.name}\n{_measure(one)}" for one in sets])
    axes.set_ylim(0, 1)
    figure.legend(loc="outside right upper")
    try:
        figure.savefig(file)
    except OSError as error:
        raise _unwritable(file, error) from None


def _set(one: Evaluation, by_category: bool) -> dict[str, object]:
    asked, groups = len(one.dataset.judged), _groups(one, by_category)
    return {
        "name": one.dataset.name,
        "queries": asked,
        "dropped": len(one.dataset.queries) - asked,
        "droppedJudgements": dict(one.dataset.losses),
        "judged": {kind: len(scores.queries) if scores else 0 for kind, scores in _kinds(one.results[0]).items()},
        "rows": len(one.dataset.messages),
        "importSeconds": one.import_seconds,
        "runs": [_run(result, groups) for result in one.results],
        "compared": _measure(one),
        "comparisons": [asdict(comparison) for comparison in one.comparisons],
    }


def _run(result: Result, groups: Mapping[str | None, frozenset[str] | None]) -> dict[str, object]:
    run: dict[str, object] = {"name": result.name, **_figures(result, None), "seconds": result.seconds}
    categories = {
        category: {"queries": len(among), **_figures(result, among)}
        for category, among in groups.items()
        if category is not None and among is not None
    }
    return run | ({"categories": categories} if categories else {})


def _figures(result: Result, among: frozenset[str] | None) -> dict[str, Any]:
    rows = result.rows and result.rows.means(among)
    sessions = result.sessions and result.sessions.means(among)
    return {**(rows or dict.fromkeys(metrics.ROWS)), "session": sessions}


def _row(result: Result, among: frozenset[str] | None) -> list[float | None]:
    figures = _figures(result, among)
    sessions = figures["session"] or {}
    return [figures[name] for name in metrics.ROWS] + [sessions.get(name) for name in metrics.SESSIONS]


def _groups(one: Evaluation, by_category: bool) -> dict[str | None, frozenset[str] | None]:
    """The queries of each category; None stands for all of them."""
    judged = one.dataset.judged if by_category else []
    names = sorted({query.category for query in judged if query.category is not None})
    groups: dict[str | None, frozenset[str] | None] = {None: None}
    return groups | {name: frozenset(query.id for query in judged if query.category == name) for name in names}


def _kinds(result: Result) -> dict[str, metrics.Scores | None]:
    return {"rows": result.rows, "sessions": result.sessions}


def _judged(one: Evaluation) -> str:
    kinds = _kinds(one.results[0])
    return ", ".join(f"{len(scores.queries):,} judged by {kind[:-1]}" for kind, scores in kinds.items() if scores)


def _measure(one: Evaluation) -> str:
    return "nDCG@10" if one.measure[0] == "row" else "MRR by session"


def _differences(one: Evaluation) -> Iterator[str]:
    queries = len(one.compared(one.results[0]).queries)
    yield ""
    yield (
        f"default against each, {_measure(one)} over {queries:,} queries (sign-flip test of {PERMUTATIONS:,} "
        f"permutations, Holm over {len(one.comparisons)}; bootstrap interval of 95 %)"
    )
    for found in one.comparisons:
        spread = f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
        yield f"{found.other:10}{spread:>28}  p {found.p:.4f}  {found.verdict}"


def _unwritable(file: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"'{file}' cannot be written ({error.strerror}); name another file")
