"""Bytes that a device of a layout needs, by a closed form: for a million layouts at once.

The lists of what is saved are those of Megatron-core with Transformer Engine, fused attention and sequence parallelism,
and of FSDP2 in mixed precision. No number is fitted. Where one layout is asked for, ``memory`` runs a step on the tape.

Source: Korthikanti et al. 2022 (arXiv 2205.05198), section 4, with fused attention; Narayanan et al. 2021 (arXiv
2104.04473), section 2.2, for what is in flight; Rajbhandari et al. 2020 (arXiv 1910.02054) for model states.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.placed.schedules import SCHEDULES
from tfcalc.timing.numbers import Many, larger, smaller, where
from tfcalc.timing.step import BYTES, INTERLEAVED, Layouts

if TYPE_CHECKING:
    from tfcalc.timing.work import LayerWork, ModelWork

PLAIN = SCHEDULES["1f1b"]
HIDDEN = 8
"""Bytes saved of each hidden number of a token: the inputs of two norms and of two sub-layers."""
LOSS = 10
"""Bytes of a logit while the loss is computed: in 16 bits, in 32 bits, and its gradient in 32."""
WEIGHT, GRADIENT, OPTIMIZER = 2, 4, 12
"""Bytes of a parameter: in 16 bits; of its gradient; of master weight and two moments."""
LOG_SUM_EXP, SCORE = 4, 5
"""Bytes of a query and head that fused attention keeps; of a score: softmax, dropout's mask and result."""
ROUTED = 4
"""Bytes saved of each hidden number of a token's copy at an expert: as it comes, and as it leaves."""


class MemoryParts(NamedTuple):
    """Bytes of a device: of weights, gradients and optimizer; what is saved for backward; logits of the loss."""

    states: Many
    saved: Many
    loss: Many

    @property
    def bytes(self) -> Many:
        """Bytes of all."""
        return sum(self)


class DeviceMemory:
    """Bytes of the fullest device, part by part; all numbers may be arrays.

    ``eager`` attention saves its scores.
    """

    def __init__(self, work: ModelWork, at: Layouts, *, fsdp: bool = False, eager: bool = False) -> None:
        self.work, self.at, self.fsdp, self.eager = work, at, fsdp, eager
        self.sharing = at.tp if at.sequence_parallel else 1

    @property
    def peak(self) -> Many:
        """Bytes of the first or the last stage, whichever has more."""
        return larger(self.stage(last=False).bytes, self.stage(last=True).bytes)

    @property
    def fullest(self) -> MemoryParts:
        """Parts of the peak of one layout."""
        return max((self.stage(last=last) for last in (False, True)), key=lambda one: float(one.bytes))

    def stage(self, *, last: bool) -> MemoryParts:
        """Parts of what the first stage or the last one has."""
        loss = LOSS * self._tokens * self.work.vocabulary / self.at.tp if last else 0
        return MemoryParts(self.states(last=last), self.saved(last=last), loss)

    @property
    def _tokens(self) -> Many:
        return self.at.micro_batch * self.work.length / self.at.cp

    def states(self, *, last: bool = False) -> Many:
        """Weights, gradients and the optimizer's states."""
        at = self.at
        layers = sum(layer.copies * layer.params for layer in self.work.layers) / at.pp
        head = self.work.vocabulary * self.work.width
        tied = self.work.outside < 2 * head
        of_first = where(at.pp > 1, self.work.outside - (0 if tied else head), self.work.outside)
        of_last = where(at.pp > 1, head if last else of_first, self.work.outside)
        dense = (layers + of_last) / at.tp
        of_experts = sum(layer.copies * layer.experts.params for layer in self.work.layers if layer.experts)
        experts = of_experts / (at.pp * at.ep * at.etp)
        copies = at.dp * at.cp
        expert_copies = larger(copies * at.tp / (at.ep * at.etp), 1)
        return self._states_of(dense, copies) + self._states_of(experts, expert_copies)

    def _states_of(self, params: Many, copies: Many) -> Many:
        at = self.at
        if self.fsdp:
            shards = copies if at.shards is None else smaller(at.shards, copies)
            unit = params / larger(self.work.depth, 1)
            two_layers = 2 * unit * (WEIGHT + GRADIENT)  # that are gathered
            kept = params * (WEIGHT + where(at.pp > 1, GRADIENT, 0))  # until the last micro-batch of a pipeline
            return params * (GRADIENT + OPTIMIZER) / shards + where(at.zero < 3, kept, two_layers)
        optimizer = where(at.zero >= 1, OPTIMIZER / copies, OPTIMIZER)
        gradients = where(at.zero >= 2, GRADIENT / copies, GRADIENT)
        weights = where(at.zero >= 3, WEIGHT / copies, WEIGHT)
        return params * (weights + gradients + optimizer)

    def saved(self, *, last: bool = False) -> Many:
        """Bytes saved for backward, of all micro-batches in flight."""
        at = self.at
        whole, most = self._of_layers
        input_alone = BYTES * self._tokens / self.sharing * self.work.width
        checkpointed = self.work.depth * input_alone
        each = where(at.again > 0, checkpointed, whole) / at.pp
        return each * self.in_flight(last=last) + where(at.again > 0, most, 0)

    @cached_property
    def _of_layers(self) -> tuple[Many, Many]:
        """Bytes that all layers save of a micro-batch, and the one that saves most."""
        each = [self.layer(layer) for layer in self.work.layers]
        whole = sum(layer.copies * one for layer, one in zip(self.work.layers, each, strict=True))
        return whole, reduce(larger, each)

    def layer(self, layer: LayerWork) -> Many:
        """Bytes that one layer saves of a micro-batch."""
        at, tokens = self.at, self._tokens
        columns = sum(one.columns * one.times for one in layer.products if one.columns != layer.width)
        inner = sum(one.inner * one.times for one in layer.products if one.inner != layer.width)
        heads = layer.scores / self.work.length**2
        saved = HIDDEN * tokens / self.sharing * layer.width
        saved = saved + tokens / at.tp * (BYTES * (columns + inner) + LOG_SUM_EXP * heads)
        if self.eager:
            saved = saved + SCORE * layer.scores * at.micro_batch / (at.tp * at.cp) * (1 - at.attention_again)
        if layer.experts:
            rows = tokens / at.tp * layer.experts.active
            widths = sum(
                (one.columns if one.inner == layer.width else one.inner) * one.times for one in layer.experts.products
            )
            saved = saved + rows * (ROUTED * layer.width + BYTES * widths)
        return saved

    def in_flight(self, *, last: bool = False) -> Many:
        """Micro-batches of a whole stage whose results wait for backward."""
        at = self.at
        stage = at.pp - 1 if last else 0
        plain = PLAIN.in_flight(stage, at.pp, at.batches).value
        interleaved = INTERLEAVED.in_flight(stage, at.pp, at.batches, at.vpp).value
        return where((at.vpp > 1) & (at.pp > 1), interleaved, plain)
