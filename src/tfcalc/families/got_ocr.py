"""GOT-OCR 2: SAM's tower, whose vectors two convolutions bring down to those of a text."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, product
from tfcalc.families.images import grid, image, norms, pair, part, patches, self_attention
from tfcalc.families.vision_language import heads, reader
from tfcalc.leaves import convolution, learned_position, linear, norm, parameter
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload

FUSED = ("qkv", "proj")


@family("got_ocr2_vision", architecture="GotOcr2VisionEncoder", heads={"Encoder": bare})
def got_ocr2_vision(c: Config, run: Workload) -> Component:
    """SAM (arXiv 2304.02643): most layers look within windows; trained vectors for distances along either side."""
    h, stream = c.size("hidden_size"), image(c, run)
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
        return layer("layers", parts, stream.tokens * h, ends_with_sum=True)

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
        side = c.size("window_size")
        count = product(ceil_div(whole, side) for whole in sides)
        windows = run.beside(side * side)._replace(batch=stream.batch * count)
        sides = side, side
    tables = zip(("rel_pos_h", "rel_pos_w"), sides, strict=True) if c.flag("use_rel_pos") else ()
    return self_attention(
        c,
        run,
        windows,
        name="attn",
        names=FUSED,
        bias=c.flag("qkv_bias"),
        output_bias=True,
        within=tuple(part for name, side in tables for part in _distances(c, name, side, windows)),
    )


def _distances(c: Config, name: str, side: Num, windows: Sequences) -> Iterator[Component]:
    """A trained vector for each distance along a side: how much a query's row (or column) heeds each."""
    heads, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    yield parameter(name, 2 * side - 1, d)
    yield relative_scores(f"{name}.scores", heads, d, windows.tokens, side, windows.tokens * windows.length)


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


@family("got_ocr2", architecture="GotOcr2ForConditionalGeneration", heads=heads(text))
def got_ocr2(c: Config, run: Workload) -> Component:
    """GOT-OCR 2 (arXiv 2409.01704): each convolution of the projector halves both sides of the image."""
    vision, width = part(c, "vision_config", "got_ocr2_vision"), text(c).size("hidden_size")
    channels, half, quarter = vision.size("output_channels"), _shrunk(vision, run, 2), _shrunk(vision, run, 4)
    projector = Component(
        "multi_modal_projector",
        "projector",
        parts=(
            convolution("conv_upsampler1", channels, 2 * channels, (3, 3), half, bias=False),
            convolution("conv_upsampler2", 2 * channels, width, (3, 3), quarter, bias=False),
            linear("multimodal_projector", width, width, quarter),
        ),
    )
    return reader(run, text(c), nested(vision, run, "vision_tower"), projector)


def _shrunk(vision: Config, run: Workload, times: int) -> Num:
    """The vectors of images whose sides are so many times shorter."""
    return run.beside(product(ceil_div(side, times) for side in grid(vision))).tokens
