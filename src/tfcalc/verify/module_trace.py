"""Record which parameter meets which tensor in a forward pass, operation by operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tfcalc.verify.data_flow import ACTIVATION, INPUT, MULTIPLIED, NORM, SOFTMAX, Flow, Origin, joined


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS = _words(
    "t transpose permute view unsafe_view reshape expand clone alias detach unsqueeze squeeze to_copy "
    "reshape_alias lift_fresh repeat unflatten flatten movedim contiguous"
)
CUTS = _words("slice select split split_with_sizes unbind chunk narrow index_select")
PRODUCTS = _words("mm bmm mv dot matmul linear convolution")
PRODUCTS_WITH_BIAS = _words("addmm baddbmm addbmm addmv")
EVENTS = dict.fromkeys(("softmax", "safe_softmax", "exp"), SOFTMAX)
EVENTS |= dict.fromkeys(
    _words(
        "relu gelu silu sigmoid tanh elu leaky_relu hardswish hardtanh mish softplus clamp clamp_min glu erf "
        "threshold log_sigmoid_forward prelu"
    ),
    ACTIVATION,
)
EVENTS |= dict.fromkeys(_words("rsqrt var std var_mean std_mean linalg_vector_norm"), NORM)


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch is Any where it is not installed
    """Follows every tensor of a pass. It keeps all of them until it ends, so that none takes another's identity."""

    def __init__(self, module: nn.Module, inputs: Iterable[Tensor]) -> None:
        super().__init__()
        self.flow = Flow()
        self.names = {id(parameter): name for name, parameter in module.named_parameters()}
        self.origins = {id(one): Origin(made={INPUT: frozenset()}) for one in inputs}
        self.tensors: list[object] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operation, and note what its results are made of."""
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2].strip("_")
        tensors = [one for one in _flat((*args, *(kwargs or {}).values())) if isinstance(one, Tensor)]
        results = [one for one in _flat((result,)) if isinstance(one, Tensor)]
        self.tensors += [*tensors, *results]
        origins = [self._of(one) for one in tensors]
        for one in results:
            self.origins[id(one)] = self._made(name, origins, tensors, one)
        return result

    def _of(self, tensor: Tensor) -> Origin:
        name = self.names.get(id(tensor))
        return Origin(weight=name) if name else self.origins.get(id(tensor), Origin())

    def _made(self, name: str, origins: list[Origin], tensors: list[Tensor], result: Tensor) -> Origin:
        """The origin of a result of one operation on tensors of these origins."""
        if not origins:
            return Origin()
        first = origins[0]
        if name in VIEWS:
            return first
        if name in CUTS:
            offset = (result.storage_offset(),)
            if first.weight:
                return first._replace(part=first.part + offset)
            return first._replace(cut=first.cut + offset)
        if name in PRODUCTS_WITH_BIAS:
            made = self.flow.multiply(origins[1], origins[2])
            self._add(first, made, tensors[0])
            return made
        if name in PRODUCTS:
            made = self.flow.multiply(first, origins[1])
            if len(origins) > 2:
                self._add(origins[2], made, tensors[2])
            return made
        if name == "embedding" or (name == "index" and first.weight):
            given = any(INPUT in origin.made for origin in origins[1:])
            self.flow.others.append((first.weight, "E" if given else "P"))
            return Origin(made={INPUT: frozenset()})
        return self._elementwise(name, origins, tensors)

    def _elementwise(self, name: str, origins: list[Origin], tensors: list[Tensor]) -> Origin:
        weights = [(origin, one) for origin, one in zip(origins, tensors, strict=True) if origin.weight]
        rest = [origin for origin in origins if not origin.weight]
        made = joined(rest)
        if "norm" in name:
            for (origin, _), role in zip(weights, ("γ", "β"), strict=False):
                self.flow.others.append((origin.weight, role))
            return made.after(NORM)
        if name in EVENTS:
            return made.after(EVENTS[name])
        if weights and rest and name in ("add", "sub"):
            self._add(*weights[0][:1], rest[0], weights[0][1])
            return made._replace(fresh=rest[0].fresh)
        if weights and rest and name in ("mul", "div"):
            origin, one = weights[0]
            self.flow.others.append((origin.weight, "γ" if one.dim() == 1 else "scale"))
            return made._replace(scaled=origin.weight)
        if name in ("mul", "div"):  # the γ of γ x / σ is not lost
            made = made.after(MULTIPLIED) if name == "mul" and sum(bool(one.made) for one in rest) > 1 else made
            return made._replace(scaled=next((origin.scaled for origin in rest if origin.scaled), ""))
        return made

    def _add(self, bias: Origin, to: Origin, tensor: Tensor) -> None:
        """Note what a parameter is that is added: a bias, β, or a table of positions."""
        if not bias.weight:
            return
        if to.fresh:
            self.flow.biases.append((bias.weight, bias.part, to.fresh))
        else:
            role = "β" if to.scaled else "P" if tensor.dim() > 1 else "b"
            self.flow.others.append((bias.weight, role))


def _flat(values: Iterable[object]) -> Iterable[object]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value
