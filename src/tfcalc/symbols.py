"""From sizes to symbols and back: the same model with ``h`` where it has 512."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from tfcalc.core.guarded import Guards, guarded
from tfcalc.core.letters import spelled
from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.core.traced import traced, value_of
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.model import Sized


T = TypeVar("T", bound="Sized")


def with_symbols(described: T, make: Callable[[str], Num] = symbol, *, general: bool = False) -> T:
    """A model or workload with a symbol for every size that was given or assumed.

    A size that follows from others keeps following from them (``d_ff = 4h``), unless ``general`` asks for a symbol of
    its own. ``make`` turns a letter into a symbol: tfcalc's own by default, or ``sympy.Symbol``.

    >>> from tfcalc.workload import Workload
    >>> with_symbols(Workload(batch_size=8)).batch_size
    b
    """
    present = described.values()
    symbolic = {
        name: make(known.symbol)
        for name, known in described.dimensions().items()
        if known.symbol in present or (general and known.follows)
    }
    return described.replaced(**symbolic)


def remembering(described: T, *, widths: bool = False) -> T:
    """A model or workload whose sizes remember their letters, so that what is made of them has a value and a formula.

    With ``widths`` those that follow from others by arithmetic (``d = h/a``, ``f = 4h``) have letters of their own.

    >>> from tfcalc.workload import Workload
    >>> remembering(Workload(batch_size=8)).target.tokens
    4096 = b*l
    """
    if widths:
        sizes, given = described.described(), described.values()
        apart = {
            name: cast("int", sizes[name])
            for name, known in described.dimensions().items()
            if len(known.follows) > 1 and known.symbol not in given
        }
        described = described.replaced(**apart)
    known = described.values()
    return with_symbols(described, lambda letter: traced(letter, value_of(known[letter])))


def guarding(described: T, guards: Guards) -> T:
    """The same, whose sizes also remember in ``guards`` what is decided by them."""
    known = described.values()
    return with_symbols(described, lambda letter: guarded(letter, value_of(known[letter]), guards))


def values(*described: Sized) -> dict[str, Num]:
    """What each symbol stands for: ``{"h": 512, …}``, of the sizes that were given or assumed.

    >>> from tfcalc.workload import Workload
    >>> values(Workload(batch_size=8, seq_len=1024))
    {'b': 8, 'l': 1024}
    """
    return {letter: value for one in described for letter, value in one.values().items()}


def spellings(*described: Sized, notation: str = "lbhn") -> dict[str, str]:
    """The letter of each size, by every name that it goes by: its field, its options, and how a notation spells it.

    >>> from tfcalc.workload import Workload
    >>> known = spellings(Workload(), notation="bsld")
    >>> known["L"], known["seq_len"], known["seq"], "l" in known
    ('l', 'l', 'l', False)
    """
    sizes = [(one, name, size) for one in described for name, size in one.dimensions().items()]
    return {
        called: size.symbol
        for one, name, size in sizes
        for called in (name, *one.also_called(name), *(flag.strip("-").replace("-", "_") for flag in size.flags))
    } | {spelled(size.symbol, notation): size.symbol for _, _, size in sizes}


def letters(names: Iterable[str], *described: Sized, notation: str = "lbhn") -> dict[str, str]:
    """The letter of each of these sizes, which go by name or by how a notation spells the letter.

    Raises UsageError for one that is no size, with the notation's letter where another notation's is given.

    >>> from tfcalc.workload import Workload
    >>> letters(["batch_size", "l"], Workload()), letters(["L"], Workload(), notation="bsld")
    ({'batch_size': 'b', 'l': 'l'}, {'L': 'l'})
    """
    known = spellings(*described, notation=notation)
    own = {size.symbol for one in described for size in one.dimensions().values()}
    for name in names:
        if name in known:
            continue
        if name in own:
            raise UsageError(f"{name!r} is no letter of notation {notation}", f"write {spelled(name, notation)}")
        raise UsageError(f"symbol {name!r} is not known", nearest(name, known))
    return {name: known[name] for name in names}


def own_letters(others: Mapping[str, str], *described: Sized, notation: str = "lbhn") -> dict[str, str]:
    """The user's own letter for each letter: ``{"h": "d"}`` for sizes by name or by how a notation spells them.

    Raises UsageError for a size that is not known, or where an own letter is no letter or is given twice.

    >>> from tfcalc.workload import Workload
    >>> own_letters({"seq": "n", "b": "B"}, Workload())
    {'l': 'n', 'b': 'B'}
    """
    by_name = letters(others, *described, notation=notation)
    for other in others.values():
        if not LETTER.fullmatch(other):
            raise UsageError(f"{quoted(other)} cannot be a letter", "write letters as h=d,l=n")
        if list(others.values()).count(other) > 1:
            raise UsageError(f"{quoted(other)} is given for two sizes", "give each a letter of its own")
    found = {by_name[name]: other for name, other in others.items()}
    if len(found) < len(others):
        raise UsageError(f"{' and '.join(map(quoted, others))} name one size twice", "give it one letter")
    return found


LETTER = re.compile("[A-Za-zα-ωΑ-Ω][A-Za-zα-ωΑ-Ω0-9_]*")


def legend(used: frozenset[str], *described: Sized) -> dict[str, str]:
    """What each of these letters means, in the order of the fields."""
    return {
        known.symbol: known.meaning for one in described for known in one.dimensions().values() if known.symbol in used
    }
