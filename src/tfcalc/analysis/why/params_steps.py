"""Steps that people take with parameters, which they leave out, count again, pack, or count otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.why.search import Change, CountingStep, Start, State
from tfcalc.analysis.why.tensors import (
    ATTENTION,
    BIAS,
    BUFFER,
    CROSS,
    HEAD,
    NORM,
    POSITIONS,
    ROUTED,
    ROUTER,
    TOKENS,
    TYPES,
    Cell,
    Cells,
)
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.core.component import Component
    from tfcalc.model import Model

S = State[Cell]
TABLES = (TOKENS, TYPES, POSITIONS)
MULTIPLES = (64, 128, 256, 8, 512, 1024)
"""What vocabularies are padded to."""
RANKS_SUMMED = (2, 4, 8)
SLIP = 1.0
"""What a slip costs at most in one block by itself, where it is easier to tell than in a whole model."""
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
    """Count some cells ``factor`` times; None where that is no whole number."""
    times, by = factor.numerator, factor.denominator

    def change(state: S) -> S | None:
        if any(size * times % by for cell, size in state.cells.items() if of(cell)):
            return None
        return state.changed(lambda cell, size: size * times // by if of(cell) else size)

    return change


def stored(cells: Cells) -> Cells:
    """The cells that tfcalc counts as parameters: nothing tied, and no buffers."""
    return {cell: size for cell, size in cells.items() if not cell.tied and cell.role != BUFFER}


def steps(cells: Cells, known: Facts, extra: Iterable[CountingStep[Cell]]) -> Iterator[CountingStep[Cell]]:
    """The steps that this model gives reason to, in the order in which they are taken."""
    yield from _embeddings(cells)
    yield from extra
    yield from _experts(cells)
    yield from _attention(known)
    yield from _small()
    yield from _stacks(cells)
    yield from _vocabulary(known)
    yield from _ranks()


def steps_of_part(known: Facts) -> Iterator[CountingStep[Cell]]:
    """The steps in one block by itself, where a slip is easier to tell."""
    heads = known.heads
    if heads and heads > 1:
        words = f"the {heads:,} heads counted again, though they share W_Q, W_K and W_V; W_O forgotten"
        again, no_output = scale(_is_projection, Fraction(heads)), drop(_is_output)

        def both(state: S) -> S | None:
            rest = no_output(state)
            return None if rest is None else again(rest)

        yield CountingStep("heads_again_no_output", words, SLIP + 0.25, both, "heads")
    for step in (*_attention(known), *_small()):
        yield step._replace(cost=min(step.cost, SLIP))


def _embeddings(cells: Cells) -> Iterator[CountingStep[Cell]]:
    tied = {cell._replace(tied=False): size for cell, size in cells.items() if cell.tied and cell.role == HEAD}
    if tied:
        words = "the output head counted again although it is tied to the embedding"
        once_more = add(tied)

        def untied(state: S) -> S | None:
            return None if any(cell.role == HEAD for cell in state.cells) else once_more(state)

        yield CountingStep("untied", words, 1.0, untied, "head")
    else:
        words = "one of the two embedding matrices left out, as if input and output were tied; they are not"
        yield CountingStep("tied", words, 1.0, drop(lambda cell: cell.role == HEAD), "head")
    both = "without the embeddings" + ("" if tied else " and the output head")
    yield CountingStep(
        "non_embedding",
        f"{both}: non-embedding parameters",
        1.0,
        drop(lambda cell: cell.role in (*TABLES, HEAD)),
        "tables",
        "" if not tied else "--json",
    )
    yield CountingStep(
        "input_embeddings",
        "without the input embeddings",
        1.0,
        drop(lambda cell: cell.role in TABLES),
        "tables",
        "--json",
    )
    words = "without the token embedding"
    yield CountingStep("token_embedding", words, 1.25, drop(lambda cell: cell.role == TOKENS), "tables")
    words = "the layers alone: without embeddings, final norm and heads"
    yield CountingStep("layers_alone", words, 1.25, lambda state: state.only(lambda cell: cell.layer), "tables")
    words = "without the pooler, and whatever else comes after the layers but the output head"
    yield CountingStep("no_pooler", words, 1.0, drop(_after_layers), "pooler")
    words = "without the position embedding"
    yield CountingStep("positions", words, 1.0, drop(lambda cell: cell.role == POSITIONS), "tables")


def _after_layers(cell: Cell) -> bool:
    """A pooler, a classifier: neither in a stack, nor a table, nor a norm."""
    outside = not cell.stack and not cell.layer and cell.role != HEAD and cell.role not in TABLES
    return outside and cell.role != NORM and cell.block == "" and not cell.vocab


def _experts(cells: Cells) -> Iterator[CountingStep[Cell]]:
    if not any(cell.expert == ROUTED for cell in cells):
        return
    routed = next(cell for cell in cells if cell.expert == ROUTED)
    words = f"the active parameters of a token: {routed.active:,} of {routed.copies:,} experts"
    active = _of_experts(lambda cell: Fraction(cell.active, cell.copies))
    yield CountingStep("active", words, ACTIVE, active, "experts", "--json")


def _of_experts(share: Callable[[Cell], Fraction]) -> Change[Cell]:
    return lambda state: state.changed(lambda cell, size: int(size * share(cell)) if cell.expert == ROUTED else size)


def _is_projection(cell: Cell) -> bool:
    """Return True if it is a matrix or a bias of queries, keys or values."""
    name = cell.after if cell.role == BIAS else cell.role
    return cell.block in (ATTENTION, CROSS) and name[2:] in PROJECTIONS


def _is_output(cell: Cell) -> bool:
    """The output projection of attention, and its bias."""
    return (cell.after or cell.role) in ("W_O", "b_O")


def _attention(known: Facts) -> Iterator[CountingStep[Cell]]:
    heads, groups = known.heads, known.kv_heads
    words = "without the biases of queries, keys and values"
    yield CountingStep(
        "no_qkv_bias", words, 1.5, drop(lambda cell: cell.role == BIAS and _is_projection(cell)), "small"
    )
    if heads and groups and groups < heads:
        words = f"key and value heads counted as {heads:,}, as many as query heads; there are {groups:,}"
        keys = ("W_K", "W_V", "b_K", "b_V")
        many = scale(
            lambda cell: (cell.after or cell.role) in keys and cell.block == ATTENTION, Fraction(heads, groups)
        )
        yield CountingStep("all_kv_heads", words, 1.5, many, "heads")


def _small() -> Iterator[CountingStep[Cell]]:
    minor = (BIAS, NORM)
    words = "without biases and norms, as rules of thumb count"
    yield CountingStep("no_minor", words, 1.25, drop(lambda cell: cell.role in minor), "small", "--approx")
    words = "without all biases, those of norms too, whose weights are counted (bias=False in nanoGPT)"
    yield CountingStep("no_bias", words, 1.25, drop(lambda cell: cell.role == BIAS or cell.shift), "small")
    words = "without the biases of matrices; norms are counted"
    yield CountingStep("no_matrix_bias", words, 1.5, drop(lambda cell: cell.role == BIAS), "small")


def _stacks(cells: Cells) -> Iterator[CountingStep[Cell]]:
    stacks = dict.fromkeys(cell.stack for cell in cells if cell.stack)
    if len(stacks) < 2:
        return
    outside = any(cell.role in (TOKENS, HEAD) and not cell.stack for cell in cells)
    bare_words, bare_cost = ("the {} alone, without embeddings", 1.25) if outside else ("the {} alone", 1.0)
    for stack in stacks:
        alone = drop(lambda cell, stack=stack: cell.stack != stack)  # type: ignore[misc]  # bound now
        yield CountingStep(f"bare_{stack}", bare_words.format(stack), bare_cost, alone, "stack")


def _vocabulary(known: Facts) -> Iterator[CountingStep[Cell]]:
    size = known.vocab_size
    if not size:
        return
    for padded in dict.fromkeys(-(-size // multiple) * multiple for multiple in MULTIPLES):
        if padded != size:
            multiple = next(each for each in MULTIPLES if -(-size // each) * each == padded)
            words = f"the vocabulary padded to {padded:,}, a multiple of {multiple}; it has {size:,} tokens"
            more = scale(lambda cell: cell.vocab, Fraction(padded, size))
            yield CountingStep(f"padded_{multiple}", words, 1.5, more, "vocabulary", f"--vocab-size {padded}")


def _ranks() -> Iterator[CountingStep[Cell]]:
    for ranks in RANKS_SUMMED:
        words = f"summed over {ranks} ranks of tensor parallelism, norms and biases behind matrices in each"
        yield CountingStep(f"tp_{ranks}_summed", words, 2.25, scale(_is_whole, Fraction(ranks)), "ranks")


WHOLE = (NORM, POSITIONS, TYPES, ROUTER)
"""What each rank of tensor parallelism has."""


def _is_whole(cell: Cell) -> bool:
    return cell.role in WHOLE or (cell.role == BIAS and cell.after in ("b_O", "b_2"))


ALONE, BESIDE = 1.5, 2.0
"""What it costs to count adapters alone, and beside the model."""
RANKS = {8: 0.0, 16: 0.0, 32: 0.0, 64: 0.0, 4: 0.0, 1: 0.0}
"""Usual ranks, and what rare ones cost more."""
OTHER_RANK, LARGEST_RANK = 0.25, 1024
LAST, IN_LAST = 16, 0.75
"""mlx-lm adapts the last 16 layers by default."""
WITH_HEAD = WITH_COPIES = 0.5
SAVED = ", and copies of the embedding and of the output head that are trained"


class LoraTargets(NamedTuple):
    """Matrices that are adapted: those named of all in layers, or all; and the output head too.

    ``saved`` says that embedding and output head are trained beside, as copies (peft's ``modules_to_save``).
    """

    name: str
    matrices: tuple[str, ...] = ()
    head: bool = False
    saved: bool = False
    cost: float = 0.0

    def flags(self, tree: Component, rank: int) -> str:
        """The options of ``params`` that train these adapters; "" where none do."""
        if self.head or self.saved:
            return ""
        if not self.matrices:
            return f"--lora {rank}"
        linear = (node.component for node in tree.walk() if node.component.kind == "linear")
        names = dict.fromkeys(
            part.name for part in linear if any(weight.name in self.matrices for weight in part.own.weights)
        )
        return f"--lora {rank} --lora-targets {','.join(names)}"


TARGETS = (
    LoraTargets("q_proj,v_proj", ("W_Q", "W_V")),
    LoraTargets("all-linear"),
    LoraTargets("q_proj,k_proj,v_proj,o_proj", ("W_Q", "W_K", "W_V", "W_O")),
    LoraTargets("the joint projection of queries, keys and values", ("W_QKV",)),
    LoraTargets("all-linear and the output head", (), head=True, cost=WITH_HEAD),
    LoraTargets(f"all-linear{SAVED}", (), saved=True, cost=WITH_COPIES),
)


class LoraCount(NamedTuple):
    """LoraCount of one rank on some matrices: an id, their parameters, what they are, and how rare that is."""

    name: str
    size: int
    words: str
    cost: float
    flags: str = ""
    """The options of ``params`` that print it, "" where there are none."""
    arithmetic: str = ""

    def of(self, rank: int, ends: int, whole: int) -> LoraCount:
        """Return it with its arithmetic: ``rank`` vectors for inputs and outputs of matrices, and ``whole`` copies."""
        more = f" + {whole:,}" if whole else ""
        text = f"{rank:,} x {ends:,} inputs and outputs of matrices{more} = {self.size:,}"
        return self._replace(arithmetic=text)


def adapters(tree: Component, size: int = 0) -> Iterator[LoraCount]:
    """Adapters of usual ranks on the matrices that people adapt; and of another rank that has this ``size``."""
    there = {weight.name for node in tree.walk() for weight in node.component.own.weights}
    layers, copies = _layers(tree), _copies(tree)
    for target in TARGETS:
        if not there.issuperset(target.matrices):
            continue
        head = _head(tree) if target.head else 0
        inside = ends(tree, target.matrices)
        if not inside or (target.head and not head):
            continue
        whole = copies if target.saved else 0
        found, left = divmod(max(size - whole, 0), inside + head)
        others = {found: OTHER_RANK} if 0 < found <= LARGEST_RANK and not left and found not in RANKS else {}
        for rank, rare in (RANKS | others).items():
            name = (
                f"lora_{rank}_{target.name.split(' ')[0].rstrip(',')}{'_head' * target.head}{'_saved' * target.saved}"
            )
            words = f"LoRA's adapters of rank {rank} on {target.name}"
            flags = target.flags(tree, rank)
            yield LoraCount(name, rank * (inside + head) + whole, words, rare + target.cost, flags).of(
                rank, inside + head, whole
            )
            if layers > LAST and not target.saved and inside * LAST % layers == 0:
                few = inside * LAST // layers + head
                told = f"{words}, in {LAST} of the {layers:,} layers"
                yield LoraCount(f"{name}_last_{LAST}", rank * few, told, rare + target.cost + IN_LAST).of(rank, few, 0)


def adapter_starts(tree: Component, command: str) -> Iterator[Start[Cell]]:
    """The adapters alone."""
    for one in adapters(tree):
        asked = f"{command} {one.flags}".strip()
        state = State({Cell("adapters"): one.size})
        words = f"{one.words} alone: what is trained"
        yield Start(one.name, one.words, words, state, asked, ALONE + one.cost, deep=0)


def adapter_steps(tree: Component) -> Iterator[CountingStep[Cell]]:
    """The adapters beside what else is counted."""
    for one in adapters(tree):
        added = add({Cell("adapters", layer=True): one.size})
        yield CountingStep(one.name, f"with {one.words}", BESIDE + one.cost, added, "lora")


def ends(part: Component, matrices: tuple[str, ...], inside: bool = False) -> int:
    """Rows and columns of the matrices in layers: of those named, or of all."""
    inside = inside or part.kind == "layer"
    own = sum(
        sum(value_of(size) for size in weight.shape)
        for weight in part.own.weights
        if inside and len(weight.shape) == 2 and part.kind == "linear" and (not matrices or weight.name in matrices)
    )
    return value_of(part.copies) * (own + sum(ends(inner, matrices, inside) for inner in part.parts))


def _head(tree: Component) -> int:
    heads = (node.component for node in tree.walk() if node.component.kind == "output")
    return sum(value_of(size) for head in heads for w in head.own.weights if len(w.shape) == 2 for size in w.shape)


def _copies(tree: Component) -> int:
    """The token embedding, and the output head even where it is tied."""
    tables = (node.component for node in tree.walk() if node.component.kind in ("embedding", "output"))
    sizes = [value_of(w.size) for part in tables for w in part.own.weights if len(w.shape) == 2]
    return max(sizes, default=0) * 2


def _layers(tree: Component) -> int:
    return sum(value_of(node.copies) for node in tree.walk() if node.component.kind == "layer")


LONGEST = 4096
"""Longer masks were never stored."""
IDS, MASKS = 1.5, 1.25


def buffer_steps(model: Model, tree: Component, known: Facts) -> Iterator[CountingStep[Cell]]:
    """The numbers of the positions, of a learned table; and the causal mask of each layer, of a decoder."""
    tables = [node.component.own.weights for node in tree.walk() if node.component.kind == "position"]
    places = [value_of(w.shape[0]) for weights in tables for w in weights if _is_table(w.shape, known.context)]
    if places:
        words = f"with the buffer of position ids, {' + '.join(f'{one:,}' for one in places)} whole numbers"
        yield CountingStep("position_ids", words, IDS, add({Cell(BUFFER): sum(places)}), "buffers")
    length, layers = known.context, known.layers
    if length and layers and length <= LONGEST and not known.encoder_layers and _generates(model):
        words = f"with the causal mask of {length:,} x {length:,} that each layer stored as a buffer"
        yield CountingStep("masks", words, MASKS, add({Cell(BUFFER, layer=True): layers * length * length}), "buffers")


def _is_table(shape: tuple[object, ...], context: int | None) -> bool:
    return len(shape) == 2 and context is not None and value_of(shape[0]) >= context


def _generates(model: Model) -> bool:
    try:
        model.check(Workload(phase="decode"))
    except TfcalcError:
        return False
    return True


PACKED, RARELY = 1.5, 2.0
GROUP = 128
"""Of GPTQ."""


def is_packed(cell: Cell) -> bool:
    """A matrix in a layer, but for routers."""
    return cell.layer and cell.role.startswith("W_") and cell.role != ROUTER


def packed_steps(tree: Component) -> Iterator[CountingStep[Cell]]:
    """Count weights as bitsandbytes, GPTQ and MLX store 4 bits."""
    inputs_and_outputs = ends(tree, ())
    halves = "two weights of 4 bits stored as one number, so that numel() counts half of the layers' matrices"
    yield CountingStep("packed", halves, PACKED, _packed(lambda n: n // 2), "packed")
    words = f"{halves}, beside an absmax for each block of 64 (bitsandbytes)"
    yield CountingStep("packed_absmax", words, PACKED, _packed(lambda n: n // 2 + n // 64), "packed")
    words = "four weights of 4 bits stored as one number of 16 bits (bitsandbytes' quant_storage, for FSDP)"
    yield CountingStep("packed_16_bits", words, RARELY, _packed(lambda n: n // 4), "packed")
    words = "without the layers' matrices: what quantization to 4 bits leaves, and so trains (embeddings, norms)"
    yield CountingStep("not_quantized", words, PACKED, lambda state: state.without(is_packed), "packed")
    words = f"eight weights of 4 bits stored as one int32, beside scales and zero points of groups of {GROUP} (GPTQ)"

    def eighth(state: State[Cell]) -> State[Cell] | None:
        fewer = _packed(lambda n: n // 8 + n // GROUP + n // (8 * GROUP))(state)
        return None if fewer is None else fewer.plus({Cell("indices and biases"): inputs_and_outputs})

    yield CountingStep("packed_int32", words, PACKED, eighth, "packed")
    words = "eight weights of 4 bits stored as one uint32, beside a scale and a bias of each group of 64 (MLX)"
    yield CountingStep("packed_uint32", words, PACKED, _packed(lambda n: n // 8 + n // 32, with_head=True), "packed")


def _packed(of: Callable[[int], int], *, with_head: bool = False) -> Callable[[State[Cell]], State[Cell] | None]:
    """Set the size of each of the layers' matrices to ``of`` it, and of the output head where it is one of its own."""

    def change(state: State[Cell]) -> State[Cell] | None:
        return state.changed(lambda c, n: of(n) if is_packed(c) or (with_head and c.role == HEAD) else n)

    return change
