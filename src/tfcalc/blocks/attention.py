"""Multi-head attention: the projections around the attention products."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs, in_pieces
from tfcalc.leaves import attend, dropout, linear, rotary
from tfcalc.ops.keeping import by_token, keeping
from tfcalc.workload import Sequences, Workload

if TYPE_CHECKING:
    from tfcalc.core.patterns import Pattern

SEPARATE = ("query", "key", "value", "output")
LLAMA_NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")


class Attention(NamedTuple):
    """Queries from one sequence, keys and values from the same (self-attention) or another (cross-attention).

    ``n_heads`` query heads share ``n_kv_heads`` key and value heads: as many (multi-head), fewer (grouped-query), or
    one (multi-query). ``head_dim`` is each query's and key's width, ``value_dim`` each value's. ``key_width`` and
    ``value_width`` are those of the vectors that keys and values are made of, where these are not ``d_model`` wide.

    ``names`` are those of the four projections, of three where one matrix makes keys and values, or of two where one
    makes queries, keys and values. ``bias`` is that of all of them, unless ``key_bias``, ``value_bias`` or
    ``output_bias`` say otherwise. ``gated`` queries are twice as wide: the second half gates the output. ``within`` are
    further parts: norms of queries and keys, sinks, tables. ``output_from`` is what the output projection reads, where
    that is not as wide as the heads' values together; ``output_to`` is what it makes, where that is not ``d_model``.
    ``made`` says which of keys and values it makes itself: both (``KV``), keys that are the values too (``K``), or
    none, where it reads those of an earlier layer. Causal attention may be masked to a ``window`` (a query's own key
    and those before it, so many in all) or to a ``chunk``. ``rotary`` is how much of each query's and key's width is
    rotated by its position. A ``pattern`` leaves only some of the pairs (see :mod:`tfcalc.core.patterns`).

    A sequence that is cut into ``pieces`` of so many, as an image into windows, attends within each by itself: no mask,
    but products of their own.
    ``cached_heads`` are those whose keys and values are kept while decoding, where they are not ``n_kv_heads``.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2; Ainslie et al. 2023 (arXiv 2305.13245).
    """

    d_model: Num
    n_heads: Num
    n_kv_heads: Num
    head_dim: Num
    value_dim: Num
    bias: bool = False
    dropout: bool = False
    key_width: Num | None = None
    value_width: Num | None = None
    names: tuple[str, ...] = SEPARATE
    key_bias: bool | None = None
    output_bias: bool | None = None
    gated: bool = False
    within: tuple[Component, ...] = ()
    output_from: Num | None = None
    output_to: Num | None = None
    made: str = "KV"
    value_bias: bool | None = None
    window: Num | None = None
    chunk: int | None = None
    rotary: Num | None = None
    pattern: "Pattern | None" = None
    pieces: Num | None = None
    cached_heads: Num | None = None

    def __call__(self, name: str, queries: Sequences, keys: Sequences, run: Workload, *, causal: bool) -> Component:
        """The block on these sequences; self-attention where ``queries`` and ``keys`` are the same."""
        pairs = run.pairs(queries, keys, causal=causal, window=self.window, chunk=self.chunk, pattern=self.pattern)
        if self.pieces is not None:
            within = queries.batch * in_pieces(queries.length, self.pieces)
            pairs = Pairs((2, within), within, run.fused)
        drops = self.dropout and run.drops
        output_bias = self.bias if self.output_bias is None else self.output_bias
        joined = self.n_heads * self.value_dim if self.output_from is None else self.output_from
        width = self.d_model if self.output_to is None else self.output_to
        return Component(
            name,
            "attention",
            parts=(
                *self._projections(queries, keys),
                *self.within,
                *self._rotated(queries, keys),
                keeping(
                    attend("attend", self.n_heads, self.head_dim, self.value_dim, pairs),
                    *self._kept(queries, keys, causal),
                ),
                *([dropout("attend_dropout", self.n_heads * pairs.scores)] if drops else []),
                linear(self.names[-1], joined, width, queries.tokens, bias=output_bias, letter="O"),
            ),
        )

    def _kept(self, queries: Sequences, keys: Sequences, causal: bool) -> tuple[Cached, ...]:
        made = {"K": self.head_dim, "V": self.value_dim} if self.made else {}
        heads = self.n_kv_heads if self.cached_heads is None else self.cached_heads
        return by_token(queries, keys, heads, made, causal=causal, window=self.window, chunk=self.chunk)

    def _rotated(self, queries: Sequences, keys: Sequences) -> Iterator[Component]:
        if self.rotary is not None:
            made = self.n_kv_heads * keys.tokens if self.made else 0
            yield rotary("rotary", self.n_heads * queries.tokens + made, self.rotary)

    def _projections(self, queries: Sequences, keys: Sequences) -> Iterator[Component]:
        h, a, g, d_k, d_v = self.d_model, self.n_heads, self.n_kv_heads, self.head_dim, self.value_dim
        query = (2 if self.gated else 1) * a * d_k
        key_bias = self.bias if self.key_bias is None else self.key_bias
        value_bias = self.bias if self.value_bias is None else self.value_bias
        if len(self.names) == 2:
            yield _map(self.names[0], h, query + g * d_k + g * d_v, queries, self.bias, "QKV")
            return
        from_key = h if self.key_width is None else self.key_width
        from_value = h if self.value_width is None else self.value_width
        yield _map(self.names[0], h, query, queries, self.bias, "Q")
        if not self.made:
            return
        if len(self.names) == 3:
            yield _map(self.names[1], from_key, g * (d_k + d_v), keys, key_bias, "KV")
            return
        yield _map(self.names[1], from_key, g * d_k, keys, key_bias, "K")
        if "V" in self.made:
            yield _map(self.names[2], from_value, g * d_v, keys, value_bias, "V")


def _map(name: str, fan_in: Num, fan_out: Num, stream: Sequences, bias: bool, letter: str) -> Component:
    return linear(name, fan_in, fan_out, stream.tokens, bias=bias, letter=letter, input_gradient=stream.needs_gradient)
