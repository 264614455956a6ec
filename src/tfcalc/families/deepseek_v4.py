"""DeepSeek-V4: compressed attention, hyper-connections, and experts that the first layers choose by a table."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families import experts, hyper_kit, kit
from tfcalc.nn.basic import Linear, Norm, buffer, parameter
from tfcalc.nn.clipped import LimitedExperts, LimitedFeedForward
from tfcalc.nn.compressed import CompressedAttention, CompressedIndexer, Compressor, MapOfGroups, SomeTimes
from tfcalc.nn.hyper_connection import HyperLayer, MixingConnection
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.nn.sinks import Sinks
from tfcalc.printable import quoted

WINDOW, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
BY_RATIO = {0: WINDOW, 4: SPARSE, 128: HEAVY}
"""What the published files write for each layer."""

OLD_NAMES = {SPARSE: "compress_rate_csa", HEAVY: "compress_rate_hca"}
HASHED, ROUTED = "hash_moe", "moe"
CODE = "olmo"
"""Its norms multiply by their weight in fp32."""


def of_each_layer(c: Config, name: str, known: tuple[str, ...]) -> list[str]:
    """One word for each layer; lists may go on for the layers that predict further tokens."""
    count, given = c.number("num_hidden_layers"), c.get(name)
    length = max(count, len(given)) if isinstance(given, list | tuple) else count
    return c.words(name, length, known)[:count]


def layer_types(c: Config) -> list[str]:
    """Given, or by ``compress_ratios``; else every other layer is sparse, after two that are not."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return of_each_layer(c, "layer_types", tuple(BY_RATIO.values()))
    if c.has("compress_ratios"):
        ratios = c.numbers("compress_ratios")[:count]
        if len(ratios) < count or set(ratios) - set(BY_RATIO):
            raise InvalidModel(f"compress_ratios {quoted(ratios)} are not {count} of {list(BY_RATIO)}", "one per layer")
        return [BY_RATIO[ratio] for ratio in ratios]
    return [SPARSE if place >= 2 and place % 2 else HEAVY for place in range(count)]


def mlp_types(c: Config) -> list[str]:
    """Given; else ``num_hash_layers`` choose their experts by a table, and the others by a router."""
    count = c.number("num_hidden_layers")
    if c.has("mlp_layer_types"):
        return of_each_layer(c, "mlp_layer_types", (HASHED, ROUTED))
    hashed = c.number("num_hash_layers", least=0)
    return [HASHED if place < hashed else ROUTED for place in range(count)]


def rope(c: Config) -> Rope:
    """Of each head the last numbers are turned."""
    given = c.optional("qk_rope_head_dim")
    return Rope(kit.rotary_width(c, c.size("head_dim")) if given is None else given, halves=True, last=True)


def compressor(kind: str, c: Config, name: str, width: Num, of: type[Compressor], **more: Any) -> Compressor:
    """What makes one key of several tokens; the sparse kind mixes two groups for each."""
    rates, field = c.sub("compress_rates", defaults={SPARSE: 4, HEAVY: 128}), kind
    if c.has(OLD_NAMES[kind]):
        rates, field = c, OLD_NAMES[kind]
    overlap, rate, h = kind == SPARSE, rates.size(field), c.size("hidden_size")
    wide = (2 if overlap else 1) * width
    values, gates = SomeTimes("kv_proj", h, wide, "KV"), SomeTimes("gate_proj", h, wide, "g")
    norm, places = Norm("kv_norm", "rmsnorm", width, CODE), parameter("position_bias", rate, wide)
    return of(name, values, gates, places, norm, rate, width, overlap, rope(c), **more)


def indexer(c: Config) -> Compressor:
    """What chooses among compressed keys."""
    heads, width = c.size("index_n_heads"), c.size("index_head_dim")
    queries = Linear("q_b_proj", c.size("q_lora_rank"), heads * width, "IQ")
    weights = Linear("scorer.weights_proj", c.size("hidden_size"), heads, "Iw")
    how: dict[str, Any] = {"q_b_proj": queries, "weights_proj": weights, "heads": heads}
    return compressor(SPARSE, c, "indexer", width, CompressedIndexer, **how)


def attention(kind: str, c: Config) -> CompressedAttention:
    """One key that is the value too for all heads; layers of a window have no compressor."""
    heads, width, groups = c.number("num_attention_heads"), c.number("head_dim"), c.number("o_groups")
    if heads * width % groups:
        raise InvalidModel(
            f"num_attention_heads · head_dim {heads * width} is not divisible by {c.path('o_groups')} {groups}",
            "give a divisor",
        )
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim")
    rank, between = c.size("q_lora_rank"), c.size("o_groups") * c.size("o_lora_rank")
    chooser = {"indexer": indexer(c)} if kind == SPARSE else {}
    return CompressedAttention(
        "self_attn",
        a,
        1,
        d,
        d,
        (Linear("q_a_proj", h, rank, "DQ"), Linear("q_b_proj", rank, a * d, "UQ"), Linear("kv_proj", h, d, "KV")),
        (Norm("q_a_norm", "rmsnorm", rank, CODE), Norm("kv_norm", "rmsnorm", d, CODE)),
        Linear("o_b_proj", between, h, "O"),
        rope=rope(c),
        window=c.number("sliding_window"),
        dropout=bool(c.get("attention_dropout")),
        sinks=Sinks("sinks", Weight("sinks", (a,), key=""), "highest"),
        always_masked=True,
        grouped=MapOfGroups("o_a_proj", a * d, between, groups=c.size("o_groups")),
        compressor=None if kind == WINDOW else compressor(kind, c, "compressor", d, Compressor, **chooser),
    )


def mixed(kind: str, c: Config) -> Mixture:
    """Routed experts and one shared one, each equally wide; a table of experts for each token where they are hashed."""
    shared = kit.gated(c, name="shared_experts", width=c.size("moe_intermediate_size"), bias=c.flag("mlp_bias"))
    made = experts.mixture(
        c,
        shared.to(LimitedFeedForward),
        experts="n_routed_experts",
        width="moe_intermediate_size",
        scores=c.word("scoring_func"),
        corrected=True,
        normalized=True,
        in_place=False,
        scales=True,
    )
    stored = experts.correction(c)
    if kind == HASHED:
        stored = buffer("gate.tid2eid", c.size("vocab_size"), c.size("num_experts_per_tok"))
    return made.but(experts=made.experts.to(LimitedExperts), stored=(stored,))


@family(
    "deepseek_v4",
    # by __post_init__:
    num_hash_layers=3,
    partial_rotary_factor=0.125,
)
def deepseek_v4(c: Config) -> Module:
    """DeepSeek-V4 technical report: ``hc_mult`` residual streams, which the sub-layers read and write by weights."""
    turns = c.number("hc_sinkhorn_iters")
    connections = tuple(hyper_kit.connection(c, name, of=MixingConnection, turns=turns) for name in hyper_kit.NAMES)

    def one(kind: tuple[str, str]) -> Module:
        made = kit.layer(c, attention(kind[0], c), mixed(kind[1], c), of=HyperLayer, code=CODE)
        return made.but(connections=connections)

    return hyper_kit.decoder(c, one, list(zip(layer_types(c), mlp_types(c), strict=True)), norm=CODE)
