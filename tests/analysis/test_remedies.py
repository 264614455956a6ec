"""Which changes are listed: the cheapest that fit, alone or with what they need, or those that come closest."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tfcalc.core.traced import EFFORT
from tfcalc.search.gpus import Room
from tfcalc.search.remedies import (
    COMPUTE,
    HARDWARE,
    LISTED,
    MOST_UNITS,
    NOTHING,
    QUALITY,
    REQUEST,
    TRANSFERS,
    Change,
    Need,
    Options,
    remedies,
)

WHOLE = 1000
LETTERS = "abcdefgh"


def change(name: str, times: int = 1) -> Change:
    return Change(f"{name}{times}", {name: times})


def taking_off(sizes: dict[str, int]) -> Need:
    """So many bytes less for each change, by the field that it changes."""
    return lambda asked: (
        WHOLE - sum(sizes[name] * times for name, times in asked.values.items() if isinstance(times, int))
    )


def names(ways: Options, sizes: dict[str, int], budget: int, margin: int = 0) -> list[str]:
    return [one.change.name for one in remedies(ways, taking_off(sizes), Room(budget, margin), lambda _: 0).found]


WAYS = Options(
    {
        "kernel": (NOTHING, [change("kernel")]),
        "again": (COMPUTE, [change("again")]),
        "bits": (QUALITY, [change("bits", n) for n in (1, 2)]),
        "gpus": (HARDWARE, [change("gpus", n) for n in (1, 2, 3)]),
    }
)
SIZES = {"kernel": 100, "again": 200, "bits": 200, "gpus": 200}


def test_single_changes_come_by_their_cost_and_by_the_least_degree() -> None:
    assert names(WAYS, SIZES, 900) == ["kernel1", "again1", "bits1", "gpus1"]
    assert names(WAYS, SIZES, 800) == ["again1", "bits1", "gpus1"]


def test_what_costs_no_quality_is_tried_together_before_quality_is_lost() -> None:
    """100 and 200 off together; 2 bits are 400 off."""
    assert names(WAYS, SIZES, 700) == ["kernel1 + again1", "bits2", "gpus2"]


def test_quality_is_lost_before_hardware_is_bought_and_only_with_what_it_needs() -> None:
    assert names(WAYS, SIZES, 500) == ["kernel1 + again1 + bits1", "gpus3"]
    assert names(WAYS, SIZES, 300) == ["kernel1 + again1 + bits2", "kernel1 + again1 + gpus2"]


def test_all_quality_is_lost_before_less_is_asked_for() -> None:
    """Bits and cache are 500 of 1,000 off together, and neither alone is enough; a shorter request is."""
    ways = Options(
        {
            "bits": (QUALITY, [change("bits")]),
            "cache": (QUALITY, [change("cache")]),
            "tokens": (REQUEST, [change("tokens")]),
        }
    )
    assert names(ways, {"bits": 300, "cache": 200, "tokens": 600}, 500) == ["bits1 + cache1", "tokens1"]
    assert names(ways, {"bits": 300, "cache": 100, "tokens": 600}, 500) == ["tokens1"]


def test_all_that_there_is_together_comes_where_nothing_less_is_enough() -> None:
    assert names(WAYS, {**SIZES, "gpus": 100}, 0) == ["kernel1 + again1 + bits2 + gpus3"]


def test_where_nothing_is_enough_the_closest_comes() -> None:
    found = remedies(WAYS, taking_off(SIZES), Room(-400), lambda _: 0)
    assert [(one.total, one.status) for one in found.found] == [(WHOLE - 100 - 200 - 400 - 600, "no")]
    assert found.furthest == ("kernel1", "again1", "bits2", "gpus3")
    assert found.tried >= 8
    assert remedies(Options({}), taking_off({}), Room(10), lambda _: 0).found == ()


def test_what_fits_tightly_comes_last_and_is_not_enough() -> None:
    """900 with 100 to stay free: 900 is tight, 800 is not."""
    assert names(WAYS, SIZES, 900, margin=100) == ["again1", "bits1", "gpus1", "kernel1"]


def test_less_than_was_asked_for_comes_last() -> None:
    ways = Options(
        {"length": (REQUEST, [change("length")]), "bits": (QUALITY, [change("bits")]), "kv": (QUALITY, [change("kv")])}
    )
    sizes = {"bits": 100, "kv": 100, "length": 300}
    assert names(ways, sizes, 900) == ["bits1", "kv1", "length1"]
    assert names(ways, sizes, 700) == ["length1"]
    assert names(ways, sizes, 500) == ["bits1 + kv1 + length1"]


def test_what_does_not_go_with_the_rest_is_left_out() -> None:
    ways = Options({"broken": (NOTHING, [change("broken")]), **WAYS.known})

    def need(asked: Change) -> int | None:
        return None if "broken" in asked.values else taking_off(SIZES)(asked)

    found = remedies(ways, need, Room(900), lambda _: 0).found
    assert [each.change.name for each in found] == ["kernel1", "again1", "bits1", "gpus1"]
    assert remedies(Options({"broken": (NOTHING, [change("broken")])}), need, Room(900), lambda _: 0).found == ()


def test_changes_that_exclude_each_other_are_both_tried() -> None:
    """Whichever of two comes first, the other may be what is needed."""
    ways = Options({name: (TRANSFERS, [change(name)]) for name in "abc"})

    def need(asked: Change) -> int | None:
        return None if {"a", "b"} <= asked.values.keys() else taking_off({"a": 100, "b": 400, "c": 300})(asked)

    assert [one.change.name for one in remedies(ways, need, Room(300)).found] == ["b1 + c1"]
    turned = Options({name: (TRANSFERS, [change(name)]) for name in "bac"})
    assert [one.change.name for one in remedies(turned, need, Room(300)).found] == ["b1 + c1"]


def test_an_allocator_that_finds_no_room_rules_a_change_out() -> None:
    def status(asked: Change) -> str:
        return "risky" if "again" in asked.values else "fits"

    found = remedies(WAYS, taking_off(SIZES), Room(900), status=status)
    assert [each.change.name for each in found.found] == ["kernel1", "bits1", "gpus1"]


def test_what_a_lower_bound_rules_out_is_not_counted() -> None:
    counted: list[str] = []

    def need(asked: Change) -> int | None:
        counted.append(asked.name)
        return taking_off(SIZES)(asked)

    def least(asked: Change) -> int | None:
        return WHOLE if "bits" in asked.values else 0

    assert [each.change.name for each in remedies(WAYS, need, Room(800), least).found] == ["again1", "gpus1"]
    assert not any("bits" in name for name in counted)


def test_a_lower_bound_is_found_only_where_those_before_it_do_not_rule_a_change_out() -> None:
    looked_at: list[str] = []

    def sooner(asked: Change) -> int | None:
        return WHOLE if "bits" in asked.values else 0

    def later(asked: Change) -> int | None:
        looked_at.append(asked.name)
        return WHOLE if "kernel" in asked.values else 0

    found = remedies(WAYS, taking_off(SIZES), Room(900), sooner, later).found
    assert [each.change.name for each in found] == ["again1", "gpus1"]
    assert "kernel1" in looked_at
    assert "bits1" not in looked_at


def test_of_many_degrees_none_is_tried_beyond_the_first_where_the_last_fits_tightly() -> None:
    """With 6 of them, 100 to 600 off: all that there is leaves less than the margin, as does the third."""
    counted: list[str] = []

    def need(asked: Change) -> int | None:
        counted.append(asked.name)
        return WHOLE - 100 * sum(times for times in asked.values.values() if isinstance(times, int))

    ways = Options({"gpus": (HARDWARE, [change("gpus", n) for n in range(1, 7)])})
    found = remedies(ways, need, Room(700, 400)).found
    assert [(one.change.name, one.status) for one in found] == [("gpus3", "tight")]
    assert counted == ["gpus6", "gpus1", "gpus2", "gpus3"]


COSTS = st.sampled_from((NOTHING, COMPUTE, TRANSFERS, QUALITY, HARDWARE, REQUEST))


@given(
    st.lists(st.tuples(COSTS, st.integers(0, 500), st.integers(1, 2)), min_size=1, max_size=6),
    st.integers(-500, 999),
    st.integers(0, 200),
)
def test_an_impossibility_is_what_a_search_over_everything_finds_too(
    groups: list[tuple[int, int, int]], budget: int, margin: int
) -> None:
    less = {name: size for name, (_, size, _) in zip(LETTERS, groups, strict=False)}
    ways = Options(
        {
            name: (cost, [change(name, times) for times in range(1, degrees + 1)])
            for name, (cost, _, degrees) in zip(LETTERS, groups, strict=False)
        }
    )
    need, room = taking_off(less), Room(budget, margin)
    found = remedies(ways, need, room).found
    every = product(*(range(degrees + 1) for _, _, degrees in groups))
    totals = [WHOLE - sum(size * times for size, times in zip(less.values(), chosen, strict=True)) for chosen in every]
    assert any(one.fits for one in found) == any(total <= budget for total in totals if total < WHOLE or budget < WHOLE)
    assert len(found) <= LISTED
    for one in found:
        assert one.total == need(one.change)
        assert one.fits == (one.total <= budget)
        assert one.tight == room.tight(one.total)
        if one.fits and len(one.changes) > 1:  # none of them is for nothing
            for left_out in one.changes:
                rest = {
                    name: times for each in one.changes if each is not left_out for name, times in each.values.items()
                }
                without = WHOLE - sum(less[name] * times for name, times in rest.items() if isinstance(times, int))
                assert without > (budget if one.tight else budget - margin)


def test_another_way_to_share_is_tried_where_nothing_fits_with_the_first() -> None:
    """FSDP has a root unit beside the layer that it gathers, which ZeRO-3 has not: 64 GPUs of 2 GB hold a 4B model."""
    known = {"bits": (QUALITY, [change("bits")]), "gpus": (HARDWARE, [change("gpus")])}
    ways = Options(known, instead={"gpus": [change("pieces")]})
    sizes = {"bits": 200, "gpus": 200, "pieces": 300}
    assert names(ways, sizes, WHOLE - 350) == ["bits1 + gpus1"]
    assert names(ways, sizes, WHOLE - 450) == ["bits1 + pieces1"]
    assert names(ways, sizes, WHOLE - 600) == ["bits1 + pieces1"]  # the closest


def test_a_search_that_takes_too_long_stops_and_says_so() -> None:
    def need(asked: Change) -> int:
        EFFORT.spend(MOST_UNITS // 2)
        return taking_off(SIZES)(asked) or 0

    found = remedies(WAYS, need, Room(WHOLE - 100), lambda _: 0)
    assert (found.ended, [one.change.name for one in found.found]) == (False, ["kernel1", "again1"])
    none = remedies(WAYS, need, Room(0), lambda _: 0)
    assert (none.ended, none.found) == (False, ())
    assert remedies(WAYS, taking_off(SIZES), Room(0), lambda _: 0).ended
