"""Every error is a problem with its id, and no log tells what people say."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from tests.conftest import Opener
from tests.fake_upstream import FakeUpstream
from tests.http.conftest import Service, Starter
from twofold.catalog import Catalog
from twofold.errors import StoreError
from twofold.http import app
from twofold.http.examples import EXAMPLES

JSON = {"Content-Type": "application/json"}
SECRET = "aubergine-4711"


def raw(service: Service, request: bytes) -> tuple[int, str, bytes]:
    """The status, media type and body that a request of these very bytes gets."""
    with socket.create_connection(("127.0.0.1", service.http.base_url.port or 0), timeout=10) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.headers.get_content_type(), answer.read()


def nested(depth: int) -> bytes:
    return b'{"content": "x", "metadata": {"a": ' + b"[" * depth + b"]" * depth + b"}}"


# What is sent, and the status and kind of problem that are right for it.
REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/nowhere", {}, 404, "no-route"),
    ("GET", "/%zz", {}, 404, "no-route"),
    ("GET", "/%ff%00", {}, 404, "no-route"),
    ("GET", "/projects/1%2F2", {}, 404, "no-route"),
    ("GET", "/projects/", {}, 404, "no-route"),
    ("GET", "/projects/" + "a" * 20_000, {}, 422, "invalid-input"),
    ("GET", "/projects/" + "9" * 5_000, {}, 422, "invalid-input"),
    ("GET", "/projects/9223372036854775808", {}, 422, "invalid-input"),
    ("GET", "/projects/%ff", {}, 422, "invalid-input"),
    ("GET", "/projects/7", {}, 404, "not-found"),
    ("GET", "/sessions/7", {}, 404, "not-found"),
    ("GET", "/sessions?limit=0", {}, 422, "invalid-input"),
    ("GET", "/sessions?limit=501", {}, 422, "invalid-input"),
    ("GET", "/sessions?limit=1e2", {}, 422, "invalid-input"),
    ("GET", "/sessions?after=%ff", {}, 422, "invalid-input"),
    ("GET", "/sessions?project=%ff", {}, 404, "not-found"),
    ("GET", "/episodes/search", {}, 422, "invalid-input"),
    ("GET", "/episodes/search?q=" + "a" * 8193, {}, 422, "invalid-input"),
    ("PUT", "/projects", {}, 405, "method-not-allowed"),
    ("TRACE", "/projects/1", {}, 405, "method-not-allowed"),
    ("OPTIONS", "/recall", {}, 405, "method-not-allowed"),
    ("POST", "/projects", {"content": b'{"name": "x"}'}, 415, "unsupported-media-type"),
    (
        "POST",
        "/projects",
        {"content": b"name=x", "headers": {"Content-Type": "text/plain"}},
        415,
        "unsupported-media-type",
    ),
    (
        "PATCH",
        "/settings",
        {"content": b"{}", "headers": {"Content-Type": "text/plain"}},
        415,
        "unsupported-media-type",
    ),
    ("POST", "/v1/chat/completions", {"content": b"{}"}, 415, "unsupported-media-type"),
    ("POST", "/projects", {"content": b"", "headers": JSON}, 422, "invalid-input"),
    ("POST", "/projects", {"content": b"null", "headers": JSON}, 422, "invalid-input"),
    ("POST", "/projects", {"content": b'{"name": ', "headers": JSON}, 422, "invalid-input"),
    ("POST", "/projects", {"content": b'{"name": "\xff"}', "headers": JSON}, 400, "malformed"),
    ("POST", "/projects", {"content": b"[" * 100_000, "headers": JSON}, 400, "malformed"),
    ("POST", "/projects", {"content": b"1" * 5_000, "headers": JSON}, 400, "malformed"),
    ("POST", "/projects", {"content": rb'{"name": "\ud800"}', "headers": JSON}, 422, "invalid-input"),
    ("POST", "/projects", {"content": rb'{"\ud800": 1, "name": "x"}', "headers": JSON}, 422, "invalid-input"),
    ("POST", "/projects", {"json": {"name": 5}}, 422, "invalid-input"),
    ("POST", "/projects", {"json": {"name": " "}}, 422, "invalid-input"),
    ("POST", "/projects", {"json": {"name": "x" * 513}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "nonsense": 1}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "session_id": 1}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "sessionId": "1"}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "sessionId": 2**70}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "time": "2026-03-14T09:30:00"}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "time": 1e9}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "time": "9999-12-31T23:59:59-23:00"}}, 422, "invalid-input"),
    ("POST", "/episodes", {"json": {"content": "x", "time": "0001-01-01T00:00:00+23:00"}}, 422, "invalid-input"),
    (
        "POST",
        "/episodes",
        {"content": rb'{"content": "x", "metadata": {"a": "\ud800"}}', "headers": JSON},
        422,
        "invalid-input",
    ),
    (
        "POST",
        "/episodes",
        {"content": rb'{"content": "x", "metadata": {"\ud800": 1}}', "headers": JSON},
        422,
        "invalid-input",
    ),
    (
        "POST",
        "/episodes",
        {"content": b'{"content": "x", "metadata": {"a": NaN}}', "headers": JSON},
        422,
        "invalid-input",
    ),
    (
        "POST",
        "/episodes",
        {"content": b'{"content": "x", "metadata": {"a": -1e999}}', "headers": JSON},
        422,
        "invalid-input",
    ),
    ("POST", "/episodes", {"content": nested(64), "headers": JSON}, 422, "invalid-input"),
    ("POST", "/episodes", {"content": nested(900), "headers": JSON}, 422, "invalid-input"),
    ("POST", "/recall", {"content": b'{"query": "x", "limit": Infinity}', "headers": JSON}, 422, "invalid-input"),
    ("POST", "/recall", {"json": {"query": "x", "exclude": [1, "2"]}}, 422, "invalid-input"),
    ("POST", "/context", {"json": {"message": "x", "zone": "../../etc/passwd"}}, 422, "invalid-input"),
    ("POST", "/context", {"json": {"message": "x", "zone": "a\x00b"}}, 422, "invalid-input"),
    ("POST", "/entities", {"json": {"name": "x", "type": "Two Words"}}, 422, "invalid-input"),
    ("POST", "/chat", {"json": {"message": "x"}}, 503, "no-model"),
    ("POST", "/v1/chat/completions", {"json": {}}, 422, "invalid-input"),
    (
        "POST",
        "/v1/chat/completions",
        {"json": {"messages": [{"role": "user", "content": "x"}], "stream": "yes"}},
        422,
        "invalid-input",
    ),
    (
        "POST",
        "/v1/chat/completions",
        {"json": {"messages": [{"role": "user", "content": "x"}], "metadata": [1]}},
        422,
        "invalid-input",
    ),
    (
        "POST",
        "/v1/chat/completions",
        {"content": rb'{"messages": [{"role": "user", "content": "\ud800"}]}', "headers": JSON},
        422,
        "invalid-input",
    ),
    (
        "POST",
        "/v1/chat/completions",
        {"content": b'{"messages": [{"role": "user"}], "seed": NaN}', "headers": JSON},
        422,
        "invalid-input",
    ),
    ("POST", "/import", {"content": b""}, 422, "import-failed"),
    ("POST", "/import", {"content": b"PK\x03\x04junk"}, 422, "import-failed"),
    ("POST", "/import", {"content": b"\x00" * 100}, 422, "import-failed"),
    ("POST", "/import?kind=nonsense", {"content": b"[]"}, 422, "invalid-input"),
]


def test_what_cannot_be_taken_is_a_problem_with_its_id_and_changes_nothing(service: Service) -> None:
    document = service.http.get("/openapi.json").json()
    problem = Draft202012Validator(
        document["components"]["schemas"]["Problem"] | {"components": document["components"]}
    )
    for method, path, more, status, slug in REFUSED:
        answer = service.http.request(method, path, **more)
        what = (method, path[:40], str(more)[:80], answer.text[:300])
        assert answer.status_code == status, what
        assert answer.headers["content-type"] == "application/problem+json", what
        told = answer.json()
        problem.validate(told)
        assert told["type"] == f"urn:twofold:problem:{slug}", what
        assert (told["status"], told["requestId"]) == (status, answer.headers["x-request-id"]), what
        assert told["title"] == http.client.responses[status].replace("Content", "Entity") or told["title"], what
        assert 0 < len(told["detail"]) < 800, what
        assert not told["detail"].endswith("."), what
        assert "Traceback" not in answer.text, what
        assert "/tmp" not in answer.text, what
        assert ("error" in told) is path.startswith("/v1/"), what
    for path in ("/projects", "/sessions", "/episodes", "/entities"):
        assert service.http.get(path).json()["items"] == [], path


def test_what_looks_odd_and_is_right_is_taken(service: Service) -> None:
    for content, stored in (
        (b'{"content": "x", "content": "twice: the last counts"}', "twice: the last counts"),
        (rb'{"content": "a\u0000b"}', "a\x00b"),
        (rb'{"content": "\ud83d\ude80"}', "\N{ROCKET}"),
        ('{"content": "UTF-16"}'.encode("utf-16"), "UTF-16"),
        (nested(63), "x"),
        (b'{"content": "huge", "metadata": {"a": ' + b"1" * 4_000 + b"}}", "huge"),
    ):
        made = service.http.post("/episodes", content=content, headers={"Content-Type": "application/vnd.api+json"})
        assert made.status_code == 201, made.text
        assert made.json()["content"] == stored
    assert len(service.http.get("/episodes").json()["items"]) == 6
    assert len(service.http.post("/recall", json={"query": "x", "limit": 200}).json()["hits"]) == 6


def test_a_method_that_a_path_does_not_take_is_told_all_that_it_takes(service: Service) -> None:
    for path, taken in (("/projects", "GET, POST"), ("/episodes/1", "DELETE, GET, PATCH"), ("/recall", "POST")):
        for method in ("PUT", "HEAD", "TRACE", "OPTIONS", "WHATEVER"):
            answer = service.http.request(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, taken), (method, path)


def test_bytes_that_are_hardly_http_are_refused(service: Service) -> None:
    for request in (
        b"GET /projects HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /projects HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"GET /pro jects HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /projects HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ):
        try:
            status, _, body = raw(service, request)
        except ConnectionError:
            continue  # hung up in the middle of what is too long
        assert status == 400, request[:40]
        assert b"Traceback" not in body
    status, kind, _ = raw(service, b"GET http://evil.example/projects HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert (status, kind) == (401, "application/problem+json")


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_BODY", 100_000)
    service = start()

    def chunks() -> Any:
        yield b'{"content": "'
        for _ in range(20):
            yield b"x" * 10_000
        yield b'"}'

    for body in (b"".join(chunks()), chunks()):
        answer = service.http.post("/episodes", content=body, headers=JSON)
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:twofold:problem:too-large"
    assert service.http.get("/episodes").json()["items"] == []
    # A file may be larger, and so may what it makes.
    lines = b"\n".join(json.dumps({"content": f"{number} " + "y" * 1000}).encode() for number in range(200))
    assert service.http.post("/import", content=lines).json()["added"] == 200


def test_the_clients_own_request_id_is_kept_where_it_is_harmless(service: Service) -> None:
    for given in ("abc-123", "A.b_c-9", "x" * 64):
        answer = service.http.get("/projects/7", headers={"X-Request-Id": given})
        assert (answer.headers["x-request-id"], answer.json()["requestId"]) == (given, given)
    made = set()
    for given in ("", "x" * 65, "a b", "a\tb", "<b>", "ü".encode(), "a,b"):
        answer = service.http.get("/projects", headers={"X-Request-Id": given})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
        made.add(answer.headers["x-request-id"])
    assert len(made) == 7


def test_an_unexpected_error_says_nothing_but_where_to_look(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Catalog, id_: int) -> None:
        try:
            raise KeyError(SECRET)
        except KeyError:
            raise ValueError(f"{SECRET} {id_}")  # noqa: B904  what a fault of ours looks like

    monkeypatch.setattr(Catalog, "session", broken)
    caplog.set_level(logging.DEBUG)
    answer = service.http.get("/sessions/7", headers={"X-Request-Id": "find-me"})
    assert answer.status_code == 500
    told = answer.json()
    assert (told["type"], told["title"]) == ("urn:twofold:problem:internal", "Internal Server Error")
    assert "find-me" in told["detail"]
    for word in (SECRET, "Traceback", "ValueError", ".py", "sessions/7"):
        assert word not in answer.text
    logged = ours(caplog)
    assert "find-me" in logged
    assert "ValueError" in logged
    assert "broken" in logged  # the place
    assert SECRET not in logged
    assert service.http.get("/health").status_code == 200


def test_an_error_of_the_store_is_a_503_with_its_sentence(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(self: Catalog, id_: int) -> None:
        raise StoreError("the file is locked by another program; close that one")

    monkeypatch.setattr(Catalog, "session", locked)
    answer = service.http.get("/sessions/7")
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:twofold:problem:store"
    assert answer.json()["detail"] == "the file is locked by another program; close that one"


def test_below_v1_a_problem_is_also_what_clients_of_openai_read(start: Starter) -> None:
    with FakeUpstream() as upstream:
        service = start(upstream=upstream.url)
        asked = {"model": "echo", "messages": [{"role": "user", "content": "hello?"}]}
        for failing, status, slug in ((500, 502, "chat"), ("garbage", 502, "chat"), (404, 503, "no-model")):
            upstream.failing = failing
            for stream in (False, True):
                answer = service.http.post("/v1/chat/completions", json={**asked, "stream": stream})
                told = answer.json()
                assert (answer.status_code, told["type"]) == (status, f"urn:twofold:problem:{slug}")
                assert answer.headers["content-type"] == "application/problem+json"
                assert told["error"]["message"] == told["detail"]
        assert service.http.get("/v1/models").status_code == 502


def ours(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged by the service's side; the client of this test logs its own requests."""
    client = ("httpx2", "httpcore2", "urllib3", "asyncio")
    records = [record for record in caplog.records if not record.name.startswith(client)]
    return "\n".join(caplog.handler.format(record) for record in records)


