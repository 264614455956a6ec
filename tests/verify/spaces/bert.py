"""BERT and its kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space

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
    drawn = {
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
    if drawn["architectures"][0].endswith("ForQuestionAnswering"):  # start and end: it runs with no other number
        drawn.pop("num_labels", None)
    return drawn


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


def as_long(drawn: dict[str, Any]) -> dict[str, Any]:
    """The same, and a memory as long as the sequence (5), where transformers reads no other."""
    return drawn | ({"max_position_embeddings": 5} if drawn["add_cross_attention"] else {})


@space("megatron-bert")
def megatron_bert(random: Random) -> dict[str, Any]:
    """Norms before the sub-layers."""
    return as_long(decoder(random, "MegatronBert", (*DECODES, *PAIRS)))


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


@space("albert")
def albert(random: Random) -> dict[str, Any]:
    """Groups of layers, each run again."""
    more = {
        "embedding_size": random.choice([6, 10]),
        "num_hidden_groups": random.randint(1, 3),
        "inner_group_num": random.randint(1, 3),
    }
    return encoder(random, "Albert", (*TASKS, "ForPreTraining"), **more)


@space("electra")
def electra(random: Random) -> dict[str, Any]:
    """Words as wide as the stream, or narrower."""
    made = decoder(random, "Electra", (*DECODES, "ForPreTraining"), summary_use_proj=coin(random))
    return made | {"embedding_size": random.choice([6, 10, made["hidden_size"]])}


@space("distilbert")
def distilbert(random: Random) -> dict[str, Any]:
    """Other names of the sizes."""
    made = encoder(random, "DistilBert", TASKS)
    made |= {"n_heads": made.pop("num_attention_heads"), "dim": made.pop("hidden_size")}
    made |= {"n_layers": made.pop("num_hidden_layers"), "hidden_dim": made.pop("intermediate_size")}
    if made["architectures"] == ["DistilBertForQuestionAnswering"]:
        made.pop("num_labels", None)
    return made | {"activation": made.pop("hidden_act"), "sinusoidal_pos_embds": coin(random)}


@space("mobilebert")
def mobilebert(random: Random) -> dict[str, Any]:
    """With and without bottlenecks."""
    n_heads = random.choice([2, 4])
    more = {
        "num_attention_heads": n_heads,
        "hidden_size": n_heads * random.choice([8, 12]),
        "intra_bottleneck_size": n_heads * random.choice([2, 4]),
        "embedding_size": random.choice([6, 10]),
        "trigram_input": coin(random),
        "use_bottleneck": coin(random),
        "use_bottleneck_attention": coin(random),
        "key_query_shared_bottleneck": coin(random),
        "num_feedforward_networks": random.randint(1, 3),
        "normalization_type": random.choice(["no_norm", "layer_norm"]),
        "classifier_activation": coin(random),
    }
    if more["use_bottleneck"] and not more["use_bottleneck_attention"]:  # queries would not fit
        more["key_query_shared_bottleneck"] = True
    return encoder(random, "MobileBert", (*TASKS, *PAIRS), **more)


@space("squeezebert")
def squeezebert(random: Random) -> dict[str, Any]:
    """Groups of channels in each map."""
    h = random.choice([16, 24, 32])
    names = ("q", "k", "v", "post_attention", "intermediate", "output")
    more = {f"{name}_groups": random.choice([1, 2, 4, 8]) for name in names}
    return encoder(random, "SqueezeBert", TASKS, hidden_size=h, embedding_size=h, num_attention_heads=4, **more)


def relative(random: Random, name: str, heads: tuple[str, ...]) -> dict[str, Any]:
    """DeBERTa's flags."""
    more = {
        "relative_attention": coin(random),
        "position_biased_input": coin(random),
        "max_relative_positions": random.choice([-1, 12]),
        "pos_att_type": random.choice([None, "c2p", "p2c|c2p", ["p2c"], ["c2p", "p2c"]]),
        "type_vocab_size": random.randint(0, 2),
        "legacy": coin(random),
        "embedding_size": random.choice([6, 10]),
        "pooler_hidden_size": random.choice([8, 12]),
    }
    for field in ("embedding_size", "pooler_hidden_size"):
        if coin(random):
            del more[field]
    drawn = encoder(random, name, heads, **more)
    same = {"pooler_hidden_size": drawn["hidden_size"]} if "pooler_hidden_size" in more else {}  # it reads the stream
    if not drawn["legacy"] and "embedding_size" in drawn:  # the words' vectors read the stream as it is
        same["embedding_size"] = drawn["hidden_size"]
    return drawn | same


