"""A training step from phase to phase: what is alive at the highest moment of each."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfcalc.report import Report
from tfcalc.report.sheet import Bytes, Column, Share, Sheet

KEYS = ("states_bytes", "gradients_bytes", "activations_bytes", "gathered_bytes", "temporary_bytes")
HEADINGS = ("states", "gradients", "activations", "gathered", "temporary")


class Timeline(NamedTuple):
    """The phases of a training step's memory; everything else is as in its ``report``."""

    report: Report

    def to_dict(self) -> dict[str, Any]:
        """The same object: the timeline stands in it anyway."""
        return self.report.to_dict()

    def sheet(self) -> Sheet:
        """A row for each phase."""
        report, phases = self.report, self.report.more["timeline"]
        shown = [place for place, key in enumerate(KEYS) if any(phase[key] for phase in phases)]
        return report.sheet()._replace(
            columns=[
                Column("phase", numeric=False),
                *(Column(HEADINGS[place]) for place in shown),
                Column("most"),
                Column("share"),
            ],
            rows=[
                [
                    phase["phase"],
                    *(Bytes(phase[KEYS[place]]) for place in shown),
                    Bytes(phase["peak_bytes"]),
                    Share(phase["peak_bytes"], report.answer),
                ]
                for phase in phases
            ],
            notes=[STATES, *report.notes],
            legend={},
            depths=(),
            paths=(),
        )


STATES = (
    "states: weights, master weights, optimizer states, buffers and inputs, which are there all the time; "
    "activations: what backward still needs"
)
