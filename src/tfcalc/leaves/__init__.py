"""The operations that the hardware runs. Every formula of tfcalc stands in one of these files, once."""

from tfcalc.leaves.attend import attend
from tfcalc.leaves.elementwise import ACTIVATIONS, activation, dropout, residual, rotary
from tfcalc.leaves.embedding import embedding
from tfcalc.leaves.linear import linear
from tfcalc.leaves.norm import NORMS, norm
from tfcalc.leaves.parameter import buffer, parameter
from tfcalc.leaves.position import learned_position, sinusoidal_position

__all__ = [
    "ACTIVATIONS",
    "NORMS",
    "activation",
    "attend",
    "buffer",
    "dropout",
    "embedding",
    "learned_position",
    "linear",
    "norm",
    "parameter",
    "residual",
    "rotary",
    "sinusoidal_position",
]
