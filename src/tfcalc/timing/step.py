"""Seconds of a training step, part by part: the same formulas for one layout, and for arrays of a million.

    step = (m · stage + (p − 1)/v · (a stage's passes) + exposed messages + optimizer) · (1 + j · log₂(GPUs / 8))

Form and sources: a matrix product is bound by the peak or by the bytes that it moves, on tiles of 128 × 256; attention
by the FLOPs of visible pairs; elementwise work by bytes; a collective by the slower of the links that it crosses. Where
a tape knows what a step makes (TapeWork), elementwise work is its bytes, and no step is shorter than its calls take;
none is shorter than all its messages take on a GPU's link to other nodes.
The rates are those of rates.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tfcalc.core.component import CORE_ATTENTION, MLP, MOE, MOE_ACTIVATION, NORMS, SHARED_EXPERTS, UP_PROJECTION
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.schedules import SCHEDULES, StageTimes
from tfcalc.timing.numbers import Many, is_array, larger, log2, rounded_up, smaller, where
from tfcalc.timing.rates import Machine, Rates

if TYPE_CHECKING:
    from tfcalc.timing.work import LayerWork, ModelWork, Product
    from tfcalc.training.precisions import Precision

INTERLEAVED = SCHEDULES["interleaved"]
TILE = (128, 256)
"""Rows and columns of a tile of cuBLAS's products on tensor cores."""
DEPTH = 128
"""Inner size at which half of a product's time goes to what is not multiplied."""
BYTES = 2
"""Bytes of a number that is computed with."""
ACCESSES = 3
"""Times that an element is read or written in elementwise work."""
GRADIENT = 4
"""Bytes of a gradient that is reduced, as large runs have it."""
ALIGNED = {64: 1.0, 32: 0.97, 16: 0.92, 8: 0.8}
"""Share of the rate of a product whose widths are multiples of this much, the largest first; of less it is 0.6."""
UNALIGNED = 0.6


class RankGroup(NamedTuple):
    """GPUs that exchange messages: how many ``ranks``, and how far each is from the next (``apart``).

    Where they are follows from Megatron-LM's order of ranks: tensor, context, data, pipeline; of experts expert tensor,
    expert, data, pipeline.

    Source: Megatron-core's ``parallel_state``.
    """

    ranks: Many
    apart: Many


class Layouts(NamedTuple):
    """Layouts: how GPUs share a model and a batch. Each is a number, or an array with one for each layout.

    Attributes:
        tp, pp, vpp, cp, ep, etp, dp: degrees of parallelism; ``etp`` is tensor parallelism of experts.
        micro_batch: sequences at once on a copy of the model.
        batches: number of them in a step.
        zero: stage of ZeRO; 3 is FSDP.
        shards: GPUs over which FSDP shards, all with the same weights unless hybrid (HSDP): ``dp`` x ``cp`` / replicas.
        again: layers run again in backward, 1 of all of them (full checkpointing), 0 of none.
        modules: modules of each layer that run again, of ``core.recomputation.MODULES`` (selective checkpointing).
        sequence_parallel: GPUs of tensor parallelism share the hidden vectors of all tokens.
        stages: layers of each kind on the first stage, on one between and on the last; None where all have as many.
        between: number of the one between, from 0.
    """

    tp: Many = 1
    pp: Many = 1
    vpp: Many = 1
    cp: Many = 1
    ep: Many = 1
    etp: Many = 1
    dp: Many = 1
    micro_batch: Many = 1
    batches: Many = 1
    zero: Many = 1
    shards: Many = None
    again: Many = 0
    modules: tuple[str, ...] = ()
    sequence_parallel: bool = True
    stages: tuple[tuple[Many, ...], ...] | None = None
    between: Many = 1

    @property
    def recompute(self) -> str:
        """Kind of checkpointing of one layout."""
        return "full" if self.again else "selective" if self.modules else "none"

    @property
    def of_an_expert(self) -> Many:
        """GPUs that share an expert."""
        return self.etp

    @property
    def sharing_a_layer(self) -> RankGroup:
        """GPUs of tensor parallelism."""
        return RankGroup(self.tp, 1)

    @property
    def sharing_a_sequence(self) -> RankGroup:
        """GPUs of context parallelism."""
        return RankGroup(self.cp, self.tp)

    @property
    def sharing_experts(self) -> RankGroup:
        """GPUs that have one copy of all experts among them, those that share an expert left out."""
        return RankGroup(self.ep, self.etp)

    def with_the_same(self, copies: Many) -> tuple[RankGroup, RankGroup]:
        """Return the GPUs with the same weights among this many copies: of dense weights, and of experts."""
        of_experts = self.ep * self.etp
        return RankGroup(copies, self.tp), RankGroup(larger(copies * self.tp / of_experts, 1), of_experts)

    @property
    def gpus(self) -> Many:
        """GPUs in all."""
        return self.tp * self.pp * self.cp * self.dp


