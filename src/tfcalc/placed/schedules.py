"""Schedules of a pipeline: how long its stages wait for each other, and how many micro-batches are in flight.

========================  =========================================================  ===================
schedule                  time that a stage is idle                                  chunks saved
========================  =========================================================  ===================
gpipe                     ``(p − 1)(F + I + W)``                                     ``m``
1f1b                      ``(p − 1)(F + I + W)``                                     ``p − r``
interleaved               ``(p − 1)(F + I + W)/v``                                   ``pv + p − 1 − 2r``
interleaved-zero-bubble   ``(p − 1)/v · max(F + I − W, F, I)``                       ``pv``
zb1p                      ``(p − 1) · max(F + I − W, F, I)``                         ``p``
zb-v                      ``½ max(n I, 2n(I − W), …)``: ``n F/2`` where F = I = W    ``2p``
dualpipe                  ``(p/2 − 1)(F + 2 I − W)``                                 ``p + 1``
dualpipev                 ``½ max(n F, n(F + I − W), …)``: ``n F/2`` likewise        ``2p + 1``
========================  =========================================================  ===================

A stage takes F for the forward pass of a micro-batch, I for the gradients of what it reads, and W for those of its
weights. There are p stages of v chunks each, which all take as long, and m micro-batches; r is a stage's number, and
n = p − 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from numbers import Rational
from typing import Any

from tfcalc.core.number import Num, minimum
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.layout import check_even, check_least, check_multiple


class Quotient(NamedTuple):
    """A number that is ``top / bottom``, whatever kinds of number these are."""

    top: Any
    bottom: Any = 1

    @property
    def value(self) -> Any:
        """The quotient: exact if both are."""
        exact = isinstance(self.top, Rational) and isinstance(self.bottom, Rational)
        return Fraction(self.top, self.bottom) if exact else self.top / self.bottom


class StageTimes(NamedTuple):
    """StageTimes of a micro-batch on a stage: forward, gradients of its input, gradients of its weights."""

    forward: Any
    input_gradient: Any
    weight_gradient: Any

    @property
    def whole(self) -> Any:
        """Forward and backward."""
        return self.forward + self.input_gradient + self.weight_gradient


class Schedule(NamedTuple):
    """An order of a pipeline's work. ``idle`` and ``saved`` are its formulas; it has these numbers of ``chunks``.

    ``copies`` of its weights are on each stage. Some orders need a number of micro-batches that stages divide
    (``in_rounds``), or two for each stage (``least``).
    """

    name: str
    source: str
    idle: Callable[[StageTimes, Any, Any], Quotient]
    saved: Callable[[Any, Any, Any], Any] | None
    chunks: int | None = 1
    copies: int = 1
    in_rounds: bool = False
    least: int = 1

    @property
    def in_order(self) -> bool:
        """True if chunks are on stages in their order: not in the shape of a V, and not from both ends."""
        return self.copies == 1 and self.chunks in (None, 1)

    def bubble(self, times: StageTimes, stages: Num, chunks: Num = 1) -> Quotient:
        """Return how long a stage is idle in a step, from the first forward pass to the last gradient."""
        return self.idle(times, stages, chunks)

    def share(self, times: StageTimes, stages: Num, micro_batches: Num, chunks: Num = 1) -> Quotient:
        """Return the bubble over the time that a stage works.

        >>> SCHEDULES["interleaved"].share(StageTimes(1, 1, 1), 8, 64, 5).value
        Fraction(7, 320)
        """
        idle = self.bubble(times, stages, chunks)
        return Quotient(idle.top, idle.bottom * micro_batches * times.whole)

    def chunks_saved(self, stage: Num, stages: Num, micro_batches: Num, chunks: Num = 1) -> Num:
        """Return for how many micro-batches a stage keeps what one chunk's backward reads, added up over its chunks."""
        every: Num = micro_batches * chunks
        saved: Num = every if self.saved is None else minimum(every, self.saved(stage, stages, chunks))
        return saved

    def in_flight(self, stage: Num, stages: Num, micro_batches: Num, chunks: Num = 1) -> Quotient:
        """Return the micro-batches that a stage holds at once, in those of a whole stage.

        >>> [SCHEDULES["interleaved"].in_flight(stage, 4, 8, 2).value for stage in range(4)]
        [Fraction(11, 2), Fraction(9, 2), Fraction(7, 2), Fraction(5, 2)]
        """
        return Quotient(self.chunks_saved(stage, stages, micro_batches, chunks), chunks)

    def check(self, stages: Num, micro_batches: Num, chunks: Num = 1) -> None:
        """Raise InvalidModel if there is no such order for these numbers."""
        count = known(chunks)
        check_least("micro-batches", micro_batches, 1)
        if self.chunks is not None and count is not None and count != self.chunks:
            raise InvalidModel(f"{count} chunks a stage under {self.name}", f"it has {self.chunks}")
        if self.chunks is None and count is not None and count < 2:
            raise InvalidModel(f"{count} chunk a stage under {self.name}", "it has 2 or more")
        if self.in_rounds:
            check_multiple("micro-batches", micro_batches, "pipeline", stages)
        least = known(self.least * stages) if self.least > 1 else 1
        if least is not None:
            check_least(f"micro-batches of {self.name}", micro_batches, least)
        if self.copies > 1:
            check_even("pipeline", stages, "directions", self.copies)


