"""Kill -9 while words and vectors are delivered: python -m benchmarks.chaos_delivery [--rounds 50] [--seed N]

A process adds, edits and forgets in a store whose vectors and words are found by Qdrant Edge, and is killed at a random
moment. Then the store is opened again, all is delivered, and the file and the engine are compared both ways: no point
may lack, none may be left over, and what is found must be what the file alone finds. In a second run every process also
has the index of the vectors built anew by a process of its own, which is killed as well in every other round.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from benchmarks import chaos
from twofold import Memory, Scope
from twofold.embed.hashing import HashEmbedder
from twofold.engines import courier, replica
from twofold.engines.replica import Replica
from twofold.errors import EngineError
from twofold.keyword.fts5 import Fts5Index
from twofold.store import outbox
from twofold.text import query_terms
from twofold.vectors.exact import ExactIndex

SETTINGS = {"TWOFOLD_VECTORS": "edge", "TWOFOLD_KEYWORD": "qdrant"}
FEW = 50  # points outside the index, of however many, from which on it is built anew, where that is what is tried
PATIENCE = 60.0  # seconds for a delivery or a building that takes a small part of one
SAMPLE = 20  # texts that are searched for after each kill
PAGE = 1_000

WRITER = """
import random, sys
from twofold import Memory, Message
from twofold.embed.hashing import HashEmbedder
from twofold.engines import courier, replica
replica.FEW, replica.GROWN, seed = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
courier.TICK, courier.TIDY, courier.AGAIN = 0.05, 0.05, 0.2
chance = random.Random(seed)
with Memory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    known, number = [], 0
    while True:
        kind = chance.choice("aaiieef")
        if kind == "a" or len(known) < 5:
            known.append(memory.add(f"added w{seed} n{number}", session=f"s{number % 7}", project="p").id)
        elif kind == "i":
            memory.import_([Message(f"imported w{seed} n{number} m{n}", session=f"t{n % 5}") for n in range(40)])
        elif kind == "e":
            memory.edit(chance.choice(known), f"edited w{seed} n{number}")
        elif number % 40 == 39:
            memory.forget(session="t3")
        else:
            memory.forget(episode=known.pop(chance.randrange(len(known))))
        running = memory._indexes.courier._building.get("vectors")
        print(number, running.pid if running and running.poll() is None else 0, flush=True)
        number += 1
"""


@dataclass(frozen=True, slots=True)
class Killed:
    """How far a writer came, and the process that was building an index for it, if one was."""

    writes: int
    builder: int | None


def main() -> None:
    """Parse the arguments, run the rounds, and end with 1 where the file and the engine differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    os.environ.update(SETTINGS)
    differing = sum(rounds(arguments.rounds, arguments.seed, built) for built in (False, True))
    print(f"{2 * arguments.rounds} kills, {differing} with a difference between file and engine", flush=True)
    sys.exit(1 if differing else 0)


def rounds(count: int, seed: int, built: bool) -> int:
    """Kill so many writers of one store, one after the other; after how many kills something differed."""
    chance, differing, builders = random.Random(seed), 0, 0
    if built:
        replica.FEW, replica.GROWN = FEW, 0.0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chaos.db"
        for number in range(count):
            killed = kill(file, chance.uniform(0.0, 1.0 if built else 1.5), seed * count + number, built)
            if killed.builder and number % 2:
                with suppress(ProcessLookupError):
                    os.kill(killed.builder, signal.SIGKILL)
                    builders += 1
            faults, state = verify(file)
            differing += bool(faults)
            name = "built apart" if built else "delivered"
            print(f"{name} {number + 1}: {killed.writes:,} writes, {state}; {faults or 'all agree'}", flush=True)
    if built:
        print(f"{builders} processes that built an index were killed as well", flush=True)
    return differing


