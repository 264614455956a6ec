"""``tfcalc plan``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfcalc.cli.commands import Command
from tfcalc.cli.commands.train import RATES, rates_of_file
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, Option, of_fields
from tfcalc.cli.prices import PRICE, prices_of
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.hardware import named, parse_gpu
from tfcalc.printable import quoted
from tfcalc.search.axes import Axes
from tfcalc.timing.rates import STACKS
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.answers.plan import Plan
    from tfcalc.report.answer import Answered

PRECISIONS = ("bf16", "fp8", "mxfp8", "nvfp4")
GPU = Option("gpu", ("--gpu",), "the GPU, such as h100")
LAYOUT = (
    Option("gpus", ("--gpus",), "GPUs in all", number=True),
    Option("tensor_parallel", ("--tp",), "tensor parallelism [default: all are tried]", number=True),
    Option("pipeline_parallel", ("--pp",), "pipeline stages [default: all are tried]", number=True),
    Option("virtual_pipeline", ("--vpp",), "chunks of a stage, interleaved [default: all are tried]", number=True),
    Option("context_parallel", ("--cp",), "context parallelism [default: all are tried]", number=True),
    Option("expert_parallel", ("--ep",), "expert parallelism [default: all are tried]", number=True),
    Option("expert_tensor_parallel", ("--etp",), "tensor parallelism of experts [default: 1]", number=True),
    Option("zero", ("--zero",), "stage of ZeRO; 3 is FSDP [default: 1 and 3 are tried]", ("0", "1", "2", "3")),
    Option("micro_batch", ("--micro-batch",), "sequences at once [default: all are tried]", number=True),
)
BATCH = (
    Option("global_batch_size", ("--global-batch-size",), "sequences of a step, of all GPUs", number=True),
    Option("global_batch", ("--global-batch",), "tokens of a step, of all GPUs, such as 16.8M", amount=True),
)
STACK = Option("stack", ("--stack",), "whose code runs [default: megatron]", STACKS)
PRECISION = Option("precision", ("--precision",), "number format of the matrix products [default: bf16]", PRECISIONS)
CHECKPOINTING = Option(
    "recompute",
    ("--checkpointing",),
    "gradient checkpointing [default: none and full are tried]",
    ("none", "full", "selective"),
)
MACHINE = (
    Option("gpus_per_node", ("--gpus-per-node",), "GPUs with fast links among them [default: the GPU's]", number=True),
    Option(
        "nic", ("--nic",), "bytes per second of a GPU to other nodes, such as 25G [default: the GPU's]", amount=True
    ),
)
RUN = (
    Option("tokens", ("--tokens",), "tokens of the whole run: days, GPU hours, cost", number=True, most=10**18),
    PRICE,
    Option("measured", ("--measured",), "a measured run that scales the estimate: 'tp=4 pp=8: 1633 tok/s'"),
    Option("top", ("--top",), "layouts that are listed [default: 5]", number=True, most=100),
)


def answer(settings: Settings) -> Plan:
    """Search all layouts, or answer for the one that is fixed."""
    from tfcalc.answers.plan import PlanQuestion, planned

    name = settings.get("gpu")
    if name is None:
        raise UsageError("a plan needs a GPU", "add --gpu h100 --gpus 64")
    counted, name = parse_gpu(name)
    card = named(name)[0]
    gpus = settings.get("gpus") or counted
    if counted > 1 and gpus != counted:
        raise UsageError(f"--gpu {counted}x{name} and --gpus {gpus} differ", "give one of them")
    model = settings.model()
    length = int(settings.get("seq_len") or model.usual_length)
    rates = rates_of_file(settings)
    return planned(
        PlanQuestion(
            model=model,
            card=card,
            gpus=gpus,
            sequences=_sequences(settings, length),
            length=length,
            fixed=_fixed(settings),
            stack=settings.get("stack") or (rates.stack(STACKS[0]) if rates else STACKS[0]),
            precision=settings.get("precision") or PRECISIONS[0],
            domain=settings.get("gpus_per_node"),
            nic=settings.get("nic"),
            tokens=settings.get("tokens"),
            price=settings.get("price"),
            measured=_measured(settings),
            top=settings.get("top") or 5,
            attention_again=settings.get("recompute") == "selective",
            rates=rates,
            prices=prices_of(settings),
        )
    )


def _fixed(settings: Settings) -> Axes:
    """The axes that were given."""
    zero, recompute = settings.get("zero"), settings.get("recompute")
    return Axes(
        tp=settings.get("tensor_parallel"),
        pp=settings.get("pipeline_parallel"),
        vpp=settings.get("virtual_pipeline"),
        cp=settings.get("context_parallel"),
        ep=settings.get("expert_parallel"),
        etp=settings.get("expert_tensor_parallel"),
        micro_batch=settings.get("micro_batch"),
        zero=None if zero is None else int(zero),
        again=None if recompute is None else int(recompute == "full"),
    )


def _sequences(settings: Settings, length: int) -> int:
    size, tokens = settings.get("global_batch_size"), settings.get("global_batch")
    if size is not None and tokens is not None:
        raise UsageError(f"--global-batch-size {size} and --global-batch {tokens:g} both set the batch", "give one")
    if size is not None:
        return int(size)
    if tokens is None:
        raise UsageError("a plan needs the batch of a step", "add --global-batch-size 256, or --global-batch 4M tokens")
    return _evenly(tokens / length)


def _evenly(sequences: float) -> int:
    """Return the number nearby that two divides most often, as people round: 16.8M tokens are 2,048 x 8,192."""
    near = range(max(1, round(sequences * 0.995)), max(1, round(sequences * 1.005)) + 1)
    return max(near, key=lambda number: (number & -number, -abs(number - sequences)))


def _measured(settings: Settings) -> tuple[float, Axes] | None:
    """``tp=4 pp=8 vpp=5: 1633 tok/s``: the axes of a layout, and tokens per second of a GPU."""
    text = settings.get("measured")
    if text is None:
        return None
    match = re.fullmatch(r"\s*((?:[a-z_]+=\d+[\s,]*)*):?\s*([\d.]+)\s*(?:tok/s(?:/GPU)?)?\s*", text)
    if match is None or not float(match[2]):
        raise UsageError(f"--measured {quoted(text)} is not understood", "write it as 'tp=4 pp=8 vpp=5: 1633 tok/s'")
    axes = {name: int(value) for name, value in re.findall(r"([a-z_]+)=(\d+)", match[1])}
    if unknown := next((name for name in axes if name not in Axes._fields), ""):
        raise UsageError(f"--measured has an axis {quoted(unknown)}", f"those are {', '.join(Axes._fields[:-1])}")
    return float(match[2]), Axes(**axes)


def _code(found: Answered) -> int:
    return 0 if getattr(found, "succeeded", True) else 1


COMMAND = Command(
    answer,
    (
        MODEL_ARGUMENT,
        *MODEL_OPTIONS,
        GPU,
        *LAYOUT,
        *of_fields(Workload, "seq_len"),
        *BATCH,
        PRECISION,
        CHECKPOINTING,
        STACK,
        *MACHINE,
        *RUN,
        RATES,
        *SHOW,
    ),
    (
        "tfcalc plan llama-3-70b --gpus 1024 --gpu h100 --global-batch 16.8M --seq 8k",
        "tfcalc plan llama-3-8b --gpus 64 --gpu h100 --global-batch-size 256 --tokens 1T",
        "tfcalc plan mixtral-8x7b --gpu 128xh100 --global-batch-size 512 --tp 2 --ep 8",
    ),
    _code,
)
