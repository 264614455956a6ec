"""Random problems for solve, each answered by trying every size: ``python -m tests.solving.problems 1000 7``.

What a side is at a size is asked of the commands' own answers (`params`, `flops`, `memory`, `training`), not of solve.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tfcalc import Serving, Training, Transformer, Workload, flops, load, memory, params, solve
from tfcalc.answers.flops_of_run import flops_of_run as training_run
from tfcalc.errors import TfcalcError
from tfcalc.report import Report
from tfcalc.solving.answer import Solved

PRESETS = (
    *("gpt2", "llama-3-8b", "llama-2-7b", "mistral-7b-v0.1", "mixtral-8x7b", "qwen2-7b", "qwen3-8b", "gemma-2-9b"),
    *(
        "gemma-3-270m",
        "phi-2",
        "pythia-160m",
        "opt-125m",
        "bert-base-uncased",
        "roberta-base",
        "distilbert-base-uncased",
    ),
    *("t5-small", "bart-base", "gpt-neo-1.3b", "falcon-7b", "mpt-7b", "bloom-560m", "olmo-7b", "deepseek-v2-lite"),
    *("deepseek-v3", "whisper-tiny", "smollm-135m", "starcoder2-3b", "stablelm-2-12b"),
)
TRAINED = ("gpt2", "smollm-135m", "bert-base-uncased", "opt-125m", "pythia-160m")
SERVED = ("gpt2", "smollm-135m", "llama-3-8b", "mistral-7b-v0.1", "qwen3-8b")
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<=": lambda one, other: one <= other,
    ">=": lambda one, other: one >= other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
}
KINDS = {"attention": ("attention",), "ffn": ("ffn", "moe")}
MOST = 90
"""Sizes that are tried."""
MOST_SLOW = 24
"""The same of the memory of training and serving, which takes longer."""
SLOW = 20
"""Seconds of a problem, with all sizes tried, from which it is shown."""

Ask = Callable[[int], Mapping[str, int]]


class Problem(NamedTuple):
    """A condition and its unknown; ``ask`` has its names' values at a size, and each of ``sizes`` is tried."""

    condition: str
    left: str
    sign: str
    right: Fraction | str
    unknown: str
    ask: Ask
    sizes: range
    given: Mapping[str, Any]

    def holds(self, size: int) -> bool | None:
        """Whether it holds; None where there is no such model."""
        try:
            values = self.ask(size)
        except TfcalcError:
            return None
        if isinstance(self.right, str):  # "p/q*name"
            factor, _, name = self.right.partition("*")
            right: Fraction = Fraction(factor) * values[name]
        else:
            right = self.right
        return HOLDS[self.sign](values[self.left], right)


def problem(draw: random.Random) -> Problem:
    """One of any kind."""
    make = draw.choices(
        (_params, _params, _flops, _parts, _at_rest, _tokens, _training, _serving, _gpus), (4, 2, 3, 5, 2, 1, 1, 1, 0.5)
    )
    return make[0](draw)


def _model(draw: random.Random) -> Any:
    if draw.random() < 0.3:
        heads = draw.choice((1, 2, 3, 4, 8, 12))
        return Transformer(
            d_model=heads * draw.choice((1, 2, 16, 64)),
            n_heads=heads,
            n_layers=draw.randint(1, 12),
            kind=draw.choice(("encoder", "decoder", "encoder-decoder")),
            d_ff=draw.choice((None, None, 7, 100, 2048)),
            vocab_size=draw.choice((None, 1000, 50257)),
            pattern=draw.choice(("dense", "dense", "dense", "sliding:7", "chunked:5", "local:4", "sparse:3")),
        )
    return load(draw.choice(PRESETS))


