"""What no recorded row says: windows, absorbed latent attention, recomputed parts, groups; each by arithmetic shown."""

from __future__ import annotations

import itertools

import pytest

from tfcalc import Conventions, Transformer, Workload, flops, load
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import elementwise_flops, matmul_backward_flops, matmul_flops
from tfcalc.core.recomputation import as_run
from tfcalc.nn.module import Context, counted_on
from tfcalc.zoo.blocks.sound import Convolution

GEMMA = {
    "model_type": "gemma2",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 4,
    "intermediate_size": 48,
    "vocab_size": 50,
    "sliding_window": 5,
}
PER_PAIR = 2 * 2 * 4 * 8  # a multiply-add is 2, Q Kᵀ and P V, 4 heads of width 8


@pytest.mark.parametrize("length", [1, 4, 5, 6, 23])
def test_a_window_leaves_the_pairs_that_one_can_count(length: int) -> None:
    """Two of four layers see a window of 5: the i-th query sees min(i, 5) keys; the others see i."""
    full, causal = (
        flops(HFModel(GEMMA), Workload(batch_size=3, seq_len=length, attention=kind)).answer
        for kind in ("full", "causal")
    )
    near, all_before = sum(min(i, 5) for i in range(1, length + 1)), sum(range(1, length + 1))
    assert full - causal == 3 * PER_PAIR * (2 * (length**2 - near) + 2 * (length**2 - all_before))


def test_a_decoded_token_sees_no_more_than_its_window() -> None:
    """From 5 cached tokens on, two of four layers see 5 keys, whatever is cached; the others one more each time."""
    counts = [flops(HFModel(GEMMA), Workload(phase="decode", cached=cached)).answer for cached in (4, 5, 6, 7)]
    steps = [after - before for before, after in itertools.pairwise(counts)]
    assert steps == [4 * PER_PAIR, 2 * PER_PAIR, 2 * PER_PAIR]


def test_a_chunk_leaves_the_pairs_that_one_can_count() -> None:
    """Three of four layers see chunks of 4: the i-th query (from 0) sees i mod 4 + 1 keys."""
    model = HFModel(
        {
            "model_type": "llama4_text",
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "num_hidden_layers": 4,
            "attention_chunk_size": 4,
            "layer_types": [*["chunked_attention"] * 3, "full_attention"],
        }
    )
    length = 11
    full, causal = (flops(model, Workload(seq_len=length, attention=kind)).answer for kind in ("full", "causal"))
    near, all_before = sum(i % 4 + 1 for i in range(length)), sum(range(1, length + 1))
    assert full - causal == PER_PAIR * (3 * (length**2 - near) + length**2 - all_before)


def test_absorbed_latent_attention_reads_the_latent_vectors_themselves() -> None:
    """DeepSeek-V2-Lite: 27 layers, 16 heads, rank 512, widths 128 + 64 of queries and keys, 128 of values."""
    layers, heads, rank, nope, rope, value, cached = 27, 16, 512, 128, 64, 128, 1000
    expanded, absorbed = (
        flops(load("deepseek-v2-lite"), Workload(phase="decode", cached=cached, latent=kind)).answer
        for kind in ("expanded", "absorbed")
    )
    made = 2 * rank * heads * (nope + value)  # of one token: keys and values, or the query and the output
    by_expanding = cached * made + 2 * heads * cached * (nope + rope + value)
    by_absorbing = made + 2 * heads * cached * (rank + rope + rank)
    assert expanded - absorbed == layers * (by_expanding - by_absorbing)


def recomputed(model: str, recompute: str, **more: bool) -> int:
    run = Workload(batch_size=2, seq_len=8, phase="train", recompute=recompute, **more)  # type: ignore[arg-type]
    return int(flops(load(model), run).totals["recompute_flops"])


