"""What models with several residual streams are composed of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.families import kit
from tfcalc.families.layers import Kind
from tfcalc.nn.basic import parameter
from tfcalc.nn.hyper_connection import FloatLinear, HyperConnection, HyperDecoder, HyperHead, MixingConnection
from tfcalc.nn.module import Module

NAMES = ("attn_hc", "ffn_hc")
Head = TypeVar("Head", bound=HyperHead)


def connection(c: Config, name: str, *, of: type[HyperConnection], **code: Any) -> HyperConnection:
    """How a sub-layer reads and writes ``hc_mult`` streams, and, where that is so, mixes them."""
    n = c.size("hc_mult")
    mixes = issubclass(of, MixingConnection)
    return _made(c, name, "", of, (2 + n) * n if mixes else 2 * n, 3 if mixes else 2, **code)


def _made(c: Config, name: str, prefix: str, of: type[Head], outputs: Num, scales: int, **code: Any) -> Head:
    n = c.size("hc_mult")
    fn = FloatLinear(f"{prefix}fn", n * c.size("hidden_size"), outputs, "hc")
    base, scale = (
        parameter(f"{prefix}{each}", width, minor=True) for each, width in (("base", outputs), ("scale", scales))
    )
    return of(name, fn, base, scale, n, **code)


def decoder(
    c: Config, layers: Callable[[Kind], Module], kinds: Sequence[Kind], *, behind: bool = False, norm: str = ""
) -> HyperDecoder:
    """A decoder with layers by their ``kinds``, and a head that makes one stream of all."""
    head = _made(c, "hc_head", "hc_", HyperHead, c.size("hc_mult"), 1, behind=behind)
    return kit.decoder(c, layers, kinds, code=norm).to(HyperDecoder, head=head)
