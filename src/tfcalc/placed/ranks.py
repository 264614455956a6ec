"""Ranks: what one GPU of each pipeline stage stores and does in a micro-batch, and the messages of a whole step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from math import lcm

from tfcalc.core.component import TABLES, Component
from tfcalc.core.measure import params
from tfcalc.core.number import Num, ceil_div, divide, total
from tfcalc.core.recomputation import check_modules, modules_in, recomputing
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.basic import Embedding
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module, counted
from tfcalc.ops.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from tfcalc.placed.layout import Layout, check_even
from tfcalc.placed.messages import Sent, merged, messages
from tfcalc.placed.rules import on_device
from tfcalc.workload import Workload

DATA, EXPERT_DATA, EMBEDDINGS, REPLICAS, WHOLE = "data", "expert data", "embeddings", "replicas", "whole weights"
"""Groups of GPUs with the same weights: all but experts, experts, copies of a tied table; of whole shards; and those of
tensor parallelism, as they sum up gradients of what they do not share."""
EXPERTS, LAYER, NORM, ATTENTION = "experts", "layer", "norm", "attention"
AT_THE_ENDS = (*TABLES, "output")
"""Kinds of what is divided by rows, or read before the tokens are shared out."""
ALIGNED, EVENLY = 64, 128
"""Where each parameter begins in the buffer of a distributed optimizer, and what the buffer's length divides by."""


class Rank(NamedTuple):
    """A GPU of one stage: its place, the tree of what it stores and does, its module, and the stage on one GPU."""

    at: Layout
    tree: Component
    module: Module
    alone: Module

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

    @property
    def summed(self) -> Num:
        """Elements of weights that each GPU of tensor parallelism has whole, and of whose gradient it has a part.

        Where the GPUs share the tokens, these are all that they do not share out; else norms of heads, of which each
        has its own.

        Source: Megatron-core's ``_allreduce_non_tensor_model_parallel_grads``.
        """
        if self.at.alone:
            return 0
        (here,), (there,) = self.module.components(), self.alone.components()
        latent = any(isinstance(each, LatentAttention) for each in self.module.all_of())
        kinds = None if self.at.sequence_parallel else () if latent else (ATTENTION,)
        return _in_parts(here, there, kinds)

    def part(self, *, experts: bool) -> Component:
        """Return the tree of experts alone, or of all else."""
        return _only_experts(self.tree) if experts else _without_experts(self.tree)


def _without_experts(tree: Component) -> Component:
    return tree._replace(parts=tuple(_without_experts(part) for part in tree.parts if part.kind != EXPERTS))


def _only_experts(tree: Component) -> Component:
    parts = (part if part.kind == EXPERTS else _only_experts(part) for part in tree.parts)
    return tree._replace(own=tree.own._replace(weights=()), parts=tuple(parts))


def _in_parts(here: Component, alone: Component, norms_of: tuple[str, ...] | None, within: str = "") -> Num:
    """Return the elements of weights that are whole, as they are on one GPU ``alone``: all, or norms of these parts."""
    if here.kind in (*AT_THE_ENDS, EXPERTS):
        return 0
    pairs = zip(here.own.weights, alone.own.weights, strict=True)
    parts = zip(here.parts, alone.parts, strict=True)
    counts = norms_of is None or (here.kind == NORM and within in norms_of)
    own = total(each.size for each, whole in pairs if counts and each.size == whole.size)
    return here.copies * (own + total(_in_parts(*each, norms_of, here.kind) for each in parts))


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
        module = self._piece(at)
        share = self.run.replaced(seq_len=at.share_of_sequence(self.run.seq_len))
        of_one = at._replace(tp=1, sequence_parallel=False, ep=1, etp=None)
        alone = module if at.splits_nothing else on_device(self.model, of_one)
        tree = counted(module, share)
        if modules := self.run.named_modules:
            known = modules_in(counted(self.model, self.run))
            check_modules(modules, known, "this model")
        tree = recomputing(tree, self.run.recompute, self.run.every, early_stop=self.run.early_stop, modules=modules)
        return Rank(at, tree, module, alone)

    def _piece(self, at: Layout) -> Module:
        """Return the model's piece on a GPU: all of it where no GPUs share one, whether there are rules or not."""
        try:
            return on_device(self.model, at)
        except InvalidModel:
            if not at.splits_nothing or any(value_of(each.rows) % at.rows for each in self._tables):
                raise
            return self.model

    @property
    def _tables(self) -> Iterator[Embedding]:
        """Tables of tokens, whose rows are filled up."""
        return (each for each in self.model.all_of() if isinstance(each, Embedding))

    def _check(self) -> None:
        at = self.layout
        self._check_of_model()
        at.check()
        share = at.share_of_sequence(self.run.seq_len)
        if at.sequence_parallel:
            check_even("tokens of a sequence", share, "tensor", at.tp)

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


