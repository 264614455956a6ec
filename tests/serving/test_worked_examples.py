"""Examples of serving that books, papers and articles work out: what they print, and what tfcalc says.

Where nothing else is said a figure agrees to half of its last printed digit. Where a source rounds what it begins with
(70 billion parameters for 70.55), or leaves something out, ``about`` says how far that goes, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

import tfcalc
from tfcalc.configs.published import HFModel
from tfcalc.core.traced import value_of
from tfcalc.hardware import Accelerator, named
from tfcalc.model import Model
from tfcalc.plans import Serving
from tfcalc.timing.served import Draft, Load, ServedModel
from tfcalc.timing.serving import Sharing

KIB, MIB, GIB, TIB = (2 ** (10 * power) for power in (1, 2, 3, 4))
H100 = named("h100")[0]
V5E = named("tpuv5e")[0]._replace(link=0.0)
"""Of the scaling book's chip the messages are not counted there."""
BOOK = "github.com/jax-ml/scaling-book at 0819a7d"
Pairs = Iterator[tuple[str, float]]


class Example(NamedTuple):
    """An example: where it is, what is asked, and pairs of what is printed and what tfcalc finds."""

    source: str
    asked: str
    pairs: Callable[[], Pairs]
    about: float = 0.0
    """How far off it may be, in parts of what is printed, besides half of the last digit."""
    because: str = ""
    """Why it is off."""


def varied(name: str, **fields: Any) -> Model:
    """A preset with other fields in its config."""
    preset = tfcalc.load(name)
    assert isinstance(preset, HFModel)
    return tfcalc.from_config({**preset.data, **fields})


def served(
    model: Model | str,
    tokens: int = 2,
    *,
    card: Accelerator = H100,
    tp: int = 1,
    weights: str = "bf16",
    kv: str = "bf16",
    prompt: int = 0,
) -> ServedModel:
    """A model whose requests have this many tokens in their cache, on average; or whose ``prompt`` is read."""
    loaded = tfcalc.load(model) if isinstance(model, str) else model
    load = Load(prompt or tokens - 1, 2)
    return ServedModel(loaded, Serving(weights=weights, kv=kv), Sharing(tp), card, load)


def cache(model: Model | str, tokens: int, kv: str = "bf16") -> int:
    """Bytes of the cache of a request with this many tokens."""
    return value_of(served(model, tokens, kv=kv).traffic.decode(1, tokens).stored)


def roomy(card: Accelerator, bandwidth: float) -> Accelerator:
    """The card with another bandwidth, and with memory for everything, which these examples do not ask for."""
    return card._replace(bandwidth=bandwidth, memory="1000TB", memory_reported="")


# --- the scaling book


def steps_of_13b(kv_heads: int, *printed: str) -> Callable[[], Pairs]:
    """Milliseconds that a step of more requests takes longer than one of a request alone: their caches."""

    def pairs() -> Pairs:
        of = served(varied("llama-2-13b", num_key_value_heads=kv_heads), 8192, card=roomy(V5E, 8.2e11), tp=8)
        alone = of.floor_of_token(1).bandwidth
        for batch, text in zip((8, 16, 32, 64, 240), printed[1:], strict=True):
            yield str(Decimal(text) - Decimal(printed[0])), 1000 * (of.floor_of_token(batch).bandwidth - alone)

    return pairs


def step_of_13b() -> Pairs:
    """Milliseconds of a step of one request."""
    yield "4.98", 1000 * served("llama-2-13b", 8192, card=roomy(V5E, 8.2e11), tp=8).floor_of_token(1).seconds


def cache_of_13b() -> Pairs:
    """GB."""
    yield "6.7", cache("llama-2-13b", 8192) / 1e9


