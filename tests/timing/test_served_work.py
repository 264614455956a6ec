"""Work is conserved: a server that is never idle reads each prompt once, and makes each token once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfcalc
from tfcalc.hardware import named
from tfcalc.plans import Serving
from tfcalc.timing.served import Draft, Load, ServedModel
from tfcalc.timing.serving import EngineRates, Sharing, engine_of

PROMPTS = (128, 700, 2_000, 8_192, 32_000, 100_000)
ANSWERS = (1, 2, 16, 128, 512, 2_000)
REQUESTS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48, 64, 100, 128, 192, 256, 512, 1024)
SYSTEMS = [
    ("gpt2", "h100", Sharing(), "trtllm"),
    ("llama-3-8b", "h100", Sharing(), "vllm"),
    ("llama-3-8b", "l40s", Sharing(), "trtllm"),
    ("llama-3-8b", "a100", Sharing(), "nim"),
    ("llama-2-13b", "rtx-4090", Sharing(), "llama.cpp"),
    ("llama-3-70b", "h100", Sharing(8), "vllm"),
    ("llama-3-70b", "b200", Sharing(2, 2), "trtllm"),
    ("qwen3-32b", "h100", Sharing(2), "sglang"),
    ("gpt-oss-120b", "b200", Sharing(), "vllm"),
    ("mixtral-8x7b", "h100", Sharing(4), "trtllm@1.0"),
    ("deepseek-v3", "h200", Sharing(8), "sglang"),
    ("deepseek-v3", "h200", Sharing(dp=8, ep=8), "sglang"),
    ("qwen3.5-27b", "h200", Sharing(), "vllm"),
]


def rates_of(engine: str, gpu: str) -> EngineRates:
    """Rates of an engine on a GPU."""
    found = engine_of(engine, named(gpu)[0])
    assert found is not None
    return found


class Loaded:
    """A served model at all prompts, answers and numbers of requests, which are the last axis."""

    def __init__(self, name: str, gpu: str, sharing: Sharing, engine: str, draft: Draft) -> None:
        grid = np.meshgrid(PROMPTS, ANSWERS, REQUESTS, indexing="ij")
        self.prompt, self.answer, self.requests = (each.ravel() for each in grid)
        self.shape = grid[0].shape
        load, card = Load(self.prompt, self.answer, self.requests, draft=draft), named(gpu)[0]
        plan = Serving(weights="fp8", kv="fp8") if gpu == "rtx-4090" else Serving()
        of, by = ServedModel(tfcalc.load(name), plan, sharing, card, load, engine), rates_of(engine, gpu)
        parts = of.parts(self.requests, by)
        self.run = self.over(of.running(self.requests) == self.requests)
        self.first, self.token = self.over(of.first_token(self.requests, by)), self.over(parts.seconds)
        self.step, self.reading = self.over(parts.seconds - parts.prompts), self.over(of.reading(1, by))
        full = of.token_of_full(self.requests, by)
        self.rate = self.over(of.rate(self.requests, self.first.ravel(), self.token.ravel(), full))

    def over(self, values: Any) -> Any:
        """Values at each prompt, answer and number of requests."""
        return np.broadcast_to(values, self.prompt.shape).reshape(self.shape)


@pytest.mark.parametrize("draft", [Draft(), Draft(3, 0.7)], ids=["plain", "guessed"])
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda one: f"{one[0]}-{one[1]}-{one[3]}")
def test_work_is_conserved(system: tuple[str, str, Sharing, str], draft: Draft) -> None:
    """Serving one request after another is always possible, so that no number of requests takes longer than that.

    In one round of N requests N prompts are read, and a step of N requests is made for each token of an answer. So
    the round takes no longer than N prompts alone and these steps, the rate in all is no lower than of one request at a
    time, and does not fall where one more has room; and no first token comes before its own prompt is read.
    """
    at = Loaded(*system, draft)
    requests, answer = at.over(at.requests), at.over(at.answer)
    assert at.run[..., 0].sum() >= 20
    of_round = at.first + (answer - 1) * at.token
    one_by_one = requests * at.first[..., :1] + answer * at.step
    assert np.all((of_round <= one_by_one * (1 + 1e-9))[at.run])
    both = at.run[..., 1:] & at.run[..., :-1]
    assert np.all((at.rate[..., 1:] >= at.rate[..., :-1] * (1 - 1e-9))[both])
    assert np.all((at.rate >= at.rate[..., :1] * (1 - 1e-9))[at.run])
    assert np.all((at.first >= at.reading)[at.run])


@pytest.mark.parametrize("requests", [2, 5, 8])
def test_a_round_of_long_prompts(requests: int) -> None:
    """Llama 3 70B on 8 H100, prompts of 130,816 tokens: one after another, and 256 steps of all requests."""
    alone, many = (tfcalc.serve("llama-3-70b", "8xh100", 130_816, 256, each).case for each in (1, requests))
    prompt, parts = alone.at.first.value, many.at.parts
    step = parts.kernels + parts.all_reduces + parts.launches + parts.host
    of_round = requests * 256 / many.at.rate.value
    assert of_round == pytest.approx(requests * prompt + 256 * step, rel=0.02)
    assert many.at.rate.value > alone.at.rate.value
