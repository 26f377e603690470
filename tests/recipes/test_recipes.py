"""The recipes do what they say."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_upstream import FakeUpstream
from tests.http.conftest import running
from twofold import Memory
from twofold.embed.hashing import HashEmbedder
from twofold.http import app
from twofold.http.gate import Gate
from twofold.upstream import Upstream

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
MISSING = "is not installed here; make recipes has it"


def recipe(name: str) -> dict[str, Any]:
    return runpy.run_path(str(RECIPES / name))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memories.db", embedder=HashEmbedder()) as opened:
        opened.add("We moved billing to Stripe in March.", session="ops", project="acme")
        opened.add("The cat sleeps on the sofa.", session="home", project="private")
        yield opened


def test_the_openai_client_is_answered_from_memory(memory: Memory) -> None:
    with FakeUpstream() as model, Upstream(model.url, "", timeout=10.0) as upstream:
        memory.settings({"llmModel": "echo"})
        with running(app.create(memory, upstream, Gate(memory.tokens))) as url:
            answer = recipe("openai_client.py")["ask"]("where did billing move?", f"{url}/v1", project="acme")
    assert "Stripe" in answer
    assert [one.role for one in memory.show("desk", project="acme")] == ["user", "assistant"]


def test_the_agent_loop_remembers_what_was_said_before(memory: Memory) -> None:
    loop = recipe("agent_loop.py")
    with FakeUpstream() as upstream:
        model = loop["openai_model"]("echo", upstream.url)
        loop["talk"](memory, model, ["The gate code changed on Monday."], "first")
        (answer,) = loop["talk"](memory, model, ["when did the gate code change?"], "second")
    assert "Monday" in answer
    assert len(memory.show("second", project="assistant")) == 2


def test_memories_of_mem0_come_along_once(memory: Memory) -> None:
    facts = [
        {"id": "m1", "memory": "Likes green tea", "user_id": "ada", "created_at": "2026-01-02T03:04:05.6-08:00"},
        {"id": "m2", "memory": "Works on billing", "user_id": "ada", "run_id": "r1", "metadata": {"topic": "work"}},
        {"id": "m3", "memory": " "},
    ]
    messages = recipe("from_mem0.py")["messages"]
    assert memory.import_(messages({"results": facts, "relations": []})).added == 2
    assert memory.import_(messages(facts)).added == 0
    assert memory.recall("green tea", project="ada").hits[0].episode.time.hour == 11
    assert memory.show("r1", project="ada")[0].metadata == {"metadata": {"topic": "work"}}


def test_mem0s_file_is_moved_by_the_script(tmp_path: Path) -> None:
    file = tmp_path / "memories.json"
    file.write_text(json.dumps([{"id": "m1", "memory": "Likes green tea"}]))
    command = [sys.executable, str(RECIPES / "from_mem0.py"), str(file), "--db", str(tmp_path / "new.db")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "added 1, 0 were there\n"


def test_the_shell_finds_what_a_command_said(tmp_path: Path) -> None:
    if not shutil.which("sh"):
        pytest.skip("there is no sh")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "twofold").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m twofold "$@"\n')
    (bin_ / "twofold").chmod(0o755)
    env = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "TWOFOLD_DB": str(tmp_path / "m.db")}
    done = subprocess.run(["sh", str(RECIPES / "shell.sh")], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("took 42 minutes")


def test_langchain_gets_documents(memory: Memory) -> None:
    pytest.importorskip("langchain_core", reason=f"langchain-core {MISSING}")
    retriever = recipe("langchain_retriever.py")["TwofoldRetriever"](memory=memory, project="acme", k=3)
    (document,) = retriever.invoke("where did billing move?")
    assert document.page_content == "We moved billing to Stripe in March."
    assert (document.id, document.metadata["session"]) == ("1", "ops")
    import asyncio

    assert asyncio.run(retriever.ainvoke("where did billing move?")) == [document]


def test_llamaindex_gets_nodes(memory: Memory) -> None:
    pytest.importorskip("llama_index.core", reason=f"llama-index-core {MISSING}")
    retriever = recipe("llamaindex_retriever.py")["TwofoldRetriever"](memory, project="acme", k=3)
    (node,) = retriever.retrieve("where did billing move?")
    assert node.node.text == "We moved billing to Stripe in March."
    assert node.score == pytest.approx(memory.recall("where did billing move?", project="acme").hits[0].score)
