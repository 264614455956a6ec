"""Inference on the tape: what is live beside the parameters while a prompt is read, or one more token is made."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tfcalc.backends.cache import ModelCache
from tfcalc.backends.program import ModuleProgram, program
from tfcalc.backends.transformers import Transformers
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.memory_tracker import Found, MemoryTracker, PeakRecorder
from tfcalc.tape.moments import Envelope

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel
    from tfcalc.core.component import Component
    from tfcalc.core.polynomial import Polynomial
    from tfcalc.model import Model
    from tfcalc.workload import Workload

PHASES = ("prefill", "decode")


class InferencePeak(NamedTuple):
    """Bytes: the most that is live beside parameters, buffers and token ids; the cache after the step; the logits.

    ``cache`` are keys and values by themselves: their memory may be larger, as a window's is a view of the prompt's.
    """

    peak: int
    cache: int
    logits: int

    @property
    def activations(self) -> int:
        """Peak without the cache: activations, and the copies that make room for new tokens."""
        return self.peak - self.cache


def inference(
    model: HFModel,
    run: Workload,
    numerics: Numerics,
    cache: str = "dynamic",
    longest: int | None = None,
    tracker: MemoryTracker | None = None,
    tree: Component | None = None,
) -> InferencePeak:
    """One step of inference in transformers (torch.no_grad): of layers that repeat those at the ends.

    ``run`` reads a prompt (phase prefill, its logits for all or the last tokens) or makes one token (phase decode)
    behind a prompt of ``cached − 1`` tokens. ``cache`` is ``dynamic`` (it grows by a copy) or ``static`` (buffers for
    ``longest`` tokens, by default just for those of this step). Another ``tracker`` may look on, and every layer run
    for it. A ``tree`` with adapters may run in the place of the model's own.

    Raises InvalidModel for other phases, for sizes that are no numbers, and for models whose cache is not one of keys
    and values.
    """
    if run.phase not in PHASES:
        raise InvalidModel(f"phase {run.phase!r} with a cache", f"use phase {' or '.join(PHASES)}")
    tokens = _number(run.size("cached") if run.decoding else run.seq_len)
    decodes = model.tree(run.replaced(phase="decode", cached=tokens))
    program = ModuleProgram(model.module(), run, numerics, Transformers())
    program.trace.ends_alone = tracker is None
    program.cache = ModelCache(decodes, cache, longest or tokens)
    if tracker is not None:
        program.tape.tracker = tracker
    with program.tape.without_gradients():
        if run.decoding:
            program.cache.filled(program.trace, tokens - 1)
        program.tape.tracker.begin(run.phase)
        logits = program(model.tree(run) if tree is None else tree)
    size = program.cache.size
    return InferencePeak(program.tape.tracker.most.total, size, _number(logits.elements) * WIDTHS[logits.dtype])


def at_peak(
    model: HFModel, run: Workload, numerics: Numerics, cache: str = "dynamic", longest: int | None = None
) -> list[Found]:
    """Tensors that are live at the peak, in the order of allocation: ``cache``, and the rest by their operation."""
    recorder = PeakRecorder()
    inference(model, run, numerics, cache, longest, recorder)
    return recorder.passing(run.phase)


def _number(size: Num) -> int:
    if not isinstance(size, int):
        raise InvalidModel(f"the size {size}", "the peak is computed for numbers, not for symbols")
    return size


@lru_cache(maxsize=64)
def activations(model: HFModel, run: Workload, numerics: Numerics, cache: str) -> int:
    """The most bytes that are live beside the parameters and the cache in one step of inference, which is remembered.

    Whoever looks for the largest context or concurrency asks for many steps that are the same.
    """
    return inference(model, run, numerics, cache).activations


@lru_cache(maxsize=64)
def forward(model: Model, run: Workload, numerics: Numerics) -> int:
    """Peak bytes beside the parameters, in a forward pass without gradients and caches."""
    made = program(model, run, numerics, "auto", ends_alone=True)
    with made.tape.without_gradients():
        made(model.tree(run))
    return made.tape.tracker.most.total


def live_forms(model: Model, run: Workload, numerics: Numerics) -> list[Polynomial]:
    """Closed forms of all that may be the peak of a pass without gradients, in sizes that remember what they are."""
    made = program(model, run, numerics, "auto", ends_alone=True)
    bytes_live = Envelope()
    made.tape.tracker = bytes_live
    with made.tape.without_gradients():
        made(model.tree(run))
    return bytes_live.highest
