"""GOT-OCR 2: SAM's tower, whose vectors two convolutions bring down to those of a text."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div, product
from tfcalc.families.images import grid, norms, pair, part, patches, self_attention
from tfcalc.families.vision_language import heads, reader
from tfcalc.leaves import convolution, learned_position, linear, norm, parameter
from tfcalc.workload import Sequences, Workload

FUSED = ("qkv", "proj")


@family(
    "got_ocr2_vision",
    architecture="GotOcr2VisionEncoder",
    heads={"Encoder": bare},
    hidden_size=768,
    output_channels=256,
    num_hidden_layers=12,
    num_attention_heads=12,
    num_channels=3,
    image_size=1024,
    patch_size=16,
    hidden_act="gelu",
    qkv_bias=True,
    use_abs_pos=True,
    use_rel_pos=True,
    window_size=14,
    global_attn_indexes=(2, 5, 8, 11),
    mlp_dim=3072,
)
def got_ocr2_vision(c: Config, run: Workload) -> Component:
    """SAM (arXiv 2304.02643): most layers look within windows; trained vectors for distances along either side."""
    h, stream = c.size("hidden_size"), Sequences(run.batch_size, product(grid(c)))
    everywhere = c.numbers("global_attn_indexes")
    whole = [
        place in everywhere or not c.number("window_size", least=0) for place in range(c.number("num_hidden_layers"))
    ]

    def make(full: bool) -> Component:
        mlp = FeedForward(h, c.size("mlp_dim"), c.word("hidden_act"), bias=True, names=("lin1", "lin2"))
        parts = (
            attention(c, run, stream, full),
            mlp("mlp", stream, run),
            *norms(("layer_norm1", "layer_norm2"), h, stream.tokens),
        )
        return layer("layers", parts, stream.tokens * h)

    positions = [learned_position("pos_embed", stream.length, h, stream.tokens)] if c.flag("use_abs_pos") else []
    return Component(
        "vision_tower",
        "encoder",
        parts=(
            patches("patch_embed.projection", c, stream.tokens, width=h, kernel=pair(c, "patch_size")),
            *positions,
            *stack("layers", whole, c.size("num_hidden_layers"), make),
            Component("neck", "neck", parts=tuple(neck(c, stream.tokens))),
        ),
    )


def attention(c: Config, run: Workload, stream: Sequences, full: bool) -> Component:
    """Over the whole image, or within windows that fill it up at its edges."""
    sides = grid(c)
    windows = stream
    if not full:
        side = c.number("window_size")
        windows = Sequences(stream.batch * product(ceil_div(whole, side) for whole in sides), side * side)
        sides = (c.size("window_size"), c.size("window_size"))
    d = c.quotient("hidden_size", "num_attention_heads")
    tables = zip(("rel_pos_h", "rel_pos_w"), sides, strict=True) if c.flag("use_rel_pos") else ()
    return self_attention(
        c,
        run,
        windows,
        name="attn",
        names=FUSED,
        bias=c.flag("qkv_bias"),
        output_bias=True,
        within=tuple(parameter(name, 2 * side - 1, d) for name, side in tables),
    )


def neck(c: Config, tokens: Num) -> Iterator[Component]:
    """Two convolutions to fewer channels."""
    h, out = c.size("hidden_size"), c.size("output_channels")
    yield convolution("conv1", h, out, (1, 1), tokens, bias=False)
    yield norm("layer_norm1", "layernorm", out, tokens)
    yield convolution("conv2", out, out, (3, 3), tokens, bias=False)
    yield norm("layer_norm2", "layernorm", out, tokens)


QWEN_SMALL = {
    "vocab_size": 151860,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
}


def text(c: Config) -> Config:
    """Any text model, but a small Qwen2 where none is named."""
    return part(c, "text_config", "qwen2", over=QWEN_SMALL, free=True)


@family("got_ocr2", architecture="GotOcr2ForConditionalGeneration", heads=heads(text), tie_word_embeddings=True)
def got_ocr2(c: Config, run: Workload) -> Component:
    """GOT-OCR 2 (arXiv 2409.01704): each convolution of the projector halves both sides of the image."""
    vision, width = part(c, "vision_config", "got_ocr2_vision"), text(c).size("hidden_size")
    channels, count = vision.size("output_channels"), run.batch_size * product(grid(vision))
    projector = Component(
        "multi_modal_projector",
        "projector",
        parts=(
            convolution("conv_upsampler1", channels, 2 * channels, (3, 3), floor_div(count, 4), bias=False),
            convolution("conv_upsampler2", 2 * channels, width, (3, 3), floor_div(count, 16), bias=False),
            linear("multimodal_projector", width, width, floor_div(count, 16)),
        ),
    )
    return reader(run, text(c), nested(vision, run, "vision_tower"), projector)
