"""An embedding server that needs no model: OpenAI's embeddings API over real HTTP on loopback.

A text's vector counts its words, so that texts which share words are near.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from twofold.embed.hashing import HashEmbedder

DIMENSIONS = {"small": 48, "wide": 96, "nomic-embed-text": 48}


class FakeServer:
    """The server, running while the block runs; `url` is its base URL, `bodies` are the requests it was sent.

    `failing` makes it fail: a status as 500, "garbage", "wrong shape", "too few", "not finite" or "hang" (until
    released). `size` makes vectors of another length than promised. After `free` requests those that come wait
    until `released`, which `held` tells.
    """

    def __init__(self, port: int = 0) -> None:
        self.failing: int | str | None = None
        self.fail_times = -1  # how often; -1 for always
        self.failure_text = "something went wrong here"
        self.size: int | None = None
        self.free: int | None = None
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.held = threading.Event()
        self.released = threading.Event()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def texts(self) -> list[str]:
        """All texts that it was sent, in order."""
        return [text for body in self.bodies for text in body["input"]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake.headers.append({name.lower(): value for name, value in self.headers.items()})
        fake.bodies.append(body)
        if fake.free is not None and len(fake.bodies) > fake.free:
            fake.held.set()
            fake.released.wait(30)
        failing = fake.failing if fake.fail_times else None
        if failing is not None and fake.fail_times > 0:
            fake.fail_times -= 1
        if self.path != "/v1/embeddings":
            self._json({"error": {"message": "there is no such page"}}, 404)
        elif isinstance(failing, int):
            self._json({"error": {"message": fake.failure_text}}, failing)
        elif failing == "hang":
            fake.released.wait(30)
        elif failing == "garbage":
            self._send(b"<html>what?", "text/html", 200)
        elif failing == "wrong shape":
            self._json({"hello": "there"})
        elif body["model"] not in DIMENSIONS:
            self._json({"error": {"message": f"model {body['model']!r} not found"}}, 404)
        elif "" in body["input"]:
            self._json({"error": {"message": "input cannot be an empty string"}}, 400)
        else:
            self._json(self._answer(body, failing))

    def _answer(self, body: dict[str, Any], failing: str | None) -> dict[str, Any]:
        """The vectors, the last text's first, each with its index."""
        size = self.server.fake.size or body.get("dimensions") or DIMENSIONS[body["model"]]
        embedder = HashEmbedder(size)
        vectors = [[3.0 * float(number) for number in embedder.embed_query(text)] for text in body["input"]]
        if failing == "not finite":
            vectors = [[float("inf")] * size for _ in vectors]
        data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        data = data[1:] if failing == "too few" else data
        return {"object": "list", "model": body["model"], "data": data[::-1], "usage": {}}

    def _json(self, value: object, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(data)
