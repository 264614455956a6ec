"""Llama's further kin: other feed-forward networks, other places for biases and norms."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families import kit
from tfcalc.families.windows import both, windows
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.deep_head import DeepHead
from tfcalc.nn.differential import DifferentialAttention
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.module import Module


@family("arcee")
def arcee(c: Config) -> Module:
    """Arcee AFM (transformers' ArceeMLP): no gate."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"))
    return kit.decoder(c, kit.layer(c, mixer, kit.plain(c, bias=c.flag("mlp_bias"))))


@family("apertus")
def apertus(c: Config) -> Module:
    """Apertus (arXiv 2509.14233): no gate, an activation with two trained scalars, norms of each head."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    return kit.decoder(c, kit.layer(c, mixer, kit.plain(c), names=("attention_layernorm", "feedforward_layernorm")))


@family("bitnet")
def bitnet(c: Config) -> Module:
    """BitNet b1.58 2B4T (arXiv 2504.12285): a norm before the last projection of each sub-layer too."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"))
    mixer = mixer.but(sub_norm=Norm("attn_sub_norm", "rmsnorm", c.size("hidden_size")))
    ffn = kit.gated(c).but(sub_norm=Norm("ffn_sub_norm", "rmsnorm", c.size("intermediate_size")))
    return kit.decoder(c, kit.layer(c, mixer, ffn))


@family("ernie4_5")
def ernie(c: Config) -> Module:
    """ERNIE 4.5 (transformers' Ernie4_5Attention): one flag for all biases."""
    bias, rope = c.flag("use_bias"), kit.rope(c, angles="float32", by_layer=True, in_float32=True)
    return kit.decoder(c, kit.layer(c, kit.attention(c, bias=bias).but(rope=rope), kit.gated(c, bias=bias)))


@family("seed_oss")
def seed_oss(c: Config) -> Module:
    """Seed-OSS (transformers' SeedOssAttention): the output's bias has a flag of its own."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"), output_bias=c.flag("attention_out_bias"))
    return kit.decoder(
        c, kit.layer(c, mixer, kit.gated(c, bias=c.flag("mlp_bias")), dropped=bool(c.get("residual_dropout")))
    )


@family("jais2")
def jais2(c: Config) -> Module:
    """Jais 2 (transformers' Jais2DecoderLayer): no gate, LayerNorms with biases."""
    mixer, ffn = kit.attention(c, bias=c.flag("attention_bias")), kit.plain(c, bias=c.flag("mlp_bias"))
    return kit.decoder(c, kit.layer(c, mixer, ffn, norm="layernorm"), norm="layernorm")


@family("nemotron", partial_rotary_factor=0.5)  # by __post_init__
def nemotron(c: Config) -> Module:
    """Nemotron-4 (arXiv 2402.16819): the same with norms whose weight is the distance from 1, and a part rotated."""
    mixer = kit.attention(c, bias=c.flag("attention_bias")).but(rope=kit.rope(c, copies=True))
    layers = kit.layer(c, mixer, kit.plain(c, bias=c.flag("mlp_bias")), norm="layernorm", code="plus one")
    return kit.decoder(c, layers, norm="layernorm", code="plus one")


@family("helium")
def helium(c: Config) -> Module:
    """Helium (transformers' HeliumAttention): the output projection is h × h without bias, however wide heads are."""
    mixer, h = kit.attention(c, bias=c.flag("attention_bias")), c.size("hidden_size")
    mixer = mixer.but(output=Linear("o_proj", h, h, "O"), rope=kit.rope(c, by_layer=True))
    return kit.decoder(c, kit.layer(c, mixer, kit.gated(c, bias=c.flag("mlp_bias")), code="helium"), code="helium")


@family("hyperclovax", heads=tops.CAUSAL_LM | tops.scaled_lm())
def hyperclovax(c: Config) -> Module:
    """HyperCLOVA X SEED (transformers' HyperCLOVAXDecoderLayer): Granite with norms after sub-layers, if not off."""
    parts = kit.attention(c, bias=c.flag("attention_bias")), kit.gated(c, bias=c.flag("mlp_bias"))
    if c.flag("use_post_norm"):
        names = ("input_layernorm", "post_norm1", "post_attention_layernorm", "post_norm2")
        layers = kit.layer(c, *parts, of=Sandwich, names=names)
    else:
        layers = kit.layer(c, *parts)
    return kit.decoder(c, layers.but(scales=True)).but(scales=True)


@family("cwm")
def cwm(c: Config) -> Module:
    """Code World Model (arXiv 2510.02387): biases in the feed-forward network only, where a flag says so."""
    layer = kit.layer(c, kit.attention(c), kit.gated(c, bias=c.flag("mlp_bias")))
    return kit.decoder(c, kit.seeing(layer, windows(c, all_but_each_fourth)), masks=both(c))


def all_but_each_fourth(place: int) -> bool:
    """Which layers see a window: not the first, nor each fourth after it."""
    return place % 4 != 0


@family("nanochat", heads=tops.CAUSAL_LM | tops.capped_lm())
def nanochat(c: Config) -> Module:
    """NanoChat (transformers' NanoChatRMSNorm): no gate, and norms without any weight, those of the heads too.

    The last norm also runs before the first layer.
    """
    plain = "rmsnorm-plain"
    mixer = kit.attention(c, bias=c.flag("attention_bias"), qk_norms=plain).but(normed_last=True)
    layers = kit.layer(c, mixer, kit.plain(c, names=("fc1", "fc2")), norm=plain)
    whole = kit.decoder(c, layers, norm=plain)
    return whole.but(first=whole.norm)


@family("granite_swa", heads=tops.CAUSAL_LM | tops.scaled_lm())
def granite_swa(c: Config) -> Module:
    """Granite with windows (transformers' GraniteSWAAttention): a trained sink for each head."""
    mixer = kit.attention(c, bias=c.flag("attention_bias")).but(sinks=kit.sinks(c))
    layer = kit.layer(c, mixer, kit.gated(c, bias=c.flag("mlp_bias"))).but(scales=True)
    return kit.decoder(c, kit.seeing(layer, windows(c, all_but_each_fourth)), masks=both(c)).but(scales=True)


@family("hunyuan_v1_dense")
def hunyuan(c: Config) -> Module:
    """Hunyuan dense (transformers' HunYuanDenseV1Attention): a norm of each head's query and key, once rotated."""
    names = ("query_layernorm", "key_layernorm")
    mixer = kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", norm_names=names)
    return kit.decoder(c, kit.layer(c, mixer.but(normed_last=True), kit.gated(c)))


@family("diffllama")
def diffllama(c: Config) -> Module:
    """Differential Transformer (arXiv 2410.05258): one attention is subtracted from another, by four trained vectors.

    Each half of the values goes through all heads, so scores are computed twice (transformers' DiffLlamaAttention).
    """
    d = kit.head_dim(c)
    vectors = tuple(parameter(f"lambda_{name}", d, minor=True) for name in ("q1", "k1", "q2", "k2"))
    norm = Norm("groupnorm", "rmsnorm-plain", 2 * d, "olmo")
    plain = kit.attention(c, bias=c.flag("attention_bias"))
    mixer = plain.to(DifferentialAttention, vectors=vectors, group_norm=norm)
    return kit.decoder(c, kit.layer(c, mixer, kit.gated(c)))


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
    mixer = kit.attention(c, bias=c.flag("attention_bias"), causal=False)
    return kit.decoder(c, kit.layer(c, mixer, kit.gated(c, bias=c.flag("mlp_bias"))))
