"""Every family's FLOPs against PyTorch's counter, live: transformers runs random small configs forward and backward.

Decoding over a cache and recomputation are compared for the families of the lists below; ``python -m
tests.verify.compare_flops TYPE --decode --recompute`` says more.
"""

from __future__ import annotations

import pytest

from tests.verify.compare import configs
from tests.verify.compare_flops import differences
from tests.verify.random_configs import load
from tfcalc.configs.config import model_types
from tfcalc.errors import Unavailable

pytestmark = pytest.mark.torch

FAMILIES = [name for name in model_types() if name in load()]

UNEQUAL = {
    "blt": "given the patches' lengths, transformers leaves the network out that finds them",
    "longcat_flash": "the data decides how many of the experts that do nothing are chosen",
    "nllb-moe": "transformers takes a mask of the chosen experts for their numbers, so that experts 0 and 1 run on all",
    "mra": "without its CUDA kernel transformers returns zeros for attention",
}
"""What cannot be compared, or is known to differ, and why."""

MOST_DRAWS = 6
"""Configs that are tried until enough of them have run."""

DECODED = (
    "bart",
    "bloom",
    "codegen",
    "cohere2",
    "deepseek_v3",
    "falcon",
    "gemma2",
    "gemma3_text",
    "glm4",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "lfm2",
    "llama",
    "mamba",
    "mamba2",
    "mistral",
    "mixtral",
    "olmo2",
    "opt",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "t5",
    "whisper",
)
RECOMPUTED = (
    "bart",
    "bert",
    "deepseek_v2",
    "gemma2",
    "gpt2",
    "gpt_neox",
    "llama",
    "mamba2",
    "mistral",
    "mixtral",
    "opt",
    "phi",
    "qwen2_moe",
    "qwen3",
    "t5",
)


@pytest.mark.parametrize("model_type", [name for name in FAMILIES if name not in UNEQUAL])
def test_a_training_step_is_the_counters(model_type: str) -> None:
    compared(model_type, draws=1)


@pytest.mark.parametrize("model_type", DECODED)
def test_a_decoded_token_is_the_counters(model_type: str) -> None:
    compared(model_type, "decode", draws=2)


@pytest.mark.parametrize("model_type", RECOMPUTED)
def test_recomputation_of_both_kinds_is_the_counters(model_type: str) -> None:
    compared(model_type, "recompute", draws=1)


def compared(model_type: str, *more: str, draws: int) -> None:
    """Equal on so many random configs; one that transformers cannot run is passed over, but not all."""
    pytest.importorskip("transformers")
    ran = 0
    for config in configs(model_type, MOST_DRAWS)[1:]:
        if ran == draws:
            break
        try:
            assert list(differences(config, more)) == [], config
        except Unavailable:
            continue
        ran += 1
    assert ran, "transformers ran none of them"
