"""The formulas of papers, each stated once, as a function of a shape: of numbers a count, of letters the closed form.

They are quoted, to be compared with the exact count. A formula is about the models of its paper: what it ``covers``
beyond GPT-2's shape is what the paper covers, and of other models there is no number.
"""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.analysis.shape import GATED, GROUPED, HEAD, INNER, STACK, WIDTH, Shape
from tfcalc.analysis.six_nd import MULTIPLY_ADD, PASSES
from tfcalc.core.number import Num
from tfcalc.named_tuple import NamedTuple


class PaperRule(NamedTuple):
    """A paper's count of a forward pass, and of what is computed ``again`` in backward by kind of recomputation.

    A training step is three forward passes, in all of these papers.
    """

    name: str
    forward: Callable[[Shape], Num]
    reference: str
    covers: tuple[str, ...] = ()
    again: dict[str, Callable[[Shape], Num]] | None = None

    def called(self, training: bool) -> str:
        """Its name; of a rule of thumb, with its factor: 6ND, or 2ND of a forward pass."""
        return f"{MULTIPLY_ADD * (PASSES if training else 1)}{self.name}" if self.name.startswith("ND") else self.name

    def flops(self, x: Shape, training: bool, recompute: str) -> Num:
        """The FLOPs of a forward pass or a training step; recomputation only in papers that count it."""
        again = (self.again or {}).get(recompute)
        return self.forward(x) * (PASSES if training else 1) + (again(x) if training and again else 0)

    def outside(self, unlike: dict[str, str], recompute: str) -> str:
        """Why it is not about this model, or this recomputation; nothing where it is."""
        for trait, words in unlike.items():
            if trait not in self.covers:
                return words
        known = self.again is None or recompute == "none" or recompute in self.again
        return "" if known else f"recomputation {recompute}"


def two_nd(x: Shape) -> Num:
    """``2ND``: a multiply-add for each parameter and token."""
    return 2 * x.b * x.l * x.N


def palm(x: Shape) -> Num:
    """``2N + 4LHQT`` a token, a third of the paper's ``6N + 12LHQT``; every query with every key."""
    return x.b * x.l * (2 * x.N + 4 * x.n * x.a * x.d * x.l)


def kaplan(x: Shape) -> Num:
    """``2N + 2·n_layer·n_ctx·d_attn`` a token, with ``N = 2·d_model·n_layer·(2·d_attn + d_ff)``.

    Neither embeddings nor the output head are in it; of attention's products it has half (a query sees half the keys).
    """
    attended = x.a * x.d
    return x.b * x.l * (2 * (2 * x.h * x.n * (2 * attended + x.f)) + 2 * x.n * x.l * attended)


def chinchilla_embedding(x: Shape) -> Num:
    """``2·l·V·h``: the lookup as a product with one-hot vectors."""
    return 2 * x.b * x.l * x.V * x.h


def chinchilla_layers(x: Shape) -> Num:
    """``n`` times attention's projections, its products and softmax, and the dense block."""
    keys = x.a * x.d
    projections = 2 * 3 * x.l * x.h * keys + 2 * x.l * keys * x.h
    products = 2 * x.l * x.l * keys + 3 * x.a * x.l * x.l + 2 * x.l * x.l * keys
    return x.b * x.n * (projections + products + 2 * x.l * (2 * x.h * x.f))


def chinchilla(x: Shape) -> Num:
    """Embeddings, layers and logits (``2·l·h·V``)."""
    return chinchilla_embedding(x) + chinchilla_layers(x) + 2 * x.b * x.l * x.h * x.V


def megatron_blocks(x: Shape) -> Num:
    """``24Bslh² + 4Bs²lh``: the blocks without the head."""
    return 24 * x.b * x.n * x.l * x.h * x.h + 4 * x.b * x.n * x.l * x.l * x.h


def megatron(x: Shape) -> Num:
    """``24BLsh²(1 + s/6h + V/12Lh)``; three times it is Korthikanti's ``72BLsh²(…)``."""
    return megatron_blocks(x) + 2 * x.b * x.l * x.h * x.V


def megatron_selective(x: Shape) -> Num:
    """``12BLs²h``: what turns s/6h into s/3h, in Korthikanti's eq. 8; three times what is recomputed."""
    return 12 * x.b * x.n * x.l * x.l * x.h


ANY_LAYERS = (GROUPED, GATED, WIDTH, INNER, HEAD)
SIX_ND = PaperRule("ND", two_nd, "arXiv 2203.15556", (STACK, *ANY_LAYERS))
SIX_ND_KAPLAN = SIX_ND._replace(name="ND, no embeddings", reference="arXiv 2001.08361")
PALM = PaperRule("PaLM", palm, "arXiv 2204.02311, appendix B", ANY_LAYERS)
KAPLAN = PaperRule("Kaplan", kaplan, "arXiv 2001.08361, table 1", (WIDTH, INNER, HEAD))
CHINCHILLA = PaperRule("Chinchilla", chinchilla, "arXiv 2203.15556, appendix F", (WIDTH, INNER))
MEGATRON = PaperRule(
    "Megatron-LM",
    megatron,
    "arXiv 2104.04473, 2205.05198",
    again={"full": megatron_blocks, "selective": megatron_selective},
)
RULES = (SIX_ND, SIX_ND_KAPLAN, PALM, KAPLAN, CHINCHILLA, MEGATRON)
