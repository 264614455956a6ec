"""What people do with parameters: which they leave out, count again, or count otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.why.step import Change, State, Step
from tfcalc.analysis.why.tensors import (
    ATTENTION,
    BIAS,
    BUFFER,
    CROSS,
    FFN,
    HEAD,
    NORM,
    POSITIONS,
    ROUTED,
    ROUTER,
    SHARED,
    TOKENS,
    TYPES,
    Cell,
    Cells,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfcalc.analysis.facts import Facts

S = State[Cell]
TABLES = (TOKENS, TYPES, POSITIONS)
MULTIPLES = (64, 128, 256, 8, 512, 1024)
"""What vocabularies are padded to."""
RANKS = (2, 4, 8, 16, 32, 64)
FORGOTTEN = 3.0
"""What a slip costs in a whole model, where a few figures fit many slips by chance; in one part it is SLIP."""
SLIP = 1.0
ACTIVE = 0.5
"""Names of models say the active parameters."""
PROJECTIONS = ("Q", "K", "V", "QKV")


def drop(drops: Callable[[Cell], bool]) -> Change[Cell]:
    """Leave cells out."""
    return lambda state: state.without(drops)


def add(cells: Cells) -> Change[Cell]:
    """Count more."""
    return lambda state: state.plus(cells)


def scale(of: Callable[[Cell], bool], factor: Fraction) -> Change[Cell]:
    """Count some cells so many times; None where that is no whole number."""
    times, by = factor.numerator, factor.denominator

    def change(state: S) -> S | None:
        if any(size * times % by for cell, size in state.cells.items() if of(cell)):
            return None
        return state.changed(lambda cell, size: size * times // by if of(cell) else size)

    return change


def stored(cells: Cells) -> Cells:
    """What tfcalc counts as parameters: not what is tied, and no buffers."""
    return {cell: size for cell, size in cells.items() if not cell.tied and cell.role != BUFFER}


def steps(cells: Cells, known: Facts, extra: Iterable[Step[Cell]]) -> Iterator[Step[Cell]]:
    """The steps that this model gives reason to, in the order in which they are taken."""
    yield from _embeddings(cells)
    yield from extra
    yield from _experts(cells)
    yield from _attention(known)
    yield from _networks(known)
    yield from _small()
    yield from _stacks(cells)
    yield from _layers(known)
    yield from _vocabulary(known)
    yield from _ranks()


def steps_of_part(known: Facts) -> Iterator[Step[Cell]]:
    """The steps in one block by itself, where a slip is easier to tell."""
    heads = known.heads
    if heads and heads > 1:
        words = f"the {heads:,} heads counted again, though they share W_Q, W_K and W_V; W_O forgotten"
        again, no_output = scale(_is_projection, Fraction(heads)), drop(_is_output)

        def both(state: S) -> S | None:
            rest = no_output(state)
            return None if rest is None else again(rest)

        yield Step("heads_again_no_output", words, SLIP + 0.25, both, "heads")
    for step in (*_attention(known), *_networks(known), *_small()):
        yield step._replace(cost=min(step.cost, SLIP))


def _embeddings(cells: Cells) -> Iterator[Step[Cell]]:
    tied = {cell._replace(tied=False): size for cell, size in cells.items() if cell.tied and cell.role == HEAD}
    others = {cell._replace(tied=False): size for cell, size in cells.items() if cell.tied and cell.role == TOKENS}
    if tied:
        words = "the output head counted again although it is tied to the embedding"
        once_more = add(tied)

        def untied(state: S) -> S | None:
            return None if any(cell.role == HEAD for cell in state.cells) else once_more(state)

        yield Step("untied", words, 1.0, untied, "head")
    else:
        words = "one of the two embedding matrices left out, as if input and output were tied; they are not"
        yield Step("tied", words, 1.0, drop(lambda cell: cell.role == HEAD), "head")
    if others:
        yield Step("copies_of_embedding", "the shared embedding counted in each stack", 1.5, add(others), "copies")
    both = "without the embeddings" + ("" if tied else " and the output head")
    yield Step(
        "non_embedding",
        f"{both}: non-embedding parameters",
        1.0,
        drop(lambda cell: cell.role in (*TABLES, HEAD)),
        "tables",
        "" if not tied else "--json",
    )
    yield Step(
        "input_embeddings",
        "without the input embeddings",
        1.0,
        drop(lambda cell: cell.role in TABLES),
        "tables",
        "--json",
    )
    words = "without the token embedding"
    yield Step("token_embedding", words, 1.25, drop(lambda cell: cell.role == TOKENS), "tables")
    words = "without the token embedding and the output head"
    yield Step("vocabulary", words, 1.25, drop(lambda cell: cell.role in (TOKENS, HEAD)), "tables")
    words = "the layers alone: without embeddings, final norm and heads"
    yield Step("layers_alone", words, 1.25, lambda state: state.only(lambda cell: cell.layer), "tables")
    words = "without the pooler, and whatever else comes after the layers but the output head"
    yield Step("no_pooler", words, 1.0, drop(_after_layers), "pooler")
    words = "without the position embedding"
    yield Step("positions", words, 1.0, drop(lambda cell: cell.role == POSITIONS), "tables")
    yield Step("token_types", "without the token types", 1.5, drop(lambda cell: cell.role == TYPES))


def _after_layers(cell: Cell) -> bool:
    """A pooler, a classifier: neither in a stack, nor a table, nor a norm."""
    outside = not cell.stack and not cell.layer and cell.role != HEAD and cell.role not in TABLES
    return outside and cell.role != NORM and cell.block == "" and not cell.vocab


def _experts(cells: Cells) -> Iterator[Step[Cell]]:
    if not any(cell.expert == ROUTED for cell in cells):
        return
    routed = next(cell for cell in cells if cell.expert == ROUTED)
    words = f"the active parameters of a token: {routed.active:,} of {routed.copies:,} experts"
    active = _of_experts(lambda cell: Fraction(cell.active, cell.copies))
    yield Step("active", words, ACTIVE, active, "experts", "--json")
    words = (
        f"{routed.copies:,} times a model with one expert, as if each expert had attention and embeddings of its own"
    )
    one = _of_experts(lambda cell: Fraction(1, cell.copies))

    def whole(state: S) -> S | None:
        single = one(state)
        return None if single is None else single.times(routed.copies)

    yield Step("whole_experts", words, 1.25, whole, "experts")
    yield Step("one_expert", "with one expert only", 1.5, one, "experts")
    yield Step("no_routed", "without the routed experts", 1.5, drop(lambda cell: cell.expert == ROUTED), "experts")
    yield Step("no_shared", "without the shared experts", 1.5, drop(lambda cell: cell.expert == SHARED))
    yield Step("no_router", "without the routers", 1.5, drop(lambda cell: cell.role == ROUTER))


def _of_experts(share: Callable[[Cell], Fraction]) -> Change[Cell]:
    return lambda state: state.changed(lambda cell, size: int(size * share(cell)) if cell.expert == ROUTED else size)


def _is_projection(cell: Cell) -> bool:
    """Of queries, keys and values: the matrices and their biases."""
    name = cell.after if cell.role == BIAS else cell.role
    return cell.block in (ATTENTION, CROSS) and name[2:] in PROJECTIONS


def _is_output(cell: Cell) -> bool:
    """The output projection of attention, and its bias."""
    return (cell.after or cell.role) in ("W_O", "b_O")


def _head_size(known: Facts) -> Iterator[Step[Cell]]:
    """Where heads are not as wide together as the model."""
    h, heads, width = known.hidden_size, known.heads, known.head_dim
    if h and heads and width and h % heads == 0 and h != heads * width:
        words = f"a head size of {h:,} / {heads:,} = {h // heads:,}; it is {width:,}"

        def of_heads(cell: Cell) -> bool:
            return cell.block == ATTENTION and (_is_projection(cell) or cell.role == "W_O")

        yield Step("head_size", words, 1.5, scale(of_heads, Fraction(h // heads, width)), "width")


def _attention(known: Facts) -> Iterator[Step[Cell]]:
    heads, groups = known.heads, known.kv_heads
    words = "W_O, the output projection of attention, forgotten"
    yield Step("no_output_projection", words, FORGOTTEN, drop(_is_output), "heads")
    words = "without the biases of queries, keys and values"
    yield Step("no_qkv_bias", words, 1.5, drop(lambda cell: cell.role == BIAS and _is_projection(cell)), "small")
    yield from _head_size(known)
    if heads and heads > 1:
        words = f"the {heads:,} heads counted again: they share the matrices W_Q, W_K and W_V"
        yield Step("heads_again", words, FORGOTTEN, scale(_is_projection, Fraction(heads)), "heads")
    if heads and groups and groups < heads:
        words = f"key and value heads counted as {heads:,}, as many as query heads; there are {groups:,}"
        keys = ("W_K", "W_V", "b_K", "b_V")
        many = scale(
            lambda cell: (cell.after or cell.role) in keys and cell.block == ATTENTION, Fraction(heads, groups)
        )
        yield Step("all_kv_heads", words, 1.5, many, "heads")
    yield Step("no_cross", "without cross-attention", 1.5, drop(lambda cell: cell.block == CROSS))


def _networks(known: Facts) -> Iterator[Step[Cell]]:
    words = "the gate's matrix forgotten: two matrices in the feed-forward network; there are three"
    yield Step("no_gate", words, 2.0, drop(lambda cell: cell.role == "W_g"))
    hidden, inner = known.hidden_size, known.ffn_size
    if hidden and inner and inner != 4 * hidden:
        words = f"a feed-forward size of 4 x {hidden:,}; it is {inner:,}"
        matrices = ("W_1", "W_2", "W_g")
        wide = scale(lambda cell: cell.block == FFN and cell.role in matrices, Fraction(4 * hidden, inner))
        yield Step("ffn_4h", words, 1.75, wide)


def _small() -> Iterator[Step[Cell]]:
    minor = (BIAS, NORM)
    words = "without biases and norms, as rules of thumb count"
    yield Step("no_minor", words, 1.25, drop(lambda cell: cell.role in minor), "small", "--approx")
    yield Step("no_biases", "without biases", 1.5, drop(lambda cell: cell.role == BIAS), "small")
    yield Step("no_norms", "without norms", 1.5, drop(lambda cell: cell.role == NORM), "small")
    final = drop(lambda cell: cell.role == NORM and cell.after == "layers")
    yield Step("no_final_norm", "without the final norm", 1.75, final, "small")
    yield Step("trainable", "trainable parameters alone", 1.0, drop(lambda cell: cell.frozen), flags="--json")


def _stacks(cells: Cells) -> Iterator[Step[Cell]]:
    stacks = dict.fromkeys(cell.stack for cell in cells if cell.stack)
    if len(stacks) < 2:
        return
    outside = any(cell.role in (TOKENS, HEAD) and not cell.stack for cell in cells)
    bare_words, bare_cost = ("the {} alone, without embeddings", 1.25) if outside else ("the {} alone", 1.0)
    for stack in stacks:
        others = drop(lambda cell, stack=stack: cell.stack not in ("", stack))  # type: ignore[misc]  # bound now
        yield Step(f"only_{stack}", f"the {stack} alone, with what is outside of both stacks", 1.25, others, "stack")
        alone = drop(lambda cell, stack=stack: cell.stack != stack)  # type: ignore[misc]  # bound now
        yield Step(f"bare_{stack}", bare_words.format(stack), bare_cost, alone, "stack")


def _layers(known: Facts) -> Iterator[Step[Cell]]:
    count = known.layers
    if count and count > 1:
        for by in (-1, 1):
            words = f"{count + by:,} layers; there are {count:,}"
            more = scale(lambda cell: cell.layer, Fraction(count + by, count))
            yield Step(f"layers_{by:+d}", words, 3.0, more, "layers")


def _vocabulary(known: Facts) -> Iterator[Step[Cell]]:
    size = known.vocab_size
    if not size:
        return
    for padded in dict.fromkeys(-(-size // multiple) * multiple for multiple in MULTIPLES):
        if padded != size:
            multiple = next(each for each in MULTIPLES if -(-size // each) * each == padded)
            words = f"the vocabulary padded to {padded:,}, a multiple of {multiple}; it has {size:,} tokens"
            more = scale(lambda cell: cell.vocab, Fraction(padded, size))
            yield Step(f"padded_{multiple}", words, 1.5, more, "vocabulary", f"--vocab-size {padded}")


def _ranks() -> Iterator[Step[Cell]]:
    for ranks in RANKS:
        words = f"one of {ranks} ranks of tensor parallelism: matrices divided, norms and biases behind them whole"
        yield Step(f"tp_{ranks}", words, 2.25, scale(_is_divided, Fraction(1, ranks)), "ranks")
        words = f"one of {ranks} equal shares"
        yield Step(f"share_{ranks}", words, 2.5, lambda state, n=ranks: state.times(Fraction(1, n)), "ranks")  # type: ignore[misc]  # bound now
        if ranks <= MOST_SUMMED:
            words = f"summed over {ranks} ranks of tensor parallelism, norms and biases behind matrices in each"
            yield Step(f"tp_{ranks}_summed", words, 2.25, scale(_is_whole, Fraction(ranks)), "ranks")


MOST_SUMMED = 8
WHOLE = (NORM, POSITIONS, TYPES, ROUTER)
"""What each rank of tensor parallelism has."""


def _is_divided(cell: Cell) -> bool:
    return not _is_whole(cell)


def _is_whole(cell: Cell) -> bool:
    return cell.role in WHOLE or (cell.role == BIAS and cell.after in ("b_O", "b_2"))
