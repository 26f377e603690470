"""Chat over HTTP: whole and streamed, the service's own and the OpenAI-compatible one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.conftest import Opener
from tests.fake_upstream import MODEL, NOTED, FakeUpstream
from tests.http.conftest import Service, Starter


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as fake:
        yield fake


@pytest.fixture
def service(start: Starter, upstream: FakeUpstream) -> Service:
    made = start(upstream=upstream.url)
    made.memory.settings({"llmModel": MODEL})
    return made


def client_of(service: Service, **headers: str) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{service.url.rstrip('/')}/v1", api_key="unused", default_headers=headers, max_retries=0
    )


def events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream, each with its name and what it holds."""
    pairs = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]


def said(service: Service, session: str, project: str | None = None) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in service.memory.show(session, project=project)]


def test_a_turn_is_answered_from_memory_and_stored(service: Service) -> None:
    service.http.post("/episodes", json={"content": "The gate code is 4711.", "session": "old", "project": "house"})
    body = {"message": "What is the gate code?", "session": "today", "project": "house"}
    turn = service.http.post("/chat", json=body).json()
    assert "4711" in turn["answer"]
    assert (turn["session"], turn["model"], turn["finish"]) == ("today", MODEL, "stop")
    assert said(service, "today", "house") == [("user", body["message"]), ("assistant", turn["answer"])]
    assert turn["asked"]["id"] < turn["answered"]["id"]
    assert turn["context"]["passages"][0]["episodes"][0]["content"] == "The gate code is 4711."


def test_a_turn_goes_on_in_the_session_of_an_id(service: Service) -> None:
    first = service.http.post("/chat", json={"message": "The roof is blue."}).json()
    body = {"message": "What colour is the roof?", "sessionId": first["asked"]["sessionId"]}
    second = service.http.post("/chat", json=body).json()
    assert second["session"] == first["session"]
    assert [one["content"] for one in second["context"]["recent"]] == ["The roof is blue.", NOTED]
    assert service.http.post("/chat", json={"message": "x", "sessionId": 99}).status_code == 404


