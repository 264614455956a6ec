"""The generated tables of formulas.md's course: derivations, summaries, shares, crossovers, approximations.

Each function yields the lines of one block, ``<!-- course NAME ARGUMENTS -->`` to ``<!-- end -->``.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from fractions import Fraction

import sympy

from tfcalc import Transformer, Workload, flops, formula, load, params
from tfcalc.cli.main import main as program
from tfcalc.core.notation import write
from tfcalc.model import Model
from tfcalc.report import polynomial
from tfcalc.symbolic import sympy_symbol, to_sympy

COLUMNS_AFTER = "|"
LENGTH, WIDTH = sympy_symbol("l"), sympy_symbol("h")


def table(*words: str) -> Iterator[str]:
    """A command and the table that it prints, or some of its columns: ``table explain mha | what, value``."""
    command, columns = words, tuple[str, ...]()
    if COLUMNS_AFTER in words:
        at = words.index(COLUMNS_AFTER)
        command, columns = words[:at], tuple(name.strip() for name in " ".join(words[at + 1 :]).split(","))
    rows = [_cells(line) for line in _output(*command, "--format", "markdown") if line[:1] == "|"]
    if not rows:
        raise ValueError(f"tfcalc {' '.join(command)} prints no table")
    shown = [rows[0].index(name) for name in columns or rows[0]]
    yield f"`tfcalc {' '.join(command)}`"
    yield ""
    for row in rows:
        yield f"| {' | '.join(row[column] for column in shown)} |"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _output(*arguments: str) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        program(list(arguments))
    return out.getvalue().splitlines()


def summary(*targets: str) -> Iterator[str]:
    """Parameters, FLOPs and time of each part, side by side."""
    yield "| part | parameters | FLOPs, forward pass | time, one sequence |"
    yield "| --- | --- | --- | --- |"
    for target in targets:
        yield f"| `{target}` | {' | '.join(str(formula(target, of)) for of in ('params', 'flops', 'time'))} |"


def share_of_params() -> Iterator[str]:
    """Which part has how many of the parameters, as h and V grow."""
    yield "| h | V | parameters | feed-forward | attention | norms | embedding and output |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for h, vocabulary in ((512, None), (512, 32_000), (512, 128_000), (1024, 128_000), (4096, 128_000)):
        kinds = params(Transformer(d_model=h, vocab_size=vocabulary)).by_kind()
        whole = sum(kinds.values())
        parts = [kinds["ffn"], kinds["attention"], kinds["norm"], kinds.get("embedding", 0) + kinds.get("output", 0)]
        shares = " | ".join(f"{part / whole:.1%}" for part in parts)
        yield f"| {h:,} | {vocabulary or 0:,} | {whole:,} | {shares} |"


def share_of_flops() -> Iterator[str]:
    """Which products have how much of a forward pass, as l, h and V grow."""
    yield "| h | l | V | projections | Q Kᵀ and P V | feed-forward | output head |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    lengths = [(512, l, None) for l in (128, 512, 2048, 8192, 32_768)]
    widths = [(h, 2048, None) for h in (1024, 4096, 16_384)]
    for h, l, vocabulary in [*lengths, *widths, (512, 512, 32_000), (4096, 512, 32_000)]:
        parts = parts_of_flops(Transformer(d_model=h, vocab_size=vocabulary), l)
        shares = " | ".join(f"{part / sum(parts):.1%}" for part in parts)
        yield f"| {h:,} | {l:,} | {vocabulary or 0:,} | {shares} |"


def parts_of_flops(model: Model, length: int) -> list[float]:
    """FLOPs of one sequence: of attention's projections, of Q Kᵀ and P V, of feed-forward networks, of the head."""
    kinds = flops(model, Workload(seq_len=length)).by_kind()
    pairs = _growth(model)[1] * length**2
    return [float(part) for part in (kinds["attention"] - pairs, pairs, kinds["ffn"], kinds.get("output", 0))]


def _growth(model: Model) -> tuple[Fraction, Fraction]:
    """Attention's FLOPs of one sequence as first·l + second·l²."""
    one, two = (Fraction(flops(model, Workload(seq_len=l)).by_kind()["attention"]) for l in (1, 2))
    second = (two - 2 * one) / 2
    return one - second, second


