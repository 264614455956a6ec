"""Bytes of the KV cache, of a token or of a context, and what people multiply them by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.why.given import BYTES_UNIT
from tfcalc.analysis.why.search import Change, CountingStep, Start, State
from tfcalc.core.traced import value_of
from tfcalc.defaults import serving_context
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.serving.caches import mixers
from tfcalc.serving.stored import at_work

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.workload import Workload

FORMATS = {"bf16": Fraction(2), "fp8": Fraction(1)}
RARE = {"bf16": 0.0, "fp8": 0.5}
"""What a format costs that keys and values are said to be in."""
SAID = {"bf16": "16 bits", "fp8": "8 bits"}
CONTEXTS = (1000, 1024, 2048, 4096, 8192, 16000, 16384, 32000, 32768, 128000, 131072)
OTHER_LENGTH, TOO_LONG, K_OF_1000 = 0.75, 0.25, 1.05
"""What a context costs that was not asked, and one that the model cannot read."""
KEYS_AND_VALUES, LATENT, STATE, SOURCE = "keys and values", "latent vectors", "state", "of the source"
PAIR, ROTATED = ("K", "V"), "rotated key"


class CacheCell(NamedTuple):
    """Numbers that layers cache: ``each`` per token, in all ``layers``, for those of the ``tokens`` that are stored."""

    kind: str
    layers: int
    each: int
    kept: int = 1
    tokens: int = 1
    rotated: int = 0
    """Numbers of the rotated key among them, in latent attention."""

    @property
    def numbers(self) -> int:
        """Total of all layers and tokens."""
        return self.layers * self.each * self.kept


Cells = dict[CacheCell, int]
S = State[CacheCell]


def cells_of(model: Model, workload: Workload, tokens: int) -> Cells:
    """Return the numbers that are stored of these tokens, or of states; nothing for a model that generates no text."""
    try:
        run = at_work(workload.replaced(batch_size=1), Serving(concurrency=1, context=tokens))
        model.check(run)
        found = mixers(model.tree(run))
    except TfcalcError:
        return {}
    cells: dict[tuple[object, ...], CacheCell] = {}
    for place, mixer in enumerate(found):
        for one in mixer.cached:
            kind = LATENT
            if one.name in PAIR:
                kind = KEYS_AND_VALUES if one.grows else SOURCE
            elif one.tokens is None:
                kind = STATE
            kept, every = tokens if one.tokens is None else value_of(one.tokens), value_of(one.every)
            kept = 1 if one.tokens is None else (kept if one.limit is None else min(kept, value_of(one.limit))) // every
            each = value_of(one.heads) * value_of(one.width)
            key = (place, kind, kept)
            before = cells.get(key, CacheCell(kind, value_of(mixer.copies), 0, kept, tokens))
            rotated = each if one.name == ROTATED else 0
            cells[key] = before._replace(each=before.each + each, rotated=before.rotated + rotated)
    together: Cells = {}
    for cell in cells.values():
        if tokens > 1 or cell.kind not in (STATE, SOURCE):
            together[cell] = together.get(cell, 0) + cell.numbers
    return together


def starts(model: Model, workload: Workload, called: str, *, given: bool) -> Iterator[Start[CacheCell]]:
    """A token's, or that of the tokens that were asked about; then of other contexts."""
    batch, longest = value_of(workload.batch_size), model.longest if isinstance(model.longest, int) else 0
    asked = value_of(workload.seq_len)
    lengths = (
        [asked, *_with_k_of_1000(asked)]
        if given
        else [1, longest or asked, value_of(serving_context(model, workload)), *CONTEXTS]
    )
    for length in dict.fromkeys(lengths):
        cells = cells_of(model, workload, length)
        if not cells:
            continue
        for name, each in FORMATS.items():
            told = [] if length == lengths[0] else [f"the cache of a context of {length:,} tokens"]
            told += [] if name == "bf16" else [f"in {SAID[name]}"]
            cost = RARE[name] + (0.0 if length == lengths[0] else OTHER_LENGTH)
            cost += TOO_LONG if longest and length > longest * K_OF_1000 and not given else 0.0
            of = "a token" if length == 1 else f"{length:,} tokens"
            command = f"tfcalc memory {called} --serve" + (f" --context {length}" if length > 1 else "")
            command += f" --concurrency {batch}" if batch > 1 else ""
            command += f" --kv {name}" if name != "bf16" else ""
            numbers = f"{batch:,} x {sum(cells.values()):,}" if batch > 1 else f"{sum(cells.values()):,}"
            what = f"KV cache of {of}: {numbers} numbers x {each} bytes"
            state: S = State(cells, each * batch)
            yield Start(f"cache_{length}_{name}", what, ", ".join(told), state, command, cost, BYTES_UNIT)


