"""The options of training and of serving, for the commands that ask about their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.cli.options import Option, of_fields
from tfcalc.errors import InvalidModel
from tfcalc.held.plans import Serving, Training
from tfcalc.questions.common import default_run

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.model import Model
    from tfcalc.workload import Workload

TRAINING = tuple(of_fields(Training))
SERVING = tuple(of_fields(Serving))
SERVE = Option("serve", ("--serve",), "serving: weights, cache, and what is live beside them", switch=True)
PLANS = (*TRAINING, SERVE, *SERVING)


def sound(model: Model) -> None:
    """Raise InvalidModel, marked as the model's own fault, where the model makes no sense whatever is asked of it."""
    try:
        run = default_run(model)
        model.check(run)
        model.tree(run)
    except InvalidModel as error:
        error.of_model = True
        raise


def memory_plans(settings: Settings, model: Model, run: Workload) -> dict[str, Any]:
    """The plan that was asked for, and the workload with its kernel; nothing of a model at rest."""
    if run.training or settings.get("serve"):
        sound(model)
    if run.training:
        plan = settings.fill(Training())
        return {"run": with_kernel(settings, model, run, plan), "training": plan}
    if settings.get("serve"):
        return {"run": with_kernel(settings, model, run, None), "serving": settings.fill(Serving())}
    return {}


def with_kernel(settings: Settings, model: Model, run: Workload, plan: Training | None) -> Workload:
    """The kernel that was asked for, or what PyTorch would choose."""
    if "kernel" in settings.given:
        return run
    if plan is None:
        return run.replaced(kernel="flash")
    from tfcalc.questions.kernels import chosen

    return run.replaced(kernel=chosen(model, run, plan))
