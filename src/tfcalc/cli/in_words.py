"""Questions in words in the place of a command: ``tfcalc will llama 3 70b fit on two h100s`` asks for an overview.

:mod:`tfcalc.cli.grammar` has the words and the table of lines, :mod:`tfcalc.cli.said` reads amounts, models and cards.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations

from tfcalc.catalog import index, parts, preset, sizes
from tfcalc.catalog import meant as meant_by
from tfcalc.cli.commands import ALIASES, BETWEEN, COMMANDS, TOKENS_A_PARAMETER, command, compute_of
from tfcalc.cli.grammar import (
    ALONE,
    AT_A_GLANCE,
    CACHE,
    CLASSES,
    ENGINES,
    FORMAT,
    HALVES,
    KINDS,
    LENGTH,
    NO_QUESTION,
    OF_A_CLUSTER,
    OF_A_RUN,
    OF_SEVERAL,
    OF_TRAINING,
    ONE_OF_MANY,
    PARTS,
    PROMPT,
    SEVERAL,
    SIZES_OF_CONFIG,
    SPECULATE,
    TABLE,
    WITHOUT,
)
from tfcalc.cli.said import (
    ADAPTED,
    AMOUNT,
    BYTES_SAID,
    LONGEST_CONTEXT,
    LONGEST_NAME,
    SIZE,
    SIZE_OF_RUN,
    a_card,
    a_model,
    amounts,
    counted,
    found_in,
    in_one_spelling,
    is_a_path,
    is_card,
    is_format,
    is_run,
    joined_amounts,
    names_at,
    option_of,
    ways_of_training,
    with_memory,
)
from tfcalc.errors import TfcalcError, UnknownModel, UsageError
from tfcalc.hardware import parse_gpu
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.concepts import FILLERS, MARKS, Concept, Named, concept_of, known, named_among, spelled
from tfcalc.search.gpus import of_card
from tfcalc.units import parse_count, short

KNOWN = frozenset(("per", "token", "tokens")).union(*CLASSES.values(), FILLERS, ALIASES, COMMANDS)
"""Words that are no name of a model."""
LONGEST_QUESTION = 100
"""Words of a question: longer texts are none, and each of their words would be looked up."""
BEFORE = MARKS.replace(".", "")
"""Marks before a word: a path may begin with a dot."""
SUCH_TOKENS = "1B"
"""Tokens of a run of which none are said: its hours and its price are in proportion to them."""
TABLES_OF_CARDS = ("fit", "train", "serve", "memory", "gpus")
"""Commands that have a row or a column for each of several cards."""
FORMULA = re.compile(r"[\w.·*+/()-]*[²³^][\w.·*+/()^²³-]*")
"""A formula with a power: ``12nh²``."""
USED = re.compile(r"(--[a-z-]+)\}")
"""An amount in a line of the table."""


class Supposed(UsageError):
    """A question that leaves something out (exit 2): ``line`` answers it with what the error says is supposed.

    Where one of the options ``said_by`` is typed behind it, nothing is left out, and ``alone`` is the line.
    """

    line: Sequence[str] = ()
    said_by: Sequence[str] = ()
    alone: Sequence[str] = ()


class Read(NamedTuple):
    """A question as it was read.

    Attributes:
        said: its words, each thing in one spelling.
        words: those beside models and cards, in small letters.
        rest: all of them with "" in the place of what was read.
        models: the models.
        given: options with their values, a card among them.
        named: the concept that is named, and where.
        size: a number of parameters in the place of a model.
        change: the options of a change that saves something, or of the second of two alternatives.
        instead_of: the options of the first of these, "" where the question is about a change.
        many: what "how many" asks about, "gpus" where that is a card.
        meant: the command that the first word stands for.
        explains: a concept is asked about, and nothing else.
    """

    said: list[str]
    words: frozenset[str]
    rest: list[str]
    models: list[str]
    given: list[tuple[str, str]]
    named: Named | None
    size: str
    change: str
    instead_of: str
    many: str
    meant: str
    explains: bool

    @property
    def concept(self) -> Concept | None:
        """The concept that is named."""
        return self.named.concept if self.named else None

    @property
    def cards(self) -> list[str]:
        """The cards, each with its number."""
        return ",".join(self.values("--gpu")).split(",") if self.values("--gpu") else []

    def values(self, slot: str) -> list[str]:
        """The values that were said of an option."""
        return [value for option, value in self.given if option == slot]


def question_in(words: Sequence[str], meant: str = "", *, explains: bool = False) -> list[str] | None:
    """The line, without ``tfcalc``, that answers a question about models or a card; None of words that are none.

    ``meant`` is the command that the first of them stands for, which answers if none is asked for in words. Where it
    ``explains``, a concept is asked about, and nothing else.

    Raises UsageError for a question that no answer has, and for one that says more than is understood.

    >>> question_in("will llama 3 70b fit on 2 rtx 4090s?".split())
    ['llama-3-70b', '--gpu', '2xrtx-4090']
    >>> question_in("how long to finetune gpt2 on 1B tokens".split()), question_in("how big is it".split())
    (['train', 'gpt2', '--tokens', '1B'], None)
    >>> question_in("kv cache of qwen2.5 7b at 32k".split())
    ['explain', 'KV cache', 'qwen2.5-7b', '--context', '32k']
    """
    if len(words) > LONGEST_QUESTION:
        return None
    said = in_one_spelling([bare for word in words if (bare := word.rstrip(MARKS).lstrip(BEFORE))])
    if _asks_of_a_number(said) or (explains and all(map(BYTES_SAID.fullmatch, said))):
        return None
    return _asked_by(_read(said, meant, explains=explains))


def plan_of_a_number(words: Sequence[str]) -> list[str] | None:
    """The line that finds the bytes of a sentence in the training that it names; None where it names none.

    >>> plan_of_a_number("does GRPO of qwen3-0.6b with batch 4 take 49 GB".split())
    ['why', '49GB', 'qwen3-0.6b', '--train', '--method', 'grpo', '--batch', '4']
    >>> plan_of_a_number("does gpt2 take 49 GB".split()) is None
    True
    """
    said = in_one_spelling([bare for word in words if (bare := word.rstrip(MARKS).lstrip(BEFORE))])
    models, rest = found_in(said, a_model)
    numbers = [word for word in rest if BYTES_SAID.fullmatch(word)]
    said_ways = list(dict.fromkeys(ways_of_training(rest)))
    ways = [word for way in said_ways for word in way.split()]
    serves = not CLASSES["SERVE"].isdisjoint(map(str.lower, rest))
    alternatives = len(set(map(_kind, said_ways))) < len(said_ways)
    if len(models) != 1 or len(numbers) != 1 or alternatives or not (ways or serves):
        return None
    line = ("fit", "--train") if ways else ("memory --serve", "--serve")
    given = [part for slot, value in amounts(rest) for part in (option_of(slot, value, line[0]), value)]
    return ["why", numbers[0], *models, line[1], *ways, *given]


def _asked_by(read: Read) -> list[str] | None:
    """The line of the first row of the table that holds. Raises UsageError where it refuses."""
    facts = frozenset(_facts(read))
    row = next(row for asks, row in TABLE if holds(asks, facts))
    if row.startswith("!"):
        raise _refusal(row.removeprefix("! "), read)
    if row == NO_QUESTION:
        return None
    line, left = _line(row, read)
    return _understood(_on_several(line) if len(read.cards) > 1 else line, left)


def _on_several(line: list[str]) -> list[str]:
    """The line of a question about several cards. Raises UsageError where it has no table of them, with one for each.

    >>> _on_several(["gpt2", "--gpu", "h100,t4"])
    ['fit', 'gpt2', '--serve', '--gpu', 'h100,t4']
    """
    if line[0] in TABLES_OF_CARDS:
        return line
    if line[0] not in COMMANDS:
        return ["fit", line[0], "--serve", *line[1:]]
    place = line.index("--gpu") + 1 if "--gpu" in line else len(line)
    first, *others = "".join(line[place:][:1]).split(",")
    fact = f"{line[0]} is of one card, and the question names {1 + len(others)}"
    more = ", then with ".join(f"--gpu {card}" for card in others)
    raise UsageError(fact, f"type tfcalc {shlex.join([*line[:place], first, *line[place + 1 :]])}, then with {more}")


def holds(asks: str, facts: frozenset[str]) -> bool:
    """Return whether all terms of a row of the table hold.

    >>> holds("FLOPS a|b !TRAIN", frozenset(("FLOPS", "b"))), holds("FLOPS !TRAIN|b", frozenset(("FLOPS", "b")))
    (True, False)
    """
    return all(facts.isdisjoint(term.lstrip("!").split("|")) == term.startswith("!") for term in asks.split())


def _understood(line: list[str], left: Sequence[str]) -> list[str]:
    """The line of a question. Raises UsageError where it says more, with the line to type."""
    if left:
        fact = f"{quoted(left[0])} in the question is not understood"
        raise UsageError(fact, f"type tfcalc {shlex.join(line)}, which leaves it out")
    return line


def _read(said: list[str], meant: str, *, explains: bool) -> Read:
    models, rest = found_in(said, a_model)
    cards, rest = found_in(rest, a_card)
    cards = with_memory(cards, rest)
    words = frozenset(word.lower() for word in rest)
    named, size = list(models), ""
    many = _how_many(rest, cards) or "gpus" * (
        bool(models) and meant == "gpus" and not words.isdisjoint(CLASSES["NEED"])
    )
    given = [("--gpu", ",".join(counted(cards, rest)))] if cards else []
    if not models and (size := next((one for one in rest if SIZE.fullmatch(one) and not _is_of_tokens(rest, one)), "")):
        rest[rest.index(size)] = ""
    first = named_among(rest)
    given += joined_amounts(amounts(rest, _of_a_name(first, rest)))
    if words & CLASSES["GUESS"] and models and (len(models) > 1 or cards):
        named, drafts = _with_drafts(named, rest)
        given += drafts
    change = _change(rest, given) if words & CLASSES["SAVE"] and models else ""
    instead_of = ""
    if not change and len(named) == 1:
        instead_of, change = _alternatives(rest, given)
    concept = _named_first(rest) or (first if explains else None)
    if "prefill" in words and cards:
        given = [(PROMPT if slot in ("--tokens", LENGTH) else slot, value) for slot, value in given]
    if concept is not None and concept.concept.name.startswith("KV cache") and "weights" not in words:
        given = [(CACHE if slot == FORMAT else slot, value) for slot, value in given]
    if concept is not None and concept.concept is known()["6nd"]:
        rest = ["" if place in concept.places else word for place, word in enumerate(rest)]
        by_itself = [word for word in rest if SIZE_OF_RUN.fullmatch(word)] if "--tokens" not in dict(given) else []
        given += [("--tokens", word) for word in by_itself]
        rest = ["" if word in by_itself else word for word in rest]
    return Read(said, words, rest, named, given, concept, size, change, instead_of, many, meant, explains)


def _facts(read: Read) -> Iterator[str]:
    """Facts about a question, by the terms for them in the table."""
    words, rest, concept = read.words, [word for word in read.rest if word], read.concept
    given = [(slot, value) for slot, value in read.given if slot != "--gpu"]
    cards = read.cards
    yield from words
    yield from (name for name, those in CLASSES.items() if those & words)
    yield from (slot.strip("-").upper() for slot, _ in given)
    yield from (f"MANY:{read.many}", f"MEANT:{read.meant}")
    if concept is not None:
        yield f"ABOUT:{spelled(concept.name)}"
        yield "GLANCE" if concept.name in AT_A_GLANCE else "CONCEPT"
        yield from (f"OPENS:{how}" for how, text in OPENS.items() if text in concept.opens)
    others = {
        "NO-MODEL": not read.models,
        "MODELS": len(read.models) > 1,
        "CARD": bool(cards),
        "ONE-CARD": len(cards) == 1 and not _several(cards),
        "SEVERAL-CARDS": len(cards) > 1,
        "BYTES-OF-CARD": any(map(BYTES_SAID.fullmatch, cards)),
        "OF-A-CLUSTER": all(map(OF_A_CLUSTER.fullmatch, cards)),
        "MANY-CARDS": read.many in CLASSES["HARDWARE"],
        "SIZE": bool(read.size),
        "GIVEN": bool(given),
        "CHANGE": bool(read.change),
        "AMOUNT": any(map(AMOUNT.fullmatch, rest)),
        "FIGURES": bool(_with_digits(rest)),
        "FORMULA": any(map(_is_formula, rest)),
        "RUN": any(is_run(*one) for one in given),
        "LONG-RUN": any(is_run(*one, LONGEST_CONTEXT) for one in given),
        "WAY-OF-TRAINING": any(way.startswith(OF_TRAINING) for way in ways_of_training(list(read.rest))),
        "ENERGY": any(concept_of(word) is known()["energy"] for word in words),
        "FAMILY": not read.models and _of_several(read) is not None,
        "PART": any(word.lower() in PARTS for word in rest),
        "SIZE-OF-CONFIG": len(_sizes_of_config(read)) == 1,
        "ONE-WORD": len(_own_words(read)) == 1,
        "TYPED": read.said[:1] != [] and read.said[0].lower() == read.meant,
        "MEANT": bool(read.meant),
        "EXPLAINS": read.explains,
    }
    yield from (name for name, is_so in others.items() if is_so)


OPENS = {"train": "--train", "serve": "--serve", "timed": "serve.", "card": "--gpu"}
"""Ways in which the number of a concept is opened, by what its line has."""


def _change(rest: list[str], given: list[tuple[str, str]]) -> str:
    """The options of what is asked how much it saves, which are then no others of the question; "" where it is none."""
    if way := next(ways_of_training(rest), ""):
        return way
    stored = next((one for one in given if one[0] in (FORMAT, CACHE)), None)
    if stored is not None:
        given.remove(stored)
    return " ".join(stored or ())


def _alternatives(rest: list[str], given: list[tuple[str, str]]) -> tuple[str, str]:
    """The options of two alternatives, "zero 2 or zero 3" and "fp16 vs int8"; "" twice where there are none.

    They are then no others of the question.
    """
    ways = list(dict.fromkeys(ways_of_training(list(rest))))
    for first, second in combinations(ways, 2):
        if _kind(first) == _kind(second):
            others = [way for way in ways_of_training(rest) if way not in (first, second)]
            others = list(dict.fromkeys(others))
            return " ".join((first, *others)), " ".join((second, *others))
    if {"full", "fully"}.intersection(rest) and CLASSES["OR"].intersection(rest) and (adapters := _adapters(ways)):
        others = [way for way in dict.fromkeys(ways_of_training(rest)) if way != adapters]
        return " ".join(others), " ".join((adapters, *others))
    for slot in (FORMAT, CACHE, "--lora"):
        values = list(dict.fromkeys(value for option, value in given if option == slot))
        if len(values) == 2 and not [way for way in ways if way != slot]:
            given[:] = [one for one in given if one[0] != slot]
            return f"{slot} {values[0]}", f"{slot} {values[1]}"
    return "", ""


def _kind(way: str) -> str:
    """The kind of a way of training, of which two are alternatives: its option, or one that says the same thing."""
    return way.split()[0].replace("--qlora", "--lora").replace("--fsdp", "--zero")


def _adapters(ways: Sequence[str]) -> str:
    return next((way for way in ways if _kind(way) == "--lora"), "")


def _with_drafts(models: Sequence[str], rest: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The largest of the models, and the others as its drafts, or a usual one of the size that is said."""
    listed = {name: size for name, size, _ in sizes()}
    if all(name in listed for name in models):
        models = sorted(models, key=listed.__getitem__, reverse=True)
    model, *drafts = models
    size = next(filter(SIZE.fullmatch, rest), "")
    if not drafts and size and (usual := a_model_of(size.lower())):
        drafts = [usual]
    return [model], [("--draft-model", draft) for draft in drafts]


