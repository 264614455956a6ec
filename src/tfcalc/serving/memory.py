"""Bytes that it takes to serve a model: weights in their format, caches of all requests, what is live beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeGuard

from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.measure import bytes_held, held_bytes
from tfcalc.core.number import minimum, total
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import Traced, formula_of, value_of
from tfcalc.defaults import QUANTIZED, own_dtype, own_format, resolve_serving
from tfcalc.errors import InvalidModel
from tfcalc.model import remembering
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import COMPUTED, FP32, NUMBERS
from tfcalc.plans import Serving
from tfcalc.serving.caches import CELLS, PAGED, UBATCH, CacheGrowth, cache, cache_format, growth_of, mixers
from tfcalc.serving.inference import activations, forward, live_forms
from tfcalc.serving.stages import layers_of, on_card
from tfcalc.serving.stored import (
    DECODE,
    FORWARD,
    PREFILL,
    at_work,
    buffers_of,
    check_served,
    reads_alone,
    recipe_at_rest,
    tree_for,
    weight_recipe,
)
from tfcalc.serving.weight_formats import LLM_INT8
from tfcalc.serving.weights import WeightStorage, hold
from tfcalc.tape.interpreter import Numerics
from tfcalc.training.measured import error_of
from tfcalc.workload import AUTO, DTYPES, EITHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tfcalc.model import Model
    from tfcalc.placed.served import ServedLayout
    from tfcalc.serving.ranks import ServingRank, ServingRanks
    from tfcalc.workload import Workload


TEMPORARY = "τ"
LETTERS = {TEMPORARY: "temporary buffers at the peak, in bytes: activations, and copies of a growing cache"}


class PhasePeak(NamedTuple):
    """The bytes that are live beside weights and cache when a phase holds most; None where no code tells."""

    phase: str
    temporary: int | None


@dataclass(frozen=True)
class Served:
    """A served model's memory: weights as they are stored, the cache and the buffers; and what is live beside them.

    The model runs when somebody reads the latter.
    """

    weights: Component
    cache: Component
    buffers: Component
    recipe: WeightStorage
    run: Callable[[], Iterable[PhasePeak]]
    requests: Workload
    """Those whose cache it is: of one group of data parallel attention."""
    layout: ServedLayout | None = None
    """How several GPUs share the model: all else is of the one that stores most."""
    ranks: tuple[ServingRank, ...] = ()
    """One GPU of each kind, if there are several."""
    host: int = 0
    """Bytes in the host's memory: what llama.cpp does not put on the card."""
    on_card: tuple[int, int] | None = None
    """Layers on the card, of how many; the head is one."""

    @cached_property
    def moments(self) -> list[PhasePeak]:
        """The phases, each when it holds most."""
        return list(self.run())

    @cached_property
    def alive(self) -> Component:
        """Memory live at the peak."""
        passing = max(moment.temporary or 0 for moment in self.moments)
        parts = [self.weights, self.buffers, self.cache]
        if passing:
            lump = Held("temporary", (Traced(passing, symbol(TEMPORARY)),), 8)
            parts.append(Component("temporary", "temporary", Cost(held=(lump,))))
        return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))

    @property
    def caches(self) -> bool:
        """Return whether anything is cached for a next token: not by a model that reads alone."""
        return self.requests.phase != FORWARD

    @property
    def peak(self) -> PhasePeak:
        """The phase that holds most."""
        return max(self.moments, key=lambda moment: moment.temporary or 0)

    @property
    def beside_cache(self) -> int:
        """Bytes of weights and buffers."""
        return sum(value_of(part.total(bytes_held)) for part in (self.weights, self.buffers))

    @property
    def standing(self) -> int:
        """Bytes of weights, buffers and caches."""
        return self.beside_cache + value_of(self.cache.total(bytes_held))

    def least(self, room: int) -> int:
        """Bytes that no peak is below: of what stands, and of the first phase where that is within the ``room``."""
        there = self.standing
        return there if there > room else there + (next(iter(self.run())).temporary or 0)

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return value_of(self.alive.total(bytes_held))


