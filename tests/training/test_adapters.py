"""LoRA, DoRA and frozen parts, as peft counts them on real models (tests/oracle/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Training, Transformer, Workload, load, memory
from tfcalc.backends.program import program
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import bytes_held, frozen_params, matmul_backward_flops, matmul_flops, params
from tfcalc.core.polynomial import symbols
from tfcalc.defaults import resolve_training
from tfcalc.errors import InvalidModel
from tfcalc.model import with_symbols
from tfcalc.training.adapters import Adapter, adapted, frozen_where
from tfcalc.training.optimizers import optimizer
from tfcalc.training.plan_checks import numerics, trained
from tfcalc.training.precisions import precision
from tfcalc.training.sharding import tensor_count
from tfcalc.training.states import model_states

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
ADAPTERS = recorded("memory/adapters.jsonl")
FLOPS = recorded("memory/adapter-flops.jsonl")
DORA = recorded("memory/dora.jsonl")
TRAIN = Workload(phase="train", seq_len=16)


def adapter(row: dict[str, Any]) -> Adapter:
    targets = row["targets"]
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    return Adapter(row["rank"], names, row["dora"], row.get("dropout", 0) > 0)


def named(row: dict[str, Any]) -> str:
    asked = adapter(row)
    return f"{row['model']}-{'+'.join(asked.targets)}-{asked.rank}{'-dora' * asked.dora}"


@pytest.mark.parametrize("row", ADAPTERS, ids=named)
def test_what_is_trained_is_what_peft_trains(row: dict[str, Any]) -> None:
    tree = HFModel(row["config"] or CONFIGS[row["model"]]).tree(TRAIN)
    new = adapted(tree, adapter(row))
    assert tree.total(params) == row["base_params"]
    assert new.total(params) == row["all_params"]
    assert new.total(params) - new.total(frozen_params) == row["trainable_params"]
    assert tensor_count(new) == row["trainable_tensors"]


def test_the_recorded_rows_are_all_there() -> None:
    assert (len(ADAPTERS), len(FLOPS), len(DORA)) == (90, 16, 17)


def test_states_of_what_is_frozen_are_its_weights_alone() -> None:
    # Llama-2-7B, rank 8 on q and v: 4,194,304 trained in 128 tensors (peft), 6,738,415,616 frozen
    tree = adapted(load("llama-2-7b").tree(TRAIN), Adapter(8, ("q_proj", "v_proj")))
    states = model_states(tree, precision("fp32"), optimizer("adamw"), frozen_bits=4)
    assert states.weights.total(bytes_held) == 6_738_415_616 // 2 + 4 * 4_194_304
    assert states.gradients.total(bytes_held) == 4 * 4_194_304
    assert states.optimizer.total(bytes_held) == 8 * 4_194_304 + 4 * 128


def test_a_forward_pass_runs_the_adapters_too() -> None:
    tree = load("llama-2-7b").tree(TRAIN)
    new = adapted(tree, Adapter(8))
    more = new.total(matmul_flops) - tree.total(matmul_flops)
    assert more == 2 * 16 * 19_988_480  # two operations per token and parameter of A and B, as peft counts them


def ends(row: dict[str, Any]) -> str:
    dropped = "-dropout" if row.get("dropout") else ""
    return f"{named({'dora': False, **row})}-{'inputs' if row['input_require_grads'] else 'no-inputs'}{dropped}"


@pytest.mark.parametrize("row", FLOPS, ids=ends)
def test_flops_with_adapters_are_what_pytorch_counts(row: dict[str, Any]) -> None:
    run = Workload(phase="train", batch_size=row["batch"], seq_len=row["seq"])
    new = adapted(HFModel(row["config"]).tree(run), adapter({"dora": False, **row}))
    assert new.total(matmul_flops) == row["forward_flops"]
    backward: Any = new.total(matmul_backward_flops)
    if row["input_require_grads"]:
        assert backward == row["backward_flops"]
    else:  # nothing is trained below the first adapter: less is run, within the first layer that has one
        assert backward > row["backward_flops"]


def dora(row: dict[str, Any]) -> Training:
    dropout = str(row["dropout"]) if row["dropout"] else ""
    plan = Training(precision=row["precision"], lora=row["rank"], dora=True, lora_dtype=row["lora_dtype"])
    return plan.replaced(lora_dropout=dropout, optimizer="none")


def test_what_dora_saves_is_what_peft_saves() -> None:
    """Of a model's every map: the result that is scaled, that of the adapters, and with dropout W once more."""
    for row in DORA:
        run = Workload(phase="train", recompute="none", batch_size=row["batch"], seq_len=row["seq"], kernel="eager")
        model = HFModel(row["config"])
        run, plan = resolve_training(model, run, dora(row))
        ours = program(model, run, numerics(precision(plan.precision), plan), "auto")
        loss = ours(trained(model.tree(run), plan))
        assert loss.node is not None
        assert ours.tape.tracker.saved == row["saved_bytes"], row