def _named_first(rest: Sequence[str]) -> Named | None:
    """The concept that a question names: not one behind "with" or "without", where it names another one."""
    named = named_among(rest)
    asked = next((place for place, word in enumerate(rest) if word.lower() in CLASSES["COMPUTED"]), 0)
    if asked and (computed := named_among(["" if place <= asked else word for place, word in enumerate(rest)])):
        return computed
    before = rest[named.places[0] - 1 : named.places[0]] if named else []
    if named is None or "".join(before).lower() not in ("with", "without", "no"):
        return named
    return named_among(["" if place in named.places else word for place, word in enumerate(rest)]) or named


def _of_several(read: Read) -> UnknownModel | None:
    """The error of a name that is several models', where it is no concept's."""
    families = {parts(name).family for name in index()} - KNOWN - {"transformer"}
    for place, word in enumerate(read.rest):
        of_one = word.lower() in families or ("-" in word and word.lower().partition("-")[0] in families)
        if of_one and not (read.concept and concept_of(word)):
            last, name = next(names_at(read.rest, place, _incomplete), (place + 1, word))
            try:
                preset(name)
            except UnknownModel as error:
                error.words = " ".join(read.rest[place:last])
                return error
    return None


def _incomplete(words: Sequence[str]) -> str:
    """The name in these words that presets have and further words beside it; "" where none has."""
    name = "-".join(words).lower()
    return name if meant_by(name, index()) else ""


