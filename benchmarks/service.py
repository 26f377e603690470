"""Speed of the service: python -m benchmarks.service [--episodes 100000] [--clients 32] [--seconds 30] [--db FILE]

Starts `twofold serve` on a copy of the store of benchmarks.speed and asks it over keep-alive connections: one client
alone, many at once, many while a history is imported. Beside it `Memory.recall` called directly in one thread, since
only what was measured in one run can be compared. `--json` prints one object for a program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from http.client import HTTPConnection, HTTPException
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.speed import bulk, percentile, questions, ten_sessions
from twofold import Memory
from twofold.synthetic import History

SERVE = [sys.executable, "-c", "from twofold.cli import main; main()", "serve"]
QUESTIONS = 500
IMPORTED = 10_000  # messages
WARM = 2.0  # seconds that are not counted
STARTED = 60.0  # seconds that the server may take to listen
STOPPED = 60.0  # seconds that it may take to end
PATIENCE = 120.0  # seconds that a client waits for an answer
LONGEST_IMPORT = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process, its port, the file of its log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def connect(self) -> HTTPConnection:
        """A new connection, which is kept alive."""
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def megabytes(self) -> float:
        """What the process holds in memory now; 0 where the system does not say."""
        status = Path(f"/proc/{self.process.pid}/status")
        found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
        return int(found[1]) / 1024 if found else 0.0

    def cpu(self) -> float:
        """Seconds of processor time that the process has used; 0 where the system does not say."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            return 0.0
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """What the clients of one phase saw; times in milliseconds."""

    clients: int
    per_second: float
    p50: float
    p95: float
    p99: float
    longest: float
    errors: int
    cpu: float = 0.0  # of the server, milliseconds a recall; other people's work on the machine changes it least
    megabytes: float = 0.0
    imported_per_second: float = 0.0


def main() -> None:
    """Parse the arguments, run the phases, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--db", type=Path)
    parser.add_argument("--json", action="store_true", dest="as_json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        original = arguments.db or Path(scratch) / "speed.db"
        with redirect_stdout(sys.stderr):  # what --json prints is for a program
            bulk(original, arguments.episodes)
        file = Path(scratch) / "service.db"
        shutil.copyfile(original, file)  # what the phases write shall not be there the next time
        phases = measure(file, arguments.episodes, arguments.clients, arguments.seconds)
    if arguments.as_json:
        print(json.dumps({name: asdict(phase) for name, phase in phases.items()}))
    else:
        print("\n".join(table(phases)))
    if any(phase.errors for phase in phases.values()):
        sys.exit("there were errors")


def measure(file: Path, episodes: int, clients: int, seconds: float) -> dict[str, Measured]:
    """All phases on one store and one server."""
    phases = {}
    with Memory.open(file) as memory:
        asked = recalls(memory, episodes)
        phases["Memory.recall, one thread"] = directly(memory, asked, seconds / 3)
    bodies = [json.dumps(one).encode() for one in asked]
    with running(file, file.parent) as server:
        under_load(server, bodies, clients, lambda: time.sleep(WARM))
        for name, many in (("one client", 1), (f"{clients} clients", clients)):
            phases[name] = under_load(server, bodies, many, lambda: time.sleep(seconds))
        alone = under_load(server, bodies, 0, lambda: bring_in(server, 0))
        phases["import alone"] = alone
        phases[f"{clients} clients and an import"] = under_load(server, bodies, clients, lambda: bring_in(server, 1))
    return phases


def recalls(memory: Memory, episodes: int) -> list[dict[str, object]]:
    """Bodies of POST /recall: in turn ten sessions, the whole store, ten sessions, a project."""
    listed = memory.sessions()
    by_name = {session.name: session.id for session in listed}
    project_of = {session.id: session.project for session in listed}
    others = sorted(by_name.values())
    scopes: list[Callable[[int], dict[str, object]]] = [
        lambda own: {"sessionIds": ten_sessions(own, others)},
        lambda own: {},
        lambda own: {"sessionIds": ten_sessions(own, others)},
        lambda own: {"project": project_of[own]},
    ]
    asked = questions(by_name, episodes, QUESTIONS)
    return [{"query": question} | scope(own) for (question, own), scope in zip(asked, cycle(scopes), strict=False)]


def directly(memory: Memory, asked: Sequence[dict[str, object]], seconds: float) -> Measured:
    """The same recalls from the library, one after the other."""

    def ask(one: dict[str, object]) -> None:
        where: dict[str, Any] = {"sessions": one.get("sessionIds"), "project": one.get("project")}
        memory.recall(str(one["query"]), **where)

    ask(asked[0])
    spent: list[float] = []
    start, used = time.perf_counter(), time.process_time()
    for one in cycle(asked):
        begin = time.perf_counter()
        if begin - start > seconds:
            cpu = (time.process_time() - used) / len(spent) * 1000
            return replace(measured(1, spent, begin - start, 0), cpu=cpu)
        ask(one)
        spent.append((time.perf_counter() - begin) * 1000)
    raise AssertionError("nothing was asked")


@contextmanager
def running(file: Path, scratch: Path) -> Iterator[Server]:
    """The service in a process of its own, ended with the block: gently, or after a minute by force."""
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".log", delete=False) as log:
        process = subprocess.Popen([*SERVE, "--port", "0", "--db", str(file)], stdout=subprocess.DEVNULL, stderr=log)
    try:
        yield Server(process, _port(process, Path(log.name)), Path(log.name))
    finally:
        process.terminate()
        try:
            process.wait(STOPPED)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port, once the log names it and the server answers there."""
    until = time.monotonic() + STARTED
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"serving .* on http://127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=STARTED)
            connection.request("GET", "/health")  # the socket takes it before the app is up
            connection.getresponse().read()
            connection.close()
            return int(found[1])
        time.sleep(0.02)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


