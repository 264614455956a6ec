"""Sizes that are varied: whose each is, and which field of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError, nearest
from tfcalc.model import spellings
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving, Training

if TYPE_CHECKING:
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.workload import Workload

MODEL, RUN, TRAINING, SERVING = "model", "workload", "training", "serving"


class Axis(NamedTuple):
    """A size that is swept: its ``name`` as the caller has it, whose ``field`` it is, and of ``what``."""

    name: str
    of: str
    field: str
    letter: str
    length: bool


def axes(names: Iterable[str], model: Model, workload: Workload, training: bool, serving: bool) -> list[Axis]:
    """Find the owner of each named size: the model, the workload, or a plan. Raises UsageError for any other name."""
    described = [(MODEL, model), (RUN, workload)]
    described += [(TRAINING, Training())] * training + [(SERVING, Serving())] * serving
    found = {}
    known: dict[str, Axis] = {}
    for of, one in reversed(described):
        fields = {size.symbol: (field, size) for field, size in one.dimensions().items()}
        for called, letter in spellings(one).items():
            field, size = fields[letter]
            own = called if called in one.also_called(field) else field  # which may stand for the layers of two stacks
            known[called] = Axis(called, of, own, letter, size.length)
    for name in names:
        axis = known.get(name) or _of_model(name, model)
        if axis is None:
            raise UsageError(f"symbol {name!r} is not known", nearest(name, known))
        found[name] = axis._replace(name=name)
    taken: dict[tuple[str, str], str] = {}
    of_several: dict[str, list[tuple[str, str]]] = {}
    for name, axis in found.items():
        places = model.places(axis.field) if axis.of == MODEL else []
        keys = [(MODEL, path) for path in places if path in model.dimensions()] or [(axis.of, axis.letter)]
        if len(keys) > 1:
            of_several[name] = keys
            continue
        before = taken.setdefault(keys[0], name)
        if before != name:
            raise UsageError(f"{before} and {name} are one size", "leave one of them out")
    for name, keys in of_several.items():
        if all(key in taken for key in keys):
            raise UsageError(
                f"{name} changes nothing beside {' and '.join(taken[key] for key in keys)}", "leave it out"
            )
    return list(found.values())


def _of_model(name: str, model: Model) -> Axis | None:
    """Find an axis that is no size by itself: layers of both stacks, or a field that is left out; None if neither."""
    try:
        places = model.places(name)
    except UsageError:
        return None
    read = [path for path in places if path in model.dimensions()]
    return Axis(name, MODEL, name, model.dimensions()[read[0]].symbol if read else name, False) if places else None


def placed(found: Iterable[Axis], of: str, sizes: Mapping[str, Num]) -> dict[str, Num]:
    """The sizes at a point that are fields ``of`` one of the four, by field."""
    return {axis.field: sizes[axis.name] for axis in found if axis.of == of}