def buffer_of_deepspeed(sizes: Iterator[Num], devices: Num) -> Num:
    """Return the elements of DeepSpeed's buffer of all parameters: filled up at its end alone.

    >>> buffer_of_deepspeed(iter([64, 101, 64]), 8)
    240

    Source: DeepSpeed's runtime/zero/stage_1_and_2.py (``nccl_start_alignment_factor``).
    """
    padded: Num = ceil_div(total(sizes), 2 * devices) * 2 * devices
    return padded


class GradientBuffer(NamedTuple):
    """Buffer that one operation of data parallelism sends: tensors of a ``chunk`` of a stage.

    Those of ``experts`` have a buffer of their own, and so may a ``table`` that is tied to that of another stage.
    """

    chunk: int
    experts: bool = False
    table: bool = False


def buffers(rank: Rank, *, tied: bool = False) -> dict[GradientBuffer, list[Num]]:
    """Return the sizes of the tensors in each buffer; a table that is ``tied`` is apart.

    Source: Megatron-core's ``DistributedDataParallel``, one for each chunk, and ``_ParamAndGradBuffer``.
    """
    at, found = rank.at, defaultdict[GradientBuffer, list[Num]](list)
    counts = at.layers_of_chunks(value_of(rank.layers))
    chunks = [chunk for chunk, count in enumerate(counts) for _ in range(count)]
    apart = known(at.ep) != 1 or value_of(at.of_an_expert) != value_of(at.tp)

    def add(part: Component, copies: Counter[int], *, experts: bool = False) -> None:
        """Add the tensors of a part, with the number of its copies in each chunk."""
        if part.kind == LAYER:
            copies = Counter(chunks if part.places is None else [chunks[place] for place in part.places])
        elif part.kind in TABLES:
            copies = Counter([0])
        else:
            copies = Counter({chunk: count * value_of(part.copies) for chunk, count in copies.items()})
        experts = experts or (apart and part.kind == EXPERTS)
        sizes = [weight.size for weight in part.own.weights if weight.tied_to is None]
        for chunk, count in copies.items():
            if sizes:
                found[GradientBuffer(chunk, experts, tied and part.kind in ("embedding", "output"))] += sizes * count
        for each in part.parts:
            add(each, copies, experts=experts)

    add(rank.tree, Counter([value_of(at.vpp) - 1]))
    return found


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


class ShardedUnit(NamedTuple):
    """Elements that FSDP gathers at once, and how many such units there are. The ``root`` has what is in no layer."""

    elements: Num
    alike: Num
    root: bool = False


def fully_sharded(
    units: list[ShardedUnit],
    devices: Num,
    bits: SentBits,
    *,
    reshards: bool = True,
    replicas: Num = 1,
    group: str = DATA,
) -> list[Sent]:
    """Return what FSDP2 sends in a micro-batch.

    Each unit is gathered in forward, and once more in backward if it ``reshards`` (ZeRO 3; else ZeRO 2); the root, with
    which backward begins, stays whole. Gradients of shards are summed over the ``replicas`` of all shards (HSDP).

    Source: Zhao et al. 2023 (arXiv 2304.11277), section 3; torch.distributed.fsdp.fully_shard.
    """
    sent = []
    for elements, count, root in units:
        gradients, weights = (divide(elements * each, 8) for each in (bits.gradients, bits.weights))
        sent.append(Sent(ALL_GATHER, devices, weights, count, count if reshards and not root else 0, group))
        sent.append(Sent(REDUCE_SCATTER, devices, gradients, 0, count, group))
        if known(replicas) != 1:
            sent.append(Sent(ALL_REDUCE, replicas, divide(gradients, devices), 0, count, REPLICAS))
    return sent


