"""Measures recall on the machine at hand, in made-up stores of any size.

Messages are stored with their rows, their index entries and drawn vectors; queries and single adds are embedded by the
bundled model.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median

from twofold.embed.minilm import MiniLM
from twofold.errors import EmbedderError, InvalidInput, StoreError
from twofold.memory import Memory
from twofold.settings import SPECS
from twofold.synthetic import Drawn, History
from twofold.types import Episode, Explanation

LEAST_EPISODES, MOST_EPISODES = 200, 2_000_000
MOST_QUERIES = 10_000
MOST_SEED = 2**32 - 1

FORM = 1  # of the stores that are made: a kept one of another form is not taken for one of this
CHUNK = 20_000  # messages that are made before they are imported, so that making them is not measured
SESSIONS = 10  # of the recall in several sessions
WARM_UP = 5  # questions before the clock starts: the first loads the model and the vectors
ADDS = 50
STARTS = 3  # of a new process, of which the fastest counts: the others met something else
ADDED = "added by bench"  # the session of the single adds, which are taken out again

Progress = Callable[[int], None]
Call = Callable[[Episode, str], Explanation | None]


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of one kind of call: the median, the 95th percentile, and the medians of its stages."""

    p50: float
    p95: float
    stages: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a store of one size showed.

    `import_rate` is in messages a second, None where the store was there already. `recalls` are by scope. `start` is
    from the opening in a new process to its first answer, in milliseconds; `resident` the most memory that this
    process had, in bytes, None where the system does not tell. `bytes` is the file's size.
    """

    episodes: int
    import_rate: float | None
    recalls: Mapping[str, Spent]
    search: Spent
    context: Spent
    add: Spent
    start: float
    resident: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures hold for."""

    processor: str
    cores: int
    system: str
    python: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was measured."""

    machine: Machine
    seed: int
    queries: int
    stores: tuple[Figures, ...]


def machine() -> Machine:
    """The machine at hand."""
    return Machine(_processor(), os.cpu_count() or 1, platform.system(), platform.python_version())


def _processor() -> str:
    listed = Path("/proc/cpuinfo")  # Linux has the name nowhere else
    for line in listed.read_text(encoding="utf-8").splitlines() if listed.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check(sizes: Sequence[int], queries: int, seed: int) -> None:
    """Raise InvalidInput for what cannot be measured, before any of it is."""
    for what, value, least, most in (
        *(("episodes", size, LEAST_EPISODES, MOST_EPISODES) for size in sizes),
        ("queries", queries, 1, MOST_QUERIES),
        ("seed", seed, 0, MOST_SEED),
    ):
        if not least <= value <= most:
            raise InvalidInput(f"{what} is {value}; give a whole number from {least} to {most}")


def steps(episodes: int, queries: int) -> int:
    """How far `progress` will count."""
    return episodes + 5 * queries + ADDS + STARTS


def measure(
    episodes: int, queries: int, seed: int, folder: Path | None = None, *, progress: Progress | None = None
) -> Figures:
    """Make a store of so many episodes and measure it; the same seed makes the same store and questions.

    The store is thrown away, or kept in `folder` for the next time. Raises InvalidInput, StoreError, EmbedderError.
    """
    check([episodes], queries, seed)
    with tempfile.TemporaryDirectory() as scratch:
        file, rate = _stored(episodes, seed, folder or Path(scratch), progress)
        ticks = count(episodes + 1)
        tick = (lambda: progress(next(ticks))) if progress else (lambda: None)
        with Memory.open(file) as memory:
            # As if nothing had been set anywhere: figures are compared across machines.
            memory.settings({name: spec.default for name, spec in SPECS.items() if not spec.at_start})
            asked = questions(memory, episodes, queries, seed)
            calls = _calls(memory, asked, tick)
            size = memory.status().bytes
            added = _adds(memory, tick)
        start, resident = _first_recall(file, asked[0][1], tick)
    search, context = calls.pop("search"), calls.pop("context")
    return Figures(episodes, rate, calls, search, context, added, start, resident, size)


def _stored(episodes: int, seed: int, folder: Path, progress: Progress | None) -> tuple[Path, float | None]:
    """The store, and the messages that it took a second; it gets its name once it is whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"'{folder}' cannot be made a folder ({error.strerror}); name another") from None
    file = folder / f"bench-{FORM}-{seed}-{episodes}.db"
    if file.exists():
        return file, None
    half = file.with_suffix(".half")
    try:
        for part in folder.glob(f"{half.name}*"):  # of a run that was stopped
            part.unlink()
        rate = _import(half, episodes, seed, progress)
        half.rename(file)
    except OSError as error:
        raise StoreError(f"'{file}' cannot be made ({error.strerror}); name another folder") from None
    return file, rate


