"""How the numbers of a cache are stored: their bits, and the scales that go with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.cost import Held
from tfcalc.core.number import Num, ceil_div
from tfcalc.errors import InvalidModel, nearest
from tfcalc.number_formats import BF16, FP4, FP8, FP16, FP32, INT8, NVFP4
from tfcalc.ops.keeping import INDEX, LATENT, ROTATED

UNQUANTIZED = 16
"""Bits from which a format stores numbers as they are computed."""


class Layout(NamedTuple):
    """``bits`` for each number of a vector, and one scale of ``scale_bits`` for every ``group`` of them, or for all."""

    bits: int
    scale_bits: int = 0
    group: int | None = None

    def at_least(self, bits: int | None) -> Layout:
        """The same where it stores the model's own numbers, of more ``bits`` where these are given."""
        return self if bits is None or self.bits < UNQUANTIZED else Layout(max(self.bits, bits))

    def held(self, name: str, times: tuple[Num, ...], width: Num) -> Iterator[Held]:
        """So many vectors of ``width``, and their scales."""
        yield Held(name, (*times, width), self.bits)
        if self.scale_bits:
            scales = 1 if self.group is None else ceil_div(width, self.group)
            yield Held(f"scales of {name}", (*times, scales), self.scale_bits)


class CacheFormat(NamedTuple):
    """A named way to store the vectors of tokens: ``each`` as it says, those of ``others`` as it says there.

    States of whole sequences are never stored like this: they have ``state_bits``, unless they are fp32 anyway.
    """

    name: str
    each: Layout
    others: tuple[tuple[str, Layout], ...] = ()
    state_bits: int = BF16.bits
    only: frozenset[str] | None = None

    def layout(self, name: str) -> Layout:
        """How the vectors of this name are stored. Raises InvalidModel where there is no way."""
        if self.only is not None and name not in self.only:
            raise InvalidModel(f"cache format {self.name} for {name}", "it is for latent attention only: use fp8")
        return dict(self.others).get(name, self.each)


FORMATS: dict[str, CacheFormat] = {
    one.name: one
    for one in (
        CacheFormat("fp32", Layout(FP32.bits), state_bits=FP32.bits),
        CacheFormat("bf16", Layout(BF16.bits)),
        CacheFormat("fp16", Layout(FP16.bits)),
        # one scale for a whole layer, which nobody counts (vLLM's kv_cache_dtype "fp8")
        CacheFormat("fp8", Layout(FP8.bits)),
        CacheFormat("int8", Layout(INT8.bits)),
        # an fp32 scale for each token and head, of keys and of values: 2·4 B (vLLM's "fp8_per_token_head")
        CacheFormat("fp8-per-token", Layout(FP8.bits, FP32.bits)),
        CacheFormat("int8-per-token", Layout(INT8.bits, FP32.bits)),
        # 4 bits a number and an fp8 scale for each 16 of them: d/2 + d/16 B
        CacheFormat("nvfp4", Layout(FP4.bits, NVFP4.scales, NVFP4.numbers)),
        # 512 fp8 numbers with 4 fp32 scales and 64 bf16 rotated ones: 656 B a token (DeepSeek's FlashMLA; vLLM);
        # the indexer's keys are fp8 with an fp32 scale for each 128 of them
        CacheFormat(
            "fp8_ds_mla",
            Layout(FP8.bits, FP32.bits, 128),
            others=((ROTATED, Layout(BF16.bits)),),
            only=frozenset({LATENT, ROTATED, INDEX}),
        ),
    )
}
"""The formats there are, by name. Source: vLLM's kv_cache_interface (page_size_bytes of each kind of layer)."""


def cache_format(name: str) -> CacheFormat:
    """The format of this name. Raises InvalidModel for others."""
    if name not in FORMATS:
        raise InvalidModel(f"cache format {name!r} is not known", nearest(name, FORMATS))
    return FORMATS[name]
