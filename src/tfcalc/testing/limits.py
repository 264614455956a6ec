"""One model, one metric, and its limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfcalc.budgets.file import ModelEntry, Scenario
from tfcalc.budgets.limit_check import AmountFormat, describe, threshold, violated
from tfcalc.budgets.limits import EQUALS, MAX, MIN
from tfcalc.budgets.metric import read
from tfcalc.budgets.numbers import Numbers
from tfcalc.budgets.read import limits_of
from tfcalc.budgets.sources import Source
from tfcalc.catalog import from_config, load
from tfcalc.cli.asking import Asker
from tfcalc.cli.budget_options import NOT_RUN, known_options
from tfcalc.cli.commands import command
from tfcalc.cli.options import keyed
from tfcalc.cli.settings import read as read_value
from tfcalc.errors import TfcalcError, UsageError, nearest
from tfcalc.printable import printable, quoted

if TYPE_CHECKING:
    from tfcalc.budgets.metric import Metric
    from tfcalc.configs.published import HFModel
    from tfcalc.zoo.transformer import Transformer

    Given = str | os.PathLike[str] | Mapping[str, object] | Transformer | HFModel


def assert_budget(
    model: str | os.PathLike[str] | Mapping[str, object] | Transformer | HFModel,
    metric: str,
    *,
    max: int | float | str | None = None,
    min: int | float | str | None = None,
    equals: int | float | str | None = None,
    why: str = "",
    **options: str | int | float | bool,
) -> None:
    """Assert that a number of a model is within its limits.

    Neither TFCALC_* variables nor a tfcalc.toml have an effect on it.

    Args:
        model: a preset's name, a config.json or a folder with one, a Hub id; the fields of a config.json; or a model
            of tfcalc.
        metric: the path of a number in a JSON answer, as in tfcalc.toml: ``memory.peak_bytes``.
        max: the most that is allowed, as a number in the unit of the metric (parameters, FLOPs, bytes) or as text:
            ``"24GiB"``, ``"1.4B"``.
        min: the least that is allowed.
        equals: the only value that is allowed.
        why: the reason for the limit, which is shown where it is exceeded.
        options: options of the command that answers, by their keys in tfcalc.toml: ``train=True, seq="4k"``.

    Raises:
        AssertionError: a limit is exceeded; the text says by how much.
        UsageError: the metric, a limit or an option is not known, or has no effect.
        InvalidModel: there is no such model, or the options make no sense for it.
        Unavailable: a Hub id cannot be fetched.

    >>> assert_budget("llama-3-8b", "params.total_params", max="8.1B")
    >>> assert_budget("llama-3-8b", "memory.kv_cache_bytes", max="2GiB", serve=True, context="32k")
    Traceback (most recent call last):
    AssertionError: llama-3-8b, serve, context 32k: memory.kv_cache_bytes 4.00 GiB, at most 2GiB (max), 2.00 GiB over
    """
    __tracebackhide__ = True  # pytest shows the line that called it
    limits = {rule: limit for rule, limit in ((MAX, max), (MIN, min), (EQUALS, equals)) if limit is not None}
    try:
        exceeded = _exceeded(model, read(metric), limits, options)
    except TfcalcError as error:
        raise error.with_traceback(None) from None
    if exceeded:
        raise AssertionError(printable(exceeded + (f"; why: {why}" if why else "")))


def _exceeded(model: Given, metric: Metric, limits: Mapping[str, object], options: Mapping[str, object]) -> str:
    """Message about the first limit that is exceeded; empty where none is."""
    if not limits:
        raise UsageError(f"{metric} has no limit", "give max, min or equals")
    amounts = limits_of(limits, metric.unit)
    loaded, name = _loaded(model)
    scenario = Scenario(", ".join(map(_word, options, options.values())), _run(metric, options))
    numbers = Numbers(Asker(loaded=loaded), {scenario.name: scenario})
    value = numbers.of(Source(ModelEntry(name, None, name, {})), metric, scenario.name, {}).value
    for rule, limit in amounts.items():
        allowed = threshold(rule, limit, None)
        if violated(rule, value, allowed):
            what = ", ".join(part for part in (name, scenario.name) if part)
            return f"{what}: {metric} {describe(rule, limit, AmountFormat(metric.unit), value, None, allowed)}"
    return ""


def _loaded(model: Given) -> tuple[Transformer | HFModel, str]:
    """The model, and what a message calls it."""
    if isinstance(model, str | os.PathLike):
        name = os.fspath(model)
        return load(name), name
    found = from_config(model) if isinstance(model, Mapping) else model
    if not hasattr(found, "tree"):
        raise UsageError(f"{quoted(model)} is no model", "give a name, a path, the fields of a config.json, or a model")
    return found, getattr(found, "name", "") or found.summary


def _run(metric: Metric, options: Mapping[str, object]) -> dict[str, object]:
    """The options by their names. Raises UsageError for one that the command of the metric does not have."""
    by_name = {one.name: one for one in command(metric.command).options}
    known = {key: one.name for key, one in keyed(by_name.values()).items() if one.name not in NOT_RUN}
    found: dict[str, object] = {}
    for key, value in options.items():
        if key not in known:
            elsewhere = key in known_options().scenario
            hint = "leave it out" if elsewhere else nearest(key, known)
            raise UsageError(
                f"{metric}: option {quoted(key)} " + ("has no effect" if elsewhere else "is not known"), hint
            )
        if known[key] in found:
            raise UsageError(f"{metric}: option {quoted(key)} is given twice", "it has several names: leave one out")
        read_value(by_name[known[key]], value, key)  # what is a word of another command is no word of this one
        found[known[key]] = value
    return found


def _word(key: str, value: object) -> str:
    """``train``, ``seq 4k``."""
    return key if value is True else f"{key} {value}"
