"""Fine-tuning of a part: frozen weights, and small trained maps beside them (LoRA, DoRA)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tfcalc.core.component import Component, Cost, Elementwise, Weight
from tfcalc.core.measure import plain
from tfcalc.core.number import Num, same, total
from tfcalc.core.polynomial import symbol
from tfcalc.dimensions import facet
from tfcalc.errors import InvalidModel, UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.basic import Linear
from tfcalc.nn.module import Module, counted_on
from tfcalc.printable import quoted
from tfcalc.tape.tensor import Call, MatMul, Tensor

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training


ALL_LINEAR = "all-linear"
LONGEST = 300
"""Characters of a pattern of module names: fnmatch takes as many steps as the square of them for one of brackets."""
OF_WEIGHTS = {"weight": 2, "bias": 1}
"""Operations per element that a norm's backward pass spends on the gradients of γ and of β."""


class Adapter(NamedTuple):
    """LoRA of this ``rank`` beside the linear maps that ``targets`` name; ``dora`` adds a magnitude to each.

    There may be dropout before the adapters (``drops``), by which DoRA computes a map's own result twice.

    A target is a module's name or the end of it (``q_proj``, ``self_attn.q_proj``), without layer numbers; the one
    target ``all-linear`` is all but the output head and the experts of a mixture, which are no modules by themselves.
    """

    rank: Num
    targets: tuple[str, ...] = (ALL_LINEAR,)
    dora: bool = False
    drops: bool = False


class Magnitude(Module):
    """DoRA's trained magnitude ``m`` of each output of a map W: ``y = m/n · (x W + s (x A) B)``, ``n = ‖W + s A B‖``.

    ====================  =======================================================================
    parameters            ``o`` for W of i × o
    forward FLOPs         ``2·i·i·r + 2·i·r·o`` for A B, which is made of an identity matrix; with dropout before the
                          adapters ``2·t·i·o`` more: x W of what is left of x
    backward FLOPs        with dropout ``2·t·i·o``, for x's gradient; none through n, which is a constant
    elementwise FLOPs     ``4·i·o`` for n (scaled, added, squared, summed), and 5 per output, with 8 backward
    ====================  =======================================================================

    Source: Liu et al. 2024 (DoRA, arXiv 2402.09353), eq. 5 and section 4.3; peft's DoraLinearLayer.forward, which adds
    ``(m/n − 1) · x W + m/n · s (x A) B`` to x W.
    """

    kind = "adapter"

    fan_in: Num
    fan_out: Num
    rank: Num
    drops: bool = False

    def own_params(self) -> Cost:
        """The magnitudes."""
        return Cost(weights=(Weight(self.name, (self.fan_out,), key=""),))

    def forward(self, x: Tensor) -> Tensor:
        """Scale what W and the adapters make of each row."""
        (m,), (i, o, r) = self.weights(x.trace), (self.fan_in, self.fan_out, self.rank)
        again = MatMul("x W (dropout)", (2, x.rows, i, o), (x, None))
        call = Call(
            "dora",
            (x, m),
            (*x.shape[:-1], o),
            x.dtype,
            products=(
                MatMul("1 A", (2, i, i, r), (None, None)),
                MatMul("(1 A) B", (2, i, r, o), (None, None)),
                *([again] if self.drops else []),
            ),
            elementwise=(
                Elementwise("‖W + s A B‖", i * o, forward=4, backward=0),
                Elementwise("y + (m/n − 1) x W + m/n s (x A) B", x.rows * o, forward=5, backward=8),
            ),
            saves_result=True,
        )
        return x.trace.call(call)


def adapted(tree: Component, adapter: Adapter) -> Component:
    """Return the tree with its own weights frozen, and a trained ``lora_A`` and ``lora_B`` beside each target.

    ====================  =======================================================================
    of each target        ``y = x W + (x A) B`` with A of i × r and B of r × o: ``r·(i + o)`` parameters
    DoRA                  a magnitude per output beside them: ``+ o`` (:class:`Magnitude`)
    ====================  =======================================================================

    Raises InvalidModel where a target is no
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

    Names are without layer numbers (:func:`tfcalc.core.measure.plain`). What shares a tensor is frozen with it, as a
    parameter has one ``requires_grad``.

    Raises InvalidModel where a pattern fits nothing, or nothing that is trained without it.
    """
    names = {_name(path): leaf for path, leaf in _leaves(tree, ()) if leaf.own.weights}
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise InvalidModel(f"--freeze {quoted(pattern)} has {len(pattern):,} characters", f"give at most {LONGEST}")
        fitting = [leaf for name, leaf in names.items() if _fits(name, pattern)]
        if not fitting:
            raise InvalidModel(f"{quoted(pattern)} matches no module of this model", nearest(pattern, sorted(names)))
        if not any(map(_is_trained, fitting)):
            raise InvalidModel(f"--freeze {quoted(pattern)} has no effect on what is not trained", "leave it out")
    fitting_names = {name for name in names if any(_fits(name, pattern) for pattern in patterns)}
    shared = [sharers for sharers in _sharing(names) if sharers & fitting_names]
    chosen = fitting_names.union(*shared)
    return frozen(tree, lambda name, _: name in chosen)


