"""Numbers of an answer that follow from others of the same answer: sums of parts, and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.number_rules import RULES
from tfcalc.errors import UsageError
from tfcalc.report.derivation import Derivation, Term
from tfcalc.report.opened import number
from tfcalc.report.opening import Constant, Named, Number, Rule, ratio, total

if TYPE_CHECKING:
    from tfcalc.analysis.asked import Asked


def of_parts(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A component whose number is that of its parts together; or its closed form, where it has none."""
    if keys[0] != "components" or value == 0:
        return None
    entry = asked.reach(keys[:-1])
    parts = [(str(part["name"]), part.get(keys[-1])) for part in entry.get("parts", [])]
    numbers = [amount for _, amount in parts if isinstance(amount, int | float)]
    above, of = asked.path(*keys[:-1]), keys[-1]
    if parts and len(numbers) == len(parts) and sum(numbers) == value:
        terms = tuple(Term(f"{above}.{name}.{of}", amount) for (name, _), amount in zip(parts, numbers, strict=True))
        return _derived(keys, value, asked, total_of(terms), terms, ())
    formula = str(entry.get("formula", ""))
    return asked.told(keys, value, "formula", "its closed form", formula=formula)


def listed(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A row of the workload counted by other conventions, or a change that would fit."""
    row = asked.reach(keys[:-1]) if keys[0] in ("compared", "changes") else {}
    own = ".".join(keys[:-1])
    match keys[0], keys[-1]:
        case "compared", "ratio":
            return _by(ratio(f"{own}.flops", over=("exact_flops",)), keys, value, asked)
        case "compared", "flops":
            note = f"{row['convention']}: {row['reference']}"
            return asked.told(keys, value, "formula", note, formula=row["formula"])
        case "changes", "headroom_bytes":
            return _by(total("budget_bytes", less=f"{own}.total_bytes"), keys, value, asked)
        case "changes", "total_bytes":
            what = f"the same question with {row['flags']}"
            found = asked.told(keys, value, "answer", f"total_bytes of {what}")
            return replace(found, terms=(Term("memory.total_bytes", value, what),))
    return None


def _by(rule: Rule, keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """What the rule says, where it gives the number."""
    terms, others = (tuple(_terms(names, asked)) for names in (rule.terms, rule.others))
    gives = rule.gives(value, [each.value for each in terms], [each.value for each in others])
    return _derived(keys, value, asked, rule, terms, others) if gives else None


def partly_trained(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """6ND where some of the parameters are frozen, which are multiplied twice and not three times."""
    if len(keys) > 1 or not keys[0].startswith("six_nd") or not keys[0].endswith("_flops"):
        return None
    params, tokens = asked.reach([keys[0].replace("_flops", "_params")]), asked.reach(["training_tokens"])
    frozen = 4 * params * tokens
    terms = (
        Constant(frozen, "4ND: each of N forward, and backward to its input"),
        Constant(value - frozen, "2TD: T are trained"),
    )
    return _by(total(*terms), keys, value, asked)


def total_of(terms: Sequence[Term]) -> Rule:
    """Their sum."""
    return Rule("sum", tuple(each.path for each in terms))


def ruled(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """What the first rule that gives the number says."""
    rules = RULES.get(asked.command, {}).get(keys[0], ()) if len(keys) == 1 else ()
    if len(keys) > 1 and keys[0] == "timeline" and keys[-1] == "peak_bytes":
        beside = asked.reach(keys[:-1])
        terms = tuple(
            Term(asked.path(*keys[:-1], name), amount)
            for name, amount in beside.items()
            if name.endswith("_bytes") and name != "peak_bytes"
        )
        return _derived(keys, value, asked, total_of(terms), terms, ())
    for rule in rules:
        try:
            if (found := _by(rule, keys, value, asked)) is not None:
                return found
        except UsageError:
            continue
    return None


def _terms(names: Sequence[Named], asked: Asked) -> Iterator[Term]:
    for name in names:
        if isinstance(name, Constant):
            yield Term("", name.value, name.what)
        elif "[]" in name:
            entries, _, key = name.partition("[].")
            for part in asked.answer[entries]:
                yield Term(asked.path(entries, part["name"], key), part[key])
        else:
            keys = name.split(".")
            yield Term(asked.path(name), number(keys, asked.reach(keys)))


def _derived(
    keys: Sequence[str], value: Number, asked: Asked, rule: Rule, terms: Sequence[Term], others: Sequence[Term]
) -> Derivation:
    both = (*terms, *others)
    notes = [f"{each.value:,} {each.what}" for each in both if not each.path]
    return replace(
        asked.told(keys, value, rule.how, "; ".join(notes)),
        terms=both,
        formula=rule.written([_short(each, asked) for each in terms], [_short(each, asked) for each in others]),
        substituted=rule.written([str(each.value) for each in terms], [str(each.value) for each in others]),
    )


def _short(term: Term, asked: Asked) -> str:
    """The key alone, without its command; a component's with the end of its path."""
    return term.path.removeprefix(asked.path("")) if term.path else str(term.value)
