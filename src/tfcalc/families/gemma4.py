"""Gemma 4's text: layers of two widths of heads, experts and tables for each layer where a config says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfcalc.blocks import FUSED, GATED, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.gemma3n import attention, layer_types, per_layer_input, per_layer_tables, reusing, sliding
from tfcalc.families.llama import SANDWICH, decoder, norms
from tfcalc.leaves import buffer, norm, parameter
from tfcalc.workload import Workload

FULL, SLIDING = "full_attention", "sliding_attention"


class Kind(NamedTuple):
    """How a layer differs from others. A width or number of heads that is 0 is that of its type."""

    full: bool
    reuses: bool
    head_dim: int = 0
    kv_heads: int = 0
    window: int | None = None


def kinds(c: Config, run: Workload) -> list[Kind]:
    """One for each layer; the last always sees everything."""
    types = layer_types(c, 6)
    types[-1] = FULL
    each = "per_layer_config" in c.data
    return [
        Kind(kind == FULL, shared, *(_overridden(c, place) if each else (0, 0)), width)
        for place, (kind, shared, width) in enumerate(
            zip(types, reusing(c, types), sliding(c, run, types), strict=True)
        )
    ]


def _overridden(c: Config, place: int) -> tuple[int, int]:
    """Width and number of key heads that ``per_layer_config`` gives a layer, else those of the config itself."""
    given = c.get("per_layer_config") or {}
    if not isinstance(given, Mapping):
        raise InvalidModel(f"{c.path('per_layer_config')} is not an object", "write { … }")
    name = next((key for key in given if str(key).isdecimal() and int(key) == place), "")
    own: Mapping[str, Any] = {"head_dim": c.number("head_dim"), "num_key_value_heads": c.number("num_key_value_heads")}
    if not name:
        return own["head_dim"], own["num_key_value_heads"]
    layer_config = c.sub("per_layer_config", defaults={}).sub(name, defaults=own)
    return layer_config.number("head_dim"), layer_config.number("num_key_value_heads")


def _width(c: Config, kind: Kind) -> Num:
    return kind.head_dim or c.size("global_head_dim" if kind.full else "head_dim")


def _groups(c: Config, kind: Kind) -> Num:
    """Key and value heads, which share the query heads evenly."""
    of_its_own = kind.full and c.flag("attention_k_eq_v") and c.get("num_global_key_value_heads") is not None
    name = "num_global_key_value_heads" if of_its_own else "num_key_value_heads"
    heads, groups = c.number("num_attention_heads"), kind.kv_heads or c.number(name)
    if heads % groups:
        raise InvalidModel(
            f"{c.path('num_attention_heads')} {heads} is not divisible by {name} {groups}",
            f"give a divisor of {heads}",
        )
    return kind.kv_heads or c.size(name)


def gemma4_layer(c: Config, run: Workload, kind: Kind, *further: Component) -> Component:
    """Attention and a feed-forward network, and what is ``further`` in each layer."""
    h, wide = c.size("hidden_size"), c.flag("use_double_wide_mlp") and kind.reuses
    same = kind.full and c.flag("attention_k_eq_v")
    inner, act = (2 if wide else 1) * c.size("intermediate_size"), c.word("hidden_activation")
    mixer = attention(
        c,
        run,
        width=_width(c, kind),
        groups=_groups(c, kind),
        made="" if kind.reuses else "K" if same else "KV",
        causal=c.get("use_bidirectional_attention") != "all",
        window=kind.window,
    )
    mlp = FeedForward(h, inner, act, names=GATED, gated=True)("mlp", run.target, run)
    parts = (mixer, mlp, *further, *norms(SANDWICH, "rmsnorm", c, run), buffer("layer_scalar", 1))
    return layer("layers", parts, run.target.tokens * h)


def layers(c: Config, run: Workload, *further: Component) -> Iterator[Component]:
    """All of them."""
    return stack(
        "layers", kinds(c, run), c.size("num_hidden_layers"), lambda kind: gemma4_layer(c, run, kind, *further)
    )


def experts(c: Config, run: Workload) -> Iterator[Component]:
    """Experts beside the dense network, both with norms of their own; the router's scales are trained."""
    h, count, tokens = c.size("hidden_size"), c.size("num_experts"), run.target.tokens
    expert = FeedForward(h, c.size("moe_intermediate_size"), c.word("hidden_activation"), names=FUSED, gated=True)
    within = (
        norm("router.norm", "rmsnorm-plain", h, tokens),
        parameter("router.scale", h, minor=True),
        parameter("router.per_expert_scale", count, minor=True),
    )
    moe = MixtureOfExperts(h, count, c.size("top_k_experts"), expert, router="router.proj", within=within)
    yield moe("(moe)", run.target, run)
    yield from norms(
        ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"),
        "rmsnorm",
        c,
        run,
    )


@family("gemma4_text", architecture="Gemma4ForCausalLM", heads=CAUSAL_LM, global_head_dim=512)  # by __post_init__
def gemma4_text(c: Config, run: Workload) -> Component:
    """Gemma 4 (Google 2026): layers that see everything have wider heads, and may have values that are the keys."""
    by_layer = c.number("hidden_size_per_layer_input", least=0) > 0
    further = (
        *(experts(c, run) if c.flag("enable_moe_block") else ()),
        *(per_layer_input(c, run) if by_layer else ()),
    )
    stacked = list(layers(c, run, *further))
    whole = decoder(c, run, *stacked)
    return whole._replace(parts=(*whole.parts, *(per_layer_tables(c, run, stacked) if by_layer else ())))


@family(
    "gemma4_unified_text",
    architecture="Gemma4UnifiedForCausalLM",
    heads=CAUSAL_LM,
    global_head_dim=512,  # by __post_init__
)
def gemma4_unified_text(c: Config, run: Workload) -> Component:
    """The same without experts, and without tables for each layer."""
    return decoder(c, run, *layers(c, run))
