"""dots 3 Note: latent attention in two sizes, experts, and towers for images and for sound.

The tower for images has more experts the higher the layer; the encoder of sound halves bands and time alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs import tops
from tfcalc.configs.config import Config, layer_named
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, buffer
from tfcalc.nn.latent import LatentAttention, LatentGate
from tfcalc.nn.mixture import Experts, Mixture, Router, RouterCode
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.nn.stack import Stack
from tfcalc.ops.shapes import contiguous, permute, reshape
from tfcalc.ops.work import FP32
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, native_resolution
from tfcalc.zoo.blocks.experts import DENSE_OR_SPARSE, mlp_types, routed, shared, sparse_after
from tfcalc.zoo.blocks.latent_attention import SparseLatentAttention, index_module, latent_of
from tfcalc.zoo.blocks.layers import FUSED, LAYERS
from tfcalc.zoo.blocks.native_resolution import MERGED_OF_TWO, Merger, PackedAttention, PackedTower, PatchRows
from tfcalc.zoo.blocks.sound import Convolution, SoundEncoder
from tfcalc.zoo.blocks.vision_language import Multimodal
from tfcalc.zoo.blocks.vision_tower import nested


class BandStem(Module):
    """Convolutions over bands and time, each of which halves both, and a map of what is left of each place."""

    kind = "stem"

    convolutions: tuple[Convolution, ...]
    map: Linear
    bands: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard."""
        stream, length = ctx.stream, ctx.stream.length * 2 ** len(self.convolutions)
        x = x.trace.given((stream.batch, 1, self.bands, length), x.trace.weights_format, "spectrogram")
        for place, each in enumerate(self.convolutions):
            halved = 2 ** (place + 1)
            places: tuple[Num, Num] = (ceil_div(self.bands, halved), stream.length * 2 ** (2 - place))
            x = ctx.activation("gelu", each(x, ctx, *places), f"activation.{place}")
        x = contiguous(permute(x, (0, 3, 1, 2)))
        return self.map(reshape(x, stream.batch, stream.length, self.map.fan_in))


class MapAdapter(Module):
    """A norm, and two maps with an activation between them."""

    kind = "projector"

    norm: Norm
    first: Linear
    last: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the adapter's output for each frame."""
        inner = self.first(self.norm(x, ctx))
        return self.last(ctx.activation("gelu", inner))


class AdaptedEncoder(SoundEncoder):
    """An encoder with an adapter behind its norm."""

    adapter: MapAdapter | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The encoder's, and the adapter."""
        yield from super().parts
        assert self.adapter is not None
        yield self.adapter

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the adapted output for one clip per sequence; ``x`` are the words beside it."""
        assert self.adapter is not None
        return self.adapter(super().forward(x, ctx), ctx)


HALVINGS = 3


@family(
    "dots3_note_audio_encoder",
    architecture="Dots3NoteAudioModel",
    heads={"Model": bare},
    aliases={
        "whisper_adapter_in_dim": "adapter_input_size",
        "whisper_adapter_out_dim": "adapter_out_dim",
        "adapter_output_size": "adapter_out_dim",
    },
)
def dots3_note_audio_encoder(c: Config) -> Module:
    """Its tower for sound, as many steps as the source is long: Whisper's shape, but with gated networks."""
    h, into, out = c.size("hidden_size"), c.size("adapter_input_size"), c.size("adapter_out_dim")
    layer = decoders.layer(c, _attention(c), decoders.gated(c, bias=True, names=FUSED))
    adapter = MapAdapter(
        "adapter",
        Norm("norm", "layernorm", into),
        Linear("fc1", into, out, "", True),
        Linear("fc2", out, out, "", True),
    )
    return AdaptedEncoder(
        "audio_tower",
        _stem(c),
        None,
        Stack("layers", (layer,) * c.number("num_hidden_layers"), c.size("num_hidden_layers")),
        Norm("layer_norm", "rmsnorm", h),
        dropped=bool(c.get("dropout")),
        adapter=adapter,
    )


