"""A plan of training put into effect: what is trained, where the states are, in which formats the code runs."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from tfcalc.backends import WITH_COMPILE, WITH_TP, backend
from tfcalc.backends.program import Code, compilable
from tfcalc.backends.sdpa import METAL
from tfcalc.configs.published import HFModel
from tfcalc.core.component import CORE_ATTENTION, MLP, Component
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.nn.model import ModelWithHead
from tfcalc.number_formats import COMPUTED, FP32, NUMBERS
from tfcalc.plans import BITSANDBYTES_OLD, EXPANDABLE, TUTORIAL
from tfcalc.serving.weight_formats import LLM_INT8, OUTPUT, PLAIN, Format, MixedFormat, format_named, single
from tfcalc.tape.interpreter import Numerics
from tfcalc.training.adapters import drops, tuned
from tfcalc.training.measured import error_of
from tfcalc.training.methods import check_method, scoring_of
from tfcalc.training.optimizers import optimizer
from tfcalc.training.precisions import PRODUCTS_ALONE, Precision, precision
from tfcalc.training.sharding import Placement, packed
from tfcalc.workload import AUTO
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.tape.sharded import Units
    from tfcalc.workload import Workload


DEVICE = "--device recorded"
OF_BITSANDBYTES = ("nf4", "fp4")
"""Its formats of 4 bits, by their beginnings."""


FIRST_WITH_8_BITS = 8.9
"""CUDA's capability from which on torchao's float8 runs: Ada, Hopper and later."""


def check_8_bits(plan: Training, *, megatron: bool) -> None:
    """Raise InvalidModel for products in 8 bits, where the card has none or Megatron-LM saves other tensors."""
    if plan.precision != PRODUCTS_ALONE:
        return
    if megatron:
        remedy = "plan --precision fp8 has its layouts, with inputs that Transformer Engine saves in 8 bits"
        raise InvalidModel("precision fp8 with Megatron-LM", remedy)
    if plan.capability.replace(".", "").isdigit() and float(plan.capability) < FIRST_WITH_8_BITS:
        raise InvalidModel("precision fp8 on a GPU without fp8 products", "Ada and Hopper have them; take bf16")


def trained(tree: Component, plan: Training) -> Component:
    """The model's tree with adapters beside it, and with what is not trained frozen. Raises InvalidModel."""
    check_plan(plan)
    return tuned(tree, plan)


def check_plan(plan: Training) -> None:
    """Raise InvalidModel where something that is asked for has no effect beside the rest, or does not go with it."""
    check_gpus(plan)
    if plan.capability == METAL:
        check_metal(plan)
    if plan.copies == 1:
        if plan.zero != "0":
            fact = f"--zero {plan.zero} {_alone(plan)} has no effect"
            raise InvalidModel(fact, f"add --gpus {8 * plan.model_parallel}")
        if plan.layout != "flat":
            raise InvalidModel(
                f"--layout {plan.layout} has no effect {_alone(plan)}",
                f"add --zero 3 --gpus {8 * plan.model_parallel}, or leave it out",
            )
    elif plan.zero == "0" and plan.layout != "flat":
        raise InvalidModel(f"--layout {plan.layout} has no effect with --zero 0", "add --zero 3, or leave it out")
    check_method(plan)
    check_in_backward(plan)
    check_quantized(plan)
    if plan.offload != "none" and optimizer(plan.optimizer).paged:
        fact = f"--offload {plan.offload} has no effect on the states of {plan.optimizer}, which are paged"
        raise InvalidModel(fact, "leave one of them out")
    check_8_bits(plan, megatron=plan.megatron)
    if plan.megatron and plan.dora:
        raise InvalidModel(f"--dora with --backend {plan.backend} is not supported", "leave one of them out")
    if plan.megatron:
        for flag, asked in (("--offload-activations", plan.offload_activations), (DEVICE, plan.device == "recorded")):
            if asked:
                raise InvalidModel(f"{flag} has no effect with --backend {plan.backend}", "leave it out")
        if plan.virtual_pipeline != 1 and plan.pipeline_parallel == 1:
            fact = f"--vpp {plan.virtual_pipeline} has no effect on a pipeline of one stage"
            raise InvalidModel(fact, "add --pp 2, or leave it out")
    if precision(plan.precision).cast_when_gathered and not placement_of(plan).by_units:
        raise InvalidModel(f"--precision {plan.precision} is what FSDP does", "add --fsdp --gpus 8")
    if plan.gradient_as_bucket_view and (plan.copies == 1 or not has_buckets(plan)):
        raise InvalidModel("--gradient-as-bucket-view has no effect without DDP's buckets", "leave it out")
    if plan.lora is not None and plan.zero == "3" and plan.lora_dtype not in (AUTO, precision(plan.precision).stored):
        raise InvalidModel(f"--lora-dtype {plan.lora_dtype} with --zero 3 is not supported", "leave one of them out")


