"""The commands, one file each, and the first words that stand for them. One that is not called is not imported."""

from __future__ import annotations

import os
import re
from importlib import import_module
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, cast

from tfcalc.named_tuple import NamedTuple
from tfcalc.units import parse_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tfcalc.cli.options import Option
    from tfcalc.report.answer import Answered

OVERVIEW = "overview"
"""The command that answers where a model stands in the place of one."""
_BY_SECTION = {
    "Count": {
        OVERVIEW: "Show a model at a glance, as tfcalc MODEL does.",
        "params": "Count parameters, component by component, with formulas.",
        "flops": "Count FLOPs: a forward pass, a training step or run, one decoded token.",
        "memory": "Memory of the weights, of a training step, or of serving, term by term.",
        "fit": "Which GPUs a model fits on, trained or served, or the cheapest change by which it does (none: exit 1).",
    },
    "Train and serve": {
        "train": "A training run: whether it fits (exit 0; not: 1), how many hours it takes and what it costs, by GPU.",
        "serve": "A served model: whether it fits and is in time (exit 0; not: 1), latency, throughput and cost.",
        "plan": "Layouts of training over GPUs, the fastest that fits first (exit 0; none: 1): seconds, days, cost.",
        "calibrate": "Fit the rates of train and plan to logs of your own runs (disagree: exit 1).",
        "ranks": "What one GPU of each pipeline stage stores, computes and sends in training.",
    },
    "Compare and guard": {
        "compare": "Models, configs or option sets side by side, and how they differ.",
        "diff": "What changed in a config, and what each change moves: parameters, FLOPs, memory.",
        "budget": "Hold the limits of tfcalc.toml: within (exit 0), over (1), not comparable (3). Also: check-budget.",
        "init": "Write a first tfcalc.toml with budgets, from the configs below this folder.",
    },
    "Explain and solve": {
        "formula": "Print the closed form of a quantity, with its legend.",
        "check": "Check a formula: right (exit 0), or what it lacks and why (1).",
        "design": "Shapes for a budget of parameters, FLOPs or memory, best first; the best size for a training.",
        "explain": "Show how one number is computed, matrix by matrix.",
        "solve": "The size at which a condition on parameters, FLOPs or memory holds; none does: exit 1.",
        "why": "Name what gives a number, or the numbers of a log line: found (exit 0), or nothing (1).",
        "shapes": "List what a part makes on the way: each result with its axes, sizes and FLOPs.",
        "sweep": "One quantity at many sizes at once: a table, CSV, Parquet, or a chart.",
        "plot": "Draw how parts grow with a size, and where one passes another.",
    },
    "Verify, learn, look up": {
        "verify": "Compare with PyTorch, a checkpoint, your own class: agrees (exit 0), differs (1), out of reach (4).",
        "quiz": "Exercises by a seed, and grades for your answers: right (exit 0), wrong (1).",
        "models": "List the presets and the supported model types.",
        "report": "Everything about a model on one page: a file to send, with charts and the origin of each number.",
        "gpus": "List the GPUs: memory, bandwidth, peaks, links, prices, with their sources.",
        "schema": "Print the JSON Schema of an answer, or of tfcalc.toml: every key with its type and meaning.",
        "web": "Serve the page that runs tfcalc in a browser, to this machine alone.",
    },
}
SECTIONS = {section: tuple(commands) for section, commands in _BY_SECTION.items()}
"""Names of the commands in each section of the help."""
COMMANDS = {name: text for commands in _BY_SECTION.values() for name, text in commands.items()}
"""What each command does, in a line."""

QUESTION = "question"
GROUPS = {
    QUESTION: "What is asked",
    "workload": "Workload",
    "training": "Training",
    "serving": "Serving",
    "gpus": "GPUs",
    "model": "Sizes of the model",
    "output": "Output",
}
"""Groups of options in the help, in their order, each with its heading."""


MOST_UNITS = 600_000
"""What an answer may spend (:mod:`tfcalc.core.traced`): most spend a hundredth of it, and a hundred layers of which no
two are alike a fifth."""


def _success(_: Answered) -> int:
    return 0


