"""A training step from phase to phase: what is alive at the highest moment of each."""

from __future__ import annotations

from tfcalc.answers.memory_table import card_assumptions, card_lines
from tfcalc.answers.training_memory import CONTEXT, FRAGMENTS, TrainingMemory
from tfcalc.report.sheet import Bytes, Column, Sheet

KEYS = ("states_bytes", "gradients_bytes", "activations_bytes", "gathered_bytes", "temporary_bytes")
HEADINGS = ("states", "gradients", "activations", "gathered", "temporary")
MARKS = "█▓▒≡░"
"""What each of them is drawn with."""
APART = ("--timeline", "--formulas", "--gpu")
"""What it does not go with."""
WIDE = 30
"""Characters of the peak."""


def timeline_sheet(memory: TrainingMemory, sheet: Sheet) -> Sheet:
    """A row for each phase, with its memory as a stacked bar; everything else is as in the ``sheet`` of the terms."""
    phases, on_card = memory.timeline, memory.on_card
    footer = memory.footer.counting(CONTEXT, FRAGMENTS) if on_card else memory.footer
    shown = [place for place, key in enumerate(KEYS) if any(getattr(phase, key) for phase in phases)]
    marks = ", ".join(f"{MARKS[place]} {HEADINGS[place]}" for place in shown)
    return sheet._replace(
        columns=[
            Column("phase", numeric=False),
            Column("memory"),
            Column("over the step", numeric=False, spare=1),
            *(Column(HEADINGS[place], spare=2) for place in shown),
        ],
        rows=[
            [
                NAMES.get(phase.phase, phase.phase),
                Bytes(phase.peak_bytes),
                _bar([getattr(phase, key) for key in KEYS], memory.answer),
                *(Bytes(getattr(phase, KEYS[place])) for place in shown),
            ]
            for phase in phases
        ],
        notes=[
            f"{marks}; states: weights, optimizer, buffers",
            *(card_lines(on_card, memory.by.units) if on_card else ()),
            *memory.notes[1:],
        ],
        not_counted=footer.not_counted,
        assumptions=(*footer.assumptions, *(card_assumptions() if on_card else ())),
        see_also=[command for command in memory.footer.see_also if not command.startswith(APART)],
        legend={},
        depths=(),
        paths=(),
        detailed=None,
    )


NAMES = {"step": "optimizer step"}


def _bar(sizes: list[int], peak: int) -> str:
    """One mark for each thirtieth of the peak, each kind as long as its sum with those before it ends."""
    ends = [round(WIDE * sum(sizes[: place + 1]) / peak) for place in range(len(sizes))]
    return "".join(mark * (end - begin) for mark, begin, end in zip(MARKS, [0, *ends], ends, strict=False))
