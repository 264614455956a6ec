"""Phases of preference and policy training: completions are written, scored, and trained on; the phase that decides.

Each phase is a run of its own: what there is all the time, and what that run takes beside it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from tfcalc.backends.program import program
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component, Cost
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.basic import Linear
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.stack import Stack
from tfcalc.number_formats import WIDTHS
from tfcalc.plans import AWAKE, COLOCATE, DPO, NO_ENGINE, PPO, Serving
from tfcalc.training.methods import copies_reference, has_reference, scores_again, step_run, written
from tfcalc.training.plan_checks import code_of, gradients_stay, numerics, placement_of, stays, trained_in
from tfcalc.training.precisions import precision
from tfcalc.training.step_terms import STEP, bytes_in, standing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.training.states import Overheads, Placed
    from tfcalc.training.step import StepMemory
    from tfcalc.training.step_terms import Phase
    from tfcalc.workload import Workload

GENERATE, HAND_OVER, SCORE, VALUES = "generate", "hand over", "score", "values"
ENTROPIES = 3
"""Copies of scored logits that PPO's entropy takes: their softmax, its product with them, and their log-sum-exp's."""
ROLLOUT = 64
"""Completions that PPO writes and scores at once: TRL's ``local_rollout_forward_batch_size``."""
SAMPLED = 3
"""Copies in fp32 of the logits that a token is drawn from."""


class Parts(NamedTuple):
    """Bytes of one moment, by what they are of.

    Those of the ``reference``, the ``critic`` (with its states), the ``reward`` model and the ``engine`` are of models
    beside the trained one.
    """

    weights: int = 0
    master_weights: int = 0
    optimizer: int = 0
    gradients: int = 0
    reference: int = 0
    critic: int = 0
    reward: int = 0
    engine: int = 0
    buffers: int = 0
    kv_cache: int = 0
    activations: int = 0
    gathered: int = 0
    temporary: int = 0


class ScheduledPhase(NamedTuple):
    """The highest moment of a phase, by its parts."""

    name: str
    parts: Parts

    @property
    def total(self) -> int:
        """Sum of the parts."""
        return sum(self.parts)


class Generated(NamedTuple):
    """Bytes that writing completions takes: of the cache of keys and values, and beside it."""

    kv_cache: int
    temporary: int


class MethodPasses(Protocol):
    """Passes of one model that its phases are made of, each run once; and the bytes beside them."""

    model: Model

    @property
    def critic(self) -> MethodPasses:
        """Passes of the critic that is trained beside the model."""
        ...

    def scored(self, run: Workload, plan: Training, *, adapted: bool) -> int:
        """Bytes of a pass that scores tokens, by the trained model or the reference."""
        ...

    def generated(self, run: Workload, plan: Training) -> Generated:
        """Bytes that it takes to write completions."""
        ...

    def standing(self, run: Workload, plan: Training) -> tuple[Component, Placed, Component]:
        """Tree of the model, its states, and its buffers."""
        ...

    def beside(self, run: Workload, plan: Training) -> Overheads:
        """Overheads beside the states."""
        ...

    def step(self, run: Workload, plan: Training) -> StepMemory:
        """Forward, loss and backward."""
        ...

    def phases(self, run: Workload, plan: Training, ran: StepMemory) -> tuple[list[Phase], Overheads]:
        """Phases of a step that ran, and the overheads beside the states."""
        ...


