"""What each part of the default is worth: python -m benchmarks.ablation DIR [DIR ...] --db FOLDER

Asks every judged query with the default, and with the default without one of its parts. A set whose queries have
groups is shown in two halves: the first groups, on which choices were made, and the last, on which none was.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from twofold import Memory, datasets, evaluate, retrieve
from twofold.keyword import fts5

MEASURED = retrieve.measured_prior
PARTS = {
    "default": [],
    "no words for times": [(retrieve.when, "spans", lambda text, now: ())],
    "no leaning": [(retrieve, "measured_prior", lambda kind: replace(MEASURED(kind), leans=False))],
    "no leaning by language": [(retrieve, "LEAST_FLUENCY", 1.0)],
    "same share for few words": [(retrieve, "WORDS_SHARE", 0.0)],
    "same share however it stands": [(retrieve, "STANDING_SHARE", 0.0)],
    "nearest piece alone": [(retrieve, "BEGINNING_WEIGHT", 0.0)],
    "one prior for all stores": [(retrieve, "CONVERSATION_PRIOR", retrieve.DOCUMENT_PRIOR)],
    "no neighbours' vectors": [(retrieve, "CONTEXT_WEIGHT", 0.0)],
    "no neighbours' words": [(fts5, "CONTEXT_WEIGHT", 0.0)],
    "FTS5's k1 and b for turns": [(fts5, "TURN_K1", fts5.K1), (fts5, "TURN_B", fts5.B)],
}


def main() -> None:
    """Parse the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--db", type=Path, required=True)
    arguments = parser.parse_args()
    for folder in arguments.sets:
        whole = datasets.load(folder)
        for dataset in halves(whole):
            print(f"\n{dataset.name}, {len(dataset.judged):,} queries")
            for name in PARTS:
                with without(name):
                    print(f"{name:30}{figures(whole, dataset, arguments.db)}", flush=True)


def halves(dataset: datasets.Dataset) -> list[datasets.Dataset]:
    """The first and the last half of the groups, or the set itself."""
    groups = sorted({query.group for query in dataset.queries if query.group})
    if len(groups) < 2:
        return [dataset]
    first = set(groups[: len(groups) // 2])
    return [
        replace(
            dataset,
            name=f"{dataset.name}, {half}",
            queries=[q for q in dataset.queries if (q.group in first) == is_first],
        )
        for half, is_first in (("developed on", True), ("held out", False))
    ]


@contextmanager
def without(name: str) -> Iterator[None]:
    """The default without one of its parts."""
    patches = [mock.patch.object(*change) for change in PARTS[name]]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def figures(whole: datasets.Dataset, dataset: datasets.Dataset, folder: Path) -> str:
    """nDCG@10 by row, and any@1, any@5, all@5 and MRR by session, where they are judged."""
    stored = evaluate._stored(whole, folder, "default", None)  # a benchmark may look behind the door
    with (
        tempfile.TemporaryDirectory() as scratch,
        Memory.open(evaluate._copy(stored, Path(scratch) / "a.db")) as memory,
    ):
        result = evaluate._result(memory, dataset, "default", lambda: None)
    by_row = [result.rows.values["ndcg@10"].mean()] if result.rows else []
    sessions = result.sessions.values if result.sessions else {}
    by_session = [sessions[name].mean() for name in ("any@1", "any@5", "all@5", "mrr") if name in sessions]
    return "".join(f"{figure:9.4f}" for figure in (*by_row, *by_session))


if __name__ == "__main__":
    main()
