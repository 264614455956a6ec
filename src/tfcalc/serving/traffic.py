"""Bytes that a step of serving reads and writes, operation by operation: weights once, the cache as far as it is seen.

====================  =====================================================================================
weights of a map      read once in a step, for however many tokens; those of a table are gathered, row by row
routed experts        those that some token is sent to: at least k, at most ``min(E, kT)``; ``E(1 − (1 − k/E)^T)`` if
                      each token chooses k of E alike and by itself, an upper estimate of skewed routing
cache                 all that a query sees: tokens, a window's, the ones that an indexer chooses; a state whole
new tokens            written to the cache, and states again
====================  =====================================================================================

These are bounds: results between operations may stay in fused kernels or in a GPU's cache, and are not in them. The
FLOPs are those of the same tree, so those that ``flops`` answers, of causal pairs and, in decoding, absorbed latent
attention; of text alone: no image is read. Where an indexer chooses keys, attention is to these alone: transformers
masks the others, and kernels of engines leave them out. Summaries of keys (DeepSeek-V4) are those of earlier tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.core.component import TABLES, Component, Cost, Node
from tfcalc.core.measure import bytes_held, matmul_flops
from tfcalc.core.number import Num, ceil_div, divide, floor_div, minimum, product, total
from tfcalc.core.traced import known, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.ops.work import INDEX
from tfcalc.serving.caches import STATIC, Allocation, cache_format, tensors
from tfcalc.serving.stored import DECODE, FORWARD, PREFILL, reads_alone, weight_recipe
from tfcalc.serving.weights import hold
from tfcalc.workload import AUTO

if TYPE_CHECKING:
    from tfcalc.core.component import Cached
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.workload import Workload

CHOSEN = "index_topk"
"""Field of a config: how many cached tokens an indexer chooses for a query."""
EXPERTS, OUTPUT, ATTENDS = "experts", "output", "attend"
CHOOSES = ".indexer."
"""Part of the paths in an indexer."""


class ChosenExperts(NamedTuple):
    """Experts of which a token chooses ``active`` of ``number``; each of ``groups`` of GPUs has as many of them."""

    number: Num
    active: Num
    groups: Num = 1

    def least(self) -> Num:
        """Fewest experts of the busiest group that any number of tokens is sent to."""
        found: Num = ceil_div(self.active, self.groups)
        return found

    def most(self, tokens: Num) -> Num:
        """Most experts of a group that they are sent to.

        >>> [ChosenExperts(8, 2).most(tokens) for tokens in (1, 3, 100)]
        [2, 6, 8]
        """
        found: Num = minimum(ceil_div(self.number, self.groups), self.active * tokens)
        return found

    def expected(self, tokens: float) -> float:
        """Experts that tokens are sent to on average, if each chooses alike and by itself: ``E (1 − (1 − k/E)^T)``.

        >>> ChosenExperts(8, 2).expected(1), ChosenExperts(8, 2).expected(2)
        (2.0, 3.5)
        """
        number, active, groups = map(value_of, (self.number, self.active, self.groups))
        found: float = number / groups * (1 - (1 - active / number) ** tokens)
        return found


class KeyChoice(NamedTuple):
    """Keys that attention reads of those that there are: ``most`` at most, each of which sums up ``every`` tokens."""

    most: int | None = None
    every: int = 1

    def of(self, keys: Num) -> Num:
        """Return the keys that a query reads, of this many."""
        found: Num = keys if self.most is None else minimum(keys, self.most)
        return found

    def twice_pairs(self, tokens: Num) -> Num:
        """Return twice the pairs of queries and keys of a prompt: a query reads what is before it and itself.

        >>> KeyChoice().twice_pairs(10), KeyChoice(4).twice_pairs(10), KeyChoice(every=4).twice_pairs(10)
        (110, 68, 20)
        """
        read = self.of(floor_div(tokens, self.every))
        return self.every * read * (read - 1) + 2 * (tokens - self.every * read + 1) * read

    def flops(self, own: Cost, new: Num, requests: Num, *, decodes: bool) -> Num:
        """Return the FLOPs of products of queries and keys, each of heads and width at its end."""
        if not decodes:
            ends = total(product(each.factors[-2:]) for each in own.products)
            return requests * ends * self.twice_pairs(new)
        factors = ((*each.factors[:-3], self.of(each.factors[-3]), *each.factors[-2:]) for each in own.products)
        return total(product(each) for each in factors)


class Operation(NamedTuple):
    """An operation of a step, in each of the ``layers`` that have it.

    Attributes:
        path: where it is in the tree.
        kind: the kind of the component: linear, attend, output, …
        layers: how often it runs.
        weights: bytes of its weights, of one expert if there are several.
        gathered: bytes of the rows that it looks up in a table.
        flops: FLOPs of its matrix products, of all experts that run.
        cached: bytes of the cache that it reads.
        written: bytes that it writes to the cache.
        stored: bytes of the cache that there are, which it need not all read.
        routing: the experts that it is one of.
        bits: bits of a stored weight, with scales, rounded; 0 without weights in a product.
        state: it has a state of each sequence, whatever its length.
    """

    path: str
    kind: str
    layers: Num
    weights: Num = 0
    gathered: Num = 0
    flops: Num = 0
    cached: Num = 0
    written: Num = 0
    routing: ChosenExperts | None = None
    bits: int = 0
    state: bool = False
    stored: Num = 0


class ServingStep(NamedTuple):
    """A step of ``tokens`` tokens: one of each request in decoding, all of the prompts in a prefill.

    Experts also get those of other ``copies`` of the model, which share them.
    """

    operations: tuple[Operation, ...]
    tokens: Num
    copies: Num = 1

    def _sum(self, of: Callable[[Operation], Num]) -> Num:
        return total(one.layers * of(one) for one in self.operations)

    @property
    def routings(self) -> tuple[ChosenExperts, ...]:
        """The kinds of routing in it."""
        return tuple(dict.fromkeys(one.routing for one in self.operations if one.routing))

    @property
    def keeps_states(self) -> bool:
        """Return whether some operation has a state of each sequence: a recurrence, or a convolution's last inputs."""
        return any(one.state for one in self.operations)

    @property
    def gathered(self) -> Num:
        """Bytes of rows that are looked up."""
        return self._sum(lambda one: one.gathered)

    @property
    def least_weights(self) -> Num:
        """Bytes of weights that are certainly read: k experts of each layer."""
        return self._weights(ChosenExperts.least) + self.gathered

    @property
    def most_weights(self) -> Num:
        """Bytes of weights that are read at most: ``min(E, kT)`` experts of each layer."""
        return self._weights(lambda routing: routing.most(self.tokens * self.copies)) + self.gathered

    @property
    def expected_weights(self) -> float:
        """Bytes of weights that are read on average, where each token chooses its experts alike."""
        tokens = float(self.tokens * self.copies)  # type: ignore[arg-type]  # a number
        return float(self._weights(lambda routing: routing.expected(tokens)) + self.gathered)  # type: ignore[arg-type]

    def _weights(self, touched: Callable[[ChosenExperts], Num]) -> Num:
        return self._sum(lambda one: one.weights if one.routing is None else one.weights * touched(one.routing))

    @property
    def cached(self) -> Num:
        """Bytes of the cache that are read."""
        return self._sum(lambda one: one.cached)

    @property
    def stored(self) -> Num:
        """Bytes of the cache that there are."""
        return self._sum(lambda one: one.stored)

    @property
    def written(self) -> Num:
        """Bytes that are written to the cache."""
        return self._sum(lambda one: one.written)

    @property
    def flops(self) -> Num:
        """FLOPs of matrix products."""
        return self._sum(lambda one: one.flops)

    def of_several(self, tokens: int) -> ServingStep:
        """Return the step where each request has several tokens at once, that are checked together.

        The weights and the cache are read once, products run for each; a state is written for the last one alone.
        """
        operations = (
            one._replace(
                flops=one.flops * tokens,
                gathered=one.gathered * tokens,
                written=one.written if one.state else one.written * tokens,
            )
            for one in self.operations
        )
        return self._replace(operations=tuple(operations), tokens=self.tokens * tokens)

    @property
    def least_bytes(self) -> Num:
        """Bytes that are certainly read and written."""
        return self.least_weights + self.cached + self.written


