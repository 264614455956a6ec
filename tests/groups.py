"""What each tensor is for, read off the name that checkpoints give it: queries, feed-forward, experts, norms.

HFModel names differ from family to family, and yet a few patterns tell them apart; the first that fits decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfcalc.core.number import Num

OTHER = "other"

PATTERNS = (
    ("attn_sinks", r"(^|\.)sinks?$"),
    ("attn_relpos", r"\.pos_(q_|key_|query_)?proj|rel_attn\.r$"),
    ("relative_position", r"relative|rel_embeddings|r_[wrs]\.bias$|seg_embed$|position\.bias$"),
    (
        "mlm_head",
        r"predictions\.(transform|dense|LayerNorm)|(generator|electra)_predictions|lm_head\.(dense|layer_norm)|vocab_transform",
    ),
    ("qk_norm", r"attn.*\.(q|k|q_a|kv_a|kv|query|key)_?(norm|layernorm)"),
    ("router", r"shared_expert_gate"),
    ("shared_experts", r"shared_(experts?|mlp)"),
    ("router", r"router(?!_norm)|(mlp|moe|mixer|feed_forward)\.gate(\.|$)"),
    ("experts", r"experts"),
    ("norm", r"(norm|LayerNorm|(^|\.|_)ln)[^.]*(\.bias)?$"),
    (
        "lm_head",
        r"(^|\.)(lm_head|lm_loss|output_layer|vocab_projector|head|decoder\.bias|generator_lm_head)(\.bias)?$|cls\.predictions|^predictions\.|^output$",
    ),
    ("pooler", r"pooler"),
    ("type_embedding", r"token_type"),
    ("position_embedding", r"position(?!s_embed)|wpe|pos_emb|embed_positions"),
    (
        "embedding",
        r"word_embed|wte$|embed_tokens|embed_in|shared$|tok_embed|token_embedding|tokens_embed|positions_embed"
        r"|(model|backbone|rwkv)\.embeddings$|transformer\.w$",
    ),
    ("ssm", r"mamba|ssm|conv(1d|_1d)?(\.|$)|linear_attn|rwkv.*attention|temporal_block\.(linear|rg_lru)"),
    ("attn_kv_latent", r"kv_[ab]_proj|self_attn\.(indexer|compressor)"),
    ("attn_qkv", r"qkv|c_attn|query_key_value|attn\.in_proj|self\.in_proj|Wqkv|W_pack|wqkv"),
    ("attn_q", r"q_(a_|b_)?proj|query|[Aa]tt(entio)?n\.q(\.|$)|self\.q\.bias|q_lin|\.Wq"),
    ("attn_k", r"k_proj|att(entio)?n\.(\w+\.)?key|[Aa]tt(entio)?n\.k(\.|$)|k_lin|\.Wk"),
    ("attn_v", r"v_proj|att(entio)?n\.(\w+\.)?value|[Aa]tt(entio)?n\.v(\.|$)|self\.v\.bias|v_lin|\.Wv"),
    (
        "attn_o",
        r"o_(a_|b_)?proj|attn\.out_proj|attention\.(output|out|dense|out_proj)|attn\.(dense|c_proj|Wo|proj|o|output)"
        r"|Attention\.o$|out_lin|attention\.wo$|multi_head_attention\.dense|self_attention\.dense",
    ),
    ("ssm", r"mixer"),
    ("ffn", r"mlp|ffn|fc\d|intermediate|output\.dense|DenseReluDense|feed_forward|\.ff"),
)
"""Tried from top to bottom."""

COMPILED = tuple((group, re.compile(pattern)) for group, pattern in PATTERNS)


def group_of(name: str) -> str:
    """The group of a tensor by its plain name."""
    return next((group for group, pattern in COMPILED if pattern.search(name)), OTHER)


def by_group(tensors: Mapping[str, Num]) -> dict[str, Num]:
    """How many of these numbers each group has."""
    sums: dict[str, Num] = {}
    for name, size in tensors.items():
        group = group_of(name)
        sums[group] = sums.get(group, 0) + size
    return sums
