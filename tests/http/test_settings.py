"""Settings over HTTP act at once, all or nothing."""

from __future__ import annotations

import math

import pytest

from tests.conftest import Opener
from tests.http.conftest import Service, Starter
from twofold.settings import SPECS


def test_a_fresh_start_shows_every_setting_but_secrets(service: Service) -> None:
    values = service.http.get("/settings").json()
    assert (values["semanticWeight"], values["keywordWeight"], values["weights"]) == (1.0, 0.0, "auto")
    assert set(values) == {name for name, spec in SPECS.items() if not spec.secret}
    assert "llmApiKey" not in values


def test_every_setting_has_its_range_and_description_in_the_openapi_document(service: Service) -> None:
    document = service.http.get("/openapi.json").json()
    body = document["paths"]["/settings"]["patch"]["requestBody"]["content"]["application/json"]["schema"]
    told = document["components"]["schemas"][body["$ref"].rsplit("/", 1)[1]] if "$ref" in body else body
    for name, spec in SPECS.items():
        if spec.at_start:
            assert name not in told["properties"]
            continue
        shape = told["properties"][name]
        assert shape["description"] == spec.description
        if shape["type"] in ("integer", "number"):
            assert (shape["minimum"], shape["maximum"]) == (spec.least, spec.most)
        elif spec.choices:
            assert shape["enum"] == list(spec.choices)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"keywordWeight": 5.1, "semanticLimit": 3}', ["keywordWeight", "5.1", "0 to 5"]),
        ('{"semanticLimit": 3, "keywordWeight": NaN}', ["keywordWeight", "nan", "0 to 5"]),
        ('{"semanticLimit": 3, "keywordWeight": 1e999}', ["keywordWeight", "0 to 5"]),
        ('{"semanticLimit": 3, "keywordWeight": "1"}', ["keywordWeight", "'1'", "0 to 5"]),
        ('{"semanticLimit": 3, "keywordWeight": true}', ["keywordWeight", "True"]),
        ('{"semanticLimit": 3, "keywordWeight": null}', ["keywordWeight", "None"]),
        ('{"semanticLimit": 3, "nonsense": 1}', ["nonsense", "semanticWeight"]),
        ('{"semanticLimit": 3, "keyword_weight": 1}', ["keyword_weight"]),
        ('{"semanticLimit": 3, "method": "best"}', ["method", "rrf, rsf, dbsf, convex"]),
        ('{"semanticLimit": 3, "window": 10.5}', ["window", "10.5", "10 to 1000"]),
        ('{"semanticLimit": 3, "llmBaseUrl": "http://127.0.0.1/v1"}', ["llmBaseUrl", "TWOFOLD_LLM_BASE_URL"]),
        ('{"semanticLimit": 3, "llmApiKey": "hush"}', ["llmApiKey", "TWOFOLD_LLM_API_KEY"]),
        ('[{"semanticLimit": 3}]', ["body"]),
        ('{"semanticLimit": 3', ["body"]),
    ],
)
def test_a_bad_body_is_refused_whole_and_names_the_field(service: Service, body: str, named: list[str]) -> None:
    before = service.http.get("/settings").json()
    answer = service.http.patch("/settings", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(word in answer.json()["detail"] for word in named), answer.json()["detail"]
    assert "hush" not in answer.text
    assert service.http.get("/settings").json() == before


def test_a_change_acts_at_the_next_request_and_survives_a_restart(start: Starter, open_memory: Opener) -> None:
    first = start()
    for number in range(4):
        first.http.post("/episodes", json={"content": f"apple {number}"})
    assert first.http.patch("/settings", json={"semanticLimit": 3}).json()["semanticLimit"] == 3
    assert len(first.http.post("/recall", json={"query": "apple"}).json()["hits"]) == 3
    again = start(open_memory())
    assert again.http.get("/settings").json()["semanticLimit"] == 3


def test_fixed_weights_fuse_with_the_numbers_of_weighted_rrf(service: Service) -> None:
    for content in ("stripe billing", "billing for the garden", "the cat sleeps", "stripe stripe cat"):
        service.http.post("/episodes", json={"content": content})
    assert service.http.patch("/settings", json={"keywordWeight": 1.0}).json()["weights"] == "fixed"
    answer = service.http.post("/recall", json={"query": "stripe billing", "explain": True}).json()
    assert (answer["explanation"]["method"], answer["explanation"]["k"]) == ("rrf", 60)
    for hit in answer["hits"]:
        for given in hit["contributions"]:
            assert given["contribution"] == pytest.approx(1.0 / (60 + given["rank"]), abs=1e-12)
        assert math.fsum(given["contribution"] for given in hit["contributions"]) == hit["score"]


def test_a_keyword_weight_of_0_stops_touching_the_keyword_index(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.http.post("/episodes", json={"content": "stripe billing"})
    calls: list[str] = []
    index = service.memory._keyword
    for name in ("search", "neighbours", "are_conversations"):
        real = getattr(index, name)
        monkeypatch.setattr(
            index, name, lambda *given, real=real, name=name: (calls.append(name), real(*given))[1], raising=True
        )
    service.http.patch("/settings", json={"keywordWeight": 1.0})
    service.http.post("/recall", json={"query": "stripe"})
    assert calls.count("search") == 1
    calls.clear()
    service.http.patch("/settings", json={"keywordWeight": 0})
    found = service.http.post("/recall", json={"query": "stripe"}).json()["hits"]
    assert [given["ranking"] for given in found[0]["contributions"]] == ["semantic"]
    assert calls == []
