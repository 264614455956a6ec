"""What operations keep between decoding steps: the keys and values of tokens, or a state of the whole sequence.

It stands where a stream has cached tokens, at the operation that reads it; see ``Cost.cached``.
"""

from tfcalc import number_formats
from tfcalc.core.cost import Cached
from tfcalc.core.number import Num
from tfcalc.workload import Sequences

LATENT, ROTATED = "latent", "rotated key"
"""What latent attention keeps of each token, for all heads together."""
SHARED = "key and value"
"""One vector that is both."""
SUMMARY, WAITING, OVERLAP = "summary", "not yet summarised", "of the last summary"
"""Of a compressor: what it has made, tokens that are too few yet, and what the next one is made of beside them."""
INDEX = "index key"
"""What an indexer compares: one key of each token, for all its heads."""
CONVOLUTION, STATE = "convolution", "state"
TOKEN_BEFORE = "token before"
"""What mixers keep of each sequence: the last inputs of a convolution, a sum over all tokens, one token."""

FP32 = number_formats.FP32.bits
"""Bits of a state that is summed over all tokens, in whatever format the model itself runs."""


def read_before(stream: Sequences) -> bool:
    """Whether all of its keys have been made, as those of a source or an image: no more tokens are read."""
    return stream.cached is not None and isinstance(stream.length, int) and stream.length == 0


def decoded(stream: Sequences) -> bool:
    """Whether tokens are added to what is cached."""
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
    """``heads`` of each of ``vectors`` (their widths by name) for every token of ``keys``.

    Causal attention keeps those of the sequence itself, cross-attention those of the source; attention that looks
    both ways within one sequence has nothing to keep.
    """
    if read_before(keys):
        source = () if read_before(queries) else vectors.items()
        return tuple(Cached(name, heads, width, keys.batch, keys.seen, grows=False) for name, width in source)
    own = vectors.items() if decoded(keys) and causal else ()
    return tuple(
        Cached(name, heads, width, keys.batch, keys.seen, window=window, chunk=chunk, bits=bits) for name, width in own
    )


def by_sequence(stream: Sequences, name: str, heads: Num, width: Num, bits: int | None = None) -> tuple[Cached, ...]:
    """``heads`` vectors of ``width`` in each sequence, however long it is."""
    return (Cached(name, heads, width, stream.batch, bits=bits),) if decoded(stream) else ()
