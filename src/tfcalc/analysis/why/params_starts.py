"""Starts of a number of parameters: the model, another class, one part, a rule of thumb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.analysis.why.given import nominal
from tfcalc.analysis.why.params_steps import add, stored
from tfcalc.analysis.why.search import Change, CountingStep, Start, State
from tfcalc.analysis.why.tensors import (
    HEAD,
    NORM,
    POSITIONS,
    ROUTED,
    STACKS,
    TOKENS,
    Cell,
    Cells,
    cells_of,
)
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import params
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.core.component import Node
    from tfcalc.model import Model

OTHER_CLASS, FURTHER_CLASS, RULE = 1.25, 1.75, 1.25
FURTHER = ("Classification", "QuestionAnswering", "MultipleChoice")
"""Ends of classes that are made for a task, after a language model was trained."""
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Fields that say how many layers predict further tokens; transformers builds none of them."""


def starts(model: Model, tree: Component, known: Facts, called: str) -> Iterator[Start[Cell]]:
    """The model itself, then what else its numbers may be about."""
    vocabulary = known.vocab_size
    cells = cells_of(tree, vocabulary)
    command = f"tfcalc params {called}".strip()
    yield Start("total", "parameters", "", State(stored(cells)), command, composed=composition(tree))
    yield from _rounded_experts(cells, command)
    yield from _classes(model, vocabulary)
    yield from _rules(cells, known, command)


MOST_TERMS = 6
"""Of a sum that fits a line."""


def composition(tree: Component) -> str:
    """The parameters as layers, tables and what else there is; equal ones together, empty where these are too many.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> composition(Transformer(kind="decoder", vocab_size=100).tree(Workload(seq_len=1)))
    '6 x 3,152,384 + 2 x 51,200 + 1,024'
    """
    found: dict[int, int] = {}

    def add_up(part: Component, times: int) -> None:
        times *= value_of(part.copies)
        size = value_of(part._replace(copies=1).total(params))
        whole = part.kind == "layer" or not any(inner.kind == "layer" or inner.parts for inner in part.parts)
        if whole and size:
            found[size] = found.get(size, 0) + times
        elif size:
            for inner in part.parts:
                add_up(inner, times)

    add_up(tree, 1)
    terms = sorted(found.items(), key=lambda term: -term[0] * term[1])
    if len(terms) > MOST_TERMS or len(terms) < 2:
        return ""
    return " + ".join(f"{times:,} x {size:,}" if times > 1 else f"{size:,}" for size, times in terms)


def _classes(model: Model, vocabulary: int | None) -> Iterator[Start[Cell]]:
    """Start from the same config with other heads on it."""
    if not isinstance(model, HFModel):
        return
    base = next(
        (model.architecture.removesuffix(head) for head in _heads(model) if model.architecture.endswith(head)), ""
    )
    for head in _heads(model):
        name = f"{base}{head}"
        if not base or name == model.architecture:
            continue
        try:
            other = HFModel({**model.data, "architectures": [name]}, name=model.name)
            cells = stored(cells_of(other.tree(Workload(seq_len=1)), vocabulary))
        except TfcalcError:
            continue
        words = f"counted of the class {name}; tfcalc builds {model.architecture}"
        rare = FURTHER_CLASS if name.endswith(FURTHER) else OTHER_CLASS
        command = f'tfcalc params config.json (with "architectures": ["{name}"])'
        yield Start(f"class_{name}", f"parameters of {name}", words, State(cells), command, rare, deep=2)


