"""`twofold eval`: reading sets, the metrics, the statistics, and what is printed."""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_qdrant import FakeQdrant
from twofold import Memory, cli, cli_quality, datasets, evaluate, metrics, scorecard, significance
from twofold.embed.hashing import HashEmbedder
from twofold.errors import EmbedderError, ImportFailed, InvalidInput, MissingExtra, StoreError

ROWS = [
    ("a1", "anna", "s1", "The harbour office closes at five."),
    ("a2", "anna", "s1", "We moved billing to Stripe in March."),
    ("a3", "anna", "s2", "The cat sleeps on the red sofa."),
    ("a4", "anna", "s2", "Her sister plays the violin on Sundays."),
    ("a5", "anna", "s3", "The gate code is 4711 and the gate is green."),
    ("b1", "bert", "t1", "The harbour is closed for repairs until June."),
    ("b2", "bert", "t1", "Bert bought a bicycle with three gears."),
    ("b3", "bert", "t2", "The violin stands in the cellar."),
    ("b4", "bert", "t2", "A red kite flew over the field."),
    ("b5", "bert", "t3", "Rent is due on the first of each month."),
]
QUERIES = [
    ("q1", "anna", "place", "when does the harbour office close"),
    ("q2", "anna", "money", "who handles billing"),
    ("q3", "anna", "place", "gate code"),
    ("q4", "bert", "place", "harbour repairs"),
    ("q5", "bert", None, "what nobody judged"),
    ("q6", "carl", "place", "a group without rows"),
]
HEADER = "query-id\tcorpus-id\tscore\n"
JUDGED = "q1\ta1\t1\nq2\ta2\t2\nq3\ta5\t1\nq4\tb1\t1\nq4\tb2\t0\nq6\ta1\t1\n"
BY_SESSION = "q1\ts1\t1\nq2\ts1\t1\nq3\ts3\t1\nq4\tt1\t1\nq4\tt2\t1\n"

Maker = Callable[..., Path]


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """Writes a set of ten rows and six queries; files can be given another content, or None to be left out."""

    def make_(name: str = "tiny", **files: str | None) -> Path:
        corpus = [{"id": id_, "group": g, "session": s, "text": text} for id_, g, s, text in ROWS]
        queries = [{"id": id_, "group": g, "category": c, "text": text} for id_, g, c, text in QUERIES]
        whole = {
            "corpus.jsonl": lines(corpus),
            "queries.jsonl": lines(queries),
            "qrels.tsv": HEADER + JUDGED + "q1\tnone\t1\nnobody\ta1\t1\n",
            "qrels_session.tsv": HEADER + BY_SESSION,
        }
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file, text in (whole | {key.replace("__", "."): value for key, value in files.items()}).items():
            if text is not None:
                (folder / file).write_text(text, encoding="utf-8")
        return folder

    return make_


def judge(path: Path, folder: Path | None = None) -> evaluate.Evaluation:
    return evaluate.evaluate(datasets.load(path), folder, embedder=HashEmbedder())


# reading


def test_a_set_is_read_with_what_it_has_to_drop(make: Maker) -> None:
    dataset = datasets.load(make())
    assert [query.id for query in dataset.judged] == ["q1", "q2", "q3", "q4"]
    assert dataset.losses == {"judgements of no query": 1, "judgements of nothing in the corpus": 1}
    assert dataset.qrels["q2"] == {"a2": 2}
    assert dataset.messages[0].project == "anna"
    assert dataset.messages[0].session == "s1"


def test_a_gzipped_set_is_the_same_set(make: Maker) -> None:
    folder = make()
    plain = datasets.load(folder)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    assert datasets.load(folder) == plain


def test_beirs_layout_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    row = {"_id": "d1", "title": "Apples", "text": "grow on trees", "metadata": {}}
    (folder / "corpus.jsonl").write_text(lines([row, {"_id": 2, "title": "", "text": ""}]))
    (folder / "queries.jsonl").write_text(lines([{"_id": "1", "text": "apples"}, {"_id": "2", "text": "pears"}]))
    (folder / "qrels" / "test.tsv").write_text(HEADER + "1\td1\t1\n")
    (folder / "qrels" / "dev.tsv").write_text(HEADER + "2\t2\t1\n")
    dataset = datasets.load(folder)
    assert [message.content for message in dataset.messages] == ["Apples\ngrow on trees", "(empty)"]
    assert dataset.messages[0].session == "d1"
    assert [query.id for query in dataset.judged] == ["1"]
    dev = datasets.load(folder / "qrels" / "dev.tsv")
    assert (dev.name, [query.id for query in dev.judged]) == ("beir/dev", ["2"])


