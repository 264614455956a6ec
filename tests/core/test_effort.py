"""What is spent is counted from question to question, and each may spend so much by itself."""

import pytest

from tfcalc.core.traced import EFFORT, Spent, at_most
from tfcalc.errors import TfcalcError, UsageError


def spend(units: int) -> None:
    for _ in range(units):
        EFFORT.spend(1)


def test_what_may_be_spent_begins_anew_for_each_question() -> None:
    for _ in range(3):
        with at_most(10, "too much", "ask for less"):
            spend(10)


def test_beyond_it_the_question_is_refused() -> None:
    with pytest.raises(UsageError, match="too much; ask for less"), at_most(10, "too much", "ask for less"):
        spend(11)
    spend(1_000)  # nothing limits what follows


@pytest.mark.parametrize(("outer", "inner", "said"), [(10, 100, "outer"), (100, 10, "inner")])
def test_the_narrower_of_two_limits_is_the_one_that_speaks(outer: int, inner: int, said: str) -> None:
    with pytest.raises(UsageError, match=said), at_most(outer, "outer", ""), at_most(inner, "inner", ""):
        spend(50)


def test_no_handler_of_refusals_takes_it_for_one() -> None:
    """A search takes a refusal for the end of the sizes, and goes on."""
    assert not issubclass(Spent, TfcalcError)