def _of_a_name(named: Named | None, rest: Sequence[str]) -> tuple[int, ...]:
    """The places of a concept's name that has a number, such as "ZeRO 3", and is no format."""
    said = [rest[place] for place in named.places] if named else []
    return named.places if named and _with_digits(said) and not is_format("".join(said)) else ()


def _line(row: str, read: Read) -> tuple[list[str], list[str]]:
    """The command line of a row, with an option for each thing that was said; and what is said that no option has."""
    used, alone = USED.findall(row), row.endswith(ALONE)
    first, *fixed = _filled(row.removesuffix(ALONE), read) or [""]
    about = next((word for word in fixed if word.startswith("ABOUT")), "")
    concept, rest, options, left = None, list(read.rest), dict[str, str](), list[str]()
    if about:
        fixed.remove(about)
        concept = known()[about.partition(":")[2]] if ":" in about else read.concept
        rest = ["" if read.named and place in read.named.places else word for place, word in enumerate(rest)]
    if read.size and "size}" not in row:
        left.append(read.size)
    for own in ("amount", "formula", "word"):
        if f"{{{own}}}" in row:
            rest.remove(VALUES[own](read))
    target = fixed.pop(0) if first == "explain" and concept is None else ""
    opens = concept.opens if concept else shlex.join(filter(None, (target or first, *fixed)))
    for slot, value in read.given:
        option = option_of(slot, value, opens)
        if slot not in used and (alone or options.setdefault(option, value) != value):
            left.append(value)
    if first == "design" and not read.models and not {"--budget-usd", "--days", "--memory"} & set(fixed):
        left = [*left, *options.pop("--gpu", "").split()]
    if (first in ("fit", "plan") or "--days" in options) and read.many and "--gpu" not in options:
        options = {"--gpu": ONE_OF_MANY, **options}
    if first == "fit" and any(option in options for option in OF_A_RUN):
        first = "train"
    plans = first in ("fit", "train", "memory") and "--serve" not in fixed
    if plans or (first == "design" and "--train" in fixed) or "--of memory --train" in opens:
        for way in map(str.split, ways_of_training(rest)):
            fixed += way * (way[0] not in fixed)
            if options.get(way[0], way[-1]) != way[-1]:
                left.append(options.pop(way[0]))
    engines = list(dict.fromkeys(ENGINES[word.lower()] for word in rest if word.lower() in ENGINES))
    if engines and (first == "serve" or "--serve" in fixed) and "--engine" not in fixed:
        first = "memory" if first == "fit" else first
        fixed += ["--engine", engines.pop(0)]
        left += engines
    if any(way in fixed for way in OF_SEVERAL) and not (_several(read.cards) or {"--gpus", "--dp"} & set(options)):
        options["--gpus"] = SEVERAL
    for adapters in ("--lora", "--qlora"):
        if adapters in fixed and "--lora" in options:
            fixed.remove(adapters)
            options[adapters] = options.pop("--lora")
    if first:
        adapted = ",".join(dict.fromkeys(word for word in rest if ADAPTED.fullmatch(word)))
        if adapted:
            options["--lora-targets"] = adapted
        kind = next((word.lower() for word in rest if word.lower() in KINDS), "")
        if kind and options and not read.models and first == "explain":
            options["--kind"] = kind.removesuffix("-only")
        has = {"--gpu", *_flags_of(first, opens if first == "explain" else "")}
        left += [options.pop(option) for option in [*options] if option not in has]
    left += _with_digits(rest)
    if concept is not None:
        left = [word for word in left if is_format(word) or (AMOUNT.fullmatch(word) and len(word) > 1)]
    target = concept.name if concept else target
    card = ("--gpu", options.pop("--gpu")) if "--gpu" in options else ()
    said = [part for option in options.items() for part in option]
    models = read.models if "{model}" not in row else ()
    return [*filter(None, (first, target, *models)), *fixed, *card, *said], left


