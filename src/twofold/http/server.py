"""Runs the app with uvicorn until it is told to stop, and then finishes what it began."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence

import uvicorn

from twofold import settings
from twofold.errors import InvalidInput
from twofold.http import app, gate
from twofold.memory import Memory
from twofold.upstream import Upstream

GRACE = 30  # seconds that running requests have at the end; a stream that lasts longer is stored as partial
KEEP_ALIVE = 30  # seconds

_log = logging.getLogger("twofold.http")


def serve(
    memory: Memory,
    *,
    host: str = "127.0.0.1",
    port: int = 4000,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> None:
    """Serve a memory. Raises InvalidInput for another address than loopback where there is no token."""
    local = gate.is_loopback(host)
    token = settings.token()
    if not local and not token and not memory.tokens.exist():
        raise InvalidInput(
            f"{host} can be reached from elsewhere, and there is no token; make one with: twofold token add NAME, "
            "or set TWOFOLD_TOKEN"
        )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    upstream = Upstream.of(settings.base())
    service = app.create(memory, upstream, gate.Gate(memory.tokens, token, local, hosts, origins))
    config = uvicorn.Config(
        service,
        host=host,
        port=port,
        access_log=False,  # it would log what people ask
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=KEEP_ALIVE,
        log_config=None,
    )
    with _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        _log.info("serving %s on http://%s:%d", memory.path, shown, listener.getsockname()[1])
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            pass  # which uvicorn raises again once all is finished
        finally:
            upstream.close()


def _listening(host: str, port: int) -> socket.socket:
    """The socket, taken before anything is loaded. Raises InvalidInput where it cannot be had."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = error.strerror or error
        raise InvalidInput(f"cannot listen on {host} port {port} ({why}); name others with --host and --port") from None
