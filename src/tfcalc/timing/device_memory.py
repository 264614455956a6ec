"""Bytes that a device of a layout needs, by a closed form: for a million layouts at once.

The lists of what is saved are those of Megatron-core with Transformer Engine, fused attention and sequence parallelism,
of FSDP2 in mixed precision, and of DeepSpeed of 2022 with its pipelines. No number is fitted. Where one layout is asked
for, ``memory`` runs a step on the tape.

Source: Korthikanti et al. 2022 (arXiv 2205.05198), section 4, with fused attention; Narayanan et al. 2021 (arXiv
2104.04473), section 2.2, for what is in flight; Rajbhandari et al. 2020 (arXiv 1910.02054) for model states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from tfcalc.core.component import CORE_ATTENTION, MLP, MOE, MOE_ACTIVATION, NORMS, SHARED_EXPERTS, UP_PROJECTION
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.layout import ROWS_AT_A_TIME
from tfcalc.placed.schedules import SCHEDULES
from tfcalc.timing.numbers import Many, larger, rounded_up, where
from tfcalc.timing.rates import DEEPSPEED, FSDP
from tfcalc.timing.step import BYTES, INTERLEAVED, Layouts
from tfcalc.training.precisions import OF_MEGATRON, Precision
from tfcalc.training.states import SHARED_SUMS

if TYPE_CHECKING:
    from tfcalc.timing.step import RankGroup
    from tfcalc.timing.work import LayerWork, ModelWork, Product

PLAIN = SCHEDULES["1f1b"]
FIRST, BETWEEN, LAST = 0, 1, 2
"""Places of stages in a layout's ``stages``."""
LOSS, IN_PLACE, HEAD = 10, 6, 4
"""Bytes of a logit while the loss is computed: in 16 bits, in 32 bits, and its gradient in 32, which Megatron-core
makes in place; and bytes of each hidden number that the last norm and the head have saved."""
READ = {"fp8": 1.0, "mxfp8": 1 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
"""Bytes of a number that Transformer Engine's products have saved of what they read, with the scales of blocks; else 2.

Source: NVIDIA/TransformerEngine pull request 1865: they save what they cast, and attention its own result besides.
"""
WEIGHT, GRADIENT, OPTIMIZER = 2, 4, 12
"""Bytes of a parameter: in 16 bits; of its gradient; of master weight and two moments."""
PARTITION = 4
"""Bytes of a parameter that DeepSpeed has for its gradients in 32 bits, all of them or its part when it steps."""
LOG_SUM_EXP, SCORE, MASK = 4, 5, 1
"""Bytes of a query and head that fused attention keeps; of a score: softmax, dropout's mask and result; of a mask."""


class MemoryParts(NamedTuple):
    """Bytes of a device: of weights, gradients and optimizer; what is saved for backward; logits of the loss.

    ``gathered``: from other GPUs' shards. ``other``: what backward makes of a layer, and workspaces.
    """

    states: Many
    saved: Many
    loss: Many
    gathered: Many
    other: Many

    @property
    def bytes(self) -> Many:
        """Bytes of all."""
        return sum(self)


class GatheredBytes(NamedTuple):
    """Bytes that are gathered from other GPUs while backward is at a ``layer``, at the ``loss``, and at its ``end``."""

    layer: Many
    loss: Many
    end: Many


class DeviceMemory:
    """Bytes of the fullest device, part by part; all numbers may be arrays.

    ``eager`` attention saves its scores. ``deepspeed`` is the number format that DeepSpeed trains in, bf16 or fp16;
    empty where another trainer does. ``precision`` is the number format of the matrix products; ``states`` has those
    of Megatron-core's gradients and optimizer.
    """

    def __init__(
        self,
        work: ModelWork,
        at: Layouts,
        *,
        fsdp: bool = False,
        eager: bool = False,
        deepspeed: str = "",
        precision: str = "bf16",
        states: Precision = OF_MEGATRON,
    ) -> None:
        self.gradient, self.optimizer = states.gradients / 8, (states.master + 2 * states.moments) / 8
        self.work, self.at, self.fsdp, self.eager, self.deepspeed = work, at, fsdp, eager, deepspeed
        self.megatron = not (fsdp or eager or deepspeed)
        self.read = READ.get(precision, BYTES) if self.megatron else BYTES
        self.sharing = at.tp if at.sequence_parallel else 1

    @classmethod
    def of_stack(
        cls,
        stack: str,
        work: ModelWork,
        at: Layouts,
        *,
        eager: bool,
        precision: str = "bf16",
        states: Precision = OF_MEGATRON,
    ) -> DeviceMemory:
        """Return the bytes by the list of one of ``timing.rates.STACKS``."""
        deepspeed = ("fp16" if precision == "fp16" else "bf16") if stack == DEEPSPEED else ""
        return cls(work, at, fsdp=stack == FSDP, eager=eager, deepspeed=deepspeed, precision=precision, states=states)

    @property
    def peak(self) -> Many:
        """Bytes of the stage that has most: the first one, the last, or one between them."""
        return reduce(larger, (stage.bytes for stage in self.stages))

    @property
    def fullest(self) -> MemoryParts:
        """Parts of the peak of one layout."""
        return max(self.stages, key=lambda one: float(one.bytes))

    @property
    def stages(self) -> list[MemoryParts]:
        """Parts of what the stages have that may be the fullest: one between where they differ."""
        found = [*self.moments(), *self.moments(last=True)]
        if self.at.stages is not None:
            found += self.moments(between=True)
        return found

    def moments(self, *, last: bool = False, between: bool = False) -> list[MemoryParts]:
        """Parts at the moments that may be the peak of a stage: backward of a layer, and the loss of the last.

        It is the first stage, the last one, or the one ``between`` them. FSDP's third is the end of backward.
        """
        states, saved = (part(last=last, between=between) for part in (self.states, self.saved))
        gathered = self.gathered(last=last, between=between)
        no, beside = 0 * saved, self._workspaces + 0 * saved
        found = [MemoryParts(states, saved, no, gathered.layer + no, beside + self._of_backward)]
        if last:
            found.append(MemoryParts(states, saved, self._loss, gathered.loss + no, beside))
        if self.fsdp:
            found.append(MemoryParts(states, no, no, gathered.end + no, beside))
        return found

    def gathered(self, *, last: bool, between: bool = False) -> GatheredBytes:
        """Bytes that several GPUs' shards are gathered into, and gradients before these are shared out.

        ZeRO-3 has whole weights and gradients of the largest unit, a layer or the tables. FSDP2 has these, where u is a
        layer, r the root, all that is in no layer, and w both; s are the numbers that a GPU stores of all:

        ==============  ========================================  ====================  ==============================
        moment          stage 3                                   stage 2               stage 2 in a pipeline
        ==============  ========================================  ====================  ==============================
        of a layer      weights 2 r + 2 u, and the next layer's   weights 2 w, a        weights 2 w, sums of gradients
                        2 u, gradients 2 u, a buffer 4 u          buffer 4 u            4 (w - s), gradients 2 u
        the loss        2 r, the last layer's 2 u                 2 w                   2 w + 4 (w - s)
        the end         gradients 2 r, a buffer 4 r               2 r + 4 r             2 w + 4 (w - s) + 2 r
        ==============  ========================================  ====================  ==============================

        The head's own gradient, 2 bytes, is there from the loss to the end; that of a tied table is added to it, and
        makes three such tensors while the last layer's buffer, 4 u, and the weights, 2 r, are still there. Between
        replicas a layer's shard of gradients is there twice more, in stage 2 once.

        Source: DeepSpeed's memory estimator, ``4 * largest_layer_params``; of FSDP2 :mod:`tfcalc.tape.sharded`, and
        PyTorch's FSDPMemTracker (tests/timing/test_gathered.py).
        """
        at, root = self.at, self._tables(last=last, between=between) / self.at.tp
        units = [
            (layer.params / at.tp, layer.experts.params / (at.ep * at.etp) if layer.experts else 0)
            for layer in self.work.layers
        ]
        largest = reduce(larger, map(sum, units))
        if not self.fsdp:
            unit = (WEIGHT + (WEIGHT if self.deepspeed else self.gradient)) * larger(largest, root)
            return GatheredBytes(*[where(at.zero >= 3, unit, 0)] * 3)
        head = 0 if between else self.work.vocabulary * self.work.width / at.tp
        own = WEIGHT * (head if last else where(at.pp > 1, 0, head))
        made = WEIGHT + GRADIENT
        tied = (WEIGHT + 3 * WEIGHT) * root + GRADIENT * largest
        end = where((at.pp == 1) & self._tied, tied, made * root)
        shards = [group.ranks for group in self.shards]
        cut = reduce(larger, (dense / shards[0] + experts / shards[1] for dense, experts in units))
        own = own + where(at.dp * at.cp > shards[0], where(at.zero >= 3, 2, 1) * GRADIENT * cut, 0)
        here = self._params(last=last, between=between)
        whole, stored = sum(here), here[0] / shards[0] + here[1] / shards[1]
        third = GatheredBytes(own + WEIGHT * root + (2 * WEIGHT + made) * largest, WEIGHT * (root + largest), end)
        second = GatheredBytes(own + WEIGHT * whole + GRADIENT * largest, WEIGHT * whole, end)
        summed = WEIGHT * whole + GRADIENT * (whole - stored)
        piped = GatheredBytes(own + summed + WEIGHT * largest, summed, summed + WEIGHT * root)
        found = zip(third, second, piped, strict=True)
        return GatheredBytes(*(where(at.zero >= 3, x, where(at.pp > 1, z, y)) for x, y, z in found))

    @property
    def shards(self) -> tuple[RankGroup, RankGroup]:
        """GPUs that share dense weights, and experts: of FSDP's replicas those of one."""
        copies = self.at.dp * self.at.cp
        return self.at.with_the_same(self.at.shards if self.fsdp and self.at.shards is not None else copies)

    @property
    def _loss(self) -> Many:
        """Bytes of the logits in the loss; of Megatron-core, where these are more, while backward is at the head.

        It has the logits' gradient there, that of the head's input, and the weights' in 16 bits.
        """
        tokens, columns, width = self._tokens, self.work.vocabulary / self.at.tp, self.work.width
        if not self.megatron:
            return LOSS * tokens * columns
        at_head = BYTES * (tokens * columns + tokens * width + columns * width)
        return HEAD * tokens * width / self.sharing + larger(IN_PLACE * tokens * columns, at_head)

    @property
    def _workspaces(self) -> Many:
        """Bytes of the gradients that autograd is given of matrices whose own are summed up in place.

        Source: Transformer Engine's ``get_dummy_wgrad``, one in 16 bits of each shape, which it keeps.
        """
        if not self.megatron:
            return 0
        shapes: Counter[tuple[int, int]] = Counter()
        of_experts = 0
        for layer in self.work.layers:
            shapes |= _shapes(layer.products)
            of_experts = max(of_experts, layer.experts.params // layer.experts.number if layer.experts else 0)
        return BYTES * (sum(rows * columns * n for (rows, columns), n in shapes.items()) / self.at.tp + of_experts)

    @property
    def _of_backward(self) -> Many:
        """Bytes that the backward pass of a layer makes: what runs again, and the largest gradients of its results."""
        again = where(self.at.again > 0, reduce(larger, self._of_layers), self._dropped_by_modules)
        return again + (reduce(larger, map(self._gradients, self.work.layers)) if self.megatron else 0)

    def _gradients(self, layer: LayerWork) -> Many:
        """Bytes of gradients: of a layer's widest results, of its hidden vectors, and of those that are gathered."""
        at = self.at
        widest = max((columns * n for (_, columns), n in _shapes(layer.products).items()), default=0)
        if layer.experts:
            routed = max(columns * n for (_, columns), n in _shapes(layer.experts.products).items())
            widest = max(widest, layer.experts.active * (routed + layer.width))
        gathered = where(at.tp > 1, layer.width, 0) if at.sequence_parallel else 0
        return BYTES * self._tokens * (widest / at.tp + 2 * layer.width / self.sharing + gathered)

    def _layers(self, *, last: bool, between: bool = False) -> Sequence[Many]:
        """Layers of each kind on a stage."""
        if self.at.stages is None:
            return [layer.copies / self.at.pp for layer in self.work.layers]
        return self.at.stages[LAST if last else BETWEEN if between else FIRST]

    @property
    def _tokens(self) -> Many:
        return self.at.micro_batch * self.work.length / self.at.cp

    def states(self, *, last: bool = False, between: bool = False) -> Many:
        """Weights, gradients and the optimizer's states."""
        dense, experts = self._params(last=last, between=between)
        of_dense, of_experts = self._bytes_of_params
        return dense * of_dense + experts * of_experts

    def _params(self, *, last: bool, between: bool) -> tuple[Many, Many]:
        """Parameters of a device: dense ones, and those of routed experts."""
        at = self.at
        here = list(zip(self._layers(last=last, between=between), self.work.layers, strict=True))
        layers = sum(copies * layer.params for copies, layer in here)
        whole = sum(copies * layer.whole for copies, layer in here)
        tables, positions = self._tables(last=last, between=between), self._positions(last=last, between=between)
        dense = (layers - whole + tables - positions) / at.tp + whole + positions
        experts = sum(copies * layer.experts.params for copies, layer in here if layer.experts) / (at.ep * at.etp)
        return dense, experts

    @property
    def _tied(self) -> bool:
        """Return whether one table is the embedding and the head."""
        return self.work.outside < 2 * self.work.vocabulary * self.work.width

    def _tables(self, *, last: bool, between: bool) -> Many:
        """Parameters outside of the layers; where tensor parallelism shares a vocabulary, it is filled up."""
        at, head, tied = self.at, self.work.vocabulary * self.work.width, self._tied
        rows = rounded_up(self.work.vocabulary / (ROWS_AT_A_TIME * at.tp)) * ROWS_AT_A_TIME * at.tp
        filled = 0 if self.fsdp else where(at.tp > 1, rows - self.work.vocabulary, 0) * self.work.width
        of_all = self.work.outside + filled * (1 if tied else 2)
        if between:
            return 0
        return where(at.pp > 1, (head if last else self.work.outside - (0 if tied else head)) + filled, of_all)

    def _positions(self, *, last: bool, between: bool) -> Many:
        """Learned positions, which are on the first stage alone."""
        if between:
            return 0
        return where(self.at.pp > 1, 0, self.work.positions) if last else self.work.positions

    @cached_property
    def _bytes_of_params(self) -> tuple[Many, Many]:
        """Bytes of a parameter on a device: of a dense one, and of an expert's."""
        dense, experts = self.shards
        return self._bytes_of(dense.ranks), self._bytes_of(experts.ranks)

    def _bytes_of(self, copies: Many) -> Many:
        """Bytes of a parameter that this many devices share; FSDP2 stores shards of all in fp32, and gathers them."""
        at = self.at
        if self.fsdp:
            return (GRADIENT + OPTIMIZER) / copies
        if self.deepspeed:
            return self._of_deepspeed(copies)
        optimizer = where(at.zero >= 1, self.optimizer / copies, self.optimizer)
        gradients = where(at.zero >= 2, self.gradient / copies, self.gradient)
        weights = where(at.zero >= 3, WEIGHT / copies, WEIGHT)
        return weights + gradients + optimizer

    def _of_deepspeed(self, copies: Many) -> Many:
        """Bytes of a parameter: gradients have 16 bits, and are added up in 32 where weights have the range of bf16.

        ===========  =========================  ===========================================
        fp16         whole: 2 and 2             shared from ZeRO-1 on: 12, and 4 of gradients
        bf16         whole: 2, 2 and 4          shared from ZeRO-1 on: 12
        ===========  =========================  ===========================================

        ZeRO-2 shares the gradients, ZeRO-3 the weights; both have 4 bytes of a part of the gradients in either format.

        Source: DeepSpeed's runtime/zero/stage_1_and_2.py (``step``: a partition's gradients become fp32) and
        runtime/bf16_optimizer.py (``fp32_groups_gradients_flat``).
        """
        zero = self.at.zero
        sums = where(zero >= SHARED_SUMS[self.deepspeed], PARTITION / copies, PARTITION)
        weights = where(zero >= 3, WEIGHT / copies, WEIGHT)
        gradients = where(zero >= 2, WEIGHT / copies, WEIGHT)
        return weights + gradients + sums + where(zero >= 1, OPTIMIZER / copies, OPTIMIZER)

    def saved(self, *, last: bool = False, between: bool = False) -> Many:
        """Bytes saved for backward, of all micro-batches in flight.

        DeepSpeed has each stage's results until their backward (runtime/pipe/engine.py: ``pipe_buffers``); Megatron-LM
        frees them once they are sent.
        """
        at, here = self.at, self._layers(last=last, between=between)
        input_alone = BYTES * self._tokens / self.sharing * self.work.width
        whole = sum(copies * one for copies, one in zip(here, self._of_layers, strict=True))
        each = where(at.again > 0, sum(here) * input_alone, whole)
        results = where(at.pp > 1, input_alone, 0) if self.deepspeed else 0
        return (each + results) * self.in_flight(last=last, between=between)

    @cached_property
    def _of_layers(self) -> list[Many]:
        """Bytes that a layer of each kind saves of a micro-batch."""
        return [self.layer(layer) for layer in self.work.layers]

    @property
    def _dropped_by_modules(self) -> Many:
        """Bytes of a layer's modules while backward runs them again: those that they did not save."""
        if not self.at.modules:
            return 0
        return reduce(larger, (self._all_of_layer(layer) - self.layer(layer) for layer in self.work.layers))

    def layer(self, layer: LayerWork) -> Many:
        """Bytes that one layer saves of a micro-batch: all but what is made again."""
        found = self._all_of_layer(layer)
        if self.at.modules:
            for dropped in self._dropped(layer, frozenset(self.at.modules)):
                found = found - dropped
        return found

    def _dropped(self, layer: LayerWork, again: frozenset[str]) -> Iterator[Many]:
        """Bytes that one layer does not save of a micro-batch, as these modules run again.

        A module that is run again saves what it reads: ``core_attn`` queries, keys and values, ``mlp`` the hidden
        vectors before its norm, which Transformer Engine has in the product that follows, ``moe`` and
        ``shared_experts`` those behind it. Of ``layernorm``, ``moe_act`` and ``mla_up_proj`` the results are freed
        once they are read.

        Source: Megatron-core's TransformerConfig, ``recompute_modules``, and transformer/transformer_layer.py,
        moe/moe_layer.py, moe/experts.py and multi_latent_attention.py, where these are read.
        """
        at, tokens = self.at, self._tokens
        hidden = tokens / self.sharing * layer.width
        if CORE_ATTENTION in again:
            yield tokens / at.tp * LOG_SUM_EXP * self._heads(layer) + self._scores(layer)
        if UP_PROJECTION in again:
            columns = sum(one.columns * one.times for one in layer.products if UP_PROJECTION in one.modules)
            yield BYTES * tokens / at.tp * columns
        if NORMS in again:
            yield BYTES * hidden * layer.norms_apart
        if MLP in again and MLP in layer.modules:
            yield self.read * hidden
        of_networks = again & {MLP, MOE, SHARED_EXPERTS}
        yield sum(
            tokens / at.tp * one.times * self._inside(one, layer.width)
            for one in layer.products
            if of_networks & one.modules
        )
        if layer.experts and MOE in again:
            yield self._routed(layer)
        elif layer.experts and MOE_ACTIVATION in again:
            widths = sum(one.inner * one.times for one in layer.experts.products if one.inner != layer.width)
            yield self.read * tokens / at.tp * layer.experts.active * widths

    def _heads(self, layer: LayerWork) -> float:
        return layer.scores / self.work.length**2

    def _scores(self, layer: LayerWork) -> Many:
        """Bytes of scores that eager attention saves."""
        at = self.at
        return SCORE * layer.scores * at.micro_batch / (at.tp * at.cp) if self.eager else 0

    def _routed(self, layer: LayerWork) -> Many:
        """Bytes that routed experts save: each token as it comes, what is made of it, and as it leaves."""
        assert layer.experts
        rows = self._tokens / self.at.tp * layer.experts.active
        inside = sum(self._inside(one, layer.width) * one.times for one in layer.experts.products)
        return rows * ((self.read + BYTES) * layer.width + inside)

    def _all_of_layer(self, layer: LayerWork) -> Many:
        """Bytes that one layer saves of a micro-batch, nothing made again.

        Of the hidden vectors these are the inputs of two norms and of two sub-layers. A mixture's router has its own in
        16 bits; both maps down to latent vectors have one.
        """
        at, tokens = self.at, self._tokens
        of_attention = min(BYTES, 2 * self.read) if UP_PROJECTION in layer.modules else self.read
        hidden = 2 * BYTES + of_attention + (BYTES if layer.experts else self.read)
        inside = sum(self._inside(one, layer.width) * one.times for one in layer.products)
        saved = tokens / self.sharing * (hidden * layer.width + MASK * layer.dropped)
        saved = saved + tokens / at.tp * (inside + LOG_SUM_EXP * self._heads(layer) + BYTES * layer.normed)
        return saved + self._scores(layer) + (self._routed(layer) if layer.experts else 0)

    def _inside(self, product: Product, width: int) -> float:
        """Bytes of what a product reads or makes of a token inside of a sub-layer, where it is not as wide as outside.

        One that is square is the map to queries or that from all heads, as often one as the other. What attention has
        made it keeps in 16 bits; a product that reads it in fewer saves its own.
        """
        own = self.read if self.read < BYTES else 0
        if product.inner == product.columns == width:
            return width * (BYTES + own / 2)
        of_heads = product.columns == width and not product.modules & {MLP, MOE, SHARED_EXPERTS}
        read = BYTES + own if of_heads else self.read
        return read * product.inner * (product.inner != width) + BYTES * product.columns * (product.columns != width)

    def in_flight(self, *, last: bool = False, between: bool = False) -> Many:
        """Micro-batches of a whole stage whose results wait for backward."""
        at = self.at
        stage = at.pp - 1 if last else at.between if between else 0
        plain = PLAIN.in_flight(stage, at.pp, at.batches).value
        interleaved = INTERLEAVED.in_flight(stage, at.pp, at.batches, at.vpp).value
        return where((at.vpp > 1) & (at.pp > 1), interleaved, plain)


def _shapes(products: Sequence[Product]) -> Counter[tuple[int, int]]:
    """Return the number of matrices of each shape."""
    found: Counter[tuple[int, int]] = Counter()
    for one in products:
        found[one.inner, one.columns] += one.times
    return found
