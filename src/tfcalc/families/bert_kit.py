"""What BERT and its kin are composed of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.windows import LAYERS
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.embeddings import BUFFER, PLACES, Embeddings, Positions, Segments
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import PostNorm, PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack

NAMES = ("self.query", "self.key", "self.value", "output.dense")
FFN = ("intermediate.dense", "output.dense")
POST_NORM = ("attention.output.LayerNorm", "crossattention.output.LayerNorm", "output.LayerNorm")
PAIRED = ("Model", "ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification", "ForMultipleChoice")
"""The classes that read the pooled first token, in BERT; the others are made without a pooler."""
FIRST_TOKEN = ("Model", "ForMultipleChoice")
"""Those that do so in RoBERTa, whose classifier has a map of its own."""
READERS = ("Model", "Encoder", "Decoder", "ForCausalLM", "LMHeadModel", "ForMaskedLM")
"""The classes that take another model's output (``encoder_hidden_states``)."""


def norm(c: Config, name: str, width: Num | None = None, form: str = "layernorm") -> Norm:
    """A LayerNorm, of the hidden size if no other ``width`` is given."""
    return Norm(name, form, c.size("hidden_size") if width is None else width)


def drops(c: Config) -> bool:
    """Whether embeddings and what sub-layers make are dropped in part."""
    return bool(c.get("hidden_dropout_prob"))


def positions(c: Config, *, width: Num | None = None, indices: str = BUFFER) -> Positions:
    """A trained vector for each position."""
    e = c.size("hidden_size") if width is None else width
    return Positions("position_embeddings", c.size("max_position_embeddings"), e, indices)


def token_types(c: Config, *, width: Num | None = None, indices: str = PLACES) -> Segments:
    """A vector for each segment: the first sentence, the second."""
    e = c.size("hidden_size") if width is None else width
    return Segments("token_type_embeddings", c.size("type_vocab_size", least=0), e, indices)


def embeddings(c: Config, *tables: Module, width: Num | None = None, normed: str = "LayerNorm") -> Embeddings:
    """The words' vectors, what is added to them, and a norm (none where ``normed`` is empty)."""
    e = c.size("hidden_size") if width is None else width
    words = Embedding("word_embeddings", c.size("vocab_size"), e)
    return Embeddings("embeddings", (words, *tables), norm(c, normed, e) if normed else None, drops(c))


def attention(
    c: Config,
    *,
    name: str = "attention",
    names: Sequence[str] = NAMES,
    bias: bool = True,
    of: type[Attention] = Attention,
    **more: Any,
) -> Attention:
    """Heads that split the hidden size, which see everything, unless the config says that it is a decoder."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    *inward, outward = names
    maps = tuple(Linear(one, h, a * d, letter, bias) for one, letter in zip(inward, "QKV", strict=True))
    dropped = {"dropout": bool(c.get("attention_probs_dropout_prob"))}
    causal = {"causal": c.flag("is_decoder")} if of is Attention else {}
    own: dict[str, Any] = {"eager": OWN_SOFTMAX} | dropped | causal | more
    return of(name, a, a, d, d, maps, (), Linear(outward, a * d, h, "O", True), **own)


def cross_attention(
    c: Config, *, names: Sequence[str] = NAMES, bias: bool = True, readers: Sequence[str] = READERS, **more: Any
) -> CrossAttention | None:
    """Attention to another model's output (``add_cross_attention``). InvalidModel in an encoder, as in transformers.

    Classes that are no ``readers`` have it, but take no such output: there it never runs.
    """
    if not c.flag("add_cross_attention"):
        return None
    if not c.flag("is_decoder"):
        raise InvalidModel(f"{c.path('add_cross_attention')} is true, but is_decoder is not", "set is_decoder to true")
    reads = c.head in readers
    made = attention(c, name="crossattention", names=names, bias=bias, of=CrossAttention, reads=reads, **more)
    assert isinstance(made, CrossAttention)
    return made


def network(c: Config, *, name: str = "(ffn)", names: Sequence[str] = FFN) -> FeedForward:
    """Two maps, that the checkpoint keeps apart."""
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    up, down = Linear(names[0], h, f, "1", True), Linear(names[1], f, h, "2", True)
    return FeedForward(name, up, down, c.word("hidden_act"))


def stack(
    c: Config,
    mixer: Module,
    *,
    norms: Sequence[str] = POST_NORM,
    ffn: Module | None = None,
    cross: Module | None = None,
    of: type[PreNorm] = PostNorm,
    name: str = "layer",
    undropped: Sequence[str] = (),
) -> Stack:
    """Equal layers: mixer, cross-attention where there is any, feed-forward, and the norms that go with them."""
    subs = (mixer, *((cross,) if cross else ()), ffn or network(c))
    named = [norms[0], *([norms[1]] if cross else []), norms[2]]
    made = tuple(norm(c, one) for one in named)
    layer = of(name, subs, made, drops(c), undropped=tuple(undropped))
    return Stack(name, (layer,) * c.number(LAYERS), c.size(LAYERS))


def pooler(c: Config, classes: Sequence[str], name: str = "pooler.dense") -> Linear | None:
    """A map of the first token's vector, in these classes."""
    h = c.size("hidden_size")
    return Linear(name, h, h, "", True) if c.head in classes else None


def bert_like(
    name: str,
    c: Config,
    *tables: Module,
    pooled: Sequence[str] = PAIRED,
    mixer: Attention | None = None,
    norms: Sequence[str] = POST_NORM,
    normed: str = "LayerNorm",
    final: str = "",
    bias: bool = True,
    cross: bool = True,
    undropped: Sequence[str] = (),
    **more: Any,
) -> Encoder:
    """BERT by its ``tables`` beside the words, its ``norms`` of layers and after the last, and who has a pooler."""
    memory = cross_attention(c, bias=bias, **more) if cross else None
    mixer = mixer or attention(c, bias=bias, **more)
    of = PostNorm if norms is POST_NORM else PreNorm
    layers = stack(c, mixer, norms=norms, cross=memory, of=of, undropped=undropped)
    return Encoder(
        name,
        embeddings(c, *tables, normed=normed),
        (),
        Layers("encoder", (), layers, norm(c, final) if final else None),
        pooler=pooler(c, pooled),
        pools=c.head in PAIRED,
    )


def with_tables(c: Config, indices: str = "") -> tuple[Positions, Segments]:
    """BERT's own tables: positions and token types; RoBERTa makes numbers for each token."""
    return positions(c, indices=indices or BUFFER), token_types(c, indices=indices or PLACES)
