"""Kernels that PyTorch launches for a model, and the bytes that each reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.common import model_of
from tfcalc.backends.cache import ModelCache
from tfcalc.backends.program import ModuleProgram
from tfcalc.backends.sdpa import chosen
from tfcalc.backends.transformers import Transformers
from tfcalc.configs.published import HFModel
from tfcalc.errors import InvalidModel
from tfcalc.model import own_run
from tfcalc.number_formats import COMPUTED, NUMBERS
from tfcalc.tape.interpreter import Kernel, Numerics
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model


def kernels(model: Model | str, workload: Workload | None = None, *, precision: str = "bf16") -> tuple[Kernel, ...]:
    """The kernels of a forward pass, a prefill or a decoded token in transformers' PyTorch code, in their order.

    Args:
        model: as in :func:`~tfcalc.params`.
        workload: ``phase``, sequences and their lengths in tokens; by default a forward pass of the usual one.
            Keys and values are written to a static cache where text is generated.
        precision: the number format of weights and activations: fp32, bf16, fp16.

    Returns:
        For each its name (as PyTorch's dispatcher has it), its module, and the bytes that it reads and writes.

    Raises:
        InvalidModel: a model that does not run as modules yet, sizes that are symbols, a backward pass, or another
            precision.

    >>> from tfcalc import load
    >>> decoded = kernels(load("llama-3-8b"), Workload(phase="decode", cached=8192))
    >>> sum(kernel.reads for kernel in decoded if kernel.name == "mm") > 15e9
    True
    """
    model = model_of(model)
    run = own_run(model, workload)
    model.check(run)
    module = model.module() if isinstance(model, HFModel) else None
    if module is None:
        raise InvalidModel(f"the kernels of {model.summary} are not known", "choose a model such as llama-3-8b")
    if run.training:
        raise InvalidModel("phase 'train' launches kernels that are not known", "use phase forward, prefill, decode")
    if precision not in COMPUTED:
        raise InvalidModel(f"precision {precision!r}", f"choose {', '.join(COMPUTED)}")
    if run.kernel == "auto":
        run = run.replaced(kernel=chosen(model, run, precision))
    program = ModuleProgram(module, run, Numerics(NUMBERS[precision].torch), Transformers())
    found: list[Kernel] = []
    with program.tape.without_gradients():
        if run.phase in ("prefill", "decode"):
            tokens = run.size("cached") if run.decoding else run.seq_len
            if not isinstance(tokens, int):
                raise InvalidModel(f"the size {tokens}", "kernels are known for numbers, not for symbols")
            program.cache = ModelCache(model.tree(run.replaced(phase="decode", cached=tokens)), "static", tokens)
            if run.decoding:
                program.cache.filled(program.trace, tokens - 1)
        program.trace.kernels = found
        program(model.tree(run))
    return tuple(found)
