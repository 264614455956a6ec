"""Rules of serving engines, a dated file each: what of a card they give to the cache, and how their log says it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel, UsageError, nearest
from tfcalc.hardware import check_share
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import attentions
from tfcalc.printable import quoted
from tfcalc.serving.caches import CELLS, OF_EVERY_ENGINE, OF_LLAMA_CPP, PAGED
from tfcalc.serving.paging import CachePool, Engine, layers, pool
from tfcalc.units import exact_bytes, parse_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.serving.ranks import ServingRank

FOLDER = Path(__file__).with_name("engines")
MIB, GIB = 2**20, 2**30
OF_CARD, BEFORE, AFTER = "of the card", "of what is free before weights", "of what is free after weights"
GROUPS, SLOTS = "blocks of a group", "slots"


class EngineRules(NamedTuple):
    """An engine at a version, by its file: each value has its source there.

    It is what was ``asked`` for, or the version before it. It ``reserves`` room for a whole answer before it begins, or
    else takes blocks as they are needed. What its profile run and what is outside of PyTorch take is ``assumed`` where
    no log says it. It is known by other names, ``also``.
    """

    name: str
    version: str
    dated: str
    sources: Sequence[str]
    option: str
    budget: str
    graphs_first: bool
    in_flight: int
    block: int
    tokens_are: str
    words: Mapping[str, str]
    utilization: float | None = None
    batched: Sequence[Sequence[Any]] = ()
    chunks: Sequence[Sequence[int]] = ()
    reserved: Mapping[str, float] = {}  # read alone
    cache: str = PAGED
    reserves: bool = False
    also: Sequence[str] = ()
    assumed: Mapping[str, str] = {}  # read alone
    asked: str = ""

    @property
    def instead(self) -> str:
        """Say for which version they are taken that has none of its own; nothing where they are its own.

        >>> engine("vllm@0.24.1").instead, engine("vllm@0.21").instead
        ('', 'Rules of vllm 0.10 are taken for 0.21, of which none are known')
        """
        own = version_of(self.version)
        if not self.asked or version_of(self.asked)[: len(own)] == own:
            return ""
        return f"Rules of {self.called} are taken for {self.asked}, of which none are known"

    @property
    def called(self) -> str:
        """``vllm 0.24``."""
        return f"{self.name} {self.version}"

    @property
    def by_layers(self) -> bool:
        """Return whether each of several GPUs has whole layers: llama.cpp's --split-mode layer, its default."""
        return self.cache == CELLS

    def check_cache(self, kv: str) -> None:
        """Raise UsageError for a format of the cache that this engine does not store.

        >>> engine("llama.cpp").check_cache("q8_0"), engine("vllm").check_cache("fp8")
        (None, None)
        """
        if kv in OF_EVERY_ENGINE or (kv in OF_LLAMA_CPP) == self.by_layers:
            return
        remedy = "take --kv q8_0" if self.by_layers else "take --kv fp8, or --engine llama.cpp"
        raise UsageError(f"{self.name} stores no cache in {quoted(kv)}", remedy)

    def check_profiles(self) -> None:
        """Raise UsageError for an engine that takes what it needs: no share of a card, and no profile run, is its."""
        if self.cache != PAGED:
            fact = f"{self.name} takes what it needs of a card, and profiles nothing"
            raise UsageError(fact, "leave the share and the profile out")

    def taking(self, share: float | None) -> EngineRules:
        """Return the rules with a share of a card's memory in the place of its own, if one is given.

        Raises UsageError.

        >>> engine("sglang").taking(0.4).share(80 * GIB, 8), engine("vllm").taking(None).utilization
        (0.4, 0.92)
        """
        if share is None:
            return self
        self.check_profiles()
        return self._replace(utilization=check_share(share))

    def share(self, memory: int, tp: int = 1, pp: int = 1) -> float:
        """Return the share of a card's memory that it takes where nothing else is asked for.

        >>> round(engine("sglang").share(80 * GIB, 8), 3), engine("vllm").share(80 * GIB)
        (0.819, 0.92)
        """
        if self.utilization is not None:
            return self.utilization
        by, mib = self.reserved, memory / MIB
        _, chunk, alone, several = next(row for row in self.chunks if memory < row[0] * GIB)
        graphs = several if tp >= GRAPHS_FROM else alone
        taken = by["constant"] + by["a_chunk_token"] * max(chunk, by["least_chunk"]) + by["a_graph"] * graphs
        taken += by["eight_gpus"] * tp * pp / 8
        taken = max(taken, by["least"]) if mib > by["least_from"] else taken
        return round((mib - taken) / mib, 3)

    def batches(self, memory: int, card: str) -> int | None:
        """Return the prompt tokens that it reads at once on such a card, if its file says so.

        vLLM reads as many on an A100 as on smaller cards.
        """
        if self.chunks:
            return next(int(row[1]) for row in self.chunks if memory < row[0] * GIB)
        return next((int(row[1]) for row in self._batched(memory, card)), None)

    def most(self, memory: int, card: str) -> int:
        """Return the most requests that it runs at once on such a card, however short they are."""
        return next((int(row[2]) for row in self._batched(memory, card)), MOST_REQUESTS)

    def _batched(self, memory: int, card: str) -> Iterator[Sequence[Any]]:
        rows = self.batched[1:] if "A100" in card.upper() and len(self.batched) > 1 else self.batched
        return (row for row in rows if memory >= exact_bytes(row[0], "write 70GiB"))

    @property
    def profile(self) -> Profile:
        """Profile run that is assumed, where no log tells of it."""
        return Profile(**{name: parse_bytes(size) for name, size in self.assumed.items()})

    def cache_log(
        self, ranks: Sequence[ServingRank], model: Model, plan: Serving, profile: Profile, memory: int, share: float
    ) -> CacheLog:
        """Return what it logs on cards of ``memory`` bytes of which it takes a ``share``, given its profile run.

        The rank with the fewest blocks decides. Raises InvalidModel for a cache that cannot be paged, or no room for
        one.
        """
        block = self.block if value_of(plan.block) == Engine().block else value_of(plan.block)
        settings = Engine(block, value_of(plan.batched), self.in_flight, format=plan.kv)
        found = [(rank, pool(layers(rank.tree, settings), settings)) for rank in ranks]
        rooms = [(rank, each, self.available(loaded(rank, model), profile, memory, share)) for rank, each in found]
        rank, each, available = min(rooms, key=lambda room: room[1].blocks(room[2]))
        if available <= 0:
            fact = f"{self.called} has {available / GIB:.2f} GiB for its cache"
            raise InvalidModel(fact, f"give it more of the card ({self.option}), or more GPUs")
        context = value_of(plan.context or 0)
        blocks = each.blocks(available)
        return CacheLog(
            self,
            memory,
            share,
            profile,
            loaded(rank, model),
            available,
            each.block_bytes,
            blocks,
            self.tokens(each, blocks, context),
            context,
            round(float(each.requests(blocks, context)), 2),
        )

    def room(self, model: Model, weights: int, profile: Profile, memory: int, share: float) -> int:
        """Return the bytes of a card that are left to the cache beside a GPU's weights; below 0 where none are."""
        return self.available(weights + angle_bytes(model), profile, memory, share)

    def available(self, weights: int, profile: Profile, memory: int, share: float) -> int:
        """Return the bytes of a card that are left to the cache, given all that loading takes."""
        beside = profile.profiled + profile.nontorch
        if self.budget == BEFORE:
            return int((memory - profile.nontorch) * share) - weights
        if self.budget == AFTER:
            return int((memory - weights - beside) * share)
        return int(memory * share) - weights - beside - (profile.graphs if self.graphs_first else 0)

    def tokens(self, found: CachePool, blocks: int, context: int) -> int:
        """Return the size of the cache in tokens, as this version counts it."""
        return found.slots(blocks) if self.tokens_are in (GROUPS, SLOTS) else found.tokens(blocks, context)


