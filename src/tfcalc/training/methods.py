"""Methods of training beside that on the next token: what each asks of a plan, and how it reads the tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import lcm
from typing import TYPE_CHECKING

from tfcalc.backends import WITH_METHODS, backend
from tfcalc.backends.log_probs import Scoring
from tfcalc.core.traced import value_of
from tfcalc.dimensions import check_sizes, facet
from tfcalc.errors import InvalidModel
from tfcalc.plans import COLOCATE, DPO, GRPO, NO_ENGINE, PPO, SFT, training_preset
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.plans import Training
    from tfcalc.workload import Workload

EFFECTIVE: Mapping[str, tuple[str, ...]] = {
    "beta": (GRPO,),
    "precompute_ref_log_probs": (DPO,),
    "num_generations": (GRPO,),
    "max_prompt_length": (GRPO, PPO),
    "max_completion_length": (DPO, GRPO, PPO),
    "vllm_mode": (GRPO,),
    "vllm_gpu_memory_utilization": (GRPO,),
    "sleep": (GRPO,),
}
"""The methods on whose memory a field of the plan has an effect."""
OF_METHODS = ("method", *EFFECTIVE, "card_memory")
"""The fields of a plan by methods other than training on the next token."""
OF_ENGINE = ("vllm_gpu_memory_utilization", "sleep")
WRITES = (GRPO, PPO)
"""Methods that train on the model's own completions."""
GENERATIONS, PROMPT, COMPLETION, UTILIZATION = 8, 512, 256, "0.3"
"""TRL's defaults of ``num_generations``, ``max_prompt_length``, ``max_completion_length`` and
``vllm_gpu_memory_utilization``."""
LOSSES = ("auto", "logits")
"""Words of ``--loss`` for log-probabilities: in tiles, as in TRL 1.16, or of all logits, as in TRL 1.8."""


def with_method(plan: Training) -> Training:
    """The plan with its method's own defaults. Raises InvalidModel for what has no effect on it."""
    check_method(plan)
    if plan.beside:
        raise InvalidModel(f"beside {quoted(plan.beside)} is no plan by itself", "leave it out")
    if plan.method not in WRITES:
        return plan
    own: dict[str, object] = {
        "max_prompt_length": plan.max_prompt_length or PROMPT,
        "max_completion_length": plan.max_completion_length or COMPLETION,
    }
    if plan.method == GRPO:
        own["num_generations"] = plan.num_generations or GENERATIONS
        own["beta"] = plan.beta or "0"
    if plan.vllm_mode == COLOCATE and plan.card_memory:
        own["vllm_gpu_memory_utilization"] = plan.vllm_gpu_memory_utilization or UTILIZATION
    return plan.replaced(**own)


def step_run(run: Workload, plan: Training) -> Workload:
    """The workload of a training step, of a plan with its method's defaults.

    That of DPO reads a chosen and a rejected text for each pair, and drops nothing (TRL's ``disable_dropout``).
    """
    if plan.method == DPO:
        return run.replaced(batch_size=2 * run.batch_size, dropout=False)
    if plan.method in WRITES:
        return run.replaced(seq_len=plan.size("max_prompt_length") + plan.size("max_completion_length"))
    return run


def writes(plan: Training) -> bool:
    """Return whether it trains on the model's own completions."""
    return plan.method in WRITES


def scoring_of(plan: Training) -> Scoring | None:
    """Return how a training step scores tokens; None where its loss is that of the next token."""
    if plan.method == SFT:
        return None
    return Scoring(
        plan.max_completion_length,
        pairs=plan.method == DPO,
        in_tiles=plan.loss == "auto" and plan.method != PPO,
        values=bool(plan.beside),
        keeps=plan.method == PPO and not plan.beside,
        diverges=has_reference(plan) and plan.method == GRPO,
        corrected=plan.vllm_mode != NO_ENGINE,
    )


def has_reference(plan: Training) -> bool:
    """Return whether log-probabilities of a reference model are made in the run: a copy's, or without adapters."""
    if plan.method == GRPO:
        return number(plan.beta or "0", "--beta") != 0
    return plan.method == PPO or (plan.method == DPO and not plan.precompute_ref_log_probs)


def copies_reference(plan: Training) -> bool:
    """Return whether the reference model has weights of its own: not where it is the model without its adapters."""
    return has_reference(plan) and plan.lora is None


def scores_again(run: Workload, plan: Training) -> bool:
    """Return whether the model scores its completions before it is trained on them (GRPO).

    It does where an engine has written them, whose numbers differ, and where they last for several optimizer steps.
    """
    return plan.method == GRPO and (plan.vllm_mode != NO_ENGINE or rounds(run, plan) > 1)


