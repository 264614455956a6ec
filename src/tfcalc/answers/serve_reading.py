"""A served model that reads and writes nothing, as those of embeddings and rerankers: what no run is faster than."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from tfcalc.analysis.common import model_of
from tfcalc.answers.serve_base import ServedAnswer, rate_in_words, without_products
from tfcalc.answers.serve_question import EIGHT_BITS, INPUT, card_of
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_serving
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.hardware import accelerators, parse_gpu
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import CrossAttention
from tfcalc.placed.layout import check_least
from tfcalc.plans import Serving
from tfcalc.report.declared import Record, integer, number, optional_number, record, text, texts
from tfcalc.report.opening import found, given
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short, of
from tfcalc.search.largest import largest
from tfcalc.serving.memory import served
from tfcalc.serving.stored import check_served, reads_alone
from tfcalc.serving.traffic import ServingStep, Traffic
from tfcalc.serving.weight_formats import multiplied_at_best
from tfcalc.timing.estimate import SECONDS_OF_AN_HOUR
from tfcalc.timing.rates import NO_PRICES, price_of
from tfcalc.timing.served import Bounds
from tfcalc.timing.serving import ServingMachine
from tfcalc.units import short_bytes, short_seconds
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.timing.rates import Price

MILLION = 10**6
MOST_AT_ONCE = 65_536
"""Requests that are looked for at most, where it is asked how many have room."""
NO_RUNS = "no run of a model that writes nothing is known"


class ReadingQuestion(NamedTuple):
    """Question of a model that reads ``concurrency`` requests of ``prompt`` tokens at once, on each of ``gpus``."""

    model: Model
    plan: Serving
    card: Accelerator
    gpus: int = 1
    prompt: int = INPUT
    concurrency: int = 1
    price: float | None = None
    prices: Mapping[str, Price] = NO_PRICES


BY_BYTES = found("bytes over the bandwidth, FLOPs over the dense peak, of requests that are read at once: the larger")
FOLD = found("a sum over the operations of reading the requests, on one GPU")
GIVEN = given("given by the options, or their defaults")


class ReadingFloorKeys(Record):
    """Floor of physics: no run is faster."""

    latency_ms = number("milliseconds to read the requests of a GPU at once", lambda one: 1000 * one.seconds, BY_BYTES)
    requests_per_second = number("requests per second of all GPUs, at most", lambda one: one.rate, BY_BYTES)
    tokens_per_second = number(
        "tokens per second of all GPUs, at most", lambda one: one.rate * one.question.prompt, BY_BYTES
    )
    usd_per_million_tokens = optional_number(
        "US dollars for a million tokens, at least; null without a price", lambda one: one.cost, BY_BYTES
    )
    bound = text("what bounds it: bandwidth, compute", lambda one: one.bounds.name)


class ReadingExactKeys(Record):
    """Bytes and FLOPs of one GPU; no rate is in them."""

    weights_bytes = integer("bytes of the weights that are read once", lambda one: one.weights_read, FOLD)
    flops_per_request = integer("FLOPs of the matrix products of a request", lambda one: one.flops, FOLD)
    memory_bytes = integer(
        "bytes of memory: weights, and what is live while the requests are read", lambda one: one.memory, FOLD
    )
    capacity_requests = integer(
        "requests that have room on a GPU, read at once",
        lambda one: one.capacity,
        found("the largest number whose memory a GPU has"),
    )


class ServedReading(ServedAnswer):
    """A model that reads requests on GPUs, each of which has a copy of it."""

    form: ClassVar[str] = "a model that writes nothing, or --output 0"

    gpu = text("the GPU", lambda answer: answer.question.card.name)
    gpus = integer("GPUs in all, each with a copy", lambda answer: answer.question.gpus, GIVEN)
    input_tokens = integer("tokens of a request", lambda answer: answer.question.prompt, GIVEN)
    concurrency = integer("requests that a GPU reads at once", lambda answer: answer.question.concurrency, GIVEN)
    weights = text("number format of the weights", lambda answer: answer.traffic.recipe.format.name)
    reading = record(ReadingExactKeys, "bytes and FLOPs of one GPU", lambda answer: answer)
    reading_floor = record(ReadingFloorKeys, "what no run is faster than", lambda answer: answer)
    no_estimate = text("why nothing is estimated", lambda _: NO_RUNS)
    assumptions = texts("what was assumed", lambda answer: tuple(answer.assumed()))

    def __init__(self, question: ReadingQuestion) -> None:
        self.question = question
        self.machine = ServingMachine(question.card)

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes and FLOPs of its operations."""
        model, plan = self.question.model, self.question.plan.replaced(context=max(2, self.question.prompt))
        return Traffic(model, *resolve_serving(model, Workload(), plan))

    @cached_property
    def step(self) -> ServingStep:
        """Reading one request, of which that of more is a multiple but for the weights."""
        return self.traffic.reading(1, self.question.prompt)

    @property
    def weights_read(self) -> int:
        """Bytes of weights that are read once, for however many requests."""
        return value_of(self.step.least_weights - self.step.gathered)

    @property
    def flops(self) -> int:
        """FLOPs of a request."""
        return value_of(self.step.flops)

    # --- what fits

    def need(self, requests: int) -> int:
        """Bytes of memory that requests take which are read at once."""
        plan = self.question.plan.replaced(context=self.question.prompt, concurrency=requests)
        return served(self.question.model, Workload(), plan, formulas=False).total

    @cached_property
    def memory(self) -> int:
        """Bytes of memory of the requests that were asked for."""
        return self.need(self.question.concurrency)

    @cached_property
    def room(self) -> int:
        """Bytes of a GPU's memory."""
        return self.question.card.usable().bytes

    @property
    def holds(self) -> bool:
        """Return whether the requests have room."""
        return self.memory <= self.room

    @cached_property
    def capacity(self) -> int:
        """Requests that have room on a GPU."""
        return largest(self.need, self.room, start=self.question.concurrency, most=MOST_AT_ONCE)

    @cached_property
    def holding(self) -> str:
        """The option that makes it fit: fewer bits where the GPU multiplies in them, or a larger GPU; else nothing."""
        q, found = self.question, dict[str, ReadingQuestion]()
        if EIGHT_BITS in q.card.peaks and not q.plan.weights:
            found[f"--weights {EIGHT_BITS}"] = q._replace(plan=q.plan.replaced(weights=EIGHT_BITS))
        larger = (card for card in accelerators() if card.bandwidth and card.vendor == q.card.vendor)
        for card in sorted(larger, key=lambda card: card.usable().bytes):
            if card.usable().bytes >= self.memory:
                found[f"--gpu {q.gpus}x{card.name.lower()}"] = q._replace(card=card)
        return next((option for option, changed in found.items() if ServedReading(changed).holds), "")

    # --- the floor

    @cached_property
    def bounds(self) -> Bounds:
        """Return what no reading of the requests of a GPU is faster than."""
        card, requests, step = self.question.card, self.question.concurrency, self.step
        moved = self.weights_read + requests * value_of(step.gathered)
        seconds = moved / card.bandwidth if card.bandwidth else 0.0
        return Bounds(
            seconds, requests * self.machine.multiplied(step, multiplied_at_best(self.traffic.recipe.format)), 0.0
        )

    @property
    def seconds(self) -> float:
        """Seconds of it."""
        return float(self.bounds.seconds)

    @property
    def rate(self) -> float:
        """Requests per second of all GPUs."""
        return self.question.gpus * self.question.concurrency / self.seconds if self.seconds else 0.0

    @cached_property
    def price(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.question.card, self.question.price, self.question.prices)

    @property
    def cost(self) -> float | None:
        """US dollars for a million tokens."""
        if self.price is None or not self.rate:
            return None
        per_second = self.price.typical * self.question.gpus / SECONDS_OF_AN_HOUR
        return MILLION * per_second / (self.rate * self.question.prompt)

    # --- for people

    @property
    def succeeded(self) -> bool:
        """Return whether it fits."""
        return self.holds

    @property
    def heading(self) -> str:
        """The model, on what, and the requests."""
        q = self.question
        where = f"{q.gpus} x {q.card.name}{' (a copy each)' if q.gpus > 1 else ''}"
        requests = f"{q.concurrency:,} x {q.prompt:,} tokens at once"
        return f"{q.model.summary} on {where}, weights {self.traffic.recipe.format.name}, {requests}"

    @property
    def title(self) -> str:
        """The answer in a sentence."""
        q = self.question
        if not self.holds:
            many = f"{q.concurrency:,} request{'s' * (q.concurrency != 1)}"
            each = f"weights and {many} take {short_bytes(self.memory)}"
            has = f"{q.card.name} has {short_bytes(self.room)} for a process"
            if self.capacity:
                return f"CANNOT: {each}, {has}; --concurrency {self.capacity} has room"
            held = f"{self.holding} would hold it" if self.holding else "no larger GPU that is known holds it alone"
            return f"CANNOT: {each}, {has}; {held}"
        rates = f"{rate_in_words(self.rate)} requests/s, {rate_in_words(self.rate * q.prompt)} tokens/s"
        cost = "" if self.cost is None else f", {self.cost:,.2g} USD per million tokens at least"
        return f"no more than {rates}, by {self.bounds.name}; {short_seconds(self.seconds)} at least{cost}"

    def assumed(self) -> Iterator[str]:
        """Yield what was assumed."""
        yield "floor: bytes over the bandwidth, FLOPs over the dense peak, overlapped; activations are not counted"
        yield "requests of equal lengths are read together; nothing is padded"
        yield "a head that makes words is left out; a cache is not written"
        if self.price is not None:
            yield f"{self.price.typical:,.2f} USD a GPU hour, {self.price.origin}"

    def sheet(self) -> Sheet:
        """The bytes and FLOPs of reading the requests."""
        q = self.question
        bandwidth = q.card.bandwidth or float("inf")
        at_peak = f"{1000 * self.bounds.compute:,.3g}" if self.machine.multiplies else None
        weights = of(Bytes(self.weights_read), ServedReading.reading, ReadingExactKeys.weights_bytes)
        rows: list[list[Cell]] = [
            ["weights, read once", weights, None, f"{1000 * self.weights_read / bandwidth:,.3g}"],
            ["products", None, Short(q.concurrency * self.flops), at_peak],
        ]
        names = ("bytes", "FLOPs", "ms at peak")
        columns = [Column("reading on each GPU", numeric=False), *(Column(name) for name in names)]
        bytes_alone = () if self.machine.multiplies else (without_products(q.card.name),)
        notes = [
            *bytes_alone,
            f"Nothing is estimated: {NO_RUNS}",
            f"Room for {self.capacity:,} requests at once on a GPU",
        ]
        longest = q.model.longest
        if isinstance(longest, int) and q.prompt > longest:
            notes.append(f"The model was made for {longest:,} tokens, fewer than the {q.prompt:,} asked for")
        return Sheet(
            title=self.title,
            subtitle=self.heading,
            columns=columns,
            rows=rows if self.holds else [],
            quiet=self.title,
            notes=tuple(notes),
            assumes=(),
            not_counted="",
            see_also=("--concurrency 32", "--assumptions", "--json", "memory --serve"),
            assumptions=tuple(self.assumed()),
        )


