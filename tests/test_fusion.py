"""Fusion gives the numbers that FUSION demands, and none of the faults that other systems shipped."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold import fusion
from twofold.errors import InvalidInput
from twofold.fusion import Fused, convex, dbsf, rrf, rsf
from twofold.types import Contribution

METHODS = ("rrf", "rsf", "dbsf", "convex")
CONFORMANCE = json.loads((Path(__file__).parent / "conformance" / "fusion.json").read_text(encoding="utf-8"))
NAN = math.nan
INFINITY = math.inf


def as_floats(value: Any) -> Any:
    """JSON has no NaN and no infinity, so that the cases write them as text."""
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    return float(value) if value in ("NaN", "Infinity") else value


def called(case: dict[str, Any]) -> list[Fused]:
    arguments = {name: as_floats(value) for name, value in case["args"].items()}
    return getattr(fusion, case["function"])(arguments.pop("lists"), **arguments)


def name_of(case: dict[str, Any]) -> str:
    return f"{case['function']}: {case['name']}"


def ids(hits: Sequence[Fused]) -> list[Any]:
    return [hit.id for hit in hits]


def scores(hits: Sequence[Fused]) -> dict[Any, float]:
    return {hit.id: hit.score for hit in hits}


# ---------------------------------------------------------------- conformance


@pytest.mark.parametrize("case", CONFORMANCE["cases"], ids=name_of)
def test_a_conformance_case_gives_its_order_and_its_scores(case: dict[str, Any]) -> None:
    hits = called(case)

    assert ids(hits) == [id_ for id_, _ in case["expect"]]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in case["expect"]], rel=0, abs=1e-12)


ARGUMENT_OF = {"weight": "weights", "weights": "weights", "k": "k", "limit": "limit", "score": "rankings"}


@pytest.mark.parametrize("case", CONFORMANCE["invalid"], ids=name_of)
def test_an_invalid_conformance_case_raises_a_value_error_that_names_the_argument(case: dict[str, Any]) -> None:
    argument = ARGUMENT_OF.get(case["name"].split()[-1], "floors")

    with pytest.raises(InvalidInput, match=rf"^{argument}\b") as raised:
        called(case)
    assert isinstance(raised.value, ValueError)


# ---------------------------------------------------------------- why a hit is where it is: worked by hand


def test_rrf_says_rank_value_weight_and_contribution_of_each_ranking() -> None:
    first, second = rrf({"keyword": ["a", "b"], "semantic": ["b"]}, weights={"keyword": 2, "semantic": 3}, k=0)

    assert (first.id, first.score) == ("b", 4.0)
    assert first.contributions == (
        Contribution("keyword", rank=2, raw=None, value=0.5, weight=2.0, contribution=1.0),
        Contribution("semantic", rank=1, raw=None, value=1.0, weight=3.0, contribution=3.0),
    )
    assert (second.id, second.score) == ("a", 2.0)
    assert second.contributions == (Contribution("keyword", 1, None, 1.0, 2.0, 2.0),)


def test_rrf_keeps_the_raw_scores_of_pairs_and_follows_their_order_instead() -> None:
    first, second = rrf([[("a", 1.0), ("b", 9.0)]], k=1)

    assert first.contributions == (Contribution("0", 1, 1.0, 1 / 2, 1.0, 1 / 2),)
    assert second.contributions == (Contribution("0", 2, 9.0, 1 / 3, 1.0, 1 / 3),)


def test_normalised_rrf_shows_weights_that_add_up_to_one_and_values_that_start_at_one() -> None:
    first, second = rrf([["a", "b"], ["b"]], weights=[3, 1], k=0, normalize=True)

    assert (first.id, first.score) == ("a", 0.75)
    assert first.contributions == (Contribution("0", 1, None, 1.0, 0.75, 0.75),)
    assert (second.id, second.score) == ("b", 0.625)
    assert second.contributions == (
        Contribution("0", 2, None, 0.5, 0.75, 0.375),
        Contribution("1", 1, None, 1.0, 0.25, 0.25),
    )


def test_rsf_says_raw_score_and_where_it_stands_between_least_and_most() -> None:
    first, second, third = rsf([[("a", 8.0), ("b", 6.0), ("c", 4.0)], [("b", -1.0), ("c", -5.0)]], weights=[0.75, 0.25])

    assert first.contributions == (Contribution("0", 1, 8.0, 1.0, 0.75, 0.75),)
    assert second.contributions == (
        Contribution("0", 2, 6.0, 0.5, 0.75, 0.375),
        Contribution("1", 1, -1.0, 1.0, 0.25, 0.25),
    )
    assert third.contributions == (
        Contribution("0", 3, 4.0, 0.0, 0.75, 0.0),
        Contribution("1", 2, -5.0, 0.0, 0.25, 0.0),
    )
    assert [first.score, second.score, third.score] == [0.75, 0.625, 0.0]


def test_dbsf_places_a_score_between_three_deviations_below_and_above_the_mean() -> None:
    """Scores 4, 1, -2: the mean is 1, the sample's deviation 3, the range -8 to 10."""
    first, second, third = dbsf([[("a", 4.0), ("b", 1.0), ("c", -2.0)], [("b", 7.0)]])

    assert first.id == "b"
    assert first.contributions == (
        Contribution("0", 2, 1.0, 9 / 18, 0.5, 0.25),
        Contribution("1", 1, 7.0, 0.5, 0.5, 0.25),
    )
    assert second.contributions == (Contribution("0", 1, 4.0, 12 / 18, 0.5, 0.5 * (12 / 18)),)
    assert third.contributions == (Contribution("0", 3, -2.0, 6 / 18, 0.5, 0.5 * (6 / 18)),)


