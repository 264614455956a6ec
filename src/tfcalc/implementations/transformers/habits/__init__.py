"""How transformers' code of each family is written that is a tree of costs yet; one that is not named runs as Llama."""

from tfcalc.implementations.transformers.habits.code import LLAMA, Cap, Flag, Habits, Probability

__all__ = ["Cap", "Flag", "Habits", "Probability", "habits_of"]

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
FAMILIES: dict[str, Habits] = {
    "bigbird_pegasus": Habits(
        norms="pre",
        softmax="own",
        dropped=("dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        loss="own",
        shifted=False,
        given_ones=True,
        multiplied=("embedding",),
    ),
    "gemma4": GEMMA4._replace(copies_ids=True),
    "gemma4_text": GEMMA4,
    "gemma4_unified": GEMMA4._replace(copies_ids=True),
    "gemma4_unified_text": GEMMA4,
}
"""By ``model_type``."""


def habits_of(*model_types: str) -> Habits:
    """Those of the first family of these that is named; where none is, a model runs as Llama does."""
    return next((FAMILIES[name] for name in model_types if name in FAMILIES), LLAMA)
