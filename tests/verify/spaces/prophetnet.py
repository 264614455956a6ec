"""ProphetNet."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space
from tests.verify.spaces.bart import CAUSAL, GENERATION, of


@space("prophetnet")
def prophetnet(random: Random) -> dict[str, Any]:
    """More or fewer streams; the decoder by itself with and without cross-attention."""
    built = of(random, "ProphetNet", "Model", GENERATION, CAUSAL)
    alone = built["architectures"][0].endswith(CAUSAL)
    heads = random.choice([2, 4])
    return {
        "hidden_size": heads * random.choice([4, 12]),
        "num_encoder_layers": random.randint(1, 4),
        "encoder_ffn_dim": random.choice([24, 40]),
        "num_encoder_attention_heads": heads,
        "num_decoder_layers": random.randint(1, 4),
        "decoder_ffn_dim": random.choice([16, 56]),
        "num_decoder_attention_heads": random.choice([1, 2]),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": random.choice([32, 64]),
        "ngram": random.choice([1, 2, 3]),
        "num_buckets": random.choice([8, 32]),
        "add_cross_attention": coin(random) or not alone,
        "tie_word_embeddings": coin(random),
        **built,
    }
