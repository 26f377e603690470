"""A replica: one index outside the file that follows it. What it has to be told is in the outbox."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

import apsw
import numpy as np

from twofold.engines import Collection as Points
from twofold.engines import Engine, Layout, Point, Terms
from twofold.errors import EngineLost
from twofold.store import Store, outbox
from twofold.store.outbox import Kind, Target
from twofold.types import Scope

BATCH = 2_048  # points delivered, made durable and taken out of the outbox at once
FEW = 20_000  # points that a search walks through in a millisecond, without an index over them
GROWN = 0.25  # of all points: so many more and the index is built anew
PAGE = 10_000  # ids read at once
LATE = 1_000  # points that a target may still have to be told when it begins to serve: searches look at these as well

Loader = Callable[[apsw.Connection, Target, Collection[int]], Mapping[int, Point]]


class Replica:
    """The targets of one sort in one engine: the one that serves, and the one that is built to follow it.

    `load` gives points as the file has them now, `model` the number of the model whose vectors they are, 0 while it
    has made none. A target that is not there yet, or that has lost its collection, is begun anew from the file.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        kind: Kind,
        layout: Layout,
        load: Loader,
        options: str,
        model: Callable[[apsw.Connection], int | None],
    ) -> None:
        self.engine = engine
        self.kind = kind
        self._store = store
        self._layout = layout
        self._load = load
        self.options = options
        self._model = model
        self._opening = threading.RLock()
        self._telling = threading.Lock()
        self._serving: tuple[Target, Points] | None = None
        self._in_hand: set[int] = set()  # targets that this process tells, and of which it knows that they lack nothing

    def serving(self, db: apsw.Connection) -> tuple[Target, Points] | None:
        """The target that searches are put to, opened; None while it is built, or gone. Raises EngineError."""
        targets = self.targets(db)
        if not targets or not targets[0].serves:
            return None
        with self._opening:
            if self._serving is None or self._serving[0].id != targets[0].id:
                try:
                    self._serving = targets[0], self.open(targets[0])
                except EngineLost:
                    return None
            return None if self._is_suspect(db, targets[0]) else self._serving

    def targets(self, db: apsw.Connection) -> list[Target]:
        """Its targets, the one that serves first."""
        model = self._model(db)
        return [] if model == 0 else outbox.find(db, self.engine.name, self.kind, model, self.options)

    def lag(self, db: apsw.Connection) -> tuple[bool, int, float]:
        """Whether a target serves, how many points it, or the first, has still to be told, and for how many seconds."""
        targets = self.targets(db)
        if not targets:
            return False, 0, 0.0
        waiting, microseconds = outbox.lag(db, targets[0].id)
        return targets[0].serves, waiting, microseconds / 1e6

    def try_out(self, points: Points) -> None:
        """Search for anything, as an engine may know points that it cannot read. Raises EngineError."""
        size = self._layout.dimension
        query = np.full(size, size**-0.5, dtype=np.float32) if size else Terms([1], [1.0])
        points.search(query, Scope("all"), (), 1)

    def deliver(self) -> int:
        """Tell the target that serves, or the first one, one batch; how many points. Raises EngineError.

        A target serves from the moment on at which it knows all that was there; one that has lost its collection is
        begun anew. Within a transaction nothing is delivered: what it wrote may never be.
        """
        with self._telling:  # two at once might bring a point's old content after its new one
            target = None if self._store.connection.in_transaction else self._chosen()
            if target is None:
                return 0
            try:
                points = self.open(target)
                if target.collection not in self.engine.collections():
                    raise EngineLost(f"{target.collection} is gone")
                if self._is_suspect(self._store.connection, target):
                    self._compare(target, points)
                told = self.tell(target, points)
            except EngineLost:
                self._begin_again(target)
                return 1
            if told < BATCH and not target.serves:  # also where something is written all the time
                self.take_over(target)
            return told

    def tell(self, target: Target, points: Points) -> int:
        """Deliver one batch of what a target has to be told; how many points."""
        with self._store.read() as db:
            queued = outbox.next_of(db, target.id, BATCH)
            there = self._load(db, target, [entry.point for entry in queued])
        if queued:
            self._take_in_hand(target)
            moment = queued[-1].entry
            gone = sorted(entry.point for entry in queued if entry.point not in there)
            if there:
                points.put([there[id_] for id_ in sorted(there)], moment)
            if gone:
                points.remove(gone, moment)
            with self._store.write() as db:
                outbox.delivered(db, [entry.entry for entry in queued])
        return len(queued)

    def begin(self) -> Target:
        """The target that is to follow the one that serves, with all that it has to be told."""
        with self._store.write() as db:
            begun = [target for target in self.targets(db) if not target.serves]
            return begun[0] if begun else self._enrol(db)

    def wants_index(self) -> bool:
        """Whether so much of what serves stands outside its index that this is to be built anew."""
        with self._store.read() as db:
            serving = self.serving(db)
        if serving is None:
            return False
        outside = serving[1].unindexed()
        return outside > max(FEW, serving[1].count() * GROWN)

    def build(self, target: Target) -> None:
        """Tell a target all there is, build its index, and let it serve. Raises EngineError.

        Nobody else may have its collection open. What is written meanwhile is told it afterwards.
        """
        try:
            points = self.open(target)
        except EngineLost:
            target = self._begin_again(target)
            points = self.open(target)
        if self._is_suspect(self._store.connection, target):
            self._compare(target, points)
        while True:
            while self.tell(target, points):
                pass
            points.index()
            self.engine.close()
            self.let_go()
            if self.take_over(target):
                return
            points = self.open(target)

    def take_over(self, target: Target) -> bool:
        """Let a target serve instead of those before it, unless there is too much that it has still to be told."""
        with self._store.write() as db:
            if outbox.lag(db, target.id)[0] > LATE:
                return False
            outbox.serve(db, target.id)
            for other in self.targets(db):
                if other.id != target.id:
                    outbox.drop(db, other.id)
        self.engine.expose(target.collection)
        return True

    def open(self, target: Target) -> Points:
        """The collection of a target. Raises EngineLost where it is gone."""
        return self.engine.open(target.collection, self._layout)

    def let_go(self) -> None:
        """Note that what this process told is whole, now that the engine is closed. Raises StoreError."""
        with self._store.write() as db:
            for target in self._in_hand:
                outbox.let_go(db, target)
        self._in_hand.clear()

    def _is_suspect(self, db: apsw.Connection, target: Target) -> bool:
        """Whether a process that told the target was killed, and it may lack something."""
        return self.engine.may_forget and target.id not in self._in_hand and outbox.is_in_hand(db, target.id)

    def _take_in_hand(self, target: Target) -> None:
        if self.engine.may_forget and target.id not in self._in_hand:
            with self._store.write() as db:
                outbox.take_in_hand(db, target.id)
            self._in_hand.add(target.id)

    def _compare(self, target: Target, points: Points) -> None:
        """Queue what a suspect target may lack: vectors that it has not, and all words, which may be old ones."""
        held: list[int] = []
        while page := points.ids(held[-1] if held else 0, PAGE):
            held += page
        with self._store.write() as db:
            there = set(outbox.points_of(db, target))
            outbox.queue(db, target.id, there.union(held) if self.kind == "words" else there.symmetric_difference(held))
        self._in_hand.add(target.id)

    def _chosen(self) -> Target | None:
        with self._store.write() if self._needs_one() else self._store.read() as db:
            if self._model(db) == 0:
                return None
            targets = self.targets(db)
            return targets[0] if targets else self._enrol(db)

    def _needs_one(self) -> bool:
        with self._store.read() as db:
            return self._model(db) != 0 and not self.targets(db)

    def _enrol(self, db: apsw.Connection) -> Target:
        return outbox.enrol(db, self.engine.name, self.kind, self._model(db), self.options)

    def _begin_again(self, target: Target) -> Target:
        """Queue all there is for a target that has lost its collection, and give it an empty one.

        Where it served, another takes its place: a search that still knows the old one must not find it empty.
        """
        with self._store.write() as db:
            if target.serves:
                outbox.drop(db, target.id)
                target = self._enrol(db)
            else:
                outbox.begin_again(db, target.id)
                outbox.let_go(db, target.id)
        self._in_hand.discard(target.id)
        with self._opening:
            self._serving = None
            self.engine.create(target.collection, self._layout)
        return target
