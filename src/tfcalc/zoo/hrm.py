"""The Hierarchical Reasoning Model for text: two stacks of layers that are run through again and again."""

from __future__ import annotations

from contextlib import nullcontext

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Weight
from tfcalc.core.number import Num, minimum, total
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import attentions
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack, around, each_turn
from tfcalc.ops.elementwise import add, scaled
from tfcalc.ops.shapes import contiguous, expand
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import stack
from tfcalc.zoo.blocks.vision_tower import Unread


class Turns(Module):
    """Layers and a norm, which run ``times`` times."""

    kind = "decoder"

    layers: Stack
    norm: Norm
    times: Num

    @property
    def passes(self) -> Num:
        """Number of runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One turn."""
        return self.norm(self.layers(x, ctx), ctx)


class UntrainedTurns(Turns):
    """Turns that no gradient reaches, with the weights of the others: no layers to recomputation."""

    @property
    def copies(self) -> Num:
        """Number of stored copies: none."""
        return 0

    @property
    def active(self) -> Num:
        """One."""
        return 1


class Cycles(Module):
    """A slow stack that runs ``slow_turns`` times, and before each time a fast one, ``fast_turns`` times.

    Each reads the sum of what both have made last: the slow one begins with the embedding, times a number; the fast one
    with a vector that is never trained (``initial``). Of the fast turns in each cycle, gradients reach the last ones
    alone: as many as ``trained`` says of the last cycles, one by one, and a single one in those before.

    Source: Wang et al. 2025 (arXiv 2506.21734); transformers' HrmTextModel.
    """

    kind = "decoder"

    table: Embedding
    initial: Parameter
    fast: Turns
    slow: Turns
    slow_turns: Num
    fast_turns: Num
    trained: tuple[Num, ...]

    @property
    def _reached(self) -> Num:
        """Number of fast turns that have a gradient."""
        some: Num = total(minimum(self.fast_turns, each) for each in self.trained)
        return self.slow_turns - len(self.trained) + some

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the model's output for token ids ``x``."""
        words = self.table(x, ctx)
        if not x.trace.emits_kernels:  # turns are counted by how many have a gradient
            return self._counted(words, ctx)
        if ctx.cache is not None:
            raise InvalidModel(f"{self.name} keeps a cache for each turn", "only stacks that run once can be decoded")
        words = scaled(words)
        ctx = ctx.backend.begin(ctx, words, list(attentions(self.slow)), ())
        state = contiguous(expand(self.initial.weight(x.trace), *words.shape))
        return self._turn_by_turn(words, state, ctx) if x.trace.every_layer else self._one_turn_each(words, state, ctx)

    def _counted(self, words: Tensor, ctx: Context) -> Tensor:
        trace, state, runs = words.trace, self.initial.weight(words.trace), self.slow_turns * self.fast_turns
        trained = self._reached if ctx.run.training else runs
        if ctx.run.training:
            with trace.without_gradients():
                state = self._untrained(runs - trained)(add(words, state), ctx)
        state = self.fast.replace(times=trained)(add(words, state), ctx)
        return self.slow(add(words, state), ctx)

    def _untrained(self, times: Num) -> Turns:
        stack = self.fast.layers
        layers = tuple(around(lambda layer: Unread(layer.name, layer), stack.layers))
        name = f"{self.fast.name}[no gradient]"
        return UntrainedTurns(name, stack.replace(layers=layers), self.fast.norm, times)

    def _turn_by_turn(self, slow: Tensor, fast: Tensor, ctx: Context) -> Tensor:
        each_turn(self.slow_turns * self.fast_turns)
        trace, turns = slow.trace, value_of(self.fast_turns)
        before = (1,) * (value_of(self.slow_turns) - len(self.trained))
        for trained in (*before, *self.trained):
            for turn in range(turns):
                reached = turn >= turns - value_of(trained)
                with nullcontext() if reached else trace.without_gradients():
                    fast = self.fast(add(fast, slow), ctx)
            slow = self.slow(add(slow, fast), ctx)
        return slow

    def _one_turn_each(self, slow: Tensor, fast: Tensor, ctx: Context) -> Tensor:
        """One turn of each stack for all that keep something."""
        for turns, times in ((self.fast, self._reached), (self.slow, self.slow.times)):
            with slow.trace.inside(turns), slow.trace.passes(times):
                slow = turns.forward(add(slow, fast), ctx)
        return slow


CODE = "gemma"
"""Whose program a norm is: all in fp32, then in the first format."""


def layer(c: Config) -> Module:
    """Llama's with gated attention, and norms without weights."""
    h, a, d, bias = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim"), c.flag("attention_bias")
    gate = Linear("gate_proj", h, a * d, "gate", bias)
    mixer = decoders.attention(c, bias=bias).replace(gate=gate, kv_heads=a)
    return decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias")), norm="rmsnorm-plain", code=CODE)


def trained(c: Config) -> tuple[Num, ...]:
    """Return the numbers of fast turns with a gradient in the last slow ones.

    There are two in the last, unless ``L_bp_cycles`` says more.
    """
    given: list[Num] = [2] if c.get("L_bp_cycles") is None else [*c.numbers("L_bp_cycles")]
    return tuple(given[: c.number("H_cycles")])


@family("hrm_text", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head()})
def hrm_text(c: Config) -> Module:
    """Wang et al. 2025 (arXiv 2506.21734): the slow stack runs ``H_cycles`` times, the fast one L_cycles as often.

    A saved config has the number of layers that run in ``num_hidden_layers``, and those that are stored beside it.
    """
    h, slow, fast = c.size("hidden_size"), c.size("H_cycles"), c.size("L_cycles")
    stored = "num_layers_per_stack" if c.has("num_layers_per_stack") else "num_hidden_layers"
    layers = stack(c, layer(c), stored)
    norm = Norm("final_norm", "rmsnorm-plain", h, CODE)
    return Cycles(
        "model",
        Embedding("embed_tokens", c.size("vocab_size"), h),
        Parameter("z_L_init", Weight("z_L_init", (h,), minor=True, key="", frozen=True)),
        Turns("L_module", layers, norm, slow * fast),
        Turns("H_module", layers, norm, slow),
        slow,
        fast,
        trained(c),
    )
