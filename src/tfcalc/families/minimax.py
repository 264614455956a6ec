"""MiniMax-01: Mixtral with lightning attention in most layers."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.families import experts, kit
from tfcalc.families.mixtral import TOPS
from tfcalc.families.windows import layer_types, window
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, buffer
from tfcalc.nn.lightning import LightningAttention, NormedStream
from tfcalc.nn.module import Module

LINEAR, FULL = "linear_attention", "full_attention"


class KeepingAll(Attention):
    """Its cache keeps all tokens, whatever a window hides, and a decoded token is compared with all (MiniMaxCache)."""

    keeps_all: bool = True

    @property
    def mask(self) -> Num | None:
        """That of a prompt hides what is before the window."""
        return self.window


def lightning_attention(c: Config) -> LightningAttention:
    """Linear attention, with as many keys and values as queries."""
    h, a, d, block = c.size("hidden_size"), c.size("num_attention_heads"), kit.head_dim(c), c.size("block_size")
    shapes: dict[str, tuple[Num, ...]] = {
        "slope_rate": (a,),
        "query_decay": (a, block),
        "key_decay": (a, block),
        "diagonal_decay": (a, block, block),
    }
    return LightningAttention(
        "self_attn",
        Linear("qkv_proj", h, 3 * a * d, "QKV"),
        c.word("hidden_act"),
        tuple(buffer(name, *shape) for name, shape in shapes.items()),
        Norm("norm", "rmsnorm", a * d),
        Linear("output_gate", h, a * d, "gate"),
        Linear("out_proj", a * d, h, "O"),
        a,
        d,
        block,
    )


@family("minimax", heads=TOPS)
def minimax(c: Config) -> Module:
    """MiniMax-01 (arXiv 2501.08313): seven of its eight layers attend linearly."""
    seen = window(c)
    full = kit.attention(c, window=seen).to(KeepingAll, keeps_all=True)

    def one(kind: str) -> Module:
        mixer: Module = lightning_attention(c) if kind == LINEAR else full
        return kit.layer(c, mixer, experts.mixture(c, normalized=True, logits="float32"), of=NormedStream)

    in_turns = layer_types(c, lambda place: LINEAR if place % 2 else FULL, (LINEAR, FULL))
    return kit.decoder(c, one, in_turns, masks=(seen,))
