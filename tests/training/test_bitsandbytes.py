"""Optimizers of 8 and 32 bits, paged ones, and the names that transformers' Trainer has for them: by hand."""

from __future__ import annotations

import pytest

from tfcalc import Training, Workload, load, memory
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.errors import InvalidModel
from tfcalc.training.optimizers import SPELLINGS, optimizer
from tfcalc.training.peaks import Peaks
from tfcalc.training.precisions import precision
from tfcalc.training.sharding import Placement
from tfcalc.training.states import model_states, placed, step_temporary

TRAIN = Workload(phase="train", seq_len=16)
TABLE = 32000 * 4096


def states_of_llama(name: str, by: str = "bf16") -> tuple[Component, Component]:
    """Of Llama 2 7B: on the device, and in unified memory."""
    tree, chosen = load("llama-2-7b").tree(TRAIN), optimizer(name)
    found = placed(tree, precision(by), chosen, Placement())
    return found.device.optimizer, found.host.optimizer


NORMS = 65 * 4096
"""Numbers of Llama 2 7B's norms: vectors of 4,096, of which two in each of 32 layers and one behind them."""
LLAMA = 6_738_415_616
"""Its parameters."""
MATRICES = LLAMA - NORMS


def test_paged_states_of_32_bits_are_in_unified_memory_whatever_the_weights_are() -> None:
    """8 bytes a parameter; vectors of less than 100,000 numbers stay on the device (get_state_buffer)."""
    for by in ("bf16", "fp32"):
        device, unified = states_of_llama("paged-adamw-32bit", by)
        assert (device.total(bytes_held), unified.total(bytes_held)) == (8 * NORMS, 8 * MATRICES)
        assert states_of_llama("adamw-32bit", by)[0].total(bytes_held) == 8 * LLAMA


def test_paged_states_of_8_bits_leave_their_scales_on_the_device() -> None:
    """2 bytes a parameter; two fp32 scales for each 256 of them; vectors of 4,096 numbers are in 8 bits, not paged."""
    device, unified = states_of_llama("paged-adamw-8bit")
    assert unified.total(bytes_held) == 2 * MATRICES
    assert device.total(bytes_held) == 2 * NORMS + 2 * 4 * LLAMA // 256 + 2 * 256 * 4
    both = device.total(bytes_held) + unified.total(bytes_held)
    assert both == states_of_llama("adamw-8bit")[0].total(bytes_held)


def test_lion_has_one_state_and_one_map() -> None:
    device, unified = states_of_llama("paged-lion-8bit")
    assert unified.total(bytes_held) == MATRICES
    assert device.total(bytes_held) == NORMS + 4 * LLAMA // 256 + 256 * 4
    assert states_of_llama("paged-lion-32bit")[1].total(bytes_held) == 4 * MATRICES


def test_the_trainer_has_the_states_of_embeddings_in_fp32() -> None:
    """8 bytes instead of 2 and the scales for each number of the table, but not for the head."""
    plain, trainer = (states_of_llama(name) for name in ("adamw-8bit", "adamw_bnb_8bit"))
    more = trainer[0].total(bytes_held) - plain[0].total(bytes_held)
    assert more == (8 - 2) * TABLE - 2 * 4 * TABLE // 256


def test_torchao_has_a_map_for_each_state_and_leaves_what_no_blocks_fill() -> None:
    """Per matrix two states of 8 (4) bits, two scales for each 256 (128), two maps of 256 (16); a count of steps."""
    tensors = 32 * 9 + 3
    for name, bits, block in (("adamw_torch_8bit", 8, 256), ("adamw_torch_4bit", 4, 128)):
        kept = 2 * LLAMA * bits // 8 + 2 * 4 * LLAMA // block + tensors * (2 * 2**bits * 4 + 4)
        assert states_of_llama(name)[0].total(bytes_held) == kept


@pytest.mark.parametrize("spelled", sorted(SPELLINGS))
def test_every_spelling_is_an_optimizer(spelled: str) -> None:
    assert optimizer(spelled).name == SPELLINGS[spelled]


def test_the_trainers_adafactor_keeps_sums_of_fp32_and_copies_what_it_steps() -> None:
    """rows + columns of fp32 and the root mean square; a step's copies of the largest are those with momentum."""
    tree, by = load("llama-2-7b").tree(TRAIN), precision("bf16")
    one, other = optimizer("adafactor-trainer"), optimizer("adafactor-momentum")
    more = model_states(tree, by, other).optimizer.total(bytes_held) - model_states(tree, by, one).optimizer.total(
        bytes_held
    )
    assert more == 4 * LLAMA
    assert step_temporary(tree, by, one).total(bytes_held) == step_temporary(tree, by, other).total(bytes_held)


def test_what_is_paged_is_not_in_the_peak_but_the_hosts() -> None:
    run, plan = TRAIN, Training(precision="bf16", optimizer="paged-adamw-32bit")
    paged, plain = (
        memory(load("llama-2-7b"), run, training=plan.replaced(optimizer=name))
        for name in ("paged-adamw-32bit", "adamw-32bit")
    )
    assert plain.answer - paged.answer == int(paged.totals["host_bytes"]) == 8 * MATRICES
    assert "Unified memory: 50.2 GiB of optimizer states, on the GPU while there is room" in str(paged)


def test_the_library_takes_the_trainers_names_too() -> None:
    found = memory(load("gpt2"), TRAIN, training=Training(optimizer="paged_adamw_32bit"))
    assert found.answer == memory(load("gpt2"), TRAIN, training=Training(optimizer="paged-adamw-32bit")).answer
    assert "paged 32-bit AdamW" in str(found)


def test_paged_states_are_not_offloaded_once_more() -> None:
    plan = Training(precision="bf16", optimizer="paged-adamw-8bit", offload="optimizer")
    with pytest.raises(InvalidModel, match="no effect on the states of paged-adamw-8bit, which are paged"):
        memory(load("gpt2"), TRAIN, training=plan)


def test_what_nodes_have_as_attributes_is_there_twice_where_the_loop_has_the_last_graph() -> None:
    """bitsandbytes 0.43's ``ctx.tensors`` outlives backward: the loss that the loop has keeps the graph alive.

    A layer's products read the result of its first norm, attention's, that of the second norm, and the gated product.
    """
    model, tokens = load("llama-2-7b"), 512
    run = Workload(phase="train", batch_size=1, seq_len=tokens, recompute="none")
    plan = Training(precision="bf16", lora=8, lora_targets="q_proj,v_proj", base_weights="nf4", grad_accum=2)
    peaks = Peaks(model)
    read = 2 * tokens * 32 * (3 * 4096 + 11008)

    def more(**version: str) -> int:
        by_loop = {loop: peaks.peak(run, plan.replaced(loop=loop, **version)) for loop in ("trainer", "tutorial")}
        return by_loop["tutorial"] - by_loop["trainer"]

    logits = 2 * tokens * 32000
    assert more() == logits
    assert 0 <= read + logits - more(bitsandbytes="0.43") <= logits * 4
    run, plan = run.replaced(batch_size=3), plan.replaced(loop="tutorial", bitsandbytes="0.43")
    assert peaks.peak_of_size(run, plan, 10**12) == peaks.peak(run, plan)
