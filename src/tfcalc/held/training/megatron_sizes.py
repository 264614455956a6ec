"""The sizes that Korthikanti et al. 2022 ask of a model, and how its devices share them."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.measure import major_params
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import traced
from tfcalc.errors import InvalidModel
from tfcalc.model import Model
from tfcalc.workload import DEFAULT_LENGTH, Workload

NORMS_OF_A_LAYER = 2
REMEDY = "the paper covers identical layers of two norms, attention and an MLP"


class Sizes(NamedTuple):
    """A single stack of transformer layers, as figure 2 of arXiv 2205.05198 has it.

    Those that are None follow: ``d_ff = 4·d_model``, ``n_kv_heads = n_heads``, ``head_dim = d_model / n_heads``.
    Without ``vocab_size`` there is no output layer. ``gated`` networks have two matrices before the activation.
    """

    d_model: Num
    n_heads: Num
    n_layers: Num
    vocab_size: Num | None = None
    d_ff: Num | None = None
    n_kv_heads: Num | None = None
    head_dim: Num | None = None
    gated: bool = False
    final_norm: bool = True

    @property
    def inner(self) -> Num:
        """f: the width between the two linear layers."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    @property
    def groups(self) -> Num:
        """g: heads of keys and of values."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def width(self) -> Num:
        """d: of a head."""
        if self.head_dim is not None:
            return self.head_dim
        whole: Num = divide(self.d_model, self.n_heads)
        return whole


class Placement(NamedTuple):
    """Which device it is: one of ``tensor`` that share each layer, on one ``stage`` of ``pipeline``.

    ``sequence_parallel`` devices share the sequence outside attention and MLP; otherwise each has all of it there. A
    stage has ``interleave`` chunks of layers: m model chunks on each device, or one.
    """

    tensor: Num = 1
    sequence_parallel: bool = False
    pipeline: Num = 1
    interleave: Num = 1
    stage: Num = 0

    def share(self, whole: Num) -> Num:
        """Of heads or columns of a matrix: ``whole / t``."""
        part: Num = divide(whole, self.tensor)
        return part

    def along(self, length: Num) -> Num:
        """Of a sequence, outside attention and MLP: s/t with sequence parallelism, else s."""
        return self.share(length) if self.sequence_parallel else length

    @property
    def first(self) -> bool:
        """Whether the embedding stands here."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether the output layer stands here."""
        return self.stage == self.pipeline - 1

    @property
    def chunks_in_flight(self) -> Num:
        """How many times a chunk of layers is held, each for a micro-batch of its own.

        1F1B: ``p − S`` on stage S (appendix C; section 4.2.3 has p on the first). Interleaved: ``pm + p − 1 − 2S``; on
        the first stage, times L/pm layers, it is the paper's ``L(1 + (p − 1)/pm)``. A later stage runs two chunks less
        ahead than the one before it (Megatron-LM's ``forward_backward_pipelining_with_interleaving``: ``2(p − S − 1) +
        (m − 1)p`` chunks, and the one that runs).
        """
        if self.interleave == 1:
            return self.pipeline - self.stage
        return self.pipeline * self.interleave + self.pipeline - 1 - 2 * self.stage

    @property
    def chunks(self) -> Num:
        """Into how many the layers are cut: ``p·m``."""
        return self.pipeline * self.interleave


LETTERS = {
    "d_model": "h",
    "n_heads": "a",
    "n_layers": "n",
    "vocab_size": "V",
    "d_ff": "f",
    "n_kv_heads": "g",
    "head_dim": "d",
}


def remembered(sizes: Sizes) -> Sizes:
    """The same sizes, each of which remembers its letter."""
    known = {name: size for name in LETTERS if isinstance(size := getattr(sizes, name), int)}
    return Sizes(**sizes._asdict() | {name: traced(LETTERS[name], size) for name, size in known.items()})


