"""The answer of a design: a table of shapes, each with the command that builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.design.family import ShapeFamily, vocabulary_of
from tfcalc.analysis.design.practice import PRACTICES
from tfcalc.analysis.design.search import Candidate
from tfcalc.analysis.design.words import command
from tfcalc.answers.question import Question
from tfcalc.report.declared import SCHEMA_VERSION
from tfcalc.report.opening import Opener, Rule, Way, count, found, given, total
from tfcalc.report.sheet import Bytes, Cell, Column, Rounded, Sheet
from tfcalc.units import grouped, short, short_bytes

if TYPE_CHECKING:
    from tfcalc.answers.question import Number
    from tfcalc.model import Model
    from tfcalc.report.paths import Step

UNITS = {"params": "params", "flops": "flops", "memory": "bytes"}
CALLED = {"params": "parameters", "flops": "FLOPs", "memory": "memory"}
TILE = 64
NEAR = 2
"""A shape that is so many times above the budget, or below it, does not answer."""
SEARCH = "search: of all shapes that meet the constraints one whose amount is nearest to the budget"


@dataclass(frozen=True, slots=True)
class Designed:
    """The answer of :func:`~tfcalc.design`.

    Attributes:
        of: what is budgeted: params, flops or memory.
        budget: how much of it.
        candidates: the shapes, best first.
        tried: how many shapes there were near the budget.
        asked: the question whose answer is what a model costs of the budget.
    """

    of: str
    budget: int
    candidates: tuple[Candidate, ...]
    tried: int
    family: ShapeFamily
    params: tuple[int, ...]
    conventions: Mapping[str, object]
    asked: Callable[[Model], Number]
    name: str = ""

    @property
    def answer(self) -> str:
        """The command that builds the best shape; empty where there is none."""
        return self.command(self.candidates[0]) if self.candidates else ""

    @property
    def exit_code(self) -> int:
        """1 where no shape that meets the constraints comes near the budget."""
        return 0 if self._near else 1

    @property
    def _near(self) -> bool:
        amounts = [each.amount for each in self.candidates[:1]]
        return any(self.budget <= NEAR * amount and amount <= NEAR * self.budget for amount in amounts)

    def command(self, candidate: Candidate) -> str:
        """The command that builds a shape, and counts its parameters."""
        return command(candidate.model, self.name)

    @property
    def vocabulary(self) -> int | None:
        """That of all shapes; None where there is none."""
        return vocabulary_of(self.family.base)

    def opener(self) -> DesignOrigins:
        """Where its numbers come from."""
        return DesignOrigins(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "design",
            "model": self.family.base.described(),
            "conventions": dict(self.conventions),
            "of": self.of,
            "budget": self.budget,
            "unit": UNITS[self.of],
            "tried": self.tried,
            "candidates": [self._in_json(*each) for each in zip(self.candidates, self.params, strict=True)],
            "practices": [{"name": each.name, "rule": each.rule, "source": each.source} for each in PRACTICES],
        }

    def _in_json(self, candidate: Candidate, params: int) -> dict[str, object]:
        sizes = self.family.whole(candidate.sizes)
        return {
            "layers": candidate.depth,
            "d_model": sizes["d_model"],
            "heads": sizes["n_heads"],
            "kv_heads": sizes.get("n_kv_heads"),
            "head_dim": sizes["head_dim"],
            "d_ff": sizes.get("d_ff"),
            "vocab_size": self.vocabulary,
            "total_params": params,
            "amount": candidate.amount,
            "distance": candidate.amount - self.budget,
            "aspect_ratio": round(sizes["d_model"] / candidate.depth, 2),
            "breaks": list(candidate.breaks),
            "run": self.command(candidate),
        }

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
            Column("against", numeric=False, folds=True, spare=1),
        ]
        rows: list[list[Cell]] = [
            [
                each.depth,
                its["d_model"],
                its["n_heads"],
                its.get("n_kv_heads"),
                its["head_dim"],
                its.get("d_ff"),
                params,
                Bytes(each.amount) if self.of == "memory" else Rounded(each.amount),
                _off(each.amount, self.budget),
                ", ".join(each.breaks),
            ]
            for each, its, params in zip(self.candidates, sizes, self.params, strict=True)
        ]
        idle = [7] if self.of == "params" else []
        idle += [place for place in (3, 5) if all(row[place] is None for row in rows)]
        return Sheet(
            title=f"{none}{best.depth} layers of {sizes[0]['d_model']:,}: {self._exactly(best.amount)}, "
            f"{_off(best.amount, self.budget)} off {self._amount(self.budget)}",
            subtitle=self.family.base.summary,
            columns=columns,
            rows=rows,
            quiet=self.answer,
            notes=[self.answer, *self._about_training(), *self._about_vocabulary(), *self._broken()],
            see_also=("--multiple-of", "--aspect", "--json", "--assumptions"),
            assumptions=[f"{each.name}: {each.rule} ({each.source})" for each in PRACTICES],
        ).without(idle)

    def _exactly(self, amount: int) -> str:
        return short_bytes(amount) if self.of == "memory" else f"{grouped(amount)} {CALLED[self.of]}"

    def _amount(self, amount: int) -> str:
        return (
            short_bytes(amount) if self.of == "memory" else short(amount, billion="B" if self.of == "params" else "G")
        )

    def _broken(self) -> list[str]:
        named = {name for each in self.candidates for name in each.breaks}
        return [f"against {each.name}: {each.rule}" for each in PRACTICES if each.name in named]

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


class DesignOrigins(Opener):
    """Each shape is a model, whose numbers are answers of its own."""

    def __init__(self, answer: Designed) -> None:
        self.answer = answer
        self.heading = answer.family.base.summary
        self.counted: dict[int, Question] = {}

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a shape's size, or of what it costs."""
        match steps:
            case ("budget",):
                return given("the budget: --params, --flops, --flops-per-token of all tokens, or --memory")
            case ("tried",):
                return count("the shapes near the budget that were ranked")
            case ("candidates", int(place), "total_params"):
                return self._counted(place).number("total_params")
            case ("candidates", int(place), "amount"):
                return self.answer.asked(self.answer.candidates[place].model)
            case ("candidates", int(place), "distance"):
                return total(f"candidates.{place}.amount", less="budget")
            case ("candidates", int(place), "aspect_ratio"):
                shape = f"candidates.{place}"
                return Rule("rounded", (f"{shape}.d_model",), (f"{shape}.layers",))
            case ("candidates", int(), "vocab_size"):
                return given("the vocabulary of the model that shapes are like, padded where --pad-vocab asks for it")
            case ("candidates", int(), str()):
                return found(SEARCH)
        return None

    def _counted(self, place: int) -> Question:
        if place not in self.counted:
            self.counted[place] = Question("params", self.answer.candidates[place].model)
        return self.counted[place]
