"""Context and entities over HTTP."""

from __future__ import annotations

from tests.http.conftest import Service


def entity(service: Service, **body: object) -> dict[str, object]:
    answer = service.http.post("/entities", json={"type": "person", "project": "house", **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, object] = answer.json()
    return made


def test_a_context_holds_what_was_said_last_what_is_recalled_and_who_is_named(service: Service) -> None:
    service.http.post("/episodes", json={"content": "Ada charged 180 for it.", "session": "old", "project": "house"})
    service.http.post("/episodes", json={"content": "Good morning.", "session": "today", "project": "house"})
    service.http.post("/episodes", json={"content": "Ada is elsewhere.", "session": "old"})
    entity(service, name="Ada", description="the plumber")
    body = {"message": "what did Ada charge?", "session": "today", "project": "house", "zone": "Europe/Zurich"}
    made = service.http.post("/context", json=body).json()
    assert [one["content"] for one in made["recent"]] == ["Good morning."]
    assert [one["content"] for one in made["passages"][0]["episodes"]] == ["Ada charged 180 for it."]
    assert [one["entity"]["name"] for one in made["entities"]] == ["Ada"]
    assert "elsewhere" not in made["text"]
    assert 0 < made["tokens"] <= made["budget"] == 2000
    assert made["degraded"] == {}


def test_a_session_that_is_not_there_yet_has_nothing_to_recall(service: Service) -> None:
    service.http.post("/episodes", json={"content": "The gate is green.", "session": "other"})
    made = service.http.post("/context", json={"message": "the gate", "session": "new"})
    assert made.status_code == 200
    assert (made.json()["recent"], made.json()["passages"], made.json()["text"]) == ([], [], "")
    assert service.http.post("/context", json={"message": "the gate", "sessionId": 99}).status_code == 404


def test_a_bad_budget_or_zone_is_named(service: Service) -> None:
    for field, value in (("budget", 10), ("budget", 10**7), ("zone", "Mars/Olympus")):
        answer = service.http.post("/context", json={"message": "x", field: value})
        assert answer.status_code == 422
        assert field in answer.json()["detail"]
        assert str(value) in answer.json()["detail"]


def test_entities_are_made_changed_merged_listed_and_forgotten(service: Service) -> None:
    first = service.http.post("/episodes", json={"content": "Ada came.", "session": "s", "project": "house"}).json()
    ada = entity(service, name="Ada", aliases=["Ms Example"])
    other = entity(service, name="A. Example", description="the plumber")
    assert (ada["mentions"], ada["project"], ada["aliases"]) == (1, "house", ["Ms Example"])
    path = f"/entities/{ada['id']}"
    mentions = service.http.get(f"{path}/episodes").json()["items"]
    assert [one["id"] for one in mentions] == [first["id"]]
    assert service.http.patch(path, json={"description": "repairs pipes"}).json()["description"] == "repairs pipes"
    merged = service.http.post(f"/entities/{other['id']}/merge", json={"into": ada["id"]}).json()
    assert set(merged["aliases"]) == {"Ms Example", "A. Example"}
    assert service.http.get(f"/entities/{other['id']}").status_code == 404
    found = service.http.get("/entities/search", params={"q": "ms example", "project": "house"}).json()["hits"]
    assert [hit["entity"]["id"] for hit in found] == [ada["id"]]
    assert [one["name"] for one in service.http.get("/entities", params={"type": "person"}).json()["items"]] == ["Ada"]
    assert service.http.delete(path).status_code == 200
    assert service.http.get("/entities").json() == {"items": [], "next": None}
    assert service.http.get(f"/episodes/{first['id']}").status_code == 200


def test_an_entity_that_is_there_already_is_a_conflict(service: Service) -> None:
    entity(service, name="Ada")
    answer = service.http.post("/entities", json={"name": "ADA", "type": "person", "project": "house"})
    assert answer.status_code == 409
    assert service.http.post("/entities", json={"name": "Ada", "type": "person"}).status_code == 201
