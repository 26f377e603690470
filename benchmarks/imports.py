"""A large history brought in, killed on the way, and compared: python -m benchmarks.imports [--messages 100000]

Makes a ChatGPT export of made-up conversations, imports it by `twofold import --no-embed` in a process of its own, and
prints messages a second and that process's peak of memory. Then the import is killed (kill -9) at random moments,
begun again each time, and must end in a store that holds the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twofold import Memory
from twofold.synthetic import SESSION, History

IMPORT = [sys.executable, "-c", "from twofold.cli import main; main()", "import"]


@dataclass(frozen=True, slots=True)
class Run:
    """How an import in a process of its own ended: seconds, those of a processor, peak of memory, exit status."""

    seconds: float
    busy: float
    peak: int
    status: int


def main() -> None:
    """Parse the arguments, import undisturbed, then disturbed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        export, whole, killed = (Path(folder) / name for name in ("conversations.json", "whole.db", "killed.db"))
        write(export, arguments.messages)
        print(f"{arguments.messages:,} messages, {export.stat().st_size / 1e6:,.0f} MB", flush=True)
        run = imported(export, whole)
        told("import", arguments.messages, run)
        print(f"file:   {whole.stat().st_size / 1e6:,.0f} MB", flush=True)
        told("again", arguments.messages, imported(export, whole))
        chance = random.Random(arguments.seed)
        for number in range(arguments.kills):
            after = chance.uniform(0.5, run.seconds / max(arguments.kills, 1) + 0.5)
            ended = imported(export, killed, after)
            print(f"kill {number + 1}: after {ended.seconds:.1f} s, status {ended.status}", flush=True)
        assert imported(export, killed).status == 0
        assert digest(whole) == digest(killed), "the two stores differ"
        print("equal to the undisturbed one", flush=True)


def told(name: str, count: int, run: Run) -> None:
    """Print what an import took; raises where it failed."""
    assert run.status == 0, run
    rate, alone = count / run.seconds, count / run.busy
    print(
        f"{name}: {rate:,.0f} messages/s ({alone:,.0f} a second of processor), peak {run.peak / 1e6:.0f} MB", flush=True
    )


def write(path: Path, count: int) -> None:
    """Write an export of `count` messages, conversation by conversation."""
    with path.open("w", encoding="utf-8") as file:
        for number, conversation in enumerate(conversations(count)):
            file.write(("," if number else "[") + json.dumps(conversation, ensure_ascii=False))
        file.write("]")


def conversations(count: int) -> Iterator[dict[str, object]]:
    """Conversations as ChatGPT exports them, of SESSION messages each, with the nodes that nobody sees."""
    made = History().messages(count)
    number = 0
    while messages := [message for _, message in zip(range(SESSION), made, strict=False)]:
        seed = hashlib.sha256(str(number).encode()).hexdigest()
        name = f"{seed[:8]}-{seed[8:12]}-{seed[12:16]}-{seed[16:20]}-{seed[20:32]}"
        ids = [f"{name[:19]}-{place:04x}-{name[24:]}" for place in range(len(messages) + 1)]
        mapping: dict[str, object] = {
            ids[0]: {"id": ids[0], "message": None, "parent": None, "children": [ids[1]]},
        }
        for place, message in enumerate(messages, start=1):
            mapping[ids[place]] = {
                "id": ids[place],
                "message": {
                    "id": ids[place],
                    "author": {"role": message.role, "name": None, "metadata": {}},
                    "create_time": message.time.timestamp() if message.time else None,
                    "update_time": None,
                    "content": {"content_type": "text", "parts": [message.content]},
                    "status": "finished_successfully",
                    "end_turn": message.role == "assistant",
                    "weight": 1.0,
                    "metadata": {"model_slug": "gpt-4o", "timestamp_": "absolute", "request_id": seed[:32]},
                    "recipient": "all",
                    "channel": None,
                },
                "parent": ids[place - 1],
                "children": ids[place + 1 : place + 2],
            }
        yield {
            "title": f"Conversation {number}",
            "create_time": 1_577_836_800.0 + number,
            "update_time": None,
            "mapping": mapping,
            "current_node": ids[-1],
            "conversation_id": name,
            "id": name,
        }
        number += 1


def imported(export: Path, db: Path, kill_after: float | None = None) -> Run:
    """Import in a process of its own, killed after some seconds if it lives so long."""
    start = time.perf_counter()
    child = subprocess.Popen([*IMPORT, str(export), "--no-embed", "--db", str(db)], stdout=subprocess.DEVNULL)
    if kill_after is not None:
        try:
            child.wait(kill_after)
        except subprocess.TimeoutExpired:
            child.kill()
    _, status, usage = os.wait4(child.pid, 0)
    took, busy = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    return Run(took, busy, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))


def digest(db: Path) -> str:
    """What a store holds, but for its own numbers; raises unless its parts agree."""
    found = hashlib.sha256()
    with Memory.open(db, embedder=None) as memory:
        assert memory.doctor().is_healthy
        with memory._store.read() as rows:
            for row in rows.execute(
                """SELECT p.name, s.name, s.title, e.role, e.content, e.time, e.metadata, e.source, d.own, d.hashes
                FROM episodes e JOIN sessions s ON s.id = e.session_id LEFT JOIN projects p ON p.id = s.project_id
                LEFT JOIN keyword_docs d ON d.id = e.id ORDER BY p.name, s.name, e.time, e.source"""
            ):
                found.update(repr(row).encode())
    return found.hexdigest()


if __name__ == "__main__":
    main()
