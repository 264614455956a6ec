"""Sizes of a sweep: what each belongs to, and the points that their arrays make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfcalc.dimensions import check_size
from tfcalc.errors import UsageError, nearest
from tfcalc.plans import Serving, Training
from tfcalc.symbols import spellings

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.workload import Workload

MODEL, RUN, TRAINING, SERVING = "model", "workload", "training", "serving"
LARGEST_SWEEP = 10**7
"""Points of one sweep: their answers are a column of 80 MB, and so is each size."""


class Axis(NamedTuple):
    """A size that is swept: its ``name`` as the caller has it, whose ``field`` it is, and of ``what``."""

    name: str
    of: str
    field: str
    letter: str
    length: bool


def axes(names: Iterable[str], model: Model, workload: Workload, training: bool, serving: bool) -> list[Axis]:
    """Find each name among the sizes of the model, the workload or a plan. Raises UsageError for any other name."""
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
    """Sizes that no single field has: the layers of both stacks, or a field that is left out; else None."""
    try:
        places = model.places(name)
    except UsageError:
        return None
    read = [path for path in places if path in model.dimensions()]
    return Axis(name, MODEL, name, model.dimensions()[read[0]].symbol if read else name, False) if places else None


def broadcast(sizes: Mapping[str, ArrayLike]) -> tuple[dict[str, NDArray[Any]], tuple[int, ...]]:
    """The points of these sizes, which broadcast as numpy's arrays do: flat arrays of ints, and their shape.

    Raises UsageError for what are no whole numbers from 1 on, for shapes that do not fit, for no or too many points.
    """
    arrays = {name: _whole(name, np.asarray(size)) for name, size in sizes.items()}
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise UsageError(f"arrays of these shapes make no points: {shapes}", "give shapes that broadcast") from None
    count = 1
    for length in shape:
        count *= length
    if count > LARGEST_SWEEP:
        raise UsageError(f"{count:,} points are too many", f"sweep at most {LARGEST_SWEEP:,} at once")
    return {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}, shape


def _whole(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.size == 0:
        raise UsageError(f"{name} has no values", "give at least one")
    if array.dtype.kind not in "iu":
        raise UsageError(f"values of {name} are not whole numbers", "give an array of ints")
    for extreme in (int(array.min()), int(array.max())):
        try:
            check_size(name, extreme)
        except ValueError as error:
            raise UsageError(*error.args) from None
    return array.astype(np.int64, copy=False)


def placed(found: Iterable[Axis], of: str, sizes: Mapping[str, Num]) -> dict[str, Num]:
    """Sizes at a point that belong to the model, the workload or a plan (``of``), by field."""
    return {axis.field: sizes[axis.name] for axis in found if axis.of == of}