def _attention(c: Config) -> Attention:
    """Keys have no bias; there are as many as queries."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    bias = c.flag("attention_bias")
    maps = tuple(
        Linear(f"{letter.lower()}_proj", h, a * d, letter, bias and letter != "K") for letter in ("Q", "K", "V")
    )
    out = Linear("o_proj", a * d, h, "O", bias)
    drops = bool(c.get("attention_dropout"))
    return Attention(
        "self_attn", a, a, d, d, maps, (), out, rope=decoders.rope(c, d, copies=True), causal=False, dropout=drops
    )


def _stem(c: Config) -> BandStem:
    """Three convolutions over frequency and time, each of which halves both, and a map of what is left."""
    width, bands = c.size("downsample_hidden_size"), c.number("feature_size")
    reads = (1, width, width)
    convolutions = tuple(Convolution(f"convs.{place}", each, width, (3, 3)) for place, each in enumerate(reads))
    left = ceil_div(bands, 2**HALVINGS)
    return BandStem("conv_stem", convolutions, Linear("conv_out", width * left, c.size("hidden_size")), bands)


def expert_counts(c: Config) -> list[int]:
    """Return the number of experts in each layer of the tower; 0 in dense layers."""
    count = c.number("num_hidden_layers")
    if c.has("pyramid_num_routed") or not c.has("mlp_layer_types"):
        return [max(number, 0) for number in c.numbers("pyramid_num_routed", count, least=-1)]
    each, kinds = c.sub("per_layer_config", defaults={}), c.words("mlp_layer_types", count, DENSE_OR_SPARSE)
    own = {layer_named(key): each.sub(key, defaults={}) for key in each.data if layer_named(key) is not None}
    counts = [of if (of := own.get(place)) and of.has("num_local_experts") else c for place in range(count)]
    return [of.number("num_local_experts") if kind == "sparse" else 0 for of, kind in zip(counts, kinds, strict=True)]


def mixture(count: int, c: Config) -> Mixture:
    """``count`` experts without a shared one."""
    h, f, active = c.size("hidden_size"), c.size("moe_intermediate_size"), min(c.number("num_experts_per_tok"), count)
    router = Router(
        "gate",
        h,
        count,
        chosen=active,
        scores="sigmoid",
        corrected=True,
        normalized=True,
        scales=True,
        code=RouterCode(in_place=False, logits="copies"),
    )
    up, down = Linear(FUSED[0], h, 2 * f, "1"), Linear(FUSED[1], f, h, "2")
    many = Experts("experts", None, up, down, c.word("hidden_act"), count=count, chosen=active)
    return Mixture("mlp", router, many, stored=(buffer("e_score_correction_bias", count),))


def vision_attention(c: Config) -> PackedAttention:
    """Norms of each head's query and key before they are turned."""
    h, a, d, bias = c.size("hidden_size"), c.size("num_attention_heads"), head_width(c), c.flag("attention_bias")
    inward, outward = Linear("qkv", h, 3 * a * d, "QKV", bias), Linear("proj", a * d, h, "O", bias)
    norms = tuple(Norm(f"{of}_norm", "rmsnorm", d) for of in "qk")
    rope, dropout = Rope(d, RopeCode(angles="float32", in_float32=True)), bool(c.get("attention_dropout"))
    return PackedAttention("attn", a, a, d, d, (inward,), norms, outward, rope=rope, dropout=dropout)


def head_width(c: Config) -> Num:
    """Heads split the hidden size."""
    return c.quotient("hidden_size", "num_attention_heads")


