"""The memory of serving as an answer: what is live at its peak, by which formats, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.common import PAGED_SERVING, SERVING, refuse_idle, refuse_idle_source
from tfcalc.answers.conventions_text import windows_in_words
from tfcalc.answers.memory_base import (
    GRAPHS,
    OF_BUFFERS,
    PARTS,
    Memory,
    MemoryTerm,
    PeakMemory,
    called,
    memory_breakdown,
    of_serving,
    of_text_alone,
    serving_summary,
)
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.defaults import assumed_dtype, own_dtype, resolve_serving, served_dtype
from tfcalc.errors import UsageError
from tfcalc.model import legend
from tfcalc.plans import LAYOUT as LAYOUT_FIELDS
from tfcalc.report import Entry, Footer, Summary, exact
from tfcalc.report.declared import Record, integer, optional, records, text
from tfcalc.report.opening import count, found
from tfcalc.report.report import without
from tfcalc.serving.caches import CELLS, PAGED, UBATCH, full_windows, mixers
from tfcalc.serving.memory import LETTERS, Served, dequantizes, in_int8, served
from tfcalc.serving.stored import at_work, reads_alone
from tfcalc.units import short_bytes
from tfcalc.workload import AUTO

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.placed.served import ServedLayout
    from tfcalc.plans import Serving
    from tfcalc.workload import Conventions, Workload

NOT_COUNTED = "CUDA context (0.3 to 0.8 GB), workspaces of the kernels, CUDA graphs, the allocator's rounding"
NO_CACHE = "none"
CACHES = {
    "dynamic": "as transformers' DynamicCache stores it",
    "static": "as transformers' StaticCache stores it, allocated for the whole context from the start",
    "paged": "in whole blocks, as vLLM stores it",
    "cells": "in cells for the whole context, as llama.cpp allocates it",
    NO_CACHE: "nothing: the model generates no text",
}


class ServingPhase(Record):
    """The temporary tensors of a phase of serving."""

    phase = text("prefill or decode", lambda phase: phase.phase)
    temporary_bytes = optional(
        "bytes; null where they are not known",
        lambda phase: phase.temporary,
        found("what is live when this phase needs most, on the tape"),
    )


STORED = found("the sum over what the GPU stores")
BY_LAYOUT = found("by the layout")


class RankKeys(Record):
    """A GPU of those that serve a model together, and how many store the same."""

    stage = integer(
        "its stage of the pipeline, from 0", lambda rank: value_of(rank.at.stage), count("the stages, from 0")
    )
    alike = integer("GPUs that store the same", lambda rank: value_of(rank.alike), BY_LAYOUT)
    layers = integer("layers of its stage", lambda rank: value_of(rank.layers), BY_LAYOUT)
    params = integer(
        "its parameters, with the rows that a vocabulary is filled up with", lambda rank: value_of(rank.params), STORED
    )
    weights_bytes = integer("its weights", lambda rank: value_of(rank.weight_bytes), STORED)
    kv_cache_bytes = integer(
        "the cache of all requests of its group", lambda rank: value_of(rank.cache.total(bytes_held)), STORED
    )
    kv_cache_bytes_per_token = integer(
        "what a token adds to the cache, before a window is full",
        lambda rank: value_of(rank.cache_bytes_per_token),
        STORED,
    )
    state_bytes_per_sequence = integer(
        "states of a request, whatever its length", lambda rank: value_of(rank.state_bytes_per_sequence), STORED
    )


class ServingMemory(PeakMemory):
    """The peak of serving: weights, caches of all requests, and the largest temporary tensors.

    Its numbers are plain ones, until somebody reads what the peak is made of (``whole``): then sizes remember formulas.
    """

    form = "--serve"
    constants: ClassVar[Mapping[str, object]] = {"phase": "serve"}
    stated: ClassVar[Sequence[str]] = (
        *Memory.stated,
        *("attention_kernel", "concurrency", "context", "weights", "unquantized", "kv", "cache", "cache_holds"),
        "block_size",
    )

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "total": (lambda memory: memory.served.total, PARTS),
        "weights": (MemoryTerm("weights"),),
        "cache": (MemoryTerm("cache"),),
        "buffers": (MemoryTerm("buffers"), OF_BUFFERS),
        "temporary": (lambda memory: memory.served.peak.temporary or 0, MemoryTerm("temporary")),
    }
    phases = records(ServingPhase, "the temporary tensors of each phase", lambda memory: memory.served.moments).behind(
        Memory.temporary_bytes
    )
    host_bytes = integer(
        "bytes in the host's memory, not part of total_bytes: what --ngl leaves there",
        lambda memory: memory.served.host,
        found("the sum over the layers and tables that are not on the card"),
    )
    ranks = records(
        RankKeys,
        "of several GPUs that serve it each that stores something else; all else is of the one that stores most",
        lambda memory: memory.served.ranks,
    )

    def __init__(self, model: Model, run: Workload, plan: Serving, by: Conventions, depth: int | None = None) -> None:
        self._model, self._by, self.depth = model, by, depth
        self.run, self.plan = resolved(model, run, plan, by)
        self.requests = at_work(self.run, self.plan)
        self._quick = served(model, self.run, self.plan, by.dtype, formulas=False)

    @property
    def served(self) -> Served:
        """Memory of serving, by whichever way it was found."""
        return self.__dict__.get("full", self._quick)  # type: ignore[no-any-return]

    @cached_property
    def full(self) -> Served:
        """Memory of serving, with formulas."""
        return served(self._model, self.run, self.plan, self.by.dtype)

    def find_breakdown(self) -> None:
        """Find what has formulas, of which all else comes; the model runs where something temporary is read."""
        assert self.full

    @property
    def _laid_out(self) -> Serving:
        """The plan with each size of the layout, which formulas have a letter for, whether it was typed or not."""
        layout = self.full.layout
        if layout is None:
            return self.plan
        return self.plan.replaced(
            tensor_parallel=value_of(layout.tp),
            data_parallel=value_of(layout.dp),
            expert_parallel=value_of(layout.ep),
        )

    def term(self, name: str) -> Component:
        """A term by its name."""
        found: Component = getattr(self.served, name)
        return found

    def terms(self) -> Tree:
        """Return all terms, each tensor by tensor."""
        from tfcalc.analysis.itemized import tree_of_terms  # what explain opens

        said = {**stated(self.requests, self.plan, self.full), "units": self.by.units}
        told = tuple(notes(self.plan, self.full))
        return tree_of_terms(self._model, self.requests, self._laid_out, self.full.alive, said, told, LETTERS)

    @property
    def live(self) -> Tree:
        """Tensors that are live at the peak."""
        return self.itemized

    @cached_property
    def _breakdown(self) -> tuple[Entry, frozenset[str]]:
        return memory_breakdown(self.full.alive, self.depth)

    @cached_property
    def whole(self) -> Entry:
        """Breakdown of what is live at the peak."""
        return self._breakdown[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        used = self._breakdown[1]
        letters = {letter: meaning for letter, meaning in LETTERS.items() if letter in used}
        own = legend(used, self._model, self.requests)
        return own | legend(used - own.keys(), self._laid_out) | letters

    @property
    def title(self) -> str:
        """The quantity, and when it is."""
        return f"peak{' of each GPU' if self.served.layout else ''}, in {self.served.peak.phase}"

    @property
    def phase_of_peak(self) -> str:
        """The phase with the largest moment."""
        return self.served.peak.phase

    @property
    def subtitle(self) -> str:
        """Model that is served, and how."""
        on = f", {in_words(self.served.layout)}" if self.served.layout else ""
        kept = f", {self.plan.cache} KV cache in {self.plan.kv}" if self.served.caches else ", read at once"
        if self.served.on_card:
            layers, count = self.served.on_card
            on = f", {layers} of {count} layers on the card"
        on += f", {short_bytes(self.served.host, self.by.units)} in RAM" if self.served.host else ""
        return of_serving(self._model, self.requests, self.served.recipe.format.name, kept + on)

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of how it is served, and of what is not counted."""
        full = in_full(self.requests, self.plan, self.served, self.by)
        return full if self.judge is None else {**full, "not_counted": without(NOT_COUNTED, self.judge.counted)}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what is not known of such a model."""
        windows = _of_windows(self._model, self.requests, self.plan, self.served)
        return (*self._model.remarks(self.requests), *of_text_alone(self._model), *windows, *_unknown(self.served))

    @property
    def footer(self) -> Footer:
        """Serving engine that is assumed, what is not counted, and what to ask next."""
        return Footer(
            assumes=(
                *in_short(self.requests, self.plan, self.served),
                *self._on_gpus(),
                *assumed_dtype(self._model, self.served.recipe.dtype),
                *_halved(self._model, self.served.recipe.format.name),
            ),
            not_counted=f"CUDA context, {GRAPHS}, fragmentation (allow 5-10 %)",
            see_also=("--gpu h100 (does it fit?)", "--formulas", "--assumptions"),
            assumptions=tuple(notes(self.plan, self.served)),
        )

    def _on_gpus(self) -> Iterator[str]:
        """Yield the rules by which GPUs share the model, and whether the layout is the default."""
        layout = self.served.layout
        if layout is not None:
            chosen = " by default" if self.plan.asked_layout.keys() == {"gpus"} else ""
            how = "have whole layers, as llama.cpp's" if self.plan.cache == CELLS else "share the model as vLLM's do"
            yield f"GPUs {how}{chosen}"

    @property
    def summary(self) -> Summary:
        """The terms at the peak."""
        return serving_summary(self.whole, told(self.requests, self.plan, self.served), self.subtitle)


def resolved(model: Model, workload: Workload, plan: Serving, conventions: Conventions) -> tuple[Workload, Serving]:
    """Return what is served and how, with all that was left open.

    Raises InvalidModel; UsageError for what has no effect.
    """
    effective, where = (PAGED_SERVING, "with a paged cache") if plan.cache == PAGED else (SERVING, "with --serve")
    refuse_idle(workload, effective, where)
    refuse_idle_source(model, workload)
    if reads_alone(model):
        for flag, given, default in (("--kv", plan.kv, AUTO), ("--cache", plan.cache, PAGED)):
            if given != default:
                raise UsageError(f"{flag} {given} has no effect: {called(model)} keeps no cache", "leave it out")
    return resolve_serving(model, workload, plan, conventions.dtype)


def stated(run: Workload, plan: Serving, found: Served) -> dict[str, object]:
    """Return the definitions that the number was made by, for programs."""
    return {
        "phase": "serve",
        "concurrency": run.batch_size,
        "context": run.size("cached"),
        "weights": found.recipe.format.name,
        "unquantized": found.recipe.dtype,
        "kv": plan.kv,
        "cache": how(plan, found),
        "cache_holds": CACHES[how(plan, found)],
        "block_size": plan.block if how(plan, found) == PAGED else None,
        "attention_kernel": run.kernel,
        "not_counted": NOT_COUNTED,
        **(sizes_of(found.layout) if found.layout else {}),
    }


def how(plan: Serving, found: Served) -> str:
    """Return how the cache is allocated, if there is one."""
    return plan.cache if found.caches else NO_CACHE


def sizes_of(layout: ServedLayout) -> dict[str, int]:
    """Return the numbers of a layout by the names of a plan's fields."""
    sizes = (layout.gpus, layout.tp, layout.pp, layout.dp, layout.ep)
    return {name: value_of(size) for name, size in zip(LAYOUT_FIELDS, sizes, strict=True)}