AS_OTHERS = "vllm"
"""Engine whose rules hold for one that has none, and where none is named."""
MOST_REQUESTS = 2048
"""Requests that an engine runs at once on a GPU, where its file names no number."""
GRAPHS_FROM = 4
"""GPUs of tensor parallelism from which SGLang captures larger graphs."""


@lru_cache(maxsize=1)
def engines() -> Mapping[str, tuple[EngineRules, ...]]:
    """Return all engines by name, the newest version of each first."""
    import tomllib  # few ask for one

    found: dict[str, list[EngineRules]] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        one = EngineRules(**tomllib.loads(path.read_text(encoding="utf-8")))
        found.setdefault(one.name, []).append(one)
    return {name: tuple(sorted(each, key=_number, reverse=True)) for name, each in found.items()}


def _number(rules: EngineRules) -> tuple[int, ...]:
    return version_of(rules.version)


def version_of(text: str) -> tuple[int, ...]:
    """Return a version as numbers.

    >>> version_of("0.19.0"), version_of("1.1.0rc2.post2")
    ((0, 19, 0), (1, 1, 0))
    """
    found = []
    for part in text.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        found.append(int(digits[0]))
        if digits[0] != part:
            break
    return tuple(found)


def engine(text: str) -> EngineRules:
    """Return the rules of ``vllm``, the newest that are known, or of ``vllm@0.19``: the newest up to that version.

    Of a version without a number, as ``vllm@nightly``, they are the newest. Raises UsageError for an engine that is not
    known.

    >>> engine("trtllm").called, engine("vllm@0.19.1").called
    ('tensorrt-llm 1.2', 'vllm 0.10')
    """
    name, _, version = text.lower().partition("@")
    known_ = engines()
    called = name_of(name)
    if called not in known_:
        raise UsageError(f"engine {quoted(text)} is not known", nearest(name, known_))
    asked = version_of(version)
    versions = known_[called]
    found = next((one for one in versions if not asked or _number(one) <= asked), versions[-1])
    return found._replace(asked=version)


