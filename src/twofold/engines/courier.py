"""The courier: a thread that tells the indexes outside the file what the file queued for them.

Of all processes that have the file open one is the courier; the others leave it to that one.
"""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from twofold.engines import Engine
from twofold.engines.replica import BATCH, Replica
from twofold.errors import EngineError, StoreError, TwofoldError
from twofold.store import Store, outbox
from twofold.store.lock import Lock

TICK = 1.0  # seconds after which it looks for what other processes have queued
LINGER = 0.1  # seconds for which what is written one by one is gathered: to make one point durable holds up the process
LONGEST_PAUSE = 30.0  # seconds between two tries where an engine is away
TIDY = 5.0  # seconds after which it sees to indexes and leftovers, also where there is always something to deliver
PARTING = 5.0  # seconds that it takes at most to deliver what is left at the end
AGAIN = 60.0  # seconds after which an index whose building came to nothing is begun anew


class Courier:
    """Delivers for all replicas in one engine, has their indexes built when they have grown, sweeps what is left."""

    def __init__(self, store: Store, engine: Engine, replicas: Sequence[Replica], role: Lock) -> None:
        self._store = store
        self._engine = engine
        self._replicas = replicas
        self._role = role
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._turn = threading.RLock()
        self._until = math.inf
        self._tidy_at = 0.0
        self._first = 0
        self._building: dict[str, subprocess.Popen[bytes]] = {}
        self._build_after: dict[str, float] = {}
        self._strangers: set[str] = set()
        self.problem: str | None = None

    def wake(self) -> None:
        """There may be something to deliver."""
        with self._starting:
            if not (self._thread and self._thread.is_alive()) and not self._ending.is_set():
                self._thread = threading.Thread(target=self._run, name="twofold-courier", daemon=True)
                self._thread.start()
        self._woken.set()

    def close(self) -> None:
        """Deliver what is left, if it can be done in a few seconds, and end."""
        with self._starting:
            self._until = time.monotonic() + PARTING
            self._ending.set()
            self._woken.set()
        if self._thread is None:
            self._let_go()
        elif self._thread is not threading.current_thread():
            self._thread.join(PARTING + TICK)  # one that still waits for a server lets go by itself

    def _run(self) -> None:
        try:
            self._go_round()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for building in self._building.values():
            building.terminate()
            building.wait()
        try:
            self._engine.close()
            for replica in self._replicas:
                replica.let_go()
        except (EngineError, StoreError) as error:
            self.problem = str(error)  # what was told is compared with the file at the next start
        finally:
            self._role.release()

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Deliver nothing meanwhile; yields whether no other process does either, as this one is the courier."""
        with self._turn:
            yield self._role.take()

    def _go_round(self) -> None:
        pause = TICK
        while True:
            self._woken.clear()
            ending = self._ending.is_set()  # a round that began before does not count as the last
            try:
                with self._turn:
                    told = self._round()
                self.problem, pause = None, TICK
            except TwofoldError as error:
                if isinstance(error, StoreError) and self._ending.is_set():
                    return  # the file was closed meanwhile
                told, self.problem, pause = 0, str(error), min(2.0 * pause, LONGEST_PAUSE)
            if ending and (not told or self.problem or time.monotonic() > self._until):
                return
            if not told:
                self._wait(pause)
            if told < BATCH:
                self._ending.wait(LINGER)

    def _wait(self, pause: float) -> None:
        """Until there may be something to do; an engine that is away is left alone for its pause."""
        (self._ending if self.problem else self._woken).wait(pause)

    def _round(self) -> int:
        """One batch for each replica, if this process is the courier; how many points."""
        if not self._role.take():
            return 0
        told = self._deliver()
        now = time.monotonic()
        if (not told or now >= self._tidy_at) and not self._ending.is_set():
            self._tidy_at = now + TIDY
            for replica in self._replicas:
                self._have_built(replica)
            self._sweep()
        return told

    def _deliver(self) -> int:
        """One batch for each replica. Raises EngineError.

        After a failure the next one comes first: an engine that is let rest may refuse all that follows.
        """
        told = 0
        for _ in self._replicas:
            replica = self._replicas[self._first]
            self._first = (self._first + 1) % len(self._replicas)
            told += replica.deliver()
        return told

    def _have_built(self, replica: Replica) -> None:
        """See to it that an index that has grown is built anew, by a process that holds up nothing here."""
        running, now = self._building.get(replica.kind), time.monotonic()
        waits = (running and running.poll() is None) or now < self._build_after.get(replica.kind, 0.0)
        if not self._engine.builds_apart or waits or not replica.wants_index():
            return
        target = replica.begin()
        self._build_after[replica.kind] = now + AGAIN
        self._building[replica.kind] = subprocess.Popen(
            [sys.executable, "-m", "twofold.indexing", str(self._store.path), str(target.id)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _sweep(self) -> None:
        """Drop collections that no target has any more, one round after they were seen to be so: no search is left."""
        held = set(self._engine.collections())
        with self._store.read() as db:
            known = {target.collection for target in outbox.targets(db)}
        strangers = held - known
        for name in sorted(strangers & self._strangers):
            self._engine.drop(name)
        self._strangers = strangers
