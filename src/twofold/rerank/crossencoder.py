"""A cross-encoder run by fastembed on the CPU, from a folder or by a name of fastembed's list.

Nothing is fetched when it is used: a named model is taken from the cache, where `fetch` puts it when the user asks.
Every pair of query and text goes through the model alone, and pairs run side by side in threads of one core each,
for the reason that twofold.embed.minilm gives: so a score depends on nothing but its pair.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import platformdirs

from twofold.errors import RerankerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Rerankers are trained on about so many tokens, and those that take 8,192 would need gigabytes for them.
MAX_TOKENS = 512
# A sentence or two, so that what is cut at the end of one piece is whole in the next.
OVERLAP = 32
# A tokenised text takes a hundred times its size, hence a long text is tokenised in parts.
PART = re.compile(r"(?s).{1,50000}(?=[ \t\r\n]|\Z)|.{1,50000}")

# Where a folder may have its model: beside the rest, or as the hub's repositories have it.
MODEL_FILES = ("model.onnx", "onnx/model.onnx")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
# fastembed takes a folder only for a model that it knows; these are known to it by name, for any folder.
LOCAL = "twofold/local:"

_registration = threading.Lock()


class CrossEncoder:
    """Scores pairs of query and text, texts of any length. One instance serves any number of threads.

    `model` is a folder with model.onnx (or onnx/model.onnx), tokenizer.json and tokenizer_config.json, or a name
    of fastembed's list. It is loaded at the first use. `cache` is where `fetch` put named models; `threads` bounds
    the cores that one call uses, 0 takes all.
    """

    def __init__(self, model: str | Path, *, cache: Path | None = None, threads: int = 0) -> None:
        self._model_name = model
        self._cache = cache or default_cache()
        self._threads = threads if threads > 0 else _cores()
        self._lock = threading.Lock()
        self._model: _Model | None = None

    @property
    def name(self) -> str:
        return str(self._model_name)

    def load(self) -> None:
        """Load the model now rather than at the first use. Raises RerankerError."""
        self._loaded()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """For each text its score, that of its best piece where the model does not take it whole.

        Of a query that takes more than half of the model's tokens, its beginning counts.
        Raises RerankerError: the extra or the model is missing, or a pair could not be scored.
        """
        if not texts:
            return []
        model = self._loaded()
        try:
            cut = model.pieces(query, texts)
            pairs = [pair for pieces in cut for pair in pieces]
            with ThreadPoolExecutor(min(self._threads, len(pairs))) as pool:
                scores = iter(list(pool.map(model.score, pairs)))
        except Exception as error:  # onnxruntime's and tokenizers' errors share no base class
            raise RerankerError(f"the reranker {self.name} failed on a text: {_line(error)}") from error
        return [max(next(scores) for _ in pieces) for pieces in cut]

    def _loaded(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = _load(self._model_name, self._cache)
            return self._model


def default_cache() -> Path:
    """Where fetched models are kept: in the user's cache directory."""
    return platformdirs.user_cache_path("twofold") / "rerankers"


def fetch(name: str, cache: Path | None = None) -> None:
    """Bring a model of fastembed's list into the cache, over the network unless it is there. Raises RerankerError.

    This is the only thing here that uses the network.
    """
    package = _fastembed()
    _known(package, name)
    try:
        package.TextCrossEncoder(name, cache_dir=str(cache or default_cache()), lazy_load=True)
    except Exception as error:  # of fastembed, the hub and the network: no common base class
        raise RerankerError(f"the reranker {name} could not be fetched: {_line(error)}") from error


