"""Llama 4: experts in every layer or in some, chunks of the sequence, layers without positions; a tower for images."""

from __future__ import annotations

from typing import cast

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare, logits
from tfcalc.core.number import Num, product, scaled
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.ops.shapes import copied, part
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, vision_tower
from tfcalc.zoo.blocks.experts import AllExperts, EveryExpert, RouterOfAll, chosen
from tfcalc.zoo.blocks.layers import FUSED, LLAMA_NAMES, stack, window
from tfcalc.zoo.blocks.vision_language import VisionLanguageModel, tower
from tfcalc.zoo.blocks.vision_tower import InlineTower, PixelEmbeddings, grid


class TwiceActivated(Module):
    """Two linear maps, each with an activation behind it."""

    kind = "ffn"

    up: Linear
    down: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output of both maps for each vector."""
        for place, each in enumerate((self.up, self.down), 1):
            x = ctx.activation(self.activation, each(x), f"activation_{place}")
        return x


class ShuffleAdapter(Module):
    """Network over the vectors of patches laid side by side, ``count`` of them for each image."""

    kind = "projector"

    network: TwiceActivated
    count: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors for ``x``, of b × patches × h; two copies change which pixels are next to each other."""
        shape = (x.shape[0], ctx.run.beside(self.count).length, self.network.up.fan_in)
        return self.network(copied(copied(x), shape), ctx)


class Adapted(InlineTower):
    """A tower with an adapter behind it, which does not read the class."""

    adapter: ShuffleAdapter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the adapter's vectors, fewer than there are patches."""
        made = super().forward(x, ctx)
        assert self.adapter is not None
        return self.adapter(part(made, 1, ctx.run.beside(self.count - 1).length), ctx)


CHUNKED = "chunked_attention"


def experts(c: Config) -> Mixture:
    """Experts, which all read every token, and a shared one of the same width."""
    h, f, act = c.size("hidden_size"), c.size("intermediate_size"), c.word("hidden_act")
    count, active = c.size("num_local_experts"), chosen(c)
    up, down = Linear(FUSED[0], h, 2 * f, "1"), Linear(FUSED[1], f, h, "2")
    many = AllExperts("experts", None, up, down, act, count=count, chosen=active)
    route = RouterOfAll("router", h, count, chosen=active)
    return EveryExpert("feed_forward", route, many, (decoders.gated(c, name="shared_expert", width=f),), in_place=True)


def sparse_layers(c: Config) -> list[bool]:
    """Flag the layers with experts: those of ``moe_layers``, else the last of every ``interleave_moe_layer_step``."""
    count = c.number("num_hidden_layers")
    if c.has("moe_layers"):
        listed = set(c.numbers("moe_layers"))
        return [place in listed for place in range(count)]
    step = c.number("interleave_moe_layer_step")
    return [(place + 1) % step == 0 for place in range(count)]


@family("llama4_text")
def llama4_text(c: Config) -> Module:
    """Llama 4's text (Meta 2025): the norms of queries and keys have no weights."""

    def one(kind: tuple[int | None, bool, bool]) -> PreNorm:
        chunk, rotates, sparse = kind
        dense = decoders.gated(c, name="feed_forward", width=c.size("intermediate_size_mlp"))
        return decoders.layer(c, text_attention(c, chunk, rotates), experts(c) if sparse else dense)

    kinds = list(zip(chunks(c), rotated(c), sparse_layers(c), strict=True))
    return decoders.decoder(c, one, kinds, masks=(None, window(c, "attention_chunk_size")))


def text_attention(c: Config, chunk: int | None, rotates: bool) -> Attention:
    """Attention whose queries and keys are turned, then normed; those that are not have a factor for each place."""
    made = decoders.attention(c, bias=c.flag("attention_bias"))
    normed = rotates and c.flag("use_qk_norm")
    return made.replace(
        rope=decoders.rope(c, angles="complex", in_float32=True) if rotates else None,
        norms=(Norm("qk_norm", "rmsnorm-plain", made.key_dim),) if normed else (),
        normed_last=normed,
        chunk=chunk,
        tempered="float32" if not rotates and c.flag("attn_temperature_tuning") else "",
        eager=OWN_SOFTMAX,
    )