def test_dbsf_clips_what_lies_beyond_three_deviations() -> None:
    """Of 12 scores one can lie 3.2 deviations out, of 11 none can lie so far as 3.1."""
    high = dbsf([[("top", 1.0), *((str(place), 0.0) for place in range(11))]])
    low = dbsf([[("bottom", -1.0), *((str(place), 0.0) for place in range(11))]])

    assert scores(high)["top"] == 1.0
    assert scores(low)["bottom"] == 0.0


def test_convex_places_a_score_between_the_floor_and_the_best() -> None:
    first, second, third = convex([[("a", 10.0), ("b", 6.0), ("c", 1.0)], [("b", 0.5)]], floors=[2.0, 0.0])

    assert first.id == "b"
    assert first.contributions == (
        Contribution("0", 2, 6.0, 0.5, 0.5, 0.25),
        Contribution("1", 1, 0.5, 1.0, 0.5, 0.5),
    )
    assert second.contributions == (Contribution("0", 1, 10.0, 1.0, 0.5, 0.5),)
    assert third.contributions == (Contribution("0", 3, 1.0, 0.0, 0.5, 0.0),)


def test_convex_gives_nothing_where_the_best_is_not_above_the_floor() -> None:
    at_the_floor, below_it = (convex([[("a", best)]], floors=[1.0]) for best in (1.0, -3.0))

    assert at_the_floor[0].contributions == (Contribution("0", 1, 1.0, 0.0, 1.0, 0.0),)
    assert below_it[0].contributions == (Contribution("0", 1, -3.0, 0.0, 1.0, 0.0),)


def test_first_in_every_ranking_is_one_when_normalised() -> None:
    hits = rrf([["a", "b"], ["a"], ["a", "c"]], weights=[1, 2, 5], k=7, normalize=True)

    assert (hits[0].id, hits[0].score) == ("a", 1.0)


def test_contributions_stay_true_when_the_caller_changes_the_lists_afterwards() -> None:
    ranking = ["a", "b"]
    hits = rrf([ranking], k=0)

    ranking.reverse()
    ranking.append("c")

    assert hits[0].contributions == (Contribution("0", 1, None, 1.0, 1.0, 1.0),)


# ---------------------------------------------------------------- faults that other systems shipped

TWO_SCORED = [[("a", 3.0), ("b", 2.0)], [("c", 0.9), ("b", 0.5)]]