def under_load(server: Server, bodies: Sequence[bytes], clients: int, meanwhile: Callable[[], object]) -> Measured:
    """What so many clients see who ask all the while that `meanwhile` takes; what it returns is messages stored."""
    stop, spent, failed = threading.Event(), list[float](), list[str]()
    threads = [
        threading.Thread(target=_client, args=(server, islice(cycle(bodies), number * 37, None), stop, spent, failed))
        for number in range(clients)
    ]
    start, used = time.perf_counter(), server.cpu()
    for thread in threads:
        thread.start()
    try:
        stored = meanwhile()
    finally:
        took, used = time.perf_counter() - start, server.cpu() - used
        stop.set()
        for thread in threads:
            thread.join()
    for sentence in failed[:5]:
        print(sentence, file=sys.stderr)
    rate = stored / took if isinstance(stored, int) else 0.0
    figures = measured(clients, spent, took, len(failed))
    cpu = 0.0 if rate or not spent else used / len(spent) * 1000
    return replace(figures, cpu=cpu, megabytes=server.megabytes(), imported_per_second=rate)


def _client(
    server: Server, bodies: Iterator[bytes], stop: threading.Event, spent: list[float], failed: list[str]
) -> None:
    """One client: asks, reads the whole answer, asks again."""
    connection = server.connect()
    while not stop.is_set():
        start = time.perf_counter()
        try:
            connection.request("POST", "/recall", next(bodies), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            failed.append(f"{type(error).__name__}: {error}")
            connection.close()
            continue
        spent.append((time.perf_counter() - start) * 1000)
        if answer.status != 200 or b'"score"' not in content or b'"degraded":{}' not in content:
            failed.append(f"{answer.status}: {content[:200]!r}")
    connection.close()


def bring_in(server: Server, part: int) -> int:
    """Import new messages through the service; how many."""
    lines = [
        json.dumps(
            {
                "content": message.content,
                "role": message.role,
                "session": message.session,
                "project": f"brought in {part}",
                "time": message.time.isoformat() if message.time else None,
                "source": message.source,
            }
        )
        for message in History(seed=11 + part).messages(IMPORTED)
    ]
    connection = HTTPConnection("127.0.0.1", server.port, timeout=LONGEST_IMPORT)
    connection.request("POST", "/import?kind=jsonl", "\n".join(lines).encode())
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    if answer.status != 200 or told["added"] != IMPORTED or told["waiting"]:
        raise RuntimeError(f"the import went wrong: {answer.status} {told}")
    return IMPORTED


def measured(clients: int, spent: list[float], took: float, errors: int) -> Measured:
    """The figures of times in milliseconds, seen in `took` seconds."""
    times = spent or [0.0]
    return Measured(
        clients,
        len(spent) / took,
        statistics.median(times),
        percentile(times, 0.95),
        percentile(times, 0.99),
        max(times),
        errors,
    )


def table(phases: dict[str, Measured]) -> list[str]:
    """The figures for a person, and the two ratios that can be compared between machines."""
    lines = [f"{'':30} recalls/s   p50 ms   p95 ms   p99 ms   max ms  errors  CPU ms  RSS MB  imported/s"]
    for name, one in phases.items():
        times = "".join(f"{value:9.1f}" for value in (one.p50, one.p95, one.p99, one.longest))
        rest = f"{one.errors:8}{one.cpu:8.1f}{one.megabytes:8.0f}{one.imported_per_second:12.0f}"
        lines.append(f"{name:30} {one.per_second:9.1f}{times}{rest}")
    direct, single, many = list(phases.values())[:3]
    lines.append(f"all clients at once to the library in one thread: {many.per_second / direct.per_second:.2f}")
    lines.append(f"one client's p50 to the library's: {single.p50 / direct.p50:.2f}")
    return lines


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores", file=sys.stderr)
    main()
