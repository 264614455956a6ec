"""Questions in words in the place of a command: ``tfcalc will llama 3 70b fit on two h100s`` asks for an overview."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tfcalc.catalog import index, is_known, is_path, parts, preset, sizes
from tfcalc.catalog import meant as meant_by
from tfcalc.cli.commands import ALIASES, BETWEEN, COMMANDS, TOKENS_A_PARAMETER, command, compute_of
from tfcalc.cli.said import (
    ACCEPTED,
    AMOUNT,
    CACHE,
    FORMAT,
    GUESSES,
    LENGTH,
    LIKE,
    LONGEST_CONTEXT,
    PROMPT,
    RATE,
    RUN,
    SIZE,
    UTILISATION,
    amounts,
    in_one_spelling,
    is_a_path,
    is_format,
    is_run,
    option_of,
    ways_of_training,
)
from tfcalc.errors import UsageError
from tfcalc.hardware import is_accelerator, parse_gpu
from tfcalc.printable import quoted
from tfcalc.report.concepts import FILLERS, MARKS, Concept, Named, concept_of, known, named_among
from tfcalc.units import parse_count, short

WORDS = {
    "trained": "train training trained finetune fine-tune finetuning fine-tuning tune tuning pretrain pretraining sft",
    "served": "serve serving served inference infer deploy host users requests",
    "timed": "long hours days time fast slow speed cost costs expensive money throughput latency tokens/s "
    "second seconds price prices",
    "first": "ttft tpot itl prefill decode decoding generation",
    "flops": "flops flop macs",
    "most": "longest largest biggest highest maximum max most limit fits fit",
    "shape": "layers layer heads shape width wide depth deep hidden d_model",
    "optimal": "chinchilla optimal compute-optimal",
    "runs": "run runs running",
    "bytes": "memory vram ram gb bytes big large much size space",
    "cards": "gpu gpus card cards",
    "memory": "memory vram ram",
    "of any model": "lora qlora dpo grpo ppo kv cache activations gradients logits parameters params",
}
"""Words that say what a question asks about."""
TRAINED, SERVED, TIMED, FIRST, FLOPS, MOST, OF_A_SHAPE, OPTIMAL, RUNS, BYTES, CARDS, MEMORY, OF_ANY_MODEL = (
    frozenset(said.split()) for said in WORDS.values()
)
OF_TRAINING = ("--optimizer", "--zero", "--fsdp", "--offload", "--checkpointing")
"""How options begin that only training has."""
ADAPTERS, PARAMETERS = frozenset(("lora", "qlora")), frozenset(("parameters", "params", "parameter", "trainable"))
NOT_PARAMETERS = BYTES | CARDS | TIMED | FLOPS
"""Words by which a question about an adapter is about more than its parameters."""
NEEDED = frozenset(("need", "needed", "needs", "require", "required", "requires"))
OF_A_MODEL = TRAINED | SERVED | RUNS | {"model", "models", "fit", "fits"}
"""Words by which a question about a card is about a model on it."""
KNOWN = frozenset(("per", "token", "tokens")).union(
    *(said.split() for said in WORDS.values()), FILLERS, ALIASES, COMMANDS
)
"""Words that are no name of a model."""
LONGEST_NAME = 4
"""Words of a name that are typed apart: ``llama 3.1 70b instruct``."""
LONGEST_QUESTION = 100
"""Words of a question: longer texts are none, and each of their words would be looked up."""
BYTES_SAID = re.compile(r"[\d.]+gi?b", re.ASCII | re.IGNORECASE)
BEFORE = MARKS.replace(".", "")
"""Marks before a word: a path may begin with a dot."""
ADAPTED = re.compile(r"[a-z]\w*_proj(,[a-z]\w*)*|all-linear", re.ASCII)
"""Matrices that LoRA adapts, by their names."""
KINDS = ("encoder", "decoder", "encoder-only", "decoder-only")
"""Words for the classic Transformer's halves, beside its sizes."""
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
TIMES = ("x", "×", "*")