def test_speaker_title_and_time_of_a_row_are_kept(make: Maker) -> None:
    row = {"id": "a1", "title": "Monday", "speaker": "Anna", "text": "hello", "group": "anna"}
    times = ["1:56 pm on 8 May, 2023", "2023/05/08 (Mon) 13:56", "2023-05-08T13:56:00Z", "2023-05-08 13:56", "May", 3]
    folder = make(corpus__jsonl=lines([{**row, "id": f"a{n}", "time": time} for n, time in enumerate(times)]))
    read = datasets.load(folder).messages
    assert read[0].content == "Monday\nAnna: hello"
    assert [str(message.time) for message in read] == ["2023-05-08 13:56:00+00:00"] * 4 + ["None"] * 2


def test_a_folder_of_sets_and_single_files_are_found(make: Maker, tmp_path: Path) -> None:
    one, two = make("sets/one"), make("sets/two")
    (tmp_path / "sets" / "notes").mkdir()
    assert datasets.locate(tmp_path / "sets") == [one, two]
    assert datasets.locate(one) == [one]
    assert datasets.load(one / "corpus.jsonl").name == "one"
    (one / "qrels_audited.tsv").write_text(HEADER + "q1\ta2\t1\n")
    audited = datasets.load(one / "qrels_audited.tsv")
    assert (audited.name, audited.qrels) == ("one/qrels_audited", {"q1": {"a2": 1}})
    sessions = datasets.load(one / "qrels_session.tsv")
    assert (sessions.qrels, sessions.session_qrels) == ({}, audited.session_qrels)
    with pytest.raises(ImportFailed, match="holds no set"):
        datasets.locate(tmp_path / "sets" / "notes")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"corpus__jsonl": None}, "neither corpus.jsonl nor corpus.jsonl.gz"),
        ({"queries__jsonl": None}, "neither queries.jsonl nor queries.jsonl.gz"),
        ({"qrels__tsv": None, "qrels_session__tsv": None}, "has no judgements"),
        ({"corpus__jsonl": '{"id": "a", "text": "x"}\n{"id": '}, r"corpus.jsonl', line 2: not JSON"),
        ({"corpus__jsonl": "[1]\n"}, "line 1: .* is no object"),
        ({"corpus__jsonl": '\n{"text": "x"}\n'}, "line 2: there is no id"),
        (
            {"corpus__jsonl": '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n'},
            "line 2: the id 'a' is there twice",
        ),
        ({"corpus__jsonl": '{"id": "a", "text": 5}\n'}, "line 1: text is '5'; give a text"),
        ({"corpus__jsonl": '{"id": true, "text": "x"}\n'}, "line 1: id is 'True'"),
        ({"corpus__jsonl": '{"id": "a", "text": "\\ud800"}\n'}, "line 1: the text holds half a character"),
        ({"queries__jsonl": '{"id": "q1", "text": " "}\n'}, "queries.jsonl', line 1: the query is empty"),
        ({"qrels__tsv": "q1\ta1\t1\n"}, r"qrels.tsv', line 1: .* is no header"),
        ({"qrels__tsv": ""}, r"qrels.tsv': '' is no header"),
        ({"qrels__tsv": HEADER + "q1\ta1\n"}, "line 2: .* is no judgement"),
        ({"qrels__tsv": HEADER + "q1\ta1\tyes\n"}, "line 2: .* is no judgement"),
        ({"qrels__tsv": HEADER + "q1\tx9\t1\n", "qrels_session__tsv": None}, "compare the ids"),
    ],
)
def test_a_broken_file_is_one_sentence_with_its_place(make: Maker, files: dict[str, str | None], says: str) -> None:
    with pytest.raises(ImportFailed, match=says) as caught:
        datasets.load(make(**files))
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_or_no_gzip_are_named(make: Maker) -> None:
    folder = make()
    (folder / "queries.jsonl").write_bytes(b'{"id": "q1", "text": "\xff"}\n')
    with pytest.raises(ImportFailed, match="line 1: not UTF-8"):
        datasets.load(folder)
    (folder / "corpus.jsonl").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(ImportFailed, match="damaged"):
        datasets.load(folder)
    with pytest.raises(ImportFailed, match="is no set"):
        datasets.load(folder / "queries.jsonl")
    with pytest.raises(ImportFailed, match="does not exist"):
        datasets.locate(folder / "missing.tsv")