def served(model: Model, run: Workload, plan: Serving, dtype: str = AUTO, *, formulas: bool = True) -> Served:
    """Memory of serving: ``plan.concurrency`` requests, each with ``plan.context`` tokens in the cache.

    Weights are in the format that is asked for, in ``dtype``, or as the checkpoint stores them. Sizes remember their
    ``formulas``, unless nobody asks for these. Raises InvalidModel.
    """
    if plan.shared:
        return _served_by_several(model, run, plan, dtype, formulas=formulas)
    run, plan = resolve_serving(model, run, plan, dtype)
    requests = at_work(run, plan)
    if reads_alone(model):
        return _read(model, requests, plan, dtype, formulas=formulas)
    check_served(model, requests)
    recipe = weight_recipe(model, plan, dtype)
    model_, run_ = (remembering(model), remembering(requests)) if formulas else (model, requests)
    tree = model_.tree(run_)
    if plan.gpu_layers is not None:
        return _served_on_card(model, tree, run_, plan, recipe, requests)
    weights = hold(tree_for(recipe, model, requests, tree), recipe)._replace(name="weights", kind="weights")
    held = _cache(tree, run_, plan)
    buffers = buffers_of(tree, recipe)
    return Served(weights, held, buffers, recipe, lambda: _moments(model, requests, plan, recipe), requests)


def _served_on_card(
    model: Model, tree: Component, run: Workload, plan: Serving, recipe: WeightStorage, requests: Workload
) -> Served:
    """Memory of the card where some layers are in the host's (llama.cpp)."""
    if plan.cache != CELLS:
        fact = f"--ngl {plan.gpu_layers} has no effect with a {plan.cache} cache"
        raise InvalidModel(fact, "add --cache cells, as --engine llama.cpp does, or leave it out")
    count = layers_of(tree) + 1
    there = min(value_of(plan.gpu_layers or 0), count)
    plain, ways = tree_for(recipe, model, requests, tree), on_card(tree, there)
    card, host = (
        (_weights(sized, recipe, plain), _cache(one, run, plan), buffers_of(one, recipe))
        for sized, one in zip(on_card(plain, there), ways, strict=True)
    )
    beside = sum(value_of(part.total(bytes_held)) for part in host)
    return Served(*card, recipe, lambda: _of_graph(tree), requests, host=beside, on_card=(there, count))


def _weights(tree: Component, recipe: WeightStorage, of: Component) -> Component:
    return hold(tree, recipe, of=of)._replace(name="weights", kind="weights")


