"""Heads that make one vector of a sequence first, and heads that look for answers (XLNet, XLM)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, labels
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.heads import SequenceSummary
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import pointwise
from tfcalc.ops.shapes import cat, expand, narrow, unsqueeze
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders


class Summarised(Module):
    """A model, a vector of each sequence, which a map may make, and logits of it, unless the map makes these."""

    kind = "model"

    base: Module
    summary: SequenceSummary | None
    logits: Linear | None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of each sequence of token ids."""
        made = self.base(x, ctx)
        made = narrow(made, 1) if self.summary is None else self.summary(made)
        return made if self.logits is None else self.logits(made)


class Answers(Module):
    """Logits of where an answer starts, of where it ends, given that, and of whether there is any.

    The start is known in training; where it is not, the model looks for the end of each of ``guesses`` starts.
    """

    kind = "model"

    base: Module
    start: Linear
    end: tuple[Linear, Norm, Linear]
    answer: tuple[Linear, Linear]
    guesses: Num

    @property
    def parts(self) -> Iterator[Module]:
        """Parts in the order in which they run."""
        return iter((self.base, self.start, *self.end, *self.answer))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of where answers end, for token ids."""
        made = self.base(x, ctx)
        self.start(made)
        both = cat([made, made])
        if not ctx.run.training:
            both = unsqueeze(both, 2)
            both = expand(both, *both.shape[:2], self.guesses, both.width)
        inner, norm, outer = self.end
        ends = outer(norm(pointwise("tanh", inner(both)), ctx))
        first, second = self.answer
        whole = narrow(made, 1)
        second(first(cat([whole, whole])))
        return ends


def summary(name: str, c: Config, classes: Num | None = None) -> SequenceSummary | None:
    """Map of a sequence to one vector, as wide as the ``classes`` or the hidden size; None where there is no map."""
    if not c.flag("summary_use_proj"):
        return None
    h = c.size("hidden_size")
    classes = labels(c) if classes is None else classes
    return SequenceSummary(name, Linear("summary", h, classes if c.flag("summary_proj_to_labels") else h, "", True))


def of_answers(prefix: str = "") -> Top:
    """Model with logits of where an answer starts, where it ends, and whether there is any."""

    def top(c: Config, base: Module) -> Module:
        h = c.size("hidden_size")
        return Answers(
            "",
            base,
            Linear(f"{prefix}start_logits.dense", h, 1, "", True),
            (
                Linear(f"{prefix}end_logits.dense_0", 2 * h, h, "", True),
                encoders.norm(c, f"{prefix}end_logits.LayerNorm"),
                Linear(f"{prefix}end_logits.dense_1", h, 1, "", True),
            ),
            (
                Linear(f"{prefix}answer_class.dense_0", 2 * h, h, "", True),
                Linear(f"{prefix}answer_class.dense_1", h, 1),
            ),
            c.size("start_n_top"),
        )

    return top