class Command(NamedTuple):
    """A command: ``answer`` computes its answer; ``examples`` come first in its help, and a test runs each.

    ``code`` is the exit code of an answer, ``write`` how it leaves the program, if not as all others do. What is asked
    may depend on the words of the command line: ``by_words`` is the command that they mean. ``entries`` is the JSON
    object for those who read few of its entries, if there is a shorter way to these. ``most`` is what it may spend.
    """

    answer: Callable[[Any], Answered]
    """Of the settings (:class:`~tfcalc.cli.settings.Settings`), which know all commands."""
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    code: Callable[[Answered], int] = _success
    write: Callable[[Any, Any], None] | None = None
    by_words: Callable[[Sequence[str]], Command] | None = None
    entries: Callable[[Any], Mapping[str, Any]] | None = None
    most: float = MOST_UNITS

    def meant(self, words: Sequence[str]) -> Command:
        """The command that these words mean: this one, or another one that it opens the answer of."""
        return self if self.by_words is None else self.by_words(words)


def command(name: str) -> Command:
    """The command of this name, imported now."""
    return cast(Command, import_module(f"tfcalc.cli.commands.{name}").COMMAND)


def every() -> Iterator[Option]:
    """The options of all commands, each command imported when its turn comes."""
    for name in COMMANDS:
        yield from command(name).options


MEANT = {
    "budget": "check-budget budgets limits gate ci",
    OVERVIEW: "info show describe about summary glance inspect card model cost costs size sizes estimate estimates "
    "need needs requirement requirements quantize quantise quantization heads layers hidden hidden-size architecture "
    "hf huggingface calc calculate predict evaluate",
    "params": "param parameter parameters count",
    "flops": "flop macs mac compute",
    "flops --mfu": "mfu utilization utilisation",
    "memory": "mem memories vram ram gpu-memory weights footprint",
    "memory --train --timeline": "timeline",
    "fit": "fits finetune fine-tune finetuning fine-tuning tune tuning sft pretrain pretraining training can-i-train "
    "max-batch max-batch-size largest-batch batch-size batchsize batch",
    "fit --lora": "lora peft",
    "fit --qlora": "qlora",
    "fit --fsdp": "fsdp",
    "fit --zero 1": "zero1 zero-1",
    "fit --zero 2": "zero2 zero-2",
    "fit --zero 3": "zero3 zero-3 zero deepspeed",
    "fit --method dpo": "dpo",
    "fit --method grpo": "grpo rlhf",
    "fit --method ppo": "ppo",
    "fit --serve": "run canirun can-i-run host max-context max-model-len max-seq-len longest-context",
    "train": "hours days duration time",
    "serve": "serving infer inference vllm sglang tgi trtllm tensorrt-llm deploy generate generation throughput "
    "latency speed tps ttft tpot itl tokens-per-second roofline decode decoding prefill benchmark bench speculative "
    "speculation speculate draft",
    "serve --for gpus": "how-many-gpus num-gpus number-of-gpus gpu-count gpus-needed",
    "plan": "plans parallel parallelism parallelize layout layouts cluster shard sharding",
    "ranks": "rank",
    "compare": "vs versus side-by-side",
    "formula": "formulas formulae closed-form",
    "explain": "derive derivation breakdown",
    "explain kv": "kv kvcache kv-cache kv_cache cache",
    "explain activations": "activations activation",
    "explain gradients": "gradients gradient",
    "explain contextlength": "context-length context-window context-limit context ctx",
    "shapes": "tensors intermediates",
    "solve": "invert solver",
    "design": "shape designs",
    "design --compute": "chinchilla optimal compute-optimal scaling scale scaling-law scaling-laws",
    "sweep": "grid scan",
    "plot": "chart graph draw plots",
    "quiz": "exercise exercises practice practise",
    "check": "grade",
    "verify": "validate",
    "models": "list ls search find presets preset",
    "gpus": "gpu card-list cards hardware accelerators accelerator devices prices price bandwidth",
    "schema": "schemas json-schema",
    "--help": "docs doc tutorial manual guide usage commands examples example learn course",
    "--version": "version",
}
"""The words of a command line, and the first words that stand for them, where no model is in their place."""
ALIASES = {word: meant for meant, words in MEANT.items() for word in words.split()}
"""Command line by the word that stands for it."""
OF_SERVERS = ("vllm", "sglang", "trtllm-serve", "lmdeploy", "tgi")
"""Programs whose own command follows: ``vllm serve MODEL``."""
ITS_COMMANDS = ("serve", "launch", "bench", "run")
COUNTED = {
    **dict.fromkeys(("gpu", "gpus"), "--gpus"),
    **dict.fromkeys(("layer", "layers"), "--layers"),
    **dict.fromkeys(("head", "heads"), "--heads"),
    **dict.fromkeys(("hidden", "d_model", "dim"), "--d-model"),
    "d_ff": "--d-ff",
    **dict.fromkeys(("tokens", "token"), "--tokens"),
    **dict.fromkeys(("steps", "step"), "--max-steps"),
    **dict.fromkeys(("epochs", "epoch"), "--epochs"),
    **dict.fromkeys(("users", "requests"), "--concurrency"),
}
"""Options of what is counted by a word behind its number: ``64 gpus``, ``12 layers 768 hidden``."""
INTERROGATIVES = "how what which will would can could does do is are should where when who i my what's whats"
ASKING = frozenset(INTERROGATIVES.split())
"""First words of a question."""
PREPOSITIONS = frozenset(("on", "with", "at", "in", "for", "of", "using"))
"""Words that no command line has, so that one with them is a question."""
OF_TEXT = ("explain", "why", "check", "solve", "formula", "sweep", "plot", "help")
"""Commands that read words of their own."""
LENGTH = r"\d+[kKmM]i?"
"""A length in tokens, as a word by itself: ``kv MODEL 128k``."""
WITH_TOKENS = ("fit", "cost", "costs", "price", "prices")
"""Words that ask about a run where the number of its tokens stands beside them: ``finetune MODEL --tokens 100M``."""
LISTS = {"model": "models", "card": "gpus"}
"""Words that ask for a list where nothing follows them."""
BETWEEN = ("vs", "vs.", "versus", "and")
"""Words between two models that are compared."""
ON_ALL = "all"
"""GPU by which a command asks about each common one."""