def _of_graph(tree: Component) -> Iterator[PhasePeak]:
    """Yield llama.cpp's compute buffer: logits of a step's tokens in fp32, and a vector of each beside them.

    So its log has it for Llama 3 8B with flash attention: 512 · 4 · (128,256 + 4,096) B are 258.5 MiB.
    """
    heads = (
        weight.shape for node in tree.walk() if node.component.kind == "output" for weight in node.component.own.weights
    )
    wide = max((value_of(shape[0]) + value_of(shape[-1]) for shape in heads if len(shape) == 2), default=0)
    yield PhasePeak(PREFILL, UBATCH * FP32.bits // 8 * wide)


def _read(model: HFModel, requests: Workload, plan: Serving, dtype: str, *, formulas: bool) -> Served:
    """Memory of reading all requests at once, by a model that keeps no cache."""
    requests = requests.replaced(phase=FORWARD, seq_len=requests.size("cached"), cached=None)
    model.check(requests)
    recipe = weight_recipe(model, plan, dtype)
    model_, run_ = (remembering(model), remembering(requests)) if formulas else (model, requests)
    tree = model_.tree(run_)
    weights = hold(tree_for(recipe, model, requests, tree), recipe)._replace(name="weights", kind="weights")

    def moments() -> Iterator[PhasePeak]:
        known = _code_is_known(model)
        yield PhasePeak(FORWARD, forward(model, requests, _formats(recipe)) if known else None)

    return Served(weights, Component("cache", "cache"), buffers_of(tree, recipe), recipe, moments, requests)


def _served_by_several(model: Model, run: Workload, plan: Serving, dtype: str, *, formulas: bool) -> Served:
    """Memory of the GPU that stores most, of those that share the model."""
    from tfcalc.serving.ranks import ServingRanks, layout_of  # every class that engines split: few ask for it

    layout = layout_of(model, plan)
    found = ServingRanks(model, layout, run, plan, dtype, formulas=formulas)
    most = max(found.each, key=lambda rank: rank.bytes)
    requests = found.of_group

    def moments() -> Iterator[PhasePeak]:
        piece = _piece(model, layout) if isinstance(model, HFModel) else model
        return _moments(piece, requests, found.plan, found.recipe)

    cache = most.cache._replace(name="cache", kind="cache")
    host = _beside_cards(found) if found.plan.cache == CELLS else 0
    return Served(most.weights, cache, most.buffers, found.recipe, moments, requests, found.layout, found.each, host)


def _beside_cards(found: ServingRanks) -> int:
    """Bytes that llama.cpp leaves in the host's memory, where cards have all layers. Raises InvalidModel for fewer."""
    count, asked = layers_of(found.whole) + 1, found.plan.gpu_layers
    if asked is not None and value_of(asked) < count:
        raise InvalidModel(f"--ngl {asked} on several GPUs", "leave it out: they have all layers, or take one GPU")
    _, host = on_card(found.whole, count)
    return value_of(_weights(host, found.recipe, found.whole).total(bytes_held))


@lru_cache(maxsize=64)
def _piece(model: HFModel, layout: ServedLayout) -> HFModel:
    """Return the model of a GPU of the first kind, with the layers of all stages; its steps are remembered, too."""
    from tfcalc.placed.served import on_rank  # every class that engines split: few ask for it

    return model.run_by(on_rank(model.module(), layout))


def least_served(model: Model, run: Workload, plan: Serving, dtype: str = AUTO) -> int:
    """The bytes of weights, buffers and caches alone, which no peak is below: nothing runs on a tape for it."""
    if plan.shared:
        found = _served_by_several(model, run, plan, dtype, formulas=False)
        return sum(value_of(part.total(bytes_held)) for part in (found.weights, found.buffers, found.cache))
    run, plan = resolve_serving(model, run, plan, dtype)
    requests = at_work(run, plan)
    check_served(model, requests)
    recipe, tree = weight_recipe(model, plan, dtype), model.tree(requests)
    parts = (
        hold(tree_for(recipe, model, requests, tree), recipe),
        buffers_of(tree, recipe),
        _cache(tree, requests, plan),
    )
    return sum(value_of(part.total(bytes_held)) for part in parts)


def cache_bytes(model: Model, run: Workload, plan: Serving, dtype: str = AUTO) -> list[Polynomial]:
    """The bytes of the caches alone, as a closed form in sizes that remember what they are. Raises InvalidModel."""
    run, plan = resolve_serving(model, run, plan, dtype)
    requests = at_work(run, plan)
    check_served(model, requests)
    return [formula_of(_cache(model.tree(requests), requests, plan).total(bytes_held))]


def served_bytes(model: Model, run: Workload, plan: Serving, dtype: str = AUTO) -> list[Polynomial]:
    """Closed forms of all that may be the peak of serving with a paged cache. Raises InvalidModel.

    The sizes that they are in remember what they are.
    """
    run, plan = resolve_serving(model, run, plan, dtype)
    requests = at_work(run, plan)
    check_served(model, requests)
    recipe = weight_recipe(model, plan, dtype)
    tree = model.tree(requests)
    parts = (hold(tree, recipe), buffers_of(tree, recipe), _cache(tree, requests, plan))
    there = formula_of(total(part.total(bytes_held) for part in parts))
    if not _code_is_known(model):
        return [there]
    return [there + each for run in _paged(requests, plan) for each in live_forms(model, run, _formats(recipe))]


def _cache(tree: Component, requests: Workload, plan: Serving) -> Component:
    longest = requests.size("cached")
    return cache(tree, how=plan.cache, format=cache_format(plan.kv), longest=longest, block=value_of(plan.block))


def _stepping(requests: Workload) -> Workload:
    """One query over many keys: where heads share keys, PyTorch's fused kernels take them packed (pack_gqa)."""
    return requests.replaced(kernel=EITHER) if requests.kernel == "math" else requests


def _moments(model: Model, requests: Workload, plan: Serving, recipe: WeightStorage) -> Iterator[PhasePeak]:
    """Reading the prompts, and making a token: with transformers' caches for all requests together.

    An engine with a paged cache reads at most ``plan.batched`` prompt tokens at once, and copies no cache. Where its
    profile run is known, that is what it keeps free.
    """
    formats = _formats(recipe)
    if plan.profile_run and plan.cache == PAGED:
        yield PhasePeak(PREFILL, int(plan.profile_run))
    elif plan.cache == CELLS:
        yield from _of_graph(model.tree(requests))
    elif not _code_is_known(model):
        yield PhasePeak(DECODE, None)
    elif plan.cache == PAGED:
        for name, each in zip((PREFILL, DECODE), _paged(requests, plan), strict=True):
            yield PhasePeak(name, forward(model, each, formats))
    else:
        prompts = requests.replaced(phase=PREFILL, seq_len=requests.size("cached"), cached=None)
        for name, each in ((PREFILL, prompts), (DECODE, _stepping(requests))):
            yield PhasePeak(name, activations(model, each, formats, plan.cache))


def _code_is_known(model: Model) -> TypeGuard[HFModel]:
    """Return whether the model's code is known well enough to tell what is live beside weights and cache."""
    if not isinstance(model, HFModel):
        return False
    try:
        return error_of(model) is not None
    except InvalidModel:
        return False


def _formats(recipe: WeightStorage) -> Numerics:
    compute = recipe.dtype if recipe.dtype in COMPUTED else QUANTIZED
    integers = in_int8(recipe)
    return Numerics(NUMBERS[compute].torch, packed=dequantizes(recipe) or integers, in_int8=integers)


def dequantizes(recipe: WeightStorage) -> bool:
    """Return whether each product has a dequantized copy of its matrix, as bitsandbytes' 4 bits until 0.49.

    Kernels of the other formats read packed numbers.

    Source: bitsandbytes' autograd/_functions.py (``MatMul4Bit.forward``; ``matmul_4bit`` takes ``gemv_4bit`` for a
    single row).
    """
    return recipe.format.name.startswith(("nf4", "fp4"))


def in_int8(recipe: WeightStorage) -> bool:
    """Return whether products are those of integers, with buffers of their own: bitsandbytes' LLM.int8."""
    return recipe.format.name == LLM_INT8


def _paged(requests: Workload, plan: Serving) -> tuple[Workload, Workload]:
    """Workloads that an engine with a paged cache runs at once: a part of one prompt, and a token of each request."""
    part = minimum(requests.size("cached"), plan.batched)
    chunk = requests.replaced(phase=PREFILL, batch_size=1, seq_len=part, cached=None, kernel="flash")
    return chunk, chunk.replaced(batch_size=requests.batch_size, seq_len=1)


def weights_bytes(model: Model, tree: Component, format: str = "") -> int:
    """Bytes that :func:`~tfcalc.memory` answers for ``model`` at rest; "" is the checkpoint's own format."""
    own = own_format(model)
    if not format and not (own and own.format.name not in DTYPES):
        return value_of(tree.total(held_bytes(NUMBERS[own_dtype(model)].bits)))
    recipe = recipe_at_rest(model, format)
    return value_of(hold(tree, recipe).total(bytes_held)) + value_of(buffers_of(tree, recipe).total(bytes_held))


def own_name(model: Model) -> str:
    """The name of the checkpoint's own format."""
    own = own_format(model)
    return own.format.name if own else own_dtype(model)


def kv_bytes_per_token(model: Model, workload: Workload, plan: Serving) -> int:
    """The bytes that a token adds to the cache of a request, in all layers, before a window is full; a state adds none.

    Raises InvalidModel for a model that writes no text.
    """
    return cache_growth(model, workload, plan).per_token


def cache_growth(model: Model, workload: Workload, plan: Serving) -> CacheGrowth:
    """Growth of a request's cache, layer by layer, for as many tokens as all layers store together.

    Windows are not yet full, and a state adds nothing. Raises InvalidModel.
    """
    workload, plan = resolve_serving(model, workload, plan.replaced(concurrency=1))
    requests = at_work(workload, plan)
    model.check(requests)
    return growth_of(mixers(model.tree(requests)), plan.kv)