class Traffic:
    """Steps of a model that is served by a ``plan``, which has been resolved.

    The ``tree`` is that of one GPU's piece for a workload; others like it, ``copies`` in all, share its experts, which
    are in ``groups``.
    """

    def __init__(
        self,
        model: Model,
        run: Workload,
        plan: Serving,
        dtype: str = AUTO,
        *,
        tree: Callable[[Workload], Component] | None = None,
        copies: int = 1,
        groups: int = 1,
    ) -> None:
        self.model, self.run, self.plan = model, run, plan
        self.tree, self.copies, self.groups = tree or model.tree, copies, groups
        self.recipe = weight_recipe(model, plan, dtype)
        self.format = cache_format(plan.kv)

    def decode(self, requests: Num, cached: Num) -> ServingStep:
        """Return the step that makes a token of each request, which has ``cached`` tokens, the new one included."""
        tree = self.decoded(requests, cached)
        found = self._operations(tree, 1, requests, self._choices(tree), decodes=True)
        return ServingStep(tuple(found), requests, self.copies)

    def prefill(self, requests: Num, length: Num, before: Num = 0) -> ServingStep:
        """Return the step that reads prompts of this length, of which tokens ``before`` are in the cache already."""
        whole = self._prefilled(requests, length)
        if known(before) == 0:
            return whole
        part = self._prefilled(requests, before)
        operations = (
            one._replace(
                flops=one.flops if one.kind == OUTPUT else one.flops - other.flops,
                gathered=one.gathered - other.gathered,
                cached=other.written,
                written=one.written - other.written,
            )
            for one, other in zip(whole.operations, part.operations, strict=True)
        )
        return ServingStep(tuple(operations), requests * (length - before), self.copies)

    def reading(self, requests: Num, length: Num) -> ServingStep:
        """Return the step that reads texts of this length and writes nothing: no words, no cache.

        Of a model that writes text all queries see what is before them, and its head is left out.
        """
        run = self.run.replaced(phase=FORWARD, batch_size=requests, seq_len=length, cached=None)
        if not reads_alone(self.model):
            run = run.replaced(phase=PREFILL, attention="causal", logits="last")
        self.model.check(run)
        found = self._operations(hold(self.tree(run), self.recipe, beside=True), length, requests)
        read = (one._replace(cached=0, written=0, stored=0) for one in found if one.kind != OUTPUT)
        return ServingStep(tuple(read), requests * length, self.copies)

    def chunked(self, requests: Num, length: int, chunk: int) -> list[ServingStep]:
        """Return the steps that read prompts in chunks: each reads the weights, and the cache of those before it."""
        ends = [*range(chunk, length, chunk), length]
        return [self.prefill(requests, end, before) for before, end in zip([0, *ends], ends, strict=False)]

    def _prefilled(self, requests: Num, length: Num) -> ServingStep:
        decoded = self.decoded(requests, length)
        decoding = {node.path: node.component.own for node in decoded.walk()}
        choices = self._choices(decoded)
        operations = self._reading(requests, length, choices)
        if any(_rests(decoding.get(one.path, Cost())) for one in operations):  # towers of images are not run for text
            more = self._reading(requests, length + 1, choices)
            operations = [
                one
                for one, other in zip(operations, more, strict=True)
                if not (_rests(decoding.get(one.path, Cost())) and one.flops == other.flops)
            ]
        found = (
            one._replace(cached=0, stored=0, written=self._stored(decoding.get(one.path, Cost()))) for one in operations
        )
        return ServingStep(tuple(found), requests * length, self.copies)

    def _reading(self, requests: Num, length: Num, choices: Mapping[str, KeyChoice]) -> list[Operation]:
        run = self.run.replaced(
            phase=PREFILL, batch_size=requests, seq_len=length, cached=None, attention="causal", logits="last"
        )
        return list(self._operations(hold(self.tree(run), self.recipe, beside=True), length, requests, choices))

    def _stored(self, cost: Cost) -> Num:
        return total(self._bytes(each, self._room(each)) for each in cost.cached)

    def decoded(self, requests: Num, cached: Num) -> Component:
        """Return the tree of the step that makes a token of each request, with the weights as they are stored."""
        run = self.run.replaced(
            phase=DECODE,
            batch_size=requests,
            cached=cached,
            recompute="none",
            attention="causal",
            latent="absorbed",
            logits="last",
        )
        return hold(self.tree(run), self.recipe, beside=True)

    def _operations(
        self,
        tree: Component,
        new: Num,
        requests: Num,
        choices: Mapping[str, KeyChoice] = {},  # read alone
        *,
        decodes: bool = False,
    ) -> Iterator[Operation]:
        tables = _tables(tree)
        for node, routing in self._with_routing(tree.root(), None):
            part, own = node.component, node.component.own
            if _rests(own) or _is_empty(own) or (part.kind in TABLES and _is_unread(own)):
                continue
            stored = bytes_held(own)
            tied = total(tables.get(_size(weight.shape), 0) for weight in own.weights if weight.tied_to is not None)
            layers = node.times.run if routing is None else divide(node.times.run, routing.active)
            looked = _is_gathered(own)
            rows = own.weights[0].shape[0] if looked else 1
            choice = choices.get(node.path)
            flops = matmul_flops(own) if choice is None else choice.flops(own, new, requests, decodes=decodes)
            if routing is not None:
                flops = divide(flops * routing.active * self.copies, self.groups)
            caches = [each for each in own.cached if each.grows or each.tokens is not None]
            yield Operation(
                node.path,
                part.kind,
                layers,
                0 if looked else stored + tied,
                divide(stored + tied, rows) * own.lookups if looked else 0,
                flops,
                total(self._bytes(each, self._seen(each, choice)) for each in caches),
                total(self._bytes(each, each.tokens if each.tokens is None else new) for each in caches if each.grows),
                routing,
                _bits(own, stored + tied) if own.products else 0,
                any(each.tokens is None for each in caches),
                total(self._bytes(each, self._room(each)) for each in caches),
            )

    def _with_routing(self, node: Node, routing: ChosenExperts | None) -> Iterator[tuple[Node, ChosenExperts | None]]:
        """Yield each node with the routing of the experts that it is in."""
        part = node.component
        if part.active is not None and (part.kind == EXPERTS or known(part.active) != known(part.copies)):
            routing = ChosenExperts(part.copies * self.groups, part.active, self.groups)
        yield node, routing
        for below in node.below():
            yield from self._with_routing(below, routing)

    def _seen(self, cached: Cached, choice: KeyChoice | None) -> Num | None:
        """Vectors of a sequence that its query reads; None of a state."""
        room = self._room(cached)
        return room if room is None or choice is None else choice.of(room)

    def _choices(self, decoding: Component) -> dict[str, KeyChoice]:
        """Return the choice of keys by the path of attention, where some are chosen or summed up."""
        costs = {node.path: (node.component.kind, node.component.own) for node in decoding.walk()}
        fields = getattr(self.model, "data", {})
        chosen = fields.get("text_config", fields).get(CHOSEN)
        most = chosen if isinstance(chosen, int) else None
        found: dict[str, KeyChoice] = {}
        indexed = any(each.name == INDEX for _, own in costs.values() for each in own.cached)
        if most is not None and indexed:
            attend = (path for path, (kind, _) in costs.items() if kind == ATTENDS and CHOOSES not in path)
            found = dict.fromkeys(attend, KeyChoice(most))
        for path, (_, own) in costs.items():
            attention, compressed, _ = path.partition(".compressor.")
            every = next((value_of(each.every) for each in own.cached if value_of(each.every) > 1), 1)
            if not compressed or every == 1:
                continue
            if CHOOSES in path:
                found[f"{attention}.compressor.indexer.score"] = KeyChoice(every=every)
            else:
                chooses = any(other.startswith(f"{attention}.compressor{CHOOSES}") for other in costs)
                found[f"{attention}.attend_compressed"] = found[path] = KeyChoice(most if chooses else None, every)
        return found

    @staticmethod
    def _room(cached: Cached) -> Num | None:
        return Allocation(STATIC).tokens(cached)

    def _bytes(self, cached: Cached, vectors: Num | None) -> Num:
        """Bytes of this many vectors of each sequence."""
        alone = cached._replace(tokens=vectors, window=None, chunk=None, every=1)
        return bytes_held(Cost(held=tuple(tensors(alone, Allocation(STATIC), self.format))))


