"""State-space models, recurrent ones, and hybrids of these with attention."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space


def named(random: Random, stem: str, *heads: str) -> dict[str, Any]:
    """One of the classes, the causal language model most often; now and then none."""
    if random.random() < 0.2:
        return {}
    return {"architectures": [stem + random.choice(["ForCausalLM", "ForCausalLM", "Model", *heads])]}


def some(random: Random, **choices: list[Any]) -> dict[str, Any]:
    """Each field now and then, with one of its values."""
    return {name: random.choice(values) for name, values in choices.items() if random.random() < 0.6}


def routed(random: Random, count: int, name: str = "num_experts") -> dict[str, Any]:
    """So many experts, and how many of them a token may be sent to."""
    return {name: count, "num_experts_per_tok": min(random.choice([1, 2]), max(count, 1))}


def mamba_sizes(random: Random) -> dict[str, Any]:
    """What Mamba and Falcon Mamba share."""
    return {
        "hidden_size": random.choice([12, 24, 40]),
        "num_hidden_layers": random.randint(1, 4),
        "vocab_size": random.randint(50, 120),
        "pad_token_id": 0,
        **some(
            random,
            state_size=[3, 8],
            expand=[1, 2, 3],
            intermediate_size=[20, 36],
            conv_kernel=[2, 3, 5],
            use_bias=[True, False],
            use_conv_bias=[True, False],
            time_step_rank=["auto", 3, 7],
            tie_word_embeddings=[True, False],
            hidden_act=["gelu", "silu"],
        ),
    }


@space("mamba")
def mamba(random: Random) -> dict[str, Any]:
    return mamba_sizes(random) | named(random, "Mamba")


@space("falcon_mamba")
def falcon_mamba(random: Random) -> dict[str, Any]:
    return mamba_sizes(random) | named(random, "FalconMamba")


@space("mamba2")
def mamba2(random: Random) -> dict[str, Any]:
    heads, width, expand = random.choice([2, 4, 6]), random.choice([4, 8]), random.choice([1, 2])
    groups = random.choice([size for size in range(1, heads + 1) if heads % size == 0])
    return {
        "hidden_size": heads * width // expand,
        "expand": expand,
        "num_heads": heads,
        "head_dim": width,
        "n_groups": groups,
        "num_hidden_layers": random.randint(1, 4),
        "vocab_size": random.randint(50, 120),
        "pad_token_id": 0,
        **some(
            random,
            state_size=[3, 8],
            conv_kernel=[2, 3, 5],
            chunk_size=[4, 16],
            use_bias=[True, False],
            use_conv_bias=[True, False],
            tie_word_embeddings=[True, False],
        ),
        **named(random, "Mamba2"),
    }


@space("jamba")
def jamba(random: Random) -> dict[str, Any]:
    attention, experts = random.randint(1, 4), random.randint(1, 3)
    return {
        **grouped(random, head_dim=True),
        "num_hidden_layers": random.randint(1, 7),
        "attn_layer_period": attention,
        "attn_layer_offset": random.randrange(attention),
        "expert_layer_period": experts,
        "expert_layer_offset": random.randrange(experts),
        random.choice(["num_experts", "num_local_experts"]): random.choice([0, 1, 3, 6]),
        "num_experts_per_tok": random.choice([1, 2]),
        "mamba_d_state": random.choice([3, 8]),
        "mamba_dt_rank": random.choice(["auto", 5]),
        "mamba_expand": random.choice([1, 2, 3]),
        **some(random, mamba_d_conv=[2, 5], mamba_conv_bias=[True, False], mamba_proj_bias=[True, False]),
        **named(random, "Jamba", "ForSequenceClassification"),
        **some(random, num_labels=[3, 7]),
    }


def mamba2_heads(random: Random, width: int) -> dict[str, Any]:
    """Heads of Mamba-2 that fill a multiple of the width."""
    expand = random.choice([1, 2, 3])
    heads = random.choice([size for size in range(1, 9) if width * expand % size == 0])
    groups = random.choice([size for size in range(1, heads + 1) if heads % size == 0])
    return {
        "mamba_expand": expand,
        "mamba_n_heads": heads,
        "mamba_n_groups": groups,
        "mamba_d_head": random.choice(["auto", width * expand // heads]),
        "mamba_d_state": random.choice([3, 8]),
        **some(random, mamba_d_conv=[2, 5], mamba_conv_bias=[True, False], mamba_proj_bias=[True, False]),
        **some(random, mamba_chunk_size=[4, 16]),
    }


@space("granitemoehybrid")
def granite_hybrid(random: Random) -> dict[str, Any]:
    drawn = grouped(random, head_dim=True)
    words = random.choice([("mamba", "attention"), ("linear_attention", "full_attention")])
    kinds = [random.choice(words) for _ in range(drawn["num_hidden_layers"])]
    return {
        **drawn,
        **mamba2_heads(random, drawn["hidden_size"]),
        **({random.choice(["layer_types", "layers_block_type"]): kinds} if coin(random) else {}),
        **routed(random, random.choice([0, 1, 4]), "num_local_experts"),
        "shared_intermediate_size": random.choice([0, 12, 20]),
        **some(random, attention_bias=[True, False], position_embedding_type=["rope", "nope", None]),
        **named(random, "GraniteMoeHybrid"),
    }


@space("nemotron_h")
def nemotron_h(random: Random) -> dict[str, Any]:
    drawn = grouped(random, head_dim=True)
    letters = "".join(random.choice("ME*-") for _ in range(random.randint(1, 7)))
    words = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
    pattern: dict[str, Any] = random.choice(
        [
            {},
            {"hybrid_override_pattern": letters},
            {"layers_block_type": [words[letter] for letter in letters]},
            {"layer_types": [words[letter] for letter in letters]},
        ]
    )
    return {
        **drawn,
        **pattern,
        "mamba_num_heads": random.choice([2, 6]),
        "mamba_head_dim": random.choice([4, 5]),
        random.choice(["n_groups", "mamba_n_groups"]): random.choice([1, 2]),
        "ssm_state_size": random.choice([3, 8]),
        "moe_intermediate_size": random.choice([10, 14]),
        "moe_shared_expert_intermediate_size": random.choice([6, 18]),
        random.choice(["n_routed_experts", "num_local_experts"]): random.choice([2, 4]),
        **some(
            random,
            moe_latent_size=[5, 9, None],
            conv_kernel=[2, 5],
            mamba_d_conv=[3],
            use_bias=[True, False],
            mlp_bias=[True, False],
            attention_bias=[True, False],
            use_conv_bias=[True, False],
            mamba_conv_bias=[True, False],
            chunk_size=[4, 16],
            mamba_chunk_size=[8],
            n_shared_experts=[1, 2],
            mlp_hidden_act=["relu2", "silu"],
        ),
        **named(random, "NemotronH"),
    }


def delta_heads(random: Random, length: int) -> dict[str, Any]:
    """Gated delta networks, and which layers have them."""
    keys = random.choice([1, 2, 3])
    kinds = [random.choice(["linear_attention", "full_attention"]) for _ in range(length)]
    return {
        "linear_num_key_heads": keys,
        "linear_num_value_heads": keys * random.choice([1, 2]),
        "linear_key_head_dim": random.choice([4, 6]),
        "linear_value_head_dim": random.choice([4, 10]),
        "head_dim": random.choice([4, 8]),
        **some(
            random,
            linear_conv_kernel_dim=[2, 5],
            attention_bias=[True, False],
            layer_types=[kinds],
            full_attention_interval=[1, 2, 3],
        ),
    }


def gated_experts(random: Random) -> dict[str, Any]:
    """Experts, and a shared one."""
    return {
        **routed(random, random.choice([1, 4])),
        "moe_intermediate_size": random.choice([10, 14]),
        "shared_expert_intermediate_size": random.choice([0, 6, 18]),
    }


@space("qwen3_next")
def qwen3_next(random: Random) -> dict[str, Any]:
    drawn = grouped(random) | {"num_hidden_layers": random.randint(1, 7)}
    return {
        **drawn,
        **delta_heads(random, drawn["num_hidden_layers"]),
        **gated_experts(random),
        **some(random, num_experts=[0, 4], decoder_sparse_step=[1, 2, 3], mlp_only_layers=[[], [0], [1, 2]]),
        **named(random, "Qwen3Next", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"),
    }


@space("qwen3_5_text")
def qwen3_5_text(random: Random) -> dict[str, Any]:
    drawn = grouped(random) | {"num_hidden_layers": random.randint(1, 7)}
    return {
        **drawn,
        **delta_heads(random, drawn["num_hidden_layers"]),
        "architectures": ["Qwen3_5" + random.choice(["ForCausalLM", "TextModel", "TextForSequenceClassification"])],
    }


@space("qwen3_5_moe_text")
def qwen3_5_moe_text(random: Random) -> dict[str, Any]:
    drawn = grouped(random) | {"num_hidden_layers": random.randint(1, 7)}
    return {
        **drawn,
        **delta_heads(random, drawn["num_hidden_layers"]),
        **gated_experts(random),
        "architectures": ["Qwen3_5Moe" + random.choice(["ForCausalLM", "TextModel"])],
    }


@space("rwkv")
def rwkv(random: Random) -> dict[str, Any]:
    return {
        "hidden_size": random.choice([8, 12, 20]),
        "num_hidden_layers": random.randint(1, 4),
        "vocab_size": random.randint(50, 120),
        **some(
            random,
            attention_hidden_size=[8, 10],
            intermediate_size=[14, 30],
            tie_word_embeddings=[True, False],
            max_position_embeddings=[32],
        ),
        **named(random, "Rwkv"),
    }


@space("recurrent_gemma")
def recurrent_gemma(random: Random) -> dict[str, Any]:
    drawn = grouped(random, head_dim=True)
    return {
        **drawn,
        "num_hidden_layers": random.randint(1, 7),
        "intermediate_size": random.choice([24, 41]),
        **some(
            random,
            lru_width=[drawn["num_attention_heads"] * 5],
            conv1d_width=[2, 5],
            attention_window_size=[8],
            attention_bias=[True, False],
            block_types=[["recurrent"], ["attention", "recurrent"]],
            hidden_activation=["gelu", "silu"],
        ),
        **named(random, "RecurrentGemma"),
    }


def kinds_of(random: Random, length: int, *words: str) -> dict[str, Any]:
    """One word per layer."""
    return {"layer_types": [random.choice(words) for _ in range(length)]}


def short_convolutions(random: Random) -> dict[str, Any]:
    """What LFM's layers share."""
    return grouped(random, head_dim=True) | some(random, conv_bias=[True, False], conv_L_cache=[2, 5])


