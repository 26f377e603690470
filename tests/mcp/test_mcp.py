"""The memory as an MCP server, asked by the official client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.http.conftest import NO_MODEL, Service, running
from twofold import Memory
from twofold.embed.hashing import HashEmbedder
from twofold.http import app
from twofold.http.gate import Gate
from twofold.mcp_server.tools import TOOLS
from twofold.upstream import Upstream

NAMES = [tool.name for tool in TOOLS]
TWOFOLD = [sys.executable, "-m", "twofold"]
DAY = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

Asking = Callable[..., Awaitable[Any]]


def filled(memory: Memory) -> Memory:
    memory.add("The gate code changed on Monday.", session="house", project="home", time=DAY)
    memory.add("Thanks, noted.", role="assistant", session="house", project="home", time=DAY + timedelta(seconds=1))
    memory.add("東京の桜は四月に咲く。" * 40, session="旅", time=DAY + timedelta(days=1))
    memory.add("The plumber charged 90 for the tap.", session="house", project="home", time=DAY + timedelta(days=20))
    memory.entities.add("Gate", "thing", description="At the front", project="home")
    return memory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Memory.open(tmp_path / "memories.db") as memory:
        filled(memory)
    return tmp_path / "memories.db"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service with two tokens: one for everything, one for the project `home`."""
    with Memory.open(tmp_path / "served.db", embedder=HashEmbedder()) as memory:
        filled(memory)
        with Upstream(NO_MODEL, "", timeout=1.0) as upstream:
            made = app.create(memory, upstream, Gate(memory.tokens))
            with running(made) as url, httpx2.Client(base_url=url, trust_env=False) as http:
                yield Service(http, memory, made)


def over_stdio(file: Path, *options: str) -> AbstractAsyncContextManager[Any]:
    command = StdioServerParameters(command=TWOFOLD[0], args=[*TWOFOLD[1:], "mcp", "--db", str(file), *options])
    return stdio_client(command)


def asked(transport: AbstractAsyncContextManager[Any], work: Callable[[Client], Awaitable[None]]) -> None:
    """Do something with a client of a server."""

    async def run() -> None:
        with anyio.fail_after(60):
            async with Client(transport) as client:
                await work(client)

    anyio.run(run)


@asynccontextmanager
async def over_http(service: Service, secret: str | None = None) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        streamable_http_client(f"{service.url}/mcp", http_client=http) as streams,
    ):
        yield streams


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool gives; its text and its structure must be the same."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (text,) = result.content
    found = json.loads(text.text)  # type: ignore[union-attr]
    assert result.structured_content in (found, None)
    return found  # type: ignore[no-any-return]


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    sentence: str = result.content[0].text  # type: ignore[union-attr]
    assert "\n" not in sentence and "Traceback" not in sentence
    return sentence


