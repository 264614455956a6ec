"""How transformers' code of each family is written that is a tree of costs yet; one that is not named runs as Llama."""

from tfcalc.implementations.transformers.habits.code import LLAMA, Cap, Flag, Habits, Probability

__all__ = ["Cap", "Flag", "Habits", "Probability", "habits_of"]

FAMILIES: dict[str, Habits] = {
}
"""By ``model_type``."""


def habits_of(*model_types: str) -> Habits:
    """Those of the first family of these that is named; where none is, a model runs as Llama does."""
    return next((FAMILIES[name] for name in model_types if name in FAMILIES), LLAMA)
