"""Asks PyTorch what it sends, on a CPU: FSDP2, DDP, and attention whose keys go around a ring.

A program of its own (``python -m tests.placed.torch_distributed``): it reads a case from each line, and writes the
collective operations as a line: name, ranks, bytes, times. Of shards it writes what each rank stores of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.experimental import _attention
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig, AutoModelForCausalLM

from tests.placed.collectives import Sends, rank_of_many

Case = dict[str, Any]


def model_of(case: Case) -> Any:
    """The model, on this CPU."""
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(**case["config"]))


def steps(model: Any, times: int) -> Sends:
    """What micro-batches of 8 tokens send."""
    ids = torch.zeros(1, 8, dtype=torch.int64)
    sends = Sends()
    with sends:
        for _ in range(times):
            model(input_ids=ids, labels=ids).loss.backward()
    return sends


def fully_sharded(case: Case) -> Sends:
    """Each layer by itself, then all else, gathered in bf16 and summed in fp32; in shards that have ``replicas``."""
    shards, replicas = case["dp"], case["replicas"]
    with rank_of_many(shards * replicas):
        names = ("replicate", "shard") if replicas != 1 else ("shard",)
        mesh = init_device_mesh("cpu", (replicas, shards)[-len(names) :], mesh_dim_names=names)
        model = model_of(case)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        how = {"mesh": mesh, "mp_policy": policy}
        again = {} if case["reshards"] else {"reshard_after_forward": False}
        for layer in model.model.layers:
            fully_shard(layer, **how, **again)
        fully_shard(model, **how, **again)
        return steps(model, case["micro_batches"])


def stored(case: Case) -> list[list[int]]:
    """Numbers that each rank has of weights, gradients and AdamW's moments after a step by FSDP2, and of its counters.

    Experts are cut along their second axis, as torchtitan does where there are more ranks than experts.
    """
    shards, replicas = case["dp"], case["replicas"]
    found = []
    for rank in range(shards * replicas):
        with rank_of_many(shards * replicas, rank):
            names = ("replicate", "shard") if replicas != 1 else ("shard",)
            mesh = init_device_mesh("cpu", (replicas, shards)[-len(names) :], mesh_dim_names=names)
            model = model_of(case)
            for layer in model.model.layers:
                if hasattr(layer.mlp, "experts"):
                    fully_shard(layer.mlp.experts, mesh=mesh, shard_placement_fn=lambda _: Shard(1))
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            adam = torch.optim.AdamW(model.parameters())
            ids = torch.zeros(1, 8, dtype=torch.int64)
            model(input_ids=ids, labels=ids).loss.backward()
            adam.step()
            every = list(model.parameters())
            moments = [state[name] for state in adam.state.values() for name in ("exp_avg", "exp_avg_sq")]
            gradients = [each.grad for each in every]
            sizes = [sum(each.to_local().numel() for each in kind) for kind in (every, gradients, moments)]
            found.append([*sizes, len(adam.state)])
    return found


def replicated(case: Case) -> Sends:
    """DDP, whose gradients fit into one bucket; its reducer waits for true processes."""
    with TemporaryDirectory() as folder:
        multiprocessing.spawn(one_of_many, (case, folder), case["dp"])
        sends = Sends()
        for *key, times in json.loads((Path(folder) / "rows").read_text(encoding="utf-8")):
            sends.seen[tuple(key)] += times
        return sends


def one_of_many(rank: int, case: Case, folder: str) -> None:
    """Run as one of these processes; the first one writes what it sent."""
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=case["dp"])
    torch.set_num_threads(1)
    sends = steps(DistributedDataParallel(model_of(case), bucket_cap_mb=1000), 1)
    if rank == 0:
        (Path(folder) / "rows").write_text(json.dumps(sends.rows), encoding="utf-8")
    dist.destroy_process_group()


def attends(query: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Return as many outputs as attention does, and a number of each row."""
    return query * 1.0, torch.zeros(query.shape[:-1])


def gradients(query: Any, key: Any, value: Any, **_: Any) -> tuple[Any, ...]:
    """Return as many gradients as attention has."""
    return query * 1.0, key * 1.0, value * 1.0


def around(case: Case) -> Sends:
    """Ring attention, forward and backward; the kernels are stand-ins."""
    with rank_of_many(case["cp"]):
        b, a, g, s, d = case["batch"], case["heads"], case["groups"], case["seq"] // case["cp"], case["width"]
        q, k, v = (torch.zeros(b, heads, s, d) for heads in (a, g, g))
        _attention.set_rotate_method("alltoall")
        sends = Sends()
        with sends:
            made, lse, *_ = ring._templated_ring_attention(dist.group.WORLD, 2, attends, q, k, v, is_causal=True)
            saved = (made, lse)
            ring._templated_ring_attention_backward(
                dist.group.WORLD, 2, gradients, made, "grad_out", q, k, v, *saved, True
            )
        return sends


ASKED = {"fsdp": fully_sharded, "ddp": replicated, "ring": around}


def main() -> None:
    """Answer each line."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        case = json.loads(line)
        answer = stored(case) if case["what"] == "stored" else ASKED[case["what"]](case).rows
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
