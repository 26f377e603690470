"""The OpenAPI document is true of the running service, whatever it is sent."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.engine import Status, events, from_schema
from schemathesis.engine.run import PhaseName

from tests.fake_upstream import FakeUpstream
from tests.http.conftest import Service, Starter

# More by hand, when the service has changed much: CONTRACT_EXAMPLES=300 pytest tests/http/test_contract.py
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "4"))
GOOD = ["2xx", "401", "403", "404", "409", "413"]
# What these take hangs on what is in the store or in the file, which no schema tells: then 422 is right as well.
JUDGED = [
    "addEpisode",
    "listEpisodes",
    "importHistory",
    "exportHistory",
    "recall",
    "recallWindows",
    "timeline",
    "whyNot",
    "context",
    "chat",
]
JUDGED += ["addEntity", "changeEntity", "mergeEntity", "addFeedback"]
SEARCHES = ["searchEpisodes", "searchEntities"]  # whose last part another method's route takes for an id, and refuses


class AnyModel(list[str]):
    """The models of a server that has every model."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


@pytest.fixture
def complete(start: Starter) -> Iterator[Service]:
    """A service that has something of everything, and a language model's server that answers."""
    with FakeUpstream() as upstream:
        upstream.models = AnyModel(["echo"])
        service = start(upstream=upstream.url)
        service.memory.settings({"llmModel": "echo"})
        for number in range(3):
            service.memory.add(f"The plumber charged {number}.", session="today", project="house")
        service.memory.entities.add("Ada Example", "person", project="house")
        yield service


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Chat needs a model, so none of the requests takes it away."""
    if case.operation.path == "/settings" and isinstance(case.body, dict):
        case.body = {name: value for name, value in case.body.items() if name != "llmModel"}


def loaded(service: Service) -> Any:
    """The document of a running service, and how it shall be tried."""
    schemathesis.openapi.format("iana-zone", st.sampled_from(["UTC", "Europe/Zurich", "Asia/Tokyo"]))
    schemathesis.openapi.format("cursor", st.just(""))
    config = schemathesis.Config.from_dict(
        {
            "seed": 20_260_314,
            "continue-on-failure": True,
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
            "phases": {
                "stateful": {
                    "max-steps": 8,
                    "generation": {"max-examples": min(10 * EXAMPLES, 300)},
                    "inference": {"algorithms": []},  # the links of the document alone
                },
            },
            "checks": {"positive_data_acceptance": {"expected-statuses": GOOD}},
            "operations": [
                {
                    "include-operation-id": JUDGED,
                    "checks": {"positive_data_acceptance": {"expected-statuses": [*GOOD, "422"]}},
                },
                # What is not there may be the other of the two entities.
                {"include-operation-id": "mergeEntity", "checks": {"ensure_resource_availability": {"enabled": False}}},
                {"include-operation-id": SEARCHES, "checks": {"unsupported_method": {"enabled": False}}},
            ],
        }
    )
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json", config=config)


def test_no_request_gets_an_answer_that_is_not_documented(complete: Service) -> None:
    """No error of the server, no status, shape or media type that is not told, nothing wrong taken, nothing right
    refused; by examples, at the edges, at random, and along the links."""
    failures: list[str] = []
    asked: Counter[str] = Counter()
    followed: Counter[str] = Counter()
    for event in from_schema(loaded(complete)).execute():
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            failures.append(repr(getattr(event, "value", event)))
        if not isinstance(event, events.ScenarioFinished):
            continue
        for id_, case in event.recorder.cases.items():
            asked[f"{case.value.operation.method.upper()} {case.value.operation.path}"] += 1
            if event.phase is PhaseName.STATEFUL_TESTING and case.transition is not None:
                followed[case.transition.id] += 1
            for check in event.recorder.checks.get(id_, ()):
                if check.status is Status.FAILURE and check.failure_info is not None:
                    failure = check.failure_info
                    failures.append(f"{failure.failure.title}\n{failure.failure.message}\n{failure.code_sample}")
    assert not failures, f"{len(failures)} failures\n\n" + "\n\n".join(list(dict.fromkeys(failures))[:20])
    document = complete.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert asked[f"{method.upper()} {path}"] > 0
    assert len(followed) >= 8, followed
    assert complete.http.get("/health").json()["status"] == "ok"
    assert complete.memory.doctor().is_healthy


def test_every_link_of_the_document_leads_where_it_says(complete: Service) -> None:
    document = complete.http.get("/openapi.json").json()
    places = {
        operation["operationId"]: (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    bodies = {
        "changeProject": {"name": "villa"},
        "changeSession": {"title": "T"},
        "changeEpisode": {"content": "other"},
    }
    bodies["changeEntity"] = {"aliases": ["Ms Example"]}
    for name in ("addProject", "addSession", "addEpisode", "addEntity"):
        method, path, operation = places[name]
        made = complete.http.request(
            method,
            path,
            json=example_of(document, operation) | {"name": "linked"} if name != "addEpisode" else {"content": "x"},
        )
        assert made.status_code == 201, made.text
        links = operation["responses"]["201"]["links"]
        assert {"get", "change", "forget"} <= links.keys()
        assert list(links)[-1] == "forget"
        for link in links.values():
            target, where, _ = places[link["operationId"]]
            assert link["parameters"] == {"id": "$response.body#/id"}
            answer = complete.http.request(
                target, where.format(id=made.json()["id"]), json=bodies.get(link["operationId"])
            )
            assert answer.status_code == 200, answer.text
    for name in ("listProjects", "listSessions", "listEpisodes", "listEntities", "listMentions"):
        method, path, operation = places[name]
        (link,) = operation["responses"]["200"]["links"].values()
        assert link == {"operationId": name, "parameters": {"after": "$response.body#/next"}}
        assert "after" in {one["name"] for one in operation["parameters"]}


def example_of(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    (example,) = document["components"]["schemas"][schema]["examples"]
    return dict(example)
