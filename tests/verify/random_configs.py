"""Small random configs of a family, over the flags that change its parameters.

A family's space is a function ``Random -> config`` under ``tests/verify/spaces``, registered by its model type. What
transformers builds of a config drawn from it, tfcalc must count, parameter by parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

Space = Callable[[Random], dict[str, Any]]
SPACES: dict[str, Space] = {}


def space(*model_types: str) -> Callable[[Space], Space]:
    """Register a function as the space of these model types."""

    def register(draw: Space) -> Space:
        for model_type in model_types:
            SPACES[model_type] = draw
        return draw

    return register


def load() -> dict[str, Space]:
    """All spaces there are."""
    for path in sorted((Path(__file__).parent / "spaces").glob("*.py")):
        if path.stem != "__init__":
            import_module(f"tests.verify.spaces.{path.stem}")
    return SPACES


def coin(random: Random) -> bool:
    """True as often as false."""
    return random.random() < 0.5


def grouped(random: Random, *, head_dim: bool = False) -> dict[str, Any]:
    """Heads that share keys and values, in a small decoder; with ``head_dim``, of a width of their own."""
    heads = random.choice([2, 4, 6])
    groups = random.choice([size for size in range(1, heads + 1) if heads % size == 0])
    width = random.choice([4, 8, 16])
    return {
        "hidden_size": heads * width,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "num_hidden_layers": random.randint(1, 4),
        "intermediate_size": random.choice([24, 40, 56]),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": random.choice([32, 64]),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
        **({"head_dim": random.choice([4, 8, 10])} if head_dim and coin(random) else {}),
    }
