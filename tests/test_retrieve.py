"""What a query and its first results decide about weights, method and k."""

from __future__ import annotations

import pytest

from twofold import settings
from twofold.keyword import KeywordHits
from twofold.query import characterize, select_weights
from twofold.retrieve import (
    CONVERSATION_PRIOR,
    DOCUMENT_PRIOR,
    LEAST_FLUENCY,
    USUAL_SPREAD,
    USUAL_STANDING,
    Plan,
    Prior,
    leaning,
    measured_prior,
    plan,
)
from twofold.vectors import VectorHits

DEFAULTS = {name: spec.default for name, spec in settings.SPECS.items()}
PRIOR = {"keyword": 0.75, "semantic": 0.25}
WORDS = KeywordHits([(1, 5.0)])


def start(keyword: float = 0.75, words_share: float = 0.0, standing_share: float = 0.0) -> Plan:
    """A plan that leans from these weights."""
    weights = {"keyword": keyword, "semantic": 1.0 - keyword}
    return Plan(
        characterize("x"), "convex", weights, None, True, words_share=words_share, standing_share=standing_share
    )


def meaning(spread: float, rows: int = 1000) -> VectorHits:
    """Hits whose best stands so far above the mean of the others."""
    others = 0.1
    best = others + spread
    return VectorHits([(1, best)], (best + others * (rows - 1)) / rows, rows)


def test_automatic_weights_mean_convex_with_the_prior_of_the_store() -> None:
    found = plan("how do customers pay us", DEFAULTS, Prior(0.75))
    assert (found.method, found.weights, found.k, found.leans) == ("convex", PRIOR, None, True)
    assert (measured_prior(False).keyword, measured_prior(True).keyword) == (DOCUMENT_PRIOR, CONVERSATION_PRIOR)


def test_a_tuned_prior_decides_method_weight_and_k() -> None:
    tuned = plan("how do customers pay us", DEFAULTS, Prior(0.2, method="rrf", k=20.0, origin="tuned"))
    assert (tuned.method, tuned.weights, tuned.k) == ("rrf", {"keyword": 0.2, "semantic": 0.8}, 20.0)
    steady = plan("how do customers pay us", DEFAULTS, Prior(0.2, leans=False, origin="tuned"))
    assert (steady.method, steady.leans) == ("convex", False)


@pytest.mark.parametrize("query", ['"exact words"', "cats AND dogs", "cats -dogs"])
def test_a_phrase_or_a_boolean_takes_its_row_of_the_table_as_it_is(query: str) -> None:
    found = plan(query, DEFAULTS, Prior(0.75))
    assert found.weights == select_weights(characterize(query))
    assert not found.leans


@pytest.mark.parametrize(("method", "k"), [("rrf", 15), ("rsf", None)])
def test_rrf_and_rsf_take_the_whole_table(method: str, k: float | None) -> None:
    found = plan("stripe", DEFAULTS | {"method": method}, Prior(0.75))
    assert (found.weights, found.k, found.leans) == ({"keyword": 0.65, "semantic": 0.35}, k, False)


def test_fixed_weights_mean_rrf_with_the_constant_and_the_weights_as_they_are() -> None:
    fixed = DEFAULTS | {"weights": "fixed", "keywordWeight": 3.0}
    found = plan("stripe", fixed, Prior(0.75))
    assert (found.method, found.weights, found.k) == ("rrf", {"keyword": 3.0, "semantic": 1.0}, 60)
    for method in ("rsf", "dbsf", "convex"):
        found = plan("stripe", fixed | {"method": method}, Prior(0.75))
        assert (found.weights, found.leans) == (PRIOR, False)


def test_the_usual_spread_leaves_the_prior_as_it_is() -> None:
    assert leaning(start(), WORDS, meaning(USUAL_SPREAD)) == pytest.approx(PRIOR)
    assert leaning(start(), WORDS, VectorHits([(1, 0.5)], 0.5, 1)) == PRIOR  # a lone row has nothing to stand above


def test_the_semantic_side_counts_the_less_the_less_its_best_hit_stands_out() -> None:
    weights = [leaning(start(), WORDS, meaning(spread))["semantic"] for spread in (0.6, 0.4, 0.2, 0.1, 0.0)]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0.4
    assert 0.0 < weights[-1] < 0.01


def test_the_keyword_side_counts_the_more_the_more_words_it_has() -> None:
    words = [KeywordHits([(1, 5.0)], tuple(f"w{n}" for n in range(count))) for count in (1, 2, 5, 8, 20)]
    shares = [leaning(start(0.5, words_share=0.2), found, meaning(USUAL_SPREAD))["keyword"] for found in words]
    assert shares == pytest.approx([0.4, 0.4, 0.5, 0.6, 0.6])


def test_the_keyword_side_counts_the_more_the_farther_its_best_hit_stands_out() -> None:
    shares = []
    for eleventh in (5.0, 2.5, 0.0):
        hits = KeywordHits([(1, 5.0), *((n, 3.0) for n in range(2, 11)), (11, eleventh)])
        shares.append(leaning(start(0.5, standing_share=0.6), hits, meaning(USUAL_SPREAD))["keyword"])
    assert shares == pytest.approx([0.5 - 0.6 * USUAL_STANDING, 0.5, 0.5 + 0.6 * (1.0 - USUAL_STANDING)])
    few = KeywordHits([(n, 5.0 / n) for n in range(1, 11)])  # among so few nothing is usual
    assert leaning(start(0.5, standing_share=0.6), few, meaning(USUAL_SPREAD))["keyword"] == pytest.approx(0.5)
    assert (
        leaning(start(0.05, standing_share=0.6), KeywordHits([(n, 5.0) for n in range(20)]), meaning(0.4))["keyword"]
        > 0.0
    )


def test_a_model_that_does_not_know_the_language_counts_for_less() -> None:
    shares = [
        leaning(start(0.5), WORDS, meaning(USUAL_SPREAD), fluency)["semantic"] for fluency in (1.0, 0.5, 0.1, 0.0)
    ]
    assert shares == pytest.approx(
        [0.5, 1 / 3, LEAST_FLUENCY / (1 + LEAST_FLUENCY), LEAST_FLUENCY / (1 + LEAST_FLUENCY)]
    )


def test_a_side_without_hits_gives_its_weight_to_the_other() -> None:
    assert leaning(start(), KeywordHits([]), meaning(0.1)) == {"keyword": 0.0, "semantic": 1.0}
    assert leaning(start(), WORDS, VectorHits([])) == {"keyword": 1.0, "semantic": 0.0}
    assert leaning(start(), KeywordHits([]), VectorHits([])) == PRIOR
