from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.rerank import tiny
from twofold.errors import RerankerError
from twofold.rerank import Reranker, rerank
from twofold.rerank import crossencoder as module
from twofold.rerank.crossencoder import LOCAL, OVERLAP, CrossEncoder, _cuts, fetch

NAMED = "Xenova/ms-marco-MiniLM-L-6-v2"
QUERY = "green gate key"
TEXTS = ["the train was late", "the key", "a green gate", "the key is in the green gate", "red lamp"]
NEEDED = ("model.onnx", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"a test reached for the network: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("fastembed")
    return tiny.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def encoder(made: Path) -> CrossEncoder:
    return CrossEncoder(made, threads=2)


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "copy")


def fails(encoder: CrossEncoder) -> str:
    with pytest.raises(RerankerError) as raised:
        encoder.score("gate", ["a gate"])
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_it_is_a_reranker_whose_name_is_known_without_loading(tmp_path: Path) -> None:
    reranker: Reranker = CrossEncoder(tmp_path / "nothing")
    assert reranker.name == str(tmp_path / "nothing")
    assert CrossEncoder(NAMED).name == NAMED


def test_nothing_to_score_loads_nothing(tmp_path: Path) -> None:
    assert CrossEncoder(tmp_path / "nothing").score("gate", []) == []


def test_a_local_folder_scores_and_orders(encoder: CrossEncoder) -> None:
    assert encoder.score(QUERY, TEXTS) == [0.0, 1.0, 2.0, 3.0, 0.0]
    found = [(id_, 1.0 - id_ / 10, text) for id_, text in enumerate(TEXTS)]
    assert rerank(QUERY, found, encoder).order == (3, 2, 1, 0, 4)
    assert rerank(QUERY, found, encoder, top=3).order == (2, 1, 0, 3, 4)


def test_the_query_comes_first_in_the_pair(encoder: CrossEncoder) -> None:
    assert encoder.score("gate", ["gate gate gate"]) == [3.0]
    assert encoder.score("gate gate gate", ["gate"]) == [1.0]


def test_a_folder_as_the_hub_has_it_and_a_path_as_a_string_will_do(made: Path, tmp_path: Path) -> None:
    folder = tiny.make(tmp_path / "hub", model_file="onnx/model.onnx")
    assert CrossEncoder(str(folder)).score(QUERY, TEXTS) == CrossEncoder(made).score(QUERY, TEXTS)


def test_two_folders_are_two_models(made: Path, tmp_path: Path) -> None:
    other = CrossEncoder(tiny.make(tmp_path / "other", logarithm=True))
    assert other.score("gate", ["gate"]) == [0.0]
    assert CrossEncoder(made).score("gate", ["gate"]) == [1.0]


def test_a_folder_that_may_not_be_written_is_left_as_it_was(copy: Path) -> None:
    before = sorted(path.name for path in copy.rglob("*"))
    copy.chmod(0o555)
    try:
        assert CrossEncoder(copy).score("gate", ["gate"]) == [1.0]
    finally:
        copy.chmod(0o755)
    assert sorted(path.name for path in copy.rglob("*")) == before


def test_what_stands_at_the_end_of_a_long_text_counts(encoder: CrossEncoder) -> None:
    long = " ".join(["the train was late and the lamp is red"] * 400)
    scores = encoder.score(QUERY, [long, f"{long} green gate key", f"green gate key {long}", long])
    assert scores == [0.0, 3.0, 3.0, 0.0]


def test_the_best_piece_counts_not_the_sum(encoder: CrossEncoder) -> None:
    filler = "train " * 60
    assert encoder.score(QUERY, [f"gate {filler} gate key {filler} gate", "green gate key"]) == [2.0, 3.0]


LETTERS = Random(4).choices("abcdefghijklmnopqrstuvwxyz", k=2000)


@pytest.mark.parametrize(
    "text",
    [
        "".join(LETTERS[:100]),
        " ".join("".join(LETTERS[start : start + 7]) for start in range(0, 2000, 7)),
        "late " + "\n".join("".join(LETTERS[start : start + 60]) for start in range(0, 2000, 60)) + ".",
        "".join(chr(0x4E00 + place) for place in range(90)),
        " ".join(chr(0x1F600 + place) for place in range(60)),
    ],
    ids=["one word", "words", "long words", "Chinese", "emoji"],
)
def test_pieces_cover_the_text_in_order_and_the_model_takes_each_whole(encoder: CrossEncoder, text: str) -> None:
    model = encoder._loaded()
    (pieces,) = model.pieces(QUERY, [text])
    assert len(pieces) > 1
    end = 0
    for query, piece in pieces:
        assert query == QUERY
        start = text.index(piece)
        assert not text[end:start].strip()
        end = start + len(piece)
        assert len(model.tokenizer.encode(query, piece).ids) <= tiny.MAX_TOKENS
    assert not text[end:].strip()


