"""A served model in words: on which GPUs, what was assumed, why nothing is estimated, and the answer in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING

from tfcalc.answers.serve_base import ServedAnswer, rate_in_words
from tfcalc.answers.serve_case import DOES_NOT_FIT, FLOOR_ASKED, NO_ENGINE, NO_GPU, READS_SOURCE, ServeCase
from tfcalc.answers.serve_limits import CANNOT, CAPACITY, SHOULD_NOT, TPOT, TTFT, UNKNOWN, Promise, succeeds
from tfcalc.answers.serve_question import ServeQuestion, options_of
from tfcalc.answers.serve_search import MOST_GPUS, holding, holding_all
from tfcalc.errors import UsageError
from tfcalc.hardware import GIGA
from tfcalc.timing.serving import Sharing, rates_table
from tfcalc.units import short_bytes, short_seconds

if TYPE_CHECKING:
    from tfcalc.timing.served import Guess, Load

NOT_HELD = "it does not fit"
SAID_BY = {TTFT: "the first token", TPOT: "the time of a token", CAPACITY: "the memory", "": "the memory"}
"""What decides, in words."""


class ServeAnswer(ServedAnswer):
    """Answer about a model that writes text: its case, what was searched for it, and both in words."""

    def __init__(self, question: ServeQuestion) -> None:
        self.question = question
        self.case = ServeCase(question)

    @cached_property
    def promise(self) -> Promise | None:
        """The limits, where there are some."""
        return Promise(self.case) if self.question.limits.given else None

    @cached_property
    def holding(self) -> Sharing | None:
        """Layout of more GPUs of the same kind that hold it; None where these do, or none that was tried does."""
        return holding(self.case)

    @cached_property
    def holding_all(self) -> ServeQuestion | None:
        """GPUs that run all requests at once, in few stages; None where these do, or none were found."""
        return holding_all(self.case)

    @property
    def holds(self) -> bool:
        """Return whether weights and one request fit in what the engine leaves them; for the floor, on the GPUs."""
        return self.case.holds

    @property
    def succeeded(self) -> bool:
        """Return whether it fits, serves all that come, and keeps the limits."""
        return succeeds(self.case)

    @property
    def where(self) -> str:
        """The GPUs, and how they share the model."""
        ways = f" ({self.ways})" if self.ways else ""
        apart = self.question.load.apart
        groups = f", groups for prompts and for tokens {apart.prompts}:{apart.tokens}" if apart else ""
        return f"{self.gpus}{ways}{groups}"

    @property
    def gpus(self) -> str:
        """Number and name of the GPUs."""
        return f"{self.question.gpus} x {self.question.card.name}"

    @property
    def ways(self) -> str:
        """Ways in which they share the model; empty where each has a copy, and there is one."""
        q = self.question
        ways = [f"{name} {size}" for name, size in zip(Sharing._fields, q.sharing, strict=True) if size > 1]
        return ", ".join(ways + [f"{q.replicas} replicas"] * (q.replicas > 1))

    @property
    def formats(self) -> str:
        """Number formats of weights and cache."""
        return f"weights {self.case.of.traffic.recipe.format.name}, cache {self.case.of.plan.kv}"

    @property
    def heading(self) -> str:
        """The model, on what, and the requests."""
        q = self.question
        return f"{q.model.summary} on {self.where}, {self.formats}, {requests_in_words(q.load)}"

    @property
    def subject(self) -> str:
        """The heading, of a number that is opened alone: it says where the model does not fit."""
        return self.heading if self.holds else f"{self.heading}; {self.would_hold}"

    @property
    def would_hold(self) -> str:
        """Say that it does not fit, and what would hold it."""
        if self.holding is None:
            return f"{NOT_HELD}, nor on up to {MOST_GPUS} GPUs"
        return f"{NOT_HELD}: {self._holding_in_words(self.holding)}"

    def _holding_in_words(self, sharing: Sharing) -> str:
        return f"{options_of(self.question.card, sharing.gpus * self.question.load.groups, sharing)} would hold it"

    def assumed(self) -> Iterator[str]:
        """Yield what was assumed."""
        yield "floor: bytes over the bandwidth, FLOPs over the dense peak, overlapped; activations are not counted"
        yield "tpot is the time of a token after the first; a request that ends is followed by another"
        yield room_in_words(self.case)
        if self.question.card.own_link:
            yield f"GPUs send each other {self.question.card.link / GIGA:,.4g} GB/s in one direction (--link)"
        by, exchange = self.case.by, self.case.of.exchange
        if by is not None:
            yield f"prompts are read {self.case.of.read_at_once:,} tokens at a time"
            yield "experts are chosen alike and independently"
            if exchange.over.expected:
                many, bits = exchange.over.expected, 8 * exchange.bytes
                yield f"a token goes to {many:.3g} further GPUs for its experts in {bits:g} bits, and comes back in 16"
            yield f"{by.name}: {by.rows:,} runs of {by.units} systems, up to version {by.newest}"
        draft = self.question.load.draft
        if draft.tokens:
            yield f"{draft.tokens} tokens guessed, {draft.made:.3g} made in a step; {guessed_by(self.case)}"
        price = self.case.price
        if price is not None:
            yield f"{price.typical:,.2f} USD a GPU hour, {price.origin}"

    @property
    def title(self) -> str:
        """The answer in a sentence."""
        if not self.holds:
            return self._does_not_fit()
        at = self.case.at
        if self.case.by is None:
            floor = f"at least {short_seconds(at.floor_of_token.seconds)} a token, by {at.floor_of_token.name}"
            first = short_seconds(at.floor_of_first.seconds)
            told = f"{floor}, and {first} for the first; {rate_in_words(at.floor_rate)} tokens/s at most"
            told = self._waiting + told
            told = told if self.promise is None else f"{self._allowed(self.promise)}: {told}"
            return f"{self._found}; {told}" if self.question.fewest and self.succeeded else told
        users = f"each user waits {_span(at.token)} a token and {_span(at.first)} for the first"
        users = self._waiting + users
        rate = f"{_rate(at.rate.value)} tokens/s in all"
        if self.question.rate and self.case.keeps_up:
            rate = f"{rate_in_words(at.rate.value)} tokens/s are asked for and made"
        if self.question.gpus > 1:
            rate += f", {_rate(at.rate_of_gpu)} a GPU"
        cost = at.cost
        if cost is not None:
            rate += f": {cost.value:,.2f} USD per million output tokens"
        told = f"{users}; {rate}"
        if self.promise is not None:
            told = f"{self.promised}: {told}"
        if self.question.fewest and self.succeeded:
            told = f"{self._found}; {told}"
        return told if self.case.keeps_up else f"{self._too_many}; {told}"

    @property
    def _found(self) -> str:
        """The fewest GPUs, where they were asked for."""
        many, gpus = self.case.at.concurrency, self.question.gpus
        return f"{self.where} serve{'s' * (gpus == 1)} {many:,} request{'s' * (many > 1)} at once"

    @property
    def _too_many(self) -> str:
        """Number of requests that come and that end, and the GPUs that would serve all of them."""
        q, ended = self.question, self.case.full.ended
        verdict = CANNOT if self.case.full.floor_rate < q.rate * q.load.answer else SHOULD_NOT
        more = options_of(q.card, ceil(q.rate / ended * q.replicas) * q.gpus_of_replica, q.sharing)
        return (
            f"{verdict.upper()}: {q.rate:g} requests/s come, and {self.gpus} serve{'s' * (q.gpus == 1)} {ended:.3g}; "
            f"{more} would serve them"
        )

    @property
    def _waiting(self) -> str:
        """Number of requests that run at once, and the GPUs that run all; nothing where these do."""
        at, found = self.case.at, self.holding_all
        if at.running >= at.concurrency:
            return ""
        held = f" (all at once: {options_of(found.card, found.gpus, found.sharing)})" if found else ""
        why = "wait for room"
        if at.running >= self.case.of.most * self.case.decoding:
            rules = self.case.of.rules
            why = f"wait, as {rules.called} runs no more" + ", by its max_num_seqs" * bool(rules.batched)
        return f"{at.running:,} of {at.concurrency:,} requests run at once, the others {why}{held}; "

    @property
    def promised(self) -> str:
        """Number of requests within the limits, how they are served, what decides it; and those asked for."""
        promise = self.promise
        assert promise is not None
        largest, decides = promise.largest, f"{SAID_BY[promise.decided_by]} decides"
        if not largest:
            return f"not one request is within the limits; {decides}; {self._verdict(promise)}"
        most = f"{largest:,} request{'s are' if largest > 1 else ' is'} within the limits by the estimate"
        if largest != self.case.at.concurrency:
            at = self.case.point(largest)
            times = f"{short_seconds(at.token.value)} a token and {short_seconds(at.first.value)} for the first"
            cost = f", {at.cost.value:,.2f} USD per million" if at.cost else ""
            most += f", at {times}, {at.rate.value:,.0f} tokens/s{cost}"
        return f"{most}; {decides}; {self._verdict(promise)}"

    def _allowed(self, promise: Promise) -> str:
        if not promise.largest:
            return f"CANNOT: not one request is within the limits: {SAID_BY[promise.decided_by]} decides"
        many = f"more than {promise.largest:,} requests cannot be within the limits"
        return f"{many}; {self._verdict(promise)}"

    def _verdict(self, promise: Promise) -> str:
        """Say how sure it is that as many requests as were asked for are within the limits."""
        requests = f"{self.case.at.concurrency:,} request{'s' * (self.case.at.concurrency > 1)}"
        if promise.verdict == UNKNOWN:
            return f"whether {requests} would be within them is not known"
        return f"{requests} {promise.verdict} be within them"

    def _does_not_fit(self) -> str:
        of = self.case.of
        each = f"weights and one request take {short_bytes(of.weights + of.cache_of_request)} on each GPU"
        has = f"{self.question.card.name} has {short_bytes(of.memory)} in all"
        verdict = CANNOT
        if of.holds:  # what an engine takes for itself is assumed
            verdict = SHOULD_NOT
            left = short_bytes(max(0, of.left))
            has = f"{of.rules.called} leaves {left} of {short_bytes(of.memory)} to them (assumed)"
        if self.holding is None:
            return f"{verdict.upper()}: {each}, {has}; no more than {MOST_GPUS} GPUs were tried"
        return f"{verdict.upper()}: {each}, {has}; {self._holding_in_words(self.holding)}"


def why_unknown(case: ServeCase) -> str:
    """Say why nothing is estimated; nothing where it is."""
    card, why = case.question.card, case.unknown
    if not why:
        return ""
    if why == DOES_NOT_FIT:
        return NOT_HELD
    if why == FLOOR_ASKED:
        return "--floor asks for the floor alone"
    if why == NO_ENGINE:
        known = dict.fromkeys(era["engine"] for era in rates_table()["engines"].values())
        return f"no run of {case.engine} is known (--engine {', '.join(known)}; or runs of yours, --calibrate)"
    if why == NO_GPU:
        return f"no run of {case.engine} on {card.name}, or on another GPU of its generation, is known"
    if why == READS_SOURCE:
        return "no run of an encoder with a decoder is known"
    talking = case.of.talking
    joined = f"no more than {card.domain} {card.name} have a fast link" if card.domain > 1 else f"{card.name} has PCIe"
    sent = "sums over" if talking == case.question.sharing.tp else "messages between"
    return f"{joined}, and {sent} {talking} take 1 to 10 times as long, by the host (--link, as measured there)"


def check_rate(case: ServeCase) -> None:
    """Raise UsageError where nothing is estimated, without which nobody knows what a rate of requests keeps at work."""
    if case.unknown:
        remedy = "give how many there are at once" if case.holds else "without --rate it is said on what it does"
        raise UsageError(f"a rate of requests needs an estimate, and {why_unknown(case)}", remedy)


def guessed_by(case: ServeCase) -> str:
    """Say which model guesses tokens, or that the time of guessing is left out."""
    model = case.question.guesser
    if model is None:
        return "the time of the draft itself is not in it (--draft-model)"
    return f"{model.summary} guesses them one after another, on the same GPUs"


def room_in_words(case: ServeCase) -> str:
    """Say how much of the GPUs the engine takes, and what of it is not for the cache."""
    rules, sharing = case.of.rules, case.question.sharing
    beside = short_bytes(sum(rules.profile))
    share = f"{100 * rules.share(case.of.memory, sharing.tp, sharing.pp):.3g} % {rules.budget}"
    return f"{rules.called} takes {share}; its profile run and what is outside of it take {beside} (assumed)"


def _rate(number: float) -> str:
    """Write tokens per second, of which there may be less than one."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def requests_in_words(load: Load) -> str:
    """The requests: ``64 x (2,048 + 500 tokens)``."""
    kind = "static batch of " if load.static else ""
    return f"{kind}{load.concurrency:,} x ({load.prompt:,} + {load.answer:,} tokens)"


def _span(one: Guess) -> str:
    return f"{short_seconds(one.value)} ({short_seconds(one.low)} to {short_seconds(one.high)})"
