"""Retrieval quality through `Memory` itself: python -m benchmarks.retrieval DIR [DIR ...] [--db FOLDER]

Prints for each set a table of both retrievers and the fusion methods: nDCG@10, recall@10 and MRR by row, and
any@1, any@5, all@5, MRR by session where the set judges sessions. `--db` keeps the imported stores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import ir_measures
from ir_measures import RR, R, nDCG

from benchmarks.dataset import Dataset, Qrels, load
from twofold import Memory

DEPTH = 100
FIXED = {"semanticWeight": 1.0, "keywordWeight": 1.0, "weights": "fixed"}
METHODS: Mapping[str, Mapping[str, object]] = {
    "keyword": {**FIXED, "semanticWeight": 0.0, "method": "rrf"},
    "semantic": {**FIXED, "keywordWeight": 0.0, "method": "rrf"},
    "rrf": {**FIXED, "method": "rrf"},
    "rrf adaptive": {"weights": "auto", "method": "rrf"},
    "rsf": {**FIXED, "method": "rsf"},
    "dbsf": {**FIXED, "method": "dbsf"},
    "convex": {"weights": "auto", "method": "convex"},
    "default": {"weights": "auto", "method": "auto"},
}

Run = dict[str, list[str]]


def main() -> None:
    """Parse the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--db", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for folder in arguments.sets:
            measure(load(folder), (arguments.db or Path(scratch)) / f"{folder.name}.db")


def measure(dataset: Dataset, file: Path) -> None:
    """Import one set, ask every query with every method, and print the table."""
    start = time.perf_counter()
    with Memory.open(file) as memory:
        report = memory.import_(dataset.messages)
        took = time.perf_counter() - start
        print(f"\n{dataset.name}: {len(dataset.messages):,} rows, {report.added:,} imported in {took:.1f} s, ")
        judged = dataset.judged
        print(f"{len(judged):,} judged queries, {len(dataset.queries) - len(judged):,} without a judgement left out")
        names = ["nDCG@10", "R@10", "MRR"]
        if dataset.session_qrels:
            names += ["any@1", "any@5", "all@5", "MRR by session"]
        print(f"{'':14}" + "".join(f"{name:>9}" for name in names) + f"{'ms/query':>10}")
        for method, settings in METHODS.items():
            memory.settings(dict(settings))
            start = time.perf_counter()
            rows, sessions = ask(memory, dataset)
            spent = (time.perf_counter() - start) * 1000 / max(len(judged), 1)
            figures = by_row(dataset.qrels, rows)
            if dataset.session_qrels:
                figures += by_session(dataset.session_qrels, sessions)
            print(f"{method:14}" + "".join(f"{figure:9.4f}" for figure in figures) + f"{spent:10.2f}", flush=True)


def ask(memory: Memory, dataset: Dataset) -> tuple[Run, Run]:
    """For every judged query the ids of the rows found, best first, and of their sessions."""
    source = sources(memory)
    rows: Run = {}
    sessions: Run = {}
    for query in dataset.judged:
        hits = memory.recall(query.text, project=query.group, limit=DEPTH)
        rows[query.id] = [source[hit.episode.id] for hit in hits]
        sessions[query.id] = list(dict.fromkeys(hit.episode.session for hit in hits))
    return rows, sessions


def sources(memory: Memory) -> dict[int, str]:
    """The row's id by episode id."""
    with memory._store.read() as db:  # a benchmark may look behind the door
        return dict(db.execute("SELECT id, source FROM episodes"))


def by_row(qrels: Qrels, run: Run) -> list[float]:
    """nDCG@10, recall@10 and MRR. Scores are made of the ranks, so that the library breaks no tie anew."""
    scored = {query: {doc: -float(rank) for rank, doc in enumerate(docs)} for query, docs in run.items()}
    judged = {query: qrels[query] for query in run if query in qrels}
    found = ir_measures.calc_aggregate([nDCG @ 10, R @ 10, RR], judged, scored)
    return [found[measure] for measure in (nDCG @ 10, R @ 10, RR)]


def by_session(qrels: Qrels, run: Run) -> list[float]:
    """any@1, any@5, all@5 and MRR over sessions, over the queries that have judged sessions."""
    judged = {query: set(qrels[query]) for query in run if qrels.get(query)}
    total = len(judged)

    def share(holds: object) -> float:
        return sum(map(bool, holds)) / total  # type: ignore[call-overload]

    return [
        share(judged[q] & set(run[q][:1]) for q in judged),
        share(judged[q] & set(run[q][:5]) for q in judged),
        share(judged[q] <= set(run[q][:5]) for q in judged),
        sum(next((1 / rank for rank, s in enumerate(run[q], 1) if s in judged[q]), 0.0) for q in judged) / total,
    ]


if __name__ == "__main__":
    main()
