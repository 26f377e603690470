"""A token bound to one project goes to every door of the service and finds nothing behind but its own."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apsw
import httpx2
import pytest

from tests.fake_upstream import FakeUpstream
from tests.http.conftest import Service, Starter
from twofold import Memory

# What stands in things of others. Only what a request itself holds may come back in its answer.
MARKS = (
    "B-TEXT",
    "B-TITLE",
    "B-META",
    "B-project",
    "B-room",
    "B-Name",
    "B-DESCRIPTION",
    "B-ANSWER",
    "0-TEXT",
    "0-room",
)
UNUSED = 999_999


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one owner's things."""

    project: int | None
    session: int
    episode: int
    entity: int
    other_entity: int
    feedback: int


@dataclass(frozen=True, slots=True)
class World:
    """A service with things of A, of B and of nobody, and the token that is bound to A."""

    service: Service
    upstream: FakeUpstream
    bound: httpx2.Client
    a: Ids
    b: Ids
    none: Ids

    @property
    def foreign(self) -> tuple[Ids, Ids]:
        return self.b, self.none


@dataclass(frozen=True, slots=True)
class Try:
    """One request, and the statuses that are right for it."""

    method: str
    path: str
    right: tuple[int, ...] = (404,)
    more: dict[str, Any] = field(default_factory=dict)


def filled(memory: Memory, who: str, project: str | None) -> Ids:
    """Two sessions, one of a name that everybody has, and two entities."""
    common = f"the saffron vault opens with {who}-TEXT"
    memory.add(common, session="common", project=project, metadata={"key": f"{who}-META"}, source="mail/1")
    memory.add(f"the {who}-Name keeps the saffron, says {who}-TEXT", session=f"{who}-room", project=project)
    episode = memory.add(f"{who}-TEXT again", session=f"{who}-room", project=project)
    memory.catalog.change_session(episode.session_id, title=f"{who}-TITLE")
    whose = {"project": project} if project else {"session": episode.session_id}
    made = [
        memory.entities.add(name, "person", description=f"{who}-DESCRIPTION of saffron", **whose)  # type: ignore[arg-type]
        for name in (f"{who}-Name", f"{who}-Name Vault")
    ]
    said = memory.feedback.add(f"{who}-TEXT?", episode.id, True, session=str(episode.session_id), project=project)
    known = {one.name: one.id for one in memory.projects()}
    return Ids(known.get(project or ""), episode.session_id, episode.id, made[0].id, made[1].id, said.id)


@pytest.fixture
def world(start: Starter) -> Iterator[World]:
    with FakeUpstream() as upstream:
        upstream.models = ["echo"]
        service = start(upstream=upstream.url)
        memory = service.memory
        memory.settings({"llmModel": "echo"})
        ids = [filled(memory, who, project) for who, project in (("A", "A-project"), ("B", "B-project"), ("0", None))]
        _, of_b = memory.tokens.add("of B", project="B-project")
        upstream.answer = "B-ANSWER"
        with service.as_(of_b) as client:
            assert client.post("/v1/chat/completions", json={"messages": thread_of_b()[:1]}).status_code == 200
        upstream.answer = "noted"
        upstream.bodies.clear()
        _, secret = memory.tokens.add("of A", project="A-project")
        with service.as_(secret) as bound:
            yield World(service, upstream, bound, *ids)


def thread_of_b() -> list[dict[str, str]]:
    """What was said between B and the model, as a client sends it again."""
    texts = ("user", "what is in the saffron vault?"), ("assistant", "B-ANSWER"), ("user", "and what else?")
    return [{"role": role, "content": content} for role, content in texts]


