"""Sizes of tfcalc that the arguments of a user's class are, by their names."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "d_model": (
        "d_model dmodel model_dim dim_model hidden_size embed_dim embed_size embedding_dim embedding_size emb_dim "
        "emb_size emb embed n_embd d_embed dim d_in width hidden normalized_shape features size d h"
    ),
    "n_heads": "n_heads num_heads heads nhead n_head num_attention_heads nheads head h",
    "d_ff": (
        "d_ff dff ff_dim d_ffn ffn_dim ffn_size dim_feedforward feedforward_dim intermediate_size d_hidden hidden_dim "
        "ff ff_size mlp_dim d_inner inner_dim f hidden"
    ),
    "n_kv_heads": "n_kv_heads num_kv_heads num_key_value_heads kv_heads n_groups num_groups",
    "n_layers": "n_layers num_layers layers n_layer num_blocks n_blocks num_hidden_layers depth N n",
    "vocab_size": "vocab_size vocab n_vocab src_vocab_size src_vocab num_embeddings input_vocab V",
    "target_vocab_size": "tgt_vocab_size tgt_vocab trg_vocab_size target_vocab_size target_vocab",
    "head_dim": "head_dim d_head head_size d_k",
    "value_dim": "value_dim d_v",
    "attention_bias": "bias attention_bias attn_bias",
    "ffn_bias": "bias ffn_bias mlp_bias",
}
"""The fields of a Transformer, each with the names for it, the likeliest first; a name of two is the first's."""

HEADS = 8
"""Heads of the classic Transformer, where no argument gives them: no parameter and no product depends on it."""

IN_ORDER = {"ffn": ("d_model", "d_ff"), "": ("d_model", "n_heads", "d_ff")}
"""Sizes of numbers with other names, in their order, by the part that the class is compared with."""


def sizes(arguments: Mapping[str, object], target: str) -> dict[str, int | bool]:
    """The fields of a Transformer that these arguments give.

    A name of theirs that is known decides; whole numbers under other names are taken in their order, while the hidden
    size is not known.

    >>> sizes({"embed": 512, "h": 8, "dropout": 0.1}, "mha")
    {'d_model': 512, 'n_heads': 8}
    >>> sizes({"n_in": 512, "n_mid": 2048}, "ffn"), sizes({"in": 20}, "mha")
    ({'d_model': 512, 'd_ff': 2048}, {'d_model': 20, 'n_heads': 1})
    """
    found: dict[str, int | bool] = {}
    taken: set[str] = set()
    for field, words in NAMES.items():
        switch = field.endswith("_bias")
        for name in words.split():
            value = arguments.get(name)
            usable = isinstance(value, bool) if switch else isinstance(value, int) and not isinstance(value, bool)
            if usable and (switch or name not in taken):
                assert isinstance(value, int)
                found[field] = value
                taken.add(name)
                break
    if "d_model" not in found:
        rest = [
            value
            for name, value in arguments.items()
            if isinstance(value, int) and not isinstance(value, bool) and name not in taken
        ]
        order = [field for field in IN_ORDER.get(target, IN_ORDER[""]) if field not in found]
        found |= dict(zip(order, rest, strict=False))
    if "n_heads" not in found and found.get("d_model", HEADS) % HEADS:
        found["n_heads"] = 1
    return found
