"""The habits of Llama's kin."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import Habits

COHERE = Habits(
    norms="parallel",
    layernorm="python",
    norms_heads="each",
    turns_in_float32=True,
    multiplied=("logits",),
)
GEMMA2 = Habits(
    rmsnorm="gemma",
    multiplied=("embedding",),
    masks=2,
    capped_scores=("attn_logit_softcapping", 50.0),
    capped_logits=("final_logit_softcapping", 30.0),
)
GEMMA3 = Habits(
    rmsnorm="gemma",
    multiplied=("embedding",),
    masks=2,
    angles_by_type=True,
    capped_scores=("attn_logit_softcapping", None),
    capped_logits=("final_logit_softcapping", None),
)
GEMMA4 = Habits(
    norms="gemma4",
    rmsnorm="gemma4",
    multiplied=("embedding",),
    masks=2,
    angles_by_type=True,
    normalizes=("", True),
    routes_in_float32=True,
    capped_logits=("final_logit_softcapping", None),
)
GLM = Habits(angles_by_layer=True, joins_turned=True)
GRANITE = Habits(multiplied=("embedding", "sub-layers", "logits"))
OLMO2 = Habits(norms="behind", rmsnorm="olmo", angles="float32")
DECODERS: dict[str, Habits] = {
    "cohere": COHERE,
    "cohere2": COHERE._replace(masks=2),
    "ernie4_5": Habits(angles="float32", angles_by_layer=True, turns_in_float32=True),
    "gemma": Habits(rmsnorm="gemma", multiplied=("embedding",)),
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gemma4_text": GEMMA4,
    "gemma4_unified_text": GEMMA4,
    "glm": GLM,
    "glm4": GLM._replace(norms="sandwich"),
    "granite": GRANITE,
    "granite_swa": GRANITE._replace(masks=2, sinks="scale"),
    "helium": Habits(rmsnorm="helium", angles_by_layer=True),
    "minicpm3": GRANITE._replace(keeps_multiplier=True),
    "ministral3": Habits(tempers_all=True),
    "nanochat": Habits(norms_turned_heads=True, normed_embedding=True, capped_logits=("final_logit_softcapping", 15.0)),
    "nemotron": Habits(joins_turned=True, layernorm="plus one"),
    "olmo": Habits(layernorm="float32", clips="clip_qkv", angles="float32"),
    "olmo2": OLMO2,
    "olmo3": OLMO2._replace(masks=2),
    "phi3": Habits(joins_turned=True, dropped=("resid_pdrop", 0.0)),
    "seed_oss": Habits(dropped=("residual_dropout", 0.1), dropped_scores=("attention_dropout", 0.1)),
    "stablelm": Habits(joins_turned=True, norms_heads="split", dropped=("hidden_dropout", 0.0)),
    "starcoder2": Habits(dropped=("residual_dropout", 0.0)),
    "vaultgemma": GEMMA2,
}
"""By ``model_type``."""
