"""Ranks: what one GPU of each pipeline stage stores and does in a micro-batch, and the messages of a whole step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import lcm
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.measure import params
from tfcalc.core.number import Num, ceil_div, divide, total
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module, counted
from tfcalc.ops.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from tfcalc.placed.layout import Layout, check_even
from tfcalc.placed.messages import Sent, messages
from tfcalc.placed.rules import on_device
from tfcalc.workload import Workload

DATA, EXPERT_DATA, EMBEDDINGS, REPLICAS = "data", "expert data", "embeddings", "replicas"
"""Groups of GPUs with the same weights: all but experts, experts, copies of a tied table; and of whole shards."""
EXPERTS, LAYER = "experts", "layer"
ALIGNED, EVENLY = 64, 128
"""Where each parameter begins in the buffer of a distributed optimizer, and what the buffer's length divides by."""


class Rank(NamedTuple):
    """A GPU of one stage: its place, the tree of what it stores and does, and its module."""

    at: Layout
    tree: Component
    module: Module

    @property
    def experts(self) -> Num:
        """Parameters of experts."""
        return total(node.total(params) for node in self.tree.walk() if node.component.kind == EXPERTS)

    @property
    def others(self) -> Num:
        """Parameters of all else."""
        return self.tree.total(params) - self.experts

    @property
    def layers(self) -> Num:
        """Number of layers."""
        return total(node.copies for node in self.tree.walk() if node.component.kind == LAYER)

    def part(self, *, experts: bool) -> Component:
        """Return the tree of experts alone, or of all else."""
        return _only_experts(self.tree) if experts else _without_experts(self.tree)


def _without_experts(tree: Component) -> Component:
    return tree._replace(parts=tuple(_without_experts(part) for part in tree.parts if part.kind != EXPERTS))


def _only_experts(tree: Component) -> Component:
    parts = (part if part.kind == EXPERTS else _only_experts(part) for part in tree.parts)
    return tree._replace(own=tree.own._replace(weights=()), parts=tuple(parts))


class Ranks:
    """The ranks of a model in a layout, for micro-batches of the ``run``."""

    def __init__(self, model: Module, layout: Layout, run: Workload) -> None:
        self.model, self.layout, self.run = model, layout, run

    @cached_property
    def stages(self) -> list[Rank]:
        """One GPU of each stage. Raises InvalidModel where the layout does not divide the model."""
        self._check()
        stages = range(value_of(self.layout.pp))
        return [self._rank(self.layout._replace(stage=stage)) for stage in stages]

    def _rank(self, at: Layout) -> Rank:
        module = on_device(self.model, at)
        share = self.run.replaced(seq_len=divide(self.run.seq_len, at.cp))
        return Rank(at, counted(module, share), module)

    def _check(self) -> None:
        at = self.layout
        self._check_of_model()
        at.check()
        if known(at.cp) != 1:
            check_even("sequence length", self.run.seq_len, "twice context", 2 * at.cp)
        if at.sequence_parallel:
            check_even("tokens of a sequence", divide(self.run.seq_len, at.cp), "tensor", at.tp)

    def _check_of_model(self) -> None:
        """Raise InvalidModel for what has no effect on this model."""
        at, every = self.layout, list(self.model.all_of())
        if not any(isinstance(each, Mixture) for each in every) and (known(at.ep) != 1 or at.etp is not None):
            raise InvalidModel("expert parallelism has no effect on a model without experts", "leave it out")
        if at.shares_latents and not any(isinstance(each, LatentAttention) for each in every):
            raise InvalidModel("sharing latent vectors has no effect without latent attention", "leave it out")
        if at.shares_latents and known(at.tp) == 1:
            raise InvalidModel("sharing latent vectors has no effect without tensor parallelism", "add --tp 2")


def buffer_size(sizes: Iterator[Num], devices: Num) -> Num:
    """Return the elements of the buffer that a distributed optimizer shares out: each parameter begins aligned.

    >>> buffer_size(iter([64, 100, 64]), 8)
    256

    Source: Megatron-core's ``_ParamAndGradBuffer`` (one bucket).
    """
    end: Num = 0
    for size in sizes:
        end = ceil_div(end, ALIGNED) * ALIGNED + size
    whole = lcm(value_of(devices), EVENLY)
    padded: Num = ceil_div(end, whole) * whole
    return padded


def tensors(tree: Component) -> Iterator[Num]:
    """Yield the sizes of all stored tensors, those of each layer by themselves."""
    for node in tree.walk():
        for weight in node.component.own.weights:
            if weight.tied_to is None:
                yield from [weight.size] * value_of(node.copies)


