"""Commands that open a layout of a plan: the plan of it alone, ``ranks``, and ``memory``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.placed.layout import ends_of
from tfcalc.search.possible import are_uneven, uneven_chunks
from tfcalc.timing.rates import MEGATRON, OF_2022
from tfcalc.timing.stacks import KNOWN
from tfcalc.training.precisions import OF_MEGATRON

if TYPE_CHECKING:
    from tfcalc.answers.plan_case import OwnCode, PlanCase
    from tfcalc.answers.plan_question import PlanQuestion
    from tfcalc.timing.step import Layouts

Options = Mapping[str, object]
"""Flags, each with its value: True of a switch; None, False and nothing are left out."""


def commands_of(case: PlanCase, at: Layouts) -> Iterator[str]:
    """Yield ``tfcalc`` with the words that open this layout.

    ``plan`` has its seconds part by part; ``ranks`` parameters, bytes and messages of each stage, where it knows how
    the model is split, but for uneven chunks and Megatron-LM of 2022; ``memory`` the bytes of the fullest stage.
    """
    question = case.question
    yield _command("plan", question, {**_machine(question), **_axes(case, at), **_how(case, at)})
    known = question.stack != OF_2022 and (not case.possible.unruled or _is_whole(case, at))
    known = known and (at.cp == 1 or case.possible.split(cp=2) is None)
    by_ranks = known and not are_uneven(case.work.depth, int(at.pp), int(at.vpp))
    if by_ranks:
        yield _command("ranks", question, _of_ranks(case, at))
    if case.on_tape(at) is not None:
        yield _command("memory", question, _of_tape(case, at))
    elif by_ranks:
        card = question.card.name.lower()
        yield _command("memory", question, {**_of_ranks(case, at), "--stack": question.stack, "--gpu": card})


def _is_whole(case: PlanCase, at: Layouts) -> bool:
    """Return whether each GPU has the whole model, with the tables that it has of itself."""
    alone = at.tp * at.pp * at.cp * at.ep * at.etp == 1
    return alone and case.work.vocabulary % KNOWN[case.question.stack].rows == 0


def _of_tape(case: PlanCase, at: Layouts) -> Options:
    """The step of Megatron-LM that runs on the tape."""
    run, plan = case.asked(at)
    return {
        "--train": True,
        "--backend": plan.backend,
        "--gpus": plan.gpus,
        "--tp": plan.tensor_parallel,
        "--sequence-parallel": plan.sequence_parallel,
        **_pipeline(at),
        "--cp": _above_1(at.cp),
        "--zero": plan.zero,
        "--batch": run.batch_size,
        "--grad-accum": plan.grad_accum,
        "--seq": run.seq_len,
        "--precision": plan.precision,
        "--checkpointing": run.recompute,
    }


def command_of_fsdp(question: PlanQuestion, own: OwnCode) -> str:
    """Return the ``memory`` of the same step by transformers' own code under FSDP."""
    options = {
        "--train": True,
        "--fsdp": True,
        "--gpus": own.plan.gpus,
        "--batch": own.run.batch_size,
        "--grad-accum": own.plan.grad_accum,
        "--seq": own.run.seq_len,
        "--precision": own.plan.precision,
        "--checkpointing": own.run.recompute,
    }
    return _command("memory", question, options)


def _command(name: str, question: PlanQuestion, options: Options) -> str:
    return f"tfcalc {name} {question.model_words} {in_words(options)}"


def in_words(options: Options) -> str:
    """``--tp 2 --sequence-parallel``."""
    given = ((flag, value) for flag, value in options.items() if value is not None and value is not False)
    return " ".join(flag if value is True else f"{flag} {shlex.quote(str(value))}" for flag, value in given)


def _machine(question: PlanQuestion) -> Options:
    """The GPUs, and the batch."""
    return {
        "--gpu": question.card.name.lower(),
        "--gpus": question.gpus,
        "--gpus-per-node": question.domain,
        "--nic": None if question.nic is None else f"{question.nic:.12g}",
        "--global-batch-size": question.sequences,
        "--seq": question.length,
    }


