"""Sparse patterns against the pairs themselves, counted one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.formula_reader import evaluate
from tfcalc import Transformer, Workload, flops, formula, params
from tfcalc.core.notation import ASCII, write
from tfcalc.core.patterns import KINDS, Pattern
from tfcalc.core.polynomial import Floor, Minimum, Polynomial, symbols
from tfcalc.symbolic import sympy_symbol, to_sympy
from tfcalc.zoo.transformer import PATTERNS

SEES: dict[str, Callable[[int, int, int], bool]] = {
    "local": lambda i, j, k: abs(i - j) <= k,
    "atrous": lambda i, j, k: (i - j) % k == 0,
    "sparse": lambda i, j, k: abs(i - j) <= k or (i - j) % k == 0,
    "sliding": lambda i, j, k: abs(i - j) < k,
    "chunked": lambda i, j, k: i // k == j // k,
}
"""Whether the query at i sees the key at j, as the definitions say it."""

ABOUT = {
    "local": lambda n, k: (2 * k + 1) * n,
    "atrous": lambda n, k: n * n / k,
    "sparse": lambda n, k: 2 * k * n + n * n / k,
    "sliding": lambda n, k: (2 * k - 1) * n,
    "chunked": lambda n, k: k * n,
}

lengths, reaches, kinds = st.integers(1, 40), st.integers(1, 45), st.sampled_from(sorted(SEES))


def counted(kind: str, n: int, k: int) -> int:
    return sum(SEES[kind](i, j, k) for i in range(n) for j in range(n))


def counted_back(kind: str, n: int, k: int) -> int:
    return sum(SEES[kind](i, j, k) for i in range(n) for j in range(i + 1))


def test_the_words_are_those_of_the_patterns() -> None:
    assert sorted(PATTERNS) == sorted(["dense", *(f"{kind}:N" for kind in KINDS)])
    assert KINDS.keys() == SEES.keys()


@given(kinds, lengths, reaches)
def test_pairs_and_the_last_query(kind: str, n: int, k: int) -> None:
    pattern = Pattern(kind, k)
    assert pattern.pairs(n) == counted(kind, n, k)
    assert pattern.last(n) == sum(SEES[kind](n - 1, j, k) for j in range(n))


@examples(40)  # sympy is slow
@given(kinds, lengths, reaches)
def test_symbols_and_arrays_give_the_same(kind: str, n: int, k: int) -> None:
    l, c = symbols("l k")
    meant = Pattern(kind, c)
    arrays = Pattern(kind, np.array([k, k], float))
    sympys = Pattern(kind, sympy_symbol("k"))
    for ask, expected in (("pairs", counted(kind, n, k)), ("last", Pattern(kind, k).last(n))):
        closed: Any = getattr(meant, ask)(l)
        assert closed.at({"l": n, "k": k}) == expected
        for some in ({"l": n}, {"k": k}):
            part = closed.at(some)
            assert (part.at({"l": n, "k": k}) if isinstance(part, Polynomial) else part) == expected
        assert evaluate(write(closed), {"l": n, "k": k}) == expected
        assert evaluate(write(closed, script=ASCII), {"l": n, "k": k}) == expected
        at = {sympy_symbol("l"): n, sympy_symbol("k"): k}
        assert to_sympy(closed).subs(at) == sympy.sympify(getattr(sympys, ask)(sympy_symbol("l"))).subs(at) == expected
        assert np.all(getattr(arrays, ask)(np.array([n, n], float)) == expected)


@pytest.mark.parametrize("kind", SEES)
def test_about_as_many_as_the_literature_says(kind: str) -> None:
    assert Pattern(kind, 64).pairs(65_536) == pytest.approx(ABOUT[kind](65_536, 64), rel=0.01)


@given(kinds, st.integers(1, 24), st.integers(1, 30), st.sampled_from(["full", "causal", "causal-half"]))
def test_flops_count_the_pairs(kind: str, n: int, k: int, attention: str) -> None:
    """Of attention's products: 4·b·h for each pair, the projections apart."""
    h, b = 8, 3
    projections = 8 * b * n * h * h
    for stack in ("encoder", "decoder"):
        model = Transformer(kind=stack, d_model=h, n_heads=2, n_layers=1, d_ff=1, pattern=f"{kind}:{k}")
        run = Workload(batch_size=b, seq_len=n, attention=attention)
        found = next(entry.value for entry in flops(model, run).walk() if entry.path.endswith("self_attention"))
        both, back = counted(kind, n, k), counted_back(kind, n, k)
        twice = 2 * both if stack == "encoder" or attention == "full" else {"causal": 2 * back}.get(attention, both)
        assert found == projections + 2 * b * h * twice


