"""How many bytes it takes to hold, to train, or to serve a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.conventions import DTYPES, Definitions
from tfcalc.core.measure import held_bytes, weight_bytes
from tfcalc.questions.common import subject
from tfcalc.questions.stated import for_programs, in_words
from tfcalc.report import Report, exact

if TYPE_CHECKING:
    from tfcalc.held.plans import Serving, Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def memory(
    model: Model,
    definitions: Definitions | None = None,
    *,
    run: Workload | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    depth: int | None = None,
) -> Report:
    """The bytes of ``model``: at rest, or with a ``training`` plan at the peak of a step, or as it is ``serving``.

    At rest each weight is held at ``definitions.dtype``, a tied one once; buffers alike, but never below 16 bits.
    Nothing runs then, so there are no gradients, no activations and no cache. Raises InvalidModel.

    >>> from tfcalc.families.transformer import Transformer
    >>> memory(Transformer()).answer
    176562176
    """
    definitions = definitions or Definitions()
    if training is not None or (run is not None and run.training):
        from tfcalc.held.plans import Training
        from tfcalc.questions.common import default_run
        from tfcalc.questions.training_report import training_memory

        run = (run or default_run(model)).replaced(phase="train")
        return training_memory(model, run, training or Training(), definitions, depth=depth)
    return at_rest(model, definitions, depth=depth)


def at_rest(model: Model, definitions: Definitions, *, depth: int | None = None) -> Report:
    """The bytes of the weights and buffers of ``model``. Raises InvalidModel."""
    asked = subject(model, None, definitions)
    bits = DTYPES[definitions.dtype]
    held = held_bytes(bits)
    root = asked.node.component
    entry = asked.entry(held, {"bytes": held}, depth)
    weights = exact(root.total(weight_bytes(bits)))
    return Report(
        command="memory",
        heading=asked.model.summary,
        title=f"bytes in {definitions.dtype}",
        unit="bytes",
        answer=entry.value,
        totals={
            "total_bytes": entry.value,
            "weights_bytes": weights,
            "gradients_bytes": 0,
            "optimizer_bytes": 0,
            "activations_bytes": 0,
            "kv_cache_bytes": 0,
            "buffers_bytes": entry.value - weights,
            "temporary_bytes": 0,
        },
        model=asked.model.described(),
        conventions=for_programs("memory", asked.run, definitions),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=tuple(in_words("memory", asked.run, definitions)),
    )
