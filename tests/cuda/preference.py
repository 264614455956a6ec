"""``python -m tests.cuda.preference -o rows.jsonl``: TRL's trainers on the first GPU: peaks and seconds of a step.

Models of tfcalc's presets with random weights prefer one text to another (DPO), or write completions that a function
rewards (GRPO). It imports TRL; the trainers are set up as tests/verify/preference_peaks.py sets them up on a CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from uuid import uuid4

import peft
import torch
import transformers
import trl
import trl.trainer.grpo_trainer
from datasets import Dataset
from datasets.fingerprint import Hasher
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.cuda.training import load_config, machine
from tfcalc.verify.hugging_face import build

WORDS = 500
DPO = {"method": "dpo", "prompt": 512, "completion": 512, "checkpointing": True}
GRPO = {"method": "grpo", "prompt": 256, "completion": 128, "checkpointing": True, "group": 8}
CASES: tuple[Mapping[str, Any], ...] = (
    {**DPO, "model": "llama-3.2-1b", "batch": 2},
    {**DPO, "model": "llama-3.2-1b", "batch": 4, "checkpointing": False},
    {**DPO, "model": "llama-3.2-1b", "batch": 4, "lora": 16},
    {**DPO, "model": "qwen2.5-1.5b", "batch": 4},
    {**DPO, "model": "qwen2.5-7b", "batch": 2, "lora": 16},
    {**GRPO, "model": "qwen2.5-0.5b", "batch": 8},
    {**GRPO, "model": "qwen2.5-0.5b", "batch": 8, "beta": 0.04},
    {**GRPO, "model": "llama-3.2-1b", "batch": 16},
    {**GRPO, "model": "qwen2.5-1.5b", "batch": 8, "lora": 16},
)
STEPS = 4
"""The first makes the optimizer's states, and none of it is measured."""


def tokenizer() -> Any:
    """One whose tokens are words, so that a text's length is known."""
    names = {f"w{place}": place for place in range(WORDS)} | {"<pad>": WORDS, "<eos>": WORDS + 1, "<unk>": WORDS + 2}
    made = Tokenizer(WordLevel(names, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def words(count: int, seed: int) -> str:
    """A text of so many tokens."""
    return " ".join(f"w{(7 * place + seed) % WORDS}" for place in range(count))


def built(name: str) -> Any:
    """A preset's model in bf16, with random weights and PyTorch's attention."""
    config = {**load_config(name), "_attn_implementation": "sdpa", "pad_token_id": WORDS, "eos_token_id": WORDS + 1}
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return build(config, config["architectures"][0], device=DEVICE)
    finally:
        torch.set_default_dtype(usual)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Watch(transformers.TrainerCallback):
    """The peak of all steps but the first, and the seconds of each."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.begun = 0.0

    def on_step_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Begin anew with the second step."""
        if state.global_step == 1 and DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.begun = self._now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note how long it took."""
        self.seconds.append(self._now() - self.begun)

    def _now(self) -> float:
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        return perf_counter()


def trainer(case: Mapping[str, Any], out: str, watch: Watch) -> Any:
    """TRL's trainer, whose sequences are as long as the case says."""
    batch, prompt, completion = case["batch"], case["prompt"], case["completion"]
    adapters = {"r": case.get("lora"), "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    lora = peft.LoraConfig(**adapters) if case.get("lora") else None
    common = {
        **{"output_dir": out, "per_device_train_batch_size": batch, "max_steps": STEPS, "report_to": []},
        **{"gradient_checkpointing": case["checkpointing"], "save_strategy": "no", "bf16": False},
        **{"logging_steps": 1000, "disable_tqdm": True, "use_cpu": DEVICE == "cpu"},
    }
    beside = {"model": built(case["model"]), "processing_class": tokenizer(), "peft_config": lora, "callbacks": [watch]}
    if case["method"] == "dpo":
        sides = {"chosen": 1, "rejected": 2}
        pairs = [
            {"prompt": words(prompt, n)} | {side: " " + words(completion, n + k) for side, k in sides.items()}
            for n in range(STEPS * batch)
        ]
        beside["ref_model"] = None if lora else built(case["model"])
        arguments = trl.DPOConfig(**common, max_length=prompt + completion)
        return trl.DPOTrainer(**beside, args=arguments, train_dataset=Dataset.from_list(pairs))
    trl.trainer.grpo_trainer.create_model_from_path = lambda *_, **__: built(case["model"])
    trl.trainer.grpo_trainer.get_config_model_id = lambda _: ""
    arguments = trl.GRPOConfig(
        **{**common, "max_completion_length": completion, "num_generations": case["group"]},
        **{"beta": case.get("beta", 0.0), "generation_kwargs": {"min_new_tokens": completion}},
    )
    prompts = Dataset.from_list([{"prompt": words(prompt, n)} for n in range(64)])
    return trl.GRPOTrainer(**beside, args=arguments, train_dataset=prompts, reward_funcs=rewards)


def rewards(completions: Sequence[str], **_: Any) -> list[float]:
    """Any that differ."""
    return [float(place % 3) for place in range(len(completions))]


def measured(case: Mapping[str, Any]) -> dict[str, Any]:
    """What a case took."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    watch = Watch()
    with tempfile.TemporaryDirectory() as out:
        trainer(case, out, watch).train()
    return {
        **case,
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "step_seconds": median(watch.seconds[1:]),
        "seconds": watch.seconds,
    }


def recorded(cases: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each case, or why it could not be."""
    versions = {"trl": trl.__version__, "peft": peft.__version__}
    for case in cases:
        try:
            yield {**asdict(machine()), **versions, **measured(case)}
        except Exception as error:  # one case that cannot be is none of the others'
            yield {**case, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def main(arguments: Sequence[str]) -> int:
    """0 if each case ran, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.preference", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="a file to write to")
    given = parser.parse_args(arguments)
    Hasher.hash = classmethod(lambda *_: uuid4().hex[:16])  # names of files in a cache, which pickle all of PyTorch
    failed = 0
    with given.output.open("w", encoding="utf-8") as written:
        for row in recorded(CASES):
            failed += "error" in row
            written.write(json.dumps(row) + "\n")
            written.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
