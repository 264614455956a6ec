"""The promise to scripts: the keys, exact integers, and a tree that adds up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Program

TOP = {"schema_version", "command", "model", "conventions", "components"}
KEYS = {
    "params": {"total_params", "active_params", "embedding_params", "non_embedding_params", "trainable_params"},
    "flops": {
        "forward_flops",
        "backward_flops",
        "recompute_flops",
        "total_flops",
        "matmul_flops",
        "elementwise_flops",
        "tokens",
        "flops_per_token",
    },
    "memory": {
        "total_bytes",
        "weights_bytes",
        "gradients_bytes",
        "optimizer_bytes",
        "activations_bytes",
        "kv_cache_bytes",
        "buffers_bytes",
        "temporary_bytes",
    },
}
AMOUNT = {"params": "params", "flops": "flops", "memory": "bytes"}


def answer(tfcalc: Program, *arguments: str) -> dict[str, Any]:
    result = tfcalc(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def walk(components: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for component in components:
        yield component
        yield from walk(component["parts"])


@pytest.mark.parametrize("command", KEYS)
def test_the_promised_keys_are_there(tfcalc: Program, command: str) -> None:
    found = answer(tfcalc, command, "--vocab-size", "1000")
    assert set(found) >= TOP | KEYS[command]
    assert (found["schema_version"], found["command"]) == (1, command)
    for component in walk(found["components"]):
        assert {"name", "path", "copies", "params", "flops", "formula", "parts"} <= set(component)
        assert component["path"].endswith(component["name"])


@pytest.mark.parametrize("command", KEYS)
def test_parts_add_up_to_the_whole(tfcalc: Program, command: str) -> None:
    key = AMOUNT[command]
    found = answer(tfcalc, command, "--vocab-size", "1000", "--depth", "9")
    assert sum(part[key] for part in found["components"]) == found[f"total_{key}"]
    for component in walk(found["components"]):
        if component["parts"]:
            assert sum(part[key] for part in component["parts"]) == component[key]
        assert component[key] % component["copies"] == 0


@pytest.mark.parametrize(
    "asked",
    [
        ("gpt2",),
        ("gpt2", "--count", "all"),
        ("gpt2", "--train"),
        ("gpt2", "--train", "--count", "all", "--recompute", "full"),
        ("gpt2", "--train", "--recompute", "every:5", "--early-stop"),
        ("gpt2", "--phase", "prefill", "--logits", "last"),
        ("gpt2", "--phase", "decode", "--cached", "100", "--count", "all"),
        ("mixtral-8x7b", "--train", "--attention", "causal-half", "--attention-kernel", "flash"),
        ("vit-base-patch16-224", "--train", "--batch", "3"),
        ("gpt2", "--train", "--tokens", "1M"),
    ],
    ids=" ".join,
)
def test_the_flops_of_components_are_those_that_were_asked_for(tfcalc: Program, asked: tuple[str, ...]) -> None:
    found = answer(tfcalc, "flops", *asked, *(() if "--tokens" in asked else ("--depth", "9")))
    assert sum(part["flops"] for part in found["components"]) == found["total_flops"]
    for component in walk(found["components"]):
        if component["parts"]:
            assert sum(part["flops"] for part in component["parts"]) == component["flops"]


@pytest.mark.parametrize("command", ["params", "memory"])
def test_beside_another_quantity_they_are_forward_products_and_it_says_so(tfcalc: Program, command: str) -> None:
    """1,024 tokens, GPT-2's longest: 24lh² + 4l²h in each of its 12 layers (h 768), and 2lVh in its head."""
    found = answer(tfcalc, command, "gpt2")
    assert found["conventions"]["component_flops"] == "matrix products of a forward pass of 1 x 1024 tokens"
    length = 1024
    by_hand = 12 * (2 * length * 12 * 768**2 + 4 * length**2 * 768) + 2 * length * 50257 * 768
    assert sum(part["flops"] for part in found["components"]) == by_hand


def test_the_core_by_its_sizes(tfcalc: Program) -> None:
    found = answer(tfcalc, "params", "--d-model", "512", "--layers", "6")
    assert found["total_params"] == 44_140_544  # torch.nn.Transformer()
    layer = next(part for part in walk(found["components"]) if part["path"] == "core.encoder.layer")
    assert (layer["copies"], layer["params"], layer["formula"]) == (6, 6 * 3_152_384, "n(12h² + 13h)")


def test_forward_flops_of_the_core_at_its_workload(tfcalc: Program) -> None:
    """4nlbh(14h + 3l) at n = 6, l = 1024, b = 8, h = 512, by hand: 100,663,296 · 10,240."""
    found = answer(tfcalc, "flops", "--seq", "1024", "--batch", "8")
    assert 4 * 6 * 1024 * 8 * 512 == 100_663_296
    assert found["forward_flops"] == 100_663_296 * 10_240
    assert found["tokens"] == 8192
    assert found["flops_per_token"] * 8192 == found["forward_flops"]
    assert found["backward_flops"] == 0


def test_integers_stay_exact_beyond_what_a_float_holds(tfcalc: Program) -> None:
    found = answer(tfcalc, "params", "--d-model", "999999999999", "--heads", "3", "--layers", "1")
    h = 999_999_999_999
    assert found["total_params"] == 28 * h * h + 32 * h + 4 * h


