"""``tfcalc ranks``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.ranks import RanksAnswer, ranks
from tfcalc.cli.commands import Command
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, OF_LAYOUT, OF_STACK, RUN, SHOW, UNITS, Option, training
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.placed.layout import Layout, check_multiple
from tfcalc.placed.schedules import SCHEDULES
from tfcalc.plans import Training
from tfcalc.timing.rates import MEGATRON, STACKS
from tfcalc.training.precisions import OF_MEGATRON

if TYPE_CHECKING:
    from tfcalc.report.answer import Answered

STACK = OF_STACK._replace(help="whose code runs [default: megatron]", known=STACKS[:3])
OF_TRAINING = (
    "tensor_parallel",
    "sequence_parallel",
    "pipeline_parallel",
    "virtual_pipeline",
    "context_parallel",
    "zero",
    "gpus",
    "grad_accum",
    "precision",
    "optimizer",
)
OF_RUN = ("batch_size", "seq_len", "attention", "recompute", "recompute_modules")
PARALLEL = (
    Option(
        "expert_parallel",
        ("--ep", "--expert-parallel"),
        "groups of GPUs that share the experts",
        number=True,
        group="gpus",
        front=True,
    ),
    Option(
        "data_parallel",
        ("--dp", "--data-parallel"),
        "GPUs with the same weights [default: as few as --ep takes]",
        number=True,
        group="gpus",
        front=True,
    ),
    *OF_LAYOUT,
    Option(
        "schedule",
        ("--schedule",),
        "order of the pipeline's work [default: 1f1b, with --vpp interleaved]",
        tuple(name for name, each in SCHEDULES.items() if each.in_order),
        front=True,
    ),
)


def answer(settings: Settings) -> Answered:
    """Return what one GPU of each stage stores, computes and sends."""
    return asked(settings)


def asked(settings: Settings, gpus: int | None = None) -> RanksAnswer:
    """Return the ranks of the layout that was asked for, over ``gpus`` if no number is typed."""
    model = settings.model()
    plan = settings.fill(Training())
    if plan.gpus is None and "data_parallel" not in settings.given:
        plan = plan.replaced(gpus=gpus)
    own = Training(precision=plan.precision, optimizer=plan.optimizer, zero=plan.zero, grad_accum=plan.grad_accum)
    run, order = settings.workload(model), settings.get("schedule", "")
    return ranks(model, _layout(settings, plan), run, own, order=order, stack=stack_of(settings))


def stack_of(settings: Settings) -> str:
    """Return whose code runs: Megatron-core's where nobody says it."""
    return str(settings.get(STACK.name, MEGATRON))


def _layout(settings: Settings, plan: Training) -> Layout:
    """Return the layout, with as many copies as there are GPUs for."""
    at = Layout(
        tp=plan.tensor_parallel,
        sequence_parallel=plan.sequence_parallel,
        pp=plan.pipeline_parallel,
        vpp=plan.virtual_pipeline,
        cp=plan.context_parallel,
        ep=settings.get("expert_parallel", 1),
        etp=settings.get("expert_tensor_parallel"),
        first_layers=settings.get("first_layers"),
        last_layers=settings.get("last_layers"),
        counts_embedding=settings.get("counts_embedding", False),
        counts_loss=settings.get("counts_loss", False),
        shares_latents=settings.get("shares_latents", False),
        replicas=settings.get("replicas", 1),
    )
    at = at._replace(dp=settings.get("data_parallel", at.least_copies))
    if plan.gpus is None:
        return at
    if "data_parallel" in settings.given:
        raise UsageError("--gpus and --dp both say how many copies there are", "leave one of them out")
    of_a_copy = at._replace(dp=1).gpus
    check_multiple("GPUs", plan.gpus, "tp x pp x cp =", of_a_copy)
    return at._replace(dp=plan.gpus // of_a_copy)  # type: ignore[operator]  # numbers of the command line


def _with_default(option: Option, default: str) -> Option:
    """Return an option of training with what ``auto`` is on a rank of Megatron-core, in the place of that elsewhere."""
    return option._replace(help=f"{option.help.partition('; auto:')[0]}; auto: {default} [default: auto]")


_TRAINING = {option.name: option for option in training()}
_TRAINING["zero"] = _with_default(
    _TRAINING["zero"], "1 with several copies of the weights, 3 with --stack fsdp, else 0"
)
_TRAINING["precision"] = _with_default(
    _TRAINING["precision"], f"{OF_MEGATRON.name}, bf16-fsdp with --stack fsdp, bf16-master with deepspeed"
)
_RUN = {option.name: option for option in RUN}
_RUN["recompute"] = _with_default(_RUN["recompute"], "none")

COMMAND = Command(
    answer,
    (
        MODEL_ARGUMENT,
        *MODEL_OPTIONS,
        *(_TRAINING[name] for name in OF_TRAINING),
        *PARALLEL,
        STACK,
        *(_RUN[name] for name in OF_RUN),
        *UNITS,
        *SHOW,
    ),
    (
        "tfcalc ranks llama-3-8b --tp 2 --pp 4 --grad-accum 16",
        "tfcalc ranks llama-3-70b --tp 8 --pp 4 --vpp 5 --grad-accum 32 --gpus 64",
        "tfcalc ranks mixtral-8x7b --ep 4 --dp 4 --zero 1",
        "tfcalc ranks mixtral-8x7b --tp 2 --sequence-parallel --ep 4 --etp 1 --dp 4 --zero 1",
        "tfcalc ranks llama-3-70b --stack fsdp --dp 64 --replicas 2 --checkpointing full",
        "tfcalc ranks llama-3-8b --stack deepspeed --dp 8 --zero 2",
        "tfcalc ranks llama-3-70b --tp 8 --pp 4 --vpp 5 --grad-accum 32 --gpus 64 --json",
    ),
)
