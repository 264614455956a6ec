"""What attention caches of a token is what decoding reads of it: ``cached`` declares it, ``update_cache`` is given it.

A mixer whose cached vectors are expanded again expands those of all tokens, and so has to take them from the cache:
otherwise it gets the FLOPs of the new tokens alone.
"""

from __future__ import annotations

import pytest

from tests.laws.test_modules import configs
from tfcalc import Workload, from_config
from tfcalc.configs.config import model_types
from tfcalc.core.component import Cached, Component
from tfcalc.core.number import Num, minimum
from tfcalc.errors import TfcalcError
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.module import Context, counted_on
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.ops.work import by_token
from tfcalc.tape.counting import Counting
from tfcalc.tape.tensor import Call, Tensor

BATCH, SEEN = 2, 37
STEP = Workload(batch_size=BATCH, phase="decode", cached=SEEN)


def of_a_token(entries: tuple[Cached, ...]) -> Num:
    """Numbers that these entries hold of each token."""
    return sum(entry.heads * entry.width for entry in entries if entry.tokens is not None)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of operations of attention that cache something, each of which is checked as it is counted."""
    found: list[str] = []
    given: list[Num] = []  # numbers of a token that a cache was given since the last operation
    update, call = Attention.update_cache, Counting.call

    def updated(self: Attention, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        whole = update(self, k, v, ctx)
        entries = [(each.tokens, each.limit) for each in self.cached(ctx) if each.tokens is not None]
        if entries:
            given.append(k.shape[1] * k.width + v.shape[1] * v.width)
            read = {tokens if limit is None else minimum(tokens, limit) for tokens, limit in entries}
            assert {x.shape[2] for x in whole} == read, f"{type(self).__name__} reads other tokens than it caches"
        return whole

    def called(self: Counting, asked: Call) -> Tensor:
        if of_a_token(asked.cached) and len(asked.inputs) == 3:  # not those of an indexer, nor states
            _, k, v = asked.inputs
            assert k is not None
            assert v is not None
            numbers = k.shape[1] * k.width, v.shape[1] * v.width
            # without update_cache, operands are as they are cached; one vector may be both key and value
            read = {given.pop()} if given else {sum(numbers), *(numbers[:1] if k is v else ())}
            declared = of_a_token(asked.cached)
            assert declared in read, f"{self.record.name} declares {declared} numbers of a token, and reads {read}"
            found.append(asked.name)
        return call(self, asked)

    monkeypatch.setattr(Attention, "update_cache", updated)
    monkeypatch.setattr(Counting, "call", called)
    return found


def test_decoding_reads_what_is_cached(watched: list[str]) -> None:
    types = 0
    for model_type in model_types():
        first, *drawn = configs(model_type)
        config = {key: value for key, value in (drawn or [first])[0].items() if key != "architectures"}
        watched.clear()
        try:
            from_config(config).tree(STEP)
        except TfcalcError:
            continue
        types += bool(watched)
    assert types > 150


H, A, D, RANK = 48, 4, 12, 5


class Compressed(Attention):
    """Keys and values are made of a vector of ``RANK`` each, which is what is cached."""

    up: Linear = ...  # type: ignore[assignment]  # a field without a default

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG002
        q, k, v = split(self.inward[0](x), [A * D, RANK, RANK])
        q = transpose(reshape(q, *x.shape[:2], A, D), 1, 2)
        return q, reshape(k, x.shape[0], 1, x.shape[1], RANK), reshape(v, x.shape[0], 1, x.shape[1], RANK)

    def expand(self, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        k, v = (transpose(reshape(self.up(each), BATCH, each.shape[2], A, D), 1, 2) for each in (k, v))
        return k, v

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        return by_token(ctx.stream, ctx.stream, 1, {"K": RANK, "V": RANK})


class ExpandedFirst(Compressed):
    """Forgets that a cache holds the vectors as they are before they are expanded."""

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x, source, ctx)
        return q, *super().expand(k, v, ctx)

    def expand(self, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return k, v


def step(of: type[Compressed]) -> Component:
    """The tree of a step of decoding."""
    maps = (Linear("qkv", H, A * D + 2 * RANK),)
    mixer = of("attention", A, A, D, D, maps, (), Linear("o", A * D, H), up=Linear("up", RANK, A * D))
    return counted_on(mixer, (BATCH, 1, H), Context(STEP, STEP.target))


def test_what_is_cached_is_expanded_for_all_tokens(watched: list[str]) -> None:
    (up,) = (part for part in step(Compressed).parts if part.name == "up")
    assert sum(product.flops for product in up.own.products) == 2 * (2 * BATCH * SEEN * RANK * A * D)
    assert watched == ["attend"]


def test_a_mixer_that_expands_before_its_cache_is_found(watched: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"declares 10 numbers of a token, and reads \{96\}"):
        step(ExpandedFirst)
    assert not watched
