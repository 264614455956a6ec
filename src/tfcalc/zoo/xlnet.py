"""XLNet: Transformer-XL's attention, and heads of its own."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare, classifier, labels, lm_head
from tfcalc.core.number import Num
from tfcalc.nn.basic import Embedding, Linear, parameter
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.layers import network, stack
from tfcalc.zoo.blocks.sequence_summary import Summarised, of_answers, summary
from tfcalc.zoo.blocks.transformer_xl import HeadMap, RelativeAttention, XLNet


def summed(c: Config, base: Module, classes: Num) -> Module:
    """Map of one vector of each sequence to ``classes`` numbers."""
    logits = Linear("logits_proj", c.size("hidden_size"), classes, "", True)
    return Summarised("", base, summary("sequence_summary", c), logits)


def of_sequences(c: Config, base: Module) -> Module:
    """Classes of whole sequences, by one vector of each."""
    return summed(c, base, labels(c))


def of_choices(c: Config, base: Module) -> Module:
    """One number for each sequence."""
    return summed(c, base, 1)


LM = lm_head("lm_loss", bias=True, shifted=False)


def of_words(c: Config, base: Module) -> Module:
    """Logits of every token, whose labels are those of the tokens."""
    return LM(c, base).replace(upcasts=False)


@family(
    "xlnet",
    heads={
        "Model": bare,
        "LMHeadModel": of_words,
        "ForSequenceClassification": of_sequences,
        "ForMultipleChoice": of_choices,
        "ForTokenClassification": classifier("classifier", bias=True),
        "ForQuestionAnsweringSimple": classifier("qa_outputs", bias=True),
        "ForQuestionAnswering": of_answers(),
    },
)
def xlnet(c: Config) -> Module:
    """Yang et al. 2019 (arXiv 1906.08237): one vector more for words that are to be guessed; no table of positions."""
    h, f, drops = c.size("hidden_size"), c.size("d_inner"), bool(c.get("dropout"))
    a, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    causal = c.word("attn_type", ("bi", "uni")) == "uni"
    q, k, v, r = (HeadMap(name, h, a * d, name.upper(), heads=a, head_dim=d) for name in "qkvr")
    u, w, s = (parameter(f"r_{letter}_bias", a, d, minor=True) for letter in "wrs")
    back = HeadMap("o", a * d, h, "O", heads=a, head_dim=d, back=True)
    mixer = RelativeAttention(
        "rel_attn", (q, k, v), r, (u, w, s), parameter("seg_embed", 2, a, d), back, causal, dropout=drops
    )
    ffn = network("ff", ("layer_1", "layer_2"), h, f, c.word("ff_activation"), dropout=drops)
    norms = tuple(encoders.norm(c, name) for name in ("rel_attn.layer_norm", "ff.layer_norm"))
    layer = PostNorm("layer", (mixer, ffn), norms, drops, in_line=False)
    words = Embedding("word_embedding", c.size("vocab_size"), h)
    return XLNet("transformer", words, parameter("mask_emb", 1, 1, h), stack(c, layer), causal, drops)
