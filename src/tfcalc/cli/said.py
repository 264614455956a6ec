"""Words of a question beside its models and cards: sizes, formats, prices, ways of training, each as an option."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from tfcalc.catalog import is_path
from tfcalc.cli.commands import COUNTED, SIZED
from tfcalc.errors import UsageError
from tfcalc.number_formats import COMPUTED
from tfcalc.serving.weight_formats import format_named
from tfcalc.units import IN_WORDS, parse_count

AMOUNT = re.compile(r"\d[\d,.]*[kKmMbBtT]?i?|\d\.?\d*e\d+", re.ASCII)
SIZE = re.compile(SIZED, re.ASCII)
"""A number of parameters in the place of a model: ``a 7b``."""
LENGTH, PROMPT, FORMAT, CACHE = "--length", "--input-tokens", "--weights", "--kv"
"""A length that nothing is said of, a prompt's, a format, and the cache's: the command decides on the option."""
RATE = "--tokens-per-second"
GUESSES, ACCEPTED = "--guesses", "--accepted"
"""Tokens that a draft guesses in a step, and the share of them that is accepted: both are --speculate."""

BESIDE = frozenset(("of", "a", "an", "size", "length", "window", "with", "at", "is", "tokens", "len")) | {
    *("concurrent", "simultaneous", "parallel"),  # requests
}
"""Words between an amount and what it is of."""
APART = frozenset(("with", "at"))
"""Those that begin something else behind an amount."""
IN_FRONT = (
    "batch",
    "batches",
    "bs",
    "batch_size",
    "context",
    "ctx",
    "seq",
    "sequence",
    "prompt",
    "rank",
    "tp",
    "pp",
    "cp",
    "ep",
)
"""Words that stand in front of their amount as often as behind it."""
AMOUNTS = {
    **dict.fromkeys(("context", "ctx"), "--context"),
    **dict.fromkeys(("sequence", "sequences", "seq", "seqlen", "seq_len"), "--seq"),
    **dict.fromkeys(("batch", "batches", "bs", "batch_size"), "--batch"),
    **dict.fromkeys(("prompt", "prompts", "input"), PROMPT),
    **dict.fromkeys(("output", "outputs", "answer", "answers"), "--output-tokens"),
    **dict.fromkeys(("samples", "examples"), "--samples"),
    **dict.fromkeys(("rank", "r"), "--lora"),
    **{degree: f"--{degree}" for degree in ("tp", "pp", "cp", "ep")},
    "tokens/s": RATE,
    **dict.fromkeys(
        ("guess", "guesses", "guessed", "draft", "drafts", "drafted", "speculate", "speculative", "speculated"), GUESSES
    ),
    **dict.fromkeys(("acceptance", "accepted"), ACCEPTED),
    **{word: option for word, option in COUNTED.items() if option not in ("--tokens",)},
}
"""Options by the word for what an amount is of."""

SPELLED = tuple(
    (re.compile(pattern, re.ASCII | re.IGNORECASE), text)
    for pattern, text in (
        *((rf"(?<![\w.])(\d[\d.]*)[ -]{word}\b", rf"\g<1>{prefix}") for word, prefix in IN_WORDS.items()),
        (r"(?<![\w.])(\d[\d.]*) (gi?b)\b", r"\1\2"),
        (r"(?<![\w.])(\d+)[ -]bits?\b", r"\1bit"),
        (r"\b([a-z_]+)=(\d)", r"\1 \2"),
        (r"(?<![\w.])(\d+)([x×]) (?=[a-z])", r"\1 \2 "),
        (r"\b8bit[ -](?:adamw?|optimi[sz]er)\b", "adamw-8bit"),
        (r"\b(?:adamw?|optimi[sz]er) (?:in )?8bit\b", "adamw-8bit"),
        (r"\bper (?:(?:a|one|1) ?)?(?:m|million) tokens?\b", "per million tokens"),
        (r"(?<![\w.])(\d[\w.,]*) ?tok(?:en)?s? ?(?:/|per) ?s(?:ec(?:ond)?)?\b", r"\1 tokens/s"),
        (r"(?<![\w.])(\d[\d.]*[km]?)-(tokens?|context|gpus?|users?)\b", r"\1 \2"),
        (r"(?<![\w.])(\d[\d.]*) (?:usd|dollars?)\b", r"$\1"),
        (r"\bnumber of\b", "how many"),
        (r"\bcosts? more than\b", "outweigh"),
        (r"\bhow (?:long|large|big|much|high) (?:of )?(?:an? )?(context|prompt|sequence|batch)\b", r"largest \1"),
        (r"(\$\d[\d.]*) ?(?:(?:/|per|an?) ?(?:gpu[ -]?)?(?:h|hr|hour)s?)+\b", r"\1"),
    )
)
"""Spellings of one thing in several words, each with the one that is read."""
LIKE = {"q2": "q2_k", "q3": "q3_k_m", "q4": "q4_k_m", "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0", "gguf": "q4_k_m"}
LIKE |= {"16bit": "bf16", "32bit": "fp32", "w4a16": "int4", "w8a16": "int8"}
"""Formats by what people call them for short: the usual one of that many bits."""
OF_CACHE = ("kv", "cache", "kv-cache", "kvcache")
PRICE = re.compile(r"\$\d[\d.]*", re.ASCII)
SHARE = re.compile(r"\d+(\.\d+)?%", re.ASCII)
UTILISATION = ("mfu", "utilization", "utilisation")
OF_A_SHARE = {**dict.fromkeys(UTILISATION, "--mfu"), **dict.fromkeys(("acceptance", "accepted"), ACCEPTED)}
"""Options of a share, by the word beside it."""
LONG = re.compile(r"\d+(\.\d+)?[kK]i?|\d[\d,]+", re.ASCII)
WAYS = {
    "qlora": "--qlora",
    "lora": "--lora",
    "dora": "--lora --dora",
    "dpo": "--method dpo",
    "grpo": "--method grpo",
    "ppo": "--method ppo",
    "fsdp": "--fsdp",
    **{f"zero {stage}": f"--zero {stage}" for stage in (1, 2, 3)},
    **{f"{name}{stage}": f"--zero {stage}" for name in ("zero", "zero-") for stage in (1, 2, 3)},
    **{f"no {kind} checkpointing": "--checkpointing none" for kind in ("gradient", "activation")},
    **{f"without {kind} checkpointing": "--checkpointing none" for kind in ("gradient", "activation")},
    **{f"{kind} checkpointing": "--checkpointing full" for kind in ("gradient", "activation")},
    **{f"{no} flash attention": "--attention-kernel eager" for no in ("no", "without")},
    "flash attention": "--attention-kernel flash",
    "cpu offload": "--offload all",
    "optimizer offload": "--offload optimizer",
    "liger": "--backend fused",
    "megatron": "--backend megatron",
    **{name: f"--optimizer {name}" for name in ("adamw-8bit", "adafactor", "sgd", "lion", "muon")},
}
"""Options of training by the words that ask for them, the longer ones first."""
LONGEST_WAY = 3


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
    if option and not (option == GUESSES and not amount.isdigit()):
        first, last = sorted((place, of_what if of_what != place else place + of_tokens))
        words[first : last + 1] = [""] * (last + 1 - first)
        yield option, amount


def _is_of_the_next(words: Sequence[str], place: int) -> bool:
    """Return whether a word is of the amount behind it, not of the one before it: ``batch`` in ``8k, batch 16``."""
    if words[place].lower() not in IN_FRONT:
        return False
    at = next((at for at in range(place + 1, len(words)) if words[at].lower() not in BESIDE - APART), place)
    own = [word.lower() for word in words[at + 1 : at + 2]]
    counted = own and (own[0] in AMOUNTS or own[0] in ("token", "tokens")) and own[0] not in IN_FRONT
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
