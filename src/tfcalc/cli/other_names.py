"""Flags of engines and trainers, and what each stands for here: ``--tensor-parallel-size 8`` is ``--tp 8``.

A flag that means the same is taken, with hyphens or underscores. One that does not is refused with what to type.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from tfcalc.named_tuple import NamedTuple


class Meaning(NamedTuple):
    """The options that a flag of another program may stand for: the first one that a command has.

    ``value`` is what it sets where it is a switch there (of all but the first option it is ``plainly``, if that is
    another one), and ``words`` are that program's values in ours. At rest and in serving it stands for ``served``, if
    that is another one.
    """

    options: tuple[str, ...]
    value: str = ""
    words: Mapping[str, str] = {}
    served: str = ""
    plainly: str = ""

    def value_of(self, option: str) -> str:
        """The value that it sets this option to; empty where that follows it."""
        return self.plainly if self.plainly and option != self.options[0] else self.value


NO_OTHER = Meaning(())
WEIGHTS = {"bitsandbytes": "nf4", "bitsandbytes-nf4": "nf4", "bitsandbytes-fp4": "fp4", "eetq": "int8"}
WEIGHTS |= {"awq_marlin": "awq", "gptq_marlin": "gptq"}
KERNELS = {"sdpa": "auto", "eager": "eager"}
KERNELS |= dict.fromkeys(("flash_attention_2", "flash_attention_3", "kernels-community/flash-attn2"), "flash")


def _as(option: str, *flags: str) -> dict[str, Meaning]:
    """Meanings of flags that take the values of this option."""
    return {flag: Meaning((option,)) for flag in flags}


TAKEN: dict[str, dict[str, Meaning]] = {
    "vLLM": {
        **_as("--tp", "--tensor-parallel-size", "-tp"),
        **_as("--pp", "--pipeline-parallel-size", "-pp"),
        **_as("--dp", "--data-parallel-size", "-dp"),
        **_as("--concurrency", "--max-num-seqs"),
        **_as("--kv", "--kv-cache-dtype"),
        **_as("--draft-model", "--speculative-model"),
        "--quantization": Meaning(("--weights",), words=WEIGHTS),
        **_as("--input-tokens", "--input-len", "--random-input-len"),
        **_as("--output-tokens", "--output-len", "--random-output-len", "--max-tokens", "--max-new-tokens"),
        **_as("--rate", "--request-rate"),
    },
    "SGLang": {
        **_as("--tp", "--tp-size"),
        **_as("--pp", "--pp-size"),
        **_as("--dp", "--dp-size"),
        **_as("--ep", "--ep-size", "--expert-parallel-size"),
        **_as("--context", "--context-length"),
        **_as("--concurrency", "--max-running-requests"),
        **_as("--max-num-batched-tokens", "--chunked-prefill-size"),
        **_as("--block-size", "--page-size"),
        **_as("--draft-model", "--speculative-draft-model-path"),
    },
    "TensorRT-LLM and TGI": {
        **_as("--concurrency", "--max-batch-size", "--max-batch", "--max-concurrent-requests"),
        **_as("--max-num-batched-tokens", "--max-num-tokens", "--max-batch-prefill-tokens"),
        **_as("--context", "--max-total-tokens"),
        **_as("--tp", "--num-shard"),
        "--quantize": Meaning(("--weights",), words=WEIGHTS),
    },
    "llama.cpp": {
        **_as("--context", "--ctx-size", "-c", "--ctx", "--n-ctx", "--num-ctx"),
        **_as("--weights", "--gguf", "--quant"),
        **_as("--ngl", "--gpu-layers", "-ngl"),
        **_as("--draft-model", "--model-draft", "--draft", "-md"),
    },
    "transformers, TRL, peft": {
        **_as("--batch", "--per-device-train-batch-size", "--train-batch-size"),
        **_as("--grad-accum", "--gradient-accumulation-steps"),
        **_as("--seq", "--max-seq-length", "--max-length", "--model-max-length"),
        **_as("--optimizer", "--optim"),
        **_as("--lora", "--lora-r", "--lora-rank", "--r"),
        **_as("--epochs", "--num-train-epochs"),
        **_as("--lora-targets", "--lora-target-modules", "--target-modules"),
        "--use-dora": Meaning(("--dora",)),
        "--torch-compile": Meaning(("--compile",)),
        "--bf16": Meaning(("--precision", "--weights"), "bf16-trainer", served="--dtype", plainly="bf16"),
        "--fp16": Meaning(("--precision", "--weights"), "fp16-trainer", served="--dtype", plainly="fp16"),
        "--attn-implementation": Meaning(("--attention-kernel",), words=KERNELS),
        "--load-in-4bit": Meaning(("--base-weights",), "nf4", served="--weights"),
        "--load-in-8bit": Meaning(("--base-weights",), "int8", served="--weights"),
        **dict.fromkeys(
            ("--use-liger-kernel", "--use-liger", "--liger", "--liger-kernel"), Meaning(("--backend",), "fused")
        ),
    },
    "Axolotl, LLaMA-Factory": {
        **_as("--seq", "--sequence-len", "--cutoff-len"),
        **_as("--lora-targets", "--lora-target"),
        "--micro-batch-size": Meaning(("--micro-batch", "--batch")),
    },
    "Megatron-LM": {
        **_as("--tp", "--tensor-model-parallel-size"),
        **_as("--pp", "--pipeline-model-parallel-size"),
        **_as("--cp", "--context-parallel-size"),
        **_as("--ep", "--expert-model-parallel-size"),
        **_as("--etp", "--expert-tensor-parallel-size"),
        **_as("--seq", "--seq-length"),
        **_as("--max-steps", "--train-iters"),
        **_as("--samples", "--train-samples"),
        **_as("--layers", "--num-layers"),
        **_as("--d-ff", "--ffn-hidden-size"),
        **_as("--kv-heads", "--num-query-groups"),
        **_as("--head-dim", "--kv-channels"),
        **_as("--gpus", "--world-size"),
        **_as("--active", "--moe-router-topk"),
        "--recompute-granularity": Meaning(("--checkpointing",)),
        "--recompute-activations": Meaning(("--checkpointing",), "selective"),
        "--use-distributed-optimizer": Meaning(("--zero",), "1"),
    },
    "configs of models": {
        **_as("--d-model", "--n-embd", "--hidden", "--hidden-dim", "--dim", "--embed-dim", "--embedding-dim"),
        **_as("--layers", "--n-layer"),
        **_as("--heads", "--n-head", "--num-heads"),
        **_as("--kv-heads", "--num-kv-heads"),
        **_as("--d-ff", "--ffn-dim", "--ffn-size", "--mlp-dim", "--n-inner"),
        **_as("--vocab-size", "--vocab", "--n-vocab"),
        **_as("--num-experts", "--n-experts", "--num-local-experts", "--n-routed-experts"),
    },
    "other programs": {
        **_as("--batch", "--bs", "--mbs"),
        **_as("--global-batch", "--gbs"),
        **_as("--seq", "--sequence-length"),
        **_as("--lora", "--rank", "--lora-dim"),
        **_as("--max-steps", "--steps", "--train-steps", "--iterations"),
        **_as("--epochs", "--num-epochs"),
        **_as("--samples", "--num-samples", "--examples", "--num-examples", "--dataset-size"),
        **_as("--gpu", "--card", "--gpu-type", "--hardware"),
        **_as("--gpus", "--num-gpus", "--n-gpus", "--gpu-count"),
        **_as("--input-tokens", "--isl", "--prompt-tokens", "--prompt-len", "--prompt"),
        **_as("--output-tokens", "--osl"),
        **_as("--num-generations", "--group-size", "--generations-per-prompt"),
        **_as("--max-completion-length", "--max-response-length"),
        **_as("--rate", "--qps", "--rps"),
        **_as("--tokens-per-second", "--tps", "--tok-per-sec", "--tokens-per-sec"),
        **_as("--num-generations", "--generations", "--group-size"),
        **_as("--price", "--hourly", "--cost-per-hour", "--price-per-hour"),
        **_as("--train", "--training", "--finetune", "--fine-tune", "--full-finetune", "--full", "--sft"),
        **_as("--serve", "--inference", "--infer", "--serving"),
        "--prefill": Meaning(("--phase",), "prefill"),
        "--decode": Meaning(("--phase",), "decode"),
        **{f"--{method}": Meaning(("--method",), method) for method in ("dpo", "grpo", "ppo")},
        **{f"--zero{stage}": Meaning(("--zero",), f"{stage}") for stage in (1, 2, 3)},
        **dict.fromkeys(("--4bit", "--4-bit"), Meaning(("--base-weights",), "nf4", served="--weights")),
        **dict.fromkeys(("--8bit", "--8-bit", "--int8"), Meaning(("--base-weights",), "int8", served="--weights")),
        "--int4": Meaning(("--base-weights",), "int4", served="--weights"),
        "--fp8": Meaning(("--precision",), "fp8", served="--weights"),
        "--cpu-offload": Meaning(("--offload",), "all"),
        "--offload-optimizer": Meaning(("--offload",), "optimizer"),
        **_as("--concurrency", "--users", "--requests"),
        **_as("--context", "--context-len", "--max-context", "--context-window"),
        **_as("--kv", "--kv-cache", "--kv-dtype"),
        **_as("--budget", "--vram"),
        **_as("--zero", "--zero-stage"),
        **dict.fromkeys(
            ("--activation-checkpointing", "--grad-checkpointing", "--ac"), Meaning(("--checkpointing",), "full")
        ),
        **dict.fromkeys(
            ("--flash-attn", "--flash-attention", "--use-flash-attn"), Meaning(("--attention-kernel",), "flash")
        ),
    },
    "tfcalc 0.1": {
        **_as("--precision", "--recipe"),
        **_as("--grad-accum", "--accumulate"),
        **_as("--gpus", "--devices"),
        **_as("--backend", "--implementation"),
        **_as("--base-weights", "--frozen-weights"),
        **_as("--pp", "--pipeline"),
        **_as("--vpp", "--interleave"),
        **_as("--max-num-batched-tokens", "--batched"),
    },
}
"""Flags that are taken, by whose they are."""
BY_FLAG = {flag: meaning for flags in TAKEN.values() for flag, meaning in flags.items()}

PACKED = ("--packing", "--sample-packing")
"""Switches of trainers by which every sequence is full, as memory counts it without them. Attention between the
documents of a sequence may be left out then, so where FLOPs or time are asked for they are refused."""
NO_COUNT = "it changes no count: leave it out"
INSTEAD = {
    "--vs": "tfcalc compare MODEL OTHER puts models side by side",
    "--price": "train MODEL --tokens N --gpu NAME tells hours and money",
    "--cost": "train MODEL --tokens N --gpu NAME tells hours and money",
    "--days": "train MODEL --tokens N --gpu NAME tells the hours of a run",
    "--deepspeed": "its stage is --zero 0, 1, 2 or 3",
    **dict.fromkeys(PACKED, "every sequence is counted as full, as packing makes it: leave it out"),
    "--max-seq-len": "type --seq of training, or --context of serving",
    "--enable-expert-parallel": "type --ep N, the GPUs that share the experts: tp x dp",
    "--tflops": "type --peak, the FLOPs per second of a GPU: 989T",
    "--use-vllm": "type --vllm-mode colocate or server",
    "--mem-fraction-static": "type --gpu-memory-utilization with --engine sglang, for all that the engine takes",
    "--kv-cache-free-gpu-memory-fraction": "type --gpu-memory-utilization, for all that the engine takes",
    "--cache-type-k": "type --kv, for keys and values alike",
    "--cache-type-v": "type --kv, for keys and values alike",
    "--parallel": "type --concurrency N, each with --context tokens: its share of --ctx-size",
    "--torch-dtype": "type --dtype at rest, --precision in training, --weights in serving",
    "--num-layers-per-virtual-pipeline-stage": "type --vpp N, the chunks of a stage: layers / (pp x layers of a chunk)",
    **dict.fromkeys(
        (
            "--lora-alpha",
            "--alpha",
            "--learning-rate",
            "--lr",
            "--temperature",
            "--weight-decay",
            "--warmup-steps",
            "--warmup-ratio",
        ),
        NO_COUNT,
    ),
    **dict.fromkeys(("--enable-chunked-prefill", "--trust-remote-code"), NO_COUNT),
    **dict.fromkeys(
        ("--verbose", "--detail", "--details", "--breakdown", "--by-layer"),
        "--depth N has more rows, --assumptions all that it rests on",
    ),
    **dict.fromkeys(("--nodes", "--num-nodes", "--nnodes"), "type --gpus N, those of all nodes: 8 of each"),
    "--macs": "a multiply-add is 2 FLOPs here: half of the answer, and a row of --compare-conventions",
    "--image-size": "sizes of images are those of the config: edit image_size in a file of your own",
    "--explain": "explain opens a number: tfcalc explain activations MODEL",
    "--throughput": "tokens per second are in the answer of serve: leave it out",
    **dict.fromkeys(
        ("--speculative", "--speculative-decoding", "--num-speculative-tokens", "--speculative-num-draft-tokens"),
        "type --speculate 3@0.7 of serve: the tokens that are guessed, and the share of them that is accepted",
    ),
    **dict.fromkeys(
        ("--energy", "--power", "--watts", "--tdp", "--kwh", "--co2", "--carbon"),
        "no watts of GPUs are known here, so that energy is not counted; GPU hours of train times watts are watt hours",
    ),
    **dict.fromkeys(
        ("--active-params", "--active-parameters", "--active-only"),
        "tfcalc params MODEL --active counts the parameters that a token uses",
    ),
    "--per-token": "it is a line of the answer, and --json's flops_per_token: leave it out",
    "--non-embedding": "explain non_embedding_params MODEL shows it",
    "--backward": "--train counts the backward pass, too",
    "--bnb-4bit-quant-type": "type --base-weights nf4 or fp4",
    **dict.fromkeys(("--use-bnb-nested-quant", "--bnb-4bit-use-double-quant"), "type --base-weights nf4-dq"),
    "--enable-prefix-caching": "what requests share is --prefix N of serve; else each has a cache of its own",
    "--enforce-eager": "CUDA graphs are not counted, unless --graphs says how much they are: leave it out",
    "--use-peft": "type --lora 16",
    "--no-kv-offload": "a cache in RAM takes kv_cache_bytes of memory --serve --engine llama.cpp --json off the card",
    "--cpu-offload-gb": "weights in the host's memory are not modelled for vLLM; --ngl is llama.cpp's",
}
"""What to do where no option means the same."""

HOURS = "hours follow from what is read: type --tokens, --max-steps or --samples; design --days turns it around"
NAMES = "name a part of a name: tfcalc models a3b"
ALL_GPUS = "FLOPs are those of the whole model, however it is split; of several GPUs --mfu divides by all: --gpus N"
OF_LOG = "lines of an engine's log are those of tfcalc memory MODEL --serve --engine vllm --gpu NAME"
OF_A_CLASS = (
    "a class is counted on CPU tensors, without a card's kernels and workspaces; tfcalc gpus NAME says what a card has"
)
OF_ALL_COPIES = "type --batch, the sequences of each GPU at once, and --grad-accum, how often a step adds them"
OF_A_NUMBER = "6ND of parameters without a model is a line of tfcalc design 7B --tokens 2T"
OF_STACK = {
    "--fsdp": "type --stack fsdp",
    "--hsdp": "type --stack fsdp --replicas N",
    "--deepspeed": "type --stack deepspeed",
}
OF_COMMAND = {
    "memory": {"--max": "--budget", "--global-batch-size": OF_ALL_COPIES, "--global-batch": OF_ALL_COPIES},
    "params": {
        "--budget": "--max",
        "--trainable": "what is trained is the answer with --lora 16, or with --freeze: leave it out",
        "--block-size": "of a length follow learned positions alone: type --positions learned --max-len N",
    },
    "flops": {
        "--params": OF_A_NUMBER,
        "--budget": "--max",
        "--tp": ALL_GPUS,
        "--pp": ALL_GPUS,
        "--block-size": "--seq",
    },
    "train": {
        "--hours": HOURS,
        "--block-size": "--seq",
        "--global-batch-size": OF_ALL_COPIES,
        "--global-batch": OF_ALL_COPIES,
        "--dp": "data parallelism is --gpus N, with --zero 1, 2 or 3 to share the model states",
        "--ep": "plan has the seconds of experts that GPUs share: tfcalc plan MODEL --gpu 8xh100 --ep 8",
    },
    "serve": {
        "--seq": "--context",
        "--batch": "--concurrency",
        "--dtype": "--weights",
        "--ngl": "layers in the host's memory are those of tfcalc memory MODEL --serve --engine llama.cpp --ngl N",
        "--ttft": "type --slo ttft=500ms, the most that the first token may take",
        "--tpot": "type --slo tpot=50ms, the most that a further token may take",
        **dict.fromkeys(("--memory", "--profiled", "--nontorch", "--graphs"), OF_LOG),
    },
    "plan": {"--days": HOURS, "--hours": HOURS, "--max-steps": HOURS, **OF_STACK},
    "ranks": OF_STACK,
    "design": {"--budget": "the budget is --params, --flops, --memory, or --compute, the FLOPs of a training"},
    "models": {"--moe": NAMES},
    "gpus": dict.fromkeys(("--memory", "--min-memory"), "name it: tfcalc gpus 24GB"),
    "verify": dict.fromkeys(("--gpu", "--budget"), OF_A_CLASS),
    "explain": {"--params": OF_A_NUMBER, "--context": "why finds the length of a cache itself: leave it out"},
    "compare": dict.fromkeys(("--params", "--flops", "--memory"), "each has its rows: leave it out"),
    "diff": {
        "--base": "write the revision before the file: tfcalc diff main:config.json; "
        "tfcalc budget --base main holds all budgets against it"
    },
}
"""What an option of other commands is called in one: a limit on memory is a budget; or what to do instead of it."""

BY_VALUE = {
    "--experts": (re.compile(r"\d.*"), "--num-experts"),
    "--attention": (re.compile(r"(?i)mha|mqa|mla(:\d+)?"), "--attention-kind"),
}
"""Options that say something of the workload by words, and what they say of a model by such a value instead."""


def of_the_model(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """The words of a command line where options of BY_VALUE with a model's values are those of the model.

    >>> of_the_model(["--experts=64", "--attention", "causal"], ("--num-experts", "--attention-kind"))
    ['--num-experts=64', '--attention', 'causal']
    """
    found = list(words)
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        values, option = BY_VALUE.get(name, (None, ""))
        said = value if equals else words[place + 1] if place + 1 < len(words) else ""
        if values is not None and option in flags and values.fullmatch(said):
            found[place] = f"{option}{equals}{value}"
    return found


IN_TRAINING = {
    *("--train", "--training", "--finetune", "--fine-tune", "--full-finetune", "--full", "--sft"),
    *("--lora", "--lora-r", "--lora-rank", "--rank", "--qlora", "--optimizer", "--optim"),
    *("--checkpointing", "--gradient-checkpointing", "--grad-accum", "--gradient-accumulation-steps"),
    *("--per-device-train-batch-size", "--zero", "--zero1", "--zero2", "--zero3", "--fsdp"),
    *("--method", "--dpo", "--grpo", "--ppo"),
}
"""Flags of training alone; ``--phase train`` says it, too."""
ONE_OF_ALL = ("--tp", "--pp", "--dp", "--cp", "--ep", "--etp")
"""Degrees of parallelism, of which 1 is none: a command without the option takes that."""
ON, OFF = ("true", "True", "full_shard", "full_shard auto_wrap"), ("false", "False")
"""Values that a trainer's switches take; that of --fsdp says how FSDP shards."""


