"""Each option beside questions of each command, to find those that are accepted and change nothing.

``python -m tests.laws.idle_options [COMMAND …]`` tries them all, and prints what it finds.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import fields
from io import StringIO
from typing import NamedTuple

from tfcalc.cli.commands import command
from tfcalc.cli.main import main
from tfcalc.cli.options import SHOW, Option
from tfcalc.plans import Serving, Training
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

BASES = {
    "params": [
        "",
        "gpt2",
        "llama-3-8b",
        "deepseek-v3",
        "mixtral-8x7b",
        "t5-small",
        "granite-4.0-h-micro",
        "gpt2 --lora 8",
    ],
    "flops": [
        "",
        "gpt2",
        "llama-3-8b",
        "deepseek-v3",
        "mixtral-8x7b",
        "t5-small",
        "granite-4.0-h-micro",
        "gpt2 --train",
        "llama-3-8b --train",
        "gpt2 --train --lora 8",
        "gpt2 --phase decode",
        "gpt2 --train --tokens 1B",
        "gpt2 --mfu --tokens-per-second 1k --gpu h100",
        "gpt2 --mfu --tokens-per-second 1k --peak 1e15",
        "gpt2 --compare-conventions",
        "gpt2 --compare-conventions --train",
        "vit-base-patch16-224",
        "vit-base-patch16-224 --train",
    ],
    "memory": [
        "gpt2 --stack fsdp --gpus 2 --seq 1k --batch 4",
        "mixtral-8x7b --train --ep 2 --gpus 4 --pp 2 --grad-accum 2 --seq 64 --gpu h100",
        "",
        "gpt2",
        "t5-small",
        "mixtral-8x7b",
        "gpt2 --train",
        "t5-small --train",
        "--train",
        "gpt2 --train --lora 8",
        "gpt2 --train --gpus 8 --zero 3",
        "gpt2 --train --gpu h100",
        "gpt2 --train --budget 80GB",
        "gpt2 --train --timeline",
        "gpt2 --serve",
        "t5-small --serve",
        "gpt2 --serve --cache dynamic",
        "gpt2 --serve --gpu h100",
        "gpt2 --serve --budget 80GB",
        "gpt2 --gpu h100",
        "llama-3-8b --train --backend megatron --tp 2 --gpus 2",
    ],
    "overview": ["gpt2", "t5-small", "mixtral-8x7b"],
    "formula": [
        "",
        "--model gpt2",
        "mha",
        "ffn gpt2",
        "layer llama-3-8b",
        "layer deepseek-v3",
        "complete t5-small",
        "layer gpt2 --of flops",
        "layer gpt2 --of flops --train",
        "complete gpt2 --of trainable --lora 8",
        "complete gpt2 --of memory",
        "layer gpt2 --of time",
    ],
    "check": ["mha '4h^2 + 4h'", "layer '12h^2' gpt2 --of flops", "core 'O(n(lh^2 + l^2h))' --of time"],
    "explain": [
        "mha",
        "ffn gpt2",
        "ffn gpt2 --of flops",
        "ffn gpt2 --of flops --train",
        "mha gpt2 --of time",
        "complete gpt2 --of memory",
        "layer mixtral-8x7b --of flops",
    ],
    "shapes": ["mha", "layer gpt2", "layer llama-3-8b", "layer mixtral-8x7b", "attention gpt2 --phase decode"],
    "ranks": [
        "gpt2",
        "llama-3-8b --tp 2 --pp 2",
        "mixtral-8x7b --tp 2 --sequence-parallel --ep 2 --dp 2",
        "deepseek-v2-lite --dp 2",
        "llama-3-8b --stack fsdp --dp 4",
        "mixtral-8x7b --stack deepspeed --dp 4 --ep 2",
    ],
    "fit": ["gpt2 --gpu h100", "t5-small --serve --gpu t4"],
    "train": [
        "gpt2 --tokens 1B --gpu h100 --precision bf16",
        "llama-3-8b --tokens 1B --gpu 8xh100 --mfu 40% --batch 4",
    ],
    "plan": ["llama-3-8b --gpus 16 --gpu h100 --global-batch-size 64 --tp 2 --pp 2 --vpp 1 --zero 1"],
    "gpus": ["", "h100"],
    "solve": [
        "'params <= 10B' --for layers gpt2",
        "'attention = ffn' --for seq gpt2",
        "'flops <= 1e15' --for seq gpt2",
        "'flops <= 1e24' --for tokens gpt2 --train",
        "'memory <= 80GiB' --for batch gpt2 --train",
        "'memory <= 24GiB' --for concurrency gpt2 --serve",
        "'memory <= 24GiB' --for layers gpt2",
    ],
    "sweep": [
        "gpt2 --layers 2,3",
        "gpt2 --layers 2,3 --of flops",
        "gpt2 --seq 64,128",
        "gpt2 --seq 64,128 --train",
        "mixtral-8x7b --seq 64,128",
        "gpt2 --seq 64,1k --of memory --train --checkpointing none",
        "gpt2 --context 65,130 --of memory --serve",
        "gpt2 --context 65,130 --of cache",
        "gpt2 --layers 2,3 --of memory",
        "gpt2 --lora 8,16 --of trainable",
    ],
    "plot": [
        "gpt2 --seq 64,128",
        "gpt2 --seq 64,128 --train",
        "gpt2 --layers 2,3 --of params",
        "gpt2 --layers 2,3 --of memory",
        "mixtral-8x7b --over seq=64,128",
    ],
    "design": [
        "--params 125M",
        "--params 1B --like llama-3-8b --groups 4",
        "--flops-per-token 2e9 gpt2",
        "--flops-per-token 2e9 gpt2 --train",
        "--memory 1GiB gpt2",
        "--compute 1e21",
    ],
    "compare": [
        "gpt2 gpt2-medium",
        "gpt2 gpt2-medium --train",
        "gpt2 'gpt2-medium --context 65' --serve",
        "t5-small t5-base",
    ],
    "diff": ["gpt2 gpt2-medium", "gpt2 'gpt2 --layers 6'"],
    "why": [
        "163M gpt2",
        "7B llama-3-8b",
        "31.5T llama-2-7b --of flops",
        "512KB llama-3-8b --of cache",
        "500MB gpt2 --of memory",
        "3.14e23 gpt-3 --train --seq 2048 --tokens 300B",
    ],
    "quiz": ["", "--topic params", "1", "1 12"],
    "models": ["", "--family gpt2", "--supported", "--trainable", "--sources", "bert"],
    "schema": ["", "params"],
    "serve": [
        "llama-3-8b",
        "mixtral-8x7b --gpu 4xh100 --concurrency 8",
        "llama-3-8b --floor",
        "llama-3-8b --static --concurrency 8",
        "llama-3-8b --slo tpot=50ms",
        "llama-3-8b --rate 1/s",
        "llama-3-8b --for gpus --concurrency 100",
        "llama-3-8b --disaggregate 1:1",
        "llama-3-8b --gpu m2-max-96",
        "llama-3.1-70b",
        "t5-small",
    ],
}
"""Questions, by the command that answers them.

