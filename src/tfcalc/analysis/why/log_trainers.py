"""Causes of what trainers log: adapters, the parameters of a GPU, a share of the peak, FLOPs of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from tfcalc.analysis.papers import palm
from tfcalc.analysis.shape import STACK, shape_of
from tfcalc.analysis.six_nd import PASSES, counted
from tfcalc.analysis.why import log_lines as log
from tfcalc.analysis.why.answer import in_full
from tfcalc.analysis.why.log_question import CLOSE, ITSELF, MIB, SPREAD, LogCause, LogQuestion, LogRemark
from tfcalc.analysis.why.params_steps import adapters
from tfcalc.analysis.why.tensors import SHIFT
from tfcalc.analysis.why.why import WhyInput
from tfcalc.answers.ranks import ranks
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.hardware import looks_sparse
from tfcalc.placed.layout import ROWS_AT_A_TIME, Layout
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.hardware import Accelerator

HARD_CODED = {"nanoGPT": ("an A100", 312.0), "nanochat": ("an H100", 989.0)}
"""Teraflops by which programs divide, whatever card runs them.

Source: nanoGPT's model.py, ``flops_promised`` of ``estimate_mfu``; nanochat's scripts/base_train.py,
``promised_flops_per_sec_h100``.
"""


def trained(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Yield adapters of as many parameters: on usual matrices, of a usual rank or of any."""
    tree = WhyInput(asked.model, asked.called, None, None).tree()
    for one in adapters(tree, int(number.value)):
        if one.size == number.value:
            command = f"tfcalc params {asked.called} {one.flags}".strip()
            yield LogCause(Fraction(one.size), one.words, one.arithmetic, command, int(10 * one.cost), ITSELF)


def with_trained(number: log.LoggedNumber, asked: LogQuestion) -> Fraction:
    """Parameters that are trained beside the model, among all; 0 where the log has nothing of them."""
    beside = asked.said(log.TRAINABLE) if number.key == log.ALL else None
    return Fraction(0) if beside is None else beside.value


def trained_share(asked: LogQuestion) -> Iterator[LogCause]:
    """The share of what is trained that follows from the line's own numbers."""
    trained, every = asked.said(log.TRAINABLE), asked.said(log.ALL)
    if trained is not None and every is not None and every.value:
        value = 100 * trained.value / every.value
        text = f"100 x {int(trained.value):,} ÷ {int(every.value):,} = {float(value):.4f}"
        yield LogCause(value, "the line's own numbers: trainable over all", text, "", within=ITSELF)


