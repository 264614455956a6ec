"""The memory of serving as an answer: what is alive at its peak, by which formats, and what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.analysis.at_a_glance import of_serving, serving_summary
from tfcalc.analysis.effects import PAGED_SERVING, SERVING, refuse_idle, refuse_idle_source
from tfcalc.analysis.memory_breakdown import memory_breakdown
from tfcalc.analysis.serving_memory import LETTERS, Served, at_work, served
from tfcalc.analysis.training_plan import of_text_alone
from tfcalc.conventions import Conventions
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.defaults import assumed_dtype, resolve_serving
from tfcalc.report import Footer, Report, exact
from tfcalc.report.later import each_of
from tfcalc.serving.caches import PAGED
from tfcalc.symbols import legend
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.workload import Workload

NOT_COUNTED = "CUDA context (0.3 to 0.6 GB), workspaces of the kernels, CUDA graphs, the allocator's rounding"
CACHES = {
    "dynamic": "as transformers' DynamicCache stores it",
    "static": "as transformers' StaticCache stores it, allocated for the whole context from the start",
    "paged": "in whole blocks, as vLLM stores it",
}


def serving_memory(
    model: Model,
    workload: Workload,
    plan: Serving,
    conventions: Conventions,
    *,
    depth: int | None = None,
) -> Report:
    """The peak of serving: the largest amount of memory live at once. Raises InvalidModel, UsageError."""
    workload, plan = resolved(model, workload, plan, conventions)
    found, requests = served(model, workload, plan, conventions.dtype), at_work(workload, plan)
    whole, used = memory_breakdown(found.alive, depth)
    letters = {letter: meaning for letter, meaning in LETTERS.items() if letter in used}
    return Report(
        command="memory",
        heading=model.summary,
        title=f"peak, in {found.peak.phase}",
        unit="bytes",
        answer=found.total,
        totals=dict(each_of(found, TOTALS)),
        model=model.described(),
        conventions=in_full(requests, plan, found, conventions),
        whole=whole,
        depth=depth,
        legend=legend(used, model, requests) | letters,
        notes=(*model.remarks(requests), *of_text_alone(model), *_unknown(found)),
        footer=Footer(
            assumes=(*in_short(requests, plan), *assumed_dtype(model, found.recipe.dtype)),
            not_counted="CUDA context, CUDA graphs, fragmentation (allow 5-10 %)",
            see_also=("--gpu h100 (does it fit?)", "--formulas", "--assumptions"),
            assumptions=tuple(notes(plan, found)),
        ),
        summary=serving_summary(
            whole, told(requests, plan, found), of_serving(model, requests, found.recipe.format.name, plan)
        ),
        more={
            "phases": [{"phase": each.phase, "temporary_bytes": each.temporary} for each in found.moments],
        },
    )


def resolved(model: Model, workload: Workload, plan: Serving, conventions: Conventions) -> tuple[Workload, Serving]:
    """What is served and how, with all that was left open. Raises InvalidModel; UsageError for what has no effect."""
    effective, where = (PAGED_SERVING, "with a paged cache") if plan.cache == PAGED else (SERVING, "with --serve")
    refuse_idle(workload, effective, where)
    refuse_idle_source(model, workload)
    return resolve_serving(model, workload, plan, conventions.dtype)


TOTALS: Mapping[str, Callable[[Served], int | str]] = {
    "total_bytes": lambda found: found.total,
    "peak_bytes": lambda found: found.total,
    "peak_phase": lambda found: found.peak.phase,
    "weights_bytes": lambda found: value_of(found.weights.total(bytes_held)),
    "gradients_bytes": lambda _: 0,
    "optimizer_bytes": lambda _: 0,
    "activations_bytes": lambda _: 0,
    "kv_cache_bytes": lambda found: value_of(found.cache.total(bytes_held)),
    "buffers_bytes": lambda found: value_of(found.buffers.total(bytes_held)),
    "temporary_bytes": lambda found: found.peak.temporary or 0,
}
"""The terms of serving, each by itself."""


def stated(run: Workload, plan: Serving, found: Served) -> dict[str, object]:
    """What the number was made by, for programs."""
    return {
        "phase": "serve",
        "concurrency": run.batch_size,
        "context": run.size("cached"),
        "weights": found.recipe.format.name,
        "unquantized": found.recipe.dtype,
        "kv": plan.kv,
        "cache": plan.cache,
        "cache_holds": CACHES[plan.cache],
        "block_size": plan.block if plan.cache == PAGED else None,
        "attention_kernel": run.kernel,
        "not_counted": NOT_COUNTED,
    }


def in_full(run: Workload, plan: Serving, found: Served, conventions: Conventions) -> dict[str, object]:
    """The same with the units."""
    return {**stated(run, plan, found), "units": conventions.units}


def told(run: Workload, plan: Serving, found: Served) -> dict[str, str]:
    """What each term is stored in, and what it is for."""
    weights, beside = found.recipe.format.name, found.recipe.dtype
    per_token = value_of(found.cache.total(bytes_held)) // (run.batch_size * run.size("cached"))  # type: ignore[operator]
    return {
        "weights": weights if weights == beside else f"{weights}, unquantized tensors {beside}",
        "cache": f"{short_bytes(per_token)} per token, {run.batch_size:,} x {run.size('cached'):,} tokens",
        "temporary": f"{found.peak.phase}: {_reading(plan)}",
    }


def _reading(plan: Serving) -> str:
    """The plan is resolved: it has a context."""
    if plan.cache != PAGED:
        return "all prompts at once"
    return f"{min(exact(plan.batched), exact(plan.context or 0)):,} tokens of a prompt at once"


def in_short(run: Workload, plan: Serving) -> tuple[str, ...]:
    """What the server is, in a line."""
    cache = f"paged cache in blocks of {plan.block} tokens" if plan.cache == PAGED else f"{plan.cache} cache"
    return (cache, f"{run.kernel} attention", "logits of the last token only")


def _unknown(found: Served) -> Iterator[str]:
    if found.peak.temporary is None:
        yield "Temporary buffers of this kind of model are not known, and not counted"


def notes(plan: Serving, found: Served) -> Iterator[str]:
    """All that the answer rests on, in words."""
    weights = found.recipe.format.name
    beside = "" if weights == found.recipe.dtype else f", unquantized tensors in {found.recipe.dtype}"
    yield f"weights in {weights}{beside}; KV cache in {plan.kv}, {plan.cache}: {CACHES[plan.cache]}"
    if found.peak.temporary is not None:
        yield f"temporary buffers: {found.peak.phase} with {_reading(plan)}, logits of the last token only"
    yield f"not counted: {NOT_COUNTED}"
