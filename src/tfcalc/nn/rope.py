"""Rotary positions: how much of each head is turned, and what of that a library's code decides."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.frozen import Frozen


class Rope(Frozen):
    """``width`` numbers of each query and key are turned by angles that grow with the position.

    They may be a part of a head's, then (``partial``) an odd number is filled up, as angles come in pairs. So many
    tokens before all others stand nowhere, and are not turned (``behind``).

    What follows decides on what is kept, not on what is counted. ``angles`` is the format of cos and sin (that of the
    weights where it is empty); layers with a window have others than those without (``by_window``); each layer makes
    its own, or puts them in another order first (``by_layer``); each sequence has its own (``by_sequence``); queries
    and keys are turned ``in_float32``; heads that are turned whole are copied all the same (``copies``). GPT-J's code
    copies cos and sin for queries and again for keys (``repeats``), turns them where a token's heads stand in a row,
    and leaves them as wide as cos and sin. The two halves of a head are turned one by one, by angles half as wide
    (``halves``), which may be the first half of theirs (``pairs``: numbers that stand beside each other are turned
    together). With ``angles`` that are ``complex``, cos and sin are one number. Those that are turned may be the
    ``last`` of each head, in fp32, by cos and sin that are made twice as wide each time.

    Source: Su et al. 2021 (RoFormer, arXiv 2104.09864), eq. 34.
    """

    width: Num
    angles: str = ""
    by_window: bool = False
    by_layer: bool = False
    by_sequence: bool = False
    in_float32: bool = False
    copies: bool = False
    repeats: bool = False
    halves: bool = False
    pairs: bool = False
    partial: bool = False
    behind: Num = 0
    last: bool = False
