"""Peaks of a model's training steps: each workload and plan runs once; what ran holds at other sizes, too.

A step is also told term by term: with closed forms, or in plain numbers, each found when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from tfcalc.backends import WITH_LOSSES, backend
from tfcalc.backends.sdpa import METAL, chosen
from tfcalc.core.component import Component, Held
from tfcalc.core.measure import params
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import Guards, formula_of, value_of
from tfcalc.defaults import resolve_checkpointing, resolve_plan, resolve_run, resolve_training
from tfcalc.errors import UsageError
from tfcalc.hardware import CONTEXT
from tfcalc.model import default_run, guarding, remembering
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.model import ModelWithHead
from tfcalc.plans import DEFAULT, DPO, EXPANDABLE, SFT, TRAINER
from tfcalc.serving.weight_formats import Format, format_named
from tfcalc.tape.memory_tracker import LENT, Found, LeafNode, MemoryTracker, PeakRecorder
from tfcalc.tape.moments import (
    Allocation,
    AllocationRecorder,
    Moments,
    Noted,
    SizedRecorder,
    SizedTracker,
    StepRecorder,
    repeated,
)
from tfcalc.tape.tape import Stepped
from tfcalc.training.adapters import TUNING, check_adapters, tuned
from tfcalc.training.allocator import AllocatorSettings, OutOfMemory, reserved
from tfcalc.training.measured import OnCard, on_card
from tfcalc.training.methods import has_reference
from tfcalc.training.optimizers import optimizer
from tfcalc.training.plan_checks import (
    check_alone,
    check_code,
    check_loops,
    check_modules_again,
    check_offloaded,
    check_plan,
    code_of,
    holds_attributes,
    known_error,
    numerics,
    piece_of,
    placement_of,
    stays,
    stored_as,
    trained,
    units,
)
from tfcalc.training.precisions import precision
from tfcalc.training.schedule import Generated, PhaseSchedule, critic_of, generated, scored_alone
from tfcalc.training.sharding import as_stored, outer_modules
from tfcalc.training.states import NOTHING, Overheads, Placed, has_large_workspaces, outputs, step_alone
from tfcalc.training.step import StepMemory, Trainer, activations, envelope, kept, step
from tfcalc.training.step_terms import (
    STEP,
    Phase,
    TrainingStep,
    alive,
    beside_of,
    buffers_of,
    by_operation,
    bytes_in,
    gradients_made,
    highest,
    phases,
    standing_of,
    states_of,
    temporaries,
)
from tfcalc.workload import AUTO

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.training.allocator import Reserved
    from tfcalc.training.megatron import FullestStage
    from tfcalc.training.step_terms import Step
    from tfcalc.workload import Workload


class ConstantTerms(NamedTuple):
    """Bytes beside those on the tape as closed forms: while forward and backward run, and all of the optimizer's step.

    There is no such step where backward takes it.
    """

    there: Polynomial
    step: Polynomial | None


def constant_terms(states: Placed, buffers: Component, plan: Training, returned: Sequence[Found]) -> ConstantTerms:
    """Return the bytes beside those on the tape as closed forms, where the model returns this."""
    gradients, base = bytes_in(states.device.gradients), sum(standing_of(states, beside_of(buffers, plan, returned)))
    there = base + (gradients if stays(plan) else 0) + bytes_in(states.gathered)
    scratch = 0 if plan.offload != "none" else bytes_in(states.step)
    step = None if plan.optimizer_in_backward else formula_of(base + gradients + scratch)
    return ConstantTerms(formula_of(there), step)


class PeakForm(NamedTuple):
    """Steps that decide as one that has run: its decisions, the resident bytes of all, and what they allocate."""

    guards: Guards
    stands: ConstantTerms
    moments: Moments
    noted: Noted
    returned: Sequence[Found]
    """What the model returns."""

    def peak(self, sizes: Mapping[str, int]) -> int | None:
        """The bytes of the peak, where letters stand for these sizes; None where something is decided otherwise."""
        return self.at(sizes) if self.guards.hold_at(sizes) else None

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes of the peak at any sizes: where something is decided otherwise, a guess."""
        running: int = self.stands.there.at(sizes) + self.moments.most(sizes)
        return running if self.stands.step is None else max(running, self.stands.step.at(sizes))

    def least(self, sizes: Mapping[str, int]) -> int:
        """Lower bound of the peak, which the states decide: of a step that decides otherwise, a guess."""
        stood: int = (self.stands.there if self.stands.step is None else self.stands.step).at(sizes)
        return stood


