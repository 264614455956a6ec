"""ALiBi: positions that are nothing but a distance, which scores are lowered by."""

from __future__ import annotations

from tfcalc.nn.frozen import Frozen


class Alibi(Frozen):
    """A slope for each head, times the distance of query and key, is added to the score.

    The program adds it to scores in each layer, or once for all layers to their mask (``in_mask``).

    Source: Press et al. 2022 (arXiv 2108.12409), section 3.
    """

    in_mask: bool = False
