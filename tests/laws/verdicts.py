"""Verdicts on random questions, held against a search that knows nothing of remedies.

``python -m tests.laws.verdicts 300 SEED`` asks 300 of them, from a third number on, and prints what contradicts.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from time import process_time
from typing import Any, NamedTuple

from tfcalc import Serving, Training, load
from tfcalc.answers.verdict import Fit, memory_within
from tfcalc.errors import TfcalcError
from tfcalc.hardware import parse_gpu
from tfcalc.model import Model, default_run
from tfcalc.search.gpus import of_card
from tfcalc.training.peaks import Peaks
from tfcalc.workload import AUTO, Workload

Options = Mapping[str, tuple[Any, ...]]

SMALL = (
    "gpt2",
    "llama-3.2-1b",
    "llama-3-8b",
    "qwen3-0.6b",
    "mixtral-8x7b",
    "t5-base",
    "bert-base-uncased",
    "mamba-1.4b",
)
"""Models that a test has the time for."""
MODELS = (
    *SMALL,
    "qwen3-4b",
    "qwen2.5-7b",
    "qwen2.5-32b",
    "llama-3.1-70b",
    "mistral-7b-v0.1",
    "gemma-2-9b",
    "phi-2",
    "pythia-1.4b",
    "gpt-neox-20b",
    "falcon-7b",
    "deepseek-v2-lite",
    "gpt-oss-20b",
    "qwen3-30b-a3b",
    "olmo-2-1124-7b",
    "modernbert-base",
)
CARDS = ("1GB", "2GB", "4GB", "8GB", "t4", "rtx-4090", "a100-40", "h100", "2x8GB", "4xt4", "8xrtx-3090", "8xh100")
PLANS: tuple[dict[str, Any], ...] = (
    *({}, {"lora": 16}, {"lora": 16, "base_weights": "nf4-dq"}),
    *({"precision": "bf16-mixed"}, {"optimizer": "adamw-8bit"}, {"grad_accum": 4}),
)
RUNS: tuple[dict[str, Any], ...] = ({}, {"recompute": "none"}, {"batch_size": 4}, {"batch_size": 16, "seq_len": 512})
OPTIONS: Options = {
    "loss": (AUTO, "checkpointed", "fused", "chunked"),
    "alloc_conf": ("default", "expandable_segments"),
    "optimizer_in_backward": (False, True),
    "recompute": ("none", "full"),
    "offload_activations": (False, True),
    "optimizer": ("adamw-fused", "adamw-8bit", "paged-adamw-8bit", "adafactor", "sgd"),
    "precision": (AUTO, "bf16"),
    "lora": (None, 16),
    "base_weights": ("", "nf4-dq"),
    "offload": ("none", "optimizer", "all"),
    "zero": ("0", "1", "2", "3"),
    "layout": ("flat", "fsdp2"),
    "gpus": (1, 2, 8, 64, 1024),
    "halves": (0, 1, 2, 3, 4),
}
"""Everything that the memory of training depends on, but for less than what was asked for.

