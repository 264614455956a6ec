"""The floor of a served model: sums by hand, and what GPUs share. Others' examples: serving/test_worked_examples.py."""

from __future__ import annotations

import math

import pytest

import tfcalc
from tfcalc.core.traced import value_of
from tfcalc.hardware import Accelerator, named
from tfcalc.plans import Serving
from tfcalc.timing.served import Load, ServedModel
from tfcalc.timing.serving import REDUCED_SHARE, Sharing, engine_of

H100 = named("h100")[0]
ALONE = Sharing()


def served(name: str, load: Load, card: Accelerator = H100, sharing: Sharing = ALONE, **plan: str) -> ServedModel:
    """A served preset."""
    return ServedModel(tfcalc.load(name), Serving(**plan), sharing, card, load)  # type: ignore[arg-type]


def test_by_hand() -> None:
    """Llama 3 8B in 16 bits on an H100 of 3.35 TB/s and 989.4 TFLOP/s: 8 requests of 1,000 tokens, with half an answer
    of 100; a prompt of 4,000 tokens is bound by its products.
    """
    of = served("llama-3-8b", Load(950, 100, 8))
    weights, token = 2 * (8_030_261_248 - 128_256 * 4096), 32 * 2 * 8 * 128 * 2
    rows = 8 * 4096 * 2
    assert of.floor_of_token(8).seconds == pytest.approx((weights + 8 * (1000 + 1) * token + rows) / 3.35e12)
    assert of.floor_of_token(8).name == "bandwidth"
    matrices, length = 8_030_261_248 - 128_256 * 4096 - 65 * 4096, 4000
    products = 2 * length * (matrices - 128_256 * 4096) + 2 * 128_256 * 4096
    pairs = 32 * 2 * 2 * 32 * 128 * length * (length + 1) / 2
    first = served("llama-3-8b", Load(length, 10)).floor_of_prompt(1)
    assert first.seconds == pytest.approx((products + pairs) / 989.4e12)
    assert first.name == "compute"


@pytest.mark.parametrize(
    ("name", "layers", "mixtures", "products"),
    [
        ("llama-3-8b", 32, 0, 8 * 32 + 1),
        ("kimi-k2.5", 61, 60, 61 * 6 + 3 + 60 * 6 + 1),
        ("qwen3.5-397b-a17b", 60, 60, None),
    ],
)
def test_layers_that_make_a_token(name: str, layers: int, mixtures: int, products: int | None) -> None:
    """Those of the published configs: a tower of images (27 layers) launches nothing where a token is made.

    Products by hand: attention has five, or six with absorbed latents; a dense network three, the router one, experts
    two (their gate and their first matrix are one) and the shared expert three; and the head.
    """
    found = served(name, Load(950, 100, 8), named("b300")[0], Sharing(8)).layers
    assert (found.number, found.experts) == (layers, mixtures)
    assert products is None or found.products == products


