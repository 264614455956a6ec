"""Schedules of pipelines against a clock that plays their orders of operations, and against PyTorch's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import recorded
from tfcalc.core.polynomial import symbol
from tfcalc.errors import InvalidModel
from tfcalc.placed.layout import Layout
from tfcalc.placed.schedules import SCHEDULES, StageTimes, schedule
from tfcalc.training.megatron import chunks_in_flight

CALLED = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved",
    "InterleavedZeroBubble": "interleaved-zero-bubble",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipev",
}
"""torch.distributed.pipelining's names of the schedules, each after ``Schedule``."""

Operation = tuple[str, int, int]
"""F, I or W, of a chunk of the whole pipeline and a micro-batch; B is I and W in one."""


def test_they_are_as_long_as_pytorchs_own_tables_on_a_clock() -> None:
    """Among them the numbers of planning/live/bubble.txt: bubble and micro-batches in flight."""
    for row in recorded("planning/schedules.jsonl"):
        found = SCHEDULES[CALLED[row["schedule"]]]
        p, m, v = row["pp"], row["micro_batches"], row["chunks"]
        times = StageTimes(*(Fraction(row[name]) for name in ("forward", "input_gradient", "weight_gradient")))
        found.check(p, m, v)
        assert found.bubble(times, p, v).value == Fraction(row["bubble"]), row
        flying = [found.in_flight(stage, p, m, v).value for stage in range(p)]
        assert flying == [Fraction(each) for each in row["in_flight"]], row


