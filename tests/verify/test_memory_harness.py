"""The live referee of memory against what was recorded: kept bytes per module, peaks of a step and of inference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.conftest import recorded

pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch's and transformers' own

import torch  # noqa: E402  # after the skip, like what follows
from torch import nn  # noqa: E402

from tests.verify.inference_peaks import inference_peaks  # noqa: E402
from tests.verify.peaks import peaks  # noqa: E402
from tests.verify.saved import Measured, measured, several  # noqa: E402
from tfcalc.verify.cuda_autocast import FLOAT32, FLOAT32_OUT, LOWER_PRECISION, NORMS, PROMOTED, registered  # noqa: E402
from tfcalc.verify.cuda_choices import cuda_choices  # noqa: E402
from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import CountedStep, step, without_data  # noqa: E402

RECIPES = {"fp32": "fp32", "bf16 (pure)": "bf16", "fp32 weights, CUDA bf16 autocast": "autocast"}
CONFIGS: dict[str, dict[str, Any]] = recorded("zoo.models.json")  # type: ignore[assignment]
TRAINING = recorded("memory/training.public.jsonl")
MODULES = recorded("memory/nn-transformer.public.jsonl")
INFERENCE = recorded("memory/inference.public.jsonl")
SMALL = ("gpt2", "bert-base", "t5-small", "tinyllama-1.1b")


def one_of_each(rows: list[dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
    """The first row with each combination of these fields' values."""
    return list({json.dumps([row[field] for field in fields]): row for row in reversed(rows)}.values())


def called(row: Mapping[str, Any]) -> str:
    fields = ("model", "recipe", "dtype", "attention", "recompute", "optimizer", "batch", "seq", "logits_to_keep")
    return "-".join(str(row[field]) for field in fields if field in row)


def long_enough(model: str, length: int) -> dict[str, Any]:
    """Its config; learned tables are made longer where they are too short."""
    config = dict(CONFIGS[model])
    for field in ("n_positions", "max_position_embeddings"):
        if field in config:
            config[field] = max(config[field], length)
    return config


def trained(row: Mapping[str, Any]) -> CountedStep:
    """The step that was recorded: ids that are their labels, a decoder reads half as many."""
    return step(
        long_enough(row["model"], row["seq"]),
        batch=row["batch"],
        seq=row["seq"],
        target=row["seq"] // 2,
        attention=row["attention"].split("-")[0],
        recipe=RECIPES[row["recipe"]],
        recompute=row["recompute"],
        dropout=not row["zero_dropout"],
    )


def kernel(row: Mapping[str, Any]) -> str:
    return str(row["attention"].partition("-")[2]) or "auto"


KEPT = [row for row in TRAINING if row["model"] in SMALL and "saved_by_module" in row]


@pytest.mark.parametrize("row", one_of_each(KEPT, "model", "recipe"), ids=called)
def test_what_autograd_keeps_is_what_was_recorded(row: dict[str, Any]) -> None:
    with without_data():
        model, inputs = trained(row)
        kept = saved(model, inputs, recipe=RECIPES[row["recipe"]], kernel=kernel(row), as_recorded=True)
    assert kept.by_block == row["saved_by_module"]
    assert kept.total == row["saved_bytes"]


STEPS = [row for row in TRAINING if row["model"] == "gpt2"]


@pytest.mark.parametrize("row", one_of_each(STEPS, "recompute"), ids=called)
def test_a_steps_phases_are_those_recorded(row: dict[str, Any]) -> None:
    with without_data():
        model, inputs = trained(row)
        how = {"recipe": RECIPES[row["recipe"]], "kernel": kernel(row), "optimizer": row["optimizer"]}
        found = peaks(model, inputs, **how, as_recorded=True)
    assert found.phases == row["phases"]
    assert (found.phase, found.most) == (row["peak_phase"], row["peak_bytes"])


class Wrapped(nn.Module):  # type: ignore[misc]  # torch has no types here
    def __init__(self, row: Mapping[str, Any], dtype: torch.dtype) -> None:
        super().__init__()
        with torch.device("meta"):
            self.t = nn.Transformer(dropout=row["dropout"], norm_first=row["norm_first"], batch_first=True, dtype=dtype)

    def forward(self, src: Any, tgt: Any) -> Any:
        return self.t(src, tgt)


