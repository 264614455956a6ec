"""The habits of models that read images beside text."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import Habits
from tfcalc.implementations.transformers.habits.decoders import GEMMA3, GEMMA4

WITH_IMAGES: dict[str, Habits] = {
    "gemma3": GEMMA3._replace(copies_ids=True),
    "gemma4": GEMMA4._replace(copies_ids=True),
    "gemma4_unified": GEMMA4._replace(copies_ids=True),
}
"""By ``model_type``."""
