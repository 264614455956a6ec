"""The Byte Latent Transformer: bytes are grouped to patches, and only patches run through the large model."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.gradient import without_gradient
from tfcalc.core.number import Num, divide, floor_div
from tfcalc.core.sharing import without_weights
from tfcalc.families.llama import PRE_NORM, kv_heads
from tfcalc.leaves import embedding, linear, norm
from tfcalc.workload import Sequences, Workload

PARTS = {
    "encoder": "blt_local_encoder",
    "decoder": "blt_local_decoder",
    "global": "blt_global_transformer",
    "patcher": "blt_patcher",
}
"""The model types of the four models that are nested in the config."""


def part(c: Config, name: str) -> Config:
    """One of the four models that are nested in the config; by ``__post_init__``, the patcher's activation is fixed."""
    own = {"hidden_act": "silu"} if name == "patcher" else {}
    return c.within(f"{name}_config", PARTS[name], **own)


def inner(c: Config) -> Num:
    """The feed-forward width: given, or 8/3 of the hidden size."""
    given = c.optional("intermediate_size")
    return floor_div(8 * c.size("hidden_size"), 3) if given is None else given


def attention(
    name: str, c: Config, run: Workload, queries: Sequences, keys: Sequences, *, within: tuple[Component, ...] = ()
) -> Component:
    """Grouped heads that split the hidden size; causal within a sequence."""
    h, d = c.size("hidden_size"), c.quotient("hidden_size", "num_attention_heads")
    block = Attention(h, c.size("num_attention_heads"), kv_heads(c), d, d, names=LLAMA_NAMES, within=within)
    return block(name, queries, keys, run, causal=queries is keys)


def layers(c: Config, run: Workload, stream: Sequences) -> Component:
    """Llama's layers."""
    h, tokens = c.size("hidden_size"), stream.tokens
    mixer = attention("self_attn", c, run, stream, stream)
    mlp = FeedForward(h, inner(c), c.word("hidden_act"), names=GATED, gated=True)("mlp", stream, run)
    norms = (norm(name, "rmsnorm", h, tokens) for name in PRE_NORM)
    return layer("layers", (mixer, mlp, *norms), tokens * h, copies=c.size("num_hidden_layers"), ends_with_sum=True)


def crossing(c: Config, run: Workload, queries: Sequences, keys: Sequences) -> Component:
    """Attention between bytes and patches, with norms of both."""
    h = c.size("hidden_size")
    norms = norm("q_norm", "rmsnorm", h, queries.tokens), norm("k_norm", "rmsnorm", h, keys.tokens)
    return attention("cross_attn_layers", c, run, queries, keys, within=norms)


def of_every_layer(c: Config, asks: bool, project: Component, cross: Component) -> Iterator[Component]:
    """Both once, or ``cross`` at every layer.

    In the encoder (``asks``) each layer begins anew with its patches, so that what the last one makes is all that is
    used of it, and all that a gradient reaches.
    """
    yield project
    if not c.flag("cross_attn_all_layers"):
        yield cross
    elif not asks:
        yield cross._replace(copies=c.size("num_hidden_layers"))
    else:
        others = c.size("num_hidden_layers") - 1
        for part, copies in ((without_weights(project), 0), (cross, others)):
            unused = without_gradient(part)._replace(name=f"{part.name}[not last]", copies=copies, active=others)
            yield unused
        yield cross._replace(name=f"{cross.name}[last]")


def local(
    name: str, c: Config, run: Workload, patches: Sequences, *further: Component, width: Num, asks: bool
) -> Component:
    """A model of bytes. Patches ask the bytes (in the encoder), or the bytes ask the patches; k vectors a patch."""
    h, k = c.size("hidden_size"), c.size("cross_attn_k")
    pieces = Sequences(patches.batch, patches.length * k)
    queries, keys = (pieces, run.target) if asks else (run.target, pieces)
    project = linear("patch_embedding_projection", width, h * k, patches.tokens, bias=False)
    return Component(
        name,
        "decoder",
        parts=(
            layers(c, run, run.target),
            *of_every_layer(c, asks, project, crossing(c, run, queries, keys)),
            *further,
        ),
    )


