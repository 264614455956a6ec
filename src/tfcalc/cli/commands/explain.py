"""``tfcalc explain``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.quantities import OTHER_WORDS
from tfcalc.analysis.targets import TARGETS
from tfcalc.analysis.why import given
from tfcalc.answers.explain import COUNTS, PARTS, explain_part
from tfcalc.answers.metrics import HEADLINES
from tfcalc.answers.question import QUANTITIES, number_path
from tfcalc.catalog import is_known, is_path, preset
from tfcalc.cli.app import settings_of, with_values
from tfcalc.cli.commands import COMMANDS, Command, command
from tfcalc.cli.commands.flops import TOKENS
from tfcalc.cli.commands.formula import TARGET, WITH_BATCH, aimed, refuse_batch, refuse_idle_on_part
from tfcalc.cli.commands.meant import FORMULA, as_meant, better, is_meant, is_peak
from tfcalc.cli.commands.number_of_answer import PATH, of_answer, of_one_model, path_among
from tfcalc.cli.commands.plans import PLANS, plans_for
from tfcalc.cli.idle import OF_PART
from tfcalc.cli.options import (
    COUNT,
    DEPTH,
    DTYPE,
    EDITS,
    MODEL_ARGUMENT,
    MODEL_FIELDS,
    MODEL_OPTIONS,
    RUN,
    SHOW,
    Option,
)
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import TfcalcError, UnknownTarget, UsageError
from tfcalc.hardware import parse_gpu
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.concepts import MARKS, concept_in, concept_of, near
from tfcalc.report.concepts import known as concepts
from tfcalc.report.paths import ABOUT_ONE_MODEL

if TYPE_CHECKING:
    from tfcalc.cli.settings import Given
    from tfcalc.report.answer import Answered
    from tfcalc.report.concepts import Concept
    from tfcalc.report.explanation import Explained


def answer(settings: Settings) -> Answered:
    """Return how one number is computed: that of a part, or any number of an answer."""
    settings = aimed(settings)
    if is_peak(settings):
        settings = settings.with_values(target=f"memory.{HEADLINES['peak'].key}")
    if (asked := number_path(str(settings.get("target")), settings.get("of", ""))) is not None:
        return _number(settings, *asked)
    settings = as_meant(settings)
    settings.refuse((option.name for option in NUMBERS_ONLY), "on a part", {}, _that_counts(settings))
    refuse_batch(settings)
    try:
        refuse_idle_on_part(settings, _explained, OF_PART)
        return _explained(settings)
    except UsageError as error:
        raise better(error, settings) from None


def _that_counts(settings: Settings) -> str:
    """Return what to ask instead of a part on a card: in training on several GPUs a part may have a share."""
    number = "name a number, such as total_flops"
    gpus, _ = parse_gpu(settings.get("gpu", ""))
    shared = gpus > 1 and settings.get("of") == "memory" and settings.get("train")
    return f"take --gpus {gpus}, or {number}" if shared else number


def _explained(settings: Settings) -> Answered:
    model = settings.model()
    of, run = settings.get("of", "params"), settings.workload(model)
    asked_for = plans_for(settings, of, model, run)
    return explain_part(
        settings.get("target"),
        model,
        of,
        asked_for.workload or run,
        settings.conventions(),
        training=asked_for.training,
        serving=asked_for.serving,
        steps=settings.get("steps", False),
        with_batch=settings.get("with_batch", False),
        approx=settings.get("approx", False),
    )


def _number(settings: Settings, name: str, keys: tuple[str, ...]) -> Answered:
    if QUANTITIES.get(settings.get("of", ""), name) != name:
        settings.refuse(("of",), f"on {name}.{'.'.join(keys)}", {})
    settings = Settings({key: given for key, given in settings.given.items() if key != "of"}, settings.named)
    own = {option.name for option in (*command(name).options, *PART[:2])}
    settings.refuse((key for key in settings.given if key not in own), f"on {name}", {})
    if "approx_params" not in keys:
        settings.refuse(("approx",), f"on {keys[-1]}", {})
    return of_one_model(name, keys, settings)


def by_words(words: Sequence[str]) -> Command:
    """``explain`` itself; or what opens a number by the words of the command that has it, or that of a concept."""
    path = path_among(words, COMMAND.options)
    if path is None and (another := _of_another(words)):
        return command(another)
    if path is None and (named := concept_among(words)) is not None:
        if named.concept.of_run and any(word.partition("=")[0] in TOKENS.flags for word in words):
            named = named._replace(concept=named.concept._replace(opens=named.concept.of_run))
        return of_concept(named)
    of_a_part = (
        path is not None
        and path.command in ABOUT_ONE_MODEL
        and any(word.partition("=")[0] in OF_A_PART for word in words)
    )
    if path is None or of_a_part:
        return COMMAND
    own = of_answer(path, words)
    return own._replace(answer=partial(_or_term, own, words[path.place])) if path.command == "memory" else own


def _or_term(own: Command, path: str, settings: Settings) -> Answered:
    """Return how a number of memory is computed; else a term by the ``path`` that its row has in JSON.

    A term is explained without a card, which decides more than one (workspaces, formats).
    """
    try:
        return own.answer(settings)
    except TfcalcError:
        known = {option.name for option in COMMAND.options}
        given = {name: value for name, value in settings.given.items() if not name.startswith(PATH.name)}
        if given.keys() <= known:
            with suppress(TfcalcError):
                return answer(Settings(given, settings.named).with_values(target=path, of="memory"))
        raise


def _of_another(words: Sequence[str]) -> str:
    """The command that explains a number, or a formula, in the place of a part; "" of what is neither."""
    if not words or words[0].startswith("-"):
        return ""
    if len(said := words[0].split()) >= SENTENCE and sum(word.isalpha() for word in said) > 1:
        return "why" if asks_of_a_number(words) else ""
    try:
        given.read(words[0])
    except UsageError:
        return "check" if FORMULA.fullmatch(words[0]) and concept_of(words[0]) is None else ""
    return "why"


def asks_of_a_number(words: Sequence[str]) -> bool:
    """Return whether a sentence, the first of the words, asks where a number comes from, and not about a concept.

    >>> asks_of_a_number(["why 124,439,808 and not 117M"]), asks_of_a_number(["where are 31.25 GB of logits"])
    (True, False)
    """
    numbers = given.numbers_in(words[0])
    if any(sum(map(str.isdigit, number)) > SIZE for number in numbers):
        return True
    if not any(not number.isdigit() or len(number) > FACTOR for number in numbers):
        return False
    of_bytes = any(given.read(number).unit == given.BYTES_UNIT for number in numbers)
    return of_bytes is False or concept_among(words) is None


class NamedConcept(NamedTuple):
    """A concept that a command line names, the number of its ``words``, and the model behind them; "" of none."""

    concept: Concept
    words: int
    model: str


def concept_among(words: Sequence[str]) -> NamedConcept | None:
    """The concept that the words ask about; None where they name a part, or say a quantity of one.

    >>> concept_among(["what", "is", "mfu", "of", "gpt2"])[1:], concept_among(["KV cache", "--context", "8k"])[1:]
    ((5, 'gpt2'), (1, ''))
    """
    options = _options_of(words)
    words = with_values(words, options)
    valued = {flag for option in options if not option.switch for flag in option.flags}
    found = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not (word.startswith("-") or before in valued)
    ]
    said = " ".join(found).split()
    of_a_part = any(word.partition("=")[0] in OF_A_PART for word in words)
    a_part = bool(said) and said[0] in PARTS and (len(said) == 1 or concept_of(" ".join(said)) is None)
    named_so = bool(said) and (said[0] in TARGETS or is_meant(said[0]) or is_meant(found[0]))
    if not 0 < len(said) <= MOST_WORDS or a_part or (of_a_part and named_so):
        return None
    if "_" in said[0] and number_path(said[0]) is not None:
        named = concept_of(said[0])
        if named is None or named.refused:
            return None  # a number of an answer, by its key
    if (concept := concept_of(" ".join(said))) is not None:
        return NamedConcept(concept, len(found), "")
    asked = said[:-2] if said[-2:-1] and said[-2] in ("of", "for", "in", "on") else said[:-1]
    of_a_model = concept_of(" ".join(asked))
    model = said[-1].removesuffix("?")
    apart = found[-1] == said[-1] and concept_of(" ".join(found[:-1])) is not None
    if of_a_model is not None and (is_known(model) or (apart and any(map(str.isdigit, model)))):
        return NamedConcept(of_a_model, len(found), model)
    if (in_a_sentence := _in_a_sentence(found)) is not None:
        return in_a_sentence
    if len(said) > 1 and not is_known(said[-1]) and (names := near(" ".join(said), SURE)):
        raise UsageError(f"{quoted(' '.join(said))} is not known", f"did you mean {', '.join(names)}?")
    return None if of_a_model is None else NamedConcept(of_a_model, len(found), model)


def _options_of(words: Sequence[str]) -> tuple[Option, ...]:
    """The options of ``explain``; where others are typed, those of the commands that have numbers of concepts, too."""
    flags = {flag for option in COMMAND.options for flag in option.flags}
    if all(word.partition("=")[0] in flags for word in words if word.startswith("--")):
        return COMMAND.options
    opened = dict.fromkeys(one.opens.partition(".")[0] for one in concepts().values())
    return (*COMMAND.options, *(option for name in opened if name in COMMANDS for option in command(name).options))


def _in_a_sentence(words: Sequence[str]) -> NamedConcept | None:
    """The concept that a sentence names somewhere, and the model that it names, or that is behind it.

    Raises UsageError where it names several models; UnknownModel for a name of none.
    """
    said = " ".join(words).split()
    models = models_in(said)
    sentence = " ".join(word for word in said if word.strip(MARKS) not in models)
    concept = concept_in(sentence) if len(said) >= SENTENCE else None
    if concept is None:
        return None
    for word in (word.strip(MARKS) for word in said):
        if re.fullmatch(WITH_ITS_SIZE, word) and word not in models:
            preset(word)  # which says what is nearest
    if len(models) > 1:
        raise UsageError(f"{quoted(' '.join(said))} names {len(models)} models", "ask about one of them")
    return NamedConcept(concept, len(words), "".join(models))


def models_in(words: Iterable[str]) -> list[str]:
    """The models that words of a question name; an id of the Hub only where a preset is of it.

    >>> models_in("is gpt2 124M, or gpt2-medium?".split())
    ['gpt2', 'gpt2-medium']
    """
    bare = dict.fromkeys(word.strip(MARKS) for word in words)
    return [word for word in bare if any(map(str.isalpha, word)) and "/" not in word and is_named(word)]


def is_named(word: str) -> bool:
    """Return whether a word is the name of a model, and no place."""
    return not is_path(word) and is_known(word)


FACTOR, SIZE = 3, 5
"""Digits of a factor of a formula, and of a size, at most: one with more is a number that is looked for."""


def of_concept(named: NamedConcept) -> Command:
    """The command that opens the number of a concept: that of its own words, which the typed options go before."""
    concept, opened = named.concept, shlex.split(named.concept.opens)
    shown = by_words(opened) if opened else COMMAND
    spoken = tuple(Option(f"word{place}", (), "a concept, by its name", argument=True) for place in range(named.words))

    def answer(settings: Settings) -> Answered:
        """Open the number, of the model that was named or of the concept's own."""
        own = settings_of(opened, shown.options) if opened else settings
        called = settings.get("word0")
        typed = {key: given for key, given in settings.given.items() if not key.startswith("word")}
        if "of" in typed and named.words - bool(named.model) == 1:
            part = Settings(typed, settings.named).with_values(target=called)
            with suppress(UnknownTarget):  # a model without a part of this name is asked about the concept
                return COMMAND.answer(part.with_values(model=named.model) if named.model else part)
        if (its := own.get("of")) and (of := typed.get("of", own.given["of"]).value) != its:
            raise UsageError(f"{concept.name} is a number of {its}, not of {of}", f"leave --of {of} out")
        flags = {key: given for of in (own.given, typed) for key, given in of.items() if given.source == FLAG}
        settings = Settings(typed | flags, settings.named)
        sized = any(option.name in settings.given for option in (*MODEL_FIELDS, *EDITS))
        if named.model or not (settings.model_name or sized):
            settings = settings.with_values(model=named.model or concept.model)
        model = f" {settings.model_name}" if settings.model_name else ""
        if concept.refused:
            raise UsageError(f"{concept.name}: {concept.refused}", concept.instead.format(model))
        further = tuple(_on(one.format(model), typed.get("gpu")) for one in concept.further)
        asked, alone = settings.model_name or "this model", f"tfcalc explain '{concept.name}' takes {concept.model}"
        try:
            found = cast("Explained", shown.answer(settings))
        except UnknownTarget:
            if called == opened[0]:  # and the error is about this word
                raise
            raise UsageError(f"{asked} has none of what {concept.name} opens", alone) from None
        if concept.needs and not found.has(concept.needs):
            raise UsageError(f"{asked} has no {concept.name}", alone)
        return replace(found, known_as=concept._replace(further=further))

    options = (*spoken, *(option for option in shown.options if not option.argument))
    return COMMAND._replace(answer=answer, options=options)


