"""Hunyuan 4: DeepSeek-V3.2's attention with a gate and sinks, on several residual streams that do not mix."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.latent import LatentGate
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope
from tfcalc.zoo.blocks import decoders, hyper_connections
from tfcalc.zoo.blocks.experts import LimitedExperts, mlp_types, sparse_after
from tfcalc.zoo.blocks.hyper_connections import HyperConnection, HyperLayer
from tfcalc.zoo.blocks.latent_attention import SparseLatentAttention, shared_and_routed, sparse_latent
from tfcalc.zoo.blocks.layers import layer_types


def attention(kind: str, c: Config) -> SparseLatentAttention:
    """Latent attention; layers that share an indexer's choice have none of their own."""
    made = sparse_latent(c, chooses=kind == "full")
    gate = LatentGate("gate_proj", c.size("hidden_size"), made.output.fan_in, "gate", each_value=True, first=True)
    return made.replace(gate=gate, sinks=decoders.sinks(c, "highest"), rope=Rope(c.size("qk_rope_head_dim", least=0)))


def mixed(c: Config) -> Mixture:
    """Experts whose gates and inputs are cut off; the shared one's are not."""
    made = shared_and_routed(c)
    return made.replace(experts=made.experts.as_type(LimitedExperts))


def indexer_types(c: Config) -> list[str]:
    """The first layer and every fourth after the second choose, where it is not said."""
    return layer_types(
        c, lambda place: "full" if place == 0 or place % 4 == 1 else "shared", ("full", "shared"), "indexer_types"
    )


@family("hy_v4")
def hy_v4(c: Config) -> Module:
    """Hunyuan 4 (transformers' HYV4Model): ``hc_mult`` residual streams, read and written by weights."""
    connections = tuple(
        hyper_connections.connection(c, name, of=HyperConnection, behind=True) for name in hyper_connections.NAMES
    )

    def one(kind: tuple[str, str]) -> Module:
        ffn = mixed(c) if kind[1] == "sparse" else decoders.gated(c)
        return decoders.layer(c, attention(kind[0], c), ffn, of=HyperLayer).replace(connections=connections)

    return hyper_connections.decoder(
        c, one, list(zip(indexer_types(c), mlp_types(c, sparse_after(c, 1)), strict=True)), behind=True
    )
