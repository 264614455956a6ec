"""Fine-tuning of a part: frozen weights, and small trained maps beside them (LoRA, DoRA)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.number import Num, same, total
from tfcalc.core.tensors import plain
from tfcalc.errors import InvalidModel, nearest
from tfcalc.nn.basic import Linear, parameter
from tfcalc.nn.counted import counted_on
from tfcalc.printable import quoted

ALL_LINEAR = "all-linear"
OF_WEIGHTS = {"weight": 2, "bias": 1}
"""Operations per element that a norm's backward pass spends on the gradients of γ and of β."""


class Adapter(NamedTuple):
    """LoRA of this ``rank`` beside the linear maps that ``targets`` name; ``dora`` adds a magnitude to each.

    A target is a module's name or the end of it (``q_proj``, ``self_attn.q_proj``), without layer numbers; the one
    target ``all-linear`` is all but the output head and the experts of a mixture, which are no modules by themselves.
    """

    rank: Num
    targets: tuple[str, ...] = (ALL_LINEAR,)
    dora: bool = False


def adapted(tree: Component, adapter: Adapter) -> Component:
    """Return the tree with its own weights frozen, and a trained ``lora_A`` and ``lora_B`` beside each target.

    ====================  =======================================================================
    of each target        ``y = x W + (x A) B`` with A of i × r and B of r × o: ``r·(i + o)`` parameters
    DoRA                  a magnitude per output beside them: ``+ o``
    ====================  =======================================================================

    What norm of W + AB DoRA computes, and in which order, is not counted. Raises InvalidModel where a target is no
    linear map of this model.

    Source: Hu et al. 2021 (LoRA, arXiv 2106.09685), section 4.1; Liu et al. 2024 (DoRA, arXiv 2402.09353), section 4.1;
    which maps are meant by a name: peft's ``check_target_module_exists``.
    """
    if isinstance(adapter.rank, int) and adapter.rank < 1:
        raise InvalidModel(f"LoRA of rank {adapter.rank}", "give 1 or more")
    known = {_name(path): leaf for path, leaf in _linear_maps(tree, ())}
    for target in adapter.targets:
        if target != ALL_LINEAR and not any(_ends(name, target) for name in known):
            last = {name.rpartition(".")[2] for name in known}
            raise InvalidModel(
                f"target {quoted(target)} matches no linear layer of this model", nearest(target, sorted(last))
            )
    return frozen(_beside(tree, adapter, _Place()), lambda _, leaf: leaf.kind != "adapter")


def drops(dropout: str) -> bool:
    """Return whether dropout of this probability has an effect. Raises InvalidModel where it is no probability.

    >>> drops("0.05"), drops("0"), drops("")
    (True, False, False)
    """
    try:
        share = float(dropout or 0)
    except ValueError:
        share = 1.0
    if not 0 <= share < 1:
        raise InvalidModel(f"--lora-dropout {quoted(dropout)} is no probability", "give one below 1, such as 0.05")
    return share > 0


def frozen_where(tree: Component, *patterns: str) -> Component:
    """Return the tree, frozen where a pattern fits a module's name, or one above it (``*embed*``, ``model.layers``).

    Names are without layer numbers (:func:`tfcalc.core.tensors.plain`). Of two modules that share a tensor name both.
    Raises InvalidModel where a pattern fits nothing, or nothing that is trained without it.
    """
    names = {_name(path): leaf for path, leaf in _leaves(tree, ()) if leaf.own.weights}
    for pattern in patterns:
        fitting = [leaf for name, leaf in names.items() if _fits(name, pattern)]
        if not fitting:
            raise InvalidModel(f"{quoted(pattern)} matches no module of this model", nearest(pattern, sorted(names)))
        if not any(map(_is_trained, fitting)):
            raise InvalidModel(f"--freeze {quoted(pattern)} has no effect on what is not trained", "leave it out")
    return frozen(tree, lambda name, _: any(_fits(name, pattern) for pattern in patterns))


def frozen(tree: Component, chosen: Callable[[str, Component], bool], path: tuple[str, ...] = ()) -> Component:
    """Return the tree with the weights of ``chosen`` operations frozen.

    Their backward pass spares the product that makes the weights' gradient, and no more: x's gradient is needed where
    something below is trained, or where the embedding's output asks for one (transformers'
    ``enable_input_require_grads``, which recomputation needs). Otherwise the first layer's backward is less than this.
    """
    parts = tuple(frozen(part, chosen, (*path, part.name)) for part in tree.parts)
    own = _untrained(tree) if _is_trained(tree) and chosen(_name(path), tree) else tree.own
    return tree._replace(own=own, parts=parts)


