"""How many bytes it takes to hold, to train, or to serve a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.conventions import DTYPES, Definitions
from tfcalc.core.measure import held_bytes, weight_bytes
from tfcalc.core.traced import value_of
from tfcalc.questions.common import Subject, check_arguments, check_plans, subject
from tfcalc.questions.stated import NOT_COUNTED, for_programs, in_words
from tfcalc.report import Report, breakdown, exact
from tfcalc.symbols import legend

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
    dtype: str | None = None,
    weights: str | None = None,
    depth: int | None = None,
) -> Report:
    """The bytes of ``model``: at rest, or with a ``training`` plan at the peak of a step, or as it is ``serving``.

    At rest each weight is held at ``definitions.dtype`` or in the format ``weights``, a tied one once;
    buffers alike, but never below 16 bits.
    Nothing runs then, so there are no gradients, no activations and no cache. Served weights are in the plan's format,
    in the config's own, or in ``dtype``. Raises InvalidModel.

    >>> from tfcalc.families.transformer import Transformer
    >>> memory(Transformer()).answer
    176562176
    """
    check_arguments(model, run, definitions)
    check_plans(training, serving)
    definitions = definitions or Definitions()
    if training is not None or (run is not None and run.training):
        from tfcalc.held.plans import Training
        from tfcalc.questions.common import default_run
        from tfcalc.questions.training_report import training_memory

        run = (run or default_run(model)).replaced(phase="train")
        return training_memory(model, run, training or Training(), definitions, depth=depth)
    if serving is not None:
        from tfcalc.questions.common import default_run
        from tfcalc.questions.serving_report import serving_memory

        return serving_memory(model, run or default_run(model), serving, definitions, dtype=dtype, depth=depth)
    return at_rest(model, definitions, weights=weights, depth=depth)


def at_rest(model: Model, definitions: Definitions, *, weights: str | None = None, depth: int | None = None) -> Report:
    """The bytes of the weights and buffers of ``model``, in ``definitions.dtype`` or in a format of ``weights``.

    An empty format is that which the config states. Raises InvalidModel, and UsageError for a format that is not known.
    """
    asked = subject(model, None, definitions)
    if weights is not None:
        return _in_format(asked, weights, definitions, depth)
    bits = DTYPES[definitions.dtype]
    held = held_bytes(bits)
    root = asked.node.component
    entry = asked.entry(held, {"bytes": held}, depth)
    stored = exact(root.total(weight_bytes(bits)))
    return Report(
        command="memory",
        heading=asked.model.summary,
        title=f"bytes in {definitions.dtype}",
        unit="bytes",
        answer=entry.value,
        totals=_totals(entry.value, stored),
        model=asked.model.described(),
        conventions=for_programs("memory", asked.run, definitions),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=tuple(in_words("memory", asked.run, definitions)),
    )


def _in_format(asked: Subject, name: str, definitions: Definitions, depth: int | None) -> Report:
    """The same, each tensor as the format stores it, scales and what is not quantized among them."""
    from tfcalc.core.measure import bytes_held
    from tfcalc.held.formats.weights import hold
    from tfcalc.held.numbers import of_formulas, of_numbers
    from tfcalc.held.plans import Serving
    from tfcalc.questions.serving_memory import buffers_of, tree_for, weight_recipe
    from tfcalc.symbols import remembering

    recipe = weight_recipe(asked.model, Serving(weights=name), None)
    tree = remembering(asked.model).tree(remembering(asked.run))
    stored, buffers = hold(tree_for(recipe, asked.model, asked.run, tree), recipe), buffers_of(tree, recipe)
    both = stored._replace(parts=(*stored.parts, *([buffers] if buffers.own.held else [])))
    whole = breakdown(
        of_numbers(both).root(),
        of_formulas(both).root(),
        bytes_held,
        {"bytes": bytes_held},
        inside_blocks=depth is not None,
    )
    used = frozenset().union(*(part.formula.free_symbols for part in whole.walk()))
    weights = value_of(stored.total(bytes_held))
    kept = f"; what {recipe.format.name} does not quantize in {recipe.dtype}"
    return Report(
        command="memory",
        heading=asked.model.summary,
        title=f"bytes in {recipe.format.name}",
        unit="bytes",
        answer=whole.value,
        totals=_totals(whole.value, weights),
        model=asked.model.described(),
        conventions={
            "phase": "at rest: nothing runs",
            "weights": recipe.format.name,
            "unquantized": recipe.dtype,
            "units": definitions.units,
            "not_counted": NOT_COUNTED,
        },
        whole=whole,
        depth=depth,
        legend=legend(used, asked.model, asked.run),
        notes=(f"{recipe.format.source}{kept}", f"not counted: {NOT_COUNTED}"),
    )


def _totals(whole: int, weights: int) -> dict[str, int]:
    return {
        "total_bytes": whole,
        "weights_bytes": weights,
        "gradients_bytes": 0,
        "optimizer_bytes": 0,
        "activations_bytes": 0,
        "kv_cache_bytes": 0,
        "buffers_bytes": whole - weights,
        "temporary_bytes": 0,
    }
