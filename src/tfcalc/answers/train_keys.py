"""Keys of a training run on GPUs of one kind: FLOPs and seconds of a step, hours, the cost; and its row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.answers.conventions_text import PAIRS
from tfcalc.answers.fit import VerdictKeys, name_of
from tfcalc.answers.question import Question
from tfcalc.core.traced import value_of
from tfcalc.hardware import GIGA, TERA
from tfcalc.plans import SFT, Training
from tfcalc.report.declared import Told, When, integer, number, text
from tfcalc.report.opening import Constant, found, given, ratio, total
from tfcalc.report.sheet import NOT_YET, Cell, InUnit, of
from tfcalc.timing.estimate import CODE
from tfcalc.timing.rates import machine_of
from tfcalc.timing.step import MEANINGS, StepParts
from tfcalc.units import rounded
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.answers.train_run import RunOnCard
    from tfcalc.report.declared import Key
    from tfcalc.report.opening import Way

ERROR = "the error that nine of ten runs were within"
AN_HOUR = Constant(3600, "seconds of an hour")
FLOOR = When(lambda one: one.floor, "floor_hours")
TIMED = When(lambda one: one.seconds_of_step is not None, "step_seconds", mutual=True)
BANDED = When(lambda one: one.banded, "step_seconds_low", mutual=True)
UTILISED = When(lambda one: one.seconds_of_step is not None and one.floor, "mfu")
PRICED = When(lambda one: one.seconds_of_step is not None and one.price is not None, "cost")
AT_A_PRICE = When(lambda one: one.price is not None and (one.floor or one.seconds_of_step), "price_per_gpu_hour")
FLOOR_PRICED = When(lambda one: one.price is not None and one.floor, "floor_cost")


class RunKeys(VerdictKeys):
    """A run on GPUs of one kind."""

    tokens_per_step = integer(
        "tokens of an optimizer's step", lambda one: one.tokens_of_step, found("batch, length, accumulation, copies")
    )
    step_flops = number(
        "FLOPs of an optimizer's step, of all GPUs, nothing recomputed; with passes that write and score completions",
        lambda one: one.flops_per_step,
        Told(lambda one: _of_flops(one.source)),
    )
    floor_hours = number(
        "hours that no run is below: model FLOPs over the dense peak; of GRPO no less than its weights take to be read",
        lambda one: one.hours(one.floor),
        Told(lambda one: _at_the_peak(one.source)),
        when=FLOOR,
    )
    floor_cost = number(
        "US dollars that no run is below",
        lambda one: one.cost(one.floor),
        ratio(".floor_hours", ".gpus", ".price_per_gpu_hour"),
        when=FLOOR_PRICED,
    )
    step_seconds = number(
        "seconds of a step", lambda one: one.seconds_of_step, Told(lambda one: _of_seconds(one.source)), when=TIMED
    )
    tokens_per_second = number(
        "tokens per second of all GPUs",
        lambda one: one.tokens_of_step / one.seconds_of_step,
        ratio(".tokens_per_step", over=(".step_seconds",)),
        when=TIMED,
    )
    mfu = number(
        "model FLOPs utilisation: all pairs of attention, or those of --attention, nothing recomputed",
        lambda one: one.at_the_peak / one.seconds_of_step,
        found("model FLOPs of a step over the peak of all GPUs and its seconds, as flops --mfu counts them"),
        when=UTILISED,
    )
    hours = number(
        "hours of the run",
        lambda one: one.duration,
        Told(lambda one: ratio(Constant(one.source.steps, "steps"), ".step_seconds", over=(AN_HOUR,))),
        when=TIMED,
    )
    gpu_hours = number("hours of the run, of all GPUs", lambda one: one.gpu_hours, ratio(".hours", ".gpus"), when=TIMED)
    step_seconds_low = number(
        "lower end of the band",
        lambda one: one.estimate.low,
        Told(lambda one: ratio(".step_seconds", over=(Constant(1 + one.source.estimate.band.most, f"1 + {ERROR}"),))),
        when=BANDED,
    )
    step_seconds_high = number(
        "upper end of the band",
        lambda one: one.estimate.high,
        Told(lambda one: ratio(".step_seconds", over=(Constant(1 - one.source.estimate.band.most, f"1 - {ERROR}"),))),
        when=BANDED,
    )
    hours_low = number(
        "lower end of the hours",
        lambda one: one.hours_low,
        ratio(".hours", ".step_seconds_low", over=(".step_seconds",)),
        when=BANDED,
    )
    hours_high = number(
        "upper end of the hours",
        lambda one: one.hours_high,
        ratio(".hours", ".step_seconds_high", over=(".step_seconds",)),
        when=BANDED,
    )
    cost = number(
        "US dollars of the run",
        lambda one: one.cost(one.seconds_of_step),
        ratio(".gpu_hours", ".price_per_gpu_hour"),
        when=PRICED,
    )
    price_per_gpu_hour = number(
        "US dollars for a GPU and an hour",
        lambda one: one.price.typical,
        Told(lambda one: given(one.source.price.origin)),
        when=AT_A_PRICE,
    )
    price_source = text("where the price is from", lambda one: one.price.origin, when=AT_A_PRICE)


def _at_the_peak(one: RunOnCard) -> Way:
    """Origin of the hours of the floor: FLOPs over those of a second; of GRPO its weights are read, too."""
    if one.floor != one.computing:
        return found(
            "FLOPs of the run, nothing recomputed, over the peak of all GPUs; and what reading the weights for each "
            "token of a completion takes beyond them"
        )
    return ratio(Constant(one.steps, "steps"), ".step_flops", over=(_peak(one, one.fastest_flops), ".gpus", AN_HOUR))


def _peak(one: RunOnCard, flops: float) -> Constant:
    return Constant(flops, f"dense FLOPs of the {one.accelerator.name} in a second")


def _of_flops(one: RunOnCard) -> Way:
    """Origin of a step's FLOPs: those of its sequences, matrix by matrix, where no method has passes of its own."""
    run, plan = one.ran
    if plan.method != SFT:
        return found("matrix products of visible pairs: forward and backward, and further forward passes of the method")
    length, sequences, model = value_of(run.seq_len), one.sequences_per_step, one.question.model
    step = Workload(seq_len=length, batch_size=sequences, phase="train", attention="causal", recompute="none")
    trained = Training(lora=plan.lora, lora_targets=plan.lora_targets, dora=plan.dora, freeze=plan.freeze)
    called = f"{model.summary}, a step of {sequences:,} x {length:,} tokens, visible pairs, nothing recomputed"
    return Question("flops", model, step, training=trained, called=called).number()


