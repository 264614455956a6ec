"""Ranks of a served model: the weights, the cache and the states of one GPU of each kind, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held, params
from tfcalc.core.number import Num, ceil_div, divide, total
from tfcalc.core.recomputation import LAYER
from tfcalc.core.traced import known, traced, value_of
from tfcalc.defaults import resolve_serving
from tfcalc.errors import InvalidModel
from tfcalc.model import remembering
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.mixture import Experts, Networks
from tfcalc.nn.module import counted
from tfcalc.placed.served import AskedLayout, ServedLayout, fewest_stages, on_rank, splits
from tfcalc.plans import LAYOUT, Serving
from tfcalc.serving.caches import CELLS, PAGED, cache, cache_format, growth_of, mixers, states_of_sequence
from tfcalc.serving.stages import is_stack, tree_of_stage, tree_on_card
from tfcalc.serving.stored import at_work, buffers_of, check_served, reads_alone, weight_recipe
from tfcalc.serving.weight_formats import MixedFormat
from tfcalc.serving.weights import hold
from tfcalc.workload import AUTO, Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.nn.module import Module

IN_BLOCKS = ("fp8-block", "gptq", "awq", "int-g")
"""Formats whose scales are those of blocks that no two GPUs may share, by their beginnings."""
SCALES = ("scale", "scales", "weight_scale")
"""Names of these scales."""
LETTERS = {"tp": "t", "dp": "d_p", "ep": "e_p"}
"""Letters of a layout's sizes in formulas."""


class ServingRank(NamedTuple):
    """One GPU of those that store alike: its place in the layout, and how many ``alike`` there are.

    ``tree`` is of one decoding step, with the weights, products and caches of its share of each layer, and of its
    stage's layers alone; requests are those of its own group of data parallel attention. A token's ``chosen`` experts
    are those of the whole model, wherever they are. ``weights`` and ``buffers`` are tensors as they are stored.
    """

    at: ServedLayout
    alike: Num
    tree: Component
    weights: Component
    buffers: Component
    plan: Serving

    @property
    def params(self) -> Num:
        """Parameters, with the rows that a vocabulary is filled up with."""
        return self.tree.total(params)

    @property
    def weight_bytes(self) -> Num:
        """Bytes of the weights as they are stored."""
        return self.weights.total(bytes_held)

    @property
    def buffer_bytes(self) -> Num:
        """Bytes of what is stored beside them and is no parameter."""
        return self.buffers.total(bytes_held)

    @property
    def bytes_beside_cache(self) -> int:
        """Bytes of weights and buffers."""
        return value_of(self.weight_bytes) + value_of(self.buffer_bytes)

    @property
    def bytes(self) -> int:
        """Bytes of weights, buffers and the cache of all requests."""
        return self.bytes_beside_cache + value_of(self.cache.total(bytes_held))

    @property
    def cache(self) -> Component:
        """The cache of all requests of its group, as a tree of tensors."""
        longest = self.plan.context or 0
        how, block = self.plan.cache, value_of(self.plan.block)
        return cache(self.tree, how=how, format=cache_format(self.plan.kv), longest=longest, block=block)

    @property
    def cache_bytes_per_token(self) -> Num:
        """Bytes that a token adds to a request's cache in the rank's layers, before a window is full."""
        return growth_of(mixers(self.tree), self.plan.kv).per_token

    @property
    def state_bytes_per_sequence(self) -> Num:
        """Bytes of the states of a request, whatever its length."""
        return states_of_sequence(mixers(self.tree), self.plan.kv)

    @property
    def layers(self) -> Num:
        """Number of layers of its stage."""
        stacks = (node.component for node in self.tree.walk() if is_stack(node.component))
        return total(part.copies for stack in stacks for part in stack.parts if part.kind == LAYER)


class ServingRanks:
    """The ranks of a model that a layout places: those that store alike are one.

    Raises InvalidModel where the layout does not divide the model. Sizes remember their ``formulas``.
    """

    def __init__(
        self,
        model: Model,
        layout: ServedLayout,
        run: Workload,
        plan: Serving,
        dtype: str = AUTO,
        *,
        formulas: bool = False,
    ) -> None:
        self.layout, self._plain = layout, model
        self.run, self.plan = resolve_serving(model, run, plan, dtype)
        self.of_group = of_a_group(at_work(self.run, self.plan), layout)
        check_served(model, self.of_group)
        self.recipe = weight_recipe(model, self.plan, dtype)
        self.model, self.requests = model, self.of_group
        if formulas:
            sizes = {name: traced(letter, value_of(getattr(layout, name))) for name, letter in LETTERS.items()}
            sizes |= {} if layout.etp is None else {"etp": sizes["tp"]}
            self.model, self.requests = remembering(model), remembering(self.requests)
            self.layout = ServedLayout(**layout._asdict() | sizes)

    @cached_property
    def each(self) -> tuple[ServingRank, ...]:
        """One GPU of each kind, stage after stage; those with more experts first."""
        module = self.model.module()
        experts = experts_of(module)
        if experts is None and known(self.layout.ep) != 1:
            raise InvalidModel("expert parallelism has no effect on a model without experts", "leave it out")
        self.layout.check()
        left = 0 if experts is None else value_of(experts) % value_of(self.layout.ep)
        kinds = [(True, left), (False, value_of(self.layout.ep) - left)] if left else [(True, self.layout.ep)]
        return tuple(rank for more, groups in kinds for rank in self._of_kind(module, more=more, groups=groups))

    @cached_property
    def whole(self) -> Component:
        """The tree of the model on one GPU."""
        alone = on_rank(self._plain.module(), ServedLayout())
        return counted(alone, self.of_group)._replace(kind="model")

    def _of_kind(self, module: Module, *, more: bool, groups: Num) -> Iterator[ServingRank]:
        tree = counted(on_rank(module, self.layout, more=more), self.requests)._replace(kind="model")
        alike = divide(self.layout.of_a_stage, self.layout.ep) * groups
        for stage in range(value_of(self.layout.pp)):
            at = ServedLayout(**self.layout._replace(stage=stage)._asdict())
            here = tree_on_card(tree, at) if self.plan.cache == CELLS else tree_of_stage(tree, at)
            facts = self.whole if isinstance(self.recipe.format, MixedFormat) else None
            weights = hold(here, self.recipe, of=facts)._replace(name="weights", kind="weights")
            if self.recipe.format.name.startswith(IN_BLOCKS) and known(self.layout.of_a_stage) != 1:
                check_blocks(hold(tree_of_stage(self.whole, at), self.recipe), weights, self.recipe.format.name)
            yield ServingRank(at, alike, here, weights, buffers_of(here, self.recipe), self.plan)


