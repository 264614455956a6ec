"""What holds for every run, and for every answer in JSON."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from typing import Any

from tools.fuzz.arithmetic import evaluated
from tools.fuzz.findings import FOUND, shorten
from tools.fuzz.limits import GROWTH, LIMIT, promised
from tools.fuzz.program import WATCH, Outcome, alone, call

COLOUR = re.compile("\x1b\\[[\\d;]*m")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")

WARNING = re.compile(
    r"tfcalc: (.* is not a field of a .* config; did you mean|not read as .*; what they stand for is not counted$)"
)
"""What is said of a config beside an answer."""


def look(
    argv: list[str], outcome: Outcome, *, stdin: bytes = b"", env: dict[str, str] | None = None, allow: str = ""
) -> None:
    """What holds for every run."""
    FOUND.calls += 1
    FOUND.exits[str(outcome.code)] += 1
    shown = (argv, {"stdin": stdin[:400]} if stdin else "", env or "")
    out, err = outcome.out.decode("utf-8", "replace"), outcome.err.decode("utf-8", "replace")
    if outcome.crash == "hang":
        FOUND.bug("hang", f"no answer after {LIMIT} s: {' '.join(argv)[:80]}", shown)
        return
    if outcome.crash:
        FOUND.bug("uncaught", outcome.crash.strip().splitlines()[-1], (shown, outcome.crash))
        return
    FOUND.timed(" ".join(argv[:1]), outcome.seconds, shown)
    promise = promised(argv, env or {})
    words = [one for one in argv if not one.startswith("# ")]  # what stands behind it is for us
    if seconds := WATCH.slow(outcome.seconds, promise, lambda: alone(words, stdin=stdin, env=env)):
        FOUND.bug("slow", f"{argv[0]} takes over {promise:.0f} s", (shown, seconds))
    if outcome.code == 70 and "MemoryError" in err:
        FOUND.bug("memory", f"{argv[0]} asks for more than {GROWTH >> 20} MB", shown)
        return
    if outcome.code == 70:
        FOUND.bug("exit-70", place_of(argv, stdin, env) or err, (shown, err), exact=True)
        return
    if outcome.code not in (0, 1, 2, 3, 4):
        FOUND.bug("exit-code", str(outcome.code), shown)
    if outcome.code == 1 and not (argv[:1] in MAY_SAY_NO or _limited(argv, env or {})):
        FOUND.bug("exit-code", f"1 from {argv[:1]}", (shown, err))
    lines = err.split("\n")
    warnings = [line for line in lines if WARNING.match(line)]
    for first, second in pairwise(lines):
        if re.match(r".* is not a field of a .* config; did you mean", second) and second not in warnings:
            FOUND.bug("warning-of-two-lines", "a key of the config breaks the line", shown)
            warnings += [first, second]
    rest = [line for line in lines[:-1] if line not in warnings]
    not_comparable = outcome.code == 3 and argv[:1] == ["budget"] and out  # which is an answer
    if outcome.code in (2, 3, 4) and not not_comparable:
        if out:
            FOUND.bug("stdout-on-error", out[:80], shown)
        # with no arguments there is a short help of several lines, which is promised
        if len(rest) != 1 and argv:
            FOUND.bug("error-lines", f"{len(rest)} lines: {rest[:3]}", shown)
        for line in rest:
            if len(line) > 600:
                FOUND.bug("error-long", "more than 600 characters", (len(line), shown))
            as_json = line.startswith("{")
            if as_json:
                try:
                    if set(json.loads(line)) != {"code", "message", "hint"}:
                        FOUND.bug("error-json", line, shown)
                except ValueError:
                    FOUND.bug("error-json", line[:200], shown)
            elif argv and not line.startswith("tfcalc: "):
                FOUND.bug("error-lines", f"begins otherwise: {line[:80]}", shown)
    elif outcome.code in (0, 1, 3):
        if rest:
            FOUND.bug("stderr-on-success", rest[0][:200], shown)
        wrote = any(one in ("-o", "--output") or one.startswith("--output=") for one in argv) or (
            env and "TFCALC_OUTPUT" in env
        )
        if not out and not wrote and "file" not in allow and argv[:1] != ["diff"]:
            FOUND.bug("no-answer", "exit 0 and nothing on stdout", shown)
        if "-q" in argv and out.strip() in ("0", "nan", "inf") and argv[0] in ("params",):
            FOUND.bug("zero-answer", out.strip(), shown)
    if "Traceback (most recent" in err or "Traceback (most recent" in out:
        FOUND.bug("traceback", err[-300:], shown)
    given = {**(env or {})}
    coloured = "FORCE_COLOR" in given or any("always" in one for one in (*argv, *given.values()))
    for name, text in (("stdout", out), ("stderr", err)):
        found = CONTROL.search(COLOUR.sub("", text) if coloured else text)
        if found and "--help" not in argv and "-h" not in argv:
            place = found.start()
            typed = any(CONTROL.search(one) for one in argv) or any(CONTROL.search(one) for one in (env or {}).values())
            FOUND.bug(
                "control-characters" if not typed else "control-characters-typed",
                f"{name} {' '.join(argv[:1])}: U+{ord(found[0]):04X}",
                (shown, text[max(0, place - 60) : place + 30]),
                exact=True,
            )
    for event in WATCH.events:
        if event.startswith("write") and (
            "'-'" in event or any(one in event for one in ("out.txt", "'.'", "''", "nowhere", "/dev/null"))
        ):
            continue
        FOUND.bug("side-effect", event, shown)


MAY_SAY_NO = [
    [name] for name in ("verify", "check", "explain", "quiz", "why", "solve", "design", "budget", "check-budget")
]


def _limited(argv: list[str], env: dict[str, str]) -> bool:
    """Whether the answer is held against something that it may exceed."""
    flags = {one.partition("=")[0] for one in argv}
    typed = flags & {"--budget", "--gpu", "--max"} or env.keys() & {"TFCALC_BUDGET", "TFCALC_GPU", "TFCALC_MAX"}
    return bool(typed or re.search(r"\b(budget|gpu|max)\b", env.get("toml", "")))


def place_of(argv: list[str], stdin: bytes, env: dict[str, str] | None) -> str:
    """Where an internal error came from: the same again with the traceback."""
    env = {key: value for key, value in (env or {}).items() if key != "toml"}
    again = call([*argv, "--debug"] if argv else argv, stdin=stdin, env={**env, "TFCALC_DEBUG": "1"})
    if not again.crash or again.crash == "hang":
        return ""
    frames = re.findall(r'File "([^"]*tfcalc/[^"]*)", line (\d+), in (\S+)', again.crash)
    where = f"{frames[-1][0].rpartition('tfcalc/')[2]}:{frames[-1][1]} {frames[-1][2]}" if frames else ""
    return f"{shorten(again.crash.strip().splitlines()[-1])} at {where}"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"doubled key {key!r}")
        found[key] = value
    return found


def _constant(word: str) -> None:
    raise ValueError(f"constant {word}")


TRAINED = "trainable_params"
TAKEN_OFF = ("already freed", "not yet computed")
"""Components of a peak that are below 0: what the one above them has in all, and is not there at that moment."""

ANSWER = {"params": "total_params", "flops": "total_flops", "memory": "total_bytes"}
UNSURE = 0.8
"""Part of a card below which an allocation fits: fragments add a quarter at most."""
MAY_BE_NEGATIVE = ("headroom_bytes", "headroom_flops", "headroom_params")
FITTED = ("compute_flops", "optimal_params")
"""Keys of what is given, or fitted, and no whole number."""


def whole(text: str, argv: list[str], stdin: bytes = b"") -> dict[str, Any] | None:
    """The JSON that was answered, checked."""
    shown = (argv, stdin[:600])
    try:
        found: dict[str, Any] = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant)
    except ValueError as error:
        FOUND.bug("json-invalid", str(error)[:100], shown)
        return None
    FOUND.checked["json"] += 1
    for key, value in found.items():
        if key.endswith(("_params", "_flops", "_bytes", "_elements")) or key == "tokens":
            if key.endswith("flops_per_token") or value is None or key.startswith(FITTED) or isinstance(value, dict):
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                FOUND.bug("json-float", f"{key} {type(value).__name__}", (shown, value))
            elif value < 0 and key not in MAY_BE_NEGATIVE:
                FOUND.bug("json-negative", key, (shown, value))
        if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
            FOUND.bug("json-nan", key, shown)
    name = found.get("command")
    total = found.get(ANSWER.get(str(name), ""))
    if name in ANSWER and total is not None:
        if total <= 0 and not (name == "flops" and total == 0 and _has_reason(argv, stdin)):
            FOUND.bug("json-zero", f"{name} {ANSWER[name]} {total}", shown)
        components = found.get("components")
        if components is not None:
            by = found.get("conventions", {})
            other = name == "flops" and (by.get("phase") == "train" or by.get("count") == "all")
            expected = total
            if other and sum(part["flops"] for part in components) != total:
                FOUND.bug(
                    "json-components-of-another-count",
                    f"phase {by['phase']}, count {by['count']}",
                    (shown, sum(part["flops"] for part in components), total),
                )
                expected = sum(part["flops"] for part in components)
            unit = unit_of(name, found)
            _components(components, unit, found[unit] if unit == TRAINED else expected, shown, name)
    if name == "params" and "embedding_params" in found:
        if found["embedding_params"] + found["non_embedding_params"] != total:
            FOUND.bug("sum-params", "embedding + non_embedding != total", shown)
        if not 0 <= found["active_params"] <= total:
            FOUND.bug("sum-params", "active > total", (shown, found["active_params"], total))
        if not 0 <= found["trainable_params"] <= total:
            FOUND.bug("sum-params", "trainable > total", (shown, found["trainable_params"], total))
    if name == "flops" and "forward_flops" in found:
        parts = found["forward_flops"] + found["backward_flops"] + found["recompute_flops"]
        if parts != total:
            FOUND.bug("sum-flops", "forward + backward + recompute != total", (shown, parts, total))
        if found["model_flops"] + found["recompute_flops"] != total:
            FOUND.bug("sum-flops", "model + recompute != total", shown)
    if name == "memory":
        _memory(found, shown)
    if name == "explain":
        _explained(found, shown)
    return found


def unit_of(name: str, found: dict[str, Any]) -> str:
    """What components add up to: where a part is trained, these parameters, and no others are listed."""
    if name == "params" and "trainable_percent" in found:
        return TRAINED
    return {"params": "params", "flops": "flops", "memory": "bytes"}[name]


def _has_reason(argv: list[str], stdin: bytes) -> bool:
    """Whether the same answer for people says why there is nothing."""
    table = call([one for one in argv if one != "--json"], stdin=stdin)
    return table.out.startswith(b"0: nothing of it runs")


def _explained(found: dict[str, Any], shown: object) -> None:
    """The lines add up; what is put in comes to the answer; each line is the product of its factors."""
    unit, total = next((key, value) for key, value in found.items() if key.startswith("total_"))
    unit = unit.removeprefix("total_")
    if sum(line[unit] for line in found["items"]) != total:
        FOUND.bug("sum-explain", "the lines do not add up", (shown, total))
    for line in found["items"]:
        if line[unit] != line["copies"] * len(line["names"]) * math.prod(line["factors"]):
            FOUND.bug("sum-explain", f"a line of {unit} is not the product of its factors", (shown, line))
    try:
        value = evaluated(found["substituted"])
    except (IndexError, ValueError, ZeroDivisionError):
        FOUND.bug("fuzzer", "substituted formula not read", (shown, found["substituted"][:300]))
        return
    FOUND.checked["substituted" if value is not None else "substituted (not read)"] += 1
    if value is not None and value != total:
        FOUND.bug(
            "formula",
            f"explain: what is substituted does not come to the answer ({unit})",
            (shown, found["substituted"][:400], str(value), total),
        )


def _components(components: list[dict[str, Any]], unit: str, total: int, shown: object, command_name: str) -> None:
    """Each a whole number; those at the top add up; those inside another are no more than it."""
    top = 0
    stack = list(components)
    for part in components:
        top += part.get(unit, 0)
    while stack:
        part = stack.pop()
        value = part.get(unit)
        if isinstance(value, bool) or not isinstance(value, int):
            FOUND.bug("json-float", f"component {unit} {type(value).__name__}", (shown, part.get("path")))
            continue
        if not isinstance(part["copies"], int) or part["copies"] < 0:
            FOUND.bug("json-float", "component copies", (shown, part.get("path"), part["copies"]))
        if value < 0 and part["name"] not in TAKEN_OFF:
            FOUND.bug("json-negative", f"component {part['name']}", (shown, part.get("path"), value))
        for key in ("params", "flops", "bytes", "active_params", "approx_params"):
            if (
                key in part
                and (isinstance(part[key], bool) or not isinstance(part[key], int) or part[key] < 0)
                and key != unit
            ):
                FOUND.bug("json-negative", f"component's {key}", (shown, part.get("path"), part[key]))
        if part["parts"]:
            inner = sum(one.get(unit, 0) for one in part["parts"])
            if inner != value:
                FOUND.bug(
                    "sum-components",
                    f"{command_name}: parts of {'memory term' if unit == 'bytes' else part['kind']} do not add up"
                    if inner < value
                    else f"{command_name}: parts of {part['kind']} exceed it",
                    (shown, part.get("path"), value, inner),
                )
        stack += part["parts"]
    if components and top != total:
        FOUND.bug(
            "sum-components", f"{command_name}: the top components do not add up to the total", (shown, top, total)
        )


def _memory(found: dict[str, Any], shown: object) -> None:
    total = found["total_bytes"]
    if "timeline" in found:
        phases = found["timeline"]
        if max(phase["peak_bytes"] for phase in phases) != total:
            FOUND.bug("sum-memory", "the highest phase is not the peak", (shown, phases, total))
        for phase in phases:
            parts = sum(phase[key] for key in phase if key.endswith("_bytes") and key != "peak_bytes")
            if parts != phase["peak_bytes"]:
                FOUND.bug("sum-memory", f"a phase is not the sum of its columns: {phase['phase']}", (shown, phase))
            for key, value in phase.items():
                if key != "phase" and (not isinstance(value, int) or value < 0):
                    FOUND.bug("json-negative", f"timeline {key}", (shown, phase))
    elif found["conventions"].get("phase") == "serve":
        parts = found["weights_bytes"] + found["kv_cache_bytes"] + found["buffers_bytes"] + found["temporary_bytes"]
        if parts != total:
            FOUND.bug("sum-memory", "weights + cache + buffers + temporary != total of serving", (shown, parts, total))
    elif (
        str(found["conventions"].get("phase", "")).startswith("at rest")
        and found["weights_bytes"] + found["buffers_bytes"] != total
    ):
        FOUND.bug("sum-memory", "weights + buffers != total at rest", shown)
    if "headroom_bytes" in found:
        # what is reserved may not fit though what is allocated does, and the verdict says so
        unsure = found["verdict"].startswith("MAY NOT FIT")
        should = found["headroom_bytes"] >= 0 and not unsure
        if found["headroom_bytes"] != found["budget_bytes"] - total or found["fits"] != should:
            FOUND.bug("sum-memory", "headroom", shown)
        for change in found["changes"]:
            part = change["total_bytes"] / found["budget_bytes"]
            if (change["fits"] and part > 1) or (not change["fits"] and part < UNSURE) or part <= 0:
                FOUND.bug("sum-memory", "a change's verdict", (shown, change))
