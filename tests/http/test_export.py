"""What is remembered as the body of an answer, and of a request again."""

from __future__ import annotations

import json

from tests.http.conftest import Starter
from twofold import Message


def test_a_session_that_was_exported_and_forgotten_comes_back_by_an_import(start: Starter) -> None:
    service = start()
    service.memory.add("The gate is green.", session="s", project="p", metadata={"k": 1})
    service.memory.add("The gate is red.", session="t", project="p")
    whole = service.http.get("/export").text
    (session, _) = sorted(service.memory.sessions(), key=lambda one: one.name)
    kept = service.http.get("/export", params={"sessionId": session.id})
    assert kept.headers["content-type"] == "application/x-ndjson"
    assert kept.headers["content-disposition"] == 'attachment; filename="twofold-export.jsonl"'
    service.http.delete(f"/sessions/{session.id}")
    assert service.http.get("/export").text != whole
    assert service.http.post("/import", content=kept.content).json()["added"] == 1
    assert service.http.get("/export").text == whole


def test_it_is_one_answer_in_many_pieces(start: Starter) -> None:
    service = start()
    service.memory.add_all(
        [Message(f"message {number} " + "x" * 400, session=f"s{number % 7}", project="p") for number in range(400)]
    )
    lines = service.http.get("/export", params={"vectors": True}).text.splitlines()
    assert len(lines) == 401
    assert json.loads(lines[400])["vectors"]["pieces"]
    markdown = service.http.get("/export", params={"format": "markdown", "project": "p"})
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert markdown.text.count("## User, ") == 400


def test_what_cannot_be_exported_is_said_before_anything_is(start: Starter) -> None:
    service = start()
    service.memory.add("one", session="s", project="p")
    for params, says in (
        ({"sessionId": 99}, "there is no session 99"),
        ({"episodeId": 99}, "there is no episode 99"),
        ({"project": "q"}, "there is no project 'q'"),
        ({"sessionId": 1, "project": "q"}, "is not in project 'q'"),
        ({"format": "openai", "vectors": "true"}, "no place for vectors"),
        ({"format": "pdf"}, "format"),
    ):
        answer = service.http.get("/export", params=params)  # type: ignore[arg-type]
        assert answer.status_code in (404, 422)
        assert says in answer.json()["detail"]


def test_an_import_tells_its_progress_to_who_wants_lines(start: Starter) -> None:
    service = start()
    lines = "".join(json.dumps({"content": f"line {n}", "session": "s"}) + "\n" for n in range(3000))
    accept = {"Accept": "application/x-ndjson"}
    answer = service.http.post("/import", content=lines, headers=accept)
    assert answer.headers["content-type"] == "application/x-ndjson"
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert told[-1]["done"]["added"] == 3000
    assert {line["stage"] for line in told[:-1]} <= {"reading", "storing", "making vectors"}
    assert told[0]["stage"] == "reading"
    failed = service.http.post("/import", content="{", headers=accept).text.splitlines()
    assert "line 1" in json.loads(failed[-1])["problem"]["detail"]
    assert service.memory.status().waiting == 0
