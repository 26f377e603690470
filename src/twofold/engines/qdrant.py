"""A Qdrant server: collections of this store among others, over gRPC where it can be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Collection as Container
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twofold.engines import Layout, Point, Terms
from twofold.errors import EngineError, EngineLost
from twofold.types import Scope

VECTOR, TERMS = "vector", "terms"
BATCH = 256  # points in one request
EF = 512  # how many the walk through the index keeps in sight; as in large stores of Qdrant Edge, where it was measured
OVERSAMPLING = {"scalar": 3.0, "binary": 10.0}  # candidates looked at again whole, where vectors are kept smaller
WAITS = (0.2, 0.8)  # seconds before a write is tried again
REST = 5.0  # seconds for which a server that gave no answer is not asked again by a search

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server is, and how collections are made on it. `prefix` begins the name of each."""

    url: str
    prefix: str
    key: str = ""
    grpc_port: int = 6334
    shards: int = 1
    replicas: int = 1
    timeout: int = 10


class QdrantEngine:
    """`Engine` on a server. `connect` gives the client; the official one for the server's address by default."""

    name = "qdrant"
    builds_apart = False
    may_forget = False

    def __init__(self, server: Server, connect: Callable[[Server], Any] | None = None) -> None:
        self.server = server
        self._connect = connect or _client
        self._connecting = threading.Lock()
        self._made: Any = None
        self._whole: set[str] = set()  # collections that were found, with the indexes of their payload
        self._rest_until = 0.0

    def collections(self) -> list[str]:
        """The names of this store's collections. Asked by who delivers, also of a server that others let rest."""
        found = self.call(lambda client: client.get_collections().collections, waits=WAITS)
        whole = [one.name for one in found]
        return sorted(name.removeprefix(self.full("")) for name in whole if name.startswith(self.full("")))

    def create(self, name: str, layout: Layout) -> None:
        """Make an empty collection, in the place of what is left of one of that name."""
        self.drop(name)
        self._whole.discard(name)
        QdrantCollection(self, self.full(name), layout).make()

    def open(self, name: str, layout: Layout) -> QdrantCollection:
        """A collection that was made. Raises EngineLost where it is gone."""
        collection = QdrantCollection(self, self.full(name), layout)
        if name not in self._whole:
            collection.complete()
            self._whole.add(name)
        return collection

    def expose(self, name: str) -> None:
        """Let the alias of its kind mean this collection from now on, for whoever looks at the server itself."""
        models = _models()
        alias = self.full(name.split("-", 1)[0])

        def swap(client: Any) -> None:
            known = [one.alias_name for one in client.get_aliases().aliases]
            delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
            create = models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=self.full(name), alias_name=alias)
            )
            client.update_collection_aliases([*([delete] if alias in known else []), create])

        self.call(swap, waits=WAITS)

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        self.call(lambda client: client.delete_collection(self.full(name)), waits=WAITS)

    def close(self) -> None:
        """Let go of the connection."""
        with self._connecting:
            client, self._made = self._made, None
        if client is not None:
            client.close()

    def full(self, name: str) -> str:
        """The name of a collection on the server."""
        return f"{self.server.prefix}-{name}"

    def call(self, work: Callable[[Any], Result], *, waits: Sequence[float] = ()) -> Result:
        """What the server answers, asked again after each of `waits`. Raises EngineError.

        Without `waits` a server that has just given no answer is not asked: a search shall not wait for it again.
        """
        if not waits and time.monotonic() < self._rest_until:
            raise EngineError(f"the Qdrant server at {self.server.url} gave no answer a moment ago; is it running?")
        for wait in (*waits, None):
            try:
                answer = work(self._client())
            except EngineError:
                raise
            except _failures() as error:
                if wait is not None and _may_pass(error):
                    time.sleep(wait)
                    continue
                if _is_lost(error):
                    raise EngineLost(f"the Qdrant server at {self.server.url} has no such collection") from None
                if _may_pass(error):
                    self._rest_until = time.monotonic() + REST
                raise EngineError(
                    f"the Qdrant server at {self.server.url} gave no answer ({_reason(error)}); see whether it runs "
                    "and whether qdrantApiKey is right, or set vectors to exact"
                ) from None
            self._rest_until = 0.0
            return answer
        raise AssertionError("unreachable")

    def _client(self) -> Any:
        with self._connecting:
            if self._made is None:
                self._made = self._connect(self.server)
            return self._made


