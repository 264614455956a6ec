"""tfcalc's parameters beside PyTorch's, component by component."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfcalc.errors import Unavailable, UsageError
from tfcalc.families.transformer import Transformer
from tfcalc.questions.common import described
from tfcalc.questions.params import params
from tfcalc.questions.stated import PARAMETERS
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Column, Sheet

MOST_LAYERS = 2_000
"""More are not built, one by one, for the sake of counting them."""


class Row(NamedTuple):
    """One component, counted twice."""

    path: str
    counted: int
    reference: int

    @property
    def difference(self) -> int:
        """Tfcalc less PyTorch."""
        return self.counted - self.reference


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict, and the rows that it rests on; the last row is the total."""

    heading: str
    reference: str
    rows: tuple[Row, ...]
    model: dict[str, Any]

    @property
    def agrees(self) -> bool:
        """Whether every row does, not only the total."""
        return not any(row.difference for row in self.rows)

    def sheet(self) -> Sheet:
        """A row per component."""
        verdict = "agrees with" if self.agrees else "DIFFERS from"
        return Sheet(
            title=f"tfcalc {verdict} PyTorch: {self.rows[-1].counted:,} and {self.rows[-1].reference:,} parameters",
            columns=[
                Column("component", numeric=False),
                Column("tfcalc"),
                Column("torch"),
                Column("difference"),
            ],
            rows=[[row.path, row.counted, row.reference, row.difference] for row in self.rows],
            quiet=self.rows[-1].difference,
            notes=[self.heading, self.reference],
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "verify",
            "model": self.model,
            "conventions": {"parameters": PARAMETERS, "reference": self.reference},
            "agrees": self.agrees,
            "total_params": self.rows[-1].counted,
            "reference_params": self.rows[-1].reference,
            "components": [
                {
                    "path": row.path,
                    "params": row.counted,
                    "reference_params": row.reference,
                    "difference": row.difference,
                }
                for row in self.rows[:-1]
            ],
        }


def verify(model: Transformer) -> Verification:
    """Count ``model`` with PyTorch on the meta device (unique parameters, no data) and hold tfcalc's count beside it.

    Raises Unavailable where PyTorch is not installed or cannot build the model, InvalidModel where nothing can.
    """
    report = params(model)
    _refuse_to_build_forever(model)
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
    rows = [Row(path, ours.get(path, 0), theirs.get(path, 0)) for path in dict.fromkeys([*ours, *theirs])]
    rows = [row for row in rows if row.counted or row.reference]
    rows.append(Row("total", report.answer, sum(theirs.values())))
    exchanged = f"; exchanged: {', '.join(built.exchanged)}" if built.exchanged else ""
    return Verification(
        heading=model.summary,
        reference=f"torch.nn modules of PyTorch {torch.__version__} on the meta device, unique parameters{exchanged}",
        rows=tuple(rows),
        model=described(model),
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