def _rounded_experts(cells: Cells, command: str) -> Iterator[Start[Cell]]:
    """Start from 8 times the size of a model with one, rounded as in the names of models: 8 x 7B."""
    routed = next((cell for cell in cells if cell.expert == ROUTED), None)
    if routed is None:
        return
    one = sum(size // cell.copies if cell.expert == ROUTED else size for cell, size in stored(cells).items())
    for size, said, _ in nominal(one):
        words = (
            f"{routed.copies:,} x {said}: a model with one expert has {one:,} parameters; experts share all the rest"
        )
        state = State({Cell("experts"): routed.copies * size})
        what = f"{routed.copies:,} x {size:,}"
        yield Start(f"experts_times_{said}", what, words, state, command, RULE, deep=0)


def _heads(model: HFModel) -> list[str]:
    return sorted(model.family.heads, key=len, reverse=True)


def _rules(cells: Cells, known: Facts, command: str) -> Iterator[Start[Cell]]:
    """12h² for a layer: 4h² of attention, 8h² of the feed-forward network."""
    h, n, vocabulary = known.hidden_size, known.layers, known.vocab_size
    if not h or not n or known.experts or (known.encoder_layers and known.decoder_layers):
        return
    layers = {Cell("layers", layer=True): 12 * n * h * h}
    rule = f"12 x {n:,} x {h:,}²"
    table = {Cell(TOKENS, vocab=True): (vocabulary or 0) * h}
    head = {Cell(HEAD, vocab=True): (vocabulary or 0) * h}
    positions = {Cell(POSITIONS): sum(size for cell, size in cells.items() if cell.role == POSITIONS)}
    forms: list[tuple[str, Cells]] = [("12h²n: layers alone, without biases and norms", {})]
    if vocabulary:
        forms.append(("12h²n + Vh: layers and one embedding, without biases and norms", table))
        forms.append(("12h²n + 2Vh: layers, embedding and output head, without biases and norms", {**table, **head}))
        if sum(positions.values()):
            words = "12h²n + (V + T)h: layers, token and position embedding, without biases and norms"
            forms.append((words, {**table, **positions}))
    for place, (words, more) in enumerate(forms):
        tables = " + ".join(f"{size:,}" for size in more.values())
        formula = f"{rule} + {tables}" if tables else rule
        state = State({**layers, **more})
        yield Start(f"rule_{place}", formula, f"the rule of thumb {words}", state, command, RULE, deep=1)


def extra_layers(model: Model, tree: Component, cells: Cells, known: Facts) -> Iterator[CountingStep[Cell]]:
    """Layers that predict further tokens, and the scales of weights that are quantized by block."""
    config = model.data if isinstance(model, HFModel) else {}
    last = next((node.component for node in reversed(list(tree.walk())) if node.component.kind == "layer"), None)
    count = next((found for name in MTP if isinstance(found := config.get(name), int) and found > 0), 0)
    further = {} if last is None else cells_of(last._replace(copies=1), known.vocab_size)
    h = known.hidden_size
    if count and h and last is not None:
        joined = {cell: size * count for cell, size in stored(further).items()}
        joined |= {Cell(JOINING, layer=True): 2 * h * h * count, Cell(NORM, after="layers"): 3 * h * count}
        words = f"with the multi-token-prediction {'layer' if count == 1 else f'layers ({count})'}"
        yield CountingStep("mtp", words, 1.0, add(joined), "mtp")
        copies = {cell: size * count for cell, size in cells.items() if cell.role in (TOKENS, HEAD) and not cell.tied}
        words += ", and its copies of the embedding and of the output head"
        yield CountingStep("mtp_with_copies", words, 1.0, add(_sum(joined, copies)), "mtp")

    def with_further(of_model: int, of_last: int, role: str) -> Change[Cell]:
        def change(state: State[Cell]) -> State[Cell] | None:
            joined = any(cell.role == JOINING for cell in state.cells)
            return state.plus({Cell(role): of_model + joined * count * of_last})

        return change

    sides = _block_size(config)
    if sides and last is not None:
        words = f"with the scales of the quantized weights, one for each block of {sides[0]} x {sides[1]}"
        of_all, of_one = _scales(tree, sides), _scales(last._replace(copies=1), sides, inside=True)
        yield CountingStep("scales", words, 1.25, with_further(of_all, of_one, "scales"))


JOINING = "joining projection"
"""What joins the last layer's output with the next token's embedding."""


def _scales(part: Component, sides: tuple[int, int], inside: bool = False) -> int:
    """The blocks of the matrices in layers, without those of routers."""
    inside = inside or part.kind == "layer"
    shapes = [[value_of(size) for size in weight.shape] for weight in part.own.weights if not weight.minor]
    own = sum(-(-rows // sides[0]) * -(-columns // sides[1]) for rows, columns in (s for s in shapes if len(s) == 2))
    quantized = own if inside and part.kind != "router" else 0
    return value_of(part.copies) * (quantized + sum(_scales(inner, sides, inside) for inner in part.parts))


def _block_size(config: Mapping[str, object]) -> tuple[int, int] | None:
    quantized = config.get("quantization_config")
    sides = quantized.get("weight_block_size") if isinstance(quantized, dict) else None
    if isinstance(sides, list) and len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides):
        return sides[0], sides[1]
    return None


def _sum(*several: Cells) -> Cells:
    found: Cells = {}
    for cells in several:
        for cell, size in cells.items():
            found[cell] = found.get(cell, 0) + size
    return found


PART, ALL, TOGETHER, SOME = 1.0, 1.25, 1.25, 2.5
LANGUAGE = 0.5
"""What it costs to count the language model alone, of one that reads images, too."""
FEW = (2, 3, 4, 6, 8)
CALLED = {"attention": "attention", "ffn": "feed-forward network", "moe": "mixture of experts", "layer": "layer"}


def part_starts(tree: Component, vocabulary: int | None, called: str) -> Iterator[Start[Cell]]:
    """Yield each block by itself, and all of its copies together; stacks where there are several."""
    seen = {sum(stored(cells_of(tree, vocabulary)).values())}
    stacks = {node.path for node in tree.walk() if node.component.kind in STACKS}
    alone = set(STACKS) if len(stacks) < 2 else set[str]()
    for node in tree.walk():
        part, copies = node.component, value_of(node.copies)
        path = node.path.partition(".")[2]
        if not path or part.kind in ("residual", "activation", "attend", "rotary", "buffer", *alone):
            continue
        if part.kind == "model" and all(stack.startswith(node.path) for stack in stacks):
            continue
        cells = stored(cells_of(part._replace(copies=1, active=None), vocabulary))
        is_block = part.kind in CALLED
        inside = cells
        cells = {cell._replace(layer=True): size for cell, size in cells.items()}
        total = sum(cells.values())
        if not total:
            continue
        command = f"tfcalc explain {path} {called}"
        of = f"{CALLED.get(part.kind, part.kind)} ({path})"
        if total not in seen:
            seen.add(total)
            words = f"one {of} alone" if copies != 1 else f"the {of} alone"
            yield Start(
                f"part_{path}",
                of,
                words,
                State(cells),
                command,
                LANGUAGE if part.kind == "model" else PART,
                deep=2 if is_block else int(any(cell.layer for cell in inside)),
                is_part=is_block,
            )
        if copies != 1 and total * copies not in seen and part.kind in (*CALLED, "experts"):
            seen.add(total * copies)
            many = {cell: size * copies for cell, size in cells.items()}
            words = f"all {copies:,} x {of} together"
            yield Start(f"all_{path}", of, words, State(many), command, PART + 0.25, deep=1, is_part=True)


def grouped_starts(tree: Component, vocabulary: int | None, called: str) -> Iterator[Start[Cell]]:
    """Start from what people count as one: a sub-layer with its norm, both tables, a tower with its projection."""
    cells = stored(cells_of(tree, vocabulary))
    ends = {cell: size for cell, size in cells.items() if cell.role in (TOKENS, HEAD)}
    command = f"tfcalc params {called}".strip()
    if len(ends) > 1:
        words = "the token embedding and the output head alone"
        yield Start("part_embedding_and_head", words, words, State(ends), command, TOGETHER, deep=1)
    for node in tree.walk():
        if node.component.kind == "layer":
            yield from _with_norms(node.component, value_of(node.copies), vocabulary, command)
            yield from _first_layer(tree, node, vocabulary, command)
            yield from _some_layers(node, vocabulary, command)
    yield from _with_projections(tree, vocabulary, command)


def _with_norms(layer: Component, copies: int, vocabulary: int | None, command: str) -> Iterator[Start[Cell]]:
    """Yield each sub-layer of a layer with one of the layer's norms."""
    norms = [sum(cells_of(part, vocabulary).values()) for part in layer.parts if part.kind == "norm"]
    for part in layer.parts:
        if not norms or part.kind not in CALLED:
            continue
        own = {cell._replace(layer=True): n for cell, n in stored(cells_of(part, vocabulary)).items()}
        for times, which, cost in ((1, "one", TOGETHER), (copies, f"all {copies:,} x", TOGETHER + ALL - PART)):
            size = {cell: n * times for cell, n in own.items()} | {Cell("norm", after=part.name): norms[0] * times}
            words = f"{which} {CALLED[part.kind]} ({part.name}) with its norm"
            yield Start(f"norm_and_{part.name}_{times}", words, words, State(size), command, cost, deep=1)


def _first_layer(tree: Component, layer: Node, vocabulary: int | None, command: str) -> Iterator[Start[Cell]]:
    """A layer with what only the first of its stack has, such as T5's relative positions."""
    extra = [node.component for node in tree.walk() if node.path.startswith(f"{layer.path}[0].")]
    if extra:
        own = cells_of(layer.component._replace(copies=1), vocabulary)
        for part in extra:
            own |= cells_of(part, vocabulary)
        path = layer.path.partition(".")[2]
        words = f"the first layer ({path}) alone, with what only that has"
        cells = {cell._replace(layer=True): size for cell, size in stored(own).items()}
        yield Start(f"part_{path}[0]", words, words, State(cells), command, PART, deep=1)


def _some_layers(layer: Node, vocabulary: int | None, command: str) -> Iterator[Start[Cell]]:
    """The last few layers, as people tune them."""
    one = stored(cells_of(layer.component._replace(copies=1), vocabulary))
    path, copies = layer.path.partition(".")[2], value_of(layer.copies)
    for few in FEW:
        if few < copies:
            words = f"{few} of the {copies:,} layers ({path}) alone"
            cells = {cell._replace(layer=True): size * few for cell, size in one.items()}
            yield Start(f"part_{path}_{few}", words, words, State(cells), command, SOME, deep=1)


def _with_projections(tree: Component, vocabulary: int | None, command: str) -> Iterator[Start[Cell]]:
    """Yield each stack with a linear map outside of it that takes what comes out of it."""
    stacks = [part for part in tree.parts if part.kind in STACKS]
    for stack in stacks if len(stacks) > 1 else ():
        width = _width(stack)
        for part in tree.parts:
            own: Cells = stored(cells_of(part, vocabulary)) if part.kind == "linear" else {}
            if own and value_of(part.own.weights[0].shape[0]) == width:
                both = stored(cells_of(stack, vocabulary)) | {Cell(part.name): sum(own.values())}
                words = f"the {stack.name} alone, with {part.name}"
                yield Start(f"part_{stack.name}_{part.name}", words, words, State(both), command, TOGETHER, deep=1)


def _width(stack: Component) -> int | None:
    """The size of the last norm."""
    norms = [part for part in stack.parts if part.kind == "norm" and part.own.weights]
    return value_of(norms[-1].own.weights[0].shape[0]) if norms else None
