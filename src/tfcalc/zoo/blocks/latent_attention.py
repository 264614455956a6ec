"""DeepSeek's latent attention by its config, and the lightning indexer, which chooses the keys that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.latent import LatentAttention, sigmoid
from tfcalc.nn.latent import LatentAttention as LatentModule
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.scan import recurrence
from tfcalc.ops.scores import score
from tfcalc.ops.shapes import cat, merge_heads, reshape, split, transpose
from tfcalc.ops.work import INDEX, by_token
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import mixture, routed, shared


class Indexer(Module):
    """``heads`` queries of ``head_dim`` from the query's latent vector, one key for all, a weight for each head.

    The key is normalised with a bias, unlike everything else in the model. A choice has no gradient, so backward runs
    nothing of it: what trains an indexer is a loss of its own. ``key_bits`` are those of a cached key's number, where
    they are not the model's.

    Source: DeepSeek-V3.2 (arXiv 2512.02556), section 2.1; transformers' DeepseekV32Indexer.
    """

    kind = "indexer"
    window = None

    wq_b: Linear
    wk: Linear
    k_norm: Norm
    weights_proj: Linear
    heads: Num
    head_dim: Num
    rope: Rope
    key_bits: int | None = None

    def forward(self, x: Tensor, latent: Tensor, ctx: Context) -> Tensor:
        """A score for each query and key, of b × l × s."""
        q = reshape(self.wq_b(latent), *x.shape[:2], self.heads, self.head_dim)
        k = self.k_norm(self.wk(x), ctx)
        weights, stream = self.weights_proj(x), ctx.stream
        formula = score("score", self.heads, self.head_dim, ctx.run.pairs(stream, stream, causal=True))
        cached = by_token(stream, stream, 1, {INDEX: self.head_dim}, bits=self.key_bits)
        shape = (*x.shape[:2], stream.seen)
        return recurrence(formula, q, shape, lambda: self._scores(transpose(q, 1, 2), k, weights, ctx), cached=cached)

    def _scores(self, q: Tensor, k: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        """Return the scores in fp32: of all heads, times their weights, added up."""
        trace, (b, l, width) = q.trace, k.shape
        turned = ctx.backend.rotate(q, reshape(k, b, 1, l, width), self, ctx)  # of whose rope alone it asks
        q, k = (trace.to(each, "float32") for each in turned)
        if ctx.cache is not None:
            k = trace.new((b, 1, ctx.stream.seen, width), "float32", "index keys")
        found = pointwise("relu", scaled(matmul(q, transpose(_for_all(k, self.heads), 2, 3))))
        weights = scaled(trace.to(weights, "float32"))
        found = matmul(reshape(weights, b, l, 1, self.heads), transpose(found, 1, 2))
        found = reshape(found, b, l, found.width)
        return add(found, found)  # what is masked


def _for_all(k: Tensor, heads: Num) -> Tensor:
    return k.trace.view(k, (k.shape[0], heads, *k.shape[2:]), None)


class SparseLatentAttention(LatentAttention):
    """Latent attention to the keys that its ``indexer`` chooses, or that of an earlier layer has chosen.

    A mask says which they are: all scores are computed, and counted. Source: transformers' DeepseekV32Attention.
    """

    indexer: Indexer | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of latent attention, followed by the indexer."""
        yield from super().parts
        if self.indexer is not None:
            yield self.indexer

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        gate, (down, up, *_) = self._early(x), self.inward
        latent = self.low_rank(down(x), ctx)
        return self._attending(x, up(latent), ctx, latent, gate)

    def choosing(self, x: Tensor, latent: Tensor | None, ctx: Context) -> Context:
        """Return the context with a mask of its own, which shows the chosen keys."""
        trace = x.trace
        if self.indexer is not None and latent is not None:
            with trace.without_gradients():
                self.indexer(x, latent, ctx)
        mask = ctx.masks.get(self.mask)
        if mask is None:
            return ctx
        shape = (mask.shape[0], 1, *mask.shape[2:])
        trace.new(shape, "bool", "chosen")
        return ctx._replace(masks={**ctx.masks, self.mask: trace.new(shape, mask.dtype, "mask of the chosen")})


