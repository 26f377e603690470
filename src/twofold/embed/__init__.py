"""Embedders turn texts into vectors of one length. `Embedder` is all that one has to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model's identity: vectors are compared only where all three are equal."""

    name: str
    dimension: int
    digest: str

    @property
    def key(self) -> tuple[str, int, str]:
        """The model as the file knows it."""
        return self.name, self.dimension, self.digest

    def refuses(self, other: tuple[str, int, str]) -> str:
        """What to tell who meets vectors of another model."""
        return (
            f"this store's vectors were made by {other[0]} ({other[1]} dimensions), not by {self.name} "
            f"({self.dimension}); open it with that model, or make new vectors with: twofold embed"
        )


class Embedder(Protocol):
    """Makes vectors of unit length. Both methods raise `EmbedderError` and nothing else."""

    @property
    def info(self) -> ModelInfo:
        """The model's identity, known without loading it."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """One vector of shape (dimension,)."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """For each text its pieces, an array of shape (pieces, dimension) with at least one row."""
        ...


@runtime_checkable
class Fluent(Protocol):
    """An embedder that can tell how well it knows the language of a text. None has to."""

    def fluency(self, text: str) -> float:
        """From 0, what is written in letters that say nothing to the model, to 1. Raises EmbedderError."""
        ...