def test_each_so_manieth_layer_is_computed_again() -> None:
    """GPT-2: 12 layers of 2·16·12·768² + 4·16·8·768 FLOPs on 2 × 8 tokens."""
    layer = 2 * 16 * 12 * 768**2 + 4 * 16 * 8 * 768
    assert recomputed("gpt2", "full") == 12 * layer
    assert recomputed("gpt2", "every:1") == 12 * layer
    assert recomputed("gpt2", "every:5") == 3 * layer  # 0, 5, 10
    assert recomputed("gpt2", "every:12") == recomputed("gpt2", "every:99") == layer
    assert recomputed("gpt2", "selective") == 12 * 4 * 16 * 8 * 768
    assert recomputed("gpt2", "full", early_stop=True, dropout=False) == 12 * (layer - 2 * 16 * 4 * 768**2)


def test_by_operation_every_other_product_is_computed_again() -> None:
    """torchtitan's policy keeps q, v, gate and down of a layer, in the order in which they run, and attention."""
    h, kv, f, tokens = 4096, 1024, 14336, 2 * 8
    assert recomputed("llama-3-8b", "selective-op") == 32 * 2 * tokens * (h * kv + h * h + h * f)


def test_the_first_layer_counts_among_those_of_its_stack() -> None:
    """Without an embedding the first of 5 layers stands by itself; 0, 2 and 4 of the encoder are computed again."""
    run = Workload(seq_len=8, phase="train", recompute="every:2")
    found = flops(Transformer(kind="encoder", d_model=16, n_heads=2, n_layers=5), run).totals["recompute_flops"]
    assert found == 3 * (2 * 8 * 12 * 16**2 + 4 * 8 * 8 * 16)


def test_shared_layers_are_computed_again_as_often_as_they_are_run() -> None:
    every, third = recomputed("albert-large-v2", "full"), recomputed("albert-large-v2", "every:3")
    assert every == 3 * third  # 24 passes of one layer; 8 of them


def test_only_pytorchs_counter_forgets_the_groups_of_a_convolution() -> None:
    """16 groups: w's gradient is one product of the forward pass's size, and the counter has it 16 times."""
    ctx = Context(Workload(), Workload().target)
    made = counted_on(Convolution("w", 16, 16, (3,), groups=16), (1, 16, 10), ctx, 10)
    forward = 2 * 10 * 16 * 1 * 3
    assert made.total(matmul_flops) == forward
    assert made.total(matmul_backward_flops) == 17 * forward
    assert as_run(made).total(matmul_backward_flops) == 2 * forward


def test_the_loss_and_the_rotation_are_elementwise_work() -> None:
    """A training step has 5 + 2 operations per logit; a forward pass 3 per rotated number of queries and keys."""
    model, tokens = HFModel(GEMMA), 3 * 7
    everything = Conventions(count="all")
    step = flops(model, Workload(batch_size=3, seq_len=7, phase="train"), everything)
    loss = next(entry for entry in step.walk() if entry.kind == "loss")
    assert loss.value == 7 * tokens * 50
    root = model.tree(Workload(batch_size=3, seq_len=7)).root()
    rotated = sum(node.total(elementwise_flops) for node in root.walk() if node.component.kind == "rotary")
    assert rotated == 4 * 3 * tokens * (4 + 2) * 8


def test_logits_of_the_last_token_are_a_language_models_alone() -> None:
    """A classifier of tokens reads all 3 · 7 of them: 2 · 21 · 32 · 5 FLOPs (no logits_to_keep)."""
    of_tokens = HFModel(GEMMA | {"architectures": ["Gemma2ForTokenClassification"], "num_labels": 5})
    of_words = HFModel(GEMMA | {"architectures": ["Gemma2ForCausalLM"]})
    run = Workload(batch_size=3, seq_len=7, logits="last")
    beside = flops(of_tokens, run).answer - flops(of_words, run).answer
    assert beside == 2 * 21 * 32 * 5 - 2 * 3 * 32 * 50
