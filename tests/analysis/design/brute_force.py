"""Small random spaces of shapes, searched by ``design`` and by building every shape there is.

``python -m tests.analysis.design.brute_force 1000 SEED`` compares 1,000 of them and prints what differs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import log
from typing import NamedTuple

from tfcalc import Constraints, InvalidModel, Transformer, Workload, design, load
from tfcalc.analysis.design.answer import Designed
from tfcalc.core.measure import matmul_flops, params
from tfcalc.core.traced import value_of
from tfcalc.model import Model

PRESETS = (
    "llama-3-8b",
    "llama-2-7b",
    "gpt2",
    "bert-base-uncased",
    "t5-small",
    "mixtral-8x7b",
    "qwen3-0.6b",
    "gemma-3-270m",
    "phi-2",
    "pythia-70m",
    "gpt-neox-20b",
    "falcon-7b",
    "bloom-560m",
    "modernbert-base",
    "deepseek-v2-lite",
    "opt-125m",
    "gpt-oss-20b",
    "mistral-7b-v0.1",
    "vit-base-patch16-224",
    "olmo-2-1124-7b",
    "roberta-base",
    "smollm2-360m",
)
CLASSIC = (
    Transformer(kind="decoder", vocab_size=1000, output_head="tied"),
    Transformer(kind="encoder", vocab_size=1000, positions="learned", max_len=64),
    Transformer(kind="encoder-decoder"),
    Transformer(kind="decoder", norm="rmsnorm", attention_bias=False, ffn_bias=False),
)
WITH_GROUPS = frozenset(("llama-3-8b", "mixtral-8x7b", "qwen3-0.6b", "phi-2", "gpt-oss-20b", "mistral-7b-v0.1"))


class Space(NamedTuple):
    """A family, the values of its sizes, a budget, and what is counted."""

    name: str
    model: Model
    of: str
    d_model: tuple[int, ...]
    layers: tuple[int, ...]
    head_dim: tuple[int, ...]
    d_ff: tuple[int, ...]
    groups: tuple[int, ...]
    budget: int
    within: Fraction

    @property
    def constraints(self) -> Constraints:
        """The same for ``design``."""
        return Constraints(
            d_model=self.d_model,
            layers=self.layers,
            head_dim=self.head_dim,
            d_ff=self.d_ff,
            groups=self.groups,
            within=self.within,
        )


RUN = Workload(seq_len=32)


def amount(of: str, model: Model) -> int:
    """What is budgeted, counted on the model."""
    model.check(RUN)
    return value_of(model.tree(RUN).total(params if of == "params" else matmul_flops))


FAMILIES = (*PRESETS, *(f"classic {kind.kind}" for kind in CLASSIC))


def space(number: int, seed: int, most: int = 6) -> Space | None:
    """A random one of a family in turn, with at most that number of depths; None where no model is in it."""
    draw = random.Random(1000 * seed + number)
    turn = number % len(FAMILIES)
    classic = turn >= len(PRESETS)
    model: Model = CLASSIC[turn - len(PRESETS)] if classic else load(FAMILIES[turn])
    head_dim = tuple(sorted(draw.sample((16, 32, 64), draw.choice((1, 2)))))
    d_model = tuple(sorted(draw.sample(range(64, 1025, 64), draw.randint(2, min(most, 4)))))
    layers = tuple(sorted(draw.sample(range(2, 40), draw.randint(2, most))))
    d_ff = tuple(sorted(draw.sample(range(64, 4097, 64), draw.randint(1, 2)))) if draw.random() < 0.5 else ()
    if not classic and "d_ff" not in sizes_of(model):
        d_ff = ()
    with_groups = classic or FAMILIES[turn] in WITH_GROUPS
    groups = tuple(sorted(draw.sample((1, 2, 4), draw.randint(1, 2)))) if with_groups else ()
    of = draw.choice(("params", "params", "flops"))
    within = Fraction(draw.choice((1, 5, 20, 60)), 100)
    found = Space(FAMILIES[turn], model, of, d_model, layers, head_dim, d_ff, groups, 1, within)
    amounts = [value for _, value in shapes(found)]
    return found._replace(budget=max(int(draw.choice(amounts) * draw.uniform(0.5, 1.6)), 1)) if amounts else None


def sizes_of(model: Model) -> set[str]:
    """What tfcalc calls the sizes that a config has."""
    return {called for path in model.dimensions() for called in (path, *model.also_called(path))}


def shapes(within: Space) -> Iterator[tuple[dict[str, int], int]]:
    """Every shape of the space with its amount, each built and counted; what fits no model is left out."""
    classic = isinstance(within.model, Transformer)
    has = {"n_kv_heads", "d_ff", "head_dim"} if classic else sizes_of(within.model)
    values = {} if classic else dict(own_sizes(within.model))
    own_dim = values.get("head_dim", values.get("d_model", 1) // values.get("n_heads", 1))
    share = Fraction(1) if classic else Fraction(values["n_heads"] * own_dim, values["d_model"])
    for width, layers, head_dim in product(within.d_model, within.layers, within.head_dim):
        heads = share * width / head_dim
        if heads.denominator != 1:
            if "head_dim" not in has or classic or share.denominator == 1:
                continue
            heads = Fraction(max(round(heads), 1))
        if heads < 1:
            continue
        for d_ff, kv_heads in product(feed_forward(within, width, values), kv(within, int(heads), values)):
            sizes = {
                "d_model": width,
                "n_heads": int(heads),
                "n_kv_heads": kv_heads,
                "d_ff": d_ff,
                "head_dim": head_dim,
            }
            sizes = {name: size for name, size in sizes.items() if name in has or name in ("d_model", "n_heads")}
            sizes["n_layers"] = layers
            try:
                yield sizes, amount(within.of, within.model.replaced(**sizes))
            except InvalidModel:
                continue


def own_sizes(model: Model) -> Iterator[tuple[str, int]]:
    """Each size of a config by tfcalc's names."""
    read = model.values()
    for path, known in model.dimensions().items():
        for called in (path, *model.also_called(path)):
            yield called, value_of(read[known.symbol])