async def walk(client: Client) -> None:
    """Every tool, with what people send and with what they should not."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(listed) == NAMES
    for tool in TOOLS:
        hints = listed[tool.name].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (tool.reads, tool.destroys)
        assert listed[tool.name].description
        assert listed[tool.name].input_schema["type"] == "object"
        assert (listed[tool.name].output_schema is None) == (tool.name in ("search", "fetch"))

    kept = await told(client, "remember", text="Ada Example prefers tea.", tags=["taste"], project="")
    assert (kept["project"], kept["session"]) == (None, "notes")
    assert "text: " in await refused(client, "remember", text=5)
    assert "the text is empty" in await refused(client, "remember", text=" ")
    assert "text: field required" in await refused(client, "remember")
    assert "extra" in await refused(client, "remember", text="x", mood="good")

    found = await told(client, "recall", query="what does Ada drink", limit=None, project=None, session="", since="")
    assert found["hits"][0]["text"] == "Ada Example prefers tea."
    assert (found["hits"][0]["tags"], found["project"], found["degraded"]) == (["taste"], None, {})
    dated = await told(client, "recall", query="what changed", since="2026-03-01", before="2026-03-10", project="home")
    assert {hit["id"] for hit in dated["hits"]} == {1, 2}
    assert dated["project"] == "home"
    assert (
        await refused(client, "recall", query="x", limit=500)
        == "limit: '500': input should be less than or equal to 50"
    )
    assert "which names no time" in await refused(client, "recall", query="x", since="soonish")
    assert "no project 'none'" in await refused(client, "recall", query="x", project="none")
    assert "zone is 'Mars'" in await refused(client, "recall", query="x", zone="Mars")
    assert "query: " in await refused(client, "recall", query=None)
    cjk = await told(client, "recall", query="桜", limit=1)
    assert cjk["hits"][0]["cut"] and "桜" in cjk["hits"][0]["text"]
    assert len(cjk["hits"][0]["text"].encode()) < 300

    whole = await told(client, "get", id=cjk["hits"][0]["id"])
    assert (whole["text"], whole["next"]) == ("東京の桜は四月に咲く。" * 40, None)
    assert "there is no episode 99" in await refused(client, "get", id=99)
    assert "id: '0'" in await refused(client, "get", id=0)
    assert "begin before its end" in await refused(client, "get", id=1, start=1000)

    given = await told(client, "context", message="what was the gate code?", session="new", project="home")
    assert "The gate code changed on Monday." in given["text"]
    assert given["recent"] == []

    (first, *_) = (await told(client, "list_sessions"))["sessions"]
    assert first["name"] == "notes"
    page = await told(client, "list_sessions", limit=1, project="home")
    assert [one["episodes"] for one in page["sessions"]] == [3]
    assert "after" in await refused(client, "list_sessions", after="nonsense")

    (gate,) = (await told(client, "entities", query="the front gate"))["entities"]
    assert (gate["name"], gate["mentions"]) == ("Gate", 1)
    assert [one["name"] for one in (await told(client, "entities"))["entities"]] == ["Gate"]

    (result, *_) = (await told(client, "search", query="who fixed the tap"))["results"]
    assert sorted(result) == ["id", "title", "url"] and result["id"] == "4"
    assert result["title"].startswith("house, 2026-03-21: The plumber charged")
    fetched = await told(client, "fetch", id=result["id"])
    assert sorted(fetched) == ["id", "metadata", "text", "title", "url"]
    assert fetched["text"] == "The plumber charged 90 for the tap."
    assert "there is no 'x'" in await refused(client, "fetch", id="x")

    would = await told(client, "forget", session="house", project="home")
    assert (would["forgotten"], would["would_forget"]) == (0, 3)
    assert len((await told(client, "list_sessions"))["sessions"]) == 3
    assert "give what to forget" in await refused(client, "forget", confirm=True)
    assert "give what to forget" in await refused(client, "forget", id=1, project="home", confirm=True)
    assert "there is no project 'none'" in await refused(client, "forget", project="none", confirm=True)
    assert (await told(client, "forget", id=kept["id"], confirm=True))["forgotten"] == 1
    assert "there is no episode" in await refused(client, "forget", id=kept["id"], confirm=True)
    assert (await told(client, "forget", project="home", confirm=True))["forgotten"] == 3
    assert "there is no tool 'drop'" in await refused(client, "drop")


async def walk_resources(client: Client) -> None:
    """Resources and the prompt."""
    listed = {one.uri: one for one in (await client.list_resources()).resources}
    assert listed["twofold://project/home"].name == "home"
    text = (await client.read_resource("twofold://session/1")).contents[0].text  # type: ignore[union-attr]
    assert text.startswith("# house\n\nproject home, session house\n\n## User, 2026-03-01 12:00 UTC\n\nThe gate code")
    assert "- house (3 messages)" in (await client.read_resource("twofold://project/home")).contents[0].text  # type: ignore[union-attr]
    assert len((await client.list_resource_templates()).resource_templates) == 2
    for wrong in ("twofold://session/99", "twofold://session/x", "twofold://project/none", "twofold://what/1"):
        with pytest.raises(MCPError, match="there is no"):
            await client.read_resource(wrong)
    (prompt,) = (await client.list_prompts()).prompts
    made = await client.get_prompt(prompt.name, {"about": "the gate code"})
    assert "The gate code changed on Monday." in made.messages[0].content.text  # type: ignore[union-attr]
    with pytest.raises(MCPError, match="about is empty"):
        await client.get_prompt(prompt.name, {"about": " "})


def test_every_tool_over_stdio(file: Path) -> None:
    async def both(client: Client) -> None:
        await walk_resources(client)
        await walk(client)

    asked(over_stdio(file), both)


def test_every_tool_over_http(service: Service) -> None:
    asked(over_http(service), walk_resources)
    asked(over_http(service), walk)


def test_a_default_project_is_meant_where_none_is_named(file: Path) -> None:
    async def work(client: Client) -> None:
        assert (await told(client, "remember", text="The bell is broken."))["project"] == "home"
        assert {hit["project"] for hit in (await told(client, "recall", query="plumber 桜"))["hits"]} == {"home"}

    asked(over_stdio(file, "--project", "home"), work)


def test_only_the_protocol_is_on_standard_output_and_the_first_answer_comes_at_once(file: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "nothing", "arguments": {}}}
    broken = "no json\n"
    start = time.monotonic()
    with subprocess.Popen(
        [*TWOFOLD, "mcp", "--db", str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdin and server.stdout
        server.stdin.write((json.dumps(hello) + "\n").encode())
        server.stdin.flush()
        first = json.loads(server.stdout.readline())
        took = time.monotonic() - start
        server.stdin.write((json.dumps(ready) + "\n" + broken + json.dumps(call) + "\n").encode())
        server.stdin.flush()
        answers = []
        while not answers or answers[-1].get("id") != 2:
            answers.append(json.loads(server.stdout.readline()))
        rest, _ = server.communicate()
    assert first["result"]["serverInfo"]["name"] == "twofold"
    assert took < 10  # the figure of a quiet machine is that of benchmarks.mcp_start
    assert rest == b""
    assert "there is no tool 'nothing'" in answers[-1]["result"]["content"][0]["text"]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)


# who may


def bound(service: Service) -> str:
    return service.memory.tokens.add("bound", project="home")[1]


OUTSIDE: dict[str, list[dict[str, Any]]] = {
    "remember": [{"text": "x", "project": "other"}],
    "recall": [{"query": "桜", "project": "other"}, {"query": "桜", "session": "旅"}],
    "context": [{"message": "桜", "project": "other"}],
    "get": [{"id": 3}],
    "forget": [{"id": 3}, {"session": "旅", "confirm": True}, {"project": "other", "confirm": True}],
    "list_sessions": [{"project": "other"}],
    "entities": [{"project": "other"}],
    "search": [],
    "fetch": [{"id": "3"}],
}
INSIDE: dict[str, dict[str, Any]] = {
    "remember": {"text": "of home"},
    "recall": {"query": "桜 gate"},
    "context": {"message": "桜 gate"},
    "get": {"id": 1},
    "list_sessions": {},
    "entities": {},
    "search": {"query": "桜 gate"},
    "fetch": {"id": "1"},
    "forget": {"id": 2, "confirm": True},
}


def test_a_token_that_is_bound_to_a_project_sees_nothing_else_whatever_the_tool(service: Service) -> None:
    assert OUTSIDE.keys() == INSIDE.keys() == set(NAMES)
    service.memory.add("of another", session="s", project="other")

    async def work(client: Client) -> None:
        for tool, tries in OUTSIDE.items():
            for arguments in tries:
                result = await client.call_tool(tool, arguments)
                assert result.is_error or (tool == "context" and '"text":""' in result.content[0].text), (
                    tool,
                    arguments,
                )  # type: ignore[union-attr]
        for tool, arguments in INSIDE.items():
            result = await client.call_tool(tool, arguments)
            text = result.content[0].text  # type: ignore[union-attr]
            assert not result.is_error, text
            assert "東京" not in text and "of another" not in text
            assert '"project":null' not in text
        uris = {one.uri for one in (await client.list_resources()).resources}
        assert not uris & {"twofold://project/other", "twofold://session/2"}
        for uri in ("twofold://session/2", "twofold://project/other"):
            with pytest.raises(MCPError, match="there is no"):
                await client.read_resource(uri)

    asked(over_http(service, bound(service)), work)
    assert len(service.memory.show("旅")) == 1


@pytest.mark.parametrize("name", NAMES)
def test_who_may_not_come_in_is_refused_before_any_tool(service: Service, name: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": INSIDE[name]}}
    accept = {"Accept": "application/json, text/event-stream"}
    bound(service)
    for headers in (
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
        {"Authorization": "Bearer wrong"},
        {"X-Forwarded-For": "192.0.2.1"},
    ):
        answer = service.http.post("/mcp", json=call, headers={**accept, **headers})
        assert answer.status_code == 401, (headers, answer.text)
        assert "token" in answer.json()["detail"]
    assert service.memory.status().episodes == 4


def test_what_is_no_message_of_the_protocol_is_refused_by_it(service: Service) -> None:
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for content in (b"", b"{", b"[]", b'{"jsonrpc": "2.0"}'):
        answer = service.http.post("/mcp", content=content, headers=accept)
        assert 400 <= answer.status_code < 500, answer.text
    assert service.http.request("PUT", "/mcp").status_code in (405, 406)


def test_several_clients_on_one_file_see_each_others_writes(file: Path) -> None:
    seen: dict[int, set[str]] = {}

    async def one(number: int) -> None:
        async with Client(over_stdio(file)) as client:
            for turn in range(5):
                await told(client, "remember", text=f"client {number} turn {turn}", session="shared")
            while len(seen.setdefault(number, set())) < 15:
                found = await told(client, "recall", query="client turn", session="shared", limit=50)
                seen[number] = {hit["text"] for hit in found["hits"]}

    async def run() -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(partial(one, number))

    anyio.run(run)
    assert seen[0] == seen[1] == seen[2] == {f"client {n} turn {turn}" for n in range(3) for turn in range(5)}


def test_the_document_names_every_tool() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)) == set(NAMES)


def test_recall_on_the_command_line_imports_neither_fastapi_nor_mcp() -> None:
    code = "import sys, twofold.cli; print([name for name in ('mcp', 'fastapi', 'mcp_types') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
