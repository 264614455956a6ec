"""Formulas and conditions as people write them, read without executing anything.

A formula is what a textbook prints or a student types: ``4h² + 4h``, ``3*d**2 + 4*d``, ``4lbh(2h + l)``. A condition
compares two of them: ``attention = ffn``, ``memory <= 80GiB``, ``1B <= params < 2B``::

    conditions = formula compare formula [ compare formula ]
    compare    = "=" | "==" | "<=" | ">=" | "<" | ">" | "≤" | "≥"
    formula    = [ sign ] product { sign product }
    sign       = "+" | "-" | "−" | "–"
    product    = factor { times factor | over factor | follower }
    times      = "*" | "·" | "⋅" | "×" | "x" (where x is no name)
    over       = "/" | "÷"
    follower   = a power that does not begin with a number       (a product without a sign: 4lbh, n(h + 1))
    factor     = [ sign ] power
    power      = atom [ ( "^" | "**" ) exponent | superscripts ]
    exponent   = [ sign ] power                                  (a whole number from -16 to 16)
    atom       = number | name | "(" formula ")" | "⌊" formula "⌋" | "floor(" formula ")"
               | "min(" formula "," formula ")"
    number     = digits, with 4_096 or 4,096, a decimal point, or 1e12
    quantity   = number with a unit right behind it: 128k, 1.4B, 80GiB          (in conditions, for a number)
    name       = a letter, then letters, digits and "_"; in conditions also dotted paths: model.layers[0-2].mlp

``floor`` and ``min`` are there because tfcalc prints them. Adjacent letters are read as names that are
known, the longest first: ``lbh`` is l·b·h, ``3d_ffd_model`` is 3·d_ff·d_model. ``h/2a`` is refused, because it can be
read in two ways. A text is at most ``LONGEST`` characters, brackets nest at most ``DEEPEST`` times, and
what is expanded has bounded size (``expansion``), so that every text is read in bounded time and memory.
"""

from tfcalc.expressions.expansion import Ratio, expanded, settled
from tfcalc.expressions.nodes import Expression, evaluate, names_of
from tfcalc.expressions.reader import Condition, read_conditions, read_formula

__all__ = [
    "Condition",
    "Expression",
    "Ratio",
    "evaluate",
    "expanded",
    "names_of",
    "read_conditions",
    "read_formula",
    "settled",
]
