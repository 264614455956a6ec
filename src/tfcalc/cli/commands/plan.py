"""``tfcalc plan``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfcalc.answers.plan_question import OF_STATES, USUAL_BATCH, PlanQuestion, modules_again, states_of_stack
from tfcalc.arrays.parquet import parquet_of
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.overview import as_typed
from tfcalc.cli.commands.train import RATES, rates_of_file
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, VERSUS, Option, of_fields, spreading
from tfcalc.cli.output import deliver, show
from tfcalc.cli.prices import PRICE, prices_of
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError, nearest
from tfcalc.hardware import named, parse_gpu
from tfcalc.model import default_length
from tfcalc.printable import quoted
from tfcalc.search.axes import Axes, Values, WrittenLayout
from tfcalc.search.possible import check_stage
from tfcalc.timing.rates import STACKS
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.answers.plan_keys import PlanAnswer
    from tfcalc.report.answer import Answered

PRECISIONS = ("bf16", "fp8", "mxfp8", "nvfp4")
GPU = Option("gpu", ("--gpu",), "the GPU, such as h100", group="gpus", front=True, offers="gpus")
GPUS = Option(
    "gpus", ("--gpus",), "GPUs in all [default: the fewest that hold it]", number=True, group="gpus", front=True
)
SHARES = (
    Option(
        "tensor_parallel",
        ("--tp",),
        "tensor parallelism [default: all are tried]",
        number=True,
        group="gpus",
        front=True,
    ),
    Option(
        "pipeline_parallel",
        ("--pp",),
        "pipeline stages [default: all are tried]",
        number=True,
        group="gpus",
        front=True,
    ),
    Option(
        "virtual_pipeline",
        ("--vpp",),
        "chunks of a stage, interleaved [default: all are tried]",
        number=True,
        group="gpus",
    ),
    Option("context_parallel", ("--cp",), "context parallelism [default: all are tried]", number=True, group="gpus"),
    Option(
        "expert_parallel",
        ("--ep",),
        "expert parallelism [default: all are tried]",
        number=True,
        group="gpus",
        front=True,
    ),
    Option(
        "expert_tensor_parallel", ("--etp",), "tensor parallelism of experts [default: 1]", number=True, group="gpus"
    ),
    Option("micro_batch", ("--micro-batch",), "sequences at once [default: all are tried]", number=True, group="gpus"),
)
REPLICAS = Option(
    "replicas",
    ("--replicas",),
    "replicas of whole shards, HSDP [default: 1; with --stack fsdp all are tried]",
    number=True,
    group="gpus",
)
DEGREES = spreading((*SHARES, REPLICAS))
ZERO = Option(
    "zero",
    ("--zero",),
    "stage of ZeRO; 3 is FSDP [default: 1 and 3 are tried, DeepSpeed's 2, too]",
    ("0", "1", "2", "3"),
    group="gpus",
    front=True,
)
BATCH = (
    Option(
        "global_batch_size",
        ("--global-batch-size",),
        "sequences of a step, of all GPUs [default: those of 4M tokens]",
        number=True,
        front=True,
    ),
    Option(
        "global_batch",
        ("--global-batch",),
        "tokens of a step, of all GPUs, such as 16.8M; 4M are 2^22 [default: 4M]",
        amount=True,
        front=True,
    ),
)
STACK = Option("stack", ("--stack",), "whose code runs [default: megatron]", STACKS, group="training", front=True)
PRECISION = Option(
    "precision",
    ("--precision",),
    "number format of the matrix products [default: bf16]",
    PRECISIONS,
    group="training",
    front=True,
)
STATES = Option(
    "states",
    ("--states",),
    "number formats of weights, gradients and optimizer, as memory --precision has them [default: the first]",
    OF_STATES,
    group="training",
)
CHECKPOINTING = Option(
    "recompute",
    ("--checkpointing",),
    "gradient checkpointing [default: none and full are tried]",
    ("none", "full", "selective"),
    group="training",
    front=True,
)
MACHINE = (
    Option(
        "gpus_per_node",
        ("--gpus-per-node",),
        "GPUs with fast links among them [default: the GPU's]",
        number=True,
        group="gpus",
    ),
    Option(
        "nic",
        ("--nic",),
        "bytes per second of a GPU to other nodes, such as 25G [default: the GPU's]",
        amount=True,
        group="gpus",
    ),
)
RUN = (
    Option(
        "tokens", ("--tokens",), "tokens of the whole run: days, GPU hours, cost", number=True, most=10**18, front=True
    ),
    PRICE,
    Option("measured", ("--measured",), "a measured run that scales the estimate: 'tp=4 pp=8: 1633 tok/s'"),
    Option("top", ("--top",), "layouts that are listed [default: 5]", number=True, most=100),
    Option("pareto", ("--pareto",), "list the layouts of which none is both faster and smaller", switch=True),
    Option(
        "budget_days", ("--budget-days",), "find how many GPUs end the run within these days", amount=True, front=True
    ),
)
WHY = (
    Option(
        "why_layouts",
        ("--why",),
        "compare two layouts part by part: --why 'tp=8 pp=4' 'tp=4 pp=8'",
        pair=True,
        front=True,
    ),
    Option("why_not", ("--why-not",), "say what rules a layout out, or by how much it loses: 'tp=8 pp=4 vpp=5'"),
)
SELECTIVE = "selective"
ENDINGS = (".parquet", ".csv")
"""Ends of files that get all layouts."""


def answer(settings: Settings) -> PlanAnswer:
    """Search all layouts, or answer for those that are asked about."""
    from tfcalc.answers import plan, plan_why

    asked = settings.choose("why_layouts", "why_not", "budget_days")
    if len(asked) > 1:
        words = " and ".join(settings.given[name].called for name in asked)
        raise UsageError(f"{words} are different questions", "ask one of them")
    question = _question(settings)
    for name in ("why_layouts", "why_not"):
        if SELECTIVE in (settings.get(name) or "").split() and not question.modules:
            raise UsageError(f"{SELECTIVE} is of all layouts of a question", f"add --checkpointing {SELECTIVE}")
    if text := settings.get("why_layouts"):
        two = [layout_of(one, "--why") for one in text.split(VERSUS)]
        if len(two) != 2:
            raise UsageError(f"--why compares 2 layouts, and got {len(two)}", "write --why 'tp=8 pp=4' 'tp=4 pp=8'")
        _refuse_idle(settings, "with --why")
        return plan_why.why(question, *two)
    if text := settings.get("why_not"):
        _refuse_idle(settings, "with --why-not")
        return plan_why.why_not(question, layout_of(text, "--why-not"))
    if question.budget_days is not None and question.tokens is None:
        raise UsageError("--budget-days is about a whole run", "add --tokens 15T")
    if question.tokens is None:
        settings.refuse(("price",), "without the tokens of a run", {}, "add --tokens 15T")
    return plan.planned(question)


def _refuse_idle(settings: Settings, where: str) -> None:
    settings.refuse(("tokens", "price", "top", "pareto"), where, {})
    if _all_layouts(settings):
        raise UsageError(
            f"-o {settings.get('output')} is a file of all layouts, which has no effect {where}", "-o FILE.json"
        )


def _question(settings: Settings) -> PlanQuestion:
    name = settings.get("gpu")
    if name is None:
        raise UsageError("a plan needs a GPU", "add --gpu h100 --gpus 64")
    said = name.strip()
    counted, name = parse_gpu(said)
    card = named(name)[0]
    gpus = settings.get("gpus") or counted
    alone = name == said and "gpus" not in settings.given  # no number is written
    if counted > 1 and gpus != counted:
        raise UsageError(f"--gpu {counted}x{name} and --gpus {gpus} differ", "give one of them")
    days = settings.get("budget_days")
    if days is not None and (counted > 1 or "gpus" in settings.given):
        raise UsageError(f"--budget-days finds the number of GPUs, and {gpus:,} are given", "leave one of them out")
    model = settings.model()
    length = int(settings.get("seq_len") or default_length(model))
    rates = rates_of_file(settings)
    stack = settings.get("stack") or (rates.stack(STACKS[0]) if rates else STACKS[0])
    check_stage(stack, settings.get("zero"))
    modules = modules_again(settings.get("recompute"), words_of(settings.get("recompute_modules")), stack)
    batch = settings.get("global_batch")
    return PlanQuestion(
        model=model,
        card=card,
        gpus=gpus,
        sequences=_sequences(settings, length),
        usual_batch=not any(option.name in settings.given for option in BATCH),
        asked_tokens=None if batch is None else round(tokens_of_batch(batch)),
        length=length,
        fixed=_fixed(settings, bool(modules)),
        stack=stack,
        precision=settings.get("precision") or PRECISIONS[0],
        states=states_of_stack(settings.get("states"), stack),
        domain=settings.get("gpus_per_node"),
        nic=settings.get("nic"),
        tokens=settings.get("tokens"),
        price=settings.get("price"),
        measured=_measured(settings),
        top=settings.get("top") or 5,
        modules=modules,
        pareto=bool(settings.get("pareto")),
        all_timed=_all_layouts(settings),
        budget_days=days,
        fewest=days is not None or (alone and not any(map(settings.get, ("why_layouts", "why_not", "measured")))),
        rates=rates,
        prices=prices_of(settings),
        named=as_typed(settings),
    )


def _fixed(settings: Settings, selective: bool) -> Axes:
    """The axes that were given."""

    def given(name: str) -> Values:
        value = settings.get(name)
        return value if value is None or isinstance(value, Sequence) else (int(value),)

    zero, recompute = settings.get("zero"), settings.get("recompute")
    return Axes(
        tp=given("tensor_parallel"),
        pp=given("pipeline_parallel"),
        vpp=given("virtual_pipeline"),
        cp=given("context_parallel"),
        ep=given("expert_parallel"),
        etp=given("expert_tensor_parallel"),
        micro_batch=given("micro_batch"),
        zero=None if zero is None else (int(zero),),
        replicas=given("replicas"),
        again=(0,) if selective else None if recompute is None else (int(recompute == "full"),),
    )


def words_of(text: str | None) -> tuple[str, ...]:
    """``core_attn,mlp`` as words."""
    return tuple(filter(None, re.split(r"[\s,]+", text or "")))


def _sequences(settings: Settings, length: int) -> int:
    size, tokens = settings.get("global_batch_size"), settings.get("global_batch")
    if size is not None and tokens is not None:
        raise UsageError(f"--global-batch-size {size} and --global-batch {tokens:g} both set the batch", "give one")
    if size is not None:
        return int(size)
    if tokens is not None and tokens_of_batch(tokens) < length:
        fact = f"--global-batch {tokens:g} is less than the {length:,} tokens of a sequence"
        raise UsageError(fact, f"of sequences it is --global-batch-size {math.ceil(tokens)}")
    return _evenly((USUAL_BATCH if tokens is None else tokens_of_batch(tokens)) / length)


def tokens_of_batch(tokens: float) -> float:
    """Return 4 x 2²⁰ for 4M, as --seq 8k is 8,192: what is a power of two by millions is one by tokens."""
    millions = tokens / 10**6
    return millions * 2**20 if math.frexp(millions)[0] == 0.5 else tokens


def _evenly(sequences: float) -> int:
    """Return the number nearby that two divides most often, as people round: 16.8M tokens are 2,048 x 8,192."""
    near = range(max(1, round(sequences * 0.995)), max(1, round(sequences * 1.005)) + 1)
    return max(near, key=lambda number: (number & -number, -abs(number - sequences)))


NAMES = {"b": "micro_batch", "mb": "micro_batch", "hsdp": "replicas", "dp": "dp"}
NAMES |= {name: name for name in Axes._fields if name != "again"}
"""Names of axes in a layout that is written."""
KINDS = {"full": 1, "none": 0, SELECTIVE: 0}
"""Words for checkpointing; which modules are selected is the same for all layouts of a question."""
EXAMPLE = "write it as 'tp=8 pp=4 vpp=5', or as it is printed: 'tp8 pp4x5'"


def layout_of(text: str, called: str) -> WrittenLayout:
    """``tp=8 pp=4 vpp=5``, or ``tp8 pp4x5 b2 full``: the axes of a layout."""
    said: dict[str, int] = {}
    words = re.sub(r"\s*=\s*", "=", text).replace(",", " ").split()
    for name, value in (pair for word in words for pair in _axis(word, text, called)):
        if said.setdefault(name, value) != value:
            apart = "; each layout in quotes of its own: --why 'tp=8 pp=4' 'tp=4 pp=8'" * (called == "--why")
            raise UsageError(f"{called} {quoted(text)} has two values of {name}", f"give one of them{apart}")
    if not said:
        raise UsageError(f"{called} {quoted(text)} names no axis", EXAMPLE)
    dp = said.pop("dp", None)
    return WrittenLayout(text.strip(), Axes(**{name: (value,) for name, value in said.items()}), dp)


def _axis(word: str, text: str, called: str) -> Iterator[tuple[str, int]]:
    """The axes of a word, each with its value: ``pp4x5`` are two."""
    if word in KINDS:
        yield "again", KINDS[word]
        return
    match = re.fullmatch(r"([a-z_-]+)=?([0-9]{1,12})(?:x([0-9]{1,12}))?", word.lower())
    if match is None:
        raise UsageError(f"{called} {quoted(text)}: {quoted(word)} is not understood", EXAMPLE)
    name, value, chunks = match[1].replace("-", "_"), int(match[2]), match[3]
    if name not in NAMES:
        raise UsageError(f"{called} has an axis {quoted(name)}", nearest(name, NAMES))
    if chunks is not None and name != "pp":
        raise UsageError(f"{called} {quoted(text)}: {quoted(word)} is not understood", EXAMPLE)
    if (not value and name != "zero") or (chunks is not None and not int(chunks)):
        raise UsageError(f"{called} {quoted(text)}: {quoted(word)} is 0", "give 1 or more")
    if name == "zero" and value > 3:
        raise UsageError(f"{called} {quoted(text)}: there is no ZeRO {value}", "its stages are 0 to 3")
    yield NAMES[name], value
    if chunks is not None:
        yield "vpp", int(chunks)


def _measured(settings: Settings) -> tuple[float, Axes] | None:
    """``tp=4 pp=8 vpp=5: 1633 tok/s``: the axes of a layout, and tokens per second of a GPU."""
    text = settings.get("measured")
    if text is None:
        return None
    match = re.fullmatch(r"((?:[^:]*:)?)\s*([\d.]+)\s*(?:tok/s(?:/GPU)?)?\s*", text)
    if match is None or not re.fullmatch(r"\d+(\.\d*)?", match[2]) or not float(match[2]):
        raise UsageError(f"--measured {quoted(text)} is not understood", "write it as 'tp=4 pp=8 vpp=5: 1633 tok/s'")
    layout = match[1].removesuffix(":").strip()
    return float(match[2]), layout_of(layout, "--measured").axes if layout else Axes()


def _all_layouts(settings: Settings) -> bool:
    """Return whether all layouts are to be written, as columns."""
    return str(settings.get("output", "")).endswith(ENDINGS)


def _write(found: PlanAnswer, settings: Settings) -> None:
    """Write all layouts as columns, or the answer as any other."""
    if not _all_layouts(settings):
        show(found, settings)
        return
    target = str(settings.get("output"))
    settings.refuse(("format", "quiet"), f"with -o {target}, which is a file of all layouts", {})
    deliver(found.csv() if target.endswith(".csv") else parquet_of(found.columns()), settings)


def _code(found: Answered) -> int:
    return 0 if getattr(found, "succeeded", True) else 1


COMMAND = Command(
    answer,
    (
        MODEL_ARGUMENT,
        *MODEL_OPTIONS,
        GPU,
        GPUS,
        *DEGREES,
        ZERO,
        *of_fields(Workload, "seq_len"),
        *BATCH,
        PRECISION,
        STATES,
        CHECKPOINTING,
        *of_fields(Workload, "recompute_modules"),
        STACK,
        *MACHINE,
        *RUN,
        *WHY,
        RATES,
        *SHOW,
    ),
    (
        "tfcalc plan llama-3-70b --gpu 1024xh100 --global-batch 16.8M --seq 8k",
        "tfcalc plan llama-3-8b --gpu 64xh100 --global-batch-size 256 --tokens 1T",
        "tfcalc plan gpt2 --gpu h100 --global-batch 1M --tokens 1T --budget-days 9",
        "tfcalc plan mixtral-8x7b --gpu h100 --seq 8k",
        "tfcalc plan mixtral-8x7b --gpu 128xh100 --global-batch-size 512 --tp 2 --ep 4,8",
        "tfcalc plan llama-3-8b --gpu 64xh100 --global-batch-size 256 --why 'tp=2' 'tp=4 pp=2'",
        "tfcalc plan llama-3-8b --gpu 64xh100 --global-batch-size 256 --why-not 'tp=8 pp=4'",
    ),
    _code,
    _write,
)
