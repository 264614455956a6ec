"""Case of a served model: what its GPUs do in a step, its floor and its estimate, at any number of requests."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.core.traced import value_of
from tfcalc.serving.engine_rules import AS_OTHERS
from tfcalc.timing.estimate import HOURS_OF_A_MONTH, SECONDS_OF_AN_HOUR
from tfcalc.timing.rates import price_of
from tfcalc.timing.served import ALL_SEEN, NO_DRAFT, Bounds, Guess, ServedModel, TokenSeconds, banded
from tfcalc.timing.serving import engine_of

if TYPE_CHECKING:
    from tfcalc.answers.serve_question import ServeQuestion
    from tfcalc.serving.traffic import ChosenExperts
    from tfcalc.timing.rates import Price
    from tfcalc.timing.served_runs import OwnRates
    from tfcalc.timing.serving import EngineRates, ServingBand

MILLION = 10**6
DOES_NOT_FIT, FLOOR_ASKED = "memory", "floor"
NO_ENGINE, NO_GPU, READS_SOURCE, SLOW_LINK = "engine", "gpu", "encoder", "link"
"""Why nothing is estimated: no run is known of the engine, of it on such a GPU, with an encoder, over such a link."""


class ServedAt:
    """The served model at a number of requests, of all replicas; they come at a rate, where it is not 0."""

    def __init__(self, case: ServeCase, concurrency: int, arriving: float = 0.0) -> None:
        self.case, self.concurrency, self.arriving = case, concurrency, arriving
        self.of, self.by = case.of, case.by

    @property
    def requests(self) -> int:
        """Requests of a group of GPUs that makes tokens, of the one that has most."""
        return -(-self.concurrency // self.case.decoding)

    @property
    def running(self) -> int:
        """Requests that run at once, of all groups and replicas."""
        return min(self.concurrency, int(self.of.running(self.requests)) * self.case.decoding)

    @cached_property
    def floor_of_token(self) -> Bounds:
        """Bounds of a token."""
        return self.of.floor_of_token(self.requests)

    @cached_property
    def floor_of_first(self) -> Bounds:
        """Bounds of the first token."""
        return self.of.floor_of_prompt(self.requests)

    @cached_property
    def token(self) -> Guess:
        """Estimate of a token."""
        assert self.by is not None
        return self._banded(self.parts.seconds, self.floor_of_token, first=False)

    @cached_property
    def first(self) -> Guess:
        """Estimate of the first token."""
        assert self.by is not None
        return self._banded(self.of.first_token(self.requests, self.by), self.floor_of_first, first=True)

    def _banded(self, seconds: float, floor: Bounds, *, first: bool) -> Guess:
        assert self.by is not None
        band, version = self.case.band(first=first), "" if self.case.own else self.case.version
        unseen = self.of.unseen(self.requests, self.by) if first and not self.case.own else ALL_SEEN
        return banded(seconds, floor, self.by, band, version, unseen)

    @cached_property
    def parts(self) -> TokenSeconds:
        """Estimate of a token, part by part."""
        assert self.by is not None
        return self.of.parts(self.requests, self.by)

    @cached_property
    def rate(self) -> Guess:
        """Tokens per second of all replicas: no more than come, nor than as many requests as can run make."""
        assert self.by is not None
        if self.arriving:
            most = self.arriving * self.case.question.load.answer
            return Guess(*(min(one, most) for one in self.case.full.rate))
        of, requests = self.of, self.requests
        first = self._banded(of.first_of_running(requests, self.by), self.floor_of_first, first=True)
        full = self._banded(of.token_of_full(requests, self.by), self.floor_of_token, first=False)
        groups = self.concurrency / requests
        ends = zip(first, self.token, full, strict=True)
        value, low, high = (groups * of.rate(requests, *each) for each in ends)
        return Guess(value, high, low)

    @property
    def rate_of_gpu(self) -> float:
        """Tokens per second of a GPU."""
        return float(self.rate.value / self.case.question.gpus)

    @property
    def ended(self) -> float:
        """Requests that end each second."""
        return float(self.rate.value / self.case.question.load.answer)

    @property
    def floor_rate(self) -> float:
        """Tokens per second that are never exceeded: each request takes its floor, and caches of no more have room."""
        load, token = self.case.question.load, self.floor_of_token.seconds
        seconds = self.floor_of_first.seconds + (load.answer - 1) * token
        rates = [self.concurrency * load.answer / seconds] if seconds else [0.0]
        most = max(1, int(self.of.certain_capacity))
        further = (load.answer - 1) * self.of.floor_of_running(most).seconds
        if further and not load.static:
            rates.append(self.case.decoding * most * load.answer / further)
        if self.floor_between:
            rates.append(self.case.decoding * load.answer / self.floor_between)
        return float(min(rates))

    @property
    def seconds_of_request(self) -> float:
        """Seconds that a request takes where tokens come at that rate, all requests at once."""
        tokens = self.concurrency * self.case.question.load.answer
        return tokens / self.floor_rate if self.floor_rate else 0.0

    @property
    def floor_between(self) -> float:
        """Seconds between two answers of a group, below which they never are, where other GPUs read prompts."""
        return float(self.of.floor_between())

    @property
    def cost(self) -> Guess | None:
        """US dollars for a million tokens of answers."""
        price = self.case.price
        if price is None:
            return None
        per_second = price.typical * self.case.question.gpus / SECONDS_OF_AN_HOUR
        rate = self.rate
        return Guess(*(MILLION * per_second / one for one in (rate.value, rate.high, rate.low)))


class ServeCase:
    """A model on GPUs that were named: what does not depend on the number of requests, and the case at any number."""

    def __init__(self, question: ServeQuestion) -> None:
        self.question = question

    @cached_property
    def of(self) -> ServedModel:
        """The model on the GPUs of a replica."""
        question = self.question
        where = question.sharing, question.card
        guesser = None
        if question.guesser is not None:
            load = question.load._replace(draft=NO_DRAFT)
            guesser = ServedModel(question.guesser, question.plan, *where, load, question.engine)
        asked = question.model, question.plan, *where, question.load, question.engine, guesser
        return ServedModel(*asked, question.utilization)

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.question.engine.partition("@")[0].lower()

    @property
    def version(self) -> str:
        """Version of the engine, as it was said."""
        return self.question.engine.partition("@")[2]

    @cached_property
    def unknown(self) -> str:
        """Return why nothing is estimated; empty where it is."""
        if not self.holds:
            return DOES_NOT_FIT
        if self.question.floor:
            return FLOOR_ASKED
        if self._published is None:
            return NO_ENGINE if engine_of(self.question.engine) is None else NO_GPU
        if self.of.reads_source:
            return READS_SOURCE
        talking = self.of.talking
        return "" if self.of.machine.joins(talking) or self._ran_over(talking) else SLOW_LINK

    @cached_property
    def _published(self) -> EngineRates | None:
        """Rates of the engine on this generation of GPUs; of another, where one's own runs say the rest."""
        known = engine_of(self.question.engine, self.question.card)
        if known is not None or self.question.runs is None or self.of.machine.operators is None:
            return known
        return engine_of(self.question.engine) or engine_of(AS_OTHERS)

    def _ran_over(self, gpus: int) -> bool:
        """Return whether as many of these GPUs sent each other messages in a run of one's own."""
        own = self.question.runs
        return own is not None and any(
            run.of.talking == gpus and run.of.card.name == self.question.card.name for run in own.runs
        )

    @cached_property
    def own(self) -> OwnRates | None:
        """The rates as one's own runs change them; None without any."""
        if self.question.runs is None or self.unknown:
            return None
        assert self._published is not None
        return self.question.runs.changing(self._published)

    @cached_property
    def by(self) -> EngineRates | None:
        """Rates of the engine; None where nothing is estimated."""
        if self.unknown:
            return None
        return self._published if self.own is None else self.own.rates

    def band(self, *, first: bool) -> ServingBand:
        """Return the band of a token, or of the first one: by published runs, or by one's own."""
        known = self.of.band(first=first)
        return known if self.own is None else self.own.band(known, first=first)

    @cached_property
    def at(self) -> ServedAt:
        """The model at the requests that were asked for."""
        return ServedAt(self, self.question.load.concurrency, self.question.rate)

    @property
    def estimated(self) -> ServedAt | None:
        """The model at these requests, where there is an estimate."""
        return None if self.by is None else self.at

    def point(self, concurrency: int) -> ServedAt:
        """Return the model at this many requests."""
        return ServedAt(self, concurrency)

    @cached_property
    def price(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.question.card, self.question.price, self.question.prices)

    @property
    def capacity(self) -> int:
        """Requests that run at once, in all."""
        return int(self.of.capacity * self.decoding)

    @property
    def most_at_once(self) -> int:
        """Requests that the engine runs at once, of those that have room; 1 where none has."""
        return max(1, min(self.capacity, self.of.most * self.decoding))

    @cached_property
    def full(self) -> ServedAt:
        """The model with as many requests as run at once."""
        return self.point(self.most_at_once)

    @property
    def keeps_up(self) -> bool:
        """Return whether as many requests can end as come, by the estimate."""
        return not self.question.rate or self.full.ended >= self.question.rate

    @property
    def decoding(self) -> int:
        """Groups of GPUs that make tokens, each with a copy of the model."""
        return self.question.replicas * self.question.load.decoding

    def points(self, further: int = 0) -> list[ServedAt]:
        """Return it at 1, 2, 4, … requests, at all that fit, at those asked for, and at a ``further`` number."""
        most = max(1, self.capacity)
        sizes = {2**power for power in range(most.bit_length()) if 2**power <= most}
        sizes |= {most, self.question.load.concurrency} | ({further} if further else set())
        return [self.point(size) for size in sorted(sizes)]

    @property
    def usd_per_month(self) -> float | None:
        """US dollars for all GPUs and a month; None where no price is known."""
        return self.price.typical * self.question.gpus * HOURS_OF_A_MONTH if self.price else None

    @property
    def holds(self) -> bool:
        """Return whether weights and one request fit in what the engine leaves them; for the floor, on the GPUs."""
        return bool(self.of.holds if self.question.floor else self.of.serves)

    # --- exact numbers

    @property
    def in_a_step(self) -> int:
        """Requests of a step on a GPU, of those that run at once."""
        running = int(self.of.running(self.at.requests))
        return max(1, running // self.question.sharing.dp // self.question.sharing.pp)

    @property
    def step_weights(self) -> int:
        """Bytes of weights of a step, of the fewest experts."""
        step = self.of.token
        return value_of(step.least_weights - step.gathered + self.in_a_step * step.gathered)

    @property
    def expected_weights(self) -> int:
        """Bytes of weights of a step, of the experts that its tokens are sent to on average."""
        step, requests = self.of.token, self.in_a_step
        gathered = value_of(step.gathered)
        return round(step._replace(tokens=requests * self.of.checked).expected_weights) + (requests - 1) * gathered

    @property
    def step_cache(self) -> int:
        """Bytes of the cache of a step."""
        step = self.of.token
        return self.in_a_step * value_of(step.cached + step.written)

    @property
    def step_products(self) -> int:
        """FLOPs of the matrix products of a step."""
        return self.in_a_step * value_of(self.of.token.flops)

    @property
    def guessed_bytes(self) -> int:
        """Bytes that guessing the tokens of a step moves."""
        if self.of.guesser is None:
            return 0
        step = self.of.guesser.token
        weights = value_of(step.least_weights - step.gathered)
        each = weights + self.in_a_step * value_of(step.gathered + step.cached + step.written)
        return self.question.load.draft.tokens * each

    @property
    def guessed_flops(self) -> int:
        """FLOPs of guessing them."""
        if self.of.guesser is None:
            return 0
        return self.question.load.draft.tokens * self.in_a_step * value_of(self.of.guesser.token.flops)

    @property
    def experts(self) -> tuple[ChosenExperts, int] | None:
        """Routing of the layers with most experts, and the tokens of a step."""
        routings = self.of.token.routings
        if not routings:
            return None
        return max(
            routings, key=lambda one: value_of(one.number)
        ), self.in_a_step * self.of.checked * self.question.sharing.dp

    @property
    def ridge(self) -> float | None:
        """FLOPs for each byte from which the peak bounds."""
        peak, bandwidth = self.of.machine.products(self.of.numbers).peak, self.question.card.bandwidth
        return peak / bandwidth if peak and bandwidth else None
