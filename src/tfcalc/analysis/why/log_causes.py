"""Causes of numbers in log lines: each beside the one that the model gives, with the constant by which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.analysis.six_nd import counted
from tfcalc.analysis.why import log_lines as log
from tfcalc.analysis.why.answer import Reason, Why, exact, in_full
from tfcalc.analysis.why.why import MEMORY, WhyInput, conventions_of
from tfcalc.answers.ranks import ranks
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, TfcalcError, UsageError
from tfcalc.hardware import looks_sparse
from tfcalc.placed.layout import Layout
from tfcalc.placed.served import ServedLayout
from tfcalc.plans import Serving
from tfcalc.serving.engine_rules import engines, loaded
from tfcalc.serving.memory import weights_bytes
from tfcalc.serving.paging import SLIDING, STATE, Engine, layers, pool
from tfcalc.serving.ranks import ServingRank, ServingRanks
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.serving.paging import CachePool

GIB = 2**30
CLOSE, NEAR = Fraction(15, 10_000), Fraction(1, 40)
"""By which fractions a number is the one of the log, and plausibly so: the rest is rounding, padding and alignment."""
SPREAD = (1, 2, 4, 8)
"""GPUs over which a model is split, tried where nobody says how many."""
KV = ("auto", "fp8")
BATCHED = (2048, 8192, 16_384, 32_768)
"""Prompt tokens that vLLM reads at once, which bound what a window stores."""
HARD_CODED = {"nanoGPT": ("an A100", 312.0), "nanochat": ("an H100", 989.0)}
"""Teraflops by which programs divide, whatever card runs them.

Source: nanoGPT's model.py, ``flops_promised`` of ``estimate_mfu``; nanochat's scripts/base_train.py,
``promised_flops_per_sec_h100``.
"""
HALF = Fraction(1, 2)


ON_A_GPU = (log.WEIGHTS, log.POOL, log.TOKENS, log.BLOCKS, log.CONCURRENCY, log.NEEDED, log.CACHE, log.RANK)
BEARS_ON = {
    "tensor_parallel": ON_A_GPU,
    "gpu": (log.MFU, log.RATE),
    "tokens": (log.FLOS,),
    **dict.fromkeys(("batch_size", "seq_len", "source_len", "phase", "train"), (log.TRIED,)),
}
"""Kinds of numbers that what is said beside a log bears on."""


class LogQuestion(NamedTuple):
    """A log's numbers, and what is said beside them: the model, its name, GPUs that split it, a workload, a card."""

    numbers: Sequence[log.LoggedNumber]
    model: Model
    called: str
    tp: int | None = None
    workload: Workload | None = None
    gpu: Accelerator | None = None
    tokens: int | None = None

    def said(self, *keys: str) -> log.LoggedNumber | None:
        """The first number of one of these kinds."""
        return next((one for one in self.numbers if one.key in keys), None)

    @property
    def tps(self) -> Sequence[int]:
        """The degrees of tensor parallelism to try."""
        return SPREAD if self.tp is None else (self.tp,)

    @property
    def facts(self) -> Facts:
        """Sizes of the model."""
        asked = WhyInput(self.model, self.called, self.workload, None)
        return asked.known(asked.tree())

    @property
    def length(self) -> int:
        """Tokens of the longest request: as the log says, or the model's own."""
        logged = next((one.length for one in self.numbers if one.key in (log.CONCURRENCY, log.NEEDED)), 0)
        return logged or value_of(self.model.longest or 0) or 4096

    def ranks(self) -> Iterator[tuple[int, str, ServingRank]]:
        """One GPU of the model, by degree of tensor parallelism and format of the cache; those that cannot be are not.

        Raises InvalidModel where there is none.
        """
        found, refused = False, list[InvalidModel]()
        for tp, kv in product(self.tps, KV):
            try:
                of = ServingRanks(self.model, ServedLayout(tp=tp), Workload(), Serving(context=self.length, kv=kv))
                yield tp, kv, of.each[0]
                found = True
            except InvalidModel as error:
                refused.append(error)
        if not found and refused:
            raise refused[0]


class LogCause(NamedTuple):
    """A number that the model gives, in what way: its ``cause``, the arithmetic, and the command that prints it.

    ``rare`` orders what gives the same number.
    """

    value: Fraction
    cause: str
    arithmetic: str
    command: str
    rare: int = 0


