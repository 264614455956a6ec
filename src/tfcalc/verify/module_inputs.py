"""Inputs of a module's forward pass: by its signature, or as given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tfcalc.named_tuple import NamedTuple

MASKS = ("mask", "masks", "attn_mask", "attention_mask", "key_padding_mask", "is_causal", "causal")
SWITCHES = ("return_", "need_", "use_", "output_")


class Input(NamedTuple):
    """One argument of forward: its name, shape and kind (``float``, ``ids``, ``mask``, ``none``)."""

    name: str
    shape: tuple[int, ...]
    kind: str

    def tensor(self) -> Tensor | None:
        """The argument, on the current device."""
        if self.kind == "none":
            return None
        if self.kind == "ids":
            return torch.zeros(self.shape, dtype=torch.long)
        if self.kind == "mask":
            return torch.ones(self.shape, dtype=torch.bool)
        return torch.randn(self.shape)


def ways(module: nn.Module, batch: int, seq: int, width: int | None) -> Iterator[list[Input]]:
    """Arguments that forward may take, the likeliest first: vectors or ids, no mask before a mask."""
    parameters = [
        parameter
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    optional = [
        parameter.name
        for parameter in parameters
        if parameter.default is None and not _is_mask(parameter.name) and not parameter.name.startswith(SWITCHES)
    ]
    looks_up = any(isinstance(one, nn.Embedding) for one in module.modules())
    width = width or _width(module)
    kinds = [("ids", "ids"), ("ids", "float"), ("float", "float")] if looks_up else [("float", "float")]
    shapes = {"ids": (batch, seq), "float": (batch, seq, width)}
    lists = [needed or ["x"]]
    lists += [[*needed, *optional]] * bool(optional) + [["x"] * count for count in (2, 3) if not needed]
    masks: list[tuple[tuple[int, ...], str]] = [((), "none"), ((seq, seq), "mask"), ((batch, 1, seq, seq), "mask")]
    for first, rest in kinds:
        for names in lists:
            for shape, mask in masks if any(map(_is_mask, names)) else masks[:1]:
                yield [
                    Input(name, shape, mask)
                    if _is_mask(name)
                    else Input(name, shapes[rest if place else first], rest if place else first)
                    for place, name in enumerate(names)
                ]


def stated(module: nn.Module, asked: Sequence[tuple[tuple[int, ...], str]]) -> list[Input]:
    """The arguments that were asked for, under the names that forward has for them."""
    names = [name for name in inspect.signature(module.forward).parameters if name != "args"]
    return [
        Input(names[place] if place < len(names) else f"argument {place + 1}", shape, kind)
        for place, (shape, kind) in enumerate(asked)
    ]


def _is_mask(name: str) -> bool:
    return name.lower() in MASKS or "mask" in name.lower()


def _width(module: nn.Module) -> int:
    """Width of the vectors that it reads, where no argument of its constructor gives it: that of its first matrix."""
    for one in module.modules():
        if isinstance(one, nn.Linear):
            return int(one.in_features)
    shapes = [tuple(parameter.shape) for parameter in module.parameters()]
    return max((shape[-1] for shape in shapes if shape), default=1)


def results(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a result, each with its place in it."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from results(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from results(inner, f"{name}[{place}]")