def fuse(method: str, rankings: Any, **arguments: Any) -> list[Fused]:
    if method == "convex" and "floors" not in arguments:
        arguments["floors"] = dict.fromkeys(rankings, 0.0) if isinstance(rankings, dict) else [0.0] * len(rankings)
    return getattr(fusion, method)(rankings, **arguments)


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_is_never_accepted_and_ignored(method: str) -> None:
    assert set(ids(fuse(method, TWO_SCORED, weights=[1, 0]))) == {"a", "b"}
    assert set(ids(fuse(method, TWO_SCORED, weights=[0, 1]))) == {"b", "c"}
    assert fuse(method, TWO_SCORED, weights=[0, 0]) == []
    light, heavy = (scores(fuse(method, TWO_SCORED, weights=[1, weight]))["c"] for weight in (1, 3))
    assert heavy == pytest.approx(3 * light, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_strong_close_scores_are_not_clamped_together(method: str) -> None:
    """FTS5 ranks of -4.2, -2.1 and -0.5, turned to higher-is-better by the retriever."""
    hits = fuse(method, [[("best", 4.2), ("next", 2.1), ("last", 0.5)]])

    assert ids(hits) == ["best", "next", "last"]
    assert hits[0].score > hits[1].score > hits[2].score


def test_a_lone_hit_counts_its_full_weight() -> None:
    hits = rsf(
        {"keyword": [("lone", 12.5)], "semantic": [(name, 0.9 - place / 10) for place, name in enumerate("abcde")]},
        weights={"keyword": 0.6, "semantic": 0.4},
    )

    assert (hits[0].id, hits[0].score) == ("lone", 0.6)
    assert (hits[1].id, hits[1].score) == ("a", 0.4)


@pytest.mark.parametrize("method", ["rsf", "dbsf", "convex"])
def test_a_score_of_zero_is_a_score_and_not_a_missing_one(method: str) -> None:
    floors = {"floors": [-2.0]} if method == "convex" else {}
    zero, negative = fuse(method, [[("negative", -1.0), ("zero", 0.0)]], **floors)

    assert (zero.id, negative.id) == ("zero", "negative")
    assert zero.contributions[0].raw == 0.0
    assert zero.score > negative.score


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rankings", [[[]], [[], []], [], {}, {"keyword": []}], ids=repr)
def test_nothing_in_is_nothing_out(method: str, rankings: Any) -> None:
    assert fuse(method, rankings) == []


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_ranking_breaks_nothing(method: str) -> None:
    assert set(ids(fuse(method, [[], [("a", 1.0), ("b", 0.5)], []]))) == {"a", "b"}


def test_absence_adds_nothing_and_invents_no_rank() -> None:
    hits = rrf([["X", "a", "Y"], ["b", "c", "Y"]])

    assert ids(hits) == ["Y", "X", "b", "a", "c"]
    assert scores(hits) == {"Y": 2 / 63, "X": 1 / 61, "b": 1 / 61, "a": 1 / 62, "c": 1 / 62}
    assert [part.ranking for part in hits[1].contributions] == ["0"]


_TIES = """
import json
from twofold import fusion
one, two = [(name, 1.0) for name in "qzmk"], [(name, 1.0) for name in "xbay"]
print(json.dumps([
    [hit.id for hit in getattr(fusion, method)(rankings, **({"floors": [0, 0]} if method == "convex" else {}))]
    for method in ("rrf", "rsf", "dbsf", "convex")
    for rankings in ([one, two], [two, one])
]))
"""


def test_ties_have_the_same_order_in_every_process_and_whichever_ranking_comes_first() -> None:
    orders = []
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", _TIES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        orders.append(json.loads(done.stdout))

    assert orders[0] == orders[1] == orders[2]
    by_rank, _, *by_id = orders[0]
    assert orders[0][0::2] == orders[0][1::2]
    assert by_rank == ["q", "x", "b", "z", "a", "m", "k", "y"]
    assert all(order == ["a", "k", "b", "m", "q", "x", "y", "z"] for order in by_id)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "rankings",
    [[[(4, 2.0)], [("4", 1.0)]], [[("a", 2.0), (4, 1.0)], [("4", 1.0)]], [[("4", 2.0), (4, 1.0)]]],
    ids=["across rankings", "in a later place", "inside one ranking"],
)
def test_one_row_reached_as_4_and_as_text_never_becomes_two_hits(method: str, rankings: Any) -> None:
    """Which of the two the caller means is not for fusion to guess, so that it is told."""
    with pytest.raises(InvalidInput, match=r"^rankings"):
        fuse(method, rankings)


