"""The Byte Latent Transformer: bytes are grouped to patches, and only patches run through the large model."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, floor_div
from tfcalc.families import kit
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.not_trained import untrained
from tfcalc.nn.patches_of_bytes import (
    ByteDecoder,
    ByteEncoder,
    LatentBytes,
    MapAgain,
    PatchAttention,
    Patcher,
    Through,
)
from tfcalc.nn.stack import Stack

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


def attention(c: Config) -> Attention:
    """Grouped heads that split the hidden size; causal within a sequence."""
    return kit.attention(c, width=c.quotient("hidden_size", "num_attention_heads"), dropout="dropout")


def layers(c: Config) -> Stack:
    """Llama's layers."""
    made = kit.layer(c, attention(c), kit.gated(c, width=inner(c)))
    return Stack("layers", (made,) * c.number("num_hidden_layers"), c.size("num_hidden_layers"))


def crossing(c: Config, *, count: Num = 1) -> PatchAttention:
    """Attention between bytes and patches, with norms of both."""
    h = c.size("hidden_size")
    norms = {"query_norm": Norm("q_norm", "rmsnorm", h), "key_norm": Norm("k_norm", "rmsnorm", h)}
    own = {"name": "cross_attn_layers", "causal": False, "rope": None, "count": count}
    return PatchAttention(**attention(c).__dict__ | own | norms)


def encoder(c: Config, *, tied: bool) -> ByteEncoder:
    """Patches ask the bytes, behind the last layer or behind each: k vectors a patch."""
    h, k, cross = c.size("hidden_size"), c.size("cross_attn_k"), crossing(c)
    name = "patch_embedding_projection"
    table = Embedding("embed_tokens", c.size("vocab_size"), h, "lm_head" if tied else None)
    made = ByteEncoder("local_encoder", layers(c), Linear(name, h, h * k), cross, table, k)
    if not c.flag("cross_attn_all_layers"):
        return made
    others = c.size("num_hidden_layers") - 1
    return made.but(
        cross=cross.but(name=f"{cross.name}[last]"),
        again=MapAgain(f"{name}[not last]", h, h * k, name, times=others),
        unused=cross.but(name=f"{cross.name}[not last]", count=others),
    )


def decoder(c: Config) -> ByteDecoder:
    """Bytes ask the patches, before the first layer or before each."""
    h, k = c.size("hidden_size"), c.size("cross_attn_k")
    project = Linear("patch_embedding_projection", c.size("hidden_size_global"), h * k)
    cross = crossing(c, count=c.size("num_hidden_layers") if c.flag("cross_attn_all_layers") else 1)
    return ByteDecoder("local_decoder", project, cross, layers(c), Norm("norm", "rmsnorm", h), k)


def global_transformer(c: Config) -> Through:
    """The large model, which reads a patch's vectors side by side: mapped, where they are not as wide as it is."""
    nested, read = part(c, "global"), part(c, "encoder")
    width = read.size("hidden_size") * c.size("cross_attn_k")
    maps = read.number("hidden_size") * c.number("cross_attn_k") != nested.number("hidden_size")
    project = Linear("token_embedding_projection", width, nested.size("hidden_size")) if maps else None
    return Through("global_transformer", project, layers(nested))


def patcher(c: Config) -> Module:
    """A small language model of bytes, trained beforehand: where it is surprised, a patch begins."""
    h, words = c.size("hidden_size"), c.size("vocab_size")
    head = Linear("lm_head", h, words, "vocab", kind="output")
    table, last = Embedding("embed_tokens", words, h), Norm("norm", "rmsnorm", h)
    return untrained(Patcher("patcher", table, layers(c), last, head=head))


def language_model(c: Config, base: Module) -> Module:
    """Logits over bytes. Where they are tied, it is the encoder's table that is stored here."""
    width = part(c, "decoder").size("hidden_size")
    return WithHead("", base, Linear("lm_head", width, c.size("vocab_size"), "vocab", kind="output"))


@family(
    "blt",
    architecture="BltForCausalLM",
    heads={"Model": tops.bare, "ForCausalLM": language_model},
    encoder_hash_byte_group_size=[3, 4, 5, 6, 7, 8],  # by __post_init__
)
def blt(c: Config) -> Module:
    """Pagnoni et al. 2024 (arXiv 2412.09871): a table of hashed groups of bytes holds most of the small parameters.

    How many bytes a patch has depends on the text; here it is ``patch_size``.
    """
    read, tables = part(c, "encoder"), c.size("encoder_hash_byte_group_nb_functions") * len(groups(c))
    rows = c.size("encoder_hash_byte_group_vocab") * tables
    return LatentBytes(
        "model",
        encoder(read, tied=c.flag("tie_word_embeddings") and c.head == "ForCausalLM"),
        global_transformer(c),
        decoder(part(c, "decoder")),
        Embedding("encoder_hash_tok_embedding", rows, read.size("hidden_size")),
        patcher(part(c, "patcher")) if c.flag("patch_in_forward") else None,
        c.size("patch_size"),
        tables,
    )


def groups(c: Config) -> list[int]:
    """How many bytes each hash is made of."""
    return c.numbers("encoder_hash_byte_group_size", least=1)