def outside(memory: Memory, a: int) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the store that is not of project A, the keyword index term by term."""
    sessions = "SELECT id FROM sessions WHERE project_id IS NOT ?1"
    episodes = f"SELECT id FROM episodes WHERE session_id IN ({sessions})"
    entities = (
        f"SELECT id FROM entities WHERE project_id IS NOT ?1 AND (session_id IS NULL OR session_id IN ({sessions}))"
    )
    of = {
        "projects": "id IS NOT ?1",
        "sessions": "project_id IS NOT ?1",
        "episodes": f"session_id IN ({sessions})",
        "keyword_docs": f"id IN ({episodes})",
        "vectors": f"episode_id IN ({episodes})",
        "entities": f"id IN ({entities})",
        "entity_names": f"entity_id IN ({entities})",
        "entity_vectors": f"entity_id IN ({entities})",
        "mentions": f"entity_id IN ({entities}) OR episode_id IN ({episodes})",
        "threads": f"session_id IN ({sessions})",
        "tokens": "project_id IS NOT ?1",
        "feedback": "project_id IS NOT ?1",
        "runs": "?1 = ?1",
        "settings": "?1 = ?1",
        "models": "?1 = ?1",
        "identity": "?1 = ?1",
        "targets": "?1 = ?1",
        "outbox": "?1 = ?1",
        "vector_sums": f"kind = 1 AND of IS NOT ?1 OR kind = 2 AND of IN ({sessions})",
        "temp.keyword_instances": f"doc IN ({episodes})",
    }
    with memory._store.read() as db:
        _instances(db)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        rest = {name for name in tables if not name.startswith(("sqlite_", "keyword"))} - {"counters"}
        assert rest <= of.keys(), "a table that this test does not know"
        return {
            name: sorted(db.execute(f"SELECT * FROM {name} WHERE {which}", (a,)), key=repr)
            for name, which in of.items()
        }


def _instances(db: apsw.Connection) -> None:
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.keyword_instances USING fts5vocab(main, keyword, instance)")


def cursor(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def lines(*messages: dict[str, object]) -> bytes:
    return b"\n".join(json.dumps(message).encode() for message in messages)


def chat_tries(path: str, world: World, body: dict[str, Any], *, nested: bool) -> Iterator[Try]:
    """A turn into the sessions of others, by their names and ids: a session of A's own is made instead."""
    for ids in world.foreign:
        for stream in (False, True):
            into = {"session": str(ids.session)}
            more = {"metadata": into} if nested else into
            yield Try("POST", path, (200,), {"json": {**body, **more, "stream": stream}})
    where = {"session": "B-room", "project": "B-project"}
    yield Try("POST", path, (404,), {"json": {**body, **({"metadata": where} if nested else where)}})
    yield Try(
        "POST",
        path,
        (200,),
        {"json": {**body, **({"metadata": {"session": "B-room"}} if nested else {"session": "B-room"})}},
    )


