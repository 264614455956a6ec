"""Names of maps that many families have in common."""

LLAMA_NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Queries, keys, values, output."""
GATED = ("gate_proj", "up_proj", "down_proj")
"""Of a network with a gate."""
FUSED = ("gate_up_proj", "down_proj")
"""Of one whose gate and input one map makes."""
