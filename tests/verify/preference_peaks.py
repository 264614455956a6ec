"""Peaks of TRL's own trainers, phase by phase: ``python -m tests.verify.preference_peaks OUT``.

DPOTrainer and GRPOTrainer train a small random Llama on CPU tensors, with eager attention. From the second step on
every storage is followed (:class:`~tests.verify.live.Live`), beside the parameters of both models.

TRL's kernels for a tile of logits are Triton's, which allocate nothing; here functions that allocate nothing stand for
them, and scored tokens are picked as on CUDA.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
import trl
import trl.kernels.chunked_logprob as kernels
import trl.trainer.grpo_trainer
import trl.trainer.utils
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.verify.live import Live

CONFIG = {
    **{"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False},
    **{"max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": 501, "pad_token_id": 500},
}
SIZES = {"prompt": 24, "completion": 40}
DPO, GRPO = {"method": "dpo", "batch": 2}, {"method": "grpo", "batch": 4, "num_generations": 4}
CASES: tuple[Mapping[str, Any], ...] = (
    {**DPO, "precision": "fp32", "checkpointing": "none"},
    {**DPO, "precision": "fp32", "checkpointing": "full"},
    {**DPO, "precision": "bf16", "checkpointing": "full"},
    {**DPO, "precision": "bf16", "checkpointing": "none", "precompute": True},
    {**DPO, "precision": "fp32", "checkpointing": "none", "lora": 4},
    {**GRPO, "precision": "fp32", "checkpointing": "none"},
    {**GRPO, "precision": "fp32", "checkpointing": "full", "beta": 0.1},
    {**GRPO, "precision": "bf16", "checkpointing": "full", "beta": 0.1, "num_generations": 8},
)
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def as_on_cuda() -> None:
    """Let TRL's tiles allocate what they allocate with Triton."""
    nothing = lambda *_, **__: None  # noqa: E731
    kernels._forward_tile = lambda _tile, _stride, _targets, _highest, total, *_, **__: total.fill_(1.0)
    kernels._backward_tile, kernels._addmm_fp32 = nothing, nothing
    trl.trainer.utils._use_triton = lambda _: True


def tokenizer() -> Any:
    words = {f"w{place}": place for place in range(500)} | {"<pad>": 500, "<eos>": 501, "<unk>": 502}
    made = Tokenizer(WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def words(count: int, seed: int = 0) -> str:
    return " ".join(f"w{(7 * place + seed) % 500}" for place in range(count))


def built(precision: str, seed: int) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(**CONFIG)
    config._attn_implementation = "eager"
    return LlamaForCausalLM(config).to(FORMATS[precision])


class Watch(transformers.TrainerCallback):  # type: ignore[misc]
    """The most bytes of each phase, over those of the ``models``, from the second step on."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.inside: list[str] = []
        self.most: dict[str, int] = {}
        self.live: Live | None = None
        self.base = 0

    def note(self) -> None:
        if self.live is not None:
            peak = self.live.peak() - self.base
            if self.inside:
                self.most[self.inside[-1]] = max(self.most.get(self.inside[-1], 0), peak)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.note()
        self.inside.append(name)
        try:
            yield
        finally:
            self.note()
            self.inside.pop()

    def watched(self, function: Any, name: str) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            scores = name == "forward" and not torch.is_grad_enabled()
            with self.phase("score" if scores else name):
                return function(*given, **named)

        return run

    def on_step_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        if state.global_step >= 1:
            self.live = Live()
            for model in self.models:
                for each in (*model.parameters(), *model.buffers()):
                    self.live.see(each)
            self.base = self.live.bytes
            self.live.peak()
            self.live.__enter__()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        if self.live is not None:
            self.live.__exit__(None, None, None)
            self.live = None


def recorded(case: Mapping[str, Any], out: str) -> dict[str, Any]:
    """The peaks of one case."""
    precision, batch = case["precision"], case["batch"]
    prompt, completion = SIZES["prompt"], SIZES["completion"]
    watch, model = Watch(), built(precision, 0)
    lora = (
        peft.LoraConfig(r=case["lora"], target_modules="all-linear", task_type="CAUSAL_LM") if "lora" in case else None
    )
    common = {
        **{"output_dir": out, "per_device_train_batch_size": batch, "max_steps": 3, "report_to": [], "bf16": False},
        **{"gradient_checkpointing": case["checkpointing"] == "full", "save_strategy": "no", "use_cpu": True},
        **{"optim": "adamw_torch", "logging_steps": 1000, "disable_tqdm": True},
    }
    beside = {"model": model, "processing_class": tokenizer(), "peft_config": lora, "callbacks": [watch]}
    if case["method"] == "dpo":
        precompute = case.get("precompute", False)
        pairs = [
            {
                "prompt": words(prompt, n),
                **{side: f" {words(completion + 8, n + 1)}" for side in ("chosen", "rejected")},
            }
            for n in range(4 * batch)
        ]
        arguments = trl.DPOConfig(**common, max_length=prompt + completion, precompute_ref_log_probs=precompute)
        reference = None if lora or precompute else built(precision, 1)
        beside |= {"args": arguments, "train_dataset": Dataset.from_list(pairs), "ref_model": reference}
        trainer = trl.DPOTrainer(**beside)
        if trainer.ref_model is not None and not precompute:
            trainer.ref_model.forward = watch.watched(trainer.ref_model.forward, "reference")
    else:
        trl.trainer.grpo_trainer.create_model_from_path = lambda *_, **__: built(precision, 1)
        trl.trainer.grpo_trainer.get_config_model_id = lambda _: ""
        arguments = trl.GRPOConfig(
            **common,
            max_completion_length=completion,
            num_generations=case["num_generations"],
            generation_batch_size=case["num_generations"],
            beta=case.get("beta", 0.0),
            generation_kwargs={"min_new_tokens": completion},
        )
        prompts = Dataset.from_list([{"prompt": words(prompt, n)} for n in range(64)])
        reward = lambda completions, **_: [float(n % 3) for n in range(len(completions))]  # noqa: E731
        trainer = trl.GRPOTrainer(**beside, args=arguments, train_dataset=prompts, reward_funcs=reward)
        for name, phase in (("_generate_single_turn", "generate"), ("_get_per_token_logps_and_entropies", "forward")):
            setattr(trainer, name, watch.watched(getattr(trainer, name), phase))
    trainer.compute_loss = watch.watched(trainer.compute_loss, "forward")
    trainer.accelerator.backward = watch.watched(trainer.accelerator.backward, "backward")
    watch.models = [each for each in (model, trainer.ref_model) if each is not None]
    trainer.train()
    return {**case, **SIZES, "trl": trl.__version__, "phases": watch.most}


if __name__ == "__main__":
    as_on_cuda()
    rows = [json.dumps(recorded(case, sys.argv[1] + ".run")) for case in CASES]
    Path(sys.argv[1]).write_text("\n".join(rows) + "\n", encoding="utf-8")
