"""Who may come in."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Opener
from tests.http.conftest import Service, Starter
from twofold import Memory
from twofold.errors import InvalidInput
from twofold.http import server
from twofold.http.gate import Gate, Refusal, is_loopback
from twofold.tokens import Grant

HERE = {"host": "127.0.0.1:4000"}

IN: list[dict[str, str]] = [
    {"host": host}
    for host in (
        "127.0.0.1", "127.0.0.1:4000", "127.0.0.2:1", "localhost", "LocalHost:4000", "localhost.", "localhost.:4000",
        "[::1]", "[::1]:4000", "[0:0:0:0:0:0:0:1]:4000", "memory.example", "Memory.Example:8443", "memory.example.",
    )
] + [
    HERE | {"origin": "http://127.0.0.1:4000"},
    HERE | {"origin": "https://127.0.0.1:4000"},
    HERE | {"origin": "https://notes.example"},
    {"host": "LOCALHOST:4000", "origin": "http://localhost:4000"},
    {"host": "[::1]:4000", "origin": "http://[::1]:4000"},
    HERE | {"authorization": "Bearer sk-no-key-required"},
    HERE | {"authorization": "bearer none"},
    HERE | {"authorization": "Bearer"},
    HERE | {"authorization": "Bearer   "},
    HERE | {"authorization": "Basic dXNlcjpwYXNz"},
]  # fmt: skip

OUT: list[dict[str, str]] = [{}] + [
    {"host": host}
    for host in (
        "", " ", ".", ":4000", "evil.example", "evil.example:4000", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.evil.example", "evil.example:127.0.0.1", "localhost:80:evil.example", "localhost:4000@evil.example",
        "user@localhost", "[::1].evil.example", "[::1", "::1", "[::1]x:4000", "[localhost]", "[evil.example]", "[::2]",
        "localhost..",
        "localhost:", "localhost:abc", "localhost:123456", "localhost/evil", "localhost?", "localhost\\x",
        "localhost evil.example", "localhost,evil.example", "0.0.0.0:4000", "2130706433", "0x7f.1", "127.1", "10.0.0.7",
        "169.254.169.254", "[::ffff:10.0.0.7]", "[fe80::1]", "memory.example.evil", "xmemory.example",
        "lоcalhost", "\udcff",
    )
] + [
    HERE | {"origin": origin}
    for origin in (
        "null", "", "http://evil.example", "http://localhost:4000", "http://127.0.0.1", "http://127.0.0.1:4001",
        "http://127.0.0.1:4000.evil.example", "http://user@127.0.0.1:4000", "http://127.0.0.1:4000/", "file://",
        "ftp://127.0.0.1:4000", "chrome-extension://abc", "http://notes.example", "https://notes.example.evil",
        "https://notes.example https://evil.example", "http://[::1", "//127.0.0.1:4000", "127.0.0.1:4000", "*",
    )
] + [
    HERE | {name: "10.0.0.7"}
    for name in ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
] + [
    {"host": "evil.example", "origin": "http://evil.example"},  # what a rebound name looks like to itself
    {"host": "evil.example", "authorization": "Bearer none"},
    HERE | {"authorization": "Bearer twofold_taken-back"},
    HERE | {"origin": "http://evil.example", "authorization": "Bearer none"},
]  # fmt: skip


@pytest.fixture
def gate(memory: Memory) -> Gate:
    return Gate(memory.tokens, hosts=("memory.example",), origins=("https://notes.example",))


@pytest.mark.parametrize("headers", IN, ids=repr)
def test_who_comes_from_this_machine_needs_no_token(gate: Gate, headers: dict[str, str]) -> None:
    assert gate.enter(headers) == Grant(None)


def test_everybody_else_is_refused_with_the_way_out(gate: Gate) -> None:
    for headers in OUT:
        found = gate.enter(headers)
        assert isinstance(found, Refusal), headers
        assert "twofold token add" in found.sentence


def test_a_token_opens_from_anywhere_what_it_is_bound_to(memory: Memory) -> None:
    project = memory.catalog.add_project("house")
    whole = memory.tokens.add("mine")[1]
    bound = memory.tokens.add("theirs", project="house")[1]
    for local in (True, False):
        gate = Gate(memory.tokens, "of the environment", local)
        for headers in [*IN, *OUT]:
            for secret, opened in ((whole, None), (bound, project.id), ("of the environment", None)):
                assert gate.enter(headers | {"authorization": f"Bearer {secret}"}) == Grant(opened)
            assert isinstance(gate.enter(headers | {"authorization": "Bearer of the environmen"}), Refusal)


def test_where_there_is_a_token_an_invented_key_is_a_wrong_one(memory: Memory) -> None:
    dummy = HERE | {"authorization": "Bearer none"}
    assert Gate(memory.tokens).enter(dummy) == Grant(None)
    assert isinstance(Gate(memory.tokens, "of the environment").enter(dummy), Refusal)
    memory.tokens.add("mine")
    assert isinstance(Gate(memory.tokens).enter(dummy), Refusal)
    assert Gate(memory.tokens).enter(HERE) == Grant(None)


def test_a_server_on_more_than_loopback_asks_everybody_for_a_token(memory: Memory) -> None:
    gate = Gate(memory.tokens, local=False, hosts=("memory.example",))
    assert all(isinstance(gate.enter(headers), Refusal) for headers in [*IN, *OUT])


def test_a_token_that_is_no_text_is_no_other_one(memory: Memory) -> None:
    gate = Gate(memory.tokens, "\udcff\udcfe")
    assert isinstance(gate.enter(HERE | {"authorization": "Bearer ??"}), Refusal)


def test_a_host_that_was_named_wrongly_lets_nobody_in(memory: Memory) -> None:
    gate = Gate(memory.tokens, hosts=("", "http://memory.example/"))
    for host in ("", "http", "http://memory.example/", "memory.example"):
        assert isinstance(gate.enter({"host": host}), Refusal)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("127.0.0.53", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
        ("::", False), ("", False), ("127.evil.example", False), ("10.0.0.7", False), ("localhost.evil.example", False),
    ],
)  # fmt: skip
def test_loopback_is_told_from_what_only_looks_like_it(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_a_rebound_name_and_a_foreign_page_reach_nothing_over_http(service: Service) -> None:
    service.http.post("/episodes", json={"content": "the gate code is marigold"})
    for headers in (
        {"Host": "evil.example"},
        {
            "Host": f"evil.example:{service.http.base_url.port}",
            "Origin": f"http://evil.example:{service.http.base_url.port}",
        },
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"X-Forwarded-For": "10.0.0.7"},
    ):
        for method, path in (
            ("GET", "/episodes"),
            ("DELETE", "/episodes/1"),
            ("GET", "/openapi.json"),
            ("GET", "/nowhere"),
        ):
            answer = service.http.request(method, path, headers=headers)
            assert answer.status_code == 401, headers
            assert "marigold" not in answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "access-control-allow-origin" not in answer.headers
    # A form of a foreign page, which asks nobody before it posts.
    form = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
    assert service.http.post("/episodes", headers=form, content=b'{"content": "x"}').status_code == 401
    assert len(service.http.get("/episodes").json()["items"]) == 1


def test_a_request_without_a_host_is_from_outside(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.http.base_url.port or 0)) as connection:
        connection.sendall(b"GET /episodes HTTP/1.0\r\n\r\n")
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 401


def test_a_page_of_another_origin_is_answered_only_where_it_was_named(start: Starter, open_memory: Opener) -> None:
    page = {"Origin": "https://notes.example"}
    before = page | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    closed = start()
    assert closed.http.options("/recall", headers=before).status_code == 401
    assert "access-control-allow-origin" not in closed.http.get("/projects", headers=page).headers

    opened = start(open_memory(name="other.db"), origins=("https://notes.example",))
    asked = opened.http.options("/recall", headers=before)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "https://notes.example"
    assert "POST" in asked.headers["access-control-allow-methods"]
    answer = opened.http.get("/projects", headers=page)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://notes.example")
    assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
    problem = opened.http.get("/projects/7", headers=page)
    assert (problem.status_code, problem.headers["access-control-allow-origin"]) == (404, "https://notes.example")
    for origin in ("https://evil.example", "null", "https://notes.example.evil"):
        foreign = {"Origin": origin}
        assert opened.http.options("/recall", headers=before | foreign).status_code in (400, 401)
        answer = opened.http.get("/projects", headers=foreign)
        assert answer.status_code == 401
        assert "access-control-allow-origin" not in answer.headers


def serving(tmp_path: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`twofold serve`, which is to end by itself."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from twofold.cli import main; main()",
            "serve",
            "--db",
            str(tmp_path / "memories.db"),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
    )


def test_more_than_loopback_without_a_token_is_refused_in_one_sentence(tmp_path: Path) -> None:
    done = serving(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert done.returncode != 0
    (sentence,) = done.stderr.strip().splitlines()
    assert "0.0.0.0" in sentence
    assert "twofold token add" in sentence
    assert "TWOFOLD_TOKEN" in sentence


def test_tokens_can_be_required_on_loopback_too(tmp_path: Path, start: Starter) -> None:
    done = serving(tmp_path, "--require-token", "--port", "0")
    assert done.returncode != 0
    assert "tokens are required" in done.stderr
    assert start(token="secret", local=False).http.get("/settings").status_code == 401


def test_a_port_in_use_is_refused_in_one_sentence(memory: Memory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=rf"^cannot listen on 127\.0\.0\.1 port {port} \(.*\); name others with"):
            server.serve(memory, port=port)


def test_an_address_that_is_not_of_this_machine_is_refused_in_one_sentence(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_TOKEN", "secret")
    for host in ("192.0.2.1", "nowhere.invalid", "not a host", "x" * 70, "[::1]"):
        with pytest.raises(InvalidInput, match="cannot listen on"):
            server.serve(memory, host=host, port=0)