def as_meant(asked: Sequence[str]) -> list[str]:
    """Return the command line that is meant: the same, but for what others call a command, or type in its place.

    >>> as_meant(["finetune", "gpt2", "--gpu", "a100"]), as_meant(["qlora", "gpt2"]), as_meant(["chinchilla", "1e23"])
    (['fit', 'gpt2', '--gpu', 'a100'], ['fit', '--qlora', 'gpt2'], ['design', '--compute', '1e23'])
    >>> as_meant(["flops", "gpt2", "--phase", "decode", "--cached", "8k", "--gpu", "h100"])
    ['serve', 'gpt2', '--context', '8k', '--gpu', 'h100']
    >>> as_meant(["memory", "--module", "my.py:Net", "--train"])
    ['verify', '--of', 'memory', '--module', 'my.py:Net']
    >>> as_meant(["finetune", "gpt2", "--tokens", "1B"]), as_meant(["check", "4h", "mha"]), as_meant(["model", "gpt2"])
    (['train', 'gpt2', '--tokens', '1B'], ['check', 'mha', '4h'], ['overview', 'gpt2'])
    """
    words = list(asked)
    if words[:1] == ["ollama"] and len(words) > 2 and not is_place("ollama"):
        words = words[2:]  # whose commands name the model behind them: ollama run gemma3:12b
    if product := _product(words):
        return product
    if words[:1] and words[0] in OF_SERVERS and words[1:2] and words[1] in ITS_COMMANDS:
        del words[1]
    place = int(words[:1] == ["compare"])
    if re.fullmatch(LISTED, "".join(words[place : place + 1])) and not is_place(words[place]):
        words[place : place + 1] = words[place].split(",")
    if words and words[0] not in COMMANDS and words[0].lower() in ALIASES and not is_place(words[0]):
        meant = _of_alias(words[0].lower(), words[1:])
        behind = list(with_context(words[1:]) if meant == KV else words[1:])
        if words[0].lower() == RUN:
            behind = [*behind, *_as_ollama(behind)]
        words = _optimal(behind) if meant == OPTIMAL else [*meant, *behind]
    if words and words[0] not in OF_TEXT and words[0].lower() not in ASKING and PREPOSITIONS.isdisjoint(words):
        words = list(_counted(words))
    command, *rest = words or [""]
    match command:
        case "params" if (counted := _of_active(rest)) is not None:
            return counted
        case "check" if rest[1:] and re.fullmatch(PART, rest[1], re.ASCII) and not re.fullmatch(OTHER, rest[0]):
            return [command, rest[1], rest[0], *rest[2:]]
        case "why" if len(_names(rest)) > OF_A_NUMBER:
            said = _names(rest)
            return [command, " ".join(said), *rest[len(said) :]]
        case "models" if "--gpus" in rest:
            return ["gpus"]
        case "flops" if _is_run(rest):
            return ["train", *rest]
        case "flops" if "--step-time" in _values(rest) and "--mfu" not in rest:
            return ["flops", *rest, "--mfu"]
        case "params" | "flops" | "memory" if any(word.partition("=")[0] == "--module" for word in rest):
            return ["verify", "--of", command, *_renamed(word for word in rest if word != "--train")]
        case "flops" if _is_served(rest):
            return ["serve", *_renamed(rest, AS_SERVED)]
        case "serve":
            return ["serve", *_called(rest, IN_SERVING)]
        case "memory" if _cards(rest):
            return ["fit", *rest]
        case "compare" if len(_names(rest)) == 1 and _cards(rest):
            return ["fit", *("--gpu" if word == "--gpus" else word for word in rest)]
    return words


