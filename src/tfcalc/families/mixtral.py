"""Mixtral and those that differ from it by a flag: a mixture of experts in the place of each feed-forward network."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from tfcalc.blocks import FUSED, GATED, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import CAUSAL_LM, classifier, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.llama import PRE_NORM, attention, decoder, norms, qk_norms, uniform
from tfcalc.families.windows import by_window, window, windows
from tfcalc.leaves import buffer, parameter
from tfcalc.workload import Workload

Kind = TypeVar("Kind", bound=Hashable)

HEADS = CAUSAL_LM | {"ForQuestionAnswering": classifier("qa_outputs", bias=True, classes=2)}
"""Most of these call the base ``model`` under every head."""


def chosen(c: Config, experts: str = "num_local_experts", each: str | int = "num_experts_per_tok") -> Num:
    """How many experts a token goes through, by a field or a number: all where no fewer are asked for."""
    asked = each if isinstance(each, int) else c.number(experts) if c.get(each) is None else c.number(each)
    if asked >= c.number(experts):
        return c.size(experts)
    return each if isinstance(each, int) else c.size(each)


def swiglu(name: str, width: Num, c: Config, run: Workload, *, bias: bool = False) -> Component:
    """A dense gated network of any ``width``, such as shared experts."""
    block = FeedForward(c.size("hidden_size"), width, c.word("hidden_act"), bias=bias, names=GATED, gated=True)
    return block(name, run.target, run)


def shared(c: Config, count: str = "n_shared_experts", width: str = "moe_intermediate_size") -> Num:
    """The width of shared experts, which are one network as wide as ``count`` of them; 0 where there are none."""
    return c.size(width) * c.size(count, least=0)


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


def sinks(c: Config) -> Component:
    """A trained score for each head, which takes a share of its softmax and no value."""
    return parameter("sinks", c.size("num_attention_heads"), minor=True)


@family("mixtral", architecture="MixtralForCausalLM", heads=HEADS, aliases={"num_experts": "num_local_experts"})
def mixtral(c: Config, run: Workload) -> Component:
    """Jiang et al. 2024 (arXiv 2401.04088): ``intermediate_size`` is each expert's."""
    return decoder(c, run, uniform(c, run, attention(c, run, window=window(c)), mixture(c, run)))


@family("olmoe", architecture="OlmoeForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
def olmoe(c: Config, run: Workload) -> Component:
    """OLMoE (arXiv 2409.02060): norms of whole queries and keys, as wide as heads that split the hidden size."""
    mixer = whole_norms(c, run, width=c.quotient("hidden_size", "num_attention_heads"))
    return decoder(c, run, uniform(c, run, mixer, mixture(c, run, experts="num_experts")))


@family("flex_olmo", architecture="FlexOlmoForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
def flex_olmo(c: Config, run: Workload) -> Component:
    """FlexOlmo (arXiv 2507.07024): OLMoE with OLMo 2's norms, after the sub-layers rather than before."""
    names = ("post_attention_layernorm", "post_feedforward_layernorm")
    parts = whole_norms(c, run), mixture(c, run, experts="num_experts")
    return decoder(c, run, uniform(c, run, *parts, names=names))


def whole_norms(c: Config, run: Workload, width: Num | None = None) -> Component:
    """Attention with a norm of the whole query and one of the whole key; ``width`` as in :func:`qk_norms`."""
    normed = qk_norms("rmsnorm", c, run, whole=True, width=width)
    return attention(c, run, bias=c.flag("attention_bias"), within=normed)


@family(
    "minimax_m2", architecture="MiniMaxM2ForCausalLM", heads=CAUSAL_LM, aliases={"num_experts": "num_local_experts"}
)
def minimax_m2(c: Config, run: Workload) -> Component:
    """MiniMax-M2 (transformers' MiniMaxM2Model): norms of whole queries and keys, a correction of the router."""
    experts = mixture(c, run, within=(correction(c, "e_score_correction_bias", "num_local_experts"),))
    return decoder(c, run, uniform(c, run, whole_norms(c, run), experts))


@family("phimoe", architecture="PhimoeForCausalLM", heads=CAUSAL_LM | {"ForCausalLM": lm_head_by("lm_head_bias")})
def phimoe(c: Config, run: Workload) -> Component:
    """Phi-3.5-MoE (arXiv 2404.14219): Mixtral with biases and LayerNorm; SparseMixer always draws two experts."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), window=window(c))
    parts = mixer, mixture(c, run, router="router", each=2)
    return decoder(c, run, uniform(c, run, *parts, norm="layernorm"), final="layernorm")


@family("gpt_oss", architecture="GptOssForCausalLM", heads=CAUSAL_LM, aliases={"num_experts": "num_local_experts"})
def gpt_oss(c: Config, run: Workload) -> Component:
    """gpt-oss (arXiv 2508.10925): biases everywhere, in the router and the experts too, and a sink for each head.

    Every other layer sees a window.
    """

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=c.flag("attention_bias"), within=(sinks(c),), window=window)
        return uniform(c, run, mixer, mixture(c, run, router="router", bias=True))

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: place % 2 == 0), one))
