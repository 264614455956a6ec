"""Gemma 3n: several residual streams, a table of tokens for each layer, and late layers that reuse keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer, stack
from tfcalc.blocks.alt_up import AltUp
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num, total
from tfcalc.core.recomputation import ATTENTION as ATTEND
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import SANDWICH, decoder, head_dim, kv_heads, norms
from tfcalc.families.windows import SLIDING, told, window
from tfcalc.leaves import activation, embedding, linear, norm
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.per_layer import LayerInput, LayerVectors
from tfcalc.nn.stack import Stack
from tfcalc.workload import Workload


def reusing(c: Config, layer_types: list[str]) -> list[bool]:
    """Which layers read the keys and values of an earlier one: the last ``num_kv_shared_layers``.

    Each reads those of the last layer of its own type that makes any, so that there must be one.
    """
    count = len(layer_types)
    shared = c.number("num_kv_shared_layers", least=0)
    if shared and set(layer_types[: max(count - shared, 0)]) != set(layer_types):
        raise InvalidModel(
            f"{c.path('num_kv_shared_layers')} {shared} of {count} layers leaves one type without keys and values",
            "let at least one layer of each type have its own",
        )
    return [place >= count - shared for place in range(count)]


def layer_types(c: Config, every: int) -> list[str]:
    """The kind of each layer; where none is given, all see a window but one in ``every``."""
    count = c.number("num_hidden_layers")
    if c.get("layer_types") is not None:
        return c.words("layer_types", count)
    return ["sliding_attention" if (place + 1) % every else "full_attention" for place in range(count)]


def attention(
    c: Config,
    run: Workload,
    *,
    width: Num,
    groups: Num,
    made: str = "KV",
    causal: bool = True,
    window: int | None = None,
) -> Component:
    """Norms of each head's query, key and value (that of the value without weights); ``made`` is Attention's."""
    h, a, tokens = c.size("hidden_size"), c.size("num_attention_heads"), run.target.tokens
    own = (norm("k_norm", "rmsnorm", width, tokens * groups), norm("v_norm", "rmsnorm-plain", width, tokens * groups))
    block = Attention(
        h,
        a,
        groups,
        width,
        width,
        bias=c.flag("attention_bias"),
        names=LLAMA_NAMES,
        within=(norm("q_norm", "rmsnorm", width, tokens * a), *(own if made else ())),
        made=made,
        window=window,
        rotary=width,
    )
    mixer = block("self_attn", run.target, run.target, run, causal=causal)
    reentrant = run.recompute == "full" and not run.early_stop
    return mixer if made or not reentrant else without_memory(mixer)


def without_memory(mixer: Component) -> Component:
    """The same where no gradient reaches the keys and values that it reads.

    torch.utils.checkpoint with ``use_reentrant=True`` runs the layers that made them without a graph.
    """
    own = mixer.own
    return mixer._replace(
        own=own._replace(
            products=tuple(one._replace(backward=one.backward - (mixer.kind == ATTEND)) for one in own.products)
        ),
        parts=tuple(without_memory(part) for part in mixer.parts),
    )


def sliding(c: Config, run: Workload, types: list[str]) -> list[int | None]:
    """The window of each layer, as far as it matters."""
    return told(run, [window(c) if kind == SLIDING else None for kind in types])


def per_layer_input(c: Config, run: Workload) -> Iterator[Component]:
    """In a layer: its own vector of the token, gated by the stream, is added to it."""
    h, p, tokens = c.size("hidden_size"), c.size("hidden_size_per_layer_input"), run.target.tokens
    parts = (
        linear("per_layer_input_gate", h, p, tokens, bias=False),
        activation("activation", c.word("hidden_activation"), tokens * p),
        linear("per_layer_projection", p, h, tokens, bias=False),
    )
    yield Component("(per_layer_input)", "per_layer_input", parts=parts)
    yield norm("post_per_layer_input_norm", "rmsnorm", h, tokens)


def per_layer_tables(c: Config, run: Workload, layers: Sequence[Component]) -> tuple[Component, ...]:
    """Before the ``layers``: a vector for each of them, from a table of its own and from the token's embedding."""
    p, n, tokens = c.size("hidden_size_per_layer_input"), total(each.copies for each in layers), run.target.tokens
    return (
        embedding("embed_tokens_per_layer", c.size("vocab_size_per_layer_input"), n * p, tokens),
        linear("per_layer_model_projection", c.size("hidden_size"), n * p, tokens, bias=False),
        norm("per_layer_projection_norm", "rmsnorm", p, tokens * n),
    )


