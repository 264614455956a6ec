"""Multi-head latent attention: queries, keys and values through vectors of low rank."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, minimum
from tfcalc.leaves import activation, attend, linear, norm, rotary
from tfcalc.ops.keeping import LATENT, ROTATED, by_token, keeping
from tfcalc.workload import Sequences, Workload


class LatentAttention(NamedTuple):
    """Keys and values of all heads are made of one latent vector of ``kv_rank``; a rotated key part is shared by all.

    A head's query and key are ``nope_dim`` + ``rope_dim`` wide, its value ``value_dim``. Without ``q_rank`` queries are
    projected directly. ``bias`` is that of the projections down and of the output. ``within`` are further parts.
    ``query_dim`` is the width that queries are projected to, where it is given. ``gated`` queries come with a gate for
    the values, made of the query's latent vector both before and after its norm. Of cached tokens a query may see the
    last ``window``.

    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; transformers' DeepseekV3Attention.
    """

    d_model: Num
    n_heads: Num
    q_rank: Num | None
    kv_rank: Num
    nope_dim: Num
    rope_dim: Num
    value_dim: Num
    bias: bool = False
    within: tuple[Component, ...] = ()
    query_dim: Num | None = None
    gated: bool = False
    window: Num | None = None

    def __call__(self, name: str, stream: Sequences, run: Workload, *, causal: bool = True) -> Component:
        """The block on these sequences.

        As transformers runs it, keys and values are ``expanded`` from the latent vectors, those of cached tokens again
        at every step. ``absorbed``, the same matrix is applied to queries and outputs instead, and every head attends
        to the latent vectors themselves (DeepSeek-V2, section 2.1.2).
        """
        h, a, t = self.d_model, self.n_heads, stream.tokens
        absorbed = run.latent == "absorbed"
        seen = stream.seen if self.window is None or not run.decoding else minimum(stream.seen, self.window)
        expanded = t if absorbed else stream.batch * seen
        return Component(
            name,
            "attention",
            parts=(
                *self._queries(t),
                linear("kv_a_proj_with_mqa", h, self.kv_rank + self.rope_dim, t, bias=self.bias, letter="DKV"),
                norm("kv_a_layernorm", "rmsnorm", self.kv_rank, t),
                linear(
                    "kv_b_proj", self.kv_rank, a * (self.nope_dim + self.value_dim), expanded, bias=False, letter="UKV"
                ),
                *self.within,
                rotary("rotary", (a + 1) * t, self.rope_dim),
                keeping(
                    attend(
                        "attend",
                        a,
                        (self.kv_rank if absorbed else self.nope_dim) + self.rope_dim,
                        self.kv_rank if absorbed else self.value_dim,
                        run.pairs(stream, stream, causal=causal, window=self.window),
                    ),
                    *by_token(stream, stream, 1, {LATENT: self.kv_rank, ROTATED: self.rope_dim}, window=self.window),
                ),
                linear("o_proj", a * self.value_dim, h, t, bias=self.bias, letter="O"),
            ),
        )

    def _queries(self, tokens: Num) -> Iterator[Component]:
        a, rank = self.n_heads, self.q_rank
        width = a * (self.nope_dim + self.rope_dim if self.query_dim is None else self.query_dim)
        if rank is None:
            yield linear("q_proj", self.d_model, width, tokens, bias=False, letter="Q")
            return
        yield linear("q_a_proj", self.d_model, rank, tokens, bias=self.bias, letter="DQ")
        yield norm("q_a_layernorm", "rmsnorm", rank, tokens)
        if self.gated:
            both = width + a * self.value_dim
            yield linear("q_gate_proj", 2 * rank, both, tokens, bias=False, letter="UQ")
            yield activation("gate", "sigmoid", tokens * a * self.value_dim)
        else:
            yield linear("q_b_proj", rank, width, tokens, bias=False, letter="UQ")
