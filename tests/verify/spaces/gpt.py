"""GPT-1, GPT-2 and those after them."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space


def either(random: Random, field: str, value: object) -> dict[str, Any]:
    """The field with this value, with null, or not there."""
    return random.choice([{}, {field: None}, {field: value}])


def two_ends(drawn: dict[str, Any]) -> dict[str, Any]:
    """The same; where an answer starts and ends are two numbers, and no other number of them runs."""
    simple = drawn["architectures"][0].endswith(("ForQuestionAnsweringSimple", "ForQuestionAnswering"))
    return without(drawn, "num_labels") if simple else drawn


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
    """Nothing but sizes and heads. Where two heads are tied, transformers names the table after the logits."""
    config = (
        openai(random)
        | classes(random, "OpenAIGPT", "Model", "LMHeadModel", "DoubleHeadsModel", "ForSequenceClassification")
        | {"afn": random.choice(["gelu", "relu"])}
        | {"summary_use_proj": coin(random), "summary_proj_to_labels": coin(random)}
    )
    return config | ({"tie_word_embeddings": False} if "DoubleHeads" in config["architectures"][0] else {})


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
        "window_size": random.randint(3, 9),
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
    sizes = without(openai(random), "n_embd", "hidden_size", "n_head", "num_attention_heads")
    heads = random.choice([4, 8])  # transformers splits them into four parts
    sizes |= {"n_embd": heads * random.choice([4, 8]), "n_head": heads, "rotary_dim": 4}
    return sizes | inner | classes(random, "CodeGen", "Model", "ForCausalLM")


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
    """The older architecture, with sub-layers side by side or one after the other, and the newer.

    The newer one is always side by side. The older knows groups only where they are one or all, and a single norm.
    """
    sizes, newer = grouped(random), coin(random)
    flags = {name: coin(random) for name in ("bias", "alibi", "multi_query", "parallel_attn")}
    groups = either(random, "num_kv_heads", sizes["num_key_value_heads"]) if newer or flags["multi_query"] else {}
    return (
        without(sizes, "num_key_value_heads", "intermediate_size")
        | flags
        | groups
        | either(random, "ffn_hidden_size", random.randint(20, 50))
        | either(random, "num_ln_in_parallel_attn", random.choice([1, 2]) if newer else 1)
        | {"new_decoder_architecture": newer, "parallel_attn": newer or flags["parallel_attn"]}
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
    return sizes | random.choice([{"qk_layernorm": True}, {"qk_layernorm": False}, {"head_dim": 12}])


@space("starcoder2")
def starcoder2(random: Random) -> dict[str, Any]:
    """Biases everywhere or nowhere."""
    window = either(random, "sliding_window", random.randint(3, 9))
    sizes = grouped(random, head_dim=True)
    return sizes | classes(random, "Starcoder2", *GENERIC) | {"use_bias": coin(random)} | window


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


@space("xlnet")
def xlnet(random: Random) -> dict[str, Any]:
    """Looking back or both ways; each of its heads."""
    kinds = ("Model", "LMHeadModel", "ForSequenceClassification", "ForMultipleChoice", "ForTokenClassification")
    heads = random.choice([2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "n_head": heads,
        "n_layer": random.randint(1, 4),
        "d_inner": random.randint(20, 50),
        "vocab_size": random.randint(50, 120),
        "attn_type": random.choice(["bi", "uni"]),
        "untie_r": coin(random),
        "summary_use_proj": coin(random),
        "tie_word_embeddings": coin(random),
        **two_ends(classes(random, "XLNet", *kinds, "ForQuestionAnswering", "ForQuestionAnsweringSimple")),
    }


@space("gpt_neox_japanese")
def gpt_neox_japanese(random: Random) -> dict[str, Any]:
    """From a single layer on."""
    sizes = without(plain(random), "intermediate_size") | {"intermediate_multiple_size": random.randint(1, 5)}
    return sizes | classes(random, "GPTNeoXJapanese", "Model", "ForCausalLM")


@space("fuyu")
def fuyu(random: Random) -> dict[str, Any]:
    """The language model nested, or not set apart."""
    text = without(plain(random), "tie_word_embeddings") | {"qk_layernorm": coin(random)}
    sizes = {"patch_size": random.choice([2, 3]), "image_size": 10, "num_channels": random.choice([1, 3])}
    nested = {"text_config": {"model_type": "persimmon", **text}} if coin(random) else text
    tied = {"tie_word_embeddings": coin(random)}
    return nested | sizes | tied | classes(random, "Fuyu", "Model", "ForCausalLM")


@space("trocr")
def trocr(random: Random) -> dict[str, Any]:
    """An encoder of any width; positions trained or fixed."""
    heads = random.choice([2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "decoder_attention_heads": heads,
        "decoder_layers": random.randint(1, 4),
        "decoder_ffn_dim": random.randint(20, 50),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": 32,
        "use_learned_position_embeddings": coin(random),
        "layernorm_embedding": coin(random),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 1,
        **either(random, "cross_attention_hidden_size", 12),
        **classes(random, "TrOCR", "ForCausalLM"),
    }


@space("cpmant")
def cpmant(random: Random) -> dict[str, Any]:
    """Heads of any width; prompts and segments."""
    sizes = without(plain(random), "intermediate_size", "max_position_embeddings")
    names = ("prompt_types", "prompt_length", "segment_types", "position_bias_num_buckets")
    wide = {"dim_head": random.choice([4, 6]), "dim_ff": random.randint(20, 50)}
    counts = {name: random.randint(4, 6) for name in names}  # fewer buckets of positions cannot be halved twice
    return sizes | wide | counts | classes(random, "CpmAnt", "Model", "ForCausalLM")


@space("git")
def git(random: Random) -> dict[str, Any]:
    """One image or several."""
    images = either(random, "num_image_with_embedding", random.randint(1, 3))
    return (
        plain(random) | {"vision_config": git_sight(random)} | images | classes(random, "Git", "Model", "ForCausalLM")
    )


def git_sight(random: Random) -> dict[str, Any]:
    """CLIP's sizes."""
    return {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": 2,
        "image_size": random.choice([12, 13]),
        "patch_size": random.choice([3, 4]),
        "num_channels": random.choice([1, 3]),
    }


