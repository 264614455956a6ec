"""Settings files: budgets, models, scenarios and options in TOML, as people write it and with slips."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

from tfcalc import settings_file
from tfcalc.budgets import metric
from tfcalc.budgets.file import BudgetFile
from tfcalc.budgets.limits import RULES, amount, warning
from tfcalc.budgets.read import read_budgets
from tfcalc.cli.budget_options import known_options
from tfcalc.report.paths import ABOUT_ONE_MODEL
from tools.fuzz.material import SIZES, WORDS
from tools.fuzz.mutations import edited
from tools.fuzz.numbers import TEXTS
from tools.fuzz.parsed import holds, parsed

KNOWN = known_options()
OF_MODEL = [key for key in sorted(KNOWN.model) if key not in ("config", "preset")]
OF_SCENARIO = sorted(KNOWN.scenario)
NAMES = ["chat", "chat-large", "a b", "ü", "x.y", "7", "embed", "draft_1", "=cmd", "a*"]
METRICS = [
    *("memory.peak_bytes", "params.total_params", "total_params", "flops.total_flops", "memory.kv_cache_bytes"),
    *("params.components.model.layers.mlp.params", "flops.flops_per_token", "memory.timeline.forward.peak_bytes"),
    *("memory.total_bytes", "memory.weights_bytes", "trainable_params", "params.active_params"),
]
AMOUNTS: dict[str, list[object]] = {
    "bytes": ["24GiB", "80GB", "0.5TiB", 25769803776, "79.5 GiB"],
    "params": ["1.4B", "125M", 124439808, "4_096"],
    "flops": ["2T", "1.5e12", 136160477184],
}
VALUES: list[object] = [
    *(0, -1, 1, 512, 1.5, True, False, 10**18),
    *("", "x", "8", "4k", "bf16", "\x1b[31m", '"', "a\nb", "ü"),
]
ODD = [
    *("nan", "inf", "-inf", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z"),
    *("0x" + "f" * 3000, "9" * 1001, "9" * 4301),
    *("{}", "[]", "[1, [2]]", "{a = 1}", "'''\n'''", "1_000", "+1", "0b1", "[" * 60 + "]" * 60, "1e400", "-0.0", "''"),
]
OTHER_KEYS = ["warn", "modell", "version", "expires", "budget", "tool.tfcalc", "a.b.c"]
HEADERS = ["[budget]", "[[models]]", "[models]", "[scenarios.x]", "[[budget.x]]", "[[[", "[tool]", "[[budget]]"]
LIMITS = [*TEXTS, "10%", "2.5%", "1e3%"]
NO_LIMITS: list[object] = [10**400, 1e308, math.nan, math.inf, None, [1], {"a": 1}, date(2027, 1, 1)]
ANSWERED: list[dict[str, object]] = [
    {"preset": "gpt2"},
    {"config": "configs/chat.json"},
    {"config": "chat", "num_hidden_layers": 2},
    {"d_model": 64, "layers": 2, "vocab_size": 1000},
]
RUNS: list[dict[str, object]] = [
    {"train": True, "seq": 64},
    {"serve": True, "context": "1k"},
    {"train": True, "lora": 8, "batch": 2},
    {"attention": "causal"},
]


class File(NamedTuple):
    """A file that is right: its text, its name, what it says, and the lines of its budgets."""

    text: str
    path: str
    models: dict[str, dict[str, object]]
    scenarios: dict[str, dict[str, object]]
    budgets: list[dict[str, object]]
    lines: list[int]


def written(draw: random.Random, value: object) -> str:
    """A value as TOML has it, in one of its spellings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        plain = value.isprintable() and "'" not in value
        return f"'{value}'" if plain and draw.random() < 0.3 else json.dumps(value, ensure_ascii=draw.random() < 0.5)
    if isinstance(value, list):
        return "[" + draw.choice((", ", ",", ",\n  ")).join(written(draw, one) for one in value) + "]"
    if isinstance(value, int) and abs(value) > 999 and draw.random() < 0.3:
        return f"{value:_}"
    return str(value)


def _key(draw: random.Random, name: str) -> str:
    bare = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if bare and draw.random() < 0.8 else json.dumps(name)


