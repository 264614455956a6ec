"""MiniMax-M3's text: blocks of keys chosen by an indexer, shared experts, gates and inputs of one matrix."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Context, Module
from tfcalc.ops.products import matmul
from tfcalc.ops.scan import recurrence
from tfcalc.ops.scores import score
from tfcalc.ops.select import masked_fill
from tfcalc.ops.shapes import copied, reshape, transpose
from tfcalc.ops.work import INDEX, by_token
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.experts import ClippedFeedForward, mlp_types
from tfcalc.zoo.blocks.gemma import CODE
from tfcalc.zoo.blocks.layers import FUSED, gated, layer_types

BEST_OF_BLOCK = 1


class BlockIndexer(Module):
    """``heads`` queries and one key for all, each with a norm; a head chooses for a group of heads.

    Source: transformers' MiniMaxM3VLIndexer.
    """

    kind = "indexer"

    q_proj: Linear
    k_proj: Linear
    q_norm: Norm
    k_norm: Norm
    heads: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """The scores of all keys: as transformers runs it, of all the tokens there are."""
        rows, d = x.shape[:2], self.q_norm.width
        q = transpose(self.q_norm(reshape(self.q_proj(x), *rows, self.heads, d), ctx), 1, 2)
        k = transpose(self.k_norm(reshape(self.k_proj(x), *rows, 1, d), ctx), 1, 2)
        pairs = ctx.run.pairs(ctx.stream, ctx.stream, causal=True)
        formula = score("score", self.heads, d, pairs, weighted=False, operations=BEST_OF_BLOCK)
        cached = by_token(ctx.stream, ctx.stream, 1, {INDEX: d}, causal=True)
        return recurrence(formula, q, q.shape, lambda: self._scores(q, k), cached=cached)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores, in fp32; those of later keys are masked."""
        keys = copied(k.trace.to(k, "float32"), (k.shape[0], self.heads, *k.shape[2:]), "expand")
        return masked_fill(matmul(q.trace.to(q, "float32"), transpose(keys, 2, 3)))


class IndexedBlockAttention(Attention):
    """Attention with a mask for each head, of what its indexer has chosen: a choice has no gradient.

    Source: transformers' MiniMaxM3VLAttention.
    """

    indexer: BlockIndexer | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        q, k, v = self.project(x, x, ctx)
        if self.indexer is not None:
            with x.trace.without_gradients():
                self.indexer(x, ctx)
            mask = x.trace.new((q.shape[0], self.heads, q.shape[2], ctx.stream.seen), q.dtype, "mask of blocks")
            ctx = ctx._replace(masks={**ctx.masks, self.mask: mask})
        given = [q, k, v]
        del q, k, v
        return self.output(self.mixed(given, ctx))


FULL, SPARSE = "full_attention", "minimax_m3_sparse"
ACTIVATION = "silu"  # transformers overrules the config's


def older(c: Config) -> Config:
    """The published files' own way to describe sparse attention."""
    return c.sub("sparse_attention_config", defaults={})


def index_size(c: Config, name: str, other: str) -> Num:
    """A size of the indexer, by either name."""
    return older(c).size(other) if older(c).has(other) else c.size(name)


def choosing(c: Config) -> list[str]:
    """Types of the layers: sparse where they choose among keys, which none does unless the config says so."""
    flags, count = older(c), c.number("num_hidden_layers")
    chooses = flags.numbers("sparse_attention_freq", count) if flags.has("sparse_attention_freq") else [0] * count
    return layer_types(c, lambda place: SPARSE if chooses[place] else FULL, (FULL, SPARSE))


def sparse_layers(c: Config) -> list[str]:
    """Types of the layers' networks: sparse where they have experts, as all have unless the config says otherwise."""
    count = c.number("num_hidden_layers")
    listed = c.numbers("moe_layer_freq", count) if c.has("moe_layer_freq") else [1] * count
    return mlp_types(c, ["sparse" if flag else "dense" for flag in listed])


def dense(name: str, width: str, c: Config) -> GatedFeedForward:
    """A network that every token goes through."""
    return gated(name, FUSED, c.size("hidden_size"), c.size(width, least=0), ACTIVATION).as_type(ClippedFeedForward)


def mixer(kind: str, c: Config) -> Attention:
    """Attention, to what an indexer has chosen where it is sparse."""
    made = decoders.attention(c, qk_norms="rmsnorm", code=CODE).replace(rope=decoders.rope(c, copies=True))
    return made.as_type(IndexedBlockAttention, indexer=None if kind == FULL else indexer(c))


def indexer(c: Config) -> BlockIndexer:
    """Indexer with queries of the config's number of heads, one key, and norms of both."""
    h, heads = c.size("hidden_size"), index_size(c, "index_n_heads", "sparse_num_index_heads")
    width = index_size(c, "index_head_dim", "sparse_index_dim")
    q, k = Linear("q_proj", h, heads * width, "IQ"), Linear("k_proj", h, width, "IK")
    q_norm, k_norm = (Norm(name, "rmsnorm", width, CODE) for name in ("q_norm", "k_norm"))
    return BlockIndexer("indexer", q, k, q_norm, k_norm, heads)


def mixed(c: Config) -> Mixture:
    """Experts and shared ones, which run first."""
    beside = dense("shared_experts", "shared_intermediate_size", c)
    made = experts.mixture(
        c, beside, act=ACTIVATION, scores="sigmoid", corrected=True, normalized=True, code=RouterCode(logits="float32")
    )
    stored = experts.correction(c, experts="num_local_experts")
    return made.replace(experts=made.experts.replace(clipped=True), stored=(stored,), shared_first=True, scales=True)


@family("minimax_m3_vl_text")
def minimax_m3_vl_text(c: Config) -> Module:
    """MiniMax-M3 (transformers' MiniMaxM3VLTextModel): ``intermediate_size`` is each routed expert's."""

    def one(kind: tuple[str, str]) -> PreNorm:
        ffn = dense("mlp", "dense_intermediate_size", c) if kind[1] == "dense" else mixed(c)
        return decoders.layer(c, mixer(kind[0], c), ffn, code=CODE)

    return decoders.decoder(c, one, list(zip(choosing(c), sparse_layers(c), strict=True)), code=CODE)
