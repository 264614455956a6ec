"""The classic Transformer's tree that stands by itself is what its module is counted as, item for item."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tfcalc import Transformer, Workload
from tfcalc.core.component import Component
from tfcalc.model import with_symbols
from tfcalc.nn.module import counted
from tfcalc.zoo import textbook

TABLES = (
    {"positions": "none"},
    {"positions": "rotary"},
    {"positions": "sinusoidal"},
    {"positions": "learned", "max_len": 64},
)


def drawn(seed: int) -> tuple[Transformer, Workload]:
    draw = Random(seed)
    fields: dict[str, Any] = {
        "kind": draw.choice(("encoder-decoder", "encoder", "decoder")),
        "pre_norm": draw.random() < 0.5,
        "norm": draw.choice(("layernorm", "rmsnorm")),
        "final_norm": draw.choice(("always", "pre-norm", "never")),
        "d_model": 32,
        "n_heads": 4,
        "n_layers": draw.choice((2, 3)),
        "attention_bias": draw.random() < 0.5,
        "ffn_bias": draw.random() < 0.5,
        "activation": draw.choice(("relu", "gelu")),
        "n_kv_heads": draw.choice((None, 2)),
        "value_dim": draw.choice((None, 12)),
    }
    if draw.random() < 0.7:
        fields |= {"vocab_size": 100, "output_head": draw.choice(("untied", "tied", "none"))}
        fields |= draw.choice(TABLES)
    else:
        fields["positions"] = draw.choice(("none", "rotary"))
    if fields["kind"] == "encoder-decoder" and "vocab_size" in fields and draw.random() < 0.5:
        fields["target_vocab_size"] = 70
    phase = draw.choice(("forward", "train") if fields["kind"] == "encoder" else ("forward", "train", "decode"))
    run: dict[str, Any] = {
        "phase": phase,
        "batch_size": draw.choice((1, 3)),
        "seq_len": 20,
        "attention": draw.choice(("full", "causal", "causal-half")),
        "kernel": draw.choice(("math", "flash")),
        "cached": 20 if phase == "decode" else None,
        "input_gradient": phase == "train" and draw.random() < 0.3,
        "source_len": 13 if fields["kind"] == "encoder-decoder" and draw.random() < 0.5 else None,
    }
    return Transformer(**fields), Workload(**run)


def items(part: Component) -> tuple[object, ...]:
    """All that it has; additions of the same kind are one, whether they stand in one place or in two."""
    own = part.own
    work = Counter[tuple[object, ...]]()
    for each in own.elementwise:
        work[each.name, each.forward, each.backward] += each.elements  # type: ignore[assignment]
    stored = own.weights, own.buffers, own.cached, own.lookups, own.limit
    counts = part.copies, part.active, part.passes, part.places, part.under
    runs = sorted(map(repr, own.products)), {key: count for key, count in work.items() if count != 0}
    return part.name, part.kind, stored, counts, runs, [items(each) for each in part.parts]


def checked(seed: int) -> tuple[Transformer, Workload]:
    model, run = drawn(seed)
    model.check(run)
    assert textbook.has(model)
    return model, run


@pytest.mark.parametrize("seed", range(120))
def test_it_is_the_modules(seed: int) -> None:
    model, run = checked(seed)
    assert items(model.tree(run)) == items(counted(model.module(), run))


@pytest.mark.parametrize("seed", range(0, 120, 10))
def test_so_is_that_of_symbols(seed: int) -> None:
    known, step = checked(seed)
    model, run = with_symbols(known), with_symbols(step)
    assert repr(items(model.tree(run))) == repr(items(counted(model.module(), run)))


def test_what_does_not_stand_there_is_counted_as_it_runs() -> None:
    assert not textbook.has(Transformer(positions="alibi"))
    assert not textbook.has(Transformer(pattern="local:4"))
