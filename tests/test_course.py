"""The course in formulas.md: both sides of each equation are equal, and PyTorch prints what its examples say."""

from __future__ import annotations

import doctest
import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.formula_reader import evaluate
from tfcalc.core.notation import spelled
from tfcalc.report.concepts import known

TEXT = (Path(__file__).parents[1] / "formulas.md").read_text(encoding="utf-8")
COURSE = TEXT.partition("# Part II")[0]
FENCED = re.compile(r"```.*?```", re.DOTALL)
PYTHON = re.compile(r"```pycon\n(.*?)```", re.DOTALL)
SPAN = re.compile(r"`([^`]+?)`")


def letters(**sizes: int) -> dict[str, int]:
    """Sizes of a classic Transformer: d = d_v = h/a and f = 4h; the M, K and N of a product; the rank r of LoRA."""
    width = sizes["h"] // sizes["a"]
    return {**sizes, "d": width, "d_v": width, "f": 4 * sizes["h"], "M": 3, "K": 5, "N": 7, "r": 6}


LETTERS = [
    letters(h=24, a=4, g=2, n=5, l=11, s=7, b=3, V=101, k=2, c=13),
    letters(h=770, a=7, g=3, n=61, l=4, s=9, b=2, V=57, k=3, c=5),
]


def without_commas(text: str) -> str:
    """``44,140,544`` as 44140544."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", text)


def equations() -> list[list[str]]:
    """The sides of each equation in the prose; ``d = h/a`` defines a letter, and is none."""
    spans = [" ".join(without_commas(span).split()) for span in SPAN.findall(FENCED.sub("", COURSE))]
    chains = [span.split(" = ") for span in spans if " = " in span]
    return [sides for sides in chains if not re.fullmatch(r"[a-zA-Z](_\w)?", sides[0])]


def legend(column: str) -> dict[str, str]:
    """The course's letters and those of another kind of text; ``d = h/a`` is d."""
    table = TEXT.partition("### Letters of other texts")[2].partition("\n### ")[0]
    head, _, *rows = (
        line.strip("| ").replace("`", "").split(" | ") for line in re.findall(r"^\|.*", table, re.MULTILINE)
    )
    at = head.index(column)
    cells = ((row[head.index("here")].split(" = ")[0], row[at].split(" = ")[0]) for row in rows)
    return {ours: theirs for ours, theirs in cells if theirs != "–"}


def test_the_table_of_letters_has_those_that_are_printed() -> None:
    theirs = legend("texts with bs, L, d")
    assert theirs["h"] == "d"
    assert theirs == {letter: spelled(letter, "bsld") for letter in theirs}


def test_there_are_equations_to_check() -> None:
    assert len(equations()) >= 50


@pytest.mark.parametrize("sides", equations(), ids=" = ".join)
@pytest.mark.parametrize("at", LETTERS, ids=["h=24", "h=770"])
def test_both_sides_of_each_equation_are_equal(sides: list[str], at: dict[str, int]) -> None:
    first, *others = (fraction(side, at) for side in sides)
    assert [first] * len(others) == others


def fraction(side: str, at: dict[str, int]) -> Fraction:
    """The reader's division is that of whole numbers; here one that covers a whole side is exact."""
    above, divided, below = side.partition("/(")
    return Fraction(evaluate(above, at), evaluate(f"({below}", at) if divided else 1)


def test_no_result_in_the_prose_is_typed_by_hand() -> None:
    """Each number of seven digits or more is in an equation, too, or is printed by tfcalc or by PyTorch."""
    generated = re.compile(r"```.*?```|<!-- course.*?<!-- end -->|`[^`]+?`", re.DOTALL)
    checked = set(re.findall(r"\d+", without_commas(" ".join(generated.findall(COURSE)))))
    stated = re.findall(r"\d{7,}", without_commas(generated.sub("", COURSE)))
    assert stated
    assert set(stated) <= checked


def test_no_command_of_the_page_is_refused() -> None:
    assert not re.findall(r"^tfcalc: .*", TEXT, flags=re.MULTILINE)


def answers() -> list[str]:
    """The answers to the exercises, each with its commands."""
    return re.split(r"^(?=\*\*[\d, ]+\.\*\*)", COURSE.partition("## 20. Answers")[2], flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("answer", answers(), ids=lambda answer: str(answer.partition(" ")[0]))
def test_what_an_answer_works_out_is_what_its_commands_print(answer: str) -> None:
    generated = re.compile(r"```.*?```|<!-- course.*?<!-- end -->", re.DOTALL)
    printed = "\n".join(line for line in " ".join(generated.findall(answer)).splitlines() if line[:1] != "$")
    assert re.search(r"\d{4,}", without_commas(printed))
    worked_out = [without_commas(span) for span in SPAN.findall(generated.sub("", answer)) if " = " in span]
    numbers = re.findall(r"\d{4,}", " ".join(worked_out))
    assert not numbers or any(number in without_commas(printed) for number in numbers)


@pytest.mark.torch
def test_pytorch_prints_what_the_examples_say() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    source = "\n".join(PYTHON.findall(COURSE))
    test = doctest.DocTestParser().get_doctest(source, {}, "formulas.md", "formulas.md", 0)
    assert len(test.examples) > 30
    assert doctest.DocTestRunner().run(test).failed == 0


def test_each_concept_of_explain_has_its_section() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    for concept in known().values():
        assert concept.refused or concept.course in headings, concept.name
