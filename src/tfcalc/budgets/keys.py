"""The keys of a file of budgets, each declared once: the reader, the schema and the documents go by this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfcalc.answers.metrics import HEADLINES
from tfcalc.budgets.limits import EQUALS, FITS_GPU, MAX, MAX_DECREASE, MAX_INCREASE, MIN
from tfcalc.named_tuple import NamedTuple

VERSION = 1
ERROR, WARNING = SEVERITIES = ("error", "warning")

MOST = 500
"""Models, scenarios or budgets of one file."""
MOST_PATTERNS = 20
"""Patterns of models in one budget."""
LONGEST_NAME = 100
"""Characters of the name of a model or a scenario."""

TEXT, TEXTS, AMOUNT, DATE, TABLE, TABLES, LIST = "text", "texts", "amount", "date", "table", "tables", "list"
"""What a key holds; ``texts`` are one or a list, ``tables`` one for each name."""


class BudgetKey(NamedTuple):
    """A key: what it holds, what that means, and how one writes it; ``known`` are all words that it may have."""

    name: str
    kind: str
    meaning: str
    example: object
    needed: bool = False
    known: tuple[object, ...] = ()


class KnownOptions(NamedTuple):
    """The options that a file may set, their names by their keys: at its top, of a model, and of a scenario.

    Those at the top are all that there are, and are looked for only where the file has something there.
    """

    top: Callable[[], Mapping[str, str]]
    model: Mapping[str, str]
    scenario: Mapping[str, str]


TOP = (
    BudgetKey("version", "version", "version of the file's format", VERSION, known=(VERSION,)),
    BudgetKey(
        "conventions", TABLE, "definitions that hold for every budget, whatever variables say", {"dtype": "bf16"}
    ),
    BudgetKey(
        "models", TABLES, "the models, by the names that budgets have for them", {"chat": {"preset": "llama-3-8b"}}
    ),
    BudgetKey("prices", TABLE, "US dollars for a GPU and an hour, by the GPU's name: of train and plan", {"h100": 2.5}),
    BudgetKey("scenarios", TABLES, "what is run: options of params, flops and memory", {"tune": {"train": True}}),
    BudgetKey(
        "budget",
        LIST,
        "a limit for a metric of some models, or several",
        {"model": "*", "metric": HEADLINES["params"].key},
    ),
)
MODEL = (
    BudgetKey("config", TEXT, "a config.json, or a folder with one, relative to this file", "configs/chat.json"),
    BudgetKey("preset", TEXT, "the name of a preset (tfcalc models)", "llama-3-8b"),
)
BUDGET = (
    BudgetKey("model", TEXTS, "names of [models], or patterns of them: chat*", "chat*", needed=True),
    BudgetKey("scenario", TEXT, "one of [scenarios]; without one the commands' defaults hold", "finetune"),
    BudgetKey("metric", TEXT, "what is limited: COMMAND.KEY of a JSON answer", HEADLINES["peak"].path),
    BudgetKey(MAX, AMOUNT, "the most that is allowed", "24GiB"),
    BudgetKey(MIN, AMOUNT, "the least that is allowed", "1.4B"),
    BudgetKey(EQUALS, AMOUNT, "the only value that is allowed", 124439808),
    BudgetKey(MAX_INCREASE, AMOUNT, "how much more than before is allowed: an amount or a percentage", "10%"),
    BudgetKey(MAX_DECREASE, AMOUNT, "how much less than before is allowed: an amount or a percentage", "5M"),
    BudgetKey(
        FITS_GPU,
        TEXT,
        "instead of a metric and its limit: the card to fit on, by the verdict of memory --gpu",
        "h100",
    ),
    BudgetKey(
        "warn", AMOUNT, "beyond this there is a warning; written as the limit, of which there is one only", "20GiB"
    ),
    BudgetKey(
        "severity", TEXT, "what it is to be over the budget: error (exit 1) or warning", WARNING, known=SEVERITIES
    ),
    BudgetKey("why", TEXT, "the reason, which is shown with the result", "one RTX 4090 per worker"),
    BudgetKey("expires", DATE, "from this date on the budget has expired, and fails by its severity", "2027-01-31"),
)
