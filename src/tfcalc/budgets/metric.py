"""A metric: one number of a JSON answer, by its path: ``memory.peak_bytes``, ``params.components.model.params``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfcalc.answers.metrics import check_key, owner, split
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.paths import nearest_key, reach

UNITS = ("params", "flops", "bytes")
Number = int | float | str | bool


class Metric(NamedTuple):
    """The command that is asked, and the keys that lead to the number in its answer."""

    command: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.command, *self.keys))

    @property
    def unit(self) -> str:
        """``params``, ``flops`` or ``bytes``, by the last key that says so; empty where none does.

        >>> read("memory.peak_bytes").unit, read("flops.components.model.layers.flops").unit, read("tokens").unit
        ('bytes', 'flops', '')
        >>> read("overview.weights_bytes.bf16").unit, read("overview.kv_cache_bytes_per_token").unit
        ('bytes', 'bytes')
        """
        for key in reversed(self.keys):
            words = key.split("_")
            if found := next((unit for unit in UNITS if unit in words), ""):
                return "" if "percent" in words else found
        return ""


def read(metric: str) -> Metric:
    """The metric of this path. Raises UsageError where no command has it, or several have.

    >>> read("memory.peak_bytes"), read("total_params")
    (Metric(command='memory', keys=('peak_bytes',)), Metric(command='params', keys=('total_params',)))
    """
    command, keys = split(metric)
    if command is not None and len(keys) == 1:
        check_key(command, keys[0])
    return Metric(command or owner(keys[0]), keys)


def look_up(answer: Mapping[str, object], keys: Sequence[str]) -> Number:
    """The value that the keys lead to, lists of components by the names of their parts, or by place: ``layers.0``.

    Raises UsageError with the nearest keys at the point where there is none, or where it is not a single value.

    >>> look_up({"components": [{"name": "model", "params": 7}]}, ["components", "model", "params"])
    7
    """
    found = reach(answer, keys)
    if isinstance(found, int | float | str):
        return found
    if found is None:
        raise UsageError(f"{'.'.join(keys)} has no value here", "name a key with a number")
    raise UsageError(f"{'.'.join(keys)} is no number but has parts", nearest_key(found))
