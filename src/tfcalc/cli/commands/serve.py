"""``tfcalc serve``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from tfcalc.answers.serve import Serve, serve
from tfcalc.answers.serve_question import ENGINE, INPUT, OUTPUT, Limits
from tfcalc.answers.serve_reading import ServedReading, serve_reading
from tfcalc.answers.served_side_by_side import ServedSideBySide, check_ways, side_by_side
from tfcalc.catalog import load
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.charts import CHART, deliver_chart, drawn_in_file
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, UTILIZATION, Option, serving, spreading
from tfcalc.cli.output import show
from tfcalc.cli.prices import PRICE, prices_of
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.hardware import parse_gpu
from tfcalc.plans import Serving
from tfcalc.printable import quoted
from tfcalc.serving.stored import reads_alone
from tfcalc.timing.served import Disaggregated, Draft
from tfcalc.units import parse_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.answer import Answered
    from tfcalc.timing.served_runs import ServedRuns

GPU = Option(
    "gpu",
    ("--gpu",),
    "the GPU, or several: h100, 4xh100; 4xh200,4xb200 side by side [default: h100]",
    group="gpus",
    front=True,
    offers="gpus",
)
LINK = Option(
    "link",
    ("--link",),
    "bytes per second that a GPU sends to the others, as you measured it: 25GB/s [default: the datasheet's]",
    group="gpus",
)
LOAD = (
    Option(
        "input_tokens",
        ("--input", "--input-tokens"),
        f"tokens of a prompt [default: {INPUT:,}]",
        number=True,
        length=True,
        front=True,
    ),
    Option(
        "output_tokens",
        ("--output", "--output-tokens"),
        f"tokens of an answer; 0: it is read alone, as for embeddings [default: {OUTPUT}]",
        number=True,
        length=True,
        least=0,
        front=True,
        answers_to="output_tokens",  # output is the file that an answer is written to
    ),
    Option("prefix", ("--prefix",), "tokens of each prompt that are cached already", number=True, length=True),
    Option("speculate", ("--speculate",), "tokens that are guessed, and the share of them that is accepted: 3@0.7"),
    Option(
        "draft_model",
        ("--draft-model",),
        "the model that guesses them, on the same GPUs [default: guessing takes no time]",
        offers="models",
    ),
    Option("rate", ("--rate",), "requests that arrive each second, instead of --concurrency: 3.2/s", front=True),
    Option("disaggregate", ("--disaggregate",), "groups of GPUs that read prompts to those that make tokens: 2:1"),
    Option("static", ("--static",), "one batch, read at once; nothing comes in between", switch=True),
)
ENGINE_OPTION = Option(
    "engine",
    ("--engine",),
    f"the engine, with its version: vllm@0.19.0; memory --serve --profiled has lines of its log [default: {ENGINE}]",
    group="serving",
    front=True,
    offers="engines",
)
ASKED = (
    Option("slo", ("--slo",), "limits: ttft=500ms,tpot=50ms", front=True),
    Option(
        "fewest",
        ("--for",),
        "what to find: gpus, the fewest that serve all requests at once",
        known=("gpus",),
        front=True,
        answers_to="fewest",  # for is what solve looks for
    ),
    Option("floor", ("--floor",), "the floor alone, and no estimate", switch=True),
    Option("curve", ("--curve",), "a line for each number of requests", switch=True),
    CHART,
)
RUNS = Option(
    "calibrate",
    ("--calibrate",),
    "runs of your own, a row of JSON each, to which the rates are fitted [default: published runs alone]",
    typed="--calibrate FILE",
)
OF_LAYOUT = ("gpus", "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
OF_ANSWERS = (
    *(
        "prefix",
        "speculate",
        "draft_model",
        "rate",
        "disaggregate",
        "static",
        "engine",
        "slo",
        "fewest",
        "curve",
        "calibrate",
        UTILIZATION.name,
    ),
)
"""Options of models that write text."""
OF_PLAN = ("weights", "kv", "concurrency")
CONTEXT = "tokens of a request in all, prompt and answer, in the place of --input or of --output"
SECONDS = {"ms": 1e-3, "s": 1.0, "us": 1e-6}


def answer(settings: Settings) -> Serve | ServedSideBySide | ServedReading:
    """Return how fast a model is served; of several GPUs, or ways to share it, side by side."""
    model = settings.model()
    gpus = str(settings.get("gpu", "h100")).split(",")
    degrees = settings.get("tensor_parallel")
    several = len(gpus) > 1 or isinstance(degrees, Sequence)
    if reads_alone(model) or settings.get("output_tokens") == 0:
        if several:
            raise UsageError("several GPUs side by side are of models that write text", "ask about one of them")
        return _reading(settings, model)
    if not several:
        return _served(settings, model, gpus[0], degrees)
    settings.refuse(("curve", "chart", "fewest", "rate"), "on several GPUs side by side", {})
    tensor = degrees if isinstance(degrees, Sequence) else (degrees,)
    check_ways(len(gpus) * len(tensor))
    ways = [(gpu.strip(), tp) for gpu, tp in product(gpus, tensor)]
    if len(set(ways)) < len(ways):
        raise UsageError("the same GPUs are named twice, shared in the same way", "leave one of them out")
    sent = any(tp != 1 for tp in tensor)  # copies of the model send each other nothing, beside ways that do
    return side_by_side([_served(settings, model, gpu, tp, linked=tp != 1 or not sent) for gpu, tp in ways])


def _served(settings: Settings, model: Model, gpu: str, tp: int | None, *, linked: bool = True) -> Serve:
    """Return how fast it is served on these GPUs; a link of one's own is theirs where they are ``linked``."""
    if settings.get("floor"):
        settings.refuse(("engine", "price", "calibrate", UTILIZATION.name), "with --floor", {})
    count, name = parse_gpu(gpu)
    count = _gpus(settings, count)
    apart = disaggregated(settings.get("disaggregate", ""))
    if apart is not None:
        settings.refuse(("static", "fewest", "draft_model"), "with --disaggregate", {})
    rate = requests_per_second(settings.get("rate", ""))
    if rate:
        settings.refuse(("concurrency", "static", "fewest", "floor"), "with --rate", {})
    if settings.get("fewest"):
        settings.refuse(OF_LAYOUT, "with --for gpus, which finds it", {})
        if count > 1:
            fact = f"--for gpus finds how many GPUs there are, and --gpu {quoted(gpu)} says it"
            raise UsageError(fact, f"take --gpu {name}")
    plan = settings.fill(Serving())
    ttft, tpot = limits(settings.get("slo", ""))
    return serve(
        model,
        f"{count}x{name}",
        *lengths(settings.get("context"), settings.get("input_tokens"), settings.get("output_tokens")),
        settings.get("concurrency", 1),
        tp=tp,
        pp=settings.get("pipeline_parallel", 1),
        dp=settings.get("data_parallel", 1),
        ep=settings.get("expert_parallel", 1),
        plan=plan,
        engine=settings.get("engine", ENGINE),
        prefix=settings.get("prefix", 0),
        static=bool(settings.get("static")),
        disaggregated=apart,
        draft=draft(settings.get("speculate", "")),
        draft_model=guesser(settings),
        ttft=ttft,
        tpot=tpot,
        price=settings.get("price"),
        prices=prices_of(settings),
        rate=rate,
        fewest=bool(settings.get("fewest")),
        floor=bool(settings.get("floor")),
        curve=bool(settings.get("curve") or settings.get("chart") or drawn_in_file(settings)),
        runs=_own_runs(settings, model, name),
        link=bytes_per_second(settings.get("link", "")) if linked else None,
        utilization=settings.get(UTILIZATION.name),
    )