def rotated(c: Config) -> list[bool]:
    """Flag the layers with rotary embeddings: those of ``no_rope_layers``, else all but every fourth."""
    count = c.number("num_hidden_layers")
    if c.get("no_rope_layers"):
        return [bool(each) for each in c.numbers("no_rope_layers", count)]
    return [(place + 1) % c.number("no_rope_layer_interval") > 0 for place in range(count)]


def chunks(c: Config) -> list[int | None]:
    """Chunk of each layer: those that know positions see only theirs, unless ``layer_types`` say which do."""
    count, chunk = c.number("num_hidden_layers"), window(c, "attention_chunk_size")
    if c.has("layer_types"):
        return [chunk if kind == CHUNKED else None for kind in c.words("layer_types", count)]
    return [chunk if each else None for each in rotated(c)]


def shuffled(c: Config) -> Num:
    """The vectors that the tower gives to the text of an image: pixels move from both sides into the width."""
    (rows, columns), ratio = grid(c), c.factor("pixel_shuffle_ratio")
    count: Num = scaled(rows, ratio) * scaled(columns, ratio)
    return count


def adapter(c: Config) -> ShuffleAdapter:
    """Two linear maps of the shuffled pixels, each with an activation behind it."""
    wide, into, out = c.size("intermediate_size"), c.size("projector_input_dim"), c.size("projector_output_dim")
    network = TwiceActivated("mlp", Linear("fc1", wide, into), Linear("fc2", out, out), "gelu")
    return ShuffleAdapter("vision_adapter", network, shuffled(c))


@family("llama4_vision_model", architecture="Llama4VisionModel", heads={"Model": bare})
def llama4_vision_model(c: Config) -> Module:
    """Llama 4's images (Meta 2025): patches and a class token, biases everywhere but in the adapter."""
    h, patch, count = c.size("hidden_size"), c.size("patch_size"), product(grid(c))
    mixer = vision_tower.attention(c, names=LLAMA_NAMES)
    layer = PreNorm(
        "model.layers", (mixer, vision_tower.network(c, act="gelu")), vision_tower.norms(c, *decoders.PRE_NORM)
    )
    pixels = c.size("num_channels") * patch * patch
    patches = Linear("patch_embedding.linear", pixels, h)
    places = vision_tower.positions(c, "positional_embedding_vlm", 1)
    table = PixelEmbeddings("embeddings", (parameter("class_embedding", h),), patches, places, count=count)
    first, last = vision_tower.norms(c, "layernorm_pre", "layernorm_post")
    made = stack(c, layer)
    return Adapted("vision_model", (pixels,), count + 1, table, first, made, last, adapter=adapter(c))


def without_images(_c: Config, base: Module) -> Module:
    """The text alone, with its head."""
    return cast(VisionLanguageModel, base).text


@family(
    "llama4",
    architecture="Llama4ForConditionalGeneration",
    heads={"ForConditionalGeneration": bare, "ForCausalLM": without_images},
)
def llama4(c: Config) -> Module:
    """Llama 4 Scout and Maverick (Meta 2025); only the text's own config can tie its head."""
    text, vision = c.sub("text_config", "llama4_text"), c.sub("vision_config", "llama4_vision_model")
    h = text.size("hidden_size")
    head = logits("lm_head", h, text.size("vocab_size"), tied=text.flag("tie_word_embeddings"))
    language = ModelWithHead("language_model", vision_tower.nested(text, "model"), head)
    wide = vision.size("vision_output_dim")
    map_ = Linear("multi_modal_projector.linear_1", wide, h)
    return VisionLanguageModel("model", tower(vision, "vision_model"), (map_,), language, shuffled(vision), wide)
