"""FLOPs, sorted into cells, and what people do with them: halve, leave out, take rules of thumb."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.common import run_tree
from tfcalc.analysis.six_nd import counted
from tfcalc.analysis.why.given import FLOPS, nominal
from tfcalc.analysis.why.search import CountingStep, Start, State
from tfcalc.analysis.why.tensors import STACKS
from tfcalc.core.component import Component
from tfcalc.core.measure import (
    LAYERS,
    matmul_again_flops,
    matmul_backward_flops,
    matmul_flops,
    params,
)
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload

ATTENTION, HEAD, REST = "attention products", "output head", "weights"
FORWARD, BACKWARD, AGAIN = "forward", "backward", "recomputed"
PASSES = {FORWARD: matmul_flops, BACKWARD: matmul_backward_flops, AGAIN: matmul_again_flops}
PART, ALL, BESIDE, ROUND_N, ROUNDED_TO = 1.0, 1.25, 0.5, 0.75, 3
OTHER_LENGTH, EXACTLY = 0.75, 0.25
"""What another sequence costs than the one that was asked; and to count a whole run exactly, which few do."""
PARTS = {
    **dict.fromkeys(STACKS, "stack"),
    "layer": "layer",
    "attention": "attention",
    "ffn": "feed-forward network",
    "moe": "mixture of experts",
}
LENGTHS = (1, 128, 256, 1024, 2048, 4096, 8192)
"""Sequences that people count FLOPs of, where the question says nothing."""


class FlopCell(NamedTuple):
    """The matrix products of one pass: those of attention with no weight, the output head, the rest of the weights."""

    part: str
    run: str
    layer: bool = False
    copies: int = 1
    active: int = 1
    masked: bool = False
    """Whether it is attention's, and a causal mask hides some of its pairs."""


Cells = dict[FlopCell, int]
S = State[FlopCell]


def masked_of(model: Model, workload: Workload) -> frozenset[str]:
    """The paths of attention that a causal mask is for: it has fewer products once only unmasked pairs are counted."""
    short = workload.replaced(phase="forward", recompute="none", seq_len=SHORT, cached=None)
    try:
        whole, unmasked = (_by_path(run_tree(model, short.replaced(attention=pairs))) for pairs in ("full", "causal"))
    except TfcalcError:
        return frozenset()
    return frozenset(path for path, flops in whole.items() if unmasked.get(path, flops) != flops)


def _by_path(tree: Component) -> dict[str, int]:
    """The products of each path, those of groups of layers together."""
    found: dict[str, int] = {}
    for node in tree.root().walk():
        path = LAYERS.sub("", node.path)
        found[path] = found.get(path, 0) + value_of(node.times.run) * value_of(matmul_flops(node.component.own))
    return found


SHORT = 16
"""A sequence within every window."""


def cells_of(tree: Component, masked: Collection[str], *, training: bool, path: str = "") -> Cells:
    """The FLOPs of a tree by cell; ``path`` is where it is in the model, ``masked`` the paths of causal attention."""
    found: Cells = {}

    def walk(part: Component, path: str, times: int, layer: bool, copies: int, active: int) -> None:
        times *= value_of(part.times.run)
        layer = layer or part.kind == "layer"
        if part.active is not None:
            copies, active = copies * value_of(part.copies), active * value_of(part.active)
        if part.own.products:
            kind = ATTENTION if part.kind == "attend" else HEAD if part.kind == "output" else REST
            for run, measure in PASSES.items():
                if run == FORWARD or training:
                    cell = FlopCell(kind, run, layer, copies, active, LAYERS.sub("", path) in masked)
                    found[cell] = found.get(cell, 0) + times * value_of(measure(part.own))
        for inner in part.parts:
            walk(inner, f"{path}.{inner.name}", times, layer, copies, active)

    walk(tree, path or tree.name, 1, False, 1, 1)
    return {cell: size for cell, size in found.items() if size}


def starts(
    model: Model, workload: Workload, called: str, tokens: int | None, *, given: bool, phase_given: bool
) -> Iterator[Start[FlopCell]]:
    """The workload that was asked about; where its length or its phase was not given, others."""
    lengths: list[int | None] = [None] if given else [None, *LENGTHS]
    longest, masked = model.longest, masked_of(model, workload)
    if not given and isinstance(longest, int) and longest not in LENGTHS:
        lengths.append(longest)
    for length in lengths:
        run = workload if length is None else workload.replaced(seq_len=length)
        phases = (workload.phase,) if phase_given else ("forward", "train")
        if tokens is not None and not phase_given:
            phases = ("train", "forward")
        for phase in phases:
            one = run.replaced(phase=phase, recompute=run.recompute if phase == "train" else "none")
            try:
                tree = run_tree(model, one)
            except TfcalcError:
                continue
            rare = 0.0 if phase == phases[0] else 0.5
            yield from _of_run(tree, masked, one, called, tokens, length, rare)
            if tokens is None or length is None:
                yield from _rules(tree, masked, one, called, tokens, rare + (0.0 if length is None else OTHER_LENGTH))