def rounds(run: Workload, plan: Training) -> int:
    """Return for how many optimizer steps completions are written at once: the fewest that make whole groups (GRPO).

    TRL's ``generation_batch_size`` has to be a multiple of ``num_generations``.
    """
    if plan.method != GRPO:
        return 1
    at_once = value_of(run.batch_size * plan.grad_accum * plan.data_parallel)
    return lcm(at_once, value_of(plan.size("num_generations"))) // at_once


def written(run: Workload, plan: Training) -> int:
    """Return how many completions one GPU writes at once."""
    return value_of(run.batch_size * plan.grad_accum) * rounds(run, plan)


def number(text: str, flag: str) -> float:
    """A number that was given as text. Raises InvalidModel."""
    try:
        found = float(text)
    except ValueError:
        raise InvalidModel(f"{flag} {quoted(text)} is no number", "write 0.04") from None
    if not 0 <= found < float("inf"):
        raise InvalidModel(f"{flag} {quoted(text)} is not from 0 up", "write 0.04")
    return found


def check_method(plan: Training) -> None:
    """Raise InvalidModel for what has no effect on the method of training, or is not known to go with it."""
    check_sizes(plan)
    known = {item.name: item for item in fields(plan)}
    for name, methods in EFFECTIVE.items():
        given, shown = getattr(plan, name), facet(known[name])
        if given != known[name].default and plan.method not in methods and shown is not None:
            remedy = "leave it out" if plan.method != SFT else f"add --method {' or '.join(methods)}"
            raise InvalidModel(f"{_words(shown.flags[0], given)} has no effect with --method {plan.method}", remedy)
        if given != known[name].default and name in OF_ENGINE and plan.vllm_mode != COLOCATE and shown is not None:
            fact = f"{_words(shown.flags[0], given)} has no effect with --vllm-mode {plan.vllm_mode}"
            raise InvalidModel(fact, f"add --vllm-mode {COLOCATE}, or leave it out")
    if plan.method == SFT:
        return
    if plan.vllm_gpu_memory_utilization:
        share = number(plan.vllm_gpu_memory_utilization, "--vllm-gpu-memory-utilization")
        if not 0 < share <= 1:
            raise InvalidModel(f"--vllm-gpu-memory-utilization {share:g} is not from 0 to 1", "TRL's default is 0.3")
        if not plan.card_memory:
            said = f"--vllm-gpu-memory-utilization {share:g} is a fraction of a GPU's memory"
            raise InvalidModel(said, "add --gpu h100, or leave it out")
    if plan.method == DPO and plan.loss == "logits" and plan.max_completion_length is not None:
        said = f"--max-completion-length {plan.max_completion_length} has no effect with --loss logits"
        raise InvalidModel(said, "leave one of them out")
    if plan.method == GRPO:
        number(plan.beta or "0", "--beta")
        if plan.num_generations == 1:
            raise InvalidModel("--num-generations 1 leaves no others to compare it with", "give at least 2")
    _check_beside(plan)


def _check_beside(plan: Training) -> None:
    """Raise InvalidModel where the rest of the plan is not known to go with the method."""
    asked = {
        f"--backend {plan.backend}": WITH_METHODS not in backend(plan.backend).compared,
        f"--loss {plan.loss}": plan.loss not in LOSSES or (plan.method == PPO and plan.loss != "auto"),
        f"--zero {plan.zero}": plan.method == PPO and plan.zero == "3",
        "--compile": plan.compile,
        f"--loop {plan.loop}": plan.loop != "trainer",
        f"--layout {plan.layout}": plan.layout.startswith("fsdp"),
        f"--tp {plan.tensor_parallel}": plan.tensor_parallel != 1,
        f"--pp {plan.pipeline_parallel}": plan.pipeline_parallel != 1,
        f"--offload {plan.offload}": plan.offload == "all",
        "--optimizer-in-backward": plan.optimizer_in_backward,
        f"--lora-dropout {plan.lora_dropout}": bool(plan.lora_dropout) and plan.method == DPO,
        f"--lora {plan.lora}": plan.lora is not None and plan.method == PPO,
        f"--preset {plan.preset}": bool(plan.preset) and _method_of(plan.preset) != plan.method,
    }
    if refused := next((words for words, given in asked.items() if given), None):
        remedy = "take --zero 3, or leave it out" if "fsdp" in refused else "leave it out"
        raise InvalidModel(f"{refused} with --method {plan.method} is not supported", remedy)


def _method_of(preset: str) -> object:
    return training_preset(preset).options.get("method", SFT)


def _words(flag: str, given: object) -> str:
    return flag.split("/")[0] if given is True else f"{flag} {given}"
