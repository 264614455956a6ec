"""Single numbers of a model, each as the answer to its own question has it, without the breakdown."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.common import default_run
from tfcalc.conventions import DTYPES
from tfcalc.core.measure import bytes_held, held_bytes
from tfcalc.core.traced import value_of
from tfcalc.defaults import own_dtype, own_format, resolve_serving
from tfcalc.errors import InvalidModel
from tfcalc.number_formats import NUMBERS
from tfcalc.report import exact

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.report import Report
    from tfcalc.workload import Workload


class Unknown(NamedTuple):
    """A number that is not known of this model: ``short`` in a few words, ``reason`` in full."""

    short: str
    reason: str


def known(number: Callable[[], int], short: str) -> int | Unknown:
    """The number, or why there is none, ``short`` and in full."""
    try:
        return number()
    except InvalidModel as error:
        return Unknown(short, str(error))


def weights_bytes(model: Model, tree: Component, format: str = "") -> int:
    """What :func:`~tfcalc.memory` answers of ``model`` at rest; "" is the checkpoint's own format."""
    own = own_format(model)
    if not format and not (own and own.format.name not in DTYPES):
        return value_of(tree.total(held_bytes(NUMBERS[own_dtype(model)].bits)))
    from tfcalc.analysis.serving_memory import buffers_of, weight_recipe
    from tfcalc.plans import Serving
    from tfcalc.serving.weights import hold

    recipe = weight_recipe(model, Serving(weights=format))
    return value_of(hold(tree, recipe).total(bytes_held)) + value_of(buffers_of(tree, recipe).total(bytes_held))


def own_name(model: Model) -> str:
    """The name of the checkpoint's own format."""
    own = own_format(model)
    return own.format.name if own else own_dtype(model)


class Growth(NamedTuple):
    """The bytes that so many ``tokens`` add to the cache of a request: by the path of each mixer that has one."""

    tokens: int
    by_mixer: dict[str, int]

    @property
    def per_token(self) -> int:
        """Of a token, in all layers."""
        return sum(self.by_mixer.values()) // self.tokens


def kv_bytes_per_token(model: Model, workload: Workload, plan: Serving) -> int:
    """The bytes that a token adds to the cache of a request, in all layers, before a window is full; a state adds none.

    Raises InvalidModel for a model that writes no text.
    """
    return cache_growth(model, workload, plan).per_token


def cache_growth(model: Model, workload: Workload, plan: Serving) -> Growth:
    """The same layer by layer, for as many tokens as all of them store together. Raises InvalidModel."""
    from tfcalc.analysis.serving_memory import at_work
    from tfcalc.serving.caches import Allocation, Mixer, cache_format, held, mixers

    workload, plan = resolve_serving(model, workload, plan.replaced(concurrency=1))
    requests = at_work(workload, plan)
    model.check(requests)
    found = mixers(model.tree(requests))
    growing = [one for mixer in found for one in mixer.cached if one.tokens is not None and one.grows]
    tokens = lcm(*(value_of(one.every) for one in growing))
    by_mixer: dict[str, int] = {}
    for mixer in found:
        kept = tuple(one._replace(tokens=tokens, window=None, chunk=None) for one in mixer.cached if one in growing)
        alone = Mixer(mixer.path, mixer.copies, kept)
        amount = value_of(held([alone], Allocation(), cache_format(plan.kv)).total(bytes_held))
        by_mixer[mixer.path] = by_mixer.get(mixer.path, 0) + amount
    return Growth(tokens, by_mixer)


def serving_context(model: Model, workload: Workload) -> int:
    """The model's longest context; of a model that has none, as many tokens as are run."""
    return model.longest if isinstance(model.longest, int) else exact(workload.seq_len)


def serving_and_cache(model: Model, plan: Serving) -> tuple[int | Unknown, int | Unknown]:
    """The bytes of serving by this plan, and of its cache; nothing is known of a model that generates no text."""
    from tfcalc.analysis.serving_memory import served

    try:
        found = served(model, default_run(model), plan, formulas=False)
        return found.total, value_of(found.cache.total(bytes_held))
    except InvalidModel as error:
        unknown = Unknown("none: it generates no text", str(error))
        return unknown, unknown


def per_token(step: Report) -> int | float:
    """FLOPs of a token, or of a sample where a model reads no tokens."""
    found: int | float = step.totals["flops_per_token"]
    return found
