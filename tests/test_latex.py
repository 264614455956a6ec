"""The LaTeX of formulas parses, and what it says is the number.

It is read by latex2sympy2_extended, which knows nothing of tfcalc. To it e is 2.718… and I a root of −1, so letters are
renamed first, each on its own: letters that ran into each other would not be found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from latex2sympy2_extended import latex2sympy  # type: ignore[import-untyped]  # it has no types

from tfcalc import formula, formulas, load
from tfcalc.analysis.common import default_run
from tfcalc.catalog import index
from tfcalc.core.notation import LATEX
from tfcalc.core.number import Num
from tfcalc.report.style import Style
from tfcalc.symbolic import to_sympy

ONE_OF_EACH_FAMILY = list({listed.family: name for name, listed in index().items()}.values())
SOME = ["gpt2", "llama-3-8b", "deepseek-v3", "mamba2-780m", *ONE_OF_EACH_FAMILY[::10]]
"""The parser takes a second for a long formula; ``make explore`` reads them all."""
LETTER = re.compile(r"\\mathrm\{[^{}]*\}|(?<![\\A-Za-z])[A-Za-z](?:_\{[^}]*\})?(?![A-Za-z])")
STYLE = Style(script="latex")


def value(text: str, at: Mapping[str, Num]) -> Any:
    """What the LaTeX is worth where each letter has this value."""
    places = {LATEX.symbol(letter): place for place, letter in enumerate(at)}
    parsed = latex2sympy(LETTER.sub(lambda found: f"x_{{{places[found[0]]}}}", text))
    named = {str(symbol): symbol for symbol in parsed.free_symbols}
    known = {f"x_{{{place}}}": size for place, size in enumerate(at.values())}
    known |= {f"x_{place}": size for place, size in enumerate(at.values())}
    return parsed.subs({symbol: known[name] for name, symbol in named.items()})


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", SOME if settings().derandomize else ONE_OF_EACH_FAMILY)
def test_the_latex_of_a_layer_is_its_number(name: str) -> None:
    model = load(name)
    at = {**model.values(), **default_run(model).values()}
    parts = formulas(model).parts
    for part in parts:
        if "layer" in part.target:
            assert value(STYLE.formula(part.forms.params), at) == part.params, part.path
            flops = to_sympy(part.forms.flops)
            sizes = {symbol: at[str(symbol)] for symbol in flops.free_symbols}
            assert value(STYLE.formula(part.forms.flops), at) == flops.subs(sizes), part.path


def test_the_parser_reads_what_a_person_reads() -> None:
    """4lbh(2h + l) at l = 3, b = 5, h = 7, by hand."""
    text = formula("mha", "flops").latex()
    assert value(text, {"l": 3, "b": 5, "h": 7}) == 4 * 3 * 5 * 7 * (2 * 7 + 3)