@space("lfm2")
def lfm2(random: Random) -> dict[str, Any]:
    drawn = short_convolutions(random)
    return {
        **drawn,
        **random.choice(
            [{}, {"full_attn_idxs": [0, 2]}, kinds_of(random, drawn["num_hidden_layers"], "conv", "full_attention")]
        ),
        **some(
            random,
            block_ff_dim=[31, 44],
            block_multiple_of=[1, 8, 16],
            block_ffn_dim_multiplier=[1.0, 1.3, 2, 0.7],
            block_auto_adjust_ff_dim=[True, False],
            tie_embedding=[True, False],
        ),
        **named(random, "Lfm2"),
    }


@space("lfm2_moe")
def lfm2_moe(random: Random) -> dict[str, Any]:
    drawn = short_convolutions(random)
    return {
        **drawn,
        **kinds_of(random, drawn["num_hidden_layers"], "conv", "full_attention"),
        **routed(random, random.choice([1, 4])),
        "moe_intermediate_size": random.choice([10, 14]),
        **some(random, num_dense_layers=[0, 1, 3], use_expert_bias=[True, False], tie_embedding=[True, False]),
        **named(random, "Lfm2Moe"),
    }


@space("lfm3")
def lfm3(random: Random) -> dict[str, Any]:
    drawn = short_convolutions(random) | {"num_hidden_layers": random.randint(1, 7), "head_dim": random.choice([4, 8])}
    words = ("conv", "full_attention", "sliding_attention")
    return {
        **drawn,
        **random.choice([{}, kinds_of(random, drawn["num_hidden_layers"], *words)]),
        **some(
            random,
            use_sandwich_norm=[True, False],
            sliding_window=[8],
            use_attention_gate=[True, False],
            attention_bias=[True, False],
        ),
        **named(random, "Lfm3"),
    }