def _filled(row: str, read: Read) -> list[str]:
    """The words of a row, with values in the place of braces; what is in quotes is one."""
    words = [(word, word.format_map(_Values(read)).split()) for word in shlex.split(row)]
    return [each for word, filled in words for each in ([" ".join(filled)] if " " in word else filled)]


def _flags_of(name: str, opens: str) -> set[str]:
    """The options of a command, or of what it ``opens``."""
    called = command(name).meant(shlex.split(opens)) if opens else command(name)
    return {part for option in called.options for flag in option.flags for part in flag.split("/")}


def _asks_of_a_number(words: Sequence[str]) -> bool:
    """Return whether a sentence asks where bytes come from, which are no card's memory.

    >>> _asks_of_a_number("how is 31.25GB of logits made".split()), _asks_of_a_number("on 24GB of vram".split())
    (True, False)
    >>> _asks_of_a_number("the logits take up 31.25GB".split()), _asks_of_a_number("is 24GB enough".split())
    (True, False)
    """
    places = [place for place, word in enumerate(words) if BYTES_SAID.fullmatch(word)]
    if any(CLASSES["TOOK"].intersection(map(str.lower, words[max(place - 2, 0) : place])) for place in places):
        return True
    of_what = [
        words[place + 2].lower() for place in places if words[place + 1 : place + 2] == ["of"] and words[place + 2 :]
    ]
    return bool(places) and (words[0].lower() == "where" or any(word not in CLASSES["BYTES"] for word in of_what))


