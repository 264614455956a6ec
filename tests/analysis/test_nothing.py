"""0 is an answer, and says why: nothing of a part runs, or it has nothing of what is asked for."""

from __future__ import annotations

import pytest

from tfcalc import Transformer, Workload, catalog, formula
from tfcalc.answers.explain import explain_part as explain

DECODE = Workload(phase="decode", cached=8)
CASES = [
    ("gpt2", "ln_1", "flops", Workload(), "0: there is no matrix product in it; --count all counts its other work"),
    ("gpt2", "wte", "flops", Workload(), "0: there is no matrix product in it"),
    ("gpt2", "activation", "params", Workload(), "0: it has no weights"),
    ("gpt2", "activation", "memory", Workload(), "0: it has no weights"),
    ("gpt2", "lm_head", "params", Workload(), "0: its weights are those of embedding, and stored there"),
    ("t5-small", "encoder", "flops", DECODE, "0: nothing of it runs when a token is decoded"),
    ("longformer-large-4096", "key_global", "flops", Workload(seq_len=64), "0: nothing of it runs on 1 x 64 tokens"),
]


@pytest.mark.parametrize(("model", "target", "of", "run", "reason"), CASES)
def test_zero_is_an_answer_with_its_reason(model: str, target: str, of: str, run: Workload, reason: str) -> None:
    chosen = catalog.load(model)
    explained, closed = explain(target, chosen, of, run), formula(target, of, chosen, run)
    assert (explained.answer, str(closed)) == (0, "0")
    assert explained.notes[0] == closed.notes[0] == reason


def test_what_is_there_has_no_such_reason() -> None:
    for target in ("encoder", "ln", "ffn"):
        assert not any(note.startswith("0:") for note in explain(target, Transformer()).notes)
    everything = formula("ln", "params", Transformer(), approx=True)
    assert everything.notes[0] == "0: it has but biases or norms"
