"""Projects, sessions and episodes over HTTP."""

from __future__ import annotations

import json

from tests.http.conftest import Service, Starter


def test_an_episode_is_stored_read_changed_and_forgotten(service: Service) -> None:
    made = service.http.post(
        "/episodes",
        json={
            "content": "The gate code is 4711.",
            "session": "home",
            "project": "house",
            "time": "2026-03-14T09:30:00+01:00",
            "metadata": {"channel": "phone"},
        },
    )
    assert made.status_code == 201
    episode = made.json()
    assert (episode["session"], episode["project"], episode["role"]) == ("home", "house", "user")
    assert (episode["time"], episode["metadata"]) == ("2026-03-14T08:30:00Z", {"channel": "phone"})
    path = f"/episodes/{episode['id']}"
    assert service.http.get(path).json() == episode
    assert service.http.patch(path, json={"content": "The gate code is 1147."}).json()["content"].endswith("1147.")
    assert service.http.get("/episodes/search", params={"q": "4711"}).json() == []
    assert service.http.delete(path).json() == {"forgotten": 1}
    assert service.http.get(path).status_code == 404


def test_projects_and_sessions_are_made_renamed_and_forgotten_with_all_they_hold(service: Service) -> None:
    project = service.http.post("/projects", json={"name": "house"}).json()
    session = service.http.post("/sessions", json={"name": "repairs", "project": "house", "title": "Repairs"}).json()
    assert (session["project"], session["episodes"], session["last"]) == ("house", 0, None)
    service.http.post("/episodes", json={"content": "The roof leaks.", "sessionId": session["id"]})
    assert service.http.patch(f"/projects/{project['id']}", json={"name": "villa"}).json()["name"] == "villa"
    renamed = service.http.patch(f"/sessions/{session['id']}", json={"name": "roof", "title": ""}).json()
    assert (renamed["name"], renamed["title"], renamed["project"], renamed["episodes"]) == ("roof", None, "villa", 1)
    assert service.http.delete(f"/projects/{project['id']}").json() == {"forgotten": 1}
    for path in (f"/projects/{project['id']}", f"/sessions/{session['id']}"):
        assert service.http.get(path).status_code == 404
    assert service.http.get("/episodes").json() == {"items": [], "next": None}


def test_a_name_that_is_taken_is_a_conflict_and_changes_nothing(service: Service) -> None:
    for name in ("house", "garden"):
        assert service.http.post("/projects", json={"name": name}).status_code == 201
    assert service.http.post("/projects", json={"name": "house"}).status_code == 409
    assert service.http.patch("/projects/2", json={"name": "house"}).status_code == 409
    assert [one["name"] for one in service.http.get("/projects").json()["items"]] == ["garden", "house"]
    for _ in range(2):
        answer = service.http.post("/sessions", json={"name": "a", "project": "house"})
    assert answer.status_code == 409
    for _ in range(2):
        answer = service.http.post("/episodes", json={"content": "once", "session": "a", "source": "mail/1"})
    assert answer.status_code == 409
    assert "mail/1" in answer.json()["detail"]


def test_lists_come_in_pages_that_hold_everything_once(service: Service) -> None:
    for number in range(7):
        body = {"content": f"note {number}", "session": f"s{number}", "project": f"p{number % 2}"}
        service.http.post("/episodes", json=body)
    for path, key in (("/episodes", "content"), ("/sessions", "name"), ("/projects", "name")):
        whole = [one[key] for one in service.http.get(path).json()["items"]]
        seen, after = [], ""
        while after is not None:
            page = service.http.get(path, params={"limit": 3, "after": after}).json()
            assert len(page["items"]) <= 3
            seen += [one[key] for one in page["items"]]
            after = page["next"]
        assert seen == whole
        assert len(set(seen)) == len(seen)


