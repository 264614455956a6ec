"""DeepSeek and those with its latent attention and experts."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space


def latent(random: Random) -> dict[str, Any]:
    """Latent attention in a small decoder; heads of queries, keys and values of any width, as many of each."""
    heads = random.choice([2, 3, 4, 6])
    return {
        "hidden_size": random.choice([24, 48, 72]),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "num_hidden_layers": random.randint(1, 5),
        "intermediate_size": random.choice([24, 40, 56]),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": random.choice([32, 64]),
        "kv_lora_rank": random.choice([8, 12, 20]),
        "q_lora_rank": random.choice([8, 10, 16]),
        "qk_nope_head_dim": random.choice([4, 6, 10]),
        "qk_rope_head_dim": random.choice([4, 8]),
        "v_head_dim": random.choice([4, 6, 12]),
        "attention_bias": coin(random),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
    }


def routed(random: Random) -> dict[str, Any]:
    """Latent attention and experts, routed and shared."""
    return latent(random) | {
        "moe_intermediate_size": random.choice([8, 12, 20]),
        "n_routed_experts": random.choice([4, 6, 8]),
        "n_shared_experts": random.choice([1, 2, 3]),
        "num_experts_per_tok": random.choice([1, 2, 3, 4]),
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": random.randint(0, 6),
    }


def typed(random: Random) -> dict[str, Any]:
    """As well with a list of the dense and sparse layers, or without."""
    config = routed(random)
    types = [random.choice(["dense", "sparse"]) for _ in range(config["num_hidden_layers"])]
    return config | ({"mlp_layer_types": types} if coin(random) else {})


def direct(random: Random) -> dict[str, Any]:
    """Queries without a latent vector, half of the time."""
    return {"q_lora_rank": None} if coin(random) else {}


def built_as(random: Random, stem: str, *ends: str) -> dict[str, Any]:
    """One of the classes that transformers has."""
    return {"architectures": [stem + random.choice(["Model", "ForCausalLM", *ends])]}


@space("deepseek_v2")
def deepseek_v2(random: Random) -> dict[str, Any]:
    """Experts from the first layer on, or later; biases in the networks."""
    config = routed(random) | direct(random) | {"mlp_bias": coin(random)}
    config["hidden_size"] = config["num_attention_heads"] * random.choice([8, 12])
    return config | built_as(random, "DeepseekV2", "ForSequenceClassification")


@space("deepseek_v3")
def deepseek_v3(random: Random) -> dict[str, Any]:
    """Queries with a latent vector or without."""
    ends = ("ForSequenceClassification", "ForTokenClassification")
    return routed(random) | direct(random) | built_as(random, "DeepseekV3", *ends)


@space("deepseek_v32")
def deepseek_v32(random: Random) -> dict[str, Any]:
    """An indexer of any size."""
    sizes = {"index_n_heads": random.choice([2, 3]), "index_head_dim": random.choice([8, 12])}
    return typed(random) | sizes | built_as(random, "DeepseekV32")


@space("glm_moe_dsa")
def glm_moe_dsa(random: Random) -> dict[str, Any]:
    """Indexers in each layer, in some by a list or a pattern, or every few layers."""
    config = typed(random)
    count = config["num_hidden_layers"]
    modes: dict[str, Any] = random.choice(
        [
            {},
            {"indexer_types": ["full", *random.choices(["full", "shared"], k=count - 1)]},
            {"index_topk_pattern": "F" + "".join(random.choices("FS", k=count - 1))},
            {"index_topk_freq": random.randint(1, 4), "index_skip_topk_offset": random.randint(1, 3)},
        ]
    )
    sizes = {"index_n_heads": random.choice([2, 3]), "index_head_dim": random.choice([8, 12])}
    return config | modes | sizes | built_as(random, "GlmMoeDsa")


@space("deepseek_v4")
def deepseek_v4(random: Random) -> dict[str, Any]:
    """Layers of each kind of attention, by a list or by ratios; hashed and routed experts."""
    count, heads = random.randint(1, 6), random.choice([2, 4, 6])
    kinds = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    attentions: dict[str, Any] = random.choice(
        [
            {},
            {"layer_types": random.choices(kinds, k=count)},
            {"compress_ratios": random.choices([0, 4, 128], k=count + random.randint(0, 1))},
        ]
    )
    mlps: dict[str, Any] = random.choice(
        [
            {},
            {"mlp_layer_types": random.choices(["hash_moe", "moe"], k=count)},
            {"num_hash_layers": random.randint(0, 3)},
        ]
    )
    rates: dict[str, Any] = random.choice(
        [
            {},
            {"compress_rates": {kinds[1]: random.choice([2, 4]), kinds[2]: random.choice([6, 8])}},
            {"compress_rate_csa": 3, "compress_rate_hca": 5},
        ]
    )
    return {
        "hidden_size": random.choice([24, 36]),
        "num_hidden_layers": count,
        "num_attention_heads": heads,
        "head_dim": random.choice([8, 16]),
        "qk_rope_head_dim": 4,
        "moe_intermediate_size": random.choice([12, 20]),
        "vocab_size": random.randint(50, 120),
        "q_lora_rank": random.choice([8, 10]),
        "o_lora_rank": random.choice([6, 9]),
        "o_groups": random.choice([1, 2, heads]),
        "n_routed_experts": random.choice([4, 6]),
        "num_experts_per_tok": random.choice([1, 2, 3]),
        "hc_mult": random.choice([2, 3, 4]),
        "sliding_window": random.choice([5, 9]),
        "index_n_heads": random.choice([2, 3]),
        "index_head_dim": random.choice([8, 12]),
        "mlp_bias": coin(random),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
        **attentions,
        **mlps,
        **rates,
        **built_as(random, "DeepseekV4"),
    }