def feed_forward(within: Space, width: int, values: dict[str, int]) -> list[int]:
    """Those given, or the family's ratio rounded to a multiple of 64."""
    if within.d_ff:
        return list(within.d_ff)
    ratio = Fraction(values["d_ff"], values["d_model"]) if "d_ff" in values else Fraction(4)
    return [max(round(ratio * width / 64), 1) * 64]


def kv(within: Space, heads: int, values: dict[str, int]) -> list[int]:
    """By groups, or as the family has it: one for each head, as many, or as many for each."""
    if within.groups:
        return [heads // group for group in within.groups if heads % group == 0]
    own, own_heads = values.get("n_kv_heads"), values.get("n_heads")
    if own is None or own_heads is None or own == own_heads:
        return [heads]
    group = own_heads // own
    found = {own, heads // group if heads % group == 0 else own}
    return [each for each in sorted(found) if each and heads % each == 0]


def against_practice(sizes: dict[str, int]) -> int:
    """How many rules of practice a shape breaks, by the rules as the documents state them."""
    width, layers, heads = sizes["d_model"], sizes["n_layers"], sizes["n_heads"]
    kv_heads, d_ff = sizes.get("n_kv_heads", heads), sizes.get("d_ff")
    return sum(
        (
            not 30 <= width / layers <= 160,
            layers > (log(width) - 5.039) / 0.0555,
            sizes["head_dim"] % 64 != 0,
            kv_heads != heads and kv_heads not in (1, 2, 4, 8, 16, 32, 64),
            width % 128 != 0 or (d_ff or 0) % 128 != 0,
            layers % 2 == 1,
            d_ff is not None and not 2 <= d_ff / width <= 6,
        )
    )


def best(within: Space) -> tuple[tuple[object, ...], dict[str, int], int]:
    """The best of all shapes: within the tolerance by practice, then by distance; else by distance, then practice."""

    def place(sizes: dict[str, int], value: int) -> tuple[object, ...]:
        apart = Fraction(abs(value - within.budget), within.budget)
        known = sizes if "head_dim" in sizes else sizes | {"head_dim": derived(within, sizes)}
        breaks = against_practice(known)
        return (0, breaks, apart) if apart <= within.within else (1, apart, breaks)

    return min(((place(sizes, value), sizes, value) for sizes, value in shapes(within)), key=lambda each: each[0])


def derived(within: Space, sizes: dict[str, int]) -> int:
    """The width of a head where the config does not say it: the family's share of d_model over the heads."""
    values = dict(own_sizes(within.model))
    own_dim = values["d_model"] // values["n_heads"]
    return sizes["d_model"] * values["n_heads"] * own_dim // (values["d_model"] * sizes["n_heads"])


def differs(within: Space) -> str:
    """What is wrong with the design of a space; empty where its best shape is the best of all."""
    expected, sizes, value = best(within)
    found: Designed = design(
        within.budget, within.of, within.model, within.constraints, RUN if within.of == "flops" else None
    )
    first = found.candidates[0]
    apart = Fraction(abs(first.amount - within.budget), within.budget)
    inside = apart <= within.within
    place = (0, len(first.breaks), apart) if inside else (1, apart, len(first.breaks))
    if place == expected and first.amount == amount(within.of, within.model.replaced(**first.sizes)):
        return ""
    return f"{within}: {first.sizes} {first.amount} {place}, best {sizes} {value} {expected}"


def main() -> int:
    """Compare the spaces of a seed."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tried = wrong = 0
    for drawn in (space(number, seed) for number in range(count)):
        if drawn is None:
            continue
        tried += 1
        told = differs(drawn)
        if told:
            wrong += 1
            print(told)
    print(f"{tried} spaces of {len(PRESETS)} presets and {len(CLASSIC)} classic kinds, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
