from __future__ import annotations

import hashlib
import json
import shutil
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from twofold.embed import Embedder
from twofold.embed import minilm as module
from twofold.embed.minilm import DIGEST, FOLDER, MAX_TOKENS, OVERLAP, SPECIAL_TOKENS, MiniLM, _cuts
from twofold.errors import EmbedderError

REFERENCE = json.loads((Path(__file__).parent / "minilm_reference.json").read_text(encoding="utf-8"))
FILES = ("minilm.onnx", "tokenizer.json")
# int8 weights and activations: .988 to .995 for sentences, .974 for a single word.
LEAST_COSINE = 0.97

FILLER = (
    "The train to the coast was late again, so we played cards in the waiting room and ate the sandwiches.",
    "In the afternoon the rain stopped and the children ran down to the harbour to look at the boats.",
    "Grandfather told the story of the lighthouse keeper who collected buttons and never spoke on Sundays.",
)
ANSWER = "The password for the greenhouse door is written under the third flower pot."
QUESTION = "Where can I find the greenhouse password?"
UNRELATED = "Interest rates were raised by a quarter of a point on Thursday."


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM(threads=2)


def filler(words: int) -> str:
    sentences: list[str] = []
    while sum(len(sentence.split()) for sentence in sentences) < words:
        sentences.append(FILLER[len(sentences) % len(FILLER)])
    return " ".join(sentences)


def assert_same(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


def test_it_is_an_embedder_whose_identity_is_known_without_loading(tmp_path: Path) -> None:
    embedder: Embedder = MiniLM(folder=tmp_path)
    assert (embedder.info.name, embedder.info.dimension) == ("all-MiniLM-L6-v2-int8", 384)
    assert embedder.info.digest == DIGEST


def test_the_digest_is_that_of_the_bundled_file_and_the_provenance_names_both_files() -> None:
    provenance = (FOLDER / "PROVENANCE.md").read_text(encoding="utf-8")
    model, tokenizer = (hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in FILES)
    assert model.startswith(DIGEST)
    assert model in provenance
    assert tokenizer in provenance


@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: case["text"][:30])
def test_a_sentence_is_near_its_full_precision_vector(minilm: MiniLM, case: dict[str, object]) -> None:
    assert minilm.embed_query(str(case["text"])) @ np.array(case["vector"], np.float32) >= LEAST_COSINE


def test_a_question_is_nearer_to_its_answer_than_to_other_sentences(minilm: MiniLM) -> None:
    rows = np.concatenate(minilm.embed_documents([UNRELATED, *FILLER, ANSWER]))
    assert int(np.argmax(rows @ minilm.embed_query(QUESTION))) == 4


def test_an_answer_at_the_end_of_5000_words_is_found(minilm: MiniLM) -> None:
    long, unrelated = minilm.embed_documents([f"{filler(5000)} {ANSWER}", UNRELATED])
    scores = long @ minilm.embed_query(QUESTION)
    assert len(long) > 20
    assert int(np.argmax(scores)) == len(long) - 1
    assert scores.max() > float((unrelated @ minilm.embed_query(QUESTION)).max())


@pytest.mark.parametrize("tokens", [0, 1, 253, 254, 255, 256, 476, 477, 1000, 4321])
def test_pieces_cover_every_token_fit_the_model_and_overlap(tokens: int) -> None:
    cuts = _cuts(tokens)
    assert (cuts[0].start, cuts[-1].stop) == (0, tokens)
    assert all(cut.stop - cut.start <= MAX_TOKENS - SPECIAL_TOKENS for cut in cuts)
    assert all(left.stop - right.start >= OVERLAP for left, right in pairwise(cuts))
    assert len(cuts) == 1 or tokens > MAX_TOKENS - SPECIAL_TOKENS


def test_a_text_tokenised_in_parts_has_the_tokens_of_the_whole(minilm: MiniLM) -> None:
    text = filler(25_000)
    model = minilm._loaded()
    whole = model.tokenizer.encode(text, add_special_tokens=False).ids
    pieces = model.pieces(text)
    assert len(text) > 100_000
    for cut, piece in zip(_cuts(len(whole)), pieces, strict=True):
        assert piece[0, 1:-1].tolist() == whole[cut]


def test_a_long_text_without_white_space_loses_nothing(minilm: MiniLM) -> None:
    tokens = sum(cut.size - SPECIAL_TOKENS for cut in minilm._loaded().pieces("猫，" * 40_000))
    assert tokens >= 80_000


def test_order_is_kept_whatever_the_lengths(minilm: MiniLM) -> None:
    texts = [filler(words) for words in (300, 3, 40, 600, 1, 25)]
    together = minilm.embed_documents(texts)
    assert_same(together, [minilm.embed_documents([text])[0] for text in texts])
    assert [len(vectors) for vectors in together][1:3] == [1, 1]


