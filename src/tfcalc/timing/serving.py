"""Seconds of a step that serves: a floor that physics sets, and an estimate by rates of operators and engines.

    floor      max(bytes / bandwidth, FLOPs / peak, bytes sent / link)
    step       Σ operations of max(bytes / (bandwidth · ε_b · e), FLOPs / (peak · ε_f · f)) + all-reduces + to experts
               + λ · layers + κ · further products + μ · layers with experts + ν · requests + host
    first      base · C^g + t_1 + w · t_b, and of requests that do not stay in step (C − 1)/C · step, which runs then
    token      step + (C − 1 − w)/(osl − 1) · t_b: prompts of others that are not read before the first token
    w          (C − 1)/2 + (n − 1)/2 for requests that stay in step (n: prompts read at once),
               min(0.9ρ + q(C − 1) + ρ/(2(1 − ρ)), (C − 1)/2) for requests that do not; at least those for which the
               steps of an answer have no room
    rate       min(C · osl / (first + (osl − 1) · token), R / (step + R/osl · t_b)), where R of C requests have room

ε are shares of the peak that operators reach, by generation of GPUs and number format; e, f, λ, κ, μ, ν, host, base, g
and q are an engine's, or those that engines share (serving_rates.toml). f is another for tokens, for prompts, and for
the experts that prompts are sent to. κ is of the matrix products that a layer has beyond those of a dense one: latent
attention and its indexer, shared experts. t_b is the time of a prompt among others, ρ the share of time that prompts
take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import ceil, log2, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc.core.recomputation import LAYER
from tfcalc.core.traced import known, value_of
from tfcalc.hardware import Accelerator
from tfcalc.named_tuple import NamedTuple
from tfcalc.serving.engine_rules import name_of, version_of
from tfcalc.serving.traffic import ChosenExperts
from tfcalc.timing.numbers import Many, larger, whole
from tfcalc.timing.rates import links

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.serving.traffic import Operation, ServingStep

RATES = Path(__file__).with_name("serving_rates.toml")
ATTENDS = ("attend", "scan")
"""Kinds of operations that read the cache."""
HALF, BYTE, NIBBLE = 16, 8, 4
IN_HALF = ("bf16", "fp16")
IN_FEWER = {"fp4": (NIBBLE, BYTE), "fp8": (BYTE,), "int8": (BYTE,)}
"""Bits of operands of fewer than 16, by their number format: of 4 where both have so few, and else of 8."""
IN_EIGHT = "fp8"
"""Number format of products in which one operand has 4 bits and the other one 8."""
SENT = 2
"""Bytes of a number that GPUs send each other."""
SLOWEST = 100e9
"""Bytes per second of the slowest link that is not PCIe."""
PRODUCTS = 8
"""Matrix products of a dense layer: queries, keys, values, attention, output, and three of a gated network."""
REDUCED_SHARE = 0.8
"""Share of a link's rate that all-reduces of middling size reach, of the largest one's."""


@cache
def rates_table() -> Mapping[str, Any]:
    """The file of rates of serving."""
    import tomllib  # only where seconds are asked for

    return tomllib.loads(RATES.read_text(encoding="utf-8"))


class Sharing(NamedTuple):
    """Layout of a served model: tensor, pipeline, data (of attention) and expert parallelism."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self.tp * self.pp * self.dp


class LayerCounts(NamedTuple):
    """Layers that make a token, those with experts among them, and the hidden size.

    Messages and launches depend on them. ``products`` are the matrix products of all of them.
    """

    number: int
    experts: int
    width: int
    products: int = 0

    @property
    def further(self) -> int:
        """Matrix products beyond those of as many dense layers."""
        return max(0, self.products - PRODUCTS * self.number)


class OperatorRates(NamedTuple):
    """Shares of the datasheet's bandwidth and peak that operators reach on a generation of GPUs.

    By the bits of the weights: ``weights`` of the bandwidth, ``products`` and ``expert_products`` of the peak;
    ``expert_weights``, ``cache`` of the bandwidth; ``attention`` of the peak in 16 bits.
    """

    weights: Mapping[int, float]
    products: Mapping[int, float]
    expert_products: Mapping[int, float]
    expert_weights: float
    cache: float
    attention: float


