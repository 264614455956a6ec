"""What transformers' caches hold, live: small random models are run in bf16, their caches' tensors added up."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.verify.compare import configs
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import bytes_held
from tfcalc.serving.caches import cache
from tfcalc.workload import Workload

pytestmark = pytest.mark.torch

BATCH, SOURCE, ROOM = 2, 11, 40
LENGTHS = (5, 29)
"""Prompts shorter than the windows of these small configs, and longer."""

FAMILIES = (
    *(
        "llama",
        "gpt2",
        "falcon",
        "mixtral",
        "gemma2",
        "gemma3_text",
        "gpt_oss",
        "olmo3",
        "mistral",
        "cohere2",
        "llama4_text",
    ),
    *("gemma3n_text", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "minimax_m3_vl_text", "mllama"),
    *("jamba", "bamba", "falcon_h1", "qwen3_next", "kimi_linear", "granitemoehybrid", "nemotron_h", "zamba2", "lfm2"),
    *("minimax", "zaya", "inkling_text", "mamba", "mamba2", "rwkv", "xlstm", "recurrent_gemma"),
    *("t5", "bart", "whisper", "prophetnet"),
)
STATIC = (
    *("llama", "mixtral", "gemma2", "gemma3_text", "gpt_oss", "olmo3", "mistral", "cohere2", "llama4_text"),
    *("deepseek_v3", "qwen3_next", "lfm2", "bamba"),
)
WRITE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model")
NAMES = ("past_key_values", "cache_params", "state")
NO_NUMBERS = ("int64", "int32", "bool")


def built_with(config: dict[str, Any], length: int, device: str) -> tuple[Any, dict[str, Any]]:
    """A small model in bf16 and a prompt for it. Its masks are its own."""
    import torch

    from tfcalc.verify.flops import AS_COUNTED
    from tfcalc.verify.hugging_face import build
    from tfcalc.verify.inputs import inputs

    model = HFModel(config)
    run = Workload(phase="prefill", batch_size=BATCH, seq_len=length, source_len=SOURCE)
    with torch.device(device):
        built = build(model.config | {f"_{key}": how for key, how in AS_COUNTED.items()}, model.architecture, device)
        built = built.to(torch.bfloat16).eval()
        given: dict[str, Any] = inputs(built, run, "none")
    half = {name: one.bfloat16() if one.is_floating_point() else one for name, one in given.items()}
    return built, half


def tensors(held: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """Every tensor of numbers inside, once."""
    import torch

    if id(held) in seen:
        return
    seen[id(held)] = held
    if isinstance(held, torch.Tensor):
        if str(held.dtype).removeprefix("torch.") not in NO_NUMBERS:
            yield held
    elif isinstance(held, list | tuple):
        for one in held:
            yield from tensors(one, seen)
    elif isinstance(held, dict):
        yield from tensors(list(held.values()), seen)
    elif hasattr(held, "__dict__") and "Cache" in type(held).__name__ + str(type(held).__mro__):
        yield from tensors([one for name, one in vars(held).items() if name != "config"], seen)


def theirs(built: Any, given: dict[str, Any]) -> int:
    """The bytes of its cache after the prompt; Griffin's blocks keep their states themselves."""
    import torch

    from tfcalc.verify.flops import _filled

    with warnings.catch_warnings(), built.device, torch.no_grad():
        warnings.simplefilter("ignore")
        found = {name: one for name, one in _filled(built, given).items() if name in NAMES}
    own = [(m.conv1d_state, m.rg_lru.recurrent_states) for m in built.modules() if hasattr(m, "conv1d_state")]
    return sum(one.numel() * one.element_size() for one in tensors([found, own], {}))


def theirs_static(built: Any, given: dict[str, Any]) -> int:
    """The same with room made before."""
    import torch
    from transformers import StaticCache

    room = StaticCache(config=built.config, max_cache_len=ROOM)
    with warnings.catch_warnings(), built.device, torch.no_grad():
        warnings.simplefilter("ignore")
        built(**given, past_key_values=room, use_cache=True)
    return sum(one.numel() * one.element_size() for one in tensors(room, {}) if one.ndim)


def ours(config: dict[str, Any], length: int, **how: Any) -> Any:
    run = Workload(phase="decode", batch_size=BATCH, cached=length, source_len=SOURCE)
    return cache(HFModel(config).tree(run), **how).total(bytes_held)


def generating(model_type: str) -> list[dict[str, Any]]:
    """Small random configs whose classes write text, or have no head."""
    drawn = configs(model_type, 12)[1:]
    return [config for config in drawn if HFModel(config).architecture.endswith(WRITE)]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_cache_that_grows_holds_as_many_bytes(model_type: str) -> None:
    compared(model_type, theirs)


@pytest.mark.parametrize("model_type", STATIC)
def test_a_cache_with_room_made_before_holds_as_many_bytes(model_type: str) -> None:
    compared(model_type, theirs_static, how="static", longest=ROOM)


def compared(model_type: str, measure: Any, **how: Any) -> None:
    """Equal on the first config that runs; some cannot be run without data."""
    pytest.importorskip("transformers")
    failed: list[Exception] = []
    for device, config in product(("meta", "cpu"), generating(model_type)):
        try:
            found = [measure(*built_with(config, length, device)) for length in LENGTHS]
        except Exception as error:
            failed.append(error)
            continue
        assert [ours(config, length, **how) for length in LENGTHS] == found, config
        return
    pytest.fail(f"transformers ran none of them: {failed[-1:]}")