def kill(file: Path, after: float, seed: int, built: bool) -> Killed:
    """Run a writer and kill it `after` seconds past its first word, or past the start of a process that builds."""
    command = [sys.executable, "-c", WRITER, str(file), str(replica.FEW), str(replica.GROWN), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = writer.stdout.readline()
        while built and last.endswith(" 0\n"):
            last = writer.stdout.readline()
        timer = threading.Timer(after, writer.kill)
        timer.start()
        for line in writer.stdout:
            last = line if line.endswith("\n") else last
        timer.cancel()
    number, builder = last.split()
    return Killed(int(number) + 1, int(builder) or None)


def verify(file: Path) -> tuple[str, str]:
    """What differs once all is delivered, empty where nothing does; and how much there is."""
    with quick(), Memory.open(file, embedder=HashEmbedder()) as memory:
        state = chaos.agree(memory)
        left = waiting(memory)
        settle(memory)
        faults = [
            f"{kind}: {len(lack)} lack, {len(extra)} left over" for kind, (lack, extra) in differences(memory).items()
        ]
        faults += unfound(memory)
        faults += [finding.problem for finding in memory.doctor().findings]
    return "; ".join(faults), f"{state.episodes:,} episodes, {left:,} points still to be told"


@contextmanager
def quick() -> Iterator[None]:
    """Look for what is to be built and swept more often than a user's process does."""
    before = courier.TICK, courier.AGAIN
    courier.TICK, courier.AGAIN = 0.05, 0.2
    yield
    courier.TICK, courier.AGAIN = before


def settle(memory: Memory) -> None:
    """Wait until all is delivered and no index is to be built any more. Raises AssertionError after PATIENCE."""
    last = time.monotonic() + PATIENCE
    while not is_settled(memory):
        assert time.monotonic() < last, f"not all was delivered: {getattr(memory._indexes.courier, 'problem', None)}"
        time.sleep(0.02)


def is_settled(memory: Memory) -> bool:
    """Whether every index serves, has nothing more to be told, is built as far as it is to be, and nothing is left."""
    try:
        grown = any(one.wants_index() for one in memory._indexes.replicas)
        return is_delivered(memory) and not grown and is_swept(memory)
    except EngineError:
        return False


def is_swept(memory: Memory) -> bool:
    """Whether the engine has no collection that belongs to no index of the file."""
    with memory._store.read() as db:
        known = {target.collection for target in outbox.targets(db)}
    return all(set(one.engine.collections()) <= known for one in memory._indexes.replicas)


def is_delivered(memory: Memory) -> bool:
    """Whether every index outside the file serves and has nothing more to be told."""
    with memory._store.read() as db:
        by_replica = [one.targets(db)[:1] for one in memory._indexes.replicas]
        return all(found and found[0].serves and not outbox.lag(db, found[0].id)[0] for found in by_replica)


def waiting(memory: Memory) -> int:
    """How many points the indexes outside the file have still to be told."""
    with memory._store.read() as db:
        return sum(outbox.lag(db, target.id)[0] for target in outbox.targets(db))


def differences(memory: Memory) -> dict[str, tuple[set[int], set[int]]]:
    """By sort of index: what the engine lacks, and what it has that the file has not."""
    result = {}
    for one in memory._indexes.replicas:
        with memory._store.read() as db:
            there, held = points_of_file(db, one), points_of_engine(db, one)
        if there != held:
            result[str(one.kind)] = there - held, held - there
    return result


def points_of_file(db: apsw.Connection, of: Replica) -> set[int]:
    """The points that an index has to have."""
    if of.kind == "words":
        return {row[0] for row in db.execute("SELECT id FROM keyword_docs WHERE own > 0")}
    model = of.targets(db)[0].model
    return {row[0] for row in db.execute("SELECT id FROM vectors WHERE model_id = ?", (model,))}


def points_of_engine(db: apsw.Connection, of: Replica) -> set[int]:
    """The points that the serving index has."""
    points = of.open(of.targets(db)[0])
    found: list[int] = []
    while page := points.ids(found[-1] if found else 0, PAGE):
        found += page
    assert points.count() == len(found) == len(set(found)), "what is counted is not what is listed"
    return set(found)


def unfound(memory: Memory) -> list[str]:
    """Texts that are not found by word, or by meaning, as the file alone finds them."""
    embedder, faults = HashEmbedder(), []
    words, meanings = Fts5Index(memory._store), ExactIndex(memory._store, embedder.info)
    with memory._store.read() as db:
        texts = [row[0] for row in db.execute("SELECT content FROM episodes ORDER BY id")]
    for text in random.Random(len(texts)).choices(texts, k=SAMPLE) if texts else []:
        terms = query_terms(text)
        by_word = [index.search(terms, Scope("all"), (), 1).ranking for index in (memory._keyword, words)]
        assert memory._vectors is not None
        vector = embedder.embed_query(text)
        by_meaning = [index.prepare(Scope("all"), (), 1)(vector).ranking[0][1] for index in (memory._vectors, meanings)]
        if by_word[0] != by_word[1] or abs(by_meaning[0] - by_meaning[1]) > 1e-6:
            faults.append(f"{text!r} is found otherwise than in the file")
    return faults


if __name__ == "__main__":
    main()
