"""A sample repository with budgets: two models, two scenarios, and a pull request that changes nothing yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.repositories import Repository

LAYERS, HEADS, KV_HEADS, HEAD_DIM = 32, 32, 8, 128
CHAT: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": HEADS * HEAD_DIM,
    "intermediate_size": 14_336,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": 128_256,
    "max_position_embeddings": 8_192,
    "dtype": "bfloat16",
}
TOKENS, BYTES = 32 * 1_024, 2
CACHE = 2 * LAYERS * KV_HEADS * HEAD_DIM * BYTES * TOKENS
"""Keys and values of every layer, in bf16, for each token."""
WHY = "32k tokens on one L40S"
FILE = f"""version = 1

[models.chat]
config = "configs/chat.json"

[models.small]
d_model = 512
layers = 6

[scenarios.serving]
serve = true
context = "32k"

[[budget]]
model = "chat"
scenario = "serving"
metric = "memory.kv_cache_bytes"
max_increase = "10%"
why = "{WHY}"

[[budget]]
model = "*"
metric = "params.total_params"
max = "9B"
"""
FILES = {"tfcalc.toml": FILE, "configs/chat.json": json.dumps(CHAT, indent=2) + "\n"}


def sample(folder: Path, files: Mapping[str, str] = FILES) -> Repository:
    """The repository, with a commit of these files and one that changes nothing; ``folder`` may be there, and empty."""
    repository = Repository(folder)
    repository.commit(files, "The models and their budgets")
    repository.commit({}, "Nothing")
    return repository


def config(**changes: object) -> str:
    """The text of the chat model's config with these fields."""
    return json.dumps({**CHAT, **changes}, indent=2) + "\n"
