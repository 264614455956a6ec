"""How many bytes it takes to hold, to train, or to serve a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.common import Subject, check_arguments, check_plans, default_run, subject
from tfcalc.analysis.effects import refuse_idle
from tfcalc.analysis.stated import NOT_COUNTED, for_programs, in_words
from tfcalc.conventions import Conventions
from tfcalc.core.measure import held_bytes, weight_bytes
from tfcalc.core.traced import value_of
from tfcalc.defaults import AUTO, assumed_dtype, own_format, resolve_dtype
from tfcalc.errors import UsageError
from tfcalc.report import Footer, Report, exact
from tfcalc.symbols import legend

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def memory(
    model: Model,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    depth: int | None = None,
) -> Report:
    """The bytes of ``model``: at rest, or with a ``training`` plan at the peak of a step, or as it is ``serving``.

    Args:
        model: a :class:`~tfcalc.Transformer`, or what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return.
        workload: sequences and their lengths in tokens; by default one of 512 tokens. ``phase="train"`` is the same as
            an empty ``training`` plan.
        conventions: ``dtype`` of the weights at rest and in serving ("auto": the checkpoint's own; fp32 for the classic
            model), and the ``units`` of what is printed.
        training: number formats, optimizer, adapters, and over how many GPUs; see :class:`~tfcalc.Training`.
        serving: formats of weights and cache, context in tokens, requests at once; see :class:`~tfcalc.Serving`.
        weights: at rest, a format such as "nf4" or "Q4_K_M"; "" is the checkpoint's own.
        depth: levels of the breakdown; by default down to the layers.

    Returns:
        A report: ``answer`` is the number of bytes (the peak of a step, or of serving), ``totals`` the terms.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense, or its memory is not known.
        UsageError: a format or a quantity is not known, or something that was given has no effect.

    At rest nothing runs: no gradients, activations or cache. A tied weight is stored once, buffers in 16 bits or more.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> memory(Transformer()).answer
    176562176
    """
    conventions = Conventions() if conventions is None else conventions
    if step := step_of(model, workload, conventions, training, serving, weights):
        from tfcalc.analysis.training_report import training_memory

        return training_memory(model, *step, conventions, depth=depth)
    if serving is not None:
        from tfcalc.analysis.serving_report import serving_memory

        return serving_memory(model, workload or default_run(model), serving, conventions, depth=depth)
    if workload is not None:
        refuse_idle(workload, ("seq_len", "source_len"), "on a model at rest")
    return at_rest(model, conventions, weights=weights, depth=depth)


def step_of(
    model: Model,
    workload: Workload | None,
    conventions: Conventions,
    training: Training | None,
    serving: Serving | None,
    weights: str | None,
) -> tuple[Workload, Training] | None:
    """The step that is asked about, if one is. Raises as :func:`memory` for what cannot be asked, or has no effect."""
    check_arguments(model, workload, conventions)
    check_plans(training, serving)
    if training is None and not (workload is not None and workload.training):
        return None
    from tfcalc.footprint.plans import Training

    if serving is not None:
        raise UsageError("training and serving cannot be combined", "choose one")
    if conventions.dtype != AUTO:
        raise UsageError(f"--dtype {conventions.dtype} has no effect on training", "give --precision")
    if weights:
        raise UsageError(f"--weights {weights} has no effect on training", "give --precision")
    return (workload or default_run(model)).replaced(phase="train"), training or Training()


def at_rest(model: Model, conventions: Conventions, *, weights: str | None = None, depth: int | None = None) -> Report:
    """The bytes of the weights and buffers of ``model``, in ``conventions.dtype`` or in a format of ``weights``.

    An empty format is that which the config states. Raises InvalidModel, and UsageError for a format that is not known.
    """
    asked = subject(model, None, conventions)
    if weights and conventions.dtype != AUTO:
        fact = f"--dtype {conventions.dtype} and --weights {weights} both give the format"
        raise UsageError(fact, "leave one of them out")
    own = own_format(model) if conventions.dtype == AUTO else None
    if weights or (own and not own.format.plain):
        return _in_format(asked, weights or "", conventions, depth)
    chosen, conventions = conventions.dtype != AUTO, resolve_dtype(model, conventions)
    held = held_bytes(conventions.bits)
    root = asked.node.component
    entry = asked.entry(held, {"bytes": held}, depth)
    stored = exact(root.total(weight_bytes(conventions.bits)))
    return Report(
        command="memory",
        heading=asked.model.summary,
        title=f"of weights, in {conventions.dtype}",
        unit="bytes",
        answer=entry.value,
        totals=_totals(entry.value, stored),
        model=asked.model.described(),
        conventions=for_programs("memory", asked.run, conventions),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        footer=at_rest_footer(
            (
                f"{conventions.dtype}, {conventions.bits} bits per weight",
                *assumed_dtype(model, conventions.dtype),
            ),
            tuple(in_words("memory", asked.run, conventions)),
            chosen=chosen,
        ),
    )


def _in_format(asked: Subject, name: str, conventions: Conventions, depth: int | None) -> Report:
    """The same, each tensor as the format stores it, scales and what is not quantized among them."""
    from tfcalc.analysis.memory_breakdown import memory_breakdown
    from tfcalc.analysis.serving_memory import buffers_of, tree_for, weight_recipe
    from tfcalc.core.measure import bytes_held
    from tfcalc.footprint.formats.weights import hold
    from tfcalc.footprint.plans import Serving
    from tfcalc.symbols import remembering

    recipe = weight_recipe(asked.model, Serving(weights=name))
    tree = remembering(asked.model).tree(remembering(asked.run))
    stored, buffers = hold(tree_for(recipe, asked.model, asked.run, tree), recipe), buffers_of(tree, recipe)
    both = stored._replace(parts=(*stored.parts, *([buffers] if buffers.own.held else [])))
    whole, used = memory_breakdown(both, depth)
    weights = value_of(stored.total(bytes_held))
    kept = f"; unquantized tensors in {recipe.dtype}"
    return Report(
        command="memory",
        heading=asked.model.summary,
        title=f"of weights, in {recipe.format.name}",
        unit="bytes",
        answer=whole.value,
        totals=_totals(whole.value, weights),
        model=asked.model.described(),
        conventions={
            "phase": "at rest",
            "weights": recipe.format.name,
            "unquantized": recipe.dtype,
            "units": conventions.units,
            "not_counted": NOT_COUNTED,
        },
        whole=whole,
        depth=depth,
        legend=legend(used, asked.model, asked.run),
        footer=at_rest_footer(
            (f"tensors that {recipe.format.name} leaves unquantized in {recipe.dtype}",),
            (f"{recipe.format.source}{kept}", f"not counted: {NOT_COUNTED}"),
            chosen=bool(name),
        ),
    )


def at_rest_footer(assumes: tuple[str, ...], assumptions: tuple[str, ...], *, chosen: bool) -> Footer:
    """What stands below the memory of a model at rest; no training goes with a format that was ``chosen``."""
    return Footer(
        assumes,
        not_counted="gradients, optimizer, activations, KV cache, CUDA context",
        see_also=(*(() if chosen else ("--train",)), "--serve", "--gpu h100", "--assumptions"),
        assumptions=assumptions,
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
