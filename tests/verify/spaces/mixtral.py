"""Mixtures of experts with ordinary attention."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space

MODEL = ("Model", "ForCausalLM")
ALL = (*MODEL, "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def named(random: Random, name: str, heads: tuple[str, ...] = MODEL) -> dict[str, Any]:
    """One of the classes of this name, and how many classes it tells apart."""
    return {"architectures": [name + random.choice(heads)], "num_labels": random.randint(2, 5)}


def experts(random: Random, name: str = "num_local_experts") -> dict[str, Any]:
    """A few experts, of which one, two or three run for each token."""
    return {name: random.choice([3, 4, 8]), "num_experts_per_tok": random.randint(1, 3)}


def narrow(random: Random) -> dict[str, Any]:
    """Experts narrower than a dense layer."""
    return {"moe_intermediate_size": random.choice([8, 12, 20])}


def each_layer(random: Random, config: dict[str, Any], field: str, *words: str) -> dict[str, Any]:
    """A word for each layer, or none."""
    layers = range(config["num_hidden_layers"])
    return {field: [random.choice(words) for _ in layers]} if coin(random) else {}


def mlps(random: Random, config: dict[str, Any]) -> dict[str, Any]:
    """Which layers are dense."""
    return each_layer(random, config, "mlp_layer_types", "dense", "sparse")


def windowed(random: Random, field: str = "sliding_window") -> dict[str, Any]:
    """A window smaller than most sequences."""
    return {field: random.choice([4, 7])}


def sliding(random: Random, config: dict[str, Any]) -> dict[str, Any]:
    """A window, and which layers see no more than that."""
    return windowed(random) | each_layer(random, config, "layer_types", FULL, SLIDING)


def biased(random: Random, name: str = "attention_bias") -> dict[str, Any]:
    """A bias or none."""
    return {name: coin(random)}


@space("mixtral")
def mixtral(random: Random) -> dict[str, Any]:
    """Heads of any width; the experts' number by either name."""
    name = random.choice(["num_local_experts", "num_experts"])
    config = grouped(random, head_dim=True) | experts(random, name) | (windowed(random) if coin(random) else {})
    return config | named(random, "Mixtral", ALL)


@space("olmoe")
def olmoe(random: Random) -> dict[str, Any]:
    """Heads that split the hidden size, as its norms of queries and keys take it; biases in attention."""
    sizes = grouped(random) | experts(random, "num_experts")
    return sizes | biased(random) | named(random, "Olmoe")


@space("flex_olmo")
def flex_olmo(random: Random) -> dict[str, Any]:
    """Heads of any width, biases in attention."""
    sizes = grouped(random, head_dim=True) | experts(random, "num_experts")
    return sizes | biased(random) | named(random, "FlexOlmo")


@space("minimax_m2")
def minimax_m2(random: Random) -> dict[str, Any]:
    """Heads of any width."""
    return grouped(random, head_dim=True) | experts(random) | named(random, "MiniMaxM2")


@space("phimoe")
def phimoe(random: Random) -> dict[str, Any]:
    """Biases in attention and in the head."""
    sizes = grouped(random, head_dim=True) | experts(random) | (windowed(random) if coin(random) else {})
    return sizes | biased(random) | biased(random, "lm_head_bias") | named(random, "Phimoe", ALL[:3])


@space("gpt_oss")
def gpt_oss(random: Random) -> dict[str, Any]:
    """Heads of any width, biases in attention."""
    sizes = grouped(random, head_dim=True) | experts(random)
    return sizes | sliding(random, sizes) | biased(random) | named(random, "GptOss", ALL[:4])


@space("qwen2_moe")
def qwen2_moe(random: Random) -> dict[str, Any]:
    """Dense layers among sparse ones, by either field."""
    config = steps(random) | shared_width(random) | biased(random, "qkv_bias") | windowed(random)
    config |= {"use_sliding_window": coin(random), "max_window_layers": random.randint(0, 3)}
    return config | named(random, "Qwen2Moe", ALL)


@space("qwen3_moe")
def qwen3_moe(random: Random) -> dict[str, Any]:
    """Dense layers among sparse ones, biases in attention."""
    config = steps(random) | biased(random) | windowed(random) | {"use_sliding_window": coin(random)}
    return config | named(random, "Qwen3Moe", ALL)


