"""Conventions behind a number: each is part of the answer, and most can be switched.

See formulas.md for the effect of each alternative, and for who uses it.
"""

from tfcalc.dimensions import Described, Shown, choice, described
from tfcalc.number_formats import FLOATS_ELSEWHERE, NUMBERS

DTYPES = ("fp32", "fp16", "bf16", "fp8", "int8", "int4")
"""Number formats for all weights of a model."""

AUTO = "auto"
OPERATIONS = ("matmul", "all")
SYSTEMS = ("iec", "si")


@described()
class Conventions(Described):
    """Conventions for counting operations, storing weights, and printing bytes."""

    count: str = choice(
        "operations counted: matrix products only, or all",
        "--count",
        default="matmul",
        known=OPERATIONS,
        shown=Shown("workload"),
    )
    dtype: str = choice(
        "number format of the weights at rest; auto: the checkpoint's own, fp32 for the model without a name",
        "--dtype",
        default=AUTO,
        known=(AUTO, *DTYPES),
        spellings=FLOATS_ELSEWHERE,
        shown=Shown("model"),
    )
    units: str = choice(
        "GiB = 2^30 bytes (iec) or GB = 10^9 (si)", "--units", default="iec", known=SYSTEMS, shown=Shown("output")
    )

    @property
    def bits(self) -> int:
        """Bits per weight, if ``dtype`` is not auto."""
        return NUMBERS[self.dtype].bits