ACTIVE = ("--active-params", "--active-parameters", "--active-only")
"""What people type for the parameters that a token uses; ``--active`` is how many experts it uses, a number."""


def _of_active(rest: Sequence[str]) -> list[str] | None:
    """The command line that counts the parameters a token uses; None where they are not asked for.

    >>> _of_active(["--active", "mixtral-8x7b"]), _of_active(["--experts", "8", "--active", "2"])
    (['explain', 'activeparameters', 'mixtral-8x7b'], None)
    >>> _of_active([]) is None
    True
    """
    switches = [
        place
        for place, (word, behind) in enumerate(zip(rest, (*rest[1:], ""), strict=False))
        if word in ACTIVE or (word == "--active" and not behind[:1].isdigit())
    ]
    more = [word for place, word in enumerate(rest) if place not in switches]
    return ["explain", "activeparameters", *more] if switches else None


OF_A_NUMBER = 2
"""Words of ``why NUMBER MODEL``; more are a sentence without its quotes."""
LISTED = r"[\w./:-]+(,[\w./:-]+)+"
"""Models with commas between them."""
PART = r"[A-Za-z][A-Za-z_-]+"
"""Name of a part of a model, and no formula."""
OTHER = rf"{PART}([.\[][\w.,\[\]-]*)?|-.*"
"""What is no formula: such a name, a path that begins with one, or an option."""


RUN = "run"
"""Command of Ollama, before the name of a model with its tag: qwen3:8b."""
TAG = r"[\w.-]+:(?!.*(q\d|f16|fp16|bf16))[\w.-]+"
"""Such a name whose tag says no format: it is a file of Q4_K_M."""
FORMATS = ("--quant", "--weights", "--quantization", "--gguf", "--dtype")


def _as_ollama(words: Sequence[str]) -> list[str]:
    """Return the option that says the format of a model by Ollama's name; nothing where it is said, or another's name.

    >>> _as_ollama(["qwen3:8b"]), _as_ollama(["qwen3:8b-q8_0"]), _as_ollama(["qwen3-8b", "--gpu", "t4"])
    (['--quant', 'q4_k_m'], [], [])
    """
    tagged = any(re.fullmatch(TAG, word.lower()) and not is_place(word) for word in words)
    said = any(word.partition("=")[0] in FORMATS for word in words)
    return ["--quant", "q4_k_m"] if tagged and not said else []


OPTIMAL = ["design", "--compute"]
BUDGETS = ("--compute", "--budget-usd", "--budget-gpu-hours", "--days")
"""Options that say how much a training has, in the place of a number behind the word for compute-optimal."""
SIZED = r"\d+(\.\d+)?[bBmM]"
"""A number of parameters by itself: ``70B``."""
NAMED = r"[A-Za-z.~/].*|\d[\w.]*[-/].*"
"""What is no number: the name of a model, or its path."""
TOKENS_A_PARAMETER = 20
"""Those of a compute-optimal training, nearly (arXiv 2203.15556)."""


def compute_of(params: float) -> float:
    """FLOPs that train this many parameters on twenty tokens for each: 6 · N · 20N (arXiv 2203.15556).

    >>> compute_of(10**9)
    1.2e+20
    """
    return 6.0 * params * TOKENS_A_PARAMETER * params


