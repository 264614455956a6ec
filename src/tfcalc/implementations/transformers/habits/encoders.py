"""The habits of BERT's kin."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import NEVER, Habits

BERT = Habits(
    norms="post",
    norms_in_line=True,
    softmax="own",
    masked=False,
    dropped=("hidden_dropout_prob", 0.1),
    dropped_scores=("attention_probs_dropout_prob", 0.1),
    dropped_embeddings=("hidden_dropout_prob", 0.1),
    loss="by class",
    shifted=False,
    positions="buffer",
)
ROBERTA = BERT._replace(positions="tokens", segments="tokens")
MASKED = Habits(shifted=False)
MODERNBERT = MASKED._replace(
    norms="pre",
    drops_behind=("attention",),
    dropped=("attention_dropout", 0.0),
    dropped_embeddings=("embedding_dropout", 0.0),
    dropped_inside=("mlp_dropout", 0.0),
    turns_in_float32=True,
    angles_by_type=True,
)
ENCODERS: dict[str, Habits] = {
    "albert": BERT._replace(
        drops_behind=("attention",),
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "bert": BERT,
    "bert-generation": BERT,
    "big_bird": BERT._replace(segments="buffer"),
    "camembert": ROBERTA,
    "convbert": BERT,
    "data2vec-text": ROBERTA,
    "deberta": BERT._replace(segments="tokens", disentangled=True, layernorm="deberta"),
    "deberta-v2": BERT._replace(segments="tokens", disentangled=True),
    "distilbert": BERT._replace(
        drops_behind=("ffn",),
        dropped=("dropout", 0.1),
        dropped_scores=("attention_dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
    ),
    "electra": BERT,
    "ernie": BERT,
    "esm": ROBERTA._replace(dropped_embeddings=NEVER, norms="pre", activations="erf"),
    "esmc": MASKED,
    "eurobert": MASKED,
    "fnet": BERT._replace(segments="buffer", drops_behind=("ffn",)),
    "gte": BERT._replace(
        segments="tokens",
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_inside=("hidden_dropout_prob", 0.1),
    ),
    "jina_embeddings_v3": BERT._replace(segments="tokens"),
    "layoutlm": BERT._replace(segments="tokens", softmax="float32"),
    "megatron-bert": BERT._replace(norms="pre", segments="tokens"),
    "mobilebert": BERT,
    "modernbert": MODERNBERT,
    "modernbert-decoder": MODERNBERT._replace(shifted=True, masks=2, angles_by_token=True),
    "mpnet": ROBERTA,
    "nomic_bert": BERT._replace(
        segments="tokens",
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "nystromformer": BERT._replace(segments="buffer", dropped_scores=NEVER),
    "rembert": BERT._replace(
        segments="tokens",
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "roberta": ROBERTA,
    "roberta-prelayernorm": ROBERTA._replace(norms="pre"),
    "roc_bert": BERT,
    "roformer": BERT._replace(segments="tokens", angles_by_layer=True),
    "squeezebert": BERT,
    "tapas": ROBERTA,
    "ultrabert": MASKED._replace(angles_by_type=True),
    "xlm-roberta": ROBERTA,
    "xlm-roberta-xl": ROBERTA._replace(norms="pre", drops_behind=("attention",)),
    "xmod": ROBERTA,
    "yoso": BERT._replace(segments="buffer"),
}
"""By ``model_type``."""