def contains(word: str, words: frozenset[str]) -> bool:
    """Return whether a word is among these."""
    return word in words


ASKED_FOR: tuple[tuple[str, Callable[[frozenset[str]], bool]], ...] = (
    ("params --lora", lambda words: bool(words & ADAPTERS and words & PARAMETERS and words.isdisjoint(NOT_PARAMETERS))),
    ("params --lora", lambda words: bool(words >= {"lora", "adapter"} and words.isdisjoint(NOT_PARAMETERS - {"size"}))),
    ("flops --train", lambda words: bool("compute" in words and words & TRAINED and words.isdisjoint(TIMED | CARDS))),
    *((f"fit --{adapter}", partial(contains, adapter)) for adapter in ("qlora", "lora")),
    *((f"fit --method {method}", partial(contains, method)) for method in ("dpo", "grpo", "ppo")),
    ("flops --train", lambda words: bool(words & FLOPS and words & TRAINED)),
    ("", lambda words: bool(words & FLOPS and "token" in words)),
    *(
        (f"flops --phase {phase}", lambda words, phase=phase: bool(words & FLOPS and phase in words))
        for phase in ("decode", "prefill")
    ),
    ("flops", lambda words: bool(words & FLOPS)),
    ("train", lambda words: bool(words & TRAINED and words & TIMED)),
    ("fit", lambda words: bool(words & TRAINED)),
    ("train", lambda words: bool("hours" in words and words & CARDS)),
    ("memory --serve", lambda words: bool(words & SERVED and words & MEMORY and words.isdisjoint(TIMED | CARDS))),
    ("serve", lambda words: bool(words & (SERVED | TIMED))),
    ("fit --serve", lambda words: bool(words & CARDS and words & {"what", "which", "smallest", "cheapest"})),
    ("memory", lambda words: bool("weights" in words and words & BYTES)),
    ("params", lambda words: bool(words & {"parameters", "params", "weights"})),
)
"""The command that a question asks for, by its words; one without any of these asks for everything at a glance."""
LARGEST = frozenset(("batch", "sequence", "context", "concurrency", "prompt"))
"""Words for the sizes of a workload of which the largest is asked for."""
ASKED_OF_A_CARD: tuple[tuple[str, Callable[[frozenset[str]], bool]], ...] = (
    ("memory --train", lambda words: bool(words & MOST and words & {"batch", "sequence"} and words.isdisjoint(SERVED))),
    ("memory --serve", lambda words: bool(words & MOST and words & LARGEST)),
    ("fit --serve", lambda words: bool(words & RUNS and words.isdisjoint(TRAINED | SERVED | TIMED))),
    ("serve", lambda words: bool(words & FIRST)),
)
"""The same where a card is named: its largest sizes, whether a model runs on it, how long the first token takes."""
ONE_OF_MANY = "h100"
"""The card of a question about how many are needed, where it names none."""
ONE_TOKEN = "KV cache per token"
AT_A_GLANCE = ("training memory", "parameter count")
"""Concepts that everything at a glance tells of a model."""
TERMS = {"fit": ("activations", "gradients", "logits"), **dict.fromkeys(("serve", "memory --serve"), ("KV cache",))}
"""Concepts that are asked about where a question has words of a command beside them: how much is saved in training."""
FEWEST = "serve --for gpus"
SIZES = ("model shape", "multi-head attention", "GQA", "head dimension", "vocabulary")
"""Concepts by whose names the sizes of a model are asked for, which everything at a glance tells."""
NAMED_SIZES = frozenset(("heads", "head", "layers", "vocab"))
PARTS = {part: part for part in ("attention", "mha", "sdpa", "ffn", "router", "experts", "layer")} | {"mlp": "ffn"}
"""Parts of a model whose parameters and FLOPs are opened, by the words for them."""
GUESSING = frozenset(
    ("draft", "drafter", "drafting", "speculative", "speculation", "speculating", "speculate", "eagle", "medusa", "mtp")
)
"""Words of a question about a served model whose next tokens are guessed."""
SPECULATE = "--speculate"
HALVES = {GUESSES: ("how many tokens are guessed", "3"), ACCEPTED: ("how many of them are accepted", "0.7")}
"""What that option is made of: what a question lacks without it, and its value in a line to type."""
OF_A_RUN = ("--tokens", "--samples", "--epochs", "--max-steps")


