"""The sizes of a model that a design varies, and the shapes that its constraints allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from tfcalc.errors import UsageError
from tfcalc.model import Model
from tfcalc.zoo.transformer import Transformer

WIDTH, DEPTH, HEADS = "d_model", "n_layers", "n_heads"
NEEDED = (WIDTH, DEPTH, HEADS)
OPTIONAL = ("n_kv_heads", "d_ff", "head_dim")
MULTIPLE = 64
HEAD_DIM = 64
"""Of the classic model, where none is given: GPT-2's, and the smaller models of GPT-3."""
MOST_LAYERS = 512
MOST_WIDTH = 131_072


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints on a shape. Where several sizes are given, each of them is tried; none: as the family has it.

    Attributes:
        multiple_of: d_model and d_ff are multiples of it.
        d_model: hidden sizes.
        layers: numbers of layers.
        heads: attention heads.
        kv_heads: key and value heads.
        groups: attention heads per key and value head.
        head_dim: widths of a head.
        d_ff: feed-forward sizes.
        d_ff_ratio: feed-forward sizes over d_model, rounded to the nearest multiple.
        aspect: smallest and largest d_model over layers.
        within: tolerance as a fraction of the budget: shapes within it are ranked by practice first.
    """

    multiple_of: int = MULTIPLE
    d_model: Sequence[int] = ()
    layers: Sequence[int] = ()
    heads: Sequence[int] = ()
    kv_heads: Sequence[int] = ()
    groups: Sequence[int] = ()
    head_dim: Sequence[int] = ()
    d_ff: Sequence[int] = ()
    d_ff_ratio: Sequence[Fraction] = ()
    aspect: tuple[Fraction, Fraction] = (Fraction(16), Fraction(256))
    within: Fraction = Fraction(1, 20)


class ShapeFamily:
    """A model whose sizes vary. Raises UsageError where those that every shape needs cannot."""

    def __init__(self, model: Model, constraints: Constraints) -> None:
        self.base, self.by = model, constraints
        self._sizes: dict[str, int] = {}
        self.classic = isinstance(model, Transformer)
        wanted = {
            "n_kv_heads": constraints.kv_heads or constraints.groups,
            "d_ff": constraints.d_ff or constraints.d_ff_ratio,
        }
        given = {name: self._own(name) for name, values in wanted.items() if values}
        self.model = model.replaced(**given) if given else model
        if isinstance(self.model, Transformer):
            self.model = self.model.replaced(**{name: self.model.size(name) for name in OPTIONAL})
        lacking = [name for name in NEEDED if not letters_of(self.model, name)]
        if lacking:
            raise UsageError(
                f"{', '.join(lacking)} cannot be varied in {model.summary}", "design with --like another model"
            )
        self.names = (*NEEDED, *(name for name in OPTIONAL if letters_of(self.model, name)))
        """The sizes that vary."""

    def _own(self, name: str) -> int:
        """A value of the base, to have the size given at all: it is replaced in every shape."""
        known = size_of(self.base, name)
        if known is not None:
            return known
        width, heads = size_of(self.base, WIDTH), size_of(self.base, HEADS)
        return (4 * width if width else 1) if name == "d_ff" else (heads or 1)

    def own(self, name: str) -> int:
        """The size that the base model has."""
        if name not in self._sizes:
            found = size_of(self.model, name)
            assert found is not None
            self._sizes[name] = found
        return self._sizes[name]

    @property
    def head_dim(self) -> int:
        """The width of a head of the base model."""
        if "head_dim" in self.names:
            return self.own("head_dim")
        return max(self.own(WIDTH) // self.own(HEADS), 1)

    def whole(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes of a shape with the width of a head, where it follows from the others."""
        own = self.own(HEADS) * self.head_dim
        return {"head_dim": sizes[WIDTH] * own // (self.own(WIDTH) * sizes[HEADS]), **sizes}

    def widths(self) -> Iterator[int]:
        """The hidden sizes, growing."""
        step = self.by.multiple_of
        if self.by.d_model:
            yield from sorted(set(self.by.d_model))
            return
        yield from range(step, MOST_WIDTH + 1, step)

    def depths(self, width: int) -> Sequence[int]:
        """The numbers of layers of this width, growing."""
        slim, wide = self.by.aspect
        least, most = max(-(-width // wide), 1), min(width // slim, MOST_LAYERS)
        if self.by.layers:
            bounded = self.by.aspect != Constraints().aspect
            return sorted(n for n in set(self.by.layers) if not bounded or least <= n <= most)
        return range(int(least), int(most) + 1)

    def shapes(self, width: int) -> Iterator[dict[str, int]]:
        """The sizes of this width without the layers."""
        for head_dim in self._head_dims():
            for heads in self._heads(width, head_dim):
                for kv_heads in self._kv_heads(heads):
                    for d_ff in self._d_ffs(width):
                        sizes = {
                            WIDTH: width,
                            HEADS: heads,
                            "n_kv_heads": kv_heads,
                            "d_ff": d_ff,
                            "head_dim": head_dim,
                        }
                        yield {name: size for name, size in sizes.items() if name in self.names}

    def _head_dims(self) -> Sequence[int]:
        default = HEAD_DIM if self.classic and self._classic_head_dim() is None else self.head_dim
        return sorted(set(self.by.head_dim)) or [default]

    def _classic_head_dim(self) -> int | None:
        return cast("int | None", cast("Transformer", self.base).head_dim)

    def _heads(self, width: int, head_dim: int) -> list[int]:
        """Return the head counts that fill the width, or are as much wider or narrower than it as in the base model."""
        own = Fraction(self.own(HEADS) * self.head_dim, self.own(WIDTH)) if not self.classic else Fraction(1)
        free = "head_dim" in self.names and not self.classic
        if self.by.heads:
            return sorted(heads for heads in set(self.by.heads) if free or heads * head_dim == own * width)
        exact = own * width / head_dim
        if exact.denominator == 1 and exact >= 1:
            return [int(exact)]
        return [max(round(exact), 1)] if free and own.denominator != 1 else []

    def _kv_heads(self, heads: int) -> list[int]:
        """Return the KV head counts: those given, else those that follow the base model.

        The latter are one for each head, or as many, or as many for each, as in the base model.
        """
        if "n_kv_heads" not in self.names:
            return [heads]
        if self.by.kv_heads:
            found = set(self.by.kv_heads)
        elif self.by.groups:
            found = {heads // group for group in self.by.groups if heads % group == 0}
        elif self.own("n_kv_heads") == self.own(HEADS):
            return [heads]
        else:
            own = self.own("n_kv_heads")
            group = self.own(HEADS) // own
            found = {own} | ({heads // group} if heads % group == 0 else set())
        return sorted(kv_heads for kv_heads in found if kv_heads >= 1 and heads % kv_heads == 0)

    def _d_ffs(self, width: int) -> list[int]:
        """Return the feed-forward sizes: those given, or the ratios times the width, each as the nearest multiple."""
        if "d_ff" not in self.names:
            return [0]
        if self.by.d_ff:
            return sorted(set(self.by.d_ff))
        step = self.by.multiple_of
        ratios = self.by.d_ff_ratio or [Fraction(self.own("d_ff"), self.own(WIDTH))]
        return sorted({max(round(ratio * width / step), 1) * step for ratio in ratios})


def letters_of(model: Model, name: str) -> list[str]:
    """The letters of a size by tfcalc's name; of layers those of both stacks, but for one whose own were given."""
    known = model.dimensions()
    try:
        return [known[path].symbol for path in model.places(name) if path in known]
    except UsageError:
        return []


def size_of(model: Model, name: str) -> int | None:
    """The value of a size by tfcalc's name; None where the model has no such size."""
    if isinstance(model, Transformer):
        return cast("int", model.size(name))
    read, letters = model.values(), letters_of(model, name)
    return cast("int", read[letters[0]]) if letters else None


def vocabulary_of(model: Model) -> int | None:
    """Its vocabulary; None where it has none."""
    if isinstance(model, Transformer):
        return cast("int | None", model.vocab_size)
    return size_of(model, "vocab_size")
