"""What each way of searching costs at a size: python -m benchmarks.scale [--episodes 100000] --db FOLDER

Makes the made-up store of `twofold bench` (kept in FOLDER), then for every way (in the file, Qdrant Edge without and
with an index over the vectors, with vectors kept smaller; words by FTS5 or by the engine) builds what is outside the
file and measures recall in a process of its own. `--json FILE` keeps the figures; `--again` asks anew what stands built
there, so that the building may be done while the machine is busy and the asking when it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twofold import Memory, Scope, bench
from twofold.engines import replica
from twofold.store import outbox
from twofold.vectors.exact import ExactIndex

SEED = 7
QUERIES = 100
UNINDEXED = "edge, no index"
WARM_UP = 10
TOP = 10

# Name, where vectors are, where words are, how vectors are kept, whether the index over them is built.
WAYS = (
    ("exact", "exact", "fts5", "none", False),
    (UNINDEXED, "edge", "fts5", "none", False),
    ("edge, indexed", "edge", "fts5", "none", True),
    ("edge, indexed, words too", "edge", "qdrant", "none", True),
    ("edge, scalar, words too", "edge", "qdrant", "scalar", True),
    ("edge, binary, words too", "edge", "qdrant", "binary", True),
)


def main() -> None:
    """Parse the arguments, measure every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--way", action="append", choices=[way[0] for way in WAYS], help="only this; may be repeated")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--again", action="store_true", help="ask the stores of --json once more")
    parser.add_argument("--child", choices=("build", "ask"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    file, _ = bench._stored(arguments.episodes, SEED, arguments.db, None)
    if arguments.child:
        (name,) = arguments.way
        way = next(way for way in WAYS if way[0] == name)
        told = build(file, indexed=way[4]) if arguments.child == "build" else ask(file, arguments.episodes)
        print(json.dumps(told))
        return
    known = {row["way"]: row for row in json.loads(arguments.json.read_text())["ways"]} if arguments.again else {}
    if not known:
        _forget_targets(file)
    rows = []
    for way in WAYS:
        if (arguments.way and way[0] not in arguments.way) or (known and way[0] not in known):
            continue
        if not (known and way[0] == UNINDEXED):  # which is not there any more
            row = known.get(way[0]) or {"way": way[0], **_child("build", way, arguments)}
            known[way[0]] = {**row, **_child("ask", way, arguments)}
        rows.append(known[way[0]])
        print(line(rows[-1]), flush=True)
        if way[0] == UNINDEXED and not arguments.again:
            _forget_targets(file)
        if arguments.json:
            report = {"machine": bench.machine().processor, "episodes": arguments.episodes, "ways": rows}
            arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def build(file: Path, *, indexed: bool) -> dict[str, Any]:
    """Tell what is outside the file all there is, and build the index over it."""
    replica.FEW = sys.maxsize  # no process beside this one
    start = time.perf_counter()
    with Memory.open(file) as memory:
        memory._indexes.deliver()
        told = time.perf_counter()
        for one in memory._indexes.replicas if indexed else ():
            with memory._store.read() as db:
                serving = one.serving(db)
            if serving is None or serving[1].unindexed():
                one.build(one.begin())
        seconds = {"deliver": told - start, "build": time.perf_counter() - told if indexed else 0.0}
        memory._indexes.deliver()
    folder = Path(f"{file}-edge")
    with Memory.open(file) as memory, memory._store.read() as db:
        known = [target.collection for target in outbox.targets(db)]
        used = [one.targets(db)[0].collection for one in memory._indexes.replicas]
    size = sum(part.stat().st_size for name in used for part in (folder / name).rglob("*") if part.is_file())
    for left in folder.iterdir() if folder.is_dir() else ():
        if left.name not in known:
            shutil.rmtree(left)  # the sweep of a courier that had more time
    return {"seconds": seconds, "disk": size, "file": file.stat().st_size}


def ask(file: Path, episodes: int) -> dict[str, Any]:
    """Ask a store in several scopes; how long it takes, how much memory, and how many of the nearest are found."""
    replica.FEW = sys.maxsize
    start = time.perf_counter()
    with Memory.open(file) as memory:
        asked = bench.questions(memory, episodes, QUERIES, SEED)
        memory.recall(asked[0][1])
        first = time.perf_counter() - start
        for _, text in asked[:WARM_UP]:
            degraded = memory.recall(text).degraded
            assert not degraded, degraded
        kinds = bench._kinds(memory)
        spent = {
            name: bench._spent(kinds[name], asked, lambda: None) for name in ("tenSessions", "oneProject", "wholeStore")
        }
        resident = bench._resident()
        found = {name: {"p50": one.p50, "p95": one.p95, "stages": dict(one.stages)} for name, one in spent.items()}
        return {"first": first, "resident": resident, "recall": found, "recall@10": nearest(memory, asked)}


def nearest(memory: Memory, asked: Any) -> float | None:
    """The part of the ten nearest of the whole store that the index finds."""
    index = memory._vectors
    if index is None or isinstance(index, ExactIndex):
        return 1.0
    exact = ExactIndex(memory._store, memory._embedder.info)  # type: ignore[union-attr]
    shares = []
    for _, text in asked[: QUERIES // 2]:
        vector = memory._embedder.embed_query(text)  # type: ignore[union-attr]
        best, found = (one.prepare(Scope("all"), (), TOP)(vector).ranking for one in (exact, index))
        shares.append(len({id_ for id_, _ in best} & {id_ for id_, _ in found}) / len(best))
    return statistics.mean(shares)


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    recalls = "".join(
        f" {row['recall'][name]['p50']:8.1f} {row['recall'][name]['p95']:8.1f}"
        for name in ("tenSessions", "oneProject", "wholeStore")
    )
    return (
        f"{row['way']:28s} deliver {row['seconds']['deliver']:7.1f} s  index {row['seconds']['build']:7.1f} s  "
        f"disk {row['disk'] / 1e6:8.1f} MB  memory {(row['resident'] or 0) / 1e6:8.1f} MB  "
        f"ten, project, whole p50 p95 ms{recalls}  recall@10 {row['recall@10']:.3f}"
    )


def _forget_targets(file: Path) -> None:
    shutil.rmtree(f"{file}-edge", ignore_errors=True)
    with Memory.open(file, embedder=None) as memory, memory._store.write() as db:
        for target in outbox.targets(db):
            outbox.drop(db, target.id)


def _child(work: str, way: tuple[str, str, str, str, bool], arguments: argparse.Namespace) -> dict[str, Any]:
    name, vectors, keyword, kept, _ = way
    settings = {"TWOFOLD_VECTORS": vectors, "TWOFOLD_KEYWORD": keyword, "TWOFOLD_QUANTIZATION": kept}
    command = [sys.executable, "-m", "benchmarks.scale", "--child", work, "--way", name]
    command += ["--db", str(arguments.db), "--episodes", str(arguments.episodes)]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    main()