@space("deberta")
def deberta(random: Random) -> dict[str, Any]:
    """Fused queries, keys and values."""
    heads = tuple(head for head in TASKS if head != "ForMultipleChoice")
    return relative(random, "Deberta", heads) | {"talking_head": coin(random)}


@space("deberta-v2")
def deberta_v2(random: Random) -> dict[str, Any]:
    """Buckets, shared maps, a convolution."""
    more = {
        "position_buckets": random.choice([-1, 8]),
        "share_att_key": coin(random),
        "norm_rel_ebd": random.choice(["none", "layer_norm", "layer_norm|none"]),
        "conv_kernel_size": random.choice([0, 3, 5]),
        "conv_groups": random.choice([1, 2]),
        "conv_act": "gelu",
        "num_attention_heads": 2,
        "hidden_size": random.choice([8, 16]),
    }
    drawn = relative(random, "DebertaV2", TASKS) | (more if coin(random) else {})
    same = ("pooler_hidden_size", *(() if drawn["legacy"] else ("embedding_size",)))
    drawn |= {name: drawn["hidden_size"] for name in same if name in drawn}
    heads = drawn["hidden_size"] // drawn["num_attention_heads"]
    return drawn | ({"attention_head_size": heads} if coin(random) else {})


@space("longformer")
def longformer(random: Random) -> dict[str, Any]:
    """A window for all layers, or for each."""
    made = encoder(random, "Longformer", TASKS)
    return made | {"attention_window": random.choice([4, [8] * made["num_hidden_layers"]])}


@space("big_bird")
def big_bird(random: Random) -> dict[str, Any]:
    """With biases or without, sparse or not."""
    more = {"use_bias": coin(random), "attention_type": random.choice(["block_sparse", "original_full"])}
    blocks = {"block_size": random.choice([2, 3]), "num_random_blocks": random.choice([1, 2])}
    return decoder(random, "BigBird", (*DECODES, "ForPreTraining"), **more) | blocks


@space("mpnet")
def mpnet(random: Random) -> dict[str, Any]:
    """Buckets of distances."""
    return encoder(random, "MPNet", TASKS, relative_attention_num_buckets=random.choice([8, 12]))


@space("esm")
def esm(random: Random) -> dict[str, Any]:
    """Positions by a table or by rotation."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    more = {
        "position_embedding_type": random.choice(["absolute", "rotary"]),
        "emb_layer_norm_before": random.choice([None, True, False]),
        "token_dropout": coin(random),
        "mask_token_id": 3,
    }
    return decoder(random, "Esm", heads, **more)


def modern(random: Random, name: str, heads: tuple[str, ...]) -> dict[str, Any]:
    """Biases anywhere."""
    made = encoder(random, name, heads, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    made |= {f"{part}_bias": coin(random) for part in ("norm", "attention", "mlp", "decoder", "classifier")}
    del made["type_vocab_size"]
    return made | {"hidden_activation": made.pop("hidden_act"), "global_attn_every_n_layers": random.randint(1, 3)}


@space("modernbert")
def modernbert(random: Random) -> dict[str, Any]:
    """An encoder."""
    return modern(random, "ModernBert", TASKS)


@space("modernbert-decoder")
def modernbert_decoder(random: Random) -> dict[str, Any]:
    """A decoder."""
    made = modern(random, "ModernBertDecoder", ("Model", "ForCausalLM", "ForSequenceClassification"))
    return made | {"local_attention": random.choice([8, 12, 128])}


@space("nomic_bert")
def nomic_bert(random: Random) -> dict[str, Any]:
    """Heads of any width."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    return encoder(random, "NomicBert", heads, **({"head_dim": random.choice([4, 8])} if coin(random) else {}))