def _on(command: str, gpu: Given | None) -> str:
    """Return a command with the GPU that was named in the place of its own.

    >>> _on("tfcalc serve gpt2 --gpu h100 --floor", None)
    'tfcalc serve gpt2 --gpu h100 --floor'
    """
    return command if gpu is None else command.replace(" --gpu h100", f" --gpu {gpu.value}")


WITH_ITS_SIZE = r"[\w.]+(-[\w.]+)*-\d+(\.\d+)?[bBmM](-[\w.]+)*"
"""A name that only a model has: ``gemma-4-31b-it``."""
MOST_WORDS, SENTENCE = 40, 3
"""Words of a question, and of one that names a concept among others."""
SURE = 0.8
"""How alike several words and the name of a concept are, so that it is meant, and no part of a model."""
OF_A_PART = ("--of", "--steps", "--with-batch")
"""Options that no command about one model has: beside them a path may be that of a part."""
PART = (
    TARGET._replace(
        help=f"a part of the model, or a concept such as MFU; parts are {', '.join(TARGETS)}, and paths of its tree; "
        "or COMMAND.PATH of a number in JSON, followed by that command's words"
    ),
    MODEL_ARGUMENT,
    Option("of", ("--of",), "quantity [default: params]", tuple(COUNTS), spellings=OTHER_WORDS, front=True),
    Option("steps", ("--steps",), "of a training step's FLOPs: X W, dX and dW by themselves", switch=True, front=True),
    WITH_BATCH,
    Option("approx", ("--approx",), "drop biases and norms", switch=True, front=True),
    *MODEL_OPTIONS,
    *RUN,
    *PLANS,
    *COUNT,
    *DTYPE,
)
NUMBERS_ONLY = tuple(
    {
        option.name: option
        for name in ("flops", "memory")
        for option in command(name).options
        if option.name not in {"timeline", "compare", *(known.name for known in (*PART, *SHOW, DEPTH))}
    }.values()
)
"""Options of the commands whose numbers are opened, which a part has no use for."""

COMMAND = Command(
    answer,
    (*PART, *NUMBERS_ONLY, *SHOW),
    (
        "tfcalc explain attention gpt2",
        "tfcalc explain 'KV cache' llama-3-8b",
        "tfcalc explain 6nd",
        "tfcalc explain memory.peak_bytes gpt2 --train --batch 8",
        "tfcalc explain flops_per_token llama-3-8b --train --seq 4k",
        "tfcalc explain attention --d-model 768 --heads 12",
        "tfcalc explain encoder-layer --of flops --seq 1024",
        "tfcalc explain activations.transformer.h gpt2 --of memory --train",
        "tfcalc explain output --model transformer-base --of flops --format plain",
        "tfcalc explain ffn --of flops --train --steps",
        "tfcalc explain encoder-layer --approx",
        "tfcalc explain mha --of time",
        "tfcalc explain compare.models.1.total_params gpt2 gpt2-medium",
        "tfcalc explain diff.rows.total_params.percent gpt2 gpt2-medium",
        "tfcalc explain shapes.results.Q.flops mha --batch 2 --seq 5",
        "tfcalc explain solve.rows.0.sides.0 'params = 125M' --for layers gpt2",
    ),
    by_words=by_words,
)
