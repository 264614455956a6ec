"""Requests that are served, and the weights and buffers of their model as these are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.measure import SMALLEST_BUFFER, buffer_elements
from tfcalc.core.traced import value_of
from tfcalc.defaults import compute_dtype, engine_dtype, own_dtype, own_format
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Embedding
from tfcalc.number_formats import NUMBERS
from tfcalc.serving.caches import PAGED
from tfcalc.serving.weight_formats import PLAIN, MixedFormat, format_named, plain
from tfcalc.serving.weights import WeightStorage
from tfcalc.workload import AUTO
from tfcalc.zoo.blocks.vision_tower import ImageEmbeddings

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.workload import Workload

PREFILL, DECODE, FORWARD = "prefill", "decode", "forward"


def reads_alone(model: Model) -> TypeGuard[HFModel]:
    """Return whether a model reads text and generates none, as those of embeddings and rerankers do."""
    if not isinstance(model, HFModel) or model.generates:
        return False
    every = list(model.module().all_of())
    if not any(isinstance(each, Embedding) for each in every):
        return False
    if any(isinstance(each, CrossAttention | ImageEmbeddings) for each in every):
        return False
    causal = any(isinstance(each, Attention) and each.causal for each in every)
    return not causal or not model.architecture.endswith("Model")  # a base of unknown use is no classifier


def check_served(model: Model, requests: Workload) -> None:
    """Raise InvalidModel where the model cannot serve these requests, in the words of serving."""
    try:
        model.check(requests)
    except InvalidModel as error:
        hint = (
            "ask what it takes at rest: tfcalc memory MODEL, tfcalc flops MODEL"
            if "no decode" in error.message
            else error.hint
        )
        raise InvalidModel(error.message.replace("no decode", "nothing to serve"), hint) from None


def at_work(run: Workload, plan: Serving) -> Workload:
    """One token of each request, behind all others of its context."""
    context = run.seq_len if plan.context is None else plan.context
    return run.replaced(phase=DECODE, batch_size=plan.concurrency, cached=context, recompute="none", logits="last")


def weight_recipe(model: Model, plan: Serving, dtype: str = AUTO) -> WeightStorage:
    """Storage of the weights as they are served: an engine has those that it does not quantize in 16 bits."""
    by_engine = dtype == AUTO and plan.cache == PAGED
    return recipe_at_rest(model, plan.weights, dtype, engine_dtype(model) if by_engine else "")


def recipe_at_rest(model: Model, weights: str = "", dtype: str = AUTO, beside: str = "") -> WeightStorage:
    """Storage of the weights: as asked for, in ``dtype``, or as the checkpoint has them.

    ``beside`` is the format of those that are not quantized; "" is that of the checkpoint.
    """
    if weights:
        asked = format_named(weights)
        beside = beside or (compute_dtype(model) if dtype == AUTO else dtype)
        return WeightStorage(asked, asked.name if asked.name in PLAIN else beside)
    if dtype == AUTO and (stored := own_format(model)):
        return stored
    chosen = plain(NUMBERS[own_dtype(model) if dtype == AUTO else dtype])
    return WeightStorage(chosen, chosen.name)


def tree_for(recipe: WeightStorage, model: Model, run: Workload, tree: Component) -> Component:
    """The tree whose weights are stored; llama.cpp's mixtures choose by sizes, and want plain numbers."""
    return model.tree(run) if isinstance(recipe.format, MixedFormat) else tree


def buffers_of(tree: Component, recipe: WeightStorage) -> Component:
    """Buffers beside the weights: in their format, 16 bits at least."""
    numbers, bits = tree.total(buffer_elements), PLAIN[recipe.dtype].bits if recipe.dtype in PLAIN else SMALLEST_BUFFER
    held = (Held("buffers", (numbers,), max(bits, SMALLEST_BUFFER)),) if value_of(numbers) else ()
    return Component("buffers", "buffers", Cost(held=held))