def in_words(layout: ServedLayout) -> str:
    """``16 GPUs = TP 8 x PP 2``."""
    sizes = {"TP": layout.tp, "PP": layout.pp, "DP": layout.dp}
    ways = " x ".join(f"{name} {value_of(size):,}" for name, size in sizes.items() if value_of(size) != 1)
    experts = f", EP {value_of(layout.ep):,}" if value_of(layout.ep) != 1 else ""
    return f"{value_of(layout.gpus):,} GPUs = {ways}{experts}"


def in_full(run: Workload, plan: Serving, found: Served, conventions: Conventions) -> dict[str, object]:
    """Return the definitions that the number was made by, for programs, with the units."""
    return {**stated(run, plan, found), "units": conventions.units}


def told(run: Workload, plan: Serving, found: Served) -> dict[str, str]:
    """Return what each term is stored in, and what it is for."""
    weights, beside = found.recipe.format.name, found.recipe.dtype
    group = value_of(found.requests.batch_size)
    per_token = value_of(found.cache.total(bytes_held)) // (group * value_of(run.size("cached")))
    return {
        "weights": weights if weights == beside else f"{weights}, unquantized tensors {beside}",
        "cache": f"{short_bytes(per_token)} per token, {group:,} x {run.size('cached'):,} tokens",
        "temporary": f"{found.peak.phase}: {_reading(plan, found)}",
    }