class PhaseSchedule:
    """The phases of one step of a plan that is resolved, by a method other than training on the next token.

    Raises InvalidModel where something is not known of the model.
    """

    def __init__(self, peaks: MethodPasses, run: Workload, plan: Training) -> None:
        self.peaks, self.asked, self.plan = peaks, run, plan
        self.model = peaks.model
        self.run = step_run(run, plan)
        self.model.check(self.run)
        heads = [each for each in self.model.module().all_of() if isinstance(each, ModelWithHead)]
        if not any(head.shifted for head in heads):
            fact = f"--method {plan.method} has no effect on {self.model.summary}"
            raise InvalidModel(f"{fact}: it has no logits of next words by itself", "leave it out")

    @cached_property
    def phases(self) -> list[ScheduledPhase]:
        """Phases of the step, in order."""
        writes = [] if self.plan.method == DPO else [*self._generate, *self._score]
        return [*writes, *self._train]

    @property
    def peak(self) -> ScheduledPhase:
        """The phase that decides; of equal ones the first."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def least(self) -> int:
        """Bytes that no peak is below: the models and states in the optimizer's step; nothing runs on a tape for it."""
        return sum(self._standing(bytes_in(self._states[1].device.gradients)))

    @cached_property
    def _states(self) -> tuple[Component, Placed, Component]:
        return self.peaks.standing(self.run, self.plan)

    def _standing(self, gradients: int, *, generates: bool = False) -> Parts:
        """Parts that are live in all phases; the engine is awake if it ``generates``, or never sleeps."""
        _, states, _ = self._states
        held = standing_of(states, self._beside)
        buffers = held.buffers + held.workspaces + held.communication
        return Parts(
            held.weights,
            held.master,
            held.optimizer,
            gradients,
            self.reference,
            *self.second,
            self.engine if generates or self.plan.sleep == AWAKE else 0,
            buffers,
        )

    @property
    def _beside(self) -> Overheads:
        return self.peaks.beside(self.run, self.plan)

    @cached_property
    def reference(self) -> int:
        """Bytes of the reference model: weights as the trained model's are stored, sharded as they are; and buffers."""
        if not copies_reference(self.plan):
            return 0
        _, states, buffers = self._states
        own = [each for each in buffers.own.held if each.name == "buffers"]
        return bytes_in(states.device.weights) + bytes_in(Component("buffers", "buffers", Cost(held=tuple(own))))

    @cached_property
    def engine(self) -> int:
        """Bytes of vLLM on the same GPU: its share, or, where no GPU is known, what it needs. Raises InvalidModel."""
        if self.plan.vllm_mode != COLOCATE:
            return 0
        if not self.plan.card_memory:
            return self._engine_for(written(self.asked, self.plan))
        share = int(float(self.plan.vllm_gpu_memory_utilization) * int(self.plan.card_memory))
        least = self._engine_for(1)
        if least > share:
            raise InvalidModel(
                f"--vllm-gpu-memory-utilization {self.plan.vllm_gpu_memory_utilization} of the GPU's memory is "
                f"{share:,} bytes, and vLLM's weights and the cache of one completion take {least:,}",
                f"give at least {-(-100 * least // int(self.plan.card_memory)) / 100:g}",
            )
        return share

    @property
    def states_on_host(self) -> int:
        """Bytes of the states that are in the host's memory."""
        return sum(map(bytes_in, self._states[1].host))

    @property
    def weights_on_host(self) -> int:
        """Bytes of vLLM's weights that are copied to the host when it sleeps at level 1."""
        return self._whole if self.plan.sleep == "1" else 0

    @property
    def second(self) -> tuple[int, int]:
        """Bytes of PPO's second and third model: of a critic with its states, and of a reward model."""
        if self._critic is None:
            return 0, 0
        held = standing_of(self._critic.states, self._critic.beside)
        return held.weights + held.master + held.optimizer, held.weights

    @cached_property
    def _critic(self) -> Critic | None:
        return Critic(self.peaks.critic, self.asked, self.plan) if self.plan.method == PPO else None

    def _engine_for(self, requests: int) -> int:
        from tfcalc.serving.memory import served  # of those that ask for it

        kind = precision(self.plan.precision).compute
        serving = Serving(weights=kind, context=self.run.seq_len, concurrency=requests)
        return served(self.model, self.asked.replaced(kernel="flash"), serving, formulas=False).total

    @property
    def _permanent(self) -> int:
        """Bytes of gradients that are there when nothing is trained: of permanent buffers."""
        placement, plan = placement_of(self.plan), self.plan
        stay = gradients_stay(trained_in(plan), placement) or plan.gradient_as_bucket_view
        return bytes_in(self._states[1].device.gradients) if stay else 0

    @property
    def _generate(self) -> list[ScheduledPhase]:
        if self.plan.vllm_mode == NO_ENGINE:
            cache, temporary = self.peaks.generated(self.asked, self.plan)
            if self.plan.method == PPO:  # the logits of each token, then all of them in one tensor
                temporary = self._written + max(temporary, self._written)
            stands = self._standing(self._permanent)._replace(kv_cache=cache, temporary=temporary)
            return [ScheduledPhase(GENERATE, stands._replace(gathered=self._whole_weights))]
        stands = self._standing(self._permanent, generates=True)
        writes = [ScheduledPhase(GENERATE, stands)] if self.plan.vllm_mode == COLOCATE else []
        if self.plan.zero == "3" and self.plan.lora is not None:
            whole = self._whole_weights
            engine = stands.engine if self.plan.sleep == AWAKE else min(stands.engine, whole)  # its weights wake first
            return [ScheduledPhase(HAND_OVER, stands._replace(gathered=whole, engine=engine)), *writes]
        return writes

    def _scored_by_three(self, critic: Critic) -> ScheduledPhase:
        """Reference model, critic and reward model read what was written, whose logits in fp32 stay (PPO)."""
        count = min(written(self.asked, self.plan), ROLLOUT)
        some = self.run.replaced(batch_size=count)
        read = critic.run.replaced(batch_size=count)
        passes = (
            self.peaks.scored(some, self.plan, adapted=False) + hidden_states(self.model, some, self.plan),
            critic.peaks.scored(read, critic.plan, adapted=False) + hidden_states(self.model, read, self.plan),
        )
        return ScheduledPhase(SCORE, self._standing(self._permanent)._replace(temporary=max(passes) + self._written))

    @property
    def _written(self) -> int:
        """Bytes of the logits of all completions that were written, in fp32 (PPO)."""
        tokens = written(self.asked, self.plan) * self.plan.size("max_completion_length")
        return value_of(tokens * _head(self.model).fan_out) * WIDTHS["float32"]

    @property
    def _whole_weights(self) -> int:
        """Bytes of all weights that ZeRO-3 gathers: to generate by (TRL's ``ds3_gather_for_generation``), or to merge.

        Adapters are merged into all weights at once before an engine gets them (TRL's ``sync_weights``).
        """
        return self._whole if self.plan.zero == "3" else 0

    @property
    def _whole(self) -> int:
        """Bytes of all weights of the model, as one GPU has them."""
        alone = self.plan.replaced(zero="0", gpus=None, layout="flat")
        return bytes_in(self.peaks.standing(self.run, alone)[1].device.weights)

    @property
    def _score(self) -> list[ScheduledPhase]:
        if self._critic is not None:
            return [self._scored_by_three(self._critic)]
        passes = []
        if scores_again(self.asked, self.plan):
            passes.append(self.peaks.scored(self.run, self.plan, adapted=True))
        if has_reference(self.plan):
            passes.append(self.peaks.scored(self.run, self.plan, adapted=False))
        if not passes:
            return []
        stands = self._standing(self._permanent)
        gathered = bytes_in(self._states[1].gathered)
        return [ScheduledPhase(SCORE, stands._replace(temporary=max(passes), gathered=gathered))]

    @property
    def _train(self) -> list[ScheduledPhase]:
        ran = self.peaks.step(self.run, self.plan)
        found, _ = self.peaks.phases(self.run, self.plan, ran)
        if self._critic is not None:
            return list(self._both(self._critic, found))
        return [
            ScheduledPhase(
                phase.name,
                self._standing(phase.gradients)._replace(
                    activations=phase.activations, gathered=phase.gathered, temporary=phase.temporary
                ),
            )
            for phase in found
        ]

    def _both(self, critic: Critic, found: list[Phase]) -> Iterator[ScheduledPhase]:
        """Yield the phases of two models that are trained at once: the critic's pass is first, and its backward last.

        What the trained model returns is live until the step is done: its logits, and each layer's input.
        """
        hidden, own = hidden_states(self.model, self.run, self.plan), bytes_in(self._states[1].device.gradients)
        logits = self._logits(self.run.batch_size * self.run.seq_len)
        first = max((phase for phase in critic.phases if phase.name in ("forward", "loss")), key=lambda one: one.total)
        stands = self._standing(first.gradients)
        yield ScheduledPhase(VALUES, stands._replace(activations=first.activations, temporary=first.temporary + hidden))
        for phase in found:
            after = phase.name in ("backward", STEP)
            gradients = phase.gradients + (critic.gradients if phase.name == STEP else critic.permanent)
            kept = 0 if phase.name == STEP else critic.saved
            held = (hidden if after else 0) + (logits if phase.name == STEP else 0)
            if phase.name == STEP:
                yield from self._backward_of(critic, own, hidden + logits)
            yield ScheduledPhase(
                phase.name,
                self._standing(gradients)._replace(
                    activations=phase.activations + kept, gathered=phase.gathered, temporary=phase.temporary + held
                ),
            )
        told = logits + ENTROPIES * self._logits(self.run.batch_size * self.plan.size("max_completion_length"))
        yield ScheduledPhase("entropy", self._standing(self._permanent)._replace(temporary=told + hidden))

    def _backward_of(self, critic: Critic, own: int, held: int) -> Iterator[ScheduledPhase]:
        for phase in critic.phases:
            if phase.name == "backward":
                stands = self._standing(own + phase.gradients)
                temporary = phase.temporary + held
                yield ScheduledPhase(
                    f"backward of {VALUES}", stands._replace(activations=phase.activations, temporary=temporary)
                )

    def _logits(self, rows: Num) -> int:
        """Bytes of the logits of this many tokens, as the model returns them."""
        formats = numerics(precision(self.plan.precision), self.plan)
        return value_of(rows * _head(self.model).fan_out) * WIDTHS["float32" if formats.autocast else formats.weights]


