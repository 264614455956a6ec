"""Live: what torch.compile's partitioner keeps of a layer, and of a loss, beside what ``--compile`` says.

The partitioner that inductor calls (min_cut_rematerialization_partition, with inductor's decompositions) divides the
graph; nothing is compiled, so that no compiler is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.training.test_training_rows import NUMERICS
from tfcalc import Workload
from tfcalc.backends.program import ModuleProgram, program
from tfcalc.configs.published import HFModel
from tfcalc.training.adapters import Adapter, adapted

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from torch import nn  # noqa: E402  # after the skip, like what follows
from torch._functorch.aot_autograd import aot_module  # noqa: E402  # after the skip, like what follows
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402

from tests.verify.llama_of_torchtune import CONFIG, RANK, D, Layer, flash, one_loss  # noqa: E402
from tests.verify.test_fused_kernels import weights_of  # noqa: E402

NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "g": "gate_proj", "u": "up_proj", "d": "down_proj"}


class Divided(Exception):
    """The graph has been divided: nothing runs."""


def kept(module: Any, *given: Any) -> Iterator[Any]:
    """The tensors that the partitioner keeps, without weights and their views."""
    from torch._inductor.compile_fx import _recursive_joint_graph_passes
    from torch._inductor.decomposition import select_decomp_table

    found: list[Any] = []
    weights = len(list(module.parameters()))

    def divide(joint: Any, inputs: Any, *, num_fwd_outputs: int, **more: Any) -> None:
        _recursive_joint_graph_passes(joint)
        forward, _ = min_cut_rematerialization_partition(
            joint, inputs, compiler="inductor", num_fwd_outputs=num_fwd_outputs, **more
        )
        first = [node for node in forward.graph.nodes if node.op == "placeholder"][:weights]
        (output,) = (node for node in forward.graph.nodes if node.op == "output")
        found.extend(node.meta["val"] for node in output.args[0][num_fwd_outputs:] if root(node) not in first)
        raise Divided

    compiled = aot_module(
        module, fw_compiler=lambda graph, _: graph, partition_fn=divide, decompositions=select_decomp_table()
    )
    with pytest.raises(Divided):
        compiled(*given)
    yield from found


def root(node: Any) -> Any:
    """What a node is a view of."""
    while node.op == "call_function" and ("permute" in node.name or node.name.startswith("t_")):
        node = node.args[0]
    return node


def bytes_of(tensors: Iterator[Any]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def layers_of(
    layers: int, batch: int, length: int, dtype: str, lora: str = "", config: dict[str, Any] | None = None
) -> ModuleProgram:
    """A model of so many layers, which has run forward."""
    whole = HFModel({**CONFIG, **(config or {}), "num_hidden_layers": layers})
    run = Workload(phase="train", recompute="none", batch_size=batch, seq_len=length, kernel="flash")
    code = "transformers" if whole.family.model_type == "qwen3" else "torchtune"
    m = program(whole, run, NUMERICS[dtype], code, "logits", compiles=True)
    tree = whole.tree(run)
    m(adapted(tree, Adapter(RANK, tuple(NAMES[each] for each in lora))) if lora else tree)
    return m


@pytest.mark.parametrize("lora", ["", "qv", "qvogud", "qkvogud"])
@pytest.mark.parametrize(("bias", "batch", "length"), [(False, 2, 32), (True, 1, 24)])
def test_a_compiled_layer_keeps_what_the_partitioner_keeps(lora: str, bias: bool, batch: int, length: int) -> None:
    with weights_of(torch.bfloat16):
        layer = Layer(lora, bias, flash)
        for name, weight in layer.named_parameters():
            weight.requires_grad_(not lora or "lora_" in name)
        x = torch.zeros((batch, length, 64), requires_grad=True)
    cache = torch.zeros((length, D // 2, 2))
    found = bytes_of(each for each in kept(layer, x, cache) if each.shape != cache.shape)
    config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]} if bias else {}
    three, four = (layers_of(count, batch, length, "bf16 (pure)", lora, config) for count in (3, 4))
    assert four.tape.tracker.saved - three.tape.tracker.saved == found


@pytest.mark.parametrize("lora", ["", "qv", "qkvogud"])
def test_so_does_one_whose_heads_are_normed_and_share_keys(lora: str) -> None:
    with weights_of(torch.bfloat16):
        layer = Layer(lora, attend=flash, heads_normed=True)
        for name, weight in layer.named_parameters():
            weight.requires_grad_(not lora or "lora_" in name)
        x = torch.zeros((2, 32, 64), requires_grad=True)
    cache = torch.zeros((32, D // 2, 2))
    found = bytes_of(each for each in kept(layer, x, cache) if each.shape != cache.shape)
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": D}
    three, four = (layers_of(count, 2, 32, "bf16 (pure)", lora, config) for count in (3, 4))
    assert four.tape.tracker.saved - three.tape.tracker.saved == found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_compiled_loss_keeps_the_logits_and_8_bytes_for_a_row(dtype: Any) -> None:
    class Loss(nn.Module):  # type: ignore[misc]
        def forward(self, logits: Any, targets: Any) -> Any:
            return one_loss(logits, targets)

    logits, targets = torch.zeros((48, 50), dtype=dtype, requires_grad=True), torch.zeros(48, dtype=torch.int64)
    assert bytes_of(kept(Loss(), logits, targets)) == 48 * (50 * logits.element_size() + 8 + 4 + 4)
    m = layers_of(1, 2, 24, "bf16 (pure)" if dtype == torch.bfloat16 else "fp32")
    of_loss = {each.storage.label: each.storage.bytes for each in m.tape.kept.values() if each.keeper.endswith("loss")}
    assert of_loss["highest logit"] == of_loss["log-sum-exp"] == 48 * 4
