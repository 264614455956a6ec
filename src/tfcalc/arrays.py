"""Many sizes at once, as numpy arrays; the only place that imports numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.conventions import Conventions
from tfcalc.defaults import resolve_dtype
from tfcalc.questions.common import asked_run, run_tree
from tfcalc.questions.quantities import measure_of
from tfcalc.report import polynomial
from tfcalc.symbols import letters, values, with_symbols
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tfcalc.model import Model


def sweep(
    model: Model,
    of: str = "params",
    run: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    exact: bool = False,
    **sizes: ArrayLike,
) -> NDArray[Any]:
    """The quantity at every point of the given ``sizes``, which broadcast against each other as numpy's do.

    Sizes go by their field's name (``d_model``, ``n_layers``, ``seq_len``, …); those not given are the model's and the
    workload's, and sizes that follow from others (``d_ff = 4·d_model``) follow at every point. The tree is evaluated
    once, in symbols, and its closed form on the arrays. float64 holds whole numbers up to 2⁵³ and never wraps;
    ``exact`` computes with Python's ints instead, more slowly. Points are not checked: heads are taken to divide.

    Raises UsageError for a name that is no size of the model or the workload.

    >>> from tfcalc.families.transformer import Transformer
    >>> sweep(Transformer(), d_model=[512, 1024], n_layers=6).tolist()
    [44140544.0, 176361472.0]
    """
    import numpy as np

    run = asked_run(model, run)
    by_letter = letters(sizes, model, run)
    model, run = model.with_present(*sizes), run.with_present(*sizes)
    root = run_tree(with_symbols(model), with_symbols(run))
    by = conventions or Conventions()
    if of == "memory":
        by = resolve_dtype(model, by)
    closed = polynomial(root.total(measure_of(of, run, by)))
    arrays = np.broadcast_arrays(*(np.asarray(size, object if exact else np.float64) for size in sizes.values()))
    points = values(model, run) | {by_letter[name]: array for name, array in zip(sizes, arrays, strict=True)}
    shape = arrays[0].shape if arrays else ()
    return np.broadcast_to(closed.at(points), shape)