class AllocationForm(NamedTuple):
    """Allocations and frees of all layers, in the steps that decide as one that has run."""

    form: PeakForm
    events: Sequence[Allocation]

    def at(self, sizes: Mapping[str, int]) -> tuple[Sequence[Allocation], Sequence[Found]]:
        """Return the allocations and frees, and what the model returns, where letters stand for these sizes."""
        returned = [
            found._replace(shape=tuple(formula_of(size).at(sizes) for size in found.shape))
            for found in self.form.returned
        ]
        return self.form.moments.allocations(self.events, sizes), returned


def peak_form(whole: Model, run: Workload, plan: Training, *, ends_alone: bool = True) -> PeakForm:
    """Run a step of a plan that was resolved, with sizes that remember what is decided by them.

    Of a row of equal layers those at its ends alone run, or all.
    """
    guards, tracker = Guards(), SizedTracker()
    run = guarding(run, guards)
    model = piece_of(whole, run, plan)
    tree = tuned(model.tree(run), plan)
    stored = stored_as(model, tree)
    states, buffers = states_of(stored, stored, plan), buffers_of(tree, run, precision(plan.precision))
    ran = step_of(tree, model, run, plan, tracker, ends_alone=ends_alone)
    stood = constant_terms(states, buffers, plan, ran.returned)
    return PeakForm(guards, stood, tracker.moments, tracker.noted, ran.returned)


def training_peak(model: Model, run: Workload, plan: Training) -> int:
    """The bytes of the same peak, without what it is made of: several times as fast."""
    return Peaks(model).peak(run, plan)


Noting = TypeVar("Noting", AllocationRecorder, StepRecorder)
Key = tuple["Workload", "Training", bool]
"""What the tape sees of a run and a plan, and whether gradients stay."""


def sizeless(run: Workload, plan: Training) -> tuple[Workload, Training]:
    """Key of the steps of such a run and plan at all batch sizes and lengths."""
    return run.replaced(batch_size=1, seq_len=1), plan


LOGIT = 12
"""Bytes of a logit as backward begins: its log-softmax, the gradient of that, and its own gradient, all in fp32.

Source: ATen's ``nll_loss_backward`` and ``_log_softmax_backward_data``.
"""