class GatedQueries(SparseLatentAttention):
    """The second map makes a gate for the values beside queries, of the vector of low rank before and after its norm.

    Its sigmoid is in fp32, and so is what it multiplies. Source: transformers' AXK2Attention.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        down, up, *_ = self.inward
        low, (b, l, _) = down(x), x.shape
        latent = self.low_rank(low, ctx)
        both = reshape(up(cat([latent, low])), b, l, self.heads, self.key_dim + self.value_dim)
        q, gate = split(both, [self.key_dim, self.value_dim])
        return self._attending(x, q, ctx, latent, reshape(gate, b, l, self.heads * self.value_dim))

    def merge(self, made: Tensor, x: Tensor, gate: Tensor | None) -> Tensor:
        """The heads side by side, times their gate."""
        assert gate is not None
        made = merge_heads(made, gate.width)
        return x.trace.to(mul(made, sigmoid(x.trace.to(gate, "float32"))), made.dtype)


def latent_module(c: Config, *, value: Num | None = None, low_rank: bool = True) -> LatentModule:
    """Multi-head latent attention. It has no use for ``head_dim`` and ``num_key_value_heads``."""
    return latent_of(
        c,
        c.size("num_attention_heads"),
        c.optional("q_lora_rank") if low_rank else None,
        c.size("kv_lora_rank"),
        (c.size("qk_nope_head_dim", least=0), c.size("qk_rope_head_dim", least=0)),
        c.size("v_head_dim") if value is None else value,
    )


def latent_of(c: Config, a: Num, q_rank: Num | None, rank: Num, key: tuple[Num, Num], d_v: Num) -> LatentModule:
    """Latent attention of these sizes: heads, ranks of the low-rank vectors, the two parts of a ``key``, and values."""
    h, bias, (nope, rope) = c.size("hidden_size"), c.flag("attention_bias"), key
    width = a * (nope + rope)
    norms: tuple[Norm, ...] = (Norm("kv_a_layernorm", "rmsnorm", rank),)
    maps = [Linear("q_proj", h, width, "Q")]
    if q_rank is not None:
        maps = [Linear("q_a_proj", h, q_rank, "DQ", bias), Linear("q_b_proj", q_rank, width, "UQ")]
        norms = (Norm("q_a_layernorm", "rmsnorm", q_rank), *norms)
    maps.append(Linear("kv_a_proj_with_mqa", h, rank + rope, "DKV", bias))
    maps.append(Linear("kv_b_proj", rank, a * (nope + d_v), "UKV"))
    output = Linear("o_proj", a * d_v, h, "O", bias)
    made = LatentModule("self_attn", a, a, nope + rope, d_v, tuple(maps), norms, output, kv_rank=rank, nope_dim=nope)
    return made.replace(
        rope=Rope(rope, RopeCode(pairs=bool(c.get("rope_interleave")))), dropout=bool(c.get("attention_dropout"))
    )


def shared_and_routed(c: Config, *, bias: bool = False, corrected: bool = True, **routing: Any) -> Mixture:
    """Routed experts and a shared one, which is as wide as ``n_shared_experts`` of them."""
    common = decoders.gated(c, name="shared_experts", width=shared(c), bias=bias)
    if corrected:
        return routed(c, **routing).replace(shared=(common,))
    return mixture(c, common, experts="n_routed_experts", width="moe_intermediate_size", **routing)


def sparse_latent(c: Config, *, chooses: bool = True) -> SparseLatentAttention:
    """Latent attention to chosen keys; what ``chooses`` reads the query's latent vector, so there must be one."""
    c.size("q_lora_rank")
    made = latent_module(c)
    rope = Rope(c.size("qk_rope_head_dim", least=0), RopeCode(pairs=True))
    chooser = index_module(c) if chooses else None
    return made.as_type(SparseLatentAttention, indexer=chooser, always_masked=True, rope=rope)


def index_module(c: Config, rank: Num | None = None, rope: Num | None = None) -> Indexer:
    """Indexer that chooses the keys, by a vector of low rank; the part ``rope`` of its own vectors is rotated."""
    h, heads, width = c.size("hidden_size"), c.size("index_n_heads"), c.size("index_head_dim")
    rank = c.size("q_lora_rank") if rank is None else rank
    rope = c.size("qk_rope_head_dim", least=0) if rope is None else rope
    return Indexer(
        "indexer",
        Linear("wq_b", rank, heads * width, "IQ"),
        Linear("wk", h, width, "IK"),
        Norm("k_norm", "layernorm", width),
        Linear("weights_proj", h, heads, "Iw"),
        heads,
        width,
        Rope(rope, partial=True),
    )
