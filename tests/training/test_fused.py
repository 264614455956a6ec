"""What models keep where every kernel is fused: counted by hand, from what each kernel is defined to keep.

Flash attention keeps q, k, v, its result and 4 bytes for each row of scores (arXiv 2307.08691), beside 24 bytes for the
state of random numbers; the memory-efficient kernel has 16 of these, and rows filled up to 32 (none here). Of
Liger-Kernel (arXiv 2410.10989, section 3) RMSNorm keeps its input and 4 bytes a row, SwiGLU gate and up, rotary cos and
sin alone, and the fused linear cross-entropy the gradients of its input and of its weight.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.training.test_training_rows import CONFIGS
from tfcalc import Workload, memory
from tfcalc.backends.program import ModuleProgram, program
from tfcalc.catalog import load
from tfcalc.configs.published import HFModel
from tfcalc.core.number import total
from tfcalc.core.polynomial import symbols
from tfcalc.errors import InvalidModel
from tfcalc.plans import Training
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.tensor import Tensor

BF16, FP32, AUTOCAST = Numerics("bfloat16"), Numerics("float32"), Numerics("float32", autocast="bfloat16")
BATCH, LENGTH = 2, 64
TOKENS = BATCH * LENGTH


def ran(
    name: str, numerics: Numerics, *, batch: Any = BATCH, length: Any = LENGTH, **given: Any
) -> tuple[ModuleProgram, Tensor]:
    """A step of a model whose config says this beside what is recorded."""
    every_layer = given.pop("every_layer", True)
    model = HFModel(dict(CONFIGS[name]) | given)
    run = Workload(phase="train", batch_size=batch, seq_len=length)
    m = program(model, run, numerics, "fused", every_layer=every_layer)
    return m, m(model.tree(run))


def block(name: str, numerics: Numerics, layers: str = "num_hidden_layers") -> int:
    """What one more layer keeps."""
    two, three = (ran(name, numerics, **{layers: count}) for count in (2, 3))
    return three[0].tape.tracker.saved - two[0].tape.tracker.saved


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b", "mistral-7b"])
def test_a_llama_block_in_16_bits_keeps_6h_2kv_and_3f_numbers_a_token(name: str) -> None:
    """x, its norm, q, the mixture, x + attention, its norm; k, v; gate, up, their product; 1/rms twice."""
    h, f, a, kv = sizes(name)
    assert block(name, BF16) == TOKENS * (2 * (6 * h + 2 * kv + 3 * f) + 2 * 4 + 4 * a) + 24


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b"])
def test_in_32_bits_attention_is_the_memory_efficient_kernel(name: str) -> None:
    h, f, a, kv = sizes(name)
    assert block(name, FP32) == TOKENS * (4 * (6 * h + 2 * kv + 3 * f) + 2 * 4 + 4 * a) + 16


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b"])
def test_under_autocast_each_map_keeps_a_copy_of_its_input_and_of_its_weight(name: str) -> None:
    """x twice in fp32; five copies of the norms' results, q, k, v, the mixture, gate, up and product in bf16."""
    h, f, a, kv = sizes(name)
    weights = 2 * h * h + 2 * h * kv + 3 * h * f
    by_token = 4 * 2 * h + 2 * (5 * h + 2 * h + 2 * kv + 3 * f) + 2 * 4 + 4 * a
    assert block(name, AUTOCAST) == TOKENS * by_token + 24 + 2 * weights


def test_a_gpt2_block_with_dropout_keeps_34_bytes_by_width() -> None:
    """In 16 bits, f = 4h: x and its norm 4, q, k and v 6, mixture 2, mask 1, sum and its norm 4, GELU 8 + 8, mask 1.

    Each LayerNorm has a mean and a deviation, of 4 bytes each.
    """
    h, a = CONFIGS["gpt2"]["n_embd"], CONFIGS["gpt2"]["n_head"]
    assert block("gpt2", BF16, "n_layer") == TOKENS * (34 * h + 2 * 8 + 4 * a) + 24


def test_beside_its_blocks_a_llama_keeps_the_last_norms_input_the_angles_and_two_gradients() -> None:
    h, *_ = sizes("llama-2-7b")
    vocabulary, width = CONFIGS["llama-2-7b"]["vocab_size"], 128
    m, _ = ran("llama-2-7b", BF16, num_hidden_layers=2)
    around = TOKENS * (2 * h + 4) + 2 * LENGTH * width * 2 + 2 * TOKENS * h + 2 * vocabulary * h
    assert m.tape.tracker.saved == 2 * block("llama-2-7b", BF16) + around


def test_the_loss_never_holds_more_logits_than_those_of_a_chunk() -> None:
    """4 · 4096 rows, 32000 words and h = 4096 make chunks of 2048 rows: the example in Liger-Kernel's own source.

    There are also the losses of all rows (4 bytes each), their labels (8), and what the head reads.
    """
    m, loss = ran("llama-2-7b", BF16, batch=4, length=4096, num_hidden_layers=1)
    rows = 4 * 4096
    peak = m.tape.tracker.new_phase().total
    assert peak - m.tape.tracker.saved == 2048 * 32000 * 2 + rows * (4 + 8 + 2 * 4096)
    assert loss.storage.size == 4


