"""A metric: one number of a JSON answer, by its path: ``memory.peak_bytes``, ``params.components.model.params``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted

COMMANDS = ("params", "flops", "memory", "overview")
"""The commands that are asked about one model, and answer with numbers."""
UNITS = ("params", "flops", "bytes")
NUMBERS = {
    "params": (
        *("total_params", "active_params", "embedding_params", "non_embedding_params", "trainable_params"),
        *("trainable_percent", "buffer_elements", "approx_params"),
    ),
    "flops": (
        *("forward_flops", "backward_flops", "recompute_flops", "model_flops", "total_flops", "matmul_flops"),
        *("elementwise_flops", "overcounted_flops", "exact_flops", "tokens", "flops_per_token"),
        *("training_flops", "training_forward_flops", "training_backward_flops", "training_recompute_flops"),
        *("training_tokens", "training_steps", "training_rest_tokens", "pf_days"),
        *("six_nd_flops", "six_nd_params", "six_nd_non_embedding_flops", "six_nd_non_embedding_params"),
        *("mfu", "hfu", "gpus", "tokens_per_second", "tokens_per_second_per_gpu"),
        *("model_flops_per_token", "hardware_flops_per_token", "peak_flops_per_second"),
    ),
    "memory": (
        *("total_bytes", "peak_bytes", "weights_bytes", "master_weights_bytes", "gradients_bytes", "optimizer_bytes"),
        *("activations_bytes", "kv_cache_bytes", "buffers_bytes", "workspaces_bytes", "outputs_bytes"),
        *("gathered_bytes", "communication_bytes", "temporary_bytes", "host_bytes"),
        *("allocated_high_bytes", "allocated_low_bytes", "device_bytes", "device_high_bytes", "device_low_bytes"),
        *("reserved_bytes", "reserved_high_bytes", "reserved_low_bytes"),
        *("headroom_bytes", "allocatable_bytes", "budget_bytes", "margin_percent"),
        *("largest_batch_size", "largest_seq_len", "largest_seq_len_exact"),
        *("largest_concurrency", "largest_context", "largest_context_exact"),
    ),
}
"""Keys at the top of an answer that only one of these commands has; they need no command in front of them."""
EVERYWHERE = ("components", "conventions", "model", "formula", "schema_version")
NAMED = ("components", "parts", "timeline", "phases")
"""Lists whose parts are known by their ``name``, or by their ``phase``."""

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
    return Metric(command or owner(keys[0]), keys)


def split(metric: str) -> tuple[str | None, tuple[str, ...]]:
    """The command that a path begins with, None where it has none, and its keys. Raises UsageError.

    >>> split("params.components.lm_head.params"), split("peak_bytes")
    (('params', ('components', 'lm_head', 'params')), (None, ('peak_bytes',)))
    """
    first, *others = metric.split(".")
    if first in COMMANDS:
        if not others:
            raise UsageError(f"metric {quoted(metric)} names no key", f"for example {first}.{_example(first)}")
        keys, command = others, first
    else:
        keys, command = [first, *others], None
    if not all(keys):
        raise UsageError(f"metric {quoted(metric)} has an empty part", "write it as memory.peak_bytes")
    if command is None and others and first not in {*EVERYWHERE, *(key for keys in NUMBERS.values() for key in keys)}:
        raise UsageError(f"metric {quoted(metric)}: {quoted(first)} is no command", nearest(first, COMMANDS))
    return command, tuple(keys)


def _example(command: str) -> str:
    return NUMBERS.get(command, ("total_params",))[0]


def owner(key: str) -> str:
    """The command whose answer alone has this key. Raises UsageError where there is none, or several have it.

    >>> owner("peak_bytes"), owner("trainable_params")
    ('memory', 'params')
    """
    if key in EVERYWHERE:
        several = " and ".join(f"{command}.{key}" for command in NUMBERS)
        raise UsageError(f"metric {quoted(key)} is ambiguous: {several}", "write the command in front of it")
    having = [command for command, keys in NUMBERS.items() if key in keys]
    if not having:
        known = [number for numbers in NUMBERS.values() for number in numbers]
        raise UsageError(f"metric {quoted(key)} is not known", nearest(key, known))
    return having[0]


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
    raise UsageError(f"{'.'.join(keys)} is no number but has parts", _known(_inside(found)))


def reach(answer: Mapping[str, object], keys: Sequence[str]) -> object:
    """What the keys lead to, a value or what has parts. Raises UsageError with the nearest keys where there is none."""
    found: object = answer
    passed: list[str] = []
    left = list(keys)
    while left:
        inside = _inside(found)
        taken = next((n for n in range(len(left), 0, -1) if ".".join(left[:n]) in inside), 0)
        if not taken:
            raise _missing(left[0], passed, inside)
        passed += left[:taken]
        found = inside[".".join(left[:taken])]
        left = left[taken:]
    return found


def _inside(value: object) -> dict[str, object]:
    """What a value has, by key; a component's parts stand beside its own keys, which come first."""
    if isinstance(value, Mapping):
        parts = [value[name] for name in NAMED[1:] if name in value]
        return {name: part for each in parts for name, part in _inside(each).items()} | dict(value)
    if isinstance(value, list | tuple):
        named = {str(place): part for place, part in enumerate(value)}
        for key in ("phase", "name"):
            names = [str(part.get(key, "")) if isinstance(part, Mapping) else "" for part in value]
            named |= {name: part for name, part in zip(names, value, strict=True) if name and names.count(name) == 1}
        return named
    return {}


def _missing(key: str, passed: Sequence[str], inside: Mapping[str, object]) -> UsageError:
    where = f" in {'.'.join(passed)}" if passed else ""
    if not inside:
        return UsageError(f"{quoted(key)} is not{where}, which has no parts", "name the metric without it")
    return UsageError(f"{quoted(key)} is not{where or ' in the answer'}", _known(inside, key))


def _known(inside: Iterable[str], key: str = "") -> str:
    """The nearest of the keys that are words."""
    return nearest(key, [name for name in inside if not name.isdigit()])
