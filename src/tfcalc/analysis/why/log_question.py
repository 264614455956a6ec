"""A question about log lines, their numbers and what is said beside them; and causes and remarks that answer it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from tfcalc.analysis.why import log_lines as log
from tfcalc.analysis.why.why import WhyInput
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.served import ServedLayout
from tfcalc.plans import Serving
from tfcalc.serving.paging import Engine, layers
from tfcalc.serving.ranks import ServingRank, ServingRanks
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.serving.paging import CachedLayer

GIB, MIB = 2**30, 2**20
CLOSE, NEAR = Fraction(15, 10_000), Fraction(1, 40)
"""By which fractions a number is the one of the log, and plausibly so: the rest is rounding, padding and alignment."""
SPREAD = (1, 2, 4, 8)
"""GPUs over which a model is split, tried where nobody says how many."""
KV = ("auto", "fp8")
ITSELF = Fraction(1, 10**6)
"""By which fraction numbers differ that are exactly the same: of more digits than a float has."""


class LogRemark(NamedTuple):
    """A remark on a number of a log, whose text is ``of``, "" where the words say it.

    It ``explains`` the number, or asks for what would.
    """

    of: str
    words: str
    explains: bool = True

    def __str__(self) -> str:
        return f"{self.of}: {self.words}" if self.of else self.words


class LogQuestion(NamedTuple):
    """A log's numbers, and what is said beside them: the model, its name, GPUs that split it, a workload, a card."""

    numbers: Sequence[log.LoggedNumber]
    model: Model
    called: str
    tp: int | None = None
    workload: Workload | None = None
    gpu: Accelerator | None = None
    tokens: int | None = None

    def said(self, *keys: str) -> log.LoggedNumber | None:
        """The first number of one of these kinds."""
        return next((one for one in self.numbers if one.key in keys), None)

    @property
    def tps(self) -> Sequence[int]:
        """The degrees of tensor parallelism to try."""
        return SPREAD if self.tp is None else (self.tp,)

    @property
    def facts(self) -> Facts:
        """Sizes of the model."""
        asked = WhyInput(self.model, self.called, self.workload, None)
        return asked.known(asked.tree())

    @property
    def length(self) -> int:
        """Tokens of the longest request: as the log says, or the model's own."""
        logged = next((one.length for one in self.numbers if one.key in (log.CONCURRENCY, log.NEEDED)), 0)
        return logged or value_of(self.model.longest or 0) or 4096

    @property
    def windows(self) -> int:
        """The layers that store a window, or a chunk, and not every token; 0 of a cache that no rule pages."""
        return 0 if self.not_paged else sum(bool(layer.page.limit) for layer in self._layers())

    @property
    def not_paged(self) -> str:
        """Say why no rule of an engine pages the cache; nothing where one does."""
        try:
            self._layers()
        except InvalidModel as error:
            return error.message
        return ""

    def _layers(self) -> Sequence[CachedLayer]:
        rank = next(rank for _, _, rank in self.ranks())
        return layers(rank.tree, Engine(format=rank.plan.kv))

    def ranks(self) -> Iterator[tuple[int, str, ServingRank]]:
        """One GPU of the model, by degree of tensor parallelism and format of the cache; those that cannot be are not.

        Raises InvalidModel where there is none.
        """
        found, refused = False, list[InvalidModel]()
        for tp, kv in product(self.tps, KV):
            try:
                of = ServingRanks(self.model, ServedLayout(tp=tp), Workload(), Serving(context=self.length, kv=kv))
                yield tp, kv, of.each[0]
                found = True
            except InvalidModel as error:
                refused.append(error)
        if not found and refused:
            raise refused[0]


class LogCause(NamedTuple):
    """A number that the model gives, in what way: its ``cause``, the arithmetic, and the command that prints it.

    ``rare`` orders what gives the same number. It agrees with the log where it is rounded to what that has, or differs
    by at most the fraction ``within``: nothing of what is counted, or follows from other numbers of the log. A
    ``measure`` is something else that follows from it, a share of a card's peak, with which it agrees up to 100 %.
    """

    value: Fraction
    cause: str
    arithmetic: str
    command: str
    rare: int = 0
    within: Fraction = NEAR
    measure: bool = False
