"""What an answer is made of: a breakdown with formulas, laid out as a sheet, before it has a format."""

from tfcalc.report.report import (
    BLOCKS,
    SCHEMA_VERSION,
    Entry,
    Footer,
    Outline,
    Report,
    Summary,
    breakdown,
    exact,
    head,
    polynomial,
)

__all__ = [
    "BLOCKS",
    "SCHEMA_VERSION",
    "Entry",
    "Footer",
    "Outline",
    "Report",
    "Summary",
    "breakdown",
    "exact",
    "head",
    "polynomial",
]
