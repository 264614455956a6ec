"""Live: a step whose layers keep every other product and attention, as torchtitan asks of PyTorch's checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from tests.verify.peaks import Bytes, from_now, most, now
from tfcalc import Workload, memory
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training

pytestmark = pytest.mark.torch

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 224,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "tie_word_embeddings": False,
}
BATCH, LENGTH = 2, 96
ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def contexts() -> Any:
    """Those of a layer."""
    products = {True: 0, False: 0}

    def policy(ctx: Any, operation: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        first = False
        if operation == torch.ops.aten.mm.default:
            products[ctx.is_recompute] += 1
            first = products[ctx.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if first or operation == ATTENTION else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def tracked() -> dict[str, Bytes]:
    """What PyTorch holds after forward, and at most within each phase."""
    from transformers import LlamaConfig, LlamaForCausalLM

    fields = {name: value for name, value in CONFIG.items() if name not in ("model_type", "architectures")}
    model = LlamaForCausalLM(LlamaConfig(**fields, use_cache=False, attn_implementation="sdpa")).bfloat16().train()
    for place, layer in enumerate(model.model.layers):
        model.model.layers[place] = checkpoint_wrapper(layer, context_fn=contexts, preserve_rng_state=False)
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    tracker = MemTracker()
    tracker.track_external(model, ids)
    with tracker:
        start = now(tracker)
        from_now(tracker)
        loss = model(input_ids=ids, labels=ids).loss
        found = {"start": start, "saved": now(tracker), "forward": most(tracker)}
        from_now(tracker)
        loss.backward()
        found["backward"] = most(tracker)
    return found


def test_what_is_kept_and_most_is_what_pytorch_has() -> None:
    run = Workload(phase="train", batch_size=BATCH, seq_len=LENGTH, kernel="flash", recompute="selective-op")
    ours = memory(HFModel(CONFIG), run, training=Training(precision="bf16", optimizer="none", device="recorded"))
    theirs = tracked()
    saved = theirs["saved"]["Total"] - theirs["start"]["Total"]
    phases = {phase["phase"]: phase["peak_bytes"] for phase in ours.more["timeline"]}
    assert ours.totals["activations_bytes"] == pytest.approx(saved, rel=0.01)
    # flash attention on a CPU keeps no state of random numbers
    assert max(phases["forward"], phases["loss"]) == pytest.approx(theirs["forward"]["Total"], rel=1e-4)
    assert phases["backward"] == pytest.approx(theirs["backward"]["Total"], rel=1e-4)
