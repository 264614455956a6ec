"""Models of text and images, and the texts that only they have."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space

FULL, SLIDING = "full_attention", "sliding_attention"


def two_kinds(random: Random, count: int, shared: int) -> dict[str, Any]:
    """Layers that see all or a window; those that reuse keys and values come after one of each kind."""
    own = [FULL, SLIDING] + random.choices([FULL, SLIDING], k=count - shared - 2)
    random.shuffle(own)
    return {
        "num_hidden_layers": count,
        "num_kv_shared_layers": shared,
        "layer_types": [*own, *random.choices([FULL, SLIDING], k=max(shared - 1, 0)), *([FULL] if shared else [])],
    }


def gemma_text(random: Random) -> dict[str, Any]:
    """What Gemma 3n and 4 have in common."""
    count = random.randint(3, 7)
    return (
        grouped(random)
        | {
            "head_dim": random.choice([4, 8, 10]),
            "attention_bias": coin(random),
            "vocab_size_per_layer_input": random.randint(40, 90),
            "hidden_size_per_layer_input": random.choice([6, 8]),
            "hidden_activation": "gelu_pytorch_tanh",
        }
        | two_kinds(random, count, random.choice([0, 0, 1, count - 2]))
    )


@space("gemma3n_text")
def gemma3n_text(random: Random) -> dict[str, Any]:
    """Layers of any width, streams, low ranks."""
    drawn = gemma_text(random)
    if coin(random):
        drawn["intermediate_size"] = random.choices([16, 24, 40], k=drawn["num_hidden_layers"])
    return drawn | {
        "architectures": [random.choice(["Gemma3nForCausalLM", "Gemma3nTextModel"])],
        "altup_num_inputs": random.choice([2, 3, 4]),
        "laurel_rank": random.choice([2, 5]),
    }


@space("gemma4_text")
def gemma4_text(random: Random) -> dict[str, Any]:
    """Two widths of heads, keys that are the values, experts, tables for each layer or not."""
    drawn = gemma_text(random)
    heads = drawn["num_attention_heads"]
    if coin(random):
        drawn["hidden_size_per_layer_input"] = 0
    if coin(random):
        drawn |= {"enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 12}
    if random.random() < 0.3:
        del drawn["layer_types"]
        drawn |= {"num_kv_shared_layers": 0, "num_hidden_layers": 8}
    if random.random() < 0.3:
        types = drawn.get("layer_types", [])  # as transformers writes them: the same for all layers of a type
        own = {"head_dim": 16, "num_key_value_heads": heads}
        drawn["per_layer_config"] = {f"{place:02}": own for place, kind in enumerate(types) if kind == FULL}
    return drawn | {
        "architectures": [random.choice(["Gemma4ForCausalLM", "Gemma4TextModel"])],
        "global_head_dim": random.choice([8, 12]),
        "attention_k_eq_v": coin(random),
        "num_global_key_value_heads": random.choice([None, 1, heads]),
        "use_double_wide_mlp": coin(random),
        "use_bidirectional_attention": random.choice([None, "vision", "all"]),
    }