def tries_of_rows(world: World) -> dict[str, list[Try]]:
    b, none = world.foreign
    page = (200,)

    def by_id(path: str, kind: str, *methods: tuple[str, dict[str, Any]]) -> Iterator[list[Try]]:
        for method, more in methods:
            ids = [getattr(one, kind) for one in world.foreign if getattr(one, kind)]
            yield [Try(method, path.format(id_), (404,), more) for id_ in ids]

    new = {"json": {"name": "C"}}
    project = list(
        by_id(
            "/projects/{}",
            "project",
            ("GET", {}),
            ("DELETE", {}),
            ("DELETE", {"params": {"purge": True}}),
        )
    )
    session = list(by_id("/sessions/{}", "session", ("GET", {}), ("PATCH", new), ("DELETE", {})))
    episode = list(by_id("/episodes/{}", "episode", ("GET", {}), ("PATCH", {"json": {"content": "C"}}), ("DELETE", {})))
    said = {"content": "of A", "role": "user"}
    return {
        "listProjects": [
            Try("GET", "/projects", page),
            Try("GET", "/projects", page, {"params": {"after": cursor("A")}}),
        ],
        "addProject": [
            Try("POST", "/projects", (403,), {"json": {"name": name}}) for name in ("B-project", "C-project")
        ],
        "getProject": project[0],
        "changeProject": [
            Try("PATCH", f"/projects/{one.project}", (403,), new) for one in world.foreign if one.project
        ],
        "forgetProject": project[1] + project[2],
        "listSessions": [
            Try("GET", "/sessions", page),
            Try("GET", "/sessions", page, {"params": {"after": cursor(2**62, UNUSED)}}),
            Try("GET", "/sessions", (404,), {"params": {"project": "B-project"}}),
        ],
        "addSession": [
            Try("POST", "/sessions", (404,), {"json": {"name": "B-room", "project": "B-project"}}),
            Try("POST", "/sessions", (201,), {"json": {"name": "0-room"}}),
        ],
        "getSession": session[0],
        "changeSession": session[1],
        "forgetSession": session[2],
        "listEpisodes": [
            Try("GET", "/episodes", page),
            Try("GET", "/episodes", page, {"params": {"after": cursor(0)}}),
            Try("GET", "/episodes", (404,), {"params": {"project": "B-project"}}),
            *(Try("GET", "/episodes", (404,), {"params": {"sessionId": ids.session}}) for ids in world.foreign),
        ],
        "addEpisode": [
            *(
                Try("POST", "/episodes", (404,), {"json": {"content": "of A", "sessionId": ids.session}})
                for ids in world.foreign
            ),
            Try("POST", "/episodes", (404,), {"json": {"content": "of A", "project": "B-project"}}),
            Try("POST", "/episodes", (201,), {"json": {"content": "of A", "session": "B-room"}}),
            Try(
                "POST",
                "/episodes",
                (201,),
                {"json": {"content": "of A", "session": str(b.session), "source": "mail/1"}},
            ),
        ],
        "getEpisode": episode[0],
        "changeEpisode": episode[1],
        "forgetEpisode": episode[2],
        "exportHistory": [
            Try("GET", "/export", (404,), {"params": {"project": "B-project"}}),
            *(Try("GET", "/export", (404,), {"params": {"sessionId": ids.session}}) for ids in world.foreign),
            *(Try("GET", "/export", (404,), {"params": {"episodeId": ids.episode}}) for ids in world.foreign),
            *(Try("GET", "/export", (200,), {"params": {"format": kind}}) for kind in ("jsonl", "markdown", "openai")),
        ],
        "importHistory": [
            Try("POST", "/import", (404,), {"content": lines({"twofold": 1}, {"project": "B-project"})}),
            Try(
                "POST",
                "/import",
                (404,),
                {"content": lines({"twofold": 1}, {"entity": "x", "type": "place", "project": "B-project"})},
            ),
            Try("POST", "/import", (404,), {"params": {"project": "B-project"}, "content": lines(said)}),
            Try("POST", "/import", (404,), {"content": lines(*[said] * 300, {**said, "project": "B-project"})}),
            Try(
                "POST",
                "/import",
                (200,),
                {"content": lines({**said, "session": str(none.session), "source": "mail/1"})},
            ),
        ],
    }


def tries_of_searches(world: World) -> dict[str, list[Try]]:
    query = "saffron vault TEXT Name"
    both = [ids.session for ids in world.foreign]
    episodes = [ids.episode for ids in world.foreign]

    def posts(path: str, body: dict[str, Any], *more: tuple[int, dict[str, Any]]) -> list[Try]:
        return [Try("POST", path, (status,), {"json": body | one}) for status, one in more]

    out_of_reach = [
        (404, {"project": "B-project"}),
        (404, {"session": "B-room", "project": "B-project"}),
        *((404, {"sessionId": id_}) for id_ in both),
    ]
    by_name = [(404, {"session": name}) for name in ("B-room", "0-room", *map(str, both))]
    asked = [
        (200, {}),
        (200, {"sessionIds": both}),
        (200, {"exclude": [world.a.episode, *episodes]}),
        *out_of_reach,
        *by_name,
    ]
    return {
        "searchEpisodes": [
            Try("GET", "/episodes/search", (200,), {"params": {"q": query}}),
            Try("GET", "/episodes/search", (200,), {"params": {"q": query, "sessionIds": ",".join(map(str, both))}}),
            Try("GET", "/episodes/search", (404,), {"params": {"q": query, "project": "B-project"}}),
        ],
        "recall": posts("/recall", {"query": query, "explain": True}, *asked),
        "recallWindows": [
            one for one in posts("/recall/windows", {"query": query}, *asked) if "exclude" not in one.more["json"]
        ],
        "whyNot": [
            one for id_ in episodes for one in posts("/recall/why-not", {"query": query, "episode": id_}, *asked)
        ],
        # A place that is not there yet has nothing to recall, and is no error.
        "context": [
            *posts("/context", {"message": query}, (200, {}), *((200, {"session": str(id_)}) for id_ in both)),
            *posts(
                "/context",
                {"message": query},
                (200, {"project": "B-project"}),
                *((404, {"sessionId": id_}) for id_ in both),
            ),
            *posts("/context", {"message": query}, (200, {"session": "B-room", "project": "B-project"})),
        ],
        "listEntities": [
            Try("GET", "/entities", (200,)),
            Try("GET", "/entities", (200,), {"params": {"after": cursor("", 0)}}),
            Try("GET", "/entities", (404,), {"params": {"project": "B-project"}}),
            *(Try("GET", "/entities", (404,), {"params": {"sessionId": id_}}) for id_ in both),
        ],
        "searchEntities": [
            Try("GET", "/entities/search", (200,), {"params": {"q": query}}),
            Try("GET", "/entities/search", (404,), {"params": {"q": query, "project": "B-project"}}),
            *(
                Try("GET", "/entities/search", (404,), {"params": {"q": query, "session": name}})
                for name in ("B-room", str(both[0]), str(both[1]))
            ),
        ],
    }


