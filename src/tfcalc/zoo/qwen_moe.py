"""Qwen's mixtures of experts: layers with experts among dense ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import Attention, EagerCode
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import MIXTRAL_HEADS, of_topk, routed, sparse_steps, with_shared
from tfcalc.zoo.blocks.layers import LAYERS, window, windows


def decoder_with_steps(
    c: Config, seen: Sequence[int | None], mixer: Callable[[int | None], Attention], mixture: Callable[[], Mixture]
) -> Decoder:
    """Layers with a ``mixer`` of their window, some with a ``mixture`` of experts, some dense."""

    def one(kind: tuple[int | None, bool]) -> PreNorm:
        width, sparse = kind
        return decoders.layer(c, mixer(width), mixture() if sparse else decoders.gated(c))

    return decoders.decoder(c, one, list(zip(seen, sparse_steps(c), strict=True)))


@family("qwen2_moe", heads=MIXTRAL_HEADS)
def qwen2_moe(c: Config) -> Module:
    """Qwen1.5-MoE and Qwen2 (arXiv 2407.10671): a shared expert with a gate of its own, which is one number a token."""
    slides = c.flag("use_sliding_window")
    seen = windows(c, lambda place: place % 2 == 0 and place < c.number("max_window_layers", least=0))

    def mixer(width: int | None) -> Attention:
        return decoders.attention(c, bias=c.flag("qkv_bias"), output_bias=False, window=width)

    return decoder_with_steps(c, seen if slides else [None] * len(seen), mixer, lambda: with_shared(c, of_topk(c)))


@family("qwen3_moe")
def qwen3_moe(c: Config) -> Module:
    """Qwen3 (arXiv 2505.09388): no shared expert; a norm of each head's query and key."""
    return with_head_norms(c)


def with_head_norms(c: Config, *, by_sequence: bool = False, normalized: bool = False) -> Module:
    """Qwen3 mixture; angles may be those of each sequence, and expert weights always add up to 1 (``normalized``)."""
    seen = window(c) if c.flag("use_sliding_window") else None

    def mixer(width: int | None) -> Attention:
        made = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", window=width)
        return made.replace(rope=decoders.rope(c, by_sequence=by_sequence))

    return decoder_with_steps(c, [seen] * c.number(LAYERS), mixer, lambda: of_topk(c, normalized=normalized))


@family("flint", mlp_only_layers=[0, 1])  # by __post_init__
def flint(c: Config) -> Module:
    """Flint (transformers' FlintModel): Qwen3's attention with sinks, and a shared expert without a gate.

    The first two layers, every fourth and the last see everything, and know no positions.
    """
    last = c.number(LAYERS) - 1
    seen = windows(c, lambda place: place >= 2 and place % 4 != 1 and place != last)
    shared = decoders.gated(c, name="shared_expert", width=c.size("shared_expert_intermediate_size", least=0))

    def mixed() -> Mixture:
        made = routed(
            c,
            "num_experts",
            corrected=False,
            scales=False,
            code=RouterCode(logits="copies", in_place=False, exact=True),
        )
        return made.replace(shared=(shared,), stored=())

    def mixer(width: int | None) -> Attention:
        made = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", window=width)
        return made.replace(
            sinks=decoders.sinks(c, "beside"), eager=EagerCode("exact"), rope=None if width is None else made.rope
        )

    return decoder_with_steps(c, seen, mixer, mixed)