def _table(draw: random.Random, header: str, values: Mapping[str, object]) -> str:
    equals = draw.choice((" = ", "=", "  =\t"))
    lines = [f"{header}{draw.choice(('', '', '  # [[budget]]'))}"]
    lines += [f"{_key(draw, name)}{equals}{written(draw, value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n" * draw.choice((1, 2))


def _options(draw: random.Random, known: Sequence[str], names: Mapping[str, str], most: int) -> dict[str, object]:
    """Some options, each by one of its names."""
    chosen = {names[key]: key for key in draw.sample(known, draw.randrange(1, most))}
    return {key: draw.choice((512, "4k", True, 1.5, "x", 7)) for key in chosen.values()}


def _model(draw: random.Random) -> dict[str, object]:
    found: dict[str, object] = {}
    if draw.random() < 0.4:
        found["config"] = draw.choice(("configs/chat.json", "chat", "./a b.json"))
    elif draw.random() < 0.7:
        found["preset"] = draw.choice(("gpt2", "llama-3-8b"))
    return {**found, **(_options(draw, OF_MODEL, KNOWN.model, 4) if not found or draw.random() < 0.5 else {})}


def _budget(draw: random.Random, models: list[str], scenarios: list[str]) -> dict[str, object]:
    path = draw.choice(METRICS)
    values: list[object] = AMOUNTS[metric.read(path).unit]
    rule = draw.choice(RULES)
    limit = "10%" if rule.startswith("max_") and draw.random() < 0.5 else draw.choice(values)
    count = 1 if len(models) < 2 else draw.choice((1, 1, 2))
    chosen = [draw.choice((name, name[:1] + "*", "*")) for name in draw.sample(models, count)]
    found: dict[str, object] = {"model": chosen if count > 1 else chosen[0], "metric": path, rule: limit}
    if scenarios and draw.random() < 0.6:
        found["scenario"] = draw.choice(scenarios)
    beside: tuple[tuple[float, str, object], ...] = (
        (0.4, "why", draw.choice(("one worker", "'[[budget]]'", "a\n[[budget]]\nb", "ü # x"))),
        (0.2, "severity", draw.choice(("error", "warning"))),
        (0.2, "expires", date(2027, 1, draw.randrange(1, 31))),
    )
    found |= {key: value for chance, key, value in beside if draw.random() < chance}
    return dict(draw.sample(sorted(found.items()), len(found)))


def right(draw: random.Random, *, answered: bool = False) -> File:
    """A file that is right, in one of the many ways to write it; ``answered``: and its questions make sense."""
    path = draw.choice(("tfcalc.toml", "tfcalc.toml", "pyproject.toml", "a/b/tfcalc.toml"))
    top = "tool.tfcalc." if path == "pyproject.toml" else ""
    models = {
        name: draw.choice(ANSWERED) if answered else _model(draw) for name in draw.sample(NAMES, draw.randrange(1, 4))
    }
    scenarios = {
        name: draw.choice(RUNS) if answered else _options(draw, OF_SCENARIO, KNOWN.scenario, 4)
        for name in draw.sample(NAMES, draw.randrange(3))
    }
    drawn = [_budget(draw, list(models), list(scenarios)) for _ in range(draw.randrange(int(answered), 4))]
    # two that are the same but for their spelling and their reason are a mistake
    budgets = list({(str(one["model"]), one["metric"], one.get("scenario")): one for one in drawn}.values())
    text = draw.choice(("", "# budgets\n\n"))
    values: dict[str, object] = {"version": 1} if draw.random() < 0.5 else {}
    if top:
        text += _table(draw, "[tool.tfcalc]", values)
    else:
        text += "".join(f"{key} = {value}\n" for key, value in values.items())
    if draw.random() < 0.3:
        text += _table(draw, f"[{top}conventions]", {"dtype": draw.choice(("bf16", "fp32"))})
    for kind, tables in (("models", models), ("scenarios", scenarios)):
        for name, table in tables.items():
            text += _table(draw, f"[{top}{kind}.{_key(draw, name)}]", table)
    lines = []
    for one in budgets:
        lines.append(text.count("\n") + 1)
        text += _table(draw, f"[[{top}budget]]", one)
    return File(text, path, models, scenarios, budgets, lines)


def budgets(draw: random.Random) -> None:
    """A file of budgets that is right is read as it was meant; one with a slip is read or refused."""
    file, known = right(draw), draw.choice((None, KNOWN))
    if draw.random() < 0.25:
        found = parsed("budgets", file.text, lambda: read_budgets(file.text, file.path, known), exits=(3,))
        _check(file, found)
        return
    text = slipped(draw, file)
    path = draw.choice(("tfcalc.toml", "pyproject.toml", file.path))
    found = parsed("budgets", text, lambda: read_budgets(text, path, known), exits=(3,))
    if found is None:
        return
    for one in found.budgets:
        holds("a budget has a limit", bool(one.limits) and {*one.limits} <= {*RULES}, text)
        holds("limits are not below 0", all(limit.value >= 0 for limit in one.limits.values()), text)
        holds(
            "a budget has a model",
            all(any(pattern == name or fnmatchcase(name, pattern) for name in found.models) for pattern in one.models),
            text,
        )
        holds("a budget's line is in the file", 1 <= one.line <= text.count("\n") + 1, text, one.line)


def _check(file: File, found: BudgetFile | None) -> None:
    holds("a right file is read", found is not None, file.text)
    if found is None:
        return
    names = {
        name: {key: one.get(key) for key in ("config", "preset")} | {"options": _named(one, KNOWN.model)}
        for name, one in file.models.items()
    }
    read = {
        name: {"config": one.config, "preset": one.preset, "options": _named(one.options, KNOWN.model)}
        for name, one in found.models.items()
    }
    holds("models are read as written", read == names, file.text, read, names)
    scenarios = {name: _named(one.options, KNOWN.scenario) for name, one in found.scenarios.items()}
    expected = {name: _named(one, KNOWN.scenario) for name, one in file.scenarios.items()}
    holds("scenarios are read as written", scenarios == expected, file.text, scenarios)
    holds("budgets' lines", [one.line for one in found.budgets] == file.lines, file.text, found.budgets, file.lines)
    for meant, one in zip(file.budgets, found.budgets, strict=False):
        patterns = meant["model"] if isinstance(meant["model"], list) else [meant["model"]]
        rules = {rule: str(meant[rule]) for rule in RULES if rule in meant}
        same = (
            list(one.models) == patterns
            and one.metric == meant["metric"]
            and one.scenario == meant.get("scenario")
            and {rule: limit.text for rule, limit in one.limits.items()} == rules
            and one.why == meant.get("why", "")
            and one.expires == meant.get("expires")
            and one.severity == meant.get("severity", "error")
        )
        holds("a budget is read as written", same, file.text, one, meant)


def _named(options: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    """By the options' names, whichever of their keys was written."""
    return {names[key]: value for key, value in options.items() if key not in ("config", "preset")}


def slipped(draw: random.Random, file: File) -> str:
    """Its text with a slip: an edit, another value, another key, another header, or twice."""
    kind = draw.random()
    lines = file.text.split("\n")
    place = draw.randrange(len(lines))
    if kind < 0.5:
        return edited(draw, file.text, [file.text, *WORDS[:40]])
    if kind < 0.8:  # another value behind some key
        filled = [number for number, line in enumerate(lines) if "=" in line]
        if filled:
            place = draw.choice(filled)
            key = lines[place].partition("=")[0]
            value = draw.choice(ODD) if draw.random() < 0.5 else written(draw, draw.choice((*VALUES, *TEXTS)))
            lines[place] = f"{key}= {value}"
    elif kind < 0.9:  # another key
        key = draw.choice(
            (*KNOWN.top(), *RULES, "warn", "modell", "version", "expires", "budget", "tool.tfcalc", "a.b.c")
        )
        lines.insert(place, f"{key} = {draw.choice((*ODD, '1', 'true'))}")
    elif kind < 0.95:
        lines[place] = draw.choice(HEADERS)
    else:
        lines = lines * 2
    return "\n".join(lines)


def limits(draw: random.Random) -> None:
    """A limit in each unit, and the path of a metric."""
    unit, rule = draw.choice(("params", "flops", "bytes", "")), draw.choice(RULES)
    value: object = edited(draw, str(draw.choice(LIMITS)), TEXTS)
    if draw.random() < 0.2:
        value = draw.choice((*VALUES, *NO_LIMITS))
    read = draw.choice((amount, warning))
    found = parsed("limit", value, lambda: read(value, rule, unit))
    if found is not None:
        size = found.value
        holds("a limit is a number from 0", 0 <= size <= 10**30 and size == size, value, found)
        holds("a limit has its own text", type(found.text) is str and found.text.strip() == found.text, value, found)
        if unit and not found.percent:
            holds("a limit with a unit is whole", type(size) is int, value, found)
    path = edited(draw, draw.choice(METRICS), [*METRICS, *SIZES])
    asked = parsed("metric", path, lambda: metric.read(path))
    if asked is not None:
        holds("a metric has a command and keys", asked.command in ABOUT_ONE_MODEL and all(asked.keys), path, asked)
        parsed("metric's value", path, lambda: metric.look_up(ANSWER, asked.keys))


ANSWER: dict[str, object] = {
    "total_params": 7,
    "peak_bytes": 9,
    "components": [
        {"name": "model", "params": 7, "parts": [{"name": "layers", "params": 5, "parts": []}]},
        {"name": "lm_head", "params": 2, "parts": []},
    ],
    "timeline": [{"phase": "forward", "peak_bytes": 3}, {"phase": "backward", "peak_bytes": 4}],
}


def settings_table(draw: random.Random) -> None:
    """The table of a settings file: of a right one it is there, of any other it is there or refused."""
    file = right(draw)
    text = file.text if draw.random() < 0.2 else slipped(draw, file)
    found = parsed("table", text, lambda: settings_file.table_of(text, file.path), exits=(3,))
    holds("a table is there", text is not file.text or found is not None or not file.text.strip(), text)
