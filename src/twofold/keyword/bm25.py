"""BM25 over hashed terms, as FTS5's bm25() has it, with a second weight for terms that neighbours lend.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

K1 = 1.2  # FTS5's, by which candidates are found
B = 0.75
LEAST_IDF = 1e-6  # bm25()'s: a term that most rows hold still ranks

HASH_BYTES = 4
SCOPE_TOKENS = 2  # every row names a session and a project


@dataclass(frozen=True, slots=True)
class Term:
    """A query term that the index holds."""

    text: str
    rows: int
    idf: float

    @property
    def most(self) -> float:
        """More than this a term adds to no row's score, however often the row holds it."""
        return self.idf * (K1 + 1.0)


@dataclass(frozen=True, slots=True)
class Document:
    """An entry of the index: how many of its hashed terms are its own, these terms, and who stands beside it."""

    own: int
    hashes: bytes
    near: Sequence[int]


def bm25(
    documents: Sequence[Document],
    terms: Sequence[Term],
    mean_length: float,
    *,
    context_weight: float = 0.0,
    k1: float = K1,
    b: float = B,
) -> list[float]:
    """BM25 of entries from their hashed terms: bm25()'s arithmetic, so that both give the same number."""
    if not terms or not documents:
        return [0.0] * len(documents)
    hashes = np.frombuffer(b"".join(document.hashes for document in documents), dtype=np.uint32)
    lengths = np.array([len(document.hashes) // HASH_BYTES for document in documents])
    starts = np.cumsum(lengths) - lengths
    owns = np.array([document.own for document in documents])
    saturation = k1 * (1.0 - b + b * (lengths + SCOPE_TOKENS) / mean_length)
    scores: NDArray[np.float64] = np.zeros(len(documents))
    for term in terms:
        at = np.flatnonzero(hashes == term_hash(term.text))
        row = np.searchsorted(starts, at, side="right") - 1
        weight = np.where(at - starts[row] < owns[row], 1.0, context_weight)
        frequency = np.bincount(row, weights=weight, minlength=len(documents))
        scores += term.idf * ((frequency * (k1 + 1.0)) / (frequency + saturation))
    return [float(score) for score in scores]


def inverse_frequency(total: int, held: int) -> float:
    """How much a term says that so many of all rows hold, never less than LEAST_IDF."""
    idf = math.log((total - held + 0.5) / (held + 0.5))
    return idf if idf > 0.0 else LEAST_IDF


@lru_cache(maxsize=1 << 16)
def term_hash(term: str) -> int:
    """The 32 bits by which `keyword_docs` knows a term."""
    return zlib.crc32(term.encode())
