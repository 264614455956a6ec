"""The memory of serving as an answer: what is alive at its peak, by which formats, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfcalc.conventions import Conventions
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_serving
from tfcalc.held.numbers import of_formulas, of_numbers
from tfcalc.held.serving.caches import PAGED
from tfcalc.questions.effects import SERVING, refuse_idle, refuse_idle_source
from tfcalc.questions.serving_memory import LETTERS, Served, at_work, served
from tfcalc.questions.training_plan import of_text_alone
from tfcalc.report import Report, breakdown
from tfcalc.symbols import legend

if TYPE_CHECKING:
    from tfcalc.held.plans import Serving
    from tfcalc.model import Model
    from tfcalc.workload import Workload

NOT_COUNTED = "CUDA context (0.3 to 0.6 GB), workspaces of the kernels, CUDA graphs, the allocator's rounding"
CACHES = {
    "dynamic": "as transformers' DynamicCache holds them",
    "static": "as transformers' StaticCache holds them, for the whole context from the start",
    "paged": "in whole blocks, as an engine holds them",
}


def serving_memory(
    model: Model,
    run: Workload,
    plan: Serving,
    conventions: Conventions,
    *,
    depth: int | None = None,
) -> Report:
    """The peak of serving: the largest amount of memory live at once. Raises InvalidModel, UsageError."""
    refuse_idle(run, SERVING, "with --serve")
    refuse_idle_source(model, run)
    run, plan = resolve_serving(model, run, plan)
    found, requests = served(model, run, plan, conventions.dtype), at_work(run, plan)
    whole = breakdown(
        of_numbers(found.alive).root(),
        of_formulas(found.alive).root(),
        bytes_held,
        {"bytes": bytes_held},
        inside_blocks=depth is not None,
    )
    used = frozenset().union(*(part.formula.free_symbols for part in whole.walk()))
    letters = {letter: meaning for letter, meaning in LETTERS.items() if letter in used}
    return Report(
        command="memory",
        heading=model.summary,
        title=f"bytes at the peak, in {found.peak.phase}",
        unit="bytes",
        answer=found.total,
        totals=_totals(found),
        model=model.described(),
        conventions={**stated(requests, plan, found), "units": conventions.units},
        whole=whole,
        depth=depth,
        legend=legend(used, model, requests) | letters,
        notes=(*model.remarks(requests), *of_text_alone(model, requests), *notes(requests, plan, found)),
        more={
            "phases": [{"phase": each.phase, "temporary_bytes": each.temporary} for each in found.moments],
        },
    )


def _totals(found: Served) -> dict[str, int | str]:
    weights, cache, buffers = (value_of(each.total(bytes_held)) for each in (found.weights, found.cache, found.buffers))
    return {
        "total_bytes": found.total,
        "peak_bytes": found.total,
        "peak_phase": found.peak.phase,
        "weights_bytes": weights,
        "gradients_bytes": 0,
        "optimizer_bytes": 0,
        "activations_bytes": 0,
        "kv_cache_bytes": cache,
        "buffers_bytes": buffers,
        "temporary_bytes": found.peak.temporary or 0,
    }


def stated(run: Workload, plan: Serving, found: Served) -> dict[str, Any]:
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


def notes(run: Workload, plan: Serving, found: Served) -> Iterator[str]:
    """The same in words."""
    weights = found.recipe.format.name
    beside = "" if weights == found.recipe.dtype else f", what it does not quantize in {found.recipe.dtype}"
    requests = "1 request" if run.batch_size == 1 else f"{run.batch_size:,} requests"
    yield (
        f"{requests} of {run.size('cached'):,} tokens; weights in {weights}{beside}; "
        f"cache in {plan.kv}, {plan.cache}: {CACHES[plan.cache]}; attention kernel {run.kernel}"
    )
    if found.peak.temporary is None:
        yield "what is live beside weights and cache is not known for this kind of model, and not counted"
    elif plan.cache == PAGED:
        yield f"temporary: a prompt read {plan.batched:,} tokens at a time, logits of its last token"
    else:
        yield "temporary: transformers reads all prompts at once, and makes a token for all requests; last logits only"
    yield f"not counted: {NOT_COUNTED}"
