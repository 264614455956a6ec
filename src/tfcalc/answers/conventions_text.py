"""The definitions that a number was made by, as every answer has them: for programs, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.units import short_bytes
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.serving.caches import FullWindows

PARAMETERS = "unique trainable tensors, a tied matrix once, buffers apart"
OPERATIONS = {"matmul": "matrix products only", "all": "matrix products and elementwise work"}
PAIRS = {
    "full": "masked pairs counted",
    "causal": "causal attention counts the pairs that are not masked, fewer in windows and chunks",
    "causal-half": "half of all pairs counted",
}
BACKWARD = {
    False: "two products per forward product, one where weights are frozen",
    True: "two products per forward product, one where weights are frozen, and Q Kᵀ recomputed",
}
DATA = {False: "no gradients of input data", True: "gradients of input data included"}
PHASES = {
    "forward": "forward pass",
    "train": "training step",
    "prefill": "prefill",
    "decode": "one decoded token per sequence",
}
LOGITS = {"all": "on every position", "last": "on the last position of each sequence"}
LATENT = {"expanded": "keys and values expanded", "absorbed": "keys and values absorbed"}
TIME = {
    of_batch: f"all operations and lookups of {whose}, constant factors dropped, heads ≤ hidden size"
    for of_batch, whose in ((False, "one sequence"), (True, "the whole batch"))
}
PACKING = "each tensor padded to whole bytes, no scales"
BUFFERS = "as the weights, 16 bits at least"
NOT_COUNTED = "gradients, optimizer, activations, cache, allocator rounding, CUDA context"


def as_json(of: str, run: Workload, by: Conventions) -> dict[str, object]:
    """``conventions`` of the JSON."""
    match of:
        case "params" | "trainable":
            return {
                "parameters": PARAMETERS,
                "embedding_params": "token and position embeddings, without the output head",
                "component_flops": _forward_products(run),
            }
        case "flops":
            return {
                "component_flops": "of the phase: components add up to total_flops",
                "batch_size": run.batch_size,
                "seq_len": run.target.length,
                "source_len": run.source.seen,
                **({"cached": run.target.seen} if run.decoding else {}),
                "phase": run.phase,
                "logits": run.logits,
                "tokens": "of the target",
                "multiply_add": 2,
                "count": by.count,
                "operations": OPERATIONS[by.count],
                "attention": run.attention,
                "attention_pairs": PAIRS[run.attention],
                "attention_kernel": run.kernel,
                "backward": BACKWARD[run.fused] if run.training else "none",
                "input_gradient": run.training and run.input_gradient,
                "dropout": run.drops,
                "recomputation": run.recomputed if run.training else "none",
                "early_stop": run.training and run.early_stop,
                "latent_attention": run.latent,
                "grouped_convolutions": run.convolutions,
                "experts": run.experts,
                "embedding_lookup": 0,
            }
        case "memory":
            return {
                "phase": "at rest",
                "dtype": by.dtype,
                "bits_per_weight": by.bits,
                "buffers": BUFFERS,
                "packing": PACKING,
                "units": by.units,
                "not_counted": NOT_COUNTED,
                "component_flops": _forward_products(run),
            }
        case _:
            return {"time": TIME[False]}


def _forward_products(run: Workload) -> str:
    return f"matrix products of a forward pass of {run.batch_size} x {run.seq_len} tokens"


def as_text(of: str, run: Workload, by: Conventions, *, sizes: bool = True, with_batch: bool = False) -> list[str]:
    """The footer; a closed form leaves out the ``sizes`` of the workload, growth the batch but ``with_batch``."""
    match of:
        case "params" | "trainable":
            return [f"counted: {PARAMETERS}"]
        case "flops":
            return ["; ".join([*(_sizes(run) if sizes else []), *_definitions(run, by)])]
        case "memory":
            weights = f"{by.dtype}, {by.bits} bits per weight, {PACKING}; buffers {BUFFERS}"
            return [weights, f"not counted: {NOT_COUNTED}"]
        case _:
            return [TIME[with_batch]]


def as_footer(run: Workload, by: Conventions) -> tuple[str, ...]:
    """The conventions of a count of FLOPs in a line."""
    pairs = {"full": "masked pairs counted", "causal": "causal pairs only", "causal-half": "l²/2 pairs"}[run.attention]
    operations = "matrix products only" if by.count == "matmul" else "all operations"
    again = {"none": ()}.get(run.recompute, (f"checkpointing {run.recomputed}",)) if run.training else ()
    return ("multiply-add = 2 FLOPs", operations, pairs, *again)


def experts_without_adapters(model: Model, plan: Training) -> Iterator[str]:
    """Yield that a mixture's experts have no adapters, where all linear layers were to have some."""
    experts = any(getattr(each, "kind", "") == "experts" for each in model.module().all_of())
    if plan.lora is not None and plan.lora_targets == "all-linear" and experts:
        yield "Adapters: all-linear leaves out the experts, fused tensors (as in peft); --lora-targets names modules"


def sizes_in_words(run: Workload) -> str:
    """``batch 8 x 1,024 tokens``."""
    return f"batch {next(iter(_sizes(run)))}"


def _sizes(run: Workload) -> Iterator[str]:
    if run.decoding:
        yield f"{run.batch_size:,} x 1 token, {run.target.seen:,} in the cache{_source(run)}"
    else:
        yield f"{run.batch_size:,} x {run.seq_len:,} tokens{_source(run)}"


def _source(run: Workload) -> str:
    return "" if run.source_len is None else f", source of {run.source.seen:,}"


def _definitions(run: Workload, by: Conventions) -> Iterator[str]:
    yield PHASES[run.phase]
    yield "multiply-add = 2 FLOPs"
    yield OPERATIONS[by.count]
    yield f"attention {run.attention}: {PAIRS[run.attention]}"
    if run.logits != "all":
        yield f"output head {LOGITS[run.logits]}"
    if run.latent != "expanded":
        yield f"latent attention: {LATENT[run.latent]}"
    if run.experts != "chosen":
        yield "all experts run where transformers' code runs all"
    if run.training:
        yield f"backward: {BACKWARD[run.fused]}, {DATA[run.input_gradient]}"
        if not run.dropout:
            yield "no dropout"
        if run.recompute != "none":
            yield f"recomputed: {recomputed(run)}"


def recomputed(run: Workload) -> str:
    """Return in words what is recomputed in backward."""
    stops = ", only what is needed (early stop)" if run.early_stop and run.every else ""
    if run.by_operation:
        return f"every layer, but for attention and every other matrix product{stops}"
    match run.every:
        case 0:
            return "attention between its projections"
        case 1:
            return f"every layer{stops}"
        case step:
            return f"one layer in {step}{stops}"


def windows_in_words(full: FullWindows | None, context: int) -> Iterator[str]:
    """Yield what windows keep of a request of ``context`` tokens, where it is longer than they are.

    >>> from tfcalc.serving.caches import FullWindows
    >>> list(windows_in_words(FullWindows(52, 1024, 81920), 8192))
    ['From 1,024 tokens on 52 layers cache nothing more of a request; a further token adds 80.0 KiB in the others']
    """
    if full is None or context <= full.tokens:
        return
    if full.per_token:
        others = f"a further token adds {short_bytes(full.per_token)} in the others"
        yield f"From {full.tokens:,} tokens on {full.layers:,} layers cache nothing more of a request; {others}"
    else:
        yield f"From {full.tokens:,} tokens on the cache of a request does not grow: no layer keeps more"
