"""Layers of which some see a window of the tokens before them: the same weights, fewer keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.configs.config import Config

SLIDING, FULL = "sliding_attention", "full_attention"
LAYERS = "num_hidden_layers"


def windows(c: Config, slides: Callable[[int], bool], size: str = "sliding_window") -> list[int | None]:
    """Each layer's window; None where it sees everything.

    ``layer_types`` says which layers slide, and ``slides`` where the config leaves that out.
    """
    count = c.number(LAYERS)
    width = None if c.get(size) is None else c.number(size)
    types = c.words("layer_types", count) if c.get("layer_types") else None
    sliding = [slides(place) if types is None else types[place] == SLIDING for place in range(count)]
    return [width if slide else None for slide in sliding]


def layer_types(
    c: Config, otherwise: Callable[[int], str], known: Sequence[str], field: str = "layer_types"
) -> list[str]:
    """Each layer's kind: the file lists them, or they follow from its place (``otherwise``)."""
    count = c.number(LAYERS)
    return c.words(field, count, known) if c.has(field) else [otherwise(place) for place in range(count)]


def window(c: Config, size: str = "sliding_window") -> int | None:
    """That of all layers; None where they see everything."""
    return None if c.get(size) is None else c.number(size)


def both(c: Config, size: str = "sliding_window") -> tuple[int | None, ...]:
    """None and the window: those of the masks that many programs make, whichever their layers read."""
    width = window(c, size)
    return (None,) if width is None else (None, width)


def unturned(c: Config) -> dict[str, None]:
    """EXAONE's layers that see everything: where a config has a window, they know no positions."""
    return {} if c.get("sliding_window") is None else {"rope": None}


def attention_windows(c: Config, layers: str = LAYERS) -> Sequence[int]:
    """Longformer's: one for all of so many layers, or one for each."""
    size, count = "attention_window", c.number(layers)
    return c.numbers(size, count, least=2) if isinstance(c.get(size), list) else [c.number(size, least=2)] * count