@space("flint")
def flint(random: Random) -> dict[str, Any]:
    """Qwen's layers with a shared expert."""
    config = steps(random) | shared_width(random) | biased(random)
    return config | sliding(random, config) | named(random, "Flint")


def steps(random: Random) -> dict[str, Any]:
    """Which layers have experts, as Qwen says it."""
    few = random.sample(range(4), random.randint(0, 2))
    config = grouped(random, head_dim=True) | experts(random, "num_experts") | narrow(random)
    config |= {"num_experts": random.choice([0, 3, 4, 8]), "decoder_sparse_step": random.randint(1, 3)}
    return config | random.choice([{}, {"mlp_only_layers": None}, {"mlp_only_layers": few}])


def shared_width(random: Random) -> dict[str, Any]:
    """A shared expert's own width."""
    return {"shared_expert_intermediate_size": random.choice([0, 8, 12, 20])}


@space("granitemoe")
def granitemoe(random: Random) -> dict[str, Any]:
    """Biases in attention."""
    sizes = grouped(random, head_dim=True) | experts(random)
    return sizes | biased(random) | named(random, "GraniteMoe")


@space("granitemoeshared")
def granitemoeshared(random: Random) -> dict[str, Any]:
    """With or without a shared network."""
    return granitemoe(random) | {"shared_intermediate_size": random.choice([0, 12])} | named(random, "GraniteMoeShared")


@space("granitemoe_swa")
def granitemoe_swa(random: Random) -> dict[str, Any]:
    """Layers that slide, at random."""
    config = granitemoeshared(random) | named(random, "GraniteMoeSWA")
    return config | sliding(random, config)


@space("dbrx")
def dbrx(random: Random) -> dict[str, Any]:
    """Nested configs; transformers builds none without ``rope_theta``, nor with a tied head, nor run it unclipped."""
    sizes = grouped(random)
    return {
        "d_model": sizes["hidden_size"],
        "n_heads": sizes["num_attention_heads"],
        "n_layers": sizes["num_hidden_layers"],
        "vocab_size": sizes["vocab_size"],
        "pad_token_id": 0,
        "attn_config": {"kv_n_heads": sizes["num_key_value_heads"], "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {
            "ffn_hidden_size": sizes["intermediate_size"],
            "moe_num_experts": random.choice([3, 4, 8]),
            "moe_top_k": random.randint(1, 3),
        },
    } | named(random, "Dbrx")


@space("minimax")
def minimax(random: Random) -> dict[str, Any]:
    """Layers of either attention."""
    config = grouped(random, head_dim=True) | experts(random) | {"block_size": random.choice([4, 16])}
    return config | each_layer(random, config, "layer_types", FULL, LINEAR) | named(random, "MiniMax", ALL)


def deepseek(random: Random, routed: str = "n_routed_experts", common: str = "n_shared_experts") -> dict[str, Any]:
    """Dense layers first, routed and shared experts."""
    return (
        grouped(random, head_dim=True)
        | experts(random, routed)
        | narrow(random)
        | biased(random)
        | {"first_k_dense_replace": random.randint(0, 3), common: random.randint(1, 3)}
    )


@space("glm4_moe")
def glm4_moe(random: Random) -> dict[str, Any]:
    """With or without norms of queries and keys."""
    return deepseek(random) | biased(random, "use_qk_norm") | named(random, "Glm4Moe")


@space("dots1")
def dots1(random: Random) -> dict[str, Any]:
    """Nothing but DeepSeek's fields."""
    config = deepseek(random) | {"max_window_layers": random.randint(0, 3)}
    return config | sliding(random, config) | named(random, "Dots1")


@space("solar_open")
def solar_open(random: Random) -> dict[str, Any]:
    """No dense layers."""
    return deepseek(random) | named(random, "SolarOpen")


@space("exaone_moe")
def exaone_moe(random: Random) -> dict[str, Any]:
    """Dense layers by either field."""
    config = deepseek(random, "num_experts", "num_shared_experts")
    config |= sliding(random, config) | {"sliding_window_pattern": random.randint(2, 4)}
    return config | mlps(random, config) | named(random, "ExaoneMoe")