def test_a_streamed_turn_comes_in_deltas_and_ends_with_what_was_stored(service: Service) -> None:
    body = {"message": "Remember the blue roof.", "session": "s", "stream": True}
    with service.http.stream("POST", "/chat", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        *deltas, (name, turn) = events(answer.read().decode())
    assert {kind for kind, _ in deltas} == {"delta"}
    assert len(deltas) > 1
    assert "".join(delta["text"] for _, delta in deltas) == turn["answer"] == NOTED
    assert name == "done"
    assert said(service, "s") == [("user", body["message"]), ("assistant", NOTED)]


def test_a_stream_that_breaks_says_so_and_keeps_what_there_is_as_partial(
    service: Service, upstream: FakeUpstream
) -> None:
    upstream.failing = "break"
    body = {"message": "Remember the blue roof.", "session": "s", "stream": True}
    *deltas, (name, problem) = events(service.http.post("/chat", json=body).text)
    assert (name, problem["type"], problem["status"]) == ("error", "urn:twofold:problem:chat", 502)
    user, answer = service.memory.show("s")
    assert user.content == body["message"]
    assert answer.metadata == {"partial": True}
    assert answer.content == "".join(delta["text"] for _, delta in deltas).strip()


def test_a_client_that_goes_away_leaves_what_was_said_and_a_partial_answer(
    service: Service, upstream: FakeUpstream
) -> None:
    upstream.failing = "endless"
    body = {"message": "Tell me everything.", "session": "s", "stream": True}
    with service.http.stream("POST", "/chat", json=body) as answer:
        next(answer.iter_raw())
    assert upstream.hung_up.wait(20)
    service.http.get("/health")
    user, partial = stored_soon(service)
    assert user == ("user", body["message"])
    assert partial[0] == "assistant"
    assert service.memory.show("s")[1].metadata == {"partial": True}


def stored_soon(service: Service) -> list[tuple[str, str]]:
    """The session once both its messages are there: the server stores them after it has hung up itself."""
    for _ in range(500):
        if [one for one in service.memory.sessions() if one.name == "s" and one.episodes == 2]:
            break
        service.http.get("/settings")
    return said(service, "s")


@pytest.mark.parametrize("path", ["/chat", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [True, False])
def test_without_a_model_chat_says_how_to_set_one_and_stores_nothing(
    start: Starter, open_memory: Opener, path: str, stream: bool
) -> None:
    service = start()
    body = {"message": "hello", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
    body.pop("messages" if path == "/chat" else "message")
    for model in ("", "llama3.2"):
        service.memory.settings({"llmModel": model})
        answer = service.http.post(path, json=body)
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:twofold:problem:no-model"
        assert "TWOFOLD_LLM_MODEL" in answer.json()["detail"]
    assert service.memory.sessions() == []
    assert service.http.post("/episodes", json={"content": "all else works"}).status_code == 201
    assert service.http.get("/v1/models").status_code == 503


def test_an_upstream_that_fails_is_a_bad_gateway(service: Service, upstream: FakeUpstream) -> None:
    for failing in (500, "garbage", "wrong shape"):
        upstream.failing = failing
        answer = service.http.post("/chat", json={"message": "hello", "session": "s"})
        assert (answer.status_code, answer.json()["type"]) == (502, "urn:twofold:problem:chat")
    assert service.memory.sessions() == []


@pytest.mark.parametrize("stream", [True, False])
def test_the_official_client_chats_and_a_second_conversation_knows_the_first(service: Service, stream: bool) -> None:
    client = client_of(service)

    def ask(content: str) -> str:
        messages: list[Any] = [{"role": "user", "content": content}]
        if not stream:
            answer = client.chat.completions.create(model="twofold", messages=messages)
            return answer.choices[0].message.content or ""
        chunks = client.chat.completions.create(model="twofold", messages=messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    assert ask("The spare key hangs behind the clock.") == NOTED
    assert "behind the clock" in ask("Where does the spare key hang?")
    assert len(service.memory.sessions("chat")) == 2


def test_a_conversation_goes_on_in_its_session_and_is_not_recalled_back_to_its_client(
    service: Service, upstream: FakeUpstream
) -> None:
    client = client_of(service)
    history: list[Any] = []
    for content in ("The boat is called Nena.", "It is moored in Wals.", "What is the boat called?"):
        history.append({"role": "user", "content": content})
        answer = client.chat.completions.create(model=MODEL, messages=history)
        history.append({"role": "assistant", "content": answer.choices[0].message.content})
    (session,) = service.memory.sessions()
    assert session.episodes == 6
    sent = json.dumps(upstream.bodies[-1])
    assert sent.count("The boat is called Nena.") == 1


def test_metadata_or_a_header_names_session_and_project_and_metadata_of_ours_is_not_passed_on(
    service: Service, upstream: FakeUpstream
) -> None:
    client = client_of(service)
    for number, how in enumerate(
        (
            {"metadata": {"session": "a", "project": "p", "trace": "7"}},
            {"extra_headers": {"X-Twofold-Session": "a", "X-Twofold-Project": "p"}},
        )
    ):
        raw = client.chat.completions.with_raw_response.create(
            model="twofold", messages=[{"role": "user", "content": f"Note {number}."}], **how
        )
        assert raw.headers["X-Twofold-Session"] == "a"
    assert [content for role, content in said(service, "a", "p") if role == "user"] == ["Note 0.", "Note 1."]
    assert upstream.bodies[0]["metadata"] == {"trace": "7"}
    assert "metadata" not in upstream.bodies[1]


def test_the_models_are_those_of_the_upstream(service: Service) -> None:
    assert [model.id for model in client_of(service).models.list()] == ["twofold", MODEL]
    service.http.patch("/settings", json={"llmModel": ""})
    assert [model.id for model in client_of(service).models.list()] == [MODEL]


def test_without_a_project_for_them_conversations_that_name_nothing_stand_alone(service: Service) -> None:
    service.http.patch("/settings", json={"chatProject": ""})
    client = client_of(service)
    for content in ("The spare key hangs behind the clock.", "Where does the spare key hang?"):
        answer = client.chat.completions.create(model="twofold", messages=[{"role": "user", "content": content}])
    assert "clock" not in (answer.choices[0].message.content or "")
    assert {one.project for one in service.memory.sessions()} == {None}


def test_half_a_character_from_a_model_is_passed_on_and_stored_mended(service: Service, upstream: FakeUpstream) -> None:
    upstream.answer = "half \ud83d done"
    for stream in (False, True):
        body = {"messages": [{"role": "user", "content": "hello"}], "stream": stream}
        answer = service.http.post("/v1/chat/completions", json=body, headers={"X-Twofold-Session": "s"})
        assert answer.status_code == 200
        assert "done" in answer.text
        assert answer.headers["X-Twofold-Session"] == "s"
    assert service.http.post("/chat", json={"message": "hello", "stream": True}).status_code == 200
    assert all("done" in one.content for one in service.memory.show("s") if one.role == "assistant")


def test_an_error_reads_as_openais_clients_expect_it(service: Service, upstream: FakeUpstream) -> None:
    upstream.failing = 500
    with pytest.raises(openai.InternalServerError) as told:
        client_of(service).chat.completions.create(model="twofold", messages=[{"role": "user", "content": "hello"}])
    assert told.value.status_code == 502
    assert "status 500" in told.value.message
    with pytest.raises(openai.UnprocessableEntityError):
        client_of(service).chat.completions.create(model="twofold", messages=[])


def test_proposed_entities_are_there_after_a_turn_when_the_setting_is_on(
    service: Service, upstream: FakeUpstream
) -> None:
    upstream.proposal = json.dumps(
        [{"name": "Ada Example", "type": "person", "description": "the plumber"}, {"name": "Nobody", "type": "person"}]
    )
    body = {"message": "Ada Example repaired the boiler.", "session": "s", "project": "house"}
    service.http.post("/chat", json=body)
    assert service.http.get("/entities").json()["items"] == []
    service.http.patch("/settings", json={"proposeEntities": "on"})
    service.http.post("/chat", json=body)
    for _ in range(500):  # asked for once the answer is sent
        if items := service.http.get("/entities", params={"project": "house"}).json()["items"]:
            break
    assert [(one["name"], one["description"]) for one in items] == [("Ada Example", "the plumber")]
    assert items[0]["mentions"] == 2


def test_recalls_are_answered_while_many_turns_wait_for_the_model(service: Service, upstream: FakeUpstream) -> None:
    """A model that takes its time holds up nobody who does not ask it."""
    from concurrent.futures import ThreadPoolExecutor

    upstream.failing = "hang"
    with ThreadPoolExecutor(20) as waiting:
        turns = [
            waiting.submit(service.http.post, "/chat", json={"message": f"hello {n}", "session": "s"})
            for n in range(20)
        ]
        assert service.http.post("/recall", json={"query": "hello"}).status_code == 200
        assert not any(turn.done() for turn in turns)
        upstream.stopped.set()
        assert {turn.result().status_code for turn in turns} <= {502, 503}
