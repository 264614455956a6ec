"""A config.json built by transformers on the meta device: every parameter by name, without data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tfcalc.core.tensors import plain
from tfcalc.errors import Unavailable

WITHOUT_A_HEAD = "Model"


def parameters(data: Mapping[str, Any], architecture: str) -> dict[str, int]:
    """The unique parameters of this class with this config, summed over layers, by their plain name.

    Nothing is downloaded, and no code but transformers' own runs. Raises Unavailable where transformers is not
    installed or cannot build it.
    """
    model = build(data, architecture)
    found: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        found[plain(name)] = found.get(plain(name), 0) + parameter.numel()
    return found


def buffers(data: Mapping[str, Any], architecture: str) -> dict[str, int]:
    """What a checkpoint of this class holds beside its parameters, by plain name."""
    model = build(data, architecture)
    trained = dict(model.named_parameters(remove_duplicate=False))
    found: dict[str, int] = {}
    for name, tensor in model.state_dict().items():
        if name not in trained:
            found[plain(name)] = found.get(plain(name), 0) + tensor.numel()
    return found


def build(data: Mapping[str, Any], architecture: str) -> Any:
    """The model on the meta device, its weights tied."""
    try:
        import torch
        import transformers
    except ImportError:
        raise Unavailable("transformers is not installed", "pip install 'tfcalc[verify]'") from None
    transformers.utils.logging.set_verbosity_error()
    kind = str(data.get("model_type"))
    made = getattr(transformers, architecture, None)
    if made is None:
        raise Unavailable(f"transformers {transformers.__version__} has no {architecture}")
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            fields = {key: value for key, value in data.items() if key not in ("model_type", "architectures")}
            config = transformers.AutoConfig.for_model(kind, **fields)
            model = made(config)
            model.tie_weights()
    except Exception as error:
        first = str(error).strip().splitlines()[:1]
        raise Unavailable(f"transformers cannot build this {kind}: {type(error).__name__}: {' '.join(first)}") from None
    return model
