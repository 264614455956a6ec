"""What a number of a model may be: parameters, FLOPs, bytes of weights or of the cache, each with its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.common import asked_run, default_run
from tfcalc.analysis.facts import facts
from tfcalc.analysis.why.given import BYTES_UNIT, FLOPS, PARAMS, Given
from tfcalc.analysis.why.search import Question

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.workload import Workload

MEMORY, CACHE = "memory", "cache"
QUANTITIES = (PARAMS, FLOPS, MEMORY, CACHE)


UNASKED = 0.75


class Asked(NamedTuple):
    """The model that a number is said to be of, ``called`` so on the command line, and how it was run, if that is said.

    ``tokens`` are those of a whole training run.
    """

    model: Model
    called: str
    workload: Workload | None
    tokens: int | None

    @property
    def run(self) -> Workload:
        """The workload, or the default."""
        return asked_run(self.model, self.workload)

    def tree(self) -> Component:
        """The model's own tree."""
        return self.model.tree(default_run(self.model).replaced(seq_len=1))

    def known(self, tree: Component) -> Facts:
        """Its sizes."""
        return facts(self.model, tree)


def rounds(given: Given, of: str | None, asked: Asked) -> Iterator[Sequence[str]]:
    """The quantities that are looked at together, the likely ones first."""
    if of is not None:
        yield (of,)
    elif given.unit == BYTES_UNIT:
        yield MEMORY, CACHE
    elif given.unit:
        yield (given.unit,)
    else:
        first = (FLOPS, PARAMS) if asked.workload is not None or asked.tokens is not None else (PARAMS, FLOPS)
        yield from ((one,) for one in first)
        if given.scale == 1:
            yield CACHE, MEMORY


def unasked(given: Given, of: str | None, quantity: str, asked: Asked) -> float:
    """What it costs to take the number for FLOPs: nothing where something says so."""
    said = of is not None or given.unit or asked.workload is not None or asked.tokens is not None
    return 0.0 if said or quantity != FLOPS else UNASKED


def questions(of: str, asked: Asked) -> Iterator[Question]:
    """Where to start from and which steps to take, for one quantity."""
    if of == PARAMS:
        yield from _params(asked)
    elif of == FLOPS:
        yield _flops(asked)
    elif of == MEMORY:
        yield _memory(asked)
    else:
        yield _cache(asked)


def _params(asked: Asked) -> Iterator[Question]:
    from tfcalc.analysis.why import params_adapters, params_buffers, params_packed, params_parts
    from tfcalc.analysis.why.params_roots import extra_layers, roots
    from tfcalc.analysis.why.params_steps import steps, steps_of_part
    from tfcalc.analysis.why.tensors import cells_of

    tree = asked.tree()
    known = asked.known(tree)
    cells = cells_of(tree, known.vocab_size)
    command = f"tfcalc params {asked.called}".strip()
    starts = [
        *roots(asked.model, tree, known, asked.called),
        *params_parts.roots(tree, known.vocab_size, asked.called),
        *params_parts.together(tree, known.vocab_size, asked.called),
        *params_adapters.roots(tree, command),
    ]
    more = (
        *extra_layers(asked.model, tree, cells, known),
        *params_buffers.steps(asked.model, tree, known),
        *params_packed.steps(tree),
        *params_adapters.steps(tree),
    )
    parts = [root for root in starts if root.is_part]
    yield Question([root for root in starts if not root.is_part], list(steps(cells, known, more)))
    yield Question(parts, list(steps_of_part(known)))


def _flops(asked: Asked) -> Question:
    from tfcalc.analysis.why.flops import roots, steps

    run, given = asked.run, asked.workload is not None
    known = asked.known(asked.tree())
    starts = roots(asked.model, run, asked.called, asked.tokens, given=given, phase_given=run.phase != "forward")
    return Question(list(starts), list(steps(run, known)))


def _memory(asked: Asked) -> Question:
    from tfcalc.analysis.why import params_buffers
    from tfcalc.analysis.why.params_roots import extra_layers
    from tfcalc.analysis.why.params_steps import steps as of_params
    from tfcalc.analysis.why.params_steps import stored
    from tfcalc.analysis.why.stored_bytes import packed_files, roots, steps
    from tfcalc.analysis.why.tensors import cells_of

    tree = asked.tree()
    known = asked.known(tree)
    cells = cells_of(tree, known.vocab_size)
    extra = extra_layers(asked.model, tree, cells, known)
    more = (*extra, *params_buffers.steps(asked.model, tree, known))
    starts = [*roots(asked.model, tree, stored(cells), asked.called), *packed_files(asked.model, tree, asked.called)]
    return Question(starts, list(steps(of_params(cells, known, more))))


def _cache(asked: Asked) -> Question:
    from tfcalc.analysis.why.cached_bytes import LATENT, roots, steps, widths_of

    run = asked.run
    known = asked.known(asked.tree())
    starts = list(roots(asked.model, run, asked.called, given=asked.workload is not None))
    latent = any(cell.kind == LATENT for root in starts for cell in root.state.cells)
    widths = widths_of(asked.tree()) if latent else None
    return Question(starts, list(steps(known, widths)))