class QdrantCollection:
    """`Collection` over one of the server's."""

    def __init__(self, engine: QdrantEngine, name: str, layout: Layout) -> None:
        self._models = _models()
        self._engine = engine
        self._name = name
        self._layout = layout

    def make(self) -> None:
        """Make it, unless it is there."""
        server = self._engine.server

        def make(client: Any) -> None:
            if not client.collection_exists(self._name):
                client.create_collection(
                    self._name, **self._config(), shard_number=server.shards, replication_factor=server.replicas
                )

        self._engine.call(make, waits=WAITS)

    def complete(self) -> None:
        """Have its payload indexed, as far as it is not. Raises EngineLost where it is gone."""
        models = self._models
        project = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        session = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False)
        known = self._engine.call(lambda client: client.get_collection(self._name).payload_schema)
        moment = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
        fields = {"project": project, "session": session, **({} if self._layout.dimension else {"moment": moment})}
        for field, schema in fields.items():
            if field not in known:
                self._index(field, schema)

    def put(self, points: Sequence[Point], moment: int) -> None:
        """Set points; durable when this returns. Terms that arrive late leave newer ones alone."""
        old = self._models.Filter(must_not=[self._newer(moment)])
        condition = {} if self._layout.dimension else {"update_filter": old}
        for start in range(0, len(points), BATCH):
            batch = [
                self._models.PointStruct(
                    id=point.id,
                    vector=self._content(point.content),
                    payload={"session": point.session, "project": str(point.project), "moment": moment},
                )
                for point in points[start : start + BATCH]
            ]
            self._update("upsert", batch, **condition)

    def remove(self, ids: Sequence[int], moment: int) -> None:
        """Remove points, those that are there; durable when this returns. Newer terms are left alone."""
        models = self._models
        if not ids:
            return
        if self._layout.dimension:
            self._update("delete", models.PointIdsList(points=list(ids)))
        else:
            named = models.Filter(must=[models.HasIdCondition(has_id=list(ids))], must_not=[self._newer(moment)])
            self._update("delete", models.FilterSelector(filter=named))

    def search(
        self, query: NDArray[np.float32] | Terms, scope: Scope, exclude: Container[int], limit: int
    ) -> list[int]:
        """The ids of about the best `limit` points in scope, without the excluded, best first."""
        models = self._models
        using = TERMS if isinstance(query, Terms) else VECTOR
        params = None
        if using == VECTOR:
            more = OVERSAMPLING.get(self._layout.quantization)
            again = models.QuantizationSearchParams(rescore=True, oversampling=more) if more else None
            params = models.SearchParams(hnsw_ef=EF, quantization=again)
        found = self._engine.call(
            lambda client: client.query_points(
                self._name,
                query=self._content(query)[using],
                using=using,
                query_filter=self._filter(scope, exclude),
                search_params=params,
                limit=limit,
                with_payload=False,
            )
        )
        return [hit.id for hit in found.points]

    def count(self) -> int:
        """How many points there are."""
        return int(self._engine.call(lambda client: client.count(self._name, exact=True).count))

    def ids(self, after: int, limit: int) -> list[int]:
        """Up to `limit` ids above `after`, rising."""
        found, _ = self._engine.call(
            lambda client: client.scroll(
                self._name, offset=after + 1, limit=limit, with_payload=False, with_vectors=False
            )
        )
        return [record.id for record in found]

    def unindexed(self) -> int:
        """Nothing that would have to be seen to: the server builds its own indexes."""
        return 0

    def index(self) -> None:
        """The server does that by itself."""

    def close(self) -> None:
        """Nothing is held."""

    def _update(self, operation: str, what: Any, **condition: Any) -> None:
        self._engine.call(
            lambda client: getattr(client, operation)(self._name, what, wait=True, **condition), waits=WAITS
        )

    def _index(self, field: str, schema: Any) -> None:
        self._engine.call(lambda client: client.create_payload_index(self._name, field, schema, wait=True), waits=WAITS)

    def _newer(self, moment: int) -> Any:
        return self._models.FieldCondition(key="moment", range=self._models.Range(gt=moment))

    def _config(self) -> dict[str, Any]:
        models, layout = self._models, self._layout
        if not layout.dimension:
            terms = models.SparseVectorParams(modifier=models.Modifier.IDF)
            return {"vectors_config": {}, "sparse_vectors_config": {TERMS: terms}}
        smaller = None
        if layout.quantization == "scalar":
            scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
            smaller = models.ScalarQuantization(scalar=scalar)
        elif layout.quantization == "binary":
            smaller = models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
        vector = models.VectorParams(
            size=layout.dimension,
            distance=models.Distance.DOT,
            datatype=models.Datatype.FLOAT16,
            quantization_config=smaller,
            on_disk=smaller is not None,
        )
        # The graph is linked among the points of a project too, so that a search in one does not wander.
        return {"vectors_config": {VECTOR: vector}, "hnsw_config": models.HnswConfigDiff(payload_m=16)}

    def _content(self, content: NDArray[np.float32] | Terms) -> dict[str, Any]:
        if isinstance(content, Terms):
            indices, values = list(content.numbers), list(content.weights)
            return {TERMS: self._models.SparseVector(indices=indices, values=values)}
        return {VECTOR: content.tolist()}

    def _filter(self, scope: Scope, exclude: Container[int]) -> Any:
        models = self._models
        must = []
        if scope.kind == "project":
            must = [models.FieldCondition(key="project", match=models.MatchValue(value=str(scope.ids[0])))]
        elif scope.kind == "sessions":
            must = [models.FieldCondition(key="session", match=models.MatchAny(any=list(scope.ids)))]
        without = [models.HasIdCondition(has_id=sorted(exclude))] if exclude else []
        return models.Filter(must=must or None, must_not=without or None) if must or without else None


