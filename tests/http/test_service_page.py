"""What docs/service.md says is done against a running service."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Opener
from tests.fake_upstream import FakeUpstream
from tests.http.conftest import Service, Starter
from twofold.embed.minilm import MiniLM

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:4000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def documented(start: Starter, open_memory: Opener) -> Iterator[Service]:
    """A service with the bundled model for meaning, and the fake one for answers."""
    with FakeUpstream() as upstream:
        upstream.models = ["llama3.2"]
        yield start(open_memory(MiniLM()), upstream=upstream.url)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_session_with_curl_does_what_the_page_says(documented: Service) -> None:
    answers: list[tuple[str, Any]] = []
    for line in [line for block in blocks("sh") for line in block.splitlines()]:
        assert line.startswith("curl -sS"), line
        command = line.replace(ADDRESS, documented.url.rstrip("/"))
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=True)
        answers.append((line, done.stdout if "stream" in line else json.loads(done.stdout)))
    by_route = {route: [body for line, body in answers if route in line] for route in ("/recall", "/chat", "/settings")}
    first, fixed = by_route["/recall"]
    assert first["hits"][0]["episode"]["content"] == "The plumber charged 180, travel included."
    assert first["explanation"]["prior"] == "measured"
    assert fixed["hits"][0]["episode"]["content"] == "The roof was done in slate."
    assert {given["weight"] for given in fixed["hits"][0]["contributions"]} == {1.0}
    assert [body.get("weights") for body in by_route["/settings"]] == ["fixed", "auto", "auto", None]
    assert "keywordWeight is 7" in by_route["/settings"][3]["detail"]
    (found,) = [body for line, body in answers if "/episodes/search" in line]
    assert [row["content"] for row in found] == ["The plumber charged 180, travel included."]
    (entities,) = [body for line, body in answers if "/entities/search" in line]
    assert entities["hits"][0]["entity"]["name"] == "Ada Example"
    (context,) = [body for line, body in answers if "/context" in line]
    assert "The gate code is 4711." in context["text"]
    turn, stream = by_route["/chat"]
    assert "4711" in turn["answer"]
    assert (turn["asked"]["session"], turn["answered"]["project"]) == ("today", "house")
    assert "event: done" in stream
    assert "180" in stream


def test_the_official_client_gets_memory_by_its_base_url(
    documented: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    documented.http.patch("/settings", json={"llmModel": "llama3.2"})
    (example,) = blocks("py")
    exec(compile(example.replace(ADDRESS, documented.url.rstrip("/")), "service.md", "exec"), {})
    assert "behind the clock" in capsys.readouterr().out


def test_every_route_is_on_the_page(documented: Service) -> None:
    for path in documented.http.get("/openapi.json").json()["paths"]:
        assert path.split("/{", 1)[0] in PAGE, path
