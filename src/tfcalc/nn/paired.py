"""Layers that pass on two tensors."""

from __future__ import annotations

from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Group, Stack
from tfcalc.tape.tensor import Tensor


class PairLayer(Module):
    """A layer that reads two tensors, and makes two for the next."""

    kind = "layer"

    def both(self, given: list[Tensor], ctx: Context) -> list[Tensor]:
        """What it makes of the two that stand in the list, which it takes out."""
        raise NotImplementedError


class PairStack(Stack):
    """Layers of that kind, one upon another."""

    def both(self, given: list[Tensor], ctx: Context) -> list[Tensor]:
        """Run them from the bottom to the top, on the two that stand in the list, which are taken out."""
        trace, made = given[0].trace, [*given]
        given.clear()
        for group in self.running(made[0], ctx):
            with trace.group(group):
                made = self._pair(group, made, ctx)
        return made

    def _pair(self, group: Group, given: list[Tensor], ctx: Context) -> list[Tensor]:
        trace, one = given[0].trace, group.layer
        assert isinstance(one, PairLayer)

        def layer(*both: Tensor) -> list[Tensor]:
            made = one.both([*both], ctx)
            trace.layer_ends()
            return made

        if group.again:
            return trace.checkpoints(layer, *given, early_stop=ctx.run.early_stop, by_operation=ctx.run.by_operation)
        made = one.both(given, ctx)
        trace.layer_ends()
        return made