@pytest.mark.parametrize("method", METHODS)
def test_sums_of_strong_hits_are_not_clamped_before_sorting(method: str) -> None:
    strong = [[("best", 1.0), ("good", 0.99), ("poor", 0.0)]] * 4
    hits = fuse(method, strong, weights=[5] * 4, **({"k": 0} if method == "rrf" else {}))

    assert ids(hits) == ["best", "good", "poor"]
    assert hits[0].score > hits[1].score > 1.0


INVALID: list[tuple[str, Callable[[], list[Fused]]]] = [
    ("weights", lambda: rrf([["a"]], weights=[-100])),
    ("weights", lambda: rsf([[("a", 1.0)]], weights=[NAN])),
    ("weights", lambda: dbsf([[("a", 1.0)]], weights=[INFINITY])),
    ("weights", lambda: rrf([["a"]], weights=[True])),
    ("weights", lambda: rrf([["a"]], weights=["1"])),
    ("weights", lambda: rrf([["a"], ["b"]], weights=[1e308, 1e308])),
    ("weights", lambda: rrf([], weights=[1.0])),
    ("weights", lambda: convex([[("a", 1.0)]], floors=[0.0], weights=[])),
    ("k", lambda: rrf([["a"]], k=-1)),
    ("k", lambda: rrf([["a"]], k=INFINITY)),
    ("k", lambda: rrf([], k=False)),
    ("k", lambda: rrf([["a"]], k="60")),
    ("limit", lambda: rrf([["a"]], limit=-1)),
    ("limit", lambda: rsf([], limit=-1)),
    ("limit", lambda: dbsf([[("a", 1.0)]], limit=1.5)),
    ("limit", lambda: convex([[("a", 1.0)]], floors=[0.0], limit=True)),
    ("floors", lambda: convex([[("a", 1.0)]], floors=[NAN])),
    ("floors", lambda: convex([[("a", 1.0)]], floors=[-INFINITY])),
    ("floors", lambda: convex([[("a", 1.0)]], floors=[False])),
    ("rankings", lambda: rsf([[("a", -INFINITY)]])),
    ("rankings", lambda: convex([[("a", NAN)]], floors=[0.0])),
    ("rankings", lambda: dbsf([[("a", True)]])),
    ("rankings", lambda: rsf([[("a", None)]])),
    ("rankings", lambda: rsf([["a"]])),
    ("rankings", lambda: rsf([[("a", 1.0, 2.0)]])),
    ("rankings", lambda: rrf([[("a", 1.0), 7]])),
]


@pytest.mark.parametrize(("argument", "call"), INVALID, ids=range(len(INVALID)))
def test_a_value_that_cannot_be_used_is_an_error_that_names_it(argument: str, call: Callable[[], list[Fused]]) -> None:
    with pytest.raises(InvalidInput, match=rf"^{argument}\b"):
        call()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"keyword": 1.0},
        {"keyword": 1.0, "semantic": 1.0, "x": 1.0},
        {"keyword": 1.0, "x": 1.0},
        {},
        {"keyword": 1, 2: 3},
    ],
    ids=["one is missing", "one too many", "another name", "none", "names of two types"],
)
def test_numbers_under_other_names_than_the_rankings_are_refused(method: str, wrong: dict[Any, float]) -> None:
    rankings = {"keyword": [("a", 1.0)], "semantic": [("b", 0.5)]}

    with pytest.raises(InvalidInput, match=r"^weights"):
        fuse(method, rankings, weights=wrong)
    if method == "convex":
        with pytest.raises(InvalidInput, match=r"^floors"):
            fuse(method, rankings, floors=wrong)


