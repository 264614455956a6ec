"""``verify --module``: a person's own class beside a part of tfcalc's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfcalc.answers.explain import explain_part
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.verify.module_answer import ModuleCheck, Pass, StepOfModule
from tfcalc.verify.module_parts import parameter, side_by_side
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.explanation import Explanation

COMPARED_IN_FLOPS = 3
"""Axes of an input that are sequences of vectors; token ids have one less."""
TOGGLES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("--no-attention-bias", {"attention_bias": False}),
    ("--no-ffn-bias", {"ffn_bias": False}),
    ("--no-attention-bias --no-ffn-bias", {"attention_bias": False, "ffn_bias": False}),
    ("--norm rmsnorm", {"norm": "rmsnorm"}),
    ("--norm none", {"norm": "none"}),
    ("--final-norm never", {"final_norm": "never"}),
    ("--final-norm never --no-attention-bias", {"final_norm": "never", "attention_bias": False}),
    ("--output-head tied", {"output_head": "tied"}),
    ("--output-bias", {"output_bias": True}),
    ("--output-head none", {"output_head": "none"}),
)
"""Structure that a class may have and the model lacks; each is tried where the counts differ."""


def compared(
    place: str, said: Mapping[str, Any], model: Model, target: str, called: str, of: str = "params"
) -> ModuleCheck:
    """Compare the process's answer about the class with the ``target`` of ``model``; with nothing where that is ``""``.

    ``called`` is what the verdict calls the target; ``of`` is what is asked for: params, flops or memory.

    Raises UsageError where the model has no such part.
    """
    parameters = tuple(parameter(one) for one in said["parameters"])
    notes = [
        f"{one.name} is {', '.join(one.roles[:-1])} and {one.roles[-1]} at once"
        for one in parameters
        if len(one.roles) > 1 and not one.stacked and one.roles[0] == "W_Q"
    ]
    rows: tuple[Any, ...] = ()
    path = ""
    if target:
        expected = explain_part(target, model)
        path = expected.path
        rows = side_by_side(expected.lines, parameters)
        notes += _would_agree(target, model, sum(one.params for one in parameters), expected)
    run = None
    if said["kind"] == "module":
        own = said["forward_flops"]
        flops, remarks = _flops(target, model, said["inputs"], own) if target else (None, [])
        notes += remarks
        run = Pass(
            tuple(said["inputs"]),
            tuple(said["outputs"]),
            own,
            said["backward_flops"],
            tuple(said["flops_by_module"]),
            flops,
            said["device"],
        )
    return ModuleCheck(
        place=place,
        name=said["class"],
        arguments=said["arguments"],
        parameters=parameters,
        buffers=tuple(said["buffers"]),
        torch=said.get("torch", ""),
        run=run,
        target=called,
        heading=f"{path} of {model.summary}" if target and path != target else model.summary if target else "",
        rows=rows,
        model=model.described(),
        notes=tuple(notes),
        of=of,
        step=StepOfModule(**said["step"]) if said.get("step") else None,
    )


def _would_agree(target: str, model: Model, total: int, expected: Explanation) -> list[str]:
    """The options of the classic model with which the count would be the same, if a few do it."""
    if expected.answer == total or not isinstance(model, Transformer):
        return []
    for option, changes in TOGGLES:
        try:
            if explain_part(target, model.replaced(**changes)).answer == total:
                return [f"The count agrees with {option}"]
        except (InvalidModel, UsageError):
            continue
    return []


def _flops(target: str, model: Model, inputs: Sequence[Mapping[str, Any]], own: int) -> tuple[int | None, list[str]]:
    """The FLOPs of the target on these inputs, where these are sequences of one length; and what to say of them."""
    shapes = {
        tuple(one["shape"][:2])
        for one in inputs
        if len(one["shape"]) == COMPARED_IN_FLOPS - (one["kind"] == "ids") and one["kind"] in ("float", "ids")
    }
    if len(shapes) != 1:
        return None, []
    ((first, second),) = shapes
    try:
        ours = _forward(target, model, first, second)
        if ours != own and _forward(target, model, second, first) == own:
            return own, [f"Its inputs are read as {first} tokens of {second} sequences (the length first)"]
    except (InvalidModel, UsageError):
        return None, []
    return ours, []


def _forward(target: str, model: Model, batch: int, length: int) -> int:
    return explain_part(target, model, "flops", Workload(batch_size=batch, seq_len=length)).answer
