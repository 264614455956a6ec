"""What transformers' models are given to run without data: ids, masks and positions, pixels, frames, all on meta."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch

from tfcalc.workload import Workload

HELD = ("vision_config", "text_config", "audio_config", "encoder", "decoder", "backbone_config")
"""Where configs hold the configs of their parts."""


def inputs(built: Any, run: Workload) -> dict[str, Any]:
    """Arguments for ``built.forward`` on this workload, as far as its signature names them."""
    known = signature(built.forward).parameters
    found: dict[str, Any] = {}
    two_stacks = "decoder_input_ids" in known
    first = run.source if two_stacks else run.target
    if "input_ids" in known:
        found["input_ids"] = _ids(first.batch, first.length)
        if not two_stacks:  # it would be the mask of cross-attention, too
            found |= _mask("attention_mask", first.batch, first.length, first.seen, known)
        if "position_ids" in known and not two_stacks:
            found["position_ids"] = torch.zeros(first.batch, first.length, dtype=torch.long)
    if two_stacks:
        found["decoder_input_ids"] = _ids(run.batch_size, run.seq_len)
        found |= _mask("decoder_attention_mask", run.batch_size, run.seq_len, run.seq_len, known)
    if "encoder_hidden_states" in known and getattr(built.config, "add_cross_attention", False):
        width = built.config.hidden_size
        found["encoder_hidden_states"] = torch.zeros(run.batch_size, run.source.length, width, requires_grad=True)
    main = built.main_input_name
    if main == "pixel_values":
        found["pixel_values"] = _pixels(built.config, int(run.batch_size))  # type: ignore[call-overload]
    elif main == "input_features":
        found["input_features"] = _features(built.config, int(run.batch_size))  # type: ignore[call-overload]
    return found


def _ids(batch: Any, length: Any) -> Any:
    return torch.zeros(batch, length, dtype=torch.long)


def _mask(name: str, batch: Any, length: Any, keys: Any, known: Any) -> dict[str, Any]:
    return {name: torch.zeros(batch, 1, length, keys)} if name in known else {}


def _find(config: Any, *names: str) -> Any:
    for place in (config, *(getattr(config, held, None) for held in HELD)):
        for name in names:
            value = getattr(place, name, None)
            if value is not None:
                return value
    return None


def _pixels(config: Any, batch: int) -> Any:
    size = _find(config, "image_size") or 224
    rows, columns = size if isinstance(size, list | tuple) else (size, size)
    return torch.zeros(batch, _find(config, "num_channels", "in_channels") or 3, rows, columns)


def _features(config: Any, batch: int) -> Any:
    return torch.zeros(batch, _find(config, "num_mel_bins"), 2 * (_find(config, "max_source_positions") or 50))
