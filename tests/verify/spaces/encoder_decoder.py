"""Two models as one."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space


def _bert(random: Random, kind: str) -> dict[str, Any]:
    fields = grouped(random)
    del fields["num_key_value_heads"]
    return fields | {"model_type": kind, "type_vocab_size": 2, "max_position_embeddings": 64}


@space("encoder-decoder")
def encoder_decoder(random: Random) -> dict[str, Any]:
    """BERT and RoBERTa as they come; the decoder attends to the encoder if its own config says so."""
    reads = {"is_decoder": True, "add_cross_attention": True} if random.random() < 0.8 else {"is_decoder": coin(random)}
    kinds = ["bert", "roberta"]
    return {
        "encoder": _bert(random, random.choice(kinds)),
        "decoder": _bert(random, random.choice(kinds)) | reads,
    }
