"""Operations on rows: norms, softmax and the loss of a training step; and lookups of rows in tables."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.elementwise import pointwise, power, shifted
from tfcalc.ops.work import CROSS_ENTROPY, FURTHER_NORMS, NORMS
from tfcalc.tape.tensor import Call, Leaf, Tensor


def norm(kind: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, code: Callable[[], Tensor]) -> Tensor:
    """``(x − mean) / std · γ + β`` (LayerNorm) or ``x / rms · γ`` (RMSNorm) of each row; ``code`` is a library's.

    ====================  =======================================================================
    parameters            LayerNorm ``2h``; without bias, or RMSNorm: ``h``
    matrix products       none
    elementwise FLOPs     7, 6 or 4 per element; backward 13, 12 or 9 (per-row scalars neglected)
    ====================  =======================================================================

    Source: Ba et al. 2016 (arXiv 1607.06450), eq. 4; Zhang and Sennrich 2019 (arXiv 1910.07467), eq. 4.
    """
    _, forward, backward = (NORMS | FURTHER_NORMS)[kind]
    work = (Elementwise(kind, x.elements, forward, backward),)
    call = Call(kind, (x, weight, bias), x.shape, x.dtype, elementwise=work, saves=(x,), saves_result=True)
    return x.trace.composite(call, code)


def mean(x: Tensor) -> Tensor:
    """Average each row: saves nothing."""
    return x.trace.call(Call("mean", (x,), (*x.shape[:-1], 1), x.dtype))


def mean_of_rows(x: Tensor) -> Tensor:
    """Average the vectors of each sequence: saves nothing."""
    return x.trace.call(Call("mean", (x,), (x.shape[0], x.width), x.dtype))


def highest(x: Tensor) -> Tensor:
    """Take the maximum of each row: saves its index (torch.max)."""
    places = x.trace.new(x.shape[:-1], "int64", "places of the largest")
    return x.trace.call(Call("max", (x,), x.shape[:-1], x.dtype, saves=(places,)))


def inverse_rms(x: Tensor) -> Tensor:
    """Compute 1/rms of each row by single kernels: saves the squares' input, and the result."""
    return pointwise("rsqrt", shifted(mean(power(x)), "+ ε"))


def row_norm(x: Tensor) -> Tensor:
    """Compute the norm of each row, in fp32 under autocast: saves its input and its result."""
    dtype = x.trace.upper_format(x.dtype)
    return x.trace.call(Call("linalg_vector_norm", (x,), (*x.shape[:-1], 1), dtype, saves=(x,), saves_result=True))


def whole_sum(x: Tensor, dtype: str) -> Tensor:
    """Sum all elements, in this format: saves nothing."""
    return x.trace.call(Call("sum", (x,), (), dtype))


def softmax(x: Tensor, dtype: str | None = None) -> Tensor:
    """Softmax of each row: saves its result, which is in ``dtype``, or in fp32 under autocast.

    CUDA's kernel converts fp16 to fp32 as it reads it; bf16 is copied first (``softmax`` in torch's
    aten/src/ATen/native/SoftMax.cpp). Its backward begins with the product of gradient and result, a temporary buffer
    (``softmax_backward_cuda_out`` in cuda/SoftMax.cu); that of log-softmax does not.
    """
    trace, dtype = x.trace, dtype or x.trace.upper_format(x.dtype)
    if trace.cuda and x.dtype == "bfloat16":
        x = trace.to(x, dtype)
    scratch = x.elements * WIDTHS[dtype] if trace.cuda else 0
    call = Call("softmax", (x,), x.shape, dtype, saves_result=True, scratch=scratch, kernels=("_softmax",))
    return trace.call(call)


def log_sum_exp(x: Tensor) -> Tensor:
    """Log-sum-exp of each row: saves its input and its result."""
    return x.trace.call(Call("logsumexp", (x,), (*x.shape[:-1], 1), x.dtype, saves=(x,), saves_result=True))


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """torch.nn.functional.layer_norm: saves its input, and each row's mean and 1/std."""
    trace = x.trace
    x = trace.upper(x)
    weight = None if weight is None else trace.upper(weight)
    bias = None if bias is None else trace.upper(bias)
    dtype = trace.statistics(x.dtype)
    mean, deviation = (trace.new((*x.shape[:-1], 1), dtype, name) for name in ("mean", "1/std"))
    affine = tuple(vector for vector in (weight, bias) if vector is not None)
    call = Call("layer_norm", (x, weight, bias), x.shape, x.dtype, saves=(x, mean, deviation, *affine))
    return trace.call(call._replace(kernels=("native_layer_norm",)))


