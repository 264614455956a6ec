"""Llama 3.2 Vision: Llama with layers between its own that read an image's tiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, never_tied
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, ceil_div, product
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.encoder import Layers
from tfcalc.nn.layers import PreNorm, as_it_is
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Encoded, Module
from tfcalc.ops.elementwise import add, mul, pointwise, residual, shifted
from tfcalc.ops.products import pairs_there
from tfcalc.ops.rows import spread
from tfcalc.ops.shapes import beside, cat, copied, expand, pad, part, reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Workload
from tfcalc.zoo.blocks import decoders, vision_tower
from tfcalc.zoo.blocks.attention import Masked, MaskedLayers
from tfcalc.zoo.blocks.layers import LAYERS, LLAMA_NAMES, stack
from tfcalc.zoo.blocks.vision_tower import ImagePositions, Patches, grid


class GatedLayer(PreNorm):
    """``x + tanh(g)·f(norm(x))`` for each sub-layer f.

    Source: Alayrac et al. 2022 (Flamingo, arXiv 2204.14198), section 3.1.2.
    """

    gates: tuple[Parameter, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the gated sub-layers one after another."""
        for norm, sub, gate in zip(self.norms, self.sublayers, self.gates, strict=True):
            made = sub((norm or as_it_is)(x, ctx), ctx)
            x = residual(x, mul(pointwise("tanh", gate.weight(x.trace)), made), sub.name)
        return x


