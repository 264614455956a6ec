"""A model while it runs: the tape, the workload, and what its parts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Tensor
from tfcalc.core.number import Num
from tfcalc.implementations.transformers.habits import Flag, Habits, Probability
from tfcalc.tape.operations import Torch
from tfcalc.tape.value import Value
from tfcalc.workload import Sequences, Workload

if TYPE_CHECKING:
    from tfcalc.implementations.transformers.cache import Cache

Field = Callable[..., Any]
Rule = Callable[["Running", Component, Value], Value]


Stored = dict[int | None, tuple[Value, Value]]
AngleKind = tuple[int | None, int]
"""A layer's window (if it has one), and how much of a head's width is rotated."""


class Shared(NamedTuple):
    """What all layers of a stack read beside the stream.

    ``angles`` are cos and sin of the rotary positions in ``places``, by the kind of layer that reads them (None where
    all read the same), ``mask`` what eager attention adds to its scores,
    ``masks`` those for each window where keys are cached, ``looks_back`` whether the stack is causal. In an
    encoder-decoder, ``memory`` is what the encoder made of ``memory_of``. ``stored`` are the last keys and values by
    the window of their layer, where later ones read them again, ``inputs`` the vectors that layers have of their own.
    """

    angles: Mapping[AngleKind | None, tuple[Value, Value]] = MappingProxyType({})
    places: Value | None = None
    mask: Value | None = None
    masks: Mapping[int | None, Value] = MappingProxyType({})
    looks_back: bool = False
    memory: Value | None = None
    memory_of: Sequences | None = None
    stored: Stored | None = None
    inputs: Value | None = None


NOTHING = Shared()

OF_IMAGES = ("vision_", "visual", "embed_vision", "audio_", "embed_audio", "multi_modal_projector")
"""How the names of parts begin that read images or sounds, or what was made of them."""


class Running:
    """Runs the parts of a model's tree on a tape, by the ``rules`` for their kinds.

    ``field`` reads the model's config, or gives the default that it is called with. ``stream`` are the sequences that
    run now, ``shared`` is what the layers of the stack read beside them. Without ``every_layer``, one layer of a kind
    runs for all that are equal to it: what is kept is counted so many times, and sizes may be symbols. ``outputs`` are
    what the base model gave, which its caller has until there is a loss.
    """

    def __init__(
        self,
        tape: Torch,
        run: Workload,
        field: Field,
        habits: Habits,
        rules: Mapping[str, Rule],
        *,
        every_layer: bool = True,
    ) -> None:
        self.t = tape
        self.run = run
        self.field = field
        self.habits = habits
        self.rules = rules
        self.every_layer = every_layer
        self.weights: dict[str, Value] = {}
        self.stream = run.target
        ids = tape.new(self.stream.tokens, "int64", "token ids") if habits.copies_ids else None
        given = tape.given(self.stream.tokens, "int64", "token ids")
        self.ids = given if ids is None else Value(ids, self.stream.tokens, "int64")
        self.shared = NOTHING
        self.experts = "grouped_mm"  # transformers' experts_implementation
        self.cache: Cache | None = None
        self.until_layer_ends: list[Value] = []  # what a layer's variables hold, though nothing reads it any more
        self.outputs: list[Value] = []
        self.adapters: Mapping[int, tuple[Component, Component]] = {}

    def __call__(self, part: Component, x: Value) -> Value:
        """What this part makes of ``x``."""
        with self.t.inside(part.name):
            return self.rules.get(part.kind, in_sequence)(self, part, x)

    def drops(self, probability: Probability) -> bool:
        """Whether dropout with this probability is at work."""
        name, default = probability
        given = self.field(name) if name else None
        return self.run.drops and bool(default if given is None else given)

    def does(self, flag: Flag) -> bool:
        """Whether a flag of the config is set; without a field, its default."""
        name, default = flag
        return bool(self.field(name, default) if name else default)

    def capped(self, x: Value, cap: tuple[str, float | None]) -> Value:
        """``c · tanh(x / c)``, where there is a cap (its field, and its default): keeps the tanh."""
        name, default = cap
        if not name or self.field(name, default) is None:
            return x
        x = self.t.scaled(x)
        x = self.t.of_result("tanh", x)
        return self.t.scaled(x)

    def dropped(self, x: Value, probability: Probability) -> Value:
        """``x`` with some of its numbers dropped, if dropout is at work."""
        return self.t.dropout(x, at_work=self.drops(probability))

    def weight(self, tensor: Tensor, copies: Num = 1, *, kind: str | None = None) -> Value:
        """A parameter, the same each time; a tied one is that which it is tied to.

        So many ``copies`` of it, one for each expert, are one parameter. It may be of another ``kind`` than the others.
        """
        name = tensor.tied_to or f"{self.t.path}.{tensor.name}"
        if name not in self.weights:
            kind = kind or self.t.numerics.weights
            self.weights[name] = self.t.parameter(tensor.size * copies, kind, name, trained=not tensor.frozen)
        return self.weights[name]

    def trained(self, leaf: Component) -> Value:
        """The one parameter of a leaf that does not run by itself."""
        with self.t.inside(leaf.name):
            return self.weight(leaf.own.weights[0])

    def tied(self, name: str, weight: Value) -> None:
        """From now on ``name`` means this parameter, unless it has a meaning."""
        self.weights.setdefault(name, weight)


def in_sequence(m: Running, part: Component, x: Value) -> Value:
    """Its parts one after another; a leaf without a rule leaves things as they are."""
    for each in reading_text(part):
        x = m(each, x)
    return x


def reading_text(part: Component) -> list[Component]:
    """Its parts but for those that read images or sounds, of which the sequences that run have none."""
    return [each for each in part.parts if not _reads_images(each)]


def at_rest(part: Component) -> list[str]:
    """The names of the parts of a model that read images or sounds."""
    if part.kind == "listener":
        return [each.name for each in part.parts if each.name != "language_model"]
    return [name for each in part.parts for name in ([each.name] if _reads_images(each) else at_rest(each))]


def _reads_images(part: Component) -> bool:
    return part.name.startswith(OF_IMAGES)


def by_letter(part: Component) -> dict[str, Component]:
    """The linear maps of a block by the names of their weights (``W_Q``, ``W_1``); adapters stand beside them."""
    maps = [leaf for leaf in part.parts if leaf.own.products and leaf.own.weights and leaf.kind != "adapter"]
    return {leaf.own.weights[0].name: leaf for leaf in maps}


def of_kind(part: Component, kind: str) -> Component:
    """Its only leaf of this kind."""
    return next(leaf for leaf in part.parts if leaf.kind == kind)


def has(part: Component, kind: str) -> bool:
    """Whether it has a leaf of this kind."""
    return any(leaf.kind == kind for leaf in part.parts)


def of_memory(part: Component) -> bool:
    """Whether it is attention to what an encoder made, or the norm of this; where nothing was made, it does not run."""
    return any(word in part.name.lower() for word in ("cross", "encoder_attn", "encdec"))
