"""``tfcalc why``: which conventions give a number that somebody states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.common import check_arguments
from tfcalc.analysis.facts import facts
from tfcalc.analysis.six_nd import counted
from tfcalc.analysis.why import cache, flops, of_plan, params_starts, params_steps, presets, weights
from tfcalc.analysis.why.answer import SHOWN, Reason, Why, reason, reasons
from tfcalc.analysis.why.given import BYTES_UNIT, FLOPS, PARAMS, SIZE, WrittenNumber, asked_about, corrected
from tfcalc.analysis.why.search import SearchSpace, Start, State, matches, nearest
from tfcalc.analysis.why.tensors import Cell, cells_of
from tfcalc.configs.published import HFModel
from tfcalc.errors import one_of
from tfcalc.model import asked_run, default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.units import in_full
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.analysis.why.of_plan import AskedPlan
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.workload import Workload

MEMORY, CACHE = "memory", "cache"
QUANTITIES = (PARAMS, FLOPS, MEMORY, CACHE)


UNASKED = 0.75


class WhyInput(NamedTuple):
    """The model that a number is said to be of, ``called`` so on the command line, and how it was run, if that is said.

    ``tokens`` are those of a whole training run; ``plan`` is that of training or of serving, of whose memory it is.
    """

    model: Model
    called: str
    workload: Workload | None
    tokens: int | None
    plan: AskedPlan | None = None

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


def rounds(given: WrittenNumber, of: str | None, asked: WhyInput) -> Iterator[Sequence[str]]:
    """The quantities that are looked at together, the likely ones first."""
    if of is not None or asked.plan is not None:
        yield (MEMORY if of is None else of,)
    elif given.unit == BYTES_UNIT:
        yield MEMORY, CACHE
    elif given.unit:
        yield (given.unit,)
    else:
        first = (FLOPS, PARAMS) if asked.workload is not None or asked.tokens is not None else (PARAMS, FLOPS)
        yield from ((one,) for one in first)
        if given.scale == 1:
            yield CACHE, MEMORY


def unasked(given: WrittenNumber, of: str | None, quantity: str, asked: WhyInput) -> float:
    """Return the cost of taking the number for FLOPs: nothing where something says so."""
    said = of is not None or given.unit or asked.workload is not None or asked.tokens is not None
    return 0.0 if said or quantity != FLOPS else UNASKED


def questions(of: str, asked: WhyInput) -> Iterator[SearchSpace]:
    """Yield the search spaces for one quantity: where to start from, and which steps to take."""
    if of == PARAMS:
        yield from _params(asked)
    elif of == FLOPS:
        yield _flops(asked)
    elif of == MEMORY:
        yield _memory(asked) if asked.plan is None else of_plan.space(asked.plan)
    else:
        yield _cache(asked)


def _params(asked: WhyInput) -> Iterator[SearchSpace]:
    tree = asked.tree()
    known = asked.known(tree)
    cells = cells_of(tree, known.vocab_size)
    starts = [
        *params_starts.starts(asked.model, tree, known, asked.called),
        *params_starts.part_starts(tree, known.vocab_size, asked.called),
        *params_starts.grouped_starts(tree, known.vocab_size, asked.called),
        *params_steps.adapter_starts(tree, f"tfcalc params {asked.called}".strip()),
    ]
    more = (
        *params_starts.extra_layers(asked.model, tree, cells, known),
        *params_steps.buffer_steps(asked.model, tree, known),
        *params_steps.packed_steps(tree),
        *params_steps.adapter_steps(tree),
    )
    whole = [start for start in starts if not start.is_part]
    yield SearchSpace(whole, list(params_steps.steps(cells, known, more)))
    parts = [start for start in starts if start.is_part]
    yield SearchSpace(parts, list(params_steps.steps_of_part(known)))


def _sizes(given: WrittenNumber, asked: WhyInput) -> Iterator[Start[Cell]]:
    """The sizes of the model that are the number itself, which counts nothing: a width, the vocabulary, the context.

    Of a number with a prefix all are tried: one may be rounded, or its k be 1,024.
    """
    if given.unit:
        return
    for name, size in asked.known(asked.tree())._asdict().items():
        if size == given.value or (isinstance(size, int) and size and given.power):
            words = name.replace("_", " ")
            state = State({Cell(words): int(size)})
            command = f"tfcalc explain overview.facts.{name} {asked.called}"
            yield Start(name, words, words, state, command, BESIDE_PARTS, unit=SIZE)


BESIDE_PARTS = 0.75
"""What a size costs, so that a norm of as many parameters is named beside it."""


def _flops(asked: WhyInput) -> SearchSpace:
    run, given = asked.run, asked.workload is not None
    phase_given = run.phase != "forward"
    starts = flops.starts(asked.model, run, asked.called, asked.tokens, given=given, phase_given=phase_given)
    return SearchSpace(list(starts), list(flops.steps(run)))


def _memory(asked: WhyInput) -> SearchSpace:
    tree = asked.tree()
    known = asked.known(tree)
    cells = cells_of(tree, known.vocab_size)
    extra = params_starts.extra_layers(asked.model, tree, cells, known)
    more = (*extra, *params_steps.buffer_steps(asked.model, tree, known))
    starts = [
        *weights.starts(asked.model, tree, params_steps.stored(cells), asked.called),
        *weights.packed_files(asked.model, tree, asked.called),
    ]
    return SearchSpace(starts, list(weights.steps(params_steps.steps(cells, known, more))))


def _cache(asked: WhyInput) -> SearchSpace:
    known = asked.known(asked.tree())
    starts = list(cache.starts(asked.model, asked.run, asked.called, given=asked.workload is not None))
    latent = any(cell.kind == cache.LATENT for start in starts for cell in start.state.cells)
    widths = cache.widths_of(asked.tree()) if latent else None
    return SearchSpace(starts, list(cache.steps(known, widths)))


GIGA = 3
NO_CACHE = "this model generates no text, so it has no cache"


def conventions_of(
    number: str | int,
    model: Model | None = None,
    of: str | None = None,
    workload: Workload | None = None,
    *,
    tokens: int | None = None,
    called: str = "",
    listed: Iterable[presets.PresetSize] = (),
    plan: AskedPlan | None = None,
) -> Why:
    """The conventions that give a number, as :func:`tfcalc.why` names them; arguments and errors are the same."""
    if model is None:
        model = Transformer()
    check_arguments(model, workload, None)
    if of is not None:
        one_of("of", of, QUANTITIES)
    given = asked_about(str(number))
    name = model.name if isinstance(model, HFModel) else ""
    asked = WhyInput(model, called or name, workload, tokens, plan)
    heading = model.summary if plan is None else plan.memory.subtitle
    beside = () if plan is None else tuple(of_plan.notes(plan))
    model.check(asked.run)
    looked, tried = list[SearchSpace](), list[str]()
    for quantities in rounds(given, of, asked):
        more = {one: unasked(given, of, one, asked) for one in quantities}
        here = {one: [each.dearer(more[one]) for each in questions(one, asked)] for one in quantities}
        if PARAMS in here and model == Transformer() and not called:
            here[PARAMS].append(SearchSpace(presets.of_other_widths(given), []))
        if PARAMS in here and of is None and called:
            here[PARAMS].append(SearchSpace(list(_sizes(given, asked)), []))
        by_quantity = {quantity: matches(given, one) for quantity, one in here.items()}
        if found := sorted((match for one in by_quantity.values() for match in one), key=lambda match: match.cost):
            of_what = tuple(quantity for quantity, one in by_quantity.items() if one)
            notes, described = (*_notes(given, model), *beside), model.described()
            return Why(
                given=given.text,
                heading=heading,
                reasons=reasons(given, found),
                nearest=(),
                notes=notes,
                model=described,
                of=of_what,
                ways=len(found),
            )
        tried += quantities
        if of is not None or given.unit or (MEMORY not in quantities):
            looked += [question for one in here.values() for question in one]
    if model == Transformer() and not called:
        named = presets.starts(given, of, listed)
        if found := matches(given, [SearchSpace(named, [])]):
            return Why(
                given=given.text,
                heading=presets.HEADING,
                reasons=reasons(given, found),
                nearest=(),
                notes=(),
                model=model.described(),
                of=(given.unit or PARAMS,),
                ways=len(found),
            )
        looked, heading = [SearchSpace(named, []), *looked], presets.HEADING if named else heading
    if run := _as_a_run(given, of, asked):
        return Why(
            given=given.text,
            heading=heading,
            reasons=run,
            nearest=(),
            notes=(*_notes(given, model), *beside),
            model=model.described(),
            of=(FLOPS,),
            ways=len(run) + 1,  # other numbers of tokens give it, too
        )
    close = tuple(reason(given, one, "") for one in nearest(given, looked)[:SHOWN])
    nothing = (NO_CACHE,) if of == CACHE and not any(question.starts for question in looked) else ()
    notes = (*nothing, *_notes(given, model), *beside)
    return Why(
        given=given.text,
        heading=heading,
        reasons=(),
        nearest=close,
        notes=notes,
        model=model.described(),
        of=tuple(tried),
        ways=0,
    )


FEW = 10**6
"""Tokens: nobody trains on fewer."""


def _as_a_run(given: WrittenNumber, of: str | None, asked: WhyInput) -> tuple[Reason, ...]:
    """The training run that a large number may be of, by 6ND, if that has a round number of tokens."""
    if given.unit not in ("", FLOPS) or of not in (None, FLOPS) or asked.tokens is not None or not asked.called:
        return ()
    n = counted(asked.tree()).every
    about = given.value / (6 * n) if n else 0
    for figures in (1, 2, 3) if about >= FEW else ():
        scale = 10 ** (len(str(int(about))) - figures)
        tokens = round(about / scale) * scale
        found = matches(given, [_flops(asked._replace(tokens=tokens))])
        if found:
            said = in_full(tokens, "B")
            command = f"tfcalc why {given.text} {asked.called} --train --tokens {said}"
            return tuple(
                replace(one, cause=f"training on {said} tokens: {one.cause}", command=command)
                for one in reasons(given, found)
            )
    return ()


def _notes(given: WrittenNumber, model: Model) -> tuple[str, ...]:
    named = isinstance(model, HFModel) and not model.changed
    notes = list(corrected(given, model.name)) if isinstance(model, HFModel) and named else []
    if given.unit == BYTES_UNIT and given.power >= GIGA:
        gib, gb = float(given.value) / 2**30, float(given.value) / 10**9
        notes.append(f"{given.text} is {gib:,.1f} GiB (2^30 bytes), and {gb:,.1f} GB (10^9 bytes)")
    return tuple(notes)
