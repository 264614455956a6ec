"""The habits of models that read images beside text."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import Habits
from tfcalc.implementations.transformers.habits.decoders import GEMMA3, GEMMA4
from tfcalc.implementations.transformers.habits.mixtures import EVERY_SUM

PLACES_IN_IMAGES = Habits(angles_by_token=True)
"""Positions have three numbers, so that each token of each sequence has angles of its own."""
WITH_IMAGES: dict[str, Habits] = {
    "gemma3": GEMMA3._replace(copies_ids=True),
    "gemma4": GEMMA4._replace(copies_ids=True),
    "gemma4_unified": GEMMA4._replace(copies_ids=True),
    "glm4v": PLACES_IN_IMAGES._replace(norms="sandwich", joins_turned=True),
    "qwen2_5_vl": PLACES_IN_IMAGES,
    "qwen2_vl": PLACES_IN_IMAGES,
    "qwen3_vl": PLACES_IN_IMAGES,
    "qwen3_vl_moe": PLACES_IN_IMAGES._replace(normalizes=EVERY_SUM),
}
"""By ``model_type``."""
