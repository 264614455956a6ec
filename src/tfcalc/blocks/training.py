"""What a training step adds to a model: the loss of its logits."""

from collections.abc import Iterable, Iterator

from tfcalc.core.component import Component
from tfcalc.leaves.loss import cross_entropy


def with_loss(parts: Iterable[Component]) -> Iterator[Component]:
    """These parts of a model, and after each that makes logits over the vocabulary their loss."""
    for part in parts:
        yield part
        for node in part.walk():
            if node.component.kind == "output":
                _, tokens, _, vocabulary = node.component.own.products[0].factors
                yield cross_entropy(f"{node.component.name}.loss", tokens * vocabulary)
