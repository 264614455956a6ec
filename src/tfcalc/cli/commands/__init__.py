"""The commands, one file each: what it asks, with which options. One that is not called is not imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tfcalc.cli.options import Option
    from tfcalc.report.answer import Answered

OVERVIEW = "overview"
"""The command that answers where a model stands in the place of one."""
_BY_SECTION = {
    "Count": {
        OVERVIEW: "Show a model at a glance, as tfcalc MODEL does.",
        "params": "Count parameters, component by component, with formulas.",
        "flops": "Count FLOPs: a forward pass, a training step or run, one decoded token.",
        "memory": "Memory of the weights, of a training step, or of serving, term by term.",
        "fit": "Which GPUs a model fits on, trained or served, and with which change (on none: exit 1).",
    },
    "Train and serve": {
        "train": "A training run: fits or with which change (exit 0, 1), hours with a band, money; on which GPU.",
        "serve": "A served model: fits (exit 0; not, or late: 1), the floor of a token, an estimate with a band, cost.",
        "plan": "Layouts of training over GPUs: the fastest that fits (exit 0; none: 1), seconds, days, money.",
        "calibrate": "Fit the rates of train and plan to logs of your own runs (disagree: exit 1).",
        "ranks": "What one GPU of each pipeline stage stores, computes and sends in training.",
    },
    "Compare and guard": {
        "compare": "Models, configs or option sets side by side, and how they differ.",
        "diff": "What changed in a config, and what each change moves: parameters, FLOPs, memory.",
        "budget": "Hold the limits of tfcalc.toml: within (exit 0), over (1), not comparable (3). Also: check-budget.",
        "init": "Write a first tfcalc.toml with budgets, from the configs below this folder.",
    },
    "Explain and solve": {
        "formula": "Print the closed form of a quantity, with its legend.",
        "check": "Check a formula: right (exit 0), or what it lacks and why (1).",
        "design": "Shapes for a budget of parameters, FLOPs or memory, best first; the best size for a training.",
        "explain": "Show how one number is computed, matrix by matrix.",
        "solve": "The size at which a condition on parameters, FLOPs or memory holds; none does: exit 1.",
        "why": "Name the conventions that give a number: found (exit 0), or none does (1).",
        "shapes": "List what a part makes on the way: each result with its axes, sizes and FLOPs.",
        "sweep": "One quantity at many sizes at once: a table, CSV, Parquet, or a chart.",
        "plot": "Draw how parts grow with a size, and where one passes another.",
    },
    "Verify, learn, look up": {
        "verify": "Compare with PyTorch, a checkpoint, your own class: agrees (exit 0), differs (1), out of reach (4).",
        "quiz": "Exercises by a seed, and grades for your answers: right (exit 0), wrong (1).",
        "models": "List the presets and the supported model types.",
        "gpus": "List the GPUs: memory, bandwidth, peaks, links, prices, with their sources.",
        "schema": "Print the JSON Schema of an answer, or of tfcalc.toml: every key with its type and meaning.",
    },
}
SECTIONS = {section: tuple(commands) for section, commands in _BY_SECTION.items()}
"""Names of the commands in each section of the help."""
COMMANDS = {name: text for commands in _BY_SECTION.values() for name, text in commands.items()}
"""What each command does, in a line."""


QUESTION = "question"
GROUPS = {
    QUESTION: "What is asked",
    "workload": "Workload",
    "training": "Training",
    "serving": "Serving",
    "gpus": "GPUs",
    "model": "Sizes of the model",
    "output": "Output",
}
"""Groups of options in the help, in their order, each with its heading."""


MOST_UNITS = 520_000
"""What an answer may spend (:mod:`tfcalc.core.traced`): most spend a hundredth of it, and a hundred layers of which no
two are alike a fifth."""


def _success(_: Answered) -> int:
    return 0


class Command(NamedTuple):
    """A command: ``answer`` computes its answer; ``examples`` come first in its help, and a test runs each.

    ``code`` is the exit code of an answer, ``write`` how it leaves the program, if not as all others do. What is asked
    may depend on the words of the command line: ``by_words`` is the command that they mean. ``entries`` is the JSON
    object for those who read few of its entries, if there is a shorter way to these. ``most`` is what it may spend.
    """

    answer: Callable[[Any], Answered]
    """Of the settings (:class:`~tfcalc.cli.settings.Settings`), which know all commands."""
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    code: Callable[[Answered], int] = _success
    write: Callable[[Any, Any], None] | None = None
    by_words: Callable[[Sequence[str]], Command] | None = None
    entries: Callable[[Any], Mapping[str, Any]] | None = None
    most: float = MOST_UNITS

    def meant(self, words: Sequence[str]) -> Command:
        """The command that these words mean: this one, or another one that it opens the answer of."""
        return self if self.by_words is None else self.by_words(words)


def command(name: str) -> Command:
    """The command of this name, imported now."""
    return cast(Command, import_module(f"tfcalc.cli.commands.{name}").COMMAND)


def every() -> Iterator[Option]:
    """The options of all commands, each command imported when its turn comes."""
    for name in COMMANDS:
        yield from command(name).options