def larger(left: Any, right: Any) -> Any:
    """Return the larger of two numbers, whatever kind of number they are.

    >>> larger(3, 5), larger(Fraction(1, 2), Fraction(1, 3))
    (5, Fraction(1, 2))
    """
    if isinstance(left, int | float | Fraction) and isinstance(right, int | float | Fraction):
        return max(left, right)
    if hasattr(left, "minimum") or hasattr(right, "minimum"):
        return left + right - minimum(left, right)
    return (left + right + abs(left - right)) / 2  # arrays, which have no ``<`` here, and sympy's


def _largest(*numbers: Any) -> Any:
    return reduce(larger, numbers)


def _all_waits(times: StageTimes, p: Any, _: Any) -> Quotient:
    return Quotient((p - 1) * times.whole)


def _in_chunks(times: StageTimes, p: Any, v: Any) -> Quotient:
    return Quotient((p - 1) * times.whole, v)


def _filled_by_weights(times: StageTimes, p: Any, v: Any) -> Quotient:
    f, i, w = times
    return Quotient((p - 1) * _largest(f + i - w, f, i), v)


def _in_a_v(times: StageTimes, p: Any, _: Any) -> Quotient:
    """Length of the longest path through the order, which starts at the first forward pass."""
    (f, i, w), n = times, p - 1
    rising = n * (2 * f - i)
    paths = (n * i, 2 * n * (i - w), i + (n - 1) * w, f + (n - 1) * w)
    more = (2 * n * (f - w) - w, 2 * n * (f - w) - f + i, rising - f + i, rising - w)
    return Quotient(_largest(*paths, *more), 2)


def _both_ways_in_a_v(times: StageTimes, p: Any, _: Any) -> Quotient:
    """Length of the longest path through the order."""
    (f, i, w), n = times, p - 1
    paths = (n * f, n * (f + i - w), n * (2 * f - i - w), 2 * n * (f - w), n * (2 * i - w) - f, n * i - f)
    return Quotient(_largest(*paths), 2)


def _both_ways(times: StageTimes, p: Any, _: Any) -> Quotient:
    """A forward and a backward chunk side by side take as long as one after another: F&B = F + B, B = I + W."""
    f, i, w = times
    return Quotient((p - 2) * (f + 2 * i - w), 2)


SCHEDULES = {
    schedule.name: schedule
    for schedule in (
        Schedule("gpipe", "Huang et al. 2019 (arXiv 1811.06965), section 2.3", _all_waits, None),
        Schedule(
            "1f1b",
            "Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.1; Korthikanti et al. 2022 (arXiv 2205.05198), "
            "appendix C",
            _all_waits,
            lambda r, p, _: p - r,
        ),
        Schedule(
            "interleaved",
            "Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.2; Megatron-LM's "
            "forward_backward_pipelining_with_interleaving",
            _in_chunks,
            lambda r, p, v: p * v + p - 1 - 2 * r,
            chunks=None,
            in_rounds=True,
        ),
        Schedule(
            "interleaved-zero-bubble",
            "torch.distributed.pipelining.ScheduleInterleavedZeroBubble, 2.13",
            _filled_by_weights,
            lambda _, p, v: p * v,
            chunks=None,
            in_rounds=True,
        ),
        Schedule(
            "zb1p",
            "Qi et al. 2023 (arXiv 2401.10241), table 1: ZB-H1; DeepSeek-V3 (arXiv 2412.19437), table 2",
            _filled_by_weights,
            lambda _, p, __: p,
        ),
        Schedule(
            "zb-v",
            "Qi et al. 2024 (arXiv 2405.15362); torch.distributed.pipelining.ScheduleZBVZeroBubble, 2.13",
            _in_a_v,
            lambda _, p, __: 2 * p,
            chunks=2,
            least=2,
        ),
        Schedule(
            "dualpipe",
            "DeepSeek-V3 (arXiv 2412.19437), table 2",
            _both_ways,
            lambda _, p, __: p + 1,
            copies=2,
            least=2,
        ),
        Schedule(
            "dualpipev",
            "deepseek-ai/DualPipe; torch.distributed.pipelining.ScheduleDualPipeV, 2.13",
            _both_ways_in_a_v,
            lambda _, p, __: 2 * p + 1,
            chunks=2,
            least=2,
        ),
    )
}
"""Schedules by name.

The formulas of those in the shape of a V are the longest paths through torch's orders of them, whose documentation has
no formula; what runs side by side there is taken to be as long as one after the other.
"""


def schedule(name: str) -> Schedule:
    """Return the schedule of this name. Raises InvalidModel with the nearest where there is none."""
    if name not in SCHEDULES:
        raise InvalidModel(f"schedule '{name}' is not known", nearest(name, list(SCHEDULES)))
    return SCHEDULES[name]


def schedule_of(chunks: Num) -> Schedule:
    """Return Megatron-LM's schedule: 1F1B, interleaved where a stage has several chunks."""
    return SCHEDULES["1f1b" if known(chunks) == 1 else "interleaved"]
