"""The habits of models whose decoder reads what an encoder made."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import Habits
from tfcalc.implementations.transformers.habits.decoders import GEMMA2

BART = Habits(
    norms="post",
    softmax="own",
    dropped=("dropout", 0.1),
    dropped_embeddings=("dropout", 0.1),
    dropped_inside=("activation_dropout", 0.0),
    loss="own",
    shifted=False,
    positions="sides",
    given_ones=True,
    multiplied=("embedding",),
)
MBART = BART._replace(norms="pre")
PEGASUS = MBART._replace(positions="places")
T5 = Habits(
    rmsnorm="t5",
    softmax="own",
    dropped=("dropout_rate", 0.1),
    dropped_scores=("dropout_rate", 0.1),
    dropped_embeddings=("dropout_rate", 0.1),
    dropped_inside=("dropout_rate", 0.1),
    dropped_output=("dropout_rate", 0.1),
    loss="own",
    shifted=False,
    inside_as_weights=True,
    scaled_output=("scale_decoder_outputs", "tie_word_embeddings"),
)
ENCODER_DECODERS: dict[str, Habits] = {
    "bart": BART,
    "bigbird_pegasus": PEGASUS,
    "blenderbot": PEGASUS,
    "blenderbot-small": BART._replace(positions="places"),
    "encoder-decoder": Habits(loss="own", shifted=False, two_families=True),
    "m2m_100": MBART._replace(dropped_scores=("attention_dropout", 0.1)),
    "marian": BART._replace(positions="places"),
    "mbart": MBART,
    "mt5": T5._replace(scaled_output=None),
    "mvp": BART._replace(positions="tokens"),
    "nllb-moe": MBART._replace(dropped_scores=("attention_dropout", 0.1), drops_behind=("attention",)),
    "pegasus": PEGASUS,
    "plbart": BART._replace(dropped_scores=("attention_dropout", 0.1)),
    "seamless_m4t": MBART._replace(
        dropped_scores=("attention_dropout", 0.1), drops_behind=("attention",), given_ones=False
    ),
    "t5": T5,
    "t5gemma": GEMMA2._replace(
        dropped=("dropout_rate", 0.0),
        dropped_embeddings=("dropout_rate", 0.0),
        dropped_output=("dropout_rate", 0.0),
        dropped_scores=("attention_dropout", 0.0),
        capped_scores=("decoder.attn_logit_softcapping", 50.0),
        capped_logits=("decoder.final_logit_softcapping", 30.0),
        keeps_multiplier=True,
        shifted=False,
    ),
    "umt5": T5._replace(scaled_output=()),
}
"""By ``model_type``."""
