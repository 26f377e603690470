"""Keyword search, recall and why-not over HTTP."""

from __future__ import annotations

import pytest

from tests.http.conftest import Service


def test_search_gives_full_rows_best_first(service: Service) -> None:
    service.http.post("/episodes", json={"content": "The gate needs oil, says a long note on the house."})
    service.http.post("/episodes", json={"content": "gate gate"})
    service.http.post("/episodes", json={"content": "nothing of it"})
    rows = service.http.get("/episodes/search", params={"q": "gate", "limit": 5}).json()
    assert [row["content"][:9] for row in rows] == ["gate gate", "The gate "]
    assert rows[0]["score"] > rows[1]["score"]
    assert set(rows[0]) == {
        "id", "sessionId", "session", "title", "project", "role", "content", "time", "metadata", "score",
    }  # fmt: skip
    assert len(service.http.get("/episodes/search", params={"q": "gate", "limit": 1}).json()) == 1


def test_a_query_of_stop_words_finds_nothing_and_is_no_error(service: Service) -> None:
    service.http.post("/episodes", json={"content": "this is the one"})
    answer = service.http.get("/episodes/search", params={"q": "the is one"})
    assert (answer.status_code, answer.json()) == (200, [])


@pytest.mark.parametrize("listed", ["1,", "a", "1;2", "-1", "1,,2", "99999999999999999999", "1.5"])
def test_malformed_session_ids_are_refused(service: Service, listed: str) -> None:
    answer = service.http.get("/episodes/search", params={"q": "gate", "sessionIds": listed})
    assert answer.status_code == 422
    assert "sessionIds" in answer.json()["detail"]


def test_session_ids_restrict_and_an_empty_list_sees_nothing(service: Service) -> None:
    ids = [
        service.http.post("/episodes", json={"content": f"gate {name}", "session": name}).json()["sessionId"]
        for name in ("a", "b", "c")
    ]
    seen = service.http.get("/episodes/search", params={"q": "gate", "sessionIds": f"{ids[0]}, {ids[2]}"}).json()
    assert {row["session"] for row in seen} == {"a", "c"}
    assert service.http.get("/episodes/search", params={"q": "gate", "sessionIds": ""}).json() == []
    assert len(service.http.get("/episodes/search", params={"q": "gate"}).json()) == 3
    assert service.http.post("/recall", json={"query": "gate", "sessionIds": []}).json()["hits"] == []
    some = service.http.post("/recall", json={"query": "gate", "sessionIds": ids[:2]}).json()["hits"]
    assert {hit["episode"]["session"] for hit in some} == {"a", "b"}


def test_recall_says_why_and_excludes_before_it_ranks(service: Service) -> None:
    ids = [service.http.post("/episodes", json={"content": f"gate {n}"}).json()["id"] for n in range(12)]
    body = {"query": "gate", "exclude": ids[:10], "limit": 2, "explain": True}
    answer = service.http.post("/recall", json=body).json()
    assert {hit["episode"]["id"] for hit in answer["hits"]} == set(ids[10:])
    assert {given["rank"] for hit in answer["hits"] for given in hit["contributions"]} == {1, 2}
    assert answer["explanation"]["terms"] == ["gate"]
    assert service.http.post("/recall", json={"query": "gate"}).json()["explanation"] is None


def test_why_not_names_the_stage(service: Service) -> None:
    for number in range(3):
        service.http.post("/episodes", json={"content": f"gate {number}", "project": "p"})
    other = service.http.post("/episodes", json={"content": "gate elsewhere"}).json()["id"]
    told = service.http.post("/recall/why-not", json={"query": "gate", "episode": 3, "limit": 1}).json()
    assert told["stage"] in ("cut", "recalled")
    hidden = service.http.post("/recall/why-not", json={"query": "gate", "episode": other, "project": "p"}).json()
    assert hidden["stage"] == "scope"


def test_an_unknown_session_or_project_is_not_found(service: Service) -> None:
    for body in ({"session": "nowhere"}, {"project": "nowhere"}, {"sessionId": 99}):
        assert service.http.post("/recall", json={"query": "gate", **body}).status_code == 404, body