@family(
    "dots3_note_vision_encoder",
    architecture="Dots3NoteVisionModel",
    heads={"Model": tops.bare},
    aliases={
        "embed_dim": "hidden_size",
        "num_heads": "num_attention_heads",
        "use_bias": "attention_bias",
        "capacity_factor": "num_experts_per_tok",
    },
    # by __post_init__:
    num_experts_per_tok=2,
    pyramid_num_routed=[-1] * 25 + list(range(4, 65, 4)) + [64],
)
def dots3_note_vision_encoder(c: Config) -> Module:
    """Its tower for images of any size, as many patches as the source is long."""
    h, patch, width, out = map(c.size, ("hidden_size", "patch_size", "adapter_in_dim", "adapter_out_dim"))
    square, mixer = c.size("adapter_merge_size") * c.size("adapter_merge_size"), vision_attention(c)
    layers = {
        count: native_resolution.layer(
            h, mixer, mixture(count, c) if count else decoders.gated(c, bias=c.flag("mlp_bias")), form="rmsnorm"
        )
        for count in dict.fromkeys(expert_counts(c))
    }
    inner, names = width * square, MERGED_OF_TWO
    first, last = Linear(names[1], inner, inner, "", True), Linear(names[2], inner, out, "", True)
    return PackedTower(
        "vision_tower",
        PatchRows("patch_embed.proj", (c.size("num_channels"), patch, patch), h),
        None,
        native_resolution.tower_layers(c, *(layers[count] for count in expert_counts(c)), depth=LAYERS),
        (Merger("merger", Norm(names[0], "layernorm", width), first, last, square, activated="activation"),),
        normed=Norm("patch_embed.norm", "rmsnorm", h),
        norm=Norm("norm", "rmsnorm", h),
    )


WINDOW, SPARSE, FULL = "sliding_attention", "indexed_attention", "full_attention"


def layer_types(c: Config) -> list[str]:
    """Given, or a window in most layers; ``use_dsa`` says whether an indexer chooses the keys in the others."""
    count, full = c.number("num_hidden_layers"), FULL if c.get("use_dsa") is False else SPARSE
    if not c.has("layer_types"):
        window = c.flag("use_sliding_window")
        return [WINDOW if window and place >= 2 and place % 4 != 1 else full for place in range(count)]
    given = c.words("layer_types", count, (WINDOW, SPARSE, FULL))
    decided = c.has("use_dsa") or not c.has("per_layer_config")
    return [full if decided and kind != WINDOW else kind for kind in given]


def which_are_sparse(c: Config) -> list[str]:
    """``moe_layer_freq`` is a number, or a list of one for each layer."""
    first = c.number("first_k_dense_replace", least=0)
    if not isinstance(c.get("moe_layer_freq"), list | tuple):
        return mlp_types(c, sparse_after(c, first, c.number("moe_layer_freq")))
    marks = c.numbers("moe_layer_freq", c.number("num_hidden_layers"))
    return mlp_types(c, [DENSE_OR_SPARSE[mark > 0 and place >= first] for place, mark in enumerate(marks)])


class OfKind:
    """The sizes of the layers of one kind: their own where they have one, else the model's."""

    def __init__(self, c: Config, place: int, kind: str) -> None:
        self.c = c
        each = c.sub("per_layer_config", defaults={})
        key = next((key for key in each.data if layer_named(key) == place), None)
        self.own = each if key is None else each.sub(key, defaults={})
        self.prefix = "swa_" if kind == WINDOW and not c.has("per_layer_config") else ""

    def size(self, name: str) -> Num:
        """Return the size of this name for these layers."""
        if self.own.has(name):
            return self.own.size(name)
        return self.c.size(self.prefix + name)

    @property
    def rope_dim(self) -> Num:
        """Rotary width of a head: in a window, what is left of the head's width where the file does not say."""
        if self.prefix and not self.c.has("swa_qk_rope_head_dim"):
            return self.c.size("swa_head_dim") - self.c.size("swa_qk_nope_head_dim")
        return self.size("qk_rope_head_dim")