def in_our_words(words: Sequence[str], flags: Collection[str], switches: Mapping[str, str]) -> Iterator[str]:
    """The words of a command line with these ``flags``: others' flags replaced by what they stand for.

    Of ``switches`` the opposite is known, or empty; as a trainer's they may have a value.

    >>> list(in_our_words(["x", "--quantization=awq_marlin", "-tp", "2"], ("--weights", "--tp"), {}))
    ['x', '--weights', 'awq', '--tp', '2']
    >>> list(in_our_words(["--load_in_4bit", "True", "--use_dora", "False"], ("--weights", "--dora"), {"--dora": ""}))
    ['--weights', 'nf4']
    >>> list(in_our_words(["--cp", "1", "--ep=1", "x", "--packing", "True"], ("--optimizer",), {}))
    ['x']
    """
    trains = _trains(words)
    packs = "--optimizer" in flags and "--tokens" not in flags
    left = deque(words)
    while left:
        word = left.popleft()
        if word == "--":
            yield from (word, *left)
            return
        name, equals, value = word.partition("=")
        flag = name if name in flags else _hyphened(name)
        meaning = NO_OTHER if flag in flags else BY_FLAG.get(flag, NO_OTHER)
        option = flag if flag in flags else _option(meaning, flags, trains=trains)
        if not option and flag in ONE_OF_ALL and (value if equals else left and left[0]) == "1":
            if not equals:
                left.popleft()
        elif flag in PACKED and packs and (value if equals else left and left[0]) not in OFF:
            if not equals and left and left[0] in ON:
                left.popleft()
        elif not option:
            yield word
        elif meaning.value or option in switches:
            said = value if equals else left[0] if left and left[0] in (*ON, *OFF) else ""
            if said and not equals:
                left.popleft()
            if said in OFF:
                yield from filter(None, (switches.get(option),))
            else:
                yield option if said in ("", *ON) else f"{option}={said}"
                yield from filter(None, (meaning.value_of(option),))
        elif not equals and not left:
            yield option
        elif meaning is NO_OTHER:
            yield option + equals + value
        else:
            value = value if equals else left.popleft()
            yield from (option, meaning.words.get(value, value))


