"""GPT-1, GPT-2 and their nearest variants: norms with biases, heads that split the hidden size, an inner width of 4h.

The functions here serve the other GPT-likes too (gpt_neox.py, fairseq.py). They read a config by the names that all of
transformers' attribute maps share: ``hidden_size`` for ``n_embd``, ``num_hidden_layers`` for ``n_layer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import OWN_SOFTMAX, CrossAttention, EagerCode
from tfcalc.nn.basic import Embedding, Linear
from tfcalc.nn.embeddings import BUFFER, GIVEN, Positions, Sines
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.heads import SequenceSummary, WithSummary
from tfcalc.nn.layers import Parallel, PostNorm, PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.printable import quoted
from tfcalc.zoo.blocks import layers
from tfcalc.zoo.blocks.gpt import GPT_TOPS, inner, normed, split_attention
from tfcalc.zoo.blocks.layers import LAYERS, one_module_per_kind, stack

WITH_ENCODER = ("Model", "LMHeadModel", "ForCausalLM")
"""The classes that read an encoder; others have the weights for it all the same, and never run them."""


def double_heads(c: Config, base: Module) -> Module:
    """The language model, and a choice among continuations: one number for each sequence."""
    whole, h = tops.lm_head()(c, base), c.size("hidden_size")
    if not c.flag("summary_use_proj"):
        return whole
    chosen = Linear("summary", h, 1 if c.flag("summary_proj_to_labels") else h, "", True)
    return WithSummary("", whole.base, whole.head, summary=SequenceSummary("multiple_choice_head", chosen))


OWN_HEADS = GPT_TOPS | {"LMHeadModel": tops.lm_head(), "DoubleHeadsModel": double_heads}


def network(c: Config, name: str, names: tuple[str, str], width: Num, kind: str) -> FeedForward:
    """Two maps with biases, and an activation of this kind between them."""
    return layers.network(name, names, c.size("hidden_size"), width, kind)


def stacked(
    c: Config,
    table: str,
    made: Module | Sequence[Module],
    final: str = "",
    *,
    added: tuple[Module, ...] = (),
    dropped: str = "embd_pdrop",
    scales: bool = False,
) -> Decoder:
    """The words, the tables ``added``, dropout of what the field ``dropped`` says, these layers, and a final norm."""
    words = Embedding(table, c.size("vocab_size"), c.size("hidden_size"))
    last = normed(c, final) if final else None
    return Decoder("transformer", words, stack(c, made), last, scales, added=added, dropped=bool(c.get(dropped)))


def places(c: Config, name: str, indices: str = GIVEN) -> Positions:
    """A trained vector for each position."""
    return Positions(name, c.size("max_position_embeddings"), c.size("hidden_size"), indices)


def gpt2_layer(c: Config, groups: Num | None = None, **code: Any) -> PreNorm:
    """Fused queries, keys and values; where it reads an encoder, the keys and values of the encoder are fused."""
    sublayers: list[Module] = [split_attention(c, "attn", ("c_attn", "c_proj"), groups=groups, **code)]
    norms = [normed(c, "ln_1")]
    if c.flag("add_cross_attention"):
        reads = c.head in WITH_ENCODER
        names = ("q_attn", "c_attn", "c_proj")
        sublayers.append(split_attention(c, "crossattention", names, of=CrossAttention, reads=reads, **code))
        norms.append(normed(c, "ln_cross_attn"))
    sublayers.append(network(c, "mlp", ("c_fc", "c_proj"), inner(c), c.word("activation_function")))
    norms.append(normed(c, "ln_2"))
    return PreNorm("h", tuple(sublayers), tuple(norms), bool(c.get("resid_pdrop")), holds=True)


@family("gpt2", "gpt-sw3", heads=OWN_HEADS)
def gpt2(c: Config) -> Module:
    """Radford et al. 2019: the norms before their sub-layers, and one after the last layer."""
    return stacked(c, "wte", gpt2_layer(c, eager=OWN_SOFTMAX), "ln_f", added=(places(c, "wpe"),))


@family("gpt_bigcode", heads=OWN_HEADS)
def gpt_bigcode(c: Config) -> Module:
    """SantaCoder, StarCoder (arXiv 2301.03988, 2305.06161): GPT-2 with one head of keys and values for all queries."""
    if c.flag("multi_query") and c.flag("add_cross_attention"):
        raise InvalidModel("add_cross_attention does not go with multi_query", "set multi_query to false")
    layer = gpt2_layer(c, groups=1 if c.flag("multi_query") else None)
    return stacked(c, "wte", layer, "ln_f", added=(places(c, "wpe"),))


@family("openai-gpt", heads=OWN_HEADS)
def openai_gpt(c: Config) -> Module:
    """Radford et al. 2018: the norms after their sub-layers, so that none follows the last layer.

    What its configs call GELU is the approximation by a tanh.
    """
    mixer = split_attention(c, "attn", ("c_attn", "c_proj"), eager=OWN_SOFTMAX)
    kind = {"gelu": "gelu_new"}.get(c.word("afn"), c.word("afn"))
    mlp = network(c, "mlp", ("c_fc", "c_proj"), 4 * c.size("hidden_size"), kind)
    norms = normed(c, "ln_1"), normed(c, "ln_2")
    layer = PostNorm("h", (mixer, mlp), norms, bool(c.get("resid_pdrop")), holds=True)
    return stacked(c, "tokens_embed", layer, added=(places(c, "positions_embed", BUFFER),))


@family("gpt_neo", heads=GPT_TOPS)
def gpt_neo(c: Config) -> Module:
    """Black et al. 2021: no biases on queries, keys and values. Every other layer sees a window (the same weights)."""
    mlp = network(c, "mlp", ("c_fc", "c_proj"), inner(c, "intermediate_size"), c.word("activation_function"))
    norms = normed(c, "ln_1"), normed(c, "ln_2")

    def one(window: int | None) -> PreNorm:
        mixer = split_attention(
            c,
            "attn.attention",
            ("q_proj", "k_proj", "v_proj", "out_proj"),
            bias=False,
            output_bias=True,
            dropout="attention_dropout",
            window=window,
            keeps_all=True,
            eager=EagerCode("float32", "own"),
        )
        return PreNorm("h", (mixer, mlp), norms, bool(c.get("resid_dropout")), holds=True)

    each = one_module_per_kind(one, local_windows(c))
    return stacked(c, "wte", each, "ln_f", added=(places(c, "wpe"),), dropped="embed_dropout")


def local_windows(c: Config) -> list[int | None]:
    """Return each layer's window; every other one has it, if ``attention_types`` does not say otherwise.

    It is only a mask: what is cached, and read by a token that is decoded, are all keys.
    """
    count, window, given = c.number(LAYERS), c.number("window_size"), c.get("attention_types")
    if given is None:
        return [window if place % 2 else None for place in range(count)]
    try:
        kinds = [kind for names, times in given for _ in range(min(times, count + 1)) for kind in names]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != count:
        hint = 'write [[["global", "local"], 12]]'
        raise InvalidModel(f"{c.path('attention_types')} {quoted(given)} does not name {count} layers", hint)
    return [window if kind == "local" else None for kind in kinds]


def one_norm(c: Config, *names: str, angles: str = "") -> Decoder:
    """Attention and feed-forward read the same norm and run side by side; attention has no biases."""
    rope = Rope(rotated(c), RopeCode(angles=angles, repeats=True))
    mixer = split_attention(c, "attn", names, bias=False, rope=rope, eager=EagerCode("float32", "own"))
    mlp = network(c, "mlp", ("fc_in", "fc_out"), inner(c), c.word("activation_function"))
    layer = Parallel("h", (mixer, mlp), (normed(c, "ln_1"),), bool(c.get("resid_pdrop")))
    return stacked(c, "wte", layer, "ln_f")


def rotated(c: Config) -> Num:
    """GPT-J's ``rotary_dim``; all of a head's width where it is null."""
    given = c.optional("rotary_dim")
    return c.quotient("hidden_size", "num_attention_heads") if given is None else given


@family(
    "gptj",
    heads=GPT_TOPS
    | {"ForCausalLM": tops.lm_head(bias=True), "ForQuestionAnswering": tops.classifier("qa_outputs", bias=True)},
)
def gptj(c: Config) -> Module:
    """Wang and Komatsuzaki 2021: parallel sub-layers under one norm, rotary positions, a bias on the logits."""
    return one_norm(c, "q_proj", "k_proj", "v_proj", "out_proj")


@family("codegen", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head(bias=True)})
def codegen(c: Config) -> Module:
    """Nijkamp et al. 2022 (arXiv 2203.13474): GPT-J with fused queries, keys and values."""
    return one_norm(c, "qkv_proj", "out_proj", angles="float32")


@family(
    "ctrl",
    heads={
        "Model": tops.bare,
        "LMHeadModel": tops.lm_head(bias=True),
        "ForSequenceClassification": tops.classifier("classifier"),
    },
)
def ctrl(c: Config) -> Module:
    """Keskar et al. 2019 (arXiv 1909.05858): words times √h, fixed positions; a bias on the logits."""
    names = ("Wq", "Wk", "Wv", "dense")
    mixer = split_attention(c, "multi_head_attention", names, dropout="", eager=OWN_SOFTMAX)
    mlp = network(c, "ffn", ("0", "2"), c.size("dff"), "relu")
    norms = normed(c, "layernorm1"), normed(c, "layernorm2")
    layer = PreNorm("h", (mixer, mlp), norms, bool(c.get("resid_pdrop")), holds=True)
    c.size("max_position_embeddings")  # a size, though nothing is stored for it
    sines = (Sines("pos_encoding", c.size("hidden_size")),)
    return stacked(c, "w", layer, "layernorm", added=sines, scales=True)
