"""Parts of an answer: a breakdown with formulas, laid out as a sheet, before it has a format."""

from tfcalc.report.declared import SCHEMA_VERSION
from tfcalc.report.report import (
    BLOCKS,
    Entry,
    Footer,
    Report,
    Summary,
    breakdown,
    exact,
    polynomial,
)

__all__ = [
    "BLOCKS",
    "SCHEMA_VERSION",
    "Entry",
    "Footer",
    "Report",
    "Summary",
    "breakdown",
    "exact",
    "polynomial",
]
