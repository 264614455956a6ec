"""Targets: parts of a model, by the name that textbooks give them, or by their path in the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfcalc.analysis.quantities import QUANTITIES
from tfcalc.core.component import Node
from tfcalc.core.measure import LAYERS
from tfcalc.core.traced import value_of
from tfcalc.errors import UnknownTarget, UsageError, nearest

if TYPE_CHECKING:
    from tfcalc.model import Model

FIRST = "[first]"
"""A layer that stands by itself because what it reads needs no gradient: not what is meant by a layer."""

Finder = Callable[[Node], bool]


def _named(name: str) -> Finder:
    return lambda node: node.component.name == name


def _kind(kind: str) -> Finder:
    return lambda node: node.component.kind == kind


def by_path(path: str) -> Finder:
    """Return a finder by a path or the end of it; groups of layers (``layers[0-2]``) also without saying which."""

    def fits(node: Node) -> bool:
        own = node.path if "[" in path else LAYERS.sub("", node.path)
        return own == path or own.endswith(f".{path}")

    return fits


def _whole(node: Node) -> bool:
    """A whole model; one that heads nothing else, such as BERT's encoder, but not a core without a vocabulary."""
    return node.component.kind == "model" or (len(node.names) == 1 and node.component.kind != "core")


def _layer_of(stack: str) -> Finder:
    return lambda node: node.component.kind == "layer" and stack in node.names


def _attention(*, across: bool) -> Finder:
    """Attention within a sequence, or ``across`` two: the names that checkpoints give it tell them apart."""

    def fits(node: Node) -> bool:
        crosses = any(mark in node.component.name.lower() for mark in ACROSS)
        return node.component.kind == "attention" and crosses == across

    return fits


ACROSS = ("cross", "encoder_attn", "encdecattention")


TARGETS: dict[str, Finder] = {
    "mha": _attention(across=False),
    "attention": _attention(across=False),
    "cross-mha": _attention(across=True),
    "sdpa": _kind("attend"),
    "ffn": _kind("ffn"),
    "ln": _kind("norm"),
    "moe": _kind("moe"),
    "router": _kind("router"),
    "experts": _kind("experts"),
    "layer": _kind("layer"),
    "encoder-layer": _layer_of("encoder"),
    "decoder-layer": _layer_of("decoder"),
    "encoder": _named("encoder"),
    "decoder": _named("decoder"),
    "core": _named("core"),
    "embedding": _kind("embedding"),
    "output": _kind("output"),
    "complete": _whole,
}
"""Names for parts that most models have; the first one that fits is taken."""

OTHER_NAMES = {
    "attn": "attention",
    "selfattn": "attention",
    "selfattention": "attention",
    "multiheadattention": "attention",
    **dict.fromkeys(("gqa", "mqa", "mla", "groupedqueryattention", "flashattention"), "attention"),
    **dict.fromkeys(("swiglu", "geglu", "gatedmlp"), "ffn"),
    "crossattn": "cross-mha",
    "crossattention": "cross-mha",
    "multiheadcrossattention": "cross-mha",
    "scaleddotproductattention": "sdpa",
    "mlp": "ffn",
    "feedforward": "ffn",
    "feedforwardnetwork": "ffn",
    "norm": "ln",
    "layernorm": "ln",
    "rmsnorm": "ln",
    "encoderlayer": "encoder-layer",
    "transformerencoderlayer": "encoder-layer",
    "decoderlayer": "decoder-layer",
    "transformerdecoderlayer": "decoder-layer",
    "block": "layer",
    **dict.fromkeys(("transformerblock", "transformerlayer", "decoderblock"), "layer"),
    **dict.fromkeys(("embeddings", "tokenembedding", "tokenembeddings", "wordembeddings"), "embedding"),
    "lmhead": "output",
    "unembedding": "output",
    "outputhead": "output",
    "model": "complete",
}
"""What texts, papers and PyTorch call these parts, in small letters without hyphens; a path of the tree comes first."""

NO_PARTS = {
    **dict.fromkeys(
        ("wq", "wk", "wv", "wo", "wqkv", "bq", "bk", "bv", "bo"), "it is a row of tfcalc explain attention"
    ),
    **dict.fromkeys(("w1", "w2", "b1", "b2"), "it is a row of tfcalc explain ffn"),
    **dict.fromkeys(("relu", "gelu", "activation"), "it is a row of tfcalc explain ffn --of flops --count all"),
    **dict.fromkeys(("softmax", "scores", "qk"), "it is a row of tfcalc explain sdpa --of flops --count all"),
    **dict.fromkeys(("head", "heads"), "all heads together are attention; the head that makes logits is output"),
    "dropout": "it has no parameters; tfcalc explain layer --of flops --train --count all has its operations",
    "residual": "it has no parameters; tfcalc explain layer --of flops --count all has its operations",
}
"""What is inside a part, and where it is shown."""


def letters(name: str) -> str:
    """Return the name in small letters and digits alone: ``Feed-Forward`` and ``feed_forward`` are feedforward."""
    return "".join(character for character in name.lower() if character.isalnum())