def test_the_episodes_of_a_session_come_by_time_and_those_of_a_project_are_its_own(service: Service) -> None:
    for hour, content in ((3, "third"), (1, "first"), (2, "second")):
        body = {"content": content, "session": "a", "project": "p", "time": f"2026-01-01T0{hour}:00:00Z"}
        session = service.http.post("/episodes", json=body).json()["sessionId"]
    service.http.post("/episodes", json={"content": "elsewhere", "session": "a"})
    by_time = service.http.get("/episodes", params={"sessionId": session, "limit": 2}).json()
    rest = service.http.get("/episodes", params={"sessionId": session, "limit": 2, "after": by_time["next"]}).json()
    assert [one["content"] for one in by_time["items"] + rest["items"]] == ["first", "second", "third"]
    of_project = service.http.get("/episodes", params={"project": "p"}).json()["items"]
    assert [one["content"] for one in of_project] == ["third", "first", "second"]
    assert service.http.get("/episodes", params={"project": "nowhere"}).status_code == 404


def test_a_cursor_that_no_page_gave_is_refused(service: Service) -> None:
    for after in ("x", "WzFd", "bm9uZQ==", "W1sxXV0="):
        answer = service.http.get("/sessions", params={"after": after})
        assert answer.status_code == 422, after
        assert answer.json()["detail"].startswith("after is")


def test_ids_that_disagree_with_names_are_refused(service: Service) -> None:
    made = service.http.post("/episodes", json={"content": "x", "session": "a", "project": "p"}).json()
    answer = service.http.post("/episodes", json={"content": "y", "sessionId": made["sessionId"], "session": "b"})
    assert answer.status_code == 422
    assert "'b'" in answer.json()["detail"]
    same = service.http.post("/episodes", json={"content": "y", "sessionId": made["sessionId"], "session": "a"})
    assert same.json()["sessionId"] == made["sessionId"]


def test_a_file_is_imported_once_and_what_was_lost_is_told(service: Service) -> None:
    history = [{"role": "user", "content": "The gate is green."}, {"role": "assistant", "content": "Noted."}]
    for added in (2, 0):
        answer = service.http.post("/import", params={"project": "house"}, content=json.dumps(history).encode())
        assert answer.status_code == 200
        assert (answer.json()["added"], answer.json()["duplicates"]) == (added, 2 - added)
    found = service.http.post("/recall", json={"query": "which colour is the gate", "project": "house"}).json()
    assert found["hits"][0]["episode"]["content"] == "The gate is green."


def test_an_import_tells_its_losses_by_kind_and_takes_branches_when_asked(service: Service) -> None:
    def said(uuid: str, parent: str | None, text: str) -> dict[str, object]:
        times = {"created_at": "2026-03-14T08:30:00Z"}
        return {"uuid": uuid, "sender": "human", "text": text, "parent_message_uuid": parent, **times}

    talk = {"uuid": "t", "chat_messages": [said("a", None, "q"), said("b", "a", "one"), said("c", "a", "two")]}
    file = json.dumps([talk]).encode()
    assert service.http.post("/import", content=file).json() == {
        "added": 2,
        "updated": 0,
        "duplicates": 0,
        "kept": 0,
        "sessions": 1,
        "waiting": 0,
        "entities": 0,
        "losses": {
            "conversations": 1,
            "messages": 2,
            "first": "2026-03-14T08:30:00Z",
            "last": "2026-03-14T08:30:00Z",
            "skipped": {"message on an abandoned branch": 1},
            "placeholders": {},
            "unknown": {},
            "changed": {},
        },
    }
    all_of_it = service.http.post("/import", params={"allBranches": True, "kind": "claude"}, content=file).json()
    assert (all_of_it["added"], all_of_it["duplicates"]) == (1, 2)


def test_a_broken_file_leaves_nothing_half_imported(service: Service) -> None:
    lines = b'{"content": "kept?", "role": "user"}\n' * 3 + b'{"content": '
    answer = service.http.post("/import", content=lines)
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:twofold:problem:import-failed"
    assert service.http.get("/episodes").json()["items"] == []


def test_forgetting_with_purge_leaves_no_trace_in_the_file(start: Starter) -> None:
    service = start()
    secret = "xylophonic-quagmire"
    made = service.http.post("/episodes", json={"content": secret, "session": "a"}).json()
    assert service.http.delete(f"/sessions/{made['sessionId']}", params={"purge": True}).json() == {"forgotten": 1}
    files = service.memory.path.parent.glob(service.memory.path.name + "*")
    assert all(secret.encode() not in file.read_bytes() for file in files)