class Critic:
    """A model with one output in the place of its words, which is trained without gradient checkpointing.

    Source: TRL 1.8's PolicyAndValueWrapper, which checkpoints the trained model alone.
    """

    def __init__(self, peaks: MethodPasses, run: Workload, plan: Training) -> None:
        self.plan = plan.replaced(beside="critic")
        self.run = step_run(run, self.plan).replaced(recompute="none")
        self.peaks = peaks
        _, self.states, _ = peaks.standing(self.run, self.plan)
        self.beside = peaks.beside(self.run, self.plan)

    @cached_property
    def _ran(self) -> StepMemory:
        return self.peaks.step(self.run, self.plan)

    @property
    def phases(self) -> list[Phase]:
        """Phases of its step, by itself."""
        return self.peaks.phases(self.run, self.plan, self._ran)[0]

    @property
    def saved(self) -> int:
        """Bytes that its pass saves for backward."""
        return self._ran.saved

    @property
    def gradients(self) -> int:
        """Bytes of all its gradients."""
        return bytes_in(self.states.device.gradients)

    @property
    def permanent(self) -> int:
        """Bytes of gradients that are there before backward has made any."""
        return self.gradients if stays(self.plan) else 0


def critic_of(model: Model) -> Model:
    """The model with one output in the place of its words (AutoModelForSequenceClassification). Raises InvalidModel."""
    module = model.module()
    if not (isinstance(model, HFModel) and isinstance(module, ModelWithHead) and isinstance(module.head, Linear)):
        raise InvalidModel(f"--method {PPO} of {model.summary} is not supported: no critic of its kind is known")
    head = Linear("score", module.head.fan_in, 1, kind="output")
    return model.run_by(module.replace(head=head, scales=False, capped=False, in_float32=False))


