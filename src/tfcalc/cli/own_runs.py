"""Runs of a server that the user measured, read from the file that was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.cli.commands.calibrate import described, file_text
from tfcalc.cli.messages import tell
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.timing.measured_runs import rows_of, unread
from tfcalc.timing.served_runs import KEYS, REMARKS, read_served

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.model import Model
    from tfcalc.timing.measured_runs import Row
    from tfcalc.timing.served_runs import ServedRuns

LARGEST_RUNS = 1 << 24


def own_runs(settings: Settings, model: Model, gpu: str, engine: str) -> ServedRuns:
    """Return the runs of this engine; their model and GPU are those asked about where a row names no other.

    Raises BadFile for what is no run, and UsageError where there is none.
    """
    place = settings.get("calibrate")
    rows = rows_of(file_text(place, LARGEST_RUNS), place)
    if further := unread((row for _, row in rows), KEYS, REMARKS):
        tell(f"tfcalc: keys that are not read: {quoted(', '.join(further))}", ascii_only=settings.get("ascii", False))

    def model_of(row: Row, at: str) -> Model:
        return described(row, at, None if row.get("model") else model)

    found = read_served(rows, model_of, gpu=gpu, engine=engine)
    if not found.runs:
        why = f": {found.unused[0].place} is {found.unused[0].why}" if found.unused else ""
        raise UsageError(f"{quoted(place)} has no run of {quoted(engine)}{why}", "say --engine as the rows do")
    return found
