"""ESM: language models of proteins."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, classifier
from tfcalc.core.number import floor_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import OWN_SOFTMAX
from tfcalc.nn.basic import Linear, buffer
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.encoder import Layers, WithUnread
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.zoo.blocks import decoders, encoders
from tfcalc.zoo.blocks.encoders import TASKS, Residues, dense_classes, lm, masked_upcast, predicted

NAMES = ("dense", "layer_norm", "decoder")


def amino_acids(c: Config) -> Predictions:
    """Predictions as in RoBERTa, with one bias whether the matrix is tied or not, which is added by itself."""
    made = predicted("lm_head", c, c.size("hidden_size"), NAMES, "gelu")
    return made.replace(decoder=made.decoder.replace(bias=False, bias_of=None), code="gelu_python")


TOPS: dict[str, Top] = {**TASKS, **lm(amino_acids), "ForSequenceClassification": dense_classes()}


@family("esm", heads=TOPS, vocab_size=33, hidden_act="gelu")
def esm(c: Config) -> Module:
    """Lin et al. 2022 (ESM-2, Science 379): norms before the sub-layers and after the last one.

    Every class has the regression that tells which residues touch each other; no forward pass runs it.
    """
    norms = ("attention.LayerNorm", "crossattention.LayerNorm", "LayerNorm")
    d, turns = c.quotient("hidden_size", "num_attention_heads"), placed(c) == "rotary"
    mixer = encoders.attention(c, rope=Rope(d, RopeCode(in_float32=True)) if turns else None)
    ffn = encoders.network(c).replace(code="gelu_python")
    layers = encoders.stack(c, mixer, norms=norms, ffn=ffn, cross=encoders.cross_attention(c), of=PreNorm)
    pairs = c.size("num_hidden_layers") * c.size("num_attention_heads")
    contacts = Linear("contact_head.regression", pairs, 1, "", True)
    return WithUnread(
        "esm",
        residues(c),
        (),
        Layers("encoder", (), layers, encoders.norm(c, "emb_layer_norm_after")),
        pooler=encoders.pooler(c, ("Model",)),
        pools=c.head == "Model",
        unread=(*frequencies(c), contacts),
    )


def residues(c: Config) -> Module:
    """A vector of each residue, and of its position where that is ``absolute``."""
    tables = (encoders.positions(c, indices=TOKENS),) if placed(c) == "absolute" else ()
    made = encoders.embeddings(c, *tables, normed="layer_norm" if c.flag("emb_layer_norm_before") else "")
    return Residues(made.name, made.tables, made.norm, masks_words=c.flag("token_dropout"))


def frequencies(c: Config) -> tuple[Module, ...]:
    """Return the buffer of rotary frequencies, half as many as a head is wide: ESM is one of few that store them."""
    if placed(c) != "rotary":
        return ()
    half = floor_div(c.quotient("hidden_size", "num_attention_heads") + 1, 2)
    return (buffer("rotary_embeddings.inv_freq", half),)


def placed(c: Config) -> str:
    """Return the kind of the position embedding."""
    return "absolute" if c.get("position_embedding_type") is None else c.word("position_embedding_type")


def amino_acids_untied(c: Config) -> Predictions:
    """Predictions by a matrix of their own."""
    made = predicted("lm_head", c, c.size("hidden_size"), NAMES, "gelu")
    return made.replace(decoder=made.decoder.replace(tied_to=None, bias_of=None), bias=None)


ESMC_TOPS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": masked_upcast(amino_acids_untied),
    "ForSequenceClassification": dense_classes(dropped="classifier_dropout"),
    "ForTokenClassification": classifier(bias=True),
}


@family("esmc", heads=ESMC_TOPS)
def esmc(c: Config) -> Module:
    """ESM Cambrian (EvolutionaryScale 2024): Llama that looks both ways, with LayerNorms, of queries and keys too."""
    if c.optional("num_key_value_heads") is not None and c.number("num_key_value_heads") != c.number(
        "num_attention_heads"
    ):
        raise InvalidModel(f"{c.path('num_key_value_heads')} must be num_attention_heads", "leave it out")
    norms, last = "layernorm", "layernorm-no-bias"
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms=last, whole=True, causal=False)
    layer = decoders.layer(c, mixer.replace(eager=OWN_SOFTMAX), decoders.gated(c, bias=c.flag("mlp_bias")), norm=norms)
    names = ("esmc", "embed_tokens", "norm")
    return decoders.decoder(c, layer.replace(scales=True), norm=last, names=names)
