"""GOT-OCR 2: SAM's tower, whose vectors two convolutions bring down to those of a text."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, ceil_div, divide, product
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.convolution import convolution
from tfcalc.ops.shapes import transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.layers import multi_head, network, one_module_per_kind, stack
from tfcalc.zoo.blocks.vision_language import Projector, heads, patches_of, reader, text_of, tower
from tfcalc.zoo.blocks.vision_tower import AlongSides, InlineTower, grid


class Convolved(Module):
    """Convolution without a bias that makes ``count`` vectors of each image."""

    kind = "convolution"

    fan_in: Num
    made: Num
    taps: tuple[Num, ...]
    count: Num

    def own_params(self) -> Cost:
        """W."""
        return Cost(weights=(Weight("w", (self.made, self.fan_in, *self.taps)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the convolution of ``x``, of b × patches × channels."""
        (weight,) = self.weights(x.trace)
        return transpose(convolution(transpose(x, 1, 2), weight, None, ctx.run.beside(self.count).length), 1, 2)


class Neck(Module):
    """Two convolutions to fewer channels, with a norm behind each."""

    kind = "neck"

    steps: tuple[Convolved | Norm, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the steps one after another."""
        for each in self.steps:
            x = each(x, ctx)
        return x


class WithNeck(InlineTower):
    """A tower with a neck (SAM, arXiv 2304.02643)."""

    neck: Neck | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Vectors with fewer channels."""
        made = super().forward(x, ctx)
        assert self.neck is not None
        return self.neck(made, ctx)


class ConvolvedProjector(Projector):
    """A projector whose steps look at neighbours, and so read image by image."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the projection of the rows of all images."""
        images = ctx.run.beside(1).batch
        return super().forward(x.trace.view(x, (images, divide(x.shape[0], images), x.width), None), ctx)


@family("got_ocr2_vision", architecture="GotOcr2VisionEncoder", heads={"Encoder": bare})
def got_ocr2_vision(c: Config) -> Module:
    """SAM (arXiv 2304.02643): most layers look within windows; trained vectors for distances along either side."""
    everywhere, window = c.numbers("global_attn_indexes"), c.number("window_size", least=0)
    ffn = network("mlp", ("lin1", "lin2"), c.size("hidden_size"), c.size("mlp_dim"), c.word("hidden_act"))
    norms = vision_tower.norms(c, "layer_norm1", "layer_norm2")
    kinds = (place in everywhere or not window for place in range(c.number("num_hidden_layers")))
    layers = stack(c, one_module_per_kind(lambda full: PreNorm("layers", (attention(c, full), ffn), norms), kinds))
    places = vision_tower.positions(c, "pos_embed") if c.flag("use_abs_pos") else None
    table = vision_tower.embeddings(c, (), vision_tower.patches(c, "patch_embed.projection"), places)
    return WithNeck("vision_tower", vision_tower.pixels(c), product(grid(c)), table, None, layers, None, neck=neck(c))


def attention(c: Config, full: bool) -> AlongSides:
    """Over the whole image, or within windows that fill it up at its edges."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    sides: tuple[Num, ...] = grid(c)
    windows: Num | None = None
    if not full:
        side = c.size("window_size")
        windows, sides = product(ceil_div(whole, side) for whole in sides), (side, side)
    named = zip(("rel_pos_h", "rel_pos_w"), sides, strict=True) if c.flag("use_rel_pos") else ()
    tables = tuple(parameter(name, 2 * side - 1, d) for name, side in named)
    return multi_head(
        AlongSides,
        "attn",
        ("qkv", "proj"),
        *(h, a, d),
        bias=c.flag("qkv_bias"),
        output_bias=True,
        dropout=bool(c.get("attention_dropout")),
        windows=windows,
        patches=product(sides),
        sides=sides if tables else (),
        tables=tables,
    )


def neck(c: Config) -> Neck:
    """Two convolutions to fewer channels."""
    h, out, count = c.size("hidden_size"), c.size("output_channels"), product(grid(c))
    first, second = Norm("layer_norm1", "layernorm", out), Norm("layer_norm2", "layernorm", out)
    steps = Convolved("conv1", h, out, (1, 1), count), first, Convolved("conv2", out, out, (3, 3), count), second
    return Neck("neck", steps)


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
text = text_of("qwen2", over=QWEN_SMALL)


@family("got_ocr2", heads=heads(text))
def got_ocr2(c: Config) -> Module:
    """GOT-OCR 2 (arXiv 2409.01704): each convolution of the projector halves both sides of the image."""
    vision, width = subconfig(c, "vision_config", "got_ocr2_vision"), text(c).size("hidden_size")
    channels = vision.size("output_channels")
    steps = (
        Convolved("conv_upsampler1", channels, 2 * channels, (3, 3), _shrunk(vision, 2)),
        Convolved("conv_upsampler2", 2 * channels, width, (3, 3), _shrunk(vision, 4)),
        Linear("multimodal_projector", width, width, "", True),
    )
    projector = ConvolvedProjector("multi_modal_projector", steps)
    return reader(tower(vision), (projector,), text(c), vectors=patches_of(vision), width=channels)


def _shrunk(vision: Config, times: int) -> Num:
    """Return the number of vectors of images whose sides are ``times`` times shorter."""
    return product(ceil_div(side, times) for side in grid(vision))