def _of_seconds(one: RunOnCard) -> Way:
    """Origin of a step's seconds: a speed that was said, or what each part of it takes by the rates."""
    pace = one.question.pace
    if pace.step_time is not None:
        return given("given by --step-time")
    if pace.tokens_per_second is not None:
        return ratio(".tokens_per_step", over=(Constant(pace.tokens_per_second, "given by --tokens-per-second"),))
    if pace.mfu is not None:
        counted = Constant(one.flops_of_mfu, f"FLOPs of a step, {PAIRS[one.question.pairs]}")
        if one.at_a_share(pace.mfu) != one.at_the_peak / pace.mfu:
            return found("by --mfu, and the weights that are read for each token of a completion")
        return ratio(counted, over=(_peak(one, one.peak_flops), ".gpus", Constant(pace.mfu, "given by --mfu")))
    assert one.parts is not None
    whose = f"by rates of {CODE[one.code]}" if one.question.rates is None else f"by {one.question.rates.words}"
    rates = _rates_in_words(one)
    parts = [
        Constant(seconds, MEANINGS[name] + rates.get(name, ""))
        for name, seconds in one.parts._asdict().items()
        if seconds
    ]
    if one.parts.seconds != one.seconds_of_step:
        return found(f"{whose}, with the passes of the method")
    return total(*parts)._replace(note=f"seconds {whose}")