def test_gpus_share_what_they_can() -> None:
    """Of Llama 3 8B on 4 GPUs each reads a quarter of matrices and cache, and whole norms; on 16 each of 8 heads of
    keys is there twice. The latent cache of DeepSeek-V3 is whole on each of them.
    """
    whole, norms = served("llama-3-8b", Load(999, 2)).token, 2 * 65 * 4096
    for tp in (2, 4, 16):
        part = served("llama-3-8b", Load(999, 2), sharing=Sharing(tp=tp)).token
        twice = max(1, tp // 8)
        keys = 2 * 32 * 2 * 4096 * 1024
        weights = value_of(whole.least_weights - whole.gathered)
        found = tp * value_of(part.least_weights - part.gathered)
        assert found == weights + (tp - 1) * norms + (twice - 1) * keys
        assert tp * value_of(part.cached) == twice * value_of(whole.cached)
    latent = [served("deepseek-v3", Load(999, 2), sharing=Sharing(tp=tp)).token.cached for tp in (1, 8)]
    assert latent[0] == latent[1] == 1000 * 61 * 576 * 2


def test_experts_of_groups() -> None:
    """Mixtral on 8 GPUs with an expert each and requests of their own: 16 tokens choose 2 of 8, an eighth of what all
    read is on each GPU; and each computes as much as alone.
    """
    alone = served("mixtral-8x7b", Load(999, 2)).token
    spread = served("mixtral-8x7b", Load(999, 2), sharing=Sharing(dp=8, ep=8)).token
    routing = spread.routings[0]
    assert routing.expected(16) == pytest.approx(1 - 0.75**16)
    assert value_of(routing.most(16)) == 1
    assert spread.flops == alone.flops


def test_tokens_go_to_experts_of_other_groups() -> None:
    """A group with one expert of eight each sends a token of Mixtral, which chooses two, to another one at least. Of 8
    tokens in 16 bits a GPU so sends 8 vectors of 4,096 in each of 32 layers, and gets as many back, at 450 GB/s. On
    average the two are on 2 · 7/8 of seven other GPUs. The experts of DeepSeek-V3 may all be a GPU's own: it has 32.
    """
    spread = served("mixtral-8x7b", Load(1024, 256, 64), sharing=Sharing(dp=8, ep=8))
    floor = spread.floor_of_token(64)
    assert floor.link == pytest.approx(2 * 32 * 8 * 4096 * 2 / 450e9)
    assert spread.exchange.over.expected == pytest.approx(2 * 7 / 8)
    by = engine_of("vllm", H100)
    assert by is not None
    latency = by.reduce * 4  # two messages, each half of log2(2 x 8)
    sent = 8 * 1.75 * 4096 * (2 + 2) / (REDUCED_SHARE * 365e9)  # 365 GB/s: timing/links.csv
    assert spread.parts(64, by).exchanges == pytest.approx(32 * (sent + latency))
    own = served("deepseek-v3", Load(1024, 256, 64), named("h200")[0], Sharing(dp=8, ep=8))
    assert own.floor_of_token(64).link == 0
    expected = 7 * (1 - math.prod((224 - place) / (256 - place) for place in range(8)))
    assert own.exchange.over.expected == pytest.approx(expected)
    assert served("mixtral-8x7b", Load(999, 2), sharing=Sharing(tp=8, ep=8)).exchange.over.expected == 0


def test_a_prompt_alone_has_all_groups_to_itself() -> None:
    """Of one prompt of Mixtral each of eight GPUs may have an eighth of its two experts' products, whatever its group;
    of eight prompts each has as much as one.
    """
    alone = served("mixtral-8x7b", Load(4096, 2), sharing=Sharing(dp=8, ep=8))
    experts = 32 * 2 * 2 * 4096 * 3 * 4096 * 14336 / 989.4e12
    whole = served("mixtral-8x7b", Load(4096, 2)).floor_of_prompt(1).compute
    assert whole - alone.floor_of_prompt(1).compute == pytest.approx(experts * 7 / 8)
    batch = served("mixtral-8x7b", Load(4096, 2, 8, static=True), sharing=Sharing(dp=8, ep=8))
    assert batch.floor_of_prompt(8).compute == pytest.approx(whole)


def test_more_than_fits_does_not_run() -> None:
    """Llama 2 70B in fp8 on an H100 of 79.1 GiB: the floor of 512 requests is that of those which the engine has room
    for, fewer than the whole memory would hold.
    """
    of = served("llama-2-70b", Load(2048, 128, 512), weights="fp8", kv="fp8")
    assert 0 < of.at_work < of.certain_capacity < 512
    assert of.floor_of_token(512) == of.floor_of_token(of.at_work)
    assert of.floor_of_token(of.at_work - 1).seconds < of.floor_of_token(512).seconds


@pytest.mark.parametrize(
    ("gpu", "weights", "peak"),
    [
        *(("a100-sxm-80", name, 312e12) for name in ("bf16", "awq", "gptq", "nf4", "fp8", "nvfp4", "mxfp4")),
        ("a100-sxm-80", "w8a8", 624e12),
        *(("h100", name, 989.4e12) for name in ("awq", "nvfp4", "mxfp4")),
        *(("h100", name, 1978.9e12) for name in ("fp8", "w8a8")),
        ("b200", "fp8", 4500e12),
        ("b200", "nvfp4", 9000e12),
    ],
)
def test_products_are_in_the_format_of_the_kernels(gpu: str, weights: str, peak: float) -> None:
    """A prompt of 4,096 tokens has 2 FLOPs for each of 32 layers' matrices; weights alone in few bits speed up nothing.

    GPUs without fp8 or fp4 read such weights as 16 bits (vLLM's Marlin). The head, attention and norms are left out:
    they are less than 8 % of it, and in 16 bits everywhere.
    """
    matrices = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    found = served("llama-3-8b", Load(4096, 2), named(gpu)[0], weights=weights).floor_of_prompt(1).compute
    pairs = 32 * 2 * 2 * 32 * 128 * 4096 * 4097 / 2
    head = 2 * 128_256 * 4096
    half = max(named(gpu)[0].peaks[name] for name in ("bf16", "fp16"))
    assert found == pytest.approx(2 * 4096 * matrices / peak + (pairs + head) / half, rel=2e-3)


def test_llama_cpp_multiplies_integers() -> None:
    """It reads 10,491.78 tokens/s of Llama 3 8B Q5_0 on an RTX 4090, 512 at once, by its tensor cores of int8: its pull
    request 8062. So a floor in 16 bits, of 165.2 TFLOP/s, is too near; that of int8 is four times as far.
    """
    card = named("rtx-4090")[0]
    by_mmq = served("llama-3-8b", Load(512, 2), card, weights="q5_0").floor_of_prompt(1)
    in_half = served("llama-3-8b", Load(512, 2), card, weights="awq").floor_of_prompt(1)
    assert by_mmq.seconds < 512 / 10_491.78
    assert in_half.compute > 3 * by_mmq.compute


def test_halves() -> None:
    """Half the bits of the cache halve its part of the floor; twice the bandwidth halves all of it."""
    plain, half = (served("llama-3-8b", Load(4000, 2), kv=kv).floor_of_token(16).bandwidth for kv in ("bf16", "fp8"))
    one = served("llama-3-8b", Load(4000, 2))
    assert plain - half == pytest.approx(16 * value_of(one.token.cached + one.token.written) / 2 / H100.bandwidth)
    fast = served("llama-3-8b", Load(4000, 2), H100._replace(bandwidth=2 * H100.bandwidth))
    assert 2 * fast.floor_of_token(16).bandwidth == pytest.approx(plain)
