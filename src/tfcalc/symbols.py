"""From sizes to symbols and back: the same model with ``h`` where it has 512."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from tfcalc.core.letters import spelled
from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.core.traced import traced, value_of
from tfcalc.errors import UsageError, nearest

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


def remembering(described: T) -> T:
    """A model or workload whose sizes remember their letters, so that what is made of them has a value and a formula.

    >>> from tfcalc.workload import Workload
    >>> remembering(Workload(batch_size=8)).target.tokens
    4096 = b*l
    """
    known = described.values()
    return with_symbols(described, lambda letter: traced(letter, value_of(known[letter])))


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


def legend(used: frozenset[str], *described: Sized) -> dict[str, str]:
    """What each of these letters means, in the order of the fields."""
    return {
        known.symbol: known.meaning for one in described for known in one.dimensions().values() if known.symbol in used
    }
