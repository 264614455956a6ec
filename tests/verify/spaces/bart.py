"""BART and its kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space

GENERATION, CAUSAL, QUESTIONS = "ForConditionalGeneration", "ForCausalLM", "ForQuestionAnswering"


def both_stacks(random: Random) -> dict[str, Any]:
    """Two stacks of different depth, width of feed-forward network and number of heads."""
    heads = random.choice([2, 4])
    return {
        "d_model": heads * random.choice([4, 12]),
        "encoder_layers": random.randint(1, 4),
        "encoder_ffn_dim": random.choice([24, 40]),
        "encoder_attention_heads": heads,
        "decoder_layers": random.randint(1, 4),
        "decoder_ffn_dim": random.choice([16, 56]),
        "decoder_attention_heads": random.choice([1, 2]),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": random.choice([32, 64]),
        "activation_function": random.choice(["gelu", "relu", "swish", "gelu_new"]),
        "tie_word_embeddings": coin(random),
        "scale_embedding": coin(random),
        "pad_token_id": 0,
        "decoder_start_token_id": 2,
    }


def of(random: Random, name: str, *heads: str) -> dict[str, Any]:
    """One of the classes, with as many labels as it may need."""
    labels = {"num_labels": random.randint(1, 5)} if coin(random) else {}
    return {"architectures": [name + random.choice(heads)], **labels}


@space("bart")
def bart(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(random, "Bart", "Model", GENERATION, CAUSAL, "ForSequenceClassification", QUESTIONS)


@space("mbart")
def mbart(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(
        random, "MBart", "Model", GENERATION, CAUSAL, "ForSequenceClassification", QUESTIONS
    )


@space("blenderbot")
def blenderbot(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(random, "Blenderbot", "Model", GENERATION, CAUSAL)


@space("pegasus")
def pegasus(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(random, "Pegasus", "Model", GENERATION, CAUSAL)


@space("m2m_100")
def m2m_100(random: Random) -> dict[str, Any]:
    """All heads."""
    return both_stacks(random) | of(random, "M2M100", "Model", GENERATION)


@space("led")
def led(random: Random) -> dict[str, Any]:
    """Tables of positions of their own, a window for all layers or for each."""
    config = both_stacks(random)
    window = random.choice([4, 8])
    return (
        config
        | {
            "max_encoder_position_embeddings": random.choice([48, 64]),
            "max_decoder_position_embeddings": random.choice([40, 56]),
            "attention_window": [window] * config["encoder_layers"] if coin(random) else window,
        }
        | of(random, "LED", "Model", GENERATION, QUESTIONS)
    )


@space("marian")
def marian(random: Random) -> dict[str, Any]:
    """One language's words, or two languages'."""
    config = both_stacks(random)
    share = coin(random)
    other = {"decoder_vocab_size": random.choice([None, random.randint(40, 130)])}
    return (
        config
        | {"share_encoder_decoder_embeddings": share, "eos_token_id": 1, "forced_eos_token_id": 1}
        | other
        | of(random, "Marian", "Model", "MTModel", CAUSAL)
    )
