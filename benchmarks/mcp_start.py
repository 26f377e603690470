"""How soon an MCP server over stdio answers the first message: python -m benchmarks.mcp_start [--runs 10]"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def main() -> None:
    """Start it so many times, and print the seconds to the first byte of its answer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        took = [first_byte(Path(folder) / "memories.db") for _ in range(runs)]
    print(f"first byte after {statistics.median(took):.2f} s (median of {runs}), {max(took):.2f} s (slowest)")


def first_byte(file: Path) -> float:
    """Seconds from the start of the process to the first byte of the answer to `initialize`."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "twofold", "mcp", "--db", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin and server.stdout
        server.stdin.write((json.dumps(HELLO) + "\n").encode())
        server.stdin.flush()
        server.stdout.read(1)
        took = time.perf_counter() - start
        server.stdin.close()
        server.stdout.read()
    return took


if __name__ == "__main__":
    main()