def serve_reading(
    model: Model | str,
    gpu: str = "h100",
    prompt: int | None = None,
    concurrency: int = 1,
    *,
    plan: Serving | None = None,
    price: float | None = None,
    prices: Mapping[str, Price] = NO_PRICES,
) -> ServedReading:
    """Find how fast a model reads requests, which writes nothing: embeddings, rerankers, classifiers.

    Args:
        model: as in :func:`~tfcalc.params`; of one that writes text the output head is left out.
        gpu: the GPUs by their name and number (``"4xh100"``), each of which has a copy.
        prompt: tokens of a request; by default 1,024, or as many as the model was made for.
        concurrency: requests that a GPU reads at once.
        plan: the number format of the weights; its other fields are not read.
        price: US dollars for a GPU and an hour; by default a dated list.
        prices: the same by the names of GPUs, before the list.

    Returns:
        ServedReading: bytes and FLOPs of a ``reading``, requests and tokens per second (``reading_floor``), ``fits``.
        Nothing is estimated: no public runs of such models are known.

    Raises:
        InvalidModel: the model reads images or sounds alone, or needs a text that it writes.
        UsageError: no tokens or no requests.

    >>> import tfcalc
    >>> found = serve_reading(tfcalc.load("bge-m3"), "l4", 512, 32)
    >>> found.fits, found.reading_floor.bound, found.reading_floor.requests_per_second < 400
    (True, 'compute', True)
    """
    loaded = model_of(model)
    if prompt is None:
        prompt = min(INPUT, loaded.longest) if isinstance(loaded.longest, int) else INPUT
    for what, size in {"prompt": prompt, "concurrency": concurrency}.items():
        check_least(what, size, 1)
    count, name = parse_gpu(gpu)
    if not reads_alone(loaded):
        check_served(loaded, Workload(phase="decode", cached=max(2, prompt)))
        if any(isinstance(each, CrossAttention) for each in loaded.module().all_of()):
            raise InvalidModel("an encoder whose decoder writes nothing", "say how many tokens it writes: --output")
    asked = plan or Serving()
    if asked.shared:
        raise UsageError("a model that writes nothing on several GPUs is copied", "say how many with gpu alone")
    question = ReadingQuestion(
        loaded, Serving(weights=asked.weights), card_of(name), count, prompt, concurrency, price, prices
    )
    answer = ServedReading(question)
    assert answer.weights_read  # what cannot be read is refused now
    return answer
