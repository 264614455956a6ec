"""The definitions that a number was made by, as they stand in every answer: for programs, and in words."""

from __future__ import annotations

from typing import Any

from tfcalc.conventions import DTYPES, Definitions
from tfcalc.workload import Workload

PARAMETERS = "unique trainable tensors, a tied matrix once, buffers apart"
OPERATIONS = {"matmul": "matrix products only", "all": "matrix products and elementwise work"}
PAIRS = {
    "full": "every query with every key, masked or not",
    "causal": "causal attention counts l(l+1)/2 pairs",
    "causal-half": "causal attention counts l²/2 pairs",
}
BACKWARD = {
    False: "each product twice again, the inputs' gradients included",
    True: "each product twice again and Q Kᵀ once more, the inputs' gradients included",
}
TIME = "all operations and lookups of one sequence, constant factors dropped, a ≤ h"
PACKING = "each tensor padded to whole bytes, no scales"
BUFFERS = "as the weights, 16 bits at least"
NOT_COUNTED = "gradients, optimizer, activations, cache, allocator rounding, CUDA context"


def for_programs(of: str, run: Workload, by: Definitions) -> dict[str, Any]:
    """``conventions`` of the JSON."""
    match of:
        case "params":
            return {
                "parameters": PARAMETERS,
                "embedding_params": "token and position embeddings, the output head not among them",
                "component_flops": f"matrix products of a forward pass of {run.batch_size} x {run.seq_len} tokens",
            }
        case "flops":
            return {
                "batch_size": run.batch_size,
                "seq_len": run.seq_len,
                "source_len": run.source.length,
                "phase": run.phase,
                "tokens": "the target's",
                "multiply_add": 2,
                "count": by.count,
                "operations": OPERATIONS[by.count],
                "attention": run.attention,
                "attention_pairs": PAIRS[run.attention],
                "attention_kernel": run.kernel,
                "backward": BACKWARD[run.recomputes_scores] if run.training else "none",
                "recomputation": "none",
                "embedding_lookup": 0,
            }
        case "memory":
            return {
                "phase": "at rest: nothing runs",
                "dtype": by.dtype,
                "bits_per_weight": DTYPES[by.dtype],
                "buffers": BUFFERS,
                "packing": PACKING,
                "units": by.units,
                "not_counted": NOT_COUNTED,
            }
        case _:
            return {"time": TIME}


def in_words(of: str, run: Workload, by: Definitions, *, sizes: bool = True) -> list[str]:
    """The footer; a closed form leaves out the ``sizes`` of the workload."""
    match of:
        case "params":
            return [f"counted: {PARAMETERS}"]
        case "flops":
            source = "" if run.source_len is None else f", source of {run.source.length:,}"
            workload = f"{run.batch_size:,} x {run.seq_len:,} tokens{source}; " if sizes else ""
            backward = f"; backward: {BACKWARD[run.recomputes_scores]}" if run.training else ""
            phase = "training step" if run.training else "forward pass"
            pairs = f"attention {run.attention}: {PAIRS[run.attention]}"
            return [f"{workload}{phase}; multiply-add = 2 FLOPs; {OPERATIONS[by.count]}; {pairs}{backward}"]
        case "memory":
            weights = f"{by.dtype}, {DTYPES[by.dtype]} bits a weight, {PACKING}; buffers {BUFFERS}"
            return [weights, f"not counted: {NOT_COUNTED}"]
        case _:
            return [TIME]