class Peaks:
    """The bytes of the peaks of one model on many workloads and plans; what the tape says of each is remembered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.steps: dict[Key, StepMemory] = {}
        self.noted: dict[Key, Noted] = {}
        """What steps allocate and free."""
        self._events: dict[Key, Sequence[Allocation]] = {}
        """The same of all layers."""
        self._plans: dict[Training, Training] = {}
        """Plans as they were resolved."""
        self.states: dict[Training, Placed] = {}
        """Of each plan; no workload changes them."""
        self._params: int | None = None
        self._chosen = cache(partial(chosen, model))
        """The kernel of attention, where nobody asks for one."""
        self._trees: dict[tuple[object, ...], Component] = {}
        """What is trained of the model, by workload and by how it is tuned."""
        self._megatron: dict[tuple[Workload, Training], FullestStage] = {}
        """Steps by Megatron-LM's code."""
        self._within: dict[tuple[Workload, Training, str | bool, int], Reserved | None] = {}
        """What is reserved on a card, by its bytes."""
        self._endless: dict[tuple[Workload, Training, str | bool], Reserved] = {}
        """The same where nothing was given back, so that it is that of any card which has as much."""
        self._forms: dict[tuple[Workload, Training], list[PeakForm]] = {}
        """Steps that hold at other sizes, too: by the workload without its sizes, and by the plan."""
        self._on_tape: dict[Key, list[PeakForm]] = {}
        self._allocations: dict[Key, list[AllocationForm]] = {}
        """The same by what the tape sees of the plan, and what all layers of such steps allocate and free."""
        self._schedules: dict[tuple[Workload, Training], PhaseSchedule] = {}
        self._passes: dict[tuple[Workload, Training, bool], int] = {}
        self._generated: dict[tuple[Workload, Training], Generated] = {}
        """Of methods other than training on the next token: phases, passes that score, and completions written."""
        self._choices: dict[tuple[Workload, Training], list[tuple[Guards, str, Training]]] = {}
        """The kernel and the plan that auto stands for, where the same is decided."""

    @cached_property
    def _values(self) -> Mapping[str, Num]:
        """The value of each letter of the model."""
        return self.model.values()

    def peak(self, run: Workload, plan: Training, *, noting: bool = False) -> int:
        """The bytes of the peak; ``noting`` allocations, for who asks next what they reserve. Raises InvalidModel."""
        run, plan = self.resolved(run, plan)
        check_code(self.model, run, plan)
        if plan.method != SFT:
            return self.schedule(run, plan).peak.total
        if plan.megatron:
            return self._of_megatron(run, plan).step.peak.total
        self.check(run, plan)
        form = self._that_holds(self._known(run, plan), run)
        if form is not None:
            return form.at(self._sizes(run))
        found, _ = self.phases(run, plan, self.step(run, plan, noting=noting))
        return highest(found).total

    def checked(self, run: Workload, plan: Training) -> tuple[Workload, Training]:
        """The run and the plan with what auto stands for. Raises InvalidModel as the peak does."""
        plan = self.plan(plan)
        run = resolve_run(self.model, run, plan)  # which looks at sizes that remember what is decided by them
        check_code(self.model, run, plan)
        self.check(run, plan)
        return run, plan

    def check(self, run: Workload, plan: Training) -> None:
        """Raise InvalidModel where no step of this plan is known to the tape."""
        check_alone(self.model, plan)
        known_error(self.model)
        check_loops(self.model, run)
        check_modules_again(self.model, run, plan)
        check_offloaded(run, plan)

    def peak_of_size(self, run: Workload, plan: Training, limit: int) -> int:
        """The bytes of the peak, or of the weights or the optimizer's step where these are beyond the ``limit``.

        One step runs for all batch sizes and lengths that take the same branches. Raises InvalidModel.
        """
        if plan.megatron or plan.method != SFT:
            return self.peak(run, plan)
        weights = self.whole_weights(run, plan)
        if weights > limit:
            return weights
        run, plan, sizes = self._resolved(run, plan)
        known = self._known(run, plan)
        for found in known:
            peak = found.peak(sizes)
            if peak is not None:
                return peak
        if not known or known[-1].least(sizes) > limit:
            least = self.least(run, plan)
            if least > limit:
                return least
        self._holds(run, plan, peak_form(self.model, run, plan))
        return known[-1].at(sizes)

    def roughly(self, run: Workload, plan: Training) -> int | None:
        """The bytes of the peak, if the same were decided as in the step that ran last; None where none has."""
        if plan.method != SFT:
            return None
        run, plan, sizes = self._resolved(run, plan)
        known = self._known(run, plan)
        try:
            return known[-1].at(sizes) if known else None
        except ZeroDivisionError:  # of what would be decided otherwise
            return None

    def _known(self, run: Workload, plan: Training) -> list[PeakForm]:
        """The steps that hold at some sizes of such a run."""
        return self._forms.setdefault(sizeless(run, plan), [])

    def _resolved(self, run: Workload, plan: Training) -> tuple[Workload, Training, dict[str, int]]:
        """The run and the plan as :meth:`checked` has them, which looks at the model's parts; and all sizes."""
        run = resolve_checkpointing(self.model, run)
        sizes = self._sizes(run)
        choices = self._choices.setdefault(sizeless(run, plan), [])
        for guards, kernel, found in choices:
            if guards.hold_at(sizes):
                return run.replaced(kernel=kernel), found, sizes
        guards = Guards()
        made, found = self.checked(guarding(run, guards), plan)
        choices.append((guards, made.kernel, found))
        return run.replaced(kernel=made.kernel), found, sizes

    def _sizes(self, run: Workload) -> dict[str, int]:
        """The value of each letter of the model and of a run."""
        return {letter: value_of(size) for letter, size in {**self._values, **run.values()}.items()}

    def _that_holds(self, forms: Sequence[PeakForm], run: Workload) -> PeakForm | None:
        """One of the steps that decides as that of this run would; None if none does."""
        sizes = self._sizes(run) if forms else {}
        return next((form for form in forms if form.guards.hold_at(sizes)), None)

    def _seen_alike(self, run: Workload, plan: Training) -> PeakForm | None:
        """A step that decides as that of this run would, by a plan in which the tape sees the same."""
        return self._that_holds(self._on_tape.get(self.key(*sizeless(run, plan)), ()), run)

    def schedule(self, run: Workload, plan: Training) -> PhaseSchedule:
        """The phases of a step by a method other than training on the next token, of what is resolved."""
        self.check(run, plan)
        if (run, plan) not in self._schedules:
            self._schedules[run, plan] = PhaseSchedule(self, run, plan)
        return self._schedules[run, plan]

    @cached_property
    def critic(self) -> Peaks:
        """Peaks of the critic that is trained beside the model."""
        return Peaks(critic_of(self.model))

    def scored(self, run: Workload, plan: Training, *, adapted: bool) -> int:
        """Bytes of a pass that scores the tokens of a training step, by the trained model or the reference."""
        key = run, self.key(run, plan)[1], adapted
        if key not in self._passes:
            tree = self.tree(run, plan) if adapted else self.model.tree(run)
            self._passes[key] = scored_alone(tree, self.model, run, plan)
        return self._passes[key]

    def generated(self, run: Workload, plan: Training) -> Generated:
        """Bytes that it takes to write the completions of a step with the trained model itself."""
        key = run, self.key(run, plan)[1].replaced(grad_accum=plan.grad_accum, gpus=plan.gpus)
        if key not in self._generated:
            self._generated[key] = generated(self.tree(run, plan), self.model, run, plan)
        return self._generated[key]

    def beside(self, run: Workload, plan: Training) -> Overheads:
        """Overheads beside the states, of a loop that frees what the model returns."""
        return beside_of(self.standing(run, plan)[-1], plan, ())

    def phases(self, run: Workload, plan: Training, ran: StepMemory) -> tuple[list[Phase], Overheads]:
        """Phases of a step that ran, and the overheads beside the states."""
        _, states, buffers = self.standing(run, plan)
        beside = beside_of(buffers, plan, ran.returned)
        return phases_of(plan, states, beside, ran), beside

    def step(self, run: Workload, plan: Training, *, noting: bool = False) -> StepMemory:
        """The step of a run and a plan that were checked, which runs once; ``noting`` its allocations or not."""
        key = self.key(run, plan)
        if key[-1] and not noting and key not in self.steps:
            self._told_by((*key[:-1], False), key)
        if noting and key not in self.noted and (key not in self.steps or self._seen_alike(run, plan) is None):
            self._runs(run, plan, AllocationRecorder())
        elif key not in self.steps:
            self.steps[key] = step_of(self.tree(run, plan), piece_of(self.model, run, plan), run, plan)
        return self.steps[key]

    def recorded(self, run: Workload, plan: Training) -> StepRecorder:
        """The step of a run and a plan that were checked, with every tensor that is live at its peak."""
        return self._runs(run, plan, StepRecorder())

    def _runs(self, run: Workload, plan: Training, recorder: Noting) -> Noting:
        """Run a step that notes its allocations, and remember it."""
        key = self.key(run, plan)
        self.steps[key] = step_of(self.tree(run, plan), piece_of(self.model, run, plan), run, plan, recorder)
        self.noted[key] = recorder.noted
        return recorder

    def _told_by(self, other: Key, key: Key) -> None:
        """A step whose gradients do not stay says what is live where they do."""
        ran = self.steps.get(other)
        if ran is not None and ran.apart is not None:
            self.steps[key] = ran._replace(phases=ran.apart)

    def key(self, run: Workload, plan: Training) -> Key:
        """Key of a run and a plan by what the tape sees of them."""
        return run, plan.replaced(**off_tape(plan)), stays(plan)

    def knows(self, run: Workload, plan: Training, ran: StepMemory, form: PeakForm) -> None:
        """Record a step of a resolved run and plan that has run, and holds at other sizes, too."""
        self.steps[self.key(run, plan)] = ran
        self._holds(run, plan, form)

    def _holds(self, run: Workload, plan: Training, form: PeakForm) -> None:
        self._known(run, plan).append(form)
        self._on_tape.setdefault(self.key(*sizeless(run, plan)), []).append(form)

    def whole_weights(self, _run: Workload, plan: Training) -> int:
        """The least bytes of all weights, where each device has them whole: no peak is below, and no tree is built."""
        if plan.zero == "3" or plan.tensor_parallel != 1 or plan.megatron:
            return 0
        plan = self.plan(plan)
        if self._params is None:
            self._params = value_of(self.model.tree(default_run(self.model)).total(params))
        bits = precision(plan.precision).weights
        if plan.base_weights:
            stored = format_named(plan.base_weights)
            bits = min(bits, stored.least_bits) if isinstance(stored, Format) else 0
        return self._params * bits // 8

    def resolved(self, run: Workload, plan: Training) -> tuple[Workload, Training]:
        """Return the run and the plan, with all that was left open decided. Raises InvalidModel."""
        plan = self.plan(plan)
        return resolve_run(self.model, run, plan, self._chosen), plan

    def plan(self, plan: Training) -> Training:
        """The plan with all that was left open, which is resolved once. Raises InvalidModel."""
        if plan not in self._plans:
            self._plans[plan] = found = resolve_plan(self.model, plan)
            self._plans[found] = found
        return self._plans[plan]

    def possible(self, run: Workload, plan: Training) -> int:
        """The least that can be said of the peak: 0, where a step of this plan is known at all. Raises InvalidModel."""
        run, plan = self.resolved(run, plan)
        check_plan(plan)
        check_code(self.model, run, plan)
        if not plan.megatron:
            self.check(run, plan)
        return 0

    def least(self, run: Workload, plan: Training) -> int:
        """The bytes of the optimizer's step alone, which no peak is below: nothing runs on a tape for it.

        Where backward takes it, those of the states.
        """
        run, plan = self.resolved(run, plan)
        check_code(self.model, run, plan)
        if plan.megatron:
            return self._of_megatron(run, plan).step.peak.total
        if plan.method != SFT:
            return self.schedule(run, plan).least
        _, states, buffers = self.standing(run, plan)
        if plan.optimizer_in_backward:
            return sum(standing_of(states, Overheads(buffers)))
        return highest(phases_of(plan, states, Overheads(buffers), StepMemory({}, 0))).total

    def least_with_logits(self, run: Workload, plan: Training) -> int:
        """The bytes of the states and of all logits as backward begins, which no peak is below.

        Nothing runs on a tape for it. 0 where a loss in tiles, other code or several GPUs need fewer at once.
        """
        run, plan = self.resolved(run, plan)
        module = self.model.module()
        plain = (
            plan.method == SFT
            and WITH_LOSSES in backend(plan.backend).compared
            and plan.loss in (AUTO, "logits")
            and not plan.compile
        )
        if not (plain and isinstance(module, ModelWithHead) and module.upcasts and plan.tensor_parallel == 1):
            return 0
        _, states, buffers = self.standing(run, plan)
        tokens = value_of(run.batch_size) * (value_of(run.seq_len) - 1)
        logits = tokens * value_of(module.output.fan_out) * LOGIT
        return sum(standing_of(states, Overheads(buffers))) + logits

    def reserved_within(self, run: Workload, plan: Training, memory: int) -> Reserved | None:
        """Memory that the caching allocator reserves for it on a card with ``memory`` bytes; None if it runs out."""
        run, plan = self.resolved(run, plan)
        of_gpu = plan.capability if plan.capability == METAL else has_large_workspaces(plan.capability)
        step = run, plan.replaced(capability=""), of_gpu  # of the GPU nothing else is allocated
        endless = self._endless.get(step)
        if endless is not None and endless.reserved <= memory:
            return endless
        asked = *step, memory
        if asked not in self._within:
            try:
                self._within[asked] = found = self.reserved(run, plan, memory)
                if not found.given_back:
                    self._endless[step] = found
            except OutOfMemory:
                self._within[asked] = None
        return self._within[asked]

    def reserved(self, run: Workload, plan: Training, limit: int | None = None) -> Reserved:
        """Memory that the caching allocator reserves for it, where the card has ``limit`` bytes. Raises OutOfMemory."""
        run, plan = self.resolved(run, plan)
        if plan.megatron:
            return self._of_megatron(run, plan).reserved(limit)
        _, states, buffers = self.standing(run, plan)
        events, returned = self.allocated(run, plan)
        if plan.offload != "none":
            states = states._replace(step=Component("step", "memory"))
        beside = beside_of(buffers, plan, returned)
        return reserved(
            states,
            beside,
            events,
            AllocatorSettings(limit=limit, expandable_segments=plan.alloc_conf == EXPANDABLE),
            gradients_resident=stays(plan),
        )

    def allocated(self, run: Workload, plan: Training) -> tuple[Sequence[Allocation], Sequence[Found]]:
        """Allocations and frees of all layers in a step, and what the model returns; a step that holds here says it."""
        found, sizes = self._allocations.setdefault(self.key(*sizeless(run, plan)), []), self._sizes(run)
        for each in found:
            if each.form.guards.hold_at(sizes):
                return each.at(sizes)
        form = self._seen_alike(run, plan)
        if form is not None:
            events = repeated(form.noted.events, form.noted.spans)
            if events is None:  # then all layers have to run
                form = peak_form(self.model, run, plan, ends_alone=False)
                events = form.noted.events
            found.append(AllocationForm(form, events))
            return found[-1].at(sizes)
        return self._all_events(run, plan), self.step(run, plan).returned

    def _all_events(self, run: Workload, plan: Training) -> Sequence[Allocation]:
        """Allocations and frees of all layers in a step of its own."""
        key = self.key(run, plan)
        if key not in self._events:
            self.step(run, plan, noting=True)
            events = repeated(self.noted[key].events, self.noted[key].spans)
            if events is None:
                recorder, tree = AllocationRecorder(), self.tree(run, plan)
                step_of(tree, piece_of(self.model, run, plan), run, plan, recorder, ends_alone=False)
                events = recorder.noted.events
            self._events[key] = events
        return self._events[key]

    def _of_megatron(self, run: Workload, plan: Training) -> FullestStage:
        """The step by Megatron-LM's code, of a run and a plan that are resolved; it is found once."""
        if (run, plan) not in self._megatron:
            self._megatron[run, plan] = of_megatron(self.model, run, plan)
        return self._megatron[run, plan]

    def on_card(self, run: Workload, plan: Training, allocated: int) -> OnCard:
        """Return the figures that a card shows of a step whose peak is known."""
        return on_card(allocated, self.reserved(run, plan).reserved, CONTEXT, megatron=plan.megatron)

    def events_of(self, run: Workload, plan: Training) -> int:
        """Number of allocations and frees in a step, of a run and a plan that are resolved."""
        form = self._seen_alike(run, plan)
        if form is not None:
            return form.noted.length
        self.step(run, plan, noting=True)
        return self.noted[self.key(run, plan)].length

    def made(self, run: Workload, plan: Training) -> tuple[int, int]:
        """Number of allocations and frees in a step, and bytes of all that is allocated; of what is resolved."""
        events, _ = self.allocated(run, plan)
        return len(events), sum(size for _, size, _ in events)

    def standing(self, run: Workload, plan: Training) -> tuple[Component, Placed, Component]:
        """The tree of what is trained, the states, and the buffers: nothing runs for them."""
        sized, of_any_gpu = self.tree(run, plan), plan.replaced(capability="")
        if of_any_gpu not in self.states:
            stored = stored_as(self.model, sized)
            self.states[of_any_gpu] = states_of(stored, stored, of_any_gpu)
        return sized, self.states[of_any_gpu], buffers_of(sized, run, precision(plan.precision))

    def tree(self, run: Workload, plan: Training) -> Component:
        """Tree with what is trained of the model, or of the piece of it that a device has. Raises InvalidModel."""
        check_plan(plan)
        check_adapters(plan)
        asked = run, *(getattr(plan, name) for name in OF_TREE)
        if asked not in self._trees:
            self._trees[asked] = tuned(piece_of(self.model, run, plan).tree(run), plan)
        return self._trees[asked]


