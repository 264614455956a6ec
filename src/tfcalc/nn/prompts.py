"""Prompts: keys and values of each layer that are trained, and seen beside those of tokens."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num, divide
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear
from tfcalc.nn.context import Context
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import dropout
from tfcalc.ops.shapes import cat, expand, permute, reshape, select, unsqueeze
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class Prompt(Module):
    """Keys and values for all layers, made of a short table by two maps.

    Source: Li and Liang 2021 (arXiv 2101.00190), section 4.3; Tang et al. 2022 (arXiv 2206.12131), section 3.2.
    """

    kind = "prompt"

    table: Embedding
    inward: Linear
    outward: Linear
    heads: Num
    width: Num
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the places of a prompt, 2n × a × p × d: twice as many as there are layers."""
        inner = self.inward(self.table(x, ctx))
        inner = ctx.activation("gelu", inner, "prompt_trans.1")
        made = self.outward(inner)
        each = self.heads * self.width
        if not x.trace.lowers:
            return made
        made = reshape(made, self.table.rows, divide(made.width, each), self.heads, self.width)
        return permute(dropout(made, "prompt_dropout") if self.dropped and ctx.drops else made, (1, 2, 0, 3))


class Prompted(Attention):
    """Attention that sees so many (``length``) keys of a ``prompt`` beside those that it would see."""

    prompt: str = ""
    length: Num = 0

    def seen(self, ctx: Context) -> Sequences:
        """The prompt's, and those."""
        keys = self.sees(ctx)
        return keys._replace(cached=keys.seen + self.length)

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        return super()._attended(q, *_beside(self, ctx.given[self.prompt], k, v, ctx), name)


class PromptedCross(CrossAttention, Prompted):
    """The same, of keys and values that an encoder's output makes."""


class PromptedDecoder(Decoder):
    """A decoder whose layers read prompts."""

    prompts: tuple[Prompt, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """The decoder's, and the prompts."""
        return iter((*super().parts, *self.prompts))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        places = x.trace.new((self.prompts[0].table.rows,), "int64", "places of a prompt")
        made = {each.name: each(places, ctx) for each in self.prompts}
        x.trace.forget("embedding")  # heads are tied to the table of words
        return super().forward(x, ctx._replace(given=made))


def _beside(attention: Attention, prompt: Tensor, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Context]:
    """Keys, values and masks with those of a prompt before them."""
    if not k.trace.lowers:
        return k, v, ctx
    one = unsqueeze(select(prompt, 0), 0)
    k, v = (cat((expand(one, each.shape[0], *one.shape[1:]), each), 2) for each in (k, v))
    mask = ctx.masks.get(attention.mask) if attention.looks_at_mask else None
    if mask is not None:
        seen = mask.trace.new((*mask.shape[:-1], one.shape[2]), "float32", "mask of a prompt")
        ctx = ctx._replace(masks={**ctx.masks, attention.mask: cat((seen, mask), -1)})
    return k, v, ctx