@space("bamba")
def bamba(random: Random) -> dict[str, Any]:
    drawn = grouped(random, head_dim=True)
    return {
        **drawn,
        **mamba2_heads(random, drawn["hidden_size"]),
        **some(
            random,
            attn_layer_indices=[[0], [1, 2], []],
            attention_bias=[True, False],
            mlp_bias=[True, False],
        ),
        **named(random, "Bamba"),
    }


@space("falcon_h1")
def falcon_h1(random: Random) -> dict[str, Any]:
    drawn = grouped(random, head_dim=True)
    heads = mamba2_heads(random, drawn["hidden_size"])
    width = heads["mamba_n_heads"] * 5
    narrow = {"mamba_d_ssm": width, "mamba_d_head": random.choice(["auto", 5])}
    return {
        **drawn,
        **heads,
        **random.choice([narrow, {"mamba_d_ssm": None}]),
        **some(
            random,
            mamba_rms_norm=[True, False],
            projectors_bias=[True, False],
            attention_bias=[True, False],
            mlp_bias=[True, False],
        ),
        **named(random, "FalconH1"),
    }


def hybrid_layers(random: Random, length: int) -> dict[str, Any]:
    """At least two hybrid layers among these: transformers cannot tie a single one to itself."""
    kinds = ["hybrid", "hybrid", *(random.choice(["mamba", "hybrid", "linear_attention"]) for _ in range(length - 2))]
    random.shuffle(kinds)
    return {"num_hidden_layers": length, "layers_block_type": kinds}