def _limited(draw: random.Random, name: str, unknown: str, ask: Ask, sizes: range, given: Mapping[str, Any]) -> Problem:
    """A limit at, or near, what some size has."""
    while True:
        try:
            value = ask(draw.choice(sizes))[name]
            break
        except TfcalcError:
            continue
    limit = value + draw.choice((0, 0, 1, -1, draw.randint(-(value // 50) - 2, value // 50 + 2)))
    sign = draw.choice(list(HOLDS))
    unit = "B" * (name == "memory")
    shown = f"{limit / 10**9:.9f}GB" if unit and draw.random() < 0 else f"{limit}{unit}" if not unit else f"{limit}"
    text = f"{name} {sign} {shown}" if not unit else f"{name} - {shown} {sign} 0"
    return Problem(text, name, sign, Fraction(limit), unknown, ask, sizes, given)


def _params(draw: random.Random) -> Problem:
    model = _model(draw)
    unknown, sizes = _size_of_model(draw, model)
    name = draw.choice(("params", "params", "attention", "ffn"))

    def ask(size: int) -> Mapping[str, int]:
        return {name: _part(params(model.replaced(**{unknown: size}), depth=9), name, "params")}

    return _limited(draw, name, unknown, ask, sizes, {"model": model, "of": "params"})


def _flops(draw: random.Random) -> Problem:
    model, run = _model(draw), _run(draw)
    unknown = draw.choice(("batch_size", "seq_len", "seq_len"))

    def ask(size: int) -> Mapping[str, int]:
        return {"flops": flops(model, run.replaced(**{unknown: size})).answer}

    return _limited(draw, "flops", unknown, ask, range(1, MOST), {"model": model, "workload": run, "of": "flops"})


def _parts(draw: random.Random) -> Problem:
    """One part against a multiple of another, as at a crossing near some length."""
    model, run = _model(draw), _run(draw)
    unknown, sizes = "seq_len", range(1, MOST)
    if draw.random() < 0.3:
        unknown, sizes = _size_of_model(draw, model)

    def ask(size: int) -> Mapping[str, int]:
        here = (model, run.replaced(seq_len=size)) if unknown == "seq_len" else (model.replaced(**{unknown: size}), run)
        report = flops(*here, depth=9)
        return {name: _part(report, name, "flops") for name in KINDS}

    while True:
        try:
            near = ask(draw.choice(sizes))
            break
        except TfcalcError:
            continue
    if not near["ffn"] or not near["attention"]:
        return problem(draw)
    factor = Fraction(near["attention"], near["ffn"]).limit_denominator(draw.choice((3, 50, 10**6))) or Fraction(1, 9)
    sign = draw.choice(list(HOLDS))
    text = f"attention {sign} {factor.numerator} * ffn / {factor.denominator}"
    right = f"{factor}*ffn"
    return Problem(
        text, "attention", sign, right, unknown, ask, sizes, {"model": model, "workload": run, "of": "flops"}
    )


def _at_rest(draw: random.Random) -> Problem:
    model = _model(draw)
    unknown, sizes = _size_of_model(draw, model)

    def ask(size: int) -> Mapping[str, int]:
        return {"memory": memory(model.replaced(**{unknown: size})).answer}

    return _limited(draw, "memory", unknown, ask, sizes, {"model": model})


def _tokens(draw: random.Random) -> Problem:
    model = load(draw.choice(TRAINED))
    run = Workload(phase="train", batch_size=draw.choice((1, 3)), seq_len=draw.choice((7, 64)))

    def ask(size: int) -> Mapping[str, int]:
        return {"flops": training_run(model, size, run).answer}

    return _limited(draw, "flops", "tokens", ask, range(1, MOST_SLOW), {"model": model, "workload": run})


def _training(draw: random.Random) -> Problem:
    model = load(draw.choice(TRAINED))
    run = Workload(phase="train", batch_size=draw.choice((1, 2)), seq_len=draw.choice((8, 64, 128)))
    plan = Training(optimizer=draw.choice(("adamw-fused", "sgd", "adamw-8bit")))
    unknown = draw.choice(("batch_size", "seq_len"))

    def ask(size: int) -> Mapping[str, int]:
        return {"memory": memory(model, run.replaced(**{unknown: size}), training=plan).answer}

    given = {"model": model, "workload": run, "training": plan}
    return _limited(draw, "memory", unknown, ask, range(1, MOST_SLOW), given)


def _serving(draw: random.Random) -> Problem:
    model = load(draw.choice(SERVED))
    plan = Serving(context=draw.choice((64, 1000)), concurrency=draw.choice((1, 4)))
    unknown = draw.choice(("context", "concurrency"))

    def ask(size: int) -> Mapping[str, int]:
        return {"memory": memory(model, serving=plan.replaced(**{unknown: size})).answer}

    return _limited(draw, "memory", unknown, ask, range(1, MOST_SLOW), {"model": model, "serving": plan})


def _gpus(draw: random.Random) -> Problem:
    model, run = load(draw.choice(TRAINED)), Workload(phase="train", seq_len=64)
    plan = Training(zero=draw.choice(("1", "2", "3")), gpus=2)

    def ask(size: int) -> Mapping[str, int]:
        return {"memory": memory(model, run, training=plan.replaced(gpus=size)).answer}

    given = {"model": model, "workload": run, "training": plan}
    return _limited(draw, "memory", "gpus", ask, range(1, MOST_SLOW), given)


def _run(draw: random.Random) -> Workload:
    return Workload(
        phase=draw.choice(("forward", "forward", "train")),
        batch_size=draw.choice((1, 2, 7)),
        seq_len=draw.choice((1, 9, 64)),
        attention=draw.choice(("full", "causal", "causal-half")),
    )


def _size_of_model(draw: random.Random, model: Any) -> tuple[str, range]:
    """One that the model has, with sizes around its multiples."""
    fields = ["n_layers", "d_model", "d_ff", "vocab_size", "n_heads"]
    draw.shuffle(fields)
    for field in fields:
        try:
            model.replaced(**{field: 8})
        except TfcalcError:
            continue
        if field == "vocab_size" and isinstance(model, Transformer) and model.vocab_size is None:
            continue
        return field, range(1, MOST if field != "d_model" else 4 * MOST)
    return "n_layers", range(1, MOST)


def _part(report: Report, name: str, whole: str) -> int:
    """All of a kind, none within another."""
    if name == whole:
        return report.answer

    def inside(entry: Any) -> Iterator[int]:
        if entry.kind in KINDS[name]:
            yield entry.value
        else:
            for part in entry.parts:
                yield from inside(part)

    return sum(inside(report.whole))


def difference(asked: Problem) -> str:
    """What solve answers otherwise than trying every size does; empty where it is the same."""
    tried = {size: held for size in asked.sizes if (held := asked.holds(size)) is not None}
    expected = {size for size, held in tried.items() if held}
    try:
        found = solve(asked.condition, asked.unknown, **asked.given)
    except TfcalcError as error:
        values = {tuple(asked.ask(size).values()) for size in tried}
        return "" if len(values) == 1 and "changes nothing" in error.message else f"refused: {error}"
    assert isinstance(found, Solved)
    meet = {size for size in tried if any(low <= size <= (high or size) for low, high in found.ranges)}
    if meet != expected:
        return f"of {asked.sizes} {sorted(meet ^ expected)[:9]} differ"
    for row in found.rows:
        (size,) = row.sizes.values()
        if size in tried and row.holds != (size in expected):
            return f"row {size} is said to hold: {row.holds}"
    beyond = [
        size for pair in found.ranges for size in pair if size is not None and size not in tried and size in asked.sizes
    ]
    return f"{beyond} are no such models" if beyond else ""


def main(count: int, seed: int) -> int:
    """So many problems; the exit code is 1 where one was answered otherwise."""
    draw, wrong, kinds, started = random.Random(seed), 0, dict[str, int](), time.time()
    exact = both = 0
    models = set[str]()
    for number in range(count):
        asked = problem(draw)
        models.add(getattr(asked.given["model"], "name", "classic"))
        began = time.process_time()
        told = difference(asked)
        if (took := time.process_time() - began) > SLOW:
            print(f"#{number} {asked.condition!r} for {asked.unknown}: {took:.0f} s; {asked.given}", flush=True)
        kinds[asked.unknown] = kinds.get(asked.unknown, 0) + 1
        held = [asked.holds(size) for size in asked.sizes[:: max(len(asked.sizes) // 12, 1)]]
        both += True in held and False in held
        exact += asked.sign == "="
        if (number + 1) % 50 == 0:
            print(
                f"{number + 1} problems, {wrong} answered otherwise before, {time.time() - started:.0f} s", flush=True
            )
        if told:
            wrong += 1
            model = asked.given["model"]
            print(
                f"#{number} {asked.condition!r} for {asked.unknown}: {told}; {model.summary} {asked.given}", flush=True
            )
    print(f"{count} problems in {time.time() - started:.0f} s, {wrong} answered otherwise")
    print(f"{both} with an end among the sizes tried, {exact} equations; {kinds}")
    print(f"{len(models)} models: {', '.join(sorted(models))}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
