"""The peak of a training step at many batch sizes and lengths at once: one run for all that run alike."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import check_plans
from tfcalc.analysis.effects import TRAINING, refuse_idle, refuse_idle_source
from tfcalc.analysis.training_memory import live_bytes
from tfcalc.core.guarded import Guards, guarded
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError
from tfcalc.footprint.plans import Training
from tfcalc.symbols import letters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfcalc.model import Model
    from tfcalc.workload import Workload

    Array = NDArray[Any]
    """Of 64-bit integers, or of Python's own where these are too narrow."""

AT_ONCE = 1 << 14
"""Points, so that all forms at them fit into a processor's cache."""
MOST = (1 << 63) - 1
"""What a 64-bit integer holds; beyond it Python's own are used."""


def training_peaks(model: Model, workload: Workload, plan: Training | None, sizes: Mapping[str, Array]) -> Array:
    """The bytes of the peak wherever the workload has these ``sizes``, which are given by name or letter.

    A step is run at the first point with sizes that remember what was decided by them. What is live at each moment is
    a closed form in them, which holds wherever all would be decided in the same way; the peak is the highest of these
    forms. The first point where it does not hold is the next to be run.

    Raises InvalidModel as a single answer does, UsageError for a size of something else.
    """
    import numpy as np

    fields = _fields(model, workload, sizes)
    _check(model, workload, plan, fields)
    arrays = np.broadcast_arrays(*fields.values())
    shape = arrays[0].shape if arrays else ()
    points = {name: array.ravel() for name, array in zip(fields, arrays, strict=True)}
    found, left = np.zeros(prod(shape), np.int64), np.arange(prod(shape))
    while left.size:
        here, guards = {name: array[left] for name, array in points.items()}, Guards()
        first: dict[str, Num] = {name: guarded(name, int(array[0]), guards) for name, array in here.items()}
        forms = live_bytes(model, workload.replaced(**first), plan or Training())
        alike = np.broadcast_to(guards.hold(here), left.shape)
        peaks = _highest(forms, {name: array[alike] for name, array in here.items()}, int(alike.sum()))
        found = found.astype(np.result_type(found, peaks), copy=False)
        found[left[alike]] = peaks
        left = left[~alike]
    return found.reshape(shape)


def _fields(model: Model, workload: Workload, sizes: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays by the names of the workload's fields."""
    symbols = {size.symbol: name for name, size in workload.dimensions().items()}
    found = {}
    for name, letter in letters(sizes, model, workload).items():
        if letter not in symbols:
            raise UsageError(
                f"{name} is a size of the model, at which training memory is not swept",
                "sweep batch_size and seq_len, or call tfcalc.memory(model, training=…) for each model",
            )
        found[symbols[letter]] = sizes[name]
    return found


def _check(model: Model, workload: Workload, plan: Training | None, fields: Mapping[str, Array]) -> None:
    """Raise where a single answer at one of the points would be refused."""
    for name, array in fields.items():
        if array.size and array.dtype.kind not in "iu":
            raise UsageError(f"values of {name} are not whole numbers", "give an array of ints")
    for pick in ("min", "max"):
        at = workload.replaced(**{name: int(getattr(array, pick)()) for name, array in fields.items() if array.size})
        model.check(at)
        refuse_idle(at, TRAINING, "on the memory of training")
        refuse_idle_source(model, at)
    check_plans(plan, None)


def _highest(forms: list[Polynomial], points: Mapping[str, Array], count: int) -> Array:
    """The most of these forms at each point, which are so many that each power is computed once."""
    import numpy as np

    largest = {letter: int(array.max()) for letter, array in points.items()}
    dtype = np.int64 if max(form.at(largest) for form in forms) <= MOST else object
    exact = {letter: array.astype(dtype) for letter, array in points.items()}
    powers = list({each for form in forms for each in form.terms})
    factors = np.array([[form.terms.get(each, 0) for each in powers] for form in forms], dtype)
    values = [np.broadcast_to(np.asarray(Polynomial({each: 1}).at(exact), dtype), count) for each in powers]
    parts = (slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE))
    return np.concatenate([(factors @ np.stack([value[part] for value in values])).max(axis=0) for part in parts])