def _reading(settings: Settings, model: Model) -> ServedReading:
    """Return how fast a model reads that writes nothing."""
    layout = tuple(name for name in OF_LAYOUT if name != "gpus")
    written = ("output_tokens",) if settings.get("output_tokens") else ()
    settings.refuse((*layout, *written, *OF_ANSWERS, "kv", "link"), "where nothing is written", {})
    count, name = parse_gpu(settings.get("gpu", "h100"))
    context, prompt = settings.get("context"), settings.get("input_tokens")
    if None not in (context, prompt) and context != prompt:
        raise UsageError(f"--context {context:,} and --input {prompt:,} differ", "leave one of them out")
    return serve_reading(
        model,
        f"{_gpus(settings, count)}x{name}",
        prompt if context is None else context,
        settings.get("concurrency", 1),
        plan=settings.fill(Serving()),
        price=settings.get("price"),
        prices=prices_of(settings),
    )


def lengths(context: int | None, prompt: int | None, answer: int | None) -> tuple[int, int]:
    """Return the tokens of a prompt and of its answer, of which a ``context`` is the sum. Raises UsageError.

    >>> lengths(8192, None, None), lengths(8192, 8000, None), lengths(None, None, 10)
    ((7936, 256), (8000, 192), (1024, 10))
    """
    if context is None:
        return INPUT if prompt is None else prompt, OUTPUT if answer is None else answer
    if prompt is not None and answer is not None and context != prompt + answer:
        fact = f"--context {context:,} is not --input {prompt:,} and --output {answer:,}"
        raise UsageError(fact, "leave one of them out")
    if prompt is None:
        answer = OUTPUT if answer is None else answer
        prompt = context - answer
        fact = f"--context {context:,} leaves nothing for a prompt beside {answer:,} tokens of its answer (--output)"
    else:
        answer = context - prompt
        fact = f"--context {context:,} leaves nothing for an answer beside {prompt:,} tokens of its prompt (--input)"
    if min(prompt, answer) < 1:
        raise UsageError(fact, "give it more")
    return prompt, answer


