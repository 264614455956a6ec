"""Causes of what PyTorch tried to allocate, and what its message says of the card."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from tfcalc.analysis.why import log_lines as log
from tfcalc.analysis.why.log_question import GIB, MIB, LogCause, LogQuestion, LogRemark
from tfcalc.analysis.why.step_tensors import in_layers, logits
from tfcalc.analysis.why.why import WhyInput
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.serving.memory import weights_bytes
from tfcalc.training.allocator import DEFAULT, LARGE_SEGMENT, SMALL_SEGMENT

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload

ODD, HARDLY = (1, 3, 5, 7, 9, 15), 256
"""Round numbers of tokens are one of these times a power of two; others are at least a multiple of this one."""
UNROUND, NOT_ROUND = 10, 20
MOST_TOKENS = 65_536
"""More tokens of one step are seldom on one GPU."""
LENGTHS = tuple(2**power for power in range(9, 18))
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Sequences, and how many of them, that people run."""
OF_WEIGHTS, OF_SCORES = 1, 6
ANY_SIZE = {SMALL_SEGMENT: "of up to 1 MiB", LARGE_SEGMENT: "from 1 to 10 MiB"}
"""Sizes that say little of a tensor."""
SHOWN = 4
"""Causes that are told of one number."""


def every(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Tensors of a training step as large as what PyTorch tried to allocate."""
    yield from _rows(number, asked)
    yield from _matrices(number, asked)
    yield from _scores(number, asked)


def _rows(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """A row of some width for each token: of the workload, of more sequences of its length, or as round as may be."""
    run, known = asked.workload, asked.facts
    for rare, (what, width) in enumerate((*logits(known), *in_layers(known))):
        tokens = _most_round(number, width) if run is None else _of_sequences(number, width, run)
        if not tokens:
            continue
        size = tokens * width
        text = f"{tokens:,} x {width:,} bytes = {size:,}{_padded(size)}"
        seldom = 0 if MOST_TOKENS >= tokens >= HARDLY else len(ODD)
        more = 0 if run is None else tokens // value_of(run.target.tokens)  # sequences that nobody said
        cost = rare + 10 * (_oddity(tokens) + seldom if run is None else more.bit_length() - 1)
        command = f"tfcalc memory {asked.called} --train{_sizes(asked, tokens)}"
        yield LogCause(Fraction(reserved_for(size)), f"{what}, of {tokens:,} tokens", text, command, cost)


def _matrices(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """A matrix of the model, or its gradient; those of one size together."""
    found: dict[tuple[int, ...], list[str]] = {}
    for node in WhyInput(asked.model, asked.called, None, None).tree().walk():
        for weight in node.component.own.weights:
            sizes = tuple(sorted(value_of(size) for size in weight.shape))
            if len(sizes) > 1:
                found.setdefault(sizes, []).append(node.path.partition(".")[2] or node.path)
    for (sizes, paths), (bytes_each, said) in product(found.items(), ((2, "16 bits"), (4, "fp32"))):
        size = prod(sizes) * bytes_each
        if abs(reserved_for(size) - number.value) <= number.rounded:
            names = ", ".join(dict.fromkeys(path.rpartition(".")[2] for path in paths))
            words = f"one matrix in {said}, its weights or its gradient ({names})"
            text = f"{' x '.join(f'{each:,}' for each in sizes)} x {bytes_each} = {size:,}{_padded(size)}"
            command = f"tfcalc explain {paths[0]} {asked.called}"
            yield LogCause(Fraction(reserved_for(size)), words, text, command, OF_WEIGHTS)


def _scores(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """The scores of eager attention: of the workload, or of as few sequences of some usual length as may be."""
    heads, run, longest = asked.facts.heads or 0, asked.workload, value_of(asked.model.longest or 0)
    said_batch, own = (1, 0) if run is None else (value_of(run.batch_size), value_of(run.target.length))
    lengths = [own] if own else [length for length in LENGTHS if not longest or length <= longest]
    runs = [(batch, length) for batch in (BATCHES if said_batch == 1 else (said_batch,)) for length in lengths]
    for bytes_each, said in ((4, "fp32"), (2, "16 bits")):
        for batch, length in runs if heads else ():
            size = batch * heads * length**2 * bytes_each
            asked_for = own and batch == said_batch
            if not asked_for and abs(reserved_for(size) - number.value) > number.rounded:
                continue
            words = f"the scores of eager attention, {length:,} x {length:,} for each of {heads:,} heads, in {said}"
            text = f"{batch:,} x {heads:,} x {length:,}² x {bytes_each} = {size:,}{_padded(size)}"
            command = f"tfcalc memory {asked.called} --train --attention-kernel eager{_sizes(asked, length, batch)}"
            unsaid = 0 if asked_for else _oddity(batch) if run is None else batch.bit_length() - 1
            rare = OF_SCORES + 10 * unsaid
            yield LogCause(Fraction(reserved_for(size)), words, text, command, rare)
            if not asked_for:
                break


def _of_sequences(number: log.LoggedNumber, width: int, run: Workload) -> int:
    """Tokens of a workload, or of several of its sequences if that takes what was tried, and no batch is said."""
    length, batch = value_of(run.target.length), value_of(run.batch_size)
    larger = (length * each for each in BATCHES if batch == 1)
    fits = (tokens for tokens in larger if abs(reserved_for(tokens * width) - number.value) <= number.rounded)
    return next(fits, length * batch)


def _sizes(asked: LogQuestion, length: int, batch: int = 1) -> str:
    """The options of a workload of ``batch`` sequences: of as many tokens in all, where the length of one is said."""
    if asked.workload is not None:
        tokens, length = length * batch, value_of(asked.workload.target.length)
        batch = tokens // length
    return f" --seq {length}" + (f" --batch {batch}" if batch > 1 else "")


def reserved_for(size: int) -> int:
    """Return the bytes that PyTorch asks the driver for where it has no block for a tensor of this size."""
    return DEFAULT.segment_for(DEFAULT.rounded(size))


def _padded(size: int) -> str:
    """Words on the bytes that PyTorch asks the driver for in its place."""
    padded = reserved_for(size)
    return "" if padded == size else f", which PyTorch rounds up to {padded / MIB:,.0f} MiB"


def _most_round(number: log.LoggedNumber, width: int) -> int:
    """The token count, of those that are written so, that the highest power of two divides; 0 where there is none."""
    if number.value <= SMALL_SEGMENT:
        return 0
    low = int((number.value - number.rounded - SMALL_SEGMENT) / width) + 1
    high = int((number.value + number.rounded) / width)
    if high < max(low, 1):
        return 0
    step = 1
    while high // (2 * step) * 2 * step >= max(low, 1):
        step *= 2
    return max(high // step * step, 1)


def _oddity(tokens: int) -> int:
    """Grade a number of tokens, the round ones first: by what is left of it when it is halved as often as it can be."""
    odd = tokens // (tokens & -tokens)
    return ODD.index(odd) if odd in ODD else UNROUND if tokens % HARDLY == 0 else NOT_ROUND


def candidates(number: log.LoggedNumber, asked: LogQuestion) -> list[LogCause]:
    """The causes that fit, the likely ones first; those with an unround number of tokens only where no other fits."""
    close = [one for one in every(number, asked) if abs(one.value - number.value) <= number.rounded]
    close.sort(key=lambda one: one.rare)
    return [one for one in close if one.rare < close[0].rare + 10 * len(ODD)][:SHOWN]


def remarks(asked: LogQuestion) -> Iterator[LogRemark]:
    """Remarks on the card, of an OOM message."""
    tried, unallocated = asked.said(log.TRIED), asked.said(log.UNALLOCATED)
    if tried is None:
        return
    if asked.workload is None and all(one.rare >= 10 * len(ODD) for one in candidates(tried, asked)):
        yield LogRemark(tried.text, "no round number of tokens gives it; add --batch and --seq to compare", False)
    if (sizes := ANY_SIZE.get(int(tried.value))) is not None:
        words = f"PyTorch asks for that much for every tensor {sizes} that it has no block for: the card is full"
        yield LogRemark(tried.text, words)
    free, allocated, capacity = asked.said(log.FREE), asked.said(log.ALLOCATED), asked.said(log.CAPACITY)
    if unallocated is not None and unallocated.value >= tried.value:
        yield LogRemark(
            "fragmentation",
            f"{unallocated.text}, more than was tried; PYTORCH_ALLOC_CONF=expandable_segments:True may be enough",
        )
    if free is not None and free.value >= tried.value:
        yield LogRemark(
            tried.text,
            f"while {float(free.value / GIB):.2f} GiB is free: another process gave memory back meanwhile, "
            " the process has a limit (set_per_process_memory_fraction), or the card's free memory is in "
            "pieces; nvidia-smi shows who else is on the card",
        )
    if capacity is not None and tried.value > capacity.value:
        yield LogRemark("", "one tensor is larger than the card: no other change than a smaller tensor helps")
    elif allocated is not None and free is not None and unallocated is not None and unallocated.value < tried.value:
        short = tried.value - free.value - unallocated.value
        if short > 0:
            words = f"{float(short / GIB):.2f} GiB short, what PyTorch holds and does not use counted as free"
            yield LogRemark("", words)
    if allocated is not None:
        size = _stored(asked.model)
        if size is not None:
            share = f"{float(size / allocated.value):.0%}".replace("%", " %")
            words = f"the weights alone are {size / GIB:.2f} GiB in their own format, {share} of what is allocated"
            yield LogRemark("", words)
        if capacity is not None and allocated.value > capacity.value:
            words = "more is allocated than the card has: shared memory of the host (WSL, Windows), which is slow"
            yield LogRemark("", words)


def _stored(model: Model) -> int | None:
    try:
        return value_of(weights_bytes(model, WhyInput(model, "", None, None).tree()))
    except TfcalcError:
        return None
