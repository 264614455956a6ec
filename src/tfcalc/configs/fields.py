"""The letters and meanings of config.json fields, for formulas and their legends.

A field that is not listed is its own symbol (``q_lora_rank``), so nothing needs to be added here for a formula to be
right; a letter only makes it shorter to read.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """A letter, and what it stands for."""

    letter: str
    meaning: str


_HIDDEN = Field("h", "hidden size")
_LAYERS = Field("n", "layers")
_HEADS = Field("a", "attention heads")
_FFN = Field("f", "feed-forward size")
_POSITIONS = Field("T", "positions")
_EXPERTS = Field("E", "experts")
_KERNEL = Field("k_c", "convolution kernel")
_PATCH = Field("P", "patch size")

FIELDS = {
    "hidden_size": _HIDDEN,
    "n_embd": _HIDDEN,
    "n_embed": _HIDDEN,
    "d_model": _HIDDEN,
    "dim": _HIDDEN,
    "embed_dim": _HIDDEN,
    "num_hidden_layers": _LAYERS,
    "n_layer": _LAYERS,
    "n_layers": _LAYERS,
    "num_layers": _LAYERS,
    "depth": _LAYERS,
    "encoder_layers": Field("n_e", "encoder layers"),
    "decoder_layers": Field("n_d", "decoder layers"),
    "num_decoder_layers": Field("n_d", "decoder layers"),
    "num_attention_heads": _HEADS,
    "n_head": _HEADS,
    "n_heads": _HEADS,
    "num_heads": _HEADS,
    "encoder_attention_heads": Field("a_e", "encoder attention heads"),
    "decoder_attention_heads": Field("a_d", "decoder attention heads"),
    "num_key_value_heads": Field("g", "key and value heads"),
    "num_kv_heads": Field("g", "key and value heads"),
    "multi_query_group_num": Field("g", "key and value heads"),
    "head_dim": Field("d", "head width"),
    "d_kv": Field("d", "head width"),
    "kv_channels": Field("d", "head width"),
    "intermediate_size": _FFN,
    "n_inner": _FFN,
    "d_inner": _FFN,
    "d_ff": _FFN,
    "ffn_dim": _FFN,
    "ffn_hidden_size": _FFN,
    "hidden_dim": _FFN,
    "dff": _FFN,
    "encoder_ffn_dim": Field("f_e", "encoder feed-forward size"),
    "decoder_ffn_dim": Field("f_d", "decoder feed-forward size"),
    "vocab_size": Field("V", "vocabulary"),
    "padded_vocab_size": Field("V", "vocabulary"),
    "max_position_embeddings": _POSITIONS,
    "n_positions": _POSITIONS,
    "type_vocab_size": Field("T_t", "token types"),
    "embedding_size": Field("e", "embedding size"),
    "word_embed_proj_dim": Field("e", "embedding size"),
    "num_experts": _EXPERTS,
    "num_local_experts": _EXPERTS,
    "n_routed_experts": _EXPERTS,
    "num_experts_per_tok": Field("k", "experts per token"),
    "n_shared_experts": Field("E_s", "shared experts"),
    "moe_intermediate_size": Field("f_x", "expert feed-forward size"),
    "shared_expert_intermediate_size": Field("f_s", "shared expert's feed-forward size"),
    "first_k_dense_replace": Field("n_0", "dense layers before the experts"),
    "q_lora_rank": Field("r_q", "query rank"),
    "kv_lora_rank": Field("r", "key-value rank"),
    "qk_nope_head_dim": Field("d_n", "non-rotary query-key head width"),
    "qk_rope_head_dim": Field("d_r", "rotary query-key head width"),
    "v_head_dim": Field("d_v", "value head width"),
    "index_n_heads": Field("a_i", "indexer heads"),
    "index_head_dim": Field("d_i", "indexer head width"),
    "state_size": Field("N_s", "state size"),
    "ssm_state_size": Field("N_s", "state size"),
    "mamba_d_state": Field("N_s", "state size"),
    "conv_kernel": _KERNEL,
    "mamba_d_conv": _KERNEL,
    "expand": Field("e_m", "expansion of the state-space width"),
    "mamba_expand": Field("e_m", "expansion of the state-space width"),
    "time_step_rank": Field("R", "time-step rank"),
    "mamba_dt_rank": Field("R", "time-step rank"),
    "relative_attention_num_buckets": Field("B", "relative position buckets"),
    "patch_size": _PATCH,
    "image_size": Field("I", "image size"),
    "projection_dim": Field("h_p", "projection size"),
    "attention_hidden_size": Field("h_a", "attention hidden size"),
    "conv1d_width": _KERNEL,
    "conv_L_cache": _KERNEL,
    "num_channels": Field("C", "image channels"),
    "in_channels": Field("C", "image channels"),
    "num_labels": Field("K", "labels"),
    "linear_num_key_heads": Field("a_k", "key heads of linear attention"),
    "linear_num_value_heads": Field("a_v", "value heads of linear attention"),
    "linear_key_head_dim": Field("d_k", "key head width of linear attention"),
    "linear_value_head_dim": Field("d_v", "value head width of linear attention"),
    "linear_conv_kernel_dim": _KERNEL,
    "spatial_merge_size": Field("m_s", "patches merged per side"),
    "temporal_patch_size": Field("p_t", "frames per patch"),
    "out_hidden_size": Field("h_o", "output size"),
    "num_position_embeddings": _POSITIONS,
    "num_mel_bins": Field("M", "mel bins"),
    "max_source_positions": Field("T_s", "source positions"),
    "max_target_positions": Field("T_t", "target positions"),
    "num_hidden_groups": Field("G", "groups of layers that share weights"),
    "inner_group_num": Field("G_i", "layers per group"),
    "mamba_num_heads": Field("a_m", "state-space heads"),
    "mamba_head_dim": Field("d_m", "width of a state-space head"),
    "mamba_n_heads": Field("a_m", "state-space heads"),
    "mamba_d_head": Field("d_m", "width of a state-space head"),
    "n_groups": Field("G", "state-space groups"),
    "mamba_n_groups": Field("G", "state-space groups"),
    "lru_width": Field("w", "recurrence width"),
}

SCOPES = {
    "text_config": "",
    "vision_config": "vis",
    "audio_config": "aud",
    "encoder": "enc",
    "decoder": "dec",
    "encoder_config": "enc",
    "decoder_config": "dec",
}
"""Subscripts of the letters of nested configs: ``h_vis``."""


def field_of(path: str, taken: dict[str, str]) -> Field:
    """The letter and meaning of the field at ``path``; its own path where the letter is ``taken`` by another."""
    *scopes, name = path.split(".")
    suffix = "_".join(part for scope in scopes if (part := SCOPES.get(scope, scope.removesuffix("_config"))))
    known = FIELDS.get(name, Field(name, name.replace("_", " ")))
    letter = f"{known.letter}_{suffix}" if suffix else known.letter
    if taken.setdefault(letter, path) != path:
        letter = path.replace(".", "_")
        taken[letter] = path
    return Field(letter, f"{known.meaning} ({path})")