def _gpus(settings: Settings, count: int) -> int:
    """Return how many GPUs there are, of which ``--gpu`` names ``count``. Raises UsageError."""
    more = settings.get("gpus")
    if more is not None and count not in (1, more):
        raise UsageError(f"--gpus {more:,} and --gpu {quoted(settings.get('gpu'))} differ", "leave one of them out")
    return more or count


def _own_runs(settings: Settings, model: Model, gpu: str) -> ServedRuns | None:
    if settings.get("calibrate") is None:
        return None
    from tfcalc.cli.own_runs import own_runs  # which loads what calibrate does

    return own_runs(settings, model, gpu, settings.get("engine", ENGINE))


def limits(text: str) -> Limits:
    """Read ``ttft=500ms,tpot=50ms``. Raises UsageError.

    >>> limits("ttft=0.5s,tpot=50ms")
    Limits(ttft=0.5, tpot=0.05)
    """
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*(ttft|tpot)\s*=\s*(\d{1,9}(?:\.\d{1,9})?)\s*(ms|us|s)\s*", part, re.ASCII)
        if match is None or match[1] in found or not float(match[2]):
            raise UsageError(f"--slo {quoted(text)} is no limit", "write ttft=500ms,tpot=50ms")
        found[match[1]] = float(match[2]) * SECONDS[match[3]]
    return Limits(**found)


def draft(text: str) -> Draft:
    """Read ``3@0.7``. Raises UsageError.

    >>> draft("3@0.7"), draft("2@60%")
    (Draft(tokens=3, accepted=0.7), Draft(tokens=2, accepted=0.6))
    """
    if not text:
        return Draft()
    match = re.fullmatch(r"\s*(\d{1,2})\s*@\s*(\d{1,3}(?:\.\d{1,9})?)\s*(%?)\s*", text, re.ASCII)
    share = float(match[2]) / (100 if match[3] else 1) if match else 2.0
    if match is None or not int(match[1]) or share > 1:
        raise UsageError(f"--speculate {quoted(text)} is no draft", "write its tokens and their acceptance: 3@0.7")
    return Draft(int(match[1]), share)


