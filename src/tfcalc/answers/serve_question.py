"""Question of a served model, and the changes of it that may serve more: each is a question of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError
from tfcalc.hardware import NODE, accelerators, named
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.served import AskedLayout, fewest_stages
from tfcalc.plans import Serving
from tfcalc.printable import quoted
from tfcalc.serving.caches import OF_LLAMA_CPP
from tfcalc.serving.engine_rules import AS_OTHERS
from tfcalc.serving.ranks import shares
from tfcalc.timing.rates import NO_PRICES, Price, price_of
from tfcalc.timing.served import Load, rules_of
from tfcalc.timing.serving import Sharing, engine_of

if TYPE_CHECKING:
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.timing.served_runs import ServedRuns

ENGINE = AS_OTHERS
"""Engine whose estimate is given where none is named."""
INPUT, OUTPUT = 1024, 256
"""Tokens of a prompt and of an answer, where it is not said."""
EIGHT_BITS = "fp8"
"""Format of weights and cache that is proposed, on cards that multiply in it."""


def card_of(name: str, link: float | None = None) -> Accelerator:
    """Return the accelerator of a name, with a ``link`` of one's own in bytes per second where there is one.

    Raises UsageError for several, and where its bandwidth is not known.
    """
    if "," in name:
        raise UsageError("serve asks about GPUs of one kind", f"take one of {quoted(name)}, and ask again")
    card = named(name, "--gpu 24GB@576GB/s for one of your own, with its memory and bandwidth")[0]
    if not card.bandwidth:
        fact = f"{quoted(name)} says how much memory a card has, and no bandwidth follows from it"
        remedy = "name the card: --gpu rtx-4090; or say its bandwidth: --gpu 24GB@576GB/s"
        raise UsageError(fact, f"{remedy}; or ask what fits: tfcalc memory MODEL --serve")
    return card if link is None else card._replace(link=link, own_link=True)


class Limits(NamedTuple):
    """Seconds that a first token, and any other, may take."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def given(self) -> bool:
        """Return whether there is one."""
        return self.ttft is not None or self.tpot is not None


class ServeQuestion(NamedTuple):
    """Question of a served model.

    Attributes:
        model: the model.
        plan: formats of weights and cache.
        card: the GPU.
        gpus: how many of them there are.
        sharing: how those of a replica share the model; the others are further replicas.
        load: the requests.
        engine: name and version of the engine.
        limits: what is promised to users.
        price: US dollars for a GPU and an hour; else one's own ``prices``, or a dated list.
        floor: only the floor is asked for.
        curve: asked for at several numbers of requests.
        fewest: the fewest GPUs that serve the requests are asked for, however many there are.
        rate: requests that come each second, in the place of the number of those that are at work.
        runs: runs of one's own, to which the engine's rates are fitted.
        guesser: the model that guesses tokens; without one that takes no time.
        utilization: the part of a GPU's memory that the engine takes, where it is not its own.
    """

    model: Model
    plan: Serving
    card: Accelerator
    gpus: int
    sharing: Sharing
    load: Load
    engine: str = ENGINE
    limits: Limits = Limits()
    price: float | None = None
    floor: bool = False
    curve: bool = False
    prices: Mapping[str, Price] = NO_PRICES
    fewest: bool = False
    rate: float = 0.0
    runs: ServedRuns | None = None
    guesser: Model | None = None
    utilization: float | None = None

    @property
    def replicas(self) -> int:
        """Copies of what serves a request, each on GPUs of its own."""
        return self.gpus // self.gpus_of_replica

    def shares(self, tp: int) -> bool:
        """Return whether as many GPUs can share each layer, and the engine lets them."""
        return tp == 1 or (not rules_of(self.engine).by_layers and shares(self.model, self.plan.weights, tp))

    def laid_out(self, serves: Callable[[ServeQuestion], bool]) -> ServeQuestion:
        """Return the question with the layout that its number of GPUs has by default, as ``memory --serve`` has it.

        GPUs share each layer; stages are as few as it takes, so that ``serves`` says yes, and all other GPUs are
        further replicas. Raises InvalidModel.
        """
        asked = self.sharing
        given = {name: size for name, size in asked._asdict().items() if name != "tp" and size > 1}
        at = AskedLayout(asked.gpus, **given).of(self.model.module(), self.shares)
        tp, pp = value_of(at.tp), value_of(at.pp)
        if asked.ep > 1:
            return self._replace(sharing=Sharing(tp, pp, value_of(at.dp), asked.ep))
        if given:
            return self._replace(sharing=Sharing(tp, pp, asked.dp))
        stages = fewest_stages(at, lambda size: serves(self._replace(sharing=Sharing(tp, size))))
        return self._replace(sharing=Sharing(tp, stages))

    @property
    def gpus_of_replica(self) -> int:
        """GPUs of a copy of the model, or of all groups that serve its requests together."""
        return self.sharing.gpus * self.load.groups


