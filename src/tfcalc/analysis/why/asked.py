"""``tfcalc.why``: a number, or a line of a log, as somebody pastes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfcalc.analysis.common import check_arguments, check_plans, model_of
from tfcalc.analysis.why.log_causes import of_log, refuse_nameless, refuse_unknown
from tfcalc.analysis.why.log_lines import logged
from tfcalc.analysis.why.log_question import LogQuestion
from tfcalc.analysis.why.of_plan import AskedPlan
from tfcalc.analysis.why.why import MEMORY, conventions_of
from tfcalc.configs.published import HFModel
from tfcalc.errors import UsageError
from tfcalc.hardware import named, parse_gpu
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.analysis.why.answer import Why
    from tfcalc.analysis.why.presets import PresetSize
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training


def why(
    number: str | int,
    model: Model | str | None = None,
    of: str | None = None,
    workload: Workload | None = None,
    *,
    tokens: int | None = None,
    called: str = "",
    listed: Iterable[PresetSize] = (),
    gpu: str | None = None,
    tensor_parallel: int | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
) -> Why:
    """Name the conventions that give a number: what was left out, counted again, halved, or written in another unit.

    Args:
        number: as it was written, with its precision: ``"117M"`` is anything that rounds to 117 million,
            ``"124,439,808"`` that number alone. A unit (``"13.5 GB"``, ``"31.5 TFLOPs"``) decides what it is about.
            Or lines of a log with numbers: of vLLM, SGLang, llama.cpp, Megatron-LM, nanoGPT, PEFT, Trainer or PyTorch.
        model: as in :func:`~tfcalc.params`; by default the classic Transformer. A log line needs one.
        of: ``params``, ``flops``, ``memory`` (bytes of weights and of model states) or ``cache`` (bytes of keys and
            values); by default what the unit says, or what gives it first. Of a number.
        workload: sequences, their lengths in tokens, and phase; by default usual lengths are tried. Of FLOPs, of cache,
            and of what PyTorch tried to allocate.
        tokens: those of a whole training run. Of FLOPs.
        called: how commands name the model; by default by its own name.
        listed: models to look among, if none is named and the classic Transformer has no such number.
        gpu: of a log line with bytes, MFU or FLOPs: the card that it ran on, such as ``"h100"``.
        tensor_parallel: of a log line: the GPUs that share each layer; by default usual numbers are tried.
        training: the plan of training whose memory the number is of, a step of ``workload``.
        serving: the plan of serving whose memory it is of.

    Returns:
        The answer: ``reasons``, the simplest and nearest first, each with its exact value in parameters, FLOPs or
        bytes; where there are none, the ``nearest``.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the number cannot be read, ``of`` is none of these, a card is not known, or a log line has no model.

    >>> import tfcalc
    >>> found = tfcalc.why("163M", tfcalc.load("gpt2"))
    >>> found.answer, found.reasons[0].cause
    (163037184, 'the output head counted again although it is tied to the embedding')
    >>> tfcalc.why("Loading model weights took 14.9888 GB", tfcalc.load("llama-3.1-8b")).reasons[0].unit
    'bytes'
    """
    model = None if model is None else model_of(model)
    lines = logged(str(number))
    if lines and (training is not None or serving is not None):
        raise UsageError("a plan is of a number, and this is a log line", "leave it out")
    if not lines:
        refuse_unknown(str(number), called)
        if gpu is not None or tensor_parallel is not None:
            raise UsageError("gpu and tensor_parallel are of a log line, and the number is none", "leave them out")
        plan = _plan(model or Transformer(), of, workload, training, serving, called)
        return conventions_of(number, model, of, workload, tokens=tokens, called=called, listed=listed, plan=plan)
    if model is None:
        refuse_nameless(lines)
        model = Transformer()
    if of is not None:
        raise UsageError(f"of={of!r} is of a number, and this is a log line", "leave it out")
    check_arguments(model, workload, None)
    name = called or (model.name if isinstance(model, HFModel) else "")
    card = None if gpu is None else named(parse_gpu(gpu)[1])[0]
    return of_log(LogQuestion(lines, model, name, tensor_parallel, workload, card, tokens))


def _plan(
    model: Model,
    of: str | None,
    workload: Workload | None,
    training: Training | None,
    serving: Serving | None,
    called: str,
) -> AskedPlan | None:
    check_plans(training, serving)
    if training is not None and serving is not None:
        raise UsageError("training and serving cannot be combined", "choose one")
    plan = serving if training is None else training
    if plan is None:
        return None
    if of not in (None, MEMORY):
        raise UsageError(f"a plan has no effect on {of}", "leave it out, or ask of='memory'")
    run = Workload() if workload is None else workload
    name = called or (model.name if isinstance(model, HFModel) else "")
    return AskedPlan.of(model, run if training is None else run.replaced(phase="train"), plan, name)
