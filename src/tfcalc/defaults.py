"""Meaning of "auto": what people run. The one place of defaults that depend on the model.

Defaults that depend on nothing are at the fields of :class:`~tfcalc.Workload`, :class:`~tfcalc.Training`,
:class:`~tfcalc.Serving` and :class:`~tfcalc.Conventions`; the command line and the library read both from here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tfcalc.backends import backend
from tfcalc.backends.sdpa import BEFORE_AMPERE, chosen
from tfcalc.configs.published import HFModel
from tfcalc.core.traced import known
from tfcalc.dimensions import check_sizes
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.model import shortened
from tfcalc.number_formats import BF16, COMPUTED, FP16, FP32
from tfcalc.serving.caches import CACHES_ELSEWHERE, PAGED
from tfcalc.serving.quantization_config import stated_dtype, stated_format
from tfcalc.serving.weight_formats import MixedFormat
from tfcalc.training.adapters import drops
from tfcalc.training.precisions import OF_MEGATRON, OF_MEGATRON_IN_FP16, OF_TRAINER, of_trainer, precision
from tfcalc.workload import AUTO

if TYPE_CHECKING:
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.serving.weights import WeightStorage
    from tfcalc.workload import Conventions, Workload

CLASSIC = FP32.name
"""The number format of the model without a name, and of a config that states none: PyTorch's default dtype."""
SERVED_LENGTH = 8192
"""Tokens of a request, where none are asked for."""
QUANTIZED = BF16.name
"""What a checkpoint computes in that is quantized and does not say."""


def own_dtype(model: Model) -> str:
    """The number format that the checkpoint's unquantized tensors have: ``dtype`` of its config.json.

    A config without a ``dtype`` is taken for fp32, a quantized one for bf16; the classic model is fp32.
    """
    if not isinstance(model, HFModel):
        return CLASSIC
    return stated_dtype(model.data) or (QUANTIZED if own_format(model) else CLASSIC)


def assumed_dtype(model: Model, used: str) -> tuple[str, ...]:
    """Notes for an answer that uses the model's own number format, where no checkpoint states it."""
    if not isinstance(model, HFModel) or used != own_dtype(model):
        return ()
    unstated = "" if stated_dtype(model.data) else "fp32, as the config states no dtype"
    note = model.dtype_note or ("" if own_format(model) else unstated)
    return (note,) if note else ()


def own_format(model: Model) -> WeightStorage | None:
    """Storage of the checkpoint's weights, where its config states it; None otherwise."""
    return stated_format(model) if isinstance(model, HFModel) else None


def in_llama_cpp(model: Model) -> bool:
    """Return whether the checkpoint is a quantized file of llama.cpp's (GGUF)."""
    own = own_format(model)
    return own is not None and isinstance(own.format, MixedFormat)


def compute_dtype(model: Model) -> str:
    """The format that the layers compute in by default: the checkpoint's, or bf16 where it has fewer than 16 bits."""
    dtype = own_dtype(model)
    return dtype if dtype in COMPUTED else QUANTIZED


def resolve_dtype(model: Model, conventions: Conventions) -> Conventions:
    """The conventions with the checkpoint's own number format for auto.

    Raises UsageError where that is a quantized format: its tensors differ, so that no one closed form covers a part.
    """
    if conventions.dtype != AUTO:
        return conventions
    own = own_format(model)
    if own and not own.format.plain:
        raise UsageError(f"the checkpoint is stored in {own.format.name}, which has no closed form", "add --dtype bf16")
    return conventions.replaced(dtype=own_dtype(model))


def resolve_training(model: Model, workload: Workload, plan: Training) -> tuple[Workload, Training]:
    """The workload of a training step and its plan, with the checkpoint's precision and sdpa's own kernel for auto.

    Raises InvalidModel for a plan with a field that cannot be.
    """
    plan = resolve_plan(model, plan)
    return resolve_run(model, workload, plan), plan


def resolve_plan(model: Model, plan: Training) -> Training:
    """The plan of training with the checkpoint's precision for auto, whatever the workload.

    An optimizer that goes by somebody else's name has its own. Raises InvalidModel for a field that cannot be.
    """
    from tfcalc.training.methods import with_method  # which nothing but training asks for
    from tfcalc.training.optimizers import optimizer

    check_sizes(plan)
    if plan.zero == AUTO:
        plan = plan.replaced(zero=usual_stage(plan))
    plan = with_method(plan)
    if plan.precision == AUTO:
        plan = plan.replaced(precision=_usual_precision(model, plan))
    if plan.precision in OF_TRAINER:
        if plan.megatron:
            fact = f"precision {plan.precision} with backend {plan.backend}"
            raise InvalidModel(fact, "Megatron-LM's --bf16 is bf16-master-fp32-grads")
        plan = plan.replaced(precision=of_trainer(plan.precision, compute_dtype(model)))
    plan = plan.replaced(optimizer=optimizer(plan.optimizer).name)
    if plan.lora is not None and plan.lora_dtype == AUTO:
        plan = plan.replaced(lora_dtype=_of_adapters(plan))
    return plan


