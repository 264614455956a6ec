"""Names of our options in other programs, for the hint of an error: nothing here is accepted, all of it is answered."""

from __future__ import annotations

OTHER_NAMES = {
    # Hugging Face Trainer, TRL, Axolotl
    "--per-device-train-batch-size": "--batch",
    "--micro-batch-size": "--batch",
    "--gradient-accumulation-steps": "--grad-accum",
    "--activation-checkpointing": "--checkpointing full",
    "--max-seq-length": "--seq",
    "--max-length": "--seq",
    "--sequence-length": "--seq",
    "--optim": "--optimizer",
    "--bf16": "--precision bf16-mixed",
    "--fp16": "--precision fp16-mixed",
    "--load-in-4bit": "--base-weights nf4 (training), --weights nf4 (serving)",
    "--load-in-8bit": "--base-weights int8 (training), --weights int8 (serving)",
    "--lora-r": "--lora",
    "--lora-rank": "--lora",
    "--deepspeed": "--zero 0, 1, 2 or 3",
    "--zero-stage": "--zero",
    # Megatron-LM and vLLM
    "--tensor-model-parallel-size": "--tp",
    "--tensor-parallel-size": "--tp",
    "--pipeline-model-parallel-size": "--pp",
    "--pipeline-parallel-size": "--pp",
    "--quantization": "--weights",
    "--kv-cache-dtype": "--kv",
    "--kv-cache": "--kv",
    "--kv-dtype": "--kv",
    "--users": "--concurrency",
    "--requests": "--concurrency",
    "--max-num-seqs": "--concurrency",
    "--num-gpus": "--gpus",
    "--vram": "--budget",
    # tfcalc 0.1
    "--recipe": "--precision",
    "--accumulate": "--grad-accum",
    "--devices": "--gpus",
    "--implementation": "--backend",
    "--frozen-weights": "--base-weights",
    "--pipeline": "--pp",
    "--interleave": "--vpp",
    "--batched": "--max-num-batched-tokens",
}
"""The option that does the same here."""

INSTEAD = {
    "--vs": "tfcalc compare MODEL OTHER puts models side by side",
    "--price": "train MODEL --tokens N --gpu NAME tells hours and money",
    "--cost": "train MODEL --tokens N --gpu NAME tells hours and money",
    "--days": "tfcalc does not tell time; flops --tokens N --train counts the FLOPs of a run",
    "--cp": "context parallelism is not supported",
    "--ep": "expert parallelism is not supported",
    "--dp": "data parallelism is --gpus N, with --zero 1, 2 or 3 to share the model states",
}
"""What to do where no option does the same."""

OF_COMMAND = {
    "memory": {"--max": "--budget"},
    "params": {"--budget": "--max"},
    "flops": {"--budget": "--max"},
}
"""What an option of other commands is called in one: a limit on memory is a budget."""


def here(flag: str, command: str | None) -> str:
    """Suggest this command's option for one of other commands; empty where it has none like it.

    >>> here("--max", "memory"), here("--max", "models")
    ('did you mean --budget?', '')
    """
    name = OF_COMMAND.get(command or "", {}).get(flag)
    return f"did you mean {name}?" if name else ""


def hint(flag: str) -> str:
    """Suggest our option for a flag of another program; empty where nobody is known to have it.

    >>> hint("--lora-r"), hint("--tensor_parallel_size")
    ('did you mean --lora?', 'did you mean --tp?')
    """
    name = flag.replace("_", "-")
    return INSTEAD.get(name, "") or (f"did you mean {OTHER_NAMES[name]}?" if name in OTHER_NAMES else "")
