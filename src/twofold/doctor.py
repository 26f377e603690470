"""The file and every index compared, and what is wrong mended from the rows, which are what everything else follows.

Each check looks at one part and names what is wrong with it; most know a remedy. A check that meets a damaged file
is a finding itself. What comes first is mended first, so that later checks stand on firm ground.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

import apsw

from twofold import mentions
from twofold.engines import comparison
from twofold.engines.replica import Replica
from twofold.errors import EngineBusy, EngineError, EngineLost, TwofoldError
from twofold.indexing import Indexes
from twofold.store import Store, entities, faults, outbox, vectors
from twofold.store.outbox import Target

LATE = 600.0  # seconds that a point may wait to be told to an engine before it is a finding

Remedy = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a part, in a sentence, and with how many of its things; whether it can be, and was, mended."""

    part: str
    problem: str
    count: int
    repairable: bool
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What an examination found, and what is left to be done by others."""

    findings: tuple[Finding, ...]
    left_to_do: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """Whether nothing was wrong, or all of it is mended."""
        return all(finding.repaired for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Case:
    """A finding with its remedy, if there is one."""

    finding: Finding
    remedy: Remedy | None


class Doctor:
    """Examines a store with the indexes that its settings name."""

    def __init__(self, store: Store, indexes: Indexes) -> None:
        self._store = store
        self._indexes = indexes
        self._checks = {
            "store": self._file,
            "keywordIndex": self._keywords,
            "vectors": self._vectors,
            "entities": self._entities,
            "externalIndex": self._outside,
        }

    def examine(self, *, repair: bool) -> Report:
        """What is wrong, and with `repair` what of it is mended."""
        return self.repair() if repair else self.diagnose()

    def diagnose(self) -> Report:
        """What is wrong. Raises nothing for a damaged file: that is a finding."""
        return self._report([case.finding for part in self._checks for case in self._examined(part)])

    def repair(self) -> Report:
        """Mend what can be mended; what was wrong, and what still is."""
        findings = []
        for part in self._checks:
            cases = self._examined(part)
            failures = [_tried(part, remedy) for remedy in dict.fromkeys(case.remedy for case in cases) if remedy]
            left = [case.finding for case in (self._examined(part) if failures else cases)]
            left += [failure for failure in failures if failure]
            known = {finding.problem for finding in left}
            mended = [case.finding for case in cases if case.remedy and case.finding.problem not in known]
            findings += [replace(finding, repaired=True) for finding in mended]
            findings += left
        if all(finding.repaired for finding in findings) and (failure := _tried("externalIndex", self._tell)):
            findings.append(failure)
        return self._report(findings)

    def _examined(self, part: str) -> list[Case]:
        cases: list[Case] = []
        try:
            cases.extend(self._checks[part](part))
        except TwofoldError as error:
            cases += _case(part, f"could not be looked through: {error}", 1)
        except UnicodeDecodeError as error:
            cases += _case(part, f"holds a text that is damaged ({error}); restore a copy", 1)
        return cases

    def _file(self, part: str) -> Iterator[Case]:
        with self._store.read() as db:
            found = [fault for fault in faults.faults(db) if faults.OF_KEYWORDS not in fault]
            dangling = faults.dangling(db)
        of_indexes = [fault for fault in found if any(words in fault for words in faults.OF_INDEXES)]
        damage = [fault for fault in found if fault not in of_indexes]
        said = sum(count for reference, count in dangling.items() if reference.holds_what_was_said)
        yield from _case(
            part,
            f"SQLite finds damage ({damage[0] if damage else ''}); restore a copy, or export what can be read",
            len(damage),
        )
        yield from _case(
            part, "SQLite's indexes are not what its tables say", len(of_indexes), self._written(faults.index_again)
        )
        remedy = self._written(_tie_up)
        yield from _case(
            part,
            "episodes, sessions or entities are in a session or project that is gone, which is made anew",
            said,
            remedy,
        )
        yield from _case(part, "rows belong to others that are gone", sum(dangling.values()) - said, remedy)

    def _keywords(self, part: str) -> Iterator[Case]:
        for sentence, count in self._indexes.keyword.faults().items():
            yield from _case(part, sentence, count, self._index_words)

    def _vectors(self, part: str) -> Iterator[Case]:
        with self._store.read() as db:
            current, models = faults.current_models(db)
            bad = faults.bad_vectors(db, "vectors")
            sums = faults.differing_sums(db)
        choose = self._written(faults.choose_model)
        yield from _case(part, "models are the current one at once", current if current > 1 else 0, choose)
        yield from _case(part, "models are there, and none is the current one", models if not current else 0, choose)
        sentence = "vectors are of another length than their model's, zero or not finite; make them anew with: "
        yield from _case(part, f"{sentence}twofold embed", len(bad), self._written(faults.drop_vectors, "vectors", bad))
        yield from _case(
            part, "sums of vectors are not what the vectors come to", sums, self._written(vectors.sum_again)
        )

    def _entities(self, part: str) -> Iterator[Case]:
        with self._store.read() as db:
            bad = faults.bad_vectors(db, "entity_vectors")
            nameless = entities.nameless(db)
            wrong = {id_ for id_, name in entities.kept_names(db) if name != mentions.name(name.text)}
        drop = self._written(faults.drop_vectors, "entity_vectors", bad)
        sentence = "vectors are of another length than their model's, zero or not finite; make them anew with: "
        yield from _case(part, f"{sentence}twofold embed", len(bad), drop)
        yield from _case(part, "entities have no name, and get one", len(nameless), self._written(_name, nameless))
        yield from _case(
            part, "entities have names that are looked up wrongly", len(wrong), self._written(_name_again, wrong)
        )

    def _outside(self, part: str) -> Iterator[Case]:
        courier, replicas = self._indexes.courier, self._indexes.replicas
        if courier is None:
            return
        with courier.held() as alone:
            with self._store.read() as db:
                known = {target.collection for target in outbox.targets(db)}
                late = sum(lag.waiting for lag in self._indexes.lags(db) if lag.seconds > LATE)
            try:
                held = replicas[0].engine.collections()
            except EngineError as error:
                yield from _case(part, f"not compared: {error}", 1)
                return
            left = sorted(set(held) - known) if alone else []  # another courier sweeps for itself
            yield from _case(part, "collections belong to no index of the file", len(left), partial(self._drop, left))
            yield from _case(
                part, "points have waited for more than ten minutes to be told", late, self._tell if alone else None
            )
            for replica in replicas:
                yield from self._compared(part, replica, held, alone)

    def _compared(self, part: str, replica: Replica, held: Collection[str], alone: bool) -> Iterator[Case]:
        """What differs between the file and the target that serves, or the first, which is still told everything.

        One that is built to follow the one that serves is in another process' hands.
        """
        with self._store.read() as db:
            target = next(iter(replica.targets(db)), None)
        if target is None or (target.collection not in held and not target.serves):
            return
        begin = partial(self._begin_anew, replica, target)
        if target.collection not in held:
            yield from _case(part, f"the index of {replica.kind} is gone from the engine", 1, begin)
            return
        try:
            found = comparison.compare(self._store, replica, target, replica.open(target), alone=alone)
        except EngineError as error:
            # A folder that another process has is whole for all we know; so is a server that is away.
            ours = replica.engine.builds_apart and not isinstance(error, EngineBusy)
            if ours or isinstance(error, EngineLost):
                yield from _case(part, f"the index of {replica.kind} cannot be read: {error}", 1, begin)
            else:
                yield from _case(part, f"not compared: {error}", 1)
            return
        for sentence, ids in (
            (f"points are missing from the index of {replica.kind}", found.missing),
            (f"points are in the index of {replica.kind} and not in the file", found.strangers),
        ):
            yield from _case(part, sentence, len(ids), partial(self._queue, target, ids.tolist()))

    def _index_words(self) -> None:
        with self._store.write() as db:
            self._indexes.keyword.rebuild()
            for target in outbox.targets(db):
                if target.kind == "words":
                    outbox.queue_all(db, target.id)

    def _drop(self, collections: Collection[str]) -> None:
        for name in collections:
            self._indexes.replicas[0].engine.drop(name)

    def _begin_anew(self, replica: Replica, target: Target) -> None:
        """Forget a target, so that another takes its place; until that serves, the file answers alone."""
        with self._store.write() as db:
            outbox.drop(db, target.id)
        replica.engine.drop(target.collection)
        self._tell()

    def _queue(self, target: Target, points: Collection[int]) -> None:
        """Have points told again: they become what the file says, which for those that it has not is gone."""
        with self._store.write() as db:
            outbox.queue(db, target.id, points)
        self._tell()

    def _tell(self) -> None:
        """Deliver all that is queued, unless another process does."""
        if self._indexes.courier:
            with self._indexes.courier.held() as alone:
                if alone:
                    self._indexes.deliver()

    def _written(self, work: Callable[..., None], *arguments: object) -> Remedy:
        def remedy() -> None:
            with self._store.write() as db:
                work(db, *arguments)

        return remedy

    def _report(self, findings: list[Finding]) -> Report:
        try:
            left = list(self._left_to_do())
        except TwofoldError:  # which is a finding by now
            left = []
        if any(finding.repairable and not finding.repaired for finding in findings):
            left.insert(0, "mend what can be mended with: twofold doctor --repair")
        return Report(tuple(findings), tuple(left))

    def _left_to_do(self) -> Iterator[str]:
        """What is no fault, and yet for somebody to know."""
        with self._store.read() as db:
            index = self._indexes.vectors
            waiting = index.counts()[1] if index else 0
            others = faults.of_other_models(db)
            used = {target.id for replica in self._indexes.replicas for target in replica.targets(db)}
            unused = [target for target in outbox.targets(db) if target.id not in used]
            lags = self._indexes.lags(db)
        if waiting:
            yield f"{waiting:,} episodes wait for a vector; make them with: twofold embed"
        if others:
            yield f"{others:,} vectors are of models that are not searched by; they take room and do no harm"
        for target in unused:
            yield f"the index {target.collection} in {target.engine} is of other settings; it was not compared"
        for lag in lags:
            if not lag.serves:
                yield f"the index of {lag.kind} in {lag.engine} is still built; until then the file answers alone"


def _case(part: str, problem: str, count: int, remedy: Remedy | None = None) -> list[Case]:
    return [Case(Finding(part, problem, count, remedy is not None), remedy)] if count else []


def _tried(part: str, remedy: Remedy) -> Finding | None:
    try:
        remedy()
    except TwofoldError as error:
        return Finding(part, f"could not be mended: {error}", 1, False)
    return None


def _tie_up(db: apsw.Connection) -> None:
    faults.tie_up(db)
    for target in outbox.targets(db):  # points name the session and the project that they are of
        outbox.queue_all(db, target.id)


def _name(db: apsw.Connection, nameless: Collection[int]) -> None:
    for id_ in nameless:
        entities.put_names(db, id_, [mentions.name(f"entity {id_}")])


def _name_again(db: apsw.Connection, wrong: Collection[int]) -> None:
    kept = [(id_, mentions.name(name.text)) for id_, name in entities.kept_names(db) if id_ in wrong]
    for id_ in sorted(wrong):
        names = {name.folded: name for owner, name in kept if owner == id_}
        entities.put_names(db, id_, list(names.values()))