``halves``: how often the batch is halved, with as many more steps of gradient accumulation.
"""
SERVED: tuple[dict[str, Any], ...] = (
    *({}, {"context": 32768}, {"concurrency": 16}, {"context": 2048, "concurrency": 256}),
    *({"weights": "int8"}, {"kv": "fp8"}, {"cache": "dynamic"}),
)
OPTIONS_OF_SERVING: Options = {
    "weights": ("", "bf16", "int8", "int4"),
    "kv": (AUTO, "bf16", "fp8"),
    "cache": ("dynamic", "paged"),
    "gpus": (1, 2, 4, 8, 16, 32, 64),
}
TRIES = 30
"""Random plans beside those that are found by one change after another."""


class Asked(NamedTuple):
    """A question of a verdict: whether a plan runs on a card."""

    name: str
    model: Model
    card: str
    run: Workload
    plan: Training | Serving

    @property
    def serves(self) -> bool:
        """Return whether the model is served, not trained."""
        return isinstance(self.plan, Serving)

    def verdict(self, peaks: Peaks | None = None) -> Fit | None:
        """Return the verdict; None where there is no such plan, which is told as soon as its state is asked for."""
        kind = "serving" if self.serves else "training"
        beside: dict[str, Any] = {kind: self.plan, "peaks": None if self.serves else peaks}
        try:
            found = memory_within(self.model, of_card(self.card), self.run, **beside).judge
            return found if isinstance(found, Fit) and found.status else None
        except TfcalcError:
            return None

    def on(self, gpus: int) -> str:
        """Return the card, so many times; at least as many as were asked about."""
        known, name = parse_gpu(self.card)
        return f"{max(gpus, known)}x{name}"

    def changed(self, change: Any) -> Asked:
        """Return the question with a remedy's change, on as many cards as it needs."""
        card = self.on(change.values["gpus"]) if "gpus" in change.values else self.card
        return Asked(
            self.name, self.model, card, change.applied(self.run), change.applied(self.plan).replaced(gpus=None)
        )

    def with_values(self, values: Mapping[str, Any]) -> Asked | None:
        """Return the question with a value of each option; None where a batch has no such half."""
        of_plan, plan, run = dict(values), self.plan, self.run
        card = self.on(of_plan.pop("gpus"))
        if isinstance(plan, Training):
            times = 2 ** of_plan.pop("halves")
            if run.batch_size % times:
                return None
            run = run.replaced(recompute=of_plan.pop("recompute"), batch_size=run.batch_size // times)
            of_plan["grad_accum"] = plan.grad_accum * times
        return Asked(self.name, self.model, card, run, plan.replaced(**of_plan, gpus=None))


def question(draw: random.Random, models: tuple[str, ...] = MODELS, *, serving: bool = False) -> Asked:
    """Return a random question of training, or in a quarter of the cases of ``serving``."""
    name, card = draw.choice(models), draw.choice(CARDS)
    model = load(name)
    if serving and draw.random() < 0.25:
        return Asked(name, model, card, default_run(model), Serving(**draw.choice(SERVED)))
    run = default_run(model).replaced(phase="train", **draw.choice(RUNS))
    return Asked(name, model, card, run, Training(**draw.choice(PLANS)))


def searched(draw: random.Random, asked: Asked, tries: int = TRIES) -> Iterator[tuple[dict[str, Any], Fit]]:
    """Yield plans that go, with their verdicts: random ones, and from the least of them on whatever takes less.

    All options are tried one after another, with all their values, until none takes less.
    """
    options = OPTIONS_OF_SERVING if asked.serves else OPTIONS
    peaks = None if asked.serves else Peaks(asked.model)
    seen: dict[tuple[Any, ...], int | None] = {}
    found: list[Fit] = []

    def total(values: dict[str, Any]) -> int | None:
        key = tuple(values.values())
        if key not in seen:
            one = asked.with_values(values)
            verdict = one.verdict(peaks) if one else None
            found.extend([verdict] if verdict else [])
            seen[key] = verdict.report.answer if verdict else None
        return seen[key]

    best: tuple[int, dict[str, Any]] | None = None
    for _ in range(tries):
        values = {name: draw.choice(known) for name, known in options.items()}
        if (size := total(values)) is not None:
            yield values, found[-1]
            best = min(best, (size, values), key=lambda each: each[0]) if best else (size, values)
    better = best is not None
    while better and best:
        better = False
        for name in draw.sample(list(options), len(options)):
            for value in options[name]:
                values, before = {**best[1], name: value}, len(found)
                size = total(values)
                if len(found) > before:
                    yield values, found[-1]
                if size is not None and size < best[0]:
                    best, better = (size, values), True


class Contradiction(NamedTuple):
    """What was said, and what is so."""

    said: object
    found: object
    by: str


def contradictions(draw: random.Random, asked: Asked, found: Fit, tries: int = TRIES) -> Iterator[Contradiction]:
    """Yield remedies that do not hold, and plans that fit where none was said to."""
    for remedy in found.remedies:
        again = asked.changed(remedy.change).verdict()
        so = (again.report.answer, again.status) if again else None
        if so != (remedy.total, remedy.status):
            yield Contradiction((remedy.total, remedy.status), so, remedy.change.name)
    if found.searched and not any(remedy.fits for remedy in found.remedies):
        for values, verdict in searched(draw, asked, tries):
            if verdict.fits:
                yield Contradiction("nothing fits", verdict.status, str(values))
                return


def main(number: int, seed: int, first: int = 0) -> int:
    """Ask so many questions, and tell what contradicts and how many of each outcome there were; return its number."""
    counts: dict[str, int] = {}
    wrong = 0
    for place in range(first, number):
        draw, started = random.Random(f"{seed} {place}"), process_time()
        asked = question(draw, serving=True)
        found = asked.verdict()
        outcome = "refused" if found is None else found.status
        if found is not None and not found.fits:
            cured = any(remedy.fits for remedy in found.remedies)
            outcome += ", remedies" if cured else ", nothing fits" if found.searched else ", stopped"
            for one in contradictions(draw, asked, found):
                wrong += 1
                print(f"{place} {asked.name} {asked.card} {asked.run} {asked.plan}: {one}")
        counts[outcome] = counts.get(outcome, 0) + 1
        print(f"{place} {asked.name} {asked.card}: {outcome} {process_time() - started:.1f} s")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    print(f"{wrong} contradictions")
    return wrong


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
