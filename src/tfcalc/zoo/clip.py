"""CLIP and SigLIP: a text and a vision tower whose vectors are compared."""

from __future__ import annotations

from contextlib import nullcontext

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, find, subconfig
from tfcalc.configs.tops import Top, bare
from tfcalc.core.number import Num, product
from tfcalc.nn.attention import OWN_SOFTMAX, CrossAttention, EagerCode
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.embeddings import BUFFER, Embeddings, Positions, Sines
from tfcalc.nn.encoder import Layers
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, mul, pointwise, power, quotient, residual
from tfcalc.ops.products import similarity
from tfcalc.ops.rows import row_norm
from tfcalc.ops.select import index, row_sums
from tfcalc.ops.shapes import copied, first, narrow, reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.layers import stack
from tfcalc.zoo.blocks.vision_tower import MEAN, OTHERS, Resized, Tower, grid


class Words(Embeddings):
    """Tables of words and positions under another name."""

    kind = "embedding"


class TextTower(Module):
    """Words with positions, layers, a norm: a vector for each token, and one for the text.

    That is the vector of the token that ends it; or the last one's, through a ``head``. A program's loss reads the
    vectors of all tokens.
    """

    kind = "encoder"

    table: Words
    layers: Layers
    norm: Norm
    head: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return a vector for each token of the ids ``x``."""
        # the pooled vector has a backward pass by itself, and none in a program, whose loss reads the tokens
        return self._read(x, ctx, reads=not x.trace.emits_kernels)[0]

    def pooled(self, x: Tensor, ctx: Context) -> Tensor:
        """One vector for each text."""
        with x.trace.inside(self):
            return self._read(x, ctx, reads=True)[1]

    def _read(self, ids: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor]:
        x = self.norm(self.layers(self.table(ids, ctx), ctx), ctx)
        with nullcontext() if reads else x.trace.without_gradients():
            return x, self._whole(x)

    def _whole(self, x: Tensor) -> Tensor:
        if self.head is not None:
            return self.head(reshape(narrow(x, 1), x.shape[0], x.width))
        b = x.shape[0]
        return index(x, x.trace.new((2, b), "int64", "sequences and places of their ends"), (b, x.width))


class WithWeights(CrossAttention):
    """torch.nn.MultiheadAttention, which makes its scores whatever kernel is asked for, to give them back."""

    eager: EagerCode = OWN_SOFTMAX

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output of the queries ``x``, which read the memory."""
        return super().forward(x, ctx._replace(run=ctx.run.replaced(kernel="eager")))


class Probe(Module):
    """A trained query that attends to all patches, and a feed-forward network behind it.

    Source: Zhai et al. 2022 (arXiv 2106.04560), section 3.3 (MAP head).
    """

    kind = "pooler"

    probe: Parameter
    attention: CrossAttention
    norm: Norm
    network: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return one vector for the vectors of all patches."""
        b, _, h = x.shape
        one = ctx.run.beside(1)
        query = copied(self.probe.weight(x.trace), (b, one.length, h), "repeat")
        ctx = ctx.asking(one, x, ctx.stream)
        made = self.attention(query, ctx)
        made = residual(self.network(self.norm(made, ctx), ctx), made, self.network.name)
        return first(made)


class Projected(Module):
    """A tower, and a map of what it makes of the whole."""

    kind = "model"

    tower: Tower | TextTower
    map: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each sequence or image."""
        return self.map(self.tower.pooled(x, ctx))


