"""Prices of GPUs as the user has them: by --price, or by [prices] of the settings file."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.cli.options import Option
from tfcalc.cli.settings import FILE, Settings
from tfcalc.errors import BadFile, UsageError
from tfcalc.printable import quoted
from tfcalc.settings_file import PRICES, find, working_folder
from tfcalc.timing.rates import NO_PRICES, Price, own_prices

MOST_PRICES = 100
PRICE = Option(
    "price",
    ("--price",),
    "US dollars for a GPU and an hour [default: [prices] of tfcalc.toml, a dated list]",
    amount=True,
    front=True,
    hourly=True,
)


def prices_of(settings: Settings) -> Mapping[str, Price]:
    """Return the prices of the settings file, unless one was typed. Raises BadFile for what is none.

    A price decides on nothing that is written or run, so that it may be in a file that is found.
    """
    given = settings.given.get("price")
    folder = working_folder()
    file = find(folder) if folder and not (given and given.source != FILE) else None
    table = file.table.get(PRICES) if file else None
    if file is None or table is None:
        return NO_PRICES
    if not isinstance(table, dict) or len(table) > MOST_PRICES:
        raise BadFile(f"{file.path}: {PRICES} {quoted(table)} is no table of prices", "write [prices] and h100 = 2.50")
    try:
        return own_prices(table, f"[{PRICES}] of {file.path.name}")
    except UsageError as error:
        raise BadFile(f"{file.path}: {PRICES}: {error.message}", error.hint) from None
