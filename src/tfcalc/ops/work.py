"""Work of operations that is no product: elementwise operations per element, forward and backward, and cache entries.

Cache entries are keys and values of tokens, or a state of the whole sequence. They are part of the cost
(``Cost.cached``) of the operation that reads them, if a stream has cached tokens.
"""

from __future__ import annotations

from tfcalc import number_formats
from tfcalc.core.component import Cached
from tfcalc.core.number import Num
from tfcalc.named_tuple import NamedTuple
from tfcalc.workload import Sequences

SOFTMAX = (5, 4)  # max, minus it, exp, sum, divide; g·p, its sum, minus it, times p
SCALE = (1, 1)  # times 1/√d
CROSS_ENTROPY = (5, 2)  # max, minus it, exp, sum, minus its logarithm; exp, times the gradient

ACTIVATIONS = {
    "relu": (1, 1),  # max(x, 0); the gradient where x > 0
    "gelu": (5, 11),  # x/√2, erf, +1, ·½, ·x; Φ(x) (4), x·φ(x) (5), their sum, times the gradient
}
"""Operations per element, forward and backward (exp and erf count as one)."""

SIGMOID = (3, 3)  # exp(-x), +1, 1/; 1 - y, ·y, times the gradient
SILU = (4, 7)  # the sigmoid, ·x; σ (3), 1 - σ, ·x, +1, ·σ ... times the gradient
TANH_GELU = (8, 15)  # x² and x³ (2), ·c, +x, ·√(2/π), tanh, +1, ·½x as one pass each
FURTHER_ACTIVATIONS = {
    "relu2": (2, 3),
    "relu6": (2, 2),
    "leaky_relu": (2, 2),
    "prelu": (2, 2),
    "sigmoid": SIGMOID,
    "tanh": (1, 3),
    "silu": SILU,
    "swish": SILU,
    "quick_gelu": (5, 8),
    "gelu_new": TANH_GELU,
    "gelu_fast": TANH_GELU,
    "gelu_accurate": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "gelu_python": (5, 11),
    "gelu_python_tanh": TANH_GELU,
    "gelu_10": (7, 13),
    "clipped_gelu": (7, 13),
    "hardswish": (4, 5),
    "mish": (5, 12),
    "softplus": (3, 4),
    "laplace": (5, 9),
    "linear": (0, 0),
    "identity": (0, 0),
    "xielu": (8, 14),
}
"""Activations that only config.json files name."""


class NormKind(NamedTuple):
    """Trained vectors of a norm, and its operations per element, forward and backward."""

    weights: tuple[str, ...]
    forward: int
    backward: int


KEYS = {"γ": "weight", "β": "bias"}
"""Names of these vectors in a checkpoint."""

NORMS = {
    # mean (+), minus it, square, sum, times 1/std, times γ, plus β;
    # backward: g·γ, x̂ (2), its two row means (3), dx (4), dγ (2), dβ (1)
    "layernorm": NormKind(("γ", "β"), 7, 13),
    "layernorm-no-bias": NormKind(("γ",), 6, 12),
    "layernorm-plain": NormKind((), 5, 9),
    # square, sum, times 1/rms, times γ; backward: g·γ, x̂, its row mean (2), dx (3), dγ (2)
    "rmsnorm": NormKind(("γ",), 4, 9),
}
"""Norms that ``--norm`` names."""

FURTHER_NORMS = {
    # as above, without what the trained vectors cost
    "rmsnorm-plain": NormKind((), 3, 6),
    "rmsnorm-bias": NormKind(("γ", "β"), 5, 10),
    # times γ, plus β (MobileBERT, arXiv 2004.02984, eq. 1); backward: g·γ, dγ (2), dβ
    "affine": NormKind(("γ", "β"), 2, 4),
}
"""Norms that only published models have."""


LATENT, ROTATED = "latent", "rotated key"
"""Entries of latent attention (MLA) for each token, shared by all heads."""
SHARED = "key and value"
"""One vector that is both key and value."""
SUMMARY, WAITING, OVERLAP = "summary", "not yet summarised", "of the last summary"
"""Entries of a compressor: summaries, tokens of an incomplete group, and tokens that the next summary reads, too."""
INDEX = "index key"
"""Entry of an indexer: one key of each token, for all its heads."""
CONVOLUTION, STATE = "convolution", "state"
TOKEN_BEFORE = "token before"
"""Entries of each sequence: the last inputs of a convolution, a recurrent state, the last token."""

FP32 = number_formats.FP32.bits
"""Bits per number of a recurrent state, whatever the model's format."""


def read_before(stream: Sequences) -> bool:
    """Return whether all keys of a stream are cached and no more tokens are read, as of a source or an image."""
    return stream.cached is not None and isinstance(stream.length, int) and stream.length == 0


def decoded(stream: Sequences) -> bool:
    """Return whether tokens are added to a stream's cache."""
    return stream.cached is not None and not read_before(stream)


def by_token(
    queries: Sequences,
    keys: Sequences,
    heads: Num,
    vectors: dict[str, Num],
    *,
    causal: bool = True,
    window: Num | None = None,
    chunk: int | None = None,
    bits: int | None = None,
) -> tuple[Cached, ...]:
    """Return cache entries of ``heads`` of each of ``vectors`` (width by name) for every token of ``keys``.

    Causal attention caches those of the sequence itself, cross-attention those of the source; bidirectional attention
    within one sequence caches nothing.
    """
    if read_before(keys):
        source = () if read_before(queries) else vectors.items()
        return tuple(Cached(name, heads, width, keys.batch, keys.seen, grows=False) for name, width in source)
    own = vectors.items() if decoded(keys) and causal else ()
    return tuple(
        Cached(name, heads, width, keys.batch, keys.seen, window=window, chunk=chunk, bits=bits) for name, width in own
    )


def by_sequence(stream: Sequences, name: str, heads: Num, width: Num, bits: int | None = None) -> tuple[Cached, ...]:
    """Return a cache entry of ``heads`` vectors of ``width`` per sequence, whatever its length."""
    return (Cached(name, heads, width, stream.batch, bits=bits),) if decoded(stream) else ()
