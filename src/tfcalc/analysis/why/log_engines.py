"""Causes of what engines log of serving: weights, the pool of blocks, and what it has room for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.why import log_lines as log
from tfcalc.analysis.why.answer import in_full
from tfcalc.analysis.why.log_question import CLOSE, GIB, ITSELF, NEAR, LogCause, LogQuestion, LogRemark
from tfcalc.analysis.why.weights import COMMON_FILES
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.serving.caches import CELLS
from tfcalc.serving.engine_rules import engines, loaded
from tfcalc.serving.memory import own_name, served
from tfcalc.serving.paging import SLIDING, STATE, Engine, layers, pool
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.serving.paging import CachePool

BATCHED = (2048, 8192, 16_384, 32_768)
"""Prompt tokens that vLLM reads at once, which bound what a window stores."""


def _split(tp: int) -> str:
    return "" if tp == 1 else f" of one of {tp} GPUs of tensor parallelism"


def _flags(tp: int, kv: str = "auto") -> str:
    return (f" --tp {tp}" if tp > 1 else "") + (f" --kv {kv}" if kv != "auto" else "")


def weights(asked: LogQuestion) -> Iterator[LogCause]:
    """Weights of one GPU, and the table of rotary angles that vLLM makes."""
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
    """Bytes of a token where every layer stores all of them; nothing of a cache that no rule pages."""
    for tp, kv, rank in asked.ranks():
        try:
            pages = [layer.page for layer in layers(rank.tree, Engine(format=rank.plan.kv))]
        except InvalidModel:
            return
        yield tp, kv, sum(page.bytes for page in pages if page.kind != STATE)


def _in_format(kv: str) -> str:
    return "" if kv == "auto" else f" in {kv}"


def room(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Tokens, or blocks, of the bytes that the log says there are."""
    there = asked.said(log.POOL)
    if there is None or not there.value:
        return
    budget = int(there.value)
    within = NEAR if asked.windows else CLOSE + there.rounded / there.value
    for one in _pools(asked):
        found, blocks = one.found, one.found.blocks(budget)
        command = f"tfcalc memory {asked.called} --serve{_flags(one.tp, one.kv)}"
        each = f"{budget:,} bytes ÷ {found.block_bytes:,} bytes of a block"
        if number.key == log.BLOCKS:
            words = f"blocks of {found.engine.block} tokens{one.said}"
            yield LogCause(Fraction(blocks), words, f"{each} = {blocks:,}", command, one.rare, within)
            continue
        for rules in engines()["vllm"]:
            tokens = rules.tokens(found, blocks, asked.length)
            words = f"room for the cache{one.said}, as vLLM {rules.version} counts: {rules.tokens_are}"
            text = f"{each} = {blocks:,} blocks, {tokens:,} tokens"
            yield LogCause(Fraction(tokens), words, text, command, one.rare, within)


