"""Llama's further kin: other feed-forward networks, other places for biases and norms."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM, bare, classifier, output
from tfcalc.core.component import Component
from tfcalc.families.images import drops
from tfcalc.families.llama import PRE_NORM, attention, decoder, feed_forward, gated, head_dim, qk_norms, uniform
from tfcalc.families.windows import by_window, windows
from tfcalc.leaves import attend, linear, norm, parameter
from tfcalc.leaves.elementwise import activation
from tfcalc.workload import Workload


@family("arcee", architecture="ArceeForCausalLM", heads=CAUSAL_LM)
def arcee(c: Config, run: Workload) -> Component:
    """Arcee AFM (transformers' ArceeMLP): no gate."""
    mixer = attention(c, run, bias=c.flag("attention_bias"))
    return decoder(c, run, uniform(c, run, mixer, feed_forward(c, run, bias=c.flag("mlp_bias"))))


@family("apertus", architecture="ApertusForCausalLM", heads=CAUSAL_LM)
def apertus(c: Config, run: Workload) -> Component:
    """Apertus (arXiv 2509.14233): no gate, an activation with two trained scalars, norms of each head."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run))
    names = ("attention_layernorm", "feedforward_layernorm")
    return decoder(c, run, uniform(c, run, mixer, feed_forward(c, run), names=names))


@family("bitnet", architecture="BitNetForCausalLM", heads=CAUSAL_LM)
def bitnet(c: Config, run: Workload) -> Component:
    """BitNet b1.58 2B4T (arXiv 2504.12285): a norm before the last projection of each sub-layer too."""
    h, f, tokens = c.size("hidden_size"), c.size("intermediate_size"), run.target.tokens
    before_output = (norm("attn_sub_norm", "rmsnorm", h, tokens),)
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=before_output)
    ffn = gated(c, run, within=(norm("ffn_sub_norm", "rmsnorm", f, tokens),))
    return decoder(c, run, uniform(c, run, mixer, ffn))


@family("ernie4_5", architecture="Ernie4_5ForCausalLM", heads=CAUSAL_LM)
def ernie(c: Config, run: Workload) -> Component:
    """ERNIE 4.5 (transformers' Ernie4_5Attention): one flag for all biases."""
    bias = c.flag("use_bias")
    return decoder(c, run, uniform(c, run, attention(c, run, bias=bias), gated(c, run, bias=bias)))


@family("seed_oss", architecture="SeedOssForCausalLM", heads=CAUSAL_LM)
def seed_oss(c: Config, run: Workload) -> Component:
    """Seed-OSS (transformers' SeedOssAttention): the output's bias has a flag of its own."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), output_bias=c.flag("attention_out_bias"))
    sums = not drops(c, run, "residual_dropout")
    return decoder(c, run, uniform(c, run, mixer, gated(c, run, bias=c.flag("mlp_bias")), ends_with_sum=sums))


@family("nemotron", architecture="NemotronForCausalLM", heads=CAUSAL_LM, partial_rotary_factor=0.5)  # by __post_init__
@family("jais2", architecture="Jais2ForCausalLM", heads=CAUSAL_LM)
def nemotron(c: Config, run: Workload) -> Component:
    """Nemotron-4 (arXiv 2402.16819): no gate, LayerNorms with biases."""
    mixer = attention(c, run, bias=c.flag("attention_bias"))
    ffn = feed_forward(c, run, bias=c.flag("mlp_bias"))
    return decoder(c, run, uniform(c, run, mixer, ffn, norm="layernorm"), final="layernorm")


@family("helium", architecture="HeliumForCausalLM", heads=CAUSAL_LM)
def helium(c: Config, run: Workload) -> Component:
    """Helium (transformers' HeliumAttention): the output projection is h × h without bias, however wide heads are."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), output_bias=False, output_from=c.size("hidden_size"))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run, bias=c.flag("mlp_bias"))))


@family("hyperclovax", architecture="HyperCLOVAXForCausalLM", heads=CAUSAL_LM)
def hyperclovax(c: Config, run: Workload) -> Component:
    """HyperCLOVA X SEED (transformers' HyperCLOVAXDecoderLayer): norms after sub-layers too, if not switched off."""
    mixer = attention(c, run, bias=c.flag("attention_bias"))
    normed = c.flag("use_post_norm")
    names = (*PRE_NORM, "post_norm1", "post_norm2") if normed else PRE_NORM
    ffn = gated(c, run, bias=c.flag("mlp_bias"))
    return decoder(c, run, uniform(c, run, mixer, ffn, names=names, ends_with_sum=not normed))


@family("cwm", architecture="CwmForCausalLM", heads=CAUSAL_LM)
def cwm(c: Config, run: Workload) -> Component:
    """Code World Model (arXiv 2510.02387): biases in the feed-forward network only, where a flag says so."""

    def one(window: int | None) -> Component:
        return uniform(c, run, attention(c, run, window=window), gated(c, run, bias=c.flag("mlp_bias")))

    return decoder(c, run, *by_window(c, run, windows(c, all_but_each_fourth), one))


def all_but_each_fourth(place: int) -> bool:
    """Which layers see a window: not the first, nor each fourth after it."""
    return place % 4 != 0


@family("nanochat", architecture="NanoChatForCausalLM", heads=CAUSAL_LM)
def nanochat(c: Config, run: Workload) -> Component:
    """NanoChat (transformers' NanoChatRMSNorm): no gate, and norms without any weight, those of the heads too."""
    plain = "rmsnorm-plain"
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=qk_norms(plain, c, run))
    ffn = feed_forward(c, run, names=("fc1", "fc2"))
    return decoder(c, run, uniform(c, run, mixer, ffn, norm=plain), final=plain)


@family("granite_swa", architecture="GraniteSWAForCausalLM", heads=CAUSAL_LM)
def granite_swa(c: Config, run: Workload) -> Component:
    """Granite with windows (transformers' GraniteSWAAttention): a trained sink for each head."""
    sinks = parameter("sinks", c.size("num_attention_heads"), minor=True)

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=c.flag("attention_bias"), within=(sinks,), window=window)
        return uniform(c, run, mixer, gated(c, run, bias=c.flag("mlp_bias")))

    return decoder(c, run, *by_window(c, run, windows(c, all_but_each_fourth), one))


@family("hunyuan_v1_dense", architecture="HunYuanDenseV1ForCausalLM", heads=CAUSAL_LM)
def hunyuan(c: Config, run: Workload) -> Component:
    """Hunyuan dense (transformers' HunYuanDenseV1Attention): a norm of each head's query and key."""
    normed = qk_norms("rmsnorm", c, run, names=("query_layernorm", "key_layernorm"))
    return decoder(
        c, run, uniform(c, run, attention(c, run, bias=c.flag("attention_bias"), within=normed), gated(c, run))
    )


@family("diffllama", architecture="DiffLlamaForCausalLM", heads=CAUSAL_LM)
def diffllama(c: Config, run: Workload) -> Component:
    """Differential Transformer (arXiv 2410.05258): one attention is subtracted from another, by four trained vectors.

    Each half of the values goes through all heads, so scores are computed twice (transformers' DiffLlamaAttention).
    """
    a, d, stream = c.size("num_attention_heads"), head_dim(c), run.target
    pairs = run.pairs(stream, stream, causal=True)
    within = (
        *(parameter(f"lambda_{name}", d, minor=True) for name in ("q1", "k1", "q2", "k2")),
        attend("attend_again", a, d, d, pairs),
        norm("groupnorm", "rmsnorm-plain", a * d, stream.tokens),
    )
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=within)
    return decoder(c, run, uniform(c, run, mixer, gated(c, run)))


def masked_lm(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits over the vocabulary, with a bias where the feed-forward networks have one."""
    yield base
    tied, bias = c.flag("tie_word_embeddings"), c.flag("mlp_bias")
    yield output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, bias=bias, tied=tied)


def deep_classifier(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits over ``num_labels`` classes, after one more linear map."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    first, *rest = classifier("classifier", bias=True)(c, run, base)
    yield first
    yield linear("dense", h, h, tokens)
    yield activation("activation", "gelu", tokens * h)
    yield from rest


@family(
    "eurobert",
    architecture="EuroBertForMaskedLM",
    heads={
        "Model": bare,
        "ForMaskedLM": masked_lm,
        "ForSequenceClassification": deep_classifier,
        "ForTokenClassification": classifier("classifier", bias=True),
    },
)
def eurobert(c: Config, run: Workload) -> Component:
    """EuroBERT (arXiv 2503.05500): Llama that looks both ways."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), causal=False)
    return decoder(c, run, uniform(c, run, mixer, gated(c, run, bias=c.flag("mlp_bias"))))