def units(tree: Component) -> list[ShardedUnit]:
    """Return the units that FSDP gathers: each kind of layer with the number of these, and what is in no layer."""
    layers = [
        ShardedUnit(node.component.each(params), node.copies) for node in tree.walk() if node.component.kind == LAYER
    ]
    rest = tree.total(params) - total(unit.elements * unit.alike for unit in layers)
    return [unit for unit in (*layers, ShardedUnit(rest, 1, root=True)) if value_of(unit.elements)]


class OfData(NamedTuple):
    """Data parallelism: which states it shares (ZeRO's ``stage``), and the bits of what it sends.

    Weights of ZeRO 2 are whole, and gathered once, when the optimizer has stepped; those of FSDP2 (``fsdp``) are shards
    between micro-batches, and gathered in each. A ``buffer`` of tensors has as many elements as its function returns.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), sections 5.2 and 7.2.1; DeepSpeed's
    runtime/zero/stage_1_and_2.py; torch.distributed.fsdp.fully_shard; torch.distributed.pipelining, which in a pipeline
    gathers the weights of stage 2, and sums up gradients, once a step.
    """

    stage: int
    bits: SentBits
    fsdp: bool = False
    buffer: Callable[[Iterator[Num], Num], Num] = buffer_size

    def sent(self, rank: Rank, micro_batches: Num, *, tied: bool = False) -> list[Sent]:
        """Return what a rank sends to those with the same weights in a step, of which it may have a ``tied`` table."""
        found = self._by_units(rank, micro_batches) if self.stage > 1 else self._by_buffers(rank, tied=tied)
        return merged(each for each in found if known(each.devices) != 1)

    def _by_buffers(self, rank: Rank, *, tied: bool) -> Iterator[Sent]:
        for buffer, sizes in buffers(rank, tied=tied and self.stage == 1).items():
            devices, group = self._group(rank.at, experts=buffer.experts)
            if self.stage == 0:
                yield from replicated(total(sizes), devices, self.bits, group)
            else:
                yield from optimizer_shared(self.buffer(iter(sizes), devices), devices, self.bits, group)

    def _by_units(self, rank: Rank, micro_batches: Num) -> Iterator[Sent]:
        for experts in (False, True):
            devices, group = self._group(rank.at, experts=experts)
            of, copies = units(rank.part(experts=experts)), devices
            if known(rank.at.replicas) != 1:
                devices = rank.at.shards_of_experts if experts else rank.at.shards
            replicas: Num = divide(copies, devices)
            reshards = self.stage == 3
            for each in fully_sharded(of, devices, self.bits, reshards=reshards, replicas=replicas, group=group):
                whole = known(rank.at.pp) != 1 if self.fsdp else each.name == ALL_GATHER
                once = whole and self.stage == 2
                times = 1 if once else micro_batches
                yield each._replace(forward=each.forward * times, backward=each.backward * times)

    def _group(self, at: Layout, *, experts: bool) -> tuple[Num, str]:
        return (at.copies_of_experts, EXPERT_DATA) if experts else (at.copies, DATA)


def sent_in_a_step(rank: Rank, micro_batches: Num, by: OfData, *, activations: int, tied: bool) -> list[Sent]:
    """Return the messages of a rank in a step: those of each micro-batch, and those of data parallelism.

    ``activations`` are the bits of each of their numbers. A table that is ``tied`` to the head of another stage has a
    copy there, and both sum up their gradients.
    """
    found = [
        each._replace(forward=each.forward * micro_batches, backward=each.backward * micro_batches)
        for each in messages(rank.tree, activations)
        if known(each.devices) != 1
    ]
    found += by.sent(rank, micro_batches, tied=tied and known(rank.at.pp) != 1)
    at = rank.at
    if value_of(rank.summed):
        found += replicated(rank.summed, at.tp, by.bits, WHOLE)
    if tied and known(at.pp) != 1 and (at.first or at.last):
        rows = next(node.component for node in rank.tree.walk() if node.component.kind in ("embedding", "output"))
        found += replicated(rows.each(params), 2, by.bits, EMBEDDINGS)
    return found
