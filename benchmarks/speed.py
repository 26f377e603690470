"""Speed and size: python -m benchmarks.speed [--episodes 100000] [--db FILE] [--queries 200]

Imports a made-up history with the bundled embedder, then measures adds, recalls, memory, file and cold start.
`--db` keeps the store, and a second run takes it as it is.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path

from twofold import Memory, fusion
from twofold.embed.minilm import MiniLM
from twofold.synthetic import History

PEER_TEXTS = 2000


def main() -> None:
    """Parse the arguments and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--db", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        file = arguments.db or Path(scratch) / "speed.db"
        fuse()
        bulk(file, arguments.episodes)
        with Memory.open(file) as memory:
            recalls(memory, arguments.episodes, arguments.queries)
            adds(memory)
            state = memory.status()
            print(f"file                 {state.bytes / 1e6:8.1f} MB for {state.episodes:,} episodes")
            print(f"resident, at most    {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.1f} MB")
        cold(file)


def fuse() -> None:
    """Fusing 2 x 100 ids against a plain dict loop."""
    one, two = list(range(100)), list(range(50, 150))[::-1]

    def plain() -> list[tuple[int, float]]:
        scores: dict[int, float] = {}
        for ranking in (one, two):
            for rank, id_ in enumerate(ranking, 1):
                scores[id_] = scores.get(id_, 0.0) + 1 / (60 + rank)
        return sorted(scores.items(), key=lambda item: -item[1])

    def micros(work: Callable[[], object]) -> float:
        return min(timeit.repeat(work, number=2000, repeat=9)) / 2000 * 1e6

    loop, ours, ten = (
        micros(plain),
        micros(lambda: fusion.rrf([one, two])),
        micros(lambda: fusion.rrf([one, two], limit=10)),
    )
    print(f"fuse 2 x 100 ids     {ours:8.1f} us all, {ten:.1f} us the best ten; plain dict loop {loop:.1f} us")


def bulk(file: Path, episodes: int) -> None:
    """Import, with the encoder's own throughput on a part of the same texts beside it."""
    history = list(History().messages(episodes))
    with Memory.open(file) as memory:
        if memory.status().episodes >= episodes:
            return
        embedder = MiniLM()
        texts = [message.content for message in history[:PEER_TEXTS]]
        embedder.embed_documents(texts[:100])
        encoder = len(texts) / seconds(lambda: embedder.embed_documents(texts))
        took = seconds(lambda: memory.import_(history))
    rate = episodes / took
    print(f"bulk import          {rate:8.0f} episodes/s, {took:.0f} s; encoder {encoder:.0f}/s: {rate / encoder:.0%}")


def recalls(memory: Memory, episodes: int, queries: int) -> None:
    """Recall with the query's embedding, in ten sessions and in the whole store."""
    by_name = {session.name: session.id for session in memory.sessions()}
    asked = questions(by_name, episodes, queries)
    others = sorted(by_name.values())
    print(
        f"first recall         {1000 * seconds(lambda: memory.recall(asked[0][0])):8.1f} ms (loads model and vectors)"
    )
    scopes: dict[str, Callable[[int], list[int] | None]] = {
        "ten sessions": lambda own: ten_sessions(own, others),
        "whole store": lambda own: None,
    }
    for name, scope in scopes.items():
        spent, stages = [], []
        for question, own in asked:
            start = time.perf_counter()
            found = memory.recall(question, sessions=scope(own), explain=True)
            spent.append((time.perf_counter() - start) * 1000)
            stages.append(found.explanation.milliseconds)  # type: ignore[union-attr]
        parts = ", ".join(f"{stage} {statistics.median(s[stage] for s in stages):.2f}" for stage in stages[0])
        print(
            f"recall, {name:12} {statistics.median(spent):8.2f} ms p50, {percentile(spent, 0.95):.2f} ms p95 ({parts})"
        )


def questions(sessions: dict[str, int], episodes: int, count: int) -> list[tuple[str, int]]:
    """Questions about messages from all over the history, each with the id of the session that it is about."""
    history = History()
    messages = list(history.messages(episodes))
    return [(history.question(m.content), sessions[m.session]) for m in messages[:: max(1, episodes // count)]][:count]


def ten_sessions(own: int, others: list[int]) -> list[int]:
    """A session and nine of the others, from all over the store."""
    return [own, *others[own % 50 :: max(1, len(others) // 9)][:9]]


def adds(memory: Memory) -> None:
    """Single durable adds."""
    spent = [
        1000
        * seconds(lambda n=n: memory.add(f"We met Dora at the harbour at {n} o'clock to talk about the mooring fee."))
        for n in range(100)
    ]
    print(f"one durable add      {statistics.median(spent):8.2f} ms p50, {percentile(spent, 0.95):.2f} ms p95")


def cold(file: Path) -> None:
    """A recall from the shell, and importing the package."""
    recall = [sys.executable, "-c", "from twofold.cli import main; main()", "recall", "--db", str(file), "mooring fee"]
    scoped = [*recall, "--project", "project-3"]
    for name, command in (
        ("cold recall, whole", recall),
        ("cold recall, project", scoped),
        ("python -c pass", [sys.executable, "-c", "pass"]),
        ("import twofold", [sys.executable, "-c", "import twofold"]),
    ):
        runs = [seconds(lambda c=command: subprocess.run(c, check=True, stdout=subprocess.DEVNULL)) for _ in range(7)]
        print(f"{name:20} {statistics.median(runs):8.3f} s")


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def percentile(values: list[float], share: float) -> float:
    """The value that this share of all is not above."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores")
    main()
