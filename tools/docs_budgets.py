"""The generated tables of docs/budgets.md: ``<!-- budgets TABLE -->`` to ``<!-- end -->``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfcalc.answers.metrics import WITHOUT_COMMAND, numbers
from tfcalc.budgets.keys import BUDGET, LIST, MODEL, TABLE, TABLES, TOP, BudgetKey
from tfcalc.cli.budget_options import of_model, of_scenario
from tfcalc.cli.options import Option


def keys(of: Iterable[BudgetKey]) -> Iterator[str]:
    """Each key, how one writes it, and what it means."""
    yield "| key | written | meaning |"
    yield "| --- | --- | --- |"
    for key in of:
        needed = "; needed" if key.needed else ""
        yield f"| `{key.name}` | {_written(key)} | {key.meaning}{needed} |"


def _written(key: BudgetKey) -> str:
    if key.kind in (TABLE, TABLES):
        return f"`[{key.name}{'.NAME' * (key.kind == TABLES)}]`"
    if key.kind == LIST:
        return f"`[[{key.name}]]`"
    example = f'"{key.example}"' if isinstance(key.example, str) and key.kind != "date" else str(key.example)
    return f"`{example}`"


def options(of: Iterable[Option]) -> Iterator[str]:
    """The first key of each option, and its help."""
    yield "| key | meaning |"
    yield "| --- | --- |"
    for option in of:
        yield f"| `{option.keys[0]}` | {option.help.replace('|', chr(92) + '|')} |"


def metrics() -> Iterator[str]:
    """The numbers that are known without their command."""
    yield "| command | keys |"
    yield "| --- | --- |"
    for name in WITHOUT_COMMAND:
        yield f"| `{name}` | {', '.join(f'`{key}`' for key in numbers(name))} |"


TABLES_OF_BUDGETS: dict[str, Callable[[], Iterator[str]]] = {
    "file": lambda: keys(TOP),
    "model": lambda: keys(MODEL),
    "budget": lambda: keys(BUDGET),
    "model-options": lambda: options(of_model()),
    "scenario-options": lambda: options(of_scenario()),
    "metrics": metrics,
}
