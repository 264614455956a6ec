"""What towers that read images are composed of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tfcalc.configs.config import Config
from tfcalc.configs.family import find
from tfcalc.configs.tops import Top, labels
from tfcalc.core.number import Num, product
from tfcalc.errors import InvalidModel
from tfcalc.families import layers
from tfcalc.families.images import FC, OUT_PROJ, grid, pair
from tfcalc.families.layers import multi_head
from tfcalc.families.layers import stack as stack
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Stored, parameter
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.heads import Headed
from tfcalc.nn.image_heads import FIRST, ImageClassifier, Pixels
from tfcalc.nn.images import ImageEmbeddings, ImagePositions, Patches
from tfcalc.nn.module import Module
from tfcalc.printable import quoted

M = TypeVar("M", bound=Module)


def pixels(c: Config) -> tuple[Num, ...]:
    """An image's colours, height and width."""
    return (c.size("num_channels"), *pair(c, "image_size"))


def patches(c: Config, name: str, *, bias: bool = True) -> Patches:
    """A vector for each patch of an image."""
    kernel = pair(c, "patch_size")
    return Patches(name, c.size("num_channels"), c.size("hidden_size"), kernel, grid(c), bias)


def positions(c: Config, name: str, further: int = 0, *, looked_up: str = "") -> ImagePositions:
    """A trained vector for each patch, and for ``further`` vectors beside them."""
    return ImagePositions(name, product(grid(c)) + further, c.size("hidden_size"), looked_up)


def embeddings(
    c: Config,
    tokens: Sequence[Stored] | Sequence[str],
    patches: Module,
    positions: Module | None,
    unread: Sequence[str] = (),
    **more: Any,
) -> ImageEmbeddings:
    """Patches, the ``tokens`` before them, and where they stand; what is ``unread`` is held all the same."""
    h = c.size("hidden_size")
    made = tuple(parameter(each, h) if isinstance(each, str) else each for each in tokens)
    held = tuple(parameter(each, h) for each in unread)
    return ImageEmbeddings("embeddings", made, patches, positions, held, **more)


def attention(
    c: Config,
    *,
    name: str = "self_attn",
    names: Sequence[str] = OUT_PROJ,
    width: Num | None = None,
    bias: bool | tuple[bool, bool, bool] = True,
    output_bias: bool = True,
    dropout: str = "attention_dropout",
    of: type[Attention] = Attention,
    heads: str = "num_attention_heads",
    **more: Any,
) -> Attention:
    """Attention among all patches, of heads that share nothing; queries, keys and values may differ in their bias."""
    h, a, drops = c.size("hidden_size"), c.size(heads), bool(dropout and c.get(dropout))
    d = c.quotient("hidden_size", heads) if width is None else width
    how = {"causal": False, "dropout": drops} | more
    return multi_head(of, name, names, h, a, d, bias=bias, output_bias=output_bias, **how)


def network(
    c: Config,
    *,
    name: str = "mlp",
    names: Sequence[str] = FC,
    bias: bool = True,
    inner: Num | None = None,
    act: str = "",
) -> FeedForward:
    """Two maps, of ``intermediate_size`` or of the ``inner`` width."""
    h, f = c.size("hidden_size"), c.size("intermediate_size") if inner is None else inner
    return layers.network(name, names, h, f, act or c.word("hidden_act"), bias=bias)


def norms(c: Config, *names: str, form: str = "layernorm", code: str = "") -> tuple[Norm, ...]:
    """A norm of the hidden size for each name."""
    return tuple(Norm(name, form, c.size("hidden_size"), code) for name in names)


def classifier(*names: str, width: Callable[[Config], Num] | None = None, reads: str = FIRST) -> Top:
    """Classes of an image by each of these matrices; none where there are no labels."""

    def top(c: Config, base: Module) -> Module:
        if c.get("num_labels") == 0:
            return ImageClassifier("", base, ())
        wide = c.size("hidden_size") if width is None else width(c)
        return ImageClassifier("", base, tuple(Linear(name, wide, labels(c), "", True) for name in names), reads)

    return top


def reconstruction(c: Config, base: Module) -> Module:
    """Each patch's pixels (SimMIM)."""
    made = c.size("encoder_stride") * c.size("encoder_stride") * c.size("num_channels")
    return Headed("", base, Pixels("decoder", c.size("hidden_size"), made, product(grid(c))))


def nested(c: Config, name: str) -> Module:
    """The base model of a nested config, under the name that the whole gives it."""
    return find(c.model_type).base(c).but(name=name)


def nested_as(c: Config, kind: type[M], name: str) -> M:
    """The same where the whole asks for a model of this kind. Raises InvalidModel for another."""
    made = nested(c, name)
    if not isinstance(made, kind):
        raise InvalidModel(
            f"{c.path('model_type')} {quoted(c.model_type)} is not what this model reads its input with",
            "leave it out, or name the model_type of its checkpoint",
        )
    return made
