"""Loops over time, of which one turn stands for many."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor

State = tuple[Tensor, ...]


def loop(
    times: Num,
    turn: Callable[..., tuple[State, Tensor | None]],
    *state: Tensor,
    last: Callable[..., tuple[State, Tensor | None]] | None = None,
) -> list[Tensor]:
    """What the turns of a loop give; each makes of the ``state`` before it the next one, and mostly a result.

    The first turn runs, the last, and one for all between them: what backward needs of this one is counted as often as
    it stands for, as are the results; what is a turn's own is gone when the next begins. The first and the last run
    by themselves, for the one reads a state that needs no gradient, and the other makes one that nobody reads: what
    would be kept of that is forgotten, so that the ``last`` turn may leave it out.
    """
    given: list[Tensor] = []
    trace = state[0].trace
    many = value_of(times) > 3
    counts = (1, times - 2, 1) if many else (1,) * value_of(times)
    for place, count in enumerate(counts):
        run = last if last is not None and place == len(counts) - 1 else turn
        with trace.turns(count):
            state, made = run(*state)
        if made is not None:
            made.storage.repeat()
            given.append(made)
    return given


def written(made: Tensor, one: Tensor) -> Tensor:
    """``made``, one of whose places has been written to."""
    call = Call("copy_", (made, one), made.shape, made.dtype, shares=made.storage, strides=made.strides)
    return made.trace.call(call)
