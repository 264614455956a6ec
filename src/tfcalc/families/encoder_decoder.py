"""Two published models as one: an encoder, and a language model that also reads what it made."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, find, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.gradient import without_gradient
from tfcalc.errors import InvalidModel
from tfcalc.leaves import linear
from tfcalc.workload import Workload

LANGUAGE = ("ForCausalLM", "LMHeadModel")


@family("encoder-decoder", architecture="EncoderDecoderModel", heads={"Model": bare})
def encoder_decoder(c: Config, run: Workload) -> Component:
    """Rothe et al. 2019 (arXiv 1907.12461): any encoder, any decoder with a head; BERT and BERT where none is told.

    Whether the decoder attends to the encoder is said in its own config, unless that is left out.
    """
    reads = c.sub("encoder", "bert", head="Model")
    whole = {} if c.has("decoder") else {"is_decoder": True, "add_cross_attention": True}
    head = _language_head(c.sub("decoder", "bert").model_type)
    writes = c.sub("decoder", "bert", over=whole, head=head)
    encoder = nested(reads, _on_source(run), "encoder")
    encoder = encoder._replace(parts=tuple(_unread(part) for part in encoder.parts))
    decoder = Component("decoder", "decoder", parts=find(writes.model_type).whole(writes, run, head, loss=False))
    return Component("model", "encoder-decoder", parts=(encoder, decoder, *_bridge(reads, writes, run)))


def _on_source(run: Workload) -> Workload:
    """What the encoder runs, which is a model by itself: nothing where a token is decoded."""
    return run.replaced(batch_size=0) if run.decoding else run.replaced(seq_len=run.source.length)


def _unread(part: Component) -> Component:
    """A pooler runs, but the decoder reads the vectors that it stands beside."""
    return without_gradient(part) if part.name.startswith("pooler") else part


def _language_head(kind: str) -> str:
    heads = [head for head in LANGUAGE if head in find(kind).heads]
    if not heads:
        raise InvalidModel(f"decoder.model_type {kind} has no language model", "name a decoder, or BERT")
    return heads[0]


def _bridge(reads: Config, writes: Config, run: Workload) -> list[Component]:
    """A map between the two where they differ in width, unless the decoder's attention has one.

    Its result is not cached: it runs again for each token that is decoded.
    """
    source, target = _width(reads), _width(writes)
    if reads.number(source) == writes.number(target) or writes.get("cross_attention_hidden_size") is not None:
        return []
    made = linear("enc_to_dec_proj", reads.size(source), writes.size(target), run.batch_size * run.source.seen)
    return [made if writes.flag("add_cross_attention") else without_gradient(made)]


def _width(c: Config) -> str:
    """What its family calls the hidden size."""
    return c.aliases.get("hidden_size", "hidden_size")