def _how_many(rest: Sequence[str], cards: dict[str, int]) -> str:
    """The word that "how many" asks about, "gpus" where that is a card; "" where nothing is asked so."""
    place = next((place for place, word in enumerate(rest) if word.lower() == "many"), None)
    if place is None:
        return ""
    behind = [word.lower() for word in rest[place + 1 : place + 2]]
    if rest[place + 2 : place + 3] and rest[place + 2].lower() in CLASSES["TIME"]:
        return rest[place + 2].lower()
    return "gpus" if place + 1 in cards.values() else "".join(behind)


class _Values(dict[str, str]):
    """Values of the words in braces in a row of the table: of an option, or what follows from the question."""

    def __init__(self, read: Read) -> None:
        self.read = read

    def __missing__(self, key: str) -> str:
        return VALUES[key](self.read) if key in VALUES else self.read.values(key)[0]


def _amount(read: Read) -> str:
    return next(filter(AMOUNT.fullmatch, read.rest))


def _compared(read: Read) -> Read:
    return read._replace(given=[one for one in read.given if one[0] == "--gpu"])


def _own_words(read: Read) -> list[str]:
    return [word for word in read.rest if word and word.lower() not in FILLERS]


def _sizes_of_config(read: Read) -> list[str]:
    """The sizes of a config that a question names."""
    said, found = " ".join(read.said).lower(), list[str]()
    for size, pattern in SIZES_OF_CONFIG.items():
        said, times = re.subn(rf"\b({pattern})\b", "", said)
        found += [size.replace(" ", "_")] * bool(times)
    return found