def _reading(plan: Serving, found: Served) -> str:
    """The plan is resolved: it has a context."""
    if not found.caches:
        return "all requests at once"
    if plan.cache == CELLS:
        return f"{UBATCH} tokens at once, with their logits"
    if plan.cache != PAGED:
        return "all prompts at once"
    return f"{min(exact(plan.batched), exact(plan.context or 0)):,} tokens of a prompt at once"


def in_short(run: Workload, plan: Serving, found: Served) -> tuple[str, ...]:
    """Return a description of the server, in a line."""
    if not found.caches:
        return ("all requests read at once", f"{run.kernel} attention", "no cache, as no text is generated")
    if plan.cache == CELLS:
        return ("llama.cpp's cache", f"{run.kernel} attention", f"steps of {UBATCH} tokens with all their logits")
    cache = f"paged cache in blocks of {plan.block} tokens" if plan.cache == PAGED else f"{plan.cache} cache"
    return (cache, f"{run.kernel} attention", "logits of the last token only")


def _halved(model: Model, weights: str) -> tuple[str, ...]:
    """``fp32 checkpoint in fp16, as vLLM's --dtype auto``; nothing where the weights are served as they are stored."""
    own = own_dtype(model)
    return (f"{own} checkpoint in {weights}, as vLLM's --dtype auto",) if own != weights == served_dtype(model) else ()


