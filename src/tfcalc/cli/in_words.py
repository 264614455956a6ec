"""Questions in words in the place of a command: ``tfcalc will llama 3 70b fit on two h100s`` asks for an overview."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tfcalc.catalog import is_known, is_path
from tfcalc.errors import UsageError
from tfcalc.hardware import is_accelerator, named, parse_gpu
from tfcalc.report.concepts import MARKS, concept_in
from tfcalc.serving.weight_formats import format_named
from tfcalc.timing.rates import machine_of

WORDS = {
    "asking": "how what which will would can could does do is are should where when who i my what's whats",
    "trained": "train training trained finetune fine-tune finetuning fine-tuning tune tuning pretrain sft",
    "served": "serve serving inference infer deploy host users requests",
    "timed": "long hours days time fast slow speed cost costs expensive money throughput latency",
}
"""Words of questions, by their part in it."""
ASKING, TRAINED, SERVED, TIMED = (frozenset(said.split()) for said in WORDS.values())
"""First words of a question, and words that say what it asks about."""
LONGEST_NAME = 4
"""Words of a name that are typed apart: ``llama 3.1 70b instruct``."""
LONGEST_QUESTION = 100
"""Words of a question: longer texts are none, and each of their words would be looked up."""
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}


def contains(word: str, words: frozenset[str]) -> bool:
    """Return whether a word is among these."""
    return word in words


ASKED_FOR: tuple[tuple[str, Callable[[frozenset[str]], bool]], ...] = (
    *((f"fit --{adapter}", partial(contains, adapter)) for adapter in ("qlora", "lora")),
    *((f"fit --method {method}", partial(contains, method)) for method in ("dpo", "grpo", "ppo")),
    ("plan", lambda words: bool(words & TRAINED and "many" in words)),
    ("train", lambda words: bool(words & TRAINED and words & TIMED)),
    ("fit", lambda words: bool(words & TRAINED)),
    ("serve", lambda words: bool(words & (SERVED | TIMED))),
    ("flops", lambda words: bool(words & {"flops", "flop", "macs"})),
    ("params", lambda words: bool(words & {"parameters", "params", "weights"})),
)
"""The command that a question asks for, by its words; one without any of these asks for everything at a glance."""


AT_A_GLANCE = ("training memory", "parameter count")
"""Concepts that everything at a glance tells of a model."""


class AskedInWords(NamedTuple):
    """A question in words: the ``line`` that answers it, without ``tfcalc``, and what it says that no option has."""

    line: tuple[str, ...]
    left: tuple[str, ...]


def question_in(words: Sequence[str]) -> AskedInWords | None:
    """The question of one model that words ask; None where they name none, or several.

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
    if len(models) != 1 or len(cards) > 1:
        return None
    for name, place in cards.items():
        if place and (number := _number(rest[place - 1])):
            cards, rest[place - 1] = {f"{number}x{name}": place}, ""
    lower = frozenset(word.lower() for word in rest)
    command = next((line for line, asks in ASKED_FOR if asks(lower)), "")
    concept = None if command or cards else concept_in(" ".join(rest))
    if concept is not None and concept.name not in AT_A_GLANCE:
        return AskedInWords(("explain", concept.name, *models), ())
    if command == "plan" and not (cards and all(map(_is_timed, cards))):
        command = "fit"
    card = ("--gpu", *cards) if cards else ()
    left = tuple(word for word in rest if any(map(str.isdigit, word)))
    first, *options = command.split() or [""]
    return AskedInWords((*filter(None, (first,)), *models, *options, *card), left)


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
