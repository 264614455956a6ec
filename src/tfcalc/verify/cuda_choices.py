"""PyTorch's choices on a CUDA device, made on CPU tensors that need hold no data.

A build without CUDA has no CUDA tensors, fake ones included. Four choices decide what autograd saves, and differ:
which kernel runs attention, the mask that dropout saves, what the logarithm of a sigmoid saves beside its input,
and which operators autocast runs in which type. Here they are put in the place of the CPU's, through the dispatcher,
so that they hold inside PyTorch's own functions, too.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.utils._pytree import tree_map_only

from tfcalc.verify.cuda_autocast import Autocast

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)

FLASH_WIDEST = 256
"""The widest head of the flash kernel."""
MASK_ALIGNMENT = 8
"""Elements to which the rows of a mask are padded for the memory-efficient kernel."""


@contextmanager
def cuda_choices(kernel: str = "auto", *, as_recorded: bool = False) -> Iterator[Counter[str]]:
    """Treat CPU tensors as CUDA's within this context; yields the number of runs of each attention kernel.

    ``kernel`` is what ``scaled_dot_product_attention`` is allowed to run: ``auto`` anything, or ``flash``,
    ``efficient``, ``math`` alone (math also where that one cannot). ``as_recorded`` leaves out three of CUDA's
    choices that the recorded rows do not have: the memory-efficient kernel's masks begin their rows at multiples of 8
    elements, softmax converts bfloat16 before it makes float32 of it (float16 it does not), and LayerNorm's statistics
    are float32 whatever the type.
    """
    ran: Counter[str] = Counter()
    autocast = Autocast()
    forget = torch.clear_autocast_cache

    def forgotten() -> None:
        autocast.forget()
        forget()

    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced is what is meant
            _put(library, "dropout", _dropout, "AutogradCPU")
            _put(library, "log_sigmoid", _LogSigmoid.apply, "AutogradCPU")
            _put(library, "softmax.int", _softmax(HALVES if as_recorded else (torch.float16,)), "AutogradCPU")
            if not as_recorded:
                _put(library, "native_layer_norm", _LayerNorm.apply, "AutogradCPU")
            _put(
                library,
                "scaled_dot_product_attention",
                _attention(kernel, ran, padded_masks=not as_recorded),
                "AutogradCPU",
            )
            for name, run in autocast.kernels():
                _put(library, name, run, "AutocastCPU")
        torch.clear_autocast_cache = forgotten
        yield ran
    finally:
        torch.clear_autocast_cache = forget
        autocast.forget()
        library._destroy()


def _put(library: torch.library.Library, name: str, run: Callable[..., object], key: str) -> None:
    library.impl(name, run, key, allow_override=True)


def _dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """CUDA's: one kernel, which keeps a mask of booleans (``at::dropout``, ``is_fused_kernel_acceptable``)."""
    if not train or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input * torch.zeros((), dtype=input.dtype)
    return aten.native_dropout(input, p, train)[0]


def _softmax(at_once: tuple[torch.dtype, ...]) -> Callable[..., Tensor]:
    """Types that one kernel takes to float32, without a converted copy of the input (``at::softmax``)."""

    def run(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        if dtype == torch.float32 and input.dtype in at_once:
            return aten._softmax(input, dim, True)
        return aten._softmax(input if dtype is None else input.to(dtype), dim, False)

    return run


class _LogSigmoid(torch.autograd.Function):
    """CUDA's: it has no use for the CPU's buffer (``log_sigmoid_forward_cuda``)."""

    @staticmethod
    def forward(ctx: FunctionCtx, input: Tensor) -> Tensor:
        """Saves what it reads."""
        ctx.save_for_backward(input)
        with torch._C._AutoDispatchBelowAutograd():
            made: Tensor = aten.log_sigmoid_forward(input)[0]
        return made

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> Tensor:
        """``log_sigmoid_backward``."""
        (input,) = ctx.saved_tensors
        made: Tensor = aten.log_sigmoid_backward(gradients[0], input, aten.log_sigmoid_forward(input)[1])
        return made


class _LayerNorm(torch.autograd.Function):
    """CUDA's: mean and 1/std are of the type that it accumulates in (``LayerNormKernelImpl``, ``acc_type``)."""

    @staticmethod
    def forward(ctx: FunctionCtx, *given: object) -> tuple[Tensor, Tensor, Tensor]:
        """Saves what PyTorch's own derivative needs."""
        input, shape, weight, bias, eps = given
        with torch._C._AutoDispatchBelowAutograd():
            out, mean, rstd = aten.native_layer_norm(input, shape, weight, bias, eps)
        mean, rstd = (one.float() if one.dtype in HALVES else one for one in (mean, rstd))
        ctx.shape = shape
        ctx.save_for_backward(input, mean, rstd, weight, bias)
        ctx.mark_non_differentiable(mean, rstd)
        return out, mean, rstd

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """``native_layer_norm_backward``."""
        input, mean, rstd, weight, bias = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[place] for place in (0, 2, 3)]
        found = aten.native_layer_norm_backward(gradients[0], input, ctx.shape, mean, rstd, weight, bias, wanted)
        return found[0], None, found[1], found[2], None