def _of_run(
    tree: Component,
    masked: Collection[str],
    run: Workload,
    called: str,
    tokens: int | None,
    length: int | None,
    rare: float,
) -> Iterator[Start[FlopCell]]:
    training = run.training
    name = "a training step" if training else {"decode": "one decoded token"}.get(run.phase, "a forward pass")
    now = value_of(run.target.tokens)
    sizes = f"{value_of(run.batch_size):,} x {value_of(run.target.length):,} tokens"
    words = "" if length is None and not rare else f"{name}, {sizes}"
    cost = rare + (0.0 if length is None else OTHER_LENGTH) + (0.0 if tokens is None else EXACTLY)
    flags = f" --seq {value_of(run.target.length)}" if not run.decoding else ""
    flags += f" --batch {run.batch_size}" if run.batch_size != 1 else ""
    flags += " --train" if training else f" --phase {run.phase}" if run.phase != "forward" else ""
    command = f"tfcalc flops {called}{flags}"
    state: S = State(cells_of(tree, masked, training=training))
    if tokens is not None:
        state = state.times(Fraction(tokens, now))
        name = f"a run over {tokens:,} tokens" if training else f"forward passes over {tokens:,} tokens"
        command += f" --tokens {tokens}" if training else ""
    yield Start(f"{run.phase}_{now}", f"FLOPs of {name}, {sizes}", words, state, command, cost, FLOPS)
    if tokens is None:
        yield from of_parts(tree, masked, run, called, cost)


def _rules(
    tree: Component, masked: Collection[str], run: Workload, called: str, tokens: int | None, cost: float
) -> Iterator[Start[FlopCell]]:
    """2ND, 6ND and 8ND; N by its definitions, and rounded."""
    if run.decoding:
        return
    over, factor = tokens or value_of(run.target.tokens), 6 if run.training else 2
    n, total = counted(tree), value_of(tree.total(params))
    command = f"tfcalc flops {called} --compare-conventions" + (" --train" if run.training else "")
    sizes = {"all parameters": n.every, "parameters without embeddings": n.without_embeddings}
    if total != n.every:
        sizes = {"active parameters": n.every, "active parameters without embeddings": n.without_embeddings}
        sizes |= {"all parameters, those of every expert among them": total}
    if n.every > n.without_embeddings and (tables := _tables(tree)):
        sizes |= {"parameters without the input embeddings": n.every - tables}
    attention = _attention(tree, masked, training=run.training, times=Fraction(over, value_of(run.target.tokens)))
    for place, (what, size) in enumerate(sizes.items()):
        rare = cost + (0.75 if not place else 1.0)
        for times, why in ((factor, ""), (8, " (full recomputation)")) if run.training else ((factor, ""),):
            words = f"{times}ND{why}, N = {size:,}: {what}"
            state: S = State({FlopCell(REST, FORWARD, True): size * over}, Fraction(times))
            name = f"rule_{times}nd_{place}"
            more = 0.25 if why else 0.0
            yield Start(name, f"{times} x {size:,} x {over:,}", words, state, command, rare + more, FLOPS, deep=1)
        yield from _with_attention(attention, size, what, over, factor, (f"rule_{factor}nd_{place}", command, rare))
    for size, said, rare in nominal(n.every, ROUNDED_TO):
        words = f"{factor}ND, N rounded to {said}"
        state = State({FlopCell(REST, FORWARD, True): size * over}, Fraction(factor))
        what, named = f"{factor} x {size:,} x {over:,}", (f"rule_{factor}nd_{said}", command, cost + ROUND_N + rare)
        yield Start(named[0], what, words, state, command, named[2], FLOPS, deep=1)
        yield from _with_attention(attention, size, f"rounded to {said}", over, factor, named)


def _with_attention(
    attention: Cells, size: int, what: str, over: int, factor: int, named: tuple[str, str, float]
) -> Iterator[Start[FlopCell]]:
    """A rule of thumb with the products of attention beside it, as PaLM's formula and its followers have."""
    if attention:
        name, command, cost = named
        state: S = State({FlopCell(REST, FORWARD, True): factor * size * over, **attention})
        words = f"{factor}ND and the products of attention ({2 * factor}LHQT a token), N = {size:,}: {what}"
        yield Start(f"{name}_attention", words, words, state, command, cost + BESIDE, FLOPS, deep=2)


