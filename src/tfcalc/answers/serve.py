"""A served model: what fits, how long a token and the first one take at least, an estimate of both, and the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from tfcalc.analysis.common import model_of
from tfcalc.answers.serve_case import DOES_NOT_FIT, ServeCase, ServedAt
from tfcalc.answers.serve_in_words import ServeAnswer, check_rate, why_unknown
from tfcalc.answers.serve_keys import (
    CURVE,
    CURVE_OF_FLOORS,
    GIVEN,
    MILLI,
    CalibrationKeys,
    DeploymentKeys,
    EstimateKeys,
    ExactKeys,
    FloorKeys,
    PointKeys,
    SloKeys,
    TrafficKeys,
)
from tfcalc.answers.serve_notes import notes
from tfcalc.answers.serve_question import ENGINE, INPUT, OUTPUT, Limits, ServeQuestion, card_of, sharing_of
from tfcalc.answers.serve_search import arriving
from tfcalc.answers.serve_search import fewest as fewest_of
from tfcalc.dimensions import check_size
from tfcalc.errors import UsageError
from tfcalc.hardware import parse_gpu
from tfcalc.plans import Serving
from tfcalc.report.chart import Chart, Curve
from tfcalc.report.declared import When, optional, optional_number, optional_record, record, records, text, texts
from tfcalc.report.opening import Constant, found, given, ratio
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short, of
from tfcalc.serving.engine_rules import engine as engine_named
from tfcalc.timing.estimate import HOURS_OF_A_MONTH
from tfcalc.timing.rates import NO_PRICES
from tfcalc.timing.served import Disaggregated, Draft, Load

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.timing.rates import Price
    from tfcalc.timing.served_runs import ServedRuns

HAS_LIMITS = When(lambda answer: answer.promise is not None, "slo")
HAS_CURVE = When(lambda answer: answer.question.curve and answer.holds, "curve")


class Serve(ServeAnswer):
    """A served model on GPUs that were named."""

    form: ClassVar[str] = "a model that writes text"

    deployment = record(DeploymentKeys, "GPUs, engine, formats", lambda answer: answer.case)
    traffic = record(TrafficKeys, "the requests", lambda answer: answer.question.load)
    exact = record(
        ExactKeys, "bytes and FLOPs of one GPU, of a step those of a GPU of each stage", lambda answer: answer.case
    )
    floor = record(FloorKeys, "what no run is faster than", lambda answer: answer.case.at)
    estimate = optional_record(
        EstimateKeys, "by rates of published runs; null where none are known", lambda answer: answer.case.estimated
    )
    no_estimate = text("why nothing is estimated; empty where it is", lambda answer: why_unknown(answer.case))
    calibration = optional_record(
        CalibrationKeys,
        "runs behind the estimate; null without one",
        lambda answer: answer.case if answer.case.by else None,
    )
    slo = record(SloKeys, "the limits that were given", lambda answer: answer.promise, when=HAS_LIMITS)
    curve = records(PointKeys, "at other numbers of requests", lambda answer: answer.points, when=HAS_CURVE)
    requests_per_second = optional_number(
        "requests that come each second; null where the number at once was given",
        lambda answer: answer.question.rate or None,
        GIVEN,
    )
    price_per_gpu_hour = optional_number(
        "US dollars for a GPU and an hour; null where none is known",
        lambda answer: answer.case.price.typical if answer.case.price else None,
        given("given by --price, or the dated list"),
    )
    usd_per_month = optional_number(
        f"US dollars for all GPUs and a month of {HOURS_OF_A_MONTH} hours; null where no price is known",
        lambda answer: answer.case.usd_per_month,
        ratio("price_per_gpu_hour", "deployment.gpus", Constant(HOURS_OF_A_MONTH, "hours of a month")),
    )
    holding_gpus = optional(
        "GPUs that would hold it; null where these do, or none that was tried does",
        lambda answer: answer.holding.gpus if answer.holding else None,
        found("twice as many are tried, until they hold it"),
    )
    assumptions = texts("what was assumed", lambda answer: tuple(answer.assumed()))

    @cached_property
    def points(self) -> list[ServedAt]:
        """Numbers of requests from one to all that fit, and the most within the limits."""
        return self.case.points(self.promise.largest if self.promise is not None else 0)

    def why_null(self, keys: Sequence[str]) -> str:
        """Say why there is no number at these keys; empty where nothing is known of it."""
        if keys[0] != Serve.estimate.name:
            return ""
        return self.would_hold if self.case.unknown == DOES_NOT_FIT else why_unknown(self.case)

    def sheet(self) -> Sheet:
        """The bytes and FLOPs of a step, or a line for each number of requests."""
        if self.question.curve and self.holds:
            return self._curve()
        case = self.case
        bandwidth = self.question.card.bandwidth or float("inf")
        weights = of(Bytes(case.step_weights), Serve.exact, ExactKeys.weights_bytes_per_step)
        cache = of(Bytes(case.step_cache), Serve.exact, ExactKeys.cache_bytes_per_step)
        products = of(Short(case.step_products), Serve.exact, ExactKeys.flops_per_step)
        step = case.of.floor_of_step(case.of.running(case.at.requests))
        multiplied = f"{MILLI * step.compute:,.3g}" if case.of.machine.multiplies else None
        rows: list[list[Cell]] = [
            [
                "weights, read once" if case.experts is None else "weights of the fewest experts",
                weights,
                None,
                f"{MILLI * case.step_weights / bandwidth:,.3g}",
            ],
            ["cache", cache, None, f"{MILLI * case.step_cache / bandwidth:,.3g}"],
            ["products", None, products, multiplied],
        ]
        if case.guessed_bytes:
            moved = of(Bytes(case.guessed_bytes), Serve.exact, ExactKeys.draft_bytes_per_step)
            guessing = of(Short(case.guessed_flops), Serve.exact, ExactKeys.draft_flops_per_step)
            rows.append(["draft", moved, guessing, f"{MILLI * case.guessed_bytes / bandwidth:,.3g}"])
        if step.link:
            sent = "messages between GPUs" if case.of.exchange.over.certain else "sums over GPUs"
            rows.append([sent, None, None, f"{MILLI * step.link:,.3g}"])
        of_stages = self.question.sharing.pp > 1
        columns = [
            Column("a decode step, stage after stage" if of_stages else "a decode step on each GPU", numeric=False),
            Column("bytes"),
            Column("FLOPs"),
            Column("ms at peak"),
        ]
        return self._sheet(columns, rows if self.holds else [])

    def pictures(self) -> tuple[Chart, ...]:
        """The curve, where it is asked for, and a request fits."""
        return (self.chart(),) if self.question.curve and self.holds else ()

    def chart(self) -> Chart:
        """Tokens per second over requests at once: by the estimate with its band, or by the floor, at most.

        Raises UsageError where not even one request fits.
        """
        if not self.holds:
            raise UsageError("there is no curve: the model does not fit", "give a larger GPU, or more of them")
        floor = Curve("at most", tuple((one.concurrency, one.floor_rate) for one in self.points))
        curves: tuple[Curve, ...] = (floor,)
        if self.case.by is not None:
            rates = [(one.concurrency, one.rate) for one in self.points]
            band = tuple((rate.low, rate.high) for _, rate in rates)
            curves = (Curve("estimate", tuple((users, rate.value) for users, rate in rates), band), floor)
        return Chart(
            title=f"{self.heading}: tokens per second",
            x="requests at once",
            y="tokens per second, all GPUs",
            unit="tokens/s",
            length=False,
            curves=curves,
        )

    def _curve(self) -> Sheet:
        shown = CURVE if self.case.by is not None else CURVE_OF_FLOORS
        columns = [Column(column.name, spare=column.spare) for column in shown]
        rows: list[list[Cell]] = [
            [
                of(column.written(one), Serve.curve, place, *column.keys) if column.keys else column.written(one)
                for column in shown
            ]
            for place, one in enumerate(self.points)
        ]
        return self._sheet(columns, rows)

    def _sheet(self, columns: list[Column], rows: list[list[Cell]]) -> Sheet:
        return Sheet(
            title=self.title,
            subtitle=self.heading,
            columns=columns,
            rows=rows,
            quiet=self.title,
            notes=tuple(notes(self)),
            assumes=(),
            not_counted="",
            see_also=("--assumptions", "--curve", "--slo ttft=500ms,tpot=50ms", "--json"),
            assumptions=tuple(self.assumed()),
        )


def serve(
    model: Model | str,
    gpu: str = "h100",
    prompt: int = INPUT,
    answer: int = OUTPUT,
    concurrency: int = 1,
    *,
    tp: int | None = None,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    plan: Serving | None = None,
    engine: str = ENGINE,
    prefix: int = 0,
    static: bool = False,
    disaggregated: tuple[int, int] | None = None,
    draft: tuple[int, float] = (0, 0.0),
    draft_model: Model | str | None = None,
    ttft: float | None = None,
    tpot: float | None = None,
    price: float | None = None,
    prices: Mapping[str, Price] = NO_PRICES,
    rate: float = 0.0,
    fewest: bool = False,
    floor: bool = False,
    curve: bool = False,
    runs: ServedRuns | None = None,
    link: float | None = None,
    utilization: float | None = None,
) -> Serve:
    """Find how fast a model is served: a floor that physics sets, an estimate with its band, capacity and cost.

    Args:
        model: as in :func:`~tfcalc.params`.
        gpu: the GPUs by their name and number (``"4xh100"``).
        prompt: tokens of a prompt.
        answer: tokens of an answer.
        concurrency: requests at once, of all GPUs.
        tp: GPUs that share each layer; by default all of them.
        pp: stages of the pipeline.
        dp: groups with requests of their own that share experts.
        ep: groups of GPUs that share the experts.
        plan: number formats of weights and cache; its other fields are not read.
        engine: the engine, with its version: ``"vllm@0.19.0"``.
        prefix: tokens of each prompt that are cached already.
        static: one batch, read at once; nothing comes in between.
        disaggregated: groups of GPUs that read prompts, and groups that make tokens.
        draft: tokens that are guessed for each step, and the part of them that is accepted, of 1.
        draft_model: the model that guesses them, one after another on the same GPUs; without one that takes no time.
        ttft: seconds that a first token may take.
        tpot: seconds that any other token may take.
        price: US dollars for a GPU and an hour; by default a dated list.
        prices: the same by the names of GPUs, before the list.
        rate: requests that come each second, in the place of ``concurrency``.
        fewest: find the fewest GPUs that serve all requests at once, in the place of those of ``gpu``.
        floor: the floor alone, and no estimate.
        curve: further numbers of requests.
        runs: runs of one's own, to which the engine's rates are fitted (``timing.served_runs.read_served``).
        link: bytes per second that a GPU sends to the others, as measured; by default the datasheet's.
        utilization: the part of a GPU's memory that the engine takes, by default its own.

    Returns:
        Serve: ``exact`` bytes and FLOPs of a step, the ``floor``, the ``estimate`` (None where no runs are known),
        ``fits``, and with limits ``slo``.

    Raises:
        InvalidModel: the GPUs cannot share the model, or it writes no text.
        UsageError: GPUs that make no whole replicas; a prompt or an answer without tokens.

    >>> import tfcalc
    >>> found = serve(tfcalc.load("llama-3-8b"), "h100", 1000, 100)
    >>> found.exact.weights_bytes, found.floor.bound, found.floor.tpot_ms < found.estimate.tpot_ms.value
    (16060522496, 'bandwidth', True)
    """
    sizes = {
        "prompt": prompt,
        "answer": answer,
        "concurrency": concurrency,
        "tp": 1 if tp is None else tp,
        "pp": pp,
        "dp": dp,
        "ep": ep,
    }
    for what, size in sizes.items():
        check_size(what, size)
    if draft[0] < 0 or not 0 <= draft[1] <= 1:
        raise UsageError(f"a draft of {draft} is no tokens with their acceptance", "write (3, 0.7)")
    if draft_model is not None and not draft[0]:
        raise UsageError("a draft model guesses no tokens where none are said", "say them: --speculate 3@0.7")
    count, name = parse_gpu(gpu)
    apart = None if disaggregated is None else Disaggregated(*disaggregated)
    sharing, gpus = sharing_of(count, tp=tp, pp=pp, dp=dp, ep=ep, groups=1 if apart is None else apart.groups)
    asked = plan or Serving()
    question = ServeQuestion(
        model_of(model),
        Serving(weights=asked.weights, kv=asked.kv),
        card_of(name, link),
        gpus,
        sharing,
        Load(prompt, answer, concurrency, prefix, static, Draft(*draft), apart),
        engine=engine,
        limits=Limits(ttft, tpot),
        price=price,
        floor=floor,
        curve=curve,
        prices=prices,
        fewest=fewest,
        rate=rate,
        runs=runs,
        guesser=None if draft_model is None else model_of(draft_model),
        utilization=utilization,
    )
    if tp is None and count > 1:
        question = question.laid_out(lambda one: bool(ServeCase(one).of.serves))
    if link is not None and question.sharing.tp == 1 and apart is None and not fewest:
        raise UsageError("a link has no effect where GPUs share no layer", "leave it out, or take --tp 2 or more")
    return served(question)


def served(question: ServeQuestion) -> Serve:
    """Return the answer of a question of serving, as :func:`serve`. Raises InvalidModel, and UsageError."""
    load = question.load
    if load.prefix >= load.prompt:
        raise UsageError(
            f"a cached prefix of {load.prefix:,} tokens leaves nothing of a prompt of {load.prompt:,}",
            f"take --prefix {load.prompt - 1} or less",
        )
    if question.runs is None:
        rules = engine_named(question.engine)
        if not question.floor:
            rules.check_cache(question.plan.kv)
    if question.fewest:
        question = fewest_of(question)
    if question.rate:
        case = ServeCase(question)
        check_rate(case)
        question = arriving(case)
    answer = Serve(question)
    assert answer.case.of.weights  # what cannot be shared is refused now, before a number of GPUs is proposed for it
    if question.gpus % question.gpus_of_replica:
        fact = f"{question.gpus:,} GPUs are no whole number of replicas of {question.gpus_of_replica:,}"
        raise UsageError(fact, f"take --gpu {question.gpus_of_replica}x{question.card.name.lower()}")
    return answer