class SentBits(NamedTuple):
    """Bits of numbers that data parallelism sends: weights, and gradients as they are summed."""

    weights: int
    gradients: int


def replicated(elements: Num, devices: Num, bits: SentBits, group: str = DATA) -> list[Sent]:
    """Return what DDP sends in a step: one all-reduce of all gradients.

    Source: Li et al. 2020 (arXiv 2006.15704), section 3.
    """
    return [Sent(ALL_REDUCE, devices, divide(elements * bits.gradients, 8), 0, 1, group)]


def optimizer_shared(elements: Num, devices: Num, bits: SentBits, group: str = DATA) -> list[Sent]:
    """Return what a distributed optimizer sends in a step, of a buffer of this size (ZeRO 1).

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 7; Megatron-core's ``DistributedOptimizer``.
    """
    gradients, weights = (divide(elements * each, 8) for each in (bits.gradients, bits.weights))
    return [Sent(REDUCE_SCATTER, devices, gradients, 0, 1, group), Sent(ALL_GATHER, devices, weights, 1, 0, group)]


def fully_sharded(
    units: list[tuple[Num, Num]],
    devices: Num,
    bits: SentBits,
    *,
    reshards: bool = True,
    replicas: Num = 1,
    group: str = DATA,
) -> list[Sent]:
    """Return what FSDP2 sends in a micro-batch, of ``units``: the elements of one, and how many there are.

    Each is gathered in forward, and once more in backward if it ``reshards`` (ZeRO 3; else ZeRO 2). Gradients of shards
    are summed over the ``replicas`` of all shards (HSDP).

    Source: Zhao et al. 2023 (arXiv 2304.11277), section 3; torch.distributed.fsdp.fully_shard.
    """
    sent = []
    for elements, count in units:
        gradients, weights = (divide(elements * each, 8) for each in (bits.gradients, bits.weights))
        sent.append(Sent(ALL_GATHER, devices, weights, count, count if reshards else 0, group))
        sent.append(Sent(REDUCE_SCATTER, devices, gradients, 0, count, group))
        if known(replicas) != 1:
            sent.append(Sent(ALL_REDUCE, replicas, divide(gradients, devices), 0, count, REPLICAS))
    return sent


def units(tree: Component) -> list[tuple[Num, Num]]:
    """Return the units that FSDP gathers: each kind of layer with the number of these, and what is in no layer."""
    layers = [(node.component.each(params), node.copies) for node in tree.walk() if node.component.kind == LAYER]
    rest = tree.total(params) - total(size * count for size, count in layers)
    return [(size, count) for size, count in (*layers, (rest, 1)) if value_of(size)]


class OfData(NamedTuple):
    """Data parallelism: which states it shares (ZeRO's ``stage``), and the bits of what it sends."""

    stage: int
    bits: SentBits

    def sent(self, rank: Rank, micro_batches: Num) -> Iterator[Sent]:
        """Yield what a rank sends to those with the same weights in a step."""
        at = rank.at
        for experts, devices, group in (False, at.copies, DATA), (True, at.copies_of_experts, EXPERT_DATA):
            tree = rank.part(experts=experts)
            if known(devices) != 1 and value_of(tree.total(params)):
                yield from self._of(tree, devices, group, micro_batches)

    def _of(self, tree: Component, devices: Num, group: str, micro_batches: Num) -> Iterator[Sent]:
        if self.stage == 0:
            yield from replicated(tree.total(params), devices, self.bits, group)
        elif self.stage == 1:
            yield from optimizer_shared(buffer_size(tensors(tree), devices), devices, self.bits, group)
        else:
            for each in fully_sharded(units(tree), devices, self.bits, reshards=self.stage == 3, group=group):
                yield each._replace(forward=each.forward * micro_batches, backward=each.backward * micro_batches)


def sent_in_a_step(rank: Rank, micro_batches: Num, by: OfData, tied: bool) -> list[Sent]:
    """Return the messages of a rank in a step: those of each micro-batch, and those of data parallelism.

    A table that is ``tied`` to the head of another stage has a copy there, and both sum up their gradients.
    """
    found = [
        each._replace(forward=each.forward * micro_batches, backward=each.backward * micro_batches)
        for each in messages(rank.tree, by.bits.weights)
        if known(each.devices) != 1
    ]
    found += by.sent(rank, micro_batches)
    at = rank.at
    if tied and known(at.pp) != 1 and (at.first or at.last):
        rows = next(node.component for node in rank.tree.walk() if node.component.kind in ("embedding", "output"))
        found += replicated(rows.each(params), 2, by.bits, EMBEDDINGS)
    return found
