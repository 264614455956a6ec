"""Reading the words of a question: its models and cards, its amounts, formats, prices and ways of training."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby

from tfcalc.catalog import is_known, is_path
from tfcalc.cli.commands import SIZED
from tfcalc.cli.grammar import (
    AMOUNTS,
    CACHE,
    CLASSES,
    FORMAT,
    GUESSES,
    HALVES,
    LENGTH,
    LIKE,
    LIMITS,
    OF_A_SHARE,
    OF_FIRST_TOKEN,
    PROMPT,
    SPECULATE,
    SPELLED,
    WAYS,
)
from tfcalc.errors import UsageError
from tfcalc.hardware import is_accelerator, parse_gpu
from tfcalc.number_formats import COMPUTED
from tfcalc.serving.weight_formats import format_named
from tfcalc.units import parse_count

LONGEST_NAME = 4
"""Words of a name that are typed apart: ``llama 3.1 70b instruct``."""
LONGEST_WAY = 3
AMOUNT = re.compile(r"\d[\d,.]*[kKmMbBtT]?i?|\d\.?\d*e\d+", re.ASCII)
SIZE = re.compile(SIZED, re.ASCII)
"""A number of parameters in the place of a model: ``a 7b``."""
SIZE_OF_RUN = re.compile(r"\d+(\.\d+)?[bBtT]", re.ASCII)
"""Tokens of a run, by themselves."""
PRICE = re.compile(r"\$\d[\d.]*", re.ASCII)
SHARE = re.compile(r"\d+(\.\d+)?%", re.ASCII)
LATENCY = re.compile(r"\d+(\.\d+)?ms", re.ASCII)
"""How long a user may wait."""
LONG = re.compile(r"\d+(\.\d+)?[kK]i?|\d[\d,]+", re.ASCII)
BYTES_SAID = re.compile(r"[\d.]+gi?b", re.ASCII | re.IGNORECASE)
ADAPTED = re.compile(r"[a-z]\w*_proj(,[a-z]\w*)*|all-linear", re.ASCII)
"""Matrices that LoRA adapts, by their names."""
BESIDE = frozenset(("of", "a", "an", "size", "length", "window", "with", "at", "is", "tokens", "len")) | {
    *("concurrent", "simultaneous", "parallel"),  # requests
}
"""Words between an amount and what it is of."""
APART = frozenset(("with", "at"))
"""Those that begin something else behind an amount."""
OF_CACHE = ("kv", "cache", "kv-cache", "kvcache")
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
TIMES = ("x", "×", "*")


def in_one_spelling(words: Sequence[str]) -> list[str]:
    """The words with what is said in several of them as one that is read.

    >>> in_one_spelling("a 24 GB card at $2 per hour, 900 tokens per second in 4 bits".split())
    ['a', '24GB', 'card', 'at', '$2,', '900', 'tokens/s', 'in', '4bit']
    """
    found = list[str]()
    for of_paths, run in groupby(words, key=is_a_path):
        text = " ".join(run)
        for pattern, one in () if of_paths else SPELLED:
            text = pattern.sub(one, text)
        found += text.split()
    return found


PATH = re.compile(r"\.{1,2}/.+|.+\.json", re.IGNORECASE)
"""What only a path looks like: of a config.json, or of its folder."""


def is_a_path(word: str) -> bool:
    """Return whether a word of a question is the path of a model, and no word that a file has for its name."""
    return bool(PATH.fullmatch(word)) or ("/" in word and is_path(word))


def found_in(words: Sequence[str], read: Callable[[Sequence[str]], str]) -> tuple[dict[str, int], list[str]]:
    """The names that ``read`` finds in neighbouring words, the longest first, and its place in the words, "" there."""
    found, rest, place = dict[str, int](), list[str](), 0
    while place < len(words):
        last, name = next(names_at(words, place, read), (place + 1, ""))
        if name:
            found[name] = len(rest)
        rest.append("" if name else words[place])
        place = last
    return found, rest


def names_at(words: Sequence[str], place: int, read: Callable[[Sequence[str]], str]) -> Iterator[tuple[int, str]]:
    """Yield what ``read`` finds from a place on, the longest first: the place behind it, and its name."""
    for last in range(min(len(words), place + LONGEST_NAME), place, -1):
        if all(words[place:last]) and (name := read(words[place:last])):
            yield last, name


def a_model(words: Sequence[str]) -> str:
    """The name of a model in these words, or its path; "" of other words, those that are a file's name too."""
    if len(words) == 1 and is_a_path(words[0]):
        return words[0]
    if len(words) > 1 and words[-1].lower() in LIKE:
        return ""
    name = "-".join(words).lower() if len(words) > 1 else words[0]
    known = any(map(str.isalpha, name)) and not name.startswith("-") and is_known(name)
    if not known or is_path(name) or any(map(is_known, words[1:])):
        return ""
    return name if "/" not in name or (len(words) == 1 and re.search(r"[A-Z\d]", name)) else ""


