"""The question of memory as a function: at rest, in training or in serving, and whether a GPU has room for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.answers.in_words import InWords, in_words
from tfcalc.answers.layout_verdict import memory_of_layout
from tfcalc.answers.memory import memory_of
from tfcalc.answers.ranks import ranks
from tfcalc.answers.verdict import Fit, capacity, memory_within
from tfcalc.errors import UsageError
from tfcalc.model import own_run
from tfcalc.search.gpus import MARGIN
from tfcalc.timing.rates import MEGATRON
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.answers.memory_base import Memory
    from tfcalc.model import Model
    from tfcalc.placed.layout import Layout
    from tfcalc.plans import Serving, Training
    from tfcalc.search.gpus import Capacity
    from tfcalc.serving.engine_rules import Profile
    from tfcalc.workload import Workload


def memory(
    model: Model | str,
    workload: Workload | int | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    depth: int | None = None,
    gpu: str | None = None,
    layout: Layout | None = None,
    stack: str = "",
    **words: Any,
) -> Memory:
    """The bytes of ``model``: at rest, or with a ``training`` plan at the peak of a step, or as it is ``serving``.

    Args:
        model: a :class:`~tfcalc.Transformer`, what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return, or the
            name of a model.
        workload: sequences and their lengths in tokens, or a length; by default the usual one. ``phase="train"`` is
            the same as an empty ``training`` plan.
        conventions: ``dtype`` of the weights at rest and in serving ("auto": the checkpoint's own; fp32 for the classic
            model), and the ``units`` of what is printed.
        training: number formats, optimizer, adapters, and over how many GPUs; see :class:`~tfcalc.Training`.
        serving: formats of weights and cache, context in tokens, requests at once; see :class:`~tfcalc.Serving`.
        weights: at rest, a format such as "nf4" or "Q4_K_M"; "" is the checkpoint's own.
        depth: levels of the breakdown; by default down to the layers.
        gpu: a GPU (``"h100"``, ``"8xh100"``): the report has the verdict of :func:`~tfcalc.fits` as its ``judge``.
        layout: how GPUs share it in training; the answer is that of the GPU that holds most of :func:`~tfcalc.ranks`.
        stack: whose code trains it in this layout: ``"megatron"`` (the default), ``"fsdp"`` or ``"deepspeed"``.
        words: fields of the workload and of the plan, such as ``seq_len=4096``, ``lora=16``, ``context=8192``; also
            ``train=True`` and ``serve=True``.

    Returns:
        A report: ``answer`` is the number of bytes (the peak of a step, or of serving), ``totals`` the terms.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense, or its memory is not known.
        UsageError: a format or a quantity is not known, or something that was given has no effect.

    At rest nothing runs: no gradients, activations or cache. A tied weight is stored once, buffers in 16 bits or more.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> memory(Transformer()).answer
    176562176
    >>> memory("gpt2", seq_len=64, lora=8, gpu="t4").judge.status
    'fits'
    """
    asked = in_words(model, workload, training, serving, words)
    plans: dict[str, Any] = {"training": asked.training, "serving": asked.serving, "weights": weights}
    if layout is not None or stack:
        _refuse(weights=weights)
        room = None if gpu is None else capacity(None, gpu)
        return _laid_out(asked, conventions, layout, stack, depth=depth, budget=room)
    if gpu is None:
        found = memory_of(asked.model, asked.workload, conventions, **plans, depth=depth)
    else:
        found = memory_within(asked.model, capacity(None, gpu), asked.workload, conventions, **plans)
    assert found.whole  # what cannot be counted is refused here
    return found


def fits(
    model: Model | str,
    budget: Capacity | str | int | None = None,
    workload: Workload | int | None = None,
    conventions: Conventions | None = None,
    *,
    gpu: str | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    margin: int = MARGIN,
    utilization: float | None = None,
    engine: str = "",
    profile: Profile | None = None,
    breakdown: bool = False,
    layout: Layout | None = None,
    stack: str = "",
    **words: Any,
) -> Fit:
    """Check whether ``model`` fits into the ``budget``, trained, served or at rest as in :func:`memory`.

    Args:
        model: as in :func:`memory`.
        budget: an amount (``"80GB"``, ``"79.2GiB"``), bytes, or the name of a GPU.
        gpu: instead of a budget, a GPU by its name (``"h100"``, ``"8xh100"``, ``"24GB"``), of which the usable memory
            counts.
        workload: as in :func:`memory`.
        conventions: as in :func:`memory`.
        training: as in :func:`memory`; with a budget of several GPUs, it is trained on all of them.
        serving: as in :func:`memory`.
        weights: as in :func:`memory`.
        margin: per cent of the budget that should stay free; what fits with less to spare is tight.
        utilization: the part of a card's memory that is used in serving; 0.9 with a paged cache, as in vLLM.
        engine: a serving engine by whose rules a card is used: ``"vllm"``, ``"vllm@0.10"``, ``"llama.cpp"``.
        profile: what this engine's log says of its profile run, for the lines that it prints of its cache.
        breakdown: whether somebody will read what the peak is made of, so that it is best found first.
        layout: as in :func:`memory`.
        stack: as in :func:`memory`.
        words: as in :func:`memory`.

    Returns:
        The verdict, with the report that it rests on: in training also the largest batch and the largest sequence that
        fit, in serving the largest context and the most requests at once, all else as asked; and where it does not
        fit, the changes that make it fit.

    Raises:
        InvalidModel: as in :func:`memory`.
        UsageError: a budget that is no amount, a margin that is no percentage; several GPUs for a model at rest.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> found = fits(Transformer(), "100MB")
    >>> found.fits, found.headroom
    (False, -76562176)
    """
    asked = in_words(model, workload, training, serving, words)
    plans: dict[str, Any] = {"training": asked.training, "serving": asked.serving, "weights": weights}
    if layout is not None or stack:
        _refuse(weights=weights, utilization=utilization, engine=engine, profile=profile)
        told = _laid_out(asked, conventions, layout, stack, budget=capacity(budget, gpu), margin=margin)
        assert isinstance(told.judge, Fit)
        return told.judge
    by_engine: dict[str, Any] = {"engine": engine, "profile": profile}
    room: dict[str, Any] = {"margin": margin, "utilization": utilization}
    found = memory_within(asked.model, capacity(budget, gpu), asked.workload, conventions, **plans, **by_engine, **room)
    if breakdown:
        assert found.whole  # all that is asked next comes out of what finds it
    assert isinstance(found.judge, Fit)
    return found.judge


def _laid_out(asked: InWords, by: Conventions | None, layout: Layout | None, stack: str, **more: Any) -> Memory:
    """The memory of a GPU of a layout in training."""
    if asked.serving is not None:
        raise UsageError("a layout of training has no effect on serving", "give training=…, or leave it out")
    run = own_run(asked.model, asked.workload)
    found = ranks(asked.model, layout, run, asked.training, stack=stack or MEGATRON)
    return memory_of_layout(found, by or Conventions(), **more)


def _refuse(**words: object) -> None:
    """Raise UsageError for a keyword that a layout of training has no use for."""
    for word, value in words.items():
        if value:
            raise UsageError(f"{word}={value!r} has no effect on a GPU of a layout", "leave it out")
