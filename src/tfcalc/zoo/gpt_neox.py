"""GPT-NeoX and those that name their maps as Megatron-LM does: ``query_key_value``, ``dense_4h_to_h``. And MPT."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, product
from tfcalc.nn.attention import OWN_SOFTMAX, Attention, EagerCode
from tfcalc.nn.basic import Norm
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import Parallel, PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Alibi, Rope
from tfcalc.zoo.blocks import decoders, layers
from tfcalc.zoo.blocks.attention import IndexedAttention
from tfcalc.zoo.blocks.gpt import GPT_TOPS, inner, split_attention
from tfcalc.zoo.blocks.layers import LAYERS
from tfcalc.zoo.blocks.vision_language import PatchReader, PixelMap, conditional
from tfcalc.zoo.blocks.vision_tower import grid, nested

QKV = ("query_key_value", "dense")
MLP = ("dense_h_to_4h", "dense_4h_to_h")


def width(c: Config) -> Num:
    """Return the width of a head: the hidden size split among the heads."""
    return c.quotient("hidden_size", "num_attention_heads")


def rope(c: Config) -> Rope:
    """Rotary positions of a part of each head, which is put together again."""
    return decoders.rope(c, width(c), copies=True)


def network(c: Config, width: Num, kind: str, *, bias: bool = True) -> FeedForward:
    """Two maps with an activation between them."""
    return layers.network("mlp", MLP, c.size("hidden_size"), width, kind, bias=bias)


@family(
    "gpt_neox",
    heads=GPT_TOPS,
    aliases={"rotary_pct": "partial_rotary_factor"},
    partial_rotary_factor=0.25,  # by __post_init__
)
def gpt_neox(c: Config) -> Module:
    """Black et al. 2022 (arXiv 2204.06745), Pythia: two norms a layer even where its sub-layers run side by side."""
    bias, dropped = c.flag("attention_bias"), bool(c.get("hidden_dropout"))
    mixer = split_attention(c, "attention", QKV, bias=bias, dropout="attention_dropout", rope=rope(c))
    mlp = network(c, c.size("intermediate_size"), c.word("hidden_act"))
    wiring = Parallel if c.flag("use_parallel_residual") else PreNorm
    stack = decoders.layer(c, mixer, mlp, of=wiring, norm="layernorm", dropped=dropped)
    names = ("gpt_neox", "embed_in", "final_layer_norm")
    return decoders.decoder(c, stack, norm="layernorm", names=names).replace(dropped=dropped)


@family("gpt_neox_japanese", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head("embed_out")})
def gpt_neox_japanese(c: Config) -> Module:
    """ABEJA 2022: no biases but that of the last layer's attention."""
    mlp = network(c, c.size("hidden_size") * c.size("intermediate_multiple_size"), c.word("hidden_act"), bias=False)

    def one(bias: bool) -> PreNorm:
        drops = "attention_dropout"
        mixer = split_attention(c, "attention", QKV, bias=False, output_bias=bias, dropout=drops, rope=rope(c))
        mixer = mixer.replace(eager=OWN_SOFTMAX)
        return decoders.layer(c, mixer, mlp, norm="layernorm", dropped=bool(c.get("hidden_dropout")))

    last, names = c.number(LAYERS) - 1, ("gpt_neox_japanese", "embed_in", "final_layer_norm")
    return decoders.decoder(c, one, [place == last for place in range(last + 1)], norm="layernorm", names=names)


@family("bloom", heads=GPT_TOPS, aliases={"n_embed": "hidden_size"})
def bloom(c: Config) -> Module:
    """BLOOM (arXiv 2211.05100): a norm of the embedding, and no positions but in the attention's scores (ALiBi)."""
    h, norm = c.size("hidden_size"), "layernorm"
    mixer = split_attention(c, "self_attention", QKV, dropout="attention_dropout", alibi=Alibi())
    mlp = network(c, 4 * h, "gelu_pytorch_tanh").replace(code="bloom")
    made = decoders.layer(c, mixer, mlp, norm=norm, dropped=bool(c.get("hidden_dropout"))).replace(name="h")
    whole = decoders.decoder(c, made, norm=norm, names=("transformer", "word_embeddings", "ln_f"))
    return whole.replace(first=Norm("word_embeddings_layernorm", norm, h))


def falcon_norms(c: Config) -> tuple[str, ...]:
    """Side by side, the sub-layers share a norm, or have one each; one after the other, they have one each."""
    if not c.flag("parallel_attn"):
        return decoders.PRE_NORM
    given = c.get("num_ln_in_parallel_attn")
    each = c.flag("new_decoder_architecture") if given is None else given == 2
    return ("ln_attn", "ln_mlp") if each else ("input_layernorm",)


