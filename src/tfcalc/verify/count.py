"""tfcalc's parameters beside PyTorch's, component by component."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tfcalc.answers.params import params
from tfcalc.core.traced import value_of
from tfcalc.errors import Unavailable, UsageError
from tfcalc.verify.verification import NotComparable, VerifiedParams, side_by_side
from tfcalc.zoo.transformer import INSIDE_ATTENTION, POSITIONS, Transformer

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel
    from tfcalc.model import Model
    from tfcalc.verify.reference import Reference

MOST_LAYERS = 2_000
"""More are not built, one by one, for the sake of counting them."""
UNTRAINED = ("rotary", "alibi")
"""Positions inside attention that have no parameters."""
NOT_BUILT = tuple(kind for kind in INSIDE_ATTENTION if kind not in UNTRAINED)


def verify(model: Model) -> VerifiedParams:
    """Count ``model`` by another way and hold tfcalc's count beside it: a config by transformers, the classic by torch.

    Raises Unavailable where these are not installed or cannot build the model, InvalidModel where nothing can.
    """
    if isinstance(model, Transformer):
        return _by_torch(model)
    from tfcalc.verify.hugging_face import verify_config

    return verify_config(cast("HFModel", model))


def _by_torch(model: Transformer) -> VerifiedParams:
    """Count by PyTorch on the meta device: unique parameters, no data."""
    report = params(model)
    refuse_to_build_forever(model)
    missing = unbuilt(model)
    if model.positions in NOT_BUILT:
        raise NotComparable(
            f"cannot compare: PyTorch has no module with positions {model.positions}",
            f"choose another of {', '.join(kind for kind in POSITIONS if kind not in NOT_BUILT)}",
        )
    reference, described = built(model)
    if missing:
        described += f"; without {' and '.join(missing)}, where nothing is trained"
    tensors = dict(reference.named_parameters())
    theirs: dict[str, int] = {}
    for name, parameter in tensors.items():
        path = _path(name, model)
        theirs[path] = theirs.get(path, 0) + parameter.numel()
    ours = {entry.path: entry.value for entry in report.whole.walk() if not entry.parts}
    import torch

    return VerifiedParams(
        heading=model.summary,
        compared=f"{len(tensors):,} tensors",
        against=f"PyTorch {torch.__version__}",
        column="PyTorch",
        reference=described,
        rows=side_by_side(ours, theirs),
        model=model.described(),
    )


def unbuilt(model: Transformer) -> list[str]:
    """Parts that PyTorch has no module for, and that the reference is built without."""
    positions = [f"positions {model.positions}"] if model.positions in INSIDE_ATTENTION else []
    return positions + ([f"attention pattern {model.pattern}"] if model.pattern != "dense" else [])


def built(model: Transformer) -> tuple[Reference, str]:
    """The classic model of PyTorch's modules, and what these are. Raises Unavailable where they cannot be built."""
    try:
        from tfcalc.verify.reference import build
    except ImportError:
        raise Unavailable("PyTorch is not installed", "pip install 'tfcalc[verify]'") from None
    try:
        reference = build(model)
    except RuntimeError as error:
        raise NotComparable(f"cannot compare: PyTorch does not build it: {str(error).splitlines()[0]}") from None
    exchanged = f"; replaced: {', '.join(reference.exchanged)}" if reference.exchanged else ""
    return reference, f"torch.nn modules on the meta device, without data{exchanged}"


def refuse_to_build_forever(model: Transformer) -> None:
    """Raise UsageError where building it layer by layer would take too long."""
    for depth in (model.n_layers, model.encoder_layers, model.decoder_layers):
        if depth is not None and value_of(depth) > MOST_LAYERS:
            raise UsageError(f"{depth} layers are too many to build one by one", f"verify at most {MOST_LAYERS}")


IN_A_LAYER = {"self_attn": "self_attention", "multihead_attn": "cross_attention", "linear1": "ffn", "linear2": "ffn"}
NORMS_OF_A_LAYER = {2: ("self_norm", "ffn_norm"), 3: ("self_norm", "cross_norm", "ffn_norm")}


def _path(name: str, model: Transformer) -> str:
    """Path of a torch parameter in tfcalc's tree."""
    root = "" if model.vocab_size is None else f"{model.root}."
    first, *rest = name.split(".")
    if first == "embedding" and model.target_vocab_size is not None:
        first = "source_embedding"
    if first not in ("encoder", "decoder"):
        return f"{root}{first}"
    if rest[0] == "norm":
        return f"{root}core.{first}_norm"
    module = rest[2]
    if module.startswith("norm"):
        sublayers = 3 if first == "decoder" and model.kind == "encoder-decoder" else 2
        module = NORMS_OF_A_LAYER[sublayers][int(module.removeprefix("norm")) - 1]
    return f"{root}core.{first}.layer.{IN_A_LAYER.get(module, module)}"
