"""The same answer in every format, and its formulas at the sizes."""

from __future__ import annotations

import collections
import csv
import io
import re
from fractions import Fraction
from typing import Any

from tfcalc.core.polynomial import Polynomial
from tfcalc.model import values as values_of
from tfcalc.printable import printable
from tools.fuzz.checks import ANSWER, look, unit_of
from tools.fuzz.findings import FOUND
from tools.fuzz.program import call


def across_formats(argv: list[str], stdin: bytes, found: dict[str, Any]) -> None:
    """-q, csv, plain, markdown and a narrow table say what the JSON says."""
    name = str(found.get("command"))
    shown = (argv, stdin[:600])
    quiet = call([*argv, "-q"], stdin=stdin)
    look([*argv, "-q"], quiet, stdin=stdin)
    q = quiet.out.decode().rstrip("\n")
    if "training_flops" in found:
        expected = str(found["training_flops"])
    elif "mfu" in found:
        expected = f"{found['mfu']:,.4g}"
    elif "compared" in found:
        expected = str(found["exact_flops"])
    elif name == "formula":
        expected = found["formula"]
    elif name == "explain":
        expected = str(next(value for key, value in found.items() if key.startswith("total_")))
    else:
        expected = str(found[ANSWER[name]])
    FOUND.checked["quiet"] += 1
    if q != expected:
        FOUND.bug("format-quiet", f"{name}: -q differs from JSON", (shown, q, expected))
    plain = call([*argv, "--format", "plain"], stdin=stdin)
    look([*argv, "--format", "plain"], plain, stdin=stdin)
    if name in ANSWER and not {"fits", "training_flops", "mfu", "compared"} & set(found):
        title = plain.out.decode().split("\n", 1)[0]
        if not says(name, title, found[ANSWER[name]]):
            FOUND.bug("format-plain", f"{name}: the title has another number", (shown, title))
        table = call([*argv, "--format", "csv"], stdin=stdin)
        look([*argv, "--format", "csv"], table, stdin=stdin)
        rows = list(csv.DictReader(io.StringIO(table.out.decode())))
        FOUND.checked["csv"] += 1
        timeline = "--timeline" in argv
        if not timeline:
            if not rows or rows[0]["total"] != str(found[ANSWER[name]]):
                FOUND.bug("format-csv", f"{name}: the first row is not the total", (shown, rows[:1]))
            by_path: dict[str, list[int]] = collections.defaultdict(list)
            unit = unit_of(name, found)
            stack = list(found["components"])
            while stack:
                part = stack.pop()
                by_path[printable(part["path"])].append(part[unit])
                stack += part["parts"]
            for row in rows[1:]:
                if None in row or row.get("path") is None:
                    FOUND.bug("format-csv", "a row has more or fewer cells than the head", (shown, row))
                    continue
                if int(row["total"]) not in by_path.get(row["path"], []):
                    FOUND.bug("format-csv", f"{name}: a row that the JSON does not have", (shown, row))
                if int(row["count"]) * int(row["each"]) != int(row["total"]):
                    FOUND.bug("format-csv", f"{name}: count x each is not the total", (shown, row))
            if len(rows) - 1 != sum(map(len, by_path.values())):
                FOUND.bug("format-csv", f"{name}: other rows than the JSON's", (shown, len(rows) - 1, len(by_path)))
    narrow = call(argv, stdin=stdin, env={"COLUMNS": "33"})
    look([*argv, "# COLUMNS=33"], narrow, stdin=stdin, allow="narrow")
    if name in ANSWER and not {"fits", "training_flops", "mfu", "compared"} & set(found) and narrow.ok:
        squeezed = re.sub(r"\s", "", narrow.out.decode())
        if not says(name, squeezed, found[ANSWER[name]]):
            FOUND.bug("format-table", f"{name}: the number is cut in 33 columns", shown)
    for form in ("markdown", "latex"):
        other = call([*argv, "--format", form], stdin=stdin)
        look([*argv, "--format", form], other, stdin=stdin)
        if form == "markdown" and other.ok:
            lines = [line for line in other.out.decode().split("\n") if line.startswith("|")]
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
            if len(cells) > 1:
                FOUND.bug("format-markdown", f"{name}: rows with other numbers of cells", (shown, cells))
    ascii_only = call([*argv, "--ascii"], stdin=stdin)
    look([*argv, "--ascii"], ascii_only, stdin=stdin)
    if ascii_only.ok and not ascii_only.out.isascii():
        FOUND.bug(
            "format-ascii",
            f"{name}: beyond ASCII with --ascii",
            (shown, re.findall(rb"[^\x00-\x7f]+", ascii_only.out)[:3]),
        )


SCALES = {"B": 1, "": 1} | {letter: 1000**power for power, letter in enumerate("kMGTPE", 1)}
SCALES |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)}
SCALES |= {f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)}
HEADING = re.compile(r"([\d,]+(?:\.(\d+))?(?:e([+-]\d+))?)\s*([KMGTPEk]?i?B?)")


def says(name: str, heading: str, exact: int) -> bool:
    """Whether a heading begins with this number, rounded in its last digit; parameters are there in full.

    >>> says("memory", "75.4 GiB peak", 80_960_000_000), says("flops", "1.93GFLOPs", 1_926_000_000)
    (True, True)
    >>> says("memory", "18.5MiBpeak", 19_503_514), says("params", "1.29k parameters (1,288)", 1_289)
    (False, False)
    """
    if name == "params":
        return f"{exact:,}" in heading
    shown = HEADING.match(heading)
    if shown is None:
        return False
    scale = Fraction(SCALES[shown[4]]) * Fraction(10) ** int(shown[3] or 0)
    number = Fraction(shown[1].replace(",", "").partition("e")[0]) * scale
    last: Fraction = scale / 10 ** len(shown[2] or "")
    return abs(number - exact) <= last / 2


def formulas(report: Any, *described: Any, shown: object = "") -> None:
    """Each row's formula at the sizes is the row's number."""
    sizes = values_of(*described)
    for entry in report.whole.walk():
        try:
            value = entry.formula.at(sizes)
        except Exception as error:
            FOUND.bug("formula", f"evaluation: {type(error).__name__} {error}", (shown, entry.path))
            return
        FOUND.checked["formulas"] += 1
        if isinstance(value, Polynomial):
            left = value.free_symbols - set("τρμ")
            if left:
                FOUND.bug("formula", f"letters without a size: {sorted(left)}", (shown, entry.path, entry.written()))
            if value.free_symbols:
                return
            value = value.terms.get((), 0)
        if value != entry.value:
            FOUND.bug(
                "formula",
                f"{report.command}: formula of {entry.kind} at its sizes differs",
                (shown, entry.path, value, entry.value, entry.written()),
            )
            return
        if entry.counted and entry.each * entry.counted != entry.value:
            FOUND.bug(
                "sum-each",
                f"{report.command}: count x each of {entry.kind}",
                (shown, entry.path, entry.counted, entry.each, entry.value),
            )
