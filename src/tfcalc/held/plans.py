"""What is asked of memory beside the workload: how a model is trained, and how it is served."""

from __future__ import annotations

from dataclasses import dataclass

from tfcalc.core.number import Num
from tfcalc.dimensions import Described, choice, dimension, text
from tfcalc.held.serving.cache_formats import FORMATS
from tfcalc.held.training.optimizers import OPTIMIZERS
from tfcalc.held.training.recipes import RECIPES
from tfcalc.held.training.sharding import LAYOUTS, OFFLOADS

IMPLEMENTATIONS = ("own", "transformers", "torch", "fused", "megatron")
STAGES = ("0", "1", "2", "3")
CACHES = ("dynamic", "static", "paged")


@dataclass(frozen=True, eq=False, repr=False)
class Training(Described):
    """How a model is trained: number formats, optimizer, whose code runs, what is frozen, and over how many devices."""

    recipe: str = choice(
        "number formats of training (conventions: formulas.md)", "--recipe", default="fp32", known=tuple(RECIPES)
    )
    optimizer: str = choice("the optimizer", "--optimizer", default="adamw", known=tuple(OPTIMIZERS))
    implementation: str = choice(
        "whose code runs, which decides what is saved; own: transformers', or PyTorch's for the classic model",
        "--implementation",
        default="own",
        known=IMPLEMENTATIONS,
    )
    device: str = choice(
        "where PyTorch's CPU and CUDA differ in what they keep: as recorded on fake CPU tensors, or as CUDA does",
        "--device",
        default="recorded",
        known=("recorded", "cuda"),
    )
    accumulate: Num = dimension(
        "m", "micro-batches whose gradients are added up before a step", "--accumulate", default=1
    )
    lora: Num | None = dimension("r", "rank of the adapters that are trained in the place of the weights", "--lora")
    lora_targets: str = text(
        "the linear maps beside which adapters stand, by the ends of their names, with commas",
        "--lora-targets",
        default="all-linear",
    )
    dora: bool = choice("adapters with a magnitude for each output (DoRA)", "--dora/--no-dora", default=False)
    frozen_weights: str = text(
        "format of weights that are not trained (nf4, int8, bf16, …)", "--frozen-weights", default=""
    )
    freeze: str = text("modules that are not trained, by name or pattern, with commas", "--freeze", default="")
    zero: str = choice("ZeRO's stage: what devices share of the states", "--zero", default="0", known=STAGES)
    devices: Num = dimension("N", "devices that share the states of training", "--devices", default=1)
    layout: str = choice("how tensors are cut into pieces", "--layout", default="flat", known=LAYOUTS)
    offload: str = choice("states in the host's memory", "--offload", default="none", known=OFFLOADS)
    tensor: Num = dimension("t", "devices that share each layer (megatron)", "--tensor-parallel", default=1)
    sequence_parallel: bool = choice(
        "norms and dropout shared, too (megatron)", "--sequence-parallel/--no-sequence-parallel", default=False
    )
    pipeline: Num = dimension("p", "stages of the pipeline (megatron)", "--pipeline", default=1)
    interleave: Num = dimension("v", "chunks of layers in each stage (megatron)", "--interleave", default=1)


@dataclass(frozen=True, eq=False, repr=False)
class Serving(Described):
    """How a model is served: the format of its weights, and what is cached for how many requests of which length."""

    weights: str = text("format of the weights [default: the config's own, or --dtype]", "--weights", default="")
    kv: str = choice("format of the cache [default: as computed]", "--kv", default="bf16", known=tuple(FORMATS))
    cache: str = choice("how the cache is held", "--cache", default="dynamic", known=CACHES)
    context: Num | None = dimension("c", "tokens of each request, in the cache", "--context", follows="l")
    concurrency: Num = dimension("b", "requests at once", "--concurrency", default=1)
    block: Num = dimension("B", "tokens in a block of a paged cache", "--block-size", default=16)
    batched: Num = dimension("m", "prompt tokens that are read at once with a paged cache", "--batched", default=8192)
