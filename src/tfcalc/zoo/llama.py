"""Variants of Llama with parts of their own."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import divide
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.layers import PreNorm, Sandwich
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.rows import whole_sum
from tfcalc.ops.shapes import cat, copied, reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import LAYERS, windows


class DeepHead(Module):
    """A model whose vectors go through one more map and an activation before a classifier reads them."""

    kind = "model"

    base: Module
    dense: Linear
    activation: str
    head: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the classifier's logits for token ids."""
        made = self.dense(self.base(x, ctx))
        return self.head(ctx.activation(self.activation, made))


class DifferentialAttention(Attention):
    """Attention in which all heads read each half of the values, so that scores are computed once for each half.

    The ``vectors`` make λ: ``exp(q₁·k₁) − exp(q₂·k₂)`` and a number. Two heads together have a norm (``group_norm``).

    Source: Ye et al. 2024 (arXiv 2410.05258), eq. 1 to 3; transformers' DiffLlamaAttention.
    """

    vectors: tuple[Parameter, ...] = ()
    group_norm: Norm | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """The difference of both halves, normed."""
        first, second = split(v, [divide(self.kv_heads, 2)] * 2, 1)
        first, second = (copied(half, v.shape, "repeat") for half in (first, second))
        made = [super().attend(q, k, first, ctx, name), super().attend(q, k, second, ctx, f"{name}_again")]
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


@family("bitnet")
def bitnet(c: Config) -> Module:
    """BitNet b1.58 2B4T (arXiv 2504.12285): a norm before the last projection of each sub-layer too."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    mixer = mixer.replace(sub_norm=Norm("attn_sub_norm", "rmsnorm", c.size("hidden_size")))
    ffn = decoders.gated(c).replace(sub_norm=Norm("ffn_sub_norm", "rmsnorm", c.size("intermediate_size")))
    return decoders.decoder(c, decoders.layer(c, mixer, ffn))


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


@family("diffllama")
def diffllama(c: Config) -> Module:
    """Differential Transformer (arXiv 2410.05258): one attention is subtracted from another, by four trained vectors.

    Each half of the values goes through all heads, so scores are computed once for each half (transformers'
    DiffLlamaAttention).
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


@family("smollm3")
def smollm3(c: Config) -> Module:
    """SmolLM3 (Hugging Face 2025): Llama whose layers without rotary positions may see a window."""
    rotated = positions_known(c)
    seen = windows(c, lambda place: c.flag("use_sliding_window") and not rotated[place])

    def one(kind: tuple[int | None, bool]) -> PreNorm:
        window, turns = kind
        mixer = decoders.attention(c, bias=c.flag("attention_bias"), window=window)
        return decoders.layer(
            c, mixer if turns else mixer.replace(rope=None), decoders.gated(c, bias=c.flag("mlp_bias"))
        )

    return decoders.decoder(c, one, list(zip(seen, rotated, strict=True)), masks=(None,))


def positions_known(c: Config) -> list[bool]:
    """Flag SmolLM3's rotary layers: not those that ``no_rope_layers`` marks by a 0, every Nth where it is left out."""
    count, given = c.number(LAYERS), c.get("no_rope_layers")
    every = c.number("no_rope_layer_interval")
    known = [(place + 1) % every for place in range(count)] if given is None else c.numbers("no_rope_layers", count)
    return [bool(each) for each in known]
