"""A model at a glance: what it is, and what it takes to store, run, serve and fine-tune it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tfcalc.analysis.budget import UTILIZATION
from tfcalc.analysis.common import check_arguments, default_run
from tfcalc.analysis.facts import Facts, facts
from tfcalc.analysis.flops import flops
from tfcalc.analysis.gpus import in_words, serving_on, training_on
from tfcalc.analysis.numbers import (
    Unknown,
    known,
    kv_bytes_per_token,
    own_name,
    per_token,
    serving_and_cache,
    serving_context,
    weights_bytes,
)
from tfcalc.analysis.params import embedded
from tfcalc.analysis.peaks import Peaks
from tfcalc.analysis.remarks import SAMPLES
from tfcalc.analysis.serving_memory import at_work
from tfcalc.analysis.training_plan import of_text_alone
from tfcalc.configs.published import HFModel
from tfcalc.conventions import Conventions
from tfcalc.core.measure import active_params
from tfcalc.core.measure import params as parameters
from tfcalc.defaults import compute_dtype
from tfcalc.footprint.plans import Serving, Training
from tfcalc.footprint.training.card import bands
from tfcalc.report import SCHEMA_VERSION, exact
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short
from tfcalc.units import short, short_bytes
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model

LENGTH = 4096
"""Tokens of a sequence in fine-tuning, where the model reads as many."""
FORMATS = ("bf16", "int8", "nf4")
"""The formats of weights that are shown beside the checkpoint's own."""
RANK = 16
METHODS = {
    "full": ("fine-tuning", Training(), ""),
    "lora": (f"LoRA r={RANK}", Training(lora=RANK), f" --lora {RANK}"),
    "qlora": (f"QLoRA r={RANK}", Training(lora=RANK, base_weights="nf4-dq"), f" --qlora {RANK}"),
}
"""Ways to fine-tune: what each is called, its plan, its options."""
NONE = "–"


