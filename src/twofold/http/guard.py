"""The outermost layer: every request gets an id, goes through the gate, is timed, counted and logged.

Logged is the pattern of the route, never the path or the query, which hold what people say.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twofold.errors import TwofoldError
from twofold.http import page
from twofold.http.gate import Gate, Refusal
from twofold.http.metrics import Metrics
from twofold.http.problems import Failure, body_too_large, failure_of, response
from twofold.memory import Memory

OPEN = ("/", "/health")  # answered without a token, health then in one word
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("twofold.http")


class Guard:
    """ASGI middleware. Sets `request_id`, `memory`, the door that the request's token opens, and `bound` in the state.

    `bound` says that this door opens on one project; `anonymous`, that there is none. `most` is how many bytes the
    body for a path may have, that of "" for the others.
    """

    def __init__(self, app: ASGIApp, *, memory: Memory, gate: Gate, metrics: Metrics, most: Mapping[str, int]) -> None:
        self._app = app
        self._memory = memory
        self._gate = gate
        self._metrics = metrics
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(headers.get("x-request-id", ""))
        answer = _Answer(scope, send, self._metrics)
        most = self._most.get(scope["path"], self._most[""])
        try:
            refused = self._enter(scope, headers) or _too_large(headers, most)
            if refused:
                await response(refused, scope)(scope, receive, answer.send)
            else:
                await self._app(scope, _counted(receive, most), answer.send)
        except Exception as error:  # noqa: BLE001  the last adapter: no traceback reaches a user
            # The error's own text may quote what people said.
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("id=%s unexpected %s\n%s", state["request_id"], type(error).__name__, where)
            if not answer.status:
                sentence = f"an unexpected error; it is in the log under the request id {state['request_id']}"
                await response(Failure(500, "internal", sentence), scope)(scope, receive, answer.send)
        finally:
            answer.note()

    def _enter(self, scope: Scope, headers: Headers) -> Failure | None:
        """Let a request in with the door it may use, or say why not."""
        try:
            found = self._gate.enter(headers)
        except TwofoldError as error:
            return failure_of(error)
        scope["state"]["anonymous"] = isinstance(found, Refusal)
        if isinstance(found, Refusal):
            if scope["path"] in OPEN or scope["path"].startswith(page.OPEN):
                return None
            return Failure(401, "unauthorized", found.sentence, headers={"WWW-Authenticate": "Bearer"})
        scope["state"]["bound"] = found.project is not None
        scope["state"]["memory"] = self._memory if found.project is None else self._memory.within(found.project)
        return None


class _Answer:
    """Passes an answer on with its request's id, and notes it once: at its end, or where it breaks off."""

    def __init__(self, scope: Scope, send: Send, metrics: Metrics) -> None:
        self.status = 0
        self._scope = scope
        self._send = send
        self._metrics = metrics
        self._start = time.perf_counter()
        self._noted = False

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["x-request-id"] = self._scope["state"]["request_id"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.note()  # what is done afterwards is none of the client's time
        await self._send(message)

    def note(self) -> None:
        """Count, time and log the request, unless it was."""
        if self._noted:
            return
        self._noted = True
        seconds = time.perf_counter() - self._start
        method, id_ = self._scope["method"], self._scope["state"]["request_id"]
        route = getattr(self._scope.get("route"), "path", "-")
        self._metrics.request(method, route, self.status, seconds)
        _log.info("id=%s %s %s status=%d ms=%.1f", id_, method, route, self.status, seconds * 1000.0)


def _too_large(headers: Headers, most: int) -> Failure | None:
    """Refuse a body that says beforehand that it is too large."""
    length = headers.get("content-length", "")
    return body_too_large(most) if length.isdecimal() and int(length) > most else None


def _counted(receive: Receive, most: int) -> Receive:
    """The same, until more has come than may."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, body_too_large(most).detail)
        return message

    return counted


def _request_id(given: str) -> str:
    """The client's own id where it is harmless, else a new one."""
    return given if _ID.fullmatch(given) else uuid.uuid4().hex
