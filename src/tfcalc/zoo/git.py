"""GIT: BERT's layers as a decoder that reads an image's patches before the text."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.component import Cached, Weight
from tfcalc.core.number import Num, product
from tfcalc.nn.basic import Linear, Parameter
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.encoder import Layers
from tfcalc.nn.encoder_decoder import EncoderOnly
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import each_turn
from tfcalc.ops.elementwise import add
from tfcalc.ops.shapes import beside, cat, copied, reshape
from tfcalc.ops.work import by_token
from tfcalc.tape.tensor import Tensor, Trace
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.attention import Masked
from tfcalc.zoo.blocks.vision_language import Projector
from tfcalc.zoo.blocks.vision_tower import Tower, grid
from tfcalc.zoo.clip import clip_vision


def by_products(ctx: Context) -> Context:
    """Return the context of a program that has no fused kernels of attention, whatever is asked for."""
    return ctx if ctx.code is None or ctx.own_attention else ctx._replace(run=ctx.run.replaced(kernel="eager"))


class PlainTower(EncoderOnly):
    """A tower by itself, in such a program."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the tower's output for images that are given beside ``x``."""
        return super().forward(x, by_products(ctx))


class BehindImages(Masked):
    """Vectors of images see each other both ways, words only back: all are cached."""

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Cache entries: keys and values of images and words."""
        return by_token(ctx.stream, ctx.stream, self.kv_heads, {"K": self.key_dim, "V": self.value_dim})


class Moments(Parameter):
    """Trained vector for each of ``count`` images, which are the frames of a film."""

    count: Num = 1

    @property
    def copies(self) -> Num:
        """One for each."""
        return self.count

    def at(self, trace: Trace, place: int) -> Tensor:
        """Return the vector of this place."""
        return Parameter(f"{self.name}.{place}", self.tensor).weight(trace)


class Captioner(Module):
    """A tower for ``images`` images of each sequence, a projection of their ``vectors``, and layers.

    Several images are frames, which run one after another, and have a vector each for their place (``moments``).

    Source: Wang et al. 2022 (arXiv 2205.14100), section 3.1.
    """

    kind = "decoder"

    table: Embeddings
    tower: Module
    layers: Layers
    projection: Projector
    moments: Moments | None
    images: Num
    vectors: Num
    width: Num

    @property
    def parts(self) -> Iterator[Module]:
        """Modules in the program's order."""
        parts = (self.table, self.tower, self.layers, self.projection, self.moments)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layers' output for token ids ``x``; the images are given beside them."""
        ctx = by_products(ctx)
        words = self.table(x, ctx)
        seen = self.projection(self._seen(x, ctx), ctx)
        seen = copied(seen, name="repeat")
        stream, before = ctx.stream, self.images * self.vectors
        both = stream._replace(
            length=stream.length + seen.shape[1], cached=None if stream.cached is None else before + stream.cached
        )
        x = beside((seen, words), (both.batch, both.length, words.width))
        return self.layers(x, ctx._replace(stream=both))

    def _seen(self, x: Tensor, ctx: Context) -> Tensor:
        """The vectors of all images, side by side; none where they were seen before."""
        # frames run one after another, each with a vector for its moment
        if x.trace.emits_kernels and self.moments is not None:
            frames = each_turn(self.images, "images")
            return cat([add(self.tower(x, ctx), self.moments.at(x.trace, place)) for place in frames], 1)
        run = ctx.run.replaced(batch_size=ctx.run.batch_size * self.images)
        made = self.tower(x, ctx._replace(run=run))
        place = ctx.run.beside(self.images * self.vectors)
        return reshape(made, place.batch, place.length, self.width)


@family("git_vision_model", architecture="GitVisionModel", heads={"Model": bare})
def git_vision(c: Config) -> Module:
    """CLIP's vision tower, whose last norm is that of all vectors."""
    tower = clip_vision(c)
    assert isinstance(tower, Tower)
    return PlainTower("image_encoder", tower.replace(alone=False, pools=False))


def logits(c: Config, base: Module) -> Module:
    """Logits of every vector, those of the images too; the loss reads those of words."""
    tied = "embedding" if c.flag("tie_word_embeddings") else None
    head = Linear("output", c.size("hidden_size"), c.size("vocab_size"), "vocab", True, tied, "output")
    return ModelWithHead("", base, head, cuts=True)


@family("git", heads={"Model": bare, "ForCausalLM": logits})
def git(c: Config) -> Module:
    """Wang et al. 2022 (arXiv 2205.14100); several images (frames of a film) have a vector each for their place."""
    vision, images = c.sub("vision_config", "git_vision_model"), c.optional("num_image_with_embedding")
    h, seen, vectors = c.size("hidden_size"), vision.size("hidden_size"), product(grid(vision)) + 1
    maps = Linear("0", seen, h, "", True), encoders.norm(c, "1")
    place = Weight("img_temporal_embedding", (1, 1, seen), key="")
    return Captioner(
        "git",
        encoders.embeddings(c, encoders.positions(c)),
        git_vision(vision),
        Layers("encoder", (), encoders.stack(c, encoders.attention(c, of=BehindImages))),
        Projector("visual_projection.visual_projection", maps),
        None if images is None else Moments(place.name, place, images),
        1 if images is None else images,
        vectors,
        seen,
    )