def attention(kind: str, place: int, c: Config) -> LatentAttention:
    """Latent attention with a norm of the rotated key and a gate for each head; its vectors of low rank are scaled.

    Layers that choose their keys turn queries and keys in fp32, and their indexer caches what comes out
    (transformers' Dots3NoteTextModel).
    """
    of, h = OfKind(c, place, kind), c.size("hidden_size")
    heads, key = of.size("num_attention_heads"), (of.size("qk_nope_head_dim"), of.rope_dim)
    made = latent_of(c, heads, of.size("q_lora_rank"), of.size("kv_lora_rank"), key, of.size("v_head_dim"))
    made = made.replace(
        key_norm=Norm("k_rope_only_layernorm", "rmsnorm", of.rope_dim),
        gate=LatentGate("g_proj", h, heads, "gate"),
        rope=Rope(of.rope_dim, RopeCode("float32" if kind == SPARSE else "", by_window=True, pairs=True)),
        window=window(c) if kind == WINDOW else None,
        scales="latents",
        copies_latent=True,
    )
    if kind != SPARSE:
        return made
    chooser = index_module(c, of.size("q_lora_rank"), of.rope_dim)
    chooser = chooser.replace(
        key_bits=FP32, rope=chooser.rope.replace(code=RopeCode("float32", by_window=True, pairs=True))
    )
    return made.as_type(SparseLatentAttention, indexer=chooser, always_masked=True)


def window(c: Config) -> int:
    """Return the number of tokens that the layers of a window see, by either name."""
    return c.number("sliding_window" if c.has("sliding_window") else "sliding_window_size")


@family(
    "dots3_note_text",
    aliases={"moe_shared_expert_intermediate_size": "shared_experts_intermediate_size"},
    # by __post_init__, for older configs:
    first_k_dense_replace=1,
    moe_layer_freq=1,
    use_sliding_window=True,
    sliding_window_size=512,
    swa_num_attention_heads=64,
    swa_kv_lora_rank=1024,
    swa_q_lora_rank=1024,
    swa_head_dim=256,
    swa_qk_nope_head_dim=192,
    swa_v_head_dim=128,
)
def dots3_note_text(c: Config) -> Module:
    """Its text: layers of a window have fewer heads and a wider latent vector than those that see everything."""
    mixers = layer_types(c)

    def one(kind: tuple[str, str]) -> Module:
        mixer, mlp = kind
        ffn = (
            routed(c, common=shared(c, width="shared_experts_intermediate_size"))
            if mlp == "sparse"
            else decoders.gated(c)
        )
        return decoders.layer(c, attention(mixer, mixers.index(mixer), c), ffn)

    return decoders.decoder(c, one, list(zip(mixers, which_are_sparse(c), strict=True)))


def text_of(c: Config) -> Config:
    """The text's config: nested, or spread over the whole's own fields."""
    return c.sub("text_config", "dots3_note_text") if c.has("text_config") else c.read_as("dots3_note_text")


def conditional(c: Config, base: Module) -> Module:
    """Logits of the text; the whole's config says whether they are made by the embedding."""
    text, tied = text_of(c), c.flag("tie_word_embeddings")
    head = tops.logits("lm_head", text.size("hidden_size"), text.size("vocab_size"), tied=tied)
    return ModelWithHead("", base, head)


def text_alone(c: Config, _base: Module) -> Module:
    """The text without towers, and its head."""
    text = text_of(c)
    return tops.lm_head()(text, nested(text, "model"))


@family("dots3_note", heads={"Model": tops.bare, "ForCausalLM": text_alone, "ForConditionalGeneration": conditional})
def dots3_note(c: Config) -> Module:
    """Text, images and sound (dots 3 Note, rednote 2026)."""
    vision = nested(c.sub("vision_config", "dots3_note_vision_encoder"), "vision_tower")
    audio = nested(c.sub("audio_config", "dots3_note_audio_encoder"), "audio_tower")
    return Multimodal("model", nested(text_of(c), "language_model"), ((vision,), (audio,)))
