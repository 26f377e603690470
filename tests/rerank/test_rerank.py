from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import InvalidInput, RerankerError, TwofoldError
from twofold.rerank import TOP, Reranker, rerank
from twofold.rerank.overlap import OverlapReranker


class Fixed:
    """Gives the scores, or raises the error, that it was made with."""

    name = "fixed"

    def __init__(self, given: Sequence[float] | Exception) -> None:
        self.given = given
        self.asked: list[tuple[str, list[str]]] = []

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        if isinstance(self.given, Exception):
            raise self.given
        return list(self.given)


FOUND = [(7, 0.9, "one"), (3, 0.8, "two"), (5, 0.7, "three"), (1, 0.1, "four")]


def test_the_first_are_put_in_the_order_of_their_scores_and_the_rest_stay_behind() -> None:
    reranker = Fixed([0.0, 1.0, 2.0])
    result = rerank("q", FOUND, reranker, top=3)
    assert result.order == (5, 3, 7, 1)
    assert result.scores == {7: 0.0, 3: 1.0, 5: 2.0}
    assert result.failed is None
    assert reranker.asked == [("q", ["one", "two", "three"])]


def test_equal_scores_keep_the_fused_order() -> None:
    assert rerank("q", FOUND, Fixed([1.0, 0.0, 1.0, 0.0])).order == (7, 5, 3, 1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (RerankerError("no model here"), "no model here"),
        (TwofoldError("anything of ours"), "anything of ours"),
        ([1.0, 2.0], "the reranker fixed gave 2 scores for 4 texts"),
        ([1.0, 2.0, float("nan"), 0.0], "the reranker fixed gave a score that is not finite"),
        ([1.0, 2.0, float("inf"), 0.0], "the reranker fixed gave a score that is not finite"),
    ],
)
def test_a_reranker_that_fails_changes_nothing_and_says_why(given: Sequence[float] | Exception, reason: str) -> None:
    result = rerank("q", FOUND, Fixed(given))
    assert (result.order, result.scores, result.failed) == ((7, 3, 5, 1), {}, reason)


def test_a_mistake_in_a_reranker_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        rerank("q", FOUND, Fixed(ZeroDivisionError()))


@pytest.mark.parametrize(("found", "top"), [([], 50), (FOUND[:1], 50), (FOUND, 0), (FOUND, 1)])
def test_where_nothing_can_move_the_reranker_is_not_asked(found: list[tuple[int, float, str]], top: int) -> None:
    reranker = Fixed(RerankerError("asked"))
    result = rerank("q", found, reranker, top)
    assert (result.order, result.failed, reranker.asked) == (tuple(id_ for id_, _, _ in found), None, [])


def test_a_negative_top_is_refused() -> None:
    with pytest.raises(InvalidInput, match="top is -1; give 0 or more"):
        rerank("q", FOUND, Fixed([]), top=-1)


@given(st.lists(st.sampled_from([-1.5, 0.0, 0.5, 3.0]), max_size=80), st.integers(0, 90))
def test_it_is_a_permutation_sorted_by_score_whose_tail_is_untouched(scores: list[float], top: int) -> None:
    found = [(place, 1.0 / (place + 1), "") for place in range(len(scores))]
    result = rerank("q", found, Fixed(scores[:top]), top)
    assert sorted(result.order) == list(range(len(scores)))
    assert result.order[top:] == tuple(range(len(scores)))[top:]
    head = [(-scores[id_], id_) for id_ in result.order[:top]]
    assert head == sorted(head)
    assert result == rerank("q", found, Fixed(scores[:top]), top)


def test_the_reranker_for_tests_counts_shared_words() -> None:
    reranker: Reranker = OverlapReranker()
    assert reranker.score("Green gate", ["the gate", "a green gate", ""]) == [1.0, 2.0, 0.0]
    assert rerank("green gate", [("a", 2.0, "the pot"), ("b", 1.0, "Gate")], reranker).order == ("b", "a")
    assert TOP == 50
