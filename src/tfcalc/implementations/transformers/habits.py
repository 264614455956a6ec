"""What transformers' code does in a family that the model's parts do not tell: where norms stand, what drops, formats.

A family that is not named here runs as Llama does, with norms where their number suggests.
"""

from __future__ import annotations

from typing import NamedTuple

Probability = tuple[str, float]
"""The field of a config with a probability of dropout, and what it is where a config has none."""

NEVER: Probability = ("", 0.0)


class Habits(NamedTuple):
    """How a family's modules are written.

    ``norms``: before each sub-layer (``pre``), after its sum with the stream (``post``), before the sub-layer and
    behind it (``sandwich``), or before sub-layers that stand side by side (``parallel``); where it is empty, their
    number tells. ``rmsnorm``: whose code (``llama``, ``gemma``, ``t5``). ``softmax``: the format that attention's runs
    in, ``float32`` or that of its scores (``own``). ``masked``: whether its eager scores get a mask without padding.

    ``dropped``, ``dropped_scores``, ``dropped_embeddings`` and ``dropped_inside`` are the fields for dropout behind a
    sub-layer, of attention's probabilities, of the embedding, and behind the activation.

    ``loss``: the format of the logits that the loss reads (``float32``, or their ``own``), ``shifted`` whether labels
    are moved by one token, so that there is a copy of them. ``positions``: whether the numbers of the positions are
    made for each token (``tokens``), for each place (``places``), or are a buffer (``buffer``).
    """

    norms: str = ""
    rmsnorm: str = "llama"
    softmax: str = "float32"
    masked: bool = True
    dropped: Probability = NEVER
    dropped_scores: Probability = ("attention_dropout", 0.0)
    dropped_embeddings: Probability = NEVER
    dropped_inside: Probability = NEVER
    loss: str = "float32"
    shifted: bool = True
    positions: str = "places"


LLAMA = Habits()
GPT2 = Habits(
    softmax="own",
    dropped=("resid_pdrop", 0.1),
    dropped_scores=("attn_pdrop", 0.1),
    dropped_embeddings=("embd_pdrop", 0.1),
)
BERT = Habits(
    norms="post",
    softmax="own",
    masked=False,
    dropped=("hidden_dropout_prob", 0.1),
    dropped_scores=("attention_probs_dropout_prob", 0.1),
    dropped_embeddings=("hidden_dropout_prob", 0.1),
    loss="own",
    shifted=False,
    positions="buffer",
)
HABITS: dict[str, Habits] = {
    "bert": BERT,
    "gpt2": GPT2,
    "gpt_neox": Habits(dropped=("hidden_dropout", 0.0), dropped_embeddings=("hidden_dropout", 0.0)),
    "opt": Habits(dropped=("dropout", 0.1), positions="tokens"),
}
"""By ``model_type``."""