def _rates_in_words(one: RunOnCard) -> Mapping[str, str]:
    """The rates by which parts of a step's seconds are made, by the parts' names."""
    rates, machine = one.rates, machine_of(one.accelerator)
    assert machine is not None
    peak, memory = (
        f"{machine.peak / TERA:.4g} TFLOP/s",
        f"{_percent(rates.memory)} of {machine.bandwidth / TERA:.3g} TB/s",
    )
    moved, host = f"{rates.elementwise:.3g} times what fused kernels move", ""
    if one.taped and one.tape is not None:
        written = one.tape.written * value_of(one.ran[1].grad_accum)
        moved = f"{rates.written:.3g} times {written / GIGA:.3g} GB, which is all tensors that are made"
        host = f"{rates.call / MICRO:.3g} µs for each tensor made or freed, where that is longer"
    eager = f"by products at {_percent(rates.eager * rates.product)} of {peak}"
    flash = f"at {_percent(rates.flash_forward)} of {peak} in forward, {_percent(rates.flash_backward)} in backward"
    told = StepParts(
        products=f"at {_percent(rates.product)} of {peak} where they are large",
        attention=eager if rates.eager_attention else flash,
        experts=f"at {_percent(rates.expert_rate * rates.product)} of {peak} with many rows each",
        elementwise=f"{moved}, at {memory}",
        host=host,
        recomputation="by the same rates as forward",
        tensor_parallel=f"{_percent(rates.tensor)} of them",
        context_parallel="",
        expert_parallel=f"{_percent(rates.experts)} of them",
        bubble="",
        data_parallel=f"behind {_percent(rates.hidden)} of a pass",
        optimizer=f"its bytes at {memory}, and {rates.optimizer / MILLI:.3g} ms",
        jitter=f"{_percent(rates.jitter)} for each doubling beyond 8",
    )
    return {name: f": {rate}" for name, rate in told._asdict().items() if rate}


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


MILLI, MICRO = 1e-3, 1e-6


def row_as_asked(one: RunOnCard, *at: Key[Any] | int) -> list[Cell]:
    """Return the row of the run as it was asked for, before it is known what makes it fit."""
    peak = _peak_of(one.judge.report.answer, *at)
    return [name_of(one, one.card.gpus), NOT_YET, peak, NOT_YET, NOT_YET, NOT_YET]


def _peak_of(size: int, *at: Key[Any] | int) -> Cell:
    """The cell of a peak, which is the number at these keys of the answer, where it is there."""
    return of(InUnit(size, "GiB"), *at, RunKeys.peak_bytes) if at else InUnit(size, "GiB")


def row(one: RunOnCard, *at: Key[Any] | int) -> list[Cell]:
    """Return the row of a table for the run at these keys of the answer."""
    seconds, peak = one.seconds_of_step, _peak_of(one.peak, *at)
    if seconds is None:
        floor = f"> {rounded(one.hours(one.floor))}" if one.floor else None
        least = f"> {rounded(one.cost(one.floor))}" if one.floor and one.price else None
        hours, money = of(floor, *at, RunKeys.floor_hours), of(least, *at, RunKeys.floor_cost)
        return [name_of(one), one.flags, peak, None, hours, money]
    hours = one.hours(seconds)
    money = rounded(one.cost(seconds)) if one.price else None
    return [
        name_of(one),
        one.flags,
        peak,
        of(f"{one.tokens_of_step / seconds:,.0f}", *at, RunKeys.tokens_per_second),
        of(rounded(hours), *at, RunKeys.hours),
        of(money, *at, RunKeys.cost),
    ]
