"""Numbers in log lines of engines and trainers, each with what it is of and how exactly it was written.

Text is read by the patterns below and by nothing else, and no more of it than :data:`LONGEST`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from tfcalc.named_tuple import NamedTuple

LONGEST = 10_000
LONGEST_LINE = 2_000
MOST = 24
"""Numbers of one text that are explained."""
GIB = 2**30
N = r"(\d[\d,]{0,17}(?:\.\d{1,8})?)"
SIZE = rf"{N}\s?(GiB|GB|MiB|MB)"
DEVICE = r"(?:CUDA|ROCm|Vulkan|SYCL|Metal|CPU)\d{0,2}"
TERA = r"\s?(?:TFLOPS?(?:/s)?)?"
BYTES = {"GiB": GIB, "GB": GIB, "MiB": 2**20, "MB": 2**20}
"""Engines, PyTorch and llama.cpp divide by powers of two, whichever unit they print."""
COUNTS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}

WEIGHTS, POOL, TOKENS, CONCURRENCY, NEEDED, BLOCKS = "weights", "pool", "tokens", "concurrency", "needed", "blocks"
PARAMS, FILE, CACHE, RANK, RATE, MFU, FLOS = "params", "file", "cache", "rank", "rate", "mfu", "flos"
SHARE = "share"
CAPPED, SPEED, BUFFER, GRAPH = "capped", "speed", "model buffer", "compute buffer"
CONTEXT, OF_DEVICE = "cache of a context", "cache of a device"
OFFLOADED, STATES, SAVED, SUM, DECAYED, ITERATION = (
    "offloaded",
    "weight and optimizer",
    "activation",
    "sum",
    "decayed",
    "iteration",
)
TRAINED_SHARE, ESTIMATED, LACKING = "trained share", "estimated length", "lacking"
TRAINABLE, ALL, TRIED, CAPACITY, FREE, ALLOCATED, UNALLOCATED = (
    "trainable",
    "all",
    "tried",
    "capacity",
    "free",
    "allocated",
    "unallocated",
)


class LogPattern(NamedTuple):
    """Pattern of a number in a log: the ``program``, the ``key``, and the expression with the number's group.

    The group behind it is its unit, where ``scaled``; ``by`` is the name of the group of a further number.
    """

    program: str
    key: str
    expression: re.Pattern[str]
    scaled: bool = False
    by: bool = False


def _pattern(program: str, key: str, expression: str, *, scaled: bool = False, by: bool = False) -> LogPattern:
    return LogPattern(program, key, re.compile(expression, re.IGNORECASE), scaled, by)


PATTERNS = (
    _pattern(
        "vLLM", WEIGHTS, rf"(?:Loading model weights took|Model loading took|model weights take)\s{SIZE}", scaled=True
    ),
    _pattern("vLLM", POOL, rf"Available KV cache memory:?\s{{0,4}}\(?{SIZE}\)?", scaled=True),
    _pattern("vLLM", POOL, rf"(?:reserved for KV Cache is|KV cache size of|kv_cache_size\s?=)\s?{SIZE}", scaled=True),
    _pattern("vLLM", TOKENS, rf"GPU KV cache size:?\s{{0,4}}{N}\stokens"),
    _pattern("vLLM", BLOCKS, rf"#\s?(?:GPU|CUDA) blocks:\s{{0,4}}{N}"),
    _pattern(
        "vLLM", CONCURRENCY, rf"Maximum concurrency for (?P<by>[\d,]{{1,12}}) tokens per request:\s{{0,4}}{N}x", by=True
    ),
    _pattern(
        "vLLM",
        NEEDED,
        rf"max(?:imum)? seq(?:uence)? len(?:gth)?\s\((?P<by>[\d,]{{1,12}})\),?\s\(?{SIZE} KV cache is needed",
        scaled=True,
        by=True,
    ),
    _pattern(
        "vLLM",
        CAPPED,
        rf"max(?:imum)? (?:seq|model) len(?:gth)?\s\((?P<by>[\d,]{{1,12}})\) is larger than the maximum number of "
        rf"tokens that can be stored in KV cache \({N}\)",
        by=True,
    ),
    _pattern("vLLM", LACKING, rf"Available KV cache memory:?\s{{0,4}}-{SIZE}", scaled=True),
    _pattern("vLLM", ESTIMATED, rf"estimated maximum model length is {N}"),
    _pattern("vLLM", SPEED, rf"Avg prompt throughput:\s{{0,4}}{N} tokens/s"),
    _pattern("vLLM", SPEED, rf"Avg generation throughput:\s{{0,4}}{N} tokens/s"),
    _pattern("SGLang", TOKENS, rf"max_total_num_tokens={N}"),
    _pattern("SGLang", SPEED, rf"(?:gen|input) throughput \(token/s\):\s{{0,4}}{N}"),
    _pattern("SGLang", WEIGHTS, rf"Load weight end\..{{0,300}}?mem usage={SIZE}", scaled=True),
    _pattern("SGLang", CACHE, rf"#tokens:\s(?P<by>\d{{1,12}}),\sK size:\s{SIZE}(?=,\sV size)", scaled=True, by=True),
    _pattern("llama.cpp", PARAMS, rf"model params\s{{0,12}}=\s{{0,4}}{N}\s([KMB])", scaled=True),
    _pattern("llama.cpp", FILE, rf"(?:model|file) size\s{{0,12}}=\s{{0,4}}{SIZE}", scaled=True),
    _pattern("llama.cpp", CONTEXT, rf"KV self size\s{{0,4}}=\s{{0,4}}{SIZE}", scaled=True),
    _pattern("llama.cpp", OF_DEVICE, rf"{DEVICE} KV buffer size\s{{0,4}}=\s{{0,6}}{SIZE}", scaled=True),
    _pattern(
        "llama.cpp",
        BUFFER,
        rf"(?P<by>{DEVICE})\w{{0,8}} (?:model )?buffer size\s{{0,4}}=\s{{0,6}}{SIZE}",
        scaled=True,
        by=True,
    ),
    _pattern("llama.cpp", GRAPH, rf"{DEVICE} compute buffer size\s{{0,4}}(?:=|of)\s{{0,6}}{SIZE}", scaled=True),
    _pattern("llama.cpp", OFFLOADED, r"offloaded (\d{1,4})/(?P<by>\d{1,4}) layers to GPU", by=True),
    _pattern(
        "llama.cpp",
        SPEED,
        rf"eval time\s?=\s{{0,12}}(?P<by>[\d.]{{1,16}} ms\s?/\s{{0,8}}\d{{1,9}}) (?:runs|tokens)"
        rf"\s{{0,4}}\([^()]{{0,80}}?\s{N} tokens per second\)?",
        by=True,
    ),
    _pattern(
        "llama.cpp",
        CONTEXT,
        rf"kv_cache\w{{0,16}}:\s{{1,4}}size =\s{{0,6}}{SIZE}\s\(\s{{0,8}}(?P<by>\d{{1,9}}) cells",
        scaled=True,
        by=True,
    ),
    _pattern(
        "Megatron-LM",
        RANK,
        r"(?:number of )?parameters on \(tensor, pipeline\) model parallel rank "
        rf"\((?P<by>\d{{1,4}}, \d{{1,4}})\):\s{{0,4}}{N}",
        by=True,
    ),
    _pattern("Megatron-LM", RATE, rf"throughput per GPU \(TFLOP/s/GPU\):\s{{0,4}}{N}"),
    _pattern("Megatron-LM", STATES, rf"weight and optimizer={SIZE}", scaled=True),
    _pattern("Megatron-LM", SAVED, rf"\bactivation={SIZE}", scaled=True),
    _pattern("Megatron-LM", SUM, rf"\btotal={SIZE}", scaled=True),
    _pattern(
        "nanoGPT",
        DECAYED,
        rf"num (?P<by>decayed|non-decayed) parameter tensors:\s{{0,4}}[\d,]{{1,6}}, with {N} parameters",
        by=True,
    ),
    _pattern("nanoGPT", ITERATION, rf"\biter \d{{1,9}}: loss [\d.]{{1,12}}, time {N}ms"),
    _pattern("nanoGPT", PARAMS, rf"number of parameters:\s{{0,4}}{N}([MB])\b", scaled=True),
    _pattern("nanoGPT", MFU, rf"\bmfu\s{{1,4}}{N}\s?%"),
    _pattern("nanochat", MFU, rf"\bmfu:\s{{0,4}}{N}"),
    _pattern("A share", SHARE, rf"\A\s?{N}{TERA}\s?/\s?(?P<by>\d{{2,5}}(?:\.\d{{1,2}})?){TERA}\s?\Z", by=True),
    _pattern("PEFT", TRAINABLE, rf"(?<![\w-])trainable params:\s{{0,4}}{N}"),
    _pattern("PEFT", ALL, rf"all params:\s{{0,4}}{N}"),
    _pattern("PEFT", TRAINED_SHARE, r"trainable%:\s{0,4}(\d{1,3}(?:\.\d{1,20})?)"),
    _pattern("Trainer", FLOS, r"total_flos['\"]?\s{0,4}[:=]\s{0,4}(\d[\d,]{0,24}(?:\.\d{1,16})?(?:[eE]\+?\d{1,3})?)"),
    _pattern("PyTorch", TRIED, rf"Tried to allocate\s{SIZE}", scaled=True),
    _pattern("PyTorch", CAPACITY, rf"(?:total capaci?ty of\s{SIZE}|{SIZE} total capacity)", scaled=True),
    _pattern("PyTorch", FREE, rf"(?:of which\s{SIZE} is free|{SIZE} free;)", scaled=True),
    _pattern("PyTorch", ALLOCATED, rf"(?:{SIZE} is allocated by PyTorch|{SIZE} already allocated)", scaled=True),
    _pattern("PyTorch", UNALLOCATED, rf"{SIZE} is reserved by PyTorch but unallocated", scaled=True),
)
OF_TOKENS = (CONCURRENCY, NEEDED, CAPPED, CACHE, CONTEXT)
"""Numbers of so many tokens, which are not 0."""
CELLS = re.compile(r"\bn_ctx\s{0,12}=\s{0,4}(\d{1,9})")
"""llama.cpp's context, which it logs in another line."""