@dataclass(frozen=True, slots=True)
class Overview:
    """A model at a glance. Bytes, parameters and FLOPs are exact integers; Unknown says why there is none.

    ``weights`` are by format, the checkpoint's own first; ``finetune`` by method (full, lora, qlora). ``gpus`` are
    those on which ``serving`` and each of these methods fit. ``asked`` is how the model is named on the command line.
    """

    model: Model
    workload: Workload
    asked: str
    heading: str
    facts: Facts
    total_params: int
    active_params: int
    embedding_params: int
    by_sample: bool
    weights: Mapping[str, int]
    context: int
    kv_per_token: int | Unknown
    kv_cache: int | Unknown
    forward_flops: int | float
    training_flops: int | float
    serving: int | Unknown
    finetune: Mapping[str, int | Unknown]
    gpus: Mapping[str, Callable[[], Iterator[Accelerator]]]
    notes: tuple[str, ...]
    units: str = "iec"

    @property
    def answer(self) -> int:
        """The number of parameters."""
        return self.total_params

    @property
    def commands(self) -> dict[str, str]:
        """The command that opens each line, by the first word of its keys in the JSON."""
        sequence = f"--batch {self.workload.batch_size} --seq {self.workload.seq_len}"
        checkpointing = "" if self.workload.recompute == "none" else f" --checkpointing {self.workload.recompute}"
        context = "" if self.facts.context is not None else f" --context {self.context}"
        flops = "" if self.by_sample else f" --seq {self.workload.seq_len}"
        asked = {
            "params": "params {}",
            "weights": "memory {}",
            "kv_cache": f"memory {{}} --serve{context}",
            "forward": f"flops {{}}{flops}",
            "training": f"flops {{}} --train{flops}",
            "serve": f"memory {{}} --serve{context}",
            **{
                f"finetune_{method}": f"memory {{}} --train{flags} {sequence}{checkpointing}"
                for method, (_, _, flags) in METHODS.items()
            },
        }
        if isinstance(self.kv_cache, Unknown):
            del asked["kv_cache"], asked["serve"]
        asked = {name: line for name, line in asked.items() if not self._unknown(name)}
        return {name: f"tfcalc {line.format(self.asked)}" for name, line in asked.items()}

    def _unknown(self, name: str) -> bool:
        return isinstance(self.finetune.get(name.removeprefix("finetune_")), Unknown)

    def _quantities(self) -> dict[str, object]:
        """Each number with its unit in the key, or why there is none."""
        return {
            "total_params": self.total_params,
            "active_params": self.active_params,
            "embedding_params": self.embedding_params,
            "weights_bytes": dict(self.weights),
            "context": self.facts.context,
            "kv_cache_bytes_per_token": self.kv_per_token,
            "kv_cache_bytes": self.kv_cache,
            "forward_flops_per_token": self.forward_flops,
            "training_flops_per_token": self.training_flops,
            "serving_bytes": self.serving,
            **{f"finetune_{method}_bytes": size for method, size in self.finetune.items()},
        }

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: integers with their unit in the key; null where nothing is known, with the reason."""
        quantities = self._quantities()
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "overview",
            "model": dict(self.model.described()),
            "conventions": {
                "batch_size": self.workload.batch_size,
                "seq_len": self.workload.seq_len,
                "checkpointing": self.workload.recompute,
                "flops": "multiply-add = 2, matrix products only, masked pairs counted",
                "flops_per": "sample" if self.by_sample else "token",
                "kv_cache_context": self.context,
                "lora_rank": RANK,
                "gpu_margin": round(1 - UTILIZATION, 2),
                "gpu_margin_of_training": round(bands()["fit"].high - 1, 2),
            },
            "facts": self.facts._asdict(),
            **{name: None if isinstance(value, Unknown) else value for name, value in quantities.items()},
            **{
                f"{name}_gpus": [gpu.name for gpu in self.gpus[name]()] if name in self.gpus else None
                for name in ("serving", *(f"finetune_{method}" for method in self.finetune))
            },
            "reasons": {name: value.reason for name, value in quantities.items() if isinstance(value, Unknown)},
            "commands": self.commands,
        }

    def sheet(self) -> Sheet:
        """A line for each quantity, with the command that opens it."""
        return Sheet(
            title=f"{short(self.total_params, billion='B')} parameters ({self.total_params:,})",
            subtitle=f"{self.heading}: {self.facts.in_words()}",
            columns=[
                Column("", numeric=False),
                Column(""),
                Column("", numeric=False, folds=True),
                Column("", numeric=False, spare=1),
            ],
            rows=list(self._rows()),
            quiet=self.total_params,
            notes=self.notes,
            assumes=tuple(self._assumes()),
            see_also=(f"tfcalc COMMAND {self.asked} opens a line",),
            detailed=self._detailed(),
        )

    def _rows(self) -> Iterator[list[Cell]]:
        own, *others = self.weights
        formats = ", ".join(f"{name} {self._short(self.weights[name])}" for name in others)
        per = "sample" if self.by_sample else "token"
        yield ["parameters", Short(self.total_params, "B"), self._parts(), "params"]
        yield ["weights", Bytes(self.weights[own]), f"{own}; {formats}", "memory"]
        if isinstance(self.kv_per_token, Unknown) or isinstance(self.kv_cache, Unknown):
            yield ["KV cache", NONE, self.kv_per_token.short if isinstance(self.kv_per_token, Unknown) else "", ""]
        elif not self.kv_per_token:
            yield ["state", Bytes(self.kv_cache), "of a sequence of any length", "memory --serve"]
        else:
            whole = f"per token; {self._short(self.kv_cache)} at {self.context:,}"
            yield ["KV cache", Bytes(self.kv_per_token), whole, "memory --serve"]
        yield ["forward", short(self.forward_flops), f"FLOPs per {per}", "flops"]
        yield ["training", short(self.training_flops), f"FLOPs per {per}", "flops --train"]
        yield self._placed("serving", "serving", self.serving, "memory --serve")
        for method, (called, _, flags) in METHODS.items():
            command = f"memory --train{flags.partition(' 1')[0]}"
            yield self._placed(called, f"finetune_{method}", self.finetune[method], command)

    def _placed(self, called: str, name: str, need: int | Unknown, command: str) -> list[Cell]:
        if isinstance(need, Unknown):
            return [called, NONE, need.short, ""]
        return [called, Bytes(need), in_words(self.gpus[name]()), command]

    def _parts(self) -> str:
        """``37.6B active, embedding 927M``."""
        active = f"{short(self.active_params, billion='B')} active, " * (self.active_params != self.total_params)
        return f"{active}embedding {short(self.embedding_params, billion='B')}"

    def _assumes(self) -> Iterator[str]:
        sizes = f"--batch {self.workload.batch_size}" * (self.workload.batch_size != 1)
        sizes += f" --seq {self.workload.seq_len}" * (not self.by_sample)
        if any(isinstance(size, int) for size in self.finetune.values()):
            spare = f"{100 * (bands()['fit'].high - 1):g} % of its peak to spare"
            again = self.workload.recompute
            yield f"fine-tuning with{sizes} --checkpointing {again}, AdamW, {spare}".replace("  ", " ")
        if not self.by_sample:
            yield f"FLOPs with --seq {self.workload.seq_len}"
        if isinstance(self.serving, int):
            yield f"serving 1 request of {self.context:,} tokens in {100 * UTILIZATION:g} % of a GPU's memory"

    def _detailed(self) -> Sheet:
        """The same for programs: a row for each number, in full."""
        rows: list[list[Cell]] = [[name, value] for name, value in self.facts._asdict().items()]
        for name, value in self._quantities().items():
            if name == "weights_bytes":
                rows += [[f"{name}.{format}", size] for format, size in self.weights.items()]
            elif name != "context":  # which is one of the facts
                rows.append([name, value if isinstance(value, int | float) else None])
        return Sheet(
            title=f"{self.total_params:,} parameters",
            subtitle=self.heading,
            columns=[Column("quantity", numeric=False), Column("value")],
            rows=rows,
            quiet=self.total_params,
        )

    def _short(self, size: int) -> str:
        return short_bytes(size, self.units)

    def __str__(self) -> str:
        from tfcalc.render import rendered
        from tfcalc.report.style import Style

        return rendered(self.sheet(), "plain", Style())

    def _repr_html_(self) -> str:
        from tfcalc.render import rendered
        from tfcalc.report.style import Style

        return rendered(self.sheet(), "html", Style())


def overview(
    model: Model, workload: Workload | None = None, conventions: Conventions | None = None, *, asked: str = ""
) -> Overview:
    """Everything about ``model`` at a glance, as ``tfcalc MODEL`` prints it.

    Args:
        model: a :class:`~tfcalc.Transformer`, or what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return.
        workload: of fine-tuning, and of FLOPs per token: sequences, their length in tokens, and gradient checkpointing
            (``recompute``); by default one sequence of 4,096 tokens, or of as many as the model reads, with full
            gradient checkpointing.
        conventions: the ``units`` that bytes are shown in.
        asked: how the model is named in the commands that the answer names; by default by its name.

    Returns:
        An overview: ``answer`` is the number of parameters; parameters, bytes and FLOPs per token are exact, and each
        that is not known of this kind of model is an ``Unknown`` with its reason.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> found = overview(Transformer())
    >>> found.answer, found.weights["fp32"]
    (44140544, 176562176)
    """
    check_arguments(model, workload, conventions)
    workload = (workload or default_workload(model)).replaced(phase="forward")
    once = workload.replaced(recompute="none")
    model.check(once)
    tree = model.tree(once)
    context = serving_context(model, once)
    plan = Serving(context=context)
    serving, cache = serving_and_cache(model, plan)
    step = workload.replaced(phase="train")
    tuned = {method: _tuned(model, step, plan) for method, (_, plan, _) in METHODS.items()}
    gpus = {f"finetune_{method}": on for method, (_, on) in tuned.items() if on}
    if not isinstance(serving, Unknown):
        gpus["serving"] = partial(serving_on, serving, plan, compute_dtype(model))
    kv = known(lambda: kv_bytes_per_token(model, default_run(model), plan), "none: it generates no text")
    forward = flops(model, once)
    own, name = own_name(model), getattr(model, "name", "")
    return Overview(
        model=model,
        workload=workload,
        asked=asked or shlex.quote(name or "MODEL"),
        heading=name or ("config" if isinstance(model, HFModel) else "model"),
        facts=facts(model, tree if isinstance(kv, Unknown) else model.tree(at_work(default_run(model), plan))),
        total_params=exact(tree.total(parameters)),
        active_params=exact(tree.total(active_params)),
        embedding_params=exact(embedded(tree)),
        by_sample=forward.conventions.get("tokens") == SAMPLES,
        weights={own: weights_bytes(model, tree)}
        | {name: weights_bytes(model, tree, name) for name in FORMATS if name != own},
        context=context,
        kv_per_token=kv,
        kv_cache=cache,
        forward_flops=per_token(forward),
        training_flops=per_token(flops(model, once.replaced(phase="train"))),
        serving=serving,
        finetune={method: need for method, (need, _) in tuned.items()},
        gpus=gpus,
        notes=(*model.remarks(once), *of_text_alone(model)),
        units=(conventions or Conventions()).units,
    )


def default_workload(model: Model) -> Workload:
    """One sequence of 4,096 tokens, or of as many as the model reads, with gradient checkpointing."""
    longest = model.longest
    return Workload(seq_len=min(longest, LENGTH) if isinstance(longest, int) else LENGTH, recompute="full")


def _tuned(
    model: Model, run: Workload, plan: Training
) -> tuple[int | Unknown, Callable[[], Iterator[Accelerator]] | None]:
    """The peak of fine-tuning by this plan, and on which GPUs it fits."""
    peaks = Peaks(model)
    need = known(lambda: peaks.peak(run, plan, noting=True), "not known for this family")
    if isinstance(need, Unknown):
        return need, None
    return need, partial(training_on, need, peaks, run, plan, compute_dtype(model))