def _optimal(rest: Sequence[str]) -> list[str]:
    """The command line of a compute-optimal training: for FLOPs, a number of parameters or of tokens, or for a model.

    >>> _optimal(["70B"]), _optimal(["--flops", "1e24"]), _optimal(["--tokens", "1T"])
    (['design', '--compute', '5.88e+23'], ['design', '--compute', '1e24'], ['design', '--compute', '3e+23'])
    >>> _optimal(["gpt2"]), _optimal(["70B", "--tokens", "1T"])
    (['explain', 'tokensperparameter', 'gpt2'], ['design', '70B', '--tokens', '1T'])
    """
    values, first = _values(rest), "".join(rest[:1])
    if any(option in values for option in BUDGETS):
        return ["design", *rest]
    if "--flops" in values:
        return ["design", *_called(rest, {"--flops": OPTIMAL[1]})]
    sized = bool(re.fullmatch(SIZED, first, re.ASCII))
    params, tokens = first if sized else values.get("--params"), values.get("--tokens")
    if params and tokens:
        return ["design", *rest]
    if params or tokens:
        size = parse_count(params) if params else parse_count(tokens or "") / TOKENS_A_PARAMETER
        more = rest[1:] if sized else _without(rest, "--params" if params else "--tokens")
        return [*OPTIMAL, f"{compute_of(size):.4g}", *more]
    if re.fullmatch(NAMED, first):
        return ["explain", "tokensperparameter", *rest]
    return [*OPTIMAL, *rest]


def _without(words: Sequence[str], option: str) -> list[str]:
    """The words without an option and its value."""
    pairs = zip(("", *words), words, strict=False)
    return [word for before, word in pairs if option not in (before, word.partition("=")[0])]


def _of_alias(word: str, rest: Sequence[str]) -> list[str]:
    if not rest and word in LISTS:
        return [LISTS[word]]
    command = ALIASES[word].split()
    if command == OF_LENGTH and "--gpu" in _values(rest):
        return ["fit", "--serve"]
    if command == [OVERVIEW] and any(option in ("--train", "--serve", "--lora", "--qlora") for option in rest):
        return ["memory"]
    if command[0] == "serve" and any(option in ("--train", "--lora", "--qlora") for option in rest):
        return ["fit" if len(command) > 1 else "train"]
    about_run = any(option.partition("=")[0].replace("_", "-") in OF_A_RUN for option in rest)
    if about_run and (word in WITH_TOKENS or command[0] in WITH_TOKENS):
        return ["train", *command[1:]]
    return command


PRODUCT = r"(\d{1,9})[x×*](\d{1,9})[x×*](\d{1,9})"
"""A matrix product by its sizes: M x K by K x N."""
COUNT_A_PRODUCT = ("explain", "flops", "matmul", "gemm")


def _product(words: Sequence[str]) -> list[str]:
    """The command line that opens a product of its own sizes, as that of an output head; none where that is not asked.

    >>> _product(["flops", "512x64x2048"])
    ['explain', 'matmul', '--seq', '512', '--d-model', '64', '--heads', '1', '--vocab-size', '2048']
    """
    place = int(words[:1] != [] and words[0] in COUNT_A_PRODUCT)
    word = "".join(words[place : place + 1])
    sizes = re.fullmatch(PRODUCT, word, re.ASCII) if word[:1].isdigit() else None
    if not sizes or is_place(word):
        return []
    tokens, width, vocabulary = sizes.groups()
    head = ["--seq", tokens, "--d-model", width, "--heads", "1", "--vocab-size", vocabulary]
    return ["explain", "matmul", *head, *words[place + 1 :]]


KV = ["explain", "kv"]
OF_LENGTH = ["explain", "contextlength"]
"""The length that a model was made for; on a card the largest one that fits is asked for."""
OF_A_RUN = ("--tokens", "--max-steps", "--steps", "--epochs", "--num-train-epochs", "--samples", "--train-iters")
"""Options that say how much a run reads."""


def with_context(words: Sequence[str]) -> Iterator[str]:
    """The words behind ``kv``, whose tokens are those of the cache."""
    for before, word in pairwise(("", *words)):
        if not before.startswith("-") and re.fullmatch(LENGTH, word):
            yield "--context"
        yield "--context" if word == "--tokens" else word