def test_peaks_of_steps_with_dora_are_those_of_peft() -> None:
    """Within 0.1 %: the norms' operands, W in fp32 among them, come and go."""
    rows = [row for row in DORA if "forward_peak_bytes" in row]
    assert len(rows) == 8
    for row in rows:
        run = Workload(phase="train", recompute="none", batch_size=row["batch"], seq_len=row["seq"], kernel="eager")
        plan = dora(row).replaced(device="recorded")
        timeline = memory(HFModel(row["config"]), run, training=plan).more["timeline"]
        found = {phase["phase"]: phase["peak_bytes"] for phase in timeline}
        assert max(found["forward"], found["loss"]) == pytest.approx(row["forward_peak_bytes"], rel=1e-3)
        assert found["backward"] == pytest.approx(row["backward_peak_bytes"], rel=1e-3)


def test_frozen_matrices_have_one_product_less_in_backward() -> None:
    full = Transformer().tree(TRAIN)
    frozen = frozen_where(full, "*")
    assert (full.total(frozen_params), frozen.total(frozen_params)) == (0, 44_140_544)  # torch.nn.Transformer()
    saved: Any = full.total(matmul_backward_flops) - frozen.total(matmul_backward_flops)
    h, f = 512, 2048
    matrices = 6 * (4 * h * h + 2 * h * f) + 6 * (8 * h * h + 2 * h * f)
    assert saved == 2 * 16 * matrices  # two operations per token and weight


def test_a_part_is_frozen_by_its_name() -> None:
    tree = HFModel(CONFIGS["gpt2"]).tree(TRAIN)
    assert frozen_where(tree, "*wte", "*wpe").total(frozen_params) == (50257 + 1024) * 768
    assert frozen_where(tree, "transformer.h").total(frozen_params) == 12 * (12 * 768**2 + 13 * 768)
    with pytest.raises(InvalidModel, match="'wxe' matches no module of this model"):
        frozen_where(tree, "wxe")


def test_adapters_have_a_closed_form() -> None:
    (rank,) = symbols("r")
    model = HFModel(CONFIGS["llama-2-7b"])
    new = adapted(with_symbols(model).tree(TRAIN), Adapter(rank, ("q_proj", "v_proj")))
    trained: Any = new.total(params) - new.total(frozen_params)
    assert trained.at({**model.values(), "r": 8}) == 4_194_304
    assert "r" in trained.free_symbols


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Adapter(0), "LoRA of rank 0"),
        (Adapter(8, ("q_prj",)), "target 'q_prj' matches no linear layer of this model; did you mean q_proj"),
        (
            Adapter(8, ("embed_tokens",)),
            "target 'embed_tokens' matches no linear layer of this model; known: down_proj, ",
        ),
    ],
)
def test_a_bad_adapter_is_refused_with_its_value(asked: Adapter, said: str) -> None:
    with pytest.raises(InvalidModel, match=said):
        adapted(load("llama-2-7b").tree(TRAIN), asked)


def test_a_quantized_head_is_stored_like_the_other_matrices() -> None:
    model, run = load("llama-3-8b"), Workload(phase="train", seq_len=16)
    plan = Training(lora=8, base_weights="nf4")
    less = (
        memory(model, run, training=plan).weights_bytes
        - memory(model, run, training=plan.replaced(quantize_head=True)).weights_bytes
    )
    numbers = 128_256 * 4_096
    assert less == 2 * numbers - (numbers // 2 + 4 * numbers // 64 + 64)  # 4 bits, an fp32 scale of 64, a table of 16


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Training(lora=8, bitsandbytes="0.43"), "--bitsandbytes 0.43 has no effect without weights in its 4 bits"),
        (Training(lora=8, base_weights="int8", bitsandbytes="0.43"), "no effect without weights in its 4 bits"),
        (Training(lora=8, quantize_head=True), "--quantize-head has no effect without quantized weights"),
        (Training(lora=8, base_weights="q8_0", quantize_head=True), "no effect on q8_0, which quantizes it"),
        (Training(lora=8, base_weights="nf4", quantize_head=True, loss="fused"), "--loss fused is not supported"),
        (Training(lora=8, dora=True, backend="megatron"), "--dora with --backend megatron is not supported"),
        (Training(lora=8, dora=True, precision="bf16", compile=True), "--compile with --dora is not supported"),
    ],
)
def test_what_is_said_of_adapters_without_effect_is_refused(plan: Training, said: str) -> None:
    with pytest.raises(InvalidModel, match=said):
        memory(load("llama-3-8b"), TRAIN, training=plan)


def test_a_tied_head_is_not_quantized() -> None:
    plan = Training(lora=8, base_weights="nf4", quantize_head=True)
    with pytest.raises(InvalidModel, match="its output head is tied to the embedding"):
        memory(load("llama-3.2-3b"), TRAIN, training=plan)


@pytest.mark.parametrize(
    ("name", "dropout", "said"), [("gpt2", "0.1", True), ("gpt2", "", False), ("opt-125m", "0.1", False)]
)
def test_a_transposed_parameter_of_peft_is_told(name: str, dropout: str, said: bool) -> None:
    """``transpose`` of peft's utils/other.py makes a Parameter of a Conv1D's weight, which DoRA multiplies by."""
    plan = Training(lora=8, dora=True, lora_dropout=dropout)
    notes = memory(load(name), Workload(phase="train", seq_len=64), training=plan).notes
    assert any("Conv1D" in note for note in notes) is said