def test_unnamed_rankings_are_called_by_their_places() -> None:
    hits = rrf([["a"], ["b"]], weights={"1": 2.0, "0": 0.0})

    assert [(hit.id, hit.contributions[0].ranking) for hit in hits] == [("b", "1")]


def test_a_list_of_numbers_follows_the_order_of_named_rankings() -> None:
    hits = convex({"x": [("a", 4.0)], "y": [("b", 4.0)]}, weights=[1.0, 3.0], floors=[0.0, 3.0])

    assert scores(hits) == {"a": 1.0, "b": 3.0}


def test_a_repeat_counts_at_its_best_place_and_takes_no_rank() -> None:
    hits = rrf([["a", "b", "a", "c"]], k=0)

    assert [(hit.id, hit.contributions[0].rank) for hit in hits] == [("a", 1), ("b", 2), ("c", 3)]


# ---------------------------------------------------------------- properties of all four methods


@dataclass(frozen=True)
class Problem:
    """One fusion: its method, and for each named ranking the pairs, the weight and the floor."""

    method: str
    rankings: dict[str, list[tuple[Any, float]]]
    weights: dict[str, float] | None
    floors: dict[str, float]
    k: float
    normalize: bool

    def solve(self, limit: int | None = None) -> list[Fused]:
        if self.method == "rrf":
            return rrf(self.rankings, weights=self.weights, k=self.k, normalize=self.normalize, limit=limit)
        if self.method == "convex":
            return convex(self.rankings, floors=self.floors, weights=self.weights, limit=limit)
        return getattr(fusion, self.method)(self.rankings, weights=self.weights, limit=limit)

    def weight(self, name: str) -> float:
        return 1.0 if self.weights is None else self.weights[name]

    def only(self, names: Sequence[str]) -> Problem:
        """The same with these rankings alone, in this order."""
        return replace(
            self,
            rankings={name: self.rankings[name] for name in names},
            weights=None if self.weights is None else {name: self.weights[name] for name in names},
            floors={name: self.floors[name] for name in names},
        )


EDGES = [0.0, -0.0, 1.0, 0.5, -1.0, 5e-324, -5e-324, 1e-310, 1e-100, 1e100, 1.7e308, -1.7e308, 1.0 + 2**-52]
SCORES = st.sampled_from(EDGES) | st.floats(-1.0, 1.0) | st.floats(allow_nan=False, allow_infinity=False)
WEIGHTS = st.sampled_from([0.0, 1.0, 0.1, 0.3, 5e-324, 1e300]) | st.floats(0.0, 5.0)
FLOORS = st.sampled_from([0.0, -0.0, 0.3, -1e300, 1e300, 5e-324]) | st.floats(-1.0, 1.0)
RANK_CONSTANTS = st.sampled_from([60, 20, 0, 1e308]) | st.floats(0.0, 100.0)
IDS = st.sampled_from([st.integers(-2, 9), st.sampled_from(["", "a", "b", "B", "é", "10", "9", "\ud800"])])


@st.composite
def problems(draw: st.DrawFn, explicit_weights: bool | None = None, methods: Sequence[str] = METHODS) -> Problem:
    names = draw(st.lists(st.sampled_from(["keyword", "semantic", "0", "é"]), min_size=1, unique=True))
    ranking = st.lists(st.tuples(draw(IDS), SCORES), max_size=8)
    explicit = draw(st.booleans()) if explicit_weights is None else explicit_weights
    return Problem(
        method=draw(st.sampled_from(methods)),
        rankings={name: draw(ranking) for name in names},
        weights={name: draw(WEIGHTS) for name in names} if explicit else None,
        floors={name: draw(FLOORS) for name in names},
        k=draw(RANK_CONSTANTS),
        normalize=draw(st.booleans()),
    )


def exactly(hits: Sequence[Fused]) -> list[tuple[Any, str]]:
    """The ids and the bits of their scores."""
    return [(hit.id, hit.score.hex()) for hit in hits]


properties = settings(max_examples=200, deadline=None)


@properties
@given(st.data(), problems())
def test_the_order_of_the_rankings_never_matters(data: st.DataObject, problem: Problem) -> None:
    other = problem.only(data.draw(st.permutations(list(problem.rankings))))

    assert exactly(other.solve()) == exactly(problem.solve())


