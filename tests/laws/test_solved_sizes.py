"""What solve answers holds where all its options are typed: at the size that it names, and not at the next one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.laws.presets import ALL, ENDS, settings
from tfcalc.catalog import load
from tfcalc.cli.commands import command
from tfcalc.configs.published import HFModel
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.zoo.transformer import Transformer

SOUGHT = ("n_layers", "encoder_layers", "decoder_layers", "d_model", "d_ff", "vocab_size")


def sizes(model: HFModel | Transformer) -> dict[str, int]:
    """The sizes that options set, and that it has, by the options' names."""
    if isinstance(model, Transformer):
        return {"n_layers": 6, "encoder_layers": 6, "d_model": 512, "d_ff": 2048}
    found: dict[str, int] = {}
    for name in (*SOUGHT, "n_heads", "n_kv_heads"):
        try:
            read = [model.reading.sizes[path] for path in model.places(name) if path in model.reading.sizes]
        except UsageError:
            continue
        found |= {name: read[0]} if read else {}
    return found


def counted(name: str, **typed: object) -> int | None:
    """The parameters with these options; None where there is no such model."""
    try:
        found: Any = command("params").answer(settings("params", name, **typed))
    except InvalidModel:
        return None
    return int(found.answer)


def check_solved(name: str) -> None:
    """Solve for some sizes of a model beside others, and count at what is found and at the next size."""
    known, random = sizes(load(name)), Random(name)
    for sought in random.sample([each for each in SOUGHT if each in known], min(2, len(set(SOUGHT) & known.keys()))):
        others = sorted(known.keys() - {sought})
        typed: dict[str, object] = {
            each: known[each] * random.choice((1, 2, 3)) for each in random.sample(others, min(2, len(others)))
        }
        here = counted(name, **typed)
        if here is None:
            continue
        limit = here * random.choice((1, 2, 3)) + random.randrange(1000)
        called = {"n_layers": "layers"}.get(sought, sought)
        asked = settings("solve", name, condition=f"params <= {limit}", sought=called, **typed)
        counts = [counted(name, **typed, **{sought: known[sought] * times}) for times in (1, 2, 4)]
        if counts.count(counts[0]) > 1:  # of sizes that this model may have; where it has one alone, that is the answer
            with pytest.raises(UsageError, match="changes nothing"):
                command("solve").answer(asked)
            continue
        found: Any = command("solve").answer(asked)
        told = {row.sizes[called]: row.sides[0] for row in found.found.rows}
        assert told == {size: counted(name, **typed, **{sought: size}) for size in told}
        assert told[found.value] <= limit
        further = counted(name, **typed, **{sought: found.value + 1})
        assert further is None or further > limit


@pytest.mark.one_in(20)
@pytest.mark.parametrize("name", ALL)
def test_a_solved_size_holds_beside_the_options_that_are_typed(name: str) -> None:
    check_solved(name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ENDS))
def test_a_solved_size_of_each_family_holds_beside_the_options_that_are_typed(name: str) -> None:
    """A first and a last model of every family; of all others the test above tries some."""
    check_solved(name)
