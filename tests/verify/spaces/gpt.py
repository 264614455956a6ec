"""GPT-1, GPT-2 and those after them."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space


def either(random: Random, field: str, value: object) -> dict[str, Any]:
    """The field with this value, with null, or not there."""
    return random.choice([{}, {field: None}, {field: value}])


def classes(random: Random, prefix: str, *ends: str) -> dict[str, Any]:
    """One of these classes, with some labels."""
    return {"architectures": [prefix + random.choice(ends)]} | random.choice([{}, {"num_labels": random.randint(2, 5)}])


def openai(random: Random) -> dict[str, Any]:
    """Sizes by OpenAI's names, or by those that transformers takes as well."""
    heads = random.choice([2, 4, 6])
    h, n = heads * random.choice([4, 8]), random.randint(1, 4)
    short = coin(random)
    return {
        "n_embd" if short else "hidden_size": h,
        "n_head" if short else "num_attention_heads": heads,
        "n_layer" if coin(random) else "num_hidden_layers": n,
        "n_positions" if short else "max_position_embeddings": random.choice([32, 64]),
        "vocab_size": random.randint(50, 120),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


GENERIC = ("Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification")
ASKED = (*GENERIC, "ForQuestionAnswering")


@space("gpt2", "gpt-sw3")
def gpt2(random: Random) -> dict[str, Any]:
    """With and without an encoder to read."""
    heads = ("Model", "LMHeadModel", "DoubleHeadsModel", "ForSequenceClassification", "ForTokenClassification")
    return (
        openai(random)
        | either(random, "n_inner", random.randint(20, 50))
        | classes(random, "GPT2", *heads, "ForQuestionAnswering")
        | {
            "add_cross_attention": coin(random),
            "summary_use_proj": coin(random),
            "summary_proj_to_labels": coin(random),
            "activation_function": random.choice(["gelu", "relu", "gelu_new"]),
        }
    )


@space("gpt_bigcode")
def gpt_bigcode(random: Random) -> dict[str, Any]:
    """One head of keys and values, or many; only many can read an encoder."""
    multi_query = coin(random)
    return (
        openai(random)
        | either(random, "n_inner", random.randint(20, 50))
        | classes(random, "GPTBigCode", *GENERIC)
        | {"multi_query": multi_query, "add_cross_attention": not multi_query and coin(random)}
    )


@space("openai-gpt")
def openai_gpt(random: Random) -> dict[str, Any]:
    """Nothing but sizes and heads."""
    return (
        openai(random)
        | classes(random, "OpenAIGPT", "Model", "LMHeadModel", "DoubleHeadsModel", "ForSequenceClassification")
        | {"afn": random.choice(["gelu", "relu"])}
        | {"summary_use_proj": coin(random), "summary_proj_to_labels": coin(random)}
    )


@space("gpt_neo")
def gpt_neo(random: Random) -> dict[str, Any]:
    """Layers that see all or a window."""
    pairs = random.randint(1, 2)
    heads = random.choice([2, 4])
    return {
        "hidden_size": heads * 8,
        "num_heads": heads,
        "num_layers": 2 * pairs,
        "attention_types": [[random.choice([["global", "local"], ["global", "global"]]), pairs]],
        "max_position_embeddings": 32,
        "vocab_size": random.randint(50, 120),
        "tie_word_embeddings": coin(random),
        "bos_token_id": 1,
        "eos_token_id": 2,
        **either(random, "intermediate_size", random.randint(20, 50)),
        **classes(random, "GPTNeo", *ASKED),
    }


@space("gptj")
def gptj(random: Random) -> dict[str, Any]:
    """With a width of its own, or without."""
    heads = ("Model", "ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering")
    inner = either(random, "n_inner", random.randint(20, 50))
    return openai(random) | inner | classes(random, "GPTJ", *heads) | {"rotary_dim": 4}


@space("codegen")
def codegen(random: Random) -> dict[str, Any]:
    """With a width of its own, or without."""
    inner = either(random, "n_inner", random.randint(20, 50))
    return openai(random) | inner | classes(random, "CodeGen", "Model", "ForCausalLM") | {"rotary_dim": 4}


@space("ctrl")
def ctrl(random: Random) -> dict[str, Any]:
    """Nothing but sizes."""
    heads = ("Model", "LMHeadModel", "ForSequenceClassification")
    return openai(random) | classes(random, "CTRL", *heads) | {"dff": random.randint(20, 50)}


def plain(random: Random) -> dict[str, Any]:
    """Sizes by the usual names, heads that are not grouped."""
    sizes = grouped(random)
    del sizes["num_key_value_heads"]
    return sizes | {"bos_token_id": 1, "eos_token_id": 2}


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    """The config without these fields."""
    return {name: value for name, value in config.items() if name not in names}


@space("gpt_neox")
def gpt_neox(random: Random) -> dict[str, Any]:
    """With biases in attention and without."""
    flags = {"attention_bias": coin(random), "use_parallel_residual": coin(random)}
    return plain(random) | classes(random, "GPTNeoX", *ASKED) | flags


@space("bloom")
def bloom(random: Random) -> dict[str, Any]:
    """The hidden size by either name."""
    sizes = plain(random)
    width = sizes.pop("hidden_size")
    sizes |= {"n_embed" if coin(random) else "hidden_size": width}
    return without(sizes, "intermediate_size", "max_position_embeddings") | classes(random, "Bloom", *ASKED)


@space("falcon")
def falcon(random: Random) -> dict[str, Any]:
    """The older and the newer architecture, each with sub-layers side by side or one after the other."""
    sizes = grouped(random)
    return (
        without(sizes, "num_key_value_heads", "intermediate_size")
        | either(random, "num_kv_heads", sizes["num_key_value_heads"])
        | either(random, "ffn_hidden_size", random.randint(20, 50))
        | either(random, "num_ln_in_parallel_attn", random.choice([1, 2]))
        | {name: coin(random) for name in ("bias", "alibi", "multi_query", "parallel_attn", "new_decoder_architecture")}
        | classes(random, "Falcon", *ASKED)
        | {"bos_token_id": 1, "eos_token_id": 2}
    )


@space("persimmon")
def persimmon(random: Random) -> dict[str, Any]:
    """With norms of queries and keys and without."""
    return plain(random) | classes(random, "Persimmon", *GENERIC) | {"qk_layernorm": coin(random)}


@space("mpt")
def mpt(random: Random) -> dict[str, Any]:
    """What transformers does not heed is drawn too."""
    heads = random.choice([2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "n_heads": heads,
        "n_layers": random.randint(1, 4),
        "vocab_size": random.randint(50, 120),
        "expansion_ratio": random.choice([2, 4]),
        "learned_pos_emb": coin(random),
        "no_bias": coin(random),
        "tie_word_embeddings": coin(random),
        "attn_config": {"alibi": coin(random), "qk_ln": coin(random)},
        "pad_token_id": 0,
        **classes(random, "Mpt", *ASKED),
    }


@space("phi")
def phi(random: Random) -> dict[str, Any]:
    """Grouped heads of any width; the norms of queries and keys are as wide as heads that split the hidden size."""
    kinds = ("Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification")
    sizes = grouped(random) | classes(random, "Phi", *kinds)
    return sizes | {"qk_layernorm": coin(random)} | random.choice([{}, {"head_dim": 6}])


@space("starcoder2")
def starcoder2(random: Random) -> dict[str, Any]:
    """Biases everywhere or nowhere."""
    return grouped(random, head_dim=True) | classes(random, "Starcoder2", *GENERIC) | {"use_bias": coin(random)}


@space("opt")
def opt(random: Random) -> dict[str, Any]:
    """Word vectors of a width of their own; norms with and without weights, before and after."""
    sizes = plain(random)
    flags = ("do_layer_norm_before", "_remove_final_layer_norm", "enable_bias", "layer_norm_elementwise_affine")
    return (
        without(sizes, "intermediate_size")
        | {"ffn_dim": random.randint(20, 50)}
        | random.choice([{}, {"word_embed_proj_dim": random.choice([10, sizes["hidden_size"]])}])
        | {flag: coin(random) for flag in flags}
        | classes(random, "OPT", "Model", "ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering")
    )


@space("xglm")
def xglm(random: Random) -> dict[str, Any]:
    """With and without an encoder to read."""
    heads = random.choice([2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "attention_heads": heads,
        "num_layers": random.randint(1, 4),
        "ffn_dim": random.randint(20, 50),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": 32,
        "add_cross_attention": coin(random),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
        "eos_token_id": 2,
        **classes(random, "XGLM", "Model", "ForCausalLM"),
    }


@space("biogpt")
def biogpt(random: Random) -> dict[str, Any]:
    """Nothing but sizes."""
    return plain(random) | classes(random, "BioGpt", *GENERIC)
