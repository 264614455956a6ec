"""Language models that read images: a tower, a projector, and any text model that reads its vectors among the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tfcalc.configs.config import MOST_LAYERS, Config
from tfcalc.configs.family import subconfig
from tfcalc.configs.tops import Top, bare, labels, logits
from tfcalc.core.number import Num, floor_div, product
from tfcalc.nn.basic import Linear, Parameter
from tfcalc.nn.encoder import Layers
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import mul
from tfcalc.ops.shapes import copied, reshape, split
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.vision_tower import ReadEarly, Tower, grid


class Projector(Module):
    """Projector of the vectors that a tower has seen to the text's width: its parts one after another.

    An ``activation`` precedes the last.
    """

    kind = "projector"

    steps: tuple[Module, ...]
    activation: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the projection of rows ``x``."""
        for place, each in enumerate(self.steps):
            x = each(x, ctx)
            if self.activation and place == len(self.steps) - 2:
                x = self.activate(x, ctx)
        return x

    def activate(self, x: Tensor, ctx: Context) -> Tensor:
        """Apply the activation."""
        return ctx.activation(self.activation, x, "act")


class GatedProjector(Projector):
    """A projector with a gate: half of what the map before the last makes, times the activation of the other half."""

    def activate(self, x: Tensor, ctx: Context) -> Tensor:
        """Apply the activation to the gate's half, and multiply."""
        half = self.steps[-1]
        assert isinstance(half, Linear)
        one, gate = split(x, [half.fan_in] * 2)
        return mul(one, super().activate(gate, ctx))


class PatchMerger(Linear):
    """A linear map of squares of patches, ``merged`` of them in each image."""

    merged: Num = 1

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Return a vector for each square; ``x`` are all patches, one by one."""
        ctx = given[0]
        assert isinstance(ctx, Context)
        return super().forward(reshape(x, ctx.run.beside(self.merged).tokens, self.fan_in))


class VisionLanguageModel(Module):
    """A tower, what is ``between`` it and the text, and the text model.

    Of each image ``vectors`` are taken, of this ``width``; ``together`` adjacent ones become one. Where images are of
    any size, they are as many as a source is long (None). An image may be cut into ``tiles``, each an image of its own
    to the tower.

    The text's sequences are as long as they are, whatever stands for the words in them; in a program that trains, they
    have no images. Where the word that an image stands for has no row in the table, it makes a copy of the words
    without it (``copies_ids``).
    """

    kind = "multimodal"

    tower: Module
    between: tuple[Module, ...]
    text: Module
    vectors: Num | None
    width: Num
    together: Num = 1
    tiles: Num = 1
    copies_ids: bool = False

    @property
    def beside_text(self) -> Iterator[Module]:
        """The tower and what is between it and the text."""
        return iter((self.tower, *self.between))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the text model's output for token ids."""
        x.trace.beside(lambda: self._see(x, ctx))
        return self.text(copied(x) if self.copies_ids else x, ctx)

    def _see(self, x: Tensor, ctx: Context) -> None:
        """Make the vectors that replace some of the words' (by masked_scatter, which is not counted)."""
        run = ctx.run.replaced(batch_size=ctx.run.batch_size * self.tiles)
        images = run.source if self.vectors is None else run.beside(self.vectors)
        rows = images.batch * floor_div(images.length, self.together)
        ctx = ctx._replace(run=run)
        made, ctx = reshape(self.tower(x, ctx), rows, self.width), ctx._replace(stream=images)
        for each in self.between:
            if not isinstance(each, Parameter):
                made = each(made, ctx)


class PatchReader(VisionLanguageModel):
    """A model that has no tower but a single map of each patch's pixels."""

    kind = "decoder"

    @property
    def parts(self) -> Iterator[Module]:
        """The text first."""
        return iter((self.text, self.tower))


class PixelMap(Linear):
    """A linear map of the pixels of each of ``patches`` patches."""

    patches: Num = 1

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Return the map of images that are given beside ``x``, which is not read."""
        ctx = given[0]
        assert isinstance(ctx, Context)
        stream = ctx.run.beside(self.patches)
        return super().forward(x.trace.given((stream.batch, stream.length, self.fan_in), "float32", "pixels"))


class Multimodal(Module):
    """A text model, and what reads images or sounds for it: parts one after another for each of them (``chains``).

    A program may look up words by a copy of their ids (``copies_ids``). In one that trains, there are words alone.
    """

    kind = "multimodal"

    text: Module
    chains: tuple[tuple[Module, ...], ...]
    copies_ids: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The text, and the parts of each chain."""
        return iter((self.text, *self.beside_text))

    @property
    def beside_text(self) -> Iterator[Module]:
        """The parts of each chain."""
        return (each for chain in self.chains for each in chain)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the text model's output for token ids."""
        x.trace.beside(lambda: self._see(x, ctx))
        return self.text(copied(x) if self.copies_ids else x, ctx)

    def _see(self, x: Tensor, ctx: Context) -> None:
        for chain in self.chains:
            made = x
            for each in chain:
                made = each(made, ctx)