def test_no_log_tells_what_people_say_or_ask(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    """A walk over the routes with a word that may stand nowhere, in every place that takes words; errors too."""
    caplog.set_level(logging.DEBUG)
    with FakeUpstream() as upstream:
        upstream.failure_text = SECRET
        service = start(upstream=upstream.url)
        http_ = service.http
        http_.patch("/settings", json={"llmModel": "echo", "proposeEntities": "on"})
        where = {"session": SECRET, "project": SECRET}
        made = http_.post("/episodes", json={"content": SECRET, "metadata": {SECRET: SECRET}, **where}).json()
        http_.post("/entities", json={"name": SECRET, "type": "person", "project": SECRET})
        for path in ("/episodes/search", "/entities/search"):
            assert http_.get(path, params={"q": SECRET}).status_code == 200
        for path, body in (
            ("/recall", {"query": SECRET}),
            ("/recall/why-not", {"query": SECRET, "episode": made["id"]}),
            ("/context", {"message": SECRET, **where}),
            ("/chat", {"message": SECRET, **where}),
            ("/chat", {"message": SECRET, "stream": True, **where}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": SECRET}]}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": SECRET}], "stream": True}),
        ):
            assert http_.post(path, json=body).status_code == 200, path
        http_.post("/import", content=json.dumps({"content": SECRET}).encode())
        for path in (f"/{SECRET}", f"/projects/{SECRET}", f"/sessions?project={SECRET}&after={SECRET}"):
            assert http_.get(path, headers={"X-Request-Id": f"{SECRET} {SECRET}"}).is_client_error
        http_.post("/episodes", json={"content": SECRET, SECRET: SECRET})
        http_.post("/episodes", content=f'{{"content": "{SECRET}', headers=JSON)
        http_.post("/import", content=f"{SECRET}".encode())
        http_.get("/episodes", headers={"Authorization": f"Bearer twofold_{SECRET}"})
        http_.get("/episodes", headers={"Host": SECRET, "Origin": f"http://{SECRET}"})
        for failing in (500, "break", "garbage", "wrong shape"):
            upstream.failing = failing
            http_.post("/chat", json={"message": SECRET, "stream": failing == "break"})
    logged = ours(caplog)
    assert logged.count("status=") > 20
    assert SECRET not in logged
    assert SECRET.split("-")[0] not in logged


