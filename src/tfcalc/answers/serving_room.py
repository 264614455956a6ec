"""Room of a card for a served model: what an engine leaves it, and how many replicas of it several cards hold."""

from __future__ import annotations

from functools import cache
from math import ceil
from typing import TYPE_CHECKING

from tfcalc.core.traced import value_of
from tfcalc.serving.caches import PAGED
from tfcalc.serving.engine_rules import AS_OTHERS, OF_CARD, engine
from tfcalc.serving.memory import Served, served
from tfcalc.serving.ranks import ServingRanks, layout_of, replicated
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.search.gpus import Capacity
    from tfcalc.serving.engine_rules import CacheLog, EngineRules, Profile
    from tfcalc.workload import Workload


class ServingRoom:
    """Room of each of equal cards, by the rules of an engine where one is asked for.

    Attributes:
        rules: those of the engine; None where none is asked for.
        given: its profile run, by its own log.
        profile: that, or the one that is assumed; None without an engine that pages its cache.
    """

    def __init__(
        self,
        model: Model,
        card: Capacity,
        rules: EngineRules | None = None,
        given: Profile | None = None,
        utilization: float | None = None,
        dtype: str = "auto",
    ) -> None:
        self.model, self.card, self.rules, self.given = model, card, rules, given
        self._utilization, self._dtype = utilization, dtype
        self.profile = None if rules is None or rules.cache != PAGED else given or rules.profile
        self._copied = cache(self._with_copies)

    @property
    def counts_graphs(self) -> bool:
        """Return whether CUDA graphs are in what the engine takes: its log tells of them, or published ones do."""
        return bool(self.rules and self.rules.graphs_first and self.profile and self.profile.graphs)

    @property
    def by_default(self) -> bool:
        """Return whether neither an engine is asked for nor a share of the card."""
        return self.rules is None and self._utilization is None

    def least_share(self, total: int, left: int) -> float | None:
        """Return the least share of a card, in hundredths, that ``total`` bytes fit in, of which some are ``left`` now.

        None where no share was asked for, none is enough, or the share is not of the whole card.
        """
        share, memory = self._utilization, self.card.memory
        if share is None or (self.rules is not None and self.rules.budget != OF_CARD):
            return None
        least = total / memory if self.profile is None else share - (left - total) / memory
        return found if (found := ceil(100 * least) / 100) <= 1 else None

    @property
    def outside(self) -> int:
        """Bytes outside of PyTorch's allocator that are taken off already, CUDA graphs among them."""
        return self.profile.nontorch + self.profile.graphs if self.profile else 0

    def share(self, plan: Serving) -> float | None:
        """Return the share of a card that is taken; None where it is the usual one, or all."""
        if self.profile is None or self.rules is None or self._utilization is not None:
            return self._utilization
        if not plan.shared:
            return self.rules.share(self.card.memory)
        at = layout_of(self.model, plan)
        return self.rules.share(self.card.memory, value_of(at.tp), value_of(at.pp))

    def usable(self, plan: Serving) -> Capacity:
        """Return the part of a card that is taken."""
        return self.card.serving(plan, self.share(plan), self.rules.called if self.rules else "")

    def left(self, plan: Serving, beside: int) -> int:
        """Return the bytes for all that is counted, of which those of weights ``beside`` the cache are given."""
        if self.profile is None or self.rules is None:
            return self.usable(plan).bytes
        share = self.share(plan) or 1
        found = self.rules.room(self.model, beside, self.profile, self.card.memory, share)
        return found + beside + self.profile.profiled

    def laid_out(self, run: Workload, plan: Serving) -> Serving:
        """Return the plan with the engine's profile run, and as many replicas of the model as the cards hold.

        The latter where only the number of cards is said.
        """
        if self.profile is not None:
            plan = plan.replaced(profile_run=str(self.profile.profiled))
        if plan.gpus is None or not self.card.card or plan.replicas:
            return plan
        copied = self._copied(run, plan.replaced(concurrency=1))
        return plan.replaced(replicas=copied.replicas)

    def _with_copies(self, run: Workload, plan: Serving) -> Serving:
        def holds(tried: Serving) -> bool:
            found = served(self.model, run, tried, self._dtype, formulas=False)
            return found.total <= self.left(tried, found.beside_cache)

        return replicated(self.model, plan, holds)

    def served(self, run: Workload, plan: Serving) -> Served:
        """Return what is stored by a plan, in its layout."""
        return served(self.model, run, self.laid_out(run, plan), self._dtype, formulas=False)

    def log(self, run: Workload, plan: Serving) -> CacheLog | None:
        """Return what the engine's log says, if its profile run was given."""
        if self.given is None or self.rules is None:
            return None
        plan = self.laid_out(run, plan)
        found = ServingRanks(self.model, layout_of(self.model, plan), run, plan, self._dtype)
        memory, share = self.card.memory, self.share(plan) or 1
        return self.rules.cache_log(found.each, self.model, found.plan, self.given, memory, share)

    def in_words(self) -> Iterator[str]:
        """Yield what the engine takes beside weights and cache, where its own log does not say it."""
        if self.profile is not None and self.given is None:
            taken = short_bytes(sum(self.profile))
            yield f"{taken} for its profile run and outside of it, the middle of published logs (--profiled)"

    def by_own_rules(self, plan: Serving, found: Served) -> tuple[EngineRules, str, int]:
        """Return the rules of an engine that nobody asked for, what it takes of a card, and the room of its cache.

        Below 0 where it leaves none.
        """
        rules = engine(AS_OTHERS)
        room = ServingRoom(self.model, self.card, rules, dtype=self._dtype)
        beside, share, profile = found.beside_cache, room.share(plan) or 1, rules.profile
        takes = f"{rules.called} takes {100 * share:g} % of the card, {short_bytes(sum(profile))} of it beside weights"
        return rules, takes, room.left(plan, beside) - beside - profile.profiled
