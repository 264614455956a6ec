"""Reformer: attention in chunks, positions as sums of axes, layers whose inputs can be computed back."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, labels
from tfcalc.core.cost import Tensor as Weight
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families.bert_tops import MASKED
from tfcalc.families.layers import by_kind, network, stack
from tfcalc.nn.basic import Embedding, Linear, Stored
from tfcalc.nn.embeddings import Embeddings, Positions
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.heads import FIRST, Classifier
from tfcalc.nn.model import Predictions, WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.neighbours import NeighbourAttention
from tfcalc.nn.reversible import Axes, ReversibleLayer, ReversibleLayers

PROJECTIONS = {"local": ("query", "key", "value"), "lsh": ("query_key", "value")}


def logits(c: Config, base: Module, **loss: bool) -> Module:
    """Logits of both streams together, never tied."""
    wide, vocabulary = 2 * c.size("hidden_size"), c.size("vocab_size")
    bias = Stored("bias", Weight("lm_head.bias", (vocabulary,), minor=True, key=""))
    head = Predictions("lm_head", None, None, tops.logits("decoder", wide, vocabulary), bias)
    return WithHead("", base, head, **loss)


def masked(c: Config, base: Module) -> Module:
    """Of the tokens themselves."""
    return logits(c, base, **MASKED)


def of_sequences(c: Config, base: Module) -> Module:
    """Classes, by a map of the first token's vector."""
    h = c.size("hidden_size")
    maps = Linear("classifier.dense", 2 * h, h, "", True), Linear("classifier.out_proj", h, labels(c), "", True)
    return Classifier("", base, None, maps, FIRST, dropped=kit.drops(c))


def of_answers(c: Config, base: Module) -> Module:
    """Where an answer starts and ends."""
    return Classifier("", base, None, (Linear("qa_outputs", 2 * c.size("hidden_size"), labels(c), "", True),))


HEADS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": masked,
    "ModelWithLMHead": logits,
    "ForSequenceClassification": of_sequences,
    "ForQuestionAnswering": of_answers,
}


def kinds(c: Config) -> list[str]:
    """Each layer's attention; more layers than are named only where all are alike."""
    named = c.get("attn_layers")
    given = c.words("attn_layers", len(named) if isinstance(named, list | tuple) else 0, tuple(PROJECTIONS))
    count = c.number("num_hidden_layers") if c.has("num_hidden_layers") else len(given)
    if len(set(given)) == 1:
        return given[:1] * count
    if not 0 < count <= len(given):
        raise InvalidModel(f"{c.path('attn_layers')} has {len(given)} entries, not {count}", "name one for each layer")
    return given[:count]


def mixer(kind: str, c: Config) -> NeighbourAttention:
    """Attention to chunks of neighbours, or of tokens that hash alike."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.size("attention_head_size")
    around = 1 + c.number(f"{kind}_num_chunks_before", least=0) + c.number(f"{kind}_num_chunks_after", least=0)
    names = (f"self_attention.{name}" for name in PROJECTIONS[kind])
    return NeighbourAttention(
        "attention",
        a,
        d,
        c.number(f"{kind}_attn_chunk_length"),
        around,
        tuple(Linear(name, h, a * d, name) for name in names),
        Linear("output.dense", a * d, h, "O"),
        rounds=c.size("num_hashes") if kind == "lsh" else 1,
        rotation=rotation(c) if kind == "lsh" else 0,
    )


def rotation(c: Config) -> int:
    """How many vectors a hash compares with: half of ``num_buckets``, or of both factors' sum. None if left to run."""
    given = c.get("num_buckets")
    factors = (
        c.numbers("num_buckets", least=2) if isinstance(given, list) else [c.number("num_buckets") if given else 0]
    )
    return sum(factors) // 2


def layer(kind: str, c: Config) -> ReversibleLayer:
    """Norm and attention, norm and feed-forward network, each added to the other of two streams."""
    h, f, names = c.size("hidden_size"), c.size("feed_forward_size"), ("dense.dense", "output.dense")
    norms = kit.norm(c, "attention.layer_norm"), kit.norm(c, "feed_forward.layer_norm")
    ffn = network("feed_forward", names, h, f, c.word("hidden_act"))
    return ReversibleLayer("layers", mixer(kind, c), ffn, norms, kit.drops(c))


def positions(c: Config) -> Module:
    """A vector for each position; or, for each of its coordinates, a vector that is a piece of it."""
    h = c.size("hidden_size")
    if not c.flag("axial_pos_embds"):
        return Positions("position_embeddings.embedding", c.size("max_position_embeddings"), h)
    shape = c.numbers("axial_pos_shape", least=1)
    widths = c.numbers("axial_pos_embds_dim", len(shape), least=1)
    if sum(widths) != c.number("hidden_size"):
        raise InvalidModel(f"{c.path('axial_pos_embds_dim')} {widths} does not add up to hidden_size", "make it")
    pieces = enumerate(zip(shape, widths, strict=True))
    return Axes("position_embeddings", tuple(Positions(f"weights.{axis}", *each) for axis, each in pieces))


@family("reformer", architecture="ReformerForMaskedLM", heads=HEADS)
def reformer(c: Config) -> Module:
    """Kitaev et al. 2020 (arXiv 2001.04451): two streams, which the last norm and the head read side by side."""
    h, each = c.size("hidden_size"), kinds(c)
    layers = stack(c, by_kind(lambda kind: layer(kind, c), each), count=len(each))
    words = Embedding("word_embeddings", c.size("vocab_size"), h)
    return Encoder(
        "reformer",
        Embeddings("embeddings", (words, positions(c)), None, kit.drops(c)),
        (),
        ReversibleLayers("encoder", (), layers, kit.norm(c, "layer_norm", 2 * h)),
    )
