"""Live: positions inside attention, written out in a few lines of torch, and the modules that transformers has."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Transformer, Workload
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.core.measure import params as count
from tfcalc.zoo.transformer import INSIDE_ATTENTION

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

B, L, H, A, D, REACH, BUCKETS = 3, 7, 12, 2, 6, 4, 5
"""Batch, length, width, heads, a head's width, largest distance, buckets."""

NEEDED: dict[str, dict[str, Any]] = {
    **{kind: {"max_distance": REACH} for kind in ("multiplicative", "relative", "deberta")},
    "t5": {"buckets": BUCKETS},
}


class Written:
    """Self-attention with one kind of positions: its tensors, and what is computed with them."""

    def __init__(self, kind: str, *, causal: bool) -> None:
        self.kind, self.causal, self.trained = kind, causal, list[Any]()
        self.maps = [self.make(H, A * D) for _ in range(3)]
        self.out = self.make(A * D, H)
        self.inside = len(self.trained)

    def make(self, *shape: int) -> Any:
        tensor = torch.randn(*shape, requires_grad=True)
        self.trained.append(tensor)
        return tensor

    def __call__(self, x: Any) -> Any:
        q, k, v = ((x.reshape(B * L, H) @ each).view(B, L, A, D).transpose(1, 2) for each in self.maps)
        steps = torch.arange(L)
        self.apart = steps[None] - steps[:, None]
        scores = self.with_positions(q, k)
        if self.causal:
            scores = scores.masked_fill(self.apart > 0, -1e9)
        p = scores.softmax(-1)
        mixed = p @ v
        if self.kind == "relative":  # Shaw et al. 2018, section 3.3: one product for each query's place
            vectors = self.make(2 * REACH + 1, D)[self.apart.clamp(-REACH, REACH) + REACH]
            mixed = mixed + (by_place(p) @ vectors).view(L, B, A, D).permute(1, 2, 0, 3)
        return mixed.transpose(1, 2).reshape(B * L, A * D) @ self.out

    def with_positions(self, q: Any, k: Any) -> Any:
        near = self.apart.clamp(-REACH, REACH) + REACH
        match self.kind:
            case "rotary":
                return turned(q) @ turned(k).mT
            case "alibi":
                return q @ k.mT - torch.rand(A, 1, 1) * self.apart.abs()
            case "t5":
                return q @ k.mT + self.make(BUCKETS, A)[self.apart.abs() % BUCKETS].permute(2, 0, 1)
            case "multiplicative":
                return q @ k.mT * self.make(2 * REACH + 1, A)[near].permute(2, 0, 1)
            case "relative":
                vectors = self.make(2 * REACH + 1, D)[near]
                return q @ k.mT + (by_place(q) @ vectors.mT).view(L, B, A, L).permute(1, 2, 0, 3)
            case "transformer-xl":
                rows = L if self.causal else 2 * L - 1
                r = (torch.randn(rows, H) @ self.make(H, A * D)).view(rows, A, D).permute(1, 2, 0)
                u, w = self.make(A, 1, D), self.make(A, 1, D)
                by_distance = (q + w) @ r.expand(B, A, D, rows)
                shifted = (self.apart + L - 1).clamp(0, rows - 1).expand(B, A, L, L)
                return (q + u) @ k.mT + by_distance.gather(-1, shifted)
        table = self.make(2 * REACH, H)  # DeBERTa
        rows = self.apart.clamp(-REACH, REACH - 1) + REACH
        keys, queries = (
            (table @ self.make(H, A * D) + self.make(A * D)).view(2 * REACH, A, D).transpose(0, 1) for _ in range(2)
        )
        content_to_position = (q @ keys.expand(B, A, 2 * REACH, D).mT).gather(-1, rows.expand(B, A, L, L))
        position_to_content = (k @ queries.expand(B, A, 2 * REACH, D).mT).gather(-1, rows.expand(B, A, L, L)).mT
        return q @ k.mT + content_to_position + position_to_content


def by_place(x: Any) -> Any:
    """(b, a, l, d) as (l, b·a, d)."""
    return x.permute(2, 0, 1, 3).reshape(L, B * A, -1)


def turned(x: Any) -> Any:
    angle = torch.arange(L)[:, None] * torch.rand(D)
    one, other = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-other, one), -1) * angle.sin()


def model(kind: str, *, causal: bool, **more: Any) -> Transformer:
    stack = "decoder" if causal else "encoder"
    sizes = {"d_model": H, "n_heads": A, "n_layers": 1, **NEEDED.get(kind, {}), **more}
    return Transformer(kind=stack, positions=kind, **sizes)


def parameters_of_positions(kind: str, *, causal: bool, **more: Any) -> Any:
    run = Workload()
    plain = Transformer(kind="decoder" if causal else "encoder", d_model=H, n_heads=A, n_layers=1)
    return model(kind, causal=causal, **more).tree(run).total(count) - plain.tree(run).total(count)


@pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])
@pytest.mark.parametrize("kind", INSIDE_ATTENTION)
def test_flops_and_parameters_are_those_of_the_attention_written_out(kind: str, causal: bool) -> None:
    run = Workload(batch_size=B, seq_len=L, phase="train", input_gradient=True)
    tree = model(kind, causal=causal).tree(run)
    node = next(node for node in tree.walk() if node.component.name == "self_attention")
    written = Written(kind, causal=causal)
    with FlopCounterMode(display=False) as forward:
        out = written(torch.randn(B, L, H, requires_grad=True))
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    assert node.total(matmul_flops) == forward.get_total_flops()
    assert node.total(matmul_backward_flops) == backward.get_total_flops()
    inside = sum(tensor.numel() for tensor in written.trained[written.inside :])
    assert parameters_of_positions(kind, causal=causal) == inside


def test_buckets_are_t5s() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(d_model=H, d_kv=D, d_ff=8, num_layers=3, num_heads=A, vocab_size=9)
    built = transformers.T5EncoderModel(config)
    theirs = sum(value.numel() for name, value in built.named_parameters() if "relative_attention_bias" in name)
    ours = parameters_of_positions("t5", causal=False, buckets=None, n_layers=1)
    assert ours == theirs == 32 * A


def test_maps_of_sinusoids_are_xlnets() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.XLNetConfig(d_model=H, n_layer=1, n_head=A, d_inner=8, vocab_size=9)
    built = dict(transformers.XLNetModel(config).layer[0].rel_attn.named_parameters())
    theirs = sum(built[name].numel() for name in ("r", "r_r_bias", "r_w_bias"))
    assert parameters_of_positions("transformer-xl", causal=False) == theirs == H * A * D + 2 * A * D


def test_maps_of_distances_are_debertas() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.DebertaV2Config(
        hidden_size=H,
        num_hidden_layers=1,
        num_attention_heads=A,
        intermediate_size=8,
        vocab_size=9,
        relative_attention=True,
        max_relative_positions=REACH,
        pos_att_type="c2p|p2c",
    )
    built = transformers.DebertaV2Model(config).named_parameters()
    theirs = sum(value.numel() for name, value in built if "pos_" in name or "rel_embeddings" in name)
    assert parameters_of_positions("deberta", causal=False) == theirs == 2 * REACH * H + 2 * (H * A * D + A * D)