def of_log(asked: LogQuestion) -> Why:
    """The answer about log lines: of each number the nearest that the model gives, and notes on all together."""
    found = [one for number in asked.numbers if (one := _explained(number, asked)) is not None]
    agree = tuple(one for one in found if one.unit == "percent" or abs(one.distance) <= NEAR)
    differ = tuple(one for one in found if one not in agree)
    first = asked.numbers[0]
    return Why(
        given=first.text if len(asked.numbers) == 1 else f"{first.text} …",
        heading="" if all(one.key == log.SHARE for one in asked.numbers) else asked.model.summary,
        reasons=agree,
        nearest=differ,
        notes=tuple(_notes(asked)),
        model=asked.model.described(),
        of=("log",),
        ways=len(agree),
        logged_by=first.program,
    )


def _explained(number: log.LoggedNumber, asked: LogQuestion) -> Reason | None:
    if not number.value:
        return None
    unit, candidates = _candidates(number, asked)
    options = list(candidates)
    if not options:
        return _by_search(number, asked)
    slack = max(number.rounded, number.value * CLOSE)
    close = [one for one in options if abs(one.value - number.value) <= slack]
    one = (
        min(close, key=lambda each: each.rare)
        if close
        else min(options, key=lambda each: abs(each.value - number.value))
    )
    if unit == "bytes" and number.key == log.WEIGHTS and abs(one.value - number.value) > number.value * NEAR:
        return _by_search(number, asked) or _reason(number, one, unit)
    return _reason(number, one, unit)


def _reason(number: log.LoggedNumber, one: LogCause, unit: str) -> Reason:
    given = one.value if number.key in (log.RATE, log.SHARE) else number.value  # these are in TFLOP/s
    return Reason(
        value=exact(one.value),
        unit=unit,
        cause=one.cause,
        steps=(number.key,),
        arithmetic=one.arithmetic,
        command=one.command,
        distance=float((one.value - given) / given) if given else 0.0,
        reading="rounded",
        changes=((exact(one.value), one.arithmetic),),
        shown=exact(one.value),
        given=exact(given),
        said=number.text,
    )


def _candidates(number: log.LoggedNumber, asked: LogQuestion) -> tuple[str, Iterable[LogCause]]:
    """The unit of a number, and what the model gives for it; nothing where another search knows more."""
    match number.key:
        case log.WEIGHTS:
            return "bytes", _weights(asked)
        case log.TOKENS | log.BLOCKS:
            return "tokens", _room(number, asked)
        case log.CONCURRENCY:
            return "requests", _concurrency(number, asked)
        case log.NEEDED:
            return "bytes", _needed(number, asked)
        case log.CACHE:
            return "bytes", _cache(number, asked)
        case log.RANK:
            return "params", _of_rank(number, asked)
        case log.MFU | log.RATE:
            return "percent", _share_of_peak(number, asked)
        case log.TRIED:
            return "bytes", _tried(number, asked)
        case log.FLOS:
            return "flops", _flos(asked)
        case log.SHARE:
            return "percent", _of_peak(number)
        case _:
            return "", ()


OF_SEARCH = {log.WEIGHTS: MEMORY, log.FILE: MEMORY, log.PARAMS: "params", log.TRAINABLE: "params", log.ALL: "params"}


def _by_search(number: log.LoggedNumber, asked: LogQuestion) -> Reason | None:
    """The number by the search for conventions, that of a number alone."""
    of = OF_SEARCH.get(number.key)
    if of is None:
        return None
    value, text = number.value, ""
    if number.key == log.ALL and (trained := asked.said(log.TRAINABLE)) is not None:
        value -= trained.value
    if value < 1:
        return None
    if of == MEMORY:
        text = f"{float(value / GIB):.4f}".rstrip("0").rstrip(".") + " GiB"
    else:
        text = _as_written(value, number.rounded)
    found = conventions_of(text, asked.model, of, called=asked.called)
    one = (found.reasons or found.nearest)[:1]
    if not one:
        return None
    cause = one[0].cause if value == number.value else f"{one[0].cause}, and what is trained"
    return one[0].of_log(cause, number.text)


