"""Embedding models run by fastembed on the CPU, from a folder or by a name of fastembed's list.

Nothing is fetched unless the user allows it: a named model is taken from the cache, or is refused with the way out.
Every piece of text goes through the model alone, and pieces run side by side in threads of one core each, for the
reason that twofold.embed.minilm gives: so a vector depends on nothing but its text.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from twofold.embed import ModelInfo, cores, unit
from twofold.embed.pieces import by_tokens
from twofold.embed.prefixes import prefixes
from twofold.errors import EmbedderError, InvalidInput, MissingExtra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "fastembed:"
# Those that take 8,192 would need gigabytes for them, and one vector of so much text says little of any of it.
MAX_TOKENS = 512

# Where a folder may have its model: beside the rest, or as the hub's repositories have it.
MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx")
POOLING = "1_Pooling/config.json"
NEEDED = ("tokenizer.json", "tokenizer_config.json", POOLING)
POOLINGS = {"cls": "CLS", "cls_token": "CLS", "mean": "MEAN", "mean_tokens": "MEAN", "lasttoken": "LAST_TOKEN"}
# fastembed takes a folder only for a model that it knows; these are known to it by name, for any folder.
LOCAL = "twofold/local:"

ON_ONE_CORE: Mapping[str, object] = {"threads": 1, "providers": ["CPUExecutionProvider"]}

# Of a file so many blocks, spread evenly, tell it from others: reading all of it takes longer than loading it.
BLOCKS, BLOCK = 256, 4096

Vector = NDArray[np.float32]

_registration = threading.Lock()


class FastEmbedder:
    """Embeds texts of any length as unit vectors. One instance serves any number of threads.

    `model` is a folder with model.onnx (or onnx/model.onnx), tokenizer.json, tokenizer_config.json and
    1_Pooling/config.json, or a name of fastembed's list, which is looked for in `cache` and, with `download`, fetched
    into it. `threads` bounds the cores that one call uses, 0 takes all. It is loaded at the first use; that it is
    there is seen at once. Raises EmbedderError, InvalidInput for an unknown name, and MissingExtra.
    """

    def __init__(
        self, model: str | Path, *, cache: Path | None = None, threads: int = 0, download: bool = False
    ) -> None:
        self._threads = threads if threads > 0 else cores()
        self._lock = threading.Lock()
        self._model: _Model | None = None
        package = _fastembed()
        if isinstance(model, Path):
            self._place, self._encoder = _of_folder(package, model.expanduser().resolve())
        else:
            self._place, self._encoder = _of_list(package, model, cache or default_cache(), download)

    @property
    def info(self) -> ModelInfo:
        return self._place.info

    def embed_query(self, text: str) -> Vector:
        """One vector of shape (dimension,): of a text that takes several pieces, their mean at unit length."""
        vectors = self._embed([text], as_query=True)[0]
        return vectors[0] if len(vectors) == 1 else unit(vectors.mean(axis=0))

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """For each text its pieces, shape (pieces, dimension): what is too long is cut in pieces, never dropped."""
        return self._embed(texts, as_query=False)

    def _embed(self, texts: Sequence[str], *, as_query: bool) -> list[Vector]:
        model = self._loaded()
        prefix = self._place.prefixes[0 if as_query else 1]
        try:
            cut = [model.pieces(text, prefix) for text in texts]
            flat = [prefix + piece for pieces in cut for piece in pieces]
            if self._threads == 1 or len(flat) < 2:
                rows = iter([model.embed(piece, as_query) for piece in flat])
            else:
                with ThreadPoolExecutor(min(self._threads, len(flat))) as pool:
                    rows = iter(list(pool.map(lambda piece: model.embed(piece, as_query), flat)))
        except Exception as error:  # onnxruntime's and tokenizers' errors share no base class
            raise EmbedderError(f"the embedding model {self.info.name} failed on a text: {_line(error)}") from error
        return [np.stack([next(rows) for _ in pieces]) for pieces in cut]

    def _loaded(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = _load(self._encoder, self.info)
            return self._model


@dataclass(frozen=True, slots=True)
class _Place:
    """A model that was found, and what it wants before a query and before a document."""

    info: ModelInfo
    prefixes: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Model:
    encoder: Any
    tokenizer: Tokenizer  # neither cuts nor pads
    room: int  # tokens of a text with its prefix
    dimension: int

    def pieces(self, text: str, prefix: str) -> list[str]:
        """The pieces of a text, each of which the model takes whole after the prefix."""
        before = len(self.tokenizer.encode(prefix, add_special_tokens=False).ids) if prefix else 0
        return by_tokens(self.tokenizer, text, max(1, self.room - before))

    def embed(self, piece: str, as_query: bool) -> Vector:
        """One vector at unit length; zeros where the model gives no direction."""
        made = self.encoder.query_embed([piece]) if as_query else self.encoder.passage_embed([piece])
        (vector,) = made
        if vector.shape != (self.dimension,):
            raise ValueError(f"its vectors have the shape {vector.shape}, not {self.dimension} dimensions")
        return unit(vector.astype(np.float32))


def default_cache() -> Path:
    """Where fetched models are kept: in the user's cache directory."""
    return platformdirs.user_cache_path("twofold") / "embedders"