@space("hy_v3")
def hy_v3(random: Random) -> dict[str, Any]:
    """Biases anywhere; shared experts, even none."""
    config = deepseek(random, "num_experts", "num_shared_experts") | {"num_shared_experts": random.randint(0, 2)}
    return config | mlps(random, config) | biased(random, "mlp_bias") | named(random, "HYV3")


@space("kolibri1")
def kolibri1(random: Random) -> dict[str, Any]:
    """A shared expert of a width of its own."""
    config = deepseek(random, "num_experts") | shared_width(random)
    return config | sliding(random, config) | named(random, "Kolibri1")


@space("beam")
def beam(random: Random) -> dict[str, Any]:
    """Dense layers anywhere; experts in one group, or in two of which one is chosen."""
    config = deepseek(random, "num_experts") | {"num_experts": random.choice([4, 6, 8]), "topk_group": 1}
    config |= {"n_group": random.randint(1, 2)} | sliding(random, config)
    return config | mlps(random, config) | named(random, "Beam")


@space("afmoe")
def afmoe(random: Random) -> dict[str, Any]:
    """Dense layers first."""
    config = deepseek(random, "num_experts", "num_shared_experts")
    config |= sliding(random, config) | {"global_attn_every_n_layers": random.randint(2, 4)}
    return config | {"num_dense_layers": random.randint(0, 3)} | named(random, "Afmoe")


@space("mimo_v2_flash")
def mimo_v2_flash(random: Random) -> dict[str, Any]:
    """Layers of either attention, dense or sparse; room for twice the keys and values."""
    config = deepseek(random) | {"v_head_dim": random.choice([4, 6]), "num_attention_heads": random.choice([4, 8])}
    config |= {"num_key_value_heads": random.choice([1, 2])}
    kinds = sliding(random, config)
    return config | kinds | mlps(random, config) | named(random, "MiMoV2Flash")


@space("laguna")
def laguna(random: Random) -> dict[str, Any]:
    """Query heads that differ by layer, gates of heads or of elements."""
    config = deepseek(random, "num_experts") | shared_width(random)
    config |= {"gating": random.choice([True, False, "per-head", "per-element"])}
    groups, layers = config["num_key_value_heads"], range(config["num_hidden_layers"])
    heads = [groups * random.randint(1, 3) for _ in layers]
    config |= {"num_attention_heads_per_layer": heads} if coin(random) else {}
    return config | sliding(random, config) | mlps(random, config) | named(random, "Laguna")


@space("ernie4_5_moe")
def ernie4_5_moe(random: Random) -> dict[str, Any]:
    """Experts in some layers between two; shared ones or none; one flag for biases."""
    config = grouped(random, head_dim=True) | narrow(random) | biased(random, "use_bias")
    config |= {"moe_num_experts": random.choice([3, 4, 8]), "moe_k": random.randint(1, 3)}
    config |= {"moe_num_shared_experts": random.randint(0, 2), "moe_layer_interval": random.randint(1, 2)}
    ends = {"moe_layer_start_index": random.randint(0, 2), "moe_layer_end_index": random.choice([-1, 1, 2])}
    return config | ends | named(random, "Ernie4_5_Moe")


@space("hunyuan_v1_moe")
def hunyuan_v1_moe(random: Random) -> dict[str, Any]:
    """A number of experts per token for each layer, or one for all; transformers needs ``head_dim``."""
    config = grouped(random) | biased(random) | {"head_dim": random.choice([4, 8, 10])}
    stored = random.choice([1, 4, 8])
    each = [random.randint(1, min(stored, 3)) for _ in range(config["num_hidden_layers"])]
    config |= {"num_experts": stored, "moe_topk": each if coin(random) else each[0]}
    return config | named(random, "HunYuanMoEV1", ALL[:3])


@space("cohere2_moe")
def cohere2_moe(random: Random) -> dict[str, Any]:
    """Dense layers first or anywhere, of a width of their own or not; shared experts or none; either norm."""
    config = grouped(random, head_dim=True) | experts(random, "num_experts") | biased(random)
    config |= {"num_shared_experts": random.randint(0, 2), "rms_norm_eps": random.choice([None, 1e-6])}
    config |= {"prefix_dense_intermediate_size": random.choice([None, 20])}
    config |= {"first_k_dense_replace": min(random.randint(0, 2), config["num_hidden_layers"])}
    config |= sliding(random, config) | {"sliding_window_pattern": random.randint(2, 4)}
    config |= {"prefix_dense_sliding_window_pattern": random.randint(1, 2)}
    return config | mlps(random, config) | named(random, "Cohere2Moe")


