"""Doge: Llama with a learned mask over keys, weighted residuals, and experts of a single neuron each."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from tfcalc.blocks import GATED, FeedForward
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import minimum
from tfcalc.families.llama import attention, decoder, gated, head_dim, kv_heads, qk_norms, uniform
from tfcalc.families.windows import by_window, windows
from tfcalc.leaves import linear, parameter
from tfcalc.workload import Workload


def mask(c: Config, run: Workload, window: int | None, *, bias: bool) -> tuple[Component, ...]:
    """How much each key counts, made of its value, anew in each run: which of them each head of keys keeps."""
    g, seen = kv_heads(c), run.target.seen
    kept = minimum(seen, window) if run.decoding and window is not None else seen
    keep = linear("dt_proj", g * head_dim(c), g, run.target.batch * kept, bias=bias)
    return parameter("A", g, minor=True), keep


def experts(c: Config, run: Workload) -> Iterator[Component]:
    """A router with a logit for each row and column of a square of experts; ``num_experts_per_tok`` neurons run."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    stored = c.number("num_experts")  # no symbol: a polynomial has no roots
    neuron = FeedForward(h, 1, c.word("hidden_act"), names=("down_embed", "up_embed"))("(experts)", run.target, run)
    active = c.size("num_experts_per_tok")
    yield linear("router_gate", h, 2 * isqrt(stored), tokens, bias=False)._replace(kind="router")
    yield neuron._replace(kind="experts", copies=stored, active=active)


@family("doge", architecture="DogeForCausalLM", heads=CAUSAL_LM)
def doge(c: Config, run: Workload) -> Component:
    """Shi et al. 2024 (arXiv 2412.11834); experts as in He 2024 (arXiv 2407.04153), beside a dense network."""
    bias, h = c.flag("attention_bias"), c.size("hidden_size")
    mlp = gated(c, run, bias=c.flag("mlp_bias"), names=GATED)
    if c.flag("is_moe"):
        mlp = mlp._replace(kind="moe", parts=(*mlp.parts, *experts(c, run)))
    weights = [parameter(f"{name}_residual", h, minor=True) for name in ("input", "post_attention")]

    def one(window: int | None) -> Component:
        within = *mask(c, run, window, bias=bias), *qk_norms("rmsnorm", c, run)
        mixer = attention(c, run, bias=bias, within=within, window=window)
        return uniform(c, run, mixer, mlp, *weights, ends_with_sum=False)  # the stream is weighted after all products

    return decoder(c, run, *by_window(c, run, windows(c, lambda _: True), one))