def _fastembed() -> ModuleType:
    try:
        package = import_module("fastembed")
        # It prints what it raises, and what it raises is told in our words.
        import_module("loguru").logger.disable("fastembed")
        import_module("onnxruntime").disable_telemetry_events()
    except ImportError as error:
        raise MissingExtra(
            f"this embedding model needs fastembed; get it with: pip install 'twofold[fastembed]' ({error})"
        ) from error
    return package


def _of_folder(package: ModuleType, folder: Path) -> tuple[_Place, Any]:
    if not folder.is_dir():
        raise EmbedderError(f"the embedding model's folder {folder} is not there; bring it back, or name another model")
    file = next((file for file in MODEL_FILES if (folder / file).is_file()), "")
    lacking = [] if file else [" or ".join(MODEL_FILES[:2])]
    lacking += [name for name in NEEDED if not (folder / name).is_file()]
    if lacking:
        raise EmbedderError(f"the embedding model's folder {folder} lacks {', '.join(lacking)}; copy all of it there")
    dimension, pooling = _pooling(folder)
    wanted = _prompts(folder) or prefixes(folder.name)
    name = f"{LOCAL}{file}:{pooling}:{dimension}"
    with _registration:
        if name not in {model["model"] for model in package.TextEmbedding.list_supported_models()}:
            known = import_module("fastembed.common.model_description")
            package.TextEmbedding.add_custom_model(
                name,
                pooling=known.PoolingType[pooling],
                normalization=True,
                sources=known.ModelSource(hf="twofold/local"),
                dim=dimension,
                model_file=file,
            )
    # The folder as cache too, since fastembed makes the directory of its cache.
    encoder = _encoder(package, name, folder, False, **ON_ONE_CORE, specific_model_path=str(folder))
    digest = _digest(folder, file, f"{pooling} {wanted}")
    return _Place(ModelInfo(f"{NAME}{folder}", dimension, digest), wanted), encoder


def _of_list(package: ModuleType, name: str, cache: Path, download: bool) -> tuple[_Place, Any]:
    listed = [model for model in package.TextEmbedding.list_supported_models() if not model["model"].startswith(LOCAL)]
    found = next((model for model in listed if model["model"].lower() == name.lower()), None)
    if found is None:
        raise InvalidInput(
            f"fastembed has no embedding model {name!r}; give a folder, by a path that begins with / or ./, or one of "
            + ", ".join(model["model"] for model in listed)
        )
    name = found["model"]
    # A static model takes no such options, and says so.
    options = {} if found["model_file"].endswith(".safetensors") else ON_ONE_CORE
    try:
        encoder = _encoder(package, name, cache, download, **options)
    except Exception as error:  # of fastembed, the hub and the network: no common base class
        if download:
            raise EmbedderError(f"the embedding model {name} could not be fetched: {_line(error)}") from error
        raise EmbedderError(
            f"the embedding model {name} is not in {cache}, and is not fetched unasked; allow that with "
            f"TWOFOLD_ALLOW_DOWNLOAD=on, or name a folder that has it, as in {NAME}/path/to/folder"
        ) from error
    wanted = prefixes(name)
    digest = _digest(Path(encoder.model._model_dir), found["model_file"], f"{name} {wanted}")
    return _Place(ModelInfo(NAME + name, int(found["dim"]), digest), wanted), encoder