class EngineRates(NamedTuple):
    """An engine of an era: what it adds to operators, from published runs.

    Those that its section of the file does not have are shared with other engines.

    Attributes:
        name: its name in the file.
        memory, products, prompts: factors on the rates of operators: bytes, products of a token, of prompts.
        expert_prompts: the same of the experts that prompts are sent to, unevenly.
        layer, experts, reduce: seconds of a layer, of one with experts, of an all-reduce of two GPUs.
        further: seconds of a matrix product of a layer beyond those of a dense one.
        host, request, first: seconds of a step, of a request in it, and before a first token of one request.
        grows: power of the requests at once as which the last ones grow.
        queued: share of the prompts of others that a first token waits for.
        waves: its runs were of requests of equal lengths, which stay in step.
        newest: newest version among its runs.
        fewest: fewest requests at once of which three systems tell a first token of a server; 0 where none do.
        rows, units: how many runs, of how many systems.
        server: the most seconds before a first token that any era of the engine has whose runs were of servers; 0 where
            there is none.
        of_tokens, of_prompts: what the seconds of a token and of reading prompts are multiplied with, by runs of one's
            own (timing/served_runs.py).
    """

    name: str
    memory: float
    products: float
    prompts: float
    expert_prompts: float
    layer: float
    further: float
    experts: float
    reduce: float
    host: float
    request: float
    first: float
    grows: float
    queued: float
    waves: bool
    newest: str
    fewest: int
    rows: int
    units: int
    server: float = 0.0
    of_tokens: float = 1.0
    of_prompts: float = 1.0


class ServingBand(NamedTuple):
    """Measured over estimated of runs whose system was left out of the fit: the first and the last tenth."""

    kind: str
    low: float
    high: float
    rows: int
    units: int


def engine_of(text: str, card: Accelerator | None = None) -> EngineRates | None:
    """Return the rates of an engine such as ``vllm`` or ``vllm@0.19.0``: of the newest era up to that version.

    Where a ``card`` is given, it is an era with runs on its generation. None where no run is known.
    """
    name, _, version = text.lower().partition("@")
    name, asked = name_of(name), version_of(version)
    eras = [
        (version_of(era["since"]), key)
        for key, era in rates_table()["engines"].items()
        if era["engine"] == name and (card is None or generation_of(card) in era["generations"])
    ]
    if not eras:
        return None
    before = [pair for pair in eras if not asked or pair[0] <= asked]
    _, key = max(before) if before else min(eras)
    every = rates_table()["engines"]
    era = {**rates_table()["shared"], **every[key]}
    era["server"] = max(
        (one["first"] for one in every.values() if one["engine"] == name and one["fewest"]), default=0.0
    )
    era.setdefault("products", era["prompts"])
    return EngineRates(name=key, **{field: era[field] for field in EngineRates._fields if field in era})


def generation_of(card: Accelerator) -> str:
    """Return the name of a GPU's generation; empty where no operator of it was measured."""
    every = rates_table()["operators"].items()
    return next((name for name, one in every if card.capability in one["capabilities"]), "")


def band_of_serving(kind: str) -> ServingBand:
    """Return the band of a class of runs."""
    known = rates_table()["bands"][kind]
    return ServingBand(kind, known["low"], known["high"], known["rows"], known["units"])


def operators_of(card: Accelerator) -> OperatorRates | None:
    """Return the rates of operators of a GPU's generation; None where none were measured."""
    generation = generation_of(card)
    if not generation:
        return None
    known = rates_table()["operators"][generation]
    names = ("weights", "products", "expert_products")
    weights, products, experts = ({int(bits): value for bits, value in known[name].items()} for name in names)
    return OperatorRates(weights, products, experts, known["expert_weights"], known["cache"], known["attention"])


class Spread(NamedTuple):
    """GPUs of a token's experts that do not have it: whether there are any in each case, and how many on average."""

    certain: bool
    expected: float


NOWHERE = Spread(certain=False, expected=0.0)


class Exchange(NamedTuple):
    """Vectors that tokens send to their experts: ``over`` how many GPUs, and bytes of a number on the way there."""

    over: Spread = NOWHERE
    bytes: float = 0.0


class KernelSeconds(NamedTuple):
    """An operation as it runs: seconds to move its bytes and to multiply, at the rates of operators, in each layer.

    Tokens are ``routed`` to it where it is an expert.
    """

    moved: Many
    multiplied: Many
    layers: float
    routed: bool = False

    def seconds(self, memory: float, products: float) -> Many:
        """Seconds in all layers, at an engine's factors."""
        return self.layers * larger(self.moved / memory, self.multiplied / products)