_SHARED: ContextVar[dict[Model, Peaks] | None] = ContextVar("shared", default=None)


@contextmanager
def peaks_shared(known: dict[Model, Peaks] | None = None) -> Iterator[None]:
    """Let the answers that are found within know each other's steps, where they are about the same model.

    They are forgotten at the end, as those of a model that is asked about for hours would be too many; but for those
    that are ``known``, to which they are added.
    """
    before = _SHARED.set(known if known is not None else {} if _SHARED.get() is None else _SHARED.get())
    try:
        yield
    finally:
        _SHARED.reset(before)


def peaks_of(model: Model) -> Peaks:
    """The peaks of a model: those that other answers share, where they do."""
    known = _SHARED.get()
    return Peaks(model) if known is None else known.setdefault(model, Peaks(model))


def of_megatron(model: Model, run: Workload, plan: Training) -> FullestStage:
    """The step by Megatron-LM's code, on the stage that holds most."""
    from tfcalc.training.megatron import fullest_stage  # a description of its own, which few ask for

    return fullest_stage(model, run, plan)


ON_HOST = {
    **{"optimizer": "none", "offload": "none", "grad_accum": 1, "capability": "", "loop": TRAINER},
    "alloc_conf": DEFAULT,
}
OFF_TAPE = {**ON_HOST, "zero": "0", "gpus": None, "layout": "flat"}
"""Fields of a plan that decide on the states alone, once it is known whether gradients stay; the former with FSDP."""