def test_the_peak_with_sgd_is_in_backward_and_adds_up() -> None:
    """One layer of Llama 2, 4 · 4096 tokens, 16 bits: most is live when the gradient of the down projection is made.

    There are the weights; token ids and labels; what the layer keeps, cos and sin; the gradients of the head and of the
    last norm, which are done; and, of the tensors that pass, the gradients of the stream, of the down projection's
    input and of its weight, beside the loss and its gradient. cuBLAS has two workspaces of 8,519,680 bytes.
    """
    h, f, a, kv = sizes("llama-2-7b")
    vocabulary, tokens = 32000, 4 * 4096
    layer = 2 * h * h + 2 * h * kv + 3 * h * f + 2 * h
    weights = 2 * (2 * vocabulary * h + layer + h)
    kept = tokens * (2 * (6 * h + 2 * kv + 3 * f) + 2 * 4 + 4 * a) + 24 + 2 * 4096 * 128 * 2
    gradients = 2 * (vocabulary * h + h)
    passing = 2 * tokens * h + 2 * tokens * f + 2 * h * f + 4 + 4
    model = HFModel(dict(CONFIGS["llama-2-7b"]) | {"num_hidden_layers": 1})
    plan = Training(precision="bf16", optimizer="sgd", backend="fused")
    found = memory(model, Workload(phase="train", batch_size=4, seq_len=4096), training=plan)
    assert found.totals["temporary_bytes"] == passing
    assert found.answer == weights + 8 * tokens + 2 * 8_519_680 + kept + gradients + passing


def test_backward_hands_out_the_gradients_that_forward_made() -> None:
    """The loss's own backward needs no memory, and all gradients are there in the end: 2 bytes for each parameter."""
    m, loss = ran("llama-2-7b", BF16, num_hidden_layers=1)
    last = m.tape.nodes.pop()
    assert last is loss.node
    m.tape.seed(last, 0, m.tape.new((1,), "float32"))
    live = m.tape.tracker.live
    m.tape.tracker.new_phase()
    m.tape.run_backward(last)
    assert m.tape.tracker.new_phase().total == live
    h, f, _, kv = sizes("llama-2-7b")
    assert m.tape.tracker.gradients == 2 * 32000 * h
    whole, loss = ran("llama-2-7b", BF16, num_hidden_layers=1)
    whole.tape.backward(loss)
    assert whole.tape.tracker.gradients == 2 * (2 * 32000 * h + h + 2 * h * h + 2 * h * kv + 3 * h * f + 2 * h)


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt2", "bert-base", "opt-125m", "pythia-1b", "t5-small", "bart-base"])
@pytest.mark.parametrize("numerics", [BF16, FP32, AUTOCAST])
def test_one_layer_for_all_that_are_alike_keeps_the_same(name: str, numerics: Numerics) -> None:
    every, once = (ran(name, numerics, every_layer=choice)[0] for choice in (True, False))
    assert total(kept.copies * kept.storage.size for kept in once.tape.kept.values()) == every.tape.tracker.saved


def test_sizes_may_be_symbols() -> None:
    b, length = symbols("b l")
    once, _ = ran("llama-2-7b", BF16, batch=b, length=length, every_layer=False)
    h, f, a, kv = sizes("llama-2-7b")
    blocks = 32 * (b * length * (2 * (6 * h + 2 * kv + 3 * f) + 2 * 4 + 4 * a) + 24)
    around = b * length * (2 * h + 4 + 2 * h) + 2 * length * 128 * 2 + 2 * 32000 * h
    assert total(kept.copies * kept.storage.size for kept in once.tape.kept.values()) == blocks + around


def test_an_unknown_implementation_is_refused_with_the_nearest() -> None:
    model = HFModel(dict(CONFIGS["gpt2"]))
    with pytest.raises(InvalidModel, match=r"'fussed'.*fused"):
        program(model, Workload(), BF16, "fussed")


def sizes(name: str) -> tuple[int, int, int, int]:
    """h, f, a, and the width of all keys."""
    config = CONFIGS[name]
    h, a = config["hidden_size"], config["num_attention_heads"]
    return h, config["intermediate_size"], a, h // a * config.get("num_key_value_heads", a)


@pytest.mark.parametrize("kernel", ["eager", "math"])
def test_a_kernel_that_is_not_fused_is_refused(kernel: str) -> None:
    """The numbers were those of a fused kernel, and the line below them named another."""
    run = Workload(phase="train", kernel=kernel)
    with pytest.raises(InvalidModel, match=f"--attention-kernel {kernel} has no effect with --backend fused"):
        memory(load("gpt2"), run, training=Training(backend="fused"))
