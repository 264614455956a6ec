"""Llama's further kin: other feed-forward networks, other places for biases and norms."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import divide
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.rows import whole_sum
from tfcalc.ops.shapes import cat, copied, reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import full_and_sliding, windows


class DeepHead(Module):
    """A model whose vectors go through one more map and an activation before a classifier reads them."""

    kind = "model"

    base: Module
    dense: Linear
    activation: str
    head: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made = self.dense(self.base(x, ctx))
        return self.head(ctx.activation(self.activation, made))


class DifferentialAttention(Attention):
    """Attention in which all heads read each half of the values, so that scores are computed twice.

    The ``vectors`` make λ: ``exp(q₁·k₁) − exp(q₂·k₂)`` and a number. Two heads together have a norm (``group_norm``).

    Source: Ye et al. 2024 (arXiv 2410.05258), eq. 1 to 3; transformers' DiffLlamaAttention.
    """

    vectors: tuple[Parameter, ...] = ()
    group_norm: Norm | None = None

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """The difference of both halves, normed."""
        first, second = split(v, [divide(self.kv_heads, 2)] * 2, 1)
        first, second = (copied(half, v.shape, "repeat") for half in (first, second))
        made = [super()._attended(q, k, first, ctx, name), super()._attended(q, k, second, ctx, f"{name}_again")]
        both = cat([transpose(each, 1, 2) for each in made])
        one, other = split(both, [divide(self.heads, 2)] * 2, 2)
        q1, k1, q2, k2 = self.vectors
        λ = scaled(add(_factor(q1, k1, q), _factor(q2, k2, q)))
        x = add(one, mul(other, λ))
        x = scaled(x if self.group_norm is None else self.group_norm(x, ctx))
        return transpose(reshape(x, *x.shape[:2], self.heads, self.value_dim), 1, 2)


def _factor(of_queries: Parameter, of_keys: Parameter, q: Tensor) -> Tensor:
    """The exponential of a product of two vectors, in fp32; then in the format of the queries."""
    trace = q.trace
    with trace.inside(of_queries):
        one = trace.weight(of_queries.tensor)
    with trace.inside(of_keys):
        other = trace.weight(of_keys.tensor)
    return trace.to(pointwise("exp", whole_sum(mul(one, other), "float32")), q.dtype)


@family("arcee")
def arcee(c: Config) -> Module:
    """Arcee AFM (transformers' ArceeMLP): no gate."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    return decoders.decoder(c, decoders.layer(c, mixer, decoders.plain(c, bias=c.flag("mlp_bias"))))


@family("apertus")
def apertus(c: Config) -> Module:
    """Apertus (arXiv 2509.14233): no gate, an activation with two trained scalars, norms of each head."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    return decoders.decoder(
        c, decoders.layer(c, mixer, decoders.plain(c), names=("attention_layernorm", "feedforward_layernorm"))
    )


@family("bitnet")
def bitnet(c: Config) -> Module:
    """BitNet b1.58 2B4T (arXiv 2504.12285): a norm before the last projection of each sub-layer too."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    mixer = mixer.replace(sub_norm=Norm("attn_sub_norm", "rmsnorm", c.size("hidden_size")))
    ffn = decoders.gated(c).replace(sub_norm=Norm("ffn_sub_norm", "rmsnorm", c.size("intermediate_size")))
    return decoders.decoder(c, decoders.layer(c, mixer, ffn))


@family("ernie4_5")
def ernie(c: Config) -> Module:
    """ERNIE 4.5 (transformers' Ernie4_5Attention): one flag for all biases."""
    bias, rope = c.flag("use_bias"), decoders.rope(c, angles="float32", by_layer=True, in_float32=True)
    return decoders.decoder(
        c, decoders.layer(c, decoders.attention(c, bias=bias).replace(rope=rope), decoders.gated(c, bias=bias))
    )


@family("seed_oss")
def seed_oss(c: Config) -> Module:
    """Seed-OSS (transformers' SeedOssAttention): the output's bias has a flag of its own."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), output_bias=c.flag("attention_out_bias"))
    return decoders.decoder(
        c, decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias")), dropped=bool(c.get("residual_dropout")))
    )


@family("jais2")
def jais2(c: Config) -> Module:
    """Jais 2 (transformers' Jais2DecoderLayer): no gate, LayerNorms with biases."""
    mixer, ffn = decoders.attention(c, bias=c.flag("attention_bias")), decoders.plain(c, bias=c.flag("mlp_bias"))
    return decoders.decoder(c, decoders.layer(c, mixer, ffn, norm="layernorm"), norm="layernorm")


@family("nemotron", partial_rotary_factor=0.5)  # by __post_init__
def nemotron(c: Config) -> Module:
    """Nemotron-4 (arXiv 2402.16819): the same with norms whose weight is the distance from 1, and a part rotated."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias")).replace(rope=decoders.rope(c, copies=True))
    layers = decoders.layer(c, mixer, decoders.plain(c, bias=c.flag("mlp_bias")), norm="layernorm", code="plus one")
    return decoders.decoder(c, layers, norm="layernorm", code="plus one")


@family("helium")
def helium(c: Config) -> Module:
    """Helium (transformers' HeliumAttention): the output projection is h × h without bias, however wide heads are."""
    mixer, h = decoders.attention(c, bias=c.flag("attention_bias")), c.size("hidden_size")
    mixer = mixer.replace(output=Linear("o_proj", h, h, "O"), rope=decoders.rope(c, by_layer=True))
    return decoders.decoder(
        c, decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias")), code="helium"), code="helium"
    )


@family("hyperclovax", heads=tops.CAUSAL_LM | tops.scaled_lm())
def hyperclovax(c: Config) -> Module:
    """HyperCLOVA X SEED (transformers' HyperCLOVAXDecoderLayer): Granite with norms after sub-layers, if not off."""
    parts = decoders.attention(c, bias=c.flag("attention_bias")), decoders.gated(c, bias=c.flag("mlp_bias"))
    if c.flag("use_post_norm"):
        names = ("input_layernorm", "post_norm1", "post_attention_layernorm", "post_norm2")
        layers = decoders.layer(c, *parts, of=Sandwich, names=names)
    else:
        layers = decoders.layer(c, *parts)
    return decoders.decoder(c, layers.replace(scales=True)).replace(scales=True)


@family("cwm")
def cwm(c: Config) -> Module:
    """Code World Model (arXiv 2510.02387): biases in the feed-forward network only, where a flag says so."""
    layer = decoders.layer(c, decoders.attention(c), decoders.gated(c, bias=c.flag("mlp_bias")))
    return decoders.decoder(c, decoders.with_windows(layer, windows(c, all_but_each_fourth)), masks=full_and_sliding(c))


def all_but_each_fourth(place: int) -> bool:
    """Which layers see a window: not the first, nor each fourth after it."""
    return place % 4 != 0


@family("nanochat", heads=tops.CAUSAL_LM | tops.capped_lm())
def nanochat(c: Config) -> Module:
    """NanoChat (transformers' NanoChatRMSNorm): no gate, and norms without any weight, those of the heads too.

    The last norm also runs before the first layer.
    """
    plain = "rmsnorm-plain"
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms=plain).replace(normed_last=True)
    layers = decoders.layer(c, mixer, decoders.plain(c, names=("fc1", "fc2")), norm=plain)
    whole = decoders.decoder(c, layers, norm=plain)
    return whole.replace(first=whole.norm)


@family("granite_swa", heads=tops.CAUSAL_LM | tops.scaled_lm())
def granite_swa(c: Config) -> Module:
    """Granite with windows (transformers' GraniteSWAAttention): a trained sink for each head."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias")).replace(sinks=decoders.sinks(c))
    layer = decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias"))).replace(scales=True)
    layers = decoders.with_windows(layer, windows(c, all_but_each_fourth))
    return decoders.decoder(c, layers, masks=full_and_sliding(c)).replace(scales=True)


@family("hunyuan_v1_dense")
def hunyuan(c: Config) -> Module:
    """Hunyuan dense (transformers' HunYuanDenseV1Attention): a norm of each head's query and key, once rotated."""
    names = ("query_layernorm", "key_layernorm")
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", norm_names=names)
    return decoders.decoder(c, decoders.layer(c, mixer.replace(normed_last=True), decoders.gated(c)))


@family("diffllama")
def diffllama(c: Config) -> Module:
    """Differential Transformer (arXiv 2410.05258): one attention is subtracted from another, by four trained vectors.

    Each half of the values goes through all heads, so scores are computed twice (transformers' DiffLlamaAttention).
    """
    d = decoders.head_dim(c)
    vectors = tuple(parameter(f"lambda_{name}", d, minor=True) for name in ("q1", "k1", "q2", "k2"))
    norm = Norm("groupnorm", "rmsnorm-plain", 2 * d, "olmo")
    plain = decoders.attention(c, bias=c.flag("attention_bias"))
    mixer = plain.as_type(DifferentialAttention, vectors=vectors, group_norm=norm)
    return decoders.decoder(c, decoders.layer(c, mixer, decoders.gated(c)))


def masked_lm(c: Config, base: Module) -> Module:
    """Logits over the vocabulary, with a bias where the feed-forward networks have one."""
    return tops.lm_head(bias=c.flag("mlp_bias"), shifted=False)(c, base)


def deep_classifier(c: Config, base: Module) -> Module:
    """Logits over ``num_labels`` classes, after one more linear map."""
    h = c.size("hidden_size")
    return DeepHead(
        "", base, Linear("dense", h, h, "", True), "gelu", Linear("classifier", h, tops.labels(c), "", True)
    )


@family(
    "eurobert",
    heads={
        "Model": tops.bare,
        "ForMaskedLM": masked_lm,
        "ForSequenceClassification": deep_classifier,
        "ForTokenClassification": tops.classifier("classifier", bias=True),
    },
)
def eurobert(c: Config) -> Module:
    """EuroBERT (arXiv 2503.05500): Llama that looks both ways."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), causal=False)
    return decoders.decoder(c, decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias"))))