@space("git_vision_model")
def git_vision(random: Random) -> dict[str, Any]:
    """The image's part by itself."""
    return git_sight(random) | {"architectures": ["GitVisionModel"]}


@space("moshi")
def moshi(random: Random) -> dict[str, Any]:
    """Grouped heads of any width."""
    sizes = without(grouped(random, head_dim=True), "intermediate_size")
    ffn = {"ffn_dim": 2 * random.randint(10, 30)}
    return sizes | ffn | classes(random, "Moshi", "Model", "ForCausalLM")


def xlm_like(random: Random, prefix: str) -> dict[str, Any]:
    """Languages with vectors or without; each of its heads."""
    kinds = ("Model", "WithLMHeadModel", "ForSequenceClassification", "ForMultipleChoice", "ForTokenClassification")
    heads = random.choice([2, 4])
    flags = ("gelu_activation", "causal", "use_lang_emb", "sinusoidal_embeddings", "summary_use_proj")
    drawn = {
        "emb_dim": heads * random.choice([4, 8]),
        "n_heads": heads,
        "n_layers": random.randint(1, 4),
        "n_langs": random.randint(1, 3),
        random.choice(["vocab_size", "n_words"]): random.randint(50, 120),
        "max_position_embeddings": 32,
        "tie_word_embeddings": coin(random),
        **{flag: coin(random) for flag in flags},
        **two_ends(classes(random, prefix, *kinds, "ForQuestionAnswering", "ForQuestionAnsweringSimple")),
    }
    # One number for each choice is made of its labels' logits.
    return drawn | ({"summary_use_proj": True} if drawn["architectures"][0].endswith("ForMultipleChoice") else {})


@space("xlm")
def xlm(random: Random) -> dict[str, Any]:
    """XLM's classes."""
    return xlm_like(random, "XLM")


@space("flaubert")
def flaubert(random: Random) -> dict[str, Any]:
    """FlauBERT's classes."""
    return xlm_like(random, "Flaubert") | {"pre_norm": coin(random)}


