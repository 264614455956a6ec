"""What is trained of a model where not all of it is: adapters beside its linear maps (LoRA), all else frozen."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.dimensions import facet
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.printable import quoted
from tfcalc.training.adapters import Adapter, adapted, frozen_where

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training

TUNING = ("lora", "lora_targets", "dora", "freeze")
"""The fields of a plan of training that decide what is trained; all others are a matter of memory."""
OF_ADAPTERS: dict[str, object] = {
    "lora_targets": "all-linear",
    "dora": False,
    "lora_dtype": "auto",
    "lora_dropout": "",
    "base_weights": "",
}
"""Fields of a plan that say something of its adapters, and what they are where nothing is said."""
LETTER, BESIDE = "r", "r_A"
"""LoRA's rank in formulas; where r is another rank of the model (latent attention), that of A."""
RANK = "rank of the adapters (LoRA)"


class Tuning(NamedTuple):
    """A plan of what is trained, as it is asked of parameters and FLOPs; ``letter`` is the rank's in formulas."""

    plan: Training
    letter: str

    @property
    def symbolic(self) -> Training:
        """The same with a symbol for the rank."""
        return self.plan if self.plan.lora is None else self.plan.replaced(lora=symbol(self.letter))

    @property
    def values(self) -> dict[str, Num]:
        """What the letter stands for."""
        return {} if self.plan.lora is None else {self.letter: self.plan.lora}

    @property
    def legend(self) -> dict[str, str]:
        """What the letter means."""
        return dict.fromkeys(self.values, RANK)

    @property
    def heading(self) -> str:
        """``LoRA r=16 on q_proj, v_proj``."""
        plan = self.plan
        frozen = f"{plan.freeze.replace(',', ', ')} frozen" if plan.freeze else ""
        if plan.lora is None:
            return frozen
        everywhere = plan.lora_targets == OF_ADAPTERS["lora_targets"]
        names = "" if everywhere else f" on {', '.join(listed(plan.lora_targets))}"
        return f"{'DoRA' if plan.dora else 'LoRA'} r={plan.lora}{names}{frozen and f', {frozen}'}"

    @property
    def described(self) -> dict[str, object]:
        """As in the JSON's ``conventions``."""
        return {name: getattr(self.plan, name) for name in TUNING}


def tuning_of(model: Model, plan: Training | None, of: str) -> Tuning | None:
    """What of the model is trained; None where that is all of it.

    Raises UsageError for a field of the plan that changes nothing ``of`` what is asked for.
    """
    if plan is None:
        return None
    for item in fields(plan):
        value, known = getattr(plan, item.name), facet(item)
        if value != item.default and item.name not in TUNING and known is not None:
            raise UsageError(f"{known.flags[0]} {value} has no effect on {of}", "leave it out")
    check_adapters(plan)
    if plan.lora is None and not plan.freeze:
        return None
    return Tuning(plan, BESIDE if LETTER in model.values() else LETTER)


def tuned(tree: Component, plan: Training) -> Component:
    """The model's tree with adapters beside it, and with what is not trained frozen. Raises InvalidModel."""
    check_adapters(plan)
    if plan.lora is not None:
        tree = adapted(tree, Adapter(plan.lora, listed(plan.lora_targets), plan.dora))
    return frozen_where(tree, *listed(plan.freeze)) if plan.freeze else tree


def check_adapters(plan: Training) -> None:
    """Raise InvalidModel where something is said of adapters, and there are none."""
    if plan.lora is not None:
        return
    for what, name in (
        (f"frozen weights in {plan.base_weights}", "base_weights"),
        ("DoRA", "dora"),
        (f"LoRA's targets {plan.lora_targets!r:.60}", "lora_targets"),
        (f"--lora-dtype {plan.lora_dtype}", "lora_dtype"),
        (f"--lora-dropout {quoted(plan.lora_dropout)}", "lora_dropout"),
    ):
        if getattr(plan, name) != OF_ADAPTERS[name]:
            raise InvalidModel(f"{what} without LoRA", "add --lora 16")


def listed(names: str) -> tuple[str, ...]:
    """``q_proj, v_proj`` as two names."""
    return tuple(name.strip() for name in names.split(",") if name.strip())
