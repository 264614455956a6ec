"""XLM and FlauBERT: BERT-like encoders, whose parts of a kind stand together in the checkpoint."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, classifier, labels, lm_head
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families.summaries import of_answers, summary
from tfcalc.families.windows import LAYERS
from tfcalc.nn.attention import Attention, EagerCode
from tfcalc.nn.basic import Embedding, Linear
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.nn.summary import Summarised
from tfcalc.nn.token_masks import MaskedDecoder, MaskedLayer

LM = lm_head("pred_layer.proj", bias=True, shifted=False)


def of_words(c: Config, base: Module) -> Module:
    """Logits of every token, whose labels are those of the tokens."""
    made = LM(c, base)
    assert isinstance(made, WithHead)
    return made.but(upcasts=False)


def of_sequences(c: Config, base: Module) -> Module:
    """Classes of whole sequences."""
    return Summarised("", base, summary("sequence_summary", c), None)


def of_choices(c: Config, base: Module) -> Module:
    """One number for each sequence, from the logits of its classes."""
    return Summarised("", base, summary("sequence_summary", c), Linear("logits_proj", labels(c), 1, "", True))


TOPS: dict[str, Top] = {
    "Model": bare,
    "WithLMHeadModel": of_words,
    "ForSequenceClassification": of_sequences,
    "ForMultipleChoice": of_choices,
    "ForTokenClassification": classifier("classifier", bias=True),
    "ForQuestionAnsweringSimple": classifier("qa_outputs", bias=True),
    "ForQuestionAnswering": of_answers("qa_outputs."),
}
ALIASES = {
    "n_words": "vocab_size",
    "emb_dim": "hidden_size",
    "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers",
}


@family("xlm", architecture="XLMWithLMHeadModel", heads=TOPS, aliases=ALIASES)
def xlm(c: Config) -> Module:
    """Lample and Conneau 2019 (arXiv 1901.07291): a vector for each language."""
    return masked(c)


@family("flaubert", architecture="FlaubertWithLMHeadModel", heads=TOPS, aliases=ALIASES)
def flaubert(c: Config) -> Module:
    """Le et al. 2019 (arXiv 1912.05372): XLM, whose norms may stand before the sub-layers."""
    return masked(c, first=c.flag("pre_norm"))


def masked(c: Config, *, first: bool = False) -> MaskedDecoder:
    """Layers that mask tokens, with norms behind the sums, or before the sub-layers (``first``)."""
    if c.flag("asm"):
        raise InvalidModel(f"{c.path('asm')} is true", "an adaptive softmax is not supported")
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    names, drops, scores = ("q_lin", "k_lin", "v_lin"), bool(c.get("dropout")), bool(c.get("attention_dropout"))
    maps = tuple(Linear(name, h, a * d, letter, True) for name, letter in zip(names, "QKV", strict=True))
    back, causal = Linear("out_lin", a * d, h, "O", True), c.flag("causal")
    mixer = Attention("attentions", a, a, d, d, maps, (), back, causal=causal, dropout=scores, masked=False)
    up, down = Linear("lin1", h, 4 * h, "1", True), Linear("lin2", 4 * h, h, "2", True)
    act = "gelu" if c.flag("gelu_activation") else "relu"
    norms = tuple(kit.norm(c, name) for name in ("layer_norm1", "layer_norm2"))
    subs = (mixer.but(eager=EagerCode(mask="own")), FeedForward("ffns", up, down, act))
    layer = MaskedLayer("(layers)", subs, norms, drops, first=first)
    told = c.flag("use_lang_emb") and c.number("n_langs") > 1
    return MaskedDecoder(
        "transformer",
        Embedding("embeddings", c.size("vocab_size"), h),
        Stack("(layers)", (layer,) * c.number(LAYERS), c.size(LAYERS)),
        None,
        added=(kit.positions(c),),
        dropped=drops,
        normed=kit.norm(c, "layer_norm_emb"),
        languages=Embedding("lang_embeddings", c.size("n_langs"), h) if told else None,
    )