def guesser(settings: Settings) -> Model | None:
    """Return the model that guesses tokens, if one is named."""
    name = settings.get("draft_model")
    return None if name is None else load(name, offline=settings.offline)


def disaggregated(text: str) -> Disaggregated | None:
    """Read ``2:1``. Raises UsageError.

    >>> disaggregated("2:1")
    Disaggregated(prompts=2, tokens=1)
    """
    if not text:
        return None
    match = re.fullmatch(r"\s*([1-9]\d{0,3})\s*:\s*([1-9]\d{0,3})\s*", text, re.ASCII)
    if match is None:
        raise UsageError(f"--disaggregate {quoted(text)} is no ratio", "write groups for prompts and for tokens: 2:1")
    return Disaggregated(int(match[1]), int(match[2]))


def requests_per_second(text: str) -> float:
    """Read ``3.2/s``; 0 where nothing is said. Raises UsageError.

    >>> requests_per_second("3.2/s"), requests_per_second("")
    (3.2, 0.0)
    """
    if not text:
        return 0.0
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*s)?\s*", text, re.ASCII)
    if match is None or not float(match[1]):
        raise UsageError(f"--rate {quoted(text)} is no rate", "write requests for each second: 3.2/s")
    return float(match[1])


def bytes_per_second(text: str) -> float | None:
    """Read ``25GB/s``; None where nothing is said. Raises UsageError.

    >>> bytes_per_second("25GB/s"), bytes_per_second("")
    (25000000000.0, None)
    """
    if not text:
        return None
    amount, slash, unit = text.partition("/")
    if not slash or unit.strip().lower() != "s":
        raise UsageError(f"--link {quoted(text)} is no rate", "write bytes for each second: 25GB/s")
    return float(parse_bytes(amount))


def _write(found: Serve | ServedSideBySide | ServedReading, settings: Settings) -> None:
    """Write the curve as a chart where one is asked for; else as any other answer."""
    if not isinstance(found, Serve) or not deliver_chart(found.chart, settings):
        show(found, settings)


def _code(found: Answered) -> int:
    return 0 if getattr(found, "succeeded", True) else 1


_PLAN = {option.name: option for option in serving()}
_PLAN["tensor_parallel"], *_ = spreading([_PLAN["tensor_parallel"]])
_PLAN["context"] = _PLAN["context"]._replace(help=CONTEXT, group=LOAD[0].group, front=True)
_SHOW = tuple(option._replace(flags=("-o",), typed="-o FILE") if option.name == "output" else option for option in SHOW)

COMMAND = Command(
    answer,
    (
        MODEL_ARGUMENT,
        *MODEL_OPTIONS,
        GPU,
        LINK,
        *(_PLAN[name] for name in OF_LAYOUT),
        *LOAD[:2],
        _PLAN["context"],
        *LOAD[2:],
        *(_PLAN[name] for name in OF_PLAN),
        ENGINE_OPTION,
        UTILIZATION,
        RUNS,
        *ASKED,
        PRICE,
        *_SHOW,
    ),
    (
        "tfcalc serve llama-3.1-70b --gpu 4xh100 --input 2k --concurrency 64",
        "tfcalc serve llama-3.1-8b --gpu h100 --output 500 --slo ttft=500ms,tpot=50ms",
        "tfcalc serve gpt-oss-120b --gpu 2xb200 --engine trtllm@1.1 --price 4",
        "tfcalc serve bge-m3 --gpu l4 --input 512 --concurrency 32",
        "tfcalc serve llama-3.1-70b --gpu 4xh100 --input 2k --output 500 --concurrency 64 --floor",
        "tfcalc serve llama-3.1-70b --gpu 4xh100 --input 2k --output 500 --slo ttft=500ms,tpot=50ms --curve",
        "tfcalc serve gpt-oss-120b --gpu 2xb200 --engine trtllm@1.1 --concurrency 32 --price 4 --json",
    ),
    _code,
    _write,
)