@space("convbert")
def convbert(random: Random) -> dict[str, Any]:
    """Heads of both kinds, groups of channels."""
    more = {
        "num_attention_heads": random.choice([2, 4]),
        "hidden_size": random.choice([16, 32]),
        "embedding_size": random.choice([10, 16]),
        "head_ratio": random.choice([1, 2, 3, 8]),
        "conv_kernel_size": random.choice([3, 5]),
        "num_groups": random.choice([1, 2, 4]),
    }
    return decoder(random, "ConvBert", TASKS, **more)


@space("rembert")
def rembert(random: Random) -> dict[str, Any]:
    """Two widths of words."""
    more = {"input_embedding_size": random.choice([6, 10]), "output_embedding_size": random.choice([12, 20])}
    return decoder(random, "RemBert", DECODES, **more)


@space("roformer")
def roformer(random: Random) -> dict[str, Any]:
    """Words as wide as the stream, or narrower."""
    more = {"rotary_value": coin(random), "embedding_size": random.choice([None, 6])}
    return decoder(random, "RoFormer", DECODES, **more)


@space("nystromformer")
def nystromformer(random: Random) -> dict[str, Any]:
    """A convolution of the values."""
    made = encoder(random, "Nystromformer", TASKS, conv_kernel_size=random.choice([3, 5]))
    by_one = {"max_position_embeddings": 5, "segment_means_seq_len": 5, "num_landmarks": 1}  # of so many tokens only
    return made | (by_one if coin(random) else {})


@space("yoso")
def yoso(random: Random) -> dict[str, Any]:
    """With a convolution of the values, or without."""
    return encoder(random, "Yoso", TASKS, conv_window=random.choice([None, 3, 5]))


@space("mra")
def mra(random: Random) -> dict[str, Any]:
    """Stored numbers of positions."""
    return encoder(random, "Mra", TASKS)


@space("fnet")
def fnet(random: Random) -> dict[str, Any]:
    """No attention."""
    return encoder(random, "FNet", (*TASKS, *PAIRS))


@space("luke")
def luke(random: Random) -> dict[str, Any]:
    """Entities."""
    more = {
        "entity_vocab_size": random.randint(20, 40),
        "entity_emb_size": random.choice([6, 16, 24]),
        "use_entity_aware_attention": coin(random),
    }
    heads = ("ForEntityClassification", "ForEntityPairClassification", "ForEntitySpanClassification")
    return encoder(random, "Luke", (*TASKS, *heads), **more)


@space("tapas")
def tapas(random: Random) -> dict[str, Any]:
    """Tables for what is known of a cell."""
    more = {
        "type_vocab_sizes": [random.randint(2, 9) for _ in range(random.randint(1, 7))],
        "num_aggregation_labels": random.choice([0, 4]),
    }
    drawn = decoder(
        random, "Tapas", ("Model", "ForMaskedLM", "ForQuestionAnswering", "ForSequenceClassification"), **more
    )
    if drawn["architectures"] == ["TapasForQuestionAnswering"]:  # it asks for rows and columns
        drawn["type_vocab_sizes"] = (drawn["type_vocab_sizes"] * 3)[:7]
    return as_long(drawn)


@space("roc_bert")
def roc_bert(random: Random) -> dict[str, Any]:
    """Sounds and shapes, together or apart."""
    more = {
        "enable_pronunciation": coin(random),
        "enable_shape": coin(random),
        "pronunciation_embed_dim": random.choice([6, 8]),
        "pronunciation_vocab_size": random.randint(10, 20),
        "shape_embed_dim": random.choice([4, 10]),
        "shape_vocab_size": random.randint(10, 20),
        "concat_input": coin(random),
    }
    return decoder(random, "RoCBert", (*DECODES, "ForPreTraining"), **more)