def _is_trained(leaf: Component) -> bool:
    """Return whether any of its weights is trained: the gradient of a frozen one is saved only once."""
    return any(not weight.frozen for weight in leaf.own.weights)


def thawed(tree: Component) -> Component:
    """Return the tree with no weight marked as frozen."""
    weights = tuple(weight._replace(frozen=False) for weight in tree.own.weights)
    return tree._replace(own=tree.own._replace(weights=weights), parts=tuple(thawed(part) for part in tree.parts))


def _untrained(leaf: Component) -> Cost:
    """The operation without the gradient of its weights."""
    own = leaf.own
    weights = tuple(weight._replace(frozen=True) for weight in own.weights)
    if leaf.kind == "norm":
        spared: Num = sum(OF_WEIGHTS.get(weight.key, 0) for weight in own.weights)
        work = tuple(item._replace(backward=item.backward - spared) for item in own.elementwise)
        return own._replace(weights=weights, elementwise=work)
    return own._replace(
        weights=weights,
        products=tuple(item._replace(backward=item.backward - 1, overcounted=0) for item in own.products),
        # a bias that is summed, rows of a table that are added to
        elementwise=tuple(item._replace(backward=0) for item in own.elementwise),
    )


class _Place(NamedTuple):
    """Path of a part: the names that lead there, and whether it is one of the experts of a mixture."""

    names: tuple[str, ...] = ()
    of_experts: bool = False

    def inside(self, part: Component) -> _Place:
        return _Place((*self.names, part.name), self.of_experts or part.kind == "experts")


def _beside(tree: Component, adapter: Adapter, place: _Place) -> Component:
    return tree._replace(parts=tuple(new for part in tree.parts for new in _with_adapter(part, adapter, place)))


def _with_adapter(part: Component, adapter: Adapter, above: _Place) -> Iterator[Component]:
    place = above.inside(part)
    if not _is_linear(part) or not _is_target(place, part, adapter):
        yield _beside(part, adapter, place)
        return
    yield part._replace(own=part.own._replace(last=False))  # B comes after it, and saves its input
    fan_in, fan_out = part.own.weights[0].shape
    tokens = total(product.rows for product in part.own.products)  # DeBERTa's run on positions, too
    ends = counted_on(Linear("lora_B", adapter.rank, fan_out), (tokens, adapter.rank))
    yield from (
        leaf._replace(
            name=f"{part.name}.{leaf.name}",
            kind="adapter",
            copies=part.copies,
            active=part.active,
            passes=part.passes,
            places=part.places,
            under=part.under,
        )
        for leaf in (
            counted_on(Linear("lora_A", fan_in, adapter.rank), (tokens, fan_in)),
            ends._replace(own=ends.own._replace(last=part.own.last)),
            *(parameter("lora_magnitude_vector", fan_out).components() if adapter.dora else []),
        )
    )


def _is_linear(part: Component) -> bool:
    """Return whether this is torch.nn.Linear, or GPT-2's Conv1D.

    Routers, and maps with an axis for heads, are parameters of their own in transformers.
    """
    weights, products = part.own.weights, part.own.products
    if not weights or not weights[0].turned or len(weights[0].shape) != 2 or part.kind == "router":
        return False
    return bool(products) and all(same((each.inner, each.columns), weights[0].shape) for each in products)


def _is_target(place: _Place, part: Component, adapter: Adapter) -> bool:
    """All linear maps are those that are modules; the matrices of experts are one parameter in transformers."""
    name, of_all = _name(place.names), part.kind != "output" and not place.of_experts
    return any(of_all if target == ALL_LINEAR else _ends(name, target) for target in adapter.targets)


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _linear_maps(tree: Component, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Component]]:
    return ((names, leaf) for names, leaf in _leaves(tree, path) if _is_linear(leaf))


def _leaves(tree: Component, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Component]]:
    yield path, tree
    for part in tree.parts:
        yield from _leaves(part, (*path, part.name))


def _name(path: tuple[str, ...]) -> str:
    """Name of a module in a checkpoint, without layer numbers; ``(ffn)`` is no module."""
    return plain(".".join(name for name in path if not name.startswith("(")))