def sizes_of(model: Model, seq: Num = DEFAULT_LENGTH) -> Sizes:
    """The sizes of a model, read from its tree; InvalidModel where it is no plain stack of the paper's layers.

    >>> from tfcalc.families.transformer import Transformer
    >>> sizes_of(Transformer(kind="decoder", vocab_size=1000, n_kv_heads=2))
    Sizes(d_model=512, n_heads=8, n_layers=6, vocab_size=1000, d_ff=2048, n_kv_heads=2, head_dim=64, gated=False, \
final_norm=True)
    """
    from tfcalc.questions.shape import GATED, STACK, shape_of

    run = Workload(seq_len=seq if isinstance(seq, int) else DEFAULT_LENGTH, phase="train")
    tree = model.tree(run)
    shape, unlike = shape_of(tree, run)
    if STACK in unlike:
        raise InvalidModel(f"Megatron-LM's formula of activation memory does not cover {unlike[STACK]}", REMEDY)
    kinds = [component.kind for component in _outside(tree)]
    before = kinds[: kinds.index("layer")].count("norm")
    after = kinds.count("norm") - before
    layers = [node.component for node in tree.walk() if node.component.kind == "layer"]
    inside = max(sum(node.component.kind == "norm" for node in layer.walk()) for layer in layers)
    if inside != NORMS_OF_A_LAYER or before or after > 1:
        found = f"{inside} norms in a layer, {before} before the layers, {after} after them"
        raise InvalidModel(f"Megatron-LM's formula of activation memory does not cover {found}", REMEDY)
    return Sizes(
        d_model=shape.h,
        n_heads=shape.a,
        n_layers=shape.n,
        vocab_size=shape.V or None,
        d_ff=shape.f,
        n_kv_heads=_groups(layers[0], shape.h, shape.a, shape.d),
        head_dim=shape.d,
        gated=GATED in unlike,
        final_norm=after == 1,
    )


def _outside(component: Component) -> list[Component]:
    """The operations and the layers of a model, in their order, without what is in the layers."""
    if component.kind == "layer" or not component.parts:
        return [component]
    return [inner for part in component.parts for inner in _outside(part)]


def _groups(layer: Component, h: Num, a: Num, d: Num) -> Num:
    """What attention's projections have beyond the 2·h·a·d of queries and output, by 2·h·d each."""
    attention = next(part for part in layer.parts if part.kind == "attention")
    groups: Num = divide(attention.each(major_params) - 2 * h * a * d, 2 * h * d)
    return groups


def check(sizes: Sizes, batch: Num, seq: Num, at: Placement, *, splits_sequence: bool) -> None:
    """Raise InvalidModel where devices cannot share these sizes evenly, or where there is no such stage."""
    for what, number, least in (
        ("batch", batch, 1),
        ("sequence length", seq, 1),
        ("tensor", at.tensor, 1),
        ("pipeline", at.pipeline, 1),
        ("interleave", at.interleave, 1),
        ("stage", at.stage, 0),
    ):
        if isinstance(number, int) and number < least:
            raise InvalidModel(f"{what} {number}", f"it is {least} or more")
    if isinstance(at.stage, int) and isinstance(at.pipeline, int) and at.stage >= at.pipeline:
        raise InvalidModel(f"stage {at.stage} of pipeline {at.pipeline}", f"stages count from 0 to {at.pipeline - 1}")
    chunks = "pipeline" if at.interleave == 1 else f"pipeline {at.pipeline} x interleave {at.interleave} ="
    for what, whole, by, parts in (
        ("hidden size", 0 if sizes.head_dim is not None else sizes.d_model, "heads", sizes.n_heads),
        ("heads", sizes.n_heads, "tensor", at.tensor),
        ("key and value heads", sizes.groups, "tensor", at.tensor),
        ("feed-forward size", sizes.inner, "tensor", at.tensor),
        ("sequence length", seq if splits_sequence else 0, "tensor", at.tensor),
        ("layers", sizes.n_layers, chunks, at.chunks),
    ):
        if isinstance(whole, int) and isinstance(parts, int) and whole % parts:
            raise InvalidModel(f"{what} {whole:,} not divisible by {by} {parts:,}", _divisors(whole, parts))


def _divisors(whole: int, near: int) -> str:
    """The divisors on both sides of a number, as a remedy."""
    below = next(number for number in range(min(near, whole), 0, -1) if whole % number == 0)
    above = [number for number in range(near, whole + 1) if whole % number == 0][:1]
    return "nearest: " + ", ".join(str(number) for number in (below, *above))
