"""What a module reads beside its input: the run, the sequences, and what all layers of a stack share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tfcalc.core.number import Num
from tfcalc.ops.elementwise import activation
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences, Workload

if TYPE_CHECKING:
    from tfcalc.nn.attention import Attention
    from tfcalc.nn.basic import Norm
    from tfcalc.nn.mixture import Experts, Networks, Router, Routing
    from tfcalc.nn.model import ModelWithHead
    from tfcalc.nn.module import Module
    from tfcalc.nn.positions import RelativeBias


class Backend(Protocol):
    """Whose code runs what is one operation to the mathematics and several to a library, or the other way round."""

    @property
    def layers(self) -> Backend:
        """Whose code runs the layers of a stack."""
        ...

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """What a stack makes once for all its layers: masks, also of these windows, and the angles of positions."""
        ...

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """A norm of rows."""
        ...

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """An activation, by its name."""
        ...

    fuses: bool
    """Whether gates are one kernel."""

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``activation(gate) · up`` in one kernel."""
        ...

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Queries and keys turned by their positions."""
        ...

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """An attention block as a whole."""
        ...

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """Queries alone, which read keys that have been turned."""
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """What queries make of keys and values, head by head."""
        ...

    def attend_all(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What queries make of keys and values of which nothing is masked, in one kernel, whatever others run in."""
        ...

    def distances(self, table: RelativeBias, ctx: Context, ids: Tensor) -> Context:
        """With a bias of scores for the distance of two tokens, of this table."""
        ...

    def route(self, router: Router, x: Tensor) -> Routing:
        """Which experts tokens go to, with which weights."""
        ...

    def experts(self, experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """What the experts of each token make of it, times their weights."""
        ...

    def networks(self, experts: Networks, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """The same of experts that have matrices of their own."""
        ...

    def scan(self, mixer: Module, ctx: Context, *given: Tensor) -> Tensor:
        """What the recurrence of a mixer makes of what it has projected."""
        ...

    def head_and_loss(self, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """The loss of the logits that a head makes of ``x``."""
        ...

    def loss_of_shares(self, logits: Tensor) -> Tensor:
        """That of the logits of some words, where other devices have those of the others."""
        ...


class Counted:
    """The backend where operations are only counted: each module does what its mathematics says, and makes no masks."""

    fuses = False

    @property
    def layers(self) -> Backend:
        """Itself."""
        return self

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Nothing: the pairs that a mask leaves are counted without one."""
        return ctx

    def distances(self, table: RelativeBias, ctx: Context, ids: Tensor) -> Context:
        """Nothing: a bias moves no product."""
        return ctx

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """By its maps."""
        return attention.by_maps(x, ctx)

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """Nothing: of an activation that counts, the operation is."""
        return x

    def route(self, router: Router, x: Tensor) -> Routing:
        """The scores of all experts."""
        return router.counted(x)

    def experts(self, experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Those of each token."""
        return experts.counted(x, sent, ctx)

    def networks(self, experts: Networks, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Likewise."""
        return experts.counted(x, sent, ctx)

    def head_and_loss(self, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """The logits, and their loss."""
        return model.counted_loss(x, ctx)

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError: no operation asks for the rest, where it is counted itself."""
        raise AttributeError(f"operations that are counted run no kernels: {name}")


COUNTED: Any = Counted()


class Cache(Protocol):
    """What the modules of a model keep from one step of decoding to the next."""

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of new tokens for the module that runs; those of all tokens that it reads."""
        ...


Rotated = tuple[Num | None, int, str]
"""What tells the angles of a layer from those of others: its window, its width and their format."""


class Memory(NamedTuple):
    """The vectors that an encoder made ``of`` these sequences. The scores of its keys may have a ``bias``."""

    vectors: Tensor
    of: Sequences
    bias: Tensor | None = None


class Filled(NamedTuple):
    """How long a stream was before it was filled up, and which of its tokens are ``there``, where that is kept."""

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

    Where operations are counted, backward computes each so many layers again as a whole (``every_whole``).
    """

    run: Workload
    stream: Sequences
    code: Backend | None = None
    masks: Mapping[Num | None, Tensor] = MappingProxyType({})
    angles: Mapping[Rotated | None, tuple[Tensor, Tensor]] = MappingProxyType({})
    places: Tensor | None = None
    memory: Memory | None = None
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
        """Whose code runs."""
        return COUNTED if self.code is None else self.code

    @property
    def fuses(self) -> bool:
        """Whether gates are one kernel."""
        return self.backend.fuses

    @property
    def drops(self) -> bool:
        """Whether dropout is at work."""
        return self.run.drops

    @property
    def unfilled(self) -> Num:
        """How long the stream was before it was filled up."""
        return self.stream.length if self.filled is None else self.filled.length

    def activation(self, kind: str, x: Tensor, name: str = "activation", *, code: str = "") -> Tensor:
        """An activation, by its name, or as the program that is called ``code`` has it."""
        return activation(kind, x, lambda: self.backend.activation(code or kind, x), name)

    def alone(self, stream: Sequences) -> Context:
        """For a module that reads these sequences, and nothing that was made of others."""
        return self._replace(stream=stream, memory=None, cache=None)

    def asking(self, stream: Sequences, vectors: Tensor, of: Sequences) -> Context:
        """For queries of the ``stream``, which read these ``vectors``."""
        return self._replace(stream=stream, memory=Memory(vectors, of))
