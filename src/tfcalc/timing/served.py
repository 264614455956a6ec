"""A served model on GPUs of one kind: what fits, the floor of a token and of a first token, and their estimates."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_serving
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.module import counted
from tfcalc.placed.served import ServedLayout, on_rank
from tfcalc.serving.caches import FullWindows, cache, full_windows, mixers
from tfcalc.serving.engine_rules import AS_OTHERS, EngineRules, engines, name_of, version_of
from tfcalc.serving.engine_rules import engine as engine_rules
from tfcalc.serving.paging import BATCHED
from tfcalc.serving.ranks import ServingRanks
from tfcalc.serving.stored import buffers_of, check_served
from tfcalc.serving.traffic import ServingStep, Traffic
from tfcalc.serving.weight_formats import multiplied_at_best, multiplied_in
from tfcalc.timing.numbers import Many, greatest, is_array, larger, smaller, where, whole
from tfcalc.timing.serving import (
    BYTE,
    IN_EIGHT,
    EngineRates,
    Exchange,
    KernelSeconds,
    LayerCounts,
    ServingBand,
    ServingMachine,
    Sharing,
    band_of_serving,
    bits_of,
    launches,
    layers_of,
    prompt_seconds,
    spread,
    step_seconds,
)
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.plans import Serving

WAITS = 0.9
"""Prompts that are being read when a request comes, where some always are."""
OWN, WIDENED = "own runs", "widened"
"""Names of bands that one's own runs give, and that few of them widen."""
NEWER = 0.85
"""Lower end of the band where the engine is newer than all runs: engines get faster."""


def rules_of(engine: str) -> EngineRules:
    """Return the rules of an engine, or those of another where it has none."""
    return engine_rules(engine if name_of(engine.lower().partition("@")[0]) in engines() else AS_OTHERS)


class Draft(NamedTuple):
    """Speculative decoding: ``tokens`` are guessed, each of which is ``accepted`` with this probability.

    Source: Leviathan et al. 2022 (arXiv 2211.17192), equation 1.
    """

    tokens: int = 0
    accepted: float = 0.0

    @property
    def made(self) -> float:
        """Tokens that a step makes on average: ``(1 − α^(γ + 1))/(1 − α)``.

        >>> Draft(3, 0.0).made, Draft(3, 0.5).made, Draft(3, 1.0).made, Draft().made
        (1.0, 1.875, 4.0, 1.0)
        """
        return float(sum(self.accepted**place for place in range(self.tokens + 1)))


NO_DRAFT = Draft()


class Disaggregated(NamedTuple):
    """Groups of GPUs that read prompts, and groups that make tokens, to which the prompts' caches are sent."""

    prompts: int
    tokens: int

    @property
    def groups(self) -> int:
        """Number of both."""
        return self.prompts + self.tokens