def a_card(words: Sequence[str]) -> str:
    """The name of a card in these words, or of several; "" where they are none."""
    name = "-".join(words).lower()
    for spelled in (name, name.removesuffix("s")):
        if re.search(r"\d", spelled) and is_card(spelled):
            return spelled
    return ""


def is_card(name: str) -> bool:
    """Return whether a word names a GPU: ``tfcalc MODEL h100`` is ``tfcalc MODEL --gpu h100``."""
    try:
        return is_accelerator(parse_gpu(name)[1])
    except UsageError:
        return False


def with_memory(cards: dict[str, int], words: Sequence[str]) -> dict[str, int]:
    """The cards at these places of the words, where "an RTX 4090 with 24 GB" is one, and of an A100 that of 80 GB.

    >>> with_memory({"a100": 2, "80gb": 4}, "on an  with  of".split(" "))
    {'a100-80gb': 2}
    >>> with_memory({"a100": 2, "80gb": 4}, "on an  or  ".split(" "))
    {'a100': 2, '80gb': 4}
    """
    found: dict[str, int] = {}
    for name, place in cards.items():
        before, there = next(reversed(found.items()), ("", 0))
        one = f"{before}-{name}"
        if BYTES_SAID.fullmatch(name) and set(words[there + 1 : place]) <= WITH and is_card(one):
            found.pop(before)
            name, place = one, there
        found[name] = place
    return found


WITH = frozenset(("with", "of", "has", "having", "its"))
"""Words between a card and its memory."""


def counted(cards: dict[str, int], words: list[str]) -> list[str]:
    """The cards at these places of the words, each with the number before it, in whose place "" is.

    >>> counted({"h100": 1, "a100": 4}, "eight  4 x ".split(" "))
    ['8xh100', '4xa100']
    """
    named = list[str]()
    for name, place in cards.items():
        before = place - 2 if place > 1 and words[place - 1] in TIMES else place - 1
        number = _number(words[before]) if place else 0
        named.append(f"{number}x{name}" if number else name)
        if number:
            words[before] = ""
    return named


def _number(word: str) -> int:
    """A number of cards, as a figure or a word; 0 where it is none."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else NUMBERS.get(word.lower(), 0)


def amounts(words: list[str], spared: Collection[int] = ()) -> Iterator[tuple[str, str]]:
    """Options with the amounts in these words, in which "" takes the place of each, and of what it is of.

    Words at the ``spared`` places belong to a name.

    >>> words = "with a context length of 32k and 8 users at 4k in fp8".split()
    >>> list(amounts(words))
    [('--context', '32k'), ('--concurrency', '8'), ('--length', '4k'), ('--weights', 'fp8')]
    >>> [word for word in words if word]
    ['with', 'a', 'and', 'at', 'in']
    """
    places = [place for place in range(len(words)) if place not in spared]
    for place in places:
        if AMOUNT.fullmatch(words[place]):
            yield from _amount(words, place)
    for place in places:
        if PRICE.fullmatch(words[place]):
            yield "--price", words[place].removeprefix("$")
        elif LONG.fullmatch(words[place]) and (
            words[place][-1:] in "kKi" or words[place - 1 : place] in (["at"], [""])
        ):
            yield LENGTH, words[place]
        elif SHARE.fullmatch(words[place]) and (near := _nearest(words, place, OF_A_SHARE)) is not None:
            option = OF_A_SHARE[words[near].lower()]
            words[near] = ""
            yield option, words[place]
        elif LATENCY.fullmatch(words[place]):
            of_first = _nearest(words, place, OF_FIRST_TOKEN)
            yield LIMITS, f"{'tpot' if of_first is None else 'ttft'}={words[place]}"
        elif name := _format(words[place]):
            near = _nearest(words, place, (*OF_CACHE, "weights"))
            yield CACHE if near is not None and words[near].lower() in OF_CACHE else FORMAT, name
        else:
            continue
        words[place] = ""


def _amount(words: list[str], place: int) -> Iterator[tuple[str, str]]:
    """The option of the amount at this place; none where no word says what it is of."""
    of_tokens = words[place + 1 : place + 2] in (["token"], ["tokens"])
    behind = next((at for at in range(place + 1, len(words)) if words[at].lower() not in BESIDE - APART), place)
    before = next((at for at in reversed(range(place)) if words[at].lower() not in BESIDE), place)
    if behind < len(words) and _is_of_the_next(words, behind):
        behind = place
    of_what = next((at for at in (behind, before) if words[at].lower() in AMOUNTS), place)
    amount = words[place]
    option = AMOUNTS.get(words[of_what].lower(), "--tokens" if of_tokens else "")
    option = "--global-batch" if of_tokens and option == "--batch" else option
    if option and not (option == GUESSES and not amount.isdigit()):
        first, last = sorted((place, of_what if of_what != place else place + of_tokens))
        words[first : last + 1] = [""] * (last + 1 - first)
        yield option, amount


def _is_of_the_next(words: Sequence[str], place: int) -> bool:
    """Return whether a word is of the amount behind it, not of the one before it: ``batch`` in ``8k, batch 16``."""
    if words[place].lower() not in CLASSES["IN-FRONT"]:
        return False
    at = next((at for at in range(place + 1, len(words)) if words[at].lower() not in BESIDE - APART), place)
    own = [word.lower() for word in words[at + 1 : at + 2]]
    counted = own and (own[0] in AMOUNTS or own[0] in ("token", "tokens")) and own[0] not in CLASSES["IN-FRONT"]
    return bool(AMOUNT.fullmatch(words[at])) and not counted


def _nearest(words: Sequence[str], place: int, among: Collection[str]) -> int | None:
    """The place of the nearest of these words, two away at most; None where none is."""
    around = (place + 1, place - 1, place - 2, place + 2)
    return next((at for at in around if 0 <= at < len(words) and words[at].lower() in among), None)


def _format(word: str) -> str:
    """The name of a format of weights; "" of another word."""
    name = LIKE.get(word.lower(), word.lower())
    return name if name not in WAYS and is_format(name) else ""


def is_format(word: str) -> bool:
    """Return whether a word names a format of weights: ``tfcalc MODEL 4bit`` asks for its memory in that one."""
    try:
        return bool(format_named(word))
    except UsageError:
        return False


def ways_of_training(words: list[str]) -> Iterator[str]:
    """Options for how it is trained, in which "" takes the place of each.

    >>> list(ways_of_training("lora with gradient checkpointing".split()))
    ['--lora', '--checkpointing full']
    """
    for place in range(len(words)):
        for many in range(LONGEST_WAY, 0, -1):
            if option := WAYS.get(" ".join(words[place : place + many]).lower()):
                words[place : place + many] = [""] * len(words[place : place + many])
                yield option
                break


def joined_amounts(given: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The options of a question, where limits are one, and guessed tokens and the share of them that is accepted.

    >>> list(joined_amounts([("--guesses", "4"), ("--seq", "8"), ("--accepted", "70%")]))
    [('--seq', '8'), ('--speculate', '4@70%')]
    >>> list(joined_amounts([("--slo", "ttft=500ms"), ("--slo", "tpot=50ms")]))
    [('--slo', 'ttft=500ms,tpot=50ms')]
    """
    found = list(given)
    halves = {slot: value for slot, value in found if slot in HALVES}
    limits = [value for slot, value in found if slot == LIMITS]
    yield from (one for one in found if one[0] != LIMITS and (one[0] not in HALVES or len(halves) < len(HALVES)))
    if limits:
        yield LIMITS, ",".join(limits)
    if len(halves) == len(HALVES):
        yield SPECULATE, "@".join(halves[slot] for slot in HALVES)


