"""What both retrievers brought, and the parts of a text that match."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from twofold import Memory, fusion
from twofold.embed.hashing import HashEmbedder
from twofold.marks import marks
from twofold.text import query_terms


def marked(text: str, query: str) -> list[str]:
    units = text.encode("utf-16-le")
    return [units[2 * start : 2 * end].decode("utf-16-le") for start, end in marks(text, query_terms(query))]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The gates were closed; a gate is open.", "which gate", ["gates", "gate"]),
        ("Nothing here", "gate", []),
        ("东京的樱花", "樱花", ["樱花"]),
        ("😀 the gate 😀 Gates", "gate", ["gate", "Gates"]),
        ("use re-rank and rerank_all()", "rerank_all", ["rerank_all"]),
        ("Ärger über Straßen", "ärger", ["Ärger"]),
        ("", "gate", []),
    ],
)
def test_matching_words_are_marked_as_a_browser_counts(text: str, query: str, expected: list[str]) -> None:
    assert marked(text, query) == expected


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "one.db", embedder=HashEmbedder()) as opened:
        for number in range(30):
            words = "apples gate" if number % 3 else "pears door"
            opened.add(f"message {number} about {words}", session=f"s{number % 4}", project="p")
        yield opened


SETTINGS = [
    {},
    {"method": "rrf"},
    {"method": "rsf"},
    {"method": "dbsf"},
    {"weights": "fixed", "keywordWeight": 1.0, "semanticWeight": 2.0},
    {"weights": "fixed", "keywordWeight": 1.0, "semanticWeight": 2.0, "method": "convex"},
    {"weights": "fixed", "keywordWeight": 0.0, "semanticWeight": 1.0},
    {"weights": "fixed", "keywordWeight": 3.0, "semanticWeight": 0.0, "method": "rsf"},
]


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
@pytest.mark.parametrize("query", ["message about the gate", '"pears door"', "apples yesterday"])
def test_the_windows_hold_what_the_present_settings_and_every_method_fuse(
    memory: Memory, changes: dict[str, object], query: str
) -> None:
    memory.settings(changes)
    found = memory.lookout.windows(query, project="p")
    recalled = memory.recall(query, project="p")
    assert found.fused == tuple((hit.episode.id, hit.score) for hit in recalled.hits)
    assert found.rankings["keyword"] and found.rankings["semantic"]
    ids = {candidate.episode.id for candidate in found.candidates}
    assert {id_ for ranking in found.rankings.values() for id_, _ in ranking} == ids
    for method, given in found.auto.items():
        memory.settings({"weights": "auto", "method": method})
        expected = [(hit.episode.id, hit.score) for hit in memory.recall(query, project="p", limit=20).hits]
        rankings = given.completed or found.rankings
        more = {"floors": given.floors} if method == "convex" else {"k": given.k} if method == "rrf" else {}
        fused = getattr(fusion, method)(rankings, weights=given.weights, limit=20, **more)
        assert [(hit.id, hit.score) for hit in fused] == expected


def test_a_door_on_one_project_shows_no_candidate_of_another(memory: Memory) -> None:
    memory.add("message about the gate of others", project="q")
    (project,) = [one for one in memory.projects() if one.name == "p"]
    found = memory.within(project.id).lookout.windows("message about the gate")
    assert {candidate.episode.project for candidate in found.candidates} == {"p"}
