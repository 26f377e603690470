"""A language model's server that needs no model: OpenAI's chat API over real HTTP on loopback.

It answers a question with the line it was given that shares the most words with it, so that what a model could have
known shows in what it says. `python -m tests.fake_upstream --port 11434` runs it by itself.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

MODEL = "echo"
NOTED = "I have noted that."
UNKNOWN = "I do not know."

_COMMON = frozenset(
    "a about an and are at do does for i in is it me my of on or that the this to was we what you".split()
)
_FENCE = re.compile(r"<twofold-memory\b[^>]*>(.*?)</twofold-memory>", re.DOTALL)
_ENTITY = re.compile(r'<entity name="([^"]*)"[^>]*>')
_TAG = re.compile(r"</?[a-z][^<>]*>")
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")


class FakeUpstream:
    """The server, running while the block runs; `url` is its base URL, `bodies` are the requests it was sent.

    It answers with what `answer` says, or what the messages have to say when that is None. `failing` makes it fail:
    a status as 500, "garbage", "wrong shape", "hang" (until the client goes away), "break" (in the middle of a
    stream, after `break_after` chunks), "end" (the same without an error of the transport) or "endless" (a stream that
    only ends when the client hangs up, which `hung_up` then tells).
    """

    def __init__(self, port: int = 0) -> None:
        self.answer: str | None = None
        self.finish: str | None = "stop"
        self.failing: int | str | None = None
        self.failure_text = "something went wrong here"
        self.break_after = 2
        self.tool_calls: list[dict[str, Any]] = []
        self.proposal: str | None = None
        self.models = [MODEL]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.hung_up = threading.Event()
        self.stopped = threading.Event()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FakeUpstream:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def said(self, body: dict[str, Any]) -> str:
        """The answer to a request."""
        if self.answer is not None:
            return self.answer
        if _asks_for_entities(body["messages"]):
            return self.proposal if self.proposal is not None else _proposal(body["messages"])
        return reply(body["messages"])


def reply(messages: list[dict[str, Any]]) -> str:
    """The line of the quoted memory, or of what was said before, that shares the most words with the question."""
    *before, last = [message for message in messages if message.get("role") != "tool"]
    question = _text(last)
    if "?" not in question:
        return NOTED
    asked = _words(question)
    best = max(_lines(before), key=lambda line: len(asked & _words(line)), default="")
    return best if asked & _words(best) else UNKNOWN


def _lines(messages: list[dict[str, Any]]) -> Iterator[str]:
    """What can be known: the fenced memory of system messages, one line an episode or entity, and what was said."""
    for message in messages:
        text = _text(message)
        if message["role"] in ("system", "developer"):
            # The fence's first line speaks about the quotation.
            text = "\n".join(part.strip().partition("\n")[2] for part in _FENCE.findall(text))
            text = html.unescape(_ENTITY.sub(r"\1: ", text))
        for line in text.splitlines():
            plain = _TAG.sub(" ", line).strip()
            if plain and "?" not in plain:
                yield plain


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold())) - _COMMON


def _asks_for_entities(messages: list[dict[str, Any]]) -> bool:
    return messages[0]["role"] == "system" and "JSON array" in _text(messages[0])


def _proposal(messages: list[dict[str, Any]]) -> str:
    names = dict.fromkeys(name for name in _NAME.findall(_TAG.sub(" ", _text(messages[-1]))) if len(name.split()) > 1)
    return json.dumps([{"name": name, "type": "thing", "description": ""} for name in names])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeUpstream

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        fake = self.server.fake
        self.close_connection = True
        if isinstance(fake.failing, int):
            self._json({"error": {"message": fake.failure_text}}, fake.failing)
        elif fake.failing == "hang":
            fake.stopped.wait(30)
        elif self.path == "/v1/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "nobody"} for name in fake.models]
            self._json({"object": "list", "data": data})
        else:
            self._json({"error": {"message": "there is no such page"}}, 404)

    def do_POST(self) -> None:
        fake = self.server.fake
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake.headers.append({name.lower(): value for name, value in self.headers.items()})
        fake.bodies.append(body)
        if self.path != "/v1/chat/completions":
            self._json({"error": {"message": "there is no such page"}}, 404)
        elif isinstance(fake.failing, int):
            self._json({"error": {"message": fake.failure_text}}, fake.failing)
        elif fake.failing == "hang":
            fake.stopped.wait(30)
        elif fake.failing == "garbage":
            self._send(b"<html>what?", "text/html")
        elif fake.failing == "wrong shape":
            self._json({"hello": "there"})
        elif body.get("model") not in fake.models:
            self._json({"error": {"message": f"model {body.get('model')!r} not found"}}, 404)
        elif body.get("stream"):
            self._stream(body)
        else:
            self._json(_completion(body, fake))

    def _json(self, value: object, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, body: dict[str, Any]) -> None:
        """Server-sent events; chunked, so that a client can tell an end from a break, except where that shall fail."""
        fake = self.server.fake
        chunked = fake.failing != "end"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for number, chunk in enumerate(_chunks(body, fake)):
                if fake.failing in ("break", "end") and number > fake.break_after:
                    return
                self._event(json.dumps(chunk), chunked)
            self._event("[DONE]", chunked)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            fake.hung_up.set()

    def _event(self, data: str, chunked: bool) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event) if chunked else event)
        self.wfile.flush()


def _completion(body: dict[str, Any], fake: FakeUpstream) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": fake.said(body)}
    if fake.tool_calls:
        message |= {"content": None, "tool_calls": fake.tool_calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if fake.tool_calls else fake.finish}
    return _frame(body, "chat.completion", [choice]) | {"usage": _usage(body)}


def _chunks(body: dict[str, Any], fake: FakeUpstream) -> Iterator[dict[str, Any]]:
    """A chunk with the role, one for every word, one with the reason of the end, and the usage when asked for."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return _frame(body, "chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": finish}])

    yield chunk({"role": "assistant", "content": ""})
    if fake.tool_calls:
        yield chunk({"tool_calls": [{"index": place} | call for place, call in enumerate(fake.tool_calls)]})
        yield chunk({}, "tool_calls")
        return
    words = re.findall(r"\S+\s*", fake.said(body))
    yield from (chunk({"content": word}) for word in words)
    while fake.failing == "endless":
        yield chunk({"content": "and on "})
    yield chunk({}, fake.finish)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _frame(body, "chat.completion.chunk", []) | {"usage": _usage(body)}


def _frame(body: dict[str, Any], kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "chatcmpl-fake", "object": kind, "created": 0, "model": body["model"], "choices": choices}


def _usage(body: dict[str, Any]) -> dict[str, int]:
    asked = sum(len(_text(message).split()) for message in body["messages"])
    return {"prompt_tokens": asked, "completion_tokens": 1, "total_tokens": asked + 1}


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.fake_upstream", description=__doc__)
    parser.add_argument("--port", type=int, default=11434)
    with FakeUpstream(parser.parse_args().port) as fake:
        try:
            fake.stopped.wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