def tries_of_entities(world: World) -> dict[str, list[Try]]:
    known = [id_ for ids in world.foreign for id_ in (ids.entity, ids.other_entity)]
    person = {"name": "C", "type": "person"}

    def each(method: str, path: str = "/entities/{}", **more: Any) -> list[Try]:
        return [Try(method, path.format(id_), (404,), more) for id_ in known]

    return {
        "addEntity": [
            Try("POST", "/entities", (404,), {"json": person | {"project": "B-project"}}),
            *(Try("POST", "/entities", (404,), {"json": person | {"sessionId": ids.session}}) for ids in world.foreign),
            Try("POST", "/entities", (201,), {"json": person | {"name": "B-Name"}}),
        ],
        "getEntity": each("GET"),
        "changeEntity": each("PATCH", json={"name": "C"}),
        "forgetEntity": each("DELETE"),
        "listMentions": each("GET", "/entities/{}/episodes"),
        "mergeEntity": [
            *each("POST", "/entities/{}/merge", json={"into": world.a.entity}),
            *(Try("POST", f"/entities/{world.a.entity}/merge", (404,), {"json": {"into": id_}}) for id_ in known),
            Try("POST", f"/entities/{world.b.entity}/merge", (404,), {"json": {"into": world.none.entity}}),
        ],
    }


def tries_of_the_rest(world: World) -> dict[str, list[Try]]:
    said = {"messages": [{"role": "user", "content": "what opens the saffron vault?"}]}
    completions = "/v1/chat/completions"
    into_b = {"X-Twofold-Session": "B-room", "X-Twofold-Project": "B-project"}
    judged = {"query": "what opens the saffron vault?", "useful": True}
    b, none = world.foreign
    return {
        "addFeedback": [
            *(
                Try("POST", "/feedback", (404,), {"json": {**judged, "episode": ids.episode, **where}})
                for ids in world.foreign
                for where in ({}, {"session": "B-room"}, {"project": "B-project"}, {"sessionId": ids.session})
            ),
            Try("POST", "/feedback", (404,), {"json": {**judged, "episode": world.a.episode, "project": "B-project"}}),
            Try("POST", "/feedback", (201,), {"json": {**judged, "episode": world.a.episode}}),
        ],
        "listFeedback": [
            Try("GET", "/feedback", (200,)),
            Try("GET", "/feedback", (200,), {"params": {"after": cursor(2**40)}}),
            Try("GET", "/feedback", (404,), {"params": {"project": "B-project"}}),
        ],
        "removeFeedback": [Try("DELETE", f"/feedback/{ids.feedback}", (404,)) for ids in (b, none)],
        "getSettings": [Try("GET", "/settings", (200,))],
        "changeSettings": [Try("PATCH", "/settings", (403,), {"json": {"semanticLimit": 3}})],
        "health": [Try("GET", "/health", (200,))],
        "metrics": [Try("GET", "/metrics", (403,))],
        "chat": [
            *chat_tries("/chat", world, {"message": "what opens the saffron vault?"}, nested=False),
            *(
                Try("POST", "/chat", (404,), {"json": {"message": "x", "sessionId": ids.session}})
                for ids in world.foreign
            ),
        ],
        "complete": [
            *chat_tries(completions, world, said, nested=True),
            Try("POST", completions, (404,), {"json": said, "headers": into_b}),
            Try("POST", completions, (200,), {"json": said, "headers": {"X-Twofold-Session": str(world.b.session)}}),
            Try("POST", completions, (200,), {"json": {"messages": thread_of_b()}}),
            Try("POST", completions, (200,), {"json": {"messages": thread_of_b(), "stream": True}}),
        ],
        "listModels": [Try("GET", "/v1/models", (200,))],
        "status": [Try("GET", "/status", (403,))],
        "listRuns": [Try("GET", "/runs", (403,))],
        "addSample": [Try("POST", "/sample", (403,))],
        "timeline": [
            Try("GET", "/timeline", (200,)),
            Try("GET", "/timeline", (404,), {"params": {"project": "B-project"}}),
            *(Try("GET", "/timeline", (404,), {"params": {"sessionId": ids.session}}) for ids in world.foreign),
        ],
        "episodesAround": [Try("GET", f"/episodes/{ids.episode}/around", (404,)) for ids in world.foreign],
    }