def layer_input(c: Config) -> LayerInput:
    """In a layer: its own vector of the token, gated by the stream, is added to it."""
    h, p = c.size("hidden_size"), c.size("hidden_size_per_layer_input")
    gate, back = Linear("per_layer_input_gate", h, p), Linear("per_layer_projection", p, h)
    return LayerInput("(per_layer_input)", gate, back, c.word("hidden_activation"))


def layer_vectors(c: Config, layers: Stack) -> LayerVectors:
    """A vector for each of the ``layers``, from a table of its own and from the token's embedding."""
    h, p, n = c.size("hidden_size"), c.size("hidden_size_per_layer_input"), total(each.copies for each in layers.groups)
    return LayerVectors(
        "",
        Embedding("embed_tokens_per_layer", c.size("vocab_size_per_layer_input"), n * p, scales=True),
        Linear("per_layer_model_projection", h, n * p),
        Norm("per_layer_projection_norm", "rmsnorm", p, "gemma4"),
    )


class Kind(NamedTuple):
    """How a layer differs from others: it may reuse keys and values, or have a width of its own (0: the usual)."""

    reuses: bool
    width: int
    window: int | None


def laurel(c: Config, run: Workload) -> Component:
    """Learned augmented residual layer: a map of low rank beside the attention."""
    h, r, tokens = c.size("hidden_size"), c.size("laurel_rank"), run.target.tokens
    return Component(
        "laurel",
        "laurel",
        parts=(
            linear("linear_left", h, r, tokens, bias=False),
            linear("linear_right", r, h, tokens, bias=False),
            norm("post_laurel_norm", "rmsnorm", h, tokens),
        ),
    )


def gemma3n_layer(c: Config, run: Workload, kind: Kind) -> Component:
    """Attention, a feed-forward network and what is particular to Gemma 3n, in one layer of this kind."""
    h, act = c.size("hidden_size"), c.word("hidden_activation")
    inner = kind.width or c.size("intermediate_size")
    return layer(
        "layers",
        (
            AltUp(h, c.size("altup_num_inputs"))("altup", run.target),
            attention(
                c, run, width=head_dim(c), groups=kv_heads(c), made="" if kind.reuses else "KV", window=kind.window
            ),
            laurel(c, run),
            FeedForward(h, inner, act, names=GATED, gated=True)("mlp", run.target, run),
            *per_layer_input(c, run),
            *norms(SANDWICH, "rmsnorm", c, run),
        ),
        run.target.tokens * h,
    )


def widths(c: Config, count: int) -> list[int]:
    """``intermediate_size`` of each layer, where it is a list; else zeros."""
    listed = isinstance(c.get("intermediate_size"), list | tuple)
    return c.numbers("intermediate_size", count, least=1) if listed else [0] * count


@family("gemma3n_text", architecture="Gemma3nForCausalLM", heads=CAUSAL_LM)
def gemma3n_text(c: Config, run: Workload) -> Component:
    """Gemma 3n (Google 2025; MatFormer, arXiv 2310.07707; AltUp, arXiv 2301.13310; LAuReL, arXiv 2411.07501)."""
    h, streams, tokens = c.size("hidden_size"), c.size("altup_num_inputs"), run.target.tokens
    types = layer_types(c, 5)
    kinds = [Kind(*one) for one in zip(reusing(c, types), widths(c, len(types)), sliding(c, run, types), strict=True)]
    layers = list(stack("layers", kinds, c.size("num_hidden_layers"), lambda kind: gemma3n_layer(c, run, kind)))
    whole = decoder(c, run, *layers)
    further = (
        linear(name, h, h, tokens, bias=False)._replace(copies=streams - 1)
        for name in ("altup_projections", "altup_unembed_projections")
    )
    return whole._replace(parts=(*whole.parts, *per_layer_tables(c, run, layers), *further))
