"""Llama 3.2 Vision: Llama with layers between its own that read an image's tiles."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, never_tied
from tfcalc.core.number import Num, product
from tfcalc.families import image_kit, kit
from tfcalc.families.images import grid
from tfcalc.families.names import LLAMA_NAMES
from tfcalc.families.windows import LAYERS
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm, parameter
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.gated_layers import GatedBlock, ReadingLayer, TowerBlock
from tfcalc.nn.images import ImagePositions
from tfcalc.nn.masked import Masked, MaskedLayers
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.tiled import GatedPlaces, GatedTiles, ShapeTable, TiledTower, TileReader

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
            return kit.layer(c, kit.attention(c, width=width, dropout="dropout"), kit.gated(c))
        norms = tuple(Norm(name, "rmsnorm", c.size("hidden_size")) for name in kit.PRE_NORM)
        gates = tuple(parameter(f"cross_attn_{name}_gate", 1) for name in ("attn", "mlp"))
        return ReadingLayer("layers", (_reading(c, width, reads=reads), kit.gated(c)), norms, gates=gates)

    made = kit.decoder(c, layer, [place in crossing for place in range(c.number(LAYERS))])
    return made.but(table=Embedding("embed_tokens", c.size("vocab_size") + RESERVED, c.size("hidden_size")))


def _crossing(c: Config) -> list[int]:
    """The layers that read images."""
    given = c.get("cross_attention_layers")
    return c.numbers("cross_attention_layers") if given is not None else [3, 8, 13, 18, 23, 28, 33, 38]


def _reading(c: Config, width: Num, *, reads: bool) -> Attention:
    """Queries of the text; keys and values of the image."""
    made = kit.attention(c, width=width, qk_norms="rmsnorm", dropout="dropout").but(name="cross_attn", rope=None)
    return made.to(CrossAttention, causal=False, masked=False, reads=reads)


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
        image_kit.pixels(c),
        c.size("max_num_tiles"),
        n,
        TAKEN if c.get("intermediate_layers_indices") is None else len(c.numbers("intermediate_layers_indices")),
        image_kit.patches(c, "patch_embedding", bias=False),
        parameter("class_embedding", h),
        places,
        _tiles(c, "pre_tile_positional_embedding"),
        _tiles(c, "post_tile_positional_embedding"),
        image_kit.norms(c, "layernorm_pre", "layernorm_post"),  # type: ignore[arg-type]  # a pair
        _vision_layers(c, "transformer", LAYERS),
        _vision_layers(c, "global_transformer", "num_global_layers", *GATES),
    )


def _table(c: Config, name: str, rows: Num) -> ShapeTable:
    """One shape more than there are, for no image."""
    given = c.get("supported_aspect_ratios")
    shapes = (len(given) if isinstance(given, list | tuple) else 8) + 1
    return ShapeTable(name, shapes, c.size("max_num_tiles"), rows, c.size("hidden_size"))


def _tiles(c: Config, name: str) -> GatedTiles:
    """A vector for each tile of each shape, behind a gate."""
    return GatedTiles(name, _table(c, f"{name}.embedding", 1), parameter(f"{name}.gate", 1))


def _vision_layers(c: Config, name: str, depth: str, *gates: str) -> MaskedLayers:
    """Layers without biases in attention, some with ``gates``."""
    mixer = image_kit.attention(
        c, names=LLAMA_NAMES, bias=False, output_bias=False, dropout="", heads="attention_heads", of=Masked
    )
    subs, norms = (mixer, image_kit.network(c)), image_kit.norms(c, *kit.PRE_NORM)
    made = tuple(parameter(gate, 1) for gate in gates)
    layer = GatedBlock("layers", subs, norms, gates=made) if gates else TowerBlock("layers", subs, norms)
    return MaskedLayers(name, (), image_kit.stack(c, layer, depth=depth))


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
    return TileReader("model", tower, to_text, _text(text, reads=True).but(name="language_model"), reads)
