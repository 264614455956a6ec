"""Mixtral and those that differ from it by a flag: a mixture of experts in the place of each feed-forward network."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from tfcalc.blocks import FUSED, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import CAUSAL_LM, classifier, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families import experts, kit
from tfcalc.families.experts import chosen as chosen
from tfcalc.families.llama import PRE_NORM, norms
from tfcalc.families.olmo import POST_NORM
from tfcalc.families.windows import both, window, windows
from tfcalc.leaves import buffer
from tfcalc.nn.attention import Attention
from tfcalc.nn.layers import Behind, PreNorm
from tfcalc.nn.mixture import Mixture, SparseMixer
from tfcalc.nn.module import Module
from tfcalc.workload import Workload

Kind = TypeVar("Kind", bound=Hashable)

HEADS = CAUSAL_LM | {"ForQuestionAnswering": classifier("qa_outputs", bias=True, classes=2)}
"""Most of these call the base ``model`` under every head."""
TOPS = tops.CAUSAL_LM | {"ForQuestionAnswering": tops.classifier("qa_outputs", bias=True, classes=2)}
"""The same of modules."""


def mixture(
    c: Config,
    run: Workload,
    *,
    name: str = "mlp",
    experts: str = "num_local_experts",
    each: str | int = "num_experts_per_tok",
    width: str = "intermediate_size",
    router: str = "gate",
    act: str = "",
    bias: bool = False,
    names: tuple[str, ...] = FUSED,
    within: tuple[Component, ...] = (),
    first: tuple[Component, ...] = (),
    routing: Component | None = None,
) -> Component:
    """``experts`` gated networks of this ``width``, of which each token goes through ``each``: names of the fields."""
    h = c.size("hidden_size")
    block = MixtureOfExperts(
        h,
        c.size(experts),
        chosen(c, experts, each),
        FeedForward(h, c.size(width), act or c.word("hidden_act"), bias=bias, names=names, gated=True),
        router=router,
        router_bias=bias,
        within=within,
        first=first,
        routing=routing,
    )
    return block(name, run.target, run)


def layers(
    c: Config,
    run: Workload,
    kinds: Sequence[Kind],
    parts: Callable[[Kind], Iterable[Component]],
    *,
    norm: str = "rmsnorm",
    names: tuple[str, ...] = PRE_NORM,
) -> Iterator[Component]:
    """Layers that differ: ``parts`` of each kind, and the norms that all have.

    The sum with the last part is what leaves a layer, unless there are norms behind the parts, too.
    """

    def make(kind: Kind) -> Component:
        around = *parts(kind), *norms(names, norm, c, run)
        elements = run.target.tokens * c.size("hidden_size")
        return layer("layers", around, elements, ends_with_sum=len(names) <= len(PRE_NORM))

    return stack("layers", kinds, c.size("num_hidden_layers"), make)


def correction(c: Config, name: str = "gate.e_score_correction_bias", experts: str = "n_routed_experts") -> Component:
    """What is added to the router's scores to balance the experts' load: no gradient trains it, so it is a buffer."""
    return buffer(name, c.size(experts))


def lm_head_by(bias: str) -> Head:
    """A head whose bias is a flag of the config. Its matrix may be the embedding's all the same."""
    return lambda c, run, base: lm_head(bias=c.flag(bias))(c, run, base)


@family("mixtral", architecture="MixtralForCausalLM", heads=TOPS, aliases={"num_experts": "num_local_experts"})
def mixtral(c: Config) -> Module:
    """Jiang et al. 2024 (arXiv 2401.04088): ``intermediate_size`` is each expert's."""
    mixer = kit.attention(c, window=window(c))
    return kit.decoder(c, kit.layer(c, mixer, experts.mixture(c, normalized=True)))


@family("olmoe", architecture="OlmoeForCausalLM", heads=tops.CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
def olmoe(c: Config) -> Module:
    """OLMoE (arXiv 2409.02060): norms of whole queries and keys, as wide as heads that split the hidden size."""
    mixer = whole_norms(c, width=c.quotient("hidden_size", "num_attention_heads"))
    mixer = mixer.but(clipped=c.get("clip_qkv") is not None)
    return kit.decoder(c, kit.layer(c, mixer, of_topk(c)))


@family(
    "flex_olmo", architecture="FlexOlmoForCausalLM", heads=tops.CAUSAL_LM, aliases={"num_local_experts": "num_experts"}
)
def flex_olmo(c: Config) -> Module:
    """FlexOlmo (arXiv 2507.07024): OLMoE with OLMo 2's norms, after the sub-layers rather than before."""
    mixer = whole_norms(c, code="olmo").but(rope=kit.rope(c, angles="float32"))
    layer = kit.layer(c, mixer, of_topk(c), of=Behind, names=POST_NORM, code="olmo")
    return kit.decoder(c, layer, code="olmo")


def of_topk(c: Config) -> Mixture:
    """Experts whose weights may add up to 1, in the format of the logits."""
    normalized = bool(c.get("norm_topk_prob"))
    return experts.mixture(c, experts="num_experts", normalized=normalized, result="logits")


def whole_norms(c: Config, *, width: Num | None = None, code: str = "") -> Attention:
    """Attention with a norm of the whole query and one of the whole key, which may be of heads of another ``width``."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", whole=True, code=code)
    if width is None:
        return mixer
    q, k = mixer.norms
    return mixer.but(norms=(q.but(width=mixer.heads * width), k.but(width=mixer.kv_heads * width)))


@family(
    "minimax_m2",
    architecture="MiniMaxM2ForCausalLM",
    heads=tops.CAUSAL_LM,
    aliases={"num_experts": "num_local_experts"},
)
def minimax_m2(c: Config) -> Module:
    """MiniMax-M2 (transformers' MiniMaxM2Model): norms of whole queries and keys, a correction of the router."""
    mixed = experts.mixture(c, scores="sigmoid", corrected=True, normalized=True, logits="float32")
    mixed = mixed.but(stored=(experts.correction(c, "e_score_correction_bias", "num_local_experts"),))
    mixer = whole_norms(c).but(rope=kit.rope(c, copies=True))
    return kit.decoder(c, kit.layer(c, mixer, mixed))


@family(
    "phimoe",
    architecture="PhimoeForCausalLM",
    heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias_flag="lm_head_bias")},
)
def phimoe(c: Config) -> Module:
    """Phi-3.5-MoE (arXiv 2404.14219): Mixtral with biases and LayerNorm; SparseMixer always draws two experts."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"), window=window(c))
    mixed = experts.mixture(c, router="router", each=2, of=SparseMixer)
    return kit.decoder(c, kit.layer(c, mixer, mixed, norm="layernorm"), norm="layernorm")


@family("gpt_oss", architecture="GptOssForCausalLM", heads=tops.CAUSAL_LM, aliases={"num_experts": "num_local_experts"})
def gpt_oss(c: Config) -> Module:
    """gpt-oss (arXiv 2508.10925): biases everywhere, in the router and the experts too, and a sink for each head.

    Every other layer sees a window.
    """
    mixed = experts.mixture(c, router="router", bias=True, best_first=True, softmax_in="own")
    mixed = mixed.but(experts=mixed.experts.but(clipped=True))

    def one(window: int | None) -> PreNorm:
        mixer = kit.attention(c, bias=c.flag("attention_bias"), window=window)
        mixer = mixer.but(sinks=kit.sinks(c, "highest"), rope=kit.rope(c, halves=True))
        return kit.layer(c, mixer, mixed, code="olmo")

    return kit.decoder(c, one, windows(c, lambda place: place % 2 == 0), code="olmo", masks=both(c))
