"""families.jsonl: the index of the families, and the defaults that transformers declares."""

from __future__ import annotations

import json

import pytest

from tfcalc import Workload, flops
from tfcalc.configs.config import FILE, class_of, declared, model_types, module_of, other_names
from tfcalc.configs.family import FAMILIES
from tfcalc.configs.published import HFModel
from tools.defaults import registered, written


def test_the_index_lists_what_the_modules_of_families_register() -> None:
    assert {name: module_of(name) for name in model_types()} == registered(), "run make defaults"


def test_a_model_type_that_no_family_builds_has_no_module_and_no_defaults() -> None:
    assert module_of("llam") is None
    assert declared("llam") == {}


@pytest.mark.torch
def test_the_file_is_what_transformers_declares() -> None:
    """If this fails: python -m tools.defaults --write, and look at what changed."""
    pytest.importorskip("transformers")
    assert FILE.read_text(encoding="utf-8") == written()


def test_a_family_states_no_default_that_transformers_declares_as_well() -> None:
    again = [
        (name, field)
        for name in registered()
        for field, value in FAMILIES[name].own.items()
        if declared(FAMILIES[name].like or name).get(field, "undeclared") == json.loads(json.dumps(value))
    ]
    assert again == []


def test_a_gemma_4_unified_without_a_window_in_its_config_looks_back_1024_tokens() -> None:
    """Gemma4UnifiedTextConfig.sliding_window; Gemma4TextConfig has 512."""
    left_out: dict[str, object] = {"model_type": "gemma4_unified_text"}
    run = Workload(seq_len=2048, attention="causal")
    assert flops(HFModel(left_out), run).answer == flops(HFModel({**left_out, "sliding_window": 1024}), run).answer


def test_a_family_states_no_other_name_and_no_class_that_transformers_declares_as_well() -> None:
    again = [
        name
        for name in registered()
        for kin in [FAMILIES[name].like or name]
        if class_of(kin) == FAMILIES[name].own_architecture != ""
        or {frozenset(pair) for pair in FAMILIES[name].own_aliases.items()}
        & {frozenset(pair) for pair in other_names(kin).items()}
    ]
    assert again == []


def test_a_field_goes_by_both_names_that_transformers_gives_it() -> None:
    """GPT2Config.attribute_map: hidden_size is n_embd."""
    sizes: dict[str, object] = {"model_type": "gpt2", "n_head": 4}
    by_either = [HFModel({**sizes, name: 64}).tree(Workload()) for name in ("n_embd", "hidden_size")]
    assert by_either[0] == by_either[1]