class Products(NamedTuple):
    """Products of matrices on a GPU: bits of their operands, and its dense FLOP/s; 0 if unknown."""

    bits: int
    peak: float


class ServingMachine:
    """A GPU among others that serve: what its datasheet says, and what operators reach."""

    def __init__(self, card: Accelerator) -> None:
        self.card = card
        self.operators = operators_of(card)
        self.link = card.link

    @property
    def bus(self) -> float:
        """Bytes per second of an all-reduce's bus, as it was measured or as the link allows."""
        known = None if self.card.own_link else links().get(self.card.name)
        return REDUCED_SHARE * (known.bus if known else self.link)

    def joins(self, gpus: int) -> bool:
        """Return whether this many GPUs are joined by more than PCIe, over which sums differ tenfold by host.

        A link of one's own is taken for what it was measured to be, whatever it is made of.
        """
        return gpus == 1 or self.card.own_link or (gpus <= self.card.domain and self.link >= SLOWEST)

    @property
    def multiplies(self) -> bool:
        """Return whether it is known how fast it multiplies, so that products bound anything."""
        return self.products().peak > 0

    def products(self, numbers: str = "", stored: int = 0) -> Products:
        """Return how it multiplies weights of ``stored`` bits, of a format that kernels multiply in these ``numbers``.

        That is in ``numbers`` where it has such products, in those of 8 bits where only the weights have 4, and in 16
        bits elsewhere: then the weights alone have fewer.
        """
        if numbers in self.card.peaks:
            for bits in IN_FEWER[numbers]:
                name = numbers if bits == IN_FEWER[numbers][0] else IN_EIGHT
                if stored <= bits and name in self.card.peaks:
                    return Products(bits, self.card.peaks[name])
        return Products(HALF, max(self.card.peaks.get(name, 0.0) for name in IN_HALF))

    # --- the floor

    def moved(self, step: ServingStep) -> float:
        """Seconds to move the bytes that are certainly read and written."""
        return value_of(step.least_bytes) / self.card.bandwidth if self.card.bandwidth else 0.0

    def multiplied(self, step: ServingStep, numbers: str = "", cached: str = "", groups: Many = 1) -> Many:
        """Seconds of products at their dense peaks: of weights in ``numbers``, with what is ``cached`` in others.

        Experts get tokens from this share of the groups that have requests of their own.
        """
        seconds: Many = 0.0
        for one in step.operations:
            found = self.products(numbers, bits_of(one)) if one.bits else self.products(cached)
            if found.peak:
                share = groups if one.routing is not None else 1
                seconds += value_of(one.layers) * whole(one.flops) * share / found.peak
        return seconds

    def sent(self, tokens: Many, layers: LayerCounts, tp: int) -> Many:
        """Seconds to send the sums of attention and feed-forward of each layer, each number once."""
        if tp == 1 or not self.link:
            return 0.0
        return 2 * layers.number * tokens * layers.width * SENT * (tp - 1) / tp / self.link

    def certainly_exchanged(self, sent: Exchange, tokens: Many, layers: LayerCounts, sharing: Sharing) -> Many:
        """Seconds to send each token's vector to experts once, and to get one back, where some are on other GPUs."""
        if not sent.over.certain or not self.link:
            return 0.0
        return 2 * layers.experts * tokens * layers.width * sent.bytes / sharing.tp / self.link

    # --- the estimate

    def kernels(self, step: ServingStep, requests: Many = 1, *, numbers: str = "") -> list[KernelSeconds]:
        """Return what runs for this many times the requests of a step, with weights that are multiplied in numbers."""
        assert self.operators is not None
        return [self._kernel(one, step, requests, numbers) for one in step.operations]

    def _kernel(self, one: Operation, step: ServingStep, requests: Many, numbers: str) -> KernelSeconds:
        known, routed = self.operators, one.routing
        assert known is not None
        bandwidth, layers = self.card.bandwidth, float(value_of(one.layers))
        weights: Many = float(value_of(one.weights))
        if routed is not None:
            weights *= routed.expected(whole(step.tokens * step.copies) * requests)
        share = known.expert_weights if routed else nearest_bits(known.weights, bits_of(one))
        moved = weights / share + requests * whole(one.gathered)
        moved += requests * whole(one.cached + one.written) / known.cache
        if one.kind in ATTENDS or not one.bits:
            rate = self.products().peak * known.attention
        else:
            bits, peak = self.products(numbers, bits_of(one))
            rate = peak * nearest_bits(known.expert_products if routed else known.products, bits)
        multiplied = requests * whole(one.flops) / rate if rate else 0.0
        return KernelSeconds(moved / bandwidth, multiplied, layers, routed is not None)

    def reduced(self, tokens: Many, layers: LayerCounts, tp: int, latency: float) -> Many:
        """Seconds of two all-reduces in each layer."""
        if tp == 1:
            return 0.0
        each = tokens * layers.width * SENT * 2 * (tp - 1) / tp / self.bus + latency * log2(2 * tp) / 2
        return 2 * layers.number * each

    def exchanged(self, sent: Exchange, tokens: Many, layers: LayerCounts, sharing: Sharing, latency: float) -> Many:
        """Seconds to send tokens to the GPUs of their experts, and to get from each of these what it made of them."""
        if not sent.over.expected:
            return 0.0
        vectors = tokens / sharing.tp * sent.over.expected
        sizes = vectors * layers.width * (sent.bytes + SENT)
        return layers.experts * (sizes / self.bus + latency * log2(2 * sharing.tp * sharing.dp))


