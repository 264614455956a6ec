"""XLNet: Transformer-XL's attention, and heads of its own."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks.relative_attention import RelativeAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, classifier, labels, lm_head
from tfcalc.core.component import Component
from tfcalc.families.gpt2 import feed_forward, layers, summary, transformer, words
from tfcalc.leaves import linear, norm, parameter
from tfcalc.workload import Workload


def of_sequences(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes of whole sequences, by one vector of each."""
    yield base
    yield from summary("sequence_summary", c, run)
    yield linear("logits_proj", c.size("hidden_size"), labels(c), run.target.batch)


def of_choices(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """One number for each sequence."""
    yield base
    yield from summary("sequence_summary", c, run)
    yield linear("logits_proj", c.size("hidden_size"), 1, run.target.batch)


def of_answers(c: Config, run: Workload, base: Component, *, prefix: str = "") -> Iterator[Component]:
    """Where an answer starts; where it ends, given that; whether there is any.

    Where the start is not known, as it is in training, it looks for the end of ``start_n_top`` guesses.
    """
    h, tokens, batch = c.size("hidden_size"), run.target.tokens, run.target.batch
    ends = tokens if run.training else tokens * c.size("start_n_top")
    yield base
    yield linear(prefix + "start_logits.dense", h, 1, tokens)
    yield linear(prefix + "end_logits.dense_0", 2 * h, h, ends)
    yield norm(prefix + "end_logits.LayerNorm", "layernorm", h, ends)
    yield linear(prefix + "end_logits.dense_1", h, 1, ends)
    yield linear(prefix + "answer_class.dense_0", 2 * h, h, batch)
    yield linear(prefix + "answer_class.dense_1", h, 1, batch, bias=False)


@family(
    "xlnet",
    architecture="XLNetLMHeadModel",
    heads={
        "Model": bare,
        "LMHeadModel": lm_head("lm_loss", bias=True),
        "ForSequenceClassification": of_sequences,
        "ForMultipleChoice": of_choices,
        "ForTokenClassification": classifier("classifier", bias=True),
        "ForQuestionAnsweringSimple": classifier("qa_outputs", bias=True),
        "ForQuestionAnswering": of_answers,
    },
    aliases={
        "n_token": "vocab_size",
        "d_model": "hidden_size",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
    },
)
def xlnet(c: Config, run: Workload) -> Component:
    """Yang et al. 2019 (arXiv 1906.08237): one vector more for words that are to be guessed; no table of positions."""
    h, d = c.size("hidden_size"), c.quotient("hidden_size", "num_attention_heads")
    causal = c.word("attn_type", ("bi", "uni")) == "uni"
    mixer = RelativeAttention(h, c.size("num_attention_heads"), d)("rel_attn", run.target, run, causal=causal)
    mlp = feed_forward(c, run, "ff", ("layer_1", "layer_2"), c.size("d_inner"), c.word("ff_activation"))
    stack = layers(c, run, "layer", mixer, mlp, names=("rel_attn.layer_norm", "ff.layer_norm"))
    return transformer(words(c, run, "word_embedding"), parameter("mask_emb", 1, 1, h), stack)
