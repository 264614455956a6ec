"""The answer of a design: a table of shapes, each with the command that builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.design.family import ShapeFamily, vocabulary_of
from tfcalc.analysis.design.practice import PRACTICES
from tfcalc.analysis.design.pretraining import RULE, Pretraining, PretrainingKeys
from tfcalc.analysis.design.search import Candidate
from tfcalc.analysis.design.words import command
from tfcalc.answers.question import Question
from tfcalc.errors import TfcalcError
from tfcalc.plans import Serving
from tfcalc.report.declared import (
    HEAD,
    Answer,
    Key,
    Record,
    When,
    as_field,
    choice,
    handed_in,
    integer,
    number,
    optional,
    record,
    records,
    shared,
    some_conventions,
    text,
    texts,
)
from tfcalc.report.opening import Rule, count, found, given, total
from tfcalc.report.sheet import Bytes, Cell, Column, Rounded, Sheet, of
from tfcalc.units import grouped, rounded, short, short_bytes

if TYPE_CHECKING:
    from tfcalc.answers.question import AskedNumber
    from tfcalc.model import Model
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

UNITS = {"params": "params", "flops": "flops", "memory": "bytes"}
CALLED = {"params": "parameters", "flops": "FLOPs", "memory": "memory"}
TILE = 64
NEAR = 2
"""A shape that is so many times above the budget, or below it, does not answer."""
SEARCHED = found("search: of all shapes that meet the constraints one whose amount is nearest to the budget")


class DesignedShape(Record):
    """A shape that was found, which is a model with numbers of its own."""

    layers = integer("layers of each stack", lambda shape: shape.candidate.depth, SEARCHED)
    d_model = integer("hidden size", lambda shape: shape.sizes["d_model"], SEARCHED)
    heads = integer("attention heads", lambda shape: shape.sizes["n_heads"], SEARCHED)
    kv_heads = optional(
        "key and value heads; null where the family has no such size",
        lambda shape: shape.sizes.get("n_kv_heads"),
        SEARCHED,
    )
    head_dim = integer("width of a head", lambda shape: shape.sizes["head_dim"], SEARCHED)
    d_ff = optional(
        "feed-forward size; null where it follows from others", lambda shape: shape.sizes.get("d_ff"), SEARCHED
    )
    vocab_size = optional(
        "vocabulary; null where there is none",
        lambda shape: shape.within.vocabulary,
        given("the vocabulary of the model that shapes are like, padded where --pad-vocab asks for it"),
    )
    total_params = integer("parameters", lambda shape: shape.params)
    amount = integer("what is budgeted of this shape", lambda shape: shape.candidate.amount)
    distance = integer("amount less budget", total(".amount", less="budget"))
    flops_per_token = number(
        "FLOPs of a forward pass for each token, of a sequence of the default length",
        lambda shape: shape.run_once.report().flops_per_token,
    )
    kv_cache_bytes_per_token = optional(
        "bytes of keys and values of a token that every layer stores; null where nothing is cached",
        lambda shape: shape.cache_of_a_token,
    )
    most_tensor_parallel = integer(
        "GPUs over which heads, KV heads and d_ff can be split: their greatest common divisor",
        lambda shape: shape.most_tensor_parallel_,
        found("the greatest common divisor of heads, KV heads and d_ff"),
    )
    aspect_ratio = number("d_model over layers", Rule("rounded", (".d_model",), (".layers",)))
    breaks = texts("names of the rules in practices that it does not follow", lambda shape: shape.candidate.breaks)
    run = text(
        "the command that builds it and counts its parameters",
        lambda shape: shape.within.command_of(shape.candidate),
    )

    @property
    def source(self) -> DesignedShape:
        """The record itself, as its answer has the family."""
        return self

    @property
    def candidate(self) -> Candidate:
        """The shape."""
        return self._source[0]  # type: ignore[no-any-return]  # what a record is about may be anything

    @property
    def params(self) -> int:
        """Its parameters."""
        return self._source[1]  # type: ignore[no-any-return]  # as above

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Sizes of the shape, all of them."""
        return self.within.family.whole(self.candidate.sizes)  # type: ignore[no-any-return]  # as above

    @cached_property
    def counted(self) -> Question:
        """The question about its parameters."""
        return Question("params", self.candidate.model)

    @cached_property
    def run_once(self) -> Question:
        """The question about a forward pass."""
        return Question("flops", self.candidate.model)

    @cached_property
    def served(self) -> Question:
        """The question about the cache of one token."""
        return Question("memory", self.candidate.model, serving=Serving(context=1, cache="dynamic"))

    @cached_property
    def cache_of_a_token(self) -> int | None:
        """Bytes of the cache of one token; None where the model has none."""
        try:
            stored: int = self.served.report().kv_cache_bytes  # type: ignore[attr-defined]  # it is of memory
            return stored or None
        except TfcalcError:
            return None

    @property
    def most_tensor_parallel_(self) -> int:
        """Greatest common divisor of what tensor parallelism splits."""
        split = ("n_heads", "n_kv_heads", "d_ff")
        return gcd(*(self.sizes[name] for name in split if self.sizes.get(name)))

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Yield the origins of a number; the cost of the shape is an answer about its model."""
        match steps:
            case ("total_params",):
                yield self.counted.number()
            case ("flops_per_token",):
                yield self.run_once.number("flops_per_token")
            case ("kv_cache_bytes_per_token",):
                yield self.served.number("kv_cache_bytes")
            case ("amount",):
                yield self.within.asked(self.candidate.model)
        yield from super().origins(steps)


class PracticeInWords(Record):
    """A rule of practice, in words."""

    name = text("as in breaks", lambda practice: practice.name)
    rule = text("the rule in words", lambda practice: practice.rule)
    source_ = text("where it comes from", lambda practice: practice.source)


IN_TABLE: tuple[Key[Any], ...] = (
    DesignedShape.layers,
    DesignedShape.d_model,
    DesignedShape.heads,
    DesignedShape.kv_heads,
    DesignedShape.head_dim,
    DesignedShape.d_ff,
    DesignedShape.total_params,
)
"""What the table shows of each shape."""


class Design(Answer):
    """Base of every answer of ``design``."""

    command = "design"
    about = "Shapes for a budget, best first; or, of --compute, parameters and tokens by published fits."

    of = choice(("params", "flops", "memory", "compute"), "what the budget is of", lambda _: "compute", typed=True)


TRAINED = When(lambda designed: designed.run is not None)


@dataclass(frozen=True, kw_only=True, repr=False)
class Designed(Design):
    """The answer of :func:`~tfcalc.design`.

    Attributes:
        of: what is budgeted: params, flops or memory.
        budget: how much of it.
        candidates: the shapes, best first.
        tried: how many shapes there were near the budget.
        asked: the question whose answer is what a model costs of the budget.
        run: the training of the best shape, if one was asked for.
    """

    model = shared("model", lambda designed: designed.family.base.described(), place=HEAD)
    conventions: Key[Mapping[str, object]] = some_conventions(place=HEAD)
    of: Key[str] = as_field(Design.of)
    budget: Key[int] = integer(
        "the budget, in its unit; of memory the most there is",
        handed_in,
        given("the budget: --params, --flops, --flops-per-token of all tokens, or --memory"),
    )
    unit = choice(
        tuple(UNITS.values()), "of budget, amount and distance", lambda designed: UNITS[designed.of], typed=True
    )
    tried: Key[int] = integer(
        "shapes near the budget that were ranked", handed_in, count("the shapes near the budget that were ranked")
    )
    candidates: tuple[Candidate, ...]
    candidates_ = records(
        DesignedShape,
        "the shapes, best first, each counted on its own tree",
        lambda designed: zip(designed.candidates, designed.params, strict=True),
    )
    training = record(
        PretrainingKeys, "the training of the best shape; with --tokens", lambda designed: designed.run, when=TRAINED
    )
    practices = records(PracticeInWords, "what practice favours", lambda _: PRACTICES)
    family: ShapeFamily
    params: tuple[int, ...]
    asked: Callable[[Model], AskedNumber]
    name: str = ""
    run: Pretraining | None = None

    @property
    def answer(self) -> str:
        """The command that builds the best shape; empty where there is none."""
        return self.command_of(self.candidates[0]) if self.candidates else ""

    @property
    def exit_code(self) -> int:
        """1 where no shape that meets the constraints comes near the budget."""
        return 0 if self._near else 1

    @property
    def _near(self) -> bool:
        amounts = [each.amount for each in self.candidates[:1]]
        return any(self.budget <= NEAR * amount and amount <= NEAR * self.budget for amount in amounts)

    def command_of(self, candidate: Candidate) -> str:
        """The command that builds a shape, and counts its parameters."""
        return command(candidate.model, self.name)

    @property
    def vocabulary(self) -> int | None:
        """Vocabulary of all shapes; None where there is none."""
        return vocabulary_of(self.family.base)

    @property
    def subject(self) -> str:
        """The model that the shapes are like."""
        return self.family.base.summary

    def sheet(self) -> Sheet:
        """A row for each shape."""
        wanted = f"{CALLED[self.of]} {self._amount(self.budget)}"
        if not self.candidates:
            return Sheet(
                f"NONE: no shape with these constraints has {wanted}", (), (), "none", self.family.base.summary
            )
        best, none = self.candidates[0], "" if self._near else f"NONE: no shape comes near {wanted}; the nearest: "
        sizes = [self.family.whole(each.sizes) for each in self.candidates]
        columns = [
            Column("layers"),
            Column("d_model"),
            Column("heads"),
            Column("KV heads", spare=2),
            Column("head size"),
            Column("d_ff"),
            Column("parameters"),
            Column({"flops": "FLOPs", "memory": "memory"}.get(self.of, "")),
            Column("off by"),
            Column("against", numeric=False, folds=True, spare=1, explained=self._broken()),
        ]
        amount = Bytes if self.of == "memory" else Rounded
        rows: list[list[Cell]] = [
            [
                *(of(getattr(shape, key.name), Designed.candidates_, place, key) for key in IN_TABLE),
                of(amount(shape.amount), Designed.candidates_, place, DesignedShape.amount),
                _off(shape.amount, self.budget),
                ", ".join(shape.breaks),
            ]
            for place, shape in enumerate(self.candidates_)
        ]
        idle = [7] if self.of == "params" else []
        idle += [place for place in (3, 5) if all(row[place] is None for row in rows)]
        first = "" if self.run is None else f"{self.training.compute_flops:.3g} FLOPs by 6ND; "
        return Sheet(
            title=f"{none}{first}{best.depth} layers of {sizes[0]['d_model']:,}: {self._exactly(best.amount)}, "
            f"{_off(best.amount, self.budget)} off {self._amount(self.budget)}",
            subtitle=self.family.base.summary,
            columns=columns,
            rows=rows,
            quiet=self.answer,
            notes=[
                self.answer,
                *self._about_best(),
                *self._about_run(),
                *self._about_training(),
                *self._about_vocabulary(),
            ],
            see_also=("--multiple-of", "--aspect", "--json", "--assumptions"),
            assumptions=[f"{each.name}: {each.rule} ({each.source})" for each in PRACTICES],
        ).without(idle)

    def _exactly(self, amount: int) -> str:
        if self.of == "memory":
            return f"{short(self.params[0], billion='B')} parameters in {short_bytes(amount)}"
        return f"{grouped(amount)} {CALLED[self.of]}"

    def _amount(self, amount: int) -> str:
        return (
            short_bytes(amount) if self.of == "memory" else short(amount, billion="B" if self.of == "params" else "G")
        )

    def _broken(self) -> list[str]:
        named = {name for each in self.candidates for name in each.breaks}
        return [f"against {each.name}: {each.rule}" for each in PRACTICES if each.name in named]

    def _about_best(self) -> list[str]:
        """FLOPs and cache of a token of the best shape, and how far it can be split."""
        first = self.candidates_[0]
        cache = first.kv_cache_bytes_per_token
        stored = f"; KV cache {short_bytes(cache)} a token" if cache else ""
        split = f"; tensor parallel up to {first.most_tensor_parallel}" if first.most_tensor_parallel > 1 else ""
        return [f"{short(round(first.flops_per_token))} FLOPs a token forward{stored}{split}"]

    def _about_run(self) -> list[str]:
        if self.run is None:
            return []
        run = self.training
        each, best = run.tokens_per_param, short(round(run.optimal_tokens), billion="B")
        told = [
            f"{short(run.tokens, billion='B')} tokens: {rounded(each, 4)} a parameter ({RULE} would be {best})",
            "loss: " + ", ".join(f"{one.loss_nats_per_token:.3f} by {one.name}" for one in run.losses) + " (estimates)",
        ]
        if self.run.cluster is not None:
            told.append(
                f"{run.gpus:,} x {run.gpu} at an MFU of {run.mfu:.0%}: {rounded(run.days)} days".replace("%", " %")
            )
        return told

    def _about_training(self) -> list[str]:
        if self._near or self.of != "flops" or self.candidates[0].amount > self.budget:
            return []
        return [f"FLOPs of the workload, not of a whole training, which is --compute {self.budget:.4g}"]

    def _about_vocabulary(self) -> list[str]:
        vocabulary = self.vocabulary
        if vocabulary is None or vocabulary % TILE == 0:
            return []
        padded = -(-vocabulary // TILE) * TILE
        return [f"vocabulary {vocabulary:,} is no multiple of {TILE}; --pad-vocab {TILE} makes it {padded:,}"]


def _off(amount: int, budget: int) -> str:
    """``+1.2 %``."""
    return f"{(amount - budget) / budget:+.2%}".replace("%", " %") if amount != budget else "0"
