"""What is alive at the peak of a training step, as a tree of terms that add up to it."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.measure import bytes_held
from tfcalc.core.polynomial import symbol
from tfcalc.core.traced import Traced, value_of
from tfcalc.training.peak import Phase
from tfcalc.training.states import Overheads, Placed

TEMPORARY, RELEASED, MISSING = "τ", "ρ", "μ"
LETTERS = {
    TEMPORARY: "temporary buffers at the peak, in bytes",
    RELEASED: "activations already freed or not yet saved at the peak, in bytes",
    MISSING: "gradients not yet computed at the peak, in bytes",
}
"""What has no closed form, for it depends on when the peak is."""


def alive(
    states: Placed, gradients: Component, saved: Component, beside: Overheads, passing: Component, peak: Phase
) -> Component:
    """What is alive at the peak, term by term; what has been released, or is yet to come, is taken off."""
    whole = states.device
    parts = [*(term(state) for state in (whole.weights, whole.master, whole.optimizer)), *beside, states.communication]
    if peak.gradients:
        parts.append(less(term(gradients), peak.gradients, MISSING, "not yet computed"))
    if peak.activations:
        parts.append(less(saved, peak.activations, RELEASED, "already freed"))
    if peak.gathered:
        parts.append(states.gathered)
    if peak.temporary:
        parts.append(term(passing._replace(name="temporary")))
    return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))


def term(state: Component) -> Component:
    """A term as a whole: its parts are shown where one looks deeper."""
    return state._replace(kind=state.name)


def less(term: Component, there: int, letter: str, name: str) -> Component:
    """A term of which only so much is there at the peak."""
    missing = value_of(term.total(bytes_held)) - there
    if not missing:
        return term
    parts = term.parts if term.parts else (term._replace(name="all"),)
    own = term.own if term.parts else Cost()
    return term._replace(own=own, parts=(*parts, lump(name, -missing, letter)))


def lump(name: str, size: int, letter: str) -> Component:
    """So many bytes, that go by a letter."""
    sign = -1 if size < 0 else 1
    return Component(name, name, Cost(held=(Held(name, (Traced(size, sign * symbol(letter)),), 8),)))
