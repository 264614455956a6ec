"""A served model at many points: arrays of prompts, answers, requests and layouts, by the formulas of one answer.

A run of the model with arrays in the place of sizes gives what each operation moves and multiplies at all points; what
follows from it (``timing/served.py``) is the same arithmetic for a number and for an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import model_of
from tfcalc.answers.serve_question import ENGINE, INPUT, OUTPUT, card_of
from tfcalc.arrays import WITHOUT_NUMPY
from tfcalc.errors import Unavailable, UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.timing.served import Load, ServedModel
from tfcalc.timing.serving import Sharing, engine_of

try:
    import numpy as np
except ModuleNotFoundError:
    raise Unavailable(*WITHOUT_NUMPY) from None

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model

    Floats = NDArray[np.float64]

LONGEST = 1 << 22
"""Tokens of a request at most, so that its FLOPs are 64-bit integers."""
MOST_POINTS = 10_000_000
"""Points at most: arrays of more take much memory."""
BLOCK = 1 << 17
"""Points that are evaluated together."""


class ServedPoints(NamedTuple):
    """Seconds, rates and room at each point, of one replica; nan where it does not fit, or nothing is estimated.

    Attributes:
        fits: whether weights and one request fit in what the engine leaves them.
        capacity: requests that run at once to their ends.
        floor_of_token, floor_of_first: seconds below which no token, and no first one, is.
        token, first: seconds of a token and of the first one, by the rates of the engine.
        rate: tokens per second that requests make which follow each other.
    """

    fits: NDArray[np.bool_]
    capacity: Floats
    floor_of_token: Floats
    floor_of_first: Floats
    token: Floats
    first: Floats
    rate: Floats


def serve_points(
    model: Model | str,
    gpu: str = "h100",
    prompt: ArrayLike = INPUT,
    answer: ArrayLike = OUTPUT,
    concurrency: ArrayLike = 1,
    *,
    tp: ArrayLike = 1,
    pp: ArrayLike = 1,
    dp: ArrayLike = 1,
    ep: ArrayLike = 1,
    plan: Serving | None = None,
    engine: str = ENGINE,
    static: bool = False,
) -> ServedPoints:
    """Find how fast a model is served at many points at once: some hundred thousand a second.

    All arrays, or numbers, are broadcast against each other; a point is what :func:`~tfcalc.serve` is asked once.

    Args:
        model: as in :func:`~tfcalc.params`.
        gpu: the GPU by its name.
        prompt: tokens of a prompt.
        answer: tokens of an answer.
        concurrency: requests at once.
        tp: GPUs that share each layer.
        pp: stages of the pipeline.
        dp: groups with requests of their own that share experts.
        ep: groups of GPUs that share the experts.
        plan: number formats of weights and cache; its other fields are not read.
        engine: the engine, with its version.
        static: one batch, read at once.

    Returns:
        ServedPoints: arrays of one length, that of all arrays broadcast and flattened.

    Raises:
        InvalidModel: a layout does not share the model, or it writes no text.
        UsageError: sizes below 1, or too large.

    >>> found = serve_points("llama-3-8b", "h100", 1000, 100, [1, 8, 64])
    >>> bool(np.all(found.floor_of_token < found.token)), bool(np.all(np.diff(found.rate) > 0))
    (True, True)
    """
    sizes = np.broadcast_arrays(*(np.asarray(each) for each in (prompt, answer, concurrency, tp, pp, dp, ep)))
    if any(each.dtype.kind not in "iu" for each in sizes):
        raise UsageError("a size is no whole number", "give arrays of integers")
    flat = [each.astype(np.int64).ravel() for each in sizes]
    count = flat[0].size
    if not count or count > MOST_POINTS:
        raise UsageError(f"{count:,} points", f"give 1 to {MOST_POINTS:,}")
    if min(int(each.min()) for each in flat) < 1:
        raise UsageError("a size below 1", "give sizes of 1 and more")
    if int((flat[0] + flat[1]).max()) > LONGEST:
        raise UsageError(f"requests of more than {LONGEST:,} tokens", "ask for them one by one: tfcalc.serve")
    asked, loaded, card = plan or Serving(), model_of(model), card_of(gpu)
    found = ServedPoints(np.zeros(count, dtype=bool), *(np.full(count, np.nan) for _ in ServedPoints._fields[1:]))
    layouts, place = np.unique(np.stack(flat[3:], axis=1), axis=0, return_inverse=True)
    for index, layout in enumerate(layouts):
        here = np.flatnonzero(place.ravel() == index)
        for start in range(0, here.size, BLOCK):
            block = here[start : start + BLOCK]
            load = Load(flat[0][block], flat[1][block], flat[2][block], static=static)
            served = ServedModel(
                loaded, Serving(weights=asked.weights, kv=asked.kv), Sharing(*map(int, layout)), card, load, engine
            )
            _fill(found, block, served, card, engine)
    return found


def _fill(found: ServedPoints, block: NDArray[Any], served: ServedModel, card: Accelerator, engine: str) -> None:
    """Write what is known of the points of a block, whose load has arrays."""
    at = served.load.concurrency
    fits = np.broadcast_to(served.serves, block.shape)
    found.fits[block] = fits

    def write(target: Floats, values: Any) -> None:
        target[block] = np.where(fits, values, np.nan)

    write(found.capacity, served.capacity)
    floors = served.floor_of_token(at).seconds, served.floor_of_prompt(at).seconds
    write(found.floor_of_token, floors[0])
    write(found.floor_of_first, floors[1])
    by = engine_of(engine, card)
    if by is None or served.reads_source or not served.machine.joins(served.talking):
        return
    token = np.maximum(served.parts(at, by).seconds, floors[0])
    write(found.token, token)
    write(found.first, np.maximum(served.first_token(at, by), floors[1]))
    first = np.maximum(served.first_of_running(at, by), floors[1])
    write(found.rate, served.rate(at, first, token, np.maximum(served.token_of_full(at, by), floors[0])))
