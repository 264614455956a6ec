"""Metrics: numbers of answers by their paths, ``memory.peak_bytes``; a key of one command alone needs no command."""

from __future__ import annotations

from functools import cache
from typing import Any

from tfcalc.errors import UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.paths import ABOUT_IT, ABOUT_ONE_MODEL, dotted
from tfcalc.schemas import classes

WITHOUT_COMMAND = ABOUT_ONE_MODEL[:3]
"""Those whose keys need no command in front of them."""
EVERYWHERE = (*ABOUT_IT, "components", "formula")
"""Keys that all of these have."""
NUMBER_TYPES = ("integer", "number")


class Headline(NamedTuple):
    """Number that answers what is asked of a model: the ``key`` of a ``command``'s answer, its unit and its words."""

    command: str
    key: str
    unit: str
    words: str

    @property
    def path(self) -> str:
        """Name as a metric: ``memory.peak_bytes``."""
        return f"{self.command}.{self.key}"


HEADLINES = {
    "params": Headline("params", "total_params", "params", "parameters"),
    "trainable": Headline("params", "trainable_params", "params", "trainable parameters"),
    "flops": Headline("flops", "total_flops", "flops", "FLOPs"),
    "memory": Headline("memory", "total_bytes", "bytes", "memory at rest"),
    "peak": Headline("memory", "peak_bytes", "bytes", "peak memory"),
    "cache": Headline("memory", "kv_cache_bytes", "bytes", "KV cache"),
}
"""Headlines by what is asked for."""


@cache
def numbers(command: str) -> tuple[str, ...]:
    """The keys of numbers at the top of a command's answer, in whichever of its forms.

    >>> numbers("params")[:2]
    ('total_params', 'trainable_params')
    """
    found: dict[str, Any] = {}
    for form in classes(command):
        found |= {name: key.schema.get("type") for name, key in form.keys.items()}
    return tuple(name for name, types in found.items() if _counts(types))


def _counts(types: Any) -> bool:
    return any(each in NUMBER_TYPES for each in ([types] if isinstance(types, str) else types or ()))


def check_key(command: str, key: str) -> None:
    """Raise UsageError, with the nearest, where no form of a command's answer has this key.

    >>> check_key("memory", "peak_byte")
    Traceback (most recent call last):
    tfcalc.errors.UsageError: metric 'memory.peak_byte' is not known; did you mean memory.peak_bytes?
    """
    if not any(key in form.keys for form in classes(command)):
        known = [f"{command}.{number}" for number in numbers(command)]
        raise UsageError(f"metric {quoted(f'{command}.{key}')} is not known", nearest(f"{command}.{key}", known))


def having(key: str) -> str | None:
    """The command whose answer alone has this key; None where there is none.

    A key of memory has an underscore, so that for a word without one nothing of memory is loaded.
    """
    commands = WITHOUT_COMMAND if "_" in key else WITHOUT_COMMAND[:2]
    return next((command for command in commands if key in numbers(command)), None)


def split(metric: str) -> tuple[str | None, tuple[str, ...]]:
    """The command that a path begins with, None where it has none, and its keys. Raises UsageError.

    >>> split("params.components.lm_head.params"), split("peak_bytes")
    (('params', ('components', 'lm_head', 'params')), (None, ('peak_bytes',)))
    """
    first, *others = dotted(metric).split(".")
    if first in ABOUT_ONE_MODEL:
        if not others:
            raise UsageError(f"metric {quoted(metric)} names no key", f"for example {first}.{numbers(first)[0]}")
        keys, command = others, first
    else:
        keys, command = [first, *others], None
    if not all(keys):
        raise UsageError(f"metric {quoted(metric)} has an empty part", f"write it as {HEADLINES['peak'].path}")
    if command is None and others and first not in EVERYWHERE and having(first) is None:
        raise UsageError(f"metric {quoted(metric)}: {quoted(first)} is no command", nearest(first, ABOUT_ONE_MODEL))
    return command, tuple(keys)


def owner(key: str) -> str:
    """The command whose answer alone has this key. Raises UsageError where there is none, or several have it.

    >>> owner("peak_bytes"), owner("trainable_params")
    ('memory', 'params')
    """
    if key in EVERYWHERE:
        several = " and ".join(f"{command}.{key}" for command in WITHOUT_COMMAND)
        raise UsageError(f"metric {quoted(key)} is ambiguous: {several}", "write the command in front of it")
    if (command := having(key)) is not None:
        return command
    known = [number for command in WITHOUT_COMMAND for number in numbers(command)]
    raise UsageError(f"metric {quoted(key)} is not known", nearest(key, known))
