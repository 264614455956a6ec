"""Which program runs a model, by whose code is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.backends.transformers import Transformers
from tfcalc.errors import InvalidModel
from tfcalc.execution.modules import ModuleProgram
from tfcalc.tape.numerics import Numerics

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.nn.module import Module
    from tfcalc.workload import Workload


class Code(NamedTuple):
    """Whose code runs a model: a ``backend``, its ``loss`` where that is not the usual one, and whether it compiles."""

    backend: str = "auto"
    loss: str = "auto"
    compiles: bool = False


def program(
    model: Model,
    run: Workload,
    numerics: Numerics,
    backend: str,
    loss: str = "auto",
    compiles: bool = False,
    *,
    every_layer: bool = True,
    ends_alone: bool = False,
) -> ModuleProgram:
    """The model on a new tape. Raises InvalidModel where this code does not run such a model.

    The code is a :class:`Code`. ``every_layer`` runs, rather than one of each kind; or, of a row of equal layers, those
    at its ends (``ends_alone``), which is enough to find when most is live.
    """
    module, code = _run_by(model, backend)
    code.loss = code.loss if loss == "auto" else loss
    code.compiles = compiles
    made = ModuleProgram(module, run, numerics, code, every_layer=every_layer)
    made.trace.ends_alone = ends_alone
    return made


def compilable(model: Module, *, drops: bool) -> bool:
    """Whether all its layers are of RMSNorms, plain attention and gated networks: what is known to be kept of them."""
    from tfcalc.nn.stack import Stack

    stacks = [each for each in model.all_of() if isinstance(each, Stack)]
    return bool(stacks) and all(_plain(layer, drops) for stack in stacks for layer in stack.layers)


MORE = ("tempered", "clipped", "capped", "sinks", "sub_norm", "gate", "alibi", "table")
"""Fields of attention by which it is more than its maps, norms, rotations and kernel."""


def _plain(layer: Module, drops: bool) -> bool:
    from tfcalc.nn.attention import Attention
    from tfcalc.nn.basic import Norm
    from tfcalc.nn.feed_forward import GatedFeedForward
    from tfcalc.nn.layers import PreNorm

    if type(layer) is not PreNorm or layer.in_float32 or (drops and layer.dropped):
        return False
    attention, network = (*layer.sublayers, None, None)[:2]
    if type(attention) is not Attention or type(network) is not GatedFeedForward or len(layer.sublayers) != 2:
        return False
    norms = [each for each in layer.all_of() if isinstance(each, Norm)]
    more = any(getattr(attention, name) for name in MORE) or network.gate is None or network.sub_norm is not None
    dropped = drops and (attention.dropout or network.dropout)
    return not more and not dropped and all(norm.form.startswith("rmsnorm") for norm in norms)


def _run_by(model: Model, implementation: str) -> tuple[Module, Transformers]:
    from tfcalc.configs.published import HFModel
    from tfcalc.zoo.transformer import Transformer

    if isinstance(model, HFModel) and implementation == "fused":
        from tfcalc.backends.fused import Fused

        return model.module(), Fused()
    if isinstance(model, HFModel) and implementation == "torchtune":
        from tfcalc.backends.torchtune import Torchtune

        if implementation not in model.family.libraries:
            what = f"torchtune's code of model_type {model.family.model_type!r} is not supported"
            raise InvalidModel(what, "that of llama, mistral and qwen2 is; take --backend transformers")
        return model.module(), Torchtune()
    if isinstance(model, HFModel) and implementation in PUBLISHED:
        return model.module(), Transformers()
    if isinstance(model, Transformer) and implementation in CLASSIC:
        from tfcalc.backends.torch_nn import TorchNN
        from tfcalc.execution.torch_nn import check

        check(model)
        return model.module(), TorchNN()
    known = PUBLISHED if isinstance(model, HFModel) else CLASSIC
    raise InvalidModel(f"backend {implementation!r} cannot run {model.summary}", f"choose {' or '.join(known)}")


PUBLISHED = ("auto", "transformers", "fused", "torchtune")
CLASSIC = ("auto", "torch")
"""Whose code can run a model of a config.json, and the classic one."""
