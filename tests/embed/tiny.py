"""An embedding model of a few kilobytes: mean pooling makes of a text the direction of its words' counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.rerank.tiny import MAX_TOKENS, SPECIAL, VOCABULARY, _tokenizer

DIMENSION = len(VOCABULARY)


def make(
    folder: Path,
    *,
    model_file: str = "model.onnx",
    dimension: int = DIMENSION,
    specials: float = 0.0,
    pooling: str = "mean_tokens",
) -> Path:
    """Write the model, its tokenizer and configuration; `specials` is what the tokens around a text weigh."""
    (folder / model_file).parent.mkdir(parents=True, exist_ok=True)
    (folder / model_file).write_bytes(_model(dimension, specials))
    (folder / "tokenizer.json").write_text(_tokenizer())
    configuration = {"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    told = {"word_embedding_dimension": dimension, "pooling_mode_max_tokens": False, f"pooling_mode_{pooling}": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    return folder


def make_cache(cache: Path, repository: str, model_file: str, dimension: int, specials: float = 0.0) -> Path:
    """A cache as huggingface_hub leaves it after a download; returns the folder of the model in it."""
    home = cache / f"models--{repository.replace('/', '--')}"
    revision = "0" * 40
    folder = make(home / "snapshots" / revision, model_file=model_file, dimension=dimension, specials=specials)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(revision)
    return folder


def make_static(folder: Path, dimension: int) -> Path:
    """A model without a network of its own: one vector a token, in a file of safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = _rows(dimension, 0.0).tobytes()
    told = {"embeddings": {"dtype": "F32", "shape": [len(VOCABULARY), dimension], "data_offsets": [0, len(rows)]}}
    header = json.dumps(told).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + rows)
    (folder / "tokenizer.json").write_text(_tokenizer())
    return folder


def _rows(dimension: int, specials: float) -> np.ndarray:
    rows = np.eye(len(VOCABULARY), dimension, dtype=np.float32)
    rows[: len(SPECIAL)] *= specials
    return rows


def _model(dimension: int, specials: float) -> bytes:
    onnx = pytest.importorskip("onnx")
    value, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gather", ["rows", "input_ids"], ["last_hidden_state"])],
        "one row a token",
        [value("input_ids", kinds.INT64, ["batch", "tokens"])],
        [value("last_hidden_state", kinds.FLOAT, ["batch", "tokens", dimension])],
        [onnx.numpy_helper.from_array(_rows(dimension, specials), "rows")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())