@properties
@given(problems(explicit_weights=True))
def test_weight_0_is_the_same_as_not_being_there(problem: Problem) -> None:
    there = [name for name in problem.rankings if problem.weight(name) > 0.0]

    assert exactly(problem.only(there).solve()) == exactly(problem.solve())


@properties
@given(problems())
def test_the_contributions_of_a_hit_add_up_to_its_score_exactly(problem: Problem) -> None:
    for hit in problem.solve():
        assert math.fsum(part.contribution for part in hit.contributions) == hit.score


@properties
@given(problems())
def test_a_contribution_is_weight_times_value_of_a_place_that_the_ranking_has(problem: Problem) -> None:
    for hit in problem.solve():
        for part in hit.contributions:
            held = [score for id_, score in problem.rankings[part.ranking] if id_ == hit.id]
            assert part.contribution == part.weight * part.value
            assert 1 <= part.rank <= len({id_ for id_, _ in problem.rankings[part.ranking]})
            assert part.raw == (held[0] if problem.method == "rrf" else max(held))


@properties
@given(problems(), st.integers(0, 12))
def test_a_limit_cuts_the_full_answer_and_changes_nothing_in_it(problem: Problem, limit: int) -> None:
    assert exactly(problem.solve(limit)) == exactly(problem.solve())[:limit]


@properties
@given(problems(explicit_weights=False, methods=("rsf", "dbsf", "convex")))
def test_under_default_weights_normalised_scores_stay_between_0_and_1(problem: Problem) -> None:
    assert all(0.0 <= hit.score <= 1.0 for hit in problem.solve())


@properties
@given(problems(methods=("rrf",)))
def test_normalised_rrf_stays_between_0_and_1_under_any_weights_to_the_last_bit(problem: Problem) -> None:
    assert all(0.0 <= hit.score <= 1.0 for hit in replace(problem, normalize=True).solve())


@pytest.mark.parametrize("weights", [[3.0, 1.1], [2.2, 1.9]], ids=str)
def test_first_in_all_is_never_more_than_1_when_normalised(weights: list[float]) -> None:
    assert rrf([["a"], ["a"]], weights=weights, normalize=True)[0].score <= 1.0


@properties
@given(problems())
def test_no_number_of_a_hit_is_ever_nan_or_infinite(problem: Problem) -> None:
    for hit in problem.solve():
        numbers = [hit.score]
        for part in hit.contributions:
            numbers += [part.value, part.weight, part.contribution, part.raw]
        assert all(map(math.isfinite, numbers))


@properties
@given(problems())
def test_what_goes_in_is_not_changed(problem: Problem) -> None:
    before = copy.deepcopy(problem)

    for hit in problem.solve():
        assert hit.contributions

    assert repr(problem) == repr(before)


@properties
@given(problems())
def test_the_hits_are_the_ids_of_the_rankings_that_have_a_weight(problem: Problem) -> None:
    expected = {id_ for name, ranking in problem.rankings.items() if problem.weight(name) > 0.0 for id_, _ in ranking}
    hits = ids(problem.solve())

    assert len(hits) == len(set(hits))
    assert set(hits) == expected


@properties
@given(problems())
def test_hits_stand_by_score_then_best_rank_then_id(problem: Problem) -> None:
    order = [(-hit.score, min(part.rank for part in hit.contributions), hit.id) for hit in problem.solve()]

    assert order == sorted(order)


@properties
@given(problems(methods=("rsf", "dbsf", "convex")))
def test_a_better_score_never_has_a_lesser_value(problem: Problem) -> None:
    seen: dict[str, list[tuple[float, int, float]]] = {}
    for hit in problem.solve():
        for part in hit.contributions:
            seen.setdefault(part.ranking, []).append((part.raw, part.rank, part.value))
    for places in seen.values():
        places.sort(key=lambda place: place[1])
        assert [raw for raw, _, _ in places] == sorted((raw for raw, _, _ in places), reverse=True)
        assert [value for _, _, value in places] == sorted((value for _, _, value in places), reverse=True)