@given(kinds, st.integers(1, 30), st.integers(1, 30))
def test_a_decoded_token_sees_what_the_last_one_sees(kind: str, n: int, k: int) -> None:
    model = Transformer(kind="decoder", d_model=8, n_heads=2, n_layers=1, d_ff=1, pattern=f"{kind}:{k}")
    found = flops(model, Workload(phase="decode", cached=n))
    one = next(entry.value for entry in found.walk() if entry.path.endswith("self_attention"))
    assert one == 8 * 8 * 8 + 4 * 8 * sum(SEES[kind](n - 1, j, k) for j in range(n))


def test_parameters_and_the_attention_to_a_source_know_no_pattern() -> None:
    plain, local = Transformer(), Transformer(pattern="local:4")
    assert params(plain).answer == params(local).answer
    across = [
        entry.value
        for model in (plain, local)
        for entry in flops(model, Workload(seq_len=64), depth=9).walk()
        if entry.path.endswith("cross_attention")
    ]
    assert across[0] == across[1]


@pytest.mark.parametrize("kind", SEES)
def test_a_reach_as_long_as_the_sequence_leaves_all_pairs_or_own_keys(kind: str) -> None:
    for reach in (64, 65, 1000):
        assert Pattern(kind, reach).pairs(64) == (64 if kind == "atrous" else 64 * 64)


@pytest.mark.parametrize("pattern", ["atrous:64", "atrous:70", "sliding:1", "chunked:1"])
def test_where_a_query_sees_its_own_key_alone_a_causal_mask_takes_nothing_off(pattern: str) -> None:
    """h 8, f 32: projections 8lh² and 4lhf, and 4h for each of l pairs, 64 tokens."""
    model = Transformer(kind="decoder", d_model=8, n_heads=2, n_layers=1, pattern=pattern)
    found = {pairs: flops(model, Workload(seq_len=64, attention=pairs)).answer for pairs in ("full", "causal")}
    assert found["full"] == found["causal"] == 64 * (8 * 8**2 + 4 * 8 * 32 + 4 * 8)


@pytest.mark.parametrize(
    ("pattern", "growth"),
    [
        ("dense", "O(lh² + l²h)"),
        ("local:4", "O(lh² + lhk)"),
        ("atrous:4", "O(lh² + l²h/k)"),
        ("sparse:4", "O(lh² + l²h/k + lhk)"),
        ("sliding:4", "O(lh² + lhk)"),
        ("chunked:4", "O(lh² + lhk)"),
    ],
)
def test_growth_is_that_of_the_literature(pattern: str, growth: str) -> None:
    assert str(formula("attention", "time", Transformer(kind="encoder", pattern=pattern))) == growth


def test_a_floor_is_no_minimum_of_the_same_two() -> None:
    l, k = symbols("l k")
    floor: object = Floor(l, k)
    assert floor != Minimum(l, k)
    both = l // k + l.minimum(k)
    assert both.at({"l": 7, "k": 2}) == 3 + 2


@given(st.integers(0, 50), st.integers(1, 12), st.integers(0, 9))
def test_division_by_a_symbol(h: int, k: int, m: int) -> None:
    a, b = symbols("h k")
    for number in (a * b + a, (a + m) // b + b * b, m + 0 * a, (a * b * b + m * b + a) // b):
        at = {"h": h, "k": k}
        assert (number // b).at(at) == number.at(at) // k
        assert ((number + m) // (b + 1)).at(at) == (number.at(at) + m) // (k + 1)
    assert ((2 * b + b - 1) // b) == 2 + 0 * b  # ⌈2k/k⌉
    assert (17 // b).at({"k": k}) == 17 // k
    assert (a * b + m) // Polynomial({(): 3}) == (a * b + m) // 3


def test_floors_by_a_symbol_are_printed() -> None:
    l, k, h = symbols("l k h")
    assert write(l // k) == "⌊l/k⌋"
    assert write((l + 1) // (k * h)) == "⌊(l + 1)/(hk)⌋"
    assert write(l // (k + 1), script=ASCII) == "floor(l/(k + 1))"
