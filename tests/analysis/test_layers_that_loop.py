"""Layers that loop over time in PyTorch's code: answered where they were held against it, else refused in a line.

Fused kernels take less than these loops, so what is counted is an upper bound: no verdict takes it for a fact.
"""

from __future__ import annotations

import pytest

from tfcalc import InvalidModel, Training, Workload, fit, fits, from_config, memory, train
from tfcalc.configs.published import HFModel
from tfcalc.defaults import resolve_checkpointing
from tfcalc.search.gpus import FITS, NO, RISKY, Capacity, CardRule, of_card, stated
from tfcalc.zoo.recurrent_gemma import RGLRU

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 50}
TYPES = ("mamba", "falcon_mamba", "rwkv")
GRIFFIN = SMALL | {"model_type": "recurrent_gemma", "num_attention_heads": 2, "intermediate_size": 32, "lru_width": 16}
MAMBA = SMALL | {"model_type": "mamba"}
LLAMA = SMALL | {"model_type": "llama", "num_attention_heads": 2, "intermediate_size": 16}
LONG = Workload(seq_len=4096, recompute="none")
"""Activations of the small Mamba take over 300 MB then, its states less than 1 MB."""


def model(name: str) -> HFModel:
    return from_config({"model_type": name, **SMALL})


@pytest.mark.parametrize("recompute", ["none", "full", "every:2"])
@pytest.mark.parametrize("name", TYPES)
def test_the_peak_has_its_caveat(name: str, recompute: str) -> None:
    notes = memory(model(name), Workload(seq_len=8, recompute=recompute), training=Training()).notes
    assert any("loop over time are within 2 % of PyTorch's" in note for note in notes)
    assert any("PyTorch's own code: fused kernels (fla, mamba-ssm), not modelled, take less" in note for note in notes)


@pytest.mark.parametrize(
    ("config", "recompute"), [(GRIFFIN, "full"), (SMALL | {"model_type": "mamba"}, "selective-op")]
)
def test_checkpointing_that_was_not_compared_is_refused(config: dict[str, object], recompute: str) -> None:
    """RecurrentGemma's module has its last state as an attribute, and with it the graph of a layer that runs again."""
    with pytest.raises(
        InvalidModel, match=rf"checkpointing {recompute} .* loops over time, is not supported"
    ) as refused:
        memory(from_config(config), Workload(seq_len=8, recompute=recompute), training=Training())
    assert refused.value.hint == "use --checkpointing none, which takes more"


def test_the_default_is_checkpointing_where_it_was_compared() -> None:
    found = {name: resolve_checkpointing(model(name), Workload()).recompute for name in TYPES}
    assert found == dict.fromkeys(TYPES, "full")
    assert resolve_checkpointing(from_config(GRIFFIN), Workload()).recompute == "none"
    assert RGLRU.loops is not None
    assert not RGLRU.loops.recomputed


@pytest.mark.parametrize("name", TYPES)
def test_fused_kernels_are_refused(name: str) -> None:
    with pytest.raises(InvalidModel, match="the fused kernel of"):
        memory(model(name), Workload(seq_len=8), training=Training(backend="fused"))


def test_attention_is_not_concerned() -> None:
    notes = memory(from_config(LLAMA), Workload(seq_len=8, recompute="full"), training=Training()).notes
    assert not any("loop" in note for note in notes)


@pytest.mark.parametrize("budget", [stated("1GB"), of_card("rtx-3060")], ids=["amount", "card"])
def test_an_upper_bound_is_too_large_only_where_what_is_certain_is(budget: Capacity) -> None:
    """A bound that is beyond the memory says nothing; one that is within it says that all is well."""
    rule, there = CardRule(budget), budget.bytes
    assert rule.status(2 * there) == NO
    assert rule.status(2 * there, certain=lambda: there // 2) == RISKY
    assert rule.status(2 * there, certain=lambda: 2 * there) == NO
    assert rule.status(there // 2, certain=lambda: there // 4) == FITS


def test_a_verdict_says_whose_code_is_too_large() -> None:
    found = fits(model("mamba"), "100MB", LONG, training=Training())
    assert (found.status, found.fits) == (RISKY, False)
    assert found.verdict.startswith("MAY NOT FIT: PyTorch's own code needs ")
    assert found.verdict.endswith("short, fused kernels (fla, mamba-ssm), not modelled, take less)")


def test_where_not_even_the_states_fit_that_is_a_fact() -> None:
    found = fits(model("mamba"), "10kB", LONG, training=Training())
    assert found.status == NO
    assert found.verdict.startswith("DOES NOT FIT: needs ")


def test_that_nothing_helps_is_said_of_pytorchs_code_alone() -> None:
    """Attention by fused kernels is counted as it runs: there it is a fact."""
    in_words = {
        name: fits(from_config(config), budget, LONG, training=Training()).sheet().notes
        for name, config, budget in (("mamba", MAMBA, "200kB"), ("llama", LLAMA, "20kB"))
    }
    told = {name: next(note for note in notes if note.startswith("None of ")) for name, notes in in_words.items()}
    assert "changes and combinations makes PyTorch's own code fit." in told["mamba"]
    assert "changes and combinations makes it fit." in told["llama"]


def test_tables_over_gpus_tell_cards_that_are_too_small_for_pytorchs_code_alone() -> None:
    run = Workload(seq_len=2**24, recompute="full")
    table = fit(model("mamba"), run, training=Training(), cards=["rtx-4060"])
    assert (table.fitting, table.too_small, table.may_fit) == ([], [], ["RTX-4060"])
    assert "Fits on none of these GPUs in PyTorch's own code" in str(table)
    trained = train(model("mamba"), 10**9, run, gpu="rtx-4060")
    assert str(trained).startswith("MAY NOT FIT: PyTorch's own code needs ")
    assert "no change that was tried makes PyTorch's own code fit" in str(trained)
