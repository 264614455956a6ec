"""How each number of an answer follows from others of the same answer; which are found otherwise, and how.

A term is a path in the answer (``components[].bytes`` is that key of each of its components), or a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfcalc.core.component import ACTIVE, RUN, STORED
from tfcalc.core.items import Passes
from tfcalc.hardware import CONTEXT
from tfcalc.report.opening import Constant, Rule, ratio, total

RULES: Mapping[str, Mapping[str, tuple[Rule, ...]]] = {
    "params": {
        "non_embedding_params": (total("total_params", less="embedding_params"),),
        "trainable_percent": (
            ratio(Constant(100, "per cent"), "trainable_params", over=("total_params",)),
            ratio("trainable_params", Constant(100, "per cent"), over=("total_params",)),
        ),
        "headroom_params": (total("limit_params", less="total_params"),),
    },
    "flops": {
        "total_flops": (total("forward_flops", "backward_flops", "recompute_flops"),),
        "model_flops": (total("total_flops", less="recompute_flops"),),
        "flops_per_token": (ratio("total_flops", over=("tokens",)),),
        "tokens": (ratio("conventions.batch_size", "conventions.seq_len"), ratio("conventions.batch_size")),
        "exact_flops": (total("model_flops"),),
        "headroom_flops": (total("limit_flops", less="total_flops"),),
        "training_flops": (total("training_forward_flops", "training_backward_flops", "training_recompute_flops"),),
        "training_forward_flops": (ratio("forward_flops", "training_tokens", over=("tokens",)),),
        "training_backward_flops": (ratio("backward_flops", "training_tokens", over=("tokens",)),),
        "training_recompute_flops": (ratio("recompute_flops", "training_tokens", over=("tokens",)),),
        "training_steps": (Rule("floor", ("training_tokens",), ("tokens",)),),
        "training_rest_tokens": (Rule("remainder", ("training_tokens",), ("tokens",)),),
        "pf_days": (ratio("training_flops", over=(Constant(10**15 * 86_400, "FLOPs of a petaFLOP/s-day"),)),),
        "six_nd_flops": (ratio(Constant(6, "of 6ND"), "six_nd_params", "training_tokens"),),
        "six_nd_params": (total("components[].params"),),
        "six_nd_non_embedding_flops": (ratio(Constant(6, "of 6ND"), "six_nd_non_embedding_params", "training_tokens"),),
        "mfu": (ratio("tokens_per_second", "model_flops_per_token", over=("gpus", "peak_flops_per_second")),),
        "hfu": (ratio("tokens_per_second", "hardware_flops_per_token", over=("gpus", "peak_flops_per_second")),),
        "model_flops_per_token": (ratio("model_flops", over=("tokens",)),),
        "hardware_flops_per_token": (ratio("total_flops", over=("tokens",)),),
        "tokens_per_second_per_gpu": (ratio("tokens_per_second", over=("gpus",)),),
    },
    "memory": {
        "total_bytes": (total("weights_bytes", "buffers_bytes"), total("components[].bytes")),
        "weights_bytes": (total("components[].bytes", less="buffers_bytes"),),
        "peak_bytes": (total("components[].bytes"),),
        "headroom_bytes": (total("budget_bytes", less="total_bytes"),),
        "workspaces_bytes": (total("components.workspaces.bytes"),),
        "communication_bytes": (total("components.communication.bytes"),),
        "device_bytes": (total("reserved_bytes", Constant(CONTEXT, "CUDA context")),),
    },
    "overview": {"kv_cache_bytes": (ratio("kv_cache_bytes_per_token", "context"),)},
}
"""Of each command, the rules by which a key follows: the first that gives the number is told."""

ANSWERS: Mapping[str, tuple[str, str]] = {
    "kv_cache_bytes_per_token": ("kv_cache", ""),
    "kv_cache_bytes": ("kv_cache", "kv_cache_bytes"),
    "forward_flops_per_token": ("forward", "flops_per_token"),
    "training_flops_per_token": ("training", "flops_per_token"),
    "serving_bytes": ("serve", "total_bytes"),
    "finetune_full_bytes": ("finetune_full", "total_bytes"),
    "finetune_lora_bytes": ("finetune_lora", "total_bytes"),
    "finetune_qlora_bytes": ("finetune_qlora", "total_bytes"),
    "weights_bytes": ("weights", "total_bytes"),
}
"""Of an overview, the line whose command opens a key, and the key of its answer."""

GIVEN: Mapping[str, str] = {
    "limit_params": "--max",
    "limit_flops": "--max",
    "training_tokens": "--tokens",
    "tokens_per_second": "--tokens-per-second",
    "gpus": "--gpus",
    "peak_flops_per_second": "--peak, or the GPU's data sheet",
    "budget_bytes": "--budget, or the memory of --gpu",
    "margin_percent": "--margin",
    "schema_version": "the format of the JSON",
    "context": "the longest that the model can read",
}
"""What is asked with, and where that is said."""

DIFFERENCE = "the FLOPs of these products, and of those that 6ND counts though nothing runs them"
FOUND: Mapping[str, str] = {
    "reserved_bytes": "PyTorch's caching allocator, simulated on the step's allocations in their order",
    "reserved_low_bytes": "the lower end of what published runs measured over what is simulated",
    "reserved_high_bytes": "the upper end of what published runs measured over what is simulated",
    "allocated_low_bytes": "the peak, less the error of published peaks",
    "allocated_high_bytes": "the peak, more the error of published peaks",
    "device_low_bytes": "reserved_low_bytes and the smallest CUDA context that was measured",
    "device_high_bytes": "reserved_high_bytes and the largest CUDA context that was measured",
    "allocatable_bytes": "what PyTorch can use of the card: its memory less margin, context and rounding",
    "largest_batch_size": "search: it fits, and one more does not",
    "largest_seq_len": "search: the largest round length that fits",
    "largest_seq_len_exact": "search: it fits, and one more token does not",
    "largest_context": "search: the largest round length that fits",
    "largest_context_exact": "search: it fits, and one more token does not",
    "largest_concurrency": "search: it fits, and one more request does not",
    "timeline": "what is live when this phase needs most, on the tape",
    "phases": "what is live when this phase needs most, on the tape",
    "paged_cache": "vLLM's arithmetic of blocks, in the memory that is left",
    "six_nd_difference": DIFFERENCE,
    "six_nd_non_embedding_difference": DIFFERENCE,
    "six_nd_non_embedding_params": "the parameters without embeddings, as scaling laws count them",
    "buffers_bytes": "the numbers that are stored with the model and are no parameters, in 16 bits or more each",
    "facts": "the sizes of the config",
}
"""What is no sum of other numbers: how it is found, by the key or by the first that leads to it."""

TERMS: Mapping[str, str] = {"kv_cache": "cache", "master_weights": "master weights", "buffers": "buffers and inputs"}
"""What the terms of memory are called in the tree, where it is not the name of their key."""


class Fold(NamedTuple):
    """A number that is a sum over the tree: of which items, and of which copies."""

    items: str
    counts: int
    passes: Passes = Passes()


_PARTS = {"forward": Passes(forward=True), "backward": Passes(backward=True), "recompute": Passes(again=True)}
_WHOLE = Passes(forward=True, backward=True, again=True)
FOLDS: Mapping[str, Fold] = {
    "total_params": Fold("stored", STORED),
    "params": Fold("stored", STORED),
    "active_params": Fold("stored", ACTIVE),
    "embedding_params": Fold("embedded", STORED),
    "trainable_params": Fold("trained", STORED),
    "approx_params": Fold("major", STORED),
    "buffer_elements": Fold("buffers", STORED),
    "flops": Fold("work", RUN, _WHOLE),
    **{f"{name}_flops": Fold("work", RUN, passes) for name, passes in _PARTS.items()},
    "matmul_flops": Fold("work", RUN, _WHOLE._replace(elementwise=False)),
    "elementwise_flops": Fold("work", RUN, _WHOLE._replace(products=False)),
    "overcounted_flops": Fold("work", RUN, Passes(overcounted=True, elementwise=False)),
    "bytes": Fold("bytes", STORED),
    "weights_bytes": Fold("weights", STORED),
    "buffers_bytes": Fold("buffer bytes", STORED),
}
"""Of the trees of components: parameters and FLOPs, and the bytes of weights at rest."""