class Load(NamedTuple):
    """Requests: tokens of a prompt, of an answer, how many at once, and tokens of each prompt that are cached already.

    A ``static`` batch is read at once, and nothing comes in between. A ``draft`` guesses tokens. Where prompts are read
    by other GPUs, ``apart`` says by how many groups.
    """

    prompt: Many
    answer: Many
    concurrency: Many = 1
    prefix: int = 0
    static: bool = False
    draft: Draft = NO_DRAFT
    apart: Disaggregated | None = None

    @property
    def groups(self) -> int:
        """Groups of GPUs that have a copy of the model each, in a replica."""
        return 1 if self.apart is None else self.apart.groups

    @property
    def decoding(self) -> int:
        """Number of those that make tokens."""
        return 1 if self.apart is None else self.apart.tokens

    @property
    def cached(self) -> Many:
        """Tokens in the cache of a request, on the average of its answer."""
        return self.prompt + larger(1, self.answer // 2)

    @property
    def longest(self) -> Many:
        """Tokens in the cache at the end."""
        return self.prompt + self.answer


class Bounds(NamedTuple):
    """The seconds below which a step cannot be: of bytes, of products, of messages."""

    bandwidth: Many
    compute: Many
    link: Many

    @property
    def seconds(self) -> Many:
        """The largest."""
        return larger(larger(self.bandwidth, self.compute), self.link)

    @property
    def name(self) -> str:
        """Name of the largest."""
        return max(zip(self, self._fields, strict=True))[1]

    def after(self, other: Bounds, times: float) -> Bounds:
        """Return those of this step and of another one before it, which runs ``times`` times."""
        return Bounds(*(one + times * more for one, more in zip(self, other, strict=True)))


class Guess(NamedTuple):
    """Seconds, from ``low`` to ``high``."""

    value: Many
    low: Many
    high: Many

    def at_least(self, floor: Many) -> Guess:
        """Return it with no end below the floor."""
        return Guess(*(larger(one, floor) for one in self))


class Unseen(NamedTuple):
    """Seconds of an estimate that no run tells: how many of them there may not be, and how many more there may be."""

    less: Many = 0.0
    more: Many = 0.0


ALL_SEEN = Unseen()


class TokenSeconds(NamedTuple):
    """Seconds of a token, part by part."""

    kernels: Many
    all_reduces: Many
    exchanges: Many
    launches: Many
    host: Many
    prompts: Many

    @property
    def seconds(self) -> Many:
        """Return their sum."""
        return sum(self)

    @property
    def step(self) -> Many:
        """Seconds of the step alone: no prompt of another request comes in between."""
        return self.seconds - self.prompts


class StageBytes(NamedTuple):
    """Bytes of weights of a GPU of a stage, and its share of a request's cache."""

    weights: int
    cache: Fraction


class ServedModel:
    """A model on GPUs of one kind that share it in one way.

    Where tokens are guessed, ``guesser`` is the model that does so, on the same GPUs; without one that takes no time.
    ``utilization`` is the part of a GPU's memory that the engine takes, in the place of its own.
    """

    def __init__(
        self,
        model: Model,
        plan: Serving,
        sharing: Sharing,
        card: Accelerator,
        load: Load,
        engine: str = AS_OTHERS,
        guesser: ServedModel | None = None,
        utilization: float | None = None,
    ) -> None:
        self.model, self.sharing, self.card, self.guesser = model, sharing, card, guesser
        self.rules = rules_of(engine).taking(utilization)
        self.machine, self.load = ServingMachine(card), load
        self._known: dict[tuple[bool, float], list[KernelSeconds]] = {}
        context = max(greatest(load.longest), 2)
        self.typical = greatest(load.cached)
        """Tokens in the cache where it does not matter how many there are."""
        kept = {"cache": self.rules.cache} if self.rules.by_layers else {}
        self.run, self.plan = resolve_serving(model, Workload(), plan.replaced(context=context, **kept))
        self.layout = ServedLayout(tp=sharing.tp, pp=sharing.pp, dp=sharing.dp, ep=sharing.ep)
        check_served(model, Workload(phase="decode", cached=context))
        self.ranks = ServingRanks(model, self.layout, self.run, self.plan)
        tree = self._tree()
        self.traffic = Traffic(model, self.run, self.plan, tree=tree, copies=sharing.dp, groups=sharing.ep)

    def _tree(self) -> Callable[[Workload], Component] | None:
        """Trees of a GPU's piece; None where it has all of a model that no rule splits."""
        try:
            piece = on_rank(self.model.module(), self.layout)
        except InvalidModel:
            if self.sharing.gpus > 1:
                raise
            return None
        return lambda run: counted(piece, run)._replace(kind="model")

    # --- what fits

    @cached_property
    def weights(self) -> int:
        """Bytes of weights of the GPU that has most, and of the model that guesses on it."""
        return self._own_weights() + (self.guesser.weights if self.guesser else 0)

    def _own_weights(self) -> int:
        if self.sharing.gpus == 1:
            alone, recipe = self.traffic.decoded(1, self.typical), self.traffic.recipe
            return value_of(alone.total(bytes_held)) + value_of(buffers_of(alone, recipe).total(bytes_held))
        return max(value_of(rank.weight_bytes) + value_of(rank.buffer_bytes) for rank in self.ranks.each)

    @cached_property
    def memory(self) -> int:
        """Bytes of a GPU's memory."""
        return self.card.usable(0).bytes

    @property
    def holds(self) -> Many:
        """Return whether the weights and one request fit at all."""
        return self.weights + self.cache_of_request <= self.memory

    @property
    def serves(self) -> Many:
        """Return whether the engine has room for one request, beside the weights and what it takes itself."""
        return self.holds & (self.capacity >= 1)

    @cached_property
    def stages(self) -> tuple[StageBytes, ...]:
        """A GPU of each kind, with the weights of the model that guesses on it."""
        if self.sharing.pp == 1:
            return (StageBytes(self.weights, Fraction(1)),)
        beside = self.guesser.weights if self.guesser else 0
        caches = [value_of(rank.cache.total(bytes_held)) for rank in self.ranks.each]
        ranks = list(zip(self.ranks.each, caches, strict=True))
        every = sum({value_of(rank.at.stage): size for rank, size in ranks}.values()) or 1
        return tuple(StageBytes(rank.bytes_beside_cache + beside, Fraction(size, every)) for rank, size in ranks)

    @cached_property
    def cache_of_request(self) -> Many:
        """Bytes of the cache of one request at its end, on the GPU that has most of it."""
        return self._own_cache(max(stage.cache for stage in self.stages))

    def _own_cache(self, share: Fraction) -> Many:
        """Bytes of the cache of one request at its end as the engine allocates it, of which a GPU has this share."""
        guessed = self.guesser.cache_of_request if self.guesser else 0
        return -(-self._allocated * share.numerator // share.denominator) + guessed

    @cached_property
    def _allocated(self) -> Many:
        """Bytes of that cache on all stages, on one GPU of each: in whole blocks, where the engine has some."""
        rules, longest = self.rules, self.load.longest
        tree = self.traffic.decoded(1, longest)
        found = cache(tree, how=rules.cache, format=self.plan.kv, longest=longest, block=rules.block)
        return whole(found.total(bytes_held))

    @cached_property
    def room(self) -> int:
        """Bytes of a GPU's memory that the engine leaves to the cache, on the one with most weights."""
        return self._room_beside(self.weights)

    @property
    def left(self) -> int:
        """Bytes of a GPU's memory that the engine leaves to weights and cache; below 0 where it takes more."""
        return self.weights + self.left_beside(self.weights)

    def left_beside(self, weights: int) -> int:
        """Return the bytes of a GPU's memory that are left to a cache beside such weights; below 0 where none are."""
        share = self.rules.share(self.memory, self.sharing.tp, self.sharing.pp)
        return self.rules.room(self.model, weights, self.rules.profile, self.memory, share)

    def _room_beside(self, weights: int) -> int:
        return max(0, self.left_beside(weights))

    @cached_property
    def windows(self) -> FullWindows | None:
        """Windows of the layers of all stages, as a GPU caches them; None where there are none."""
        return full_windows(mixers(self.traffic.decoded(1, greatest(self.load.longest))), self.plan.kv)

    @cached_property
    def joins_keys(self) -> bool:
        """Return whether some cache has one key for several tokens, which no rule of an engine pages."""
        found = mixers(self.traffic.decoded(1, greatest(self.load.longest)))
        return any(value_of(one.every) > 1 for mixer in found for one in mixer.cached)

    @cached_property
    def cache_on_average(self) -> Many:
        """Bytes of the cache of one request at its average length, on a GPU."""
        guessed = self.guesser.cache_on_average if self.guesser else 0
        return -(-whole(self.token.stored) // self.sharing.pp) + guessed

    @cached_property
    def most(self) -> int:
        """Requests that the engine runs at once, however short they are."""
        return self.rules.most(self.memory, self.card.name) * self.sharing.dp

    @cached_property
    def capacity(self) -> Many:
        """Requests that run at once to their ends, in all: as many as the stage has room for that has the least."""
        found = [self._requests(self._room_beside(one.weights), self._own_cache(one.cache)) for one in self.stages]
        return reduce(smaller, found)

    @cached_property
    def at_work(self) -> Many:
        """Requests that run at once, in all: those whose whole answers have room, where the engine reserves it."""
        return self.capacity if self.rules.reserves else self._requests(self.room, self.cache_on_average)

    @cached_property
    def certain_capacity(self) -> Many:
        """Requests that surely do not run at once: more than the whole memory holds, at their average length."""
        return self._requests(self.memory - self.weights, self.cache_on_average)

    def _requests(self, room: int, each: Many) -> Many:
        found = larger(0, room // larger(1, each)) * self.sharing.dp
        return where(each > 0, found, self.most)

    @cached_property
    def reads_source(self) -> bool:
        """Return whether it decodes for what an encoder read."""
        tree = self.traffic.decoded(1, self.typical)
        cached = (one for node in tree.walk() for one in node.component.own.cached)
        return any(one.tokens is not None and not one.grows and one.name in ("K", "V") for one in cached)

    # --- steps of one request, of which those of more are multiples

    @cached_property
    def token(self) -> ServingStep:
        """Step of one request at its average length: it makes a token, or checks those that were guessed, too."""
        step = self.traffic.decode(1, self.load.cached)
        return step.of_several(1 + self.load.draft.tokens) if self.load.draft.tokens else step

    @cached_property
    def prompt(self) -> ServingStep:
        """Step that reads the prompt of one request."""
        return self.traffic.prefill(1, self.load.prompt, self.load.prefix)

    @cached_property
    def layers(self) -> LayerCounts:
        """Layers of the model."""
        return layers_of(self.traffic.decoded(1, self.typical), self.token)

    @property
    def checked(self) -> int:
        """Tokens of a request in a step: the next one, and those that were guessed."""
        return 1 + self.load.draft.tokens

    def _in_a_step(self, concurrency: Many) -> Many:
        """Requests of a step on a GPU: those of its copy of the model, in as many parts as the pipeline has stages."""
        return larger(1.0, concurrency / self.sharing.dp / self.sharing.pp)

    # --- the floor

    def _sent(self, tokens: Many) -> Many:
        """Seconds to send what these tokens of a group certainly send: sums of layers, vectors for experts."""
        sums = self.machine.sent(tokens, self.layers, self.sharing.tp)
        return sums + self.machine.certainly_exchanged(self.exchange, tokens, self.layers, self.sharing)

    @cached_property
    def exchange(self) -> Exchange:
        """Vectors that tokens send to experts on GPUs that do not have them: those of other groups."""
        routed = [one for one in self.token.operations if one.routing is not None]
        if self.sharing.dp == 1 or not routed:
            return Exchange()
        bits = max(self.machine.products(self.numbers, bits_of(one)).bits for one in routed)
        most = max(self.token.routings, key=lambda one: value_of(one.number))
        return Exchange(spread(most, self.sharing), bits / BYTE)

    @property
    def talking(self) -> int:
        """GPUs that send each other messages in each layer."""
        return self.sharing.tp * (self.sharing.dp if self.exchange.over.expected else 1)

    def _multiplied(self, step: ServingStep, concurrency: Many = 1) -> Many:
        """Seconds of the products of a step, in the number formats of the fastest kernels.

        Fewer requests than groups leave some of these without any.
        """
        cached = IN_EIGHT if self.plan.kv.startswith(IN_EIGHT) else ""
        groups = smaller(1.0, concurrency / self.sharing.dp)
        return self.machine.multiplied(step, multiplied_at_best(self.traffic.recipe.format), cached, groups)

    def floor_of_token(self, concurrency: Many) -> Bounds:
        """Return what no token is faster than, with the fewest experts and the requests that run at once."""
        return self.floor_of_running(self.running(concurrency))

    def floor_of_running(self, running: Many) -> Bounds:
        """Return what no token of as many requests at once is faster than."""
        made = self.load.draft.made
        found = Bounds(*(one / made for one in self.floor_of_step(running)))
        if self.guesser is None:
            return found
        return found.after(self.guesser.floor_of_running(running), self.load.draft.tokens / made)

    def floor_of_step(self, running: Many) -> Bounds:
        """Return what no step of as many requests is faster than; what guesses tokens is another step."""
        requests, step = self._in_a_step(running), self.token
        shared = whole(step.least_weights - step.gathered)
        moved = shared + requests * whole(step.gathered + step.cached + step.written)
        return Bounds(
            moved / self.card.bandwidth if self.card.bandwidth else 0.0,
            requests * self._multiplied(step, running),
            self._sent(requests * self.checked),
        )

    def floor_of_prompt(self, concurrency: Many) -> Bounds:
        """Return what no first token is faster than: of one prompt, or of all of a static batch."""
        requests = self._in_a_step(concurrency) if self.load.static else 1.0
        step = self.prompt
        shared = whole(step.least_weights - step.gathered)
        moved = shared + requests * whole(step.gathered + step.cached + step.written)
        tokens = requests * whole(step.tokens)
        found = Bounds(
            moved / self.card.bandwidth if self.card.bandwidth else 0.0,
            requests * self._multiplied(step, concurrency if self.load.static else 1),
            larger(self._sent(tokens), self.handing_over),
        )
        return found if self.guesser is None else found.after(self.guesser.floor_of_prompt(concurrency), 1)

    @cached_property
    def handed_over(self) -> Many:
        """Bytes of a prompt's cache on a GPU, which another takes over; 0 where the same GPUs go on with it."""
        if self.load.apart is None:
            return 0
        return -(-whole(self.traffic.decode(1, self.load.prompt).stored) // self.sharing.pp)

    @property
    def handing_over(self) -> Many:
        """Seconds to send a prompt's cache, each GPU its own; 0 where no link is known."""
        return self.handed_over / self.card.link if self.card.link else 0.0

    def floor_between(self) -> Many:
        """Seconds from one answer's end to the next one's on a group that makes tokens, below which it never is.

        Prompts that other groups read cannot be ready faster: each has its own products, cache and messages, though
        many may be read with weights that are read once. 0 where the same GPUs read them.
        """
        apart, step = self.load.apart, self.prompt
        if apart is None:
            return 0.0
        own = whole(step.gathered + step.cached + step.written)
        each = Bounds(
            own / self.card.bandwidth if self.card.bandwidth else 0.0,
            self._multiplied(step),
            larger(self._sent(whole(step.tokens)), self.handing_over),
        )
        return each.seconds * apart.tokens / apart.prompts

    # --- the estimate

    @cached_property
    def numbers(self) -> str:
        """Number format of products; empty where it is of 16 bits."""
        return multiplied_in(self.traffic.recipe.format)

    def kernels(self, step: ServingStep, requests: Many) -> list[KernelSeconds]:
        """Return what runs in a step of this many requests, once."""
        if is_array(requests):
            return self.machine.kernels(step, requests, numbers=self.numbers)
        key = step is self.prompt, requests
        if key not in self._known:
            self._known[key] = self.machine.kernels(step, requests, numbers=self.numbers)
        return self._known[key]

    def running(self, concurrency: Many) -> Many:
        """Requests that run at once, of those that are there."""
        return larger(1, smaller(smaller(concurrency, self.at_work), self.most))

    def parts(self, concurrency: Many, by: EngineRates) -> TokenSeconds:
        """Seconds of a token, part by part; those of the tokens that are guessed are in them.

        Each prompt of another request is read once from one request's beginning to its end: before its first token, or
        between the others.
        """
        running = self.running(concurrency)
        parts = self._step(running, by)
        if self.guesser is not None:
            pairs = zip(parts, self.guesser._step(running, by), strict=True)
            parts = tuple(one + self.load.draft.tokens * more for one, more in pairs)
        host = by.host + by.request * running / self.sharing.dp
        times = by.of_tokens / self.load.draft.made
        kernels, reduced, exchanged, launched, by_host = (times * one for one in (*parts, host))
        alone = TokenSeconds(kernels, reduced, exchanged, launched, by_host, 0.0)
        if self.load.static or self.load.apart is not None:
            return alone
        each = self.among_others(running, by)
        between = self._others(running) - self.waited_for(running, alone.step, each, by)
        return alone._replace(prompts=between / larger(1, self.load.answer - 1) * each)

    def _others(self, running: Many) -> Many:
        """Requests beside one that the same GPUs serve."""
        return larger(0.0, running / self.sharing.dp - 1)

    def waited_for(self, running: Many, step: Many, each: Many, by: EngineRates) -> Many:
        """Prompts of others, of these seconds each, that are read before a request's first token.

        All further ones are read between its tokens.

        Requests that follow each other keep their order, so that of any two only one waits for the other. The tokens of
        prompts that a step reads are limited: where answers are short, prompts have no place in their steps, and come
        before.
        """
        others, answer = self._others(running), self.load.answer
        if by.waves:
            found = (others + self.prompts_at_once(running) - 1) / 2
        else:
            reading = (others + 1) * each
            busy = smaller(0.95, reading / larger(1e-9, answer * step + reading))
            found = smaller(WAITS * busy + by.queued * others + busy / (2 * (1 - busy)), others / 2)
        steps = (answer - 1) / self.load.draft.made
        return larger(found, others - steps * self.read_at_once / larger(1, whole(self.prompt.tokens)))

    def _step(self, running: Many, by: EngineRates) -> tuple[Many, ...]:
        """Seconds of a step of these requests: its kernels, sums over GPUs, vectors to experts, launches."""
        requests = self._in_a_step(running)
        kernels = step_seconds(self.kernels(self.token, requests), by)
        return kernels, *self._messages(requests * self.checked, by), launches(self.layers, by)

    def _messages(self, tokens: Many, by: EngineRates) -> tuple[Many, Many]:
        """Seconds of the messages of these tokens of a group: sums over GPUs, and vectors to experts and back."""
        exchanged = self.machine.exchanged(self.exchange, tokens, self.layers, self.sharing, by.reduce)
        return self.machine.reduced(tokens, self.layers, self.sharing.tp, by.reduce), exchanged

    @cached_property
    def read_at_once(self) -> int:
        """Tokens of prompts that are read in a step."""
        return self.rules.batches(self.memory, self.card.name) or BATCHED

    def prompts_at_once(self, running: Many) -> Many:
        """Prompts that are read in a step."""
        tokens = larger(1, whole(self.prompt.tokens))
        return larger(1, smaller(self.read_at_once // tokens, running // self.sharing.dp))

    def among_others(self, running: Many, by: EngineRates) -> Many:
        """Seconds of a prompt that is read among others."""
        count = self.prompts_at_once(running)
        return self.reading(count, by) / count

    def reading(self, prompts: Many, by: EngineRates) -> Many:
        """Seconds to read prompts together, by the model that guesses as well."""
        kernels = self.kernels(self.prompt, prompts)
        tokens = prompts * whole(self.prompt.tokens)
        reduced = sum(self._messages(tokens, by))
        guessed = 0.0 if self.guesser is None else self.guesser.reading(prompts, by)
        return prompt_seconds(kernels, self.layers, reduced, by) + guessed

    def first_token(self, concurrency: Many, by: EngineRates) -> Many:
        """Seconds to the first token; of more requests than have room, the answers that end before it, too."""
        found, running = self.first_of_running(concurrency, by), self.running(concurrency)
        waiting = larger(0, concurrency - running)
        if self.load.static or not greatest(waiting):
            return found
        return found + waiting / running * self.load.answer * self.token_of_full(concurrency, by)

    def first_of_running(self, concurrency: Many, by: EngineRates) -> Many:
        """Seconds from when a request has room to its first token."""
        pp, base = self.sharing.pp, self.beside_reading(concurrency, by)
        if self.load.static:
            parts = smaller(pp, larger(1, concurrency))
            return base + self.reading(concurrency / self.sharing.dp, by) * (2 - 1 / parts) / parts
        if self.load.apart is not None:
            return self._handed_over(concurrency, by, self.load.apart)
        running = self.running(concurrency)
        step, others, each = self.parts(concurrency, by).step, self._others(running), self.among_others(running, by)
        waits = self.waited_for(running, step, each, by) * each
        if not by.waves:  # for a step of others, where it comes in between
            waits = waits + step * others / (others + 1) * smaller(1, self.load.answer - 1)
        return base + self.reading(1, by) + waits

    def beside_reading(self, concurrency: Many, by: EngineRates) -> Many:
        """Seconds that an engine takes before a first token, beside reading prompts."""
        together = 1 if self.load.static else self._others(self.running(concurrency)) + 1
        return by.of_prompts * by.first * together**by.grows

    def unseen(self, concurrency: Many, by: EngineRates) -> Unseen:
        """Seconds of them that no run tells, as all had more requests at once, or none was of a server."""
        if self.load.static:
            return ALL_SEEN
        less = where(concurrency < by.fewest, self.beside_reading(concurrency, by), 0.0)
        return Unseen(less, 0.0 if by.fewest else by.server)

    def _handed_over(self, concurrency: Many, by: EngineRates, apart: Disaggregated) -> Many:
        """Seconds to a first token that other GPUs make: reading, the prompts before it, and sending its cache.

        As many prompts come as answers end. Where they come faster than they are read, those that wait make up the
        difference: then each request takes as long as all prompts that were before it.
        """
        running = self.running(concurrency)
        each, answering = self.among_others(running, by), (self.load.answer - 1) * self.parts(concurrency, by).seconds
        alone = self.beside_reading(concurrency, by) + self.reading(1, by) + self.handing_over
        reading = running * apart.tokens / apart.prompts / self.sharing.dp * each
        busy = smaller(0.95, reading / (alone + answering))
        return larger(alone + busy / (2 * (1 - busy)) * each, reading - answering)

    # --- tokens per second

    def token_of_full(self, concurrency: Many, by: EngineRates) -> Many:
        """Seconds of a token where another request takes the room of each that ends: all prompts are in them."""
        parts = self.parts(concurrency, by)
        if self.load.static or self.load.apart is not None:
            return parts.seconds
        running = self.running(concurrency)
        prompts = running / self.sharing.dp / larger(1, self.load.answer) * self.among_others(running, by)
        return parts.step + prompts

    def rate(self, concurrency: Many, first: Many, token: Many, of_full: Many) -> Many:
        """Tokens per second of requests that follow each other.

        Each takes this long to its ``first`` token once it has room, and to any other ``token`` (Little's law). Where
        more are there than run, what happens before one has room is in the time of others, and a group makes a token of
        each that runs in the seconds ``of_full``. The smaller rate is the bound of a closed system: Denning and Buzen
        1978 (10.1145/356733.356735).
        """
        answer = self.load.answer
        users = concurrency * answer / (first + (answer - 1) * token)
        return users if self.load.static else smaller(users, self.running(concurrency) / of_full)

    def band(self, *, first: bool) -> ServingBand:
        """Return the band of a token, or of the first one."""
        if first:
            return band_of_serving("prompt" if self.load.static else "first")
        if self.token.routings:
            return band_of_serving("experts")
        return band_of_serving("static-dense" if self.load.static else "served-dense")

    def guess(self, concurrency: Many, by: EngineRates, band: ServingBand, *, first: bool, version: str = "") -> Guess:
        """Return the estimate of a token, or of the first one, with its band; never below the floor."""
        seconds = self.first_token(concurrency, by) if first else self.parts(concurrency, by).seconds
        floor = self.floor_of_prompt(concurrency) if first else self.floor_of_token(concurrency)
        unseen = self.unseen(concurrency, by) if first else ALL_SEEN
        return banded(seconds, floor, by, band, version, unseen)


def banded(
    seconds: Many, floor: Bounds, by: EngineRates, band: ServingBand, version: str = "", unseen: Unseen = ALL_SEEN
) -> Guess:
    """Return estimated seconds with their band, never below the floor; what is ``unseen`` may be there or not."""
    low = band.low * (NEWER if version and version_of(version) > version_of(by.newest) else 1.0)
    ends = (seconds - unseen.less) * low, seconds * band.high + unseen.more
    return Guess(seconds, *ends).at_least(floor.seconds)
