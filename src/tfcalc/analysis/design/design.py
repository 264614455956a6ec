"""Shapes for a budget of parameters, FLOPs or memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tfcalc.analysis.common import check_arguments, check_plans, model_of
from tfcalc.analysis.design.amounts import BudgetedAmount, PolynomialAmount
from tfcalc.analysis.design.answer import Designed
from tfcalc.analysis.design.family import Constraints, ShapeFamily
from tfcalc.analysis.design.memory import MemoryAmount
from tfcalc.analysis.design.pretraining import Pretraining
from tfcalc.analysis.design.search import search
from tfcalc.answers.conventions_text import as_json
from tfcalc.answers.question import AskedNumber, Question
from tfcalc.core.measure import flops_of, params
from tfcalc.errors import UsageError, one_of
from tfcalc.model import asked_run, default_run
from tfcalc.units import parse_bytes, parse_count
from tfcalc.workload import Conventions
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.analysis.design.pretraining import Cluster
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.workload import Workload

OF = ("params", "flops", "memory")


def design(
    budget: int | str,
    of: str = "params",
    model: Model | str | None = None,
    constraints: Constraints | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    name: str = "",
    tokens: int | str | None = None,
    cluster: Cluster | None = None,
) -> Designed:
    """Find shapes of a family that come near a budget: layers, widths, heads and feed-forward sizes.

    Args:
        budget: how many parameters, FLOPs of the ``workload``, or bytes: a number, or ``"125M"``, ``"80GB"``. Of memory
            it is the most there is.
        of: what is budgeted: ``"params"``, ``"flops"`` or ``"memory"``.
        model: the family by a model's name, or a model, with what it has besides (vocabulary, kind, norms); by default
            the classic Transformer.
        constraints: see :class:`~tfcalc.Constraints`.
        workload: of FLOPs and memory, as in :func:`~tfcalc.flops` and :func:`~tfcalc.memory`.
        conventions: as there.
        training: of memory, as in :func:`~tfcalc.memory`.
        serving: of memory, as there.
        weights: of memory at rest, as there.
        name: the config's place, for the commands that build the shapes, where the model does not know it.
        tokens: of parameters: the tokens of a training of the best shape, whose FLOPs and loss are told.
        cluster: then the GPUs that it runs on, and their MFU.

    Returns:
        Designed: ``candidates``, best first: those within the tolerance, by how many rules of practice they break and
        then by distance; then the nearest of the others. Each was counted on its own tree. ``answer`` is the command
        that builds the best.

    Raises:
        InvalidModel: the model makes no sense.
        UsageError: the family's sizes cannot be varied, or a constraint makes no sense.

    >>> design("3B", model="llama-3-8b").candidates[0].sizes["n_layers"]
    44
    >>> from tfcalc import Transformer
    >>> found = design(124_439_808, model=Transformer(kind="decoder", vocab_size=50257, output_head="tied"))
    >>> found.candidates[0].sizes
    {'d_model': 768, 'n_heads': 12, 'n_kv_heads': 12, 'd_ff': 3072, 'head_dim': 64, 'n_layers': 12}
    """
    of = one_of("quantity", of, OF)
    base, by = Transformer() if model is None else model_of(model), conventions or Conventions()
    check_arguments(base, workload, conventions)
    check_plans(training, serving)
    if isinstance(budget, str):
        budget = parse_bytes(budget) if of == "memory" else parse_count(budget)
    tokens = parse_count(tokens) if isinstance(tokens, str) else tokens
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise UsageError(f"budget {budget!r} is not a whole number above 0", "give one")
    forward = asked_run(base, workload) if of == "flops" else default_run(base)
    base.check(forward)
    family = ShapeFamily(base, constraints or Constraints())
    amount: BudgetedAmount
    asked: Callable[[Model], AskedNumber]
    if of == "memory":
        amount = MemoryAmount(family, budget, workload, by, training, serving, weights)
        stated, asked = amount.stated(), amount.question
    else:
        measure = params if of == "params" else flops_of(forward.training, by.count == "all")
        amount = PolynomialAmount(family, forward, measure)
        stated = as_json(of, forward, by)
        asked = partial(_counted, of=of, run=forward, by=by)
    found = search(family, amount, budget, at_most=of == "memory")
    counted = PolynomialAmount(family, default_run(base), params)
    sizes = tuple(counted.of(each.model) for each in found.candidates)
    run = Pretraining(sizes[0], tokens, cluster) if tokens is not None and sizes else None
    return Designed(
        of=of,
        budget=budget,
        candidates=found.candidates,
        tried=found.tried,
        family=family,
        params=sizes,
        conventions=stated,
        asked=asked,
        name=name,
        run=run,
    )


def _counted(model: Model, of: str, run: Workload, by: Conventions) -> AskedNumber:
    """The parameters of a model, or its FLOPs on a workload."""
    if of == "params":
        return Question("params", model).number()
    return Question("flops", model, run, by).number()