def invented() -> Pairs:
    """Billions of parameters."""
    sizes = {"hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 64, "vocab_size": 32128}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 256, "tie_word_embeddings": True}
    yield "18.4", tfcalc.params(varied("llama-2-13b", **sizes, **heads)).total_params / 1e9


def cache_of_70b() -> Pairs:
    """Kilobytes of a token in 8 bits, as 2 x 8 x 128 x 80 are written there."""
    yield "160", cache("llama-3-70b", 1000, "fp8") / 1000 / KIB


def serving_70b() -> Pairs:
    """GB of weights and of 32 caches in 8 bits; milliseconds of a step on 8 chips; tokens per second."""
    of = served("llama-3-70b", 8192, card=roomy(V5E, 8.1e11), tp=8, weights="int8", kv="fp8")
    yield "112", (8 * of.weights + 32 * cache("llama-3-70b", 8192, "fp8")) / 1e9
    seconds = of.floor_of_token(32).seconds
    yield "17", 1000 * seconds
    yield "1882", 32 / seconds


def prompt_of_70b() -> Pairs:
    """Seconds to read 8,192 tokens on 16 chips at 40 % of their peak."""
    yield "0.91", served("llama-3-70b", prompt=8192, card=V5E, tp=16).floor_of_prompt(1).compute / 0.4


# --- caches


def cache_of_llama_3() -> Pairs:
    """GiB of 1,024, 16,000 and 128,000 tokens."""
    first = varied("llama-3.1-405b", num_key_value_heads=16)  # as the checkpoint was first published
    for model, printed in (
        ("llama-3.1-8b", ("0.125", "1.95", "15.62")),
        ("llama-3.1-70b", ("0.313", "4.88", "39.06")),
        (first, ("0.984", "15.38", "123.05")),
    ):
        for tokens, text in zip((1024, 16_000, 128_000), printed, strict=True):
            yield text, cache(model, tokens) / GIB


def weights_of_llama_3() -> Pairs:
    """GB in 16 bits."""
    for name, text in (("8b", "16"), ("70b", "140"), ("405b", "810")):
        yield text, served(f"llama-3.1-{name}").weights / 1e9


def cache_of_7b() -> Pairs:
    """GB of 10,000 tokens."""
    yield "5", cache("llama-2-7b", 10_000, "fp16") / 1e9


def cache_of_4096() -> Pairs:
    """GiB."""
    yield "2", cache("llama-2-7b", 4096, "fp16") / GIB


def numbers_of_octocoder() -> Pairs:
    """Numbers in the cache of 16,000 tokens, if each head had its own keys."""
    config = {"model_type": "gpt_bigcode", "n_layer": 40, "n_head": 48, "n_embd": 6144, "n_inner": 24576}
    more = {"vocab_size": 49280, "n_positions": 16384, "multi_query": False}
    yield "7864320000", cache(tfcalc.from_config({**config, **more}), 16_000) / 2


def cache_of_opt_13b() -> Pairs:
    """KiB of a token, GiB of 2,048."""
    yield "800", cache("opt-13b", 2048) / 2048 / KIB
    yield "1.6", cache("opt-13b", 2048) / GIB


def cache_of_opt_66b() -> Pairs:
    """GiB of 512 tokens; and what ten requests a second send, which is handed over to the GPUs that go on."""
    yield "1.13", cache("opt-66b", 512) / GIB
    yield "11.3", 10 * cache("opt-66b", 512) / GIB


def cache_of_opt_30b() -> Pairs:
    """GB of 128 requests of 1,024 tokens."""
    yield "180", 128 * cache("opt-30b", 1024) / 1e9


def serving_opt_175b() -> Pairs:
    """GiB of weights, TiB of the caches of 512 requests of 512 + 32 tokens, and how many times as much that is."""
    weights, caches = served("opt-175b").weights, 512 * cache("opt-175b", 544)
    yield "325", weights / GIB
    yield "1.2", caches / TIB
    yield "3.8", caches / weights


def caches_of_deepseek() -> Pairs:
    """Kilobytes of a token in 16 bits."""
    for name, text in (("deepseek-v3", "70.272"), ("qwen2.5-72b", "327.680"), ("llama-3.1-405b", "516.096")):
        yield text, cache(name, 1000) / 1e6


def attention_of_palm(heads: int, width: int) -> Model:
    """Layers with the keys of PaLM's size; nothing else of it is asked for."""
    sizes = {"hidden_size": 18432, "num_hidden_layers": 118, "intermediate_size": 18432, "vocab_size": 1024}
    return varied("llama-2-7b", **sizes, num_attention_heads=max(heads, 16), num_key_value_heads=heads, head_dim=width)


def contexts_of_palm() -> Pairs:
    """Longest contexts of 128 and 512 requests in 30 % of 64 chips of 32 GiB: of 64 heads, shared by chips; of one
    that each chip holds; of one that is shared by requests.
    """
    for heads, width, chips, printed in (
        (64, 128, 64, ("1320", "330")),
        (1, 256, 1, ("660", "165")),
        (1, 256, 64, ("43000", "10700")),
    ):
        token = cache(attention_of_palm(heads, width), 1000) / 1000
        for requests, text in zip((128, 512), printed, strict=True):
            yield text, 0.3 * chips * 32 * GIB / requests / token


def caches_of_palm() -> Pairs:
    """TB of 512 requests of 2,048 tokens, with 48 heads."""
    yield "3", 512 * cache(attention_of_palm(48, 128), 2048) / 1e12


# --- floors


def rooflines() -> Pairs:
    """Tokens per second at 8,192 tokens."""
    for name, text in (("llama-2-7b", "191.23"), ("llama-3-8b", "208.16")):
        yield text, 1 / served(name, 8192).floor_of_token(1).seconds


def on_an_a10() -> Pairs:
    """Milliseconds of a token, and of reading 350."""
    card = named("a10")[0]
    yield "23", 1000 * served("llama-2-7b", card=card).floor_of_token(1).seconds
    yield "39", 1000 * served("llama-2-7b", prompt=350, card=card).floor_of_prompt(1).compute


def bytes_on_an_a10() -> Pairs:
    """FLOPs for each byte from which the peak bounds; bytes of the cache of a token."""
    exact = tfcalc.serve("llama-2-7b", "a10", floor=True).exact
    assert exact.ridge_flop_per_byte is not None
    yield "208.3", exact.ridge_flop_per_byte
    yield "524288", cache("llama-2-7b", 2048, "fp16") / 2048


def bandwidth_of_7b() -> Pairs:
    """TB/s where a token takes 14 ms."""
    yield "1", served("llama-2-7b").floor_of_token(1).bandwidth * H100.bandwidth / 0.014 / 1e12


def drafts() -> Pairs:
    """Tokens of a step, which is how many times as fast it is where the draft takes no time."""
    for accepted, tokens, text in (
        (0.6, 2, "1.96"),
        (0.7, 3, "2.53"),
        (0.8, 2, "2.44"),
        (0.8, 5, "3.69"),
        (0.9, 2, "2.71"),
        (0.9, 10, "6.86"),
    ):
        yield text, Draft(tokens, accepted).made


EVERY = (
    Example(f"{BOOK}, inference.md", "Llama 2 13B, 8,192 tokens: the cache", cache_of_13b),
    Example(
        f"{BOOK}, inference.md",
        "Llama 2 13B on 8 v5e: a step of more requests",
        steps_of_13b(40, "4.98", "12.13", "20.30", "36.65", "69.33", "249.09"),
        0.004,
        "a difference of two rounded figures",
    ),
    Example(
        f"{BOOK}, inference.md",
        "the same with 8 heads of keys",
        steps_of_13b(8, "4.17", "5.60", "7.23", "10.50", "17.04", "52.99"),
        0.004,
        "the same",
    ),
    Example(f"{BOOK}, inference.md", "one request", step_of_13b, 0.01, "26 GB read: a table that is not read is in it"),
    Example(f"{BOOK}, inference.md, question 1", "parameters of an invented model", invented),
    Example(f"{BOOK}, applied-inference.md", "Llama 3 70B in 8 bits: cache of a token", cache_of_70b),
    Example(
        f"{BOOK}, applied-inference.md",
        "32 requests of 8,192 tokens on 8 v5e",
        serving_70b,
        0.035,
        "70e9 bytes of weights for 70.55e9, of which table and head have 16 bits here",
    ),
    Example(
        f"{BOOK}, applied-inference.md", "a prompt of 8,192 tokens at 40 %", prompt_of_70b, 0.075, "no attention there"
    ),
    Example("huggingface.co/blog/llama31", "Llama 3.1: caches", cache_of_llama_3),
    Example(
        "huggingface.co/blog/llama31",
        "Llama 3.1: weights",
        weights_of_llama_3,
        0.01,
        "70B and 405B for 70.55 and 405.9",
    ),
    Example("huggingface.co/blog/kv-cache-quantization", "Llama 2 7B: 10,000 tokens", cache_of_7b),
    Example(
        "huggingface.co/blog/optimize-llm, 3.2", "OctoCoder without shared keys: 16,000 tokens", numbers_of_octocoder
    ),
    Example(
        "developer.nvidia.com/blog/mastering-llm-techniques-inference-optimization",
        "Llama 2 7B: 4,096 tokens",
        cache_of_4096,
    ),
    Example("Kwon et al. 2023, arXiv 2309.06180, section 3", "OPT-13B: a token, 2,048 tokens", cache_of_opt_13b),
    Example("Zhong et al. 2024, arXiv 2401.09670, section 3.3", "OPT-66B: a prompt that is sent", cache_of_opt_66b),
    Example("Zhang et al. 2023, arXiv 2306.14048, section 1", "30B: 128 x 1,024 tokens", cache_of_opt_30b),
    Example("Sheng et al. 2023, arXiv 2303.06865, section 3", "OPT-175B: 512 x (512 + 32)", serving_opt_175b),
    Example("Zhao et al. 2025, arXiv 2505.09343, table 1", "a token of three models", caches_of_deepseek),
    Example(
        "Pope et al. 2022, arXiv 2211.05102, table 1",
        "longest contexts of PaLM",
        contexts_of_palm,
        0.01,
        "rounded down",
    ),
    Example("Pope et al. 2022, arXiv 2211.05102, section 2.1", "512 x 2,048 tokens with 48 heads", caches_of_palm),
    Example(
        "aiconfigurator 0.12, its roofline", "7B and 8B on an H100", rooflines, 0.001, "norms and rows of the table"
    ),
    Example("baseten.co/blog/llm-transformer-inference-guide", "an A10's ridge; a token of 7B", bytes_on_an_a10),
    Example(
        "baseten.co/blog/llm-transformer-inference-guide",
        "Llama 2 7B on an A10",
        on_an_a10,
        0.07,
        "7B for 6.74, table read",
    ),
    Example("databricks.com/blog/llm-inference-performance-engineering-best-practices", "7B at 14 ms", bandwidth_of_7b),
    Example("Leviathan et al. 2022, arXiv 2211.17192, table 1", "tokens of a step with a draft", drafts),
)


@pytest.mark.parametrize("example", EVERY, ids=lambda example: f"{example.source}: {example.asked}")
def test_what_others_work_out(example: Example) -> None:
    pairs = list(example.pairs())
    assert pairs
    for text, found in pairs:
        printed = Decimal(text)
        exponent = printed.as_tuple().exponent
        assert isinstance(exponent, int)
        digit = exponent if exponent else len(text) - len(text.rstrip("0"))
        half = 0.5 * 10.0**digit * (1 + 1e-9)
        assert abs(found - float(printed)) <= half + example.about * float(printed), (text, found)
    assert bool(example.about) == bool(example.because)


def test_there_are_fifteen_without_an_allowance() -> None:
    """Published examples that come out as they are printed."""
    assert sum(1 for one in EVERY if not one.about) >= 15
