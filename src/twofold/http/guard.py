"""The outermost layer: every request gets an id, goes through the gate, is timed, counted and logged.

Logged is the pattern of the route, never the path or the query, which hold what people say.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twofold.errors import TwofoldError
from twofold.http.gate import Gate, Refusal
from twofold.http.metrics import Metrics
from twofold.http.problems import Failure, failure_of, response
from twofold.memory import Memory

OPEN = ("/health",)  # answered without a token, then in one word
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("twofold.http")


class Guard:
    """ASGI middleware. Sets `request_id` and `memory`, the door that the request's token opens, in the state."""

    def __init__(self, app: ASGIApp, *, memory: Memory, gate: Gate, metrics: Metrics) -> None:
        self._app = app
        self._memory = memory
        self._gate = gate
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(headers.get("x-request-id", ""))
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = state["request_id"]
            await send(message)

        try:
            refused = self._enter(scope, headers)
            if refused:
                await response(refused, scope)(scope, receive, noted)
            else:
                await self._app(scope, receive, noted)
        except Exception as error:  # noqa: BLE001  the last adapter: no traceback reaches a user
            # The error's own text may quote what people said.
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("id=%s unexpected %s\n%s", state["request_id"], type(error).__name__, where)
            if not status:
                sentence = f"an unexpected error; it is in the log under the request id {state['request_id']}"
                await response(Failure(500, "internal", sentence), scope)(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "-")
            self._metrics.request(scope["method"], route, status, seconds)
            _log.info(
                "id=%s %s %s status=%d ms=%.1f", state["request_id"], scope["method"], route, status, seconds * 1000.0
            )

    def _enter(self, scope: Scope, headers: Headers) -> Failure | None:
        """Let a request in with the door it may use, or say why not."""
        try:
            found = self._gate.enter(headers)
        except TwofoldError as error:
            return failure_of(error)
        scope["state"]["anonymous"] = isinstance(found, Refusal)
        if isinstance(found, Refusal):
            if scope["path"] in OPEN:
                return None
            return Failure(401, "unauthorized", found.sentence, headers={"WWW-Authenticate": "Bearer"})
        scope["state"]["memory"] = self._memory if found.project is None else self._memory.within(found.project)
        return None


def _request_id(given: str) -> str:
    """The client's own id where it is harmless, else a new one."""
    return given if _ID.fullmatch(given) else uuid.uuid4().hex
