"""The classic Transformer's tree by itself: its first answer waits for nothing that runs.

Of its kinds of positions and patterns it has those that are tables, and rotations; all others are counted as they run
(:mod:`tfcalc.zoo.classic`), and tests/laws check that the tree here equals that one, item for item.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.core.component import Component, Cost, Elementwise, Matmul, Weight
from tfcalc.core.number import Num
from tfcalc.ops.work import ACTIVATIONS, CROSS_ENTROPY, KEYS, NORMS, SCALE, SOFTMAX, by_token
from tfcalc.workload import Sequences, Workload

if TYPE_CHECKING:
    from tfcalc.zoo.transformer import Transformer

HERE = ("none", "sinusoidal", "learned", "rotary")
"""Kinds of positions."""


def has(t: Transformer) -> bool:
    """Return whether the tree of this model is built here."""
    return t.positions in HERE and t.pattern == "dense"


def tree(t: Transformer, run: Workload) -> Component:
    """The whole model: its core alone, or with tables before it and an output head behind."""
    core = Component("core", "core", parts=tuple(_core(t, run)))
    if t.vocab_size is None:
        return core
    parts = [*_input(t, run, t.vocab_size), core]
    if t.output_head != "none":
        parts += _output(t, run, t.vocab_size if t.target_vocab_size is None else t.target_vocab_size)
    return Component(t.root, "model", parts=tuple(parts))


def _streams(t: Transformer, stack: str, run: Workload) -> tuple[Sequences, Sequences | None]:
    """Return the sequences that a stack reads, and those that its cross-attention does."""
    if t.kind != "encoder-decoder":
        return run.target, None
    return (run.source, None) if stack == "encoder" else (run.target, run.source)


def _core(t: Transformer, run: Workload) -> Iterator[Component]:
    for stack in t.stacks:
        stream, memory = _streams(t, stack, run)
        is_data = t.vocab_size is None and not t.pre_norm  # a norm's output has a gradient anyway
        reached = run.input_gradient or not is_data
        count, causal = t.size(f"{stack}_layers"), stack == "decoder"
        if reached or not run.training:
            layers = [_layer(t, stream._replace(needs_gradient=reached), memory, run, causal)._replace(copies=count)]
        else:
            made = [_layer(t, stream._replace(needs_gradient=later), memory, run, causal) for later in (False, True)]
            layers = [
                made[0]._replace(name="layer[first]"),
                made[1]._replace(name="layer[others]", copies=count - 1, under=1),
            ]
        yield Component(stack, stack, parts=tuple(layers))
        if t.final_norm == "always" or (t.final_norm == "pre-norm" and t.pre_norm):
            yield norm(f"{stack}_norm", t.norm, t.d_model, stream.tokens)


def _layer(t: Transformer, stream: Sequences, memory: Sequences | None, run: Workload, causal: bool) -> Component:
    """Self-attention, cross-attention where there is a memory to read, feed-forward; each with its sum and its norm."""
    elements = stream.tokens * t.d_model
    subs = {"self": _attention(t, "self_attention", stream, stream, run, causal=causal, turns=t.positions == "rotary")}
    stream = stream._replace(needs_gradient=True)  # behind trained weights
    if memory is not None:
        subs["cross"] = _attention(t, "cross_attention", stream, memory, run, causal=False, turns=False)
    subs["ffn"] = _network(t, stream, run)
    if t.pre_norm and not run.drops:
        subs["ffn"] = subs["ffn"]._replace(parts=(*subs["ffn"].parts[:-1], _last(subs["ffn"].parts[-1])))
    parts: list[Component] = []
    for name, sub in subs.items():
        parts.append(sub)
        if run.drops:
            parts.append(dropout(f"{name}_dropout", elements))
        parts.append(_work(f"{name}_residual", "residual", Elementwise("x + f(x)", elements, 1, 1)))
        parts.append(norm(f"{name}_norm", t.norm, t.d_model, stream.tokens))
    return Component("layer", "layer", parts=tuple(parts))


def _last(part: Component) -> Component:
    """Return ``part`` as the last product of its layer."""
    return part._replace(own=part.own._replace(last=True))


def _attention(
    t: Transformer, name: str, queries: Sequences, keys: Sequences, run: Workload, *, causal: bool, turns: bool
) -> Component:
    h, a, g, d, d_v = t.d_model, t.n_heads, t.size("n_kv_heads"), t.size("head_dim"), t.size("value_dim")
    pairs = run.pairs(queries, keys, causal=causal)
    scores = a * pairs.scores
    made = (("query", "Q", a * d, queries), ("key", "K", g * d, keys), ("value", "V", g * d_v, keys))
    cost = Cost(
        products=(
            Matmul("Q Kᵀ", (*pairs.twice, a, d), backward=3 if pairs.fused else 2),
            Matmul("P V", (*pairs.twice, a, d_v)),
        ),
        elementwise=(Elementwise("scale", scores, *SCALE), Elementwise("softmax", scores, *SOFTMAX)),
        cached=by_token(queries, keys, g, {"K": d, "V": d_v}, causal=causal),
        limit=pairs.limit,
    )
    parts = [
        linear(each, h, width, read.tokens, letter, bias=t.attention_bias, reached=read.needs_gradient)
        for each, letter, width, read in made
    ]
    if turns:
        turned = (a * queries.tokens + g * keys.tokens) * d
        parts.append(_work("rotary", "rotary", Elementwise("rotate", turned, 3, 3)))
    parts.append(Component("attend", "attend", cost))
    if run.drops:
        parts.append(dropout("attend_dropout", scores))
    parts.append(linear("output", a * d_v, h, queries.tokens, "O", bias=t.attention_bias))
    return Component(name, "attention", parts=tuple(parts))


def _network(t: Transformer, stream: Sequences, run: Workload) -> Component:
    h, f = t.d_model, t.size("d_ff")
    inner = stream.tokens * f
    parts = [
        linear("up", h, f, stream.tokens, "1", bias=t.ffn_bias),
        _work("activation", "activation", Elementwise(t.activation, inner, *ACTIVATIONS[t.activation])),
        *([dropout("activation_dropout", inner)] if run.drops else []),
        linear("down", f, h, stream.tokens, "2", bias=t.ffn_bias),
    ]
    return Component("ffn", "ffn", parts=tuple(parts))


def _input(t: Transformer, run: Workload, vocabulary: Num) -> Iterator[Component]:
    h, target = t.d_model, run.target.tokens
    tokens = run.source.tokens + target if t.kind == "encoder-decoder" else target
    if t.target_vocab_size is None:
        yield _table("embedding", vocabulary, h, tokens)
    else:
        yield _table("source_embedding", vocabulary, h, run.source.tokens)
        yield _table("target_embedding", t.target_vocab_size, h, target)
    if t.positions in ("learned", "sinusoidal"):
        yield _positions(t, tokens)
    if run.drops:
        yield dropout("embedding_dropout", tokens * h)


def _positions(t: Transformer, tokens: Num) -> Component:
    table, added, trained = Weight("P", (t.size("max_len"), t.d_model)), tokens * t.d_model, t.positions == "learned"
    work = Elementwise(f"+ P ({'trained' if trained else 'fixed'})", added, forward=1, backward=int(trained))
    stored = {"weights" if trained else "buffers": (table,)}
    return Component("position", "position", Cost(elementwise=(work,), lookups=tokens, **stored))  # type: ignore[arg-type]


def _output(t: Transformer, run: Workload, vocabulary: Num) -> Iterator[Component]:
    embedded = "embedding" if t.target_vocab_size is None else "target_embedding"
    read = run.positions_with_logits
    tied = embedded if t.output_head == "tied" else None
    head = linear("output", t.d_model, vocabulary, read, "vocab", bias=t.output_bias, tied_to=tied)
    yield head._replace(kind="output")
    if run.training:
        yield _work("output.loss", "loss", Elementwise("cross-entropy", read * vocabulary, *CROSS_ENTROPY))


# --- what the hardware runs; the sources of these formulas stand with the operations (tfcalc.ops)


def linear(
    name: str,
    fan_in: Num,
    fan_out: Num,
    tokens: Num,
    letter: str,
    *,
    bias: bool,
    tied_to: str | None = None,
    reached: bool = True,
) -> Component:
    """``x W + b`` on each token; see :func:`tfcalc.ops.products.linear`."""
    weights = [Weight(f"W_{letter}", (fan_in, fan_out), tied_to=tied_to, turned=True)]
    added = [Elementwise(f"+ b_{letter}", tokens * fan_out, 1, 1)] if bias else []
    if bias:
        weights.append(Weight(f"b_{letter}", (fan_out,), minor=True, key="bias"))
    product = Matmul(f"X W_{letter}", (2, tokens, fan_in, fan_out), backward=1 + reached)
    return Component(name, "linear", Cost(weights=tuple(weights), products=(product,), elementwise=tuple(added)))


def norm(name: str, kind: str, width: Num, tokens: Num) -> Component:
    """See :func:`tfcalc.ops.rows.norm`."""
    letters, forward, backward = NORMS[kind]
    weights = tuple(Weight(letter, (width,), minor=True, key=KEYS[letter]) for letter in letters)
    work = Elementwise(kind, tokens * width, forward, backward)
    return Component(name, "norm", Cost(weights=weights, elementwise=(work,)))


def dropout(name: str, elements: Num) -> Component:
    """See :func:`tfcalc.ops.elementwise.dropping`."""
    return _work(name, "dropout", Elementwise("dropout", elements, 2, 2))


def _table(name: str, rows: Num, width: Num, tokens: Num) -> Component:
    """See :func:`tfcalc.ops.rows.embedding`."""
    work = Elementwise("gradient of E", tokens * width, forward=0, backward=1)
    return Component(name, "embedding", Cost((Weight("E", (rows, width)),), elementwise=(work,), lookups=tokens))


def _work(name: str, kind: str, work: Elementwise) -> Component:
    return Component(name, kind, Cost(elementwise=(work,)))