def sharing_of(
    count: int, *, tp: int | None = None, pp: int = 1, dp: int = 1, ep: int = 1, groups: int = 1
) -> tuple[Sharing, int]:
    """Return how a group of GPUs shares the model, and the number of GPUs in all.

    Where nothing is said tensor parallelism is over all that there are, until the model says how it can be shared
    (:meth:`ServeQuestion.laid_out`); a ``count`` of one is one kind of GPU, of which
    as many are taken as the layout has. Raises UsageError.
    """
    if tp is None:
        if count > 1 and count % (pp * dp * groups):
            parts = "pp x dp" if groups == 1 else f"pp x dp x {groups} groups"
            raise UsageError(f"{count:,} GPUs are not divisible by {parts} = {pp * dp * groups:,}", "say tp, too")
        tp = max(1, count // (pp * dp * groups))
    sharing = Sharing(tp, pp, dp, ep)
    return sharing, count if count > 1 else sharing.gpus * groups


def options_of(card: Accelerator, gpus: int, sharing: Sharing) -> str:
    """Return the options that ask for these GPUs, shared in this way.

    >>> options_of(accelerators()[0]._replace(name="H100-SXM"), 16, Sharing(tp=8, pp=2))
    '--gpu 16xh100-sxm --tp 8 --pp 2'
    """
    sizes = zip(Sharing._fields, sharing, strict=True)
    shared = "".join(f" --{name} {size}" for name, size in sizes if name == "tp" or size > 1)
    return f"--gpu {gpus}x{card.name.lower()}{shared}"


class ServeChange(NamedTuple):
    """A change of a question: the options that ask for it, and the question that they make."""

    options: str
    question: ServeQuestion


def changes(asked: ServeQuestion) -> Iterator[ServeChange]:
    """Yield what may serve more, the cheapest first: other shares of the same GPUs, fewer bits, other GPUs.

    Nothing where the fewest GPUs are asked for: that is another question.
    """
    if asked.fewest:
        return
    yield from _shares(asked)
    yield from _formats(asked)
    yield from _more_gpus(asked)
    yield from _cards(asked)


def _shares(asked: ServeQuestion) -> Iterator[ServeChange]:
    """Yield the same GPUs with more replicas of fewer, or with fewer of more."""
    if asked.sharing.pp * asked.sharing.dp * asked.sharing.ep > 1:
        return
    for tp in (asked.sharing.tp // 2, 2 * asked.sharing.tp):
        if tp and asked.shares(tp) and asked.gpus % (tp * asked.load.groups) == 0:
            yield ServeChange(f"--tp {tp}", asked._replace(sharing=Sharing(tp)))


def _formats(asked: ServeQuestion) -> Iterator[ServeChange]:
    """Yield fewer bits for the cache, and for weights and cache, where the GPU multiplies in eight bits.

    llama.cpp stores none of fp8: of its own types it is the one of most bits.
    """
    if rules_of(asked.engine).by_layers:
        if asked.plan.kv not in OF_LLAMA_CPP:
            yield ServeChange("--kv q8_0", asked._replace(plan=asked.plan.replaced(kv="q8_0")))
        return
    if EIGHT_BITS not in asked.card.peaks or asked.plan.kv.startswith(EIGHT_BITS):
        return
    yield ServeChange(f"--kv {EIGHT_BITS}", asked._replace(plan=asked.plan.replaced(kv=EIGHT_BITS)))
    if not asked.plan.weights:
        plan = Serving(weights=EIGHT_BITS, kv=EIGHT_BITS)
        yield ServeChange(f"--weights {EIGHT_BITS} --kv {EIGHT_BITS}", asked._replace(plan=plan))


def _more_gpus(asked: ServeQuestion) -> Iterator[ServeChange]:
    """Yield twice as many GPUs: with twice as many replicas, and with each layer over twice as many of a server."""
    gpus, sharing = 2 * asked.gpus, asked.sharing
    ways = [sharing]
    if 2 * sharing.tp <= max(NODE, asked.card.domain) and asked.load.apart is None and asked.shares(2 * sharing.tp):
        ways.append(sharing._replace(tp=2 * sharing.tp))
    for way in ways:
        yield ServeChange(options_of(asked.card, gpus, way), asked._replace(gpus=gpus, sharing=way))


def _cards(asked: ServeQuestion) -> Iterator[ServeChange]:
    """Yield as many GPUs of the next kinds with more bandwidth, of which runs and a price are known."""
    for card in sorted(accelerators(), key=lambda card: card.bandwidth):
        known = engine_of(asked.engine, card) and price_of(card, None, asked.prices)
        if known and card.bandwidth > asked.card.bandwidth:
            taken = card._replace(link=asked.card.link, own_link=True) if asked.card.own_link else card
            yield ServeChange(f"--gpu {asked.gpus}x{card.name.lower()}", asked._replace(card=taken, price=None))