CLASS_TOKENS = ("class_embedding", "cls_token")
Text = Callable[[Config], Config]
Tied = Callable[[Config, Config], bool]


def outer(c: Config, _text: Config) -> bool:
    """Only what the whole's config says of ``tie_word_embeddings`` counts."""
    return c.flag("tie_word_embeddings")


def either(c: Config, text: Config) -> bool:
    """One of both configs may tie the head."""
    return c.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")


def conditional(text: Text, *, tied: Tied = outer, cap: str = "") -> Top:
    """Logits of the text model's vectors; a field of its config may say that they have a ``cap``."""

    def top(c: Config, base: Module) -> Module:
        language = text(c)
        shared = tied(c, language)
        head = logits("lm_head", language.size("hidden_size"), language.size("vocab_size"), tied=shared)
        return ModelWithHead("", base, head, capped=bool(cap) and language.get(cap) is not None)

    return top


def classifier(text: Text, name: str = "score", *, bias: bool = False) -> Top:
    """Classes of the text model's vectors."""

    def top(c: Config, base: Module) -> Module:
        return ModelWithHead("", base, Linear(name, text(c).size("hidden_size"), labels(c), "", bias))

    return top


def heads(text: Text, *, tied: Tied = outer, cap: str = "") -> dict[str, Top]:
    """The bare model, the one that writes, and one that sorts what it has read."""
    return {
        "Model": bare,
        "ForConditionalGeneration": conditional(text, tied=tied, cap=cap),
        "ForSequenceClassification": classifier(text),
    }


def text_of(model_type: str, *, over: Mapping[str, object] | None = None) -> Text:
    """Any text model, but one of this type where none is named, which has the defaults ``over`` its own."""
    return lambda c: subconfig(c, "text_config", model_type, over=over, free=True)


llama_text = text_of("llama")


def reader(
    tower: Module,
    between: tuple[Module, ...],
    text: Config,
    *,
    vectors: Num | None,
    width: Num,
    name: str = "language_model",
    together: Num = 1,
    tiles: Num = 1,
) -> VisionLanguageModel:
    """A tower, what is ``between`` it and the text, and the text model; see :class:`VisionLanguageModel`."""
    return VisionLanguageModel(
        "model", tower, between, vision_tower.nested(text, name), vectors, width, together, tiles
    )


def patches_of(vision: Config) -> Num | None:
    """Number of patches that a tower gives to the text: those of one image, or None where images are of any size."""
    return None if vision.get("image_size") is None else product(grid(vision))


def tower(vision: Config, name: str = "vision_tower", late: Num = 0) -> Module:
    """A tower of which every vector is read, as it is ``late`` layers before the end, and nothing else."""
    made = vision_tower.nested_as(vision, Tower, name)
    return made.replace(pools=False, layers=_without_late(made.layers, late))


def _without_late(layers: Layers | Stack, late: Num) -> Layers | Stack:
    if isinstance(layers, Layers):
        return layers.replace(layers=_without_late(layers.layers, late))
    return ReadEarly(layers.name, layers.layers, layers.count, late) if late else layers


def feature_layers(c: Config) -> list[int]:
    """The layers of the tower whose vectors are taken, side by side."""
    if isinstance(c.get("vision_feature_layer"), list | tuple):
        return c.numbers("vision_feature_layer", least=-MOST_LAYERS, some=True)
    return [c.number("vision_feature_layer", least=-MOST_LAYERS)]


def late(c: Config, vision: Config) -> int:
    """Number of layers above those that are taken."""
    count = vision.number("num_hidden_layers")
    return count - max(layer if layer >= 0 else count + 1 + layer for layer in feature_layers(c))


def taken(c: Config, vision: Config, tower: Module) -> Num:
    """Number of vectors taken of each image: all, or all but the first (``vision_feature_select_strategy``)."""
    whole = (node for each in tower.components() for node in each.walk())
    firsts = sum(node.component.name in CLASS_TOKENS for node in whole)
    count: Num = product(grid(vision)) + firsts - (c.get("vision_feature_select_strategy") == "default")
    return count


def two_maps(
    c: Config, fan_in: Num, width: Num, *before: Module, bias: bool, act: str = "projector_hidden_act"
) -> Projector:
    """Two linear maps with an activation between them, and the modules ``before`` them."""
    maps = Linear("linear_1", fan_in, width, "", bias), Linear("linear_2", width, width, "", bias)
    return Projector("multi_modal_projector", (*before, *maps), c.word(act))