def of_bytes(c: Config, run: Workload, *, tied: bool = False) -> Component:
    """A vector for each byte."""
    tied_to = "lm_head" if tied else None
    return embedding("embed_tokens", c.size("vocab_size"), c.size("hidden_size"), run.target.tokens, tied_to=tied_to)


def last_norm(c: Config, run: Workload) -> Component:
    """The final norm of what reads bytes."""
    return norm("norm", "rmsnorm", c.size("hidden_size"), run.target.tokens)


def global_transformer(c: Config, run: Workload, patches: Sequences, width: Num) -> Component:
    """The large model, which reads a patch's vectors side by side: mapped, where they are not as wide as it is."""
    nested, encoder = part(c, "global"), part(c, "encoder")
    maps = encoder.number("hidden_size") * c.number("cross_attn_k") != nested.number("hidden_size")
    h = nested.size("hidden_size")
    project = [linear("token_embedding_projection", width, h, patches.tokens, bias=False)] if maps else []
    return Component("global_transformer", "decoder", parts=(*project, layers(nested, run, patches)))


def frozen(component: Component) -> Component:
    """The component with weights that no gradient trains."""
    weights = tuple(weight._replace(frozen=True) for weight in component.own.weights)
    parts = tuple(frozen(inside) for inside in component.parts)
    return component._replace(own=component.own._replace(weights=weights), parts=parts)


def patcher(c: Config, run: Workload) -> Component:
    """A small language model of bytes, trained beforehand: where it is surprised, a patch begins."""
    logits = output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, tied=False)
    stack = layers(c, run, run.target)
    return without_gradient(
        frozen(Component("patcher", "decoder", parts=(of_bytes(c, run), stack, last_norm(c, run), logits)))
    )


def logits(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits over bytes. Where they are tied, it is the encoder's table that is stored here."""
    yield base
    yield output("lm_head", part(c, "decoder").size("hidden_size"), c.size("vocab_size"), run, tied=False)


@family(
    "blt",
    architecture="BltForCausalLM",
    heads={"Model": bare, "ForCausalLM": logits},
    encoder_hash_byte_group_size=[3, 4, 5, 6, 7, 8],  # by __post_init__
)
def blt(c: Config, run: Workload) -> Component:
    """Pagnoni et al. 2024 (arXiv 2412.09871): a table of hashed groups of bytes holds most of the small parameters.

    How many bytes a patch has depends on the text; here it is ``patch_size``.
    """
    encoder, decoder = part(c, "encoder"), part(c, "decoder")
    h, tokens = encoder.size("hidden_size"), run.target.tokens
    patches = Sequences(run.batch_size, divide(run.seq_len, c.size("patch_size")))
    tables = c.size("encoder_hash_byte_group_nb_functions") * len(groups(c))
    table = of_bytes(encoder, run, tied=c.flag("tie_word_embeddings") and c.head == "ForCausalLM")
    read = local("local_encoder", encoder, run, patches, table, width=h, asks=True)
    wide = decoder.size("hidden_size_global")
    return Component(
        "model",
        "decoder",
        parts=(
            read,
            global_transformer(c, run, patches, h * c.size("cross_attn_k")),
            local("local_decoder", decoder, run, patches, last_norm(decoder, run), width=wide, asks=False),
            embedding(
                "encoder_hash_tok_embedding", c.size("encoder_hash_byte_group_vocab") * tables, h, tokens * tables
            ),
            *([patcher(part(c, "patcher"), run)] if c.flag("patch_in_forward") else []),
        ),
    )


def groups(c: Config) -> list[int]:
    """How many bytes each hash is made of."""
    return c.numbers("encoder_hash_byte_group_size", least=1)