def _trains(words: Sequence[str]) -> bool:
    """Return whether these words say that a model is trained."""
    flags = {_hyphened(word.partition("=")[0]) for word in words}
    return bool(flags & IN_TRAINING) or "--phase=train" in words or ("--phase", "train") in pairwise(words)


def _option(meaning: Meaning, flags: Collection[str], *, trains: bool) -> str:
    """The option that is meant among these ``flags``; empty where there is none."""
    options = meaning.options if trains or not meaning.served else (meaning.served, *meaning.options)
    return next((one for one in (*options, meaning.served) if one in flags), "")


def _hyphened(word: str) -> str:
    return word.replace("_", "-") if word.startswith("--") else word


def here(flag: str, command: str | None) -> str:
    """Suggest this command's option for one of other commands; empty where it has none like it.

    >>> here("--max", "memory"), here("--max", "models"), here("--base", "diff")[:40]
    ('did you mean --budget?', '', 'write the revision before the file: tfca')
    """
    name = OF_COMMAND.get(command or "", {}).get(_hyphened(flag), "")
    return f"did you mean {name}?" if name.startswith("-") else name


def stands_for(flag: str) -> str:
    """Our option that a flag of another program stands for; empty where there is none.

    >>> stands_for("--lora_r"), stands_for("--tensor_parallel_size"), stands_for("--packing")
    ('--lora', '--tp', '')
    """
    meaning = BY_FLAG.get(_hyphened(flag))
    return meaning.options[0] if meaning else ""


def short_flag(words: Sequence[str]) -> str:
    """Return the first flag of several letters behind one hyphen that another program has; empty where there is none.

    >>> short_flag(["serve", "gpt2", "-ngl", "20"]), short_flag(["params", "-q"])
    ('-ngl', '')
    """
    return next((word for word in words if re.fullmatch(r"-[a-z]{2,}", word) and stands_for(word)), "")


def hint(flag: str) -> str:
    """Remedy for who types a flag of another program; empty where nobody is known to have it.

    >>> hint("--use_peft")
    'type --lora 16'
    """
    return INSTEAD.get(_hyphened(flag), "")
