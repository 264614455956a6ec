"""A number opened up: each matrix with its shape, its formula, the sizes put in, and the sum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.approximate import approximately
from tfcalc.analysis.common import check_arguments, check_plans, model_of, subject
from tfcalc.analysis.itemized import Tree, laid_out, tree_of
from tfcalc.analysis.quantities import QUANTITIES, growth
from tfcalc.analysis.targets import TARGETS, find, find_term
from tfcalc.answers.concept import of_concept
from tfcalc.answers.conventions_text import as_text
from tfcalc.answers.question import Question, number_path
from tfcalc.core.component import RUN, STORED, Cost
from tfcalc.core.measure import Item, held, major, step_by_step, stored, trained, work
from tfcalc.core.measure import step_items as forward_steps
from tfcalc.defaults import resolve_dtype
from tfcalc.errors import UsageError, one_of
from tfcalc.report.concepts import concept_of
from tfcalc.report.explanation import Explanation
from tfcalc.report.number import Openable, open_answer
from tfcalc.report.paths import dotted
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report.derivation import Derivation

PARTS = frozenset(TARGETS) - {"moe"}
"""Parts of a model go before concepts; of experts people ask what they are for."""
COUNTS = {"params": STORED, "trainable": STORED, "flops": RUN, "memory": STORED, "time": RUN}
"""What can be opened, and which copies it counts."""


def explain(
    target: str,
    model: Model | Openable | str | None = None,
    of: str = "params",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    steps: bool = False,
    with_batch: bool = False,
    approx: bool = False,
) -> Explanation | Derivation:
    """Show how one number is computed: every matrix with its shape, formula, sizes and value, and the sum.

    Args:
        target: a part of the model: a name (``attention``, ``ffn``, ``layer``, ``complete``, …) or a path of the tree
            (``transformer.h.attn``). Of training or serving memory a term (``activations``, ``optimizer``, ``cache``),
            or a path inside one. Or a number, by its path in an answer's ``to_dict()``: ``flops_per_token``,
            ``memory.peak_bytes``; of another answer than params, flops, memory and overview ``models[1].total_params``.
            Or a concept (``KV cache``, ``6ND``, ``LoRA``), where nothing else is given but the model.
        model: as in :func:`~tfcalc.params`, or its name; by default the classic Transformer. Or the answer that has the
            number: what
            :func:`~tfcalc.compare`, :func:`~tfcalc.diff` and other questions return.
        of: ``params``, ``trainable``, ``flops``, ``memory`` (bytes), or ``time``: the growth of each step.
        workload: sequences, lengths in tokens and phase; by default one of the model's usual length.
        conventions: which operations are counted, and the number format of weights at rest.
        training: with ``of="memory"``, explain a training step; also where the workload trains.
        serving: with ``of="memory"``, explain serving.
        steps: of the FLOPs of a training step, one line for the forward product and for each gradient: X W, dX and dW.
        with_batch: of time, the growth of the whole batch rather than of one sequence.
        approx: of parameters, without biases and norms; ``exact`` is then the count with them.

    Returns:
        An explanation: ``lines`` with names, factors, formula and value each; ``formula`` and ``answer`` of their sum.
        Of a number that is no such sum a derivation: ``how`` it follows from its ``terms``, or a ``note`` who gave it.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the target or the quantity is not known, the target has none of it, or there is no such number.

    >>> [line.names for line in explain("attention", Transformer(d_model=768, n_heads=12)).lines]
    [('W_Q', 'W_K', 'W_V'), ('b_Q', 'b_K', 'b_V'), ('W_O',), ('b_O',)]
    >>> explain("flops_per_token", Transformer(d_model=768, n_heads=12)).substituted
    '115964116992 / 512'
    >>> explain("KV cache", "llama-3.1-8b").answer
    1073741824
    """
    if isinstance(model, Openable):
        return _of_answer(target, model)
    beside = (workload, conventions, training, serving, of) != (None, None, None, None, "params")
    concept = None if beside or steps or with_batch or approx or target in PARTS else concept_of(target)
    if concept is not None and number_path(target, of) is None:
        return of_concept(concept, model, explain_part)
    chosen = Transformer() if model is None else model_of(model)
    if (path := number_path(target, of)) is not None:
        check_arguments(chosen, workload, conventions)
        check_plans(training, serving)
        by = conventions or Conventions()
        name, keys = path
        return open_answer(Question(name, chosen, workload, by, training, serving).answer(keys), keys)
    plans: dict[str, Any] = {"training": training, "serving": serving}
    return explain_part(
        target, chosen, of, workload, conventions, **plans, steps=steps, with_batch=with_batch, approx=approx
    )


def explain_part(
    target: str,
    model: Model | None = None,
    of: str = "params",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    steps: bool = False,
    with_batch: bool = False,
    approx: bool = False,
) -> Explanation:
    """A part of a model, as :func:`explain` opens it; arguments and what is raised are the same."""
    tree = to_open(model, of, workload, conventions, training=training, serving=serving)
    if steps:
        if of != "flops" or not tree.run.training:
            raise UsageError(
                "steps are the products of a training step", "ask for the FLOPs of one: --of flops --train"
            )
        everything = (conventions or Conventions()).count == "all"
        tree = tree._replace(items=lambda cost: step_by_step(cost, everything=everything))
    if with_batch and of != "time":
        raise UsageError("with_batch has an effect on time only", "leave it out, or ask for time")
    if approx:
        if of != "params":
            raise UsageError(f"approx works for parameters only, not for {of}", "leave approx out, or ask for params")
        node, matrices = find(tree.node, target), opened(target, of, tree._replace(items=major))
        return approximately(matrices, node, tree.model)
    found = opened(target, of, tree)
    if of != "time":
        return found
    *notes, _ = found.notes
    stated = as_text(of, tree.run, conventions or Conventions(), with_batch=with_batch)
    found = replace(found, notes=(*notes, *stated), conventions=found.conventions | {"time": stated[-1]})
    return found.growing(
        lambda line: growth(line, with_batch=with_batch, bound_heads=False),
        lambda whole: growth(whole, with_batch=with_batch),
    )


def _of_answer(target: str, answer: Any) -> Explanation | Derivation:
    """Return the number at this path of an answer; the command may come in front of it."""
    return open_answer(answer, dotted(target).removeprefix(f"{answer.to_dict()['command']}.").split("."))


def to_open(
    model: Model | None,
    of: str,
    workload: Workload | None,
    conventions: Conventions | None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    general: bool = False,
) -> Tree:
    """Return the tree that :func:`explain` opens.

    ``general`` gives a letter of its own to each size that follows from others. Raises InvalidModel and
    UsageError as that does.
    """
    by = conventions or Conventions()
    one_of("quantity", of, COUNTS)
    model = Transformer() if model is None else model
    check_arguments(model, workload, conventions)
    check_plans(training, serving)
    if of == "memory" and (training or serving or (workload is not None and workload.training)):
        return terms_of(model, workload, by, training=training, serving=serving)
    asked = subject(model, workload, by, training, QUANTITIES[of], general=general)
    if of == "memory":
        by = resolve_dtype(model, by)

    def items(cost: Cost) -> list[Item]:
        if of == "flops":
            return work(cost, training=asked.run.training, everything=by.count == "all")
        if of == "memory":
            return held(cost, by.bits)
        if of == "time":
            return forward_steps(cost)
        return stored(cost) if of == "params" else trained(cost)

    return tree_of(asked, of, by, items)


def opened(target: str, of: str, tree: Tree) -> Explanation:
    """One part of it, line by line."""
    look = find_term if tree.of_terms else find
    return laid_out(target, of, tree, look(tree.node, target), look(tree.twin, target), COUNTS[of])


def terms_of(
    model: Model,
    workload: Workload | None,
    conventions: Conventions,
    *,
    training: Training | None,
    serving: Serving | None,
) -> Tree:
    """The terms of a training step, each whole, with what is temporary at its peak; or those of serving."""
    from tfcalc.answers.memory import memory_of  # it is loaded with the tape, which few questions need

    if training is not None:
        serving = None
    return memory_of(model, workload, conventions, training=training, serving=serving).terms()
