"""FLOPs by PyTorch's own counter: a config built by transformers, run forward and backward without data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.analysis.common import run_tree
from tfcalc.core.measure import matmul_again_flops, matmul_backward_flops, matmul_flops
from tfcalc.errors import Unavailable
from tfcalc.named_tuple import NamedTuple
from tfcalc.report import exact
from tfcalc.verify.hugging_face import build
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput

    from tfcalc.configs.published import HFModel

AS_COUNTED = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
"""Settings of transformers: the counter sees neither fused attention on meta nor grouped experts."""

TRIES = (("meta", "pairs"), ("meta", "none"), ("cpu", "tokens"), ("cpu", "none"))
"""Device of the run, and its masks (see :func:`tfcalc.verify.inputs.inputs`)."""
DEPTHS = ("decoder_layers", "num_decoder_layers")
"""Fields for the depth of the decoder in models with two stacks."""
MOST_WITH_DATA = 10_000_000
"""Parameters of a model that is built to run with data."""

CACHES = ("past_key_values", "cache_params", "state")
"""Names of caches of keys or states in the outputs of models."""

UNCHECKED = "TRANSFORMERS_DISABLE_TORCH_CHECK"
"""Transformers' variable against checks of data: how many words stand for an image does not change what is counted."""


class CountedFlops(NamedTuple):
    """FLOPs of matrix products; recomputation in backward is part of the backward pass here."""

    forward: int
    backward: int


def ours(model: HFModel, workload: Workload) -> CountedFlops:
    """Tfcalc's count of a training step, or of a forward pass."""
    root = run_tree(model, workload.replaced(experts="all"))
    backward = root.total(matmul_backward_flops) + root.total(matmul_again_flops) if workload.training else 0
    return CountedFlops(exact(root.total(matmul_flops)), exact(backward))


def theirs(model: HFModel, workload: Workload) -> CountedFlops:
    """PyTorch's count of the same. Raises Unavailable where transformers cannot build it, or not run it.

    The backward pass starts from all outputs; dropout follows ``run.dropout``, checkpointing ``run.recompute``. It runs
    without data and with masks that let every pair through; a model that takes no such masks makes its own, and a small
    one that looks at its data (Longformer asks which tokens are global) is given some: zeros.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    os.environ[UNCHECKED] = "1"
    config = model.config | {f"_{name}": how for name, how in AS_COUNTED.items()}
    failed: list[Exception] = []
    for device, masks in TRIES:
        built = build(config, model.architecture, device="meta")
        if device == "cpu":
            if sum(one.numel() for one in built.parameters()) > MOST_WITH_DATA:
                break
            built = build(config, model.architecture, device=device)
        try:
            with warnings.catch_warnings(), torch.device(device), sdpa_kernel(SDPBackend.MATH):
                warnings.simplefilter("ignore")
                return _counted(built, workload, masks)
        except Exception as error:
            failed.append(error)
    first_line = (str(failed[-1]).splitlines() or [""])[0]
    raise Unavailable(f"it does not run without data: {type(failed[-1]).__name__}: {first_line}") from failed[-1]


def _counted(built: PreTrainedModel, run: Workload, masks: str) -> CountedFlops:
    """The FLOPs of what was built."""
    import torch

    from tfcalc.verify.inputs import inputs

    built.train(run.training)
    _prepare(built, run)
    if run.decoding:
        return CountedFlops(_decoded(built, run, masks), 0)
    forward, both = _counter(), _counter()
    given = inputs(built, run, masks)
    with both:
        with forward, torch.set_grad_enabled(run.training):
            out = built(**given)
        if run.training:
            sum(one.float().sum() for one in differentiable(out)).backward()
    first = int(forward.get_total_flops())
    return CountedFlops(first, int(both.get_total_flops()) - first)


class _Whole:
    """Stub of the counter's module tracker, which nobody reads, and which cannot follow Reformer's layers."""

    parents = frozenset({"Global"})

    def __enter__(self) -> None:
        """Do nothing: there is nothing to follow."""

    def __exit__(self, *_: object) -> None:
        """Do nothing: nothing was followed."""


def _counter() -> FlopCounterMode:
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _Whole()
    return counter


def _decoded(built: PreTrainedModel, run: Workload, masks: str = "pairs") -> int:
    """The FLOPs of one more token for each sequence, after all but that were run to fill the cache."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from tfcalc.verify.inputs import inputs

    before = run.replaced(phase="prefill", seq_len=run.target.seen - 1)
    with torch.no_grad():
        cache = _filled(built, inputs(built, before, masks))
        given = inputs(built, run, masks)
        if "past_key_values" not in cache:  # a state has no places that a mask could hide
            given.pop("attention_mask", None)
        with FlopCounterMode(display=False) as counter:
            built(**given | cache | {"use_cache": True})
    return int(counter.get_total_flops())


def _filled(built: PreTrainedModel, given: dict[str, object]) -> dict[str, object]:
    """The cache that these tokens leave, by the argument's name; one made before where a model does not return it.

    What an encoder has read goes with it. Some models with two stacks make a cache for as many layers as the encoder
    has: they are given one that grows.
    """
    from transformers import DynamicCache, EncoderDecoderCache

    given = given | {"use_cache": True}
    if any(hasattr(built.config, depth) for depth in DEPTHS):
        grows, reads = DynamicCache(), built.config.is_encoder_decoder or "encoder_hidden_states" in given
        given["past_key_values"] = EncoderDecoderCache(grows, DynamicCache()) if reads else grows
    out = built(**given)
    for name in CACHES:
        if getattr(out, name, None) is not None:
            return {name: getattr(out, name)} | _memory(out)
    cache = DynamicCache(config=built.config)
    built(**given, past_key_values=cache)
    return {"past_key_values": cache}


def _memory(out: ModelOutput) -> dict[str, object]:
    """Return the encoder's output in place of its input."""
    from transformers.modeling_outputs import BaseModelOutput

    read = getattr(out, "encoder_last_hidden_state", None)
    if read is None:
        return {}
    memory = BaseModelOutput(last_hidden_state=read)
    memory.attention_mask = None  # Moonshine's has one
    return {"encoder_outputs": memory}


def _prepare(built: PreTrainedModel, run: Workload) -> None:
    """Dropout off where it is not wanted, whole layers never dropped; checkpointing of each layer where it is."""
    import torch

    for module in built.modules():
        if hasattr(module, "layerdrop"):
            module.layerdrop = 0.0
    if not run.dropout:
        for module in built.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            for name, value in vars(module).items():
                if "drop" in name and isinstance(value, float):
                    setattr(module, name, 0.0)
    if run.recompute == "full":
        built.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": not run.early_stop})
        if built.main_input_name != "pixel_values":  # patches come of trained weights (and of Swin's, in a tuple)
            built.enable_input_require_grads()


def differentiable(out: ModelOutput) -> Iterator[Tensor]:
    """The outputs that have a gradient, those in lists (of a backbone's stages) among them."""
    for value in out.values():
        for one in value if isinstance(value, list | tuple) else [value]:
            if getattr(one, "grad_fn", None) is not None:
                yield one