OF_TREE = (*TUNING, "tensor_parallel", "sequence_parallel")
"""Those that decide what of the model is trained, and which piece of it a device has."""


def off_tape(plan: Training) -> dict[str, object]:
    """Fields of the plan that are off the tape, at their defaults.

    The optimizer is on it where it runs in backward, and the loop where it holds what backward has not freed.
    """
    by_units = placement_of(plan).by_units
    fields = {**ON_HOST, "offload": "all" if plan.offload == "all" else "none"} if by_units else OFF_TAPE
    seen = {"optimizer"} if plan.optimizer_in_backward else set()
    seen |= {"loop"} if holds_attributes(plan) else set()
    return {name: value for name, value in fields.items() if name not in seen}


def stepped(tree: Component, plan: Training) -> Stepped | None:
    """Return the tensors that the step of a parameter needs, as a function of the parameter, if it is in backward."""
    if not plan.optimizer_in_backward:
        return None
    by, chosen, outer = precision(plan.precision), optimizer(plan.optimizer), outer_modules(tree)

    def needed(leaf: LeafNode) -> tuple[Held, ...]:
        return step_alone(as_stored(leaf.name, leaf.shape or (), outer), by, chosen)

    return needed


def step_of(
    tree: Component,
    model: Model,
    run: Workload,
    plan: Training,
    tracker: MemoryTracker | None = None,
    *,
    ends_alone: bool = True,
) -> StepMemory:
    """The step on a tape; in that of DPO the reference model scores the same sequences, before the loss."""
    formats, code = numerics(precision(plan.precision), plan), code_of(plan)
    if plan.method == DPO and has_reference(plan) and code.scoring is not None:
        code = code._replace(scoring=code.scoring._replace(beside=scored_alone(model.tree(run), model, run, plan)))
    return step(tree, model, run, formats, code, trainer_of(tree, plan), tracker, ends_alone=ends_alone)


