"""Eight MCP clients over stdio and one service on one file: python -m benchmarks.mcp_clients [--seconds 60]

Every client remembers and recalls all the time, and the service is written to over HTTP as well. At the end a new
client must see what all of them wrote, nothing may have failed, and the file must be whole.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from twofold import Memory
from twofold.http import app
from twofold.http.gate import Gate
from twofold.http.server import config, listening
from twofold.settings import base
from twofold.upstream import Upstream

CLIENTS = 8


def main() -> None:
    """Parse the arguments, run, and end with 1 where something failed or is lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        faults = anyio.run(run, Path(folder) / "memories.db", arguments.seconds)
    sys.exit(1 if faults else 0)


async def run(file: Path, seconds: float) -> int:
    """Serve and ask for so long; how many calls failed or writes were lost."""
    import uvicorn

    written: set[str] = set()
    calls: Counter[str] = Counter()
    with Memory.open(file) as memory, Upstream.of(base()) as upstream, listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(config(app.create(memory, upstream, Gate(memory.tokens))))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with anyio.create_task_group() as group:
            group.start_soon(partial(server.serve, sockets=[listener]))
            end = time.monotonic() + seconds
            async with anyio.create_task_group() as clients:
                for number in range(CLIENTS):
                    clients.start_soon(client, file, number, end, written, calls)
                clients.start_soon(over_http, url, end, written, calls)
            seen = await everything(file)
            server.should_exit = True
        findings = memory.doctor().findings
    lost = written - seen
    print(
        f"{CLIENTS} clients and a service for {seconds:g} s: {dict(calls)}; {len(written):,} written, {len(lost)} lost"
    )
    print(f"doctor: {[finding.problem for finding in findings] or 'nothing found'}")
    return calls["failed"] + len(lost) + len(findings)


async def client(file: Path, number: int, end: float, written: set[str], calls: Counter[str]) -> None:
    """One client over stdio."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "twofold", "mcp", "--db", str(file)])
    async with Client(stdio_client(command)) as asking:
        turn = 0
        while time.monotonic() < end:
            text = f"client {number} wrote line {turn}"
            if await told(asking, calls, "remember", text=text, session="shared"):
                written.add(text)
            found = await told(asking, calls, "recall", query=f"what did client {number} write, line {turn}", limit=5)
            if found and text not in {hit["text"] for hit in found["hits"]}:
                calls["own line not among the first five"] += 1
            turn += 1


async def over_http(url: str, end: float, written: set[str], calls: Counter[str]) -> None:
    """The service's own writer."""
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60.0) as http:
        turn = 0
        while time.monotonic() < end:
            text = f"client http wrote line {turn}"
            answer = await http.post("/episodes", json={"content": text, "session": "shared"})
            calls["http" if answer.status_code == 201 else "failed"] += 1
            written.add(text)
            turn += 1


async def everything(file: Path) -> set[str]:
    """All that a new client sees of the shared session."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "twofold", "mcp", "--db", str(file)])
    async with Client(stdio_client(command)) as asking:
        (session,) = (await asking.call_tool("list_sessions", {})).structured_content["sessions"]
        await asking.read_resource(f"twofold://session/{session['id']}")
    with Memory.open(file, embedder=None) as memory:
        return {episode.content for episode in memory.show("shared")}


async def told(asking: Client, calls: Counter[str], tool: str, **arguments: Any) -> Any:
    result = await asking.call_tool(tool, arguments)
    if result.is_error:
        print(result.content[0].text, file=sys.stderr)
    calls["failed" if result.is_error else tool] += 1
    return None if result.is_error else result.structured_content


if __name__ == "__main__":
    main()
