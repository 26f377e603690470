"""The app: its parts are handed to it, and all of it is visible here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from twofold import __version__
from twofold.errors import TwofoldError
from twofold.http import chat, entities, exports, feedback, imports, operations, page, problems, recall, rows, view
from twofold.http.document import Service
from twofold.http.gate import Gate
from twofold.http.guard import Guard
from twofold.http.metrics import Metrics
from twofold.http.reach import UpstreamHealth
from twofold.mcp_server import over_http
from twofold.memory import Memory
from twofold.upstream import Upstream

MOST_BODY = 16 * 1024**2  # bytes; a message of 2 MiB may be six times as long in JSON
MOST_IMPORT = 2 * 1024**3  # bytes of an imported file
THREADS = 4  # requests that work on the store at once; more get in each other's way, and each has a page cache
IMPORTS = 2  # files that are imported at once
CHATS = 64  # turns that wait for the model's next word at once

# What any route can answer, whatever else it does.
ANY = problems.documented(400, 401, 413, 422, 500, 503)


def create(memory: Memory, upstream: Upstream, gate: Gate) -> FastAPI:
    """The service over one memory. `gate` says who may come in; closing the memory is the caller's."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        app.state.chats = anyio.CapacityLimiter(CHATS)
        app.state.imports = anyio.CapacityLimiter(IMPORTS)
        async with mcp.run():
            yield

    mcp = over_http()
    metrics = Metrics(memory)
    middleware = [
        Middleware(Guard, memory=memory, gate=gate, metrics=metrics, most={"": MOST_BODY, "/import": MOST_IMPORT})
    ]
    if gate.origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(gate.origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id", *chat.HEADERS],
            expose_headers=["X-Request-Id", *chat.HEADERS],
        )
        middleware.insert(0, cors)
    app = Service(
        title="Twofold",
        version=__version__,
        description="Long-term memory for AI assistants that recalls by meaning and by word, and shows why.",
        docs_url=None,  # these two would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=lifespan,
        middleware=middleware,
        generate_unique_id_function=_operation_id,
        exception_handlers={
            TwofoldError: problems.on_twofold_error,
            HTTPException: problems.on_http_error,
            RequestValidationError: problems.on_invalid_request,
        },
    )
    app.state.memory = memory
    app.state.upstream = upstream
    app.state.upstream_health = UpstreamHealth(upstream)
    app.state.metrics = metrics
    # /episodes/search stands before /episodes/{id}
    for part in (operations, recall, view, rows, imports, exports, entities, feedback, chat):
        app.include_router(part.router, responses=ANY)
    app.router.routes += page.routes()
    app.router.routes.append(Route("/mcp", endpoint=StreamableHTTPASGIApp(mcp)))
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