def _is_formula(word: str) -> bool:
    """Return whether a word is a formula, and not the name of a product: QK^T."""
    return bool(FORMULA.fullmatch(word)) and concept_of(word) is None


def _shared(read: Read) -> str:
    """The GPUs over which a change shares, where the question says none."""
    many = read.values("--gpus") or _several(read.cards)
    return f"--gpus {SEVERAL}" if read.change.startswith(OF_SEVERAL) and not many else ""


def _several(cards: Sequence[str]) -> bool:
    return any(parse_gpu(card)[0] > 1 for card in cards)


def _memory(read: Read) -> str:
    """The memory that a card leaves to a process, rounded down."""
    return f"{of_card(read.cards[0]).bytes * 10 // 2**30 / 10:g}GiB"


def _compute(params: float) -> str:
    return f"{compute_of(params):.4g}"


VALUES: Mapping[str, Callable[[Read], str]] = {
    "amount": _amount,
    "compare": lambda read: shlex.join(_line("compare", _compared(read))[0]),
    "change": lambda read: f"{_shared(read)} {read.change}",
    "compute-of--tokens": lambda read: _compute(parse_count(read.values("--tokens")[0]) / TOKENS_A_PARAMETER),
    "compute-of-size": lambda read: _compute(parse_count(read.size)),
    "formula": lambda read: next(filter(_is_formula, read.rest)),
    "meant": lambda read: read.meant,
    "memory-of--gpu": _memory,
    "mode": lambda read: "--serve" if read.change.split()[0] in (FORMAT, CACHE) else "--train",
    "model": lambda read: read.models[0],
    "number-of-models": lambda read: str(len(read.models)),
    "part": lambda read: next(PARTS[word.lower()] for word in read.rest if word.lower() in PARTS),
    "size": lambda read: read.size,
    "size-of-config": lambda read: _sizes_of_config(read)[0],
    "tokens-a-parameter": lambda _: str(TOKENS_A_PARAMETER),
    "tokens-of-size": lambda read: short(TOKENS_A_PARAMETER * parse_count(read.size), billion="B"),
    "usual-model": lambda read: read.concept.model if read.concept else "",
    "without": lambda read: f"{_shared(read)} {read.instead_of or WITHOUT.get(read.change.split()[0], '')}".strip(),
    "word": lambda read: _own_words(read)[0],
}
"""What follows from a question, by the words for it in the table."""


