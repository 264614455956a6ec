"""Base of all modules: values with a name, which hold weights and other modules, and can be called.

What a module reads beside its input: the run, the sequences, and what all layers of a stack share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, dataclass_transform

from tfcalc.core.component import Component, Cost
from tfcalc.core.number import Num, same
from tfcalc.named_tuple import NamedTuple
from tfcalc.ops.elementwise import activation
from tfcalc.tape.counting import Counting
from tfcalc.tape.tensor import Shape, Tensor
from tfcalc.workload import Sequences, Workload

if TYPE_CHECKING:
    from tfcalc.tape.tensor import Trace


Made = TypeVar("Made")


@dataclass_transform(frozen_default=True)
class Frozen:
    """A subclass names its fields, as a dataclass does. Two values are equal where their classes and fields are."""

    fields_: ClassVar[dict[str, Any]] = {}
    """Of each field its default, or ``...`` where it must be given."""

    def __init_subclass__(cls) -> None:
        own = {name for name, of in cls.__annotations__.items() if "ClassVar" not in str(of)}
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__bases__):
            inherited |= vars(base).get("fields_", {})
        cls.fields_ = inherited | {name: cls.__dict__.get(name, ...) for name in cls.__annotations__ if name in own}

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self.fields_, values, strict=False), **named)
        wrong = sorted(given.keys() - self.fields_.keys())
        missing = [name for name, default in self.fields_.items() if default is ... and name not in given]
        if wrong or missing or len(values) > len(self.fields_):
            raise TypeError(f"{type(self).__name__}: {', '.join(wrong or missing) or 'too many values'}")
        self.__dict__.update(self.fields_ | given)

    def replace(self, **changed: Any) -> Self:
        """Return a copy with other values in some fields."""
        return type(self)(**self.__dict__ | changed)

    def as_type(self, kind: type[Made], **further: Any) -> Made:
        """Return the value as one of another class, which has its fields and may have ``further`` ones."""
        return kind(**self.__dict__ | further)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed; see replace()")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(same(own, other.__dict__[name]) for name, own in self.__dict__.items())

    @property
    def fingerprint(self) -> int:
        """A number that equal values share, whatever kind of numbers they hold; symbols are left out."""
        return hash((type(self), *map(_fingerprint, self.__dict__.values())))

    __hash__ = None  # type: ignore[assignment]  # sizes may be symbols


def _fingerprint(value: object) -> int:
    if isinstance(value, Frozen):
        return value.fingerprint
    if isinstance(value, tuple):
        return hash(tuple(map(_fingerprint, value)))
    whole = getattr(value, "whole", value)  # that of a number with its closed form
    return hash(whole) if whole is None or isinstance(whole, int | str) else 0


class TimeLoop(NamedTuple):
    """A forward that loops over time in PyTorch's own code, of which one turn stands for many.

    Attributes:
        off: how far peaks of training steps were from PyTorch's at most, as a part of these (random small models).
        recomputed: whether that holds with checkpointing, too; otherwise the layer is not recomputed.
    """

    off: float
    recomputed: bool = True


class Module(Frozen):
    """A part of a model. A subclass names its fields and says how its ``forward`` goes.

    Fields that are modules, or tuples of them, are its parts.
    """

    kind = ""
    loops: ClassVar[TimeLoop | None] = None
    """Its loop over time; None: its forward is no such loop."""

    name: str

    @property
    def copies(self) -> Num:
        """Number of copies in the module above, each with weights of its own."""
        return 1

    @property
    def passes(self) -> Num:
        """Number of times that each copy runs, with the same weights."""
        return 1

    @property
    def active(self) -> Num | None:
        """Number of copies that are active per token; None: all."""
        return None

    @property
    def apart(self) -> bool:
        """True if, as a layer, it is distinguished from others even where they cost the same."""
        return False

    # --- what it holds

    def own_params(self) -> Cost:
        """Its own weights and buffers, without those of its parts."""
        return Cost()

    def weights(self, trace: Trace) -> list[Tensor]:
        """Its own weights, where it runs."""
        return [trace.weight(each) for each in self.own_params().weights]

    @property
    def parts(self) -> Iterator[Module]:
        """The modules in its fields, in their order."""
        for value in self.__dict__.values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Module):
                    yield each

    def components(self) -> Iterator[Component]:
        """Yield the tree of parameters of the module and its parts, for which nothing needs to run."""
        inside = tuple(each for part in self.parts for each in part.components())
        yield Component(self.name, self.kind, self.own_params(), inside, self.copies, self.active, self.passes)

    @property
    def beside_text(self) -> Iterator[Module]:
        """The parts that read images or sounds for a model that trains on text alone."""
        for part in self.parts:
            yield from part.beside_text

    def all_of(self) -> Iterator[Module]:
        """Yield the module, and all modules in it."""
        yield self
        for part in self.parts:
            yield from part.all_of()

    def time_loops(self) -> list[TimeLoop]:
        """Return the loops over time of the module, and of all modules in it."""
        return [each.loops for each in self.all_of() if each.loops is not None]

    # --- how it runs

    def runs(self, ctx: Context) -> bool:
        """Return True if the module runs at all: it does not if it reads something that the context lacks."""
        return True

    def __call__(self, x: Tensor, *given: Any) -> Tensor:
        """Run it on this tensor's trace."""
        with x.trace.inside(self):
            return self.forward(x, *given)

    def call_consuming(self, given: list[Tensor], *more: Any) -> Tensor:
        """Call the module, which may pop its input from the list, so that no caller's reference keeps it live."""
        return self(given[0], *more)

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        """Return the module's output for ``x``."""
        raise NotImplementedError


