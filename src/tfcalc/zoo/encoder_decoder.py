"""Two published models as one: an encoder, and a language model that also reads what it made."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, find
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.encoder_decoder import Pair
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Module

LANGUAGE = ("ForCausalLM", "LMHeadModel")


@family("encoder-decoder", heads={"Model": tops.bare})
def encoder_decoder(c: Config) -> Module:
    """Rothe et al. 2019 (arXiv 1907.12461): any encoder, any decoder with a head; BERT and BERT where none is told.

    Whether the decoder attends to the encoder is said in its own config, unless that is left out.
    """
    reads = c.sub("encoder", "bert", head="Model")
    whole = {} if c.has("decoder") else {"is_decoder": True, "add_cross_attention": True}
    head = _language_head(c.sub("decoder", "bert").model_type)
    writes = c.sub("decoder", "bert", over=whole, head=head)
    return Pair("model", _encoder(reads), _decoder(writes, head), _bridge(reads, writes))


def _encoder(c: Config) -> Module:
    """Return the model by itself; a pooler runs, but the decoder reads the vectors beside it."""
    made = find(c.model_type).base(c).replace(name="encoder")
    return made.replace(pools=False) if isinstance(made, Encoder) else made


def _decoder(c: Config, head: str) -> Module:
    """The model with its head, whose labels are not moved: they are given to the whole."""
    made = find(c.model_type).module(c, head).replace(name="decoder")
    return made.replace(shifted=False, upcasts=False) if isinstance(made, ModelWithHead) else made


def _language_head(kind: str) -> str:
    heads = [head for head in LANGUAGE if head in find(kind).heads]
    if not heads:
        raise InvalidModel(f"decoder.model_type {kind} has no language model", "name a decoder, or BERT")
    return heads[0]


def _bridge(reads: Config, writes: Config) -> Linear | None:
    """A map between the two where they differ in width, unless the decoder's attention has one."""
    h = "hidden_size"
    if reads.number(h) == writes.number(h) or writes.get("cross_attention_hidden_size") is not None:
        return None
    return Linear("enc_to_dec_proj", reads.size(h), writes.size(h), bias=True)
