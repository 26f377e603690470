"""Models run by fastembed: from a folder, by a name from the cache, and never from the network unasked."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.embed import tiny
from twofold.embed import Embedder
from twofold.embed import fastembed as module
from twofold.embed.fastembed import FastEmbedder
from twofold.embed.pieces import by_tokens
from twofold.errors import EmbedderError, InvalidInput, MissingExtra

NAMED, REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2", "Qdrant/all-MiniLM-L6-v2-onnx"
NEEDED = ("model.onnx", "tokenizer.json", "tokenizer_config.json", "1_Pooling/config.json")
TEXTS = ["the train was late", "the key", "a green gate", "the key is in the green gate", "red lamp"]


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
def embedder(made: Path) -> FastEmbedder:
    return FastEmbedder(made, threads=2)


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "copy")


def words(vector: np.ndarray) -> set[str]:
    """The tokens that a vector of the tiny model counts."""
    return {tiny.VOCABULARY[place] for place in np.flatnonzero(vector > 0.0)}


def refused(model: str | Path, **options: Any) -> str:
    with pytest.raises(EmbedderError) as raised:
        FastEmbedder(model, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_folder_makes_unit_vectors_whose_identity_is_known_before_it_is_loaded(made: Path) -> None:
    embedder: Embedder = FastEmbedder(made)
    assert (embedder.info.name, embedder.info.dimension) == (f"fastembed:{made}", tiny.DIMENSION)
    vectors = embedder.embed_documents(TEXTS)
    assert {pieces.shape for pieces in vectors} == {(1, tiny.DIMENSION)}
    assert all(pieces.dtype == np.float32 and abs(np.linalg.norm(pieces) - 1.0) < 1e-6 for pieces in vectors)
    query = embedder.embed_query("green gate key")
    order = sorted(range(len(TEXTS)), key=lambda place: -float(vectors[place][0] @ query))
    assert [TEXTS[place] for place in order[:2]] == ["a green gate", "the key is in the green gate"]


def test_a_folder_as_the_hub_has_it_will_do_and_is_left_as_it_was(tmp_path: Path, embedder: FastEmbedder) -> None:
    folder = tiny.make(tmp_path / "hub", model_file="onnx/model.onnx")
    before = sorted(path.name for path in folder.rglob("*"))
    folder.chmod(0o555)
    try:
        assert (FastEmbedder(folder).embed_query("key") == embedder.embed_query("key")).all()
    finally:
        folder.chmod(0o755)
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_how_tokens_become_one_vector_is_what_the_folder_says(tmp_path: Path) -> None:
    """The first token is the same in every text, so that its vector alone tells none from another."""
    by_mean = FastEmbedder(tiny.make(tmp_path / "mean", specials=1.0))
    assert words(by_mean.embed_query("green gate")) == {"[CLS]", "green", "gate", "[SEP]"}
    for number, told in enumerate(({"pooling_mode_cls_token": True}, {"pooling_mode": "cls"})):
        folder = tiny.make(tmp_path / f"cls{number}", specials=1.0)
        (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": tiny.DIMENSION} | told))
        assert words(FastEmbedder(folder).embed_query("green gate")) == {"[CLS]"}
    last = FastEmbedder(tiny.make(tmp_path / "last", specials=1.0, pooling="lasttoken"))
    assert words(last.embed_query("green gate")) == {"[SEP]"}


def test_what_a_model_wants_before_a_query_is_put_there(copy: Path) -> None:
    prompts = {"prompts": {"query": "lamp ", "document": "door "}}
    (copy / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    embedder = FastEmbedder(copy)
    assert words(embedder.embed_query("gate")) == {"lamp", "gate"}
    long = embedder.embed_documents(["gate " * 60])[0]
    assert len(long) > 1
    assert all(words(piece) == {"door", "gate"} for piece in long)


def test_prefixes_of_a_folder_that_names_none_follow_from_its_own_name(made: Path, tmp_path: Path) -> None:
    embedder = FastEmbedder(shutil.copytree(made, tmp_path / "e5-tiny"))
    assert words(embedder.embed_query("gate")) == {*"q ##u ##e ##r ##y".split(), "gate"}


def test_what_stands_at_the_end_of_a_long_text_has_a_vector(embedder: FastEmbedder) -> None:
    pieces = embedder.embed_documents(["the train was late " * 100 + "green key"])[0]
    assert len(pieces) > 10
    assert {"green", "key"} <= words(pieces[-1])
    assert not {"green", "key"} & words(pieces[0])


LETTERS = Random(4).choices("abcdefghijklmnopqrstuvwxyz", k=2000)


@pytest.mark.parametrize(
    "text",
    [
        "".join(LETTERS[:100]),
        " ".join("".join(LETTERS[start : start + 7]) for start in range(0, 2000, 7)),
        "late " + "\n".join("".join(LETTERS[start : start + 60]) for start in range(0, 2000, 60)) + ".",
        "".join(chr(0x4E00 + place) for place in range(90)),
    ],
    ids=["one word", "words", "long words", "Chinese"],
)
def test_pieces_cover_the_text_in_order_and_the_model_takes_each_whole(embedder: FastEmbedder, text: str) -> None:
    model = embedder._loaded()
    end = 0
    pieces = model.pieces(text, "")
    assert len(pieces) > 1
    for piece in pieces:
        place = text.index(piece)
        assert not text[end:place].strip()
        end = place + len(piece)
        assert len(model.tokenizer.encode(piece).ids) <= tiny.MAX_TOKENS
    assert not text[end:].strip()


def test_a_prefix_takes_room_from_the_piece_and_not_from_the_text(embedder: FastEmbedder) -> None:
    model = embedder._loaded()
    pieces = model.pieces("train " * 50, "red lamp ")
    assert all(len(model.tokenizer.encode("red lamp " + piece).ids) <= tiny.MAX_TOKENS for piece in pieces)
    assert by_tokens(model.tokenizer, "train", 1) == ["train"]


def test_a_vector_depends_on_nothing_but_its_text(embedder: FastEmbedder, made: Path) -> None:
    alone = [embedder.embed_documents([text])[0] for text in TEXTS]
    for together in (embedder.embed_documents(TEXTS), FastEmbedder(made, threads=1).embed_documents(TEXTS)):
        assert all((one == other).all() for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize("text", ["", " \n", "\0", "\u0301", "😀", "[SEP]", "[PAD] [CLS]"], ids=ascii)
def test_any_text_has_finite_vectors(embedder: FastEmbedder, text: str) -> None:
    assert np.isfinite(embedder.embed_documents([text, "gate"])[0]).all()
    assert np.isfinite(embedder.embed_query(text)).all()


def test_a_text_that_names_a_special_token_is_read_as_text(tmp_path: Path) -> None:
    embedder = FastEmbedder(tiny.make(tmp_path / "specials"))
    assert {"[", "]"} <= words(embedder.embed_query("[SEP]"))


def test_half_a_character_is_an_error(embedder: FastEmbedder) -> None:
    with pytest.raises(EmbedderError, match="failed on a text"):
        embedder.embed_documents(["ab\ud800"])


def test_one_instance_serves_several_threads_and_loads_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    load = module._load

    def counted(*arguments: Any) -> Any:
        loads.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(module, "_load", counted)
    shared = FastEmbedder(made, threads=1)
    assert loads == []
    answers: list[list[bytes]] = []

    def ask() -> None:
        answers.append([pieces.tobytes() for pieces in shared.embed_documents(TEXTS)])

    callers = [threading.Thread(target=ask) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(loads) == 1
    assert answers == [answers[0]] * 6


# Identity


def test_other_weights_another_tokenizer_and_other_prefixes_make_another_model(made: Path, copy: Path) -> None:
    known = FastEmbedder(made).info.digest
    assert FastEmbedder(copy).info.digest == known
    weights = bytearray((copy / "model.onnx").read_bytes())
    weights[len(weights) // 2] ^= 1
    (copy / "model.onnx").write_bytes(weights)
    seen = {known, FastEmbedder(copy).info.digest}
    shutil.copy(made / "model.onnx", copy)
    assert FastEmbedder(copy).info.digest == known
    (copy / "tokenizer.json").write_text((copy / "tokenizer.json").read_text() + " ")
    seen.add(FastEmbedder(copy).info.digest)
    shutil.copy(made / "tokenizer.json", copy)
    (copy / "model.onnx_data").write_bytes(b"weights that lie beside")
    seen.add(FastEmbedder(copy).info.digest)
    (copy / "model.onnx_data").unlink()
    (copy / "config_sentence_transformers.json").write_text('{"prompts": {"query": "lamp "}}')
    seen.add(FastEmbedder(copy).info.digest)
    assert len(seen) == 5


# What cannot be had


@pytest.mark.parametrize("package", ["fastembed", "onnxruntime", "loguru"])
def test_without_the_extra_one_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for model in (tmp_path, NAMED):
        with pytest.raises(MissingExtra, match=r"needs fastembed; get it with: pip install 'twofold\[fastembed\]' \("):
            FastEmbedder(model)


def test_importing_it_imports_neither_fastembed_nor_onnxruntime() -> None:
    lines = (
        "import sys, twofold.embed.models as _\nassert not {'fastembed', 'onnxruntime', 'openai'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_a_folder_that_is_not_there_is_named(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "nothing"
    assert refused(folder).startswith(f"the embedding model's folder {folder} is not there; ")


@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_a_folder_lacks_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    said = "model.onnx or onnx/model.onnx" if name == "model.onnx" else name
    assert refused(copy) == f"the embedding model's folder {copy} lacks {said}; copy all of it there"


@pytest.mark.parametrize("told", [{}, {"pooling_mode_max_tokens": True}, {"pooling_mode": "max"}])
def test_a_pooling_that_is_not_said_or_not_known_is_refused(copy: Path, told: dict[str, object]) -> None:
    (copy / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": tiny.DIMENSION} | told))
    assert "does not say word_embedding_dimension and one of pooling_mode_cls_token" in refused(copy)


def test_a_model_with_a_layer_that_would_not_be_run_is_refused(copy: Path) -> None:
    (copy / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    assert "has a dense layer" in refused(copy)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2", b"\xff\x00"])
def test_a_damaged_file_is_an_error_that_names_the_folder(copy: Path, name: str, content: bytes) -> None:
    (copy / name).write_bytes(content)
    with pytest.raises(EmbedderError) as raised:
        FastEmbedder(copy).embed_query("gate")
    assert str(raised.value).startswith(
        f"the embedding model fastembed:{copy} cannot be loaded, its files are damaged: "
    )


@pytest.mark.parametrize("content", [b"", b"[1, 2", b"\xff\x00", b"[]"])
def test_a_damaged_pooling_file_is_named(copy: Path, content: bytes) -> None:
    (copy / "1_Pooling/config.json").write_bytes(content)
    assert "1_Pooling" in refused(copy)


def test_a_model_of_another_size_than_it_says_is_never_used(copy: Path) -> None:
    told = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (copy / "1_Pooling/config.json").write_text(json.dumps(told))
    with pytest.raises(EmbedderError, match="not 32 dimensions"):
        FastEmbedder(copy).embed_documents(["gate"])


# By name


def test_a_named_model_is_taken_from_the_cache_without_a_network(made: Path, tmp_path: Path) -> None:
    tiny.make_cache(tmp_path, REPOSITORY, "model.onnx", 384)
    embedder = FastEmbedder(NAMED.lower(), cache=tmp_path)
    assert (embedder.info.name, embedder.info.dimension) == (f"fastembed:{NAMED}", 384)
    assert words(embedder.embed_query("green gate")) == {"green", "gate"}
    allowed = FastEmbedder(NAMED, cache=tmp_path, download=True)
    assert allowed.info == embedder.info


def test_a_named_model_gets_the_prefixes_that_it_was_trained_with(made: Path, tmp_path: Path) -> None:
    name, repository = "nomic-ai/nomic-embed-text-v1.5", "nomic-ai/nomic-embed-text-v1.5"
    tiny.make_cache(tmp_path, repository, "onnx/model.onnx", 768)
    embedder = FastEmbedder(name, cache=tmp_path)
    assert words(embedder.embed_query("gate")) > {"gate", "s"}
    assert not (embedder.embed_query("gate") == embedder.embed_documents(["gate"])[0][0]).all()


def test_a_static_model_is_run_as_well(made: Path, tmp_path: Path) -> None:
    home = tmp_path / "models--minishlab--potion-base-8M"
    tiny.make_static(home / "snapshots" / ("0" * 40), 256)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    embedder = FastEmbedder("minishlab/potion-base-8M", cache=tmp_path)
    assert embedder.info.dimension == 256
    assert words(embedder.embed_query("green gate")) == {"green", "gate"}
    assert len(embedder.embed_documents(["gate " * 2000])[0]) > 3


def test_a_named_model_that_is_not_in_the_cache_is_not_fetched_unasked(made: Path, tmp_path: Path) -> None:
    assert refused(NAMED, cache=tmp_path / "cache") == (
        f"the embedding model {NAMED} is not in {tmp_path / 'cache'}, and is not fetched unasked; allow that with "
        "TWOFOLD_ALLOW_DOWNLOAD=on, or name a folder that has it, as in fastembed:/path/to/folder"
    )


def test_a_fetch_that_was_allowed_and_fails_is_one_sentence(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = refused(NAMED, cache=tmp_path / "cache", download=True)
    assert message.startswith(f"the embedding model {NAMED} could not be fetched: ")


def test_an_unknown_name_is_answered_with_those_there_are(embedder: FastEmbedder) -> None:
    embedder.embed_query("gate")  # so that a folder is registered as well
    with pytest.raises(InvalidInput) as raised:
        FastEmbedder("no/such-model")
    assert str(raised.value).startswith("fastembed has no embedding model 'no/such-model'; give a folder, by a path ")
    assert NAMED in str(raised.value)
    assert module.LOCAL not in str(raised.value)


def test_what_fails_is_told_once_and_by_us(made: Path, tmp_path: Path) -> None:
    lines = """
import sys
from pathlib import Path
from twofold.embed.fastembed import FastEmbedder
from twofold.errors import EmbedderError
try:
    FastEmbedder(sys.argv[1], cache=Path(sys.argv[2]))
except EmbedderError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", lines, NAMED, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"the embedding model {NAMED} is not in {tmp_path}")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_the_cache_is_the_users_unless_another_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "embedders" in module.default_cache().parts
