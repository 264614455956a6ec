"""Questions in words in the place of a command: ``tfcalc will llama 3 70b fit on two h100s`` asks for an overview."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tfcalc.catalog import is_known, is_path
from tfcalc.cli.commands import COUNTED
from tfcalc.errors import UsageError
from tfcalc.hardware import is_accelerator, named, parse_gpu
from tfcalc.printable import quoted
from tfcalc.report.concepts import MARKS, concept_in
from tfcalc.serving.weight_formats import format_named
from tfcalc.timing.rates import machine_of

WORDS = {
    "trained": "train training trained finetune fine-tune finetuning fine-tuning tune tuning pretrain sft",
    "served": "serve serving inference infer deploy host users requests",
    "timed": "long hours days time fast slow speed cost costs expensive money throughput latency second seconds",
    "flops": "flops flop macs",
    "most": "longest largest biggest maximum max most fits fit",
    "shape": "layers heads shape width wide depth deep",
    "optimal": "chinchilla optimal compute-optimal",
    "beside": "of a an size length window with at is tokens",
}
"""Words that say what a question asks about."""
TRAINED, SERVED, TIMED, FLOPS, MOST, OF_A_SHAPE, OPTIMAL, BESIDE = (frozenset(said.split()) for said in WORDS.values())
OF_A_MODEL = TRAINED | SERVED | {"model", "models", "fit", "fits", "run", "runs"}
"""Words by which a question about a card is about a model on it."""
LONGEST_NAME = 4
"""Words of a name that are typed apart: ``llama 3.1 70b instruct``."""
LONGEST_QUESTION = 100
"""Words of a question: longer texts are none, and each of their words would be looked up."""
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}


def contains(word: str, words: frozenset[str]) -> bool:
    """Return whether a word is among these."""
    return word in words


AMOUNTS = {
    **dict.fromkeys(("context", "ctx"), "--context"),
    **dict.fromkeys(("sequence", "sequences", "seq"), "--seq"),
    **dict.fromkeys(("batch", "batches"), "--batch"),
    **{word: option for word, option in COUNTED.items() if option not in ("--tokens",)},
}
"""Options by the word for what an amount is of."""
OF_TRAINING = {"--context": "--seq", "--concurrency": "--batch"}
OF_SERVING = {"--tokens": "--context", "--seq": "--context", "--batch": "--concurrency"}
ELSEWHERE = {"--tokens": "--context"}
"""Options that training, serving, and everything else has in the place of one."""
AMOUNT = re.compile(r"\d[\d,.]*[kKmMbBtT]?i?|\d\.?\d*e\d+", re.ASCII)


ASKED_FOR: tuple[tuple[str, Callable[[frozenset[str]], bool]], ...] = (
    *((f"fit --{adapter}", partial(contains, adapter)) for adapter in ("qlora", "lora")),
    *((f"fit --method {method}", partial(contains, method)) for method in ("dpo", "grpo", "ppo")),
    ("flops --train", lambda words: bool(words & FLOPS and words & TRAINED)),
    ("", lambda words: bool(words & FLOPS and "token" in words)),
    ("flops", lambda words: bool(words & FLOPS)),
    ("plan", lambda words: bool(words & TRAINED and "many" in words and words.isdisjoint(TIMED))),
    ("train", lambda words: bool(words & TRAINED and words & TIMED)),
    ("fit", lambda words: bool(words & TRAINED)),
    ("serve", lambda words: bool(words & (SERVED | TIMED))),
    ("params", lambda words: bool(words & {"parameters", "params", "weights"})),
)
"""The command that a question asks for, by its words; one without any of these asks for everything at a glance."""
ASKED_OF_A_CARD: tuple[tuple[str, Callable[[frozenset[str]], bool]], ...] = (
    ("memory --train", lambda words: bool(words & MOST and words & {"batch", "sequence"})),
    ("memory --serve", lambda words: bool(words & MOST and words & {"context", "concurrency"})),
)
"""The same where a card is named, whose largest sizes are asked for."""
ONE_OF_MANY = "h100"
"""The card of a question about how many are needed, where it names none."""


AT_A_GLANCE = ("training memory", "parameter count")
"""Concepts that everything at a glance tells of a model."""


class AskedInWords(NamedTuple):
    """A question in words: the ``line`` that answers it, without ``tfcalc``, and what it says that no option has."""

    line: tuple[str, ...]
    left: tuple[str, ...]


def question_in(words: Sequence[str]) -> AskedInWords | None:
    """The question that words ask about models or a card; None where they name neither, or several of both.

    >>> question_in("will llama 3 70b fit on 2 rtx 4090s?".split()).line
    ('llama-3-70b', '--gpu', '2xrtx-4090')
    >>> question_in("how long to finetune gpt2 on an a100".split()).line, question_in("how big is it".split())
    (('train', 'gpt2', '--gpu', 'a100'), None)
    """
    said = [bare for word in words if (bare := word.strip(MARKS))]
    if len(said) > LONGEST_QUESTION:
        return None
    models, rest = _found(said, _model)
    cards, rest = _found(rest, _card)
    lower = frozenset(word.lower() for word in rest)
    if len(models) > 1 and not cards and not _with_digits(rest):
        return AskedInWords(("compare", *models), ())
    if not models:
        return _of_no_model(list(cards), rest, lower)
    if len(models) > 1 or len(cards) > 1:
        return None
    for name, place in cards.items():
        if place and (number := _number(rest[place - 1])):
            cards, rest[place - 1] = {f"{number}x{name}": place}, ""
    lines = (*ASKED_OF_A_CARD, *ASKED_FOR) if cards else ASKED_FOR
    command = next((line for line, asks in lines if asks(lower)), None)
    first, *options = (command or "").split() or [""]
    amounts = dict(_amounts(rest, trains=bool(lower & TRAINED), serves=first == "serve"))
    given = tuple(part for option in amounts.items() for part in option)
    concept = concept_in(" ".join(rest)) if command in (None, "params") and not cards else None
    if concept is not None and concept.name not in AT_A_GLANCE:
        return AskedInWords(("explain", concept.name, *models, *given), ())
    if command == "serve" and "many" in lower and not cards and lower & {"gpu", "gpus", "cards"}:
        options = ["--for", "gpus"]
    if command == "plan" and not cards:
        cards = {ONE_OF_MANY: 0}
    if command == "plan" and not all(map(_is_timed, cards)):
        first = "fit"
    if "--tokens" in amounts and first == "fit":
        first = "train"
    card = ("--gpu", *cards) if cards else ()
    return AskedInWords((*filter(None, (first,)), *models, *options, *card, *given), _with_digits(rest))


def _of_no_model(cards: Sequence[str], rest: Sequence[str], lower: frozenset[str]) -> AskedInWords | None:
    """The question of words that name no model: of a card alone, or of the best model for a compute; None of others.

    Raises UsageError for a size in the place of a model, and for a question about all models.
    """
    if lower & OPTIMAL and (amount := next(filter(AMOUNT.fullmatch, rest), "")):
        return AskedInWords(("design", "--compute", amount), ())
    for size, word in pairwise(rest):
        if AMOUNT.fullmatch(size) and word.lower() in ("model", "models"):
            if lower & OF_A_SHAPE:
                return AskedInWords(("design", size), ())
            if "tokens" in lower:
                return AskedInWords(("explain", "tokens per parameter"), ())
            names = f"tfcalc models {size.lower()} lists their names; tfcalc design {size} has shapes of that size"
            raise UsageError(f"models of {quoted(size)} differ; name one", names)
    if len(cards) != 1 or concept_in(" ".join(rest)) is not None:
        return None
    if "models" in lower:
        raise UsageError("a question is about one model", f"tfcalc fit MODEL --gpu {cards[0]}")
    return AskedInWords(("gpus", *cards), _with_digits(rest)) if lower.isdisjoint(OF_A_MODEL) else None


def _with_digits(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if any(map(str.isdigit, word)))


def _amounts(words: list[str], *, trains: bool, serves: bool) -> Iterator[tuple[str, str]]:
    """Options with the amounts in these words, in which "" takes the place of each, and of what it is of.

    >>> words = "with a context length of 32k and 8 users".split()
    >>> list(_amounts(words, trains=False, serves=True)), [word for word in words if word]
    ([('--context', '32k'), ('--concurrency', '8')], ['with', 'a', 'and'])
    """
    instead = OF_TRAINING if trains else OF_SERVING if serves else ELSEWHERE
    for place, word in enumerate(words):
        if not AMOUNT.fullmatch(word):
            continue
        behind = next((at for at in range(place + 1, len(words)) if words[at].lower() not in BESIDE), place)
        before = next((at for at in reversed(range(place)) if words[at].lower() not in BESIDE), place)
        of_what = next((at for at in (behind, before) if words[at].lower() in AMOUNTS), place)
        tokens = "--tokens" if words[place + 1 : place + 2] in (["token"], ["tokens"]) else ""
        if option := AMOUNTS.get(words[of_what].lower(), tokens):
            first, last = sorted((place, of_what))
            words[first : last + 1] = [""] * (last + 1 - first)
            yield instead.get(option, option), word


def joined(words: Sequence[str]) -> list[str]:
    """The words with a model's name in one piece, where they begin with one that was typed apart.

    >>> joined(["llama3", "70b", "--lora"]), joined(["gpt2", "xl"]), joined(["gpt2", "vs", "gpt2-xl"])
    (['llama3-70b', '--lora'], ['gpt2-xl'], ['gpt2', 'vs', 'gpt2-xl'])
    """
    for last in range(min(LONGEST_NAME, len(words)), 1, -1):
        if name := _model(words[:last]):
            return [name, *words[last:]]
    return list(words)


def _found(words: Sequence[str], read: Callable[[Sequence[str]], str]) -> tuple[dict[str, int], list[str]]:
    """The names that ``read`` finds in neighbouring words, the longest first, and its place in the words, "" there."""
    found, rest, place = dict[str, int](), list[str](), 0
    while place < len(words):
        last, name = next(_names_at(words, place, read), (place + 1, ""))
        if name:
            found[name] = len(rest)
        rest.append("" if name else words[place])
        place = last
    return found, rest


def _names_at(words: Sequence[str], place: int, read: Callable[[Sequence[str]], str]) -> Iterator[tuple[int, str]]:
    for last in range(min(len(words), place + LONGEST_NAME), place, -1):
        if name := read(words[place:last]):
            yield last, name


def _model(words: Sequence[str]) -> str:
    """The name of a model in these words; "" where they are none, or a place."""
    name = "-".join(words).lower() if len(words) > 1 else words[0]
    known = any(map(str.isalpha, name)) and not name.startswith("-") and is_known(name)
    return name if known and not is_path(name) and (len(words) == 1 or "/" not in name) else ""


def _card(words: Sequence[str]) -> str:
    """The name of a card in these words, or of several; "" where they are none."""
    name = "-".join(words).lower()
    for spelled in (name, name.removesuffix("s")):
        if re.search(r"\d", spelled) and is_card(spelled):
            return spelled
    return ""


def _is_timed(name: str) -> bool:
    """Return whether layouts on this card are known by their seconds."""
    return machine_of(named(parse_gpu(name)[1])[0]) is not None


def is_card(name: str) -> bool:
    """Return whether a word names a GPU: ``tfcalc MODEL h100`` is ``tfcalc MODEL --gpu h100``."""
    try:
        return is_accelerator(parse_gpu(name)[1])
    except UsageError:
        return False


def is_format(word: str) -> bool:
    """Return whether a word names a format of weights: ``tfcalc MODEL 4bit`` asks for its memory in that one."""
    try:
        return bool(format_named(word))
    except UsageError:
        return False


def _number(word: str) -> int:
    """A number of cards, as a figure or a word; 0 where it is none."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else NUMBERS.get(word.lower(), 0)