def test_a_piece_that_has_more_tokens_alone_than_in_its_word_is_cut_again(encoder: CrossEncoder) -> None:
    model = encoder._loaded()
    text = "a" + "qu" * 45
    assert len(model._offsets(text)) == 46
    assert len(model._offsets(text[-36:])) == 19
    (pieces,) = model.pieces(QUERY, [text])
    assert all(len(model.tokenizer.encode(*pair).ids) <= tiny.MAX_TOKENS for pair in pieces)
    assert sum(len(piece) for _, piece in pieces) > len(text)


@pytest.mark.parametrize("room", [1, 2, 7, 40, 509])
@pytest.mark.parametrize("more", [1, 2, 30, 500, 4321])
def test_cuts_cover_every_token_fit_and_overlap(room: int, more: int) -> None:
    cuts = _cuts(room + more, room)
    assert (cuts[0].start, cuts[-1].stop) == (0, room + more)
    assert all(0 < cut.stop - cut.start <= room for cut in cuts)
    assert all(left.stop - right.start >= min(OVERLAP, room // 4) for left, right in pairwise(cuts))


def test_a_text_tokenised_in_parts_keeps_its_places(encoder: CrossEncoder) -> None:
    text = "train late " * 10_000
    offsets = encoder._loaded()._offsets(text)
    assert len(offsets) == 20_000
    assert {text[start:end] for start, end in offsets} == {"train", "late"}


def test_of_a_query_too_long_the_beginning_counts_and_the_text_keeps_its_half(encoder: CrossEncoder) -> None:
    query = "gate " + "late " * 100
    assert encoder.score(query, ["gate", "lamp lamp late", "lamp"]) == [1.0, 1.0, 0.0]
    ((pair,),) = encoder._loaded().pieces(query, ["lamp"])
    assert len(pair[0].split()) == (tiny.MAX_TOKENS - 3) // 2


@pytest.mark.parametrize("text", ["", " \n", "\0", "\u0301", "😀", "你好", "[SEP]", "[PAD] [CLS]"], ids=ascii)
def test_any_text_and_any_query_has_a_finite_score(encoder: CrossEncoder, text: str) -> None:
    assert encoder.score("gate", [text, "gate"]) == [0.0, 1.0]
    assert encoder.score(text, ["train"]) == [0.0]


def test_a_text_that_names_a_special_token_is_read_as_text(encoder: CrossEncoder) -> None:
    """The model counts no special tokens, so that these are letters and brackets to it."""
    assert encoder.score("[SEP]", ["[SEP]", "gate"]) == [5.0, 0.0]
    assert encoder.score("[CLS]", ["[SEP] gate [CLS]"]) == [7.0]


def test_a_score_depends_on_nothing_but_its_pair(encoder: CrossEncoder, made: Path) -> None:
    alone = [encoder.score(QUERY, [text])[0] for text in TEXTS]
    assert encoder.score(QUERY, TEXTS) == alone == CrossEncoder(made, threads=1).score(QUERY, TEXTS)
    assert encoder.score(QUERY, TEXTS[::-1]) == alone[::-1]


def test_a_score_that_is_not_finite_is_an_error_and_leaves_the_order(made: Path, tmp_path: Path) -> None:
    reranker = CrossEncoder(tiny.make(tmp_path / "infinite", logarithm=True))
    with pytest.raises(RerankerError, match="failed on a text: its score is -inf"):
        reranker.score("gate", ["gate", "train"])
    result = rerank("gate", [(1, 0.9, "train"), (2, 0.8, "gate")], reranker)
    assert result.order == (1, 2)
    assert result.failed == f"the reranker {reranker.name} failed on a text: its score is -inf"


def test_half_a_character_is_an_error(encoder: CrossEncoder) -> None:
    with pytest.raises(RerankerError, match="failed on a text"):
        encoder.score("gate", ["ab\ud800"])


def test_one_instance_serves_several_threads_and_loads_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    load = module._load

    def counted(*arguments: Any) -> Any:
        loads.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(module, "_load", counted)
    shared = CrossEncoder(made, threads=1)
    assert loads == []
    answers: list[list[float]] = []
    callers = [threading.Thread(target=lambda: answers.append(shared.score(QUERY, TEXTS))) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(loads) == 1
    assert answers == [[0.0, 1.0, 2.0, 3.0, 0.0]] * 6


def test_a_load_that_failed_is_tried_again(copy: Path, made: Path) -> None:
    (copy / "tokenizer.json").unlink()
    encoder = CrossEncoder(copy)
    assert "lacks tokenizer.json" in fails(encoder)
    shutil.copy(made / "tokenizer.json", copy)
    encoder.load()
    assert encoder.score("gate", ["gate"]) == [1.0]


@pytest.mark.parametrize("package", ["fastembed.rerank.cross_encoder", "onnxruntime", "loguru"])
def test_without_the_extra_one_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for message in (fails(CrossEncoder(tmp_path)), fails(CrossEncoder(NAMED))):
        assert message.startswith("a cross-encoder needs fastembed: pip install 'twofold[rerank]' (")
    with pytest.raises(RerankerError, match="pip install 'twofold"):
        fetch(NAMED)


def test_importing_it_imports_neither_fastembed_nor_onnxruntime() -> None:
    lines = "import sys, twofold.rerank.crossencoder as _\nassert not {'fastembed', 'onnxruntime'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_a_folder_that_is_not_there_is_named(made: Path, tmp_path: Path) -> None:
    message = fails(CrossEncoder(tmp_path / "nothing"))
    assert message.startswith(f"the reranker's folder {tmp_path / 'nothing'} is not there")


@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_a_folder_lacks_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    said = "model.onnx or onnx/model.onnx" if name == "model.onnx" else name
    assert fails(CrossEncoder(copy)) == f"the reranker's folder {copy} lacks {said}: copy the whole model there"


def test_all_files_that_an_empty_folder_lacks_are_named(made: Path, tmp_path: Path) -> None:
    lacking = "model.onnx or onnx/model.onnx, tokenizer.json, tokenizer_config.json"
    assert f"lacks {lacking}: " in fails(CrossEncoder(tmp_path))


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2", b"\xff\x00"])
def test_a_damaged_file_is_an_error_that_names_the_folder(copy: Path, name: str, content: bytes) -> None:
    (copy / name).write_bytes(content)
    assert fails(CrossEncoder(copy)).startswith(f"the reranker {copy} cannot be loaded, its files are damaged: ")


def test_a_named_model_is_taken_from_the_cache_without_a_network(made: Path, tmp_path: Path) -> None:
    cache = tiny.make_cache(tmp_path / "cache", NAMED)
    assert CrossEncoder(NAMED, cache=cache).score(QUERY, TEXTS) == [0.0, 1.0, 2.0, 3.0, 0.0]
    fetch(NAMED, cache)
    assert CrossEncoder(NAMED.lower(), cache=cache).score("gate", ["gate"]) == [1.0]


def test_a_named_model_that_is_not_in_the_cache_is_not_fetched_unasked(made: Path, tmp_path: Path) -> None:
    message = fails(CrossEncoder(NAMED, cache=tmp_path / "cache"))
    assert message.startswith(f"the reranker {NAMED} is not in {tmp_path / 'cache'}, and is not fetched unasked: ")
    assert f"fetch('{NAMED}')" in message


def test_what_fails_is_told_once_and_by_us(made: Path, tmp_path: Path) -> None:
    lines = """
import sys
from pathlib import Path
from twofold.errors import RerankerError
from twofold.rerank.crossencoder import CrossEncoder
try:
    CrossEncoder(sys.argv[1], cache=Path(sys.argv[2])).load()
except RerankerError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", lines, NAMED, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"the reranker {NAMED} is not in {tmp_path}")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_a_fetch_that_fails_is_one_sentence(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RerankerError, match=f"the reranker {NAMED} could not be fetched: ") as raised:
        fetch(NAMED, tmp_path / "cache")
    assert "\n" not in str(raised.value)


def test_a_cache_that_cannot_be_made_is_an_error(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not in" in fails(CrossEncoder(NAMED, cache=tmp_path / "file" / "cache"))


def test_an_unknown_name_is_answered_with_those_there_are(made: Path, encoder: CrossEncoder) -> None:
    encoder.load()
    message = fails(CrossEncoder("no/such-model"))
    assert message.startswith("there is no reranker 'no/such-model': give a folder, or one of ")
    assert NAMED in message
    assert LOCAL not in message
    with pytest.raises(RerankerError, match="there is no reranker"):
        fetch("no/such-model")


def test_the_cache_is_the_users_unless_another_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "rerankers" in module.default_cache().parts