class ContrastiveModel(Module):
    """A text and an image tower, maps into a common space, and how alike each text and each image are.

    Cosines are multiplied by the exponential of a trained ``scale``, and may have a trained ``bias``. A program makes
    lengths by hand: squares, their sum, its root (``by_hand``).

    Source: Radford et al. 2021 (CLIP, arXiv 2103.00020), figure 3; Zhai et al. 2023 (SigLIP, arXiv 2303.15343).
    """

    kind = "model"

    text: TextTower
    vision: Tower
    maps: tuple[Linear, ...]
    scale: Parameter
    bias: Parameter | None = None
    by_hand: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Texts × images."""
        seen, read = self.vision.pooled(x, ctx), self.text.pooled(x, ctx)
        if self.maps:
            of_images, of_texts = self.maps
            seen, read = of_images(seen), of_texts(read)
        seen, read = self._unit(seen), self._unit(read)
        made = similarity(read, seen, "logits")
        made = mul(made, pointwise("exp", self.scale.weight(x.trace)))
        return made if self.bias is None else add(made, self.bias.weight(x.trace))

    def _unit(self, x: Tensor) -> Tensor:
        """Scale the vectors to length 1."""
        return quotient(x, power(row_sums(power(x))) if self.by_hand else row_norm(x))


IMAGES_ONLY = "ForImageClassification"
NORMS = ("layer_norm1", "layer_norm2")
FUSED = ("in_proj[q]", "in_proj[k]", "in_proj[v]", "out_proj")
"""torch.nn.MultiheadAttention keeps one matrix for three, here told apart: the query is one vector."""


def encoder(c: Config, *, causal: bool = False) -> Layers:
    """Pre-norm layers with biases everywhere."""
    sublayers = vision_tower.attention(c, causal=causal), vision_tower.network(c)
    return Layers("encoder", (), stack(c, PreNorm("layers", sublayers, vision_tower.norms(c, *NORMS))))


def text_tower(
    c: Config, *, causal: bool, head: Linear | None = None, position: Module | None = None, scales: bool = False
) -> TextTower:
    """Tokens with positions, layers, a final norm."""
    h = c.size("hidden_size")
    tokens = Embedding("token_embedding", c.size("vocab_size"), h, scales=scales)
    places = position or Positions("position_embedding", c.size("max_position_embeddings"), h, BUFFER)
    (last,) = vision_tower.norms(c, "final_layer_norm")
    return TextTower("text_model", Words("embeddings", (tokens, places), None), encoder(c, causal=causal), last, head)


def projected(name: str) -> Top:
    """A tower's vector in the space that both share."""

    def top(c: Config, base: Module) -> Module:
        assert isinstance(base, Tower | TextTower)
        return Projected("", base, Linear(name, c.size("hidden_size"), c.size("projection_dim")))

    return top


@family("clip_text_model", heads={"Model": bare, "ModelWithProjection": projected("text_projection")})
def clip_text(c: Config) -> Module:
    """CLIP's text tower looks only back."""
    return text_tower(c, causal=True)


@family("clip_vision_model", heads={"Model": bare, "ModelWithProjection": projected("visual_projection")})
def clip_vision(c: Config) -> Module:
    """A class token before the patches, which have no bias; a norm before the layers too."""
    first, last = vision_tower.norms(c, "pre_layrnorm", "post_layernorm")  # as it is spelt
    patches = vision_tower.patches(c, "patch_embedding", bias=False)
    places = vision_tower.positions(c, "position_embedding", 1, looked_up=BUFFER)
    table = vision_tower.embeddings(c, ("class_embedding",), patches, places)
    count = product(grid(c)) + 1
    return Tower("vision_model", vision_tower.pixels(c), count, table, first, encoder(c), last, alone=True)


def both(c: Config, text: str, vision: str) -> tuple[TextTower, Tower]:
    """The text and the vision tower."""
    read = find(text).base(tower(c, "text", text)).replace(name="text_model")
    assert isinstance(read, TextTower)
    return read, seen(c, vision)


def seen(c: Config, model_type: str) -> Tower:
    """The vision tower, which is all that there is where images are classified."""
    made = find(model_type).base(tower(c, "vision", model_type)).replace(name="vision_model")
    assert isinstance(made, Tower)
    return made.replace(pools=c.head != IMAGES_ONLY)


def tower(c: Config, which: str, model_type: str) -> Config:
    """The config of a tower: old files have it twice, and the one that ends in ``_dict`` wins."""
    twice = c.get(f"{which}_config_dict") is not None
    return subconfig(c, f"{which}_config_dict" if twice else f"{which}_config", model_type)


def width(c: Config, which: str, model_type: str) -> Num:
    """The hidden size of a tower."""
    return tower(c, which, model_type).size("hidden_size")


def classifier(model_type: str, reads: str) -> Top:
    """Classes of an image, from its vision tower."""
    return vision_tower.classifier("classifier", width=lambda c: width(c, "vision", model_type), reads=reads)