def trainer_of(tree: Component, plan: Training) -> Trainer:
    """Return the trainer by the plan: its gradients, what is saved, and weights that are elsewhere."""
    return Trainer(not stays(plan), stepped(tree, plan), plan.offload_activations, units(tree, plan))


def phases_of(plan: Training, states: Placed, beside: Overheads, ran: StepMemory) -> list[Phase]:
    """Phases of what ran on the tape, over the resident bytes."""
    scratch = 0 if plan.offload != "none" else bytes_in(states.step)
    gathered, gradients = bytes_in(states.gathered), bytes_in(states.device.gradients)
    standing = standing_of(states, beside)
    there, in_backward = stays(plan), plan.optimizer_in_backward
    return phases(standing, gradients, ran.phases, gathered, scratch, gradients_resident=there, stepped=in_backward)


def training_step(model: Model, run: Workload, plan: Training, peaks: Peaks | None = None) -> TrainingStep:
    """Find the peak of a training step, and tell the ``peaks`` of the model what has run. Raises InvalidModel.

    The states are those of the plan. What is saved, and what is live beside it, is that of the implementation's code,
    run on a tape; sizes remember their formulas, so that all but the temporary has a closed form.
    """
    run, plan = resolve_training(model, run, plan) if peaks is None else peaks.resolved(run, plan)
    check_code(model, run, plan)
    if plan.megatron:
        return of_megatron(model, run, plan).step
    check_step(model, run, plan)
    by = precision(plan.precision)
    guards, recorder = Guards(), SizedRecorder()
    run_ = guarding(run, guards)
    model_ = piece_of(remembering(model), run_, plan)
    model = piece_of(model, run, plan)
    sized = trained(model.tree(run), plan)
    tree = trained(model_.tree(run_), plan)
    states = states_of(stored_as(model, tree), stored_as(model, sized), plan)
    ran, buffers = step_of(tree, model_, run_, plan, recorder), buffers_of(tree, run_, by)
    stood = constant_terms(states, buffers, plan, ran.returned)
    guards.close()
    if peaks is not None:
        peaks.knows(run, plan, ran, PeakForm(guards, stood, recorder.moments, recorder.noted, ran.returned))
    saved, on_host = saved_of(tree, model_, run_, plan)
    beside = beside_of(buffers, plan, ran.returned)
    found = phases_of(plan, states, beside, ran)
    peak = highest(found)
    states, live, passing = at_peak(recorder, plan, states, saved, beside, peak)
    logits = bytes_in(outputs(ran.returned))
    return TrainingStep(live, found, peak, saved, states, beside, passing, on_host, logits)