def test_a_bound_token_sees_writes_and_deletes_nothing_outside_on_any_route(world: World) -> None:
    tries = tries_of_searches(world) | tries_of_entities(world) | tries_of_the_rest(world) | tries_of_rows(world)
    assert operations(world) == tries.keys(), "routes that this test does not know, or that are no more"
    assert world.a.project
    before = outside(world.service.memory, world.a.project)
    assert all(before[name] for name in ("episodes", "vectors", "mentions", "entity_names", "threads", "keyword_docs"))
    faults: list[object] = []
    own: set[str] = set()  # names that A itself has given to something by now
    for name, some in tries.items():
        for one in some:
            answer = world.bound.request(one.method, one.path, **one.more)
            sent = f"{one.path} {one.more}"
            shown = [mark for mark in MARKS if mark in answer.text and mark not in sent and mark not in own]
            if one.method == "POST" and answer.is_success:
                own.update(mark for mark in MARKS if mark in sent)
            if answer.status_code not in one.right or shown:
                faults.append((name, one, answer.status_code, shown, answer.text[:300]))
            changed = outside(world.service.memory, world.a.project)
            if changed != before:
                faults.append((name, one, "the store of others is another", changed))
                before = changed
    assert not faults, "\n".join(map(str, faults))
    # Nor is the model told: its server may be anybody's.
    asked = json.dumps(
        [body["messages"] for body in world.upstream.bodies if body["messages"][:1] != thread_of_b()[:1]]
    )
    assert world.upstream.bodies
    assert not [mark for mark in MARKS if mark in asked and mark not in own]


def operations(world: World) -> set[str]:
    paths = world.service.http.get("/openapi.json").json()["paths"]
    return {operation["operationId"] for methods in paths.values() for operation in methods.values()}


def test_what_is_out_of_reach_is_told_from_what_is_not_there_by_nothing(world: World) -> None:
    tries = tries_of_rows(world) | tries_of_searches(world) | tries_of_entities(world)
    for some in tries.values():
        for one in some:
            there = world.bound.request(one.method, one.path, **one.more)
            if there.status_code != 404:
                continue
            # Of a merge only the one that is out of reach is another.
            path = re.sub(r"[0-9]+", str(UNUSED), one.path) if f"/{world.a.entity}/" not in one.path else one.path
            more = json.loads(_renamed(world, json.dumps(one.more))) if "content" not in one.more else one.more
            gone = world.bound.request(one.method, path, **more)
            assert gone.status_code == 404, (one, gone.text)
            assert _plain(there) == _plain(gone), one


def _renamed(world: World, text: str) -> str:
    """A request of things that are nowhere in the place of things of others."""
    for id_ in {id_ for ids in world.foreign for id_ in (ids.session, ids.episode, ids.entity, ids.other_entity)}:
        text = re.sub(rf'(?<=: )("?){id_}\b', rf"\g<1>{UNUSED + id_}", text)
    return text.replace("B-project", "C-project").replace("B-room", "C-room").replace("0-room", "C-room")


