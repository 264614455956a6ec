"""CUDA's autocast for CPU tensors: its lists of operators, and what becomes of their arguments.

The lists are those of ATen/autocast_mode.h (a test compares them with what PyTorch registers for CUDA).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves, tree_map_only

aten = torch.ops.aten

Kernel = Callable[..., object]
Given = TypeVar("Given")

LOWER_PRECISION = [
    "_convolution",
    "_convolution.deprecated",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "prelu",
    "addmm",
    "addmv",
    "addr",
    "matmul",
    "einsum",
    "mm",
    "mv",
    "linalg_vecdot",
    "linear",
    "addbmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "linalg_multi_dot",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "_scaled_dot_product_flash_attention",
    "scaled_dot_product_attention",
]
"""Run in the lower precision."""

FLOAT32 = [
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "rms_norm",
    "group_norm",
    "frobenius_norm.dim",
    "nuclear_norm",
    "nuclear_norm.dim",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "upsample_nearest1d",
    "_upsample_nearest_exact1d",
    "upsample_nearest2d",
    "_upsample_nearest_exact2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "_upsample_bilinear2d_aa",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
]
"""Run in float32."""

FLOAT32_OUT = [
    "prod",
    "prod.dim_int",
    "softmax.int",
    "log_softmax.int",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "sum",
    "sum.dim_IntList",
]
"""Asked for float32 where the caller asks for no type (so cross-entropy, which asks for its own, is in 16 bits)."""

NORMS = ["norm.Scalar", "norm.ScalarOpt_dim"]
"""Asked for float32 by another signature."""

PROMOTED = [
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
]
"""Run in the widest type of their arguments."""


class Autocast:
    """The kernels, and the copies of weights that the region holds until it ends."""

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Tensor, Tensor]] = {}

    def forget(self) -> None:
        """Let go of the copies, as at the end of the outermost region."""
        self.copies.clear()

    def kernels(self) -> Iterator[tuple[str, Kernel]]:
        """Replacements of the operators in the lists; the CPU's others have none."""
        policies = [
            *((name, self._in_lower_precision) for name in LOWER_PRECISION),
            *((name, self._in_float32) for name in (*FLOAT32, *NORMS)),
            *((name, self._asked_for_float32) for name in FLOAT32_OUT),
            *((name, self._in_the_widest) for name in PROMOTED),
        ]
        for name, policy in policies:
            yield name, policy(_operator(name))
        for name in registered("AutocastCPU") - {name for name, _ in policies}:
            yield name, torch.library.fallthrough_kernel

    def _in_lower_precision(self, operator: OpOverload) -> Kernel:
        def run(*args: object, **kwargs: object) -> object:
            return _outside(operator, *self._cast((args, kwargs), torch.get_autocast_dtype("cpu")))

        return run

    def _in_float32(self, operator: OpOverload) -> Kernel:
        def run(*args: object, **kwargs: object) -> object:
            return _outside(operator, *self._cast((args, kwargs), torch.float32))

        return run

    def _in_the_widest(self, operator: OpOverload) -> Kernel:
        def run(*args: object, **kwargs: object) -> object:
            wide = any(one.dtype == torch.float32 for one in tree_leaves((args, kwargs)) if _eligible(one))
            kind = torch.float32 if wide else torch.get_autocast_dtype("cpu")
            return _outside(operator, *self._cast((args, kwargs), kind))

        return run

    def _asked_for_float32(self, operator: OpOverload) -> Kernel:
        place = [argument.name for argument in operator._schema.arguments].index("dtype")

        def run(*args: object, **kwargs: object) -> object:
            asked = args[place] if len(args) > place else kwargs.get("dtype")
            if asked is None and _eligible(args[0]):
                args, kwargs = args[:place], kwargs | {"dtype": torch.float32}
            return _outside(operator, args, kwargs)

        return run

    def _cast(self, given: Given, kind: torch.dtype) -> Given:
        cast: Given = tree_map_only(torch.Tensor, lambda one: self._copy(one, kind), given)
        return cast

    def _copy(self, tensor: Tensor, kind: torch.dtype) -> Tensor:
        """``cached_cast``: a weight is cast once in a region, anything else each time."""
        if not _eligible(tensor) or tensor.dtype == kind:
            return tensor
        weight = tensor.dtype == torch.float32 and tensor.requires_grad and tensor.is_leaf and tensor._base is None
        if not (weight and kind == torch.get_autocast_dtype("cpu") and torch.is_autocast_cache_enabled()):
            return tensor.to(kind)
        if id(tensor) not in self.copies:
            self.copies[id(tensor)] = (tensor, tensor.to(kind))
        return self.copies[id(tensor)][1]


def registered(key: str) -> set[str]:
    """The operators of aten with a kernel of their own at this dispatch key."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return {name.removeprefix("aten::") for name in names if has(name, key)}


def _operator(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _eligible(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _outside(operator: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run where autocast does not see what the operator is made of."""
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
        return operator(*args, **kwargs)
