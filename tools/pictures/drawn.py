"""The pictures by their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.pictures.charts import roofline, shares, training_memory
from tools.pictures.diagrams import attention, caches, patterns, products, stacks
from tools.pictures.svg import Picture

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PICTURES: dict[str, Callable[[], Picture]] = {
    "stacks": stacks,
    "attention": attention,
    "products": products,
    "shares": shares,
    "patterns": patterns,
    "training-memory": training_memory,
    "caches": caches,
    "roofline": roofline,
}
