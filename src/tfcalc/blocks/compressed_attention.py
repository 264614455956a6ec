"""Attention to a window of keys and to summaries of all that stand before: DeepSeek-V4's."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.core.gradient import reached, without_gradient
from tfcalc.core.number import Num, floor_div, minimum
from tfcalc.leaves import attend, linear, norm, parameter
from tfcalc.leaves.grouped_linear import grouped_linear
from tfcalc.ops.keeping import OVERLAP, SHARED, SUMMARY, WAITING, by_token, decoded, keeping
from tfcalc.ops.scores import score
from tfcalc.workload import Sequences, Workload

WEIGHTED_SUM = 4  # relu, scale, times the head's weight, the sum over heads


class Compressor(NamedTuple):
    """Every ``rate`` tokens become one key of ``head_dim``: their mean, weighted by a gate and by their place.

    ``overlap``: each key mixes two groups of tokens, so values and gates are made twice. ``within`` are further parts.

    Source: transformers' DeepseekV4HCACompressor, DeepseekV4CSACompressor and DeepseekV4Indexer.
    """

    d_model: Num
    head_dim: Num
    rate: Num
    overlap: bool
    within: tuple[Component, ...] = ()

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences; if no group is full, nothing is made of what is projected."""
        width, keys = (2 if self.overlap else 1) * self.head_dim, self.keys(stream)
        some = minimum(keys.length, 1)
        return Component(
            name,
            "compressor",
            parts=(
                reached(linear("kv_proj", self.d_model, width, stream.tokens, bias=False, letter="KV"), some),
                reached(linear("gate_proj", self.d_model, width, stream.tokens, bias=False, letter="g"), some),
                keeping(parameter("position_bias", self.rate, width), *self._kept(stream, width)),
                norm("kv_norm", "rmsnorm", self.head_dim, keys.tokens),
                *self.within,
            ),
        )

    def _kept(self, stream: Sequences, width: Num) -> tuple[Cached, ...]:
        """Its keys, the tokens that wait for their group, and of the last group what the next key is made of too."""
        if not decoded(stream):
            return ()
        made = self.keys(stream).seen
        waiting, before = stream.seen - made * self.rate, minimum(made, 1) * self.rate
        overlap = (Cached(OVERLAP, 2, self.head_dim, stream.batch, before, grows=False),) if self.overlap else ()
        return (
            Cached(SUMMARY, 1, self.head_dim, stream.batch, stream.seen, every=self.rate),
            Cached(WAITING, 2, width, stream.batch, waiting, grows=False),
            *overlap,
        )

    def keys(self, stream: Sequences) -> Sequences:
        """What it makes of these sequences: the tokens of a group that is not full are left for later."""
        return Sequences(stream.batch, floor_div(stream.length, self.rate), floor_div(stream.seen, self.rate))


class CompressedAttention(NamedTuple):
    """Queries through a vector of ``q_rank``; one vector per token is the key and the value of all heads.

    Beside the tokens, queries read what the ``compressor`` makes of them. The output is projected by ``groups`` of
    heads to ``o_rank`` each, then together. A sink per head takes the attention that no key deserves. ``indexer`` is
    the number of heads and the width of what chooses among compressed keys, where anything does. Of the tokens
    themselves a query sees the last ``window``.

    Source: transformers' DeepseekV4Attention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    q_rank: Num
    o_rank: Num
    groups: Num
    compressor: Compressor | None = None
    indexer: tuple[Num, Num] | None = None
    window: Num | None = None

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences; as transformers runs it, the indexer's choice is a mask over all keys."""
        width, t = self.n_heads * self.head_dim, stream.tokens
        return Component(
            name,
            "attention",
            parts=(
                linear("q_a_proj", self.d_model, self.q_rank, t, bias=False, letter="DQ"),
                norm("q_a_norm", "rmsnorm", self.q_rank, t),
                linear("q_b_proj", self.q_rank, width, t, bias=False, letter="UQ"),
                linear("kv_proj", self.d_model, self.head_dim, t, bias=False, letter="KV"),
                norm("kv_norm", "rmsnorm", self.head_dim, t),
                parameter("sinks", self.n_heads),
                keeping(
                    self._attend("attend", stream, stream, run),
                    *by_token(stream, stream, 1, self._vectors, window=self.window),
                ),
                *self._compressed(stream, run),
                grouped_linear("o_a_proj", width, self.groups * self.o_rank, self.groups, t),
                linear("o_b_proj", self.groups * self.o_rank, self.d_model, t, bias=False, letter="O"),
            ),
        )

    @property
    def _vectors(self) -> dict[str, Num]:
        """Of each token: one, which transformers' cache of a window holds twice where nothing is compressed."""
        d = self.head_dim
        return {"K": d, "V": d} if self.compressor is None else {SHARED: d}

    def _attend(self, name: str, stream: Sequences, keys: Sequences, run: Workload) -> Component:
        return attend(
            name,
            self.n_heads,
            self.head_dim,
            self.head_dim,
            run.pairs(stream, keys, causal=keys is stream, window=self.window),
        )

    def _compressed(self, stream: Sequences, run: Workload) -> Iterator[Component]:
        if self.compressor is not None:
            within = () if self.indexer is None else (self._chooser(*self.indexer, self.compressor, stream, run),)
            yield self.compressor._replace(within=within)("compressor", stream)
            yield self._attend("attend_compressed", stream, self.compressor.keys(stream), run)

    def _chooser(self, heads: Num, width: Num, like: Compressor, stream: Sequences, run: Workload) -> Component:
        keys, t = like.keys(stream), stream.tokens
        within = (
            linear("q_b_proj", self.q_rank, heads * width, t, bias=False, letter="IQ"),
            linear("scorer.weights_proj", self.d_model, heads, t, bias=False, letter="Iw"),
            score(
                "score", heads, width, run.pairs(stream, keys, causal=False), weighted=False, operations=WEIGHTED_SUM
            ),
        )
        return without_gradient(like._replace(head_dim=width, within=within)("indexer", stream))
