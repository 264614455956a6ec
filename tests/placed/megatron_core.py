"""Asks Megatron-core itself, on a CPU: what a rank holds, and what it sends in a step.

A program of its own (``python -m tests.placed.megatron_core``), as it replaces what torch does with GPUs: it reads a
case from each line, and writes what it found as a line. Process groups are PyTorch's fake ones: one process is any
rank of any number, and nothing is sent; the kernels of attention, which hold and send nothing, are a stand-in.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # fused activations run as they are written

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import multi_latent_attention, torch_norm
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.moe import moe_utils, token_dispatcher
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
from torch.overrides import TorchFunctionMode

from tests.placed.collectives import Sends, rank_of_many

Case = dict[str, Any]


class WithoutGpus(TorchFunctionMode):
    """Makes on the CPU what is asked for on a GPU, or near one."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace the device."""
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "pin_memory"}
        if kwargs.get("device") == "cuda":
            kwargs = kwargs | {"device": "cpu"}
        return func(*args, **kwargs)


def stand_in(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> Any:
    """Return as many outputs as attention does, of which a gradient reaches queries, keys and values."""
    heads = value.repeat_interleave(query.shape[2] // value.shape[2], dim=2)
    touched = query.sum(dim=-1, keepdim=True) + key.sum(dim=-1, keepdim=True).repeat_interleave(
        query.shape[2] // key.shape[2], dim=2
    )
    return (heads + touched).flatten(2)


class Stream:
    """A stream of a GPU that is not there."""

    def __getattr__(self, _: str) -> Callable[..., Stream]:
        return lambda *_, **__: Stream()


def without_gpus() -> None:
    """Replace what Megatron-core asks a GPU for."""
    cuda = torch.cuda
    cuda.current_device = lambda: torch.device("cpu")
    cuda.current_stream = cuda.Stream = cuda.Event = lambda *_, **__: Stream()
    cuda.stream = lambda *_, **__: nullcontext()
    cuda.synchronize = lambda *_: None
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.record_stream = lambda *_: None
    tensor_parallel.random.CudaRNGStatesTracker.fork = lambda *_, **__: nullcontext()
    DotProductAttention.__init__ = lambda self, *_, **__: torch.nn.Module.__init__(self)
    DotProductAttention.forward = stand_in
    moe_utils.te_general_gemm = None  # 0.16 asks for both, which only Transformer Engine defines
    multi_latent_attention.TELinear = ()
    random_states = tensor_parallel.random
    random_states._get_all_rng_states = lambda: ()
    random_states._set_all_rng_states = lambda *_: None
    random_states._fork_rng = nullcontext
    token_dispatcher.maybe_move_tensor_to_cpu = lambda numbers, as_numpy=False, **_: (
        numbers.tolist() if as_numpy and isinstance(numbers, torch.Tensor) else numbers
    )
    made = torch_norm.WrappedTorchNorm.__new__

    def norm(cls: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        """Return torch's norm with the mark of Apex's and Transformer Engine's; it is refused as it has none."""
        shares, config.sequence_parallel = config.sequence_parallel, False
        found = made(cls, config, *args, **kwargs)
        config.sequence_parallel = shares
        for weight in found.parameters():
            weight.sequence_parallel = shares
        return found

    torch_norm.WrappedTorchNorm.__new__ = norm


@contextmanager
def rank_of(layout: Case, stage: int, rank: int = 0) -> Iterator[None]:
    """Be a rank of a stage."""
    of_a_stage = layout["tp"] * layout["cp"] * layout["dp"]
    world = of_a_stage * layout["pp"]
    with rank_of_many(world, stage * of_a_stage + rank):
        parallel_state.initialize_model_parallel(
            layout["tp"],
            layout["pp"],
            layout["vpp"] if layout["vpp"] != 1 else None,
            context_parallel_size=layout["cp"],
            expert_model_parallel_size=layout["ep"],
            expert_tensor_parallel_size=layout["etp"],
            create_gloo_process_groups=False,
        )
        try:
            assert parallel_state.get_pipeline_model_parallel_rank() == stage
            yield
        finally:
            parallel_state.destroy_model_parallel()


ACTIVATIONS = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu}
PLAIN = {
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "bias_activation_fusion": False,
    "masked_softmax_fusion": False,
    "bias_dropout_fusion": False,
    "gradient_accumulation_fusion": False,
    "use_cpu_initialization": True,
    "perform_initialization": False,
    "moe_router_load_balancing_type": "none",
    "moe_aux_loss_coeff": 0.0,
    "moe_token_dispatcher_type": "alltoall",
    "moe_expert_capacity_factor": 1.0,
    "moe_pad_expert_input_to_capacity": True,
    "deallocate_pipeline_outputs": False,
    "batch_p2p_sync": False,
}
"""Without kernels that need a GPU, and without randomness; experts have a balanced load, of which nobody is told."""


def config_of(case: Case, **more: Any) -> Any:
    """The configuration of a case: a model's sizes, and a layout."""
    sizes, layout = case["config"], case["layout"]
    kind = MLATransformerConfig if sizes.get("multi_latent_attention") else TransformerConfig
    ends = {name: value for name, value in layout.items() if "pipeline" in name}
    named = sizes | {"activation_func": ACTIVATIONS[sizes.get("activation_func", "gelu")]}
    return kind(
        tensor_model_parallel_size=layout["tp"],
        pipeline_model_parallel_size=layout["pp"],
        virtual_pipeline_model_parallel_size=layout["vpp"] if layout["vpp"] != 1 else None,
        context_parallel_size=layout["cp"],
        expert_model_parallel_size=layout["ep"],
        expert_tensor_parallel_size=layout["etp"],
        sequence_parallel=case.get("sequence_parallel", False),
        pipeline_dtype=torch.float32,
        params_dtype=torch.float32,
        **PLAIN | ends | named | recomputed(case) | more,
    )


def recomputed(case: Case) -> Case:
    """What backward runs again: whole layers, or modules of them."""
    again = case.get("again")
    if again == ["full"]:
        return {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    return {"recompute_granularity": "selective", "recompute_modules": again} if again else {}


def chunks_of(case: Case, config: Any, stage: int) -> Iterator[Any]:
    """Yield the chunks of a stage."""
    layout, sizes = case["layout"], case["config"]
    last = layout["vpp"] - 1
    for chunk in range(layout["vpp"]):
        at = chunk if last else None
        if last:
            parallel_state.set_virtual_pipeline_model_parallel_rank(chunk)
        if isinstance(sizes.get("moe_layer_freq"), list):
            spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, vp_stage=at)
        else:
            spec = get_gpt_layer_local_spec(
                num_experts=sizes.get("num_moe_experts"),
                moe_grouped_gemm=False,
                qk_layernorm=sizes.get("qk_layernorm", False),
                multi_latent_attention=sizes.get("multi_latent_attention", False),
                normalization=sizes.get("normalization"),
            )
        yield GPTModel(
            config,
            spec,
            padded_words(layout),
            case["positions"],
            pre_process=stage == 0 and chunk == 0,
            post_process=stage == layout["pp"] - 1 and chunk == last,
            share_embeddings_and_output_weights=not layout["untied"],
            position_embedding_type="rope" if "normalization" in sizes else "learned_absolute",
            vp_stage=at,
        )


def padded_words(layout: Case) -> int:
    """Return the rows of a vocabulary table, filled up as Megatron-LM's ``vocab_size_with_padding`` does."""
    multiple = 128 * layout["tp"]
    return int(-(-layout["vocab"] // multiple) * multiple)


def held(case: Case) -> list[Case]:
    """Return what a rank of each stage holds: all parameters, and those of experts."""
    rows = []
    for stage in range(case["layout"]["pp"]):
        with rank_of(case["layout"], stage, case["rank"]), WithoutGpus(), torch.device("meta"):
            sizes = Counter[bool]()
            for chunk in chunks_of(case, config_of(case), stage):
                for name, weight in chunk.named_parameters():
                    sizes[".experts." in name] += weight.numel()
        rows.append({"params": sizes.total(), "expert_params": sizes[True]})
    return rows


def sent(case: Case) -> list[list[Any]]:
    """Return the collective operations of a stage's first rank in a step: name, ranks, bytes, times."""
    layout, length, batch = case["layout"], case["seq"], case["batch"]
    with rank_of(layout, case["stage"]), WithoutGpus():
        config = config_of(case, finalize_model_grads_func=finalize_model_grads)
        data = DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, use_distributed_optimizer=case["zero"] == "1", overlap_grad_reduce=False
        )
        chunks = [DistributedDataParallel(config, data, each) for each in chunks_of(case, config, case["stage"])]
        ids = torch.zeros(batch, length, dtype=torch.int64)
        mask = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1)

        def forward(_: Any, chunk: Any) -> Any:
            """Run one micro-batch; the loss is that of its tokens."""
            return chunk(ids, torch.arange(length).expand(batch, length), mask, labels=ids), lambda made: (
                made.float().mean(),
                {},
            )

        sends = Sends()
        with sends:
            get_forward_backward_func()(
                forward_step_func=forward,
                data_iterator=[iter(())] * len(chunks),
                model=chunks if len(chunks) > 1 else chunks[0],
                num_microbatches=case["micro_batches"],
                seq_length=length,
                micro_batch_size=batch,
                forward_only=False,
            )
            for chunk in chunks:
                if case["zero"] == "1":
                    chunk.start_param_sync(force_sync=True)
    return sends.rows


def saved(case: Case) -> int:
    """Return the bytes that one layer saves for backward, as they are when forward has ended; weights are none."""
    with rank_of(case["layout"], 0), WithoutGpus():
        config = config_of(case, bias_activation_fusion=True)
        (chunk,) = chunks_of(case, config, 0)
        weights = {weight.untyped_storage().data_ptr() for weight in chunk.parameters()}
        kept: list[Any] = []
        length, batch = case["seq"], case["batch"]
        share = length // case["layout"]["tp"] if case.get("sequence_parallel") else length
        x = torch.zeros(share, batch, config.hidden_size, requires_grad=True)

        def keep(made: Any) -> Any:
            kept.append(made)
            return made

        with torch.autograd.graph.saved_tensors_hooks(keep, keep):
            made = chunk.decoder.layers[0](x, attention_mask=None)
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in kept}
        assert made is not None
        return sum(size for place, size in storages.items() if place not in weights)


def main() -> None:
    """Answer each line."""
    without_gpus()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for line in sys.stdin:
        case = json.loads(line)
        asked = held if "rank" in case else sent if "micro_batches" in case else saved
        print(json.dumps(asked(case)), flush=True)


if __name__ == "__main__":
    main()