@space("zamba")
def zamba(random: Random) -> dict[str, Any]:
    drawn = grouped(random)
    period = random.randint(1, 3)
    periods = {
        "num_hidden_layers": random.randint(7, 9),
        "attn_layer_period": period,
        "attn_layer_offset": random.randrange(period),
    }
    expand = random.choice([1, 2, 3])
    return {
        **drawn,
        **random.choice([periods, hybrid_layers(random, random.randint(2, 6))]),
        "mamba_expand": expand,
        "n_mamba_heads": random.choice([size for size in range(1, 5) if drawn["hidden_size"] * expand % size == 0]),
        **some(
            random,
            attention_hidden_size=[2 * drawn["hidden_size"]],
            attention_head_dim=[6, 10],
            mamba_d_state=[3, 8],
            mamba_d_conv=[2, 5],
            mamba_dt_rank=["auto", 5],
            mamba_conv_bias=[True, False],
            mamba_proj_bias=[True, False],
        ),
        **named(random, "Zamba", "ForSequenceClassification"),
    }


@space("zamba2")
def zamba2(random: Random) -> dict[str, Any]:
    """What adapters of attention give is as wide as what they read, so that heads must fill that."""
    drawn = grouped(random)
    expand = random.choice([1, 2])
    heads = random.choice([size for size in range(1, 9) if drawn["hidden_size"] * expand % size == 0])
    adapts = {"use_shared_attention_adapter": True, "num_key_value_heads": drawn["num_attention_heads"]}
    return {
        **drawn,
        **hybrid_layers(random, random.randint(2, 8)),
        "mamba_expand": expand,
        "n_mamba_heads": heads,
        "mamba_ngroups": random.choice([size for size in range(1, heads + 1) if heads % size == 0]),
        "adapter_rank": random.choice([3, 5]),
        **random.choice([adapts, some(random, use_shared_attention_adapter=[False], attention_head_dim=[6, 10])]),
        **some(
            random,
            num_mem_blocks=[1, 2],
            add_bias_linear=[True, False],
            attention_hidden_size=[2 * drawn["hidden_size"]],
            mamba_d_state=[3, 8],
            mamba_d_conv=[2, 5],
            chunk_size=[4, 16],
        ),
        **named(random, "Zamba2", "ForSequenceClassification"),
    }


