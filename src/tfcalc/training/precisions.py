"""Precisions of training: how many bits each number of a weight, its gradient, its copies and its moments has."""

from __future__ import annotations

from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import FLOATS_ELSEWHERE, FP32, NUMBERS
from tfcalc.printable import quoted


class Precision(NamedTuple):
    """Bits of each number: ``weights`` that the model reads, ``gradients``, fp32 ``master`` weights, ``moments``.

    Without ``master`` weights (0) the optimizer changes the weights themselves. ``compute`` is the type of activations;
    under ``autocast`` weights have another one, and each matrix is cast before its product (torch.amp).
    """

    name: str
    weights: int
    gradients: int
    master: int
    moments: int
    compute: str
    autocast: bool = False

    @property
    def gathered(self) -> str:
        """Dtype, in torch's words, in which FSDP gathers weights: that of products; autocast makes its copies later."""
        return NUMBERS["fp32" if self.autocast else self.compute].torch

    @property
    def cast_when_gathered(self) -> bool:
        """Return whether FSDP casts stored weights to the compute dtype (``MixedPrecisionPolicy``)."""
        return self.weights > self.computed and not self.autocast

    @property
    def reduced(self) -> str:
        """Dtype, in torch's words, in which FSDP reduces gradients: the one they are stored in."""
        return NUMBERS["fp32" if self.gradients == NUMBERS["fp32"].bits else self.compute].torch

    @property
    def computed(self) -> int:
        """Bits of an activation, and of a weight as it enters a product."""
        return NUMBERS[self.compute].bits

    @property
    def stored(self) -> str:
        """Number format of the weights."""
        return FP32.name if self.weights == FP32.bits else self.compute

    @property
    def adapted(self) -> str:
        """Number format of adapters beside such weights.

        Under autocast, and beside fp32 weights, that is fp32: peft casts adapters of 16-bit models up. All else runs in
        one format, and so do they (Lightning's bf16-true, torchtune, DeepSpeed's and Megatron-LM's master weights).

        Source: peft's ``cast_adapter_dtype`` (tuners/tuners_utils.py), ``autocast_adapter_dtype=True``.
        """
        return FP32.name if self.autocast else self.stored

    def of_adapters(self, dtype: str) -> Precision:
        """Precision of adapters in this format; the optimizer updates them directly, without master weights."""
        bits = NUMBERS[dtype].bits
        same = bits == self.weights
        return self if same else self._replace(weights=bits, gradients=bits, master=0, moments=bits)

    def in_words(self, states: float | None = None, whose: str = "AdamW's moments") -> str:
        """``2 + 2 + 4 + 8 bytes …`` with two moments, as AdamW has, or with ``states`` bytes of another optimizer."""
        kept = 2 * self.moments / 8 if states is None else states
        parts = (self.weights / 8, self.gradients / 8, self.master / 8, kept)
        cast = ", autocast" if self.autocast else ""
        sizes = " + ".join(f"{size:.3g}" for size in parts)
        return f"{sizes} bytes (weights, gradients, master weights, {whose}), computed in {self.compute}{cast}"


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("fp32", 32, 32, 0, 32, "fp32"),
        Precision("bf16", 16, 16, 0, 16, "bf16"),
        Precision("fp16", 16, 16, 0, 16, "fp16"),
        # torch.autocast over fp32 weights: Micikevicius et al. 2018 (arXiv 1710.03740) keep their fp32 weights so
        Precision("bf16-mixed", 32, 32, 0, 32, "bf16", autocast=True),
        Precision("fp16-mixed", 32, 32, 0, 32, "fp16", autocast=True),
        # the same over weights in 16 bits: transformers' Trainer with bf16=True and a model that is loaded in bf16
        Precision("bf16-autocast", 16, 16, 0, 16, "bf16", autocast=True),
        Precision("fp16-autocast", 16, 16, 0, 16, "fp16", autocast=True),
        # FSDP's MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=fp32): what devices share is fp32
        Precision("bf16-fsdp", 32, 32, 0, 32, "bf16"),
        Precision("fp16-fsdp", 32, 32, 0, 32, "fp16"),
        # ZeRO (arXiv 1910.02054), section 3.1: 2 + 2 + K with K = 12
        Precision("bf16-master", 16, 16, 32, 32, "bf16"),
        Precision("fp16-master", 16, 16, 32, 32, "fp16"),
        # Megatron-LM: bf16 weights, gradients summed in fp32: 2 + 4 + 12
        Precision("bf16-master-fp32-grads", 16, 32, 32, 32, "bf16"),
        Precision("fp16-master-fp32-grads", 16, 32, 32, 32, "fp16"),
        # its precision-aware optimizer (--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16), with gradients in fp32 or not
        Precision("bf16-master-fp32-grads-bf16-moments", 16, 32, 32, 16, "bf16"),
        Precision("bf16-master-bf16-moments", 16, 16, 32, 16, "bf16"),
        # torchao's float8: its products cast what they read, and save their inputs as they come
        # (``matmul_with_hp_or_float8_args``), so that what is stored is bf16's
        Precision("fp8", 16, 16, 0, 16, "bf16"),
    )
}
"""Named precisions; with AdamW: 4+4+8, 2+2+4, 4+4+8, 2+2+4, 2+2+12, 2+4+12, 2+4+8 and 2+2+8 bytes."""

OF_MEGATRON = PRECISIONS["bf16-master-fp32-grads"]
"""Number formats of Megatron-LM: where none is given, as it trains nearly all models."""
OF_MEGATRON_IN_FP16 = PRECISIONS["fp16-master-fp32-grads"]
"""Those of GPUs without bf16."""

PRODUCTS_ALONE = "fp8"
"""Precision of products that are in 8 bits where all that is stored is in 16."""

OF_TRAINER = {"bf16-trainer": "bf16", "fp16-trainer": "fp16"}
"""transformers' --bf16 and --fp16: autocast over weights in the format that the checkpoint has."""

SPELLINGS = {
    **FLOATS_ELSEWHERE,
    # torch.amp and transformers' Trainer (--bf16, --fp16)
    "amp": "bf16-mixed",
    "amp-fp16": "fp16-mixed",
    # Lightning's Trainer(precision=…)
    "32-true": "fp32",
    "bf16-true": "bf16",
    "16-true": "fp16",
    "16-mixed": "fp16-mixed",
    # DeepSpeed and Megatron-LM
    "mixed": "bf16-master",
    "mixed-fp16": "fp16-master",
    "mixed-fp32-grads": "bf16-master-fp32-grads",
}
"""Names that other libraries have for some of them."""


def of_trainer(name: str, stored: str) -> str:
    """Precision by a trainer's switch, for a checkpoint that is stored in this format.

    >>> of_trainer("bf16-trainer", "bf16"), of_trainer("bf16-trainer", "fp32")
    ('bf16-autocast', 'bf16-mixed')
    """
    return f"{OF_TRAINER[name]}-{'mixed' if stored == FP32.name else 'autocast'}"


def precision(name: str) -> Precision:
    """The precision of this name. Raises InvalidModel with the nearest where there is none.

    >>> precision("bf16-master").in_words()
    "2 + 2 + 4 + 8 bytes (weights, gradients, master weights, AdamW's moments), computed in bf16"
    >>> precision("amp").name
    'bf16-mixed'
    """
    known = SPELLINGS.get(name, name)
    if known not in PRECISIONS:
        raise InvalidModel(f"precision {quoted(name)} is not known", nearest(name, [*PRECISIONS, *SPELLINGS]))
    return PRECISIONS[known]
