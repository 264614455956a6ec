"""Cache entries of operations: keys and values of tokens, or a state of the whole sequence.

They are part of the cost (``Cost.cached``) of the operation that reads them, if a stream has cached tokens.
"""

from tfcalc import number_formats
from tfcalc.core.component import Cached
from tfcalc.core.number import Num
from tfcalc.workload import Sequences

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