def cross_entropy(logits: Tensor, name: str, code: Callable[[], Tensor] | None = None) -> Tensor:
    """``−log softmax(logits)[next token]``: no parameters, no matrix product; ``code`` runs a library's kernels.

    ====================  =======================================================================
    elementwise FLOPs     5 per logit; backward 2 (operations per token are neglected)
    ====================  =======================================================================

    Source: torch.nn.functional.cross_entropy: log_softmax and nll_loss, and their backward ``softmax − onehot``.
    """
    work = (Elementwise("cross-entropy", logits.elements, *CROSS_ENTROPY),)
    call = Call("cross_entropy", (logits,), (), logits.dtype, elementwise=work, leaf=Leaf(name, "loss"))
    call = call._replace(saves_result=True)
    return logits.trace.call(call) if code is None else logits.trace.composite(call, code)


def nll_of_softmax(logits: Tensor, targets: Tensor) -> Tensor:
    """torch.nn.functional.cross_entropy: saves the log-softmax, the targets, and their number.

    The log-softmax has the logits' own format; under autocast nll_loss reads, and saves, a copy in fp32 (torch's
    cross_entropy_loss and nll_loss).
    """
    trace = logits.trace
    logarithms = trace.upper(pointwise("log_softmax", logits))
    weight = trace.new((1,), logarithms.dtype, "number of targets")
    call = Call("nll_loss", (logarithms,), (), logarithms.dtype, saves=(logarithms, targets, weight))
    return trace.call(call._replace(kernels=("nll_loss_forward",)))


def compiled_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the loss as torch.compile does: saves the logits in their own format, each row's maximum and log-sum-exp.

    Copies in fp32 and the softmax exist within kernels alone, and are recomputed in backward.

    Source: torch's min_cut_rematerialization_partition, run on cross_entropy (tests/verify/test_compiled_layers.py).
    """
    trace = logits.trace
    of_rows = (trace.new((logits.rows, 1), "float32", name) for name in ("highest logit", "log-sum-exp"))
    return trace.call(Call("cross_entropy", (logits,), (), "float32", saves=(logits, targets, *of_rows)))


def embedding(table: Tensor, places: Tensor) -> Tensor:
    """``x = E[token]`` with E of shape rows × width.

    ====================  =======================================================================
    parameters            ``V·h``
    FLOPs                 0: a lookup copies a row (never 2·V·h, which is the output head)
    lookups               ``t``, one row per token
    elementwise backward  ``t·h``: each token's gradient is added to its row
    saved for backward    the tokens; the gradient is as large as the table
    ====================  =======================================================================

    Source: torch.nn.Embedding.
    """
    width = table.shape[-1]
    work = (Elementwise("gradient of E", places.elements * width, forward=0, backward=1),)
    shape = (*places.shape, width)
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=places.elements, saves=(places,))
    return table.trace.call(call._replace(reads=_fetched(table, places)))


def _fetched(table: Tensor, places: Tensor) -> Num:
    """Bytes that a lookup reads: a row for each place, and the index."""
    return places.elements * (table.shape[-1] * WIDTHS[table.dtype] + WIDTHS[places.dtype])


def position(table: Tensor, places: Tensor, tokens: Num) -> Tensor:
    """``P[i]``, which is added to x: one lookup and h additions per token, and h for P's gradient.

    P has T trained rows. The result is as long as ``places``, which are saved for backward.

    Source: Gehring et al. 2017 (arXiv 1705.03122), section 3.1; BERT and GPT-2.
    """
    width = table.shape[-1]
    work = (Elementwise("+ P (trained)", tokens * width, forward=1, backward=1),)
    shape = (*places.shape, width)
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=tokens, saves=(places,))
    return table.trace.call(call._replace(reads=_fetched(table, places)))


def spread(table: Tensor, places: Tensor, added: Num) -> Tensor:
    """Look up rows that are each added to many vectors: ``added`` additions, and as many for the gradient.

    The indices are saved. Source: transformers' MllamaPrecomputedAspectRatioEmbedding.
    """
    work = (Elementwise("+ P (trained)", added, forward=1, backward=1),)
    shape = (*places.shape, table.shape[-1])
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=places.elements, saves=(places,))
    return table.trace.call(call._replace(reads=_fetched(table, places)))


def sines(places: Tensor, width: Num, tokens: Num, dtype: str) -> Tensor:
    """``P[i]`` of fixed sines and cosines, which is added to x: h additions per token.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """
    work = (Elementwise("+ P (fixed)", tokens * width, forward=1, backward=0),)
    return places.trace.call(Call("index", (), (*places.shape, width), dtype, elementwise=work, lookups=tokens))


def looked_up(table: Tensor, places: Tensor) -> Tensor:
    """Look up so few rows that their work is not counted; the indices are saved."""
    shape = (*places.shape, table.shape[-1])
    return table.trace.call(Call("embedding", (table,), shape, table.dtype, saves=(places,)))
