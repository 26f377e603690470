"""`twofold tune`: what it chooses, what it refuses, and that a setting is judged by what a recall would give."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from twofold import Memory, cli, retrieve
from twofold.embed.hashing import HashEmbedder
from twofold.errors import EmbedderError, ImportFailed, InvalidInput, NotFound, TwofoldError
from twofold.judged import Judged, read
from twofold.query import characterize
from twofold.retrieve import Plan, Prior
from twofold.tune import Tuning, grid, ndcg, tune
from twofold.types import Message, Scope

COMMON = "alpha bravo charlie delta echo foxtrot golf hotel india juliet".split()


class Noise(HashEmbedder):
    """Vectors that have nothing to do with what a text says."""

    def _bag(self, words: Sequence[str]) -> NDArray[np.float32]:
        rng = np.random.default_rng(zlib.crc32(" ".join(words).encode()))
        vector = rng.normal(size=self.info.dimension).astype(np.float32)
        unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
        return unit


def fill(memory: Memory, rows: int = 150) -> list[Judged]:
    """Texts that share their words but one, and for the first 60 a question with that word and two shared ones."""
    rng = random.Random(7)
    texts = [f"special{n} " + " ".join(rng.sample(COMMON, 6)) for n in range(rows)]
    memory.import_(Message(text, session=f"s{n}", project="p", source=f"row/{n}") for n, text in enumerate(texts))
    return [
        Judged(f"special{n} " + " ".join(rng.sample(COMMON, 2)), sources=(f"row/{n}",), project="p") for n in range(60)
    ]


@pytest.fixture
def noisy(tmp_path: Path) -> Iterator[Memory]:
    """A store whose semantic side knows nothing."""
    with Memory.open(tmp_path / "noisy.db", embedder=Noise(dimension=6)) as memory:
        yield memory


def order(memory: Memory, query: str) -> list[int]:
    return [hit.episode.id for hit in memory.recall(query)]


def test_a_better_setting_is_found_applied_and_taken_back(noisy: Memory) -> None:
    judged = fill(noisy)
    before = noisy.prior()
    first = order(noisy, judged[0].query)
    looked = tune(noisy, judged)
    assert (looked.refused, looked.applied, looked.queries, looked.dropped) == ("", False, 60, 0)
    assert looked.arm == "keyword"
    assert looked.chosen.keyword > before.keyword
    assert looked.gain.mean > 0.05
    assert looked.gain.low > 0.0
    assert looked.gain.p < 0.05
    assert looked.over_arm.mean >= -0.0005
    assert noisy.prior() == before
    assert noisy.recall(judged[0].query, explain=True).explanation.prior == "measured"  # type: ignore[union-attr]

    done = tune(noisy, judged, apply=True)
    assert done.applied
    assert noisy.prior() == done.chosen
    assert noisy.recall(judged[0].query, explain=True).explanation.prior == "tuned"  # type: ignore[union-attr]
    changed = [order(noisy, one.query) for one in judged]
    noisy.set_prior(None)
    assert noisy.prior() == before
    assert order(noisy, judged[0].query) == first
    assert [order(noisy, one.query) for one in judged] != changed
    with pytest.raises(InvalidInput, match="nothing to undo"):
        noisy.set_prior(None)


def test_where_nothing_helps_nothing_is_changed(memory: Memory) -> None:
    judged = fill(memory)
    done = tune(memory, judged, apply=True)
    assert done.refused
    assert not done.applied
    assert memory.prior() == retrieve.measured_prior(False)
    with pytest.raises(InvalidInput, match="nothing to undo"):
        memory.set_prior(None)


def test_the_choice_is_refused_when_its_gain_may_be_chance(memory: Memory) -> None:
    judged = fill(memory)
    others = random.Random(1).sample(range(150), 60)
    random_answers = [Judged(one.query, sources=(f"row/{n}",)) for one, n in zip(judged, others, strict=True)]
    done = tune(memory, random_answers, apply=True)
    assert done.refused
    assert not done.applied


def test_the_same_seed_gives_the_same_result(noisy: Memory) -> None:
    judged = fill(noisy)
    assert tune(noisy, judged) == tune(noisy, judged)


def test_a_setting_is_judged_by_what_a_recall_with_it_gives(noisy: Memory) -> None:
    judged = fill(noisy)
    queries = [judged[0].query, '"alpha bravo"', "echo AND golf", "nothing", "alpha bravo charlie"]
    for prior in grid()[::4]:
        noisy.set_prior(prior)
        for query in queries:
            whole = Plan(characterize(query), "convex", {"keyword": 0.5, "semantic": 0.5}, None)
            with noisy._store.read():
                found = noisy._retriever.recall(query, whole, Scope("all"), window=50, limit=0)
            fused = retrieve.fuse(found, retrieve.plan(query, noisy.settings(), prior), 10)
            assert [hit.id for hit in fused] == order(noisy, query), (prior, query)


def test_ndcg_by_hand() -> None:
    assert ndcg([1, 2, 3], {1}) == 1.0
    assert ndcg([2, 1, 3], {1}) == pytest.approx(0.6309297535714575)
    assert ndcg([9, 1, 3], {1, 3, 4}) == pytest.approx((0.6309297535714575 + 0.5) / (1.5 + 0.6309297535714575))
    assert ndcg([9], {1}) == 0.0
    assert ndcg(list(range(1, 30)), set(range(1, 30))) == 1.0


def test_too_few_queries_are_said(noisy: Memory) -> None:
    judged = fill(noisy)
    with pytest.raises(InvalidInput, match="19 different queries are judged; give at least 20"):
        tune(noisy, judged[:19])
    with pytest.raises(InvalidInput, match="1 different queries"):
        tune(noisy, [judged[0], judged[0]] * 20)
    gone = [Judged(f"question {n}", episodes=(10_000 + n,)) for n in range(30)]
    with pytest.raises(InvalidInput, match=r"0 different queries are judged \(30 more have no episode"):
        tune(noisy, gone)


def test_only_episodes_in_scope_count(noisy: Memory) -> None:
    judged = fill(noisy)
    noisy.add("elsewhere", project="q")
    out = Judged("elsewhere", episodes=(1,), project="q")
    assert tune(noisy, [*judged, out]).dropped == 1
    with pytest.raises(NotFound, match="line 3: there is no project 'zzz'"):
        tune(noisy, [Judged("x", episodes=(1,), project="zzz", place="'f', line 3")])


def test_settings_that_use_no_prior_are_refused(noisy: Memory) -> None:
    judged = fill(noisy)
    noisy.settings({"method": "rrf"})
    with pytest.raises(InvalidInput, match="method is 'rrf', so no prior would be used"):
        tune(noisy, judged)
    noisy.settings({"method": "auto", "keywordWeight": 1.0})
    with pytest.raises(InvalidInput, match="weights is 'fixed'"):
        tune(noisy, judged)
    assert noisy.recall("alpha", explain=True).explanation.prior == ""  # type: ignore[union-attr]


def test_a_semantic_side_that_fails_is_an_error(tmp_path: Path) -> None:
    class Broken(HashEmbedder):
        def embed_query(self, text: str) -> NDArray[np.float32]:
            raise EmbedderError("the model is gone")

    with Memory.open(tmp_path / "broken.db", embedder=Broken()) as memory:
        judged = fill(memory)
        with pytest.raises(EmbedderError, match="nothing can be tuned while semantic recall fails: the model is gone"):
            tune(memory, judged)


def test_a_prior_that_no_recall_could_be_made_with_is_not_set(noisy: Memory) -> None:
    for prior in (Prior(1.5), Prior(0.5, "magic"), Prior(0.05, words_share=0.2)):
        with pytest.raises(InvalidInput, match="cannot be used"):
            noisy.set_prior(prior)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[]", "is no object"),
        ('{"episodes": [1]}', "there is no query"),
        ('{"query": " ", "episodes": [1]}', "the query is empty"),
        ('{"query": "x"}', "give either episodes or sources"),
        ('{"query": "x", "episodes": [1], "sources": ["a"]}', "give either episodes or sources"),
        ('{"query": "x", "episodes": []}', "episodes is '[]'; give a list of at least one"),
        ('{"query": "x", "episodes": ["1"]}', "episodes holds '1'; give ids"),
        ('{"query": "x", "sources": [1]}', "source is '1'"),
        ('{"query": "x", "sources": ["a"], "project": 3}', "project is '3'"),
    ],
)
def test_a_bad_line_is_one_sentence_with_its_place(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "judged.jsonl"
    file.write_text('{"query": "fine", "episodes": [1, 2], "session": "s"}\n\n' + line)
    with pytest.raises(ImportFailed) as error:
        list(read(file))
    assert says in str(error.value)
    assert "line 3: " in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_is_read_with_the_project_for_those_that_name_none(tmp_path: Path) -> None:
    file = tmp_path / "judged.jsonl"
    file.write_text(
        '{"query": "a", "episodes": [1, 2], "session": "s"}\n{"query": "b", "sources": ["x"], "project": "q"}'
    )
    first, second = read(file, "p")
    assert (first.episodes, first.session, first.project) == ((1, 2), "s", "p")
    assert (second.sources, second.project) == (("x",), "q")


Command = Callable[..., str]


@pytest.fixture
def command(noisy: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `twofold tune` over the noisy store."""
    monkeypatch.setenv("TWOFOLD_DB", noisy.status().path)
    monkeypatch.setattr(cli.Memory, "open", lambda db: _Kept(noisy))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli.twofold, ["tune", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


class _Kept:
    """Lends a memory that stays open."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __enter__(self) -> Memory:
        return self._memory

    def __exit__(self, *_: object) -> None: ...


def test_the_command_reports_applies_and_undoes(command: Command, noisy: Memory, tmp_path: Path) -> None:
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps({"query": j.query, "sources": j.sources}) + "\n" for j in fill(noisy)))
    said = command(str(file), "--project", "p")
    assert "60 judged queries; nDCG@10 of" in said
    assert "nothing is changed yet; use it with: --apply" in said
    told = json.loads(command(str(file), "--apply", "--json"))
    assert told["applied"]
    assert told["gain"]["low"] > 0.0
    assert {"heldOut", "overArm", "currentScore", "chosen", "refused"} <= told.keys()
    refused = command(str(file), "--apply")
    assert "refused, nothing is changed: " in refused
    assert "recall uses again: convex, keyword 0.45" in command("--undo")
    for wrong in ([], [str(file), "--undo"], ["--undo", "--apply"]):
        done = CliRunner().invoke(cli.twofold, ["tune", *wrong])
        assert done.exit_code == 2
        assert "or say --feedback, or --undo alone" in done.output
    assert isinstance(CliRunner().invoke(cli.twofold, ["tune", str(tmp_path / "none")]).exception, TwofoldError)


def test_the_better_arm_takes_the_place_of_a_fusion_that_falls_behind_it() -> None:
    """Where fusions look good by chance on some queries only, the arm that is good on all is chosen."""
    from twofold.tune import _Case, _judge

    rng = np.random.default_rng(4)
    priors = grid()
    scores = (rng.random((100, len(priors))) < 0.7).astype(np.float64)
    scores[:, 0] = arm = np.clip(rng.normal(0.75, 0.2, 100), 0.0, 1.0)
    scores[:, 1] = arm * 0.3
    scores[:, priors.index(Prior(0.5, origin="tuned"))] = arm * 0.5
    tried = np.column_stack([arm, arm * 0.3, arm * 0.5, scores])
    cases = [_Case(f"q{n}", Scope("all"), frozenset({1})) for n in range(100)]
    done: Tuning = _judge(tried, cases, Prior(0.5), priors, 1)
    assert done.instead.startswith("the best fusion is -0.")
    assert done.chosen == priors[0]
    assert done.gain.level == pytest.approx(0.975)
    assert done.over_arm.mean == 0.0
    assert done.refused == ""


def test_every_setting_that_is_tried_could_be_applied(noisy: Memory) -> None:
    noisy.add("alpha bravo")
    for prior in grid():
        noisy.set_prior(prior)
        assert len(noisy.recall("alpha bravo")) == 1
