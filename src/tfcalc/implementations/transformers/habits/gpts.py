"""The habits of GPT's kin."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import Habits

GPT2 = Habits(
    holds_outputs=True,
    softmax="own",
    dropped=("resid_pdrop", 0.1),
    dropped_scores=("attn_pdrop", 0.1),
    dropped_embeddings=("embd_pdrop", 0.1),
)
GPTS: dict[str, Habits] = {
    "bloom": Habits(activations="megatron"),
    "codegen": GPT2._replace(
        dropped=("resid_pdrop", 0.0),
        dropped_scores=("attn_pdrop", 0.0),
        dropped_embeddings=("embd_pdrop", 0.0),
        scores_in_float32=True,
        angles="float32",
        angles_by_turn=True,
    ),
    "ctrl": GPT2._replace(dropped_scores=("", 0.0)),
    "falcon": Habits(
        softmax="stream",
        dropped=("hidden_dropout", 0.0),
        indexes=True,
        masks_sdpa=True,
        turns_weights=True,
        side_by_side=(("parallel_attn", True), ("new_decoder_architecture", False)),
    ),
    "gpt-sw3": GPT2,
    "gpt2": GPT2,
    "gpt_bigcode": GPT2._replace(softmax="float32"),
    "gpt_neo": Habits(
        softmax="own",
        dropped=("resid_dropout", 0.0),
        dropped_embeddings=("embed_dropout", 0.0),
        scores_in_float32=True,
    ),
    "gpt_neox": Habits(
        dropped=("hidden_dropout", 0.0),
        dropped_embeddings=("hidden_dropout", 0.0),
        side_by_side=(("use_parallel_residual", True),),
    ),
    "gpt_neox_japanese": Habits(
        softmax="own", dropped=("hidden_dropout", 0.0), dropped_scores=("attention_dropout", 0.1)
    ),
    "gptj": GPT2._replace(
        dropped=("resid_pdrop", 0.0),
        dropped_scores=("attn_pdrop", 0.0),
        dropped_embeddings=("embd_pdrop", 0.0),
        scores_in_float32=True,
        angles_by_turn=True,
    ),
    "moshi": Habits(rmsnorm="helium", angles_by_layer=True),
    "mpt": Habits(limits_scores="filled"),
    "openai-gpt": GPT2._replace(norms="post", norms_in_line=True, positions="buffer", activations="tanh"),
    "phi": Habits(
        joins_turned=True,
        norms="parallel",
        norms_heads="placed",
        dropped=("resid_pdrop", 0.0),
        dropped_embeddings=("embd_pdrop", 0.0),
    ),
}
"""By ``model_type``."""
