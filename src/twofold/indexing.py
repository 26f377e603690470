"""Which indexes a memory searches, as the settings say; and the process that builds one anew beside the one in use.

python -m twofold.indexing FILE TARGET
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw

from twofold.embed import ModelInfo
from twofold.engines import Engine, Layout, Quantization
from twofold.engines.courier import Courier
from twofold.engines.edge import EdgeEngine
from twofold.engines.qdrant import QdrantEngine, Server
from twofold.engines.replica import Loader, Replica
from twofold.errors import NotFound
from twofold.keyword import KeywordIndex
from twofold.keyword.fts5 import Fts5Index
from twofold.keyword.outside import Outside
from twofold.keyword.outside import points as words
from twofold.settings import Value
from twofold.store import Store, models, outbox, rows
from twofold.store.lock import Lock
from twofold.store.outbox import Kind
from twofold.text import ANALYSER
from twofold.types import Lag
from twofold.vectors import VectorIndex
from twofold.vectors.exact import ExactIndex
from twofold.vectors.external import ExternalIndex
from twofold.vectors.points import points as vectors

LOADERS: Mapping[Kind, Loader] = {"vectors": vectors, "words": words}
GIVEN_UP = 7 * 86_400_000_000  # microseconds for which the oldest has waited
NICE = 10  # how much the process that builds an index gives way to others


@dataclass(frozen=True, slots=True)
class Indexes:
    """What a memory searches by; `vectors` is None where it has no embedder, `courier` where all is in the file."""

    keyword: KeywordIndex
    vectors: VectorIndex | None
    courier: Courier | None
    replicas: tuple[Replica, ...] = ()

    def deliver(self) -> None:
        """Tell the indexes outside the file all there is, now. Raises EngineError."""
        with self.courier.held() if self.courier else nullcontext():
            for replica in self.replicas:
                while replica.deliver():
                    pass

    def lags(self, db: apsw.Connection) -> tuple[Lag, ...]:
        """What each index outside the file has still to be told."""
        problem = self.courier.problem if self.courier else None
        return tuple(Lag(one.engine.name, one.kind, *one.lag(db), problem) for one in self.replicas)

    def close(self) -> None:
        """Let go of what is outside the file, once it was told what can be told in a few seconds."""
        if self.courier:
            self.courier.close()


def open_indexes(store: Store, model: ModelInfo | None, base: Mapping[str, Value]) -> Indexes:
    """The indexes that the settings name, `base` or those in the file.

    An engine that is away or not installed is told of when it is asked.
    """
    with store.read() as db:
        settings = {**base, **rows.read_settings(db)}
    where = str(settings["vectors"])
    outside = "edge" if where == "exact" else where
    by_words, by_meaning = settings["keyword"] == "qdrant", where != "exact" and model is not None
    if not by_words and not by_meaning:
        _give_up(store, ())
        return Indexes(Fts5Index(store), ExactIndex(store, model) if model else None, None)
    role = Lock(store.path.with_name(store.path.name + "-courier"))
    engine = edge(store, role) if outside == "edge" else server(store, settings)
    word_replica = meaning_replica = None
    if by_words:
        word_replica = Replica(store, engine, "words", Layout(0), words, _options(analyser=ANALYSER), lambda db: None)
    if by_meaning and model:
        kept = cast(Quantization, settings["quantization"])
        options = _options(dimension=model.dimension, quantization=kept)
        meaning_replica = Replica(
            store,
            engine,
            "vectors",
            Layout(model.dimension, kept),
            vectors,
            options,
            lambda db: models.find(db, model.key),
        )
    replicas = tuple(one for one in (meaning_replica, word_replica) if one)
    _give_up(store, replicas)
    keyword = Fts5Index(store, Outside(word_replica) if word_replica else None)
    found: VectorIndex | None = None
    if model:
        found = ExternalIndex(store, model, meaning_replica) if meaning_replica else ExactIndex(store, model)
    courier = Courier(store, engine, replicas, role)
    store.after_write = courier.wake
    courier.wake()
    return Indexes(keyword, found, courier, replicas)


def _give_up(store: Store, replicas: Collection[Replica]) -> None:
    """Forget the indexes of earlier settings to which nobody has told anything for a week, so that no queue grows."""
    wanted = {(one.engine.name, one.kind, one.options) for one in replicas}
    with store.read() as db:
        others = [one for one in outbox.targets(db) if (one.engine, one.kind, one.options) not in wanted]
        left = [one for one in others if outbox.lag(db, one.id)[1] > GIVEN_UP]
    for target in left:
        with store.write() as db:
            outbox.drop(db, target.id)
        if target.engine == "edge":
            edge(store).drop(target.collection)


def abandon(path: Path, base: Mapping[str, Value]) -> None:
    """Drop what a store that is to be thrown away has on a server; nobody may have it open. Raises EngineError."""
    store = Store(path)
    try:
        with store.read() as db:
            there = [target.collection for target in outbox.targets(db) if target.engine == "qdrant"]
            settings = {**base, **rows.read_settings(db)}
        engine = server(store, settings) if there else None
        if engine:
            for collection in there:
                engine.drop(collection)
            engine.close()
    finally:
        store.close()


def edge(store: Store, owner: Lock | None = None) -> EdgeEngine:
    """Qdrant Edge in the folder beside a file."""
    return EdgeEngine(store.path.with_name(store.path.name + "-edge"), owner)


def server(store: Store, settings: Mapping[str, Value]) -> QdrantEngine:
    """The Qdrant server of the settings, as this store sees it."""
    with store.read() as db:
        uid = outbox.uid(db)
    return QdrantEngine(
        Server(
            url=str(settings["qdrantUrl"]),
            key=str(settings["qdrantApiKey"]),
            prefix=f"{settings['qdrantPrefix']}-{uid}",
            grpc_port=int(settings["qdrantGrpcPort"]),
            shards=int(settings["qdrantShards"]),
            replicas=int(settings["qdrantReplicas"]),
            timeout=int(settings["qdrantTimeout"]),
        )
    )


def build(path: Path, number: int) -> None:
    """Build the index of one target of Qdrant Edge from the file, and let it serve. Raises NotFound, EngineError."""
    store = Store(path)
    engine: Engine = edge(store)
    try:
        with store.read() as db:
            found = [target for target in outbox.targets(db) if target.id == number and target.engine == engine.name]
        if not found:
            raise NotFound(f"{path} has no index {number} to be built; it has been replaced meanwhile")
        target = found[0]
        options = json.loads(target.options)
        layout = Layout(options.get("dimension", 0), options.get("quantization", "none"))
        replica = Replica(
            store, engine, target.kind, layout, LOADERS[target.kind], target.options, lambda db: target.model
        )
        replica.build(target)
    finally:
        engine.close()
        store.close()


def _options(**options: object) -> str:
    return json.dumps(options, sort_keys=True)


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICE)
    build(Path(sys.argv[1]), int(sys.argv[2]))
