"""Questions in the words of a call: a model by its name, and fields of the workload and of the plan as keywords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import TRAIN, check_plans, model_of, run_of
from tfcalc.dimensions import Described
from tfcalc.errors import UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving, Training
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

SERVE, RANK = "serve", 16
SHORT: Mapping[str, Mapping[str, Any]] = {
    "qlora": {"base_weights": "nf4-dq"},
    "fsdp": {"zero": "3", "layout": "fsdp2"},
}
"""Words that stand for fields of a training; the rank of ``qlora`` is LoRA's."""
OF_STEP = ("recompute", "recompute_modules", "early_stop")
"""Fields of a workload that only training has."""


class InWords(NamedTuple):
    """A model, and how it is run, trained or served."""

    model: Model
    workload: Workload | None
    training: Training | None
    serving: Serving | None


def in_words(
    model: Model | str,
    workload: Workload | int | None,
    training: Training | None,
    serving: Serving | None,
    words: Mapping[str, Any],
) -> InWords:
    """Return what is asked, with each word in its place: a length, a field of the workload, or one of the plan.

    Words of training alone ask about training, and so does ``train=True``; likewise of serving. Raises UsageError for
    a word that is not known, and for words of both.

    >>> in_words("gpt2", None, None, None, {"seq_len": 64, "lora": 8}).training.lora
    8
    """
    found = model_of(model)
    check_plans(training, serving)
    given = dict(words)
    trains, serves = bool(given.pop(TRAIN, False)), bool(given.pop(SERVE, False))
    for word, more in SHORT.items():
        if rank := given.pop(word, None):
            given |= {**more} | ({"lora": RANK if rank is True else rank} if word == "qlora" else {})
    of_run, of_training, of_serving = (_fields(kind) for kind in (Workload, Training, Serving))
    plan = {word: value for word, value in given.items() if word not in of_run}
    if unknown := [word for word in plan if word not in of_training | of_serving]:
        known = sorted({*of_run, *of_training, *of_serving, *SHORT, TRAIN, SERVE})
        raise UsageError(f"{unknown[0]} is no keyword of this question", nearest(unknown[0], known))
    alone = (of_training - of_serving) | {*OF_STEP}
    trains = trains or training is not None or not alone.isdisjoint(given)
    serves = serves or serving is not None or not (of_serving - of_training).isdisjoint(given)
    if trains and serves:
        raise UsageError("training and serving cannot be combined", "choose one")
    if plan and not (trains or serves):
        raise UsageError(f"{next(iter(plan))} is of training or of serving", "add train=True or serve=True")
    run = {word: value for word, value in given.items() if word in of_run}
    return InWords(
        found,
        run_of(found, workload, run | ({TRAIN: True} if trains else {})),
        (training or Training()).replaced(**plan) if trains else None,
        (serving or Serving()).replaced(**plan) if serves else None,
    )


def _fields(kind: type[Described]) -> set[str]:
    return {item.name for item in fields(kind)}