def _attention(kernel: str, ran: Counter[str], *, padded_masks: bool) -> Callable[..., Tensor]:
    def run(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        grouped = enable_gqa and query.shape[-3] != key.shape[-3]
        able = kernels(query, key, value, attn_mask, is_causal, grouped)
        chosen = next(one for one in able if kernel in ("auto", one) or one == "math")
        ran[chosen] += 1
        if attn_mask is not None and attn_mask.dtype == torch.bool:  # convert_boolean_attn_mask
            nothing = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = nothing.masked_fill_(attn_mask.logical_not(), float("-inf"))
        if chosen == "flash":
            ran["padded"] += query.shape[-1] % 8 > 0
            return _flash(query, key, value, dropout_p, is_causal, scale)
        if chosen == "efficient":
            if attn_mask is not None and padded_masks:
                attn_mask = _aligned(attn_mask)
            return _efficient(query, key, value, attn_mask, dropout_p, is_causal, scale)
        return _math(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)

    return run


def kernels(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, grouped: bool
) -> Iterator[str]:
    """Kernels that take these tensors on an A100 or later, the preferred first.

    From aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (``can_use_flash_attention``,
    ``can_use_mem_efficient_attention``).
    """
    widths = {tensor.shape[-1] for tensor in (query, key, value)}
    dense = query.dim() == 4 and all(tensor.stride(-1) == 1 and tensor.numel() for tensor in (query, key, value))
    half = query.dtype in HALVES
    square = query.shape[-2] == key.shape[-2] or not causal
    if dense and half and mask is None and square and len(widths) == 1 and max(widths) <= FLASH_WIDEST:
        yield "flash"
    if dense and not grouped and all(width % (8 if half else 4) == 0 for width in widths):
        yield "efficient"
    yield "math"


def _flash(query: Tensor, key: Tensor, value: Tensor, dropout_p: float, is_causal: bool, scale: float | None) -> Tensor:
    width = query.shape[-1]
    scale = width**-0.5 if scale is None else scale
    if width % 8:
        query, key, value = (torch.nn.functional.pad(one, (0, 8 - width % 8)) for one in (query, key, value))
    out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
    return out[..., :width] if width % 8 else out


def _efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    if mask is not None:
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    keeps = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, keeps, dropout_p, is_causal, scale=scale
    )[0]


def _aligned(mask: Tensor) -> Tensor:
    """Its rows begin at multiples of 8 elements (``preprocess_mask``, ``pad_bias``)."""
    if mask.stride(-1) == 1 and all(step % MASK_ALIGNMENT == 0 for step in mask.stride()[:-1]):
        return mask
    width = mask.shape[-1]
    return torch.nn.functional.pad(mask, (0, MASK_ALIGNMENT - width % MASK_ALIGNMENT))[..., :width]


def _math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    grouped: bool,
) -> Tensor:
    """Attention in float32 whatever the type (``_scaled_dot_product_attention_math``)."""
    kind = query.dtype
    if kind in HALVES:
        query, key, value, mask = tree_map_only(torch.Tensor, lambda one: one.float(), (query, key, value, mask))
    out = aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped
    )[0]
    return out.to(kind)
