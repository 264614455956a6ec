"""The symbolic oracle: PyTorch counts with a batch and a length that it does not know, and answers with a formula.

Under FakeTensor with dynamic sizes FlopCounterMode's total is a SymInt, whose expression must be tfcalc's closed form.
"""

from __future__ import annotations

from inspect import signature
from random import Random
from typing import Any

import pytest

from tests.verify.random_configs import load
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.symbolic import sympy_symbol
from tfcalc.workload import Workload

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

import sympy  # noqa: E402  # after the skip, like what follows
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.symbolic_shapes import (  # noqa: E402
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tfcalc.verify.flops import AS_COUNTED, differentiable  # noqa: E402

FAMILIES = (
    "bert",
    "cohere2",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "opt",
    "phi",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "roberta",
    "starcoder2",
)
ALONE = {"add_cross_attention": False, "is_decoder": False, "architectures": None}
"""No second sequence beside the first, and the class that the family has by itself."""


def config_of(model_type: str) -> dict[str, Any]:
    drawn = {"model_type": model_type, **load()[model_type](Random(model_type))}
    return {name: value for name, value in drawn.items() if name not in ALONE} | {
        name: value for name, value in ALONE.items() if name in drawn and value is not None
    }


def counted_by_torch(model: HFModel) -> tuple[Any, Any]:
    """Forward and backward, as expressions in b and l."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fields = {name: value for name, value in model.config.items() if name != "model_type"}
    how = {f"_{name}": value for name, value in AS_COUNTED.items()}
    config = transformers.AutoConfig.for_model(model.config["model_type"], **fields, **how)
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.DYNAMIC])  # type: ignore[no-untyped-call,unused-ignore]
    ids = mode.from_tensor(torch.zeros(3, 13, dtype=torch.long), symbolic_context=dynamic)
    batch, length = ids.shape
    with mode:
        built = getattr(transformers, model.architecture)(config).train()
        given = {"input_ids": ids, "attention_mask": torch.zeros(batch, 1, length, length)}
        if "position_ids" in signature(built.forward).parameters:
            given["position_ids"] = torch.zeros(batch, length, dtype=torch.long)
        forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
        with both:
            with forward:
                out = built(**given)
            sum(one.sum() for one in differentiable(out)).backward()
    names = {batch.node.expr: sympy_symbol("b"), length.node.expr: sympy_symbol("l")}
    first, all_of_it = (counter.get_total_flops().node.expr.subs(names) for counter in (forward, both))
    return first, all_of_it - first


@pytest.mark.parametrize("model_type", FAMILIES)
def test_the_closed_form_is_the_one_that_torch_finds(model_type: str) -> None:
    model = HFModel(config_of(model_type))
    run = Workload(batch_size=sympy_symbol("b"), seq_len=sympy_symbol("l"), phase="train", kernel="eager")
    root = model.tree(run)
    forward, backward = counted_by_torch(model)
    assert {str(letter) for letter in forward.free_symbols} == {"b", "l"}
    assert sympy.expand(root.total(matmul_flops) - forward) == 0
    assert sympy.expand(root.total(matmul_backward_flops) - backward) == 0
