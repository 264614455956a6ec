"""The habits of BERT's and GPT's kin, and of every family by its name."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits import BERT, GPT2, HABITS, LLAMA, NEVER, Habits

BERT_KIN = BERT._replace(loss="by class")
ROBERTA = BERT_KIN._replace(positions="tokens", segments="tokens")
BERTS: dict[str, Habits] = {
    "albert": BERT_KIN._replace(
        drops_behind=("attention",),
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "bert": BERT_KIN,
    "bert-generation": BERT_KIN,
    "camembert": ROBERTA,
    "convbert": BERT_KIN,
    "data2vec-text": ROBERTA,
    "distilbert": BERT_KIN._replace(
        drops_behind=("ffn",),
        dropped=("dropout", 0.1),
        dropped_scores=("attention_dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
    ),
    "electra": BERT_KIN,
    "ernie": BERT_KIN,
    "esm": ROBERTA._replace(dropped_embeddings=NEVER, norms="pre", activations="erf"),
    "layoutlm": BERT_KIN._replace(segments="tokens", softmax="float32"),
    "megatron-bert": BERT_KIN._replace(norms="pre", segments="tokens"),
    "mobilebert": BERT_KIN,
    "nomic_bert": BERT_KIN._replace(
        segments="tokens",
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "roberta": ROBERTA,
    "roberta-prelayernorm": ROBERTA._replace(norms="pre"),
    "squeezebert": BERT_KIN,
    "xlm-roberta": ROBERTA,
    "xlm-roberta-xl": ROBERTA._replace(norms="pre", drops_behind=("attention",)),
    "xmod": ROBERTA,
}
"""By ``model_type``."""

GPTS: dict[str, Habits] = {
    "biogpt": Habits(
        softmax="own",
        dropped=("hidden_dropout_prob", 0.1),
        dropped_scores=("attention_probs_dropout_prob", 0.1),
        dropped_embeddings=("hidden_dropout_prob", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        given_ones=True,
    ),
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
        masks_with_alibi=True,
        side_by_side=(("parallel_attn", True), ("new_decoder_architecture", False)),
    ),
    "gpt-sw3": GPT2,
    "gpt_bigcode": GPT2._replace(softmax="float32"),
    "gpt_neo": Habits(
        softmax="own",
        dropped=("resid_dropout", 0.0),
        dropped_embeddings=("embed_dropout", 0.0),
        scores_in_float32=True,
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
    "mpt": Habits(limits_scores="filled"),
    "openai-gpt": GPT2._replace(norms="post", norms_in_line=True, positions="buffer", activations="tanh"),
    "trocr": Habits(
        norms="post",
        softmax="own",
        dropped=("dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        loss="own",
        shifted=False,
    ),
    "xglm": Habits(
        softmax="own",
        dropped=("dropout", 0.1),
        dropped_scores=("attention_dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        limits_scores="max",
    ),
}
"""By ``model_type``."""


def habits_of(model_type: str) -> Habits:
    """Those of a family; one that is not named runs as Llama does."""
    return BERTS.get(model_type) or GPTS.get(model_type) or HABITS.get(model_type, LLAMA)