def _as_written(value: Fraction, rounded: Fraction) -> str:
    """The number as it was written: ``30.532B`` where it was rounded, else in full."""
    for name, size in (("B", 10**9), ("M", 10**6)):
        if rounded > HALF and value >= size:
            digits = max(0, len(str(size // int(2 * rounded))) - 1)
            return f"{float(value / size):.{digits}f}{name}"
    return f"{int(value):,}"


def _split(tp: int) -> str:
    return "" if tp == 1 else f" of one of {tp} GPUs of tensor parallelism"


def _flags(tp: int, kv: str = "auto") -> str:
    return (f" --tp {tp}" if tp > 1 else "") + (f" --kv {kv}" if kv != "auto" else "")


def _weights(asked: LogQuestion) -> Iterator[LogCause]:
    for tp, kv, rank in asked.ranks():
        if kv == "auto":
            stored, size = value_of(rank.weight_bytes) + value_of(rank.buffer_bytes), loaded(rank, asked.model)
            table = f", and {size - stored:,} of the table of rotary angles" if size > stored else ""
            words = f"the weights{_split(tp)}{' with the table of rotary angles' if table else ''}"
            command = f"tfcalc memory {asked.called} --serve{_flags(tp)}"
            yield LogCause(Fraction(size), words, f"{stored:,} bytes of weights{table} = {size:,}", command, tp)


class KnownPool(NamedTuple):
    """A pool of blocks as some version of vLLM has it, of one of ``tp`` GPUs; ``words`` say what it departs in."""

    found: CachePool
    tp: int
    kv: str
    words: str
    rare: int

    @property
    def said(self) -> str:
        """The GPU, the format and the version in words."""
        return f"{_split(self.tp)}{_in_format(self.kv)}{self.words}"


VERSIONS: tuple[tuple[str, dict[str, bool]], ...] = (
    ("", {}),
    (", narrow layers filled up to the widest", {"filled": True}),
    (", as if every layer stored all tokens", {"hybrid": False}),
    (", as if every layer stored all tokens and was as wide as the widest", {"hybrid": False, "filled": True}),
)


def _pools(asked: LogQuestion, **settings: int) -> Iterator[KnownPool]:
    """The pools that versions of vLLM would have, each once."""
    for tp, kv, rank in asked.ranks():
        seen = set[object]()
        for place, (words, version) in enumerate(VERSIONS):
            every: Any = {"format": rank.plan.kv, **settings, **version}
            engine = Engine(**every)
            try:
                found = pool(layers(rank.tree, engine), engine)
            except InvalidModel:
                continue
            if found[1:] not in seen:
                seen.add(found[1:])
                yield KnownPool(found, tp, kv, words, tp + 10 * (kv != "auto") + 100 * place)


def _token_bytes(asked: LogQuestion) -> Iterator[tuple[int, str, int]]:
    """Bytes of a token where every layer stores all of them."""
    for tp, kv, rank in asked.ranks():
        pages = [layer.page for layer in layers(rank.tree, Engine(format=rank.plan.kv))]
        yield tp, kv, sum(page.bytes for page in pages if page.kind != STATE)


def _windows(asked: LogQuestion) -> int:
    """Number of layers that store a window, or a chunk, and not every token."""
    rank = next(rank for _, _, rank in asked.ranks())
    return sum(bool(layer.page.limit) for layer in layers(rank.tree, Engine(format=rank.plan.kv)))


def _in_format(kv: str) -> str:
    return "" if kv == "auto" else f" in {kv}"


def _room(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Tokens, or blocks, of the bytes that the log says there are."""
    room = asked.said(log.POOL)
    if room is None:
        return
    budget = int(room.value)
    for one in _pools(asked):
        found, blocks = one.found, one.found.blocks(budget)
        command = f"tfcalc memory {asked.called} --serve{_flags(one.tp, one.kv)}"
        each = f"{budget:,} bytes ÷ {found.block_bytes:,} bytes of a block"
        if number.key == log.BLOCKS:
            words = f"blocks of {found.engine.block} tokens{one.said}"
            yield LogCause(Fraction(blocks), words, f"{each} = {blocks:,}", command, one.rare)
            continue
        for rules in engines()["vllm"]:
            tokens = rules.tokens(found, blocks, asked.length)
            words = f"room for the cache{one.said}, as vLLM {rules.version} counts: {rules.tokens_are}"
            yield LogCause(Fraction(tokens), words, f"{each} = {blocks:,} blocks, {tokens:,} tokens", command, one.rare)


def _concurrency(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Requests of the length that the line has."""
    length = number.length
    room, tokens, blocks = asked.said(log.POOL), asked.said(log.TOKENS), asked.said(log.BLOCKS)
    if tokens is not None:
        value = tokens.value / length
        yield LogCause(
            value,
            "tokens of the cache over those of a request",
            f"{int(tokens.value):,} ÷ {length:,} = {float(value):.2f}",
            f"tfcalc memory {asked.called} --serve --context {length}",
        )
    if blocks is not None:
        value = blocks.value * 16 / length
        text = f"{int(blocks.value):,} x 16 ÷ {length:,} = {float(value):.2f}"
        yield LogCause(value, "blocks of 16 tokens over the tokens of a request", text, "")
    for batched in BATCHED:
        for one in _pools(asked, batched=batched):
            found = one.found
            known = [found.blocks(int(room.value))] if room is not None else []
            known += [int(tokens.value) // found.engine.block * len(found.groups)] if tokens is not None else []
            for count in known:
                value = found.requests(count, length)
                words = f"blocks over those of a request{one.said}"
                words += f", with {batched:,} tokens of a prompt at once" if len(found.groups) > 1 else ""
                text = f"{count:,} ÷ {found.per_request(length):,} = {float(value):.2f}"
                command = f"tfcalc memory {asked.called} --serve{_flags(one.tp, one.kv)}"
                yield LogCause(value, words, text, command, 1 + one.rare + batched // BATCHED[0])


def _needed(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Bytes of one request of the longest length, by the prompt tokens that are read at once."""
    for batched, flights in product(BATCHED, (1, 2)):
        for one in _pools(asked, batched=batched, in_flight=flights):
            found, size = one.found, value_of(one.found.bytes(1, number.length))
            words = f"the cache of one request of {number.length:,} tokens{one.said}"
            if any(group.page.kind == SLIDING for group in found.groups):
                words += f"; windows hold the {batched:,} tokens of a prompt that are read at once besides"
                words += ", and those of the step before" if flights == 2 else ""
            command = f"tfcalc memory {asked.called} --serve --context {number.length}{_flags(one.tp, one.kv)}"
            text = f"{found.per_request(number.length):,} blocks x {found.block_bytes:,} bytes = {size:,}"
            yield LogCause(Fraction(size), words, text, command, one.rare + 1000 * flights)


def _cache(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Keys and values of the tokens that the line has; SGLang prints the keys alone."""
    keys = number.program == "SGLang"
    for tp, kv, size in _token_bytes(asked) if number.length else ():
        value = Fraction(size * number.length, 2 if keys else 1)
        what = "keys" if keys else "keys and values"
        words = f"the cache: {what} of {number.length:,} tokens{_split(tp)}{_in_format(kv)}"
        half = " ÷ 2" if keys else ""
        text = f"{number.length:,} x {size:,}{half} = {in_full(value)} bytes"
        command = f"tfcalc memory {asked.called} --serve --context {number.length}{_flags(tp, kv)}"
        yield LogCause(value, words, text, command, tp + 10 * (kv != "auto"))


def _of_rank(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Parameters of one GPU by Megatron-LM, which fills the vocabulary up to a multiple of 128 and t."""
    last = any(int(part) for part in number.by.split(","))
    for tp, pp in product(asked.tps, SPREAD):
        try:
            found = ranks(asked.model, Layout(tp=tp, pp=pp))
        except TfcalcError:
            continue
        stage = found.stages[-1 if last else 0]
        words = f"one GPU's parameters, tensor parallel {tp}, pipeline parallel {pp}"
        command = f"tfcalc ranks {asked.called} --tp {tp} --pp {pp}"
        yield LogCause(Fraction(stage.params), words, f"stage {stage.stage}: {stage.params:,}", command, tp * pp)


def _share_of_peak(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Share of the card's dense peak, in per cent."""
    if asked.gpu is None:
        return
    peak = Fraction(str(_peak(asked.gpu)))
    if not peak:
        return
    if number.key == log.RATE:
        value = number.value / peak * 100
        text = f"{float(number.value):g} ÷ {float(peak):g} = {float(value):.1f} %"
        yield LogCause(value, f"FLOPs of the model as a share of the dense peak of {asked.gpu.name}", text, "")
        return
    card, constant = HARD_CODED[number.program]
    value = number.value * Fraction(str(constant)) / peak
    text = f"{float(number.value):g} % x {constant:g} ÷ {float(peak):g} = {float(value):.1f} %"
    has = f"{asked.gpu.name} has {float(peak):g}"
    words = f"{number.program}'s peak is that of {card}, {constant:g} TFLOP/s, on any card; {has}"
    yield LogCause(value, words, text, "")


def _of_peak(number: log.LoggedNumber) -> Iterator[LogCause]:
    """Teraflops over those of a peak, as MFU is worked out by hand: of a sparse peak the dense one beside it."""
    peak = Fraction(number.by)
    value = number.value / peak * 100
    text = f"{float(number.value):g} ÷ {float(peak):g} = {float(value):.1f} %"
    card = looks_sparse(float(peak) * 10**12, "bf16")
    if card is None:
        yield LogCause(value, f"the share of a peak of {float(peak):g} TFLOP/s, not one with sparsity", text, "")
        return
    dense = Fraction(str(_peak(card)))
    share = number.value / dense * 100
    text += f"; {float(number.value):g} ÷ {float(dense):g} = {float(share):.1f} %"
    words = f"{float(peak):g} TFLOP/s is the peak of {card.name} with sparsity, which training does not use"
    yield LogCause(share, f"{words}: the dense one is {float(dense):g}, and the share of that counts", text, "")


def _flos(asked: LogQuestion) -> Iterator[LogCause]:
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


ALIGNED = 2 * 2**20
"""PyTorch asks the driver for multiples of 2 MiB from 10 MiB on."""


def _tried(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Tensors of a training step as large as what PyTorch tried to allocate."""
    known, run = asked.facts, asked.workload
    widths = {
        "the logits in fp32": (known.vocab_size or 0) * 4,
        "the logits in 16 bits": (known.vocab_size or 0) * 2,
        "one tensor between the matrices of a feed-forward network in 16 bits": (known.ffn_size or 0) * 2,
        "one tensor of the hidden size in 16 bits": (known.hidden_size or 0) * 2,
        "one tensor of the hidden size in fp32": (known.hidden_size or 0) * 4,
    }
    for rare, (what, width) in enumerate(widths.items()):
        if not width:
            continue
        tokens = value_of(run.target.tokens) if run is not None else _most_round(number, width)
        size = tokens * width
        padded = -(-size // ALIGNED) * ALIGNED if size > 5 * ALIGNED else size
        words = f"{what}, of {tokens:,} tokens"
        text = f"{tokens:,} x {width:,} bytes = {size:,}" + (
            f", in blocks of 2 MiB {padded:,}" if padded != size else ""
        )
        cost = rare if run is not None or tokens % 256 == 0 else rare + 10
        yield LogCause(Fraction(padded), words, text, f"tfcalc memory {asked.called} --train", cost)
    heads = known.heads or 0
    if run is None or not heads:
        return
    for bytes_each in (4, 2):
        length, batch = value_of(run.target.length), value_of(run.batch_size)
        size = batch * heads * length**2 * bytes_each
        words = f"the scores of eager attention, {length:,} x {length:,} for each of {heads:,} heads"
        text = f"{batch:,} x {heads:,} x {length:,}² x {bytes_each} = {size:,}"
        yield LogCause(Fraction(size), words, text, f"tfcalc memory {asked.called} --train --attention-kernel eager", 6)


def _most_round(number: log.LoggedNumber, width: int) -> int:
    """The token count, of those that are written so, that the highest power of two divides."""
    low, high = int((number.value - number.rounded - ALIGNED) / width) + 1, int((number.value + number.rounded) / width)
    step = 1
    while high // (2 * step) * 2 * step >= max(low, 1):
        step *= 2
    return max(high // step * step, 1)


def _notes(asked: LogQuestion) -> Iterator[str]:
    """Remarks on all numbers together."""
    yield from _on_memory(asked)
    room, tokens = asked.said(log.POOL), asked.said(log.TOKENS)
    if room is not None and tokens is None and asked.said(log.BLOCKS) is None:
        tp, _, size = next(iter(_token_bytes(asked)))
        slots = int(room.value) // size if size else 0
        if slots:
            yield (
                f"{room.text}: what is left of the card; room for {slots:,} tokens of {size:,} bytes{_split(tp)}, "
                "if every layer stores all of them"
            )
    elif tokens is not None and room is None:
        tp, _, size = next(iter(_token_bytes(asked)))
        held_bytes = int(tokens.value) * size
        yield f"{tokens.text}: {held_bytes / GIB:.2f} GiB{_split(tp)}, {size:,} bytes a token if every layer stores all"
        if windows := _windows(asked):
            yield f"{windows:,} layers store a window alone: the line is requests at once x their length, no capacity"
    if (blocks := asked.said(log.BLOCKS)) is not None and room is None:
        tp, _, size = next(iter(_token_bytes(asked)))
        slots = int(blocks.value) * Engine().block
        yield f"{blocks.text}: {slots:,} tokens in blocks of {Engine().block}, {slots * size / GIB:.2f} GiB{_split(tp)}"
    most = asked.said(log.CONCURRENCY)
    if most is not None and room is None and tokens is None and asked.said(log.BLOCKS) is None:
        tp, _, size = next(iter(_token_bytes(asked)))
        each = most.length * size / GIB
        yield (
            f"{most.text}: requests that the cache holds at once, were each {most.length:,} tokens long: "
            f"{each:.2f} GiB for each{_split(tp)} if every layer stores all, {float(most.value) * each:.2f} in all; "
            "shorter ones take less, so that more run"
        )
    if (cache := asked.said(log.CACHE)) is not None and not cache.length:
        yield f"{cache.text}: of how many tokens is in another line, n_ctx = N; add it"
    if asked.said(log.MFU, log.RATE) is not None and asked.gpu is None:
        yield "a share of the peak needs the card: add --gpu h100"
    if (rate := asked.said(log.RATE)) is not None and asked.gpu is not None:
        yield from _on_rate(rate, asked.gpu)
    if (flos := asked.said(log.FLOS)) is not None and asked.tokens is None:
        yield f"{flos.text}: Trainer adds up 6ND, N without embeddings; add --tokens N to compare"


def _peak(gpu: Accelerator) -> float:
    """Dense TFLOP/s of 16-bit numbers; 0 where none are known."""
    return (gpu.peaks.get("bf16") or gpu.peaks.get("fp16") or 0) / 10**12


def _on_rate(rate: log.LoggedNumber, gpu: Accelerator) -> Iterator[str]:
    peak = _peak(gpu)
    share = float(rate.value) / peak if peak else 0
    if share > 1:
        yield f"{share:.2f} times the dense peak of {gpu.name} is impossible: another card, or FLOPs counted twice"
    elif share:
        usual = "as published runs reach" if share >= USUAL else f"published runs reach {USUAL:.0%} and more"
        yield f"Megatron-LM counts the model's FLOPs: an MFU of {share:.1%}, {usual}".replace("%", " %")


USUAL = 0.3
"""MFU from which on nobody asks why."""


def _on_memory(asked: LogQuestion) -> Iterator[str]:
    """Remarks on the card, of an OOM message."""
    tried, unallocated = asked.said(log.TRIED), asked.said(log.UNALLOCATED)
    if tried is None:
        return
    free, allocated, capacity = asked.said(log.FREE), asked.said(log.ALLOCATED), asked.said(log.CAPACITY)
    if unallocated is not None and unallocated.value >= tried.value:
        yield (
            f"fragmentation: {unallocated.text}, more than was tried; "
            "PYTORCH_ALLOC_CONF=expandable_segments:True may be enough"
        )
    if capacity is not None and tried.value > capacity.value:
        yield "one tensor is larger than the card: no other change than a smaller tensor helps"
    elif allocated is not None and free is not None and unallocated is not None and unallocated.value < tried.value:
        short = tried.value - free.value - unallocated.value
        if short > 0:
            yield f"{float(short / GIB):.2f} GiB short, what PyTorch holds and does not use counted as free"
    if allocated is not None:
        size = _stored(asked.model)
        if size is not None:
            share = f"{float(size / allocated.value):.0%}".replace("%", " %")
            yield f"the weights alone are {size / GIB:.2f} GiB in their own format, {share} of what is allocated"
        if capacity is not None and allocated.value > capacity.value:
            yield "more is allocated than the card has: shared memory of the host (WSL, Windows), which is slow"


def _stored(model: Model) -> int | None:
    try:
        return value_of(weights_bytes(model, WhyInput(model, "", None, None).tree()))
    except TfcalcError:
        return None


def refuse_nameless(numbers: Sequence[log.LoggedNumber]) -> None:
    """Raise UsageError where nobody says what model a log is of, and what it says is of one."""
    if all(one.key == log.SHARE for one in numbers):
        return
    one = numbers[0]
    raise UsageError(f"the line is {one.program}'s, and names no model", "put it behind: tfcalc why LINE llama-3-8b")
