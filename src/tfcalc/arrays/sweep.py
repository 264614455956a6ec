"""A quantity at many sizes at once: its closed form, on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import asked_run, check_arguments, run_tree
from tfcalc.analysis.quantities import QUANTITIES, measure_of
from tfcalc.conventions import Conventions
from tfcalc.defaults import resolve_dtype
from tfcalc.errors import Unavailable, UsageError, one_of
from tfcalc.report import polynomial
from tfcalc.symbols import letters, values, with_symbols
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tfcalc.footprint.plans import Training
    from tfcalc.model import Model


def sweep(
    model: Model,
    of: str = "params",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    exact: bool = False,
    **sizes: ArrayLike,
) -> NDArray[Any]:
    """Evaluate a quantity at many sizes at once.

    The tree is evaluated once, in symbols, and its closed form on the arrays. Points are not checked: heads are taken
    to divide the width. The memory of training is swept over batch sizes and lengths; at each of its points it equals
    that of :func:`~tfcalc.memory`.

    Args:
        model: as in :func:`~tfcalc.params`.
        of: ``params``, ``flops`` or ``memory`` (bytes of the model at rest, or at the peak of a training step).
        workload: phase, sequences and their lengths in tokens, where these are not swept.
        conventions: which operations are counted, and the number format of the weights.
        training: the plan of the training step whose memory is asked for; a workload of phase ``train`` alone is the
            same as an empty plan.
        exact: compute with Python's ints; by default in float64, which is exact up to 2⁵³ and never wraps.
        sizes: values of each swept field (``d_model``, ``n_layers``, ``seq_len``, …), which broadcast as numpy's arrays
            do. Sizes that follow from others (``d_ff = 4·d_model``) follow at every point.

    Returns:
        An array of the broadcast shape: parameters, FLOPs or bytes.

    Raises:
        InvalidModel: this is not a model.
        UsageError: a name is not a size of the model or the workload, or changes nothing of what is asked.

    >>> from tfcalc.families.transformer import Transformer
    >>> sweep(Transformer(), d_model=[512, 1024], n_layers=6).tolist()
    [44140544.0, 176361472.0]
    """
    try:
        import numpy as np
    except ImportError:
        raise Unavailable("numpy is not installed", "pip install 'tfcalc[sweep]'") from None

    check_arguments(model, workload, conventions)
    one_of("quantity", of, QUANTITIES)
    if of == "memory" and (training is not None or (workload is not None and workload.training)):
        from tfcalc.arrays.training import training_peaks

        step = asked_run(model, workload).replaced(phase="train")
        peaks = training_peaks(model, step, training, {name: np.asarray(size) for name, size in sizes.items()})
        return peaks.astype(object if exact else np.float64)
    _check_workload(of, workload, training)
    workload = asked_run(model, workload)
    by_letter = letters(sizes, model, workload)
    of_model = {size.symbol for size in model.dimensions().values()}
    model, workload = model.with_present(*sizes), workload.with_present(*sizes)
    root = run_tree(with_symbols(model), with_symbols(workload))
    by = conventions or Conventions()
    if of == "memory":
        by = resolve_dtype(model, by)
    closed = polynomial(root.total(measure_of(of, workload, by)))
    for name, letter in by_letter.items():
        if letter not in of_model and letter not in closed.free_symbols:
            raise UsageError(f"{name} has no effect on the {of} of this model", f"leave {name} out")
    arrays = np.broadcast_arrays(*(np.asarray(size, object if exact else np.float64) for size in sizes.values()))
    points = values(model, workload) | {by_letter[name]: array for name, array in zip(sizes, arrays, strict=True)}
    shape = arrays[0].shape if arrays else ()
    return np.broadcast_to(closed.at(points), shape)


def _check_workload(of: str, workload: Workload | None, training: Training | None) -> None:
    """Parameters, and the memory of a model at rest, know no workload; nothing but memory a plan of training."""
    if training is not None:
        raise UsageError(f"a plan of training changes nothing in a sweep of {of}", "leave it out, or sweep memory")
    if workload is not None and of in ("params", "memory"):
        raise UsageError(f"a workload changes nothing in a sweep of {of}", "leave the workload out, or sweep flops")
