"""A device of Megatron-LM: what its piece of a model saves for backward, and micro-batches in flight."""

from __future__ import annotations

from tfcalc.backends.megatron import NUMERICS, Megatron
from tfcalc.backends.program import ModuleProgram
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.nn.module import Module
from tfcalc.placed.dropout import with_dropout
from tfcalc.placed.layout import Layout, check_even
from tfcalc.tape.value import Kept
from tfcalc.workload import Workload


def kept_on_device(piece: Module, tree: Component, run: Workload) -> list[Kept]:
    """Tensors saved for backward at the end of forward, each kind of layer once; ``tree`` says what is trained."""
    running = ModuleProgram(with_dropout(piece), run, NUMERICS, Megatron(), every_layer=False)
    running(tree)
    return list(running.tape.kept.values())


def chunks_in_flight(at: Layout) -> Num:
    """Number of micro-batches for which a chunk of layers has saved tensors at once.

    1F1B: ``p − S`` on stage S (Korthikanti et al. 2022, appendix C; section 4.2.3 has p on the first). Interleaved:
    ``pm + p − 1 − 2S`` with m chunks a stage; on the first, times L/pm layers, it is the paper's ``L(1 + (p − 1)/pm)``.
    A later stage runs two chunks less ahead than the one before it (Megatron-LM's
    ``forward_backward_pipelining_with_interleaving``: ``2(p − S − 1) + (m − 1)p`` chunks, and the one that runs).

    >>> chunks_in_flight(Layout(pp=8)), chunks_in_flight(Layout(pp=8, vpp=3)), chunks_in_flight(Layout(pp=8, stage=7))
    (8, 31, 1)
    """
    if at.vpp == 1:
        return at.pp - at.stage
    return at.pp * at.vpp + at.pp - 1 - 2 * at.stage


def in_flight(saved: Component, stack: str, at: Layout) -> Component:
    """Saved tensors of one micro-batch on a stage, times the micro-batches in flight.

    The layers of this ``stack`` in chunks; the embedding of the first stage for p micro-batches, interleaved or not,
    and what is behind the layers of the last for one (section 4.3).
    """
    parts = tuple(_part(part, stack, at) for part in saved.parts)
    return saved._replace(parts=parts)


def _part(part: Component, stack: str, at: Layout) -> Component:
    if _of_stack(part, stack):
        return _in_chunks(part, at)
    if any(_of_stack(node.component, stack) for node in part.walk()):
        return in_flight(part, stack, at)
    return part._replace(copies=part.copies * (at.pp - at.stage))


def _of_stack(part: Component, stack: str) -> bool:
    """Return whether these are layers of the stack, all of them or some."""
    return part.name.partition("[")[0] == stack


def _in_chunks(layers: Component, at: Layout) -> Component:
    check_even("layers that are alike", layers.copies, "interleave", at.vpp)
    of_a_chunk = layers._replace(copies=divide(layers.copies, at.vpp))
    return Component("chunk", "memory", parts=(of_a_chunk,), copies=chunks_in_flight(at))