class WeightBytes(NamedTuple):
    """Bytes of a parameter that are moved beside its products.

    ``cast`` in each pass, from the format that it is stored in to the one that is computed with; ``states`` by the
    optimizer's step, read and written: fp32 master weights, gradient and moments, and 16 bits of the weight;
    ``gradient`` is summed up over the copies of the model.
    """

    cast: float = 0
    states: float = 30
    gradient: float = GRADIENT

    @classmethod
    def of(cls, by: Precision, cast: float = 0, own: float | None = None) -> WeightBytes:
        """Return those of a precision: weights and states are read and written, the gradient is read.

        ``own`` are the optimizer's states, in bytes of a parameter; AdamW's two moments where none are given.
        """
        changed = by.master or by.weights
        moved = 2 * changed + by.gradients + (by.weights if by.master else 0)
        return cls(cast, moved / 8 + 2 * (2 * by.moments / 8 if own is None else own), by.gradients / 8)


MIXED = WeightBytes()
"""Weights in 16 bits with fp32 master weights, as large runs have them."""


class TapeWork(NamedTuple):
    """Work of a step on a GPU by the tape that its memory is counted on: of eager code, or of compiled layers.

    Seconds: bytes · written / bandwidth, and calls · call where that is longer than the kernels take (rates.toml).

    Attributes:
        calls: tensors that are made, and those that are freed, until the optimizer's step: each time Python or
            autograd calls something.
        written: bytes of all tensors that are made.
    """

    calls: int
    written: int


class PassSeconds(NamedTuple):
    """Seconds of a layer in forward and in backward."""

    forward: Many = 0.0
    backward: Many = 0.0

    def __add__(self, other: object) -> PassSeconds:
        """Return both, one after the other."""
        assert isinstance(other, PassSeconds)
        return PassSeconds(self.forward + other.forward, self.backward + other.backward)

    def times(self, number: Many) -> PassSeconds:
        """Return as many of them."""
        return PassSeconds(self.forward * number, self.backward * number)

    @property
    def both(self) -> Many:
        """Seconds of both passes."""
        return self.forward + self.backward


class StepParts(NamedTuple):
    """Seconds of a step on the slowest device, by what they go to; their sum is the step."""

    products: Many
    attention: Many
    experts: Many
    elementwise: Many
    host: Many
    recomputation: Many
    tensor_parallel: Many
    context_parallel: Many
    expert_parallel: Many
    bubble: Many
    data_parallel: Many
    optimizer: Many
    jitter: Many

    @property
    def seconds(self) -> Many:
        """Seconds of the step."""
        return sum(self)


MEANINGS: Mapping[str, str] = dict(
    zip(
        StepParts._fields,
        (
            "matrix products with weights",
            "attention between its projections",
            "products of routed experts",
            "norms, activations and the launch of kernels",
            "waiting for the host, which starts each kernel",
            "what is recomputed in backward",
            "tensor parallel messages that are not hidden",
            "context parallel messages that are not hidden",
            "tokens to experts and back, where not hidden",
            "waiting for other stages, at the beginning and the end of a step",
            "gradients and weights that are not hidden",
            "the optimizer's step",
            "waiting for the slowest of many GPUs",
        ),
        strict=True,
    )
)
"""What each part of a step's seconds goes to."""


class LayerSeconds(NamedTuple):
    """Seconds of a layer, by what they go to."""

    products: PassSeconds
    attention: PassSeconds
    experts: PassSeconds
    elementwise: PassSeconds
    tensor_parallel: PassSeconds
    context_parallel: PassSeconds
    expert_parallel: PassSeconds
    again: PassSeconds = PassSeconds()
    """Seconds of the modules that backward runs again, as in forward."""
    sending: PassSeconds = PassSeconds()
    """Seconds that the link to other nodes is busy, whatever hides them."""

    @property
    def all(self) -> PassSeconds:
        """Return the seconds of all parts, each run once."""
        return sum_of(self[:-2])


