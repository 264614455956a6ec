"""Charts of the course: shares of FLOPs, memory over a training step, the roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import log10
from typing import Any, cast

from tfcalc import Serving, Training, Transformer, Workload, flops, load, memory, params
from tfcalc.core.traced import value_of
from tfcalc.hardware import named
from tfcalc.model import Model
from tfcalc.training.peaks import Peaks
from tfcalc.units import short_bytes
from tools.docs_course import crossings, parts_of_flops
from tools.pictures.svg import Picture, Point


class Scale:
    """A mapping of values to coordinates, by their logarithms where it is ``logarithmic``."""

    def __init__(self, ends: tuple[float, float], to: tuple[float, float], *, logarithmic: bool = False) -> None:
        self._of: Callable[[float], float] = log10 if logarithmic else float
        self._first, last = (self._of(end) for end in ends)
        self._origin, self._per = to[0], (to[1] - to[0]) / (last - self._first)

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        return self._origin + (self._of(value) - self._first) * self._per


def shares() -> Picture:
    """Shares of a forward pass over the length: of one stack, and of an encoder-decoder."""
    width, ends = 512, (64, 65_536)
    stacks: list[tuple[str, Model]] = [
        ("one stack (encoder, or decoder-only)", Transformer(kind="encoder", d_model=width)),
        ("encoder-decoder", Transformer(d_model=width)),
    ]
    marks = [[(at, _multiple(at, width)) for at in crossings(model)] for _, model in stacks]
    told = "; ".join(
        f"{name}: attention and feed-forward equal at l = {equal[1]}, Q Kᵀ and P V half of all at l = {half[1]}"
        for (name, _), (equal, half) in zip(stacks, marks, strict=True)
    )
    drawing = Picture(
        "Shares of a forward pass's FLOPs over the sequence length",
        f"As the length l grows from {ends[0]} to {ends[1]:,} tokens at h = {width}, Q Kᵀ and P V take over. {told}.",
        420,
    )
    names = ("projections", "Q Kᵀ and P V", "feed-forward")
    for x, name, colour in zip(
        (12, 110, 222), (names[2], names[0], names[1]), ("orange", "blue", "purple"), strict=True
    ):
        drawing.rect(x, 10, 11, 11, colour)
        drawing.text(x + 16, 20, name, size=11)
    for top, (name, model), crossed in zip((52, 244), stacks, marks, strict=True):
        _shares(drawing, top, name, model, crossed, ends)
    return drawing


def _multiple(length: float, width: int) -> str:
    """The length as a multiple of h: ``2h/3``."""
    thirds = round(3 * length / width)
    return (
        f"{thirds // 3}h" if thirds % 3 == 0 else f"{thirds}h/3".replace("1h", "h") if thirds == 1 else f"{thirds}h/3"
    )


def _shares(
    drawing: Picture, top: float, name: str, model: Model, crossed: Sequence[tuple[float, str]], ends: tuple[int, int]
) -> None:
    across, up = Scale(ends, (40, 348), logarithmic=True), Scale((0, 1), (top + 130, top))
    lengths = [round(ends[0] * 2 ** (step / 4)) for step in range(41)]
    below: list[Point] = [(across(length), up(0)) for length in lengths]
    parts = [parts_of_flops(model, length) for length in lengths]
    drawing.text(40, top - 9, name, style="strong")
    for order, colour in ((2, "orange"), (0, "blue"), (1, "purple")):
        heights = [(130 * found[order] / sum(found)) for found in parts]
        above = [(x, y - tall) for (x, y), tall in zip(below, heights, strict=True)]
        drawing.area([*below, *reversed(above)], colour)
        below = above
    for share in (0, 0.5, 1):
        drawing.text(34, up(share) + 4, f"{share:.0%}", size=11, anchor="end", colour="dim")
    drawing.line([(40, up(0.5)), (348, up(0.5))], "ink", dashed=True)
    for length in (64, 256, 1024, 4096, 16_384, 65_536):
        shown = f"{length // 1024}k" if length >= 1024 else f"{length}"
        drawing.text(
            across(length), top + 144, shown, size=11, anchor="end" if length == ends[1] else "middle", colour="dim"
        )
    for (at, text), below_it in zip(crossed, (True, False), strict=True):
        drawing.dot(across(at), up(0.5), "ink")
        drawing.text(
            across(at) + (-6 if below_it else 5),
            up(0.5) + (16 if below_it else -8),
            f"l = {text}",
            anchor="end" if below_it else "start",
            style="mono strong",
            size=11,
        )
    drawing.text(348, top + 158, "tokens l", size=11, anchor="end", colour="dim")


def training_memory() -> Picture:
    """Live bytes over a training step without and with checkpointing; and model states of a GPU under ZeRO 0 to 3."""
    model, run = load("gpt2-medium"), Workload(batch_size=8, seq_len=1024, phase="train")
    plain, less = (list(_live(model, run.replaced(recompute=kind))) for kind in ("none", "full"))
    peaks = [max(live) for live in (plain, less)]
    stages = [_states(load("llama-3-8b"), stage) for stage in ("0", "1", "2", "3")]
    totals = [sum(states.values()) for states in stages]
    drawing = Picture(
        "Memory over a training step, without and with checkpointing; model states under ZeRO",
        f"gpt2-medium, {run.batch_size} sequences of {run.seq_len:,} tokens: the peak is {short_bytes(peaks[0])} "
        f"without checkpointing and {short_bytes(peaks[1])} with it. Llama 3 8B on 8 GPUs has "
        + ", ".join(
            f"{short_bytes(total)} of model states a GPU under ZeRO-{stage}" for stage, total in enumerate(totals)
        )
        + ".",
        482,
    )
    up = Scale((0, max(peaks)), (196, 34))
    drawing.text(12, 18, f"a step of gpt2-medium, {run.batch_size} × {run.seq_len:,} tokens", style="strong")
    states = plain[0]
    for live, colour in ((plain, "orange"), (less, "blue")):
        across = Scale((0, len(live) - 1), (12, 348))
        curve = [(across(place), up(amount)) for place, amount in enumerate(live)]
        drawing.area([(12, up(0)), *curve, (348, up(0))], colour)
    drawing.line([(12, up(states)), (348, up(states))], "ink", dashed=True)
    drawing.text(18, up(states) + 14, f"weights and AdamW's moments, {short_bytes(states)}", size=11)
    for line, (words, peak, colour) in enumerate(
        (("no checkpointing", peaks[0], "orange"), ("full checkpointing", peaks[1], "blue"))
    ):
        drawing.text(
            348, 42 + 16 * line, f"{words}: {short_bytes(peak)}", size=11, anchor="end", style="strong", colour=colour
        )
    for at, word, anchor in ((12, "forward", "start"), (180, "loss, backward", "middle"), (348, "optimizer", "end")):
        drawing.text(at, 211, word, size=11, anchor=anchor, colour="dim")

    drawing.text(12, 244, "model states of a GPU, llama-3-8b on 8 GPUs", style="strong")
    colours = {"weights": "blue", "master weights": "purple", "gradients": "orange", "AdamW's moments": "green"}
    scale = Scale((0, totals[0]), (66, 292))
    for stage, (found, total) in enumerate(zip(stages, totals, strict=True)):
        x, y = scale(0), 256 + stage * 38
        drawing.text(12, y + 18, f"ZeRO-{stage}")
        for name, amount in found.items():
            wide = scale(amount) - scale(0)
            drawing.rect(x, y, wide, 26, colours[name])
            x += wide
        drawing.text(x + 6, y + 18, short_bytes(total), size=11, style="mono")
    for place, (name, colour) in enumerate(colours.items()):
        x, y = 12.0 + place % 2 * 130, 420 + place // 2 * 18
        drawing.rect(x, y, 11, 11, colour)
        drawing.text(x + 16, y + 10, name, size=11)
    drawing.text(12, 472, "bf16, fp32 master weights and moments, AdamW", size=11, colour="dim")
    return drawing


def _live(model: Model, run: Workload) -> Iterator[int]:
    """The most live bytes in each of 150 parts of forward and backward, and in the optimizer's step."""
    plan, peaks = Training(), Peaks(model)
    told = cast("list[dict[str, Any]]", memory(model, run, training=plan).to_dict()["timeline"])
    phases = {phase["phase"]: phase for phase in told}
    states: int = phases["forward"]["states_bytes"]
    events, _ = peaks.allocated(*peaks.checked(run, plan))
    live, sizes, course = states, dict[int, int](), [states]
    for tensor, size, _ in events:
        live += size or -sizes.pop(tensor)
        sizes[tensor] = size
        course.append(live)
    parts = 150
    yield from (max(course[part * len(course) // parts : (part + 1) * len(course) // parts]) for part in range(parts))
    yield from [phases["step"]["peak_bytes"]] * 12
    if max(course) != max(phase["peak_bytes"] for name, phase in phases.items() if name != "step"):
        raise ValueError(f"the curve's peak {max(course):,} is not that of {phases}")


def _states(model: Model, stage: str) -> dict[str, int]:
    """Bytes of the model states of a GPU of 8."""
    plan = Training(zero=stage, gpus=8, precision="bf16-master")
    totals = memory(model, Workload(seq_len=512, phase="train"), training=plan).totals
    keys = ("weights_bytes", "master_weights_bytes", "gradients_bytes", "optimizer_bytes")
    names = ("weights", "master weights", "gradients", "AdamW's moments")
    return dict(zip(names, (int(totals[key]) for key in keys), strict=True))


def roofline() -> Picture:
    """What a GPU can do at an arithmetic intensity, and where decoding and reading a prompt are."""
    card, model = named("h100")[0], load("llama-3-8b")
    peak, bandwidth = card.peak("bf16"), card.bandwidth
    ridge = peak / bandwidth
    batches = (1, 4, 16, 64, 256)
    short_ones = [_intensity(model, Workload(phase="decode", batch_size=batch, cached=256)) for batch in batches]
    long_ones = [_intensity(model, Workload(phase="decode", batch_size=batch, cached=8192)) for batch in batches]
    prompt = _intensity(model, Workload(phase="prefill", seq_len=2048))
    drawing = Picture(
        "Roofline of a GPU, with decoding and a prompt",
        f"{card.name}: {peak / 1e12:,.0f} TFLOP/s in bf16, {bandwidth / 1e12:.2f} TB/s, so its ridge is at "
        f"{ridge:,.0f} FLOPs per byte. Decoding llama-3-8b "
        + ", ".join(f"batch {batch}: {one:,.1f}" for batch, one in zip(batches, short_ones, strict=True))
        + " FLOPs per byte with 256 cached tokens, and "
        + ", ".join(f"{one:,.1f}" for one in long_ones)
        + f" with 8,192. A prompt of 2,048 tokens: {prompt:,.0f}.",
        330,
    )
    ends, speeds = (0.5, 5000), (1e12, 2e15)
    across, up = Scale(ends, (48, 348), logarithmic=True), Scale(speeds, (262, 34), logarithmic=True)

    def reached(intensity: float) -> float:
        return min(peak, intensity * bandwidth)

    drawing.text(12, 18, f"{card.name}, llama-3-8b in bf16", style="strong")
    for exponent in (12, 13, 14, 15):
        drawing.line([(48, up(10**exponent)), (348, up(10**exponent))], "dim", dashed=True)
        drawing.text(44, up(10**exponent) + 4, f"{10 ** (exponent - 12):,}", size=11, anchor="end", colour="dim")
    for tick in (1, 10, 100, 1000):
        drawing.text(across(tick), 277, f"{tick:,}", size=11, anchor="middle", colour="dim")
    drawing.line([(across(end), up(reached(end))) for end in (ends[0], ridge, ends[1])], "ink")
    drawing.line([(across(ridge), up(peak)), (across(ridge), 262)], "ink", dashed=True)
    drawing.text(across(ridge) + 4, 255, f"{ridge:,.0f}", size=11, style="strong")
    drawing.text(across(1.0), up(peak) - 6, f"{peak / 1e12:,.0f} TFLOP/s", size=11)
    drawing.text(54, 152, f"{bandwidth / 1e12:.2f} TB/s", size=11)
    for points, colour in ((short_ones, "blue"), (long_ones, "orange")):
        for batch, intensity in zip(batches, points, strict=True):
            x, height = across(intensity), up(reached(intensity))
            drawing.dot(x, height, colour)
            if colour == "blue":
                drawing.text(x - 6, height - 6, f"{batch}", size=11, anchor="end", colour=colour, style="strong")
            elif batch in (1, batches[-1]):
                drawing.text(x + 7, height + 12, f"{batch}", size=11, colour=colour, style="strong")
    drawing.dot(across(prompt), up(reached(prompt)), "purple", 4.5)
    drawing.text(across(prompt), up(peak) + 18, "prompt", size=11, anchor="middle", colour="purple", style="strong")
    drawing.text(348, 291, "FLOPs per byte read", size=11, anchor="end", colour="dim")
    drawing.text(12, 34, "TFLOP/s", size=11, colour="dim")
    drawing.dot(16, 304, "blue")
    drawing.text(26, 308, "decoding, 256 cached tokens, by batch size", size=11)
    drawing.dot(16, 320, "orange")
    drawing.text(26, 324, "the same with 8,192 cached tokens", size=11)
    return drawing


def _intensity(model: Model, run: Workload) -> float:
    """FLOPs of a pass for each byte of weights and cache that it reads; of the embedding it reads a few rows."""
    cached, batch = value_of(run.cached or run.seq_len), value_of(run.batch_size)
    served = memory(model, serving=Serving(context=cached, concurrency=batch, kv="bf16")).totals
    table = 2 * params(model).totals["embedding_params"]
    return float(flops(model, run).answer / (served["weights_bytes"] - table + served["kv_cache_bytes"]))
