"""How a serving engine pages caches: blocks of one size for all layers, in a pool that requests share, as vLLM does."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, total
from tfcalc.errors import InvalidModel
from tfcalc.held.serving.engine import STATE, Engine, Layer, Page, layers, stages


class Group(NamedTuple):
    """Layers with one table of blocks: so many of one kind, the last of which may be padding."""

    page: Page
    block: int
    layers: int


class Pool(NamedTuple):
    """Blocks that requests share. Each holds ``page`` bytes for each of ``size`` layers: one from every group."""

    engine: Engine
    groups: tuple[Group, ...]
    page: int
    size: int

    @property
    def block_bytes(self) -> int:
        """Of one block of the pool."""
        return self.page * self.size

    def per_request(self, length: Num) -> Num:
        """Blocks that a request of ``length`` tokens takes at most, of all groups together."""
        return total(group.page.blocks(length, group.block, self.engine) for group in self.groups)

    def bytes(self, requests: Num, length: Num) -> Num:
        """That so many requests of ``length`` tokens each take at most."""
        return requests * self.per_request(length) * self.block_bytes

    def blocks(self, budget: int) -> int:
        """That a budget of bytes holds."""
        return budget // self.block_bytes

    def requests(self, blocks: int, length: int) -> Fraction:
        """Of ``length`` tokens each, that so many blocks hold ("Maximum concurrency for L tokens per request")."""
        each = self.per_request(length)
        assert isinstance(each, int)
        return Fraction(blocks, each)

    def tokens(self, blocks: int, length: int) -> int:
        """What newer versions print as "GPU KV cache size": concurrency × the longest request."""
        return int(self.requests(blocks, length) * length)

    def slots(self, blocks: int) -> int:
        """The same as older versions have it: an equal share of the blocks for each group."""
        return blocks // len(self.groups) * min(group.block for group in self.groups)


def pool(found: Sequence[Layer], engine: Engine) -> Pool:
    """The pool of these layers (one stage's).

    Layers of one kind share one table of blocks, whatever they are wide. Otherwise all pages are made equally large:
    a narrower layer gets longer blocks; where there are states, attention gets blocks at least as large as a state, and
    states are filled up. Then the layers are cut into groups of one size: that of the smallest kind, or of the largest
    where it has less than half as many again; the last group of a kind may be filled up.

    Source: vLLM, ``unify_kv_cache_spec_page_size``, ``_get_kv_cache_groups_uniform_page_size`` and
    ``get_max_concurrency_for_kv_cache_config`` (v1/core/kv_cache_utils.py).
    """
    pages = [layer.page for layer in found]
    if not pages:
        raise InvalidModel("the model has no KV cache", "use a model that generates")
    if len({page._replace(bytes=0) for page in pages}) == 1:
        widths = [page.bytes for page in pages]
        one = pages[0]._replace(bytes=max(widths) * len(widths) if engine.filled else sum(widths))
        state = one.kind == STATE
        return Pool(engine, (Group(one, engine.block, len(pages)),), one.bytes * (1 if state else engine.block), 1)
    kinds = {page: pages.count(page) for page in pages}
    blocks, largest = _blocks(list(kinds), engine)
    least, most = min(kinds.values()), max(kinds.values())
    size = most if 2 * most < 3 * least else least
    groups = [
        Group(page, block, size)
        for (page, count), block in zip(kinds.items(), blocks, strict=True)
        for _ in range(ceil_div(count, size))
    ]
    return Pool(engine, tuple(groups), largest, size)


def _blocks(pages: list[Page], engine: Engine) -> tuple[list[int], int]:
    """The tokens of a block of each, and the bytes that a page then has."""
    states = [page.bytes for page in pages if page.kind == STATE]
    widest = max(page.bytes for page in pages if page.kind != STATE)
    block = engine.block
    if states:
        block *= ceil_div(max(states), block * widest)
    page_bytes = block * widest
    for page in pages:
        if page.kind != STATE and not engine.filled and page_bytes % page.bytes:
            raise InvalidModel(
                f"a page of {page_bytes} bytes is no multiple of {page.bytes} bytes a token", "vLLM cannot page it"
            )
    same = [page.kind == STATE or engine.filled for page in pages]
    return [block if one else page_bytes // page.bytes for page, one in zip(pages, same, strict=True)], page_bytes


def pools(tree: Component, engine: Engine, pipeline: int = 1, n_layers: int | None = None) -> list[Pool]:
    """The pool of each of ``pipeline`` stages of a tree that decodes; what fits into all of them fits.

    ``n_layers`` are those of the whole stack, where the last of them keep nothing.
    """
    found = layers(tree, engine)
    if pipeline == 1:
        return [pool(found, engine)]
    whole = 1 + max(layer.place for layer in found) if n_layers is None else n_layers
    return [pool(stage, engine) for stage in stages(found, pipeline, whole)]