@space("gte")
def gte(random: Random) -> dict[str, Any]:
    """With token types or without."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    return encoder(random, "Gte", heads, type_vocab_size=random.randint(0, 2))


@space("jina_embeddings_v3")
def jina_embeddings_v3(random: Random) -> dict[str, Any]:
    """Rotary positions."""
    heads = tuple(head for head in TASKS if head != "ForMultipleChoice")
    return encoder(random, "JinaEmbeddingsV3", heads)


@space("ultrabert")
def ultrabert(random: Random) -> dict[str, Any]:
    """Llama's flags, and a head through a narrower width."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
    more = {"architectures": ["Ultrabert" + random.choice(heads)], "prediction_head_size": random.choice([6, 20])}
    flags = {"attention_bias": coin(random), "mlp_bias": coin(random)}
    return grouped(random, head_dim=True) | more | flags | labels(random)


@space("esmc")
def esmc(random: Random) -> dict[str, Any]:
    """Biases anywhere."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    made = encoder(random, "Esmc", heads, attention_bias=coin(random), mlp_bias=coin(random))
    del made["type_vocab_size"]
    return made | {"head_dim": random.choice([None, made["hidden_size"] // made["num_attention_heads"]])}


@space("neomme")
def neomme(random: Random) -> dict[str, Any]:
    """Biases anywhere, heads of any width."""
    more = {
        "architectures": ["NeoMME" + random.choice(["Model", "ForMaskedLM", "ForRetrieval"])],
        "head_dim": random.choice([16, 32]),
        "embedding_rank": random.choice([6, 20]),
        "patch_size": random.choice([2, 4]),
        "embedding_dim": random.choice([4, 8]),
        "attention_bias": coin(random),
        "mlp_bias": coin(random),
    }
    return grouped(random) | more


@space("ibert")
def ibert(random: Random) -> dict[str, Any]:
    """Integers, whether used or not."""
    return encoder(random, "IBert", TASKS, quant_mode=coin(random), hidden_act="gelu")


@space("funnel")
def funnel(random: Random) -> dict[str, Any]:
    """Blocks of any number of layers."""
    made = encoder(random, "Funnel", (*TASKS, "ForPreTraining", "BaseModel"))
    del made["type_vocab_size"], made["max_position_embeddings"], made["num_hidden_layers"]
    sizes = [random.randint(1, 3) for _ in range(random.randint(1, 3))]
    made |= {"d_model": made.pop("hidden_size"), "n_head": made.pop("num_attention_heads")}
    made |= {"d_inner": made.pop("intermediate_size"), "d_head": random.choice([4, 6]), "block_sizes": sizes}
    repeats = {"block_repeats": [random.randint(1, 2) for _ in sizes]} if coin(random) else {}
    flags = {flag: coin(random) for flag in ("pool_q_only", "separate_cls", "truncate_seq")}
    kinds = {"attention_type": random.choice(["relative_shift", "factorized"])}
    return made | repeats | {"num_decoder_layers": random.randint(1, 3)} | flags | kinds


@space("perceiver")
def perceiver(random: Random) -> dict[str, Any]:
    """Latent vectors of any number and width."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForImageClassificationLearned")
    drawn = {
        "architectures": ["Perceiver" + random.choice(heads)],
        "num_latents": random.choice([4, 6]),
        "d_latents": random.choice([16, 32]),
        "d_model": random.choice([24, 40]),
        "num_blocks": random.randint(1, 3),
        "num_self_attends_per_block": random.randint(1, 3),
        "num_self_attention_heads": random.choice([2, 4]),
        "num_cross_attention_heads": random.choice([2, 4]),
        "qk_channels": random.choice([None, 16]),
        "v_channels": random.choice([None, 16, 32]),
        "cross_attention_shape_for_attention": random.choice(["q", "kv"]),
        "self_attention_widening_factor": random.randint(1, 3),
        "cross_attention_widening_factor": random.randint(1, 3),
        "vocab_size": random.randint(20, 60),
        "max_position_embeddings": random.choice([16, 24]),
        "image_size": random.choice([4, 6]),
        **labels(random),
    }
    if (drawn["v_channels"] or drawn["qk_channels"] or drawn["d_latents"]) != drawn["d_latents"]:
        drawn["v_channels"] = drawn["d_latents"]  # they are added to the latent vectors
    return drawn