def crossover() -> Iterator[str]:
    """Lengths where attention costs what feed-forward networks do, and where Q Kᵀ and P V cost what all else does."""
    yield "| model | attention, all of it | feed-forward | equal at | Q Kᵀ and P V equal all the rest at |"
    yield "| --- | --- | --- | --- | --- |"
    half = Workload(attention="causal")
    rows: list[tuple[str, list[str], list[str], Workload]] = [
        ("encoder layer", ["mha"], ["ffn"], Workload()),
        ("decoder layer with cross-attention", ["mha", "cross-mha"], ["ffn"], Workload()),
        ("one layer of each: `torch.nn.Transformer`", ["mha", "mha", "cross-mha"], ["ffn", "ffn"], Workload()),
        ("decoder-only layer, masked pairs not counted", ["mha"], ["ffn"], half),
    ]
    for name, attention, ffn, run in rows:
        model = Transformer(kind="decoder") if run is half else Transformer()
        one, other = (_sum(targets, model, run) for targets in (attention, ffn))
        pairs = one.coeff(WIDTH, 1) * WIDTH  # Q Kᵀ and P V: the projections have h²
        shown = [str(_written(model, targets, run)) for targets in (attention, ffn)]
        where = [_length(one - other), _length(pairs - (one + other - pairs))]
        yield f"| {name} | {' | '.join(shown + where)} |"
    for name in ("llama-3-8b", "deepseek-v3"):
        yield _crossover_of(name)


def _sum(targets: list[str], model: Model, run: Workload) -> sympy.Expr:
    return sympy.expand(sum(to_sympy(formula(target, "flops", model, run).closed) for target in targets))


def _written(model: Model, targets: list[str], run: Workload) -> str:
    return write(polynomial(sum(formula(target, "flops", model, run).closed for target in targets)))


def _length(difference: sympy.Expr) -> str:
    """Where the difference vanishes, as a text: ``l = 2h/3``."""
    found = [root for root in sympy.solve(difference / LENGTH, LENGTH) if root != 0]
    return f"l = {sympy.sstr(found[0]).replace('*', '')}" if found else "no length: attention has more"


def _crossover_of(name: str) -> str:
    model = load(name)
    first, second = _growth(model)
    forms = [f"{int(first):,}·l + {int(second):,}·l²", f"{_networks(model):,}·l"]
    where = (f"l = {at:,.1f}".removesuffix(".0") for at in crossings(model))
    return f"| `{name}`, all layers | {' | '.join(forms)} | {' | '.join(where)} |"


def crossings(model: Model) -> tuple[float, float]:
    """Lengths where attention costs what feed-forward networks do, and where Q Kᵀ and P V cost what both others do."""
    (first, second), ffn = _growth(model), _networks(model)
    return float((ffn - first) / second), float((ffn + first) / second)


def _networks(model: Model) -> int:
    """FLOPs of the feed-forward networks for one token."""
    kinds = flops(model, Workload(seq_len=1)).by_kind()
    return sum(kinds.get(kind, 0) for kind in ("ffn", "experts", "router"))


def approximations() -> Iterator[str]:
    """Exact and approximate parameters of a layer, and the error, as h doubles."""
    yield "| h | encoder layer | 12h² | error | decoder layer | 16h² | error |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for h in (256, 512, 1024, 2048, 4096, 8192):
        cells = [f"{h:,}"]
        for target in ("encoder-layer", "decoder-layer"):
            exact, rough = (int(formula(target, approx=approx).at(h=h)) for approx in (False, True))
            cells += [f"{exact:,}", f"{rough:,}", f"{(exact - rough) / exact:.3%}"]
        yield f"| {' | '.join(cells)} |"


TABLES: dict[str, Callable[..., Iterator[str]]] = {
    "table": table,
    "summary": summary,
    "share-of-params": share_of_params,
    "share-of-flops": share_of_flops,
    "crossover": crossover,
    "approximations": approximations,
}
