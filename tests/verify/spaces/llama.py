"""Llama and its nearest kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space


@space("llama")
def llama(random: Random) -> dict[str, Any]:
    """Biases anywhere, heads of any width."""
    return grouped(random, head_dim=True) | {"attention_bias": coin(random), "mlp_bias": coin(random)}


@space("qwen2", "phi3")
def grouped_heads(random: Random) -> dict[str, Any]:
    """Nothing but sizes."""
    return grouped(random)


@space("qwen3", "gemma2")
def with_attention_bias(random: Random) -> dict[str, Any]:
    """Heads of any width, a bias in attention."""
    return grouped(random, head_dim=True) | {"attention_bias": coin(random)}
