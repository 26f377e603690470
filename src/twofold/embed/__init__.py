"""Embedders turn texts into vectors of one length. `Embedder` is all that one has to be."""

from __future__ import annotations

import os
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
        if other[:2] == (self.name, self.dimension):
            return (
                f"this store's vectors were made by another {self.name}, of other files or another server; bring that "
                "one back, or make new vectors with: twofold embed"
            )
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


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """A vector of shape (dimension,) at unit length; zeros stay zeros."""
    # The bound keeps a vector of zeros from becoming NaN.
    made: NDArray[np.float32] = vector / np.maximum(np.linalg.norm(vector), np.float32(1e-12))
    return made


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