class AskedInWords(NamedTuple):
    """A question in words: the ``line`` that answers it, without ``tfcalc``, and what it says that no option has."""

    line: tuple[str, ...]
    left: tuple[str, ...]


def question_in(words: Sequence[str], meant: str = "", *, explains: bool = False) -> AskedInWords | None:
    """The question that words ask about models or a card; None where they name neither.

    ``meant`` is the command that the first of them stands for, which answers if none is asked for in words. Where it
    ``explains``, a concept is asked about, and nothing else.

    Raises UsageError for words about several models or cards that no answer has beside each other.

    >>> question_in("will llama 3 70b fit on 2 rtx 4090s?".split()).line
    ('llama-3-70b', '--gpu', '2xrtx-4090')
    >>> question_in("how long to finetune gpt2 on an a100".split()).line, question_in("how big is it".split())
    (('train', 'gpt2', '--gpu', 'a100'), None)
    >>> question_in("kv cache of qwen2.5 7b at 32k".split()).line
    ('explain', 'KV cache', 'qwen2.5-7b', '--context', '32k')
    """
    if len(words) > LONGEST_QUESTION:
        return None
    said = in_one_spelling([bare for word in words if (bare := word.rstrip(MARKS).lstrip(BEFORE))])
    if _asks_of_a_number(said):
        return None
    models, rest = _found(said, _model)
    cards, rest = _found(rest, _card)
    lower = frozenset(word.lower() for word in rest)
    if any(concept_of(word) is known()["energy"] for word in lower):
        raise _of_energy(said, list(models), meant)
    if len(cards) > 1:
        raise UsageError(f"the question names {len(cards)} cards, {' and '.join(cards)}", "ask about one of them")
    many = _how_many(rest, cards)
    if models and meant == "gpus":
        many, meant = many or "gpus" * bool(lower & NEEDED), "fit --serve"
    for name, place in cards.items():
        before = place - 2 if place > 1 and rest[place - 1] in TIMES else place - 1
        if place and (number := _number(rest[before])):
            cards, rest[before] = {f"{number}x{name}": place}, ""
    if lower & GUESSING and models and (len(models) > 1 or cards):
        return _with_guesses(list(models), list(cards), rest)
    if len(models) > 1 and explains and named_among(rest) is None:
        return None
    if len(models) > 1:
        both = ("compare", *models, *(("--gpu", *cards) if cards else ()))
        if explains or _with_digits(rest):
            fact, remedy = f"the question names {len(models)} models", f"tfcalc {' '.join(both)} puts them side by side"
            raise UsageError(fact, f"ask about one of them; {remedy}")
        return AskedInWords(both, ())
    if not models and (answer := _of_no_model(said, list(cards), rest, lower, many, meant)) is not None:
        return answer
    first = named_among(rest)
    given = list(_with_share(amounts(rest, _of_a_name(first, rest))))
    named = _named_first(rest)
    concept = named.concept if named else first.concept if first and explains else None
    if concept is not None and concept.name.startswith("KV cache") and "weights" not in lower:
        given = [(CACHE if slot == FORMAT else slot, value) for slot, value in given]
    if not models:
        _refuse_what_needs_a_model(rest, concept, cards)
        if concept is None or not (given or cards):
            return None
        explains = True
    typed, of_memory = said[0].lower() == meant, any(BYTES_SAID.fullmatch(card) for card in cards)
    asked = Deciding(lower, many, meant, typed=typed, cards=bool(cards), of_memory=of_memory, explains=explains)
    line, concept = _line(asked, rest, concept, given)
    if explains and concept is None:
        part = [word for word in rest if word and word.lower() not in FILLERS]
        return AskedInWords(("explain", *part, *models), ()) if len(part) == 1 and models and not given else None
    if concept is not None and named is not None:
        for place in named.places:
            rest[place] = ""
    if line.startswith("fit") and many and not cards:
        cards = {ONE_OF_MANY: 0}
    return _with_options(line, concept, list(models), list(cards), rest, given)


