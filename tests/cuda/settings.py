"""The training runs that are recorded on a GPU: what is set, and the command line that asks tfcalc about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TARGETS = "q_proj,v_proj"
"""What is adapted where LoRA is: linear layers that Llama has."""
KERNELS = {"fp32": ("eager", "efficient"), "bf16": ("eager", "efficient", "flash")}
KERNELS |= dict.fromkeys(("fp16-mixed", "bf16-mixed"), KERNELS["bf16"])
"""Attention kernels by precision: flash computes in 16 bits alone."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One run: a preset of tfcalc, built by transformers with random weights, so that nothing is downloaded."""

    model: str
    precision: str
    kernel: str
    batch: int = 2
    seq: int = 512
    checkpointing: bool = False
    lora: int = 0
    loop: str = "trainer"

    @property
    def name(self) -> str:
        """``gpt2-bf16-flash-b2-l512-checkpointing``."""
        further = {
            "checkpointing": self.checkpointing,
            f"lora{self.lora}": self.lora,
            self.loop: self.loop != "trainer",
        }
        named = [self.model, self.precision, self.kernel, f"b{self.batch}", f"l{self.seq}"]
        return "-".join([*named, *(word for word, is_set in further.items() if is_set)])

    @property
    def arguments(self) -> list[str]:
        """The same run, as tfcalc is asked about it."""
        asked = {
            "--batch": self.batch,
            "--seq": self.seq,
            "--precision": self.precision,
            "--attention-kernel": self.kernel,
            "--loop": self.loop,
            "--checkpointing": "full" if self.checkpointing else "none",
            **({"--lora": self.lora, "--lora-targets": TARGETS} if self.lora else {}),
        }
        return ["memory", self.model, "--train", *(str(word) for option in asked.items() for word in option)]


def settings() -> list[Setting]:
    """All runs: each precision with each kernel; then checkpointing, lengths where scores are most, loops, and LoRA."""
    return [*_plain(), *_further()]


def _plain() -> Iterator[Setting]:
    for model in ("smollm-135m", "gpt2", "bert-base-uncased"):
        for precision, kernels in KERNELS.items():
            yield from (Setting(model, precision, kernel) for kernel in kernels)
        yield Setting(model, "fp32", "eager", checkpointing=True)
        yield Setting(model, "bf16", "flash", checkpointing=True)


def _further() -> Iterator[Setting]:
    for model, seq in (("smollm-135m", 2048), ("gpt2", 1024)):
        yield Setting(model, "fp32", "eager", batch=1, seq=seq)
        yield Setting(model, "bf16", "eager", batch=1, seq=seq, checkpointing=True)
    for precision in ("fp32", "bf16"):
        yield Setting("smollm-135m", precision, "eager", checkpointing=True, loop="tutorial")
    yield Setting("smollm-135m", "fp32", "efficient", lora=16)
    yield Setting("smollm-135m", "bf16", "flash", lora=16)
    yield Setting("smollm-135m", "bf16", "flash", lora=16, checkpointing=True)
