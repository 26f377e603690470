"""Feedback over HTTP."""

from __future__ import annotations

from tests.http.conftest import Service


def test_feedback_is_given_listed_and_taken_back(service: Service) -> None:
    http = service.http
    episode = http.post("/episodes", json={"content": "The plumber charged 180.", "project": "house"}).json()
    word = {"query": "what did the plumber charge?", "episode": episode["id"], "useful": True}
    made = http.post("/feedback", json=word | {"project": "house"})
    assert made.status_code == 201
    assert made.json() | {"time": ""} == word | {"id": 1, "project": "house", "session": None, "time": ""}
    by_id = http.post("/feedback", json=word | {"useful": False, "sessionId": episode["sessionId"]}).json()
    assert (by_id["session"], by_id["project"], by_id["useful"]) == ("default", "house", False)
    page = http.get("/feedback", params={"limit": 1}).json()
    assert [one["id"] for one in page["items"]] == [2]
    assert [one["id"] for one in http.get("/feedback", params={"after": page["next"]}).json()["items"]] == [1]
    assert http.delete("/feedback/1").json() == {"forgotten": 0}
    assert http.delete("/feedback/1").status_code == 404
    http.delete(f"/episodes/{episode['id']}")
    assert http.get("/feedback").json() == {"items": [], "next": None}


def test_feedback_on_what_is_not_there_says_so(service: Service) -> None:
    word = {"query": "who?", "episode": 7, "useful": True}
    for body, status in ((word, 404), (word | {"useful": "maybe"}, 422), ({"query": "who?", "episode": 1}, 422)):
        answer = service.http.post("/feedback", json=body)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