def _of_windows(model: Model, requests: Workload, plan: Serving, found: Served) -> Iterator[str]:
    """Yield where the cache stops to grow, or grows less."""
    if found.caches:
        tree = found.ranks[0].tree if found.ranks else model.tree(requests)
        yield from windows_in_words(full_windows(mixers(tree), plan.kv), value_of(plan.context or 0))


def _unknown(found: Served) -> Iterator[str]:
    if found.peak.temporary is None:
        yield "Temporary buffers of this kind of model are not known, and not counted"
    if dequantizes(found.recipe) or in_int8(found.recipe):
        yield "Not counted: loading, in which bitsandbytes quantizes each matrix on the GPU, beside its copy in 16 bits"


def notes(plan: Serving, found: Served) -> Iterator[str]:
    """Yield all that the answer rests on, in words."""
    weights = found.recipe.format.name
    beside = "" if weights == found.recipe.dtype else f", unquantized tensors in {found.recipe.dtype}"
    kept = f"KV cache in {plan.kv}, {plan.cache}: {CACHES[plan.cache]}" if found.caches else "no cache"
    yield f"weights in {weights}{beside}; {kept}"
    if found.peak.temporary is not None:
        if dequantizes(found.recipe):
            yield "bitsandbytes until 0.49: each product of more than one row has a dequantized copy of its matrix"
        if in_int8(found.recipe):
            yield (
                "LLM.int8 (bitsandbytes 0.45): each product has its input in int8, its sums in int32 and its result in "
                "fp16; columns of outliers, whose number is up to the data, and buffers of quantizing are not counted"
            )
        logits = ", logits of the last token only" if found.caches and plan.cache != CELLS else ""
        yield f"temporary buffers: {found.peak.phase} with {_reading(plan, found)}{logits}"
    yield f"not counted: {NOT_COUNTED}"
