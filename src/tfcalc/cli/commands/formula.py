"""``tfcalc formula``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.closed_form import Formula
from tfcalc.analysis.formulas import formulas
from tfcalc.analysis.quantities import OTHER_WORDS, QUANTITIES
from tfcalc.analysis.targets import TARGETS
from tfcalc.answers.formula import formula
from tfcalc.catalog import is_known
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.meant import as_meant, is_meant
from tfcalc.cli.commands.plans import PLANS, plans_for
from tfcalc.cli.idle import OF_FORM, refuse_idle_on
from tfcalc.cli.options import COUNT, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.output import deliver, show
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.style import Style
from tfcalc.symbolic import to_sympy
from tfcalc.units import parse_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfcalc.analysis.formulas import Formulas
    from tfcalc.report.answer import Answered

TARGET = Option(
    "target", (), f"a part of the model, or a path of its tree: {', '.join(TARGETS)}", argument=True, offers="targets"
)
OF = Option("of", ("--of",), "quantity [default: params]", tuple(QUANTITIES), spellings=OTHER_WORDS, front=True)
LETTERS = Option(
    "letters", ("--letters",), "your letters for some sizes, by letter (of --notation) or name: h=d,l=n", front=True
)
WITH_BATCH = Option(
    "with_batch", ("--with-batch",), "growth of the whole batch, with b, not of one sequence", switch=True
)
GENERAL = Option("general", ("--general",), "a symbol for every size, even where one follows from others", switch=True)
BIG_O = Option("big_o", ("--big-o",), "asymptotic growth only", switch=True, front=True)
FORMS = (
    Option("approx", ("--approx",), "drop biases and norms", switch=True, front=True),
    BIG_O,
    WITH_BATCH,
    GENERAL,
    Option("by_matrix", ("--by-matrix",), "each matrix a term of its own: h(ad) + 2h(gd) + (ad)h", switch=True),
    Option(
        "substitute",
        ("--substitute",),
        "numbers for symbols, by letter (of --notation) or name: h=512,n_layers=6",
        front=True,
    ),
    Option("latex", ("--latex",), "the formula alone, in LaTeX", switch=True, front=True),
    Option("sympy", ("--sympy",), "the formula alone, as sympy prints it", switch=True),
)


def answer(settings: Settings) -> Formula | Formulas:
    """The closed form, with its legend; without a target those of all parts."""
    if not settings.get("target"):
        return _summary(settings)
    settings = as_meant(aimed(settings))
    refuse_batch(settings)
    refuse_idle_on_part(settings, _in_letters, (*OF_FORM, GENERAL, BIG_O))
    return _form(settings)


def _in_letters(settings: Settings) -> Formula:
    """The form before numbers are put in, which may make two forms equal by chance."""
    return _form(settings.without("substitute") if "substitute" in settings.given else settings)


def refuse_idle_on_part(settings: Settings, answer: Callable[[Settings], Answered], options: Sequence[Option]) -> None:
    """Raise UsageError for one of these ``options`` that changes nothing of an answer about one part.

    Of the memory of training and serving a part is one line of the answer, and options are those of the whole.
    """
    of = settings.get("of", "params")
    if of == "memory" and not settings.get("serve"):
        settings.refuse(("weights",), "on a part of a model at rest", {}, "give --dtype, or ask tfcalc memory")
    if of == "memory" and (settings.get("phase") == "train" or settings.get("serve")):
        return
    of_growth = [option for option in RUN if option.name == "phase" and of == "time"]
    refuse_idle_on(settings, (*options, *of_growth), answer, f"on {QUANTITIES[of]} of {settings.get('target')}")


def _form(settings: Settings) -> Formula:
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
    remedies = {"of": "leave it out, or name one: mha, ffn, layer, complete"}
    others = (option.name for option in (*RUN, *PLANS, *DTYPE))
    settings.refuse((*OF_ONE_PART, *others), "without a target", remedies, remedies["of"])
    refuse_idle_on(settings, (GENERAL,), _forms, "on this model, each of whose sizes has a symbol")
    return _forms(settings)


def _forms(settings: Settings) -> Formulas:
    model = settings.model()
    run = settings.workload(model)
    return formulas(model, run, settings.conventions(), general=settings.get("general", False))


def _notation(settings: Settings) -> str:
    return str(settings.get("notation", "lbhn"))


def write(answer: Formula | Formulas, settings: Settings) -> None:
    """The whole answer, or the formula alone in another language."""
    if not isinstance(answer, Formula):
        show(answer, settings)
        return
    language, in_json = _language(settings), settings.wants_json and not settings.get("quiet")
    if language == "sympy" and in_json:
        show(replace(answer, sympy=_in_sympy(answer, "lbhn")), settings)
    elif language is None or in_json:
        show(answer, settings)
    elif language == "sympy":
        deliver(_in_sympy(answer, _notation(settings)), settings)
    else:
        deliver(answer.text(Style(script="latex", notation=_notation(settings))), settings)


def _language(settings: Settings) -> str | None:
    """Language that the formula is to be written in, where one is asked for; in JSON it is one of the keys.

    Raises UsageError where one place asks for two languages, or for another format.
    """
    chosen = settings.choose("sympy", "latex", "format")
    language = next((name for name in chosen if name != "format"), None)
    for other in chosen[1:] if language else []:
        if other != "format" or settings.get("format") not in ("json", language):
            one, another = settings.given[str(language)].called, settings.given[other].called
            value = f" {settings.get('format')}" if other == "format" else ""
            raise UsageError(f"{one} contradicts {another}{value}", "leave one of them out")
    return language


def _in_sympy(answer: Formula, notation: str) -> str:
    if answer.matrices:
        raise UsageError("--by-matrix has no effect with --sympy, which adds all terms up", "leave it out")
    return f"{to_sympy(answer.closed, notation, answer.letters)}"


def aimed(settings: Settings) -> Settings:
    """The settings with a target: a model's name in its place means the complete model, or the part named behind it.

    Raises UsageError with the targets that there are, where none is given.
    """
    target, behind = settings.get("target"), settings.get("model")
    if not target:
        raise UsageError("no target given", f"known: {', '.join(TARGETS)}, or a path of the tree")
    if behind and not is_known(behind) and is_meant(f"{target} {behind}"):  # two words without quotes
        return settings.without("model").with_values(target=f"{target} {behind}")
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