def _rests(own: Cost) -> bool:
    """Return whether it does nothing in this step, as a tower of images where a token is made."""
    work = [product.flops for product in own.products] + [each.elements for each in own.elementwise]
    return bool(work) and all(isinstance(each, int) and each == 0 for each in work)


def _is_unread(own: Cost) -> bool:
    """Return whether nothing is looked up in a table: it is only stored here, and others share it."""
    return isinstance(own.lookups, int) and own.lookups == 0 and not own.products


def _is_empty(own: Cost) -> bool:
    """Return whether it has no bytes and no FLOPs."""
    return not (own.held or own.products or own.cached or own.weights)


def _bits(own: Cost, stored: Num) -> int:
    """Bits of a weight as it is stored, rounded."""
    elements = value_of(total(weight.size for weight in own.weights))
    return round(8 * value_of(stored) / elements) if elements else 0


def _is_gathered(own: Cost) -> bool:
    return bool(own.weights) and not (isinstance(own.lookups, int) and own.lookups == 0)


def _size(shape: tuple[Num, ...]) -> tuple[str, ...]:
    return tuple(sorted(map(str, shape)))


def _tables(tree: Component) -> dict[tuple[str, ...], Num]:
    """Bytes of stored matrices by their shape, for those that others are tied to."""
    return {
        _size(weight.shape): bytes_held(node.component.own)
        for node in tree.walk()
        for weight in node.component.own.weights
        if weight.tied_to is None and len(weight.shape) == 2
    }