@space("reformer")
def reformer(random: Random) -> dict[str, Any]:
    """Both kinds of attention; positions by axes or not. It trains on whole chunks and axes alone: on five tokens."""
    kinds = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering")
    sizes = without(plain(random), "num_hidden_layers", "intermediate_size")
    first, chunk = random.randint(1, sizes["hidden_size"] - 1), random.choice([1, 8])
    return {
        **sizes,
        "max_position_embeddings": 5,
        "attn_layers": [random.choice(["local", "lsh"]) for _ in range(random.randint(1, 5))],
        "attention_head_size": random.choice([4, 6]),
        "feed_forward_size": random.randint(20, 50),
        "axial_pos_embds": coin(random),
        "axial_pos_shape": random.choice([[1, 5], [5, 1]]),
        "axial_pos_embds_dim": [first, sizes["hidden_size"] - first],
        "num_hashes": random.randint(1, 3),
        "num_buckets": random.choice([2, 4, [2, 4]]),
        "local_attn_chunk_length": chunk,
        "lsh_attn_chunk_length": chunk,
        **two_ends(classes(random, "Reformer", *kinds)),
    }


@space("xmod")
def xmod(random: Random) -> dict[str, Any]:
    """Languages; norms of adapters and of the last layer; a decoder that reads an encoder."""
    kinds = ("Model", "ForCausalLM", "ForMaskedLM", "ForSequenceClassification", "ForMultipleChoice")
    decoder = coin(random)
    return {
        **plain(random),
        "languages": random.choice([["en_XX"], ["en_XX", "de_DE", "fr_XX"]]),
        "adapter_reduction_factor": random.choice([1, 2, 3]),
        "type_vocab_size": random.randint(1, 3),
        **{flag: coin(random) for flag in ("adapter_layer_norm", "adapter_reuse_layer_norm", "pre_norm")},
        "is_decoder": decoder,
        "add_cross_attention": decoder and coin(random),
        **two_ends(classes(random, "Xmod", *kinds, "ForTokenClassification", "ForQuestionAnswering")),
    }


@space("doge")
def doge(random: Random) -> dict[str, Any]:
    """With experts and without."""
    flags = {flag: coin(random) for flag in ("attention_bias", "mlp_bias", "is_moe")}
    experts = {"num_experts": random.randint(9, 40), "num_experts_per_tok": random.randint(1, 4)}
    kinds = ("Model", "ForCausalLM", "ForSequenceClassification")
    return grouped(random, head_dim=True) | flags | experts | classes(random, "Doge", *kinds)


@space("hrm_text")
def hrm_text(random: Random) -> dict[str, Any]:
    """Both ways to say how many layers are stored."""
    flags = {flag: coin(random) for flag in ("attention_bias", "mlp_bias")}
    cycles = {"H_cycles": random.randint(1, 3), "L_cycles": random.randint(1, 3), "head_dim": random.choice([4, 6])}
    stored = random.randint(1, 3)
    runs = stored * cycles["H_cycles"] * (cycles["L_cycles"] + 1)
    stacks = random.choice([{}, {"num_layers_per_stack": stored, "num_hidden_layers": runs}])
    trained = either(random, "L_bp_cycles", random.choices([1, 2, 3], k=random.randint(1, 3)))
    return plain(random) | flags | cycles | stacks | trained | classes(random, "HrmText", "Model", "ForCausalLM")


@space("blt")
def blt(random: Random) -> dict[str, Any]:
    """Four models of sizes of their own; with and without the one that cuts the patches."""

    def part() -> dict[str, Any]:
        sizes = without(grouped(random), "max_position_embeddings", "tie_word_embeddings", "pad_token_id")
        return sizes if coin(random) else without(sizes, "intermediate_size", "num_key_value_heads")

    k, encoder, decoder, whole, patcher = random.randint(1, 3), part(), part(), part(), part()
    decoder |= {name: encoder[name] for name in ("hidden_size", "num_attention_heads")} | {"num_key_value_heads": None}
    for nested in (encoder, decoder):
        nested |= {"cross_attn_k": k, "cross_attn_all_layers": coin(random), "vocab_size": 60}
    return {
        "vocab_size": 60,
        "encoder_config": encoder,
        "decoder_config": decoder | {"hidden_size_global": whole["hidden_size"]},
        "global_config": without(whole, "vocab_size"),
        "patcher_config": patcher,
        "cross_attn_k": k,
        "tie_word_embeddings": coin(random),
        "patch_in_forward": coin(random),
        "encoder_hash_byte_group_vocab": random.randint(20, 50),
        "encoder_hash_byte_group_nb_functions": random.randint(1, 2),
        **random.choice([{}, {"encoder_hash_byte_group_size": [3, 4]}]),
        **classes(random, "Blt", "Model", "ForCausalLM"),
    }
