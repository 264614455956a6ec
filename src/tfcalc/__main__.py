"""``python -m tfcalc`` is the same program as ``tfcalc``."""

from tfcalc.cli.main import entry

entry()
