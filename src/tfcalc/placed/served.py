"""Pieces of a model that one GPU of a serving engine has, class by class: vLLM's linear layers.

====================  =====================================================================
Q, gate, up           ``i × o/t``, their biases ``o/t`` (ColumnParallelLinear)
K, V                  of ``g/t`` heads; of one head where there are fewer than GPUs, each on t/g of them
output, down          ``i/t × o``, their biases whole (RowParallelLinear)
latent vectors        maps up like Q; maps down whole (ReplicatedLinear), like an indexer's
experts               ``E/ep`` of them, of each a share of ``ep/(t·dp)``; routers whole
recurrences           channels and heads ``/t``; groups of B and C like heads of keys
embedding, head       ``V/t × h``, with V padded to a multiple of 64
norms, positions      whole
layers                ``n/p`` of them; those left over on the stages before the last
====================  =====================================================================

A layer with a matrix that none of these rules knows is refused. Messages between GPUs are not in the piece.

Source: vLLM's model_executor/layers/linear.py, vocab_parallel_embedding.py, fused_moe/config.py, mamba, and
distributed/utils.py (``get_pp_indices``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, islice
from math import prod
from typing import Any, TypeVar

from tfcalc.core.number import Num, ceil_div, divide, floor_div
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.hardware import NODE
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import Attention, Sinks
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter
from tfcalc.nn.embeddings import Segments
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.mixture import Experts, Mixture, Networks, Router, Switch
from tfcalc.nn.model import ModelWithHead, Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.positions import RelativeBias
from tfcalc.placed.layout import Layout, check_even, check_least
from tfcalc.zoo.blocks.attention import IndexedAttention
from tfcalc.zoo.blocks.gemma import LayerInput, LayerVectors
from tfcalc.zoo.blocks.hyper_connections import MixingConnection
from tfcalc.zoo.blocks.latent_attention import Indexer
from tfcalc.zoo.blocks.native_resolution import Merger
from tfcalc.zoo.blocks.state_space import GatedDeltaNet, Mamba, Mamba2
from tfcalc.zoo.deepseek_v4 import CompressedAttention, Compressor
from tfcalc.zoo.gemma3n import AltUp, Laurel
from tfcalc.zoo.kimi_linear import KimiDelta
from tfcalc.zoo.lfm import GatedConvolution

ROWS = 64
"""Rows that a vocabulary is padded to a multiple of (vLLM's DEFAULT_VOCAB_PADDING_SIZE)."""


class ServedLayout(Layout):
    """One GPU of those that serve a model together, in vLLM's terms.

    ``tp`` GPUs share each layer, ``pp`` stages the layers one after another; ``dp`` such groups have requests of their
    own, and share the experts alone (data parallel attention). The ``tp · dp`` GPUs of a stage have the experts in
    ``ep`` groups; within a group they share each expert. In an engine that has experts whole or split ``ep`` is
    ``tp · dp`` or 1.
    """

    @property
    def of_an_expert(self) -> Num:
        """Number of GPUs that share each expert."""
        if self.etp is not None:
            return self.etp
        shared: Num = divide(self.of_a_stage, self.ep)
        return shared

    def share_of_words(self, vocabulary: Num) -> Num:
        """Return a GPU's rows of a vocabulary table: ``⌈V/64⌉ · 64/t``. Raises InvalidModel.

        >>> ServedLayout(tp=4).share_of_words(50257), ServedLayout(tp=8).share_of_words(128256)
        (12576, 16032)
        """
        return self.share(ceil_div(vocabulary, ROWS) * ROWS, "padded vocabulary")

    def share_of_groups(self, groups: Num, what: str = "key and value heads") -> Num:
        """Return this GPU's heads of keys: a share, or one where there are fewer than GPUs. Raises InvalidModel.

        >>> [ServedLayout(tp=tp).share_of_groups(8) for tp in (2, 8, 16)]
        [4, 1, 1]
        """
        there, sharing = known(groups), known(self.tp)
        if there is None or sharing is None or there >= sharing:
            return self.share(groups, what)
        check_even("tensor", self.tp, what, groups)
        return 1

    def stages(self, layers: int) -> list[range]:
        """Return the places of each stage's layers; those left over go to the stages before the last.

        >>> ServedLayout(pp=4).stages(30)
        [range(0, 7), range(7, 15), range(15, 23), range(23, 30)]
        """
        count = value_of(self.pp)
        sizes = [layers // count] * count
        for back in range(layers % count):
            sizes[-2 - back] += 1
        return [range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def check(self) -> None:
        """Raise InvalidModel if there is no such GPU."""
        check_least("expert", self.ep, 1)
        check_even("tensor x data", self.tp * self.dp, "expert", self.ep)
        super().check()


class AskedLayout(NamedTuple):
    """Numbers of GPUs that were asked for; None: whatever goes with the others.

    There are that many ``replicas`` of what follows from the other numbers.
    """

    gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    replicas: int = 1

    def of(self, module: Module, shares: Callable[[int], bool] | None = None) -> ServedLayout:
        """Return the layout of a model. Raises InvalidModel.

        GPUs share each layer, as many of a server as its heads divide by, or as ``shares`` allows; there are as many
        stages as servers. GPUs that are left over where tensor or pipeline parallelism is given are replicas; where
        experts are shared, further groups of data parallel attention. Source: vLLM's "Parallelism and scaling".
        """
        given = {"tp": self.tp, "pp": self.pp, "dp": self.dp}
        known_ = {name: size for name, size in given.items() if size is not None}
        asked = prod(known_.values())
        gpus = asked if self.gpus is None else self.gpus // self.replicas
        check_even("GPUs", gpus, " x ".join(known_), asked) if known_ else None
        rest, sharing = gpus // asked, (self.ep or 1) > 1
        if "tp" not in known_:
            able = shares or partial(splits, module)
            tp = next((size for size in range(min(rest, NODE), 1, -1) if rest % size == 0 and able(size)), 1)
            known_, rest = known_ | {"tp": tp}, rest // tp
        left_over = "dp" not in known_
        last = "dp" if "pp" in known_ or (left_over and (self.tp is not None or sharing)) else "pp"
        if last in known_ and rest != 1:
            raise InvalidModel(
                f"{gpus:,} GPUs, and {_product(known_)}", "give one of them less, or another number of GPUs"
            )
        sizes = {"pp": 1, "dp": 1, last: rest} | known_
        tp, pp, dp = sizes["tp"], sizes["pp"], sizes["dp"] * self.replicas
        copied = dp > 1 and left_over and not sharing
        return ServedLayout(tp=tp, pp=pp, dp=dp, ep=self.ep or 1, etp=tp if copied else None)


def fewest_stages(most: ServedLayout, holds: Callable[[int], bool]) -> int:
    """Return how many stages it takes to hold a model, of which ``most`` has as many as there are GPUs for.

    Those that are not needed are further replicas: stages wait for each other's messages, and replicas do not.
    """
    every = value_of(most.pp)
    return next((size for size in range(1, every) if every % size == 0 and holds(size)), every)


def _product(sizes: Mapping[str, int]) -> str:
    """``tp 2 x pp 2 = 4``."""
    return f"{' x '.join(f'{name} {size}' for name, size in sizes.items())} = {prod(sizes.values())}"


def splits(module: Module, tp: int) -> bool:
    """Return whether as many GPUs can share each layer."""
    try:
        _Pieces(module, ServedLayout(tp=tp), more=True)(module)
    except InvalidModel:
        return tp == 1
    return True


def near_splits(module: Module, tp: int) -> list[int]:
    """Return the numbers of GPUs next to one that can share each layer: all of it, not what was tried first."""
    below = (size for size in range(tp - 1, 1, -1) if splits(module, size))
    above = (size for size in range(tp + 1, 2 * tp + 1) if splits(module, size))
    return [*islice(below, 1), *islice(above, 1)]


M = TypeVar("M", bound=Module)
Rule = Callable[["_Pieces", Any], Module]
RULES: dict[type[Module], Rule] = {}
WHOLE = (Indexer, Router, Compressor, MixingConnection, AltUp, LayerInput, LayerVectors, Laurel)
"""Classes whose maps every GPU has as a whole."""


def rule(kind: type[M]) -> Callable[[Callable[[_Pieces, M], Module]], Rule]:
    """Register the function that returns the piece of a module of this class, and of those derived from it."""

    def register(piece: Callable[[_Pieces, M], Module]) -> Rule:
        RULES[kind] = piece
        return piece

    return register


def on_rank(module: Module, at: ServedLayout, *, more: bool = True) -> Module:
    """Return what one GPU of a stage has of a model, all layers of it. Raises InvalidModel for what no rule splits.

    Where the experts cannot be shared out evenly, it is one that has one ``more``, or none.
    """
    at.check()
    try:
        return _Pieces(module, at, more=more)(module)
    except InvalidModel as error:
        if known(at.of_a_stage) == 1:
            return module
        tp = value_of(at.tp)
        if splits(module, tp) or not (near := near_splits(module, tp)):
            raise
        raise InvalidModel(error.message, f"nearest: {', '.join(map(str, near))}") from None


class _Pieces:
    """The pieces of a model's modules. Equal layers are one object, and stay one.

    A map outside of layers that no rule knows is whole, as poolers and projectors are; in a layer it is refused. A part
    that reads images or sounds is whole where it cannot be split.
    """

    def __init__(self, model: Module, at: ServedLayout, *, more: bool) -> None:
        self.at, self.more = at, more
        self.beside_text = {id(each) for each in model.beside_text}
        self.found: dict[int, Module] = {}
        self.model = model  # so that no id is that of another object
        self.in_layer = False

    def __call__(self, module: Module) -> Module:
        if id(module) not in self.found:
            around, self.in_layer = self.in_layer, self.in_layer or module.kind == "layer"
            self.found[id(module)] = self._piece(module)
            self.in_layer = around
        return self.found[id(module)]

    def _piece(self, module: Module) -> Module:
        if id(module) not in self.beside_text:
            return self._by_rule(module)
        try:
            return self._by_rule(module)
        except InvalidModel:
            return module

    def _by_rule(self, module: Module) -> Module:
        if isinstance(module, WHOLE):
            return module
        for kind in type(module).__mro__:
            if kind in RULES:
                return RULES[kind](self, module)
        return self.of_parts(module)

    def of_parts(self, module: Module, *without: str) -> Module:
        """Return the module with the pieces of its parts, but for these fields, which its rule has split."""
        pieces: dict[str, Any] = {}
        for name, value in module.__dict__.items():
            if name in without:
                continue
            if isinstance(value, Module):
                pieces[name] = self._part(module, value)
            elif isinstance(value, tuple) and any(isinstance(each, Module | tuple) for each in value):
                pieces[name] = tuple(self._part(module, each) for each in value)
        return module.replace(**pieces) if pieces else module

    def _part(self, owner: Module, part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(self._part(owner, each) for each in part)
        if not isinstance(part, Module):
            return part
        if not isinstance(part, Linear):
            return self(part)
        if self.in_layer:
            raise refused(owner)
        return part

    def columns(self, linear: Linear, what: str) -> Linear:
        """Split output features."""
        return linear.replace(fan_out=self.at.share(linear.fan_out, what))

    def rows(self, linear: Linear, what: str) -> Linear:
        """Split input features."""
        return linear.replace(fan_in=self.at.share(linear.fan_in, what))

    def vector(self, vector: Parameter, what: str) -> Parameter:
        """Split a tensor along its first axis."""
        first, *others = vector.tensor.shape
        return vector.replace(tensor=vector.tensor._replace(shape=(self.at.share(first, what), *others)))


def refused(module: Module) -> InvalidModel:
    """Return the error for a module without a rule."""
    fact = f"no rule of an engine splits {module.name} ({type(module).__name__}) over GPUs"
    return InvalidModel(fact, "serve it on one GPU, or take --pp alone")


# --- attention

HEADS, KEYS = "heads", "key and value heads"
GATED = 2
"""Columns of a head's queries where a map makes its gate, too."""


@rule(Attention)
def _attention(pieces: _Pieces, attention: Attention) -> Module:
    at, a, g = pieces.at, attention.heads, attention.kv_heads
    heads, groups = at.share(a, HEADS), at.share_of_groups(g)
    ways = {known(a): heads, known(g): groups}
    split = _sizes_of_heads(pieces, attention, groups)
    done = ("inward", "norms", "output", "sinks", "gate", "gate_bias", "table")
    made = attention.replace(
        heads=heads,
        kv_heads=groups,
        inward=tuple(each.replace(fan_out=size) for each, size in zip(attention.inward, split, strict=True)),
        norms=tuple(_norm_of_heads(norm, ways) for norm in attention.norms),
        output=pieces.rows(attention.output, HEADS),
        sinks=None if attention.sinks is None else pieces.vector(attention.sinks, HEADS),
        gate=None if attention.gate is None else pieces.columns(attention.gate, "columns of the gate"),
        gate_bias=None if attention.gate_bias is None else pieces.vector(attention.gate_bias, HEADS),
        table=None if attention.table is None else pieces(attention.table),
    )
    return pieces.of_parts(made, *done)


def _sizes_of_heads(pieces: _Pieces, attention: Attention, groups: Num) -> list[Num]:
    """The columns of the maps inward: a map of queries first, and those of keys and values; or one map of all.

    Raises InvalidModel for others, which a class that extends Attention may have.
    """
    share, maps = pieces.at.share, attention.inward
    both = attention.key_dim + attention.value_dim
    what = "columns of queries, keys and values"
    queries, *others = maps
    of_heads, packed = known(attention.heads * attention.key_dim), attention.kv_heads * both
    alone = not others and known(queries.fan_out) != of_heads
    asking = known(queries.fan_out - packed if alone else queries.fan_out)
    of_groups = {known(attention.kv_heads * width) for width in (attention.key_dim, attention.value_dim, both)}
    as_heads = asking in (of_heads, GATED * (of_heads or 0))
    if not as_heads or any(known(each.fan_out) not in of_groups for each in others):
        raise refused(attention)
    if alone:
        return [share(queries.fan_out - packed, what) + groups * both]
    return [share(queries.fan_out, what), *(divide(each.fan_out, attention.kv_heads) * groups for each in others)]


def _norm_of_heads(norm: Norm, ways: dict[int | None, Num]) -> Norm:
    """A norm with weights of each head has those of the heads that are here; any other is whole."""
    return norm if known(norm.heads) == 1 else norm.replace(heads=ways[known(norm.heads)])


@rule(IndexedAttention)
def _indexed(pieces: _Pieces, attention: IndexedAttention) -> Module:
    """Split Falcon's attention, of which an engine caches the heads that are distinct."""
    return _attention(pieces, distinct_heads(attention))


def distinct_heads(attention: IndexedAttention) -> Attention:
    """Return Falcon's attention without the copies of its keys and values."""
    fields = {name: attention.__dict__[name] for name in Attention.fields_}
    return Attention(**fields | {"kv_heads": attention.groups})


@rule(LatentAttention)
def _latent(pieces: _Pieces, attention: LatentAttention) -> Module:
    """Split what makes heads; what makes latent vectors, and what an indexer has, is whole."""
    *first, down, up = attention.inward
    what = "columns of queries, keys and values"
    return attention.replace(
        heads=pieces.at.share(attention.heads, HEADS),
        kv_heads=pieces.at.share(attention.kv_heads, HEADS),
        inward=(*first[:-1], pieces.columns(first[-1], what), down, pieces.columns(up, what)),
        output=pieces.rows(attention.output, HEADS),
        gate=None if attention.gate is None else pieces.columns(attention.gate, "columns of the gate"),
        sinks=None if attention.sinks is None else pieces.vector(attention.sinks, HEADS),
    )


@rule(CompressedAttention)
def _compressed(pieces: _Pieces, attention: CompressedAttention) -> Module:
    """Split heads and the groups of their output; the one key, and what summarizes keys, is whole (DeepSeek-V4)."""
    down, up, key = attention.inward
    grouped = attention.grouped
    assert grouped is not None
    return attention.replace(
        heads=pieces.at.share(attention.heads, HEADS),
        inward=(down, pieces.columns(up, HEADS), key),
        sinks=None if attention.sinks is None else pieces.vector(attention.sinks, HEADS),
        grouped=grouped.replace(
            groups=pieces.at.share(grouped.groups, "groups of the output"),
            fan_in=pieces.at.share(grouped.fan_in, HEADS),
            fan_out=pieces.at.share(grouped.fan_out, "groups of the output"),
        ),
        output=pieces.rows(attention.output, "groups of the output"),
    )


@rule(RelativeBias)
def _relative(pieces: _Pieces, table: RelativeBias) -> Module:
    return table.replace(heads=pieces.at.share(table.heads, HEADS))


# --- feed-forward networks

INNER = "feed-forward size"


@rule(FeedForward)
def _feed_forward(pieces: _Pieces, network: FeedForward) -> Module:
    return network.replace(up=pieces.columns(network.up, INNER), down=pieces.rows(network.down, INNER))


@rule(GatedFeedForward)
def _gated(pieces: _Pieces, network: GatedFeedForward) -> Module:
    gate = None if network.gate is None else pieces.columns(network.gate, INNER)
    norm = network.sub_norm
    return network.replace(
        gate=gate,
        up=pieces.columns(network.up, INNER),
        down=pieces.rows(network.down, INNER),
        sub_norm=norm,
    )


@rule(Experts)
@rule(Networks)
def _experts(pieces: _Pieces, experts: Experts | Networks) -> Module:
    """Experts of one group of GPUs, and of each the share of one of them. The first groups have those left over."""
    at = pieces.at
    within = _Pieces(experts, at._replace(tp=at.of_an_expert), more=pieces.more)
    network = GatedFeedForward if isinstance(experts, Experts) else FeedForward
    check_least("experts", experts.count, value_of(at.ep))
    here = (ceil_div if pieces.more else floor_div)(experts.count, at.ep)
    return RULES[network](within, experts).replace(count=here)


@rule(Mixture)
@rule(Switch)
def _mixture(pieces: _Pieces, mixture: Mixture | Switch) -> Module:
    """Split experts, and shared ones like any network; the router, and maps around them, are whole."""
    beside = getattr(mixture, "shared", ())
    split = {"shared": tuple(map(pieces, beside))} if beside else {}
    return mixture.replace(experts=pieces(mixture.experts), **split)


# --- recurrences

CHANNELS = "channels"


@rule(Mamba)
def _mamba(pieces: _Pieces, mixer: Mamba) -> Module:
    return mixer.replace(
        in_proj=pieces.columns(mixer.in_proj, CHANNELS),
        conv1d=mixer.conv1d.replace(channels=pieces.at.share(mixer.conv1d.channels, CHANNELS)),
        x_proj=pieces.rows(mixer.x_proj, CHANNELS),
        dt_proj=pieces.columns(mixer.dt_proj, CHANNELS),
        A_log=pieces.vector(mixer.A_log, CHANNELS),
        D=pieces.vector(mixer.D, CHANNELS),
        out_proj=pieces.rows(mixer.out_proj, CHANNELS),
    )


@rule(Mamba2)
def _mamba2(pieces: _Pieces, mixer: Mamba2) -> Module:
    """Split heads. One group of B and C is on each GPU; several are split."""
    heads = pieces.at.share(mixer.heads, HEADS)
    groups = 1 if known(mixer.groups) == 1 else pieces.at.share(mixer.groups, "groups of B and C")
    channels = pieces.at.share(mixer.out_proj.fan_in, CHANNELS)
    mixed = channels + 2 * groups * mixer.states
    return mixer.replace(
        heads=heads,
        groups=groups,
        in_proj=mixer.in_proj.replace(fan_out=channels + mixed + heads),
        conv1d=mixer.conv1d.replace(channels=mixed),
        **{name: pieces.vector(getattr(mixer, name), HEADS) for name in ("dt_bias", "A_log", "D")},
        norm=tuple(
            norm.replace(
                width=pieces.at.share(norm.width, CHANNELS), **({"groups": groups} if "groups" in norm.fields_ else {})
            )
            for norm in mixer.norm
        ),
        out_proj=pieces.rows(mixer.out_proj, CHANNELS),
    )


@rule(GatedDeltaNet)
def _gated_delta(pieces: _Pieces, mixer: GatedDeltaNet) -> Module:
    return mixer.replace(
        key_heads=pieces.at.share(mixer.key_heads, "key heads"),
        value_heads=pieces.at.share(mixer.value_heads, "value heads"),
        mixed=tuple(pieces.columns(each, CHANNELS) for each in mixer.mixed),
        gate=None if mixer.gate is None else pieces.columns(mixer.gate, CHANNELS),
        strengths=tuple(pieces.columns(each, "value heads") for each in mixer.strengths),
        conv1d=mixer.conv1d.replace(channels=pieces.at.share(mixer.conv1d.channels, CHANNELS)),
        dt_bias=pieces.vector(mixer.dt_bias, "value heads"),
        A_log=pieces.vector(mixer.A_log, "value heads"),
        output=pieces.rows(mixer.output, CHANNELS),
    )


@rule(KimiDelta)
def _kimi_delta(pieces: _Pieces, mixer: KimiDelta) -> Module:
    """Split heads; of a gate through a vector of low rank the map down is whole."""
    forget = mixer.forget_gate
    return mixer.replace(
        heads=pieces.at.share(mixer.heads, HEADS),
        mixed=tuple(pieces.columns(each, CHANNELS) for each in mixer.mixed),
        conv1d=mixer.conv1d.replace(channels=pieces.at.share(mixer.conv1d.channels, CHANNELS)),
        forget_gate=forget.replace(
            heads=pieces.at.share(forget.heads, HEADS),
            maps=_up(pieces, forget.maps),
            dt_bias=pieces.vector(forget.dt_bias, CHANNELS),
            A_log=_of_heads(pieces, forget.A_log, forget.heads),
        ),
        strength=pieces.columns(mixer.strength, HEADS),
        gates=_up(pieces, mixer.gates),
        output=pieces.rows(mixer.output, CHANNELS),
    )


def _up(pieces: _Pieces, maps: tuple[Linear, ...]) -> tuple[Linear, ...]:
    """Split the last of these maps; one before it makes a vector of low rank."""
    return (*maps[:-1], pieces.columns(maps[-1], CHANNELS))


def _of_heads(pieces: _Pieces, vector: Parameter, heads: Num) -> Parameter:
    """Split a tensor along the axis of its heads."""
    shape = tuple(pieces.at.share(each, HEADS) if known(each) == known(heads) else each for each in vector.tensor.shape)
    return vector.replace(tensor=vector.tensor._replace(shape=shape))


@rule(GatedConvolution)
def _gated_convolution(pieces: _Pieces, mixer: GatedConvolution) -> Module:
    return mixer.replace(
        in_proj=pieces.columns(mixer.in_proj, CHANNELS),
        conv=mixer.conv.replace(channels=pieces.at.share(mixer.conv.channels, CHANNELS)),
        out_proj=pieces.rows(mixer.out_proj, CHANNELS),
    )


# --- around the layers


@rule(Embedding)
def _words(pieces: _Pieces, table: Embedding) -> Module:
    return table.replace(rows=pieces.at.share_of_words(table.rows))


@rule(Segments)
@rule(Sinks)
@rule(Norm)
@rule(Parameter)
def _whole(_: _Pieces, module: Module) -> Module:
    return module


@rule(ModelWithHead)
def _with_head(pieces: _Pieces, model: ModelWithHead) -> Module:
    head = model.head
    made = _head(pieces, head) if isinstance(head, Linear) else pieces(head)
    return pieces.of_parts(model.replace(head=made), "head")


def _head(pieces: _Pieces, head: Linear) -> Linear:
    """Split the vocabulary of an output head; a classifier of few labels is whole."""
    return head.replace(fan_out=pieces.at.share_of_words(head.fan_out)) if head.kind == "output" else head


@rule(Predictions)
def _predictions(pieces: _Pieces, head: Predictions) -> Module:
    return head.replace(decoder=_head(pieces, head.decoder))


@rule(Merger)
def _merger(pieces: _Pieces, merger: Merger) -> Module:
    what = "columns between the maps"
    return merger.replace(first=pieces.columns(merger.first, what), last=pieces.rows(merger.last, what))