@space("xlstm")
def xlstm(random: Random) -> dict[str, Any]:
    """Keys and values fill multiples of 64, for its cache rounds them up to such."""
    heads, width, length = random.choice([1, 2, 4]), random.choice([256, 512]), random.randint(1, 4)
    return {
        "hidden_size": width,
        "num_heads": heads,
        "num_hidden_layers": length,
        "vocab_size": random.randint(50, 120),
        "pad_token_id": 0,
        **some(
            random,
            use_bias=[True, False],
            embedding_dim=[width],
            num_blocks=[length],
            chunk_size=[4, 16],
            qk_dim_factor=[0.25, 1.0],
            v_dim_factor=[0.5, 2.0],
            ffn_proj_factor=[1.3, 2.0, 2.7],
            ffn_round_up_to_multiple_of=[1, 8, 10],
            weight_mode=["single", "fused"],
            tie_word_embeddings=[True, False],
        ),
        **named(random, "xLSTM"),
    }


@space("olmo_hybrid")
def olmo_hybrid(random: Random) -> dict[str, Any]:
    drawn = grouped(random, head_dim=True) | {"num_hidden_layers": random.randint(2, 9)}
    kinds = ["linear_attention", "full_attention"] * 5
    return {
        **drawn,
        **some(
            random,
            attention_bias=[True, False],
            layer_types=[kinds[: drawn["num_hidden_layers"]]],
            linear_num_key_heads=[drawn["num_attention_heads"], 3],
            linear_num_value_heads=[drawn["num_attention_heads"], 6],
            linear_key_head_dim=[4, 7],
            linear_value_head_dim=[5, 9],
            linear_conv_kernel_dim=[2, 5],
        ),
        **named(random, "OlmoHybrid"),
    }


def latent_and_experts(random: Random) -> dict[str, Any]:
    """What Kimi Linear and Bailing share."""
    drawn = grouped(random)
    drawn["num_key_value_heads"] = drawn["num_attention_heads"]
    length = random.randint(1, 7)
    kinds = {
        "layer_types": [random.choice(["full_attention", "linear_attention"]) for _ in range(length)],
        "mlp_layer_types": [random.choice(["dense", "sparse"]) for _ in range(length)],
    }
    return {
        **drawn,
        "num_hidden_layers": length,
        "kv_lora_rank": random.choice([5, 8]),
        "qk_nope_head_dim": random.choice([4, 6]),
        "qk_rope_head_dim": random.choice([2, 4]),
        "v_head_dim": random.choice([4, 10]),
        "moe_intermediate_size": random.choice([10, 14]),
        random.choice(["num_experts", "num_local_experts"]): random.choice([2, 4]),
        random.choice(["num_experts_per_tok", "num_experts_per_token"]): random.choice([1, 2]),
        random.choice(["n_shared_experts", "num_shared_experts"]): random.choice([1, 2]),
        **some(random, attention_bias=[True, False], first_k_dense_replace=[0, 1, 2]),
        **random.choice([{}, kinds, {"layer_types": kinds["layer_types"]}]),
    }


@space("kimi_linear")
def kimi_linear(random: Random) -> dict[str, Any]:
    drawn = latent_and_experts(random)
    places = list(range(1, drawn["num_hidden_layers"] + 1))
    full = [place for place in places if coin(random)]
    nested = {"num_heads": 3, "head_dim": 6, "short_conv_kernel_size": 5}
    lists = {"full_attn_layers": full, "kda_layers": [place for place in places if place not in full]}
    return {
        **drawn,
        "linear_num_heads": random.choice([2, 4]),
        "linear_head_dim": random.choice([4, 6]),
        **some(
            random,
            q_lora_rank=[None, 7],
            linear_conv_kernel_dim=[2, 3],
            linear_attn_config=[nested, lists, nested | lists],
        ),
        **named(random, "KimiLinear"),
    }


@space("bailing_hybrid")
def bailing_hybrid(random: Random) -> dict[str, Any]:
    return {
        **latent_and_experts(random),
        "n_group": 1,
        "topk_group": 1,
        "head_dim": random.choice([4, 6]),
        **some(
            random,
            layer_group_size=[1, 2, 3],
            short_conv_kernel_size=[2, 3],
            linear_num_heads=[3],
            linear_head_dim=[8],
            linear_conv_kernel_dim=[5],
        ),
        **named(random, "BailingHybrid"),
    }
