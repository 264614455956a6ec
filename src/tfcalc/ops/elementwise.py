"""Elementwise operations: no weights, no matrix products."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num, product, same, total
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel, nearest
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.work import ACTIVATIONS, FURTHER_ACTIVATIONS
from tfcalc.printable import quoted
from tfcalc.tape.tensor import Call, Leaf, Shape, Tensor, preserved

OF_RESULT = ("relu", "sigmoid", "tanh", "exp", "expm1", "sqrt", "rsqrt", "log_softmax")
"""Kernels whose backward needs their result; the others' needs their input."""
ATEN = {
    "clip": "clamp",
    "gelu_pytorch_tanh": "gelu",
    "log_softmax": "_log_softmax",
    "min": "minimum",
    "relu6": "hardtanh",
    "swish": "silu",
}
"""PyTorch dispatcher's names of kernels, if they differ."""
IDENTITIES = ("linear", "identity")


def widest(*dtypes: str) -> str:
    """Return the format of a result: the widest of its operands'."""
    return dtypes[0] if len(set(dtypes)) == 1 else max(dtypes, key=WIDTHS.__getitem__)


def broadcast(left: Shape, right: Shape) -> Shape:
    """Return the shape that two tensors broadcast to: axes of size 1 take the other's size.

    >>> broadcast((2, 5, 8), (8,)), broadcast((2, 1, 1), (2, 5, 8))
    ((2, 5, 8), (2, 5, 8))
    """
    if left is right:
        return left
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    more = len(longer) - len(shorter)
    pairs = zip(longer[more:], shorter, strict=True)
    wide = (second if known(first) == 1 != known(second) else first for first, second in pairs)
    return longer[:more] + tuple(wide)


def add(a: Tensor, b: Tensor) -> Tensor:
    """``a + b``: saves nothing."""
    shape = broadcast(a.shape, b.shape)
    strides = preserved(a) if same(a.shape, shape) else None
    return a.trace.call(Call("add", (a, b), shape, widest(a.dtype, b.dtype), passes=True, strides=strides))


def added_in_place(x: Tensor, more: Tensor) -> Tensor:
    """``x += more``, which may have another format, or be broadcast: saves nothing."""
    shares, strides = x.storage, x.strides
    return x.trace.call(
        Call("add_", (x, more), x.shape, x.dtype, shares=shares, strides=strides, passes=True, kernels=("add_",))
    )


def residual(x: Tensor, made: Tensor, name: str, *, called: str = "") -> Tensor:
    """``x + f(x)``, with ``made`` = f(x) of this ``name``: 1 addition per element, and 1 for the sum of gradients.

    Source: He et al. 2016 (arXiv 1512.03385), eq. 1.
    """
    call = Call(
        "add",
        (made, x),
        x.shape,
        widest(x.dtype, made.dtype),
        elementwise=(Elementwise("x + f(x)", x.elements, forward=1, backward=1),),
        leaf=Leaf(called or f"{name}.residual", "residual"),
        passes=True,
    )
    return x.trace.call(call)


def scaled(x: Tensor, kernel: str = "mul") -> Tensor:
    """``x`` times a number: saves nothing."""
    return x.trace.call(Call("scale", (x,), x.shape, x.dtype, strides=preserved(x), kernels=(kernel,)))


def shifted(x: Tensor, name: str) -> Tensor:
    """``x`` plus a number: saves nothing."""
    return x.trace.call(Call(name, (x,), x.shape, x.dtype, strides=preserved(x), kernels=("add",)))


def mul(a: Tensor, b: Tensor, name: str = "mul") -> Tensor:
    """``a · b``: saves each for the other's gradient.

    A gradient has first the result's shape and format, and is then summed and cast to its operand's (torch's
    FunctionsManual.cpp, ``mul_tensor_backward``).
    """
    shape = broadcast(a.shape, b.shape)
    wide = widest(*(x.dtype for x in (a, b) if x.shape or not shape))  # a scalar does not promote the format
    saves = (*([a] if b.needs_gradient else []), *([b] if a.needs_gradient else []))
    size = product(shape) * WIDTHS[wide]
    scratch: Num = total(size - x.elements * WIDTHS[x.dtype] for x in (a, b) if x.needs_gradient)
    strides = preserved(a) if same(a.shape, shape) else None
    return a.trace.call(Call(name, (a, b), shape, wide, saves=saves, scratch=scratch, strides=strides))


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """``max(a, b)``: saves both."""
    return a.trace.call(Call("maximum", (a, b), broadcast(a.shape, b.shape), widest(a.dtype, b.dtype), saves=(a, b)))