def _plain(answer: httpx2.Response) -> str:
    detail = re.sub(r"[0-9]+", "N", answer.json()["detail"])
    return re.sub(r"\b[BC0N]-(project|room)\b", r"X-\1", detail)


def test_a_file_with_a_line_for_another_project_leaves_nothing_half_imported(world: World) -> None:
    before = world.bound.get("/projects").json()
    said = [{"content": f"line {number}"} for number in range(600)]
    answer = world.bound.post("/import", content=lines(*said, {"content": "for B", "project": "B-project"}))
    assert answer.status_code == 404
    assert world.bound.get("/projects").json() == before
    assert (
        world.bound.post("/import", content=lines(*said, {"content": "ours", "project": "A-project"})).json()["added"]
        == 601
    )


def test_a_new_name_for_its_own_project_does_not_tell_which_names_are_taken(world: World) -> None:
    path = f"/projects/{world.a.project}"
    answers = [world.bound.patch(path, json={"name": name}) for name in ("B-project", "nobody's name")]
    assert answers[0].status_code == answers[1].status_code


def test_what_is_seen_is_counted_alone(world: World) -> None:
    """A why-not about an episode of another says the same as one about none at all."""
    told = [
        world.bound.post("/recall/why-not", json={"query": "saffron", "episode": id_}).text
        for id_ in (world.b.episode, world.none.episode, UNUSED)
    ]
    assert len({re.sub(r"[0-9]+", "N", one) for one in told}) == 1
    assert {part["detail"] for part in world.bound.get("/health").json()["parts"].values()} == {""}
    (seen,) = world.bound.get("/projects").json()["items"]
    assert (seen["name"], seen["sessions"], seen["episodes"]) == ("A-project", 2, 3)


def test_its_own_things_it_can_use_on_every_route(world: World) -> None:
    a, bound = world.a, world.bound
    said = {"messages": [{"role": "user", "content": "what opens the saffron vault?"}]}
    steps: dict[str, tuple[str, str, dict[str, Any]]] = {
        "getSettings": ("GET", "/settings", {}),
        "health": ("GET", "/health", {}),
        "listModels": ("GET", "/v1/models", {}),
        "searchEpisodes": ("GET", "/episodes/search", {"params": {"q": "saffron", "sessionIds": a.session}}),
        "recall": ("POST", "/recall", {"json": {"query": "saffron", "sessionId": a.session}}),
        "whyNot": ("POST", "/recall/why-not", {"json": {"query": "saffron", "episode": a.episode}}),
        "recallWindows": ("POST", "/recall/windows", {"json": {"query": "saffron", "sessionId": a.session}}),
        "timeline": ("GET", "/timeline", {}),
        "episodesAround": ("GET", f"/episodes/{a.episode}/around", {}),
        "context": ("POST", "/context", {"json": {"message": "saffron", "session": "A-room", "project": "A-project"}}),
        "listProjects": ("GET", "/projects", {}),
        "getProject": ("GET", f"/projects/{a.project}", {}),
        "listSessions": ("GET", "/sessions", {"params": {"project": "A-project"}}),
        "addSession": ("POST", "/sessions", {"json": {"name": "new", "project": "A-project"}}),
        "getSession": ("GET", f"/sessions/{a.session}", {}),
        "changeSession": ("PATCH", f"/sessions/{a.session}", {"json": {"title": "mine"}}),
        "listEpisodes": ("GET", "/episodes", {"params": {"sessionId": a.session}}),
        "addEpisode": ("POST", "/episodes", {"json": {"content": "A-TEXT", "sessionId": a.session}}),
        "getEpisode": ("GET", f"/episodes/{a.episode}", {}),
        "changeEpisode": ("PATCH", f"/episodes/{a.episode}", {"json": {"content": "A-Name says A-TEXT"}}),
        "importHistory": ("POST", "/import", {"content": lines({"content": "A-TEXT", "project": "A-project"})}),
        "exportHistory": ("GET", "/export", {"params": {"sessionId": a.session}}),
        "addFeedback": ("POST", "/feedback", {"json": {"query": "x", "episode": a.episode, "useful": False}}),
        "listFeedback": ("GET", "/feedback", {}),
        "removeFeedback": ("DELETE", f"/feedback/{a.feedback}", {}),
        "listEntities": ("GET", "/entities", {}),
        "addEntity": ("POST", "/entities", {"json": {"name": "A-Other", "type": "place", "project": "A-project"}}),
        "searchEntities": ("GET", "/entities/search", {"params": {"q": "A-Name", "session": "A-room"}}),
        "getEntity": ("GET", f"/entities/{a.entity}", {}),
        "changeEntity": ("PATCH", f"/entities/{a.entity}", {"json": {"aliases": ["A-Nick"]}}),
        "listMentions": ("GET", f"/entities/{a.entity}/episodes", {}),
        "mergeEntity": ("POST", f"/entities/{a.other_entity}/merge", {"json": {"into": a.entity}}),
        "chat": ("POST", "/chat", {"json": {"message": "what opens the saffron vault?", "sessionId": a.session}}),
        "complete": ("POST", "/v1/chat/completions", {"json": said, "headers": {"X-Twofold-Session": "A-room"}}),
        "forgetEntity": ("DELETE", f"/entities/{a.entity}", {}),
        "forgetEpisode": ("DELETE", f"/episodes/{a.episode}", {}),
        "forgetSession": ("DELETE", f"/sessions/{a.session}", {}),
    }
    closed = {"addProject", "changeProject", "forgetProject", "changeSettings", "metrics", "status", "listRuns"}
    closed.add("addSample")
    assert operations(world) == steps.keys() | closed
    for name, (method, path, more) in steps.items():
        answer = bound.request(method, path, **more)
        assert answer.status_code in (200, 201), (name, answer.text)
        assert not [mark for mark in MARKS if mark in answer.text], name
    assert "A-TEXT" in bound.post("/recall", json={"query": "saffron"}).text