def order(name: str, rank: int, p: int, m: int, v: int) -> Iterator[Operation]:
    """The operations of a rank as the schedule's paper has them: warm-up, one forward and one backward, cool-down."""
    turns = {
        "gpipe": m,
        "1f1b": p - rank - 1,
        "zb1p": p - rank - 1,
        "interleaved": 2 * (p - rank - 1) + (v - 1) * p,
        "interleaved-zero-bubble": p - rank - 1 + (v - 1) * p,
    }
    warm_up, late = min(turns[name], m * v), rank if "z" in name else None
    turns_of = [(turn // p % v, turn // (p * v) * p + turn % p) for turn in range(m * v)]  # p micro-batches at a time
    forward = [("F", chunk * p + rank, batch) for chunk, batch in turns_of]
    backward = [((v - 1 - chunk // p) * p + rank, batch) for _, chunk, batch in forward]
    yield from forward[:warm_up]
    for turn, (chunk, batch) in enumerate(backward):
        yield from forward[warm_up + turn : warm_up + turn + 1]
        yield ("B" if late is None else "I", chunk, batch)
        if late is not None and turn >= late:
            yield ("W", *backward[turn - late])
    if late:
        yield from (("W", *each) for each in backward[len(backward) - late :])


def played(name: str, times: StageTimes, p: int, m: int, v: int) -> tuple[Fraction, list[Fraction]]:
    """How long a stage is idle until all have ended, and the most that each holds, by playing all operations."""
    takes = {"F": times.forward, "I": times.input_gradient, "W": times.weight_gradient}
    takes["B"] = takes["I"] + takes["W"]
    left = [list(order(name, rank, p, m, v)) for rank in range(p)]
    clock, done = [Fraction(0)] * p, dict[Operation, Fraction]()
    most, here = [0] * p, [0] * p
    while any(left):
        moved = False
        for rank in range(p):
            while left[rank]:
                what, chunk, batch = left[rank][0]
                passed = "F" if what == "F" else "I"
                other = chunk - 1 if what == "F" else chunk + 1
                waits = [(passed, other, batch)] if what != "W" and 0 <= other < p * v else []
                waits += [("F", chunk, batch)] if what in "IB" else [("I", chunk, batch)] if what == "W" else []
                if any(each not in done for each in waits):
                    break
                clock[rank] = max([clock[rank], *(done[each] for each in waits)]) + Fraction(takes[what]) / v
                done["I" if what == "B" else what, chunk, batch] = clock[rank]
                here[rank] += {"F": 1, "B": -1, "W": -1, "I": 0}[what]
                most[rank] = max(most[rank], here[rank])
                left[rank].pop(0)
                moved = True
        assert moved, "a deadlock"
    return max(clock) - m * times.whole, [Fraction(each, v) for each in most]


numbers = st.fractions(Fraction(1, 8), 3, max_denominator=8)


@given(
    st.sampled_from(["gpipe", "1f1b", "zb1p", "interleaved", "interleaved-zero-bubble"]),
    st.builds(StageTimes, numbers, numbers, numbers),
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(2, 4),
)
def test_a_clock_says_so(name: str, times: StageTimes, p: int, rounds: int, v: int) -> None:
    found, m = SCHEDULES[name], rounds * p
    v = v if found.chunks is None else 1
    found.check(p, m, v)
    idle, most = played(name, times, p, m, v)
    assert idle == found.bubble(times, p, v).value
    assert most == [found.in_flight(stage, p, m, v).value for stage in range(p)]


def test_the_papers_tables() -> None:
    """DeepSeek-V3, table 2, with B = I + W: ZB1P (PP − 1)(F + B − 2W); DualPipe (PP/2 − 1)(F&B + B − 3W), PP + 1."""
    f, i, w, p = 5, 7, 4, 8
    both, b = f + i + w, i + w
    assert SCHEDULES["zb1p"].bubble(StageTimes(f, i, w), p).value == (p - 1) * (f + b - 2 * w)
    dual = SCHEDULES["dualpipe"]
    assert dual.bubble(StageTimes(f, i, w), p).value == Fraction(p - 2, 2) * (both + b - 3 * w)
    assert (dual.in_flight(3, p, 16).value, dual.copies) == (p + 1, 2)


def test_symbols_and_arrays_give_what_numbers_do() -> None:
    """A formula is one for all kinds of number."""
    values = {"F": 5, "I": 3, "W": 2, "p": 4}
    f, i, w, p = (symbol(letter) for letter in values)
    arrays = [np.array([value, value + 2]) for value in values.values()]
    sizes = sympy.symbols(" ".join(values), positive=True)
    for each in SCHEDULES.values():
        wanted = each.bubble(StageTimes(5, 3, 2), 4, 2).value
        closed = each.bubble(StageTimes(f, i, w), p, 2)
        assert Fraction(closed.top.at(values), closed.bottom) == wanted
        found = each.bubble(StageTimes(*arrays[:3]), arrays[3], 2).value
        assert (found[0], found[1]) == (wanted, each.bubble(StageTimes(7, 5, 4), 6, 2).value)
        by_sympy = each.bubble(StageTimes(*sizes[:3]), sizes[3], 2).value
        assert by_sympy.subs(dict(zip(sizes, values.values(), strict=True))) == wanted


def test_what_a_device_keeps_in_training_is_what_its_schedule_holds() -> None:
    for at in (Layout(pp=8, stage=3), Layout(pp=8, vpp=3, stage=2)):
        found = SCHEDULES["1f1b" if at.vpp == 1 else "interleaved"]
        assert chunks_in_flight(at) == found.chunks_saved(at.stage, at.pp, 1000, at.vpp)


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("interleaved", (4, 6, 2), "micro-batches 6 not divisible by pipeline 4; nearest: 4, 8"),
        ("interleaved", (4, 8, 1), "1 chunk a stage under interleaved; it has 2 or more"),
        ("zb-v", (4, 8, 3), "3 chunks a stage under zb-v; it has 2"),
        ("dualpipev", (4, 7, 2), "micro-batches of dualpipev 7; it is 8 or more"),
        ("dualpipe", (3, 8, 1), "pipeline 3 not divisible by directions 2"),
    ],
)
def test_an_order_that_there_is_not_is_refused(name: str, sizes: tuple[int, int, int], words: str) -> None:
    with pytest.raises(InvalidModel, match=words):
        schedule(name).check(*sizes)


def test_a_name_that_is_not_known_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidModel, match=r"schedule '1f2b' is not known.*1f1b"):
        schedule("1f2b")