def limited(x: Tensor) -> Tensor:
    """``max(x, least)`` with a tensor without axes, which does not promote the format: saves both."""
    least = x.trace.new((), "float32", "least number")
    return x.trace.call(Call("maximum", (x, least), x.shape, x.dtype, saves=(x, least), strides=preserved(x)))


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """``a / b``: saves both, of which a is needed for b's gradient alone."""
    saves = (b, *([a] if b.needs_gradient else []))
    return a.trace.call(Call("div", (a, b), broadcast(a.shape, b.shape), widest(a.dtype, b.dtype), saves=saves))


def pointwise(name: str, x: Tensor) -> Tensor:
    """Run an elementwise kernel of PyTorch: saves its input, or its result (relu, tanh, sigmoid, exp, rsqrt)."""
    saves_result = name in OF_RESULT
    saves = () if saves_result else (x,)
    call = Call(name, (x,), x.shape, x.dtype, saves=saves, saves_result=saves_result, strides=preserved(x))
    return x.trace.call(call._replace(kernels=(ATEN.get(name, name),)))


def filled(x: Tensor, mask: Tensor) -> Tensor:
    """``masked_fill``: saves the mask."""
    return x.trace.call(Call("masked_fill", (x,), x.shape, x.dtype, saves=(mask,), strides=preserved(x)))


def clipped_in_place(x: Tensor) -> Tensor:
    """``clamp_``: backward needs the values before, of which a copy is saved."""
    trace = x.trace
    if not (trace.gradients and x.needs_gradient):
        return x
    before = trace.new(x.shape, x.dtype, "before clamp_")
    call = Call("clamp_", (x,), x.shape, x.dtype, saves=(before,), shares=x.storage, strides=x.strides)
    return trace.call(call)


def power(x: Tensor) -> Tensor:
    """``x ** n``: saves its input; CUDA's autocast runs it in fp32."""
    x = x.trace.upper(x)
    scratch = 2 * x.elements * WIDTHS[x.dtype]
    return x.trace.call(Call("pow", (x,), x.shape, x.dtype, saves=(x,), scratch=scratch, strides=preserved(x)))


def activation(kind: str, x: Tensor, code: Callable[[], Tensor], name: str = "activation") -> Tensor:
    """Apply an activation (ReLU 1 operation per element, GELU 5, …); ``code`` runs a library's kernels for it.

    Source: torch.nn.functional and transformers.activations; GELU: Hendrycks and Gimpel 2016 (arXiv 1606.08415).
    """
    kinds = ACTIVATIONS | FURTHER_ACTIVATIONS
    if kind not in kinds:
        raise InvalidModel(f"activation {quoted(kind)} is not known", nearest(kind, kinds))
    forward, backward = kinds[kind]
    work = (Elementwise(kind, x.elements, forward, backward),)
    leaf = Leaf(name, "activation")
    return x.trace.composite(Call(kind, (x,), x.shape, x.dtype, elementwise=work, leaf=leaf, saves=(x,)), code)


def dropout(x: Tensor, name: str) -> Tensor:
    """``x · mask / (1 − p)``: saves a byte per element; see :func:`dropping` for its cost.

    Source: CUDA's native_dropout.
    """
    mask = x.trace.new(x.shape, "bool", "dropout mask")
    call = dropping(x, x.elements, name)
    return x.trace.call(
        call._replace(saves=(mask,), saves_result=False, strides=preserved(x), kernels=("native_dropout",))
    )


def dropping(x: Tensor, elements: Num, name: str) -> Call:
    """Return the cost of dropout on ``elements``: 2 operations each in training, and 2 for the gradient.

    Source: Srivastava et al. 2014, section 4.
    """
    work = (Elementwise("dropout", elements, forward=2, backward=2),)
    return Call("dropout", (x,), x.shape, x.dtype, elementwise=work, leaf=Leaf(name, "dropout"), saves_result=True)


def times_mask(x: Tensor) -> Tensor:
    """``x *= mask`` in place, with one number per token that is 0 for padding: saves the mask."""
    trace = x.trace
    mask = trace.new((*x.shape[:-1], 1), x.dtype, "tokens that are there")
    call = Call("mul_", (x,), x.shape, x.dtype, saves=(mask,), shares=x.storage, strides=x.strides, kernels=("mul_",))
    return trace.call(call)


def divided(x: Tensor, *, in_place: bool = False) -> Tensor:
    """``x / scale``, a tensor of one number, which is saved."""
    number = x.trace.new((), x.dtype, "scale")
    shares, strides = (x.storage, x.strides) if in_place else (None, preserved(x))
    return x.trace.call(Call("div", (x,), x.shape, x.dtype, saves=(number,), shares=shares, strides=strides))
