"""Moves memories from mem0 to Twofold: python from_mem0.py memories.json [--db FILE]

The file is what mem0's `memory.get_all(user_id=...)` gives (or `client.get_all(...)` of its platform), saved as JSON.
A user becomes a project, a run (or agent) a session; the facts keep their ids, times and metadata.
"""

import argparse
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from twofold import Memory, Message


def messages(exported: Any) -> Iterator[Message]:
    """The facts of an export as messages; importing them again doubles nothing."""
    facts = exported.get("results", exported.get("memories", [])) if isinstance(exported, dict) else exported
    for fact in facts:
        text = str(fact.get("memory") or fact.get("text") or "").strip()
        if not text:
            continue
        time = fact.get("updated_at") or fact.get("created_at")
        kept = {key: fact[key] for key in ("metadata", "categories", "created_at", "agent_id") if fact.get(key)}
        yield Message(
            content=text,
            session=fact.get("run_id") or fact.get("agent_id") or "mem0",
            project=fact.get("user_id") or None,
            time=datetime.fromisoformat(time).astimezone() if time else None,
            metadata=kept,
            source=f"mem0:{fact['id']}" if fact.get("id") else None,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--db", type=Path)
    arguments = parser.parse_args()
    with Memory.open(arguments.db) as memory:
        report = memory.import_(messages(json.loads(arguments.file.read_text(encoding="utf-8"))))
    print(f"added {report.added}, {report.duplicates} were there")