def _encoder(package: ModuleType, name: str, cache: Path, download: bool, **more: object) -> Any:
    return package.TextEmbedding(name, cache_dir=str(cache), lazy_load=True, local_files_only=not download, **more)


def _load(encoder: Any, info: ModelInfo) -> _Model:
    try:
        (_,) = encoder.embed(["."])  # which loads it
        tokenizer = encoder.model.tokenizer
        # Without this a text that says "[SEP]" would be read as the end of a text.
        tokenizer.encode_special_tokens = True
        most = min(MAX_TOKENS, int(tokenizer.truncation["max_length"]))
        counter = type(tokenizer).from_str(tokenizer.to_str())
        counter.encode_special_tokens = True
        counter.no_truncation()
        counter.no_padding()
        return _Model(encoder, counter, most - counter.num_special_tokens_to_add(False), info.dimension)
    except Exception as error:  # onnxruntime's and tokenizers' errors share no base class
        raise EmbedderError(
            f"the embedding model {info.name} cannot be loaded, its files are damaged: {_line(error)}"
        ) from error


def _pooling(folder: Path) -> tuple[int, str]:
    """The dimension of a folder's vectors, and how its tokens become one, as sentence-transformers writes it down."""
    if any("Dense" in str(module) for module in _json(folder / "modules.json", [])):
        raise EmbedderError(f"the model in {folder} has a dense layer, which fastembed does not run; name another one")
    told = _json(folder / POOLING, {})
    modes = [key.removeprefix("pooling_mode_") for key, is_on in told.items() if is_on is True]
    modes = [mode for mode in modes if mode in POOLINGS] or [str(told.get("pooling_mode"))]
    dimension = told.get("word_embedding_dimension") or told.get("embedding_dimension")
    if len(modes) != 1 or modes[0] not in POOLINGS or not isinstance(dimension, int):
        raise EmbedderError(
            f"{folder / POOLING} does not say word_embedding_dimension and one of pooling_mode_cls_token, "
            "pooling_mode_mean_tokens, pooling_mode_lasttoken; write that there"
        )
    return dimension, POOLINGS[modes[0]]


def _prompts(folder: Path) -> tuple[str, str] | None:
    """The prefixes that a folder names itself."""
    told = _json(folder / "config_sentence_transformers.json", {}).get("prompts")
    if not isinstance(told, dict) or not told:
        return None
    return str(told.get("query") or ""), str(told.get("document") or told.get("passage") or "")


def _json(path: Path, instead: Any) -> Any:
    """What a file says; `instead` where it is not there."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return instead
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the embedding model's file {path} cannot be read: {_line(error)}") from error
    if not isinstance(found, type(instead)):
        raise EmbedderError(f"the embedding model's file {path} is damaged; copy the whole model there")
    return found


def _digest(folder: Path, file: str, more: str) -> str:
    """What tells a model's files from others: the weights, those that lie beside them, and the tokenizer."""
    digest = hashlib.sha256(more.encode())
    model = folder / file
    try:
        for path in [*sorted(model.parent.glob(f"{model.name}*")), folder / "tokenizer.json"]:
            size = path.stat().st_size
            digest.update(f"\n{path.name} {size}\n".encode())
            with path.open("rb") as opened:
                for number in range(BLOCKS):
                    opened.seek(size * number // BLOCKS)
                    digest.update(opened.read(BLOCK))
    except OSError as error:
        raise EmbedderError(f"the embedding model in {folder} cannot be read: {_line(error)}") from error
    return digest.hexdigest()[:16]


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