def test_a_token_ends_with_its_project(world: World) -> None:
    assert world.bound.get("/projects").status_code == 200
    assert world.service.http.delete(f"/projects/{world.a.project}").status_code == 200
    answer = world.bound.get("/projects")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["type"] == "urn:twofold:problem:unauthorized"


def test_a_token_that_was_taken_back_or_never_given_opens_nothing(start: Starter) -> None:
    service = start()
    _, secret = service.memory.tokens.add("mine")
    with service.as_(secret) as client:
        assert client.get("/episodes").status_code == 200
        service.memory.tokens.remove("mine")
        assert client.get("/episodes").status_code == 401
    service.memory.tokens.add("another")
    for wrong in (secret, f"{secret}x", "nonsense", "twofold_", "é".encode("latin-1").decode("latin-1"), "a b"):
        with httpx2.Client(base_url=service.url, trust_env=False) as client:
            answer = client.get("/episodes", headers={"Authorization": f"Bearer {wrong}".encode("latin-1")})
            assert answer.status_code == 401, wrong
            assert wrong not in answer.text


def test_the_token_of_the_environment_opens_everything_from_everywhere(start: Starter) -> None:
    service = start(token="correct horse battery", local=False)
    assert service.http.get("/projects").status_code == 401
    for shown, status in (("Bearer correct horse battery", 200), ("bEARER correct horse batter", 401), ("bEARER", 401)):
        headers = {"Authorization": shown, "Host": "memory.example"}
        assert service.http.get("/projects", headers=headers).status_code == status, shown
    with service.as_("correct horse battery") as client:
        assert client.patch("/settings", json={"semanticLimit": 3}).status_code == 200


def test_secrets_are_compared_in_constant_time(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comparison with a known secret or digest is hmac's, and each of them is made whichever fits."""
    service = start(token="of the environment")
    secrets = [service.memory.tokens.add(str(number))[1] for number in range(3)]
    compared: list[tuple[object, object]] = []
    import hmac

    real: Callable[[Any, Any], bool] = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: (compared.append((a, b)), real(a, b))[1])
    for secret, status in ((secrets[0], 200), (secrets[2], 200), ("twofold_wrong", 401)):
        compared.clear()
        with service.as_(secret) as client:
            assert client.get("/projects").status_code == status
        assert len(compared) == 4
