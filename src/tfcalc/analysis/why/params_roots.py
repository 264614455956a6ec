"""Where a number of parameters may start from: the model, its class with other heads, one part, a rule of thumb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.analysis.why.params_steps import add, stored
from tfcalc.analysis.why.rounded import nominal
from tfcalc.analysis.why.step import Change, Root, State, Step
from tfcalc.analysis.why.tensors import (
    BUFFER,
    HEAD,
    NORM,
    POSITIONS,
    ROUTED,
    TOKENS,
    Cell,
    Cells,
    cells_of,
)
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.model import Model

OTHER_CLASS, FURTHER_CLASS, RULE = 1.25, 1.75, 1.25
FURTHER = ("Classification", "QuestionAnswering", "MultipleChoice")
"""Ends of classes that are made for a task, after a language model was trained."""
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Fields that say how many layers predict further tokens; transformers builds none of them."""


def roots(model: Model, tree: Component, known: Facts, called: str) -> Iterator[Root[Cell]]:
    """The model itself, then what else its numbers may be about."""
    vocabulary = known.vocab_size
    cells = cells_of(tree, vocabulary)
    command = f"tfcalc params {called}".strip()
    yield Root("total", "parameters", "", State(stored(cells)), command)
    yield from _rounded_experts(cells, command)
    yield from _classes(model, vocabulary)
    yield from _rules(cells, known, command)


def _classes(model: Model, vocabulary: int | None) -> Iterator[Root[Cell]]:
    """The same config with other heads on it."""
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
        yield Root(f"class_{name}", f"parameters of {name}", words, State(cells), command, rare, deep=2)


def _rounded_experts(cells: Cells, command: str) -> Iterator[Root[Cell]]:
    """Of 8 experts 8 times the size of a model with one, rounded as in the names of models: 8 x 7B."""
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
        yield Root(f"experts_times_{said}", what, words, state, command, RULE, deep=0)


def _heads(model: HFModel) -> list[str]:
    return sorted(model.family.heads, key=len, reverse=True)


def _rules(cells: Cells, known: Facts, command: str) -> Iterator[Root[Cell]]:
    """12h² for a layer of an encoder or decoder (4h² attention, 8h² feed-forward), 16h² with cross-attention."""
    h, n, vocabulary = known.hidden_size, known.layers, known.vocab_size
    if not h or not n or known.experts:
        return
    layers = {Cell("layers", layer=True): 12 * n * h * h}
    rule = f"12 x {n:,} x {h:,}²"
    if known.encoder_layers and known.decoder_layers:
        layers = {Cell("layers", layer=True): (12 * known.encoder_layers + 16 * known.decoder_layers) * h * h}
        rule = f"(12 x {known.encoder_layers:,} + 16 x {known.decoder_layers:,}) x {h:,}²"
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
        yield Root(f"rule_{place}", formula, f"the rule of thumb {words}", state, command, RULE, deep=1)


def extra_layers(model: Model, tree: Component, cells: Cells, known: Facts) -> Iterator[Step[Cell]]:
    """Layers that predict further tokens, the scales of weights that are quantized by block, and buffers."""
    config = model.data if isinstance(model, HFModel) else {}
    last = next((node.component for node in reversed(list(tree.walk())) if node.component.kind == "layer"), None)
    count = next((found for name in MTP if isinstance(found := config.get(name), int) and found > 0), 0)
    further = {} if last is None else cells_of(last._replace(copies=1), known.vocab_size)
    h = known.hidden_size
    if count and h and last is not None:
        joined = {cell: size * count for cell, size in stored(further).items()}
        joined |= {Cell(JOINING, layer=True): 2 * h * h * count, Cell(NORM, after="layers"): 3 * h * count}
        words = f"with the multi-token-prediction {'layer' if count == 1 else f'layers ({count})'}"
        yield Step("mtp", words, 1.0, add(joined), "mtp")
        copies = {cell: size * count for cell, size in cells.items() if cell.role in (TOKENS, HEAD) and not cell.tied}
        words += ", and its copies of the embedding and of the output head"
        yield Step("mtp_with_copies", words, 1.0, add(_sum(joined, copies)), "mtp")

    def with_further(of_model: int, of_last: int, role: str) -> Change[Cell]:
        def change(state: State[Cell]) -> State[Cell] | None:
            joined = any(cell.role == JOINING for cell in state.cells)
            return state.plus({Cell(role): of_model + joined * count * of_last})

        return change

    buffers, of_last = (sum(size for cell, size in of.items() if cell.role == BUFFER) for of in (cells, further))
    if buffers:
        words = "with the buffers, which are stored and are no parameters"
        yield Step("buffers", words, 1.25, with_further(buffers, of_last, BUFFER))
    sides = _block_size(config)
    if sides and last is not None:
        words = f"with the scales of the quantized weights, one for each block of {sides[0]} x {sides[1]}"
        of_all, of_one = _scales(tree, sides), _scales(last._replace(copies=1), sides, inside=True)
        yield Step("scales", words, 1.25, with_further(of_all, of_one, "scales"))


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