def falcon_groups(c: Config) -> Num | None:
    """Heads of keys and values: as many as the newer architecture says; in the older one a single one, or all."""
    if not c.flag("new_decoder_architecture"):
        return 1 if c.flag("multi_query") else None
    if c.get("num_kv_heads") is not None:
        c.quotient("num_attention_heads", "num_kv_heads")  # raises where they cannot be shared evenly
    return c.optional("num_kv_heads")


@family("falcon", heads=GPT_TOPS, aliases={"n_embed": "hidden_size"})
def falcon(c: Config) -> Module:
    """Almazrouei et al. 2023 (arXiv 2311.16867): keys and values shared by all queries (7B) or by groups (40B)."""
    bias, newer, alibi, groups = c.flag("bias"), c.flag("new_decoder_architecture"), c.flag("alibi"), falcon_groups(c)
    of = IndexedAttention if newer or groups is not None else Attention
    dropout = "attention_dropout" if alibi else ""
    mixer = split_attention(c, "self_attention", QKV, groups=groups, bias=bias, dropout=dropout, of=of)
    if isinstance(mixer, IndexedAttention):
        mixer = mixer.replace(groups=mixer.kv_heads, kv_heads=mixer.heads if newer else mixer.kv_heads)
    mixer = mixer.replace(
        inward=tuple(each.replace(turned=True) for each in mixer.inward), output=mixer.output.replace(turned=True)
    )
    mixer = mixer.replace(eager=EagerCode(softmax="weights"), always_masked=True)
    mixer = mixer.replace(alibi=Alibi(in_mask=True)) if alibi else mixer.replace(rope=decoders.rope(c, width(c)))
    mlp = network(c, inner(c, "ffn_hidden_size"), c.word("activation"), bias=bias)
    mlp = mlp.replace(up=mlp.up.replace(turned=True), down=mlp.down.replace(turned=True))
    wiring, dropped = Parallel if newer or c.flag("parallel_attn") else PreNorm, bool(c.get("hidden_dropout"))
    made = decoders.layer(c, mixer, mlp, of=wiring, names=falcon_norms(c), norm="layernorm", dropped=dropped)
    names = ("transformer", "word_embeddings", "ln_f")
    return decoders.decoder(c, made.replace(name="h"), norm="layernorm", names=names)


@family(
    "persimmon",
    partial_rotary_factor=0.5,  # by __post_init__
)
def persimmon(c: Config) -> Module:
    """Adept 2023: a norm of each head's query and key; squared ReLU."""
    mixer = split_attention(c, "self_attn", QKV, dropout="attention_dropout", rope=rope(c))
    names = ("q_layernorm", "k_layernorm") if c.flag("qk_layernorm") else ()
    mixer = mixer.replace(norms=tuple(Norm(name, "layernorm", width(c)) for name in names))
    mlp = network(c, c.size("intermediate_size"), c.word("hidden_act"))
    made = decoders.layer(c, mixer, mlp, norm="layernorm", dropped=bool(c.get("hidden_dropout")))
    return decoders.decoder(c, made, norm="layernorm", names=("model", "embed_tokens", "final_layernorm"))


def text_of(c: Config) -> Config:
    """Fuyu's language model: nested, or, as in its published file, not set apart."""
    return c.sub("text_config", "persimmon") if c.has("text_config") else c.read_as("persimmon")


@family("fuyu", heads={"Model": tops.bare, "ForCausalLM": conditional(text_of)})
def fuyu(c: Config) -> Module:
    """Adept 2023: Persimmon, which reads patches of an image by a single map of their pixels."""
    text, side = text_of(c), c.size("patch_size")
    language = persimmon(text).replace(name="language_model") if text is c else nested(text, "language_model")
    pixels, patches, h = side * side * c.size("num_channels"), product(grid(c)), text.size("hidden_size")
    embed = PixelMap("vision_embed_tokens", pixels, h, "", True, patches=patches)
    return PatchReader("model", embed, (), language, patches, h)


@family("mpt", heads=GPT_TOPS)
def mpt(c: Config) -> Module:
    """MosaicML 2023: no biases at all, not even in the norms; no positions but ALiBi.

    transformers passes over ``expansion_ratio`` and ``learned_pos_emb``, and so does every published checkpoint.
    """
    h, kind = c.size("hidden_size"), "layernorm-no-bias"
    dropped = bool(c.sub("attn_config", defaults={"attn_pdrop": 0.0}).get("attn_pdrop"))
    mixer = split_attention(
        c, "attn", ("Wqkv", "out_proj"), bias=False, dropout="", alibi=Alibi(), eager=EagerCode(mask="filled")
    )
    mlp = layers.network("ffn", decoders.PLAIN, h, 4 * h, "gelu", bias=False)
    made = decoders.layer(
        c, mixer.replace(dropout=dropped), mlp, names=("norm_1", "norm_2"), norm=kind, dropped=dropped
    )
    return decoders.decoder(c, made.replace(name="blocks"), norm=kind, names=("transformer", "wte", "norm_f"))