class LoggedNumber(NamedTuple):
    """A number of a log: its value, by how much of it the text is ``rounded``, and the number that it is ``by``."""

    program: str
    key: str
    text: str
    value: Fraction
    rounded: Fraction
    by: str = ""

    @property
    def length(self) -> int:
        """The tokens that it is of; 0 where the text has none."""
        digits = self.by.replace(",", "")
        return int(digits) if digits.isdigit() else 0


_OF_A_LOG = re.compile(r"(?:^|\n)\W{0,2}(?:INFO|WARNING|ERROR|DEBUG)\b|\d\d:\d\d:\d\d|(?:^|\n)\w{1,40}_\w{1,40}: ")
_MEASURED = re.compile(r"\d\s?(?:ms|tok(?:en)?s?/s(?:ec)?|it/s|s/it|samples/s)\b")
_FIELD = re.compile(r"[\w)%]\s{0,4}[=:]\s{0,4}\d[\d.,]{0,20}(?![\d.,]|\s?[kKMGTB])")
FIELDS = 2
"""Names with a number without a unit behind them that a log line has; a question has fewer."""


def measured(text: str) -> bool:
    """Return whether a text has a time or a speed.

    >>> measured("345 ms/iter"), measured("12 tok/s"), measured("8.03B")
    (True, True, False)
    """
    return _MEASURED.search(text[:LONGEST_LINE]) is not None