RUN, LONGEST_CONTEXT = 10**5, 10**9
"""Tokens of a run, at least, and of what is one whatever is asked: fewer may be a length."""
IN_TRAINING = {"--context": "--seq", "--concurrency": "--batch", LENGTH: "--seq", PROMPT: "--seq"}
IN_SERVING = {
    **dict.fromkeys(("--tokens", "--seq", LENGTH, PROMPT), "--context"),
    "--batch": "--concurrency",
}
OF_SERVE = {**IN_SERVING, PROMPT: PROMPT}
IN_FLOPS = {**IN_TRAINING, "--tokens": "--seq"}
DECODING = dict.fromkeys(("--tokens", "--seq", "--context", LENGTH, PROMPT), "--cached")
ELSEWHERE = dict.fromkeys(("--tokens", LENGTH, PROMPT), "--context")


def is_run(slot: str, value: str, least: int = RUN) -> bool:
    """Return whether an amount is that of the tokens of a training run, and no length."""
    return slot == "--tokens" and parse_count(value) >= least


def option_of(slot: str, value: str, line: str) -> str:
    """The option that has what was said in a command ``line``.

    >>> option_of(LENGTH, "8k", "memory --serve"), option_of(LENGTH, "8k", "fit"), option_of(FORMAT, "fp8", "fit")
    ('--context', '--seq', '--precision')
    """
    if "--phase decode" in line:
        return DECODING.get(slot, slot)
    command = line.partition(" ")[0].partition(".")[0]
    served = "--serve" in line or command == "serve"
    trains = not served and ("--train" in line or command in ("fit", "train", "plan", "ranks"))
    if command == "design":
        return ELSEWHERE.get(slot, slot) if slot != "--tokens" else slot
    if slot == FORMAT and trains and value in (*COMPUTED, "fp8"):
        return "--precision"
    if slot == "--tokens" and trains and not is_run(slot, value):
        return "--seq"
    if trains:
        return IN_TRAINING.get(slot, slot)
    if served:
        return (OF_SERVE if command == "serve" else IN_SERVING).get(slot, slot)
    return (IN_FLOPS if command == "flops" or "--of flops" in line else ELSEWHERE).get(slot, slot)
