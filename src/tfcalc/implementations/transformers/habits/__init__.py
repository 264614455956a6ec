"""How transformers' code of each family is written; a family that is not named here runs as Llama does."""

from tfcalc.implementations.transformers.habits.code import LLAMA, Cap, Flag, Habits, Probability
from tfcalc.implementations.transformers.habits.decoders import DECODERS
from tfcalc.implementations.transformers.habits.encoder_decoders import ENCODER_DECODERS
from tfcalc.implementations.transformers.habits.encoders import ENCODERS
from tfcalc.implementations.transformers.habits.gpts import GPTS
from tfcalc.implementations.transformers.habits.mixtures import MIXTURES
from tfcalc.implementations.transformers.habits.with_images import WITH_IMAGES

__all__ = ["Cap", "Flag", "Habits", "Probability", "habits_of"]

FAMILIES: dict[str, Habits] = DECODERS | GPTS | ENCODERS | ENCODER_DECODERS | MIXTURES | WITH_IMAGES
"""By ``model_type``."""


def habits_of(*model_types: str) -> Habits:
    """Those of the first family of these that is named; where none is, a model runs as Llama does."""
    return next((FAMILIES[name] for name in model_types if name in FAMILIES), LLAMA)
