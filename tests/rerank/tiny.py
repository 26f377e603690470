"""A cross-encoder of a few kilobytes: its score is how many tokens of the text are also in the query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = tuple("the a is was in green gate key pot flower train late lamp red door under snow".split())
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz.'\"[]")
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "##qu")
MAX_TOKENS = 24


def make(folder: Path, *, model_file: str = "model.onnx", logarithm: bool = False) -> Path:
    """Write the model, its tokenizer and configuration; with `logarithm`, a text that shares nothing gets -inf."""
    (folder / model_file).parent.mkdir(parents=True, exist_ok=True)
    (folder / model_file).write_bytes(_model(logarithm))
    (folder / "tokenizer.json").write_text(_tokenizer())
    configuration = {"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    return folder


def make_cache(cache: Path, repository: str) -> Path:
    """A cache as huggingface_hub leaves it after a download."""
    home = cache / f"models--{repository.replace('/', '--')}"
    revision = "0" * 40
    make(home / "snapshots" / revision, model_file="onnx/model.onnx")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(revision)
    return cache


def _tokenizer() -> str:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {token: id_ for id_, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return str(tokenizer.to_str())


def _model(logarithm: bool) -> bytes:
    onnx = pytest.importorskip("onnx")
    node, value, kinds = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto

    def numbers(name: str, values: list[int]) -> object:
        return onnx.helper.make_tensor(name, kinds.INT64, [len(values)], values)

    nodes = [
        node("Greater", ["input_ids", "last_special"], ["plain"]),
        node("Equal", ["token_type_ids", "one"], ["second"]),
        node("Not", ["second"], ["first"]),
        node("And", ["plain", "first"], ["in_query"]),
        node("And", ["plain", "second"], ["in_text"]),
        node("Unsqueeze", ["in_query", "one"], ["query_mask"]),
        node("Unsqueeze", ["in_text", "two"], ["text_mask"]),
        node("Unsqueeze", ["input_ids", "one"], ["query_ids"]),
        node("Unsqueeze", ["input_ids", "two"], ["text_ids"]),
        node("Equal", ["text_ids", "query_ids"], ["equal"]),
        node("And", ["query_mask", "text_mask"], ["both"]),
        node("And", ["equal", "both"], ["shared"]),
        node("Cast", ["shared"], ["counted"], to=kinds.FLOAT),
        node("ReduceMax", ["counted"], ["hit"], axes=[2], keepdims=0),
        node("ReduceSum", ["hit", "one"], ["count"], keepdims=1),
        node("Log" if logarithm else "Identity", ["count"], ["logits"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "shared tokens",
        [value(name, kinds.INT64, ["batch", "tokens"]) for name in ("input_ids", "token_type_ids")],
        [value("logits", kinds.FLOAT, ["batch", 1])],
        [numbers("last_special", [3]), numbers("one", [1]), numbers("two", [2])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())