class AtPeak(NamedTuple):
    """Memory at the peak of a step: the states with what is gathered then, all that is live, and the temporary part."""

    states: Placed
    alive: Component
    passing: Component


def at_peak(
    recorder: PeakRecorder, plan: Training, states: Placed, saved: Component, beside: Overheads, peak: Phase
) -> AtPeak:
    """Return what is live at the peak of a step, tensor by tensor, as the recorder of its run has it."""
    placement = placement_of(plan)
    passing = states.step if peak.name == STEP else temporaries(recorder, peak)
    gradients = gradients_made(states, (peak,))
    if plan.optimizer_in_backward:
        gradients = Component("gradients", "memory", parts=tuple(by_operation(recorder.gradients_at(peak.name))))
    if placement.stage == 3 and not peak.gathered:
        states = states._replace(gathered=Component("gathered", "memory"))
    elif placement.by_units:
        states = states._replace(gathered=_gathered(recorder, peak))
    return AtPeak(states, alive(states, gradients, saved, beside, passing, peak), passing)


def check_step(model: Model, run: Workload, plan: Training) -> None:
    """Raise InvalidModel or UsageError where no step of this plan is known to the tape."""
    check_alone(model, plan)
    known_error(model)
    check_loops(model, run)
    check_modules_again(model, run, plan)
    check_offloaded(run, plan)


