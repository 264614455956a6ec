"""Doge: Llama with a learned mask over keys, weighted residuals, and experts of a single neuron each."""

from __future__ import annotations

from math import isqrt

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, minimum
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Parameter, parameter
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Replicated
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, filled, mul, pointwise, residual
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import looked_up, softmax
from tfcalc.ops.select import masked_fill, row_sums, topk
from tfcalc.ops.shapes import copied, expand, reshape, select, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import windows


class DynamicMaskAttention(Attention):
    """Attention with a number for each key, made of its value (``dt_proj``, A), added to scores that nothing masks.

    A program leaves the best ``keeps`` keys of each query.

    Source: Shi et al. 2024 (arXiv 2412.11834), section 3.2; transformers' DogeAttention.
    """

    A: Parameter | None = None
    dt_proj: Linear | None = None
    keeps: int = 0

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend with the mask made of the values in the place of that of all layers."""
        mask = self._mask(v, ctx)
        return super().attend(q, k, v, ctx._replace(masks={**ctx.masks, self.mask: mask}), name)

    def _mask(self, v: Tensor, ctx: Context) -> Tensor:
        """Return the mask, of b × a × l × s.

        Where operations are only counted, nothing is cached: the values of all visible tokens are mapped again.
        """
        assert self.A is not None
        assert self.dt_proj is not None
        trace, (b, g, _, d) = v.trace, v.shape
        # counted, nothing is cached: the values of all tokens that are kept are mapped again
        if not trace.emits_kernels:
            seen = ctx.stream.seen
            kept = minimum(seen, self.window) if ctx.run.decoding and self.window is not None else seen
            return self.dt_proj(trace.view(v, (b, kept, g * d), None))
        made = self.dt_proj(reshape(transpose(v, 1, 2), b, v.shape[2], g * d))
        made = mul(self.A.weight(trace), pointwise("softplus", trace.upper(made)))
        made = transpose(pointwise("exp", trace.upper(made)), 1, 2)
        made = expand(reshape(made, b, g, 1, v.shape[2]), b, g, ctx.stream.length, v.shape[2])
        later = trace.new((b, 1, *made.shape[2:]), "bool", "not seen")
        made = filled(made, later)
        if isinstance(made.shape[-1], int) and made.shape[-1] > self.keeps:
            made = masked_fill(made)
        return made if g == self.heads else copied(made, (b, self.heads, *made.shape[2:]), "repeat_kv")


class Neurons(Replicated, FeedForward):
    """``count`` networks of one neuron, of which each token goes through ``chosen``."""

    kind = "experts"

    def found(self, x: Tensor, places: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        """Return the output of a token's neurons, times their ``weights``: their vectors are rows of tables."""
        trace, (t, h), k = x.trace, x.shape, self.chosen
        with trace.inside(self):
            inward, outward = (looked_up(self._table(each, h, x), places) for each in (self.up, self.down))
            made = reshape(matmul(inward, reshape(x, t, h, 1)), t, k)
            made = mul(ctx.backend.activation(self.activation, made), weights)
            return reshape(matmul(reshape(made, t, 1, k), outward), t, h)

    def _table(self, map_: Linear, width: Num, x: Tensor) -> Tensor:
        with x.trace.inside(map_):
            (weight,) = (x.trace.weight(each, self.count) for each in map_.own_params().weights)
        return reshape(weight, self.count, width)


class WithNeurons(GatedFeedForward):
    """A dense network, and neurons beside it: the best pairs of a row and a column of their square.

    The ``router`` has a logit for each of its ``rows`` and columns.

    Source: He 2024 (arXiv 2407.04153), section 2; transformers' DogeCDMoE.
    """

    kind = "moe"

    router: Linear | None = None
    neurons: Neurons | None = None
    rows: int = 1
    normalized: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output for each token."""
        assert self.router is not None
        assert self.neurons is not None
        rows = reshape(x, x.rows, x.width)
        logits = self.router(rows)
        if not x.trace.emits_kernels:  # the search for neurons counts as its products alone
            self.neurons(rows, ctx)
            return super().forward(x, ctx)
        made = reshape(self.neurons.found(rows, *self._routed(logits), ctx), *x.shape)
        return add(super().forward(x, ctx), made)

    def _routed(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of a token's neurons, and their weights."""
        assert self.neurons is not None
        trace, tokens = logits.trace, logits.rows
        best, _ = topk(reshape(logits, 2, tokens, self.rows), self.rows)
        scores = add(unsqueeze(select(best, 0), -1), unsqueeze(select(best, 0), -2))
        scores, _ = topk(reshape(scores, tokens, self.rows * self.rows), self.neurons.chosen)
        weights = softmax(scores)
        if self.normalized:
            total, before = row_sums(weights), trace.new(weights.shape, weights.dtype, "before div_")
            call = Call("div_", (weights, total), weights.shape, weights.dtype, saves=(before, total))
            weights = trace.call(call._replace(shares=weights.storage))
        return trace.new(weights.shape, "int64", "neurons chosen"), weights


class WeightedResidual(PreNorm):
    """``w·x + f(norm(x))``, with a trained w for each sub-layer (Doge)."""

    factors: tuple[Parameter, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for (norm, sub), factor in zip(self.running(ctx), self.factors, strict=True):
            made = self.dropping(sub, sub(norm(x, ctx), ctx), ctx)
            x = residual(mul(factor.weight(x.trace), x), made, sub.name)
        return x


def attention(c: Config) -> Attention:
    """Return attention in which a number made of a key's value, anew in each run, says how much it counts."""
    bias, made = c.flag("attention_bias"), decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    g = made.kv_heads
    keep = Linear("dt_proj", g * made.key_dim, g, bias=bias)
    own = {"A": parameter("A", g, minor=True), "dt_proj": keep, "keeps": c.number("keep_window_size", least=0)}
    return made.as_type(DynamicMaskAttention, always_masked=True, **own)


def network(c: Config) -> GatedFeedForward:
    """A dense network, and a square of experts beside it, of which ``num_experts_per_tok`` neurons run."""
    dense = decoders.gated(c, bias=c.flag("mlp_bias"))
    if not c.flag("is_moe"):
        return dense
    h, stored = c.size("hidden_size"), c.number("num_experts")  # no symbol: a polynomial has no roots
    maps = Linear("down_embed", h, 1, "1"), Linear("up_embed", 1, h, "2")
    chosen = c.size("num_experts_per_tok")
    neurons = Neurons("(experts)", *maps, c.word("hidden_act"), count=stored, chosen=chosen)
    router = Linear("router_gate", h, 2 * isqrt(stored), kind="router")
    normalized = c.flag("norm_topk_prob")
    return dense.as_type(WithNeurons, router=router, neurons=neurons, rows=isqrt(stored), normalized=normalized)


@family("doge")
def doge(c: Config) -> Module:
    """Shi et al. 2024 (arXiv 2412.11834); experts as in He 2024 (arXiv 2407.04153), beside a dense network."""
    h, names = c.size("hidden_size"), ("input", "post_attention")
    weights = tuple(parameter(f"{name}_residual", h, minor=True) for name in names)
    layer = decoders.layer(c, attention(c), network(c), dropped=bool(c.get("hidden_dropout")))
    layers = decoders.with_windows(layer.as_type(WeightedResidual, factors=weights), windows(c, lambda _: True))
    return decoders.decoder(c, layers)