def _with_k_of_1000(length: int) -> list[int]:
    """128,000 and 1,000,000 where 128k and 1M are read as powers of two."""
    return [length // 1024**power * 1000**power for power in (2, 1) if length % 1024**power == 0][:1]


def steps(known: Facts, widths: tuple[int, int, int] | None) -> Iterator[CountingStep[CacheCell]]:
    """Steps that people take; ``widths`` are heads, width of keys, width of values, where attention is latent."""
    heads, groups, hidden = known.heads, known.kv_heads, known.hidden_size
    words = "windows ignored: every layer keeps all tokens"
    yield CountingStep("no_windows", words, 1.0, _each(lambda cell: cell._replace(kept=cell.tokens)), "windows")
    if heads and groups and groups < heads:
        words = f"keys and values of all {heads:,} heads; {groups:,} are stored (grouped-query attention)"

        def ungrouped(cell: CacheCell) -> CacheCell:
            return cell._replace(each=cell.each * heads // groups) if cell.kind == KEYS_AND_VALUES else cell

        yield CountingStep("all_heads", words, 1.0, _each(ungrouped), "width")
    if widths:
        many, keys, values = widths
        words = (
            f"keys and values of all {many:,} heads ({keys:,} + {values:,} wide); latent attention stores one vector"
        )
        yield CountingStep(
            "no_latent", words, 1.0, _each(lambda cell: cell._replace(each=many * (keys + values))), "width"
        )

        def unrotated(cell: CacheCell) -> CacheCell:
            return cell._replace(each=cell.each - cell.rotated) if cell.rotated else cell

        words = "the rotated key left out: the latent vector alone"
        yield CountingStep("no_rotated_key", words, 1.0, _each(unrotated), "width")
    if hidden and heads and known.head_dim and not widths and hidden % heads == 0 and hidden != heads * known.head_dim:
        width = hidden // heads
        words = f"a head size of {hidden:,} / {heads:,} = {width:,}; it is {known.head_dim:,}"
        narrow = Fraction(width, known.head_dim)

        def of_heads(cell: CacheCell) -> CacheCell:
            fits = cell.kind == KEYS_AND_VALUES and (cell.each * narrow).denominator == 1
            return cell._replace(each=int(cell.each * narrow)) if fits else cell

        yield CountingStep("head_size", words, 1.0, _each(of_heads), "head")
    if hidden:
        words = f"the hidden size {hidden:,} in the place of what is stored: {_stored(known, widths)}"
        yield CountingStep("hidden_size", words, 1.0, _each(lambda cell: cell._replace(each=2 * hidden)), "width")
    forgotten = "the factor 2, for keys and values, forgotten"
    yield CountingStep("no_values", forgotten, 1.0, lambda state: state.times(Fraction(1, 2)), "two")
    again = "the factor 2, for keys and values, counted again"
    yield CountingStep("two_again", again, 1.0, lambda state: state.times(2), "two")
    if groups and groups > 1 and not widths:
        one = Fraction(1, groups)
        yield CountingStep("per_head", "of one head", 1.5, lambda state: state.times(one), "ranks")
    layers = known.decoder_layers or known.layers  # an encoder caches nothing
    if layers and layers > 1:
        per = Fraction(1, layers)
        yield CountingStep("per_layer", "of one layer", 1.0, lambda state: state.times(per), "layers")
    for ranks in (2, 4, 8):
        words = f"of one of {ranks} ranks of tensor parallelism"
        share = Fraction(1, ranks)
        yield CountingStep(f"tp_{ranks}", words, 1.25, lambda state, share=share: state.times(share), "ranks")  # type: ignore[misc]  # bound now


def _stored(known: Facts, widths: tuple[int, int, int] | None) -> str:
    if widths:
        return "a latent vector"
    if known.kv_heads and known.head_dim:
        return f"{known.kv_heads:,} x {known.head_dim:,}, KV heads x head size"
    return "keys and values"


def _each(of: Callable[[CacheCell], CacheCell]) -> Change[CacheCell]:
    """Other sizes of what each token adds."""

    def change(state: S) -> S | None:
        made: Cells = {}
        for cell in state.cells:
            other = cell if cell.kind in (STATE, SOURCE) else of(cell)
            made[other] = made.get(other, 0) + other.numbers
        return state._replace(cells=made) if made != state.cells else None

    return change


def widths_of(tree: Component) -> tuple[int, int, int] | None:
    """Heads, and the widths of their keys and values, of attention that keeps a latent vector."""
    for node in tree.walk():
        products = node.component.own.products
        if node.component.kind == "attend" and len(products) == 2:
            *_, heads, keys = (value_of(size) for size in products[0].factors)
            return heads, keys, value_of(products[1].factors[-1])
    return None
