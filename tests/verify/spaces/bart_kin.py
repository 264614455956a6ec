"""BART's further kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space
from tests.verify.spaces.bart import CAUSAL, GENERATION, QUESTIONS, both_stacks, of

SENTENCES = "ForSequenceClassification"


@space("plbart")
def plbart(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(random, "PLBart", "Model", GENERATION, CAUSAL, SENTENCES)


@space("blenderbot-small")
def blenderbot_small(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(random, "BlenderbotSmall", "Model", GENERATION, CAUSAL)


@space("mvp")
def mvp(random: Random) -> dict[str, Any]:
    """With and without prompts."""
    prompts = {"use_prompt": coin(random), "prompt_length": random.choice([3, 5]), "prompt_mid_dim": 7}
    return both_stacks(random) | prompts | of(random, "Mvp", "Model", GENERATION, CAUSAL, SENTENCES, QUESTIONS)


@space("bigbird_pegasus")
def bigbird_pegasus(random: Random) -> dict[str, Any]:
    """Sparse and full attention (short sequences have full attention anyway), with and without biases."""
    config = both_stacks(random)
    kind = random.choice(["block_sparse", "original_full"])
    return (
        config
        | {"attention_type": kind, "use_bias": coin(random)}
        | {"block_size": 2, "num_random_blocks": random.choice([1, 3])}
        | of(random, "BigBirdPegasus", "Model", GENERATION, CAUSAL, SENTENCES, QUESTIONS)
    )


@space("pegasus_x")
def pegasus_x(random: Random) -> dict[str, Any]:
    """More or fewer global tokens; staggered blocks or not."""
    config = both_stacks(random)
    tokens = {"num_global_tokens": random.choice([2, 5]), "block_size": 4, "stagger_local_blocks": coin(random)}
    return config | tokens | of(random, "PegasusX", "Model", GENERATION)


@space("nllb-moe")
def nllb_moe(random: Random) -> dict[str, Any]:
    """Experts in all layers, in some, in none."""
    return (
        both_stacks(random)
        | {
            "num_experts": random.choice([3, 4]),
            "encoder_sparse_step": random.randint(0, 3),
            "decoder_sparse_step": random.randint(0, 3),
            "router_bias": coin(random),
        }
        | of(random, "NllbMoe", "Model", GENERATION)
    )


@space("fsmt")
def fsmt(random: Random) -> dict[str, Any]:
    """Two languages."""
    config = both_stacks(random)
    del config["vocab_size"]
    return (
        config
        | {
            "src_vocab_size": random.randint(50, 120),
            "tgt_vocab_size": random.randint(50, 120),
            "pad_token_id": random.choice([0, 1, 3]),
        }
        | of(random, "FSMT", "Model", GENERATION)
    )


@space("seamless_m4t")
def seamless_m4t(random: Random) -> dict[str, Any]:
    """Texts only."""
    config = both_stacks(random)
    config["hidden_size"] = config.pop("d_model")
    return config | {"architectures": ["SeamlessM4TForTextToText"]}
