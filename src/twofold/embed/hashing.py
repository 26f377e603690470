"""An embedder without a model, for tests: the same words give the same vector, in every process."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twofold.embed import ModelInfo

PIECE_WORDS = 200


class HashEmbedder:
    """Bags of words hashed into `dimension` places. It knows nothing of meaning beyond shared words."""

    def __init__(self, dimension: int = 64, name: str = "hash") -> None:
        self._info = ModelInfo(name, dimension, "1")

    @property
    def info(self) -> ModelInfo:
        """The model's identity, as the arguments say."""
        return self._info

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """One vector of shape (dimension,)."""
        return self._bag(text.split())

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """For each text a row for every PIECE_WORDS words."""
        return [np.stack([self._bag(piece) for piece in _pieces(text.split())]) for text in texts]

    def _bag(self, words: Sequence[str]) -> NDArray[np.float32]:
        vector = np.zeros(self._info.dimension, dtype=np.float32)
        for word in words:
            vector[zlib.crc32(word.lower().encode(errors="replace")) % self._info.dimension] += 1.0
        norm = np.linalg.norm(vector)
        unit: NDArray[np.float32] = vector / norm if norm else vector
        return unit


def _pieces(words: list[str]) -> list[list[str]]:
    return [words[start : start + PIECE_WORDS] for start in range(0, len(words), PIECE_WORDS)] or [[]]