def of_rank(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Parameters of one GPU by Megatron-LM, which fills the vocabulary up to a multiple of 128 and t."""
    tensor, stage_of = (int(part) for part in number.by.split(","))
    layouts = sorted(product(asked.tps, SPREAD), key=prod)
    for (rows, filled), (tp, pp) in product(ROWS.items(), layouts):
        if tensor >= tp or stage_of >= pp:
            continue
        try:
            stages = _params_of_stages(asked, Layout(tp=tp, pp=pp, rows=rows))
        except TfcalcError:
            continue
        size = stages[stage_of]
        words = f"one GPU's parameters, tensor parallel {tp}, pipeline parallel {pp}{filled}"
        command = f"tfcalc ranks {asked.called} --tp {tp} --pp {pp}"
        rare = tp * pp + 100 * bool(filled)
        yield LogCause(Fraction(size), words, f"stage {stage_of}: {size:,}", command, rare, Fraction(0))
        if size == number.value:
            return


def _params_of_stages(asked: LogQuestion, layout: Layout) -> list[int]:
    """The parameters of a GPU of each stage."""
    return [value_of(rank.others) + value_of(rank.experts) for rank in ranks(asked.model, layout).ranks]


ROWS = {
    ROWS_AT_A_TIME: "",
    1: ", the vocabulary not filled up (--make-vocab-size-divisible-by 1)",
}
"""Multiples that Megatron-LM fills a vocabulary up to, on each GPU."""
PLAIN_STATES, SHARED_BY = Fraction(18), (1, 2, 4, 8, 16, 32, 64)
"""Bytes of a parameter that Megatron-LM adds up, and GPUs that share the optimizer's.

They are 2 of its weight, 4 of its gradient, 12 of the optimizer.
"""


def states(asked: LogQuestion) -> Iterator[LogCause]:
    """Weights and what the optimizer has of them, on one GPU, by theoretical_memory_usage.py of Megatron-LM."""
    for tp, pp in product(asked.tps, SPREAD):
        try:
            most = max(_params_of_stages(asked, Layout(tp=tp, pp=pp)))
        except TfcalcError:
            continue
        command = f"tfcalc ranks {asked.called} --tp {tp} --pp {pp}"
        for dp in SHARED_BY:
            each = PLAIN_STATES if dp == 1 else 6 + Fraction(12, dp)
            words = f"weights, gradients and Adam's states of one GPU, tensor parallel {tp}, pipeline parallel {pp}"
            words += f", the optimizer shared by {dp} (--use-distributed-optimizer)" if dp > 1 else ""
            text = f"{most:,} x {float(each):g} bytes = {in_full(most * each)}"
            yield LogCause(most * each, words, text, command, tp * pp * dp, CLOSE)


def sum_of_states(asked: LogQuestion) -> Iterator[LogCause]:
    """The sum of the line's own numbers."""
    first, second = asked.said(log.STATES), asked.said(log.SAVED)
    if first is not None and second is not None:
        value = first.value + second.value
        text = f"{float(first.value / MIB):,.2f} + {float(second.value / MIB):,.2f} = {float(value / MIB):,.2f} MB"
        yield LogCause(value, "the line's own numbers: weight and optimizer, and activation", text, "", within=ITSELF)


def decayed(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Parameters with weight decay by nanoGPT, all but vectors; and those without, the vectors."""
    tree = WhyInput(asked.model, asked.called, None, None).tree()
    known = asked.facts.vocab_size or 0
    cells = Counter[tuple[bool, bool, bool]]()
    for node in tree.walk():
        for weight in node.component.own.weights:
            sizes = [value_of(size) for size in weight.shape]
            if weight.tied_to is None:
                bias = weight.minor and not (node.component.kind == "norm" and not weight.name.startswith(SHIFT))
                cells[len(sizes) < 2, known in sizes, bias] += value_of(node.copies) * value_of(weight.size)
    vectors = number.by == "non-decayed"
    command = f"tfcalc params {asked.called}"
    if vectors:
        of_norms = sum(size for (vector, _, bias), size in cells.items() if vector and not bias)
        biases = sum(size for (vector, _, bias), size in cells.items() if vector and bias)
        text = f"{of_norms:,} + {biases:,} = {of_norms + biases:,}"
        yield LogCause(Fraction(of_norms + biases), "vectors: norms and biases", text, command, within=Fraction(0))
        yield LogCause(
            Fraction(of_norms), "vectors of norms, with bias=False", f"{of_norms:,}", command, 1, Fraction(0)
        )
        return
    words = sum(size for (vector, words, _), size in cells.items() if words and not vector)
    rest = sum(size for (vector, words, _), size in cells.items() if not words and not vector)
    for rare, multiple in enumerate((1, 64, 128)):
        padded = -(-known // multiple) * multiple
        size = words // known * padded if known else 0
        said = f", the vocabulary filled up to {padded:,}" if padded != known else ""
        text = f"{rest:,} + {size:,} = {rest + size:,}"
        flags = f" --vocab-size {padded}" if said else ""
        yield LogCause(Fraction(rest + size), f"matrices and tables{said}", text, command + flags, rare, Fraction(0))


def by_time(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """MFU by the time of the iteration: of a whole number of sequences, or of the batch that is said."""
    iteration = asked.said(log.ITERATION)
    if iteration is None or not iteration.value:
        return
    run = Workload(seq_len=asked.model.longest or Workload().seq_len) if asked.workload is None else asked.workload
    length, tree = value_of(run.seq_len), asked.model.tree(run.replaced(batch_size=1))
    shape, unlike = shape_of(tree, run.replaced(batch_size=1))
    if STACK in unlike:
        return
    n = counted(tree).every - _positions(tree)
    each = PASSES * value_of(palm(shape._replace(N=n)))
    card, constant = HARD_CODED[number.program]
    promised = Fraction(str(constant)) * 10**12 * iteration.value / 1000
    typed = asked.workload is not None and value_of(run.batch_size) > 1
    about = number.value / 100 * promised / each
    several = value_of(run.batch_size) if typed else max(round(about), 1)
    value = 100 * several * each / promised
    of = f"{several:,} sequence{'s' * (several != 1)} of {length:,} tokens"
    words = f"{of} in {float(iteration.value):g} ms, over the peak of {card} ({constant:g} TFLOP/s); the mean so far"
    text = (
        f"{several:,} x {each:,} FLOPs (6N + 12LHQT a token) ÷ {float(iteration.value) / 1000:g} s ÷ "
        f"{constant:g}e12 = {float(value):.2f} %"
    )
    yield LogCause(value, words, text, "")


def _positions(tree: Component) -> int:
    """The parameters of a table of positions, which nanoGPT leaves out."""
    return sum(
        value_of(node.copies) * value_of(weight.size)
        for node in tree.walk()
        if node.component.kind == "position"
        for weight in node.component.own.weights
    )


def share_of_peak(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Share of the card's dense peak, in per cent."""
    if asked.gpu is None:
        return
    peak = Fraction(str(_peak(asked.gpu)))
    if not peak:
        return
    if number.key == log.RATE:
        value = number.value / peak * 100
        text = f"{float(number.value):g} ÷ {float(peak):g} = {float(value):.1f} %"
        words = f"FLOPs of the model as a share of the dense peak of {asked.gpu.name}"
        yield LogCause(value, words, text, "", measure=True)
        return
    card, constant = HARD_CODED[number.program]
    value = number.value * Fraction(str(constant)) / peak
    text = f"{float(number.value):g} % x {constant:g} ÷ {float(peak):g} = {float(value):.1f} %"
    has = f"{asked.gpu.name} has {float(peak):g}"
    words = f"{number.program}'s peak is that of {card}, {constant:g} TFLOP/s, on any card; {has}"
    yield LogCause(value, words, text, "", measure=True)


def of_peak(number: log.LoggedNumber) -> Iterator[LogCause]:
    """Teraflops over those of a peak, as MFU is worked out by hand: of a sparse peak the dense one beside it."""
    peak = Fraction(number.by)
    value = number.value / peak * 100
    text = f"{float(number.value):g} ÷ {float(peak):g} = {float(value):.1f} %"
    card = looks_sparse(float(peak) * 10**12, "bf16")
    if card is None:
        yield LogCause(
            value, f"the share of a peak of {float(peak):g} TFLOP/s, not one with sparsity", text, "", measure=True
        )
        return
    dense = Fraction(str(_peak(card)))
    share = number.value / dense * 100
    text += f"; {float(number.value):g} ÷ {float(dense):g} = {float(share):.1f} %"
    words = f"{float(peak):g} TFLOP/s is the peak of {card.name} with sparsity, which training does not use"
    yield LogCause(
        share, f"{words}: the dense one is {float(dense):g}, and the share of that counts", text, "", measure=True
    )


def flos(asked: LogQuestion) -> Iterator[LogCause]:
    """6ND without the parameters of embeddings, which is what transformers' Trainer adds up."""
    tree = WhyInput(asked.model, asked.called, None, None).tree()
    known = counted(tree)
    if asked.tokens is not None:
        value = 6 * known.every * asked.tokens
        text = f"6 x {known.every:,} x {asked.tokens:,} = {value:.3e}"
        yield LogCause(Fraction(value), "6ND, N all parameters", text, f"tfcalc flops {asked.called} --train", 1)
        less = 6 * known.without_embeddings * asked.tokens
        text = f"6 x {known.without_embeddings:,} x {asked.tokens:,} = {less:.3e}"
        words = "6ND, N without embeddings (Trainer's floating_point_ops)"
        yield LogCause(Fraction(less), words, text, f"tfcalc flops {asked.called} --train")


def _peak(gpu: Accelerator) -> float:
    """Dense TFLOP/s of 16-bit numbers; 0 where none are known."""
    return (gpu.peaks.get("bf16") or gpu.peaks.get("fp16") or 0) / 10**12


def remarks(asked: LogQuestion) -> Iterator[LogRemark]:
    """Remarks on shares of a peak, and on FLOPs of a run."""
    measured, rate, flos = asked.said(log.MFU, log.RATE), asked.said(log.RATE), asked.said(log.FLOS)
    if measured is not None and asked.gpu is None and asked.said(log.ITERATION) is None:
        yield LogRemark(measured.text, "a share of the peak needs the card: add --gpu h100", False)
    if rate is not None and asked.gpu is not None:
        yield from _on_rate(rate, asked.gpu)
    if flos is not None and asked.tokens is None:
        yield LogRemark(flos.text, "Trainer adds up 6ND, N without embeddings; add --tokens N to compare", False)


def _on_rate(rate: log.LoggedNumber, gpu: Accelerator) -> Iterator[LogRemark]:
    peak = _peak(gpu)
    share = float(rate.value) / peak if peak else 0
    if share > 1:
        words = f"{share:.2f} times the dense peak of {gpu.name} is impossible: another card, or FLOPs counted twice"
        yield LogRemark(rate.text, words, False)
    elif share:
        usual = "as published runs reach" if share >= USUAL else f"published runs reach {USUAL:.0%} and more"
        words = f"Megatron-LM counts the model's FLOPs: an MFU of {share:.1%}, {usual}"
        yield LogRemark(rate.text, words.replace("%", " %"))


USUAL = 0.3
"""MFU from which on nobody asks why."""