Not of ``verify``, which needs PyTorch. Not of numbers that ``explain`` opens, nor of single terms of the memory of
training and serving: options are those of the whole answer there, which is asked about by itself. Sizes are such that a
peak is moved by all that can move it.
"""
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("*", "offline"): "forbids the network, of which these questions need none",
    ("*", "of"): "may say what is the default here",
    ("*", "depth"): "levels of the table, which may not have more",
    ("memory --train", "backend"): "may say what is the default here",
    ("*", "gradient_checkpointing"): "may say what is the default here",
    ("*", "strict"): "is for a verdict that is tight or risky, which this one is not",
    ("flops gpt2 --mfu", "per_gpu"): "the one GPU's tokens are those of all",
    ("ranks mixtral-8x7b --tp 2", "expert_tensor_parallel"): "may say what follows from --tp",
    ("fit", "train"): "may say what is the default here",
    ("fit", "phase"): "may say what is the default here",
    ("train", "train"): "may say what is the default here",
    ("train", "phase"): "may say what is the default here",
    ("train llama-3-8b", "gpus"): "may say what --gpu says",
    ("train", "n_heads"): "moves statistics of flash attention, which are not live at this peak",
    ("train", "optimizer_in_backward"): "the peak comes before backward",
    ("train", "alloc_conf"): "decides on what is reserved, of which there is enough here",
    ("train llama-3-8b", "loss"): "decides on memory, of which there is enough here, and the time is by --mfu",
    ("train llama-3-8b", "dropout"): "may say that there is none, as Llama has none",
    ("train llama-3-8b", "treat_as"): "may say what the config says, which the JSON does not repeat",
    ("train llama-3-8b", "attention_bias"): "may say what the config says, which the JSON does not repeat",
    ("plan", "attention_bias"): "may say what the config says, which the JSON does not repeat",
    ("plan", "max_len"): "is longer or shorter than the sequences, which alone count",
    ("solve memory <= 80GiB", "alloc_conf"): "decides on what is reserved, which a limit in bytes does not ask for",
    ("memory llama-3-8b --train --backend megatron", "dropout"): "may say that there is none, as Llama has none",
    ("memory llama-3-8b --train --backend megatron", "grad_accum"): "Megatron-LM adds gradients up in any case",
    ("memory gpt2 --stack fsdp", "train"): "may say what --stack implies",
    ("memory gpt2 --stack fsdp", "phase"): "may say what --stack implies",
    ("memory gpt2 --stack fsdp", "precision"): "both of FSDP2 have 16 bits",
    ("memory gpt2 --stack fsdp", "grad_accum"): "gradients that are shared are kept in any case",
    ("memory mixtral-8x7b --train --ep 2", "backend"): "may say whose code runs by default",
    ("compare", "alloc_conf"): "decides on what is reserved, which a comparison does not ask for",
    ("diff", "alloc_conf"): "decides on what is reserved, which a comparison does not ask for",
    ("sweep", "alloc_conf"): "decides on what is reserved, which a table of peaks does not ask for",
    ("plot", "alloc_conf"): "decides on what is reserved, which a chart of peaks does not ask for",
    ("solve memory <= 24GiB --for concurrency", "batched"): "with so many requests the peak is that of a decode step",
    ("sweep gpt2 --context 65,130 --of cache", "data_parallel"): "each group of GPUs has a cache of its own",
    ("serve", "fewest"): "finds one GPU, where that is enough",
    ("serve llama-3.1-70b", "floor"): "is of what fits, which this does not",
    ("serve llama-3.1-70b", "curve"): "is of what fits, which this does not",
    ("*", "letters"): "renames a size where it occurs",
    ("plot", "units"): "writes bytes, where there are some",
    ("sweep", "units"): "writes bytes, where there are some",
    ("formula", "latex"): "a language of the formula, which JSON has in any case",
    ("formula", "batch_size"): "a letter of the formula: a size may decide which case holds (windows)",
    ("formula", "seq_len"): "a letter of the formula: a size may decide which case holds (windows)",
    ("formula", "source_len"): "a letter of the formula: a size may decide which case holds (windows)",
    ("check", "batch_size"): "where the text is a number, it is compared at the sizes",
    ("check", "seq_len"): "where the text is a number, it is compared at the sizes",
    ("check", "source_len"): "where the text is a number, it is compared at the sizes",
    ("memory gpt2 --train --gpus 8 --zero 3", "grad_accum"): "gradients that are shared are kept in any case",
    ("solve flops <= 1e24 --for tokens", "batch_size"): "tokens of a run are the same in batches of any size",
    ("solve memory <= 80GiB", "optimizer_in_backward"): "at the batch that is found the peak comes before backward",
    ("compare gpt2 gpt2-medium --train", "optimizer_in_backward"): "the peak comes before backward ends",
    ("compare gpt2 gpt2-medium --train", "offload_activations"): "the peak is that of the tied table's gradients",
    ("diff gpt2 gpt2-medium", "offload_activations"): "the peak is that of the tied table's gradients",
    ("diff", "optimizer_in_backward"): "the peak comes before backward ends",
    ("sweep gpt2 --context 65,130 --of cache", "serve"): "is what a cache is of",
    ("compare", "units"): "writes bytes, which JSON has in full",
}
"""Options that may change nothing, by the command, or by how the question begins; and why."""

TEXTS = {
    "treat_as": ["llama", "gpt2", "bert"],
    "lora_targets": ["c_attn", "q_proj", "query", "q"],
    "freeze": ["*", "*attn*", "nosuch"],
    "base_weights": ["nf4", "int8"],
    "lora_dropout": ["0.1"],
    "weights": ["int8", "nf4", "q4_k_m"],
    "preset": ["torchtune/full-single-device", "torchtitan/llama3"],
    "capability": ["8.0", "9.0"],
    "budget": ["1GB", "80GB"],
    "gpu": ["a100", "8xh100"],
    "of_memory": ["3GiB"],
    "over": ["seq=32,64", "layers=2,3"],
    "parts": ["attention", "ffn,embedding"],
    "letters": ["h=q", "l=z"],
    "substitute": ["h=7", "l=9,h=5"],
    "sought": ["layers"],
    "d_ff_ratio": ["3", "8/3"],
    "aspect": ["32..64"],
    "family": ["llama"],
    "against": ["mha"],
    "args": ["512,8"],
    "inputs": ["2x5x512"],
    "engine": ["vllm@0.6.0", "trtllm", "sglang"],
    "slo": ["ttft=500ms", "tpot=1us"],
    "rate": ["0.1/s", "2/s"],
    "speculate": ["3@0.7"],
    "draft_model": ["gpt2"],
    "disaggregate": ["1:1", "2:1"],
    "link": ["3GB/s", "100GB/s"],
}
NUMBERS = ["2", "3", "8", "48", "1000"]
AMOUNTS = ["0.5", "3", "1e15"]
DEFAULTS = {
    item.name: item.default for kind in (Transformer, Workload, Conventions, Training, Serving) for item in fields(kind)
}
ECHOES = ("conventions",)
"""Keys of an answer that repeat what was asked."""


class Question(NamedTuple):
    """One command line, without how the answer is written."""

    command: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(("tfcalc", self.command, *self.words))


class Tried(NamedTuple):
    """An option beside a question: for each value that is accepted whether the answer is another one with it."""

    question: Question
    option: Option
    accepted: dict[str, bool]

    @property
    def idle(self) -> bool:
        """Whether it is accepted, and changes nothing with any value."""
        return bool(self.accepted) and not any(self.accepted.values())


def questions(names: tuple[str, ...] = ()) -> Iterator[Question]:
    """All bases, or those of some commands."""
    for name, bases in BASES.items():
        if not names or name in names:
            for base in bases:
                yield Question(name, tuple(shlex.split(base)))


def words_for(option: Option) -> list[list[str]]:
    """The option with each of a few values: never with its default."""
    flag, default = option.flags[0], DEFAULTS.get(option.name)
    if option.switch:
        return [[spelled] for no, spelled in enumerate(flag.split("/")) if default is not (not no)]
    if option.name in TEXTS:
        return [[flag, value] for value in TEXTS[option.name]]
    if option.known:
        values = [word.replace(":N", ":2") for word in option.known if word not in (default, MEANT.get(option.name))]
    elif option.amount:
        values = AMOUNTS
    elif option.number:
        values = NUMBERS
    else:
        values = ["nosuch"]
    return [[flag, value] for value in values]


MEANT = {"recompute": "none", "zero": "0"}
"""What auto stands for where an option is decided elsewhere: it may be said."""


def reason(question: Question, option: Option) -> str:
    """Why an option is accepted beside a question that it does not change, if there is a reason."""
    line = " ".join((question.command, *question.words))
    found = (
        why
        for (where, name), why in EXCEPTIONS.items()
        if name == option.name and (where == "*" or line.startswith(where))
    )
    return next(found, "")


def asked(words: Iterable[str]) -> tuple[int, str]:
    """The exit code and the answer."""
    out, code = StringIO(), -1
    with redirect_stdout(out), redirect_stderr(StringIO()), suppress(SystemExit):
        code = main(list(words))
    return code, out.getvalue()


def bare(text: str) -> object:
    """The answer without what repeats the question."""
    try:
        said = json.loads(text)
    except ValueError:
        return text
    return {key: value for key, value in said.items() if key not in ECHOES} if isinstance(said, dict) else said


SHOWN = {option.name for option in SHOW}
IN_TEXT = {"units", "symbolic", "timeline", "per_gpu", "depth", "answers", "sources"}
"""Options that change what is printed for people alone."""
TRAINS = {"--train", "--mfu"}


def options_beside(question: Question) -> Iterator[Option]:
    """The options that it does not have yet, but for those of output."""
    given = {word for word in question.words if word.startswith("--")}
    for option in command(question.command).meant(question.words).options:
        says_so = option.name in ("phase", "train") and given & TRAINS
        spelled = {word for flag in option.flags for word in flag.split("/")}
        if option.flags and option.name not in SHOWN and not given & spelled and not says_so:
            yield option


def tried(question: Question, options: Iterable[Option] | None = None, every: bool = False) -> Iterator[Tried]:
    """Each of these options beside the question, or each that it does not have yet.

    Values are tried until one changes the answer, or ``every`` one.
    """
    plain = (question.command, *question.words)
    in_json = any(option.name == "format" for option in command(question.command).options)
    before: dict[bool, object] = {}
    for option in options_beside(question) if options is None else options:
        as_json = in_json and option.name not in IN_TEXT
        words = (*plain, "--json") if as_json else plain
        if as_json not in before:
            code, text = asked(words)
            if code not in (0, 1):
                raise AssertionError(f"{question}: exit {code}")
            before[as_json] = bare(text)
        accepted: dict[str, bool] = {}
        for more in words_for(option):
            code, text = asked((*words, *more))
            if code in (0, 1):
                accepted[" ".join(more)] = changes = bare(text) != before[as_json]
                if changes and not every:
                    break
        yield Tried(question, option, accepted)


def _print_all(names: tuple[str, ...]) -> None:
    """What is idle, with the reason for which it may be; and what is so with some values."""
    total = idle = 0
    for question in questions(names):
        found = list(tried(question, every=True))
        total += len(found)
        for each in found:
            same = [words for words, changes in each.accepted.items() if not changes]
            if each.idle:
                why = reason(question, each.option)
                idle += not why
                print(f"{question}: {each.option.name} is idle: {', '.join(same)} {why and f'({why})'}", flush=True)
            elif same:
                print(f"{question}: {each.option.name} is idle with some values: {', '.join(same)}", flush=True)
        print(f"{question}: {len(found)} options", flush=True)
    print(f"{total} options beside questions, {idle} of them idle without a reason")


if __name__ == "__main__":
    _print_all(tuple(sys.argv[1:]))
