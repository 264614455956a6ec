"""XLM and FlauBERT: BERT-like encoders, whose parts of a kind stand together in the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, classifier, labels, lm_head
from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel
from tfcalc.families.gpt2 import attention, feed_forward, final, layers, positions, summary, transformer, words
from tfcalc.families.xlnet import of_answers
from tfcalc.leaves import embedding, linear
from tfcalc.workload import Workload


def of_sequences(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes of whole sequences."""
    yield base
    yield from summary("sequence_summary", c, run)


def of_choices(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """One number for each sequence, from the logits of its classes."""
    yield from of_sequences(c, run, base)
    yield linear("logits_proj", labels(c), 1, run.target.batch)


HEADS: dict[str, Head] = {
    "Model": bare,
    "WithLMHeadModel": lm_head("pred_layer.proj", bias=True),
    "ForSequenceClassification": of_sequences,
    "ForMultipleChoice": of_choices,
    "ForTokenClassification": classifier("classifier", bias=True),
    "ForQuestionAnsweringSimple": classifier("qa_outputs", bias=True),
    "ForQuestionAnswering": partial(of_answers, prefix="qa_outputs."),
}
ALIASES = {
    "n_words": "vocab_size",
    "emb_dim": "hidden_size",
    "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers",
}


@family("xlm", architecture="XLMWithLMHeadModel", heads=HEADS, aliases=ALIASES)
@family("flaubert", architecture="FlaubertWithLMHeadModel", heads=HEADS, aliases=ALIASES)
def xlm(c: Config, run: Workload) -> Component:
    """Lample and Conneau 2019 (arXiv 1901.07291), Le et al. 2019 (arXiv 1912.05372): a vector for each language."""
    if c.flag("asm"):
        raise InvalidModel(f"{c.path('asm')} is true", "an adaptive softmax is not supported")
    act = "gelu" if c.flag("gelu_activation") else "relu"
    names = ("q_lin", "k_lin", "v_lin", "out_lin")
    mixer = attention(c, run, "attentions", names, causal=c.flag("causal"))
    mlp = feed_forward(c, run, "ffns", ("lin1", "lin2"), 4 * c.size("hidden_size"), act)
    stack = layers(c, run, "(layers)", mixer, mlp, names=("layer_norm1", "layer_norm2"))
    tables = [positions(c, run, "position_embeddings"), words(c, run, "embeddings")]
    if c.flag("use_lang_emb") and c.number("n_langs") > 1:
        tables.append(embedding("lang_embeddings", c.size("n_langs"), c.size("hidden_size"), run.target.tokens))
    return transformer(*tables, final(c, run, "layer_norm_emb"), stack)
