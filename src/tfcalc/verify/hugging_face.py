"""A config.json built by transformers on the meta device: every parameter by name, without data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.core.measure import plain, tensors, unpublished_params
from tfcalc.errors import Unavailable, UsageError
from tfcalc.printable import quoted
from tfcalc.report import exact
from tfcalc.verify.verification import VerifiedParams, side_by_side
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from tfcalc.configs.published import HFModel
    from tfcalc.core.component import Component

MOST_LAYERS = 2_000
"""More are not built, one by one, for the sake of counting them."""


def verify_config(model: HFModel) -> VerifiedParams:
    """Tfcalc's count of a config beside transformers', tensor by tensor (layers together).

    Raises Unavailable where transformers is not installed or cannot build it.
    """
    for path, field in model.reading.fields.items():
        if field.letter.startswith("n") and model.reading.sizes[path] > MOST_LAYERS:
            raise UsageError(f"{path} {model.reading.sizes[path]} is too much to build", f"at most {MOST_LAYERS}")
    built = build(model.config, model.architecture)
    theirs = parameters(built)
    root = model.tree(Workload())
    ours = {name: exact(size) for name, size in tensors(root, unpublished=True).items()}
    import transformers

    return VerifiedParams(
        heading=model.summary,
        compared=f"{len(list(_once(built))):,} tensors",
        against=f"transformers {transformers.__version__}",
        column="transformers",
        reference=f"{model.architecture} of transformers {transformers.__version__} on the meta device, "
        "unique parameters after tie_weights()",
        rows=side_by_side(ours, theirs),
        model=model.described(),
        notes=(*_unpublished(root), *model.assumptions),
    )


def _unpublished(root: Component) -> Iterator[str]:
    """Say what transformers allocates, and the published weights lack, so that no other answer counts it."""
    if more := exact(root.total(unpublished_params)):
        yield f"{more:,} of these are allocated by transformers alone: the published weights lack them (see params)"


def count(data: Mapping[str, object]) -> tuple[str, dict[str, int]]:
    """The class that transformers makes of a config that no family of ours knows, and its parameters by plain name."""
    architecture = _architecture(data)
    return architecture, parameters(build(data, architecture))


def _architecture(data: Mapping[str, object]) -> str:
    given = data.get("architectures")
    if isinstance(given, list) and given and isinstance(given[0], str):
        return given[0]
    try:
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES
    except ImportError:
        raise Unavailable("transformers is not installed", "pip install 'tfcalc[verify]'") from None
    kind = str(data.get("model_type"))
    found = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind) or MODEL_MAPPING_NAMES.get(kind)
    if not isinstance(found, str):
        raise Unavailable(f"transformers knows no model_type {quoted(kind)}", "name its class in architectures")
    return found


def parameters(model: nn.Module) -> dict[str, int]:
    """The unique parameters of a model that was built, summed over layers, by their plain name."""
    found: dict[str, int] = {}
    for name, parameter in _once(model):
        found[plain(name)] = found.get(plain(name), 0) + parameter.numel()
    return found


def _once(model: nn.Module) -> Iterable[tuple[str, nn.Parameter]]:
    """Return each parameter once: a tied one by the name of what it is tied to, whichever module was made first."""
    tied = getattr(model, "all_tied_weights_keys", {})
    names: dict[int, tuple[str, nn.Parameter]] = {}
    for name, parameter in sorted(model.named_parameters(remove_duplicate=False), key=lambda named: named[0] in tied):
        names.setdefault(id(parameter), (name, parameter))
    return names.values()


def buffers(model: nn.Module) -> dict[str, int]:
    """Buffers in its checkpoint, by plain name."""
    trained = dict(model.named_parameters(remove_duplicate=False))
    found: dict[str, int] = {}
    for name, tensor in model.state_dict().items():
        if name not in trained:
            found[plain(name)] = found.get(plain(name), 0) + tensor.numel()
    return found


def build(data: Mapping[str, object], architecture: str, device: str = "meta") -> PreTrainedModel:
    """The class with this config on the meta ``device`` (or one that holds data), its weights tied.

    Nothing is downloaded, and no code but transformers' own runs. Raises Unavailable where transformers is not
    installed or cannot build it.
    """
    try:
        import torch
        import transformers
    except ImportError:
        raise Unavailable("transformers is not installed", "pip install 'tfcalc[verify]'") from None
    transformers.utils.logging.set_verbosity_error()
    kind = str(data.get("model_type"))
    made = getattr(transformers, architecture, None) or _unlisted(kind, architecture)
    if made is None:
        raise Unavailable(
            f"transformers {transformers.__version__} has no {architecture[:80]}",
            "verify --checkpoint FILE reads files",
        )
    try:
        with warnings.catch_warnings(), torch.device(device):
            warnings.simplefilter("ignore")
            fields = {key: value for key, value in data.items() if key not in ("model_type", "architectures")}
            config = transformers.AutoConfig.for_model(kind, **fields)
            model = made(config)
            model.tie_weights()
    except Exception as error:
        first = " ".join(str(error).split())[:160]
        hint = "" if isinstance(error, (ImportError, AttributeError)) else "see --as FAMILY"
        raise Unavailable(
            f"transformers cannot build this {kind[:80]}: {type(error).__name__}: {first}", hint
        ) from None
    return model


def _unlisted(kind: str, architecture: str) -> type[PreTrainedModel] | None:
    """A class beside those of its ``model_type`` that transformers itself does not name (Qwen2-VL's tower)."""
    from importlib import import_module

    from transformers import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        return None
    module = import_module(CONFIG_MAPPING[kind].__module__.replace(".configuration_", ".modeling_"))
    return getattr(module, architecture, None)
