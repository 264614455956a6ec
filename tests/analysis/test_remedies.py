"""Which changes are listed: single ones that fit, those that people combine, all that help, or the closest."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tfcalc.search.remedies import LISTED, Change, Need, Options, Room, remedies

WHOLE = 1000
LETTERS = "abcdefghij"


def change(name: str, times: int = 1, *, reduces_request: bool = False) -> Change:
    return Change(f"{name}{times}", {name: times}, reduces_request=reduces_request)


def taking_off(sizes: dict[str, int]) -> Need:
    """So many bytes less for each change, by the field that it changes."""
    return lambda asked: (
        WHOLE - sum(sizes[name] * times for name, times in asked.values.items() if isinstance(times, int))
    )


def names(ways: Options, sizes: dict[str, int], budget: int, *combined: str, margin: int = 0) -> list[str]:
    room = Room(budget, margin)
    return [found.change.name for found in remedies(ways, combined, taking_off(sizes), room, lambda _: 0)]


WAYS = Options({"kernel": [change("kernel")], "bits": [change("bits")], "zero": [change("zero", n) for n in (1, 2, 3)]})
SIZES = {"kernel": 100, "bits": 300, "zero": 200}


def test_single_changes_come_in_their_order_by_the_least_degree() -> None:
    assert names(WAYS, SIZES, 900) == ["kernel1", "bits1", "zero1"]
    assert names(WAYS, SIZES, 700) == ["bits1", "zero2"]
    assert names(WAYS, SIZES, 400) == ["zero3"]


def test_those_that_people_combine_come_where_no_single_change_is_enough() -> None:
    assert names(WAYS, SIZES, 300, "kernel+zero", "zero+bits", "kernel+bits") == ["kernel1 + zero3", "zero2 + bits1"]
    assert names(WAYS, SIZES, 0, "kernel+zero", "zero+bits+kernel") == ["zero3 + bits1 + kernel1"]
    assert names(WAYS, SIZES, 300, "zero+unknown", "zero+bits") == ["zero2 + bits1"], "what there is not is left out"


def test_else_all_that_help_come_without_those_that_are_not_needed_and_as_little_of_each_as_will_do() -> None:
    assert names(WAYS, SIZES, 0) == ["kernel1 + bits1 + zero3"]
    assert names(WAYS, SIZES, 100) == ["bits1 + zero3"]
    assert names(WAYS, SIZES, 300) == ["bits1 + zero2"]


def test_where_nothing_is_enough_the_closest_comes() -> None:
    [found] = remedies(WAYS, (), taking_off(SIZES), Room(-1), lambda _: 0)
    assert found.total == 0
    assert remedies(Options({}), (), taking_off({}), Room(10), lambda _: 0) == []


def test_what_fits_tightly_comes_last_and_is_not_enough() -> None:
    """900 with 100 to stay free: 900 is tight, 800 is not."""
    ways = Options({"kernel": [change("kernel")], "zero": [change("zero", n) for n in (1, 2, 3)]})
    assert names(ways, SIZES, 900, margin=100) == ["zero1", "kernel1"]
    tight = Options({"kernel": [change("kernel")], "bits": [change("bits", 1)]})
    assert names(tight, {"kernel": 100, "bits": 100}, 900, "kernel+bits", margin=100) == [
        "kernel1 + bits1",
        "kernel1",
        "bits1",
    ]


def test_what_gives_less_than_was_asked_for_is_not_enough() -> None:
    ways = Options(
        {"bits": [change("bits")], "cache": [change("cache")], "length": [change("length", reduces_request=True)]}
    )
    sizes = {"bits": 100, "cache": 100, "length": 300}
    assert names(ways, sizes, 800, "bits+cache") == ["length1", "bits1 + cache1"]


def test_what_does_not_go_with_the_rest_is_left_out() -> None:
    ways = Options({"broken": [change("broken")], **WAYS.known})

    def need(asked: Change) -> int | None:
        return None if "broken" in asked.values else taking_off(SIZES)(asked)

    found = remedies(ways, ("broken+bits",), need, Room(900), lambda _: 0)
    assert [each.change.name for each in found] == ["kernel1", "bits1", "zero1"]
    assert remedies(Options({"broken": [change("broken")]}), (), need, Room(900), lambda _: 0) == []


def test_what_a_lower_bound_rules_out_is_not_counted() -> None:
    counted: list[str] = []

    def need(asked: Change) -> int | None:
        counted.append(asked.name)
        return taking_off(SIZES)(asked)

    def least(asked: Change) -> int | None:
        return WHOLE if "bits" in asked.values else 0

    assert [each.change.name for each in remedies(WAYS, (), need, Room(700), least)] == ["zero2"]
    assert "bits1" not in counted


def test_a_lower_bound_is_found_only_where_those_before_it_do_not_rule_a_change_out() -> None:
    looked_at: list[str] = []

    def sooner(asked: Change) -> int | None:
        return WHOLE if "bits" in asked.values else 0

    def later(asked: Change) -> int | None:
        looked_at.append(asked.name)
        return WHOLE if "kernel" in asked.values else 0

    found = remedies(WAYS, (), taking_off(SIZES), Room(900), sooner, later)
    assert [each.change.name for each in found] == ["zero1"]
    assert "kernel1" in looked_at
    assert "bits1" not in looked_at


def test_nothing_is_counted_that_would_not_be_listed() -> None:
    """The seventh change that leaves the margin free is not looked at; one that fits tightly makes way for it."""
    ways = Options({letter: [change(letter)] for letter in LETTERS[: LISTED + 2]})
    counted: list[str] = []

    def need(asked: Change) -> int | None:
        counted.append(asked.name)
        return WHOLE // 2 - (100 if "a" not in asked.values else 0)

    found = remedies(ways, (), need, Room(WHOLE // 2, 50))
    assert [each.change.name for each in found] == ["b1", "c1", "d1", "e1", "f1", "g1"]
    assert "h1" not in counted


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.integers(-500, 999), st.integers(0, 200))
def test_what_is_listed_fits_or_is_the_closest(sizes: list[int], budget: int, margin: int) -> None:
    less = dict(zip(LETTERS, sizes, strict=False))
    ways = Options({name: [change(name)] for name in less})
    pairs: Sequence[str] = [f"{one}+{other}" for one in less for other in less if one < other]
    found = remedies(ways, pairs, taking_off(less), Room(budget, margin), lambda _: 0)
    fitting = [name for name, size in less.items() if WHOLE - size <= budget]
    roomy = [name for name in fitting if WHOLE - less[name] <= budget - margin]
    shown = [each.change.name for each in found]
    if roomy:
        tight = [name for name in fitting if name not in roomy]
        assert shown == [f"{name}1" for name in (*roomy, *tight)][:LISTED]
    elif sum(less.values()) + budget >= WHOLE:
        assert found
        assert all(each.total <= budget for each in found)
    else:
        assert [each.total for each in found] == [WHOLE - sum(less.values())]
    for each in found:
        assert each.total == WHOLE - sum(less[name] for name in each.change.values)