def concurrency(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Requests of the length that the line has, of the tokens or blocks that the log has, else of the bytes."""
    length = number.length
    room, tokens, blocks = asked.said(log.POOL), asked.said(log.TOKENS), asked.said(log.BLOCKS)
    within = NEAR if asked.windows else CLOSE
    if tokens is not None:
        value = tokens.value / length
        words = "tokens of the cache over those of a request"
        text = f"{int(tokens.value):,} ÷ {length:,} = {float(value):.2f}"
        command = f"tfcalc memory {asked.called} --serve --context {length}"
        yield LogCause(value, words, text, command, within=within)
    if blocks is not None:
        value = blocks.value * 16 / length
        text = f"{int(blocks.value):,} x 16 ÷ {length:,} = {float(value):.2f}"
        yield LogCause(value, "blocks of 16 tokens over the tokens of a request", text, "", within=within)
    for batched in BATCHED:
        for one in _pools(asked, batched=batched):
            found = one.found
            if tokens is not None:
                count = int(tokens.value) // found.engine.block * len(found.groups)
            elif blocks is not None:
                count = int(blocks.value)
            elif room is not None:
                count = found.blocks(int(room.value))
            else:
                return
            value = found.requests(count, length)
            words = f"blocks over those of a request{one.said}"
            words += f", with {batched:,} tokens of a prompt at once" if len(found.groups) > 1 else ""
            text = f"{count:,} ÷ {found.per_request(length):,} = {float(value):.2f}"
            command = f"tfcalc memory {asked.called} --serve{_flags(one.tp, one.kv)}"
            yield LogCause(value, words, text, command, 1 + one.rare + batched // BATCHED[0], within)


def longest(asked: LogQuestion) -> Iterator[LogCause]:
    """The longest request that the cache holds whole; of layers with windows vLLM tries lengths."""
    there = asked.said(log.POOL)
    if there is None or asked.windows:
        return
    for tp, kv, size in _token_bytes(asked):
        block = Engine().block
        tokens = int(there.value) // (size * block) * block if size else 0
        words = f"the tokens that {in_full(there.value / GIB)} GiB have room for{_split(tp)}{_in_format(kv)}"
        text = f"{int(there.value):,} bytes ÷ {size:,} bytes of a token = {tokens:,}"
        command = f"tfcalc memory {asked.called} --serve --context {max(tokens, 1)}{_flags(tp, kv)}"
        yield LogCause(Fraction(tokens), words, text, command, tp + 10 * (kv != "auto"), 2 * CLOSE)


def needed(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
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


FILLED = 32
"""Tokens that llama.cpp fills a context up to: older versions 32, later ones 256."""
BLOCK_TYPES = {"f16": Fraction(1), "q8_0": Fraction(17, 32), "q4_0": Fraction(9, 32)}
"""Types of llama.cpp's cache, as shares of 16 bits (``--cache-type-k``)."""


def cache(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Keys of the tokens that the line has; SGLang prints keys and values apart."""
    for tp, kv, size in _token_bytes(asked) if number.length else ():
        value = Fraction(size * number.length, 2)
        words = f"the cache: keys of {number.length:,} tokens{_split(tp)}{_in_format(kv)}"
        text = f"{number.length:,} x {size:,} ÷ 2 = {in_full(value)} bytes"
        command = f"tfcalc memory {asked.called} --serve --context {number.length}{_flags(tp, kv)}"
        yield LogCause(value, words, text, command, tp + 10 * (kv != "auto"))


def cells(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Keys and values of llama.cpp's context; of no whole number of tokens where nothing gives them."""
    each = next((size for tp, kv, size in _token_bytes(asked._replace(tp=1)) if kv == "auto"), 0)
    offloaded, every = asked.said(log.OFFLOADED), asked.facts.layers
    here = int(offloaded.value) if offloaded is not None and number.key == log.OF_DEVICE else every
    of_layers = f", of {here:,} of {every:,} layers" if here and every and here < every else ""
    if of_layers and here and every:
        each = each * here // every
    for place, (name, share) in enumerate(BLOCK_TYPES.items()):
        size = each * share
        if not size:
            continue
        tokens = number.length or max(round(number.value / size / FILLED), 1) * FILLED
        value = size * tokens
        if place and not number.length and abs(value - number.value) > number.rounded:
            continue
        words = f"the cache: keys and values of {tokens:,} tokens{of_layers}" + (f" in {name}" if place else "")
        words += "" if number.length else f" (n_ctx = {tokens})"
        text = f"{tokens:,} x {in_full(size)} = {in_full(value)} bytes"
        flags = f" --kv {name}" if place else ""
        command = f"tfcalc memory {asked.called} --serve --cache cells --context {tokens}{flags}"
        yield LogCause(value, words, text, command, place, NEAR if asked.windows else ITSELF)


def on_card(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogCause]:
    """Weights, or the buffer of a step, as llama.cpp keeps them on one card and in RAM."""
    offloaded = asked.said(log.OFFLOADED)
    every = (asked.facts.layers or 0) + 1
    there = min(int(offloaded.value), every) if offloaded is not None else every
    of_host = number.by.startswith("CPU")
    for name in dict.fromkeys((*COMMON_FILES, own_name(asked.model))):
        plan = Serving(weights=name, cache=CELLS, gpu_layers=there, context=1, concurrency=1)
        command = f"tfcalc memory {asked.called} --serve --cache cells --weights {name} --ngl {there}"
        try:
            found = served(asked.model, Workload(), plan)
            graph = max((moment.temporary or 0 for moment in found.moments), default=0)
        except TfcalcError:
            continue
        if number.key == log.GRAPH:
            words = "the buffer of a step of 512 tokens: its logits in fp32, and a vector of each beside them"
            yield LogCause(Fraction(graph), words, f"{graph:,} bytes", command)
            return
        layers = f"{there} of {every} layers (the output head is one)"
        total = value_of(found.weights.total(bytes_held))
        size, words = (found.host, f"what is not on the card in {name}: {layers} are, the table of words is in RAM")
        if not of_host:
            size, words = total, f"weights in {name} on the card: {layers}, without the table of words"
        yield LogCause(Fraction(size), words, f"{size:,} bytes", command)


def speeds(number: log.LoggedNumber) -> Iterator[LogCause]:
    """Tokens per second of the milliseconds that the line has."""
    match = SPENT.match(number.by)
    if match and (spent := Fraction(match[1])):
        value = int(match[2]) * 1000 / spent
        text = f"{match[2]} ÷ {match[1]} ms = {float(value):.2f} a second"
        yield LogCause(value, "the line's own numbers: tokens over the time that they took", text, "", within=CLOSE)


SPENT = re.compile(r"(\d{1,12}(?:\.\d{1,4})?) ms\s?/\s{0,8}([1-9]\d{0,8})\Z")


def remarks(asked: LogQuestion) -> Iterator[LogRemark]:
    """Remarks on the room for the cache, and on what was measured."""
    cache = asked.said(log.CONTEXT, log.OF_DEVICE)
    if cache is not None and not cache.length:
        yield LogRemark(cache.text, "of how many tokens is in another line, n_ctx = N; add it to compare", False)
    room, tokens = asked.said(log.POOL), asked.said(log.TOKENS)
    blocks, most, capped = asked.said(log.BLOCKS), asked.said(log.CONCURRENCY), asked.said(log.CAPPED)
    if asked.said(log.SPEED) is not None:
        words = "tokens per second are measured, and depend on the card and on the requests"
        typed = f"; tfcalc serve {asked.called} --gpu h100 estimates them" if _generates(asked) else ""
        yield LogRemark("", f"{words}{typed}")
    if (lacking := asked.said(log.LACKING)) is not None:
        words = (
            "no room for a cache: the weights and what a step needs beside them take "
            f"{float(lacking.value / GIB):.2f} GiB more than vLLM may use of the card; raise --gpu-memory-utilization, "
            "quantize the weights, or split them: "
            f"tfcalc memory {asked.called} --serve --tp 2 --gpu h100 tells what is left"
        )
        yield LogRemark(lacking.text, words)
    if not any((room, tokens, blocks, most, capped)):
        return
    tp, _, size = next(iter(_token_bytes(asked)), (0, "", 0))
    if not tp:  # what the lines are is known, and not of how many bytes
        yield from _of_no_pages(asked, (room, tokens, most))
        return
    if room is not None and tokens is None and blocks is None and size:
        told = (
            f"what is left of the card; room for {int(room.value) // size:,} tokens of {size:,} bytes{_split(tp)}, "
            "if every layer stores all of them"
        )
        if each := _of_windows(asked, asked.length):
            at_once = float(room.value / each)
            told += (
                f"; {asked.windows:,} store a window alone: {at_once:.2f} requests of {asked.length:,} tokens at once"
            )
        yield LogRemark(room.text, told)
    elif tokens is not None and room is None:
        held = int(tokens.value) * size / GIB
        if windows := asked.windows:
            yield LogRemark(
                tokens.text,
                f"{windows:,} layers store a window alone: the line is requests at once x their length, no capacity",
            )
        told = f"{held:.2f} GiB{_split(tp)}, {size:,} bytes a token if every layer stores all"
        if each := _of_windows(asked, asked.length):
            in_all = float(tokens.value / asked.length * each / GIB)
            told = (
                f"{in_all:.2f} GiB{_split(tp)} for requests of {asked.length:,} tokens; of those within a window {told}"
            )
        yield LogRemark(tokens.text, told)
    if blocks is not None and room is None:
        slots = int(blocks.value) * Engine().block
        held = slots * size / GIB
        yield LogRemark(blocks.text, f"{slots:,} tokens in blocks of {Engine().block}, {held:.2f} GiB{_split(tp)}")
    if most is not None and room is None and tokens is None and blocks is None:
        whole = most.length * size / GIB
        yield LogRemark(
            most.text,
            f"requests that the cache holds at once, were each {most.length:,} tokens long: "
            f"{whole:.2f} GiB for each{_split(tp)} if every layer stores all, {float(most.value) * whole:.2f} in all; "
            f"{_with_windows(most, asked)}shorter ones take less, so that more run",
        )
    if capped is not None:
        yield from _capped(capped, asked, size)


def _of_no_pages(asked: LogQuestion, lines: Sequence[log.LoggedNumber | None]) -> Iterator[LogRemark]:
    """Remarks that say what lines on a cache are that no rule pages; the first has the reason."""
    meant = (
        "what is left of the card for the cache",
        "requests at once x their length, no capacity",
        "requests at once, were each so long",
    )
    reason = f"; {asked.not_paged}"
    for line, words in zip(lines, meant, strict=True):
        if line is not None:
            yield LogRemark(line.text, f"{words}{reason}")
            reason = ""


def _with_windows(most: log.LoggedNumber, asked: LogQuestion) -> str:
    """Say what the requests take where layers store windows alone; nothing where none does, or no rule pages them."""
    each = _of_windows(asked, most.length) / GIB
    if not each:
        return ""
    as_windows = f"{asked.windows:,} layers store a window alone, with which it is"
    return f"{as_windows} {each:.2f} GiB for each, {float(most.value) * each:.2f} in all; "


def _of_windows(asked: LogQuestion, length: int) -> int:
    """Bytes of a request of this length where layers store windows alone; 0 where none does, or no rule pages it."""
    known = next((one for one in _pools(asked) if one.words == ""), None)
    return 0 if known is None or not asked.windows else value_of(known.found.bytes(1, length))


def _generates(asked: LogQuestion) -> bool:
    """Return whether it is a model with a cache, which can be served."""
    try:
        return any(size for _, _, size in _token_bytes(asked))
    except InvalidModel:
        return False


def _capped(capped: log.LoggedNumber, asked: LogQuestion, size: int) -> Iterator[LogRemark]:
    """A request of the whole length that the cache has no room for: how much is missing, and what gives it."""
    stored, length = int(capped.value), capped.length
    has, wants = stored * size / GIB, length * size / GIB
    each = f"{size:,} bytes a token" + (", if every layer stores all" if asked.windows else "")
    if stored < length:
        yield LogRemark(
            capped.text,
            f"the cache has room for {stored:,} tokens, {has:.2f} GiB, and a request of {length:,} takes {wants:.2f} "
            f"({each})",
        )
    if stored >= length:
        yield LogRemark(capped.text, f"{stored:,} tokens are enough for {length:,}: the line contradicts itself", False)
        return
    ways = [f"vllm serve --max-model-len {stored}"] if stored else []
    ways.append(f"{wants - has:.2f} GiB more for the cache")
    if 2 * stored >= length:
        ways.append("--kv-cache-dtype fp8, which halves it")
    yield LogRemark("What would do", ", or ".join(ways))
    typed = f"tfcalc memory {asked.called} --serve --context {length} --gpu h100"
    yield LogRemark("What a card leaves to the cache", f"{typed}; of two: {typed} --tp 2")