def spread(routing: ChosenExperts, sharing: Sharing) -> Spread:
    """Return over how many GPUs the experts of a token are, beyond those that share its attention and have it already.

    >>> spread(ChosenExperts(8, 2, 8), Sharing(dp=8, ep=8)), spread(ChosenExperts(8, 2), Sharing(dp=4))
    (Spread(certain=True, expected=1.75), Spread(certain=True, expected=3.0))
    >>> spread(ChosenExperts(256, 8, 8), Sharing(tp=8, ep=8)), spread(ChosenExperts(256, 8, 8), Sharing(dp=8, ep=8))[0]
    (Spread(certain=False, expected=0.0), False)
    """
    number, active = value_of(routing.number), value_of(routing.active)
    of_a_stage, elsewhere = sharing.tp * sharing.dp, number - number / sharing.ep
    fewest = ceil(active / ceil(number / sharing.ep)) * (of_a_stage // sharing.ep)
    missed = prod(max(0.0, elsewhere - place) / (number - place) for place in range(active))
    return Spread(fewest > sharing.tp, (1 - missed) * (of_a_stage - sharing.tp))


def bits_of(one: Operation) -> int:
    """Bits of the operands that its weights allow: 4, 8 or 16."""
    return NIBBLE if one.bits <= 5 else BYTE if one.bits <= 9 else HALF


def nearest_bits(known: Mapping[int, float], bits: int) -> float:
    """Return the value for this many bits, or for the next more."""
    return known[min((width for width in known if width >= bits), default=max(known))]


def step_seconds(kernels: list[KernelSeconds], by: EngineRates) -> Many:
    """Seconds of the kernels of a step that makes tokens, one after another."""
    return sum(one.seconds(by.memory, by.products) for one in kernels)


def prompt_seconds(kernels: list[KernelSeconds], layers: LayerCounts, reduced: Many, by: EngineRates) -> Many:
    """Seconds of a step that reads prompts."""
    each = (one.seconds(by.memory, by.expert_prompts if one.routed else by.prompts) for one in kernels)
    return by.of_prompts * (sum(each) + reduced + launches(layers, by))


def launches(layers: LayerCounts, by: EngineRates) -> float:
    """Seconds of launching kernels, and of what else a layer takes however few tokens there are."""
    return by.layer * layers.number + by.further * layers.further + by.experts * layers.experts


def layers_of(tree: Component, step: ServingStep) -> LayerCounts:
    """Return the layers of a tree that run in this step of it, and its hidden size."""
    nodes = list(tree.walk())
    run = {path for one in step.operations for path in above(one.path)}
    number = sum(value_of(node.copies) for node in nodes if node.component.kind == LAYER and node.path in run)
    products = sum(value_of(one.layers) for one in step.operations if known(one.flops) != 0)
    routed = {one.path.rpartition(".")[0]: value_of(one.layers) for one in step.operations if one.routing}
    width = max(
        (value_of(w.shape[-1]) for n in nodes if n.component.own.lookups for w in n.component.own.weights), default=0
    )
    return LayerCounts(number, sum(routed.values()), width, products)


def above(path: str) -> Iterator[str]:
    """Yield the paths that a path is below.

    >>> list(above("model.layers.mlp"))
    ['model.layers', 'model']
    """
    while path := path.rpartition(".")[0]:
        yield path
