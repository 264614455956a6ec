"""Peak of training and of serving at a glance, a row for each term; and what a card shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.report import Summary
from tfcalc.report.sheet import Bytes, Cell, Column, Share
from tfcalc.training.card import Figure, OnCard, bands
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report import Entry
    from tfcalc.workload import Workload


TERMS = {
    "weights": "weights",
    "master weights": "master weights",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "activations": "activations",
    "gathered": "gathered weights",
    "communication": "DDP buckets",
    "cache": "KV cache",
    "buffers": "buffers",
    "buffers and inputs": "inputs and buffers",
    "workspaces": "cuBLAS workspaces",
    "outputs": "logits not freed",
    "temporary": "temporary buffers",
}
"""What the terms are called, in the order of the table."""
KINDS = {"ffn": "MLP", "norm": "norms", "experts": "experts", "embedding": "embeddings"}
OF_NO_PART = {"activations": "others"}
"""What a layer saves outside of its parts, which is not called activations once more."""
OPTIMIZERS = {
    "none": "no optimizer",
    "sgd": "SGD",
    "momentum": "SGD with momentum",
    "adam": "Adam (foreach)",
    "adamw": "AdamW (foreach)",
    "adamw-fused": "AdamW",
    "adamw-forloop": "AdamW (for-loop)",
    "adamw-8bit": "8-bit AdamW",
    "adamw-8bit-2048": "8-bit AdamW (blocks of 2,048)",
    "adamw-8bit-trainer": "8-bit AdamW (Trainer)",
    "adamw-32bit": "32-bit AdamW",
    "paged-adamw-8bit": "paged 8-bit AdamW",
    "paged-adamw-8bit-trainer": "paged 8-bit AdamW (Trainer)",
    "paged-adamw-32bit": "paged 32-bit AdamW",
    "adamw-torchao-8bit": "8-bit AdamW (torchao)",
    "adamw-torchao-4bit": "4-bit AdamW (torchao)",
    "adafactor": "Adafactor",
    "adafactor-trainer": "Adafactor (Trainer)",
    "adafactor-momentum": "Adafactor with momentum",
    "lion": "Lion",
    "lion-8bit": "8-bit Lion",
    "lion-8bit-trainer": "8-bit Lion (Trainer)",
    "lion-32bit": "32-bit Lion",
    "paged-lion-8bit": "paged 8-bit Lion",
    "paged-lion-8bit-trainer": "paged 8-bit Lion (Trainer)",
    "paged-lion-32bit": "paged 32-bit Lion",
    "ademamix-8bit-trainer": "8-bit AdEMAMix (Trainer)",
    "ademamix-32bit": "32-bit AdEMAMix",
    "paged-ademamix-8bit-trainer": "paged 8-bit AdEMAMix (Trainer)",
    "paged-ademamix-32bit": "paged 32-bit AdEMAMix",
    "muon": "Muon",
}
LEAST = 0.0005
"""Of the peak: what rounds to 0.1 % or more stands in the table."""
COLUMNS = (
    Column("", numeric=False),
    Column("", spare=1),
    Column(""),
    Column("", spare=2),
    Column("", numeric=False, folds=True, spare=3),
)


def training_summary(
    whole: Entry, totals: dict[str, int | str], params: int, subtitle: str, units: str, *, stepped: bool = False
) -> Summary:
    """The terms of a training step at its peak, each with its bytes per parameter, or with what it is spent on.

    Where parameters are ``stepped`` in backward there are gradients of one tensor at a time.
    """
    live = {entry.name: entry for entry in whole.parts}
    rows: list[tuple[Cell, ...]] = []
    for name, called in TERMS.items():
        size = live[name].value if name in live else 0
        stored = totals.get(STORED.get(name, ""), 0)
        if name == "gradients" and stepped:
            told = f"one tensor at a time, the largest of {short_bytes(int(stored), units)}"
            rows.append((called, "", Bytes(size), Share(size, whole.value), told))
        elif name in PER_PARAMETER and stored:
            later = f"({short_bytes(int(stored), units)} in the optimizer step)" if size != stored else ""
            rows.append((called, f"{int(stored) / params:.3g} B/param", Bytes(size), Share(size, whole.value), later))
        elif name == "activations" and stored:
            released = int(stored) - size
            parts = f"of {short_bytes(int(stored), units)} saved for backward"
            told = parts if released * 100 > int(stored) else _spent_on(live[name], units)
            rows.append((called, "", Bytes(size), Share(size, whole.value), told))
        elif size >= LEAST * whole.value and size:
            rows.append((called, "", Bytes(size), Share(size, whole.value), _largest(live[name])))
    return Summary(COLUMNS, tuple(rows), subtitle)


STORED = {
    "weights": "weights_bytes",
    "master weights": "master_weights_bytes",
    "optimizer": "optimizer_bytes",
    "gradients": "gradients_bytes",
    "activations": "activations_bytes",
}
PER_PARAMETER = ("weights", "master weights", "optimizer", "gradients")


def serving_summary(whole: Entry, told: dict[str, str], subtitle: str) -> Summary:
    """The terms of serving at its peak, each with what it is stored in."""
    live = {entry.name: entry for entry in whole.parts}
    rows = [
        (called, "", Bytes(live[name].value), Share(live[name].value, whole.value), told.get(name, ""))
        for name, called in TERMS.items()
        if name in live and live[name].value >= LEAST * whole.value
    ]
    return Summary(COLUMNS, tuple(rows), subtitle)


def _spent_on(entry: Entry, units: str) -> str:
    """``MLP 15.0 GiB, norms 6.09 GiB, attention 3.52 GiB``: the kinds of modules that saved most."""
    sums: dict[str, int] = {}
    for part in _ends(entry):
        sums[part.kind] = sums.get(part.kind, 0) + part.value
    largest = sorted(sums.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{(KINDS | OF_NO_PART).get(kind, kind)} {short_bytes(size, units)}"
        for kind, size in largest[:MOST]
        if size >= entry.value // 100
    )


MOST = 4
"""Kinds that are told apart."""


def _largest(entry: Entry) -> str:
    """What a term mostly is, where it has parts."""
    return max(entry.parts, key=lambda part: part.value).name if entry.parts else ""


def _ends(entry: Entry) -> Iterator[Entry]:
    if entry.parts and entry.kind not in KINDS and entry.kind != "attention":
        for part in entry.parts:
            yield from _ends(part)
    else:
        yield entry


def called(model: Model) -> str:
    """What people call a model: its name, or what it is."""
    return getattr(model, "name", "") or model.summary


def of_training(model: Model, workload: Workload, plan: Training) -> str:
    """``llama-3-8b, full fine-tuning, bf16, AdamW, batch 1 x 4,096 tokens``; ``plan`` is resolved."""
    if plan.lora is None:
        kind = "partly frozen" if plan.freeze else "full fine-tuning" if getattr(model, "name", "") else "training"
    else:
        kind = f"{'Q' if plan.base_weights else ''}{'DoRA' if plan.dora else 'LoRA'} r={plan.lora}"
    micro = f", {plan.grad_accum:,} micro-batches" if plan.grad_accum != 1 else ""
    gpus = ""
    if plan.gpus != 1:
        sharing = f"ZeRO-{plan.zero}" if plan.zero != "0" else "DDP"
        gpus = f" per GPU, {plan.gpus:,} GPUs, {'FSDP' if plan.layout.startswith('fsdp') else sharing}"
    if plan.tensor_parallel != 1:
        gpus += f" x {plan.tensor_parallel:,} (tensor parallel)"
    size = f"batch {workload.batch_size:,} x {workload.seq_len:,} tokens"
    steps = f"{OPTIMIZERS[plan.optimizer]}{' in backward' if plan.optimizer_in_backward else ''}"
    return f"{called(model)}, {kind}, {plan.precision}, {steps}, {size}{micro}{gpus}"


def of_serving(model: Model, workload: Workload, weights: str, plan: Serving) -> str:
    """``llama-3-8b, weights in bf16, 4 requests of 8,192 tokens, paged KV cache in bf16``."""
    count = workload.batch_size
    requests = "1 request" if count == 1 else f"{count:,} requests"
    context = f"{requests} of {workload.size('cached'):,} tokens"
    return f"{called(model)}, weights in {weights}, {context}, {plan.cache} KV cache in {plan.kv}"


def of_text_alone(model: Model) -> Iterator[str]:
    """A sentence on the parts of a model that read images or sounds: what they make is not counted."""
    parts = [part.name for part in model.module().beside_text]
    if parts:
        yield f"text only: the outputs of {' and '.join(parts)} are not counted"


def card_line(found: OnCard, units: str) -> str:
    """``On the card: allocated 73.9-81.4, reserved 75.4-92.0, nvidia-smi 75.6-93.3 GiB``."""
    told = [_band(figure, units) for figure in found]
    unit = told[-1].split(" ")[1]
    short = (text.removesuffix(f" {unit}") for text in told)
    return f"On the card: {', '.join(f'{called} {text}' for called, text in zip(FIGURES, short, strict=True))} {unit}"


FIGURES = ("allocated", "reserved", "nvidia-smi")


def card_lines(found: OnCard, units: str) -> list[str]:
    """Each with its number and its band: ``reserved 2.72 GiB (2.64-3.27 GiB): caching allocator, simulated``."""
    return [
        f"{called} {short_bytes(figure.bytes, units)} ({_band(figure, units)}): {what}"
        for called, what, figure in zip(FIGURES, MEASURED_AS, found, strict=True)
    ]


MEASURED_AS = (
    "torch.cuda.max_memory_allocated",
    "the caching allocator, simulated",
    "and the CUDA context with its libraries",
)


def card_assumptions() -> list[str]:
    """What the bands rest on."""
    by = bands()
    told = {name: f"{by[name].low - 1:+.0%} to {by[name].high - 1:+.0%}" for name in ("allocated", "reserved")}
    now, before = by["context"], by["old context"]
    return [
        f"allocated {told['allocated']}: the error of published peaks; reserved {told['reserved']}: measured over "
        "simulated, of two sources, the extremes of both (PyTorch's default allocator, without a limit)",
        f"nvidia-smi: CUDA context and libraries {now.low:,.0f} to {now.high:,.0f} MiB since CUDA 11.7, "
        f"{before.low:,.0f} to {before.high:,.0f} MiB before; by the sources in card_memory.csv",
    ]


def _band(figure: Figure, units: str) -> str:
    low, high = (short_bytes(size, units) for size in (figure.low, figure.high))
    number, unit = low.split(" ")
    return f"{number if unit == high.split(' ')[1] else low}-{high}"
