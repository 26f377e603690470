"""A service over real HTTP on loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from tests.conftest import Opener
from twofold import Memory
from twofold.http import app
from twofold.http.gate import Gate
from twofold.http.server import config, listening
from twofold.upstream import Upstream

NO_MODEL = "http://127.0.0.1:9/v1"  # the discard port: nothing listens there


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its client, and the memory behind it."""

    http: httpx2.Client
    memory: Memory
    app: FastAPI

    @property
    def url(self) -> str:
        return str(self.http.base_url)

    def as_(self, secret: str) -> httpx2.Client:
        """A client that shows a token."""
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {secret}"}, trust_env=False)


@contextmanager
def running(service: FastAPI) -> Iterator[str]:
    """The address of a service that listens before this begins, so that nobody has to wait for it."""
    listener = listening("127.0.0.1", 0)
    server = uvicorn.Server(config(service))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


Starter = Callable[..., Service]


@pytest.fixture
def start(open_memory: Opener) -> Iterator[Starter]:
    """Starts services, and ends them when the test is done."""
    with ExitStack() as ends:

        def start_(
            memory: Memory | None = None,
            *,
            upstream: str = NO_MODEL,
            token: str | None = None,
            local: bool = True,
            hosts: tuple[str, ...] = (),
            origins: tuple[str, ...] = (),
            key: str = "",
        ) -> Service:
            memory = memory or open_memory()
            model = ends.enter_context(Upstream(upstream, key, timeout=5.0))
            made = app.create(memory, model, Gate(memory.tokens, token, local, hosts, origins))
            url = ends.enter_context(running(made))
            client = ends.enter_context(httpx2.Client(base_url=url, trust_env=False, timeout=20.0))
            return Service(client, memory, made)

        yield start_


@pytest.fixture
def service(start: Starter) -> Service:
    """An empty service with the hashing embedder and no language model."""
    return start()