def test_a_vector_depends_on_nothing_but_its_text(minilm: MiniLM) -> None:
    texts = [*FILLER, ANSWER, UNRELATED]
    assert_same(minilm.embed_documents(texts), MiniLM(threads=1).embed_documents(texts))
    assert_same(minilm.embed_documents(texts), minilm.embed_documents(texts[::-1])[::-1])
    np.testing.assert_array_equal(minilm.embed_documents([ANSWER])[0][0], minilm.embed_query(ANSWER))


def test_a_query_longer_than_the_model_is_the_mean_of_its_pieces(minilm: MiniLM) -> None:
    query = f"{filler(400)} {QUESTION}"
    pieces = minilm.embed_documents([query])[0]
    mean = pieces.mean(axis=0)
    vector = minilm.embed_query(query)
    assert len(pieces) > 1
    assert vector @ mean / np.linalg.norm(mean) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\0", "a\0b", "\x1b[31m", "x", "\u0301", "😀", "你好，世界", "ยินดี", "[SEP]", "x" * 100_000],
    ids=lambda text: ascii(text[:9]),
)
def test_any_text_gives_a_finite_unit_vector(minilm: MiniLM, text: str) -> None:
    (vectors,) = minilm.embed_documents([text])
    assert vectors.shape == (1, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1], abs=1e-6)


def test_a_text_that_names_a_special_token_is_read_as_text(minilm: MiniLM) -> None:
    model = minilm._loaded()
    end = model.tokenizer.token_to_id("[SEP]")
    assert model.pieces("a [SEP] b")[0][0].tolist().count(end) == 1


def test_no_texts_give_no_vectors(minilm: MiniLM) -> None:
    assert minilm.embed_documents([]) == []


def test_a_lone_surrogate_is_refused_with_its_position(minilm: MiniLM) -> None:
    with pytest.raises(EmbedderError, match="lone surrogate\\) at position 2: remove it"):
        minilm.embed_documents(["fine", "ab\ud800"])
    with pytest.raises(EmbedderError, match="position 0"):
        minilm.embed_query("\udfff")


def test_threads_bound_how_many_pieces_are_embedded_at_once() -> None:
    def most_at_once(threads: int) -> int:
        names: set[str] = set()
        minilm = MiniLM(threads=threads)
        gate = threading.Barrier(threads, timeout=5)

        def step(item: int) -> int:
            if item < threads:
                gate.wait()
            names.add(threading.current_thread().name)
            return item

        assert minilm._each(step, range(10)) == list(range(10))
        return len(names)

    assert [most_at_once(threads) for threads in (1, 2, 3)] == [1, 2, 3]


def test_zero_threads_takes_the_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.embed.minilm._cores", lambda: 7)
    assert (MiniLM()._threads, MiniLM(threads=2)._threads) == (7, 2)


def test_one_instance_serves_several_threads_and_loads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Path] = []
    load = module._load

    def counted(folder: Path) -> module._Model:
        loads.append(folder)
        return load(folder)

    monkeypatch.setattr(module, "_load", counted)
    shared = MiniLM(threads=1)
    vectors: list[np.ndarray] = []
    callers = [threading.Thread(target=lambda: vectors.append(shared.embed_query(ANSWER))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(loads) == 1
    assert_same(vectors, [vectors[0]] * 4)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    for other in set(FILES) - {name}:
        (tmp_path / other).symlink_to(FOLDER / other)
    with pytest.raises(EmbedderError) as raised:
        MiniLM(folder=tmp_path).embed_query("hello")
    assert str(raised.value) == f"the embedding model's file {tmp_path / name} is missing: reinstall twofold"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("length", [0, 5, 100_000])
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, name: str, length: int) -> None:
    for other in FILES:
        shutil.copy(FOLDER / other, tmp_path / other)
    (tmp_path / name).write_bytes((FOLDER / name).read_bytes()[:length])
    with pytest.raises(EmbedderError) as raised:
        MiniLM(folder=tmp_path).embed_documents(["hello"])
    assert str(raised.value) == f"the embedding model's file {tmp_path / name} is damaged: reinstall twofold"


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EmbedderError, match=f"needs onnxruntime and tokenizers: .*{package}"):
        MiniLM().embed_query("hello")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("how do customers pay us?", 1.0, 1.0),
        ("Wie bezahlen unsere Kunden die Rechnungen?", 0.8, 1.0),
        ("كيف يدفع العملاء لنا؟", 0.0, 0.0),
        ("как клиенты нам платят?", 0.0, 0.0),
        ("我们什么时候去北京看长城", 0.0, 0.1),
        ("ลูกค้าจ่ายเงินให้เราอย่างไร", 0.0, 0.0),
        ("🚀", 0.0, 0.0),
        ("", 1.0, 1.0),
        ("??!", 1.0, 1.0),
    ],
)
def test_the_model_tells_the_languages_that_it_knows(text: str, low: float, high: float) -> None:
    assert low <= MiniLM().fluency(text) <= high
