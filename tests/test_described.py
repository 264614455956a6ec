"""What is written once for all dataclasses of sizes does what dataclasses generates for each."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import pytest

from tfcalc.dimensions import Described, choice, described, dimension


@described()
class Sizes(Described):
    """Two."""

    width: int = dimension("w", "width", "--width", default=3)
    flat: bool = choice("whether it is flat", "--flat/--no-flat", default=True)


@described(kw_only=True)
class Named(Described):
    """One, by its name."""

    width: int | None = dimension("w", "width", "--width", follows="2")


@dataclass(frozen=True)
class Generated:
    width: int = 3
    flat: bool = True


@dataclass(frozen=True, kw_only=True)
class GeneratedNamed:
    width: int | None = None


PAIRS: list[tuple[Any, Any]] = [(Sizes, Generated), (Named, GeneratedNamed)]


@pytest.mark.parametrize(("ours", "generated"), PAIRS)
def test_the_signature_is_that_of_a_dataclass(ours: Any, generated: Any) -> None:
    assert str(inspect.signature(ours)) == str(inspect.signature(generated)).removesuffix(" -> None")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((7,), {}),
        ((7, False), {}),
        ((7,), {"flat": False}),
        ((), {"flat": False, "width": 7}),
        ((7, False, 1), {}),
        ((7,), {"width": 8}),
        ((), {"height": 1}),
    ],
)
@pytest.mark.parametrize(("ours", "generated"), PAIRS)
def test_it_is_made_of_the_same_values(
    ours: Any, generated: Any, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    try:
        wanted = vars(generated(*values, **named))
    except TypeError:
        with pytest.raises(TypeError, match=ours.__name__):
            ours(*values, **named)
    else:
        assert vars(ours(*values, **named)) == wanted


def test_it_can_be_copied_and_not_changed() -> None:
    sizes: Any = Sizes(7)
    assert replace(sizes, flat=False) == sizes.replaced(flat=False) == Sizes(7, False) != sizes
    assert pickle.loads(pickle.dumps(sizes)) == copy.copy(sizes) == copy.deepcopy(sizes) == sizes
    assert hash(Sizes(7)) == hash(sizes)
    with pytest.raises(FrozenInstanceError, match=r"width.*replaced"):
        sizes.width = 8
    with pytest.raises(FrozenInstanceError, match="width"):
        del sizes.width
    assert sizes == Sizes(7)
