"""The most memory a step of FSDP2 needs, by PyTorch's FSDPMemTracker: one of N processes that need not be there.

``python -m tests.verify.fsdp_peaks`` writes the rows of ``tests/oracle/memory/fsdp.jsonl``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.verify.peaks import Bytes, from_now, most

POLICIES = {
    "fp32": MixedPrecisionPolicy(),
    "bf16": MixedPrecisionPolicy(),
    "bf16-fsdp": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
}
WEIGHTS = {"bf16": torch.bfloat16}


class Case(NamedTuple):
    """A small Llama, the run, and over how many devices it is shared in which precision."""

    layers: int = 4
    vocab: int = 96
    width: int = 64
    seq: int = 32
    batch: int = 2
    devices: int = 4
    precision: str = "bf16-fsdp"
    checkpointing: bool = False
    micro_batches: int = 1

    @property
    def config(self) -> dict[str, Any]:
        """As it is published."""
        return {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": self.vocab,
            "hidden_size": self.width,
            "intermediate_size": 3 * self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": self.width // 4,
            "tie_word_embeddings": False,
        }


CASES = (
    Case(),
    Case(precision="fp32"),
    Case(precision="bf16"),
    Case(layers=9, width=128, seq=16),
    Case(layers=9, width=128, seq=16, precision="fp32", devices=8),
    Case(layers=9, width=128, seq=16, precision="bf16", devices=16),
    Case(layers=9, width=128, seq=64, checkpointing=True),
    Case(vocab=3000, seq=64),
    Case(vocab=3000, seq=64, checkpointing=True, devices=16),
    Case(layers=9, width=128, seq=16, micro_batches=2),
)


@contextmanager
def one_of(devices: int) -> Iterator[None]:
    """As the first of so many processes, whose messages go nowhere."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=devices)
    try:
        yield
    finally:
        dist.destroy_process_group()


def fsdp_peaks(case: Case) -> dict[str, Bytes]:
    """The highest moments of forward, backward and the optimizer's step, of the last micro-batch of the second step."""
    from transformers import LlamaConfig, LlamaForCausalLM

    fields = {name: value for name, value in case.config.items() if name not in ("model_type", "architectures")}
    with one_of(case.devices):
        config = LlamaConfig(**fields, use_cache=False, attn_implementation="eager")
        model = LlamaForCausalLM(config).to(WEIGHTS.get(case.precision, torch.float32)).train()
        if case.checkpointing:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # it is to have another name
                model.gradient_checkpointing_enable({"use_reentrant": False})
        mesh, policy = init_device_mesh("cpu", (case.devices,)), POLICIES[case.precision]
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        steps = torch.optim.AdamW(model.parameters(), foreach=True)
        ids = torch.zeros(case.batch, case.seq, dtype=torch.long)
        tracker = FSDPMemTracker(model, steps)
        tracker.track_inputs((ids,))
        found: dict[str, Bytes] = {}
        with tracker:
            for _ in range(2):
                for _ in range(case.micro_batches):
                    tracker.reset_mod_stats()
                    from_now(tracker)
                    loss = model(input_ids=ids, labels=ids).loss
                    found["forward"] = most(tracker)
                    from_now(tracker)
                    loss.backward()
                    del loss
                    found["backward"] = most(tracker)
                from_now(tracker)
                steps.step()
                found["step"] = most(tracker)
                steps.zero_grad()
    return found


def rows() -> Iterator[Mapping[str, Any]]:
    """Each case, and the peaks of its phases."""
    for case in CASES:
        yield {**case._asdict(), "torch": torch.__version__, "peaks": fsdp_peaks(case)}


if __name__ == "__main__":
    with open("tests/oracle/memory/fsdp.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows())