class ReadingLayer(GatedLayer):
    """A layer that attends to a memory, and is skipped where there is none."""

    @property
    def parts(self) -> Iterator[Module]:
        """The gates behind the sub-layer that reads."""
        first, *others = self.sublayers
        return (each for each in (first, *self.gates, *others, *self.norms) if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output for the residual stream, which stays as it is without a memory."""
        return super().forward(x, ctx) if all(sub.runs(ctx) for sub in self.sublayers) else x


class TowerBlock(PreNorm):
    """A layer that a program does not checkpoint."""

    kind = "block"


class GatedBlock(GatedLayer):
    """A gated layer that a program does not checkpoint."""

    kind = "block"


EIGHT = 8
"""Tokens of a tile are filled up to a multiple of so many."""


class ShapeTable(Module):
    """Vectors of all tiles for each shape that an image may have: ``rows`` of them for each of ``tiles``."""

    kind = "position"

    shapes: Num
    tiles: Num
    rows: Num
    width: Num

    def own_params(self) -> Cost:
        """P."""
        return Cost(weights=(Weight("P", (self.shapes, self.tiles * self.rows * self.width)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Look up the vectors for the shape of each image, for the tiles of ``x``, of b × t × n × h."""
        (table,) = self.weights(x.trace)
        b, tiles, _, h = x.shape
        shapes = x.trace.given((b, ctx.run.beside(1).length), "int64", "shapes")
        return reshape(spread(table, shapes, x.elements), b, tiles, self.rows, h)


class GatedTiles(Module):
    """A vector for each tile of each shape, behind a gate."""

    table: ShapeTable
    gate: Parameter

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Added to ``x``, of b × t × n × h."""
        return add(x, mul(self.table(x, ctx), pointwise("tanh", self.gate.weight(x.trace))))


class GatedPlaces(GatedTiles):
    """Positions for each patch of a tile, and for each patch of each tile: a gate opens for the one or the other."""

    places: ImagePositions

    @property
    def parts(self) -> Iterator[Module]:
        """The gate first."""
        return iter((self.gate, self.places, self.table))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Added to ``x``, of b × t × n × h."""
        gate, (b, t, n, h) = self.gate.weight(x.trace), x.shape
        places = self.places(reshape(x, b * t, n, h), ctx)
        x = add(x, reshape(mul(shifted(pointwise("tanh", gate), "rsub"), places), 1, 1, n, h))
        return add(x, mul(pointwise("tanh", gate), self.table(x, ctx)))


class TiledTower(Module):
    """Patches of a number of ``tiles``, places of tiles and patches, layers, places once more, and gated layers.

    What it gives is as wide as its last vectors and those of ``taken`` of its layers side by side. Each tile has
    ``count`` vectors.

    Source: Llama 3 (arXiv 2407.21783), section 7; transformers' MllamaVisionModel.
    """

    kind = "encoder"

    pixels: tuple[Num, ...]
    tiles: Num
    count: Num
    taken: int
    patches: Patches
    first: Parameter
    places: GatedPlaces
    before: GatedTiles
    behind: GatedTiles
    norms: tuple[Norm, Norm]
    layers: Layers
    last: Layers

    @property
    def parts(self) -> Iterator[Module]:
        """Parts; the parameters of the places belong to the tower itself."""
        places = (each for group in (self.places, self.before, self.behind) for each in group.parts)
        return iter((self.patches, self.first, *places, *self.norms, self.layers, self.last))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of all tiles, in one sequence, of images that are given beside ``x``."""
        trace, (before, behind) = x.trace, self.norms
        run = ctx.run.replaced(recompute="none")
        tiles, filled = run.beside(self.tiles), EIGHT * ceil_div(self.count, EIGHT)
        each = run.replaced(batch_size=run.batch_size * self.tiles)
        stream = run.beside(self.tiles * filled)
        pixels = trace.given((each.batch_size, *self.pixels), "float32", "pixels")
        x = self.patches(trace.to(pixels, trace.weights_format), ctx._replace(run=each))
        b, t, h = tiles.batch, tiles.length, x.width
        x = self.before.forward(reshape(x, b, t, self.count - 1, h), ctx)
        x = self._behind_first(x, each, h)
        x = self.places.forward(reshape(x, b, t, self.count, h), ctx)
        x = pad(before(x, ctx), 2, filled)
        mask = pairs_there(trace, b, stream.length, "attention_mask")
        trace.belongs(mask)  # to no layer, though one keeps it first
        ctx = ctx._replace(run=run, stream=stream, masks={None: mask})
        x = made = self.layers(reshape(x, b, stream.length, h), ctx)
        x = self.behind.forward(reshape(behind(x, ctx), b, t, filled, h), ctx)
        x = self.last(reshape(x, b, stream.length, h), ctx)
        return self._beside(x, made, (b, t, filled, h))

    def _behind_first(self, x: Tensor, run: Workload, h: Num) -> Tensor:
        b, ones, all_ = run.batch_size, run.beside(1).length, run.beside(self.count).length
        one = expand(reshape(self.first.weight(x.trace), 1, 1, h), b, ones, h)
        return beside((one, reshape(x, b, run.beside(self.count - 1).length, h)), (b, all_, h))

    def _beside(self, x: Tensor, made: Tensor, shape: tuple[Num, ...]) -> Tensor:
        """The last layers' vectors, and those of layers before, without what was filled up."""
        b, t, filled, h = shape
        several = copied(made, (*made.shape, self.taken), "stack")
        ends = (reshape(x, *shape), reshape(several, b, t, filled, h * self.taken))
        both = cat([part(each, 2, self.count) for each in ends])
        return reshape(both, b, t * self.count, h * (1 + self.taken))


class TileReader(Module):
    """A tower, a projection, and a text some of whose layers read what comes of them.

    Where no layer ``reads`` it, nothing of the tower is trained. In a program that trains, there are words alone.
    """

    kind = "multimodal"

    tower: TiledTower
    projector: Linear
    text: Module
    reads: bool = True

    @property
    def beside_text(self) -> Iterator[Module]:
        """The tower and the projection."""
        return iter((self.tower, self.projector))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the text model's output for token ids."""
        ctx = ctx._replace(memory=None)
        if x.trace.emits_kernels:  # the tower runs at another time, and layers that read it are left out
            return self.text(x, ctx)
        with nullcontext() if self.reads or not ctx.run.training else x.trace.without_gradients():
            memory = self.projector(self.tower(x, ctx))
        seen = ctx.run.beside(self.tower.tiles * self.tower.count)
        return self.text(x, ctx._replace(memory=Encoded(memory, seen)))


TEXT_ONLY = "ForCausalLM"
RESERVED = 8
"""Rows of the embedding beyond the vocabulary: for the image and other marks."""
TAKEN = 5
"""Layers of the tower whose vectors are taken beside the last ones, where a config names none."""
GATES = ("gate_attn", "gate_ffn")


def untied(c: Config, base: Module) -> Module:
    """Logits by a matrix of its own, whatever the config says: the embedding has more rows than it."""
    return never_tied(c if "vocab_size" in c.defaults else subconfig(c, "text_config", "mllama_text_model"), base)


@family(
    "mllama_text_model",
    architecture="MllamaForCausalLM",
    heads={"Model": bare, TEXT_ONLY: untied},
    cross_attention_layers=(3, 8, 13, 18, 23, 28, 33, 38),  # by __post_init__
)
def mllama_text(c: Config) -> Module:
    """The text alone: layers that read images are passed by where there is none."""
    return _text(c, reads=False)


def _text(c: Config, *, reads: bool) -> Decoder:
    """Llama 3 (arXiv 2407.21783), section 7: ``cross_attention_layers`` read images, through gates."""
    crossing = _crossing(c)
    width = c.quotient("hidden_size", "num_attention_heads")

    def layer(crosses: bool) -> Module:
        if not crosses:
            return decoders.layer(c, decoders.attention(c, width=width, dropout="dropout"), decoders.gated(c))
        norms = tuple(Norm(name, "rmsnorm", c.size("hidden_size")) for name in decoders.PRE_NORM)
        gates = tuple(parameter(f"cross_attn_{name}_gate", 1) for name in ("attn", "mlp"))
        return ReadingLayer("layers", (_reading(c, width, reads=reads), decoders.gated(c)), norms, gates=gates)

    made = decoders.decoder(c, layer, [place in crossing for place in range(c.number(LAYERS))])
    return made.replace(table=Embedding("embed_tokens", c.size("vocab_size") + RESERVED, c.size("hidden_size")))


def _crossing(c: Config) -> list[int]:
    """The layers that read images."""
    given = c.get("cross_attention_layers")
    return c.numbers("cross_attention_layers") if given is not None else [3, 8, 13, 18, 23, 28, 33, 38]


def _reading(c: Config, width: Num, *, reads: bool) -> Attention:
    """Queries of the text; keys and values of the image."""
    made = decoders.attention(c, width=width, qk_norms="rmsnorm", dropout="dropout").replace(
        name="cross_attn", rope=None
    )
    return made.as_type(CrossAttention, causal=False, masked=False, reads=reads)


@family("mllama_vision_model", architecture="MllamaVisionModel", heads={"Model": bare})
def mllama_vision(c: Config) -> Module:
    """Tiles of an image, with tables for where a tile lies in images of each shape; two stacks, the second gated."""
    h, n = c.size("hidden_size"), product(grid(c)) + 1
    name = "gated_positional_embedding"
    places = GatedPlaces(
        name,
        _table(c, f"{name}.tile_embedding", n),
        parameter(f"{name}.gate", 1),
        ImagePositions(f"{name}.embedding", n, h),
    )
    return TiledTower(
        "vision_model",
        vision_tower.pixels(c),
        c.size("max_num_tiles"),
        n,
        TAKEN if c.get("intermediate_layers_indices") is None else len(c.numbers("intermediate_layers_indices")),
        vision_tower.patches(c, "patch_embedding", bias=False),
        parameter("class_embedding", h),
        places,
        _tiles(c, "pre_tile_positional_embedding"),
        _tiles(c, "post_tile_positional_embedding"),
        vision_tower.norms(c, "layernorm_pre", "layernorm_post"),  # type: ignore[arg-type]  # a pair
        _vision_layers(c, "transformer", LAYERS),
        _vision_layers(c, "global_transformer", "num_global_layers", *GATES),
    )


def _table(c: Config, name: str, rows: Num) -> ShapeTable:
    """Table of one shape more than there are, for no image."""
    given = c.get("supported_aspect_ratios")
    shapes = (len(given) if isinstance(given, list | tuple) else 8) + 1
    return ShapeTable(name, shapes, c.size("max_num_tiles"), rows, c.size("hidden_size"))


def _tiles(c: Config, name: str) -> GatedTiles:
    """A vector for each tile of each shape, behind a gate."""
    return GatedTiles(name, _table(c, f"{name}.embedding", 1), parameter(f"{name}.gate", 1))


def _vision_layers(c: Config, name: str, depth: str, *gates: str) -> MaskedLayers:
    """Layers without biases in attention, some with ``gates``."""
    mixer = vision_tower.attention(
        c, names=LLAMA_NAMES, bias=False, output_bias=False, dropout="", heads="attention_heads", of=Masked
    )
    sublayers, norms = (mixer, vision_tower.network(c)), vision_tower.norms(c, *decoders.PRE_NORM)
    made = tuple(parameter(gate, 1) for gate in gates)
    layer = GatedBlock("layers", sublayers, norms, gates=made) if gates else TowerBlock("layers", sublayers, norms)
    return MaskedLayers(name, (), stack(c, layer, depth=depth))


@family("mllama", heads={"Model": bare, "ForConditionalGeneration": untied, TEXT_ONLY: untied})
def mllama(c: Config) -> Module:
    """Llama 3.2 Vision (Meta, 2024; arXiv 2407.21783, section 7). As a causal language model it is the text alone."""
    vision, text = (
        subconfig(c, "vision_config", "mllama_vision_model"),
        subconfig(c, "text_config", "mllama_text_model"),
    )
    if c.head == TEXT_ONLY:
        return _text(text, reads=False)
    tower = mllama_vision(vision)
    assert isinstance(tower, TiledTower)
    to_text = Linear("multi_modal_projector", vision.size("vision_output_dim"), text.size("hidden_size"), "", True)
    reads = bool(_crossing(text))
    return TileReader("model", tower, to_text, _text(text, reads=True).replace(name="language_model"), reads)
