"""Gemma 3n: several residual streams, a table of tokens for each layer, and late layers that reuse keys and values."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, total
from tfcalc.errors import InvalidModel
from tfcalc.families import kit
from tfcalc.families.gemma import CAPPED
from tfcalc.families.kit import SANDWICH, head_dim, kv_heads
from tfcalc.families.names import LLAMA_NAMES
from tfcalc.families.windows import FULL, LAYERS, SLIDING, both, window
from tfcalc.nn.alt_up import AltUp, AltUpDecoder, AltUpLayer, EachStream, Laurel, SparseFeedForward
from tfcalc.nn.basic import Embedding, Linear, Norm, parameter
from tfcalc.nn.module import Module
from tfcalc.nn.per_layer import LayerInput, LayerVectors
from tfcalc.nn.rope import Rope
from tfcalc.nn.shared_keys import SharingAttention
from tfcalc.nn.stack import Stack

CODE = "gemma4"
"""Norms in fp32, whose 1/rms is a power."""


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
    count = c.number(LAYERS)
    if c.get("layer_types") is not None:
        return c.words("layer_types", count)
    return [SLIDING if (place + 1) % every else FULL for place in range(count)]


def attention(c: Config, made: str, width: Num, groups: Num, *, full: bool, causal: bool = True) -> SharingAttention:
    """Norms of each head's query, key and value (that of the value without weights).

    It makes queries and what the letters of ``made`` say, keys and values, for ``groups`` of heads of this ``width``.
    """
    h, a, bias = c.size("hidden_size"), c.size("num_attention_heads"), c.flag("attention_bias")
    sizes = {"Q": a * width, "K": groups * width, "V": groups * width}
    names = dict(zip(sizes, LLAMA_NAMES, strict=False))
    normed = ("q_norm", "k_norm") if made else ("q_norm",)
    return SharingAttention(
        "self_attn",
        a,
        groups,
        width,
        width,
        tuple(Linear(names[letter], h, sizes[letter], letter, bias) for letter in f"Q{made}"),
        tuple(Norm(name, "rmsnorm", width, CODE) for name in normed),
        Linear(LLAMA_NAMES[-1], a * width, h, "O", bias),
        rope=Rope(width, by_window=True),
        window=None if full else window(c),
        causal=causal,
        dropout=bool(c.get("attention_dropout")),
        value_norm=Norm("v_norm", "rmsnorm-plain", width, CODE) if made else None,
        shares="" if not c.number("num_kv_shared_layers", least=0) else FULL if full else SLIDING,
    )


def layer_input(c: Config) -> LayerInput:
    """In a layer: its own vector of the token, gated by the stream, is added to it."""
    h, p = c.size("hidden_size"), c.size("hidden_size_per_layer_input")
    gate, back = Linear("per_layer_input_gate", h, p), Linear("per_layer_projection", p, h)
    return LayerInput("(per_layer_input)", gate, back, c.word("hidden_activation"))


def layer_vectors(c: Config, layers: Stack, **more: bool) -> LayerVectors:
    """A vector for each of the ``layers``, from a table of its own and from the token's embedding."""
    h, p, n = c.size("hidden_size"), c.size("hidden_size_per_layer_input"), total(each.copies for each in layers.groups)
    return LayerVectors(
        "",
        Embedding("embed_tokens_per_layer", c.size("vocab_size_per_layer_input"), n * p, scales=True),
        Linear("per_layer_model_projection", h, n * p),
        Norm("per_layer_projection_norm", "rmsnorm", p, CODE),
        **more,
    )


def norms(c: Config, *names: str) -> tuple[Norm, ...]:
    """Of the hidden size, by these names."""
    return tuple(Norm(name, "rmsnorm", c.size("hidden_size"), CODE) for name in names)


class Kind(NamedTuple):
    """How a layer differs from others: it may reuse keys and values, or have a width of its own (0: the usual)."""

    full: bool
    reuses: bool
    width: int
    cuts: bool


def kinds(c: Config) -> list[Kind]:
    """One for each layer."""
    types, count = layer_types(c, 5), c.number(LAYERS)
    listed = isinstance(c.get("intermediate_size"), list | tuple)
    widths = c.numbers("intermediate_size", count, least=1) if listed else [0] * count
    each = zip(types, reusing(c, types), widths, sparse(c, count), strict=True)
    return [Kind(kind == FULL, reads, width, cuts) for kind, reads, width, cuts in each]


def sparse(c: Config, count: int) -> list[bool]:
    """Whose gates are cut off: those of the first ten layers, where nothing is said and there are more."""
    given: Any = c.get("activation_sparsity_pattern")
    if given is None:
        return [count > 10 and place < 10 for place in range(count)]
    each = given if isinstance(given, list | tuple) else [given] * count
    return [place < len(each) and each[place] != 0 for place in range(count)]


def altup(c: Config) -> AltUp:
    """Streams and what mixes them."""
    h, s = c.size("hidden_size"), c.size("altup_num_inputs")
    return AltUp(
        "altup",
        parameter("correct_output_scale", h, minor=True),
        Norm("router_norm", "rmsnorm", h, CODE),
        Linear("modality_router", h, s),
        Linear("prediction_coefs", s, s * s),
        Linear("correction_coefs", s, s),
        s,
        clips=c.get("altup_coef_clip") is not None,
        scales=c.flag("altup_correct_scale"),
    )


def laurel(c: Config) -> Laurel:
    """Learned augmented residual layer: a map of low rank beside the attention."""
    h, r = c.size("hidden_size"), c.size("laurel_rank")
    return Laurel("laurel", Linear("linear_left", h, r), Linear("linear_right", r, h), *norms(c, "post_laurel_norm"))


@family("gemma3n_text", architecture="Gemma3nForCausalLM", heads=CAPPED)
def gemma3n_text(c: Config) -> Module:
    """Gemma 3n (Google 2025; MatFormer, arXiv 2310.07707; AltUp, arXiv 2301.13310; LAuReL, arXiv 2411.07501)."""
    h, s = c.size("hidden_size"), c.size("altup_num_inputs")

    def one(kind: Kind) -> Module:
        network = kit.gated(c, width=kind.width or None, act="hidden_activation")
        return AltUpLayer(
            "layers",
            altup(c),
            attention(c, "" if kind.reuses else "KV", head_dim(c), kv_heads(c), full=kind.full),
            laurel(c),
            SparseFeedForward(**network.__dict__, cuts=kind.cuts),
            layer_input(c),
            norms(c, *SANDWICH, "post_per_layer_input_norm"),
        )

    made = kit.decoder(c, one, kinds(c), code=CODE, masks=both(c)).but(scales=True)
    return AltUpDecoder(
        **made.__dict__,
        vectors=layer_vectors(c, made.layers, replaces=True),
        up=EachStream("altup_projections", h, h, streams=s),
        down=EachStream("altup_unembed_projections", h, h, streams=s),
    )
