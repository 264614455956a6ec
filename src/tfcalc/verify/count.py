"""tfcalc's parameters beside PyTorch's, component by component."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from tfcalc.errors import Unavailable, UsageError
from tfcalc.families.transformer import POSITIONS, Transformer
from tfcalc.questions.params import params
from tfcalc.verify.verification import Verification, side_by_side

if TYPE_CHECKING:
    from tfcalc.configs.published import Published
    from tfcalc.model import Model

MOST_LAYERS = 2_000
"""More are not built, one by one, for the sake of counting them."""
NOT_BUILT = ("t5", "multiplicative", "relative", "transformer-xl", "deberta")
"""Positions that are trained inside attention."""


def verify(model: Model) -> Verification:
    """Count ``model`` by another way and hold tfcalc's count beside it: a config by transformers, the classic by torch.

    Raises Unavailable where these are not installed or cannot build the model, InvalidModel where nothing can.
    """
    if isinstance(model, Transformer):
        return _by_torch(model)
    from tfcalc.verify.hugging_face import verify_config

    return verify_config(cast("Published", model))


def _by_torch(model: Transformer) -> Verification:
    """By PyTorch on the meta device: unique parameters, no data."""
    report = params(model)
    _refuse_to_build_forever(model)
    if model.positions in NOT_BUILT:
        raise Unavailable(
            f"PyTorch has no modules for positions {model.positions}",
            f"choose another of {', '.join(kind for kind in POSITIONS if kind not in NOT_BUILT)}",
        )
    try:
        import torch
    except ImportError:
        raise Unavailable("PyTorch is not installed", "pip install 'tfcalc[verify]'") from None
    from tfcalc.verify.reference import build

    try:
        built = build(model)
    except RuntimeError as error:
        raise Unavailable(f"PyTorch cannot build this model: {str(error).splitlines()[0]}") from None
    theirs: dict[str, int] = {}
    for name, parameter in built.named_parameters():
        path = _path(name, model)
        theirs[path] = theirs.get(path, 0) + parameter.numel()
    ours = {entry.path: entry.value for entry in report.walk() if not entry.parts}
    exchanged = f"; exchanged: {', '.join(built.exchanged)}" if built.exchanged else ""
    return Verification(
        heading=model.summary,
        against="PyTorch",
        column="torch",
        reference=f"torch.nn modules of PyTorch {torch.__version__} on the meta device, unique parameters{exchanged}",
        rows=side_by_side(ours, theirs),
        model=model.described(),
    )


def _refuse_to_build_forever(model: Transformer) -> None:
    depths: Iterable[Any] = (model.n_layers, model.encoder_layers, model.decoder_layers)
    for depth in depths:
        if depth is not None and depth > MOST_LAYERS:
            raise UsageError(f"{depth} layers are too many to build one by one", f"verify at most {MOST_LAYERS}")


IN_A_LAYER = {"self_attn": "self_attention", "multihead_attn": "cross_attention", "linear1": "ffn", "linear2": "ffn"}
NORMS_OF_A_LAYER = {2: ("self_norm", "ffn_norm"), 3: ("self_norm", "cross_norm", "ffn_norm")}


def _path(name: str, model: Transformer) -> str:
    """Where a torch parameter stands in tfcalc's tree."""
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
