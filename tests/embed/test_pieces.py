"""How long texts are cut for a model whose tokenizer is not at hand, and what is put before them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.embed.pieces import OVERLAP_BYTES, PIECE_BYTES, by_bytes
from twofold.embed.prefixes import KNOWN, prefixes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\t"), max_size=200)


def places(text: str, pieces: list[str]) -> list[tuple[int, int]]:
    """Where in the text each piece is, at the last place that leaves no gap to the one before."""
    found: list[tuple[int, int]] = []
    end = 0
    for piece in pieces:
        start = text.rfind(piece, 0, end + len(piece))
        found.append((start, start + len(piece)))
        end = start + len(piece)
    return found


@given(TEXTS, st.integers(12, 60), st.integers(0, 20))
def test_pieces_cover_the_whole_text_each_within_its_bytes(text: str, most: int, overlap: int) -> None:
    pieces = by_bytes(text, most, min(overlap, most // 3))
    assert all(len(piece.encode()) <= most for piece in pieces)
    found = places(text, pieces)
    assert found[0][0] == 0
    assert found[-1][1] == len(text)
    assert all(0 <= right[0] <= left[1] < right[1] for left, right in pairwise(found))


@given(TEXTS)
def test_a_text_that_fits_is_one_piece_as_it_is(text: str) -> None:
    assert by_bytes(text) == [text]


def test_a_cut_is_at_white_space_and_the_next_piece_begins_with_words_of_the_last() -> None:
    text = " ".join(f"word{number:04}" for number in range(1000))
    pieces = by_bytes(text)
    assert len(pieces) == 9
    assert all(piece.endswith(" ") for piece in pieces[:-1])
    assert all(piece.startswith("word") for piece in pieces)
    assert all(right.split()[0] in left for left, right in pairwise(pieces))
    assert all(right.split()[0] in left[-OVERLAP_BYTES:] for left, right in pairwise(pieces[:-1]))
    assert min(len(piece.encode()) for piece in pieces) > 0.7 * PIECE_BYTES


def test_a_megabyte_without_a_space_is_cut_all_the_same() -> None:
    pieces = by_bytes("x" * 1_000_000)
    assert len(pieces) == pytest.approx(1_000_000 / (PIECE_BYTES - OVERLAP_BYTES), abs=2)
    assert {len(piece) for piece in pieces} == {PIECE_BYTES}


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("text-embedding-3-small", "", ""),
        ("all-minilm", "", ""),
        ("bge-m3", "", ""),
        ("code5p-embed", "", ""),
    ],
)
def test_models_get_the_prefixes_that_they_were_trained_with(model: str, query: str, document: str) -> None:
    assert prefixes(model) == (query, document)


def test_every_known_model_has_a_prefix() -> None:
    assert all(query or document for _, query, document in KNOWN)