def test_a_category_can_be_chosen(make: Maker) -> None:
    dataset = datasets.load(make())
    assert [query.id for query in datasets.only(dataset, ["money"]).judged] == ["q2"]
    assert datasets.only(dataset, []) is dataset
    with pytest.raises(InvalidInput, match="no judged query of category 'x'; it has money, place"):
        datasets.only(dataset, ["x"])


# metrics


def test_row_metrics_agree_with_values_worked_by_hand() -> None:
    qrels = {"one": {"a": 1, "b": 2}, "two": {"c": 1}, "three": {"z": 1}, "deep": {"d": 1}}
    run = {"one": ["b", "x", "a"], "two": ["x", "c"], "three": [], "deep": [*map(str, range(14)), "d"]}
    found = metrics.by_row(qrels, run)
    assert found is not None
    assert found.queries == ("one", "two", "three", "deep")
    # Gains 2 at rank 1 and 1 at rank 3; the ideal has 1 at rank 2.
    ndcg = (2 / math.log2(2) + 1 / math.log2(4)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert found.values["ndcg@10"] == pytest.approx([ndcg, 1 / math.log2(3), 0, 0])
    assert found.values["recall@10"] == pytest.approx([1, 1, 0, 0])
    assert found.values["recall@20"] == pytest.approx([1, 1, 0, 1])
    assert found.values["mrr"] == pytest.approx([1, 1 / 2, 0, 1 / 15])
    assert (found.means(["two"]) or {})["mrr"] == pytest.approx(1 / 2)
    assert found.means([]) is None


def test_session_metrics_agree_with_values_worked_by_hand() -> None:
    qrels = {"one": {"s": 1, "t": 1, "u": 1}, "two": {"s": 1}}
    found = metrics.by_session(qrels, {"one": ["x", "s", "y", "t"], "two": [*"abcdefgs"], "unjudged": ["s"]})
    assert found is not None
    expected = {
        "any@1": [0, 0],
        "any@5": [1, 0],
        "any@10": [1, 1],
        "all@5": [0, 0],
        "frac@10": [2 / 3, 1],
        "mrr": [1 / 2, 1 / 8],
    }
    assert {name: list(values) for name, values in found.values.items()} == {
        name: pytest.approx(values) for name, values in expected.items()
    }
    assert metrics.by_session({}, {"one": ["x"]}) is None


def test_the_order_of_a_run_decides_whatever_the_names() -> None:
    for order in itertools.permutations(["a", "b", "c"]):
        found = metrics.by_row({"q": {"b": 1}}, {"q": order})
        assert found is not None
        assert found.values["mrr"][0] == pytest.approx(1 / (order.index("b") + 1))


# statistics


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 1.0, 1.0], 2 / 8),  # only +++ and --- reach a sum of 3
        ([1.0, 2.0, -0.5, 0.0], 4 / 8),  # sums of ±1 ±2 ±.5: 3.5, 2.5, 1.5, .5, each twice; 2.5 or more
        ([1.0, -1.0], 1.0),
        ([0.0, 0.0], 1.0),
        ([0.1] * 10, 2 / 1024),
    ],
)
def test_small_samples_are_enumerated(differences: list[float], p: float) -> None:
    assert significance.sign_flip(np.array(differences)) == pytest.approx(p)


def test_large_samples_are_drawn_and_come_near_the_exact_value() -> None:
    differences = np.random.default_rng(7).normal(0.4, 1.0, 12)
    exact = significance.sign_flip(differences)
    drawn = significance.sign_flip(differences, permutations=4000)
    assert drawn == pytest.approx(exact, abs=0.03)
    assert drawn == significance.sign_flip(differences, permutations=4000)
    assert 0 < significance.sign_flip(np.full(50, 0.3)) < 0.001


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
def test_neither_order_nor_sign_changes_a_p_value(values: list[float]) -> None:
    p = significance.sign_flip(np.array(values))
    assert 0 < p <= 1
    assert p == significance.sign_flip(np.array(values[::-1])) == significance.sign_flip(-np.array(values))


def test_the_bootstrap_interval_covers_the_mean_and_narrows_with_the_sample() -> None:
    differences = np.random.default_rng(3).normal(0.2, 1.0, 400)
    low, high = significance.interval(differences)
    half = 1.96 * differences.std() / math.sqrt(len(differences))
    assert (low, high) == pytest.approx((differences.mean() - half, differences.mean() + half), abs=0.01)
    assert significance.interval(np.full(5, 0.25)) == (0.25, 0.25)
    assert (low, high) == significance.interval(differences)