def _import(file: Path, episodes: int, seed: int, progress: Progress | None) -> float:
    """Fill a new store; the messages that it took a second."""
    history = History(seed).messages(episodes)
    taken, spent = 0, 0.0

    def tell(done: int) -> None:
        if progress:
            progress(taken + done)

    with Memory.open(file, embedder=Drawn(MiniLM(), seed)) as memory:
        while chunk := list(islice(history, CHUNK)):
            start = time.perf_counter()
            memory.import_(chunk, progress=tell)
            spent += time.perf_counter() - start
            taken += len(chunk)
    return taken / spent


def questions(memory: Memory, episodes: int, queries: int, seed: int) -> list[tuple[Episode, str]]:
    """Messages from all over a store that was made with so many, each with a question of some of its words."""
    history = History(seed)
    ids = [1 + episodes * number // queries for number in range(queries)]
    random.Random(seed).shuffle(ids)  # so that neighbours are not asked about one after the other
    found = [memory.show(episode=id_)[0] for id_ in ids]
    return [(episode, history.question(episode.content)) for episode in found]


def _calls(memory: Memory, asked: Sequence[tuple[Episode, str]], tick: Callable[[], None]) -> dict[str, Spent]:
    """Every kind of call with every question, after a few that are not measured."""
    for _, text in asked[:WARM_UP]:
        for part, why in memory.recall(text).degraded.items():
            raise EmbedderError(f"recall cannot be measured, its {part} part failed: {why}")
    return {name: _spent(call, asked, tick) for name, call in _kinds(memory).items()}


def _kinds(memory: Memory) -> dict[str, Call]:
    """What is measured of a Memory, each from an episode and a question about it."""
    sessions = sorted(session.id for session in memory.sessions())

    def several(own: int) -> list[int]:
        """A session and others from all over the store."""
        place = bisect_left(sessions, own)
        return [sessions[(place + len(sessions) * step // SESSIONS) % len(sessions)] for step in range(SESSIONS)]

    def recall(text: str, sessions: list[int] | None = None, project: str | None = None) -> Explanation | None:
        return memory.recall(text, sessions=sessions, project=project, explain=True).explanation

    def search(about: Episode, text: str) -> None:
        memory.search(text)

    def context(about: Episode, text: str) -> Explanation | None:
        return memory.context(text, session=about.session, project=about.project).explanation

    return {
        "tenSessions": lambda about, text: recall(text, sessions=several(about.session_id)),
        "oneProject": lambda about, text: recall(text, project=about.project),
        "wholeStore": lambda about, text: recall(text),
        "search": search,
        "context": context,
    }


def _spent(call: Call, asked: Sequence[tuple[Episode, str]], tick: Callable[[], None]) -> Spent:
    times, stages = [], []
    for about, text in asked:
        start = time.perf_counter()
        told = call(about, text)
        times.append(1000.0 * (time.perf_counter() - start))
        if told:
            stages.append(told.milliseconds)
        tick()
    names = {name for one in stages for name in one}
    return _summary(times, {name: median(one.get(name, 0.0) for one in stages) for name in names})


def _adds(memory: Memory, tick: Callable[[], None]) -> Spent:
    """Single durable adds, embedded by the model; the store is left without them."""
    times = []
    try:
        for number in range(ADDS):
            text = f"We met Dora at the harbour at {number} o'clock to talk about the mooring fee."
            start = time.perf_counter()
            memory.add(text, session=ADDED)
            times.append(1000.0 * (time.perf_counter() - start))
            tick()
    finally:
        if memory.catalog.find_session(ADDED):
            memory.forget(session=ADDED)
    return _summary(times, {})


def _first_recall(file: Path, question: str, tick: Callable[[], None]) -> tuple[float, int | None]:
    """Opening to first answer in a new process, in milliseconds, and the most memory that it had, in bytes."""
    script = "import sys; from twofold import bench; sys.stdout.write(bench.first_recall(*sys.argv[1:]))"
    told = []
    for _ in range(STARTS):
        done = subprocess.run(
            [sys.executable, "-c", script, str(file), question], capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
            raise StoreError(f"a new process could not recall from {file} ({last}); is there memory enough for it?")
        told.append(json.loads(done.stdout))
        tick()
    return min(one["milliseconds"] for one in told), max((one["resident"] for one in told), key=lambda one: one or 0)


def first_recall(file: str, question: str) -> str:
    """Open a store and ask it; the milliseconds until the answer and the most bytes of memory, as JSON."""
    start = time.perf_counter()
    with Memory.open(file) as memory:
        memory.recall(question)
        took = 1000.0 * (time.perf_counter() - start)
    return json.dumps({"milliseconds": took, "resident": _resident()})


def _resident() -> int | None:
    """The most memory that this process had, in bytes."""
    # The peak that getrusage tells on Linux includes that of the process that started this one.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _summary(times: Sequence[float], stages: Mapping[str, float]) -> Spent:
    return Spent(median(times), sorted(times)[min(len(times) - 1, int(0.95 * len(times)))], stages)
