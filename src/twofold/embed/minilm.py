"""The bundled embedder: all-MiniLM-L6-v2 with int8 weights, run by onnxruntime on the CPU, offline.

Every piece of text goes through the model alone, and pieces run side by side in threads of one core each.
The model quantises its activations with one scale per tensor, so in a batch a vector would depend on its
neighbours and on padding; alone it depends on its text only. On two cores this is as fast as batches.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twofold.embed import ModelInfo
from twofold.errors import EmbedderError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "all-MiniLM-L6-v2-int8"
DIMENSION = 384
# The start of the model file's SHA-256. Hashing 23 MB at each start would cost more than loading them.
DIGEST = "4d075c4be2dcf519"
FOLDER = Path(__file__).parent.parent / "models"

# The length the model was made for, of which [CLS] and [SEP] take two.
MAX_TOKENS = 256
SPECIAL_TOKENS = 2
UNKNOWN = "[UNK]"
# A sentence or two, so that what is cut at the end of one piece is whole in the next.
OVERLAP = 32
# A tokenised text takes a hundred times its size, hence a long text is tokenised in parts. A cut at white
# space changes no token.
PART = re.compile(r"(?s).{1,50000}(?=[ \t\r\n]|\Z)|.{1,50000}")
# Texts are tokenised so many characters at a time, which bounds the memory for any number of texts.
GROUP_CHARACTERS = 500_000

# Tokens for each letter or digit of a text, punctuation aside: about .25 in English, .4 in German, 1 in Arabic, Russian
# or Chinese, of which the vocabulary has single letters at most. Unknown tokens count by their share.
FLUENT, FOREIGN = 0.5, 0.8
FLUENCY_CHARACTERS = 1000  # of a text that are looked at

Item = TypeVar("Item")
Result = TypeVar("Result")
Ids = NDArray[np.int64]
Vector = NDArray[np.float32]


class MiniLM:
    """Embeds texts of any length as unit vectors of 384 float32. One instance serves any number of threads.

    `threads` bounds the cores that one call uses; 0 takes all. `folder` holds minilm.onnx and tokenizer.json.
    """

    def __init__(self, threads: int = 0, folder: Path = FOLDER) -> None:
        self._threads = threads if threads > 0 else _cores()
        self._folder = folder
        self._lock = threading.Lock()
        self._model: _Model | None = None

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(NAME, DIMENSION, DIGEST)

    def embed_query(self, text: str) -> Vector:
        """One vector of shape (384,): of a text that takes several pieces, their mean at unit length."""
        vectors = self.embed_documents([text])[0]
        return vectors[0] if len(vectors) == 1 else _unit(vectors.mean(axis=0))

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """For each text its pieces, shape (pieces, 384): what is too long is cut in pieces, never dropped."""
        model = self._loaded()
        vectors: list[Vector] = []
        for group in _groups(texts):
            cut = self._each(model.pieces, group)
            rows = iter(self._each(model.embed, [piece for pieces in cut for piece in pieces]))
            vectors += [np.stack([next(rows) for _ in pieces]) for pieces in cut]
        return vectors

    def fluency(self, text: str) -> float:
        """How much of a text the vocabulary holds in more than single letters: 1 in English, 0 in Arabic."""
        beginning = text[:FLUENCY_CHARACTERS]
        tokens = self._loaded().words(beginning)
        letters = sum(map(str.isalnum, beginning))
        strange = max(len(tokens) / max(letters, 1), tokens.count(UNKNOWN) / max(len(tokens), 1))
        return min(1.0, max(0.0, (FOREIGN - strange) / (FOREIGN - FLUENT)))

    def _loaded(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = _load(self._folder)
            return self._model

    def _each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if self._threads == 1 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(self._threads, len(items))) as pool:
            return list(pool.map(function, items))


@dataclass(frozen=True, slots=True)
class _Model:
    tokenizer: Tokenizer
    session: Any
    failures: tuple[type[Exception], ...]

    def pieces(self, text: str) -> list[Ids]:
        """The token ids of a text, each piece with [CLS] and [SEP] and of shape (1, tokens)."""
        _refuse_surrogates(text)
        ids: list[int] = []
        try:
            for part in PART.findall(text):
                ids += self.tokenizer.encode(part, add_special_tokens=False).ids
        except Exception as error:  # tokenizers raises nothing narrower
            raise EmbedderError(f"the text could not be tokenised: {error}") from error
        start, end = self.tokenizer.token_to_id("[CLS]"), self.tokenizer.token_to_id("[SEP]")
        return [np.array([[start, *ids[cut], end]], dtype=np.int64) for cut in _cuts(len(ids))]

    def words(self, text: str) -> list[str]:
        """The tokens of a short text that are no punctuation."""
        _refuse_surrogates(text)
        tokens = self.tokenizer.encode(text, add_special_tokens=False).tokens
        return [token for token in tokens if token == UNKNOWN or any(map(str.isalnum, token))]

    def embed(self, piece: Ids) -> Vector:
        try:
            (mean,) = self.session.run(None, {"input_ids": piece})
        except self.failures as error:
            raise EmbedderError(f"the embedding model failed on a text: {error}") from error
        return _unit(mean[0])


def _load(folder: Path) -> _Model:
    model, vocabulary = folder / "minilm.onnx", folder / "tokenizer.json"
    for path in (model, vocabulary):
        if not path.is_file():
            raise EmbedderError(f"the embedding model's file {path} is missing: reinstall twofold")
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderError(f"the embedding model needs onnxruntime and tokenizers: {error}") from error
    failures = _onnxruntime_failures()
    onnxruntime.disable_telemetry_events()
    try:
        session = onnxruntime.InferenceSession(model, _options(), providers=["CPUExecutionProvider"])
    except failures as error:
        raise _damaged(model) from error
    try:
        tokenizer = Tokenizer.from_file(str(vocabulary))
    except Exception as error:  # tokenizers raises nothing narrower
        raise _damaged(vocabulary) from error
    # Without this a text that says "[SEP]" would be read as the end of a text.
    tokenizer.encode_special_tokens = True
    return _Model(tokenizer, session, failures)


def _damaged(path: Path) -> EmbedderError:
    return EmbedderError(f"the embedding model's file {path} is damaged: reinstall twofold")


def _options() -> Any:
    from onnxruntime import SessionOptions

    options = SessionOptions()
    # One core for each run: the threads are those of the callers, and no idle pool spins in a server.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def _onnxruntime_failures() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    # They share no base class of their own.
    return (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NoSuchFile,
        state.NotImplemented,
        state.RuntimeException,
    )


def _cuts(tokens: int) -> list[slice]:
    """Slices of about equal length that cover all tokens, neighbours sharing at least OVERLAP of them."""
    room = MAX_TOKENS - SPECIAL_TOKENS
    if tokens <= room:
        return [slice(0, tokens)]
    count = -(-(tokens - OVERLAP) // (room - OVERLAP))
    length = -(-(tokens + (count - 1) * OVERLAP) // count)
    starts = [(tokens - length) * index // (count - 1) for index in range(count)]
    return [slice(start, start + length) for start in starts]


def _groups(texts: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        group.append(text)
        characters += len(text)
        if characters >= GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _unit(vector: Vector) -> Vector:
    # The bound keeps a vector of zeros from becoming NaN.
    unit: Vector = vector / np.maximum(np.linalg.norm(vector), np.float32(1e-12))
    return unit


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EmbedderError(
            f"the text has half a character (a lone surrogate) at position {error.start}: remove it"
        ) from error


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