def _usual_precision(model: Model, plan: Training) -> str:
    """Precision that is usual: the checkpoint's own, with adapters under autocast; Megatron-LM's whatever it has.

    Source: Megatron-LM's training/arguments.py, where ``--bf16`` sums gradients in fp32, and its optimizers, which have
    fp32 copies of the weights of all models in 16 bits (core/optimizer/optimizer.py).
    """
    before = plan.capability.startswith(BEFORE_AMPERE)
    if plan.megatron:
        return OF_MEGATRON_IN_FP16.name if before else OF_MEGATRON.name
    dtype = compute_dtype(model)
    if dtype == BF16.name and before:
        dtype = FP16.name
    tuned = plan.lora is not None and dtype != FP32.name and not _in_one_format(plan)
    return f"{dtype}-autocast" if tuned else dtype


def _of_adapters(plan: Training) -> str:
    """Number format of adapters: TRL gives 16-bit models to peft, which casts them up (``autocast_adapter_dtype``)."""
    by = precision(plan.precision)
    if _in_one_format(plan):
        return by.stored
    return FP32.name if plan.by_trl else by.adapted


def usual_stage(plan: Training) -> str:
    """Stage of ZeRO that is usual: Megatron-LM's, but for that of 2022, which had none."""
    return distributed(several=plan.megatron and not plan.of_2022 and known(plan.copies) != 1)


def distributed(*, several: bool) -> str:
    """Stage of ZeRO of Megatron-LM, which distributes its optimizer over ``several`` copies of the model.

    Source: Megatron-Bridge's training configs (``use_distributed_optimizer=True``).
    """
    return "1" if several else "0"


def resolve_run(
    model: Model, workload: Workload, plan: Training, choose: Callable[[Workload, str, str], str] | None = None
) -> Workload:
    """The workload of a step by a resolved plan, with sdpa's own kernel for auto.

    Who asks often may remember which kernels sdpa does ``choose`` for which workload and number format.
    """
    if drops(plan.lora_dropout) and not workload.dropout:
        raise InvalidModel(f"--lora-dropout {plan.lora_dropout} has no effect with --no-dropout", "leave one out")
    workload = resolve_checkpointing(model, workload)
    if workload.kernel == AUTO:
        choose = choose or partial(chosen, model)
        kernel = choose(workload, precision(plan.precision).compute, plan.capability)
        eager = backend(plan.backend).eager_attention
        workload = workload.replaced(kernel=kernel if eager or kernel == "flash" else "efficient")
    return workload


def resolve_checkpointing(model: Model, workload: Workload) -> Workload:
    """The workload of a step with gradient checkpointing for auto: of a checkpoint's layers, where that is known."""
    if workload.recompute != AUTO:
        return workload
    if workload.recompute_modules:
        return workload.replaced(recompute="selective")
    full = isinstance(model, HFModel) and all(each.recomputed for each in model.module().time_loops())
    return workload.replaced(recompute="full" if full else "none")


def _in_one_format(plan: Training) -> bool:
    """Return whether adapters have the weights' format: what GPUs gather together has but one, and torchtune's model.

    Source: TRL's SFTTrainer, which gives ``autocast_adapter_dtype=False`` to peft with ZeRO stage 3; torchtune's
    lora_finetune_single_device.py, which makes adapters in the model's format.
    """
    return plan.zero == "3" or plan.megatron or backend(plan.backend).adapters_as_model


def serving_context(model: Model, workload: Workload) -> Num:
    """Tokens of a request where none are asked for: 8,192, or the model's longest; if none is known, those of a run."""
    return workload.seq_len if model.longest is None else shortened(SERVED_LENGTH, model)


def served_dtype(model: Model) -> str:
    """The format in which an engine serves the checkpoint's unquantized tensors: 16 bits where they have 32."""
    own, stored = own_dtype(model), own_format(model)
    return engine_dtype(model) if own == FP32.name and not (stored and not stored.format.plain) else own


def engine_dtype(model: Model) -> str:
    """The format that an engine computes in, and caches: a checkpoint's own, or 16 bits where it has 32 or fewer.

    The model without a name, which is no checkpoint, stays as it is.

    Source: vLLM's ``--dtype auto`` ("will use FP16 precision for FP32 and FP16 models, and BF16 precision for BF16
    models"), but for those of its ``_FLOAT16_NOT_SUPPORTED_MODELS``, which take bf16.
    """
    if own_dtype(model) != FP32.name or not isinstance(model, HFModel):
        return compute_dtype(model)
    return BF16.name if model.family.model_type.startswith(NOT_IN_FP16) else FP16.name


NOT_IN_FP16 = ("gemma2", "gemma3", "plamo2", "glm4")
"""Model types that vLLM does not serve in fp16, by their beginnings."""


def resolve_serving(model: Model, workload: Workload, plan: Serving, dtype: str = AUTO) -> tuple[Workload, Serving]:
    """The workload and the plan of serving: the usual context, flash attention, the cache as computed.

    ``dtype`` is the number format that was asked for. Raises InvalidModel for a plan with a field that cannot be.
    """
    check_sizes(plan)
    plan = plan.replaced(kv=CACHES_ELSEWHERE.get(plan.kv, plan.kv))
    if plan.context is None:
        plan = plan.replaced(context=serving_context(model, workload))
    engine = dtype == AUTO and plan.cache == PAGED
    if engine and not plan.weights and (served := served_dtype(model)) != own_dtype(model):
        plan = plan.replaced(weights=served)
    if plan.kv == AUTO:
        computed = engine_dtype(model) if engine else compute_dtype(model)
        plan = plan.replaced(kv=next((name for name in (plan.weights, dtype) if name in COMPUTED), computed))
    if workload.kernel == AUTO:
        workload = workload.replaced(kernel="flash")
    return workload, plan
