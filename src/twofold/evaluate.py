"""Asks a judged set every query with every method, through Memory itself, and says which differences are real."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from twofold import indexing, metrics, significance
from twofold.datasets import ROW, Dataset
from twofold.embed import Embedder
from twofold.errors import EmbedderError, InvalidInput, StoreError
from twofold.memory import Memory
from twofold.metrics import Scores
from twofold.settings import OF_RECALL, SPECS, base

# Rows asked for a query: the deepest answer that a fresh install gives without widening its window.
DEPTH = int(SPECS["window"].default)

_EQUAL = {"weights": "fixed", "keywordWeight": 1.0, "semanticWeight": 1.0}
ARMS: Mapping[str, Mapping[str, object]] = {
    "keyword": {**_EQUAL, "semanticWeight": 0.0, "method": "rrf"},
    "semantic": {**_EQUAL, "keywordWeight": 0.0, "method": "rrf"},
    "rrf": {**_EQUAL, "method": "rrf"},
    "rsf": {**_EQUAL, "method": "rsf"},
    "dbsf": {**_EQUAL, "method": "dbsf"},
    "convex": {"weights": "auto", "method": "convex"},
    "default": {},
}

SURE = 0.05  # of Holm's p-value

Progress = Callable[[int], None]
Verdict = Literal["better", "worse", "not shown different"]


@dataclass(frozen=True)
class Result:
    """One method on one set: its scores by row and by session, None where nothing is judged, and its wall time."""

    name: str
    rows: Scores | None
    sessions: Scores | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`default` against another method: mean difference, its 95 % interval, Holm's p-value, and what they allow."""

    other: str
    difference: float
    low: float
    high: float
    p: float
    verdict: Verdict


@dataclass(frozen=True)
class Evaluation:
    """What a set showed. `measure` is the one that is compared, by row or by session."""

    dataset: Dataset
    import_seconds: float
    results: tuple[Result, ...]
    measure: tuple[Literal["row", "session"], str]
    comparisons: tuple[Comparison, ...]

    def compared(self, result: Result) -> Scores:
        """The scores by what is compared."""
        return _compared(result, self.measure[0])


def steps(dataset: Dataset) -> int:
    """How far `progress` will count."""
    return len(dataset.messages) + len(ARMS) * len(dataset.judged)


def evaluate(
    dataset: Dataset,
    folder: Path | None = None,
    *,
    embedder: Embedder | Literal["default"] = "default",
    progress: Progress | None = None,
) -> Evaluation:
    """Import a set, ask it with all of ARMS, and compare `default` with the others.

    Everything happens in a database that is thrown away; `folder` keeps the imported store for the next time, as
    it was before any setting was made. Raises MissingExtra, StoreError, EmbedderError and InvalidInput.
    """
    metrics.library()
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        file = _stored(dataset, folder or Path(scratch), embedder, progress)
        took = time.perf_counter() - start
        with Memory.open(_copy(file, Path(scratch) / "asked.db"), embedder=embedder) as memory:
            memory._indexes.deliver()  # a copy has no index beside it
            memory.recall(dataset.judged[0].text)  # loads the model and the vectors, which no method is charged for
            ticks = count(len(dataset.messages) + 1)
            tick = (lambda: progress(next(ticks))) if progress else (lambda: None)
            results = tuple(_result(memory, dataset, name, tick) for name in ARMS)
        if folder is None:
            indexing.abandon(Path(scratch) / "asked.db", base())
    by_row, by_session = ((scores and len(scores.queries)) or 0 for scores in (results[0].rows, results[0].sessions))
    kind: Literal["row", "session"] = "row" if by_row >= by_session else "session"
    measure = (kind, "ndcg@10" if kind == "row" else "mrr")
    return Evaluation(dataset, took, results, measure, _comparisons(results, *measure))


def _stored(dataset: Dataset, folder: Path, embedder: Embedder | Literal["default"], progress: Progress | None) -> Path:
    """The file that holds the set and nothing else; its name has a mark of the content, so that no old one serves."""
    mark = hashlib.sha256()
    for message in dataset.messages:
        said = (message.source, message.project, message.session, message.content, message.time)
        mark.update(repr(said).encode())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"'{folder}' cannot be made a folder ({error.strerror}); name another") from None
    file = folder / f"{dataset.name.split('/')[0]}-{mark.hexdigest()[:8]}.db"
    with Memory.open(file, embedder=embedder) as memory:
        if memory.status().episodes < len(dataset.messages):
            memory.import_(dataset.messages, progress=progress)
        if memory.status().waiting:
            memory.embed_missing()
    return file


def _copy(file: Path, target: Path) -> Path:
    """A copy for the settings to be made in: the store itself stays as it is, whatever happens."""
    if Path(f"{file}-wal").exists():
        raise StoreError(f"'{file}' is in use by another process; wait for it, or name another folder")
    try:
        shutil.copyfile(file, target)
    except OSError as error:
        raise StoreError(f"'{file}' cannot be copied to '{target}' ({error.strerror})") from None
    return target


def _result(memory: Memory, dataset: Dataset, name: str, tick: Callable[[], None]) -> Result:
    """Set the method, as if nothing else had been set anywhere, and ask it every judged query."""
    fresh = {name: SPECS[name].default for name in OF_RECALL}
    memory.settings({**fresh, **ARMS[name]})
    rows: dict[str, list[str]] = {}
    sessions: dict[str, list[str]] = {}
    start = time.perf_counter()
    for query in dataset.judged:
        found = memory.recall(query.text, project=query.group, limit=DEPTH)
        for part, why in found.degraded.items():
            raise EmbedderError(f"{dataset.name} cannot be judged, {part} recall failed: {why}")
        rows[query.id] = [str(hit.episode.metadata[ROW]) for hit in found]
        sessions[query.id] = list(dict.fromkeys(hit.episode.session for hit in found))
        tick()
    seconds = time.perf_counter() - start
    by_session = metrics.by_session(dataset.session_qrels or {}, sessions)
    return Result(name, metrics.by_row(dataset.qrels, rows), by_session, seconds)


def _compared(result: Result, kind: Literal["row", "session"]) -> Scores:
    scores = result.rows if kind == "row" else result.sessions
    assert scores is not None  # `judged` holds queries that one of the two is judged for
    return scores


def _comparisons(results: tuple[Result, ...], kind: Literal["row", "session"], measure: str) -> tuple[Comparison, ...]:
    """`default` against each other method, over the same queries; the family is one set's comparisons."""
    values = {result.name: _compared(result, kind).values[measure] for result in results}
    own = values.pop("default")
    adjusted = significance.holm([significance.sign_flip(own - other) for other in values.values()])
    return tuple(
        _comparison(name, float((own - other).mean()), *significance.interval(own - other), p)
        for (name, other), p in zip(values.items(), adjusted, strict=True)
    )


def _comparison(other: str, difference: float, low: float, high: float, p: float) -> Comparison:
    verdict: Verdict = "not shown different"
    if p < SURE and (low > 0.0 or high < 0.0):
        verdict = "better" if difference > 0.0 else "worse"
    return Comparison(other, difference, low, high, p, verdict)
