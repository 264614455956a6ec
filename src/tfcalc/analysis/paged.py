"""What an engine with a paged cache says of a budget when it starts: how many tokens it caches, how many requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.serving_memory import at_work
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.serving.caches import PAGED
from tfcalc.serving.paging import Engine, layers, pool

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.workload import Workload


class PagedCache(NamedTuple):
    """The ``blocks`` that a budget has room for, and what they hold of requests of ``context`` tokens.

    Unlike transformers, an engine reserves for a window what all steps under way may need, and gives every layer pages
    of one size; so ``concurrency`` may be less than the most requests whose caches fit.
    """

    context: int
    block_bytes: int
    blocks: int
    tokens: int
    concurrency: float

    @property
    def in_words(self) -> str:
        """As vLLM's log has it."""
        return (
            f"vLLM's log would say: GPU KV cache size {self.tokens:,} tokens, "
            f"maximum concurrency for {self.context:,} tokens per request {self.concurrency:.2f}x"
        )


def paged_cache(model: Model, run: Workload, plan: Serving, budget: int) -> PagedCache | None:
    """That of a resolved plan, with so many bytes for the cache; None where there is none that vLLM could page."""
    if plan.cache != PAGED or budget < 0:
        return None
    requests, engine = at_work(run, plan), Engine(value_of(plan.block), value_of(plan.batched), format=plan.kv)
    try:
        found = pool(layers(model.tree(requests), engine), engine)
    except InvalidModel:
        return None
    blocks, context = found.blocks(budget), value_of(requests.size("cached"))
    held = found.requests(blocks, context)
    return PagedCache(context, found.block_bytes, blocks, int(held * context), round(float(held), 2))