@family("clip", heads={"Model": bare, IMAGES_ONLY: classifier("clip_vision_model", OTHERS)})
def clip(c: Config) -> Module:
    """Radford et al. 2021 (arXiv 2103.00020): both towers are projected without bias; a trained temperature."""
    if c.head == IMAGES_ONLY:
        return seen(c, "clip_vision_model")
    towers, shared = both(c, "clip_text_model", "clip_vision_model"), c.size("projection_dim")
    of_images = Linear("visual_projection", width(c, "vision", "clip_vision_model"), shared)
    of_texts = Linear("text_projection", width(c, "text", "clip_text_model"), shared)
    return ContrastiveModel("clip", *towers, (of_images, of_texts), temperature(), by_hand=True)


def temperature(name: str = "logit_scale") -> Parameter:
    """A trained number."""
    return parameter(name)


@family("siglip_text_model", architecture="SiglipTextModel", heads={"Model": bare})
@family("siglip2_text_model", architecture="Siglip2TextModel", heads={"Model": bare})
def siglip_text(c: Config) -> Module:
    """SigLIP's text tower looks both ways, and projects its last vector itself."""
    h, given = c.size("hidden_size"), c.optional("projection_size")
    return text_tower(c, causal=False, head=Linear("head", h, h if given is None else given, "", True))


@family("siglip_vision_model", heads={"Model": bare})
def siglip_vision(c: Config) -> Module:
    """SigLIP's image tower without a class token: a trained query reads the patches."""
    places = vision_tower.positions(c, "position_embedding", looked_up=BUFFER)
    table = vision_tower.embeddings(c, (), vision_tower.patches(c, "patch_embedding"), places)
    return _with_head(c, vision_tower.pixels(c), product(grid(c)), table)


@family("siglip2_vision_model", heads={"Model": bare})
def siglip2_vision(c: Config) -> Module:
    """Images of any shape, of up to ``num_patches`` patches."""
    h, count, side = c.size("hidden_size"), c.size("num_patches"), c.size("patch_size")
    pixels = c.size("num_channels") * side * side
    patches = Linear("patch_embedding", pixels, h, "", True)
    table = vision_tower.embeddings(c, (), patches, Resized("position_embedding", count, h))
    return _with_head(c, (pixels,), count, table)


def _with_head(c: Config, pixels: tuple[Num, ...], count: Num, table: Module) -> Tower:
    (last,) = vision_tower.norms(c, "post_layernorm")
    head = pooling(c) if c.flag("vision_use_head") else None
    return Tower("vision_model", pixels, count, table, None, encoder(c), last, head)


def pooling(c: Config) -> Probe:
    """One trained query attends to all patches; a feed-forward network after it."""
    reader = vision_tower.attention(c, name="attention", names=FUSED, dropout="", of=WithWeights)
    assert isinstance(reader, WithWeights)
    (norm,) = vision_tower.norms(c, "layernorm")
    return Probe("head", parameter("probe", c.size("hidden_size")), reader, norm, vision_tower.network(c))


@family("siglip", heads={"Model": bare, IMAGES_ONLY: classifier("siglip_vision_model", MEAN)})
def siglip(c: Config) -> Module:
    """Zhai et al. 2023 (arXiv 2303.15343): a trained temperature and bias for each pair's logit."""
    return _compared(c, "siglip_text_model", "siglip_vision_model")


@family("siglip2", heads={"Model": bare, IMAGES_ONLY: classifier("siglip2_vision_model", MEAN)})
def siglip2(c: Config) -> Module:
    """Tschannen et al. 2025 (arXiv 2502.14786)."""
    return _compared(c, "siglip2_text_model", "siglip2_vision_model")


def _compared(c: Config, text: str, vision: str) -> Module:
    if c.head == IMAGES_ONLY:
        return seen(c, vision)
    return ContrastiveModel("siglip", *both(c, text, vision), (), temperature(), temperature("logit_bias"))


@family("tipsv2_text_model", heads={"Model": bare})
def tipsv2_text(c: Config) -> Module:
    """The text tower of TIPSv2 (transformers' Tipsv2TextModel): fixed positions, which are not stored."""
    return text_tower(c, causal=False, position=Sines("position_embedding", c.size("hidden_size")), scales=True)
