"""BERT and those that differ from it by a table, a head, or where the norms stand."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import EagerCode
from tfcalc.nn.embeddings import GIVEN, TOKENS, OnPage, Positions, Segments
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.module import Module
from tfcalc.nn.positions import RelativeBias
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import BERT_TOPS, FIRST_TOKEN, PAIRED, ROBERTA_TOPS, causal, predictions


@family("bert", architecture="BertModel", heads=BERT_TOPS)
def bert(c: Config) -> Module:
    """Devlin et al. 2018 (arXiv 1810.04805)."""
    return encoders.bert_like("bert", c, *encoders.with_tables(c))


@family("ernie", heads=BERT_TOPS)
def ernie(c: Config) -> Module:
    """ERNIE 2.0 (arXiv 1907.12412): BERT with a vector for each task, if ``use_task_id``."""
    h, tasks = c.size("hidden_size"), []
    if c.flag("use_task_id"):
        tasks = [Segments("task_type_embeddings", c.size("task_type_vocab_size"), h, TOKENS)]
    return encoders.bert_like("ernie", c, *encoders.with_tables(c), *tasks)


@family("megatron-bert", heads=BERT_TOPS)
def megatron_bert(c: Config) -> Module:
    """Shoeybi et al. 2019 (arXiv 1909.08053): norms before the sub-layers and after the last one, none of the words."""
    norms, tables = (
        ("attention.ln", "crossattention.ln", "ln"),
        (encoders.positions(c), encoders.token_types(c, indices=TOKENS)),
    )
    return encoders.bert_like("bert", c, *tables, norms=norms, normed="", final="ln")


@family("layoutlm", heads=BERT_TOPS)
def layoutlm(c: Config) -> Module:
    """Xu et al. 2019 (arXiv 1912.13318): BERT with where on the page each word stands, and how large."""
    h, places = c.size("hidden_size"), c.size("max_2d_position_embeddings")
    kinds = {"x": GIVEN, "y": GIVEN, "h": TOKENS, "w": TOKENS}
    page = (Positions(f"{axis}_position_embeddings", places, h, kind) for axis, kind in kinds.items())
    tables = encoders.positions(c), encoders.token_types(c, indices=TOKENS)
    made = encoders.bert_like("layoutlm", c, *tables, pooled=tuple(BERT_TOPS), cross=False, eager=EagerCode())
    words = encoders.embeddings(c, *tables, *page)
    return made.replace(table=OnPage(words.name, words.tables, words.norm, words.dropped))


@family("roberta", architecture="RobertaForMaskedLM", heads=ROBERTA_TOPS)
@family("xlm-roberta", architecture="XLMRobertaModel", heads=ROBERTA_TOPS)
@family("camembert", heads=ROBERTA_TOPS)
def roberta(c: Config) -> Encoder:
    """Liu et al. 2019 (arXiv 1907.11692), XLM-R (arXiv 1911.02116): BERT with other heads; positions begin at 2."""
    return encoders.bert_like("roberta", c, *encoders.with_tables(c, TOKENS), pooled=FIRST_TOKEN)


@family("data2vec-text", heads=ROBERTA_TOPS)
def data2vec_text(c: Config) -> Module:
    """Baevski et al. 2022 (arXiv 2202.03555): RoBERTa."""
    return roberta(c).replace(name="data2vec_text")


@family("roberta-prelayernorm", heads=ROBERTA_TOPS)
def roberta_prelayernorm(c: Config) -> Module:
    """Ott et al. 2019 (fairseq, arXiv 1904.01038): RoBERTa with norms before the sub-layers and after the last one."""
    norms = ("attention.LayerNorm", "crossattention.LayerNorm", "intermediate.LayerNorm")
    made = encoders.bert_like(
        "roberta_prelayernorm", c, *encoders.with_tables(c, TOKENS), pooled=FIRST_TOKEN, norms=norms
    )
    return made.replace(norm=encoders.norm(c, "LayerNorm"))


@family("xlm-roberta-xl", architecture="XLMRobertaXLForMaskedLM", heads=ROBERTA_TOPS)
def xlm_roberta_xl(c: Config) -> Module:
    """Goyal et al. 2021 (arXiv 2105.00572): RoBERTa with norms before the sub-layers and after the last one."""
    norms = ("attention.self_attn_layer_norm", "crossattention.self_attn_layer_norm", "LayerNorm")
    return encoders.bert_like(
        "roberta",
        c,
        *encoders.with_tables(c, TOKENS),
        pooled=FIRST_TOKEN,
        norms=norms,
        normed="",
        final="LayerNorm",
        undropped=("(ffn)",),
    )


@family("bert-generation", heads={"Encoder": tops.bare, "Decoder": causal(predictions("lm_head", alone=True))})
def bert_generation(c: Config) -> Module:
    """Rothe et al. 2019 (arXiv 1907.12461): BERT without token types, as an encoder or as a decoder."""
    return encoders.bert_like("bert", c, encoders.positions(c), pooled=())


@family("mpnet", heads=ROBERTA_TOPS)
def mpnet(c: Config) -> Module:
    """Song et al. 2020 (arXiv 2004.09297): no token types; all layers share one relative position bias."""
    mixer = encoders.attention(c, names=("attn.q", "attn.k", "attn.v", "attn.o"))
    layers = encoders.stack(c, mixer, norms=("attention.LayerNorm", "", "output.LayerNorm"))
    buckets = c.size("relative_attention_num_buckets")
    bias = RelativeBias("relative_attention_bias", buckets, c.size("num_attention_heads"), by_sequence=True)
    words, pooler = encoders.embeddings(c, encoders.positions(c, indices=TOKENS)), encoders.pooler(c, FIRST_TOKEN)
    stack = Layers("encoder", (), layers, relative=bias)
    return Encoder("mpnet", words, (), stack, pooler=pooler, pools=c.head in PAIRED)