def test_a_training_step(tfcalc: Program) -> None:
    flags = ("--vocab-size", "100")
    forward, step = answer(tfcalc, "flops", *flags), answer(tfcalc, "flops", *flags, "--train")
    assert step["forward_flops"] == forward["forward_flops"]
    assert step["backward_flops"] == 2 * forward["forward_flops"]
    assert step["total_flops"] == 3 * forward["forward_flops"]
    assert answer(tfcalc, "flops", *flags, "--phase", "train") == step


def test_count_all_adds_what_is_no_matrix_product(tfcalc: Program) -> None:
    products, everything = answer(tfcalc, "flops"), answer(tfcalc, "flops", "--count", "all")
    assert everything["elementwise_flops"] == products["elementwise_flops"] > 0
    assert everything["matmul_flops"] == products["matmul_flops"] == products["total_flops"]
    assert everything["total_flops"] == everything["matmul_flops"] + everything["elementwise_flops"]


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        (["--attention", "causal"], {"attention", "attention_pairs"}),
        (["--count", "all"], {"count", "operations"}),
        (["--attention-kernel", "flash"], {"attention_kernel", "backward"}),
        (["--batch", "2"], {"batch_size"}),
    ],
)
def test_a_switched_definition_stands_in_the_answer_and_nothing_else_moves(
    tfcalc: Program, flags: list[str], changed: set[str]
) -> None:
    step = ("flops", "--train")
    before, after = answer(tfcalc, *step)["conventions"], answer(tfcalc, *step, *flags)["conventions"]
    assert {key for key in before if before[key] != after[key]} == changed


@pytest.mark.parametrize(
    ("dtype", "bits"), [("fp32", 32), ("fp16", 16), ("bf16", 16), ("fp8", 8), ("int8", 8), ("int4", 4)]
)
def test_bytes_of_each_dtype(tfcalc: Program, dtype: str, bits: int) -> None:
    assert answer(tfcalc, "memory", "--dtype", dtype)["weights_bytes"] == 44_140_544 * bits // 8


def test_int4_pads_each_tensor_to_whole_bytes(tfcalc: Program) -> None:
    """h = 3: 4 matrices of 9 and 4 biases of 3 take 5 and 2 bytes; the feed-forward 2·18, 6 and 2; a norm 2·2."""
    flags = ["--kind", "encoder", "--d-model", "3", "--heads", "1", "--layers", "1", "--final-norm", "never"]
    found = answer(tfcalc, "memory", *flags, "--dtype", "int4")
    assert found["weights_bytes"] == 4 * (5 + 2) + (2 * 18 + 6 + 2) + 2 * (2 * 2)


def test_sinusoids_are_a_buffer_and_learned_positions_are_parameters(tfcalc: Program) -> None:
    flags = ["--kind", "encoder", "--vocab-size", "10", "--max-len", "100", "--d-model", "8", "--layers", "1"]
    fixed, learned = (answer(tfcalc, "memory", *flags, "--positions", kind) for kind in ("sinusoidal", "learned"))
    assert (fixed["buffers_bytes"], learned["buffers_bytes"]) == (4 * 100 * 8, 0)
    assert learned["weights_bytes"] - fixed["weights_bytes"] == 4 * 100 * 8


def test_units(tfcalc: Program) -> None:
    assert "168 MiB" in tfcalc("memory").stdout  # 44,140,544 x 4 / 2^20 = 168.38
    assert "177 MB" in tfcalc("memory", "--units", "si").stdout


def test_formula_and_explain_and_models(tfcalc: Program) -> None:
    form = answer(tfcalc, "formula", "mha")
    assert (form["formula"], form["ascii"], form["latex"]) == ("4h² + 4h", "4h^2 + 4h", "4 h^{2} + 4 h")
    assert form["legend"] == {"h": "hidden size"}
    opened = answer(tfcalc, "explain", "attention", "--d-model", "768", "--heads", "12")
    assert opened["total_params"] == 2_362_368 == sum(item["params"] for item in opened["items"])
    assert {model["name"] for model in answer(tfcalc, "models")["models"]} >= {"transformer-base", "transformer-big"}


def test_elementwise_work_of_an_encoder_layer_by_hand(tfcalc: Program) -> None:
    """By the table of formulas.md, forward: biases 1, scale and softmax 6, ReLU 1, residual 1, LayerNorm 7."""
    b, l, h, a = 3, 10, 64, 4
    flags = ["--kind", "encoder", "--layers", "1", "--final-norm", "never", "--d-model", f"{h}", "--heads", f"{a}"]
    found = answer(tfcalc, "flops", *flags, "--batch", f"{b}", "--seq", f"{l}")
    per_element = 4 + (4 + 1) + 4 + 2 + 2 * 7  # four biases of h, those of 4h and h, ReLU on 4h, 2 residuals, 2 norms
    assert found["elementwise_flops"] == b * l * h * per_element + 6 * a * b * l * l
    step = answer(tfcalc, "flops", *flags, "--batch", f"{b}", "--seq", f"{l}", "--train", "--no-dropout")
    backward = 4 + (4 + 1) + 4 + 2 + 2 * 13
    assert step["elementwise_flops"] - found["elementwise_flops"] == b * l * h * backward + 5 * a * b * l * l