def _head(model: Model) -> Linear:
    return next(each for each in model.module().all_of() if isinstance(each, ModelWithHead)).output


def hidden_states(model: Model, run: Workload, plan: Training) -> int:
    """Bytes of each layer's input, which a caller has who asks for them (``output_hidden_states=True``)."""
    module = model.module()
    assert isinstance(module, ModelWithHead)
    layers = sum(len(each.layers) for each in module.all_of() if isinstance(each, Stack))
    width = module.output.fan_in * WIDTHS[numerics(precision(plan.precision), plan).weights]
    return value_of((layers + 1) * run.batch_size * run.seq_len * width)


def scored_alone(tree: Component, model: Model, run: Workload, plan: Training) -> int:
    """The most bytes beside the weights while a model scores the tokens of these sequences, without gradients."""
    code = code_of(plan)
    assert code.scoring is not None
    code = code._replace(scoring=code.scoring._replace(alone=True, entropy=False))
    run = run.replaced(recompute="none", dropout=False)
    running = program(model, run, numerics(precision(plan.precision), plan), *code, ends_alone=True)
    tracker = running.tape.tracker
    tracker.begin(SCORE)
    with running.tape.without_gradients():
        running(tree)
    return max(phase.total for phase in (*tracker.phases.values(), tracker.most))


def generated(tree: Component, model: Model, run: Workload, plan: Training) -> Generated:
    """Bytes that transformers' ``generate`` takes to write completions of all prompts at once. Raises InvalidModel.

    The prompts are read, each with the logits of its last token; the last token is written behind all others. Of these
    logits there are copies in fp32: as they are read, divided by the temperature, and their softmax.
    """
    from tfcalc.serving.inference import inference  # of those that ask for it

    assert isinstance(model, HFModel)
    formats = numerics(precision(plan.precision), plan)
    prompt, completion = (value_of(plan.size(name)) for name in ("max_prompt_length", "max_completion_length"))
    asked = run.replaced(batch_size=written(run, plan), recompute="none", dropout=False, logits="last")
    reads = asked.replaced(phase="prefill", seq_len=prompt, cached=None)
    writes = asked.replaced(phase="decode", seq_len=1, cached=prompt + completion)
    try:
        found = [inference(model, each, formats, tree=tree) for each in (reads, writes)]
    except InvalidModel as error:
        raise InvalidModel(error.message, "add --vllm-mode server, where other GPUs write completions") from None
    each_logit = WIDTHS["float32"] * SAMPLED / WIDTHS[formats.compute]
    sizes = [Generated(one.cache, max(one.activations, one.logits + int(each_logit * one.logits))) for one in found]
    return max(sizes, key=sum)
