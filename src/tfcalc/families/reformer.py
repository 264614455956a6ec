"""Reformer: attention in chunks, positions as sums of axes, layers whose inputs can be computed back."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward, layer, stack
from tfcalc.blocks.neighbour_attention import NeighbourAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, labels, output
from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel
from tfcalc.leaves import embedding, learned_position, linear, norm, parameter
from tfcalc.workload import Workload

PROJECTIONS = {"local": ("query", "key", "value"), "lsh": ("query_key", "value")}


def logits(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits of both streams together, never tied."""
    wide, vocabulary = 2 * c.size("hidden_size"), c.size("vocab_size")
    decoder = output("lm_head.decoder", wide, vocabulary, run, tied=False)
    return base, decoder, parameter("lm_head.bias", vocabulary, minor=True)


def of_sequences(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes, by a map of the first token's vector."""
    h, batch = c.size("hidden_size"), run.target.batch
    yield base
    yield linear("classifier.dense", 2 * h, h, batch)
    yield linear("classifier.out_proj", h, labels(c), batch)


def of_answers(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Where an answer starts and ends."""
    return base, linear("qa_outputs", 2 * c.size("hidden_size"), labels(c), run.target.tokens)


HEADS: dict[str, Head] = {
    "Model": bare,
    "ForMaskedLM": logits,
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


def mixer(kind: str, c: Config, run: Workload) -> Component:
    """Attention to chunks of neighbours, or of tokens that hash alike."""
    around = 1 + c.number(f"{kind}_num_chunks_before", least=0) + c.number(f"{kind}_num_chunks_after", least=0)
    names = (*(f"self_attention.{name}" for name in PROJECTIONS[kind]), "output.dense")
    block = NeighbourAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        c.size("attention_head_size"),
        c.number(f"{kind}_attn_chunk_length"),
        around,
        names,
        rounds=c.size("num_hashes") if kind == "lsh" else 1,
        rotation=rotation(c) if kind == "lsh" else 0,
    )
    return block("attention", run.target, run)


def rotation(c: Config) -> int:
    """How many vectors a hash compares with: half of ``num_buckets``, or of both factors' sum. None if left to run."""
    given = c.get("num_buckets")
    factors = (
        c.numbers("num_buckets", least=2) if isinstance(given, list) else [c.number("num_buckets") if given else 0]
    )
    return sum(factors) // 2


def reversible(part: Component) -> Component:
    """The same where backward runs it again, from its outputs: nothing of it was kept, however it is trained."""
    products = tuple(one._replace(backward=one.backward + 1 if one.backward else 0) for one in part.own.products)
    return part._replace(own=part.own._replace(products=products), parts=tuple(map(reversible, part.parts)))


def reformer_layer(kind: str, c: Config, run: Workload) -> Component:
    """Norm and attention, norm and feed-forward network, each added to the other of two streams."""
    h, stream = c.size("hidden_size"), run.target
    names = ("dense.dense", "output.dense")
    ffn = FeedForward(h, c.size("feed_forward_size"), c.word("hidden_act"), bias=True, names=names)
    norms = (norm(f"{part}.layer_norm", "layernorm", h, stream.tokens) for part in ("attention", "feed_forward"))
    return reversible(
        layer("layers", (mixer(kind, c, run), ffn("feed_forward", stream, run), *norms), stream.tokens * h)
    )


def positions(c: Config, run: Workload) -> Iterator[Component]:
    """A vector for each position; or, for each of its coordinates, a vector that is a piece of it."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    if not c.flag("axial_pos_embds"):
        yield learned_position("position_embeddings.embedding", c.size("max_position_embeddings"), h, tokens)
        return
    shape = c.numbers("axial_pos_shape", least=1)
    widths = c.numbers("axial_pos_embds_dim", len(shape), least=1)
    if sum(widths) != c.number("hidden_size"):
        raise InvalidModel(f"{c.path('axial_pos_embds_dim')} {widths} does not add up to hidden_size", "make it")
    for axis, (size, width) in enumerate(zip(shape, widths, strict=True)):
        yield learned_position(f"position_embeddings.weights.{axis}", size, width, tokens)


@family("reformer", architecture="ReformerForMaskedLM", heads=HEADS)
def reformer(c: Config, run: Workload) -> Component:
    """Kitaev et al. 2020 (arXiv 2001.04451): two streams, which the last norm and the head read side by side."""
    h, tokens, each = c.size("hidden_size"), run.target.tokens, kinds(c)
    layers = stack("layers", each, len(each), lambda kind: reformer_layer(kind, c, run))
    words = embedding("word_embeddings", c.size("vocab_size"), h, tokens)
    return Component(
        "reformer",
        "encoder",
        parts=(
            Component("embeddings", "embeddings", parts=(words, *positions(c, run))),
            Component("encoder", "encoder", parts=(*layers, norm("layer_norm", "layernorm", 2 * h, tokens))),
        ),
    )