def _of_energy(said: Sequence[str], models: Sequence[str], meant: str) -> UsageError:
    """The refusal of a question about energy: with the line for the hours or the tokens per second beside it."""
    energy, line = known()["energy"], tuple[str, ...]()
    with suppress(UsageError):  # of the rest of the question
        asked = question_in([word for word in said if concept_of(word) is not energy], meant)
        line = asked.line if asked is not None and not asked.left else ()
    tells = {"train": "GPU hours", "serve": "tokens per second"}.get("".join(line[:1]), "")
    instead = energy.instead.format(f" {(*models, energy.model)[0]}")
    remedy = f"tfcalc {shlex.join(line)} tells {tells}" if tells else instead
    return UsageError(f"{energy.name}: {energy.refused}", remedy)


def _with_guesses(models: Sequence[str], cards: Sequence[str], rest: list[str]) -> AskedInWords:
    """The question of a model that is served with guessed tokens: by a draft, the smaller of two models.

    Raises UsageError where it does not say how many are guessed, and how many of them are accepted.
    """
    listed = {name: size for name, size, _ in sizes()}
    if all(name in listed for name in models):
        models = sorted(models, key=listed.__getitem__, reverse=True)
    model, *draft = models
    given = list(_with_share(amounts(rest)))
    asked = _with_options("serve", None, [model], cards, rest, [one for one in given if one[0] not in HALVES])
    line = (*asked.line, *(part for name in draft for part in ("--draft-model", name)))
    if SPECULATE in asked.line:
        return AskedInWords(line, asked.left)
    halves, size = dict(given), next(filter(SIZE.fullmatch, rest), "")
    if not draft and size and (usual_draft := a_model_of(size.lower())):
        line = (*line, "--draft-model", usual_draft)
    missing = [words for slot, (words, _) in HALVES.items() if slot not in halves]
    usual = "@".join(halves.get(slot, such) for slot, (_, such) in HALVES.items())
    remedy = f"type tfcalc {shlex.join((*line, SPECULATE, usual))}, the tokens @ the share of them"
    raise UsageError(f"the question does not say {' and '.join(missing)}", remedy)


