"""XLM and FlauBERT: BERT-like encoders, whose parts of a kind are together in the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, classifier, labels, lm_head
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, EagerCode
from tfcalc.nn.basic import Embedding, Linear
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import residual, times_mask
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.layers import multi_head, network, stack
from tfcalc.zoo.blocks.sequence_summary import Summarised, of_answers, summary


class MaskedLayer(PreNorm):
    """A layer with its norms behind the sums, or before the sub-layers (``first``); then tokens are masked."""

    first: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another, then mask tokens."""
        for norm, sub in self.running(ctx):
            x = residual(x, self.dropping(sub, sub(norm(x, ctx) if self.first else x, ctx), ctx), sub.name)
            x = x if self.first else norm(x, ctx)
        # a product with a mask would be the last operation of the layer that is counted
        return times_mask(x) if x.trace.emits_kernels else x


class MaskedDecoder(Decoder):
    """A stack whose embedding is masked, too. Vectors of ``languages`` are stored; token ids alone ask for none."""

    languages: Embedding | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Tables, their norm, layers."""
        parts = (*self.added, self.table, self.languages, self.normed, self.layers)
        return (part for part in parts if part is not None)

    def sum_embeddings(self, tables: list[Tensor], ctx: Context) -> Tensor:
        """Add up the tables' vectors, then mask them."""
        return times_mask(super().sum_embeddings(tables, ctx))


NAMES = ("q_lin", "k_lin", "v_lin", "out_lin")
LM = lm_head("pred_layer.proj", bias=True, shifted=False)


def of_words(c: Config, base: Module) -> Module:
    """Logits of every token, whose labels are those of the tokens."""
    return LM(c, base).replace(upcasts=False)


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


@family("xlm", heads=TOPS)
def xlm(c: Config) -> Module:
    """Lample and Conneau 2019 (arXiv 1901.07291): a vector for each language."""
    return masked(c)


@family("flaubert", heads=TOPS)
def flaubert(c: Config) -> Module:
    """Le et al. 2019 (arXiv 1912.05372): XLM, whose norms may come before the sub-layers."""
    return masked(c, first=c.flag("pre_norm"))


def masked(c: Config, *, first: bool = False) -> MaskedDecoder:
    """Layers that mask tokens, with norms behind the sums, or before the sub-layers (``first``)."""
    if c.flag("asm"):
        raise InvalidModel(f"{c.path('asm')} is true", "an adaptive softmax is not supported")
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    drops, scores = bool(c.get("dropout")), bool(c.get("attention_dropout"))
    mixer = multi_head(Attention, "attentions", NAMES, h, a, d, bias=True, dropout=scores)
    mixer = mixer.replace(causal=c.flag("causal"), masked=False, eager=EagerCode(mask="own"))
    ffn = network("ffns", ("lin1", "lin2"), h, 4 * h, "gelu" if c.flag("gelu_activation") else "relu")
    norms = tuple(encoders.norm(c, name) for name in ("layer_norm1", "layer_norm2"))
    layer = MaskedLayer("(layers)", (mixer, ffn), norms, drops, first=first)
    told = c.flag("use_lang_emb") and c.number("n_langs") > 1
    return MaskedDecoder(
        "transformer",
        Embedding("embeddings", c.size("vocab_size"), h),
        stack(c, layer),
        None,
        added=(encoders.positions(c),),
        dropped=drops,
        normed=encoders.norm(c, "layer_norm_emb"),
        languages=Embedding("lang_embeddings", c.size("n_langs"), h) if told else None,
    )
