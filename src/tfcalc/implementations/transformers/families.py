"""The habits of BERT's and GPT's kin, and of every family by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.implementations.transformers.habits import BERT, GPT2, HABITS, LLAMA, NEVER, Habits

if TYPE_CHECKING:
    from tfcalc.configs.family import Family
    from tfcalc.implementations.transformers.running import Field

BERT_KIN = BERT._replace(loss="by class")
ROBERTA = BERT_KIN._replace(positions="tokens", segments="tokens")
MASKED = Habits(shifted=False)
BERTS: dict[str, Habits] = {
    "albert": BERT_KIN._replace(
        drops_behind=("attention",),
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "bert": BERT_KIN,
    "big_bird": BERT_KIN._replace(segments="buffer"),
    "bert-generation": BERT_KIN,
    "camembert": ROBERTA,
    "convbert": BERT_KIN,
    "data2vec-text": ROBERTA,
    "deberta": BERT_KIN._replace(segments="tokens", disentangled=True, layernorm="deberta"),
    "deberta-v2": BERT_KIN._replace(segments="tokens", disentangled=True),
    "distilbert": BERT_KIN._replace(
        drops_behind=("ffn",),
        dropped=("dropout", 0.1),
        dropped_scores=("attention_dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
    ),
    "electra": BERT_KIN,
    "ernie": BERT_KIN,
    "esm": ROBERTA._replace(dropped_embeddings=NEVER, norms="pre", activations="erf"),
    "esmc": MASKED,
    "eurobert": MASKED,
    "fnet": BERT_KIN._replace(segments="buffer", drops_behind=("ffn",)),
    "gte": BERT_KIN._replace(
        segments="tokens",
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_inside=("hidden_dropout_prob", 0.1),
    ),
    "jina_embeddings_v3": BERT_KIN._replace(segments="tokens"),
    "layoutlm": BERT_KIN._replace(segments="tokens", softmax="float32"),
    "megatron-bert": BERT_KIN._replace(norms="pre", segments="tokens"),
    "mobilebert": BERT_KIN,
    "modernbert": MASKED._replace(
        norms="pre",
        drops_behind=("attention",),
        dropped=("attention_dropout", 0.0),
        dropped_embeddings=("embedding_dropout", 0.0),
        dropped_inside=("mlp_dropout", 0.0),
        turns_in_float32=True,
        angles_by_type=True,
    ),
    "mpnet": ROBERTA,
    "nomic_bert": BERT_KIN._replace(
        segments="tokens",
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "nystromformer": BERT_KIN._replace(segments="buffer", dropped_scores=NEVER),
    "rembert": BERT_KIN._replace(
        segments="tokens",
        dropped=("hidden_dropout_prob", 0.0),
        dropped_scores=("attention_probs_dropout_prob", 0.0),
        dropped_embeddings=("hidden_dropout_prob", 0.0),
    ),
    "roc_bert": BERT_KIN,
    "roberta": ROBERTA,
    "roberta-prelayernorm": ROBERTA._replace(norms="pre"),
    "roformer": BERT_KIN._replace(segments="tokens", angles_by_layer=True),
    "squeezebert": BERT_KIN,
    "tapas": ROBERTA,
    "ultrabert": MASKED._replace(angles_by_type=True),
    "xlm-roberta": ROBERTA,
    "xlm-roberta-xl": ROBERTA._replace(norms="pre", drops_behind=("attention",)),
    "xmod": ROBERTA,
    "yoso": BERT_KIN._replace(segments="buffer"),
}
"""By ``model_type``."""

GPTS: dict[str, Habits] = {
    "biogpt": Habits(
        softmax="own",
        dropped=("hidden_dropout_prob", 0.1),
        dropped_scores=("attention_probs_dropout_prob", 0.1),
        dropped_embeddings=("hidden_dropout_prob", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        given_ones=True,
    ),
    "codegen": GPT2._replace(
        dropped=("resid_pdrop", 0.0),
        dropped_scores=("attn_pdrop", 0.0),
        dropped_embeddings=("embd_pdrop", 0.0),
        scores_in_float32=True,
        angles="float32",
        angles_by_turn=True,
    ),
    "ctrl": GPT2._replace(dropped_scores=("", 0.0)),
    "falcon": Habits(
        softmax="stream",
        dropped=("hidden_dropout", 0.0),
        indexes=True,
        masks_with_alibi=True,
        side_by_side=(("parallel_attn", True), ("new_decoder_architecture", False)),
    ),
    "gpt-sw3": GPT2,
    "gpt_bigcode": GPT2._replace(softmax="float32"),
    "gpt_neo": Habits(
        softmax="own",
        dropped=("resid_dropout", 0.0),
        dropped_embeddings=("embed_dropout", 0.0),
        scores_in_float32=True,
    ),
    "gpt_neox_japanese": Habits(
        softmax="own", dropped=("hidden_dropout", 0.0), dropped_scores=("attention_dropout", 0.1)
    ),
    "gptj": GPT2._replace(
        dropped=("resid_pdrop", 0.0),
        dropped_scores=("attn_pdrop", 0.0),
        dropped_embeddings=("embd_pdrop", 0.0),
        scores_in_float32=True,
        angles_by_turn=True,
    ),
    "moshi": Habits(rmsnorm="helium", angles_by_layer=True),
    "mpt": Habits(limits_scores="filled"),
    "openai-gpt": GPT2._replace(norms="post", norms_in_line=True, positions="buffer", activations="tanh"),
    "trocr": Habits(
        norms="post",
        softmax="own",
        dropped=("dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        loss="own",
        shifted=False,
    ),
    "whisper": Habits(
        softmax="own",
        dropped=("dropout", 0.0),
        dropped_embeddings=("dropout", 0.0),
        dropped_inside=("activation_dropout", 0.0),
        loss="own",
        shifted=False,
        positions="tokens",
        places_heads=True,
    ),
    "xglm": Habits(
        softmax="own",
        dropped=("dropout", 0.1),
        dropped_scores=("attention_dropout", 0.1),
        dropped_embeddings=("dropout", 0.1),
        dropped_inside=("activation_dropout", 0.0),
        limits_scores="max",
    ),
}
"""By ``model_type``."""


SIGMOID = HABITS["deepseek_v3"]
"""DeepSeek-V3's router, which many have."""
GRANITE = Habits(
    norms="pre",
    multiplied=("embedding", "sub-layers", "logits"),
    router="best first",
    router_logits="float32",
)
OLMO2 = HABITS["olmo2"]
EVERY_SUM = ("", True)
"""The chosen experts' weights are always divided by their sum."""
MIXTURES: dict[str, Habits] = {
    "afmoe": Habits(
        rmsnorm="olmo",
        router="sigmoid",
        router_logits="float32",
        normalizes=EVERY_SUM,
        normalizes_in_place=False,
        masks=2,
    ),
    "aria_text": Habits(router="best first"),
    "axk1": SIGMOID,
    "cohere2_moe": HABITS["cohere2"]._replace(router="best first", router_logits="float32"),
    "dots3_note_text": SIGMOID._replace(angles="float32", angles_by_type=True, masks=2),
    "ernie4_5_moe": Habits(
        router="gathered softmax",
        router_logits="copies",
        router_weights="float32",
        angles="float32",
        angles_by_layer=True,
        turns_in_float32=True,
    ),
    "exaone_moe": SIGMOID._replace(masks=2),
    "flex_olmo": OLMO2,
    "glm4_moe": SIGMOID._replace(joins_turned=True),
    "glm4_moe_lite": SIGMOID,
    "glm_moe_dsa": SIGMOID,
    "granitemoe": GRANITE,
    "granitemoe_swa": GRANITE._replace(masks=2, sinks="scale"),
    "granitemoeshared": GRANITE,
    "hunyuan_v1_moe": Habits(
        norms_turned_heads=True, normalizes=EVERY_SUM, router_logits="copies", router_weights="float32"
    ),
    "hy_v3": SIGMOID._replace(normalizes=EVERY_SUM, normalizes_in_place=False),
    "llama4_text": Habits(
        softmax="own",
        angles="complex",
        turns_in_float32=True,
        norms_turned=("use_qk_norm", True),
        tempers=("attn_temperature_tuning", True),
        router="all",
        masks=2,
    ),
    "lfm2_moe": Habits(router="sigmoid", normalizes=("norm_topk_prob", True), normalizes_in_place=False),
    "mellum": Habits(normalizes=("norm_topk_prob", True), masks=2, angles_by_type=True),
    "mimo_v2_flash": SIGMOID._replace(softmax="less highest", masks=2, angles_by_type=True, joins_turned=True),
    "minimax": Habits(normalizes=EVERY_SUM, routes_in_float32=True),
    "minimax_m2": Habits(router="sigmoid", router_logits="float32", normalizes=EVERY_SUM, joins_turned=True),
    "nllb-moe": HABITS["mbart"]._replace(dropped_scores=("attention_dropout", 0.1), drops_behind=("attention",)),
    "phimoe": Habits(router="sparse mixer"),
    "qwen3_5_moe_text": Habits(rmsnorm="gemma", joins_turned=True, angles_by_token=True, normalizes=EVERY_SUM),
    "solar_open": SIGMOID,
}
"""By ``model_type``."""


def habits_of(model_type: str) -> Habits:
    """Those of a family; one that is not named runs as Llama does."""
    return BERTS.get(model_type) or GPTS.get(model_type) or MIXTURES.get(model_type) or HABITS.get(model_type, LLAMA)


def field_of(data: Mapping[str, Any], family: Family) -> Field:
    """What reads a field of a config, under any of its names: given, or the family's default, or the one asked with."""

    def field(name: str, default: Any = None) -> Any:
        inner, _, own = name.rpartition(".")
        if inner:  # a nested config's
            return (data.get(inner) or {}).get(own, default)
        names = (name, *(short for short, long in family.aliases.items() if long == name))
        for given in (data, data.get("text_config") or {}):
            for known in names:
                if known in given:
                    return given[known]
        return family.defaults.get(name, default)

    return field