def _with_share(given: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The options of a question, where guessed tokens and the share of them that is accepted are one.

    >>> list(_with_share([(GUESSES, "4"), ("--seq", "8"), (ACCEPTED, "70%")]))
    [('--seq', '8'), ('--speculate', '4@70%')]
    """
    found = list(given)
    halves = {slot: value for slot, value in found if slot in HALVES}
    yield from (one for one in found if one[0] not in HALVES or len(halves) < len(HALVES))
    if len(halves) == len(HALVES):
        yield SPECULATE, "@".join(halves[slot] for slot in HALVES)


def _named_first(rest: Sequence[str]) -> Named | None:
    """The concept that a question names: not one behind "with" or "without", where it names another one."""
    named = named_among(rest)
    if named is None or not {word.lower() for word in rest[named.places[0] - 1 : named.places[0]]} & {
        "with",
        "without",
        "no",
    }:
        return named
    return named_among(["" if place in named.places else word for place, word in enumerate(rest)]) or named


def _refuse_what_needs_a_model(rest: Sequence[str], concept: Concept | None, cards: Iterable[str]) -> None:
    """Raise the error of a name that is several models', or of a card with a concept that is of a model alone."""
    families = {parts(name).family for name in index()} - KNOWN - {"transformer"}
    for place, word in enumerate(rest):
        if word.lower() in families and not (concept and concept_of(word)):
            _, name = next(_names_at(rest, place, _incomplete), (0, word))
            preset(name)
    for card in cards:
        if concept is not None and "--gpu" not in concept.opens:
            fact = f"{quoted(card)} in the question is a card, and no model is named"
            raise UsageError(fact, f"name one: tfcalc {concept.model} --gpu {card}")


def _incomplete(words: Sequence[str]) -> str:
    """The name in these words that presets have and further words beside it; "" where none has."""
    name = "-".join(words).lower()
    return name if meant_by(name, index()) else ""


class Deciding(NamedTuple):
    """Words that decide on the command: all in ``lower`` case, what "how many" asks about, and the first word.

    The first stands for ``meant``, and is ``typed`` where it is that command's own name. A card is named, which may be
    an amount ``of_memory`` alone. ``explains`` is as in :func:`question_in`.
    """

    lower: frozenset[str]
    many: str
    meant: str
    typed: bool
    cards: bool
    of_memory: bool
    explains: bool


def _of_a_name(named: Named | None, rest: Sequence[str]) -> tuple[int, ...]:
    """The places of a concept's name that has a number, such as "ZeRO 3", and is no format."""
    said = [rest[place] for place in named.places] if named else []
    return named.places if named and _with_digits(said) and not is_format("".join(said)) else ()


def _line(
    asked_by: Deciding, rest: Sequence[str], concept: Concept | None, given: list[tuple[str, str]]
) -> tuple[str, Concept | None]:
    """The command that answers, with the options that the question's words are; and the concept that it explains."""
    lower, many, meant, typed, cards, of_memory, explains = asked_by
    slots = {slot for slot, _ in given}
    if concept is known()["6nd"] and "6nd" in lower:
        return "explain", concept
    if many == "experts" and not explains and not cards:
        return "", None
    if explains:
        return "explain", concept
    if "prefill" in lower and cards:
        given[:] = [(PROMPT if slot in ("--tokens", LENGTH) else slot, value) for slot, value in given]
    if RATE in slots or (cards and any(word.lower() in UTILISATION for word in rest)):
        return "flops --train --mfu", None
    if "tokens" in lower and ((many == "tokens" and lower & TRAINED and lower.isdisjoint(TIMED)) or lower & OPTIMAL):
        return "explain", known()["tokensperparameter"]
    if lower & {"active", "activated"} and lower & PARAMETERS:
        return "explain", known()["activeparameters"]
    if many in CARDS and lower.isdisjoint(TRAINED | ADAPTERS):
        return ("memory --serve" if of_memory else FEWEST), None
    if concept is not None and concept.name in SIZES and lower & NAMED_SIZES and not (given or cards or explains):
        return "", None
    asked = next((line for line, asks in (*ASKED_OF_A_CARD * cards, *ASKED_FOR) if asks(lower)), None)
    if asked == "flops" and any(is_run(*one) for one in given):
        asked = "flops --train"
    part = next((PARTS[word.lower()] for word in rest if word.lower() in PARTS), "")
    if part and concept is None and asked in ("flops", "flops --train", "params") and not cards:
        return f"explain {part}" + (f" --of {asked}" if asked != "params" else ""), None
    if typed and not (meant == "flops" and asked):
        mode = " --train" * bool(lower & TRAINED) or " --serve" * bool(lower & SERVED)
        return (meant + mode * (meant == "memory")), None
    if asked == "params" and FORMAT in slots and "weights" in lower:
        asked = "memory"
    least = LONGEST_CONTEXT if asked is None else RUN
    reads = any(is_run(*one, least) for one in given) or bool(slots & {"--samples", "--epochs", "--max-steps"})
    if asked in (None, "serve") and lower.isdisjoint(SERVED) and reads:
        asked = "train"
    of_a_concept = (
        concept is not None
        and concept.name not in AT_A_GLANCE
        and (asked in (None, "params") or (concept.name in TERMS.get(asked, ()) and lower.isdisjoint(TIMED)))
    )
    if concept is not None and of_a_concept and not cards:
        return "explain", concept
    if concept is not None and of_a_concept and not meant:
        mode = next((mode for mode in ("--train", "--serve") if mode in concept.opens), "")
        return (f"memory {mode}" if mode else "serve" if concept.opens.startswith("serve") else ""), None
    if asked is None and cards and FORMAT in slots:
        return "memory --serve", None
    if asked is None and cards and any(way.startswith(OF_TRAINING) for way in ways_of_training(list(rest))):
        asked = "fit"
    return (asked if asked is not None else "" if meant in ("overview", "gpus") else meant), None


def _with_options(
    line: str,
    concept: Concept | None,
    models: Sequence[str],
    cards: Sequence[str],
    rest: list[str],
    given: Sequence[tuple[str, str]],
) -> AskedInWords:
    """The command line with an option for each thing that was said, and what no option has."""
    opens = line if concept is None else concept.opens
    options, left = dict[str, str](), list[str]()
    for slot, value in given:
        option = option_of(slot, value, opens)
        if options.setdefault(option, value) != value:
            left.append(value)
    if concept is not None and concept.name == ONE_TOKEN and "--kv" in options and "--context" not in options:
        concept = known()["kvcache"]  # of one token, which has a format
        options = {"--context": "1", "--cache": "dynamic", **options}
    first, *fixed = line.split() or [""]
    target = (fixed.pop(0),) if first == "explain" and fixed else ()
    if first == "fit" and any(option in options for option in OF_A_RUN):
        first = "train"
    if (first in ("fit", "train", "memory") and "--serve" not in fixed) or "--of memory --train" in opens:
        fixed += [word for way in ways_of_training(rest) for word in way.split() if way.split()[0] not in fixed]
    for adapters in ("--lora", "--qlora"):
        if adapters in fixed and "--lora" in options:
            fixed.remove(adapters)
            options[adapters] = options.pop("--lora")
    if first:
        has = _flags_of(first, concept)
        adapted = ",".join(dict.fromkeys(word for word in rest if ADAPTED.fullmatch(word)))
        if adapted:
            options["--lora-targets"] = adapted
        kind = next((word.lower() for word in rest if word.lower() in KINDS), "")
        if kind and options and not models and first == "explain":
            options["--kind"] = kind.removesuffix("-only")
        left += [options.pop(option) for option in [*options] if option not in has]
    card = ("--gpu", *cards) if cards else ()
    left += _with_digits(rest)
    if concept is not None:
        left = [word for word in left if is_format(word) or (AMOUNT.fullmatch(word) and len(word) > 1)]
    names = (first, *((concept.name,) if concept else target), *models)
    said = tuple(part for option in options.items() for part in option)
    return AskedInWords((*filter(None, names), *fixed, *card, *said), tuple(left))


def _flags_of(name: str, concept: Concept | None) -> set[str]:
    """The options of a command, or of what opens a concept."""
    called = command(name)
    if concept is not None and concept.opens:
        called = called.meant(shlex.split(concept.opens))
    return {part for option in called.options for flag in option.flags for part in flag.split("/")}


def _asks_of_a_number(words: Sequence[str]) -> bool:
    """Return whether a sentence asks where bytes come from, which are no card's memory.

    >>> _asks_of_a_number("how is 31.25GB of logits made".split()), _asks_of_a_number("on 24GB of vram".split())
    (True, False)
    """
    places = [place for place, word in enumerate(words) if BYTES_SAID.fullmatch(word)]
    of_what = [
        words[place + 2].lower() for place in places if words[place + 1 : place + 2] == ["of"] and words[place + 2 :]
    ]
    return bool(places) and (words[0].lower() == "where" or any(word not in BYTES for word in of_what))


def _how_many(rest: Sequence[str], cards: dict[str, int]) -> str:
    """The word that "how many" asks about, "gpus" where that is a card; "" where nothing is asked so."""
    place = next((place for place, word in enumerate(rest) if word.lower() == "many"), None)
    if place is None:
        return ""
    behind = [word.lower() for word in rest[place + 1 : place + 2]]
    if rest[place + 2 : place + 3] and rest[place + 2].lower() in TIMED:
        return rest[place + 2].lower()
    return "gpus" if place + 1 in cards.values() else "".join(behind)


def _of_no_model(
    said: Sequence[str], cards: Sequence[str], rest: Sequence[str], lower: frozenset[str], many: str, meant: str
) -> AskedInWords | None:
    """The question of words that name no model: of a card alone, or of the best model for a compute; None of others.

    Raises UsageError for a size in the place of a model, and for a question about all models.
    """
    size = next((word for word in rest if SIZE.fullmatch(word) and not _is_of_tokens(rest, word)), "")
    if size and (answer := _of_six_nd(size, rest, lower)) is not None:
        return answer._replace(left=(*cards, *answer.left))
    given = dict(amounts(list(rest)))
    if lower & OPTIMAL and "--price" in given:
        return AskedInWords(("design", "--budget-usd", given["--price"], *(("--gpu", *cards) if cards else ())), ())
    if size and is_run("--tokens", given.get("--tokens", "0")) and lower & OPTIMAL:
        return AskedInWords(("design", size, "--tokens", given["--tokens"]), tuple(cards))
    if is_run("--tokens", given.get("--tokens", "0")) and lower & OPTIMAL:
        params = parse_count(given["--tokens"]) / TOKENS_A_PARAMETER
        return AskedInWords(("design", "--compute", f"{compute_of(params):.4g}"), tuple(cards))
    if size and (many == "tokens" or lower & OPTIMAL):
        return AskedInWords(("design", "--compute", f"{compute_of(parse_count(size)):.4g}"), ())
    amount = next(filter(AMOUNT.fullmatch, rest), "")
    if amount and (lower & OPTIMAL or ("model" in lower and lower & FLOPS and lower & TRAINED and not size)):
        return AskedInWords(("design", "--compute", amount), ())
    if size and (lower & OF_A_SHAPE or meant == "design"):
        others = [word for word in rest if word != size]
        shape = _with_options(f"design {size}", None, (), (), others, list(amounts(others)))
        return shape._replace(left=(*cards, *shape.left))
    if size and lower & (OF_A_MODEL | BYTES | TIMED | FLOPS | CARDS | OF_ANY_MODEL):
        raise _of_a_size(said, size, meant)
    named = named_among(rest)
    if len(cards) == 1 and lower & {"model", "models"} and lower & (MOST | RUNS):
        raise UsageError("a question is about one model", f"tfcalc fit MODEL --gpu {cards[0]}")
    if len(cards) != 1 or (named is not None and named.concept.name not in AT_A_GLANCE):
        return None
    return AskedInWords(("gpus", *cards), _with_digits(rest)) if lower.isdisjoint(OF_A_MODEL) else None


def _of_six_nd(size: str, rest: Sequence[str], lower: frozenset[str]) -> AskedInWords | None:
    """The question of the FLOPs that train a number of parameters, by 6ND; None where others are asked for.

    Raises UsageError where it says no tokens.
    """
    named = named_among(rest)
    by_name = named is not None and named.concept is known()["6nd"]
    others = [word for word in rest if word != size]
    given = list(amounts(others))
    given += [("--tokens", word) for word in others if by_name and SIZE_OF_RUN.fullmatch(word)]
    tokens = [value for slot, value in given if is_run(slot, value)]
    if tokens and (by_name or lower & FLOPS or ("compute" in lower and lower.isdisjoint(OPTIMAL))):
        left = [value for _, value in given if value != tokens[0]]
        left += [word for word in _with_digits(others) if word not in tokens and concept_of(word) is not known()["6nd"]]
        return AskedInWords(("design", size, "--tokens", tokens[0]), tuple(left))
    if not by_name:
        return None
    optimal = short(TOKENS_A_PARAMETER * parse_count(size), billion="B")
    fact = "6ND is 6 x parameters x tokens, and the question says no tokens"
    raise UsageError(fact, f"type tfcalc design {size} --tokens {optimal}, {TOKENS_A_PARAMETER} for each parameter")


SIZE_OF_RUN = re.compile(r"\d+(\.\d+)?[bBtT]", re.ASCII)
"""Tokens of a run, by themselves."""


def _is_of_tokens(words: Sequence[str], word: str) -> bool:
    place = words.index(word)
    return any(word.lower() in ("tokens", "token", "samples", "context") for word in words[place + 1 : place + 2])


def _of_a_size(said: Sequence[str], size: str, meant: str) -> UsageError:
    """The refusal of a size in the place of a model: with the line for a model of this size, where one is usual.

    Raises UnknownModel where the word before it looks like the name of a family.
    """
    place = said.index(size)
    family = said[place - 1].lower() if place else ""
    if family.isalpha() and family not in KNOWN:
        preset(f"{family}-{size}")
    names = f"tfcalc models {size.lower()} lists their names; tfcalc design {size} has shapes of that size"
    if model := a_model_of(size.lower()):
        asked = question_in([model if word == size else word for word in said], meant)
        if asked is not None and not asked.left:
            names = f"type tfcalc {' '.join(asked.line)}; {names}"
    return UsageError(f"models of {quoted(size)} differ; name one", names)


FAMILIES = ("llama", "qwen", "gemma", "mistral", "phi")
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
        if name := _model(words[:last]):
            return [name, *words[last:]]
    return list(words)


def solved_for(words: Sequence[str]) -> AskedInWords | None:
    """The question of a condition with the size behind it, in words; None where there is no "for".

    >>> solved_for("params = 7B for layers with d_model 4096".split()).line
    ('solve', 'params = 7B', '--for', 'layers', '--d-model', '4096')
    """
    place = next((place for place, word in enumerate(words) if word.lower() == "for"), len(words))
    condition, (sought, *more) = " ".join(words[:place]), words[place + 1 :] or [""]
    if not (condition and sought):
        return None
    models, rest = _found(in_one_spelling([word.strip(MARKS) for word in more]), _model)
    given = [part for one in amounts(rest) for part in one]
    return AskedInWords(("solve", condition, *models, "--for", sought, *given), _with_digits(rest))


def of_no_model(word: str) -> list[str]:
    """The words that a first word stands for: a part or a concept is explained, hyphens part words of a question.

    >>> of_no_model("softmax"), of_no_model("finetune-cost"), of_no_model("nosuch-cost")
    (['explain', 'softmax'], ['finetune', 'cost'], [])
    """
    if word.lower() in PARTS or concept_of(word) is not None:
        return ["explain", word]
    apart = word.lower().split("-")
    return apart if len(apart) > 1 and all(part in KNOWN or part in PARTS for part in apart) else []


def in_one_piece(words: Sequence[str]) -> tuple[str, ...]:
    """A sentence with each model's name in one piece, where it was typed apart; a path alone is behind it.

    >>> in_one_piece("has deepseek v3 a small cache".split())
    ('has deepseek-v3 a small cache',)
    """
    models, rest = _found(words, _model)
    paths = [name for name in models if is_a_path(name)]
    named = {place: name for name, place in models.items() if paths != [name]}
    sentence = " ".join(named.get(place, word) for place, word in enumerate(rest) if word or place in named)
    return (sentence, *paths) if len(paths) == len(models) == 1 else (sentence,)


def models_in(words: Sequence[str]) -> list[str]:
    """The models that words name and nothing else, each in one piece; none where they say more.

    >>> models_in("gpt2 xl and llama 3 8b".split()), models_in("gpt2 xl on a100".split())
    (['gpt2-xl', 'llama-3-8b'], [])
    """
    models, rest = _found(words, _model)
    return [] if any(word and word.lower() not in BETWEEN for word in rest) else list(models)


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
        if all(words[place:last]) and (name := read(words[place:last])):
            yield last, name


def _model(words: Sequence[str]) -> str:
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


def _card(words: Sequence[str]) -> str:
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


def _number(word: str) -> int:
    """A number of cards, as a figure or a word; 0 where it is none."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else NUMBERS.get(word.lower(), 0)