def name_of(text: str) -> str:
    """Return an engine's name, of which another may be given: ``tensorrt-llm`` for ``trtllm``."""
    return next((one[0].name for one in engines().values() if text in one[0].also), text)


class Profile(NamedTuple):
    """Numbers of an engine's own log, in bytes: the peak of its profile run, memory outside PyTorch, CUDA graphs."""

    profiled: int
    nontorch: int
    graphs: int = 0


class CacheLog(NamedTuple):
    """Room of an engine's cache on the GPU that has the least, and the words of its log."""

    rules: EngineRules
    memory: int
    share: float
    profile: Profile
    weights: int
    available: int
    block_bytes: int
    blocks: int
    tokens: int
    context: int
    concurrency: float

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of its log."""
        words = self.rules.words
        return (
            f"{words['available']}: {self.available / GIB:.2f} GiB",
            f"{words['tokens']}: {self.tokens:,} tokens",
            f"{words['concurrency'].format(length=f'{self.context:,}')}: {self.concurrency:.2f}x",
        )


def loaded(rank: ServingRank, model: Model) -> int:
    """Return the bytes that loading takes: weights, buffers, and cosines and sines of all positions in 16 bits."""
    return rank.bytes_beside_cache + angle_bytes(model)


def angle_bytes(model: Model) -> int:
    """Return the bytes of cosines and sines of all positions, in 16 bits.

    There is one table for each kind of rotation, which all layers share (vLLM's ``get_rope``).
    """
    found = attentions(model.module())
    kinds = {(value_of(each.rope.width), each.window is None) for each in found if each.rope is not None}
    return sum(2 * (known(model.longest) or 0) * width for width, _ in kinds)
