"""``tfcalc explain CONCEPT``: words of the field, each with its number, two sentences, and a section of the course."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.conftest import Program
from tests.schemas.test_answers import wrong
from tests.test_words import found as refused_words
from tfcalc import UsageError, explain
from tfcalc.report.concepts import anchor, concept_of, known, spelled

CONCEPTS = tuple({concept.name: concept for concept in known().values()}.values())
L, H, HEADS, KV, D, FFN, VOCAB = 32, 4096, 32, 8, 128, 14_336, 128_256
PER_LAYER = 2 * H * HEADS * D + 2 * H * KV * D + 3 * H * FFN + 2 * H
LLAMA = L * PER_LAYER + 2 * VOCAB * H + H
LORA = 16 * L * (2 * (H + HEADS * D) + 2 * (H + KV * D) + 3 * (H + FFN))
MATRICES = L * (PER_LAYER - 2 * H) + VOCAB * H
FORWARD = 2 * MATRICES * 4096 + L * 4 * 4096**2 * H
PEAK = 989.4e12

BY_HAND: dict[str, float] = {
    "34sbh+5as²b": 34 * 2048 * 12_288 + 5 * 96 * 2048**2,
    "matmul": 2 * 4096 * H * VOCAB,
    "KV cache": 2 * L * KV * D * 2 * 8192,
    "kv per token": 2 * L * KV * D * 2,
    "6ND": 6 * LLAMA * 4096,
    "2ND": 2 * LLAMA * 4096,
    "MFU": 9500 * 3 * FORWARD / 4096 / PEAK,
    "peak FLOP/s": PEAK,
    "softmax": 4 * 4096**2 * H + 6 * 4096**2 * HEADS,  # a scale and five operations a score
    "QK^T": 4 * 4096**2 * H,
    "RoPE": 2 * 4096 * (PER_LAYER - 2 * H - 3 * H * FFN)
    + 4 * 4096**2 * H
    + 6 * 4096**2 * HEADS
    + 3 * 4096 * (HEADS + KV) * D,
    "optimizer states": 2 * 2 * LLAMA + 4 * 291,  # two moments in bf16; the step of each of 32 · 9 + 3 tensors
    "LoRA": LORA,
    "HFU": 9500 * (3 * FORWARD + FORWARD - 2 * VOCAB * H * 4096) / 4096 / PEAK,  # all but the head runs again
    "FSDP": 2 * LLAMA // 8,
    "gradients": 2 * LLAMA,
    "MACs": 3 * FORWARD / 2,
    "prefill": FORWARD,
    "backward": 2 * FORWARD,
    "crossover": (3 * H * FFN - 2 * H * HEADS * D - 2 * H * KV * D) / (2 * HEADS * D),  # 2l·a·d = the rest
    "number of parameters": LLAMA,
    "d_model": H,
    "tokens per parameter": LLAMA,
    "multi-head attention": 2 * H * HEADS * D + 2 * H * KV * D,
    "SwiGLU": 3 * H * FFN,
    "rms norm": H,
    "bubble": 3 / 8,
    "speculative decoding": (1 - 0.7**4) / 0.3,
    "roofline": PEAK / 3.35e12,
    "head dim": 128,
    "MoE": 12_879_925_248,  # tests/oracle: mixtral's active parameters
    "MLA": 61 * 576 * 2 * 1024,
    "MQA": 32 * 2 * 64 * 2 * 1024,
    "sliding window": 2 * 8 * 256 * 2 * 21 * (8192 + 4112),  # 4,096 tokens back, and a block
    "pipeline": 8 * PER_LAYER + VOCAB * H + H,
    "expert parallelism": 32 * 3 * H * FFN,  # one of 8 experts in each layer
    "causal mask": 2 * MATRICES * 4096 + L * 4 * H * 4096 * 4097 // 2,
}
"""Of Llama 3 8B, or the model that a concept takes."""


def number(found: str) -> float:
    """The number of an explanation in JSON."""
    said = json.loads(found)
    return float(
        next(said[key] for key in ("value", *(key for key in said if key.startswith("total_"))) if key in said)
    )


def test_a_concept_has_a_number_and_two_sentences(tfcalc: Program) -> None:
    by_hand = {known()[spelled(name)].name: value for name, value in BY_HAND.items()}
    for concept in (one for one in CONCEPTS if not one.refused):
        found = tfcalc("explain", concept.name, "--json")
        assert (found.returncode, found.stderr) == (0, ""), concept.name
        said = json.loads(found.stdout)
        assert (said["concept"], said["meaning"]) == (concept.name, concept.meaning)
        assert number(found.stdout) > 0
        assert len(re.findall(r"[.]( |$)", concept.meaning)) == 2, concept.meaning
        assert not refused_words(f"{concept.meaning} {concept.formula}"), concept.name
        assert said["course"] == f"formulas.md#{anchor(concept.course)}"
        if value := by_hand.pop(concept.name, None):
            assert number(found.stdout) == pytest.approx(value, rel=1e-9), concept.name
    assert not by_hand


@pytest.mark.parametrize("name", ["KV cache", "MFU", "RoPE"])
def test_the_json_meets_its_schema(tfcalc: Program, name: str) -> None:
    said = json.loads(tfcalc("explain", name, "--json").stdout)
    assert said["concept"] == name
    assert not list(wrong(said))


def test_what_has_no_cost_is_refused_with_what_to_ask(tfcalc: Program) -> None:
    """Perplexity is the exponential of a loss: it is measured."""
    for concept in (one for one in CONCEPTS if one.refused):
        found = tfcalc("explain", concept.name, "--json")
        said = json.loads(found.stderr)
        assert (found.returncode, found.stdout) == (2, "")
        assert said["message"] == f"{concept.name}: {concept.refused}"
        command = re.search(r"tfcalc \w+ llama-3-8b( --\w+( decode| \d+G?B)?)*", said["hint"])
        assert command
        assert tfcalc(*shlex.split(command[0])[1:]).returncode == 0
    assert "no parameters" in tfcalc("explain", "temperature").stderr


FURTHER = sorted({command.format(f" {concept.model}") for concept in CONCEPTS for command in concept.further})


@pytest.mark.one_in(8)
@pytest.mark.parametrize("first", range(0, len(FURTHER), 5))
def test_commands_that_show_more_run(tfcalc: Program, first: int) -> None:
    for said in FURTHER[first : first + 5]:
        found = tfcalc(*shlex.split(said)[1:])
        assert (found.returncode in (0, 1), found.stderr) == (True, ""), said


SPELLED = {
    "KV cache": (
        "kv_cache",
        "kv_cache_bytes",
        "kv-cache",
        "KV",
        "what is the kv cache?",
        "KV Caches",
        "PagedAttention",
    ),
    "6ND": ("6nd", "6 N D", "C=6ND", "6·N·D"),
    "flash attention": ("flash-attention", "FlashAttention", "flash_attn"),
    "MFU": ("mfu", "what is mfu", "What's MFU?", "M.F.U."),
    "gradient checkpointing": ("checkpointing", "activation recomputation", "Gradient-Checkpointing"),
    "ZeRO": ("zero", "ZeRO-3", "zero stage 2"),
    "MoE": ("moe", "Mixture-of-Experts", "active parameters"),
    "optimizer states": ("adamw states", "optimizer states", "Adam"),
    "peak FLOP/s": ("peak flops", "1,979 TFLOPs", "sparse peak"),
    "GPU memory utilization": ("gpu_memory_utilization",),
    "tokens per parameter": ("Chinchilla", "scaling laws"),
    "TPOT": ("tpot", "inter-token latency", "ITL"),
    "activations": ("saved tensors",),
    "34sbh": ("34sbh + 5as^2b", "34SBH", "34sbh+5abs^2", "s*b*h*(34 + 5*a*s/h)"),
    "roofline": ("Roofline model", "ridge point"),
}


def test_spellings_do_not_matter(tfcalc: Program) -> None:
    for name, texts in SPELLED.items():
        for text in texts:
            found = concept_of(text)
            assert found, text
            assert found.name == name, text
    for words in ("kv_cache", "what is the kv cache?", "What's the kv-cache ?"):
        assert json.loads(tfcalc("explain", words, "--json").stdout)["concept"] == "KV cache"
    assert json.loads(tfcalc("explain", "what", "is", "mfu", "--json").stdout)["concept"] == "MFU"


def test_a_model_follows_and_options_go_before_those_of_the_concept(tfcalc: Program) -> None:
    per_token = 2 * 12 * 768 * 2  # GPT-2, served in fp16
    for words in (
        ["KV cache", "gpt2"],
        ["kv", "cache", "of", "gpt2"],
        ["what is the kv cache of gpt2?"],
        ["kv-cache", "--model", "gpt2"],
    ):
        assert tfcalc("explain", *words, "-q").stdout == f"{1024 * per_token}\n"
    assert tfcalc("explain", "KV", "cache", "gpt2", "--context", "512", "-q").stdout == f"{512 * per_token}\n"
    assert tfcalc("explain", "lora", "--lora", "8", "-q").stdout == f"{LORA // 2}\n"
    assert tfcalc("explain", "gradients", "--zero", "1", "--checkpointing", "full", "--gpus", "2", "-q").stdout == (
        f"{2 * LLAMA}\n"
    )
    mfu = tfcalc("explain", "mfu", "--tokens-per-second", "4750", "--gpu", "h100", "--json").stdout
    assert number(mfu) == pytest.approx(BY_HAND["MFU"] / 2)
    sized = tfcalc("explain", "6nd", "--d-model", "768", "--heads", "12", "--layers", "12", "-q")
    assert (sized.returncode, sized.stderr) == (0, "")


def test_what_a_model_does_not_have_is_refused(tfcalc: Program) -> None:
    for name, model in {"RoPE": "gpt2", "MoE": "llama-3-8b", "MLA": "llama-3-8b", "sliding window": "gpt2"}.items():
        found = tfcalc("explain", name, model)
        assert (found.returncode, found.stdout) == (2, "")
        assert f"{model} has no {name}; tfcalc explain '{name}' takes " in found.stderr
    assert "without experts" in tfcalc("explain", "expert parallelism", "gpt2").stderr


def test_parts_go_before_concepts_and_what_is_near_is_named(tfcalc: Program) -> None:
    assert "concept" not in json.loads(tfcalc("explain", "attention", "gpt2", "--json").stdout)
    assert "concept" not in json.loads(tfcalc("explain", "cache", "gpt2", "--of", "memory", "--serve", "--json").stdout)
    for typed, meant in {"rofline": "roofline", "kv cach": "KV cache", "chinchila": "tokens per parameter"}.items():
        for words in ([typed], typed.split()):
            found = tfcalc("explain", *words)
            assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
            assert f"did you mean {meant}" in found.stderr
    assert "or a concept: KV cache" in tfcalc("explain", "nonsense").stderr
    assert tfcalc("explain", "x" * 10_000).returncode == 2


def test_beside_a_quantity_a_concepts_name_is_the_parts_that_has_it(tfcalc: Program) -> None:
    """DDP's buckets are as large as the gradients in fp32; SigLIP's logits are b² products of two embeddings."""
    buckets = tfcalc(
        "explain", "communication", "gpt2", "--of", "memory", "--train", "--gpus", "8", "--precision", "fp32", "-q"
    )
    assert buckets.stdout == f"{4 * 124_439_808}\n"
    assert tfcalc("explain", "communication", "gpt2", "--of", "memory").returncode == 2
    masters = tfcalc(
        "explain", "master weights", "gpt2", "--of", "memory", "--train", "--precision", "bf16-master", "-q"
    )
    assert masters.stdout == f"{4 * 124_439_808}\n"
    logits = tfcalc("explain", "logits", "siglip-so400m-patch14-384", "--of", "flops", "--batch", "3", "-q")
    assert logits.stdout == f"{2 * 3 * 3 * 1152}\n"
    alone = tfcalc("explain", "logits", "siglip-so400m-patch14-384", "--of", "flops", "--seq", "64")
    assert (alone.returncode, "--seq 64 has no effect on FLOPs of logits" in alone.stderr) == (2, True)


def test_a_concepts_number_is_of_one_quantity(tfcalc: Program) -> None:
    other = tfcalc("explain", "logits", "gpt2", "--of", "flops")
    assert other.stderr == "tfcalc: logits is a number of memory, not of flops; leave --of flops out\n"
    without = tfcalc("explain", "logits", "siglip-so400m-patch14-384")
    assert (without.returncode, "has none of what logits opens" in without.stderr) == (2, True)


def test_names_are_not_shared() -> None:
    seen: dict[str, str] = {}
    for concept in CONCEPTS:
        for name in (concept.name, *concept.also):
            assert seen.setdefault(spelled(name), concept.name) == concept.name, name


def test_times_and_shares_are_opened_into_their_parts(tfcalc: Program) -> None:
    """An 8B model on an H100, by its datasheet (3.35 TB/s, 989.4 TFLOP/s): 15.0 GB a token, 14.6 TFLOP a prompt.

    Of 1F1B a stage waits for p - 1 of m micro-batches (Narayanan et al. 2021, section 2.2.1).
    """

    def parts(*words: str) -> dict[str, float]:
        found = json.loads(tfcalc("explain", *words, "--json").stdout)
        return {term["path"].rpartition(".")[2]: term["value"] for term in found["terms"] if term.get("path")}

    first = parts("TTFT", "llama-3.1-8b")
    assert first["ttft_compute_ms"] == pytest.approx(14_569_848_176_640 / 989.4e12 * 1000, rel=1e-3)
    assert first["ttft_bandwidth_ms"] == pytest.approx(15_152_455_680 / 3.35e12 * 1000, rel=1e-3)
    rate = parts("throughput", "llama-3.1-8b")
    token = (15_009_857_536 + 151_126_016) / 3.35e12 * 1000
    assert rate["request_ms"] == pytest.approx(first["ttft_compute_ms"] + 255 * token, rel=1e-3)
    assert (rate["concurrency"], rate["output_tokens"]) == (1, 256)
    assert parts("bubble", "llama-3-70b") == {"idle_passes": 3, "micro_batches": 8, "vpp": 1}


OWN = {
    "softmax": 5 * 4096**2 * HEADS,
    "RoPE": 3 * 4096 * (HEADS + KV) * D,
    "Q K^T": 2 * 4096**2 * H,
    "activation function": 4 * 4096 * FFN,  # an exponential, a sum, a quotient and a product
    "positional encoding": 1024 * 768,  # GPT-2's table
}
"""Numbers of rows that are the concept itself, in one layer."""


def test_the_number_of_a_concept_is_its_own_or_says_what_it_is_of(tfcalc: Program) -> None:
    for name, value in OWN.items():
        title = tfcalc("explain", name).stdout.splitlines()[0]
        assert re.match(rf"{re.escape(name)}: {value:,} of [\d,]+ ", title), title
        assert tfcalc("explain", name, "-q").stdout == f"{value}\n"
    assert tfcalc("explain", "causal").stdout.startswith(
        f"causal mask: {BY_HAND['causal mask']:,}, FLOPs of the whole forward pass"
    )
    for concept in (one for one in CONCEPTS if one.whole and not one.row):
        assert concept.whole in tfcalc("explain", concept.name).stdout.splitlines()[0]
    assert "2ND: " in tfcalc("explain", "2ND", "gpt2").stdout


def test_json_says_the_concepts_number_and_what_another_total_is_of(tfcalc: Program) -> None:
    for name, value in OWN.items():
        said = json.loads(tfcalc("explain", name, "--json").stdout)
        assert (said["concept_value"], said["concept_of"]) == (value, f"all of {said['path']}"), name
        assert value < number(json.dumps(said))
    tokens = json.loads(tfcalc("explain", "tokens per parameter", "--json").stdout)
    assert (tokens["concept_value"], tokens["total_params"]) == (20 * LLAMA, LLAMA)
    assert "20 times" in tokens["concept_of"]
    cache, flash = (json.loads(tfcalc("explain", name, "--json").stdout) for name in ("KV cache", "flash attention"))
    assert (cache["concept_value"], cache["concept_of"]) == (BY_HAND["KV cache"], "")
    assert flash["concept_of"] == "all that a step with it saves for backward"
    opened = json.loads(tfcalc("explain", "explain.concept_value", "softmax", "--json").stdout)
    assert (opened["value"], [term["path"] for term in opened["terms"]]) == (OWN["softmax"], ["explain.items.3.flops"])


def test_the_library_knows_concepts() -> None:
    assert number(explain("KV cache", "llama-3.1-8b").to_json()) == 2 * L * KV * D * 2 * 8192
    with pytest.raises(UsageError, match="sampling: "):
        explain("sampling")


OF_LIBRARY = [
    *("KV cache", "LoRA", "prefill", "head dim"),
    *("6ND", "2ND", "MACs", "MFU", "HFU", "roofline", "arithmetic intensity", "speculative decoding", "TTFT", "TPOT"),
    *("tokens per second", "concurrency", "tensor parallelism", "pipeline parallelism", "bubble", "expert parallelism"),
    *("gradient accumulation", "training time"),
]
"""Concepts of params, flops, memory and overview, and all of other questions."""


@pytest.mark.parametrize("name", OF_LIBRARY)
def test_the_library_opens_what_the_command_line_does(quick: Program, name: str) -> None:
    found = explain(name).to_dict() | {"further": 0}
    assert found == json.loads(quick("explain", name, "--json").stdout) | {"further": 0}


@pytest.mark.long
def test_every_concept_with_a_number_is_opened_by_the_library() -> None:
    asked = {explain(one.name).known_as.name for one in known().values() if not one.refused}  # type: ignore[union-attr]
    assert asked == {one.name for one in known().values() if not one.refused}
