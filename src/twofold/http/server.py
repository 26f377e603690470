"""Runs the app with uvicorn until it is told to stop, and then finishes what it began."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Sequence

import uvicorn
from fastapi import FastAPI

from twofold import settings
from twofold.errors import InvalidInput
from twofold.http import app, gate
from twofold.memory import Memory
from twofold.upstream import Upstream

GRACE = 30  # seconds that running requests have at the end; a stream that lasts longer is stored as partial
KEEP_ALIVE = 30  # seconds
MOST_HEAD = 512 * 1024  # bytes of a request's line and headers: the longest query that the routes take, encoded

_log = logging.getLogger("twofold.http")


def serve(
    memory: Memory,
    *,
    host: str = "127.0.0.1",
    port: int = 4000,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    require_token: bool = False,
) -> None:
    """Serve a memory. `require_token` also asks callers from this machine for one.

    Raises InvalidInput where tokens are needed, as on another address than loopback, and there is none.
    """
    local = gate.is_loopback(host) and not require_token
    token = settings.token()
    if not local and not token and not memory.tokens.exist():
        why = "tokens are required" if require_token else f"{host} can be reached from elsewhere"
        raise InvalidInput(f"{why}, and there is no token; make one with: twofold token add NAME, or set TWOFOLD_TOKEN")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    upstream = Upstream.of(settings.base())
    service = app.create(memory, upstream, gate.Gate(memory.tokens, token, local, hosts, origins))
    with listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        _log.info("serving %s on http://%s:%d", memory.path, shown, listener.getsockname()[1])
        # Uvicorn raises the signal again once all is finished; the default would end us before the file is closed.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            uvicorn.Server(config(service)).run(sockets=[listener])
        except KeyboardInterrupt:
            pass  # which uvicorn raises again once all is finished
        finally:
            upstream.close()


def config(service: FastAPI) -> uvicorn.Config:
    """How the app is run."""
    return uvicorn.Config(
        service,
        access_log=False,  # it would log what people ask
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=KEEP_ALIVE,
        h11_max_incomplete_event_size=MOST_HEAD,
        log_config=None,
    )


def listening(host: str, port: int) -> socket.socket:
    """The socket, taken before anything is loaded. Raises InvalidInput where it cannot be had."""
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:  # the latter for a name that can be none
        why = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot listen on {host} port {port} ({why}); name others with --host and --port") from None
    # asyncio does so only for sockets that it made itself; without it every answer waits 40 ms for the client's ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
