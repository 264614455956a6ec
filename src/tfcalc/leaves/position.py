"""What tells a token where it stands, as a table that is added to its embedding."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Tensor
from tfcalc.core.number import Num


def learned_position(name: str, max_len: Num, width: Num, tokens: Num) -> Component:
    """``x + P[i]`` with a trained P of shape max_len × width: ``T·h`` parameters, one lookup and h additions per token.

    Source: Gehring et al. 2017, section 3.1; BERT and GPT-2.
    """
    return Component(
        name,
        "position",
        Cost(
            weights=(Tensor("P", (max_len, width)),),
            elementwise=(Elementwise("+ P (trained)", tokens * width, forward=1, backward=1),),
            lookups=tokens,
        ),
    )


def sinusoidal_position(name: str, max_len: Num, width: Num, tokens: Num, *, stored: str = "buffer") -> Component:
    """``x + P[i]`` with fixed sines and cosines: no parameters, but a buffer of ``T·h``.

    ``stored`` as a "parameter", P is one that is not trained; stored as "nothing", it is made anew in each process.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """
    table = Tensor("P", (max_len, width))
    return Component(
        name,
        "position",
        Cost(
            weights=(table._replace(frozen=True),) if stored == "parameter" else (),
            buffers=(table,) if stored == "buffer" else (),
            elementwise=(Elementwise("+ P (fixed)", tokens * width, forward=1, backward=0),),
            lookups=tokens,
        ),
    )
