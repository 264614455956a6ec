"""Paths of an answer's JSON: ``memory.peak_bytes``, ``params.components.model.params``, ``compare.models[1].heads``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted

COMMANDS = ("params", "flops", "memory", "overview")
"""The commands that are asked about one model, and answer with numbers."""
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
PARTS = ("parts", "timeline", "phases")
"""Lists whose parts stand beside the keys of what has them."""
LABELS = ("phase", "name", "key", "target", "path")
"""What the parts of a list are known by, where no other part has the same; a ``path`` only of what has no name."""
BRACKETS = re.compile(r"\[['\"]?([^\[\]]*?)['\"]?\]")

Step = str | int


class Place(NamedTuple):
    """Where keys lead: the ``steps`` of a program (keys, and places in lists), the ``value`` there.

    ``left`` are further keys, where the value is a single one.
    """

    steps: tuple[Step, ...]
    value: object
    left: tuple[str, ...] = ()


def dotted(path: str) -> str:
    """The path with a dot before each key.

    >>> dotted("compare.models[1].total_params"), dotted("diff.rows['total_params'].new")
    ('compare.models.1.total_params', 'diff.rows.total_params.new')
    """
    return BRACKETS.sub(r".\1", path)


def split(metric: str) -> tuple[str | None, tuple[str, ...]]:
    """The command that a path begins with, None where it has none, and its keys. Raises UsageError.

    >>> split("params.components.lm_head.params"), split("peak_bytes")
    (('params', ('components', 'lm_head', 'params')), (None, ('peak_bytes',)))
    """
    first, *others = dotted(metric).split(".")
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


def reach(answer: Mapping[str, object], keys: Sequence[str]) -> object:
    """What the keys lead to, a value or what has parts. Raises UsageError with the nearest keys where there is none."""
    found = locate(answer, keys)
    if found.left:
        passed = keys[: len(keys) - len(found.left)]
        raise UsageError(f"{quoted(found.left[0])} is not{_within(passed)}, which has no parts", "leave it out")
    return found.value


def locate(answer: Mapping[str, object], keys: Sequence[str]) -> Place:
    """Where the keys lead, as far as there are parts. Raises UsageError with the nearest keys where there is none.

    >>> locate({"models": [{"name": "gpt2", "layers": 12}]}, ["models", "gpt2", "layers", "more"])
    Place(steps=('models', 0, 'layers'), value=12, left=('more',))
    """
    found, left = Place((), answer), tuple(keys)
    while left:
        inside = _inside(found.value)
        taken = next((n for n in range(len(left), 0, -1) if ".".join(left[:n]) in inside), 0)
        if not taken and inside:
            passed = keys[: len(keys) - len(left)]
            raise UsageError(f"{quoted(left[0])} is not{_within(passed)}", nearest_key(found.value, left[0]))
        if not taken:
            return found._replace(left=left)
        steps, value = inside[".".join(left[:taken])]
        found, left = Place((*found.steps, *steps), value), left[taken:]
    return found


def nearest_key(value: object, key: str = "") -> str:
    """The nearest of the keys that are words, as a remedy."""
    return nearest(key, [name for name in _inside(value) if not name.isdigit()])


def _within(keys: Sequence[str]) -> str:
    return f" in {'.'.join(keys)}" if keys else " in the answer"


def _inside(value: object) -> dict[str, tuple[tuple[Step, ...], object]]:
    """What a value has, by key, with the steps to it; its own keys come before those of its parts."""
    if isinstance(value, Mapping):
        found = {
            name: ((key, *steps), part)
            for key in PARTS
            if key in value
            for name, (steps, part) in _inside(value[key]).items()
        }
        return found | {name: ((name,), part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        named: dict[str, tuple[tuple[Step, ...], object]] = {
            str(place): ((place,), part) for place, part in enumerate(value)
        }
        for label in LABELS:
            names = [_label(part, label) for part in value]
            named |= {
                name: ((place,), part)
                for place, (name, part) in enumerate(zip(names, value, strict=True))
                if name and names.count(name) == 1
            }
        return named
    return {}


def _label(part: object, label: str) -> str:
    if not isinstance(part, Mapping) or (label == "path" and "name" in part):
        return ""
    found = part.get(label, "")
    return found if isinstance(found, str) else ""