def check_metal(plan: Training) -> None:
    """Raise InvalidModel where Apple's GPUs do not run something, or it is not known what it takes there."""
    alone = {
        f"--gpus {plan.size('gpus')}": plan.size("gpus") != 1,
        f"--backend {plan.backend}": backend(plan.backend).needs_cuda,
        f"--base-weights {plan.base_weights} (QLoRA)": numerics(precision(plan.precision), plan).packed,
        f"--optimizer {plan.optimizer}": "bit" in optimizer(plan.optimizer).name,
        f"--loss {plan.loss}": plan.loss == "fused",
        f"--alloc-conf {plan.alloc_conf}": plan.alloc_conf == EXPANDABLE,
        "--compile": plan.compile,
        "--device recorded": plan.device == "recorded",
    }
    if refused := next((flag for flag, asked in alone.items() if asked), None):
        raise InvalidModel(f"{refused} on Apple's GPUs is not supported", "leave it out")
    shared = {f"--offload {plan.offload}": plan.offload != "none", "--offload-activations": plan.offload_activations}
    if idle := next((flag for flag, asked in shared.items() if asked), None):
        raise InvalidModel(f"{idle} has no effect on Apple's GPUs, which share the host's memory", "leave it out")


def check_gpus(plan: Training, card: str = "") -> None:
    """Raise InvalidModel where copies of the model cannot share the GPUs that there are, each a ``card`` of this name.

    >>> from tfcalc.plans import Training
    >>> check_gpus(Training(gpus=8, tensor_parallel=8, pipeline_parallel=2), "h100")
    Traceback (most recent call last):
    tfcalc.errors.InvalidModel: --tp 8 x --pp 2 = 16 GPUs, and there are 8; take --pp 1, or --gpu 16xh100
    """
    gpus, of_a_copy = known(plan.size("gpus")), known(plan.model_parallel)
    if gpus is None or of_a_copy is None or gpus % of_a_copy == 0:
        return
    degrees = {"--tp": plan.tensor_parallel, "--pp": plan.pipeline_parallel, "--cp": plan.context_parallel}
    sizes = {flag: value_of(degree) for flag, degree in degrees.items()}
    asked = [f"{flag} {size}" for flag, size in sizes.items() if size != 1]
    fewer = [
        f"{flag} {gcd(gpus * size // of_a_copy, size)}"
        for flag, size in sizes.items()
        if gpus % (of_a_copy // size) == 0 and size != 1
    ]
    near = dict.fromkeys((gpus // of_a_copy * of_a_copy or of_a_copy, -(-gpus // of_a_copy) * of_a_copy))
    whole = [f"--gpu {each}x{card}" if card else f"--gpus {each}" for each in near]
    there = f"there {'is' if gpus == 1 else 'are'} {gpus:,}"
    raise InvalidModel(
        f"{' x '.join(asked)} = {of_a_copy:,} GPUs, and {there}", f"take {', or '.join((*fewer[-1:], *whole))}"
    )


def _alone(plan: Training) -> str:
    """``on 1 GPU``, ``on 8 GPUs that share one copy of the model``."""
    return "on 1 GPU" if plan.model_parallel == 1 else f"on {plan.model_parallel} GPUs that share one copy of the model"


def stored_as(model: Model, tree: Component) -> Component:
    """The tensors as the code has them: PyTorch's attention stores the maps of queries, keys and values in one."""
    return packed(tree) if isinstance(model, Transformer) else tree


def placement_of(plan: Training) -> Placement:
    """Placement of the states."""
    return Placement(int(plan.zero), plan.copies, plan.layout, plan.offload)


def gradients_stay(by: Precision, placement: Placement) -> bool:
    """Return whether gradients have permanent buffers: shared out, or of more bits than the weights.

    FSDP's are made when a unit's have been reduced.
    """
    return not placement.by_units and (placement.stage >= 2 or by.gradients != by.weights)


def has_buckets(plan: Training) -> bool:
    """Return whether several GPUs would reduce gradients in DDP's buckets, and not in buffers of another kind."""
    by = trained_in(plan)
    return plan.zero == "0" and not plan.megatron and by.gradients == by.weights


def stays(plan: Training) -> bool:
    """Return whether gradients are live during the whole step: in buffers of their own, or to be added up."""
    buffers = gradients_stay(trained_in(plan), placement_of(plan)) or plan.gradient_as_bucket_view
    return buffers or plan.grad_accum != 1


def units(tree: Component, plan: Training) -> Units | None:
    """Units that FSDP gathers together, where it shares the weights."""
    placement = placement_of(plan)
    if not placement.by_units:
        return None
    from tfcalc.training.fsdp import units_of  # of those that ask for it

    base = single(plan.base_weights) if plan.base_weights else None
    return units_of(tree, precision(plan.precision), placement, base, accumulates=plan.grad_accum != 1)


def trained_in(plan: Training) -> Precision:
    """The formats of what is trained: of the weights, or of adapters where there are some."""
    by = precision(plan.precision)
    if plan.lora is None:
        return by
    return by.of_adapters(by.adapted if plan.lora_dtype == AUTO else plan.lora_dtype)


def base_dtype(by: Precision, plan: Training) -> str:
    """The format in which the code reads the weights: FSDP gathers them in that of products."""
    base = format_named(plan.base_weights) if plan.base_weights else None
    if base is not None and base.name in COMPUTED:
        return base.name
    return by.stored if by.autocast else by.compute


def numerics(by: Precision, plan: Training) -> Numerics:
    """The formats that the tape runs in.

    As recorded, that is on a CPU, a LayerNorm of 16-bit weights keeps its statistics in 16 bits, and the rows of masks
    are as long as they are; CUDA keeps fp32 statistics, and fills rows up to a multiple of 8.
    """
    own = base_dtype(by, plan)
    formats = Numerics(NUMBERS[own].torch, NUMBERS[by.compute].torch if by.autocast else None)
    if plan.lora is not None:
        kind = "" if plan.lora_dtype in (own, by.adapted) and not by.autocast else NUMBERS[plan.lora_dtype].torch
        formats = formats._replace(adapters=kind, drops_adapters=drops(plan.lora_dropout))
    if plan.device == "recorded":
        kept_in = None if formats.weights == FP32.torch else formats.weights
        formats = formats._replace(statistics=kept_in, aligned_masks=False, traced=True)
    formats = formats._replace(cuda=plan.device == "cuda")
    if not plan.base_weights:
        return formats
    stored = format_named(plan.base_weights).name
    return formats._replace(
        packed=stored not in PLAIN,
        in_int8=stored == LLM_INT8,
        keeps_casts=plan.bitsandbytes == BITSANDBYTES_OLD,
        packs_head=plan.quantize_head,
        holds_graph=holds_attributes(plan),
    )


def holds_attributes(plan: Training) -> bool:
    """Return whether the loop holds the graph of the step before, whose nodes have inputs of products as attributes."""
    stored = format_named(plan.base_weights).name if plan.base_weights else ""
    kept = stored == LLM_INT8 or plan.bitsandbytes == BITSANDBYTES_OLD
    return plan.loop == TUTORIAL and kept and stored not in PLAIN


def base_format(plan: Training) -> Format | MixedFormat:
    """The format of the frozen weights, which may be that of the output head, too."""
    found = format_named(plan.base_weights)
    if plan.quantize_head and isinstance(found, Format):
        return found._replace(kinds=(*found.kinds, OUTPUT))
    return found


def check_quantized(plan: Training) -> None:
    """Raise InvalidModel where something is said of quantized weights, and has no effect on those that there are."""
    if plan.base_weights and plan.zero == "3" and not plan.layout.startswith("fsdp"):
        raise InvalidModel(f"frozen weights in {plan.base_weights} with ZeRO stage 3", "add --fsdp, or take stage 2")
    found = format_named(plan.base_weights) if plan.base_weights else None
    if plan.bitsandbytes == BITSANDBYTES_OLD:
        said = f"--bitsandbytes {plan.bitsandbytes}"
        if found is None or not found.name.startswith(OF_BITSANDBYTES):
            raise InvalidModel(f"{said} has no effect without weights in its 4 bits", "add --base-weights nf4")
        code = backend(plan.backend)
        if not code.by_bitsandbytes:
            raise InvalidModel(f"{said} has no effect on {code.name}, whose NF4 is torchao's", "leave it out")
    if plan.quantize_head:
        if found is None or found.plain:
            raise InvalidModel("--quantize-head has no effect without quantized weights", "add --base-weights nf4")
        if not isinstance(found, Format) or OUTPUT in found.kinds:
            raise InvalidModel(f"--quantize-head has no effect on {found.name}, which quantizes it", "leave it out")
        if placement_of(plan).by_units:
            raise InvalidModel(f"--quantize-head with --layout {plan.layout} is not supported", "leave one of them out")


def check_head(model: Model, plan: Training) -> None:
    """Raise InvalidModel where an output head is to be quantized that is tied, or that a loss reads by itself."""
    if not plan.quantize_head:
        return
    heads = [each.output for each in model.module().all_of() if isinstance(each, ModelWithHead)]
    if not heads or any(head.tied_to is not None for head in heads):
        fact = f"--quantize-head of {model.summary} is not supported: its output head is tied to the embedding"
        raise InvalidModel(fact if heads else f"--quantize-head has no effect on {model.summary}", "leave it out")
    if plan.loss in ("checkpointed", "fused"):
        raise InvalidModel(f"--quantize-head with --loss {plan.loss} is not supported", "leave one of them out")


def code_of(plan: Training) -> Code:
    """Code that runs: the plan's backend and loss, whether it is compiled, and how tokens are scored."""
    return Code(plan.backend, plan.loss, plan.compile, scoring_of(plan))


def check_code(model: Model, run: Workload, plan: Training) -> None:
    """Raise InvalidModel for a kernel, a loss, or compiled layers, where they have no effect or nobody knows it."""
    if plan.capability == METAL and run.fused:
        raise InvalidModel(
            f"--attention-kernel {run.kernel} on Apple's GPUs is not supported in training", "use math or eager"
        )
    code = backend(plan.backend)
    if not (code.eager_attention or run.fused):
        raise InvalidModel(
            f"--attention-kernel {run.kernel} has no effect with --backend {code.name}, which has a fused kernel",
            "leave it out, or take --backend transformers",
        )
    check_head(model, plan)
    if plan.loss != "auto":
        if not isinstance(model, HFModel) or plan.megatron:
            raise InvalidModel(f"--loss {plan.loss} has no effect on {_code_named(model, plan)}", "leave it out")
        if plan.loss == "litgpt" and code.casts_logits:
            raise InvalidModel(f"--loss litgpt with --backend {code.name} is not supported: its logits are in fp32")
        if not any(isinstance(each, ModelWithHead) for each in model.module().all_of()):
            raise InvalidModel(f"--loss {plan.loss} has no effect on {model.summary}: it has no logits of words")
    if plan.compile:
        why = _not_compiled(model, run, plan)
        if why:
            raise InvalidModel(f"--compile {why} is not supported", "leave it out, or see --backend fused")


def _code_named(model: Model, plan: Training) -> str:
    return f"--backend {plan.backend}" if isinstance(model, HFModel) else model.summary


def _not_compiled(model: Model, run: Workload, plan: Training) -> str:
    """Name the case that the rule of what compiled layers save was not compared for; empty where it was.

    It was compared for layers of RMSNorms, of attention by one kernel, and of gated networks, without dropout
    (tests/verify/test_compiled_layers.py).
    """
    if not isinstance(model, HFModel) or WITH_COMPILE not in backend(plan.backend).compared:
        return f"of {_code_named(model, plan)}"
    if precision(plan.precision).autocast:
        return f"with --precision {plan.precision}"
    if plan.dora:
        return "with --dora"
    if not run.fused or run.recompute == "selective":
        return f"with attention kernel {run.kernel}, checkpointing {run.recompute}"
    if not compilable(model.module(), drops=run.drops):
        return f"of the layers of {model.summary}"
    return ""


def known_error(model: Model) -> float | None:
    """Error of its class's saved tensors against PyTorch's; None where these were never compared.

    Raises InvalidModel where it is too large, or nobody knows whether the class runs as it does here.
    """
    return error_of(model) if isinstance(model, HFModel) else 0.0


def check_loops(model: Model, run: Workload) -> None:
    """Raise InvalidModel where layers that loop over time are recomputed, and were not compared so or came out low."""
    loops = model.module().time_loops() if run.every else ()
    if loops and (run.by_operation or not all(each.recomputed for each in loops)):
        asked = f"checkpointing {run.recompute} of {model.summary}, which loops over time,"
        raise InvalidModel(f"{asked} is not supported", "use --checkpointing none, which takes more")


def check_offloaded(run: Workload, plan: Training) -> None:
    """Raise InvalidModel where activations are to be offloaded, and no layer runs again.

    Source: transformers' ``activation_checkpointing_enable`` offloads what checkpointed layers have read; torchtune's
    training scripts refuse to offload without checkpointing.
    """
    if plan.offload_activations and not run.every:
        raise InvalidModel("--offload-activations offloads what checkpointed layers read", "add --checkpointing full")


def is_upper_bound(model: Model, plan: Training) -> bool:
    """Return whether fused kernels, which are not modelled, take less than what is counted: PyTorch's own loops."""
    return not plan.megatron and bool(model.module().time_loops())


def piece_of(model: Model, run: Workload, plan: Training) -> Model:
    """Piece of a model that one GPU has where several share its layers; all of it, where none do. Raises InvalidModel.

    Source: torchtitan's ``apply_tp``, which shards as Megatron-LM does: columns, rows, words, and the sequence between.
    """
    if plan.tensor_parallel == 1:
        return model
    from tfcalc.placed.layout import Layout, check_even
    from tfcalc.placed.rules import check_saved, on_device  # of those that ask for it

    assert isinstance(model, HFModel)
    piece = on_device(model.module(), Layout(plan.tensor_parallel, plan.sequence_parallel, rows=1, gathers_again=False))
    check_saved(piece)
    if plan.sequence_parallel:
        check_even("sequence length", run.seq_len, "tensor", plan.tensor_parallel)
    return model.run_by(piece)


def check_in_backward(plan: Training) -> None:
    """Raise InvalidModel where a parameter cannot be stepped as soon as backward has its gradient, or nobody does so.

    Source: torchtune's full_finetune_single_device.py refuses gradient accumulation and the clipping of gradients.
    """
    if not plan.optimizer_in_backward:
        return
    flag, leave = "--optimizer-in-backward", "leave one of them out"
    by = precision(plan.precision)
    if plan.megatron:
        raise InvalidModel(f"{flag} has no effect with --backend {plan.backend}", "leave it out")
    if plan.optimizer == "none":
        raise InvalidModel(f"{flag} without an optimizer", "give --optimizer adamw-fused")
    if plan.grad_accum != 1:
        raise InvalidModel(f"{flag} cannot add up the gradients of {plan.grad_accum} micro-batches", leave)
    if plan.size("gpus") != 1:
        raise InvalidModel(f"{flag} on {plan.size('gpus')} GPUs is not supported", "use 1 GPU, or leave it out")
    if plan.offload != "none":
        raise InvalidModel(f"{flag} cannot be combined with --offload {plan.offload}", leave)
    if by.master:
        raise InvalidModel(f"{flag} with the fp32 master weights of {by.name}", "give --precision bf16-mixed or bf16")


def check_alone(model: Model, plan: Training) -> None:
    """Raise InvalidModel where layers are to be shared by code that is not Megatron's, nor DTensor's under FSDP."""
    if plan.megatron or (
        isinstance(model, HFModel)
        and WITH_TP in backend(plan.backend).compared
        and placement_of(plan).by_units
        and plan.tensor_parallel != 1
        and (plan.pipeline_parallel, plan.virtual_pipeline, plan.context_parallel) == (1, 1, 1)
    ):
        return
    sizes = {"--tp": plan.tensor_parallel, "--pp": plan.pipeline_parallel, "--vpp": plan.virtual_pipeline}
    sizes["--cp"] = plan.context_parallel
    asked = [f"{flag} {value}" for flag, value in sizes.items() if value != 1]
    asked += ["--sequence-parallel"] if plan.sequence_parallel else []
    if asked:
        remedy = "add --backend megatron" + (", or --fsdp" if asked[0].startswith("--tp") else "")
        raise InvalidModel(f"{asked[0]} needs --backend megatron (it is {plan.backend})", remedy)


ON_TAPE = (CORE_ATTENTION, MLP)
"""Modules that the tape of a step runs again."""


def check_modules_again(model: Model, run: Workload, plan: Training) -> None:
    """Raise InvalidModel for modules that are not Megatron-LM's, that the model has not, or that no tape runs again."""
    if not run.recompute_modules:
        return
    from tfcalc.core.recomputation import check_modules, modules_in  # few ask for it

    called = f"--recompute-modules {','.join(run.named_modules)}"
    if not plan.megatron:
        raise InvalidModel(
            f"{called} needs --backend megatron (it is {plan.backend})", "add it, or use --checkpointing"
        )
    check_modules(run.named_modules, modules_in(model.tree(run)), model.summary)
    if other := next((name for name in run.named_modules if name not in ON_TAPE), ""):
        raise InvalidModel(f"--recompute-modules {other} of memory and train is not supported", "ask tfcalc plan")
