"""Embedding models by name: the bundled one, those that fastembed runs, those on a server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.embed import Embedder, ModelInfo
from twofold.embed.minilm import NAME as BUNDLED
from twofold.embed.minilm import MiniLM
from twofold.embed.remote import RemoteEmbedder
from twofold.errors import EmbedderError, InvalidInput, MissingExtra
from twofold.settings import Value

Model = tuple[str, int, str]  # as the file knows one: name, dimension and digest

WAYS = (
    "minilm for the bundled one, fastembed:NAME as in fastembed:BAAI/bge-small-en-v1.5, fastembed:/path/to/folder, or "
    "openai:NAME for one on the server at embedBaseUrl, openai:NAME@512 for vectors of that length"
)


class Absent:
    """Stands for a model that cannot be had: whoever asks it is told why, and everything else goes on."""

    def __init__(self, info: ModelInfo, reason: str) -> None:
        self._info = info
        self._reason = reason

    @property
    def info(self) -> ModelInfo:
        """The model's identity as far as it is known: dimension 0 where no vector of it is there."""
        return self._info

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Raises EmbedderError with the reason."""
        raise EmbedderError(self._reason)

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Raises EmbedderError with the reason."""
        raise EmbedderError(self._reason)


def has_name(model: str) -> bool:
    """Whether `named` can make an embedder of a name that a file knows a model by."""
    kind, _, rest = model.partition(":")
    return model in ("minilm", BUNDLED) or (kind in ("fastembed", "openai") and bool(rest))


def named(name: str, settings: Mapping[str, Value], known: Collection[Model] = ()) -> Embedder:
    """The embedder of that name; the settings tell server, key, threads, and whether a model may be fetched.

    The vectors of a model in `known`, those of a store, have the length that is said there, and no server is asked
    for it. Raises InvalidInput for a name that is none, EmbedderError and MissingExtra for a model that cannot be had.
    """
    if not has_name(name):
        raise InvalidInput(f"there is no embedding model {name!r}; name {WAYS}")
    kind, _, rest = name.partition(":")
    threads = int(settings["embedThreads"])
    if kind == "fastembed":
        from twofold.embed.fastembed import FastEmbedder  # an extra

        # A folder is told from a name by how it begins, not by what lies in the directory of the moment.
        folder = Path(rest).expanduser()
        is_folder = folder.is_absolute() or rest.startswith(".")
        download = settings["allowDownload"] == "on"
        return FastEmbedder(folder if is_folder else rest, threads=threads, download=download)
    if kind != "openai":
        return MiniLM(threads=threads)
    digest = _remote(rest, settings).digest
    made = _remote(rest, settings, next((model[1] for model in known if (model[0], model[2]) == (name, digest)), 0))
    _ = made.info  # which asks the server where it has to: now, rather than in the middle of a write
    return made


def of_store(settings: Mapping[str, Value], current: Model | None) -> Embedder:
    """The model that made a store's vectors where it has a name, else that of the setting embedModel.

    One that cannot be had is `Absent`. Raises InvalidInput where the setting names none.
    """
    own = current if current and has_name(current[0]) else None
    name = own[0] if own else str(settings["embedModel"])
    info = ModelInfo(*own) if own else ModelInfo(name, 0, "")
    if own and name.startswith("openai:"):
        remote = _remote(name.partition(":")[2], settings)
        if remote.digest != info.digest:  # nothing of a store is sent to a server that it was not given to
            return Absent(
                info,
                f"this store's vectors were made by {name} on another server than {remote.url}; name that one with "
                f"TWOFOLD_EMBED_BASE_URL, or make new vectors with: twofold embed --model {name}",
            )
    try:
        return named(name, settings, [own] if own else [])
    except (EmbedderError, MissingExtra) as error:
        return Absent(info, str(error))


def _remote(name: str, settings: Mapping[str, Value], dimension: int = 0) -> RemoteEmbedder:
    model, _, length = name.rpartition("@")
    is_asked = bool(model) and length.isdecimal()
    return RemoteEmbedder(
        model if is_asked else name,
        str(settings["embedBaseUrl"]),
        str(settings["embedApiKey"]),
        dimensions=int(length) if is_asked else 0,
        known=dimension,
        timeout=float(settings["embedTimeout"]),
    )
