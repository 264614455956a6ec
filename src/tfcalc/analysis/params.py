"""How many parameters, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import Subject, subject
from tfcalc.analysis.stated import for_programs, in_words
from tfcalc.conventions import Conventions
from tfcalc.core.component import Component, Measure, Node
from tfcalc.core.measure import active_params, buffer_elements, frozen_params, major_params
from tfcalc.core.measure import params as parameters
from tfcalc.core.number import Num, total
from tfcalc.errors import UsageError
from tfcalc.report import Footer, Report, exact, head
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Training
    from tfcalc.model import Model


def params(
    model: Model,
    workload: Workload | None = None,
    *,
    depth: int | None = None,
    approx: bool = False,
    training: Training | None = None,
) -> Report:
    """Count the parameters of ``model``: how many, in which part, and by which formula.

    Args:
        model: a :class:`~tfcalc.Transformer`, or what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return.
        workload: decides what the parts of the JSON give as ``flops``; by default one sequence of 512 tokens.
        depth: levels of the breakdown; by default down to the layers.
        approx: also give the count without biases and norms (12h² per encoder layer).
        training: LoRA's adapters, or modules that are frozen: then the parameters that are trained are the answer.

    Returns:
        A report: ``answer`` is the number of trainable parameters, a tied matrix once; ``totals`` has the active ones
        (per token), the embeddings' and the frozen ones; ``whole`` the parts, each with its formula.

    Raises:
        InvalidModel: no model has these sizes.
        UsageError: a field of ``training`` that changes no parameters.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> params(Transformer()).answer
    44140544
    >>> import tfcalc
    >>> params(tfcalc.load("llama-2-7b"), training=tfcalc.Training(lora=16)).answer
    39976960
    """
    asked, by = subject(model, workload, training=training, of="parameters"), Conventions()
    if asked.tuning is not None:
        from tfcalc.analysis.trainable import trainable

        if approx:
            raise UsageError("--approx has no effect on trainable parameters", "leave it out")
        return trainable(asked, depth)
    root, totals = asked.node.component, _totals(asked)
    count, active = totals["total_params"], totals["active_params"]
    extras: dict[str, Measure] = {"active_params": active_params} if active != count else {}
    entry = asked.entry(parameters, extras | ({"approx_params": major_params} if approx else {}), depth)
    frozen, buffers = count - totals["trainable_params"], totals["buffer_elements"]
    notes = [
        *([f"Active per token: {active:,} ({active / count:.1%})"] if active != count else []),
        *([f"Frozen: {frozen:,}, stored as parameters but not trained"] if frozen else []),
        *([f"Buffers: {buffers:,} more numbers, stored but not parameters"] if buffers else []),
    ]
    sharing = list(_sharing(asked.node))
    if sharing:
        notes.append(sharing[0] if len(sharing) == 1 else f"{sharing[0]}; {len(sharing) - 1} more: --assumptions")
    assumed = asked.model.assumptions
    if approx:
        major = exact(root.total(major_params))
        totals["approx_params"] = major
        notes.insert(0, f"Without biases and norms: {major:,}, {(count - major) / count:.2%} off")
    return Report(
        command="params",
        heading=asked.model.summary,
        title="parameters",
        unit="params",
        answer=count,
        totals=totals,
        model=asked.model.described(),
        conventions=for_programs("params", asked.run, by),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=tuple(notes),
        footer=Footer(
            assumes=("transformers' defaults for missing fields (--assumptions)",) if assumed else (),
            see_also=("--formulas", *(["--depth 4"] if depth is None else []), "--json"),
            assumptions=(*in_words("params", asked.run, by), *sharing[1:], *assumed),
        ),
    )


def params_entries(model: Model, *, approx: bool = False, training: Training | None = None) -> Mapping[str, Any]:
    """The JSON object of :func:`params`, of which the numbers at the top do not wait for formulas."""
    from tfcalc.report.later import InTurn, Later  # for those who ask for few numbers of many models

    if approx or training is not None:
        return params(model, approx=approx, training=training).entries()
    asked = subject(model, None, of="parameters")
    first = head("params", asked.model.described(), for_programs("params", asked.run, Conventions()))
    return InTurn({**first, **_totals(asked)}, Later({}, lambda: params(model).entries()))


def _totals(asked: Subject) -> dict[str, int]:
    root = asked.node.component
    measures = (parameters, active_params, frozen_params, buffer_elements)
    count, active, frozen, buffers = (exact(root.total(measure)) for measure in measures)
    tables = exact(embedded(root))
    return {
        "total_params": count,
        "active_params": active,
        "embedding_params": tables,
        "non_embedding_params": count - tables,
        "trainable_params": count - frozen,
        "buffer_elements": buffers,
    }


def parameter_count(model: Model) -> int:
    """The number alone, without the formulas."""
    return exact(model.tree(Workload()).total(parameters))


def _sharing(root: Node) -> Iterator[str]:
    """What is stored once and used more than once, and what is stored but not always used."""
    for node in root.walk():
        component = node.component
        for weight in component.own.weights:
            if weight.tied_to is not None and not weight.minor:
                yield f"{node.path.partition('.')[2]} is tied to {weight.tied_to}: stored there"
        if component.passes != 1:
            yield f"{node.path.partition('.')[2]}: stored {component.copies} times, run {component.times.run} times"
        if component.active is not None:
            yield f"{node.path.partition('.')[2]}: {component.copies} stored, {component.active} active per token"


TABLES = ("embedding", "position")
"""Kinds of components that are tables of vectors."""


def embedded(component: Component, of: Measure = parameters) -> Num:
    """Parameters of the tables: of tokens, of their types, of positions."""
    own = component.copies * of(component.own) if component.kind in TABLES else 0
    return own + component.copies * total(embedded(part, of) for part in component.parts)
