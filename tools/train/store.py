"""A model directory: config.json, model.safetensors, tokenizer.json."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from model import Config, LanguageModel
from safetensors_io import load_bf16, save_bf16
from tokenizer import END_OF_TEXT_ID, Tokenizer

# What config.json says beside the shape: constants of this family of models.
_FIXED = {
    "architectures": ["LinearAttentionForCausalLM"],
    "attn": None,
    "attn_mode": "chunk",
    "bos_token_id": END_OF_TEXT_ID,
    "elementwise_affine": True,
    "eos_token_id": END_OF_TEXT_ID,
    "expand_k": 1.0,
    "expand_v": 1.0,
    "hidden_act": "swish",
    "hidden_ratio": None,
    "initializer_range": 0.02,
    "model_type": "linear_attn",
    "norm_feature_map": True,
    "norm_k": False,
    "norm_q": False,
    "num_kv_heads": None,
    "pad_token_id": None,
    "tie_feature_map_qk": False,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}


def save_model(path: pathlib.Path, model: LanguageModel, tokenizer: Tokenizer,
               max_position_embeddings: int) -> None:
    """Writes the directory; the weights are rounded to BF16."""
    path.mkdir(parents=True, exist_ok=True)
    config = {**_FIXED, **dataclasses.asdict(model.config),
              "max_position_embeddings": max_position_embeddings}
    (path / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_bf16(path / "model.safetensors", model.state_dict())
    tokenizer.save(path / "tokenizer.json")


def load_model(path: pathlib.Path) -> tuple[LanguageModel, Tokenizer]:
    """Reads the directory; the weights are BF16 values held in float32."""
    stored = json.loads((path / "config.json").read_text())
    for key, value in _FIXED.items():
        if stored.get(key) != value:
            raise ValueError(f"{path}: {key} is {stored.get(key)!r}, only {value!r} is known")
    names = [field.name for field in dataclasses.fields(Config)]
    config = Config(**{name: stored[name] for name in names})
    model = LanguageModel(config).eval()
    model.load_state_dict(load_bf16(path / "model.safetensors"))
    return model, Tokenizer.load(path / "tokenizer.json")
