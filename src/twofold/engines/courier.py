"""The courier: a thread that tells the indexes outside the file what the file queued for them.

Of all processes that have the file open one is the courier; the others leave it to that one.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from twofold.engines import Engine
from twofold.engines.replica import Replica
from twofold.errors import StoreError, TwofoldError
from twofold.store import Store, outbox
from twofold.store.lock import Lock

TICK = 1.0  # seconds after which it looks for what other processes have queued
LONGEST_PAUSE = 30.0  # seconds between two tries where an engine is away
PARTING = 5.0  # seconds that it takes at most to deliver what is left at the end


class Courier:
    """Delivers for all replicas in one engine, has their indexes built when they have grown, sweeps what is left."""

    def __init__(self, store: Store, engine: Engine, replicas: Sequence[Replica]) -> None:
        self._store = store
        self._engine = engine
        self._replicas = replicas
        self._lock = Lock(store.path.with_name(store.path.name + "-courier"))
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._turn = threading.RLock()
        self._building: dict[str, subprocess.Popen[bytes]] = {}
        self._strangers: set[str] = set()
        self._until = 0.0
        self.problem: str | None = None

    def wake(self) -> None:
        """There may be something to deliver."""
        with self._starting:
            if self._thread is None and not self._ending.is_set():
                self._thread = threading.Thread(target=self._run, name="twofold-courier", daemon=True)
                self._thread.start()
        self._woken.set()

    def close(self) -> None:
        """Deliver what is left, if it can be done in a few seconds, and end."""
        self._until = time.monotonic() + PARTING
        self._ending.set()
        self._woken.set()
        with self._starting:
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join(2.0 * PARTING)
        for building in self._building.values():
            building.terminate()
            building.wait()
        self._engine.close()
        self._lock.release()

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Deliver nothing meanwhile; yields whether no other process does either, as this one is the courier."""
        with self._turn:
            yield self._lock.take()

    def _run(self) -> None:
        pause = TICK
        while True:
            self._woken.clear()
            try:
                with self._turn:
                    told = self._round()
                self.problem, pause = None, TICK
            except TwofoldError as error:
                if isinstance(error, StoreError) and self._ending.is_set():
                    return  # the file was closed meanwhile
                told, self.problem, pause = 0, str(error), min(2.0 * pause, LONGEST_PAUSE)
            if self._ending.is_set() and (not told or self.problem or time.monotonic() > self._until):
                return
            if not told:
                self._wait(pause)

    def _wait(self, pause: float) -> None:
        """Until there may be something to do; an engine that is away is left alone for its pause."""
        (self._ending if self.problem else self._woken).wait(pause)

    def _round(self) -> int:
        """One batch for each replica, if this process is the courier; how many points."""
        if not self._lock.take():
            return 0
        told = sum(replica.deliver() for replica in self._replicas)
        if not told and not self._ending.is_set():
            for replica in self._replicas:
                self._have_built(replica)
            self._sweep()
        return told

    def _have_built(self, replica: Replica) -> None:
        """See to it that an index that has grown is built anew, by a process that holds up nothing here."""
        running = self._building.get(replica.kind)
        if not self._engine.builds_apart or (running and running.poll() is None) or not replica.wants_index():
            return
        target = replica.begin()
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
