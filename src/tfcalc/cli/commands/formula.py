"""``tfcalc formula``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.closed_form import Formula
from tfcalc.analysis.formula import formula
from tfcalc.analysis.quantities import OTHER_WORDS, QUANTITIES
from tfcalc.analysis.targets import TARGETS
from tfcalc.catalog import is_known
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plans import PLANS, plans_for
from tfcalc.cli.options import COUNT, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.output import deliver, show
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.style import Style
from tfcalc.units import parse_count

if TYPE_CHECKING:
    from tfcalc.analysis.formulas import Formulas

TARGET = Option("target", (), f"{', '.join(TARGETS)}, or a path of the tree", argument=True)
OF = Option("of", ("--of",), "quantity [default: params]", tuple(QUANTITIES), spellings=OTHER_WORDS)
LETTERS = Option("letters", ("--letters",), "your letters for some sizes, by letter (of --notation) or name: h=d,l=n")
WITH_BATCH = Option(
    "with_batch", ("--with-batch",), "growth of the whole batch, with b, not of one sequence", switch=True
)
FORMS = (
    Option("approx", ("--approx",), "drop biases and norms", switch=True),
    Option("big_o", ("--big-o",), "asymptotic growth only", switch=True),
    WITH_BATCH,
    Option("general", ("--general",), "a symbol for every size, even where one follows from others", switch=True),
    Option("by_matrix", ("--by-matrix",), "each matrix a term of its own: h(ad) + 2h(gd) + (ad)h", switch=True),
    Option("substitute", ("--substitute",), "numbers for symbols, by letter (of --notation) or name: h=512,n_layers=6"),
    Option("latex", ("--latex",), "the formula alone, in LaTeX", switch=True),
    Option("sympy", ("--sympy",), "the formula alone, as sympy prints it", switch=True),
)


def answer(settings: Settings) -> Formula | Formulas:
    """The closed form, with its legend; without a target those of all parts."""
    if not settings.get("target"):
        return _summary(settings)
    settings = aimed(settings)
    refuse_batch(settings)
    model = settings.model()
    of, run = settings.get("of", "params"), settings.workload(model)
    asked = plans_for(settings, of, model, run)
    return formula(
        settings.get("target"),
        of,
        model,
        asked.workload or run,
        settings.conventions(),
        training=asked.training,
        serving=asked.serving,
        approx=settings.get("approx", False),
        big_o=settings.get("big_o", False),
        with_batch=settings.get("with_batch", False),
        general=settings.get("general", False),
        by_matrix=settings.get("by_matrix", False),
        substitute=numbers_of(settings.get("substitute")),
        notation=_notation(settings),
        letters=letters_of(settings.get("letters")),
    )


def refuse_batch(settings: Settings) -> None:
    """Raise UsageError for a batch size where growth is asked for, which has no numbers."""
    if settings.get("of") == "time":
        remedy = "leave it out" if settings.get("with_batch") else "--with-batch keeps b in it"
        settings.refuse(("batch_size",), "on growth", {}, remedy)


OF_ONE_PART = ("of", "approx", "big_o", "with_batch", "by_matrix", "substitute", "letters", "latex", "sympy")


def _summary(settings: Settings) -> Formulas:
    from tfcalc.analysis.formulas import formulas

    remedies = {"of": "leave it out, or name one: mha, ffn, layer, complete"}
    settings.refuse(OF_ONE_PART, "without a target", remedies, remedies["of"])
    model = settings.model()
    run = settings.workload(model)
    plans_for(settings, "params", model, run)
    return formulas(model, run, settings.conventions(), general=settings.get("general", False))


def _notation(settings: Settings) -> str:
    return str(settings.get("notation", "lbhn"))


def write(answer: Formula | Formulas, settings: Settings) -> None:
    """The whole answer, or the formula alone in another language."""
    settings.choose("sympy", "latex", "format")
    if not isinstance(answer, Formula):
        show(answer, settings)
    elif settings.get("sympy"):
        if answer.matrices:
            raise UsageError("--by-matrix has no effect with --sympy, which adds all terms up", "leave it out")
        from tfcalc.symbolic import to_sympy

        deliver(f"{to_sympy(answer.closed, _notation(settings), answer.letters)}", settings)
    elif settings.get("latex"):
        deliver(answer.text(Style(script="latex", notation=_notation(settings))), settings)
    else:
        show(answer, settings)


def aimed(settings: Settings) -> Settings:
    """The settings with a target: a model's name in its place means the complete model, or the part named behind it.

    Raises UsageError with the targets that there are, where none is given.
    """
    target, behind = settings.get("target"), settings.get("model")
    if not target:
        raise UsageError("no target given", f"known: {', '.join(TARGETS)}, or a path of the tree")
    turned = target not in TARGETS and is_known(target) and (settings.model_name is None or behind in TARGETS)
    return settings.with_values(target=behind or "complete", model=target) if turned else settings


def numbers_of(text: str | None) -> dict[str, int]:
    """Numbers for symbols: ``h=512,n=6``. Raises UsageError where it is no such list, or gives one twice."""
    found: dict[str, int] = {}
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise UsageError(f"--substitute {quoted(text)} is not a list of symbol=number", "write h=512,n=6")
        if name.strip() in found:
            raise UsageError(f"--substitute gives {quoted(name.strip())} twice", "leave one of them out")
        found[name.strip()] = parse_count(value)
    return found


def letters_of(text: str | None) -> dict[str, str]:
    """Letters for sizes: ``h=d,l=n``. Raises UsageError where it is no such list, or names a size twice."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else []:
        name, equals, letter = (word.strip() for word in part.partition("="))
        if not (name and equals and letter):
            raise UsageError(f"--letters {quoted(text)} is not a list of symbol=letter", "write h=d,l=n")
        if name in found:
            raise UsageError(f"--letters names {quoted(name)} twice", "leave one of them out")
        found[name] = letter
    return found


COMMAND = Command(
    answer,
    (TARGET, MODEL_ARGUMENT, OF, *FORMS, LETTERS, *MODEL_OPTIONS, *RUN, *PLANS, *COUNT, *DTYPE, *SHOW),
    (
        "tfcalc formula mha",
        "tfcalc formula encoder-layer --of flops",
        "tfcalc formula activations --of memory --model gpt2 --train --precision bf16",
        "tfcalc formula complete --latex",
        "tfcalc formula layer llama-3-8b",
        "tfcalc formula core --of time",
        "tfcalc formula",
        "tfcalc formula mha --model llama-3-8b --by-matrix",
        "tfcalc formula mha --of flops --letters h=d,l=n -q",
        "tfcalc formula ffn --general --substitute h=512,f=1k",
    ),
    write=write,
)