@dataclass(frozen=True, slots=True)
class _Model:
    encoder: Any
    tokenizer: Tokenizer  # neither cuts nor pads
    room: int  # tokens of query and text together

    def pieces(self, query: str, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """For each text the pairs that stand for it, each of which the model takes whole."""
        offsets = self._offsets(query)
        half = self.room // 2
        if len(offsets) > half:
            query = query[: offsets[half - 1][1]]
        room = self.room - min(half, len(offsets))
        return [[(query, piece) for piece in self._cut(text, room)] for text in texts]

    def score(self, pair: tuple[str, str]) -> float:
        (score,) = self.encoder.rerank_pairs([pair], batch_size=1)
        if not math.isfinite(score):
            raise ValueError(f"its score is {score}")
        return float(score)

    def _cut(self, text: str, room: int) -> list[str]:
        """Overlapping pieces of at most `room` tokens that cover the text."""
        offsets = self._offsets(text)
        if len(offsets) <= room:
            return [text]
        found = []
        for cut in _cuts(len(offsets), room):
            piece = text[offsets[cut][0][0] : offsets[cut][-1][1]]
            # What begins within a word may have more tokens than it had in the word.
            found += self._cut(piece, room) if 0 < len(piece) < len(text) else [piece]
        return found

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        """Where in the text each token is, first to last character."""
        offsets: list[tuple[int, int]] = []
        for part in PART.finditer(text):
            encoding = self.tokenizer.encode(part.group(), add_special_tokens=False)
            offsets += [(part.start() + start, part.start() + end) for start, end in encoding.offsets]
        return offsets


def _cuts(tokens: int, room: int) -> list[slice]:
    """Slices of about equal length that cover all tokens, neighbours sharing up to OVERLAP of them."""
    overlap = min(OVERLAP, room // 4)
    count = -(-(tokens - overlap) // (room - overlap))
    length = -(-(tokens + (count - 1) * overlap) // count)
    starts = [(tokens - length) * index // (count - 1) for index in range(count)]
    return [slice(start, start + length) for start in starts]


def _load(model: str | Path, cache: Path) -> _Model:
    package = _fastembed()
    if isinstance(model, Path) or Path(model).is_dir():
        encoder = _of_folder(package, Path(model))
    else:
        encoder = _of_cache(package, model, cache)
    try:
        encoder.model.load_onnx_model()
        tokenizer = encoder.model.tokenizer
        # Without this a text that says "[SEP]" would be read as the end of a text.
        tokenizer.encode_special_tokens = True
        most = min(MAX_TOKENS, int(tokenizer.truncation["max_length"]))
        counter = type(tokenizer).from_str(tokenizer.to_str())
        counter.encode_special_tokens = True
        counter.no_truncation()
        counter.no_padding()
        return _Model(encoder, counter, most - counter.num_special_tokens_to_add(True))
    except Exception as error:  # onnxruntime's and tokenizers' errors share no base class
        raise RerankerError(f"the reranker {model} cannot be loaded, its files are damaged: {_line(error)}") from error


def _fastembed() -> ModuleType:
    try:
        package = import_module("fastembed.rerank.cross_encoder")
        # It prints what it raises, and what it raises is told in our words.
        import_module("loguru").logger.disable("fastembed")
        import_module("onnxruntime").disable_telemetry_events()
    except ImportError as error:
        raise RerankerError(f"a cross-encoder needs fastembed: pip install 'twofold[rerank]' ({error})") from error
    return package


def _of_folder(package: ModuleType, folder: Path) -> Any:
    if not folder.is_dir():
        raise RerankerError(f"the reranker's folder {folder} is not there: give a folder, or a name as a string")
    file = next((file for file in MODEL_FILES if (folder / file).is_file()), "")
    lacking = [] if file else [" or ".join(MODEL_FILES)]
    lacking += [name for name in TOKENIZER_FILES if not (folder / name).is_file()]
    if lacking:
        raise RerankerError(f"the reranker's folder {folder} lacks {', '.join(lacking)}: copy the whole model there")
    with _registration:
        if LOCAL + file not in _names(package, ours=True):
            source = import_module("fastembed.common.model_description").ModelSource(hf="twofold/local")
            package.TextCrossEncoder.add_custom_model(LOCAL + file, source, model_file=file)
    # The folder as cache too, since fastembed makes the directory of its cache.
    return _encoder(package, LOCAL + file, folder, specific_model_path=str(folder))


def _of_cache(package: ModuleType, name: str, cache: Path) -> Any:
    _known(package, name)
    try:
        return _encoder(package, name, cache)
    except (OSError, ValueError) as error:
        raise RerankerError(
            f"the reranker {name} is not in {cache}, and is not fetched unasked: "
            f'run python -c "from twofold.rerank.crossencoder import fetch; fetch({name!r})" with a network'
        ) from error


def _encoder(package: ModuleType, name: str, cache: Path, **more: str) -> Any:
    return package.TextCrossEncoder(
        name,
        cache_dir=str(cache),
        threads=1,
        providers=["CPUExecutionProvider"],
        lazy_load=True,
        local_files_only=True,
        **more,
    )


def _known(package: ModuleType, name: str) -> None:
    names = _names(package)
    if name.lower() not in {known.lower() for known in names}:
        raise RerankerError(f"there is no reranker {name!r}: give a folder, or one of {', '.join(names)}")


def _names(package: ModuleType, ours: bool = False) -> list[str]:
    names = [str(model["model"]) for model in package.TextCrossEncoder.list_supported_models()]
    return [name for name in names if name.startswith(LOCAL) == ours]


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