def layout_of(model: Model, plan: Serving) -> ServedLayout:
    """Return the layout that a plan of serving asks for. Raises InvalidModel."""
    if reads_alone(model):
        raise InvalidModel("a model that generates no text on several GPUs", "serve it on one: each has a copy")
    if plan.cache not in (PAGED, CELLS):
        raise InvalidModel(f"a {plan.cache} cache on several GPUs", "take --cache paged: engines serve models so")
    sizes = {name: None if size is None else value_of(size) for name in LAYOUT for size in (getattr(plan, name),)}
    gpus, tp, pp, dp, ep = (sizes[name] for name in LAYOUT)
    if plan.cache == CELLS:
        if (tp or 1) * (dp or 1) * (ep or 1) > 1:
            raise InvalidModel("llama.cpp gives each GPU whole layers", "take --pp alone, or --cache paged")
        tp = dp = 1
    asked = AskedLayout(gpus, tp, pp, dp, ep, int(plan.replicas or 1))
    return asked.of(model.module(), lambda size: shares(model, plan.weights, size))


def replicated(model: Model, plan: Serving, holds: Callable[[Serving], bool]) -> Serving:
    """Return the plan with as many replicas as its GPUs hold, where nothing but the number of GPUs was asked for.

    ``holds`` says whether the GPUs hold the model by a plan. Raises InvalidModel.
    """
    if plan.asked_layout.keys() != {"gpus"} or plan.cache != PAGED or reads_alone(model):
        return plan
    most = layout_of(model, plan)

    def copied(stages: int) -> Serving:
        return plan.replaced(replicas=str(value_of(most.pp) // stages))

    stages = fewest_stages(most, lambda size: holds(copied(size)))
    return plan if stages == value_of(most.pp) else copied(stages)


def shares(model: Model, weights: str, tp: int) -> bool:
    """Return whether as many GPUs can share each layer, with weights in a format: its blocks are not shared."""
    if not splits(model.module(), tp):
        return False
    in_blocks = weight_recipe(model, Serving(weights=weights)).format.name.startswith(IN_BLOCKS)
    return tp == 1 or not in_blocks or not isinstance(model, HFModel) or _whole_blocks(model, weights, tp)


@lru_cache(maxsize=64)
def _whole_blocks(model: HFModel, weights: str, tp: int) -> bool:
    plan = Serving(weights=weights)
    try:
        return bool(ServingRanks(model, ServedLayout(tp=tp), Workload(), plan).each)
    except InvalidModel:
        return False


def of_a_group(requests: Workload, layout: ServedLayout) -> Workload:
    """The requests of one group of data parallel attention, of which some have one more than others."""
    return requests.replaced(batch_size=ceil_div(requests.batch_size, layout.dp))


def check_blocks(whole: Component, here: Component, format: str) -> None:
    """Raise InvalidModel where GPUs' shares of a matrix are no whole blocks of numbers with a scale.

    Then the GPUs together have more scales than the matrix. Source: vLLM, ``validate_fp8_block_shape`` and the checks
    of ``group_size`` in its gptq_marlin and compressed_tensors schemes, which refuse such a layout.
    """
    for one, other in zip(whole.walk(), here.walk(), strict=True):
        held = {
            tensor.name: (tensor, share)
            for tensor, share in zip(one.component.own.held, other.component.own.held, strict=True)
        }
        for name, (tensor, share) in held.items():
            matrix, _, piece = name.rpartition(" ")
            if piece not in SCALES or not matrix:
                continue
            first = next(pair for key, pair in held.items() if key.partition(" ")[0] == matrix.partition(" ")[0])
            if value_of(first[0].size) * value_of(share.size) > value_of(first[1].size) * value_of(tensor.size):
                fact = f"a GPU's share of {one.path.partition('.')[2]} is no whole number of blocks of {format}"
                raise InvalidModel(fact, "take fewer GPUs for each layer (--tp), or share whole experts (--ep)")


def experts_of(module: Module) -> Num | None:
    """Return the fewest experts of a layer, if there are any."""
    found = [each.count for each in module.all_of() if isinstance(each, Experts | Networks)]
    return min(found, key=value_of, default=None)