def looks_logged(text: str) -> bool:
    """Return whether a text is of a log, though none of its numbers is known here.

    >>> looks_logged("step=10 loss=2.71"), looks_logged("does HF say 8.03B for llama-3.1-8b?")
    (True, False)
    """
    said = text[:LONGEST_LINE]
    if said.rstrip().endswith("?"):
        return False
    return measured(said) or _OF_A_LOG.search(said) is not None or len(_FIELD.findall(said)) >= FIELDS


def logged(text: str) -> list[LoggedNumber]:
    """The numbers of the log lines in a text, in its order; none where it has no line that is known.

    >>> [(one.program, one.key, float(one.value)) for one in logged("GPU KV cache size: 78,384 tokens")]
    [('vLLM', 'tokens', 78384.0)]
    """
    said = "\n".join(line[:LONGEST_LINE] for line in text[:LONGEST].splitlines())
    found = sorted(_found(said), key=lambda one: one[0])
    cells = CELLS.search(said)
    numbers = dict.fromkeys(number for _, number in found)
    return [_in_context(one, cells[1] if cells else "") for one in list(numbers)[:MOST]]


def _in_context(one: LoggedNumber, cells: str) -> LoggedNumber:
    return one._replace(by=cells) if one.key in (CONTEXT, OF_DEVICE) and not one.by else one


def _found(text: str) -> Iterator[tuple[int, LoggedNumber]]:
    for pattern in PATTERNS:
        for match in pattern.expression.finditer(text):
            by = match["by"] if pattern.by else ""
            if pattern.key in OF_TOKENS and by and not by.strip("0,"):
                continue
            apart = pattern.expression.groupindex.get("by")
            groups = [each for place, each in enumerate(match.groups(), 1) if each is not None and place != apart]
            number = groups[0].replace(",", "")
            unit = groups[1] if pattern.scaled and len(groups) > 1 else ""
            scale = next((size for name, size in (BYTES | COUNTS).items() if name.lower() == unit.lower()), 1)
            last = Fraction(1, 10 ** len(number.partition(".")[2].partition("e")[0]))
            written = " ".join(match[0].split()).rstrip(",").replace("), (", "), ")
            yield (
                match.start(),
                LoggedNumber(pattern.program, pattern.key, written, Fraction(number) * scale, last * scale / 2, by),
            )
