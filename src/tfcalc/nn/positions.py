"""Positions inside attention: rotary ones, ALiBi, and what is added to the scores for a distance."""

from __future__ import annotations

from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.nn.module import Context, Frozen, Module
from tfcalc.ops.rows import looked_up
from tfcalc.ops.shapes import copied, expand, reshape, transpose
from tfcalc.tape.tensor import Tensor


class RopeCode(Frozen):
    """Rotary-embedding code of a program, which decides what is saved, not what is counted.

    ``angles`` is the format of cos and sin (that of the weights where it is empty); layers with a window have others
    than those without (``by_window``); each layer makes its own, or puts them in another order first (``by_layer``);
    each sequence has its own (``by_sequence``); queries and keys are rotated ``in_float32``; heads that are rotated
    whole are copied all the same (``copies``). GPT-J's code copies cos and sin for queries and again for keys
    (``repeats``), rotates them where a token's heads lie in a row, and leaves them as wide as cos and sin. The two
    halves of a head are rotated one by one, by angles half as wide (``halves``), which may be the first half of theirs
    (``pairs``: adjacent numbers are rotated together). With ``angles`` that are ``complex``, cos and sin are one
    number. Those that are rotated may be the ``last`` of each head, in fp32, by cos and sin that are made twice as wide
    each time.
    """

    angles: str = ""
    by_window: bool = False
    by_layer: bool = False
    by_sequence: bool = False
    in_float32: bool = False
    copies: bool = False
    repeats: bool = False
    halves: bool = False
    pairs: bool = False
    last: bool = False


class Rope(Frozen):
    """``width`` numbers of each query and key are rotated by angles that grow with the position.

    They may be a part of a head's, then (``partial``) an odd number is filled up, as angles come in pairs. The first
    ``behind`` tokens have no position, and are not rotated. ``code`` is how a program does it.

    Source: Su et al. 2021 (RoFormer, arXiv 2104.09864), eq. 34.
    """

    width: Num
    code: RopeCode = RopeCode()
    partial: bool = False
    behind: Num = 0


class Alibi(Frozen):
    """A slope for each head, times the distance of query and key, is added to the score.

    The program adds it to scores in each layer, or once for all layers to their mask (``in_mask``).

    Source: Press et al. 2022 (arXiv 2108.12409), section 3.
    """

    in_mask: bool = False


class RelativeBias(Module):
    """A number for each head and each bucket of distances (T5). It is looked up once for all layers, and not counted.

    A program may copy them for each sequence (``by_sequence``).

    Source: Raffel et al. 2019 (arXiv 1910.10683), section 2.1.
    """

    kind = "position"

    rows: Num
    heads: Num
    by_sequence: bool = False

    def own_params(self) -> Cost:
        """The numbers."""
        return Cost(weights=(Weight(self.name, (self.rows, self.heads), key=""),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the bias, of 1 × a × l × l; it lies in memory by pairs, and is read by heads."""
        (table,) = self.weights(x.trace)
        length = ctx.stream.length
        buckets = x.trace.new((length, length), "int64", "buckets")
        made = transpose(reshape(looked_up(table, buckets), 1, length, length, self.heads), 1, 3)
        return copied(expand(made, ctx.stream.batch, *made.shape[1:])) if self.by_sequence else made
