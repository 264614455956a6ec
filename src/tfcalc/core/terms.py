"""Terms of a printed formula, and its breaking into lines."""


def wrap(formula: str, width: int) -> list[str]:
    """Break a printed formula into lines of at most ``width`` columns, each but the first beginning with its sign.

    Lines break at the ``+`` and ``-`` between terms; within a term wider than a line, at those inside its brackets.
    Names and products are not broken, so a line with a wide one is wider.

    >>> wrap("n(28h² + 32h) + (4 + 2V)h", 20)
    ['n(28h² + 32h)', '+ (4 + 2V)h']
    >>> wrap("n(28h² + 32h) + (4 + 2V)h", 12)
    ['n(28h²', '+ 32h)', '+ (4 + 2V)h']
    """
    lines: list[str] = []
    for piece in _pieces(formula, width):
        if lines and len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines


def terms(formula: str) -> list[str]:
    """Return the terms of a printed sum, each but the first with its sign.

    >>> terms("n(28h² + 32h) - h")
    ['n(28h² + 32h)', '- h']
    """
    return _cut(formula, [index for index, depth in _signs(formula) if depth == 0])


def _pieces(formula: str, width: int) -> list[str]:
    """Return the pieces that are not broken: the terms that fit, and the inner terms of those that do not."""
    signs = _signs(formula)
    if len(formula) <= width or not signs:
        return [formula]
    outermost = min(depth for _, depth in signs)
    parts = _cut(formula, [index for index, depth in signs if depth == outermost])
    return [piece for part in parts for piece in _pieces(part, width)]


def _signs(formula: str) -> list[tuple[int, int]]:
    """Return the index of each plus or minus between two terms, and its depth in brackets."""
    signs, depth = [], 0
    for index, character in enumerate(formula):
        depth += (character in "(⌊") - (character in ")⌋")
        if formula[index - 1 : index + 2] in (" + ", " - "):
            signs.append((index, depth))
    return signs


def _cut(formula: str, places: list[int]) -> list[str]:
    return [formula[start:end].rstrip() for start, end in zip([0, *places], [*places, None], strict=True)]
