"""What is said beside the answer: a line on the standard error, in any encoding."""

from __future__ import annotations

import sys

from tfcalc.printable import printable


def tell(line: str, *, ascii_only: bool = False) -> None:
    """Write one line to the standard error, if there is one, in ASCII where it has no more or no more is wanted."""
    if sys.stderr is None:
        return
    line, encoding = printable(line), sys.stderr.encoding or "utf-8"
    if ascii_only or line != line.encode(encoding, "ignore").decode(encoding):
        from tfcalc.report.ascii import in_ascii

        line, encoding = in_ascii(line), "ascii" if ascii_only else encoding
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