def _sharing(leaves: Mapping[str, Component]) -> Iterator[set[str]]:
    """Yield the names of modules that share a table: each embedding with those that are tied to one of its size."""
    for owner, leaf in leaves.items():
        if leaf.kind == "embedding" and any(weight.tied_to is None for weight in leaf.own.weights):
            sizes = {weight.size for weight in leaf.own.weights if weight.tied_to is None}
            yield {owner} | {
                name
                for name, other in leaves.items()
                if any(weight.tied_to and weight.size in sizes for weight in other.own.weights)
            }


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
    last = part.own.last and not adapter.dora  # DoRA saves what B makes
    beside = [
        counted_on(Linear("lora_A", fan_in, adapter.rank), (tokens, fan_in)),
        ends._replace(own=ends.own._replace(last=last)),
    ]
    if adapter.dora:
        magnitude = Magnitude("lora_magnitude_vector", fan_in, fan_out, adapter.rank, adapter.drops)
        beside.append(counted_on(magnitude, (tokens, fan_in)))
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
        for leaf in beside
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
    """Return whether an adapter has this part as a target.

    All linear maps are those that are modules; the matrices of experts are one parameter in transformers.
    """
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


TUNING = ("lora", "lora_targets", "dora", "freeze")
"""The fields of a plan of training that decide what is trained; all others are a matter of memory."""
OF_ADAPTERS: dict[str, object] = {
    "lora_targets": "all-linear",
    "dora": False,
    "lora_dtype": "auto",
    "lora_dropout": "",
    "base_weights": "",
}
"""Fields of a plan that say something of its adapters, and what they are where nothing is said."""
LETTER, BESIDE = "r", "r_A"
"""LoRA's rank in formulas; where r is another rank of the model (latent attention), that of A."""
RANK = "rank of the adapters (LoRA)"


class Tuning(NamedTuple):
    """A plan of what is trained, as it is asked of parameters and FLOPs; ``letter`` is the rank's in formulas."""

    plan: Training
    letter: str

    @property
    def symbolic(self) -> Training:
        """Plan with a symbol for the rank."""
        return self.plan if self.plan.lora is None else self.plan.replaced(lora=symbol(self.letter))

    @property
    def values(self) -> dict[str, Num]:
        """Value of the letter."""
        return {} if self.plan.lora is None else {self.letter: self.plan.lora}

    @property
    def legend(self) -> dict[str, str]:
        """Meaning of the letter."""
        return dict.fromkeys(self.values, RANK)

    @property
    def heading(self) -> str:
        """``LoRA r=16 on q_proj, v_proj``."""
        plan = self.plan
        frozen = f"{plan.freeze.replace(',', ', ')} frozen" if plan.freeze else ""
        if plan.lora is None:
            return frozen
        everywhere = plan.lora_targets == OF_ADAPTERS["lora_targets"]
        names = "" if everywhere else f" on {', '.join(listed(plan.lora_targets))}"
        dropped = f", dropout {plan.lora_dropout}" if plan.lora_dropout else ""
        return f"{'DoRA' if plan.dora else 'LoRA'} r={plan.lora}{names}{dropped}{frozen and f', {frozen}'}"

    @property
    def described(self) -> dict[str, object]:
        """Fields of the plan as in the JSON's ``conventions``."""
        return {name: getattr(self.plan, name) for name in TUNING}


def tuning_of(model: Model, plan: Training | None, of: str, counted: tuple[str, ...] = TUNING) -> Tuning | None:
    """Return the plan of what is trained; None where that is all of the model.

    Raises UsageError for a field of the plan that changes nothing ``of`` what is asked for, as those ``counted`` do.
    """
    if plan is None:
        return None
    for item in fields(plan):
        value, known = getattr(plan, item.name), facet(item)
        if value != item.default and item.name not in counted and known is not None:
            raise UsageError(f"{known.flags[0]} {value} has no effect on {of}", "leave it out")
    check_adapters(plan)
    if plan.lora is None and not plan.freeze:
        return None
    return Tuning(plan, BESIDE if LETTER in model.values() else LETTER)


def tuned(tree: Component, plan: Training) -> Component:
    """The model's tree with adapters beside it, and with what is not trained frozen. Raises InvalidModel."""
    check_adapters(plan)
    if plan.lora is not None:
        tree = adapted(tree, Adapter(plan.lora, listed(plan.lora_targets), plan.dora, drops(plan.lora_dropout)))
    return frozen_where(tree, *listed(plan.freeze)) if plan.freeze else tree


def check_adapters(plan: Training) -> None:
    """Raise InvalidModel where something is said of adapters, and there are none."""
    if plan.lora is not None:
        return
    for what, name in (
        (f"frozen weights in {plan.base_weights}", "base_weights"),
        ("DoRA", "dora"),
        (f"LoRA's targets {plan.lora_targets!r:.60}", "lora_targets"),
        (f"--lora-dtype {plan.lora_dtype}", "lora_dtype"),
        (f"--lora-dropout {quoted(plan.lora_dropout)}", "lora_dropout"),
    ):
        if getattr(plan, name) != OF_ADAPTERS[name]:
            raise InvalidModel(f"{what} without LoRA", "add --lora 16")


def listed(names: str) -> tuple[str, ...]:
    """``q_proj, v_proj`` as two names."""
    return tuple(name.strip() for name in names.split(",") if name.strip())