def _counted(words: Sequence[str]) -> Iterator[str]:
    """The words of a command with a number in front of what it counts as an option.

    >>> list(_counted(["params", "12", "layers", "768", "hidden", "--seq", "8"]))
    ['params', '--layers', '12', '--d-model', '768', '--seq', '8']
    """
    place = 0
    while place < len(words):
        counted = COUNTED.get(words[place + 1].lower(), "") if place + 1 < len(words) else ""
        if counted and words[place][0:1].isdigit() and not (place and words[place - 1].startswith("-")):
            yield from (counted, words[place])
            place += 2
        else:
            yield words[place]
            place += 1


def behind(words: Sequence[str]) -> int:
    """Return how many words are behind a command, but for those that are an option's.

    >>> behind(["params", "gpt2"]), behind(["params", "12", "layers"]), behind(["vram", "for", "qwen2.5", "32b"])
    (1, 0, 3)
    """
    counted = list(_counted(words[1:]))
    return len(counted) - 2 * sum(word.startswith("--") for word in counted)


def compared(words: Sequence[str]) -> list[str] | None:
    """Return the command that compares models, where several names come first; None where one does.

    >>> compared(["gpt2", "vs", "gpt2-xl", "--seq", "64"]), compared(["gpt2", "--seq", "64"])
    (['compare', 'gpt2', 'gpt2-xl', '--seq', '64'], None)
    """
    first = _names(words)
    names = [word for word in first if word.lower() not in BETWEEN]
    return ["compare", *names, *words[len(first) :]] if len(names) > 1 else None


def _names(words: Sequence[str]) -> list[str]:
    """The words before the first option."""
    return list(takewhile(lambda word: not word.startswith("-"), words))


def _values(words: Sequence[str]) -> dict[str, str]:
    """Options that have a value, written with a space or an equals sign."""
    apart = {one: value for one, value in pairwise(words) if one.startswith("--") and not value.startswith("--")}
    return apart | {option: value for option, sign, value in (word.partition("=") for word in words) if sign}


def _is_run(words: Sequence[str]) -> bool:
    """Return whether the hours or the price of a run are asked about, which train tells."""
    values = _values(words)
    share = re.fullmatch(r"[\d.]+%?", values.get("--mfu", ""), re.ASCII)
    tokens = "--tokens" in values
    more = "--step-time" in values or "--gpus" in values or _cards(words)
    return bool(share) or "--price" in values or (tokens and "--mfu" not in words and more)


SERVED_PHASES = ("decode", "prefill")
AS_SERVED = {"--cached": "--context", "--batch": "--concurrency", "--seq": "--input"}
"""What ``serve`` calls the sizes of a phase of ``flops``."""


def _is_served(words: Sequence[str]) -> bool:
    """Return whether the seconds of a decoded token or of a prompt on a GPU are asked about, which serve tells."""
    values = _values(words)
    return values.get("--phase") in SERVED_PHASES and "--gpu" in values and "--mfu" not in words


IN_SERVING = {
    **dict.fromkeys(("--seq", "--seq-len"), "--context"),
    **dict.fromkeys(("--batch", "--batch-size"), "--concurrency"),
}
"""What ``serve`` calls the sizes of a workload."""


def _renamed(words: Iterable[str], names: Mapping[str, str] = {}) -> Iterator[str]:
    """Return these words without the phase, options by other names."""
    behind, kept = "", list[str]()
    for word in words:
        if word.partition("=")[0] != "--phase" and behind != "--phase":
            kept.append(word)
        behind = word
    return _called(kept, names)


def _called(words: Iterable[str], names: Mapping[str, str]) -> Iterator[str]:
    """Return these words with options by other ``names``."""
    for word in words:
        name, equals, value = word.partition("=")
        yield names.get(name, name) + equals + value


def _cards(words: Sequence[str]) -> bool:
    """Return whether several kinds of GPUs are named, or all: each has a line in fit's table."""
    values = _values(words)
    named = values.get("--gpu", values.get("--gpus", ""))
    return named.lower() == ON_ALL or "," in named


def is_place(word: str) -> bool:
    """Return whether a word is a file, or a folder with a config: that is the model of this name."""
    return os.path.isfile(word) or os.path.isfile(os.path.join(word, "config.json"))
