"""Models on a server that speaks OpenAI's embeddings API."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.embed.fake_server import FakeServer
from twofold.embed import Embedder
from twofold.embed import remote as module
from twofold.embed.hashing import HashEmbedder
from twofold.embed.pieces import PIECE_BYTES
from twofold.embed.remote import AWAY_SECONDS, BATCH, RETRIES, RemoteEmbedder
from twofold.errors import EmbedderError

KEY = "sk-not-a-real-key"
NOBODY = "http://127.0.0.1:9/v1"  # the discard port: nothing listens there


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def embedder(server: FakeServer) -> RemoteEmbedder:
    return RemoteEmbedder("small", server.url, KEY)


def fails(embedder: RemoteEmbedder) -> str:
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_query("gate")
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_texts_become_unit_vectors_in_their_order_though_the_answer_has_another(server: FakeServer) -> None:
    embedder: Embedder = RemoteEmbedder("small", server.url, KEY)
    texts = ["apple pie", "the gate is green", "apple tart", "rain"]
    vectors = embedder.embed_documents(texts)
    assert {pieces.shape for pieces in vectors} == {(1, 48)}
    assert all(pieces.dtype == np.float32 and abs(np.linalg.norm(pieces) - 1.0) < 1e-6 for pieces in vectors)
    for text, pieces in zip(texts, vectors, strict=True):
        assert np.allclose(pieces[0], HashEmbedder(48).embed_query(text), atol=1e-6)
    assert np.allclose(embedder.embed_query("apple pie"), vectors[0][0])
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.bodies[0] == {"model": "small", "input": texts, "encoding_format": "float"}


def test_its_length_is_asked_for_once_and_not_where_it_is_known(server: FakeServer) -> None:
    embedder = RemoteEmbedder("wide", server.url)
    assert [embedder.info.dimension for _ in range(3)] == [96, 96, 96]
    assert len(server.bodies) == 1
    assert RemoteEmbedder("wide", server.url, known=96).info == embedder.info
    assert len(server.bodies) == 1


def test_another_length_can_be_asked_for(server: FakeServer) -> None:
    embedder = RemoteEmbedder("wide", server.url, dimensions=32)
    assert (embedder.info.name, embedder.info.dimension) == ("openai:wide@32", 32)
    assert embedder.embed_documents(["gate"])[0].shape == (1, 32)
    assert server.bodies[-1]["dimensions"] == 32


def test_server_model_and_length_make_its_identity_and_the_key_and_the_password_do_not() -> None:
    def digest(model: str = "small", url: str = "https://example.org/v1", key: str = "", dimensions: int = 0) -> str:
        return RemoteEmbedder(model, url, key, dimensions=dimensions).digest

    others = {digest("wide"), digest(url="https://example.org/v2"), digest(dimensions=8), digest(url=NOBODY)}
    assert len(others - {digest()}) == 4
    assert digest() == digest(key=KEY) == digest(url="https://me:secret@example.org/v1/")


def test_the_prefix_that_a_model_wants_is_sent_with_every_piece(server: FakeServer) -> None:
    embedder = RemoteEmbedder("nomic-embed-text", server.url)
    embedder.embed_query("green gate")
    embedder.embed_documents(["word " * 1000])
    sent = server.texts
    assert sent[0] == "search_query: green gate"
    documents = [text for text in sent[1:] if text != "length"]
    assert len(documents) > 3
    assert all(text.startswith("search_document: word") for text in documents)


def test_a_long_text_is_sent_in_pieces_and_its_end_has_a_vector(server: FakeServer, embedder: RemoteEmbedder) -> None:
    long, short = embedder.embed_documents([f"{'the train was late ' * 900} quokka", "rain"])
    assert long.shape[0] > 10
    assert short.shape == (1, 48)
    assert max(len(text.encode()) for text in server.texts) <= PIECE_BYTES
    assert max(len(body["input"]) for body in server.bodies) <= BATCH
    query = HashEmbedder(48).embed_query("quokka")
    assert int(np.argmax(long @ query)) == len(long) - 1
    assert abs(np.linalg.norm(embedder.embed_query("word " * 1000)) - 1.0) < 1e-6


def test_a_text_of_nothing_is_not_sent_and_has_no_direction(server: FakeServer, embedder: RemoteEmbedder) -> None:
    empty, full, blank = embedder.embed_documents(["", "gate", " \n"])
    assert not empty.any()
    assert not blank.any()
    assert full.any()
    assert [text for text in server.texts if text != "length"] == ["gate"]
    assert embedder.embed_documents([]) == []


def test_what_is_not_finite_becomes_no_direction_and_no_warning(server: FakeServer, embedder: RemoteEmbedder) -> None:
    server.failing = "not finite"
    assert not np.isfinite(embedder.embed_documents(["gate"])[0]).any()


def test_vectors_of_another_length_than_the_store_has_are_refused(server: FakeServer) -> None:
    embedder = RemoteEmbedder("small", server.url, known=48)
    server.size = 64
    assert fails(embedder) == (
        f"{server.url} gave vectors of 64 dimensions for small, not of 48; none was used, check which model answers "
        "there"
    )


def test_half_a_character_is_an_error_that_names_its_place(embedder: RemoteEmbedder) -> None:
    with pytest.raises(EmbedderError, match=r"half a character .* at position 2002"):
        embedder.embed_documents(["a " * 1001 + "\ud800"])


# A server that is away, refuses, or talks nonsense


def test_nobody_there_is_one_sentence_without_the_password() -> None:
    embedder = RemoteEmbedder("small", NOBODY.replace("//", "//me:secret@"), KEY)
    assert fails(embedder) == (
        f"no embedding server answers at {NOBODY}; start it, or name another with TWOFOLD_EMBED_BASE_URL"
    )


def test_a_server_that_was_away_is_left_alone_for_a_while_and_then_asked_again(server: FakeServer) -> None:
    now = [100.0]
    embedder = RemoteEmbedder("small", server.url, known=48, timeout=0.05, clock=lambda: now[0])
    server.failing = "hang"
    said = fails(embedder)
    assert said.startswith(
        f"the embedding server {server.url} did not answer in time; raise embedTimeout (0.05 seconds)"
    )
    server.released.set()
    server.failing = None
    now[0] += AWAY_SECONDS - 0.1
    assert fails(embedder) == said
    assert len(server.bodies) == 1
    now[0] += 0.2
    assert embedder.embed_query("gate").any()


@pytest.mark.parametrize(
    ("failing", "says"),
    [
        (401, "refused the key (status 401); set the right one with TWOFOLD_EMBED_API_KEY"),
        (403, "refused the key (status 403)"),
        (404, "has no embedding model 'small', or is not its address: something went wrong here; check the name"),
        (429, "gave no vectors but status 429: something went wrong here"),
        (500, "gave no vectors but status 500: something went wrong here"),
        ("garbage", "is not OpenAI's embeddings API; check embedBaseUrl, which mostly ends with /v1"),
        ("wrong shape", "is not OpenAI's embeddings API"),
        ("too few", "is not OpenAI's embeddings API"),
    ],
)
def test_what_a_server_does_wrong_is_one_sentence(
    server: FakeServer, embedder: RemoteEmbedder, failing: int | str, says: str
) -> None:
    server.failing = failing
    assert says in fails(embedder)
    assert len(server.bodies) == 1, "a query is not asked twice: who waits for it goes on by words"


def test_a_server_that_quotes_the_key_does_not_make_us_do_so(server: FakeServer, embedder: RemoteEmbedder) -> None:
    server.failing, server.failure_text = 500, f"bad key {KEY}\n" + "x" * 1000
    assert fails(embedder).endswith("…")


@pytest.mark.parametrize("answer", [None, [], {"data": 3}, {"data": [3]}, {"data": [{"index": 0}]}])
def test_answers_of_other_shapes_are_none(answer: object) -> None:
    assert module._vectors(answer, 1) is None


@pytest.mark.parametrize("vector", [[], "text", [[1.0]], ["a"], [10**400], None])
def test_vectors_of_other_shapes_are_none(vector: object) -> None:
    assert module._vectors({"data": [{"index": 0, "embedding": vector}]}, 1) is None
    assert module._vectors({"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}]}, 2) is None


@pytest.mark.parametrize("status", [429, 503])
def test_many_texts_are_sent_again_when_the_server_is_busy(
    server: FakeServer, embedder: RemoteEmbedder, status: int
) -> None:
    server.failing, server.fail_times = status, RETRIES
    assert len(embedder.embed_documents(["gate", "door"])) == 2
    assert [body["input"] for body in server.bodies][: RETRIES + 1] == [["gate", "door"]] * (RETRIES + 1)
    server.failing, server.fail_times = status, -1
    with pytest.raises(EmbedderError, match=f"status {status}"):
        embedder.embed_documents(["gate", "door"])


def test_the_openai_packages_own_variables_are_not_read(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", NOBODY)
    RemoteEmbedder("small", server.url).embed_query("gate")
    assert server.headers[0]["authorization"] == "Bearer none"
    assert not {"openai-organization", "openai-project"} & server.headers[0].keys()