class Routing(NamedTuple):
    """Experts' weights and numbers for each token; ``logits`` are returned (so they stay live) but not used.

    Where operations are only counted, nobody asks which experts were ``chosen``.
    """

    weights: Tensor
    chosen: Tensor | None = None
    logits: Tensor | None = None


class Backend(Protocol):
    """Code that runs what is one operation to the mathematics and several to a library, or the other way round.

    The module that runs hands itself over: an ``attention``, a ``norm``, a ``router``. Their classes belong to layers
    above this file.
    """

    @property
    def layers(self) -> Backend:
        """Backend that runs the layers of a stack."""
        ...

    def begin(self, ctx: Context, x: Tensor, attentions: list[Any], masks: tuple[Num | None, ...]) -> Context:
        """Return the context with what a stack makes once for all its layers.

        These are masks, also of these windows, and the angles of positions.
        """
        ...

    def norm(self, norm: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """A norm of rows."""
        ...

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """An activation, by its name."""
        ...

    fuses_gates: bool
    """Whether a gate is one kernel: ``gate`` runs it."""
    own_attention: bool
    """Whether attention is a kernel library's own, which takes heads of any width and keys that are not repeated."""

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``activation(gate) · up`` in one kernel."""
        ...

    def rotate(self, q: Tensor, k: Tensor, attention: Any, ctx: Context) -> tuple[Tensor, Tensor]:
        """Queries and keys turned by their positions."""
        ...

    def multi_head(self, attention: Any, x: Tensor, ctx: Context) -> Tensor:
        """An attention block as a whole."""
        ...

    def rotate_alone(self, q: Tensor, attention: Any, ctx: Context) -> Tensor:
        """Queries alone, which read keys that have been turned."""
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attention: Any, ctx: Context) -> Tensor:
        """Return the attention output of these queries, keys and values, head by head."""
        ...

    def attend_all(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the attention output without a mask, in one kernel, whatever others run in."""
        ...

    def distances(self, table: Any, ctx: Context, ids: Tensor) -> Context:
        """Return the context with a bias of scores for the distance of two tokens, from this table."""
        ...

    def route(self, router: Any, x: Tensor) -> Routing:
        """Return the experts that tokens go to, with their weights."""
        ...

    def experts(self, experts: Any, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the weighted sum of the outputs of each token's experts."""
        ...

    def networks(self, experts: Any, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the weighted sum of the outputs of each token's experts, which have matrices of their own."""
        ...

    def scan(self, mixer: Module, ctx: Context, *given: Tensor) -> Tensor:
        """Return the output of a mixer's recurrence for what the mixer has projected."""
        ...

    def head_and_loss(self, model: Any, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """The loss of the logits that a head makes of ``x``."""
        ...

    def loss_of_shares(self, logits: Tensor) -> Tensor:
        """Return the loss of the logits of some words, where other devices have those of the others."""
        ...


class CountingBackend:
    """The backend where operations are only counted: each module does what its mathematics says, and makes no masks."""

    fuses_gates = own_attention = False

    @property
    def layers(self) -> Backend:
        """The backend itself."""
        return self

    def begin(self, ctx: Context, x: Tensor, attentions: list[Any], masks: tuple[Num | None, ...]) -> Context:
        """Return the context unchanged: the pairs that a mask leaves are counted without one."""
        return ctx

    def distances(self, table: Any, ctx: Context, ids: Tensor) -> Context:
        """Return the context unchanged: a bias adds no matrix product."""
        return ctx

    def multi_head(self, attention: Any, x: Tensor, ctx: Context) -> Tensor:
        """Run the attention block by its maps."""
        made: Tensor = attention.by_maps(x, ctx)
        return made

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """Return ``x`` unchanged: the operation of an activation that counts is counted itself."""
        return x

    def route(self, router: Any, x: Tensor) -> Routing:
        """The scores of all experts."""
        made: Routing = router.counted(x)
        return made

    def experts(self, experts: Any, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the counted output of each token's experts."""
        made: Tensor = experts.counted(x, sent, ctx)
        return made

    def networks(self, experts: Any, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the counted output of each token's experts."""
        made: Tensor = experts.counted(x, sent, ctx)
        return made

    def head_and_loss(self, model: Any, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """The logits, and their loss."""
        made: Tensor = model.counted_loss(x, ctx)
        return made

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError: no operation asks for the rest, where it is counted itself."""
        raise AttributeError(f"operations that are counted run no kernels: {name}")


COUNTED: Any = CountingBackend()


class Cache(Protocol):
    """Store of what the modules of a model carry over from one step of decoding to the next."""

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of new tokens for the module that runs; those of all tokens that it reads."""
        ...


Rotated = tuple[Num | None, int, str]
"""What tells the angles of a layer from those of others: its window, its width and their format."""


class Encoded(NamedTuple):
    """The vectors that an encoder made ``of`` these sequences. The scores of its keys may have a ``bias``."""

    vectors: Tensor
    of: Sequences
    bias: Tensor | None = None


class Filled(NamedTuple):
    """Length of a stream before it was padded, and which of its tokens are ``there``, where that is stored."""

    length: Num
    there: Tensor | None


class Context(NamedTuple):
    """``stream`` are the sequences that run, ``memory`` what an encoder made of others; it may be ``filled`` up.

    ``masks`` are those of scores by the window of a layer, ``angles`` cos and sin by the kind of layer that reads them.
    Scores have a ``bias`` for the distance of two tokens; ``slopes`` are ALiBi's, times the places of keys. Queries may
    have a score each that has no key (``sinks``). There is a ``cache`` where text is generated.

    What a model makes for all its layers beside their stream is ``given``, by name: the vectors of words, vectors of
    each layer, prompts. What layers hand on to those above them is ``carried``. ``stored`` are the keys and values of
    the last layer that has made any, by the kind of layers that share them.

    Where operations are counted, backward recomputes every k-th layer as a whole, with k = ``every_whole``.
    """

    run: Workload
    stream: Sequences
    code: Backend | None = None
    masks: Mapping[Num | None, Tensor] = MappingProxyType({})
    angles: Mapping[Rotated | None, tuple[Tensor, Tensor]] = MappingProxyType({})
    places: Tensor | None = None
    memory: Encoded | None = None
    filled: Filled | None = None
    bias: Tensor | None = None
    slopes: Tensor | None = None
    sinks: Tensor | None = None
    cache: Cache | None = None
    given: Mapping[str, Tensor] = MappingProxyType({})
    carried: dict[str, Tensor] | None = None
    stored: dict[str, tuple[Tensor, Tensor]] = {}  # noqa: RUF012  # a stack that shares has one of its own
    every_whole: int = 0

    @property
    def backend(self) -> Backend:
        """Backend whose code runs."""
        return COUNTED if self.code is None else self.code

    @property
    def fuses_gates(self) -> bool:
        """True if gates are one kernel."""
        return self.backend.fuses_gates

    @property
    def own_attention(self) -> bool:
        """True if attention is a kernel library's own."""
        return self.backend.own_attention

    @property
    def drops(self) -> bool:
        """True if dropout is at work."""
        return self.run.drops

    @property
    def unfilled(self) -> Num:
        """Length of the stream before it was padded."""
        return self.stream.length if self.filled is None else self.filled.length

    def activation(self, kind: str, x: Tensor, name: str = "activation", *, code: str = "") -> Tensor:
        """An activation, by its name, or as the program that is called ``code`` has it."""
        return activation(kind, x, lambda: self.backend.activation(code or kind, x), name)

    def alone(self, stream: Sequences) -> Context:
        """Return the context for a module that reads these sequences, and nothing that was made of others."""
        return self._replace(stream=stream, memory=None, cache=None)

    def asking(self, stream: Sequences, vectors: Tensor, of: Sequences) -> Context:
        """Return the context for queries of the ``stream``, which read these ``vectors``."""
        return self._replace(stream=stream, memory=Encoded(vectors, of))


def counted(module: Module, run: Workload) -> Component:
    """The tree of components of a module that reads token ids.

    What backward recomputes is marked later, in the tree (:mod:`tfcalc.core.recomputation`). Attention to another
    model's output finds some that a gradient reaches.
    """
    return counted_by(Counting(), module, run)


def counted_by(trace: Counting, module: Module, run: Workload) -> Component:
    """Return the module's tree of components by a trace that may note more than costs."""
    every = 0 if run.early_stop else run.every
    run = run.replaced(recompute="none", recompute_modules="", early_stop=False)
    ids = trace.given((run.target.batch, run.target.length), "int64", "token ids")
    source = run.source
    memory = Encoded(trace.reached((source.batch, source.length, 1)), source)  # a map knows itself how wide rows are
    module(ids, Context(run, run.target, memory=memory, every_whole=every))
    (record,) = trace.record.inside.values()
    return record.component()


def counted_on(module: Module, shape: Shape, *given: Any) -> Component:
    """The tree of a module that reads vectors, on a tensor of this shape that a gradient reaches, and what is given."""
    trace = Counting()
    module(trace.reached(shape), *given)
    (record,) = trace.record.inside.values()
    return record.component()
