"""Roles of a module's parameters (W_Q, b_1, γ, …), by the operations of its forward pass that use them.

Nothing here needs PyTorch: :mod:`tfcalc.verify.module_trace` records, this module reads the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tfcalc.named_tuple import NamedTuple

INPUT = 0
"""Number that represents the inputs of the pass among the products."""
SOFTMAX, NORM, ACTIVATION, MULTIPLIED = "softmax", "norm", "activation", "multiplied"
"""Operations on a tensor since the product that made it."""

Made = Mapping[int, frozenset[str]]
Place = tuple[int, ...]
NOTHING: Made = MappingProxyType({})


class Origin(NamedTuple):
    """Origin of a tensor.

    ``weight`` is the parameter that it is, or a view of, and ``part`` the offsets at which it was cut out of it. Else
    ``made`` has the nearest products that it was made of, each with what happened since, and ``cut`` the offsets at
    which it was cut out of their results. ``fresh`` is the product that it is the very result of, ``scaled`` the
    parameter that it was just multiplied by.
    """

    weight: str = ""
    part: Place = ()
    made: Made = NOTHING
    cut: Place = ()
    fresh: int = INPUT
    scaled: str = ""

    def after(self, event: str) -> Origin:
        """Return the origin after this operation."""
        made = {number: events | {event} for number, events in self.made.items()}
        return Origin(made=made, cut=self.cut)

    @property
    def events(self) -> frozenset[str]:
        """Events since the nearest products, all of them."""
        return frozenset().union(*self.made.values())


def joined(origins: Iterable[Origin]) -> Origin:
    """Origin of an elementwise result of all of these."""
    made: dict[int, frozenset[str]] = {}
    cuts: list[int] = []
    for origin in origins:
        for number, events in origin.made.items():
            made[number] = made.get(number, frozenset()) | events
        cuts += origin.cut
    return Origin(made=made, cut=tuple(cuts))


class TracedProduct(NamedTuple):
    """A matrix product: of ``left`` with a weight (then ``right`` is that weight), or of two results."""

    number: int
    left: Origin
    right: Origin

    @property
    def of_weight(self) -> bool:
        """Return whether it multiplies by a parameter."""
        return bool(self.right.weight)


class Use(NamedTuple):
    """Use of a parameter, and of which part of it or of its product."""

    role: str
    place: tuple[Place, Place] = ((), ())


@dataclass(slots=True)
class Flow:
    """The record of one forward pass; products are numbered from 1 in their order."""

    products: list[TracedProduct] = field(default_factory=list)
    biases: list[tuple[str, Place, int]] = field(default_factory=list)
    """Parameter, part of it, and the product that it was added to."""
    others: list[tuple[str, str]] = field(default_factory=list)
    """Parameter and role of those that multiply no matrix: γ, β, E, P."""

    def multiply(self, left: Origin, right: Origin) -> Origin:
        """Record a product, and return the origin of its result."""
        number = len(self.products) + 1
        if left.weight and not right.weight:
            left, right = right, left
        self.products.append(TracedProduct(number, left, right))
        return Origin(made={number: frozenset()}, fresh=number)

    def uses(self) -> dict[str, list[Use]]:
        """Uses of each parameter, in the order of the pass."""
        roles = _roles(self.products)
        last = self.products[-1] if self.products else None
        if last and last.of_weight and last.number not in roles and any(role == "E" for _, role in self.others):
            roles[last.number] = [Use("W_vocab")]
        found: dict[str, dict[Use, None]] = {}
        for product in self.products:
            if product.of_weight:
                of_product = roles.get(product.number) or [Use("W")]
                for role, (_, cut) in of_product:
                    found.setdefault(product.right.weight, {})[Use(role, (product.right.part, cut))] = None
        for weight, part, number in self.biases:
            for role, (_, cut) in roles.get(number) or [Use("W")]:
                bias = "b" + role.removeprefix("W")
                found.setdefault(weight, {})[Use(bias, (part, cut))] = None
        for weight, role in self.others:
            found.setdefault(weight, {})[Use(role)] = None
        return {weight: list(uses) for weight, uses in found.items()}


def _roles(products: list[TracedProduct]) -> dict[int, list[Use]]:
    """The roles of the weights, by the number of their product."""
    by_number = {product.number: product for product in products}
    roles: dict[int, list[Use]] = {}

    def name(origin: Origin, role: str) -> None:
        for number in _nearest(origin):
            if by_number[number].of_weight:
                roles.setdefault(number, []).append(Use(role, ((), origin.cut)))

    mixes = set()
    for product in products:
        for probabilities, values in ((product.left, product.right), (product.right, product.left)):
            scores = [
                by_number[number]
                for number, events in probabilities.made.items()
                if SOFTMAX in events and number != INPUT and not by_number[number].of_weight
            ]
            if scores and not product.of_weight:
                mixes.add(product.number)
                for one in scores:
                    name(one.left, "W_Q")
                    name(one.right, "W_K")
                name(values, "W_V")
    _name_ffn(products, by_number, mixes, roles)
    for product in products:
        if product.of_weight and product.number not in roles and mixes & set(_nearest(product.left)):
            roles[product.number] = [Use("W_O")]
    return roles


def _name_ffn(
    products: list[TracedProduct], by_number: Mapping[int, TracedProduct], mixes: set[int], roles: dict[int, list[Use]]
) -> None:
    """Two weights with an activation between them; of three, the gate is the one that the activation follows."""
    for product in products:
        first = [
            number
            for number, events in product.left.made.items()
            if number in by_number and by_number[number].of_weight and ACTIVATION in events and NORM not in events
        ]
        if not product.of_weight or not first or product.number in roles:
            continue
        beside = [
            number
            for number, events in product.left.made.items()
            if number in by_number and by_number[number].of_weight and number not in first and MULTIPLIED in events
        ]
        if beside and not mixes & set(product.left.made):
            pairs = [(number, "W_g") for number in first] + [(number, "W_1") for number in beside]
        else:
            pairs = [(number, "W_1") for number in first]
        for number, role in [*pairs, (product.number, "W_2")]:
            roles.setdefault(number, [Use(role)])


def _nearest(origin: Origin) -> list[int]:
    """The products that a tensor comes from directly: not by a residual connection that a norm ended."""
    direct = [number for number, events in origin.made.items() if number != INPUT and NORM not in events]
    if direct or len(origin.made) != 1:
        return direct
    return [number for number in origin.made if number != INPUT]


BY_NAME = (
    ("_Q", r"(w_?q|q|query|queries|to_q|q_proj|q_linear|linear_q|wq)"),
    ("_K", r"(w_?k|k|key|keys|to_k|k_proj|k_linear|linear_k|wk)"),
    ("_V", r"(w_?v|v|value|values|to_v|v_proj|v_linear|linear_v|wv)"),
    ("_O", r"(w_?o|o|out|output|to_out|out_proj|o_proj|out_linear|fc_out|wo|proj|unify_?heads)"),
    ("_1", r"(w_?1|fc_?1|linear_?1|c_fc|up_proj|lin_?1)"),
    ("_2", r"(w_?2|fc_?2|linear_?2|down_proj|lin_?2)"),
)
BIAS = re.compile(r"(^|[._])(bias|b)$|^b_|\.b_", re.IGNORECASE)


def by_name(name: str, axes: int) -> str:
    """Role of a tensor that no operation uses, by its name: ``W_K`` of ``key.weight``; ``""`` where unknown.

    >>> by_name("attention.w_o", 2), by_name("key.bias", 1), by_name("scale", 1)
    ('W_O', 'b_K', '')
    """
    letter = "b" if BIAS.search(name) or axes < 2 else "W"
    parts = re.sub(r"^b_", "w_", name.lower()).split(".")
    for part in reversed([part for part in parts if part not in ("weight", "bias")]):
        for suffix, pattern in BY_NAME:
            if re.fullmatch(pattern, part):
                return letter + suffix
    return ""