@space("aria_text")
def aria_text(random: Random) -> dict[str, Any]:
    """Biases in attention and in shared experts."""
    config = grouped(random, head_dim=True) | biased(random) | biased(random, "mlp_bias")
    config |= {"moe_num_experts": random.choice([3, 4, 8]), "moe_topk": random.randint(1, 3)}
    return config | {"moe_num_shared_experts": random.randint(1, 3)} | named(random, "AriaText")


@space("zaya")
def zaya(random: Random) -> dict[str, Any]:
    """Kernels and a router of any size."""
    config = grouped(random) | narrow(random) | biased(random) | biased(random, "lm_head_bias")
    config |= {"head_dim": random.choice([4, 8, 10]), "num_experts": random.choice([3, 4, 8])}
    config |= {"router_hidden_size": random.choice([6, 12])}
    config |= windowed(random) | each_layer(random, config, "layer_types", "hybrid", "hybrid_sliding")
    return config | {f"cca_time{place}": random.randint(1, 3) for place in (0, 1)} | named(random, "Zaya")


@space("minimax_m3_vl_text")
def minimax_m3_vl_text(random: Random) -> dict[str, Any]:
    """Sparse attention and experts in any layer, said in either way."""
    config = grouped(random, head_dim=True) | experts(random) | {"shared_intermediate_size": random.choice([8, 12])}
    config |= {"dense_intermediate_size": 20, "index_n_heads": random.randint(1, 2), "index_head_dim": 4}
    layers = range(config["num_hidden_layers"])
    if coin(random):
        freq = [random.randint(0, 1) for _ in layers]
        config |= {"sparse_attention_config": {"sparse_attention_freq": freq, "sparse_index_dim": 6}}
        config |= {"moe_layer_freq": [random.randint(0, 1) for _ in layers]}
    kinds = each_layer(random, config, "layer_types", FULL, "minimax_m3_sparse")
    name, heads = ("MiniMaxM3VL", MODEL[1:]) if coin(random) else ("MiniMaxM3VLText", MODEL[:1])
    return config | kinds | mlps(random, config) | named(random, name, heads)


@space("inkling_text")
def inkling_text(random: Random) -> dict[str, Any]:
    """Windows of sizes of their own; dense layers said in either way."""
    config = deepseek(random) | {"d_rel": random.choice([2, 4]), "rel_extent": random.choice([8, 16])}
    groups = random.choice([1, 2])
    config |= {"swa_num_attention_heads": 2 * groups, "swa_num_key_value_heads": groups, "swa_head_dim": 6}
    config |= {"sliding_window_size": random.choice([5, 7]), "conv_kernel_size": random.randint(2, 4), "head_dim": 8}
    config |= {"dense_mlp_idx": random.randint(0, 2)} if coin(random) else {}
    config |= {"dense_intermediate_size": 28} if coin(random) else {}
    config |= {"local_layer_ids": [0, 2]} if coin(random) else {}
    kinds = each_layer(random, config, "layer_types", "hybrid", "hybrid_sliding")
    name, heads = ("Inkling", MODEL[1:]) if coin(random) else ("InklingText", MODEL[:1])
    return config | kinds | mlps(random, config) | named(random, name, heads)


@space("hy_v4")
def hy_v4(random: Random) -> dict[str, Any]:
    """Latent sizes, layers with or without an indexer, several streams."""
    config = deepseek(random) | {"q_lora_rank": random.choice([6, 10]), "kv_lora_rank": random.choice([6, 10])}
    config |= {"qk_nope_head_dim": random.choice([4, 6]), "qk_rope_head_dim": random.choice([4, 8])}
    config |= {"v_head_dim": random.choice([4, 6]), "index_head_dim": 12, "index_n_heads": random.randint(1, 3)}
    config |= {"hc_mult": random.randint(1, 4)} | each_layer(random, config, "indexer_types", "full", "shared")
    if "indexer_types" in config:
        config["indexer_types"][0] = "full"  # no other layer has chosen before
    return config | mlps(random, config) | named(random, "HYV4")
