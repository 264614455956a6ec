"""One forward and one backward pass of a person's module: what it uses, counts and trains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tfcalc.verify.data_flow import Flow, by_name
from tfcalc.verify.module_inputs import Input, results, stated, ways
from tfcalc.verify.module_load import ModuleRefused, in_a_line, made
from tfcalc.verify.module_trace import Recorder


class ModuleFailed(Exception):
    """Raised where the module cannot be made or run on this device; ``size`` is its parameters, 0 if not made."""

    def __init__(self, message: str, hint: str = "", size: int = 0) -> None:
        self.hint, self.size = hint, size
        super().__init__(message)


def counted(kind: type, request: Mapping[str, Any], given: Mapping[str, object], device: str) -> dict[str, Any]:
    """Tensors, inputs, outputs, FLOPs of the forward pass and gradients of the class that the request names.

    On ``device`` meta nothing is computed and all shapes are known. Raises ModuleFailed.
    """
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.device(device):
        try:
            module: nn.Module = made(kind, request["positional"], request["named"])
        except ModuleRefused as refused:
            raise ModuleFailed(str(refused), refused.hint) from None
        module.eval()
        size = sum(parameter.numel() for parameter in module.parameters())
        inputs, recorder, counter, outputs = _run(module, request, size)
        backward = FlopCounterMode(display=False)
        with backward:
            _backward(outputs)
    return {
        "kind": "module",
        "class": kind.__name__,
        "torch": torch.__version__,
        "device": device,
        "arguments": dict(given),
        "parameters": list(_parameters(module, recorder.flow)),
        "buffers": [{"name": name, "shape": list(one.shape)} for name, one in module.named_buffers()],
        "inputs": [{"name": one.name, "shape": list(one.shape), "kind": one.kind} for one in inputs],
        "outputs": [{"name": name, "shape": list(one.shape)} for name, one in outputs],
        "forward_flops": int(counter.get_total_flops()),
        "backward_flops": int(backward.get_total_flops()),
        "flops_by_module": _by_module(module, counter),
        "step": _step(kind, request, inputs) if request["of"] == "memory" else None,
    }


def _step(kind: type, request: Mapping[str, Any], inputs: list[Input]) -> dict[str, Any]:
    """The memory of a training step. Raises ModuleRefused where none runs without data."""
    from tfcalc.verify.module_step import step_of  # not every build of PyTorch has its tracker

    try:
        return step_of(kind, request, inputs)
    except (Exception, SystemExit) as error:
        raise ModuleRefused(
            f"no training step of {kind.__name__} runs without data: {in_a_line(error)}",
            "forward must not look at values (.item(), if x > 0); its parameters and FLOPs can be asked for",
        ) from error


def _by_module(module: nn.Module, counter: FlopCounterMode) -> list[dict[str, Any]]:
    """FLOPs of the forward pass of each module itself, without those of modules that it calls.

    All are the whole's own where a module is called from elsewhere than where it is.
    """
    counts = counter.get_flop_counts()
    whole = type(module).__name__
    total = int(counter.get_total_flops())
    each = {name: int(sum(counts.get(f"{whole}.{name}", {}).values())) for name, _ in module.named_modules() if name}
    own = {"": total, **{name: flops for name, flops in each.items() if flops}}  # a list of modules is not called
    for name in list(own):
        if name:
            within = name.rpartition(".")[0]
            while within not in own:
                within = within.rpartition(".")[0]
            own[within] -= each[name]
    if min(own.values()) < 0:
        own = {"": total}
    return [{"name": name, "flops": flops} for name, flops in own.items() if flops]


def _run(
    module: nn.Module, request: Mapping[str, Any], size: int
) -> tuple[list[Input], Recorder, FlopCounterMode, list[tuple[str, Tensor]]]:
    """The first of the ways to call it that works. Raises ModuleFailed with what the likeliest one raised."""
    asked = request["inputs"]
    tries: Iterable[list[Input]] = (
        [stated(module, [(tuple(shape), kind) for shape, kind in asked])]
        if asked
        else ways(module, request["batch"], request["seq"], request["width"])
    )
    first = ""
    for inputs in tries:
        tensors = [one.tensor() for one in inputs]
        counter = FlopCounterMode(display=False)
        recorder = Recorder(module, [one for one in tensors if one is not None])
        try:
            with sdpa_kernel(SDPBackend.MATH), recorder, counter:
                result = module(*tensors)
        except (Exception, SystemExit) as error:
            called = ", ".join(f"{one.name} {'×'.join(map(str, one.shape)) or 'None'}" for one in inputs)
            first = first or f"{type(module).__name__}.forward({called}) raises {in_a_line(error)}"
            continue
        outputs = list(results(result))
        if not outputs and hasattr(result, "items"):
            outputs = list(results(dict(result.items())))
        if not outputs:
            raise ModuleFailed(f"{type(module).__name__}.forward returns no tensor", size=size)
        return inputs, recorder, counter, outputs
    raise ModuleFailed(first, "give shapes: --inputs 2x5x512,2x5x512 (2x5:ids for token ids, none)", size)


def _backward(outputs: Iterable[tuple[str, Tensor]]) -> None:
    """Loss: the sum of all outputs, as training may use any of them."""
    losses = [one.float().sum() for _, one in outputs if one.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()


def _parameters(module: nn.Module, flow: Flow) -> Iterable[dict[str, Any]]:
    """Yield each parameter once: a tied one under its first name."""
    uses = flow.uses()
    for name, parameter in module.named_parameters():
        own = [{"role": use.role, "place": [list(place) for place in use.place]} for use in uses.get(name, ())]
        guess = by_name(name, parameter.dim())
        yield {
            "name": name,
            "shape": list(parameter.shape),
            "trained": parameter.requires_grad,
            "gradient": parameter.grad is not None,
            "uses": own or ([{"role": guess, "place": []}] if guess else []),
            "used": bool(own),
        }
