"""Qwen's mixtures of experts: layers with experts among dense ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import attention, decoder, gated, qk_norms
from tfcalc.families.mixtral import HEADS, layers, mixture, sinks, swiglu
from tfcalc.families.windows import told, window, windows
from tfcalc.leaves import activation, linear
from tfcalc.workload import Workload


def sparse_steps(c: Config) -> list[bool]:
    """The layers that have experts: every ``decoder_sparse_step``-th, but for those in ``mlp_only_layers``.

    Where these are null, they are what the family has by default.
    """
    given = c.get("mlp_only_layers") is not None
    dense = c.numbers("mlp_only_layers") if given else c.defaults.get("mlp_only_layers") or []
    step, some = c.number("decoder_sparse_step"), c.number("num_experts", least=0) > 0
    return [some and place not in dense and (place + 1) % step == 0 for place in range(c.number("num_hidden_layers"))]


def decoder_with_steps(
    c: Config,
    run: Workload,
    seen: Sequence[int | None],
    mixer: Callable[[int | None], Component],
    *shared: Component,
) -> Component:
    """Layers with a ``mixer`` of their window, some with experts (and with what is ``shared`` by all), some dense."""

    def parts(kind: tuple[int | None, bool]) -> tuple[Component, ...]:
        width, sparse = kind
        if not sparse:
            return mixer(width), gated(c, run)
        return mixer(width), mixture(c, run, experts="num_experts", width="moe_intermediate_size", within=shared)

    return decoder(c, run, *layers(c, run, list(zip(told(run, seen), sparse_steps(c), strict=True)), parts))


@family("qwen2_moe", architecture="Qwen2MoeForCausalLM", heads=HEADS)
def qwen2_moe(c: Config, run: Workload) -> Component:
    """Qwen1.5-MoE and Qwen2 (arXiv 2407.10671): a shared expert with a gate of its own, which is one number a token."""
    gate = linear("shared_expert_gate", c.size("hidden_size"), 1, run.target.tokens, bias=False)
    shared = swiglu("shared_expert", c.size("shared_expert_intermediate_size", least=0), c, run)
    slides = c.flag("use_sliding_window")
    seen = windows(c, lambda place: place % 2 == 0 and place < c.number("max_window_layers", least=0))

    def mixer(width: int | None) -> Component:
        return attention(c, run, bias=c.flag("qkv_bias"), output_bias=False, window=width)

    gates = gate, activation("shared_expert_gate.sigmoid", "sigmoid", run.target.tokens)
    return decoder_with_steps(c, run, seen if slides else [None] * len(seen), mixer, shared, *gates)


@family("qwen3_moe", architecture="Qwen3MoeForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
def qwen3_moe(c: Config, run: Workload) -> Component:
    """Qwen3 (arXiv 2505.09388): no shared expert; a norm of each head's query and key."""
    seen = window(c) if c.flag("use_sliding_window") else None

    def mixer(width: int | None) -> Component:
        return attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run), window=width)

    return decoder_with_steps(c, run, [seen] * c.number("num_hidden_layers"), mixer)


@family("flint", architecture="FlintForCausalLM", heads=CAUSAL_LM, mlp_only_layers=[0, 1])  # by __post_init__
def flint(c: Config, run: Workload) -> Component:
    """Flint (transformers' FlintModel): Qwen3's attention with sinks, and a shared expert without a gate.

    The first two layers, every fourth and the last see everything, and know no positions.
    """
    last = c.number("num_hidden_layers") - 1
    seen = windows(c, lambda place: place >= 2 and place % 4 != 1 and place != last)
    shared = swiglu("shared_expert", c.size("shared_expert_intermediate_size", least=0), c, run)

    def mixer(width: int | None) -> Component:
        within = *qk_norms("rmsnorm", c, run), sinks(c)
        return attention(c, run, bias=c.flag("attention_bias"), within=within, window=width, rotated=width is not None)

    return decoder_with_steps(c, run, seen, mixer, shared)
