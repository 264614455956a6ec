"""FLOPs of one sequence in a training run: of its training step, and of the passes beside that of other methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.measure import matmul_flops
from tfcalc.core.traced import value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import COLOCATE, DPO, NO_ENGINE, PPO, SERVER, SFT
from tfcalc.timing.work import ModelWork, work_of
from tfcalc.training.adapters import tuned
from tfcalc.training.methods import has_reference, scores_again, step_run, with_method
from tfcalc.training.schedule import critic_of
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.plans import Training


class SequenceFlops(NamedTuple):
    """FLOPs of a sequence, nothing recomputed.

    ``trained``: forward and backward, of the critic, too. ``scored``: passes that read it without gradients.
    ``written``: the passes that wrote its completion on the same GPU.
    """

    trained: float
    scored: float = 0.0
    written: float = 0.0

    @property
    def all(self) -> float:
        """The sum of them."""
        return sum(self)


def sequence_flops(model: Model, run: Workload, plan: Training, pairs: str = "causal") -> SequenceFlops:
    """Count the FLOPs of a sequence of a step; logits are made of scored tokens alone, where the code does so.

    ``pairs`` of queries and keys that count are those of ``Workload.attention``; by default the visible ones.
    """
    plan = with_method(plan)
    run = step_run(run, plan)
    length = value_of(run.seq_len)
    alone = Workload(seq_len=length, phase="train", attention=pairs, recompute="none")
    tree = tuned(model.tree(alone), plan)
    work = work_of(model, length, tree)
    if plan.method == SFT:
        return SequenceFlops(work.flops * length)
    all_logits = plan.method == PPO or (plan.method == DPO and plan.loss == "logits")
    scored = length if all_logits else value_of(plan.max_completion_length or length - 1)
    trained = work.flops * length - (length - scored) * _of_head(work, backward=True)
    own, bare = (_forward(each, work, length - scored) for each in (tree, model.tree(alone)))
    if plan.method == PPO:  # each completion is trained on several times: what wrote and scored it is no part of a step
        return SequenceFlops(trained + _of_critic(model, alone) * length)
    scores = own * scores_again(run, plan) + bare * has_reference(plan)
    if plan.method == DPO:
        return SequenceFlops(trained, scores)
    completion = value_of(plan.size("max_completion_length"))
    # an engine may read a prompt once for several completions, and other GPUs do not count here
    share = {NO_ENGINE: 1.0, COLOCATE: completion / length, SERVER: 0.0}[plan.vllm_mode]
    return SequenceFlops(trained, scores, _forward(tree, work, length - completion) * share)


def _of_critic(model: Model, alone: Workload) -> float:
    """FLOPs of a token of the critic that PPO trains."""
    critic = critic_of(model)
    return work_of(critic, value_of(alone.seq_len), critic.tree(alone)).flops


def _forward(tree: Component, work: ModelWork, without_logits: int) -> float:
    """FLOPs of a forward pass that makes no logits of this many tokens."""
    return float(value_of(tree.total(matmul_flops)) - without_logits * _of_head(work, backward=False))


def _of_head(work: ModelWork, *, backward: bool) -> int:
    """FLOPs of a token's logits, and of their backward."""
    return sum(2 * one.inner * one.columns * one.times * (1 + (one.backward if backward else 0)) for one in work.head)