def _attention(tree: Component, masked: Collection[str], *, training: bool, times: Fraction) -> Cells:
    """The products of attention alone, of ``times`` runs."""
    all_cells = cells_of(tree, masked, training=training)
    return {cell: int(size * times) for cell, size in all_cells.items() if cell.part == ATTENTION}


def _tables(tree: Component) -> int:
    """The parameters of embeddings and positions that no product multiplies: not of one that is tied to the head."""
    tables = (node for node in tree.walk() if node.component.kind in ("embedding", "position"))
    return sum(value_of(node.copies * node.component.each(params)) for node in tables)


def of_parts(
    tree: Component, masked: Collection[str], run: Workload, called: str, cost: float
) -> Iterator[Start[FlopCell]]:
    """Yield each stack, layer and sub-layer by itself, and all of its copies together."""
    seen: set[int] = set()
    for node in tree.walk():
        path = node.path.partition(".")[2]
        if not path or node.component.kind not in PARTS:
            continue
        one = cells_of(node.component._replace(copies=1), masked, training=run.training, path=node.path)
        copies = value_of(node.times.run)
        for times, which, rare in ((1, "one", PART), (copies, f"all {copies:,} x", ALL)):
            total = sum(one.values()) * times
            if total and total not in seen:
                seen.add(total)
                words = f"{which if copies > 1 else 'the'} {PARTS[node.component.kind]} ({path}) alone"
                state: S = State({cell: size * times for cell, size in one.items()})
                command = f"tfcalc flops {called} --depth {path.count('.') + 1}"
                yield Start(f"part_{path}_{times}", words, words, state, command, cost + rare, FLOPS, deep=2)


def steps(workload: Workload) -> Iterator[CountingStep[FlopCell]]:
    """Steps that people take: they leave out, halve, or count beside."""
    yield from _pairs(workload)
    words = "the products of attention (Q Kᵀ and P V) left out: only those of weights"
    yield CountingStep("no_attention", words, 1.0, lambda state: state.without(lambda c: c.part == ATTENTION), "pairs")
    words = "without the output head"
    yield CountingStep("no_head", words, 1.0, lambda state: state.without(lambda c: c.part == HEAD), "head")
    words = "the layers alone: without the output head and whatever else is outside of them"
    yield CountingStep("layers_alone", words, 1.5, lambda state: state.only(lambda c: c.layer), "head")
    words = "all experts counted, not only those that a token is sent to"
    every = CountingStep[FlopCell]("all_experts", words, 1.5, _all_experts, "experts")
    yield every
    words = "with full recomputation: the layers' forward pass once more"
    yield CountingStep("recomputed", words, 1.0, _recomputed, "pass", "--recompute full")
    words = "multiply-adds (MACs) called FLOPs: each is a multiplication and an addition, 2 FLOPs"
    yield CountingStep("macs", words, 1.0, lambda state: state.times(Fraction(1, 2)), "macs")
    now = value_of(workload.target.tokens)
    if now > 1:
        yield CountingStep("per_token", "per token", 0.25, lambda state: state.times(Fraction(1, now)), "tokens")


def _pairs(workload: Workload) -> Iterator[CountingStep[FlopCell]]:
    """Attention's products of the unmasked pairs alone: exactly, or half of all."""
    if workload.attention != "full" or workload.decoding:
        return
    for name, words in (
        ("causal-half", "half of attention's products, as the causal mask leaves about half of the pairs (l²/2)"),
        ("causal", "the pairs that the causal mask leaves, exactly: l(l + 1)/2"),
    ):

        def change(state: S, name: str = name) -> S | None:
            length = value_of(workload.target.length)
            ratio = Fraction(1, 2) if name == "causal-half" else Fraction(length + 1, 2 * length)
            return state.changed(lambda cell, size: int(size * ratio) if cell.masked else size)

        yield CountingStep(name.replace("-", "_"), words, 1.0, change, "pairs", f"--attention {name}")


def _all_experts(state: S) -> S | None:
    return state.changed(lambda cell, size: size * cell.copies // cell.active)


def _recomputed(state: S) -> S | None:
    """The forward pass of the layers again, in a training step."""
    if not any(cell.run == BACKWARD for cell in state.cells) or any(cell.run == AGAIN for cell in state.cells):
        return None
    more = {c._replace(run=AGAIN): n for c, n in state.cells.items() if c.run == FORWARD and c.layer}
    return state.plus(more)