@pytest.mark.parametrize("row", one_of_each(MODULES, "recipe", "attention"), ids=called)
def test_what_torchs_own_transformer_keeps_is_what_was_recorded(row: dict[str, Any]) -> None:
    dtype = torch.bfloat16 if RECIPES[row["recipe"]] == "bf16" else torch.float32
    built = Wrapped(row, dtype)  # outside: its copies of layers would copy the mode, too
    with without_data():
        model = built.to_empty(device="cpu")
        lengths = {"src": row["seq"], "tgt": row["target_seq"]}
        inputs = {name: torch.zeros(row["batch"], length, 512, dtype=dtype) for name, length in lengths.items()}
        how = {"recipe": RECIPES[row["recipe"]], "kernel": row["attention"]}
        kept = saved(model, inputs, **how, loss=lambda out: out.float().sum(), as_recorded=True)
    stacks = ("encoder", "decoder")
    expected = {f"t.{stack}.norm": row["saved_by_module"][f"t.{stack}.norm"] for stack in stacks}
    for stack in stacks:
        expected |= {f"t.{stack}.layers.{i}": row["saved_by_module"][f"{stack}{i}"] for i in range(6)}
    assert kept.by_module == expected


READ = [row for row in INFERENCE if row["model"] in ("gpt2", "llama-3.2-1b")]


@pytest.mark.parametrize("row", one_of_each(READ, "model", "attention"), ids=called)
def test_peaks_of_prompt_and_next_token_are_those_recorded(row: dict[str, Any]) -> None:
    config = long_enough(row["model"], row["seq"] + 8)
    with without_data():
        model = step(config, batch=1, seq=8, attention=row["attention"], recipe=row["dtype"]).model
        found = inference_peaks(
            model, row["batch"], row["seq"], all_logits=row["logits_to_keep"] == 0, as_recorded=True
        )
    assert found.held_before == row["params_and_buffers_bytes"]
    assert found.cache == row["kv_cache_bytes"]
    assert found.prefill == row["prefill_peak_over_params"]
    assert found.decode == row["decode_peak_over_params"]


def test_autocasts_lists_are_those_that_pytorch_registers_for_cuda() -> None:
    ours = {*LOWER_PRECISION, *FLOAT32, *FLOAT32_OUT, *NORMS, *PROMOTED}
    refused_or_cudnn = {"binary_cross_entropy", "cudnn_convolution", "cudnn_convolution_transpose"}
    assert registered("AutocastCUDA") - refused_or_cudnn == ours - {"_convolution.deprecated"} | (
        registered("AutocastCUDA") & {"_convolution.deprecated"}
    )


def test_without_data_the_same_is_kept_as_with_it() -> None:
    for recipe in ("fp32", "bf16", "autocast"):
        fake, real = measured("llama", 0, recipe=recipe), measured("llama", 0, recipe=recipe, data=True)
        assert fake == real


def test_recomputed_blocks_keep_their_inputs_alone() -> None:
    whole, inputs = measured("gpt2", 1), measured("gpt2", 1, recompute="nonreentrant")
    assert inputs.total < whole.total


@pytest.mark.parametrize("model_type", ["gpt2", "bart", "mixtral"])
def test_random_configs_run(model_type: str) -> None:
    for attention in ("eager", "sdpa"):
        found = [one for one in several(model_type, 1, attention=attention) if isinstance(one, Measured)]
        assert found
        assert sum(found[0].by_module.values()) == found[0].total
        assert bool(found[0].kernels) == (attention == "sdpa")


@pytest.mark.parametrize(("kind", "on_cpu"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_a_dropout_mask_is_a_byte_an_element_on_cuda_and_a_number_on_a_cpu(kind: Any, on_cpu: int) -> None:
    """What ``DROPOUT_MASKS`` says: ``at::dropout`` runs native_dropout on CUDA, and multiplies by noise on a CPU."""
    saved: list[int] = []

    def pack(tensor: Any) -> Any:
        saved.append(tensor.element_size())
        return tensor

    x = torch.ones(4, 8, dtype=kind, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.nn.functional.dropout(x, 0.1, training=True)
        torch.native_dropout(x, 0.1, True)
    assert saved == [on_cpu, 1]


def test_the_logarithm_of_a_sigmoid_keeps_what_it_reads_alone_on_cuda() -> None:
    """``log_sigmoid_forward_cuda`` makes an empty buffer (ATen/native/cuda/Activation.cpp); a CPU keeps one."""
    saved: list[int] = []

    def pack(tensor: Any) -> Any:
        saved.append(tensor.numel())
        return tensor

    x, weight = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.nn.functional.logsigmoid(x)
        on_cpu = list(saved)
        with cuda_choices():
            made = torch.nn.functional.logsigmoid(x)
    (gradient,) = torch.autograd.grad((made * weight).sum(), x)
    assert (on_cpu, saved[len(on_cpu) :]) == ([6, 6], [6])
    assert torch.allclose(gradient, weight * torch.sigmoid(-x))