def _models() -> Any:
    try:
        from qdrant_client import models
    except ImportError:
        raise EngineError(
            "vectors is 'qdrant', which needs qdrant-client; install it with: pip install 'twofold[qdrant]'"
        ) from None
    return models


def _client(server: Server) -> Any:
    _models()
    from qdrant_client import QdrantClient

    return QdrantClient(
        url=server.url,
        api_key=server.key or None,
        grpc_port=server.grpc_port or 6334,
        prefer_grpc=server.grpc_port > 0,
        timeout=server.timeout,
        check_compatibility=False,
    )


def _failures() -> tuple[type[Exception], ...]:
    """What the client raises. Its local mode, for tests, raises ValueError and RuntimeError."""
    from grpc import RpcError
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    # It asserts that an answer has a result, which that of a proxy may not have.
    return (ApiException, QdrantException, RpcError, OSError, ValueError, RuntimeError, AssertionError)


def _may_pass(error: Exception) -> bool:
    """Whether the same call may succeed a little later."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status >= 500 or status == 429
    code = getattr(error, "code", None)
    if callable(code):
        return getattr(code(), "name", "") in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED")
    return not isinstance(error, ValueError)


def _is_lost(error: Exception) -> bool:
    """Whether the server says that the collection is not there. Its local mode says so with a ValueError."""
    code = getattr(error, "code", None)
    if callable(code):
        return getattr(code(), "name", "") == "NOT_FOUND"
    # A proxy that knows nothing of Qdrant says 404 as well, but not this.
    text = f"{error} {getattr(error, 'content', b'')!r}"
    status = getattr(error, "status_code", 404 if isinstance(error, ValueError) else None)
    return status == 404 and "ollection" in text and ("not found" in text or "exist" in text)


def _reason(error: Exception) -> str:
    """One line of what went wrong."""
    elsewhere = (getattr(error, "headers", None) or {}).get("location")
    if elsewhere:
        return f"it sends on to {elsewhere[:200]}; set qdrantUrl to where that is"
    details = getattr(error, "details", None)
    text = str(details() if callable(details) else error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