def test_every_error_of_a_route_is_documented_as_a_problem(service: Service) -> None:
    document = service.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            errors = {status: one for status, one in operation["responses"].items() if status >= "400"}
            assert {"400", "401", "413", "422", "500", "503"} <= errors.keys(), (method, path)
            if "{id}" in path:
                assert "404" in errors, (method, path)
            if "application/json" in operation.get("requestBody", {}).get("content", {}):
                assert "415" in errors, (method, path)
            for status, one in errors.items():
                health = path == "/health" and status == "503"
                kind = "application/json" if health else "application/problem+json"
                shape = "HealthOut" if health else "Problem"
                assert one["content"] == {kind: {"schema": {"$ref": f"#/components/schemas/{shape}"}}}, (path, status)


def test_the_examples_of_the_document_are_of_the_shape_they_show(service: Service, open_memory: Opener) -> None:
    document = service.http.get("/openapi.json").json()
    shapes = document["components"]["schemas"]
    for name, example in EXAMPLES.items():
        Draft202012Validator(shapes[name] | {"components": document["components"]}).validate(example)
        assert shapes[name]["examples"] == [example]
        assert set(example) <= set(shapes[name]["properties"]), name
    for methods in document["paths"].values():
        for operation in methods.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in body:
                assert body["$ref"].rsplit("/", 1)[1] in EXAMPLES
