"""Retrieval metrics of ranked lists, made by ir-measures (trec_eval's), which is the extra `eval`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.datasets import Qrels
from twofold.errors import MissingExtra

Run = Mapping[str, Sequence[str]]  # by query the ids found, best first

ROWS = ("ndcg@10", "recall@10", "recall@20", "mrr")
SESSIONS = ("any@1", "any@5", "any@10", "all@5", "frac@10", "mrr")


@dataclass(frozen=True)
class Scores:
    """Every measure of every query: arrays of shape (queries,), in the order of `queries`."""

    queries: tuple[str, ...]
    values: Mapping[str, NDArray[np.float64]]

    def means(self, among: Collection[str] | None = None) -> dict[str, float] | None:
        """The mean of each measure, over the queries that are also in `among`; None where there are none."""
        chosen = [place for place, query in enumerate(self.queries) if among is None or query in among]
        return {name: float(values[chosen].mean()) for name, values in self.values.items()} if chosen else None


def by_row(qrels: Qrels, run: Run) -> Scores | None:
    """ROWS for the queries of a run that rows are judged for; None where there are none."""
    measures = library()
    return _scores(
        {
            "ndcg@10": measures.nDCG @ 10,
            "recall@10": measures.R @ 10,
            "recall@20": measures.R @ 20,
            "mrr": measures.RR,
        },
        qrels,
        run,
    )


def by_session(qrels: Qrels, run: Run) -> Scores | None:
    """SESSIONS for the queries of a run that sessions are judged for; None where there are none.

    any@k: a relevant session is among the first k; all@5: all are among five; frac@10: their share among ten.
    """
    measures = library()
    found = _scores(
        {
            **{f"any@{k}": measures.Success @ k for k in (1, 5, 10)},
            "all@5": measures.R @ 5,
            "frac@10": measures.R @ 10,
            "mrr": measures.RR,
        },
        qrels,
        run,
    )
    return found and Scores(found.queries, {**found.values, "all@5": np.floor(found.values["all@5"])})


def library() -> ModuleType:
    """ir-measures. Raises MissingExtra."""
    try:
        import ir_measures
    except ImportError:
        raise MissingExtra("judging needs ir-measures; get it with: pip install 'twofold[eval]'") from None
    return ir_measures


def _scores(measures: Mapping[str, Any], qrels: Qrels, run: Run) -> Scores | None:
    judged = {query: qrels[query] for query in run if query in qrels}
    if not judged:
        return None
    # Scores are made of the ranks, so that the library breaks no tie anew.
    scored = {query: {id_: -float(rank) for rank, id_ in enumerate(run[query])} for query in judged}
    place = {query: number for number, query in enumerate(judged)}
    values = {measure: np.zeros(len(judged)) for measure in measures.values()}
    for found in _found(list(values), judged, scored):
        values[found.measure][place[found.query_id]] = found.value
    return Scores(tuple(judged), {name: values[measure] for name, measure in measures.items()})


def _found(measures: list[Any], qrels: Qrels, scored: Mapping[str, Mapping[str, float]]) -> Iterator[Any]:
    found: Iterator[Any] = library().iter_calc(measures, qrels, scored)
    return found