def saved_of(tree: Component, model: Model, run: Workload, plan: Training) -> tuple[Component, Component]:
    """Tensors that forward saves for backward: on the device, and in the host's memory."""
    modules = {node.component.name: node.component.kind for node in tree.walk()}
    needed = kept(tree, model, run, numerics(precision(plan.precision), plan), code_of(plan), trainer_of(tree, plan))
    on_device, on_host = ([each for each in needed if each.on_host == hosted] for hosted in (False, True))
    return activations(on_device, modules), activations(on_host, modules)


def live_bytes(model: Model, run: Workload, plan: Training) -> list[Polynomial]:
    """Closed forms of all that may be the peak of a step of this run, in its sizes, which remember what they are."""
    run, plan = resolve_training(model, run, plan)
    check_code(model, run, plan)
    if plan.megatron:
        raise UsageError("a sweep of training memory runs no Megatron-LM", "leave --backend megatron out")
    if plan.method != SFT:
        raise UsageError(f"a sweep of training memory has no phases of {plan.method}", "ask memory for each size")
    check_step(model, run, plan)
    model = piece_of(model, run, plan)
    sized = trained(model.tree(run), plan)
    stored = stored_as(model, sized)
    states, buffers = states_of(stored, stored, plan), buffers_of(sized, run, precision(plan.precision))
    formats = numerics(precision(plan.precision), plan)
    moments, returned = envelope(sized, model, run, formats, code_of(plan), trainer_of(sized, plan))
    there, step = constant_terms(states, buffers, plan, returned)
    forms = [there + each for each in moments]
    return forms if step is None else [*forms, step]


def _gathered(recorder: PeakRecorder, peak: Phase) -> Component:
    """Tensors live at the peak for other devices' sake."""
    parts = by_operation(one for one in recorder.passing(peak.name) if one.label in LENT)
    return Component("gathered", "memory", parts=tuple(parts))


class TrainingNumbers:
    """A step like that of :func:`~tfcalc.training.peaks.training_step`, several times as fast.

    For the states nothing runs; for the peak a step does, and for what is saved a layer of each kind. Raises
    InvalidModel.
    """

    def __init__(self, model: Model, run: Workload, plan: Training, peaks: Peaks) -> None:
        self.model, self.run, self.plan = model, run, plan
        self.peaks = peaks
        check_step(model, run, plan)

    @property
    def placed(self) -> Placed:
        """The states."""
        return self._standing[1]

    @cached_property
    def alive(self) -> Component:
        """Memory live at the peak, term by term; for this a step runs that lists its tensors."""
        recorder = self.peaks.recorded(self.run, self.plan)
        return at_peak(recorder, self.plan, self.placed, self.saved, self.beside, self.peak).alive

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        return highest(self.phases)

    @property
    def phases(self) -> list[Phase]:
        """Phases of the step, all of them."""
        return self._phases[0]

    @property
    def beside(self) -> Overheads:
        """Overheads beside the states."""
        return self._phases[1]

    @property
    def saved(self) -> Component:
        """Tensors saved for backward."""
        return self._saved[0]

    @property
    def saved_on_host(self) -> Component:
        """Tensors saved for backward in the host's memory."""
        return self._saved[1] if self.plan.offload_activations else NOTHING

    @property
    def logits(self) -> int:
        """The bytes of those that the model returns."""
        return bytes_in(outputs(self._ran.returned))

    @cached_property
    def _standing(self) -> tuple[Component, Placed, Component]:
        return self.peaks.standing(self.run, self.plan)

    @property
    def _ran(self) -> StepMemory:
        return self.peaks.step(self.run, self.plan, noting=True)

    @cached_property
    def _phases(self) -> tuple[list[Phase], Overheads]:
        return self.peaks.phases(self.run, self.plan, self._ran)

    @cached_property
    def _saved(self) -> tuple[Component, Component]:
        piece = piece_of(self.model, self.run, self.plan)
        return saved_of(self._standing[0], piece, self.run, self.plan)


def training_numbers(model: Model, run: Workload, plan: Training, peaks: Peaks) -> Step:
    """The numbers of a step, whose allocations are noted when it runs. Raises InvalidModel."""
    run, plan = peaks.resolved(run, plan)
    check_code(model, run, plan)
    if plan.megatron:
        return of_megatron(model, run, plan).step
    return TrainingNumbers(model, run, plan, peaks)