def _refusal(text: str, read: Read) -> TfcalcError:
    """The error of a row that begins with "!"."""
    if text in REFUSALS:
        return REFUSALS[text](read)
    fact, _, remedy = text.format_map(_Values(read)).partition("; ")
    return UsageError(fact, remedy)


def _of_energy(read: Read) -> TfcalcError:
    """The refusal of a question about energy: with the line for the hours or the tokens per second beside it."""
    energy, line = known()["energy"], list[str]()
    with suppress(TfcalcError):  # of the rest of the question
        line = question_in([word for word in read.said if concept_of(word) is not energy], read.meant) or []
    tells = {"train": "GPU hours", "serve": "tokens per second"}.get("".join(line[:1]), "")
    instead = energy.instead.format(f" {(*read.models, energy.model)[0]}")
    remedy = f"tfcalc {shlex.join(line)} tells {tells}" if tells else instead
    return UsageError(f"{energy.name}: {energy.refused}", remedy)


def _of_guesses(read: Read) -> TfcalcError:
    """The refusal where it is not said how many tokens are guessed, and how many of them are accepted."""
    halves = {slot: value for slot, value in read.given if slot in HALVES}
    missing = [words for slot, (words, _) in HALVES.items() if slot not in halves]
    usual = "@".join(halves.get(slot, such) for slot, (_, such) in HALVES.items())
    given = [*(one for one in read.given if one[0] not in HALVES), (SPECULATE, usual)]
    line, _ = _line("serve", read._replace(given=given))
    remedy = f"type tfcalc {shlex.join(line)}, the tokens @ the share of them"
    return UsageError(f"the question does not say {' and '.join(missing)}", remedy)


def _of_a_size(read: Read) -> TfcalcError:
    """The error of a size in the place of a model: with the line of a model of this size, where one is usual.

    Raises UnknownModel where the word before it looks like the name of a family.
    """
    size, place = read.size, read.said.index(read.size)
    family = read.said[place - 1].lower() if place else ""
    if family.isalpha() and family not in KNOWN:
        preset(f"{family}-{size}")
    names = f"tfcalc models {size.lower()} lists their names; tfcalc design {size} has shapes of that size"
    if model := a_model_of(size.lower()):
        meant, taken = (
            "" if read.explains else read.meant,
            Supposed(f"models of {quoted(size)} differ: this is {model}", names),
        )
        with suppress(UsageError):
            try:
                taken.line = question_in([model if word == size else word for word in read.said], meant) or ()
            except Supposed as further:
                taken = Supposed(f"{taken.message}; {further.message}", taken.hint)
                taken.line = further.line
        if taken.line:
            return taken
    return UsageError(f"models of {quoted(size)} differ; name one", names)


def _of_a_family(read: Read) -> TfcalcError:
    """The error of a name that several models have: with the line of the first of them."""
    error = _of_several(read)
    assert error is not None, "there is one"
    for name in error.several[:1]:
        with suppress(TfcalcError):
            line = question_in(
                " ".join(read.said).replace(error.words, name, 1).split(), "" if read.explains else read.meant
            )
            error.hint = f"type tfcalc {shlex.join(line)}, for one; {error.hint}" if line else error.hint
    return error


def _of_no_tokens(read: Read) -> TfcalcError:
    """The error of a run whose tokens are not said: with the line of some."""
    line = _understood(*_line("train", read))
    taken = Supposed(f"the question says no tokens: these are {SUCH_TOKENS}", "--tokens N takes yours")
    taken.said_by, taken.alone = OF_A_RUN, _on_several(line) if len(read.cards) > 1 else line
    taken.line = [*taken.alone, "--tokens", SUCH_TOKENS]
    return taken


REFUSALS: Mapping[str, Callable[[Read], TfcalcError]] = {
    "energy": _of_energy,
    "family": _of_a_family,
    "guesses": _of_guesses,
    "size": _of_a_size,
    "tokens": _of_no_tokens,
}
"""Errors whose remedy is the line of another question."""


