"""T5 and its kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space
from tests.verify.spaces.bart import GENERATION, QUESTIONS, of

ALL = ("Model", "EncoderModel", GENERATION, "ForSequenceClassification", "ForTokenClassification", QUESTIONS)
FEW = ("Model", "EncoderModel", GENERATION)


def stacks(random: Random) -> dict[str, Any]:
    """Heads that together are not as wide as the model; transformers ties here whatever it is told."""
    return {
        "d_model": random.choice([16, 24, 40]),
        "d_kv": random.choice([4, 8]),
        "d_ff": random.choice([24, 56]),
        "num_layers": random.randint(1, 5),
        "num_decoder_layers": random.choice([None, 1, 3]),
        "num_heads": random.choice([2, 3, 4]),
        "relative_attention_num_buckets": random.choice([8, 32]),
        "vocab_size": random.randint(50, 120),
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }


def network(random: Random) -> dict[str, Any]:
    """With a gate or without; old files say it in two ways."""
    told = {"is_gated_act": coin(random)} if random.random() < 0.3 else {}
    return {"feed_forward_proj": random.choice(["relu", "gated-gelu", "gelu", "gated-silu"])} | told


def _head(random: Random, name: str) -> dict[str, Any]:
    """Any; where an answer starts and ends are two labels, and more do not run."""
    built = of(random, name, *ALL)
    return built | ({"num_labels": 2} if built["architectures"][0].endswith(QUESTIONS) else {})


@space("t5")
def t5(random: Random) -> dict[str, Any]:
    """All heads."""
    return stacks(random) | network(random) | _head(random, "T5")


@space("mt5")
def mt5(random: Random) -> dict[str, Any]:
    """All heads."""
    return stacks(random) | network(random) | _head(random, "MT5")


@space("umt5")
def umt5(random: Random) -> dict[str, Any]:
    """All heads."""
    return stacks(random) | network(random) | _head(random, "UMT5")


@space("longt5")
def longt5(random: Random) -> dict[str, Any]:
    """Both ways to attend."""
    kind = {
        "encoder_attention_type": random.choice(["local", "transient-global"]),
        "local_radius": random.choice([3, 127]),
        "global_block_size": random.choice([2, 16]),
    }
    return stacks(random) | network(random) | kind | of(random, "LongT5", *FEW)


@space("switch_transformers")
def switch_transformers(random: Random) -> dict[str, Any]:
    """Experts in some layers, in all, in none; the step between them may be told."""
    told = {"encoder_sparse_step": random.choice([1, 2, 3])} if random.random() < 0.3 else {}
    return (
        stacks(random)
        | {
            "num_sparse_encoder_layers": random.randint(0, 4),
            "num_sparse_decoder_layers": random.randint(0, 4),
            "num_experts": random.choice([2, 5]),
            "router_bias": coin(random),
            "tie_word_embeddings": coin(random),
            "dense_act_fn": random.choice(["relu", "gelu"]),
        }
        | told
        | of(random, "SwitchTransformers", *FEW)
    )
