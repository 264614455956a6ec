"""``tfcalc why``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.why.answer import Why
from tfcalc.analysis.why.given import BYTES_UNIT, FLOPS, LONGEST_SENTENCE, asked_about, numbers_in
from tfcalc.analysis.why.log_causes import BEARS_ON, of_log, refuse_nameless, refuse_unknown
from tfcalc.analysis.why.log_lines import logged, looks_logged
from tfcalc.analysis.why.log_question import LogQuestion
from tfcalc.analysis.why.of_plan import AskedPlan
from tfcalc.analysis.why.presets import PresetSize
from tfcalc.analysis.why.why import CACHE, MEMORY, QUANTITIES, conventions_of
from tfcalc.catalog import sizes
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.explain import SENTENCE, asks_of_a_number, concept_among, models_in, of_concept
from tfcalc.cli.commands.flops import TOKENS
from tfcalc.cli.commands.plans import PLANS, imply_mode, memory_plans
from tfcalc.cli.commands.train import GPU
from tfcalc.cli.idle import refuse_idle_in_flops
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option, of_fields
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.hardware import named as cards_named
from tfcalc.hardware import parse_gpu
from tfcalc.report.concepts import concept_of
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tfcalc.analysis.why.log_lines import LoggedNumber
    from tfcalc.report.answer import Answered

NUMBER = Option(
    "number",
    (),
    "a number as it was written, or log lines with numbers "
    "(117M, 6.61B, 124,439,808, 13.5GB, 31.5T, 3.14e23, 'Tried to allocate 7.83 GiB')",
    argument=True,
)
OF = Option(
    "of", ("--of",), "what the number is of [default: what its unit says, or what gives it]", QUANTITIES, front=True
)
SIZES = tuple(of_fields(Workload, "batch_size", "seq_len", "source_len", "phase"))
TP = "tensor_parallel"
TRAIN = tuple(option for option in RUN if option.name == "train")
OF_A_LOG = (
    GPU._replace(help="of a log line with bytes, MFU or FLOPs: the card that it ran on, such as h100"),
    *(option for option in PLANS if option.name == TP),
)
OF_WORK = (*SIZES, *TRAIN, TOKENS)
OF_A_PLAN = tuple(option for option in (*RUN, *PLANS) if option.name not in {one.name for one in (*OF_WORK, *OF_A_LOG)})
OF_CACHE = ("batch_size", "seq_len")


def answer(settings: Settings) -> Answered:
    """Return the conventions that give the number."""
    number = settings.get("number")
    if not number:
        raise UsageError("no number given", "write tfcalc why 163M gpt2")
    settings = _with_model(settings, str(number))
    if lines := logged(str(number)):
        return _of_log(settings, lines)
    refuse_unknown(str(number), _called(settings))
    of = settings.get("of")
    if of in (None, MEMORY) and (plan := _plan(settings, str(number))) is not None:
        on_card = {GPU.name: "tfcalc memory with it shows what a card has besides"}
        settings.refuse((TOKENS.name, GPU.name), "on the memory of a plan", on_card)
        called = _called(settings)
        return conventions_of(_first(str(number)), settings.model(), MEMORY, called=called, plan=plan)
    settings.refuse((option.name for option in OF_A_LOG), "on a number", {}, "put a log line in its place")
    where, remedy = "on a number that is not of bytes", "give the number its unit, as in 49GB, or leave it out"
    if of not in (None, MEMORY):
        where, remedy = f"on {of}", "take --of memory and give the number its unit, as in 49GB, or leave it out"
    settings.refuse((option.name for option in OF_A_PLAN), where, {}, remedy)
    _refuse_idle(settings, (of,) if of else QUANTITIES)
    model = settings.model()
    typed = [name for name in ("batch_size", "seq_len", "source_len", "phase") if name in settings.given]
    workload = settings.workload(model) if typed else None
    called = _called(settings)
    listed = () if called else [PresetSize(*one) for one in sizes()]
    texts = (numbers_in(str(number)) or [str(number)])[:MOST_NUMBERS]
    each = [
        conventions_of(
            text if len(texts) > 1 else number,
            model,
            of,
            workload,
            tokens=settings.get("tokens"),
            called=called,
            listed=listed,
        )
        for text in texts
    ]
    found = _most_odd(each)
    _refuse_idle(settings, found.of)
    if FLOPS in found.of:
        refuse_idle_in_flops(settings, model)
    if not found.found and not called:
        given = found.given.replace(" ", "")
        return replace(found, notes=(*found.notes, f"No model was named: tfcalc why {given} gpt2 asks about GPT-2"))
    return found


def _first(text: str) -> str:
    """The first number of a question in words; of anything else the text."""
    return (numbers_in(text) or [text])[0]


def _plan(settings: Settings, number: str) -> AskedPlan | None:
    """The plan whose memory the number is of, where it is bytes and such a plan was typed."""
    of_bytes = settings.get("of") == MEMORY or asked_about(_first(number)).unit == BYTES_UNIT
    imply_mode(settings)
    if not of_bytes or not (settings.get("serve") or settings.get("phase") == "train"):
        return None
    model = settings.model()
    typed = {name for name, given in settings.given.items() if given.source == FLAG}
    plans = memory_plans(settings, model, settings.workload(model))
    plan = plans.serving if plans.training is None else plans.training
    assert plans.workload is not None, "it runs"
    assert plan is not None, "it has a plan"
    return AskedPlan.of(model, plans.workload, plan, _called(settings), typed)


MOST_NUMBERS = 3
"""Numbers of a question that are looked for."""


def _most_odd(found: Sequence[Why]) -> Why:
    """The answer about the number that is not as tfcalc counts, if there is one; each of the others in a note."""
    first = next((one for one in found if not one.reasons or one.reasons[0].steps), found[0])
    others = tuple(
        f"{one.given} is {one.reasons[0].cause}" if one.reasons else f"no convention gives {one.given}"
        for one in found
        if one is not first
    )
    return replace(first, notes=(*first.notes, *others))


def _with_model(settings: Settings, text: str) -> Settings:
    """The settings with the model that a question names in its words, where it names one: "is gpt2 124M?"."""
    if settings.model_name is not None or len(text.split()) < 2:
        return settings
    models = models_in(text[:LONGEST_SENTENCE].split())
    return settings.with_values(model=models[0]) if len(models) == 1 else settings


def _of_log(settings: Settings, lines: Sequence[LoggedNumber]) -> Answered:
    """The answer about the numbers of log lines."""
    called = _called(settings)
    if not called:
        refuse_nameless(lines)
    settings.refuse(("of", *(option.name for option in OF_A_PLAN)), "on a log line", {})
    idle = [name for name, keys in BEARS_ON.items() if not any(one.key in keys for one in lines)]
    settings.refuse(idle, f"on what {lines[0].program} logs here", {})
    model, gpu = settings.model(), settings.get("gpu")
    typed = [name for name in ("batch_size", "seq_len", "source_len") if name in settings.given]
    return of_log(
        LogQuestion(
            lines,
            model,
            called,
            settings.get("tensor_parallel"),
            settings.workload(model) if typed else None,
            cards_named(parse_gpu(gpu)[1])[0] if gpu else None,
            settings.get("tokens"),
        )
    )


def _refuse_idle(settings: Settings, of: Collection[str]) -> None:
    """Refuse what was said of a run, and has no effect where the number is ``of`` these quantities alone."""
    if FLOPS in of:
        return
    for_cache = OF_CACHE if CACHE in of else ()
    remedy = "add --of flops" if for_cache else "add --of flops or --of cache, or leave it out"
    names = (option.name for option in OF_WORK if option.name not in for_cache)
    settings.refuse(names, f"on {' or '.join(of)}", {}, remedy)


def by_words(words: Sequence[str]) -> Command:
    """``why`` itself; or what explains the concept that a question without a number of some size is about."""
    if words and words[0].isalpha() and concept_of(words[0]) is not None and (named := concept_among(words)):
        return of_concept(named)
    question = next((word for word in words if len(word.split()) >= SENTENCE), "")
    if not question or logged(question) or looks_logged(question):
        return COMMAND
    if asks_of_a_number([question, *(word for word in words if word != question)]):
        return COMMAND
    named = concept_among(words)
    return COMMAND if named is None else of_concept(named)


def _called(settings: Settings) -> str:
    """The model as it was named, with the sizes that were typed."""
    words = [settings.model_name] if settings.model_name else []
    for option in MODEL_OPTIONS:
        given = settings.given.get(option.name)
        if given and given.source == FLAG and option.name not in ("model_name",):
            words.append(given.called if option.switch else f"{given.called} {given.value}")
    return " ".join(words)


def code(found: Answered) -> int:
    """0 where a convention gives the number, 1 where none does."""
    return 0 if cast(Why, found).found else 1


COMMAND = Command(
    answer,
    (
        NUMBER,
        MODEL_ARGUMENT,
        OF,
        *MODEL_OPTIONS,
        *OF_WORK,
        *OF_A_LOG,
        *OF_A_PLAN,
        *(one for one in SHOW if one.name != "formulas"),
    ),
    (
        "tfcalc why 163M gpt2",
        "tfcalc why 6.61B --model llama-2-7b",
        "tfcalc why 'Loading model weights took 14.9888 GB' llama-3.1-8b",
        "tfcalc why 31.5T --model llama-2-7b --of flops --seq 4096",
        "tfcalc why 12.6GB llama-2-7b",
        "tfcalc why 512KB llama-3-8b --of cache",
        "tfcalc why 49GB llama-3-70b --qlora",
        "tfcalc why 3.14e23 gpt-3-175b --train --seq 2048 --tokens 300B",
        "tfcalc why 'Tried to allocate 7.83 GiB' llama-3-8b --seq 4k --batch 4",
    ),
    code,
    by_words=by_words,
)
