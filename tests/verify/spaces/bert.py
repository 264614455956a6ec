"""BERT and its kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space

TASKS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
DECODES = (*TASKS, "ForCausalLM")
PAIRS = ("ForPreTraining", "ForNextSentencePrediction")


def encoder(random: Random, name: str, heads: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """A small encoder as one of the classes ``name`` + head."""
    n_heads = random.choice([2, 3, 4])
    return {
        "architectures": [name + random.choice(heads)],
        "hidden_size": n_heads * random.choice([4, 8, 12]),
        "num_attention_heads": n_heads,
        "num_hidden_layers": random.randint(1, 4),
        "intermediate_size": random.choice([24, 40, 56]),
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": random.choice([32, 66]),
        "type_vocab_size": random.randint(1, 3),
        "hidden_act": random.choice(["gelu", "relu", "silu", "gelu_new"]),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
        **labels(random),
        **more,
    }


def labels(random: Random) -> dict[str, Any]:
    """Two labels by default, or any number of them."""
    return {"num_labels": random.randint(1, 5)} if coin(random) else {}


def decoder(random: Random, name: str, heads: tuple[str, ...] = DECODES, **more: Any) -> dict[str, Any]:
    """The same, that may look only back and read a memory."""
    back = coin(random)
    return encoder(random, name, heads, is_decoder=back, add_cross_attention=back and coin(random), **more)


@space("bert")
def bert(random: Random) -> dict[str, Any]:
    """All of its classes."""
    return decoder(random, "Bert", (*TASKS, *PAIRS, "LMHeadModel"))


@space("ernie")
def ernie(random: Random) -> dict[str, Any]:
    """With tasks or without."""
    more = {"use_task_id": coin(random), "task_type_vocab_size": random.randint(1, 4)}
    return decoder(random, "Ernie", (*DECODES, *PAIRS), **more)


@space("megatron-bert")
def megatron_bert(random: Random) -> dict[str, Any]:
    """Norms before the sub-layers."""
    return decoder(random, "MegatronBert", (*DECODES, *PAIRS))


@space("layoutlm")
def layoutlm(random: Random) -> dict[str, Any]:
    """Places on a page."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
    return encoder(random, "LayoutLM", heads, max_2d_position_embeddings=random.choice([16, 20]))


@space("roberta")
def roberta(random: Random) -> dict[str, Any]:
    """Its classes."""
    return decoder(random, "Roberta")


@space("xlm-roberta")
def xlm_roberta(random: Random) -> dict[str, Any]:
    """RoBERTa by another name."""
    return decoder(random, "XLMRoberta")


@space("camembert")
def camembert(random: Random) -> dict[str, Any]:
    """RoBERTa by another name."""
    return decoder(random, "Camembert")


@space("data2vec-text")
def data2vec_text(random: Random) -> dict[str, Any]:
    """RoBERTa by another name."""
    return decoder(random, "Data2VecText")


@space("roberta-prelayernorm")
def roberta_prelayernorm(random: Random) -> dict[str, Any]:
    """Norms before the sub-layers."""
    return decoder(random, "RobertaPreLayerNorm")


@space("xlm-roberta-xl")
def xlm_roberta_xl(random: Random) -> dict[str, Any]:
    """Norms before the sub-layers."""
    return decoder(random, "XLMRobertaXL")


@space("bert-generation")
def bert_generation(random: Random) -> dict[str, Any]:
    """An encoder, or a decoder."""
    return decoder(random, "BertGeneration", ("Encoder", "Decoder"))
