"""The training runs that are recorded on a GPU: what is set, and the command line that asks tfcalc about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TARGETS = "q_proj,v_proj"
"""What is adapted where LoRA is: linear layers that Llama has."""
ALL_LINEAR = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
"""All linear layers of a Llama but its head, as QLoRA adapts them (arXiv 2305.14314)."""
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
    targets: str = TARGETS
    base: str = ""
    backend: str = "auto"
    compiled: bool = False

    @property
    def name(self) -> str:
        """``gpt2-bf16-flash-b2-l512-checkpointing``."""
        further = {
            "checkpointing": self.checkpointing,
            f"lora{self.lora}": self.lora,
            "all": self.targets == ALL_LINEAR,
            self.base: self.base,
            self.backend: self.backend != "auto",
            self.loop: self.loop != "trainer",
            "compiled": self.compiled,
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
            **({"--lora": self.lora, "--lora-targets": self.targets} if self.lora else {}),
            **({"--base-weights": self.base} if self.base else {}),
            **({"--backend": self.backend} if self.backend != "auto" else {}),
        }
        switches = ["--compile"] * self.compiled
        return ["memory", self.model, "--train", *(str(word) for option in asked.items() for word in option), *switches]


def settings() -> list[Setting]:
    """All runs: each precision with each kernel; then checkpointing, lengths where scores are most, loops, and LoRA."""
    return [*_plain(), *_further(), *_of_sizes_in_use(), *_of_models_kept_apart(), *_compiled()]


def _plain() -> Iterator[Setting]:
    for model in ("smollm-135m", "gpt2"):
        shared_keys = model == "smollm-135m"  # which PyTorch's efficient kernel cannot have
        for precision, kernels in KERNELS.items():
            yield from (
                Setting(model, precision, kernel) for kernel in kernels if kernel != "efficient" or not shared_keys
            )
        yield Setting(model, "fp32", "eager", checkpointing=True)
        yield Setting(model, "bf16", "flash", checkpointing=True)


def _further() -> Iterator[Setting]:
    for model, seq in (("smollm-135m", 2048), ("gpt2", 1024)):
        yield Setting(model, "fp32", "eager", batch=1, seq=seq)
        yield Setting(model, "bf16", "eager", batch=1, seq=seq, checkpointing=True)
    for precision in ("fp32", "bf16"):
        yield Setting("smollm-135m", precision, "eager", checkpointing=True, loop="tutorial")
    yield Setting("smollm-135m", "fp32", "eager", lora=16)
    yield Setting("smollm-135m", "bf16", "flash", lora=16)
    yield Setting("smollm-135m", "bf16", "flash", lora=16, checkpointing=True)


def _of_sizes_in_use() -> Iterator[Setting]:
    """Models that people train on one card of 80 GB, whose steps are worth timing, too."""

    def flash(model: str, batch: int, seq: int, *, checkpointing: bool = False, precision: str = "bf16") -> Setting:
        return Setting(model, precision, "flash", batch, seq, checkpointing)

    def adapted(model: str, batch: int, seq: int, *, checkpointing: bool = False, base: str = "") -> Setting:
        return Setting(model, "bf16", "flash", batch, seq, checkpointing, lora=16, targets=ALL_LINEAR, base=base)

    for model, batch, seq in (
        ("gpt2-medium", 8, 1024),
        ("gpt2-xl", 4, 1024),
        ("smollm2-360m", 8, 2048),
        ("qwen2.5-0.5b", 4, 2048),
        ("qwen2.5-0.5b", 16, 512),
        ("llama-3.2-1b", 1, 2048),
        ("llama-3.2-1b", 4, 2048),
        ("llama-3.2-1b", 16, 512),
        ("pythia-1.4b", 4, 2048),
        ("qwen2.5-1.5b", 2, 4096),
        ("smollm2-1.7b", 4, 2048),
        ("qwen3-1.7b", 2, 2048),
        ("llama-3.2-3b", 2, 2048),
    ):
        yield flash(model, batch, seq)
    for model, batch, seq in (
        ("llama-3.2-1b", 4, 2048),
        ("llama-3.2-1b", 2, 8192),
        ("smollm2-1.7b", 8, 2048),
        ("llama-3.2-3b", 4, 2048),
        ("phi-3-mini-4k", 4, 2048),
        ("olmoe-1b-7b-0924", 2, 2048),
        ("llama-3-8b", 1, 2048),
        ("llama-3-8b", 4, 2048),
    ):
        yield flash(model, batch, seq, checkpointing=True)
    for model, batch, seq in (("gpt2-medium", 8, 1024), ("qwen2.5-0.5b", 4, 2048), ("llama-3.2-1b", 4, 2048)):
        yield flash(model, batch, seq, precision="bf16-mixed")
    yield flash("smollm2-1.7b", 4, 2048, checkpointing=True, precision="bf16-mixed")
    yield Setting("gemma-2-2b", "bf16", "eager", 2, 2048)
    yield Setting("llama-3.2-1b", "bf16", "eager", 4, 1024)
    for model, batch, seq, checkpointing in (
        ("llama-3.2-1b", 8, 1024, False),
        ("llama-3.2-3b", 4, 2048, True),
        ("qwen2.5-7b", 2, 2048, True),
        ("llama-3-8b", 1, 512, False),
        ("llama-3-8b", 2, 2048, False),
        ("llama-3-8b", 4, 2048, True),
    ):
        yield adapted(model, batch, seq, checkpointing=checkpointing)
    for model, batch, seq, checkpointing in (
        ("llama-3.2-1b", 4, 1024, False),
        ("llama-3.2-3b", 4, 2048, True),
        ("llama-3-8b", 1, 512, False),
        ("llama-3-8b", 1, 2048, True),
        ("llama-3-8b", 4, 2048, True),
        ("qwen2.5-32b", 1, 2048, True),
    ):
        yield adapted(model, batch, seq, checkpointing=checkpointing, base="nf4-dq")
    for model, batch, seq in (("llama-3.2-1b", 4, 2048), ("qwen2.5-0.5b", 8, 2048)):
        yield Setting(model, "bf16", "flash", batch, seq, backend="fused")


def _of_models_kept_apart() -> Iterator[Setting]:
    """Models of which no other run here is: rates that were fitted to those are held against these."""
    for model, batch, seq, checkpointing in (
        ("opt-125m", 16, 512, False),
        ("pythia-160m", 16, 1024, False),
        ("gpt2-large", 4, 1024, False),
        ("pythia-410m", 8, 2048, True),
        ("opt-1.3b", 4, 1024, False),
        ("tinyllama-1.1b", 4, 2048, False),
        ("falcon3-1b-base", 2, 2048, False),
        ("olmo-2-0425-1b", 4, 2048, False),
        ("stablelm-2-zephyr-1-6b", 2, 2048, True),
        ("qwen3-0.6b", 8, 1024, False),
        ("granite-3.1-1b-a400m-instruct", 4, 1024, False),
        ("phi-2", 2, 1024, True),
        ("pythia-2.8b", 1, 2048, True),
        ("starcoder2-3b", 1, 2048, True),
        ("smollm3-3b", 2, 4096, True),
        ("qwen3-4b", 1, 2048, True),
    ):
        yield Setting(model, "bf16", "flash", batch, seq, checkpointing)
    for model, batch, seq in (
        ("bert-large-uncased", 16, 512),
        ("roberta-base", 16, 512),
        ("modernbert-base", 16, 512),
        ("gemma-3-1b-it", 4, 1024),
    ):
        yield Setting(model, "bf16-mixed", "eager", batch, seq)
    for model, batch, seq, checkpointing in (
        ("qwen3-0.6b", 8, 1024, False),
        ("mistral-7b-v0.1", 2, 2048, False),
        ("llama-2-7b", 4, 1024, False),
        ("qwen3-8b", 4, 1024, True),
        ("qwen2.5-14b", 1, 2048, True),
        ("qwen1.5-moe-a2.7b", 2, 1024, True),
    ):
        yield Setting(model, "bf16", "flash", batch, seq, checkpointing, lora=16, targets=ALL_LINEAR)


def _compiled() -> Iterator[Setting]:
    """Each layer and the loss compiled, as torchtune and torchtitan do."""
    for model, batch, checkpointing in (
        ("llama-3.2-1b", 4, False),
        ("llama-3.2-1b", 4, True),
        ("qwen2.5-0.5b", 4, False),
        ("llama-3-8b", 1, True),
    ):
        yield Setting(model, "bf16", "flash", batch, 2048, checkpointing, compiled=True)
