"""Asks PyTorch's FSDPMemTracker what is live at the peak of a micro-batch of FSDP2: one of 8 GPUs, without the others.

A program of its own (``python -m tests.timing.fsdp_memory CASES``, as JSON), which writes the bytes of each case.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
"""Of a small Llama."""
MICRO_BATCHES, SEEN = 4, 2


def peak(case: dict[str, Any]) -> int:
    """Bytes of the third micro-batch in the second step; in a ``pipeline`` gradients are summed up until the last."""
    import torch
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.verify.fsdp_peaks import POLICIES, one_of
    from tests.verify.peaks import from_now, most

    torch.set_num_threads(1)
    found = 0
    with one_of(8):
        sizes = SIZES | {name: case[name] for name in ("vocab_size", "tie_word_embeddings")}
        model = LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False, attn_implementation="eager")).train()
        shape = (8,) if case["replicas"] == 1 else (case["replicas"], 8 // case["replicas"])
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
        how = {"mesh": mesh, "mp_policy": POLICIES["bf16-fsdp"]}
        more = {} if case["zero"] == 3 else {"reshard_after_forward": False}
        for layer in model.model.layers:
            fully_shard(layer, **how, **more)
        fully_shard(model, **how, **more)
        steps, ids = torch.optim.AdamW(model.parameters(), foreach=True), torch.zeros(1, 2, dtype=torch.long)
        tracker = FSDPMemTracker(model, steps)
        tracker.track_inputs((ids,))
        with tracker:
            for _ in range(2):
                for place in range(MICRO_BATCHES):
                    if case["pipeline"]:  # as torch.distributed.pipelining asks for it
                        last = place == MICRO_BATCHES - 1
                        model.set_is_last_backward(last)
                        model.set_requires_gradient_sync(last)
                        model.set_reshard_after_backward(last)
                    tracker.reset_mod_stats()
                    loss = model(input_ids=ids, labels=ids).loss
                    from_now(tracker)
                    loss.backward()
                    del loss
                    found = most(tracker)["Total"] if place == SEEN else found
                steps.step()
                steps.zero_grad()
    return found


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps([peak(case) for case in json.loads(sys.argv[1])]))
