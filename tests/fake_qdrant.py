"""A server that speaks as much of Qdrant's REST as Twofold asks for, with the faults of a network before it.

What it keeps is in the local mode of qdrant-client. A fault is for one request: it says what becomes of it.
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from qdrant_client import QdrantClient, models

Fault = Literal["none", "cut before", "cut after", "slow", "held", "500", "429", "429 later", "no result", "html"]

KEY = "a key"
SLOW = 1.3  # seconds, where the client waits for one


class FakeQdrant:
    """The server, from `start` to `stop`, at `url`.

    `faults` are for the next requests; those that are `held` are applied by `release`.
    `prefix` is the path under which it answers, `key` the one that it wants, `elsewhere` where it sends all to.
    """

    def __init__(self, *, prefix: str = "", key: str = "", elsewhere: str = "") -> None:
        self.prefix = prefix
        self.key = key
        self.elsewhere = elsewhere
        self.faults: deque[Fault] = deque()
        self.chance: Callable[[str], Fault] = lambda request: "none"
        self.held: list[tuple[str, str, bytes]] = []
        self.asked: list[str] = []
        self.port = 0
        self._client = QdrantClient(":memory:")
        self._one = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def start(self) -> None:
        """Listen, at the port of before if there was one."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Be away."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def wipe(self) -> None:
        """Lose everything, as a server without a volume does when it is made anew."""
        with self._one:
            self._client = QdrantClient(":memory:")

    def release(self) -> None:
        """Apply the requests that were held, the last first."""
        while self.held:
            self.answer(*self.held.pop())

    def ids(self) -> dict[str, set[int]]:
        """The points of each collection."""
        with self._one:
            names = [one.name for one in self._client.get_collections().collections]
            return {name: {point.id for point in self._client.scroll(name, limit=10_000)[0]} for name in names}  # type: ignore[misc]

    def fault(self, request: str) -> Fault:
        """What becomes of a request, given as method and path."""
        return self.faults.popleft() if self.faults else self.chance(request)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Status and result of a request."""
        self.asked.append(f"{method} {path}")
        with self._one, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that local mode needs no payload index
            for verb, pattern, work in ROUTES:
                found = re.fullmatch(pattern, path)
                if verb == method and found:
                    try:
                        return 200, work(self._client, *found.groups(), json.loads(body or b"{}"))
                    except ValueError as error:
                        return (404 if "not found" in str(error) else 400), str(error)
        return 404, "no such path"


def _points(client: QdrantClient, name: str, body: dict[str, Any]) -> Any:
    structs = [models.PointStruct.model_validate(point) for point in body["points"]]
    condition = body.get("update_filter")
    client.upsert(name, structs, update_filter=condition and models.Filter.model_validate(condition))
    return {"operation_id": 1, "status": "completed"}


def _delete(client: QdrantClient, name: str, body: dict[str, Any]) -> Any:
    selector = models.PointIdsList if "points" in body else models.FilterSelector
    client.delete(name, selector.model_validate(body))
    return {"operation_id": 1, "status": "completed"}


def _query(client: QdrantClient, name: str, body: dict[str, Any]) -> Any:
    query = body["query"]
    near = query["nearest"] if isinstance(query, dict) and "nearest" in query else query
    found = client.query_points(
        name,
        query=models.SparseVector.model_validate(near) if isinstance(near, dict) else near,
        using=body["using"],
        query_filter=body.get("filter") and models.Filter.model_validate(body["filter"]),
        limit=body["limit"],
        with_payload=False,
    )
    return _plain(found)


def _scroll(client: QdrantClient, name: str, body: dict[str, Any]) -> Any:
    found, offset = client.scroll(name, offset=body["offset"], limit=body["limit"], with_payload=False)
    return {"points": [_plain(record) for record in found], "next_page_offset": offset}


def _create(client: QdrantClient, name: str, body: dict[str, Any]) -> Any:
    given = models.CreateCollection.model_validate(body)
    return client.create_collection(
        name, vectors_config=given.vectors or {}, sparse_vectors_config=given.sparse_vectors
    )


def _aliases(client: QdrantClient, body: dict[str, Any]) -> Any:
    actions = models.ChangeAliasesOperation.model_validate(body).actions
    return client.update_collection_aliases(actions)


def _plain(model: Any) -> Any:
    return model.model_dump(mode="json")


NAME = "/collections/([^/]+)"
ROUTES: Iterable[tuple[str, str, Callable[..., Any]]] = (
    ("GET", "/collections", lambda client, body: _plain(client.get_collections())),
    ("GET", f"{NAME}/exists", lambda client, name, body: {"exists": client.collection_exists(name)}),
    ("GET", NAME, lambda client, name, body: _plain(client.get_collection(name))),
    ("PUT", NAME, _create),
    ("DELETE", NAME, lambda client, name, body: client.delete_collection(name)),
    ("PUT", f"{NAME}/index", lambda client, name, body: {"operation_id": 1, "status": "completed"}),
    ("PUT", f"{NAME}/points", _points),
    ("POST", f"{NAME}/points/delete", _delete),
    ("POST", f"{NAME}/points/query", _query),
    ("POST", f"{NAME}/points/scroll", _scroll),
    ("POST", f"{NAME}/points/count", lambda client, name, body: _plain(client.count(name, exact=True))),
    ("GET", "/aliases", lambda client, body: _plain(client.get_aliases())),
    ("POST", "/collections/aliases", _aliases),
)


def _handler(fake: FakeQdrant) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.split("?")[0]
            if fake.elsewhere:
                self.say(307, b"", {"Location": fake.elsewhere + path})
            elif fake.key and self.headers.get("api-key") != fake.key:
                self.say(401, b"Must provide an API key or an Authorization bearer token")
            elif not path.startswith(fake.prefix + "/"):
                self.say(404, b"<html>nothing here</html>")
            else:
                self.pass_on(fake.fault(f"{self.command} {path}"), path.removeprefix(fake.prefix), body)

        do_PUT = do_POST = do_DELETE = do_GET

        def pass_on(self, fault: Fault, path: str, body: bytes) -> None:
            request = (self.command, path, body)
            if fault in ("cut before", "held"):
                if fault == "held":
                    fake.held.append(request)
                self.close_connection = True
                self.connection.close()
            elif fault == "cut after":
                fake.answer(*request)
                self.close_connection = True
                self.connection.close()
            elif fault == "500":
                self.say(500, b'{"status":{"error":"out of luck"}}')
            elif fault in ("429", "429 later"):
                self.say(429, b'{"status":{"error":"too many"}}', {"Retry-After": "1"} if fault == "429 later" else {})
            elif fault in ("no result", "html"):
                self.say(200, b"{}" if fault == "no result" else b"<html>a proxy's own page</html>")
            else:
                if fault == "slow":
                    threading.Event().wait(SLOW)
                self.say_json(*fake.answer(*request))

        def say_json(self, status: int, result: Any) -> None:
            shown = {"result": result, "status": "ok"} if status == 200 else {"status": {"error": result}}
            self.say(status, json.dumps({**shown, "time": 0.0}).encode())

        def say(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError, ValueError):
                self.close_connection = True  # the client waits no longer

    return Handler