class StepTime:
    """Seconds of steps of one model, on one kind of machine, with one software stack."""

    def __init__(
        self,
        work: ModelWork,
        machine: Machine,
        rates: Rates,
        *,
        precision: str = "bf16",
        weights: WeightBytes = MIXED,
        tape: TapeWork | None = None,
    ) -> None:
        self.work, self.machine, self.rates, self.weights, self.tape = work, machine, rates, weights, tape
        self.full = machine.peak * rates.product
        self.rate = self.full * rates.faster(precision)
        self.bandwidth = machine.bandwidth * rates.memory
        self.network = machine.nic * rates.network
        self.once = cache(self._whole)

    def parts(self, at: Layouts) -> StepParts:
        """Seconds of a step, by what they go to."""
        whole, head = self.whole(at)
        depth = self.work.depth
        each = where(depth % at.pp == 0, depth / at.pp, 0) / depth
        of_all, once_more = whole.all, whole.again.forward
        total = of_all.both + of_all.forward * at.again + once_more
        shared = larger((total + head) / at.pp, total * rounded_up(depth / at.pp) / depth)
        uneven = larger(shared - head, 0)  # the last stage has the whole head
        share = where(each > 0, each, uneven / total)  # of the layers, on the slowest stage
        m = at.batches
        seconds = LayerSeconds(*(part.times(share * m) for part in whole))
        stage = of_all.times(share)
        again = stage.forward * at.again + once_more * share
        waits = self._waits(at, total * share + head)
        bubble = INTERLEAVED.bubble(StageTimes(total / at.pp + waits, 0, 0), at.pp, at.vpp).value  # one chunk: 1F1B's
        bubble = bubble + (at.pp > 1) * 2 * (at.pp - 1) * self._handed_on(at)
        data, optimizer, summing = self.between_steps(at, stage, again)
        found = StepParts(
            seconds.products.both + m * head,
            seconds.attention.both,
            seconds.experts.both,
            seconds.elementwise.both,
            m * waits,
            m * again,
            seconds.tensor_parallel.both,
            seconds.context_parallel.both,
            seconds.expert_parallel.both,
            bubble,
            data,
            optimizer,
            0.0,
        )
        if self.tape is not None:
            found = self._by_the_tape(found, self.tape, m)
        sent = seconds.sending.both + seconds.sending.forward * at.again + summing
        sent = sent + (at.pp > 1) * 2 * m * at.vpp * self._handed_on(at)
        found = found._replace(data_parallel=data + larger(sent - found.seconds, 0))
        doublings = log2(larger(at.gpus / 8, 1))
        found = found._replace(jitter=found.seconds * self.rates.jitter * doublings)
        scale = self.rates.scale
        return found if scale == 1 else StepParts(*(part * scale for part in found))

    def _waits(self, at: Layouts, taken: Many) -> Many:
        """Seconds that a micro-batch waits for Python, where passes of its layers last longer there than these."""
        if not self.rates.host:
            return 0.0
        return larger(self.rates.host * (2 + at.again) * self.work.depth / at.pp - taken, 0)

    def _by_the_tape(self, found: StepParts, work: TapeWork, batches: Many) -> StepParts:
        """Put what the tape counted in the place of elementwise work, and add what the device waits for Python."""
        moved = batches * work.written * self.rates.written / self.bandwidth
        found = found._replace(elementwise=moved)
        called = batches * work.calls * self.rates.call
        return found._replace(host=larger(called - found.seconds, 0))

    def whole(self, at: Layouts) -> tuple[LayerSeconds, Many]:
        """Seconds of all layers, and of the head, for one micro-batch: found once for layouts that share them."""
        few, places = distinct(at)
        if places is None:
            return self.once(few)
        summed, head = self._whole(few)

        def of_each(seconds: Many) -> Many:
            return seconds[places] if is_array(seconds) else seconds

        return LayerSeconds(*(PassSeconds(*map(of_each, part)) for part in summed)), of_each(head)

    def _whole(self, at: Layouts) -> tuple[LayerSeconds, Many]:
        layers = [(layer.copies, self.layer(layer, at)) for layer in self.work.layers]
        added = (
            sum_of(part.times(copies) for (copies, _), part in zip(layers, parts, strict=True))
            for parts in zip(*(seconds for _, seconds in layers), strict=True)
        )
        return LayerSeconds(*added), self.head(at)

    # --- a layer

    def layer(self, layer: LayerWork, at: Layouts) -> LayerSeconds:
        """Seconds of one layer of this kind on a device, for one micro-batch."""
        tokens = at.micro_batch * self.work.length / at.cp
        attention = self.attention(layer, at)
        kernels = self.rates.expert_kernels if layer.experts else self.rates.kernels
        products = sum_of(self.split(one, layer.width, tokens, at.tp) for one in layer.products)
        launches = PassSeconds(kernels * self.rates.launch, kernels * self.rates.launch)
        elementwise, experts = self.elementwise(layer, tokens, at) + launches, self.experts(layer, tokens, at)
        return LayerSeconds(
            products,
            attention,
            experts,
            elementwise,
            self.tensor_parallel(layer, tokens, at),
            self.context_parallel(layer, attention, at),
            self.expert_parallel(layer, tokens, at),
            PassSeconds(self.modules_again(layer, attention, tokens, at)) if at.modules else PassSeconds(),
            self.sending(layer, tokens, at),
        )

    def modules_again(self, layer: LayerWork, attention: PassSeconds, tokens: Many, at: Layouts) -> Many:
        """Seconds of the forward pass of a layer's modules that backward runs again, messages included."""
        again = frozenset(at.modules)
        products = sum_of(self.split(one, layer.width, tokens, at.tp) for one in layer.products if again & one.modules)
        within = again & ({MOE} if MOE in again else {SHARED_EXPERTS, MOE_ACTIVATION})  # a mixture has these in it
        elements = sum(layer.modules.get(name, 0.0) for name in within | again & {MLP, NORMS, UP_PROJECTION})
        moved = elements * tokens / at.tp * ACCESSES * BYTES * self.rates.elementwise
        found = products.forward + moved / self.bandwidth
        if CORE_ATTENTION in again:
            found = found + attention.forward
        if again & {MLP, MOE, SHARED_EXPERTS} & set(layer.modules):
            found = found + self.tensor_parallel(layer, tokens, at).forward / 2
        if MOE in again and layer.experts:
            found = found + self.experts(layer, tokens, at).forward + self.expert_parallel(layer, tokens, at).forward
        return found

    def split(self, one: Product, width: int, tokens: Many, tp: Many) -> PassSeconds:
        """A linear map whose columns, or inner size where it gives hidden vectors, the GPUs of ``tp`` share."""
        outward = one.columns == width and one.inner != width
        inner, columns = (one.inner / tp, one.columns) if outward else (one.inner, one.columns / tp)
        return self.linear(tokens, inner, columns, one.backward).times(one.times)

    def linear(self, rows: Many, inner: Many, columns: Many, backward: int = 2) -> PassSeconds:
        """A product of ``rows`` vectors with a matrix, and its ``backward`` products: to the input, to the weights."""
        forward = self.product(rows, columns, inner)
        to_input = self.product(rows, inner, columns) if backward else 0.0
        to_weights = self.product(columns, inner, rows) if backward > 1 else 0.0
        return PassSeconds(forward, to_input + to_weights)

    def product(self, m: Many, n: Many, k: Many) -> Many:
        """Seconds of an m × k by k × n product: of its FLOPs at the rate that its tiles leave, or of its bytes."""
        rows, columns = rounded_up(m / TILE[0]), rounded_up(n / TILE[1])
        tiles = rows * columns
        waves = tiles / (rounded_up(tiles / self.machine.processors) * self.machine.processors)
        fill = m * n / (tiles * TILE[0] * TILE[1])
        shape = (0.5 + 0.5 * waves) * fill * k / (k + DEPTH) * aligned(n) * aligned(k)
        moved = BYTES * (m * n + n * k + m * k) / self.bandwidth
        return larger(2 * m * n * k / (self.rate * shape), moved) + self.rates.launch

    def attention(self, layer: LayerWork, at: Layouts) -> PassSeconds:
        """Attention between its projections: fused, or with scores that are written and read."""
        share = at.micro_batch / (at.tp * at.cp)
        if self.rates.eager_attention:
            pairs = layer.scores * share
            by_products = 2 * layer.attention * share / (self.full * self.rates.eager)
            moved = EAGER_BYTES * pairs if self.tape is None else 0  # which the tape has
            seconds = by_products + moved / self.bandwidth
            return PassSeconds(seconds, 2 * seconds)
        forward = layer.attention * share / (self.machine.peak * self.rates.flash_forward)
        backward = 2.5 * layer.attention * share / (self.machine.peak * self.rates.flash_backward)
        return PassSeconds(forward, backward)

    def experts(self, layer: LayerWork, tokens: Many, at: Layouts) -> PassSeconds:
        """Products of routed experts: as many rows each as balance gives them, and the rows that are permuted."""
        experts = layer.experts
        if experts is None:
            return PassSeconds()
        rows = tokens * experts.active / at.tp  # of this device, each whole
        each = rows * at.etp * at.ep / experts.number
        flops = sum(2 * rows * one.inner * one.columns * one.times for one in experts.products)
        weights = experts.params / (at.ep * at.etp) * BYTES
        share = self.rates.expert_rate * each / (each + self.rates.expert_rows)
        forward = larger(flops / (self.rate * share), weights / self.bandwidth)
        of_backward = sum(one.backward * one.inner * one.columns * one.times for one in experts.products)
        again = of_backward / (experts.params / experts.number)  # 2 for each product, 1 where its matrix is frozen
        permuted = 4 * rows * layer.width * BYTES / self.bandwidth
        return PassSeconds(forward + permuted, again * forward + permuted)

    def elementwise(self, layer: LayerWork, tokens: Many, at: Layouts) -> PassSeconds:
        """Bytes that norms, residuals, rotations and activations move, in seconds; none where the tape tells."""
        if self.tape is not None:
            return PassSeconds()
        elements = tokens / at.tp * (layer.stream * self._stream_share(at) + layer.inside + layer.routed)
        moved = elements * ACCESSES * BYTES * self.rates.elementwise
        if self.weights.cast:
            moved = moved + self.weights.cast * layer.params_of_all / at.tp
        return PassSeconds(moved / self.bandwidth, moved / self.bandwidth)

    def _stream_share(self, at: Layouts) -> Many:
        """Without sequence parallelism each GPU has the hidden vectors of all tokens."""
        return 1 if at.sequence_parallel else at.tp

    def head(self, at: Layouts) -> Many:
        """Seconds of the output head and the loss of a micro-batch."""
        tokens = at.micro_batch * self.work.length / at.cp
        passes = sum_of(
            self.linear(tokens, one.inner, one.columns / at.tp, one.backward).times(one.times) for one in self.work.head
        )
        if self.tape is not None:
            return passes.both
        loss = 10 * BYTES * tokens * self.work.vocabulary / at.tp / self.bandwidth
        return passes.both + loss

    # --- messages

    def in_a_node(self, group: RankGroup) -> Many:
        """GPUs of a group that share a node."""
        return larger(1, smaller(group.ranks, self.machine.domain // group.apart))

    def collective(self, size: Many, group: RankGroup, *, around: bool = False) -> Many:
        """Seconds of an all-gather or a reduce-scatter of ``size`` bytes; or of what is sent ``around``.

        A collective leaves a node by the links of all its GPUs there; around a ring the last of them sends alone.
        """
        ranks, near = group.ranks, self.in_a_node(group)
        bus = where(near >= ranks, self.machine.bus, smaller(self.machine.bus, self.network * (1 if around else near)))
        seconds = size * (ranks - 1) / ranks / bus + self.rates.latency * log2(larger(ranks, 1))
        return where(ranks > 1, seconds, 0.0)

    def between_nodes(self, size: Many, group: RankGroup, *, around: bool = False) -> Many:
        """Seconds that a GPU's link to other nodes is busy with it, that of the last in its node."""
        ranks, near = group.ranks, self.in_a_node(group)
        each = size * (ranks - 1) / ranks / (1 if around else near)
        return where(near < ranks, each / self.network, 0.0)

    def tensor_parallel(self, layer: LayerWork, tokens: Many, at: Layouts) -> PassSeconds:
        """Seconds of all-gathers before, and reduce-scatters behind, attention and MLP; backward gathers once more.

        Inside a node products hide a share of them; between nodes no published run tells of it.
        """
        group = at.sharing_a_layer
        exposed = where(self.in_a_node(group) < group.ranks, 1.0, self.rates.tensor)
        one = self.collective(tokens * layer.width * BYTES, group) * exposed
        return PassSeconds(4 * one, 4 * one * self._gathers(at))

    def _gathers(self, at: Layouts) -> float:
        """Messages of tensor parallelism in backward over those in forward: shared tokens are gathered again."""
        return 1.5 if at.sequence_parallel else 1

    def context_parallel(self, layer: LayerWork, attention: PassSeconds, at: Layouts) -> PassSeconds:
        """Keys and values of all others in a ring, where they take longer than attention."""
        ring = self.collective(self._keys(layer, at), at.sharing_a_sequence, around=True)
        return PassSeconds(larger(ring - attention.forward, 0), larger(2 * ring - attention.backward, 0))

    def _keys(self, layer: LayerWork, at: Layouts) -> Many:
        """Bytes of a layer's keys and values, of whole sequences."""
        return BYTES * at.micro_batch * self.work.length * layer.keys / at.tp

    def expert_parallel(self, layer: LayerWork, tokens: Many, at: Layouts) -> PassSeconds:
        """Tokens to their experts and back; a token goes to a node once."""
        if layer.experts is None:
            return PassSeconds()
        near = self._routed(layer, tokens, at) * (at.ep - 1) / at.ep / self.machine.bus
        far = self._routed_between_nodes(layer, tokens, at)
        one = where(far > 0, far, near) + self.rates.latency * log2(larger(at.ep, 1))
        one = where(at.ep > 1, 2 * one * self.rates.experts, 0.0)
        return PassSeconds(one, one)

    def _routed(self, layer: LayerWork, tokens: Many, at: Layouts) -> Many:
        """Bytes of a GPU's tokens, each once for each of its experts."""
        return tokens * layer.experts.active / at.tp * layer.width * BYTES if layer.experts else 0

    def _routed_between_nodes(self, layer: LayerWork, tokens: Many, at: Layouts) -> Many:
        """Seconds of tokens on their way to other nodes; 0 where all experts are in one."""
        if layer.experts is None:
            return 0.0
        nodes, active = at.ep / self.in_a_node(at.sharing_experts), layer.experts.active
        once = nodes * (1 - (1 - 1 / nodes) ** active) / active
        return self._routed(layer, tokens, at) * once * (1 - 1 / nodes) / self.network

    def sending(self, layer: LayerWork, tokens: Many, at: Layouts) -> PassSeconds:
        """Seconds that a layer's messages keep a GPU's link to other nodes busy."""
        gathered = self.between_nodes(tokens * layer.width * BYTES, at.sharing_a_layer)
        ring = self.between_nodes(self._keys(layer, at), at.sharing_a_sequence, around=True)
        routed = 2 * self._routed_between_nodes(layer, tokens, at)
        return PassSeconds(4 * gathered + ring + routed, 4 * gathered * self._gathers(at) + 2 * ring + routed)

    def _handed_on(self, at: Layouts) -> Many:
        """Seconds of hidden vectors to the next stage."""
        tokens = at.micro_batch * self.work.length / at.cp
        return tokens * self.work.width * BYTES / (at.tp if at.sequence_parallel else 1) / self.network

    def between_steps(self, at: Layouts, stage: PassSeconds, again: Many) -> tuple[Many, Many, Many]:
        """Seconds of gradients and weights that are not hidden, of the optimizer, and on the link to other nodes.

        Shared gradients, those of ZeRO 2 and 3, are summed up for each micro-batch, all others once a step; so are
        those of FSDP's stage 2 in a pipeline, whole until the last (torch.distributed.pipelining). Without one, that
        stage gathers its weights for each micro-batch (torch.distributed.fsdp.fully_shard), and any other's once.
        """
        of_a_device = self.of_a_device(at)
        of_data = at.dp * at.cp
        shards = of_data if at.shards is None else where(at.zero > 1, at.shards, of_data)
        hidden, trained = self.rates.hidden, self.work.trained
        weights, gradients = BYTES, self.weights.gradient * trained
        sharing = at.with_the_same(shards)

        def both(seconds: Callable[[Many, RankGroup], Many], size: float) -> Many:
            return sum(seconds(size * params, group) for params, group in zip(of_a_device, sharing, strict=True))

        def all_of(seconds: Callable[[Many, RankGroup], Many]) -> tuple[Many, Many]:
            """Seconds of weights that are gathered, and of gradients that are summed up."""
            scattered = both(seconds, gradients)
            if at.shards is not None:
                scattered = scattered + where(at.zero > 1, self._over_replicas(seconds, at, gradients), 0)
            return both(seconds, weights), scattered

        gather, scatter = all_of(self.collective)
        backward = stage.backward + again
        gathers_each, sums_each = at.zero == 3, at.zero == 2
        gathers: Many = 1
        if at.shards is not None:
            sums_each = sums_each & (at.pp == 1)
            gathers = where(sums_each, at.batches, 1)
        times = where(sums_each, at.batches, 1)
        once_scatter = scatter * where(at.zero == 0, 2, 1)
        each = larger(gather - stage.forward * hidden, 0) + larger(gather + scatter - backward * hidden, 0)
        once = times * larger(once_scatter - backward * hidden, 0) + where(
            at.zero == 0, 0, gathers * larger(gather * trained - stage.forward * hidden, 0)
        )
        sharded = at.zero > 0
        states = sum(
            params / where(sharded, group.ranks, 1) for params, group in zip(of_a_device, sharing, strict=True)
        )
        optimizer = self.weights.states * trained * states / self.bandwidth + self.rates.optimizer
        far_gather, far_scatter = all_of(self.between_nodes)
        far_once = times * far_scatter * where(at.zero == 0, 2, 1)
        far_once = far_once + where(at.zero == 0, 0, gathers * far_gather * trained)
        far = where(gathers_each, at.batches * (2 * far_gather + far_scatter), far_once)
        return where(gathers_each, at.batches * each, once), optimizer, far

    def _over_replicas(self, seconds: Callable[[Many, RankGroup], Many], at: Layouts, gradients: float) -> Many:
        """Seconds of gradients that are summed over the replicas of all shards, each GPU those of its shard (HSDP)."""
        replicas = RankGroup(at.dp * at.cp / at.shards, at.tp * at.shards)
        shards = zip(self.of_a_device(at), at.with_the_same(at.shards), strict=True)
        return 2 * seconds(gradients * sum(params / group.ranks for params, group in shards), replicas)

    def of_a_device(self, at: Layouts) -> tuple[Many, Many]:
        """Parameters of a device: dense ones, and those of routed experts."""
        dense = sum(layer.copies * layer.params for layer in self.work.layers)
        experts = sum(layer.copies * layer.experts.params for layer in self.work.layers if layer.experts)
        outside = self.work.outside / where(at.pp > 1, 2, 1)
        return (dense / at.pp + outside) / at.tp, experts / (at.pp * at.ep * at.etp)


EAGER_BYTES = 10
"""Bytes moved per attention score: written, masked, softmaxed, dropped out and read."""


def sum_of(passes: Any) -> PassSeconds:
    """PassSeconds one after another."""
    found = PassSeconds()
    for one in passes:
        found += one
    return found


def distinct(at: Layouts) -> tuple[Layouts, Any]:
    """Return layouts that differ in what the seconds of a layer depend on, and the place of each one among them."""
    columns = (at.tp, at.cp, at.ep, at.etp, at.micro_batch)
    if not is_array(at.tp):
        return _of_layers(columns, at), None
    import numpy as np

    code = np.zeros(at.tp.shape)
    for column in columns:
        code = code * (np.max(column, initial=0) + 1) + column
    _, first, places = np.unique(code, return_index=True, return_inverse=True)
    return _of_layers([np.broadcast_to(column, at.tp.shape)[first] for column in columns], at), places


def _of_layers(columns: Sequence[Many], at: Layouts) -> Layouts:
    """Return layouts of what the seconds of a layer depend on."""
    tp, cp, ep, etp, micro_batch = columns
    return Layouts(
        tp=tp,
        cp=cp,
        ep=ep,
        etp=etp,
        micro_batch=micro_batch,
        sequence_parallel=at.sequence_parallel,
        modules=at.modules,
    )


def aligned(width: Many) -> Many:
    """Share of the rate that a width leaves which is a multiple of less than 64."""
    if not is_array(width):
        return next((share for multiple, share in ALIGNED.items() if width % multiple == 0), UNALIGNED)
    found: Many = UNALIGNED
    for multiple, share in sorted(ALIGNED.items()):
        found = where(width % multiple == 0, share, found)
    return found
