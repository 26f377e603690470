"""Health, metrics, and the end of a running service."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import uvicorn
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Opener
from tests.fake_upstream import FakeUpstream
from tests.http.conftest import Service, Starter, running
from twofold import Memory
from twofold.embed import ModelInfo
from twofold.embed.hashing import HashEmbedder
from twofold.errors import EmbedderError, StoreError
from twofold.http import app, reach
from twofold.http.gate import Gate
from twofold.http.server import listening
from twofold.keyword.fts5 import Fts5Index
from twofold.upstream import Upstream

PARTS = {"store", "keywordIndex", "vectors", "externalIndex", "embedder", "modelUpstream"}
WELL = dict.fromkeys(PARTS, "ok") | {"externalIndex": "off"}


class Failing:
    """An embedder that can be switched off."""

    def __init__(self) -> None:
        self._real = HashEmbedder()
        self.broken = False

    @property
    def info(self) -> ModelInfo:
        return self._real.info

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        if self.broken:
            raise EmbedderError("the model's file is gone; install Twofold again")
        return self._real.embed_documents(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed_documents([text])[0][0]


class Other(HashEmbedder):
    """The same by another name."""

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, name="another", digest="another")


def health(service: Service) -> tuple[int, str, dict[str, str]]:
    answer = service.http.get("/health")
    told = answer.json()
    return answer.status_code, told["status"], {name: part["state"] for name, part in told["parts"].items()}


def test_health_tells_of_each_part(start: Starter) -> None:
    with FakeUpstream() as upstream:
        service = start(upstream=upstream.url)
        service.memory.settings({"llmModel": "echo"})
        status, whole, parts = health(service)
    assert (status, whole, parts) == (200, "ok", WELL)


def test_a_broken_embedder_and_what_waits_for_it_degrade_and_nothing_more(start: Starter, open_memory: Opener) -> None:
    embedder = Failing()
    service = start(open_memory(embedder))
    service.http.post("/episodes", json={"content": "apple"})
    embedder.broken = True
    assert service.http.post("/episodes", json={"content": "apple tart"}).status_code == 201
    status, whole, parts = health(service)
    assert (status, whole) == (200, "degraded")
    assert (parts["store"], parts["keywordIndex"], parts["vectors"], parts["embedder"]) == (
        "ok",
        "ok",
        "degraded",
        "degraded",
    )
    told = service.http.get("/health").json()["parts"]
    assert "1 episodes wait" in told["vectors"]["detail"]
    assert "install Twofold again" in told["embedder"]["detail"]
    found = service.http.post("/recall", json={"query": "apple"}).json()
    assert (len(found["hits"]), list(found["degraded"])) == (2, ["semantic"])
    embedder.broken = False
    service.memory.embed_missing()
    assert health(service)[2]["vectors"] == "ok"


def test_vectors_of_another_model_degrade(start: Starter, open_memory: Opener) -> None:
    open_memory().add("apple")
    service = start(open_memory(Other()))
    status, whole, parts = health(service)
    assert (status, whole, parts["vectors"], parts["store"]) == (200, "degraded", "degraded", "ok")
    assert "twofold embed" in service.http.get("/health").json()["parts"]["vectors"]["detail"]


def test_without_an_embedder_vectors_are_off(start: Starter, open_memory: Opener) -> None:
    status, _, parts = health(start(open_memory(None)))
    assert (status, parts["vectors"], parts["keywordIndex"]) == (200, "off", "ok")


def test_a_keyword_index_that_fails_is_down_and_so_is_the_service(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*given: object, **more: object) -> None:
        raise StoreError("the index is damaged; restore a copy")

    monkeypatch.setattr(Fts5Index, "search", damaged)
    status, whole, parts = health(service)
    assert (status, whole, parts["keywordIndex"], parts["store"]) == (503, "down", "down", "ok")
    assert service.http.get("/health").headers["content-type"] == "application/json"


def test_the_models_server_is_off_until_a_model_is_named_and_then_missed(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "FRESH", -1.0)
    service = start()  # nothing listens there
    assert health(service)[1:] == ("ok", WELL | {"modelUpstream": "off"})
    service.memory.settings({"llmModel": "echo"})
    status, whole, parts = health(service)
    assert (status, whole, parts["modelUpstream"]) == (200, "degraded", "degraded")


def test_the_models_server_is_asked_once_in_a_while(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []
    real = Upstream.reachable
    monkeypatch.setattr(Upstream, "reachable", lambda self: (asked.append(None), real(self))[1])
    with FakeUpstream() as upstream:
        service = start(upstream=upstream.url)
        for _ in range(5):
            assert health(service)[2]["modelUpstream"] == "off"
    assert len(asked) == 1


def test_who_has_no_token_hears_one_word(start: Starter) -> None:
    service = start(token="secret", local=False)
    answer = service.http.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "parts": {}})
    with service.as_("secret") as client:
        assert client.get("/health").json()["parts"].keys() == PARTS
    with service.as_("wrong") as client:
        assert client.get("/health").json()["parts"] == {}


def samples(service: Service) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = service.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = list(text_string_to_metric_families(answer.text))
    assert all(family.name.startswith("twofold_") and family.documentation for family in families)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(found: dict[Any, float], name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0.0)


def test_metrics_count_what_happened(start: Starter, open_memory: Opener) -> None:
    embedder = Failing()
    with FakeUpstream() as upstream:
        service = start(open_memory(embedder), upstream=upstream.url)
        service.memory.settings({"llmModel": "echo"})
        service.http.post("/episodes", json={"content": "apple", "session": "s", "project": "p"})
        service.http.post("/recall", json={"query": "apple"})
        service.http.get("/episodes/7")
        embedder.broken = True
        service.http.post("/episodes", json={"content": "apple tart", "session": "t"})
        service.http.post("/recall", json={"query": "apple"})
        service.http.post("/context", json={"message": "apple", "project": "p"})
        service.http.post("/chat", json={"message": "apple", "session": "s", "project": "p"})
        service.http.post("/chat", json={"message": "apple", "stream": True})
        found = samples(service)
    for method, route, status, times in (
        ("POST", "/episodes", "201", 2),
        ("POST", "/recall", "200", 2),
        ("GET", "/episodes/{id}", "404", 1),
        ("POST", "/chat", "200", 2),
    ):
        assert value(found, "twofold_requests_total", method=method, route=route, status=status) == times, route
        assert value(found, "twofold_request_seconds_count", route=route) >= times
    assert value(found, "twofold_episodes") == 6
    assert value(found, "twofold_missing_vectors") == 5
    assert value(found, "twofold_projects") == len(service.memory.projects())
    assert value(found, "twofold_recall_hits_count") == 5
    assert value(found, "twofold_recall_hits_sum") >= 3
    assert value(found, "twofold_degraded_total", part="semantic") == 4
    stages = {dict(labels)["stage"] for name, labels in found if name == "twofold_stage_seconds_count"}
    assert {"keyword", "semantic"} <= stages


def test_metrics_tell_what_indexes_outside_the_file_wait_for(
    start: Starter, open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(name.startswith("twofold_outbox") for name, _ in samples(start(open_memory(name="other.db"))))
    monkeypatch.setenv("TWOFOLD_VECTORS", "edge")
    service = start(open_memory())
    service.http.post("/episodes", json={"content": "apple"})
    courier = service.memory._indexes.courier
    assert courier
    with courier.held():
        service.memory._indexes.deliver()
        service.http.post("/episodes", json={"content": "apple tart"})
        with service.memory._store.write() as db:
            db.execute("UPDATE outbox SET since = since - 90000000")
        found = samples(service)
        assert value(found, "twofold_outbox_waiting", index="vectors") == 1
        assert 90.0 <= value(found, "twofold_outbox_lag_seconds", index="vectors") < 100.0
        status, whole, parts = health(service)
        assert (status, whole, parts["externalIndex"]) == (200, "degraded", "degraded")
        service.memory._indexes.deliver()
        found = samples(service)
        assert found["twofold_outbox_waiting", frozenset({("index", "vectors")})] == 0
        assert found["twofold_outbox_lag_seconds", frozenset({("index", "vectors")})] == 0


def test_no_label_grows_with_what_clients_write(service: Service) -> None:
    def series() -> int:
        return len(samples(service))

    def walk(number: int) -> None:
        service.http.get(f"/nowhere/{number}")
        service.http.get(f"/projects/{number + 1}")
        service.http.get("/projects", params={"after": str(number)}, headers={"X-Request-Id": str(number)})
        service.http.request(f"METHOD{number}", "/projects")
        service.http.request("PUT", f"/{number}")
        service.http.get("/projects", headers={"Host": f"{number}.example"})
        service.http.post("/recall", json={"query": f"q{number}"})

    walk(0)
    series()  # which is counted itself
    before = series()
    for number in range(1, 12):
        walk(number)
    assert series() == before


def test_two_services_in_one_process_count_apart(start: Starter, open_memory: Opener) -> None:
    one, other = start(), start(open_memory(name="other.db"))
    one.http.get("/projects")
    assert value(samples(other), "twofold_requests_total", method="GET", route="/projects", status="200") == 0


def test_a_service_that_is_stopped_finishes_the_write_that_runs(
    open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    inside, go_on = threading.Event(), threading.Event()
    real = Memory.add

    def slow(self: Memory, *given: Any, **more: Any) -> Any:
        inside.set()
        assert go_on.wait(10)
        return real(self, *given, **more)

    shutdown = uvicorn.Server.shutdown

    async def begun(self: uvicorn.Server, *given: Any, **more: Any) -> None:
        go_on.set()  # the write goes on no sooner than the end has begun
        await shutdown(self, *given, **more)

    monkeypatch.setattr(Memory, "add", slow)
    monkeypatch.setattr(uvicorn.Server, "shutdown", begun)
    with Upstream("http://127.0.0.1:9/v1") as upstream, ThreadPoolExecutor(1) as pool:
        with running(app.create(memory, upstream, Gate(memory.tokens))) as url:
            asked = pool.submit(httpx2.post, f"{url}/episodes", json={"content": "kept"}, timeout=10, trust_env=False)
            assert inside.wait(10)
        # The service has ended here.
        answer = asked.result(10)
        assert answer.status_code == 201
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/health", trust_env=False)
    assert memory.show(episode=answer.json()["id"])[0].content == "kept"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_server_that_is_told_to_end_closes_the_file_and_says_that_all_is_well(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    command = [sys.executable, "-c", "from twofold.cli import main; main()", "serve", "--port", "0", "--db", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        lines = [server.stderr.readline()]
        while lines[-1] and "startup complete" not in lines[-1]:
            lines.append(server.stderr.readline())
        found = re.search(r"http://127\.0\.0\.1:[0-9]+", lines[0])
        assert found, lines
        assert httpx2.post(f"{found[0]}/projects", json={"name": "house"}, trust_env=False).status_code == 201
        server.send_signal(signal.SIGTERM)
        rest = server.stderr.read()
        assert server.wait(20) == 0, rest
    assert "Traceback" not in rest
    assert [one.name for one in tmp_path.glob("memories.db*")] == ["memories.db"]


def test_answers_do_not_wait_for_the_clients_acknowledgement() -> None:
    """Nagle's algorithm and delayed ACKs together cost 40 ms an answer."""
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