def _is_of_tokens(words: Sequence[str], word: str) -> bool:
    place = words.index(word)
    return any(word.lower() in ("tokens", "token", "samples", "context") for word in words[place + 1 : place + 2])


FAMILIES = ("llama", "qwen", "gemma", "mistral", "phi", "gpt")
"""Families that an example is taken from, the first one that has a model of the size."""


def a_model_of(size: str) -> str:
    """The name of a usual model of a size, the newest of its family; "" where there is none.

    >>> a_model_of("7b"), a_model_of("32b").startswith("qwen"), a_model_of("9999b")
    ('llama-2-7b', True, '')
    """
    plain = [(name, parts(name)) for name in index() if name.endswith(f"-{size}")]
    for family in FAMILIES:
        of_it = [
            (its.version, name) for name, its in plain if its.family == family and len(its.words) == len(set(its[:3]))
        ]
        if of_it:
            return max(of_it)[1]
    return ""


def _with_digits(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if any(map(str.isdigit, word)))


def joined(words: Sequence[str]) -> list[str]:
    """The words with a model's name in one piece, where they begin with one that was typed apart.

    >>> joined(["llama3", "70b", "--lora"]), joined(["gpt2", "xl"]), joined(["gpt2", "vs", "gpt2-xl"])
    (['llama3-70b', '--lora'], ['gpt2-xl'], ['gpt2', 'vs', 'gpt2-xl'])
    """
    for last in range(min(LONGEST_NAME, len(words)), 1, -1):
        if name := a_model(words[:last]):
            return [name, *words[last:]]
    return list(words)


def beside(word: str) -> list[str]:
    """The option that a word behind a model is: that of a card, or of a format of weights; none of another word.

    >>> beside("h100"), beside("4bit"), beside("gpt2")
    (['--gpu', 'h100'], ['--weights', '4bit'], [])
    """
    return ["--gpu", word] if is_card(word) else [FORMAT, word] if is_format(word) else []


def solved_for(words: Sequence[str]) -> list[str] | None:
    """The line of a condition with the size behind it, in words; None where there is no "for".

    Raises UsageError where it says more than is understood.

    >>> solved_for("params = 7B for layers with d_model 4096".split())
    ['solve', 'params = 7B', '--for', 'layers', '--d-model', '4096']
    """
    place = next((place for place, word in enumerate(words) if word.lower() == "for"), len(words))
    condition, (sought, *more) = " ".join(words[:place]), words[place + 1 :] or [""]
    if not (condition and sought):
        return None
    models, rest = found_in(in_one_spelling([word.strip(MARKS) for word in more]), a_model)
    given = [part for one in amounts(rest) for part in one]
    return _understood(["solve", condition, *models, "--for", sought, *given], _with_digits(rest))


def of_no_model(word: str) -> list[str]:
    """The words that a first word stands for: a part or a concept is explained, hyphens part words of a question.

    >>> of_no_model("softmax"), of_no_model("finetune-cost"), of_no_model("nosuch-cost"), of_no_model("h100")
    (['explain', 'softmax'], ['finetune', 'cost'], [], ['gpus', 'h100'])
    """
    if a_card([word]):
        return ["gpus", word]
    if word.lower() in PARTS or concept_of(word) is not None:
        return ["explain", word]
    apart = word.lower().split("-")
    return apart if len(apart) > 1 and all(part in KNOWN or part in PARTS for part in apart) else []


def in_one_piece(words: Sequence[str]) -> tuple[str, ...]:
    """A sentence with each model's name in one piece, where it was typed apart; a path alone is behind it.

    >>> in_one_piece("has deepseek v3 a small cache".split())
    ('has deepseek-v3 a small cache',)
    """
    models, rest = found_in(words, a_model)
    paths = [name for name in models if is_a_path(name)]
    named = {place: name for name, place in models.items() if paths != [name]}
    sentence = " ".join(named.get(place, word) for place, word in enumerate(rest) if word or place in named)
    return (sentence, *paths) if len(paths) == len(models) == 1 else (sentence,)


def models_in(words: Sequence[str]) -> list[str]:
    """The models that words name and nothing else, each in one piece; none where they say more.

    >>> models_in("gpt2 xl and llama 3 8b".split()), models_in("gpt2 xl on a100".split())
    (['gpt2-xl', 'llama-3-8b'], [])
    """
    models, rest = found_in(words, a_model)
    return [] if any(word and word.lower() not in BETWEEN for word in rest) else list(models)
