"""DeepSeek-V4: compressed attention, hyper-connections, and experts that the first layers choose by a table."""

from __future__ import annotations

from tfcalc.blocks import FUSED, GATED, FeedForward, layer, stack
from tfcalc.blocks.compressed_attention import CompressedAttention, Compressor
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.hyper_connection import HyperConnection
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel
from tfcalc.families.deepseek import active
from tfcalc.families.llama import PRE_NORM, decoder, norms
from tfcalc.leaves import buffer
from tfcalc.printable import quoted
from tfcalc.workload import Workload

WINDOW, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
BY_RATIO = {0: WINDOW, 4: SPARSE, 128: HEAVY}
"""What the published files write for each layer."""

OLD_NAMES = {SPARSE: "compress_rate_csa", HEAVY: "compress_rate_hca"}
HASHED, ROUTED = "hash_moe", "moe"


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


def compressor(kind: str, c: Config) -> Compressor:
    """What makes one key of several tokens; the sparse kind mixes two groups for each."""
    rates, name = c.sub("compress_rates", defaults={SPARSE: 4, HEAVY: 128}), kind
    if c.has(OLD_NAMES[kind]):
        rates, name = c, OLD_NAMES[kind]
    return Compressor(c.size("hidden_size"), c.size("head_dim"), rates.size(name), overlap=kind == SPARSE)


def attention(kind: str, c: Config, run: Workload) -> Component:
    """One key that is the value too for all heads; layers of a window have no compressor."""
    heads, width, groups = c.number("num_attention_heads"), c.number("head_dim"), c.number("o_groups")
    if heads * width % groups:
        raise InvalidModel(
            f"num_attention_heads · head_dim {heads * width} is not divisible by {c.path('o_groups')} {groups}",
            "give a divisor",
        )
    block = CompressedAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        c.size("head_dim"),
        c.size("q_lora_rank"),
        c.size("o_lora_rank"),
        c.size("o_groups"),
        None if kind == WINDOW else compressor(kind, c),
        (c.size("index_n_heads"), c.size("index_head_dim")) if kind == SPARSE else None,
        c.number("sliding_window"),
    )
    return block("self_attn", run.target, run)


def experts(kind: str, c: Config, run: Workload) -> Component:
    """Routed experts and one shared one, each equally wide; a table of experts for each token where they are hashed."""
    h, width, stored = c.size("hidden_size"), c.size("moe_intermediate_size"), c.size("n_routed_experts")
    routed = FeedForward(h, width, c.word("hidden_act"), names=FUSED, gated=True)
    shared = routed._replace(names=GATED, bias=c.flag("mlp_bias"))("shared_experts", run.target, run)
    table = ("tid2eid", c.size("vocab_size"), c.size("num_experts_per_tok")) if kind == HASHED else ()
    name, *shape = table or ("e_score_correction_bias", stored)
    chooser = buffer(f"gate.{name}", *shape)
    return MixtureOfExperts(h, stored, active(c), routed, within=(shared, chooser))("mlp", run.target, run)


@family(
    "deepseek_v4",
    architecture="DeepseekV4ForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts", "intermediate_size": "moe_intermediate_size"},
    num_hash_layers=3,  # by __post_init__
)
def deepseek_v4(c: Config, run: Workload) -> Component:
    """DeepSeek-V4 technical report: ``hc_mult`` residual streams, which the sub-layers read and write by weights."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    connect = HyperConnection(h, c.size("hc_mult"))

    def make(kind: tuple[str, str]) -> Component:
        mixer, mlp = attention(kind[0], c, run), experts(kind[1], c, run)
        connections = (connect(name, run.target) for name in ("attn_hc", "ffn_hc"))
        parts = mixer, mlp, *connections, *norms(PRE_NORM, "rmsnorm", c, run)
        return layer("layers", parts, tokens * h, ends_with_sum=True)  # with the streams that are mixed last

    kinds = list(zip(layer_types(c), mlp_types(c), strict=True))
    base = decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))
    return base._replace(parts=(*base.parts, connect._replace(head=True)("hc_head", run.target)))