def test_holm_agrees_with_an_example_worked_by_hand() -> None:
    # In order .01 x4, .02 x3, .03 x2, .04 x1, and none below the one before it.
    assert significance.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert significance.holm([0.9, 0.6]) == [1.0, 1.0]
    assert significance.holm([]) == []


# the whole


def test_every_method_is_measured_in_the_scope_of_the_query(make: Maker) -> None:
    one = judge(make())
    assert [result.name for result in one.results] == list(evaluate.ARMS)
    (keyword, *_), default = one.results, one.results[-1]
    assert keyword.rows is not None
    assert default.sessions is not None
    assert (keyword.rows.means() or {})["mrr"] == 1.0  # `harbour` is in both groups
    assert (default.sessions.means() or {})["any@1"] == 1.0
    assert one.measure == ("row", "ndcg@10")
    assert [found.other for found in one.comparisons] == [name for name in evaluate.ARMS if name != "default"]
    assert {found.verdict for found in one.comparisons} == {"not shown different"}


def test_a_store_that_is_thrown_away_leaves_nothing_on_a_server(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeQdrant()
    server.start()
    for name, value in (("VECTORS", "qdrant"), ("QDRANT_URL", server.url), ("QDRANT_GRPC_PORT", "0")):
        monkeypatch.setenv(f"TWOFOLD_{name}", value)
    by_server = judge(make())
    assert any("points/query" in one for one in server.asked)
    assert server.ids() == {}
    judge(make("kept"), tmp_path / "stores")
    assert len(server.ids()) == 1
    server.stop()
    monkeypatch.delenv("TWOFOLD_VECTORS")
    by_file = judge(make("again"))
    scores = [[result.rows and result.rows.means() for result in one.results] for one in (by_server, by_file)]
    assert scores[0] == scores[1]


def test_what_is_not_judged_is_null(make: Maker) -> None:
    rows = scorecard.as_json([judge(make("rows", qrels_session__tsv=None))], False)
    sessions = scorecard.as_json([judge(make("sessions", qrels__tsv=None))], True)
    (by_row,), (by_session,) = rows["sets"], sessions["sets"]  # type: ignore[misc]
    assert all(run["session"] is None and run["mrr"] > 0 for run in by_row["runs"])
    assert all(run[name] is None for run in by_session["runs"] for name in metrics.ROWS)
    assert by_session["compared"] == "MRR by session"
    assert by_session["runs"][0]["categories"]["money"]["queries"] == 1
    assert by_session["runs"][0]["categories"]["place"]["session"]["any@1"] == 1.0


def test_a_kept_store_is_used_again_and_stays_free_of_settings(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kept = make(), tmp_path / "kept"
    first = judge(folder, kept)
    (file,) = kept.iterdir()
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setattr(Memory, "import_", None)
    again = judge(folder, kept)
    assert [file] == list(kept.iterdir())
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    for one, other in zip(first.results, again.results, strict=True):
        assert one.rows is not None
        assert other.rows is not None
        assert one.rows.means() == other.rows.means()
    monkeypatch.setenv("TWOFOLD_METHOD", "rsf")
    with Memory.open(file, embedder=HashEmbedder()) as memory:
        assert memory.settings()["method"] == "rsf"


def test_the_default_is_a_fresh_install_whatever_this_machine_has_set(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_SEMANTIC_WEIGHT", "0")
    monkeypatch.setenv("TWOFOLD_WINDOW", "10")
    seen: list[dict[str, Any]] = []
    settings = Memory.settings

    def spy(memory: Memory, changes: Any = None) -> Any:
        seen.append(settings(memory, changes))
        return seen[-1]

    monkeypatch.setattr(Memory, "settings", spy)
    judge(make())
    assert seen[-1]["weights"] == "auto"
    assert seen[-1]["method"] == "auto"
    assert {values["window"] for values in seen} == {evaluate.DEPTH}


def test_a_half_imported_store_is_completed(make: Maker, tmp_path: Path) -> None:
    folder, kept = make(), tmp_path / "kept"
    judge(folder, kept)
    (file,) = kept.iterdir()
    with Memory.open(file, embedder=None) as memory:
        memory.forget(project="bert")
    judge(folder, kept)
    with Memory.open(file, embedder=HashEmbedder()) as memory:
        assert (memory.status().episodes, memory.status().waiting) == (len(ROWS), 0)


def test_a_retriever_that_fails_is_an_error_and_no_figure(make: Maker) -> None:
    class Deaf(HashEmbedder):
        def embed_query(self, text: str) -> Any:
            raise EmbedderError("deaf")

    with pytest.raises(EmbedderError, match="tiny cannot be judged, semantic recall failed: deaf"):
        evaluate.evaluate(datasets.load(make()), embedder=Deaf())


def test_a_store_in_use_or_no_folder_is_refused(make: Maker, tmp_path: Path) -> None:
    folder, kept = make(), tmp_path / "kept"
    judge(folder, kept)
    (file,) = kept.iterdir()
    with Memory.open(file, embedder=HashEmbedder()) as other:
        other.settings({"window": 20})
        with pytest.raises(StoreError, match="in use by another process"):
            judge(folder, kept)
    with pytest.raises(InvalidInput, match="cannot be made a folder"):
        judge(folder, file)


def test_a_missing_extra_is_named_when_it_is_needed(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = datasets.load(make())
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match=r"twofold\[eval\]"):
        evaluate.evaluate(dataset, embedder=HashEmbedder())
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"twofold\[eval\]"):
        scorecard.check_plot(Path("x.png"))
    with pytest.raises(InvalidInput, match="no picture"):
        scorecard.check_plot(Path("x.txt"))


def test_a_difference_is_called_better_only_when_test_and_interval_agree() -> None:
    figures = [(0.1, 0.05, 0.15, 0.01), (-0.1, -0.15, -0.05, 0.01), (0.1, 0.05, 0.15, 0.2), (0.1, -0.1, 0.3, 0.01)]
    verdict = [evaluate._comparison("x", *given).verdict for given in figures]
    assert verdict == ["better", "worse", "not shown different", "not shown different"]


def test_the_command_prints_a_table_json_csv_and_a_chart(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_quality, "evaluate", lambda *a, **k: evaluate.evaluate(*a, embedder=HashEmbedder(), **k))
    make("sets/one")
    make("sets/two", qrels__tsv=None)
    where, table, chart = str(tmp_path / "sets"), tmp_path / "out.csv", tmp_path / "out.png"
    asked = ["eval", where, "--by-category", "--csv", str(table), "--plot", str(chart)]
    shown = CliRunner().invoke(cli.twofold, asked, catch_exceptions=False).output
    assert "4 queries (4 judged by row, 4 judged by session); dropped: 2 without" in shown
    assert "category place: 3 queries" in shown
    assert "not shown different" in shown
    assert chart.read_bytes().startswith(b"\x89PNG")
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 7 * 3
    assert {row["set"] for row in rows} == {"one", "two"}
    told = json.loads(CliRunner().invoke(cli.twofold, ["eval", where, "--json"], catch_exceptions=False).output)
    one, two = told["sets"]
    assert (one["name"], one["queries"], one["dropped"]) == ("one", 4, 2)
    assert [run["name"] for run in one["runs"]] == list(evaluate.ARMS)
    assert {"ndcg@10", "recall@10", "recall@20", "mrr", "session"} <= one["runs"][0].keys()
    assert one["runs"][0]["session"].keys() == set(metrics.SESSIONS)
    assert two["runs"][0]["ndcg@10"] is None


def test_a_file_that_cannot_be_written_is_named(make: Maker, tmp_path: Path) -> None:
    one = judge(make())
    with pytest.raises(InvalidInput, match="cannot be written"):
        scorecard.write_csv(tmp_path / "no" / "x.csv", [one], False)
    with pytest.raises(InvalidInput, match="cannot be written"):
        scorecard.plot(tmp_path / "no" / "x.png", [one])


@pytest.mark.parametrize(("name", "judged", "queries"), [("locomo", 1982, 1986), ("scifact", 300, 300)])
def test_the_public_sets_can_be_read(name: str, judged: int, queries: int) -> None:
    """TWOFOLD_DATA names the folder of example exports, beside which the sets lie, or the folder of both."""
    data = Path(os.environ.get("TWOFOLD_DATA", os.devnull))
    found = [folder for folder in (data / name, data.parent / name) if (folder / "corpus.jsonl.gz").exists()]
    if not found:
        pytest.skip("TWOFOLD_DATA names no folder of sets")
    dataset = datasets.load(found[0])
    assert (len(dataset.judged), len(dataset.queries)) == (judged, queries)
