"""Paged caches of a serving engine: blocks of one size for all layers, in a pool that requests share, as in vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from tfcalc.core.component import Cached, Component
from tfcalc.core.measure import bytes_of
from tfcalc.core.number import Num, ceil_div, minimum, total
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.ops.work import CONVOLUTION
from tfcalc.serving.caches import BLOCK, PAGED, Allocation, Mixer, cache_format, mixers, tensors
from tfcalc.serving.stored import at_work

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.workload import Workload


FULL, SLIDING, CHUNKED, SOURCE, STATE = "full", "sliding window", "chunk", "source", "state"
BATCHED = 8192
"""Tokens that one step may run, where it is not said (vLLM's max_num_batched_tokens of a server)."""


class Engine(NamedTuple):
    """Settings of an engine that decide how much memory a request takes.

    ``batched`` tokens may be run in a step (max_num_batched_tokens), and ``in_flight`` such steps are under way at once
    (2 with asynchronous scheduling, since vLLM 0.26). Heads are divided among ``tensor_parallel`` ranks; what all heads
    share is on each of them. ``state_pages`` is the number of pages of a state: one, or two where prefixes are cached
    at block boundaries ("align"). ``hybrid=False``: windows are stored whole, as without the hybrid cache manager.
    Where layers differ, a narrower one gets longer blocks, or its pages are ``filled`` up (as logs of Gemma 4 show).
    """

    block: int = BLOCK
    batched: int = BATCHED
    in_flight: int = 1
    tensor_parallel: int = 1
    format: str = "bf16"
    state_pages: int = 1
    hybrid: bool = True
    filled: bool = False


class Page(NamedTuple):
    """Cache of one layer on one rank: ``bytes`` for each token, or in all where it is a state.

    ``limit`` is the window or the chunk that it sees, or the tokens of a source.
    """

    kind: str
    bytes: int
    limit: Num = 0

    def blocks(self, length: Num, block: int, engine: Engine) -> Num:
        """Largest number of blocks that a request of ``length`` tokens takes.

        ====================  ==================================================================
        full                  ``⌈L/b⌉``
        a window of W         ``⌈min(W − 1 + T, L)/b⌉ + 1``: it need not start where a block does
        a chunk of C          ``⌈min(C + T, L)/b⌉``
        a source of S         ``⌈S/b⌉``
        a state               1, or as many as ``state_pages``
        ====================  ==================================================================

        T are the tokens of all steps under way. Source: vLLM, ``max_memory_usage_bytes`` of FullAttentionSpec,
        SlidingWindowSpec, ChunkedLocalAttentionSpec, CrossAttentionSpec and MambaSpec (v1/kv_cache_interface.py).
        """
        if self.kind == STATE:
            return engine.state_pages
        running = engine.batched * engine.in_flight
        needed, more = {
            FULL: (length, 0),
            SLIDING: (minimum(self.limit - 1 + running, length), 1),
            CHUNKED: (minimum(self.limit + running, length), 0),
            SOURCE: (self.limit, 0),
        }[self.kind]
        pages: Num = ceil_div(needed, block) + more
        return pages


class CachedLayer(NamedTuple):
    """A layer of the model as the engine sees it, at its place in the stack."""

    place: int
    page: Page


def layers(tree: Component, engine: Engine) -> list[CachedLayer]:
    """Layers with a cache in a tree that decodes, in the order of their stack.

    Raises InvalidModel where their number is none, or where one keeps a key for several tokens (DeepSeek-V4).
    """
    found = []
    for mixer in mixers(tree):
        if not isinstance(mixer.copies, int):
            raise InvalidModel(f"{mixer.path}: {mixer.copies} layers", "give a number: an engine groups them")
        places = mixer.places or range(mixer.copies)
        repeated = mixer.copies // len(places) if places else 0
        for page in _pages(mixer, engine):
            found += [CachedLayer(place, page) for place in places for _ in range(repeated)]
    return sorted(found, key=lambda layer: layer.place)


def _pages(mixer: Mixer, engine: Engine) -> Iterator[Page]:
    """Pages of one mixer: keys and values share one, and so do a convolution's inputs and a state."""
    sizes: dict[tuple[str, Num], int] = {}
    for cached in mixer.cached:
        if value_of(cached.every) > 1:
            raise InvalidModel(
                f"{mixer.path} stores one key per {cached.every} tokens; how engines page such a cache is not known",
                "leave --profiled and --nontorch out: what fits is answered, without their blocks",
            )
        kind = _kind(cached, engine)
        sizes[kind] = sizes.get(kind, 0) + _bytes(cached, engine)
    return (Page(kind, size, limit) for (kind, limit), size in sizes.items())


def _kind(cached: Cached, engine: Engine) -> tuple[str, Num]:
    """Kind of page, with the tokens that bound it."""
    if cached.tokens is None:
        return STATE, 0
    if not cached.grows:
        return SOURCE, cached.tokens
    if cached.limit is None or not engine.hybrid:
        return FULL, 0
    return CHUNKED if cached.window is None else SLIDING, cached.limit


def _bytes(cached: Cached, engine: Engine) -> int:
    """Bytes on one rank, of one token or of the whole state. A convolution's newest input is not stored (vLLM)."""
    newest = 1 if cached.name == CONVOLUTION else 0
    one = Cached(
        cached.name,
        ceil_div(cached.heads, engine.tensor_parallel),
        cached.width - newest,
        sequences=1,
        tokens=None if cached.tokens is None else 1,
        bits=cached.bits,
    )
    size = total(bytes_of(held.size, held.bits) for held in tensors(one, Allocation(), cache_format(engine.format)))
    assert isinstance(size, int)
    return size


class LayerGroup(NamedTuple):
    """Layers of one kind that share a block table; the last ones may be padding."""

    page: Page
    block: int
    layers: int


class CachePool(NamedTuple):
    """Blocks that requests share. Each holds ``page`` bytes for each of ``size`` layers: one from every group."""

    engine: Engine
    groups: tuple[LayerGroup, ...]
    page: int
    size: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool."""
        return self.page * self.size

    def per_request(self, length: Num) -> Num:
        """Blocks that a request of ``length`` tokens takes at most, of all groups together."""
        return total(group.page.blocks(length, group.block, self.engine) for group in self.groups)

    def bytes(self, requests: Num, length: Num) -> Num:
        """Largest number of bytes that ``requests`` requests of ``length`` tokens each take."""
        return requests * self.per_request(length) * self.block_bytes

    def blocks(self, budget: int) -> int:
        """Number of blocks in a budget of bytes."""
        return budget // self.block_bytes

    def requests(self, blocks: int, length: int) -> Fraction:
        """Requests of ``length`` tokens that fit in ``blocks`` ("Maximum concurrency for L tokens per request")."""
        each = self.per_request(length)
        assert isinstance(each, int)
        return Fraction(blocks, each)

    def tokens(self, blocks: int, length: int) -> int:
        """Value that newer versions print as "GPU KV cache size": concurrency × the longest request."""
        return int(self.requests(blocks, length) * length)

    def slots(self, blocks: int) -> int:
        """Value that older versions print: an equal share of the blocks for each group."""
        return blocks // len(self.groups) * min(group.block for group in self.groups)


def pool(found: Sequence[CachedLayer], engine: Engine) -> CachePool:
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
        return CachePool(
            engine, (LayerGroup(one, engine.block, len(pages)),), one.bytes * (1 if state else engine.block), 1
        )
    kinds = {page: pages.count(page) for page in pages}
    blocks, largest = _blocks(list(kinds), engine)
    least, most = min(kinds.values()), max(kinds.values())
    size = most if 2 * most < 3 * least else least
    groups = [
        LayerGroup(page, block, size)
        for (page, count), block in zip(kinds.items(), blocks, strict=True)
        for _ in range(ceil_div(count, size))
    ]
    return CachePool(engine, tuple(groups), largest, size)


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


def pools(tree: Component, engine: Engine, pipeline: int = 1) -> list[CachePool]:
    """The pool of each of ``pipeline`` stages of a tree that decodes; what fits into all of them fits.

    Layers that are left over go to stages before the last. Source: vLLM, ``get_pp_indices`` (distributed/utils.py).
    """
    found = layers(tree, engine)
    count = 1 + max((layer.place for layer in found), default=0)
    sizes = [count // pipeline] * pipeline
    for back in range(count % pipeline):
        sizes[-2 - back] += 1
    ends = list(accumulate(sizes))
    return [
        pool([layer for layer in found if end - size <= layer.place < end], engine)
        for size, end in zip(sizes, ends, strict=True)
    ]


LOGIT = 2 + 4 + 4 + 8 + 4 + 4
"""Bytes of a logit where vLLM's profile run samples: as made, in fp32, sorted, its place, probability, and their sum.

Source: vLLM, ``_dummy_sampler_run`` (v1/worker/gpu_model_runner.py) and ``apply_top_k_top_p`` (v1/sample/ops).
"""
SEQUENCES, MORE_SEQUENCES, MORE_FROM = 256, 1024, 70 * 2**30
"""Requests that the profile run samples for (``max_num_seqs``), and how many on cards of this memory and more."""
OUTSIDE = int(1.8 * 2**30)
"""The most that logs show outside of PyTorch and in CUDA graphs together; the least is next to nothing.

Source: threads of vLLM: 1.79 GiB (PR 10511), 1.34 + 0.13 (50722), 0.43 (16570), 0.03 (13882); 0.09 (club-3090#1087).
"""


class PagedCache(NamedTuple):
    """The ``blocks`` that a budget has room for, and what they hold of requests of ``context`` tokens.

    Unlike transformers, an engine reserves for a window what all steps under way may need, and gives every layer pages
    of one size; so ``concurrency`` may be less than the most requests whose caches fit. On a card an engine takes more
    than weights and a step: what it logs is from ``blocks_low`` to ``blocks``.
    """

    context: int
    block_bytes: int
    blocks: int
    tokens: int
    concurrency: float
    blocks_low: int
    tokens_low: int
    concurrency_low: float

    @property
    def in_words(self) -> str:
        """Size and concurrency in the words of vLLM's log."""
        size, most = f"{self.tokens:,} tokens", f"{self.concurrency:.2f}x"
        within = ""
        if self.blocks_low != self.blocks:
            size, most = f"{self.tokens_low:,} to {size}", f"{self.concurrency_low:.2f}x to {most}"
            within = ": the less, the more CUDA graphs, its profile run of the sampler, and memory outside PyTorch take"
        return (
            f"vLLM's log would say: GPU KV cache size {size}, maximum concurrency for {self.context:,} tokens per "
            f"request {most}{within}"
        )


def paged_cache(
    model: Model,
    run: Workload,
    plan: Serving,
    budget: int,
    *,
    card: int = 0,
    temporary: int = 0,
    outside: int = 0,
    here: Component | None = None,
) -> PagedCache | None:
    """Paged cache of a resolved plan, in ``budget`` bytes; None where there is none that vLLM could page.

    It is that of the whole model, or of what one GPU has ``here``.

    On a ``card``, of which the bytes are given, an engine also takes what nobody counts, and its profile run samples:
    what that takes beyond the ``temporary`` buffers of a step, and beyond what is taken off already for what is
    ``outside`` of PyTorch, is not left for the cache.
    """
    if plan.cache != PAGED or budget < 0:
        return None
    requests, engine = at_work(run, plan), Engine(value_of(plan.block), value_of(plan.batched), format=plan.kv)
    tree = here or model.tree(requests)
    try:
        found = pool(layers(tree, engine), engine)
    except InvalidModel:
        return None
    sampled = LOGIT * (SEQUENCES if card < MORE_FROM else MORE_SEQUENCES) * _vocabulary(tree)
    taken = max(0, sampled - temporary) + max(0, OUTSIDE - outside) if card else 0
    context = value_of(requests.size("cached"))
    held = [found.blocks(max(0, budget - each)) for each in (0, taken)]
    (blocks, tokens, most), low = ((each, *_logged(found, each, context)) for each in held)
    return PagedCache(context, found.block_bytes, blocks, tokens, most, *low)


def _logged(found: CachePool, blocks: int, context: int) -> tuple[int, float]:
    """The tokens that blocks hold, and how many requests."""
    held = found.requests(blocks, context)
    return int(held * context), round(float(held), 2)


def _vocabulary(tree: Component) -> int:
    """Width of the logits; 0 where there are none."""
    heads = (node.component for node in tree.walk() if node.component.kind == "output")
    return max((value_of(weight.shape[-1]) for head in heads for weight in head.own.weights if weight.shape), default=0)