def meant_by(name: str) -> str:
    """Our name of a part that others call so; any other name as it is.

    >>> meant_by("Feed-Forward"), meant_by("ffn")
    ('ffn', 'ffn')
    """
    return OTHER_NAMES.get(letters(name), name)


def _finder(root: Node, target: str) -> Finder:
    """Return the finder of the nodes that a target names: by its own name, by a path, or as others call it."""
    fits = TARGETS.get(target) or by_path(target)
    other = meant_by(target)
    return fits if other == target or any(fits(node) for node in root.walk()) else TARGETS[other]


NEED_VOCABULARY = ("embedding", "output", "complete", "transformer", "position")


def needs_vocabulary(target: str) -> bool:
    """Return True if a model has such a part only if it has a vocabulary."""
    return meant_by(target).split(".")[0] in NEED_VOCABULARY


SOME_VOCABULARY = 2
"""Of a model without one; beside its letter V it has to have a number."""


def with_some_vocabulary(model: Model, target: str) -> Model:
    """The model with a vocabulary, where the target is a part that it has only with one."""
    return model.with_vocabulary(SOME_VOCABULARY) if needs_vocabulary(target) else model


def find(root: Node, target: str) -> Node:
    """The first node that ``target`` names. Raises UsageError with the nearest names where there is none.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> from tfcalc.workload import Workload
    >>> find(Transformer().tree(Workload()).root(), "cross-mha").path
    'core.decoder.layer.cross_attention'
    """
    fits = _finder(root, target)
    fitting = [node for node in root.walk() if fits(node)]
    for node in fitting:
        if FIRST not in node.path or FIRST in target:
            return node
    if fitting:
        return fitting[0]
    paths = [node.path for node in root.walk()]
    if meant_by(target) in TARGETS or needs_vocabulary(target):
        parts = f"its parts: {', '.join(_blocks(root))}"
        wanted = "give it a vocabulary (--vocab-size 32000), or choose of " if needs_vocabulary(target) else ""
        raise UnknownTarget(f"target {target!r} is not part of this model", wanted + parts)
    if target in QUANTITIES:
        raise UsageError(f"target {target!r} is a quantity, not a part", f"write complete --of {target}")
    all_parts = f"known: {', '.join(TARGETS)}"
    hint = NO_PARTS.get(letters(target)) or nearest(target, [*TARGETS, *paths], otherwise=all_parts)
    raise UnknownTarget(f"target {target!r} is not known", hint)


PARTS_OF_LAYERS = {
    **dict.fromkeys(("attention", "mha", "selfattention"), ("attention", "attn")),
    **dict.fromkeys(("ffn", "mlp", "feedforward"), ("ffn", "mlp", "feed_forward")),
}
"""How the names of a part's module end, by what people call it, in small letters alone."""
STATES = ("weights", "master weights", "gradients", "optimizer")
"""Terms that may be offloaded."""


def find_term(root: Node, target: str) -> Node:
    """Find a target in a tree of memory: a term by name, ``complete`` for all of them, or what is inside one.

    That is named by its path, or as a part of a layer is called: the first one with such a name.

    Raises UsageError with the nearest, or with the terms that there are.
    """
    terms = {node.component.name: node for node in root.below()}
    if target in ("complete", root.component.name):
        return root
    if target in terms:
        return terms[target]
    inside = [node for node in root.walk() if by_path(target)(node)]
    ends = PARTS_OF_LAYERS.get(letters(target), ())
    named = [node for node in root.walk() if ends and node.path.endswith(ends)]
    inside += sorted(named, key=lambda node: not node.path.startswith(f"{root.component.name}.activations."))
    if inside:
        return inside[0]
    paths = [node.path.partition(".")[2] for node in root.walk()]
    hint = nearest(target, [*terms, *paths[1:]], otherwise=f"known: complete, {', '.join(terms)}")
    if target in STATES and len(terms) > 1:
        hint += "; what is offloaded is in the host's memory: tfcalc explain host_bytes"
    inside_layers = "; or add --checkpointing none: a layer that runs again saves its input alone"
    of_layers = bool(ends) or target.startswith("activations.")
    raise UnknownTarget(f"target {target!r} is not a term of memory", hint + inside_layers * of_layers)


def others(root: Node, target: str, found: Node) -> list[str]:
    """Return notes beside what was found: how often the model has it, and where else there is such a part."""
    fits = _finder(root, target)
    rest = [node.path for node in root.walk() if fits(node) and node.path != found.path]
    apart = [path for path in rest if not path.startswith(f"{found.path}.")]
    called = "layers" if found.component.kind == "layer" else "modules"
    copies = value_of(found.copies)
    notes = [f"one of {copies:,} identical {called}"] if copies != 1 else []
    return notes + ([f"first match; others: {', '.join(apart[:MOST])}"] if apart else [])


MOST = 4
"""Other parts that are named."""


def _blocks(root: Node) -> list[str]:
    return [target for target, fits in TARGETS.items() if any(fits(node) for node in root.walk())]
