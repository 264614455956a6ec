"""Live: what one of four devices holds of a small Llama that DTensor shares as torchtitan asks for it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from tests.verify.fsdp_peaks import one_of
from tests.verify.peaks import from_now, most, now
from tfcalc import Workload
from tfcalc.backends.program import Code
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training
from tfcalc.tape.interpreter import Numerics
from tfcalc.training.plan_checks import piece_of
from tfcalc.training.step import Trainer, step

pytestmark = pytest.mark.torch

CONFIG = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "tie_word_embeddings": False,
}
DEVICES, BATCH, LENGTH = 4, 2, 64
ALL, OWN = Replicate(), Shard(1)
LAYER = {
    "input_layernorm": SequenceParallel(),
    "self_attn": PrepareModuleInput(
        input_kwarg_layouts={"hidden_states": OWN}, desired_input_kwarg_layouts={"hidden_states": ALL}
    ),
    **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "self_attn.o_proj": RowwiseParallel(output_layouts=OWN),
    "post_attention_layernorm": SequenceParallel(),
    "mlp": PrepareModuleInput(input_layouts=(OWN,), desired_input_layouts=(ALL,)),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(output_layouts=OWN),
}
"""torchtitan's ``apply_tp``, by transformers' names."""
AROUND = {
    "model.embed_tokens": RowwiseParallel(input_layouts=ALL, output_layouts=OWN),
    "model.norm": SequenceParallel(),
    "lm_head": ColwiseParallel(input_layouts=OWN, output_layouts=Shard(-1), use_local_output=False),
}


def theirs() -> dict[str, int]:
    """Bytes beside the weights: after forward, and at most within each phase."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with one_of(DEVICES), loss_parallel():
        mesh = init_device_mesh("cpu", (DEVICES,))
        config: Any = LlamaConfig(**CONFIG, use_cache=False, attn_implementation="eager")
        model = LlamaForCausalLM(config).bfloat16().train()
        for layer in model.model.layers:
            parallelize_module(layer, mesh, LAYER)
        parallelize_module(model, mesh, AROUND)
        ids, places = torch.zeros(BATCH, LENGTH, dtype=torch.long), torch.arange(LENGTH)[None]
        mask = torch.zeros(1, 1, LENGTH, LENGTH, dtype=torch.bfloat16)
        tracker = MemTracker()
        tracker.track_external(model, ids)
        with tracker:
            before = now(tracker)["Total"]
            from_now(tracker)
            x = model.model(input_ids=ids, position_ids=places, attention_mask=mask).last_hidden_state
            logits = model.lm_head(x)
            del x
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
            del logits
            found = {"saved": now(tracker)["Total"], "forward": most(tracker)["Total"]}
            from_now(tracker)
            loss.backward()
            found["backward"] = most(tracker)["Total"]
    return {name: size - before for name, size in found.items()}


def test_a_device_holds_what_dtensor_holds() -> None:
    run = Workload(phase="train", recompute="none", batch_size=BATCH, seq_len=LENGTH, kernel="eager")
    plan = Training(tensor_parallel=DEVICES, sequence_parallel=True)
    model = piece_of(HFModel({"model_type": "llama", **CONFIG}), run, plan)
    formats = Numerics("bfloat16", aligned_masks=False, traced=True)
    ran = step(model.tree(run), model, run, formats, Code("transformers"), Trainer())
    tracked = theirs()
    assert ran.saved == pytest.approx(tracked["saved"], rel=0.005)
    forward = max(ran.phases[phase].total for phase in ("forward", "loss"))
    assert forward == pytest.approx(tracked["forward"], rel=0.005)
    assert ran.phases["backward"].total == pytest.approx(tracked["backward"], rel=0.005)
