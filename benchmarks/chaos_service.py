"""Kill -9 and SIGTERM of the service under load: python -m benchmarks.chaos_service [--rounds 6] [--seed N]

Clients add, edit, delete, import and recall over HTTP. The server is killed at a random moment and started again:
every write that was answered must be there by id, by words and by meaning, every answered delete gone, what was in
flight all there or not at all. Then it is asked to stop (SIGTERM): what it had begun must be answered.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote

from benchmarks.chaos import agree
from benchmarks.service import Server, running
from twofold import Memory
from twofold.http.server import GRACE

WRITERS, READERS = 6, 4
IMPORTED = 300  # messages of each import
NAMES = "alder birch cedar hazel maple rowan willow aspen larch spruce".split()
BY_MEANING = {"semanticWeight": 1, "keywordWeight": 0}
NOT_ANSWERED = (OSError, HTTPException)


@dataclass(slots=True)
class Ledger:
    """What one client was told, and what it asked for last. A text that may be None is that of no episode."""

    told: dict[int, str | None] = field(default_factory=dict)  # by id; None: deleted
    open_: dict[int, str | None] = field(default_factory=dict)  # edits and deletes without an answer
    lost: list[str] = field(default_factory=list)  # new texts without an answer
    imported: list[tuple[str, bool]] = field(default_factory=list)  # sessions of imports, and whether answered
    asked: set[str] = field(default_factory=set)  # ids of all requests
    answered: set[str] = field(default_factory=set)  # of those with a whole answer
    faults: list[str] = field(default_factory=list)


class Client:
    """One client of one round, which writes down what it was told until the server is gone."""

    def __init__(self, server: Server, name: str, ending: threading.Event | None = None) -> None:
        self.ledger = Ledger()
        self._ending = ending
        self._server = server
        self._connection = server.connect()
        self._name = name
        self._number = 0

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        """One request; raises one of NOT_ANSWERED where no whole answer comes."""
        self._number += 1
        id_ = f"{self._name}-{self._number}"
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self.ledger.asked.add(id_)
        self._connection.request(method, path, content, {"Content-Type": "application/json", "X-Request-Id": id_})
        answer = self._connection.getresponse()
        got = answer.read()
        self.ledger.answered.add(id_)
        if answer.status >= 300:
            self.ledger.faults.append(f"{method} {path}: {answer.status} {got[:200]!r}")
        return answer.status, json.loads(got)

    def write(self, stop: threading.Event) -> None:
        """Add, edit every second, delete every third."""
        number = 0
        while not stop.is_set():
            number += 1
            text = text_of(f"{self._name}n{number}", number)
            self.ledger.lost.append(text)
            _, made = self.ask("POST", "/episodes", {"content": text, "session": self._name, "project": "chaos"})
            self.ledger.lost.pop()
            id_ = int(made["id"])  # type: ignore[index]
            self.ledger.told[id_] = text
            if number % 2 == 0:
                self._change(id_, text_of(f"{self._name}e{number}", number + 1))
            if number % 3 == 0:
                self._change(id_, None)

    def _change(self, id_: int, text: str | None) -> None:
        self.ledger.open_[id_] = text
        self.ask("PATCH" if text else "DELETE", f"/episodes/{id_}", {"content": text} if text else None)
        self.ledger.told[id_] = self.ledger.open_.pop(id_)

    def bring_in(self, stop: threading.Event) -> None:
        """One import after the other."""
        number = 0
        while not stop.is_set():
            number += 1
            session = f"{self._name}i{number}"
            self.ledger.imported.append((session, False))
            status, _ = self.ask("POST", "/import?kind=jsonl", lines_of(session))
            self.ledger.imported[-1] = (session, status == 200)

    def read(self, stop: threading.Event) -> None:
        """Recalls in turn of everything and of the project."""
        number = 0
        while not stop.is_set():
            number += 1
            query = f"what did {NAMES[number % len(NAMES)]} say of crate {number}?"
            self.ask("POST", "/recall", {"query": query} | ({"project": "chaos"} if number % 2 else {}))

    def run(self, work: Callable[[threading.Event], None], stop: threading.Event) -> None:
        """Work until stopped or until nobody answers."""
        try:
            work(stop)
        except NOT_ANSWERED as error:
            if self._ending and not self._ending.is_set():
                self.ledger.faults.append(f"no answer from a running server: {error!r}")
        finally:
            self._connection.close()


def text_of(word: str, number: int) -> str:
    """A text with a word of its own."""
    return f"{NAMES[number % len(NAMES)]} keeps crate {word} beside the {NAMES[number * 7 % 10]} shelf"


def lines_of(session: str) -> bytes:
    """An import, always the same for a session."""
    return b"\n".join(
        json.dumps(
            {"content": text_of(f"{session}m{n}", n), "session": session, "project": "chaos", "source": str(n)}
        ).encode()
        for n in range(IMPORTED)
    )


def main() -> None:
    """Parse the arguments and run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        file, before = Path(folder) / "chaos.db", list[Ledger]()
        with Memory.open(file) as memory:
            memory.catalog.add_project("chaos")
        for number in range(arguments.rounds):
            ledgers = load(file, f"r{number}", signal.SIGKILL, chance.uniform(0.5, 4.0))
            told = verify(file, ledgers, before, chance)
            print(f"kill -9 of the service {number + 1}: {told}", flush=True)
            before += ledgers
        for number in range(max(1, arguments.rounds // 2)):
            ledgers = load(file, f"t{number}", signal.SIGTERM, chance.uniform(0.5, 3.0))
            told = verify(file, ledgers, before, chance)
            print(f"SIGTERM of the service {number + 1}: all begun requests answered; {told}", flush=True)
            before += ledgers


def load(file: Path, name: str, how: signal.Signals, after: float) -> list[Ledger]:
    """What the clients were told by a server that was ended under their load, `after` seconds from the first answer."""
    ending, stop = threading.Event(), threading.Event()
    with running(file, file.parent) as server:
        clients = [Client(server, f"{name}c{number}", ending) for number in range(WRITERS + READERS + 1)]
        works = [client.write for client in clients[:WRITERS]] + [client.read for client in clients[WRITERS:-1]]
        works.append(clients[-1].bring_in)
        threads = [
            threading.Thread(target=client.run, args=(work, stop)) for client, work in zip(clients, works, strict=True)
        ]
        for thread in threads:
            thread.start()
        time.sleep(after)
        start = time.monotonic()
        ending.set()
        server.process.send_signal(how)
        code = server.process.wait(GRACE + 10)
        took = time.monotonic() - start
        stop.set()
        for thread in threads:
            thread.join()
    ledgers = [client.ledger for client in clients]
    faults = [fault for ledger in ledgers for fault in ledger.faults]
    assert not faults, faults[:5]
    if how is signal.SIGTERM:
        ended_gently(code, took, server.log.read_text(), ledgers)
    return ledgers


def ended_gently(code: int, took: float, log: str, ledgers: Iterable[Ledger]) -> None:
    """Raise AssertionError unless the server ended in time, and answered exactly what its log says it began."""
    assert code == 0, f"exit code {code}: {log[-2000:]}"
    assert took < GRACE, f"the end took {took:.1f} s"
    begun = set(re.findall(r"id=(\w+-\d+) ", log))
    answered = set().union(*(ledger.answered for ledger in ledgers))
    assert begun == answered, f"begun and not answered: {sorted(begun - answered)[:5]}"
    assert "Traceback" not in log and "ERROR" not in log, log[-2000:]


def verify(file: Path, ledgers: list[Ledger], before: list[Ledger], chance: random.Random) -> str:
    """Raise AssertionError unless a server that is started again has all that was told, and all parts agree."""
    with running(file, file.parent) as server:
        client = Client(server, "v")
        client.ask("PATCH", "/settings", BY_MEANING)
        settled = [_settled(client, ledger) for ledger in ledgers]
        for ledger in ledgers:
            for session, is_answered in ledger.imported:
                _imported(client, session, is_answered)
        now = {id_: text for known in settled for id_, text in known.items()}
        older = {id_: text for ledger in before for id_, text in ledger.told.items()}
        for id_, text in now.items():
            _is_there(client, id_, text) if text else _is_gone(client, id_)
        for id_ in chance.sample(sorted(older), min(50, len(older))):
            text = older[id_]
            _is_there(client, id_, text) if text else _is_gone(client, id_)
        client.ask("PATCH", "/settings", {"weights": "auto"})
    for ledger, known in zip(ledgers, settled, strict=True):
        ledger.told = known
    with Memory.open(file) as memory:
        state = agree(memory)
    gone = sum(text is None for text in now.values())
    imports = sum(len(ledger.imported) for ledger in ledgers)
    return (
        f"{len(now) - gone:,} written and {gone:,} deleted as told, {imports} imports whole, "
        f"{state.episodes:,} episodes in all, found by id, words and meaning; all parts agree"
    )


def _settled(client: Client, ledger: Ledger) -> dict[int, str | None]:
    """What was told, with what became of the one request that was in flight: all of it, or nothing."""
    known = dict(ledger.told)
    for id_, wanted in ledger.open_.items():
        found = _get(client, id_)
        assert found in (ledger.told[id_], wanted), f"{id_} is {found!r}, neither {ledger.told[id_]!r} nor {wanted!r}"
        known[id_] = found
    for text in ledger.lost:
        for hit in _search(client, text):
            assert hit["content"] == text, f"half written: {hit}"
            known[int(str(hit["id"]))] = text
    return known


def _imported(client: Client, session: str, is_answered: bool) -> None:
    """An import is there: all of it where it was answered, else as far as it came, and a second one adds the rest."""
    status, told = client.ask("POST", "/import?kind=jsonl", lines_of(session))
    assert status == 200 and isinstance(told, dict)
    assert told["added"] + told["duplicates"] == IMPORTED, told
    assert told["added"] == 0 or not is_answered, f"import {session} was answered, {told['added']} were missing"
    for number in (0, IMPORTED // 2, IMPORTED - 1):
        (hit,) = _search(client, text_of(f"{session}m{number}", number))
        _is_there(client, int(str(hit["id"])), text_of(f"{session}m{number}", number))


def _is_there(client: Client, id_: int, text: str) -> None:
    """By id, by its own word, and as the nearest by meaning alone."""
    assert _get(client, id_) == text, f"{id_} is {_get(client, id_)!r}, not {text!r}"
    assert [hit["id"] for hit in _search(client, text)] == [id_], f"{text!r} is not found by its word"
    _, found = client.ask("POST", "/recall", {"query": text, "limit": 3, "explain": True})
    hits = found["hits"]  # type: ignore[index]
    near = [hit["contributions"][0]["raw"] for hit in hits if hit["episode"]["id"] == id_]
    assert near and near[0] > 0.99, f"{text!r} is not found by meaning: {hits}"


def _is_gone(client: Client, id_: int) -> None:
    assert _get(client, id_) is None, f"{id_} was deleted and is there"


def _get(client: Client, id_: int) -> str | None:
    status, found = client.ask("GET", f"/episodes/{id_}")
    assert isinstance(found, dict) and status in (200, 404), found
    return str(found["content"]) if status == 200 else None


def _search(client: Client, text: str) -> list[dict[str, object]]:
    """The episodes that hold the word that is this text's alone."""
    status, found = client.ask("GET", f"/episodes/search?q={quote(text.split()[3])}&limit=5")
    assert status == 200 and isinstance(found, list), found
    return found


if __name__ == "__main__":
    main()
