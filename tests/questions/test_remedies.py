"""Which changes are listed: the smallest that fit, then pairs, then more, then the closest."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tfcalc.questions.changes import Change
from tfcalc.questions.remedies import LISTED, TOGETHER, Need, remedies

WHOLE = 1000
ZERO = tuple(Change(f"zero {stage}", plan={"zero": stage}) for stage in (1, 2, 3))


def change(name: str, *, transient: bool = False) -> Change:
    return Change(name, plan={name: 1}, transient=transient)


def taking_off(sizes: dict[str, int]) -> Need:
    """So many bytes less for each change, by the field that it changes."""
    return lambda asked: WHOLE - sum(sizes[name] * int(value) for name, value in asked.plan.items())


def names(groups: list[tuple[Change, ...]], sizes: dict[str, int], budget: int) -> list[str]:
    return [found.change.name for found in remedies(groups, taking_off(sizes), budget)]


GROUPS = [(change("kernel", transient=True),), (change("bits"),), ZERO]
SIZES = {"kernel": 100, "bits": 300, "zero": 200}


def test_singles_come_in_the_order_of_the_groups() -> None:
    assert names(GROUPS, SIZES, 900) == ["kernel", "bits", "zero 1"]
    assert names(GROUPS, SIZES, 700) == ["bits", "zero 2"]
    assert names(GROUPS, SIZES, 400) == ["zero 3"]


def test_pairs_come_where_no_single_change_is_enough() -> None:
    assert names(GROUPS, SIZES, 300) == ["kernel; zero 3", "bits; zero 3"]
    assert names(GROUPS[:2], SIZES, 650) == ["kernel; bits"]


def test_more_come_where_no_pair_is_enough() -> None:
    [found] = remedies(GROUPS, taking_off(SIZES), 0)
    assert {each.name for each in found.changes} == {"kernel", "bits", "zero 3"}
    assert found.total == 0


def test_else_the_closest_comes() -> None:
    [found] = remedies(GROUPS, taking_off(SIZES), -1)
    assert found.total == 0
    assert remedies([], taking_off({}), 10) == []


def test_what_does_not_go_with_the_rest_is_left_out() -> None:
    refused = [(change("broken"),), *GROUPS]

    def need(asked: Change) -> int | None:
        return None if "broken" in asked.plan else taking_off(SIZES)(asked)

    assert [found.change.name for found in remedies(refused, need, 900)] == ["kernel", "bits", "zero 1"]
    assert remedies(refused[:1], need, 900) == []


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans()), min_size=1, max_size=8), st.integers(-500, 999))
def test_what_is_listed_fits_and_nothing_smaller_was_passed_over(sizes: list[tuple[int, bool]], budget: int) -> None:
    groups = [(change(f"c{place}", transient=transient),) for place, (_, transient) in enumerate(sizes)]
    less = {f"c{place}": size for place, (size, _) in enumerate(sizes)}
    found = remedies(groups, taking_off(less), budget)
    fitting = [name for name, size in less.items() if WHOLE - size <= budget]
    pairs = [pair for pair in combinations(less, 2) if WHOLE - less[pair[0]] - less[pair[1]] <= budget]
    if fitting:
        assert [each.change.name for each in found] == fitting[:LISTED]
    elif pairs:
        smallest = sorted(pairs, key=lambda pair: (place_of(pair[1]), place_of(pair[0])))[:TOGETHER]
        assert [tuple(each.name for each in one.changes) for one in found] == smallest
    elif sum(less.values()) + budget >= WHOLE:
        [one] = found
        assert one.total <= budget
        assert len(one.changes) > 2
        assert all(one.total + less[each.name] > budget for each in one.changes), "none could be left out"
    else:
        assert [each.total for each in found] == [WHOLE - sum(less.values())]


def place_of(name: str) -> int:
    return int(name[1:])
