"""Kill -9 during add, import, edit and forget: python -m benchmarks.chaos [--rounds 20] [--seed N]

A process writes and says what is confirmed; it is killed at a random moment; then everything confirmed must be
there and be found by words and by meaning, and the file and its indexes must agree.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from twofold import Memory, Message, Scope
from twofold.embed.hashing import HashEmbedder
from twofold.text import query_terms
from twofold.types import Status

IMPORTED = 60_000

ADD = """
import sys
from twofold import Memory
from twofold.embed.hashing import HashEmbedder
with Memory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    number = memory.status().episodes
    while True:
        memory.add(f"confirmed word{number} among others", session=f"s{number % 5}")
        print(number, flush=True)
        number += 1
"""
CHANGE = """
import sys
from twofold import Memory
from twofold.embed.hashing import HashEmbedder
with Memory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    number = 0
    while True:
        added = memory.add(f"first word{number}", session=f"s{number % 5}")
        if number % 2:
            memory.edit(added.id, f"second word{number}")
        if number % 3 == 2:
            memory.forget(episode=added.id)
        if number % 50 == 49:
            memory.forget(session=f"s{number % 4}")
        print(number, flush=True)
        number += 1
"""
IMPORT = """
import sys
from benchmarks.chaos import history
from twofold import Memory
from twofold.embed.hashing import HashEmbedder
with Memory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    memory.import_(history(), progress=lambda taken: print(taken - 1, flush=True))
"""


def main() -> None:
    """Parse the arguments and run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    for name, script in (("add", ADD), ("import", IMPORT)):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "chaos.db"
            for number in range(arguments.rounds):
                if name == "import":
                    file = Path(folder) / f"chaos-{number}.db"
                confirmed = killed(script, file, chance.uniform(0.0, 1.5))
                print(f"{name} {number + 1}: {verify(file, confirmed)}", flush=True)
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            confirmed = killed(CHANGE, Path(folder) / "chaos.db", chance.uniform(0.0, 1.5))
            with Memory.open(Path(folder) / "chaos.db", embedder=HashEmbedder()) as memory:
                agree(memory)
            print(f"edit and forget {number + 1}: {confirmed + 1:,} rounds, all parts agree", flush=True)


def history() -> list[Message]:
    """What the import brings in, always the same."""
    return [Message(f"confirmed word{n} among others", session=f"s{n // 50}", source=str(n)) for n in range(IMPORTED)]


def killed(script: str, file: Path, after: float) -> int:
    """Run a writer, kill it `after` seconds past its first word; the last number that it confirmed."""
    with subprocess.Popen([sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = writer.stdout.readline()
        timer = threading.Timer(after, writer.kill)
        timer.start()
        for line in writer.stdout:
            last = line if line.endswith("\n") else last
        timer.cancel()
    return int(last)


def verify(file: Path, confirmed: int) -> str:
    """Raise AssertionError unless all up to the confirmed number is there and every part of the file agrees."""
    embedder = HashEmbedder()
    with Memory.open(file, embedder=embedder) as memory:
        state = agree(memory)
        assert state.episodes >= confirmed + 1, f"{confirmed + 1} confirmed, {state.episodes} there"
        for number in {0, confirmed, *random.Random(confirmed).choices(range(confirmed + 1), k=50)}:
            word = f"word{number}"
            by_word = [id_ for id_, _ in memory._keyword.search(query_terms(word), Scope("all"), (), 1).ranking]
            (hit,) = memory.show(episode=by_word[0])
            assert hit.content == f"confirmed {word} among others", f"{word} is not found"
            assert memory._vectors is not None
            near = memory._vectors.score(embedder.embed_query(hit.content), by_word)[by_word[0]]
            assert near > 0.99, f"{word} has no vector of its own"
    return f"{confirmed + 1:,} confirmed, {state.episodes:,} there, all found both ways, all parts agree"


def agree(memory: Memory) -> Status:
    """Raise AssertionError unless every episode has its entries and its vector, and nothing else has any."""
    # What is outside the file is still told what was written before the kill.
    found = [finding for finding in memory.doctor().findings if finding.part != "externalIndex"]
    assert not found, found
    state = memory.status()
    assert state.waiting == 0, f"{state.waiting} without a vector"
    with memory._store.read() as db:
        indexed = db.execute("SELECT count(*) FROM keyword_docs JOIN episodes USING (id)").get
        embedded = db.execute("SELECT count(*) FROM vectors JOIN episodes ON episodes.id = episode_id").get
        for table, held in (("keyword", indexed), ("keyword_docs", indexed), ("vectors", embedded)):
            assert held == state.episodes == db.execute(f"SELECT count(*) FROM {table}").get, table
    return state


if __name__ == "__main__":
    main()