def _axes(case: PlanCase, at: Layouts) -> Options:
    """Axes of a plan, each with the one value of this layout."""
    experts = case.space.experts > 1
    return {
        "--tp": at.tp,
        "--pp": at.pp,
        "--vpp": at.vpp,
        "--cp": at.cp,
        "--ep": at.ep if experts else None,
        "--etp": at.etp if experts else None,
        "--micro-batch": at.micro_batch,
        "--zero": at.zero if at.dp * at.cp > 1 else None,
        "--replicas": None if at.shards is None else _replicas(at),
    }


def _how(case: PlanCase, at: Layouts) -> Options:
    """Checkpointing, number format and stack; what the estimate is scaled by."""
    question = case.question
    modules = ",".join(question.modules)
    return {
        "--checkpointing": None if modules else at.recompute,
        "--recompute-modules": modules or None,
        "--precision": question.precision,
        "--states": None if question.states == OF_MEGATRON.name else question.states,
        "--stack": question.stack,
        "--rates": None if question.rates is None else question.rates.called,
        "--measured": _measured(case),
    }


def _measured(case: PlanCase) -> str | None:
    """``tp=4 pp=8 …: 1633 tok/s``, with all axes of the layout that was measured."""
    if case.question.measured is None:
        return None
    measured = case.measured_layout
    words = {flag.strip("-").replace("-", "_"): value for flag, value in _axes(case, measured).items()}
    said = " ".join(f"{name}={value}" for name, value in words.items() if value is not None)
    kind = "full" if measured.again else "none"
    return f"{said} {kind}: {case.question.measured[0]:.12g} tok/s"


def _of_ranks(case: PlanCase, at: Layouts) -> Options:
    experts = case.space.experts > 1
    return {
        "--tp": at.tp,
        "--sequence-parallel": at.sequence_parallel and at.tp > 1,
        **_pipeline(at),
        **options_of_ends(case.work.depth, int(at.pp)),
        "--cp": _above_1(at.cp),
        "--ep": at.ep if experts else None,
        "--etp": at.etp if experts else None,
        "--dp": at.dp,
        "--replicas": _above_1(_replicas(at)),
        "--zero": at.zero if at.dp * at.cp > 1 else None,
        "--batch": at.micro_batch,
        "--grad-accum": int(at.batches),
        "--seq": case.question.length,
        "--precision": None if case.question.states == OF_MEGATRON.name else case.question.states,
        "--stack": None if case.question.stack == MEGATRON else case.question.stack,
        "--checkpointing": None if at.modules else at.recompute,
        "--recompute-modules": ",".join(at.modules) or None,
    }


def _pipeline(at: Layouts) -> Options:
    return {"--pp": _above_1(at.pp), "--vpp": _above_1(at.vpp)}


def _replicas(at: Layouts) -> int:
    return 1 if at.shards is None else int(at.dp * at.cp // at.shards)


def _above_1(degree: int) -> int | None:
    return degree if degree > 1 else None


def options_of_ends(depth: int, pp: int) -> Options:
    """Return how layers that do not divide fill the stages, as options of ``ranks``; nothing where they divide."""
    ends = ends_of(depth, pp) if depth % pp else None
    return ends.options if ends else {}


def filled(depth: int, pp: int, vpp: int) -> str:
    """Return how layers that do not divide fill the stages: options of ``ranks``, or Megatron-core's own text.

    >>> filled(61, 8, 1), filled(5, 2, 2)
    ('--first-stage-layers 7 --last-stage-layers 6', "pipeline_model_parallel_layout='Et|tt|tt|L'")
    """
    if not are_uneven(depth, pp, vpp):
        return in_words(options_of_ends(depth, pp))
    chunks = ["t" * len(chunk) for chunk in uneven_chunks(depth, pp * vpp)]
    return f"pipeline_model_parallel_layout='E{'|'.join(chunks)}L'"
