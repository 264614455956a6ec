"""Plans of training and of serving: the options of ``memory`` beside the workload, and trainers' own presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from tfcalc import backends
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.dimensions import FRONT, Described, Shown, choice, described, dimension, facet, text
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.serving.caches import ALLOCATIONS, BLOCK, CACHES_ELSEWHERE, FORMATS, PAGED
from tfcalc.training.optimizers import OPTIMIZERS
from tfcalc.training.optimizers import SPELLINGS as NAMES_OF_OTHERS
from tfcalc.training.precisions import OF_TRAINER, PRECISIONS, SPELLINGS
from tfcalc.training.sharding import LAYOUTS, OFFLOADS
from tfcalc.workload import AUTO, Workload

BACKENDS = ("auto", *backends.BACKENDS)
USUAL = ("adamw-fused", "adamw-8bit", "adafactor", "sgd", "muon", "lion")
"""Optimizers that are named first."""
LOSSES = ("auto", "logits", "chunked", "linear", "checkpointed", "fused", "litgpt")
STAGES = ("0", "1", "2", "3")
SFT, DPO, GRPO, PPO = METHODS = ("sft", "dpo", "grpo", "ppo")
NO_ENGINE, COLOCATE, SERVER = ENGINES = ("none", "colocate", "server")
AWAKE = "0"
SLEEPS = (AWAKE, "1", "2")
TRAINER, TUTORIAL = "trainer", "tutorial"
BITSANDBYTES, BITSANDBYTES_OLD = "0.44", "0.43"
DEFAULT, EXPANDABLE = "default", "expandable_segments"


@described()
class Training(Described):
    """Plan of training: number formats, optimizer, backend, frozen modules, and sharding over GPUs.

    ``precision`` "auto" is the checkpoint's own number format (fp32 for the model without a name), in which adapters
    of a 16-bit checkpoint are trained under autocast, as transformers' Trainer does; with Megatron-LM's code it is
    "bf16-master-fp32-grads". ``backend`` "auto" is transformers for published models and torch.nn for the classic one.
    A ``preset`` is only told of: its fields are those of :func:`tfcalc.training_preset`.
    """

    preset: str = text(
        "a trainer's own options in the place of defaults, such as torchtune/full-single-device",
        "--preset",
        offers="presets",
    )
    precision: str = choice(
        "number formats of training: bf16-mixed is autocast over fp32 weights, bf16-autocast over bf16 ones, "
        "bf16-master keeps fp32 master weights, bf16-trainer is transformers' --bf16: autocast over weights as the "
        "checkpoint has them; auto: the checkpoint's own, with LoRA under autocast, and Megatron-LM's "
        "bf16-master-fp32-grads with --backend megatron",
        "--precision",
        default=AUTO,
        known=(AUTO, *PRECISIONS, *OF_TRAINER),
        spellings=SPELLINGS,
        shown=FRONT,
    )
    optimizer: str = choice(
        "optimizer",
        "--optimizer",
        default="adamw-fused",
        known=(*USUAL, *(name for name in OPTIMIZERS if name not in USUAL)),
        spellings=NAMES_OF_OTHERS,
        shown=FRONT,
    )
    optimizer_in_backward: bool = choice(
        "step each parameter in backward as soon as its gradient is complete, and free the gradient",
        "--optimizer-in-backward/--no-optimizer-in-backward",
        default=False,
    )
    offload_activations: bool = choice(
        "keep what is saved for backward in the host's memory until backward reads it",
        "--offload-activations/--no-offload-activations",
        default=False,
    )
    backend: str = choice(
        "whose code runs, which decides what is saved for backward (megatron-2022: arXiv 2205.05198, with scores and "
        "dropout); auto: transformers, or torch for the classic model",
        "--backend",
        default=AUTO,
        known=BACKENDS,
    )
    loss: str = choice(
        "how the loss is computed: of all logits at once, of logits in 8 chunks (torchtune's CEWithChunkedOutputLoss), "
        "of vectors in 8 chunks (linear: its LinearCrossEntropyLoss), of 256 tokens at a time, whose logits backward "
        "makes again (checkpointed: TRL's chunked_nll), by a fused kernel without logits (Liger's), or of logits in "
        "chunks of 128 tokens, which the loop has in fp32 (LitGPT's chunked_cross_entropy); auto: the backend's own",
        "--loss",
        default=AUTO,
        known=LOSSES,
    )
    compile: bool = choice(
        "torch.compile of each layer and of the loss, as torchtune and torchtitan do",
        "--compile/--no-compile",
        default=False,
    )
    device: str = choice(
        "whose kernels run; recorded: CUDA's kernels on CPU tensors, as in the recorded tests",
        "--device",
        default="cuda",
        known=("cuda", "recorded"),
        shown=Shown("gpus"),
    )
    capability: str = text(
        "compute capability of the GPU that it runs on, as in 9.0, which sizes cuBLAS's workspaces; mps of Apple's"
    )
    loop: str = choice(
        "when logits are freed: before backward, as by transformers' Trainer, or when the next step's take their "
        "place, as by the loop of tutorials, out = model(**batch); out.loss.backward()",
        "--loop",
        default=TRAINER,
        known=(TRAINER, TUTORIAL),
    )
    alloc_conf: str = choice(
        "configuration of PyTorch's CUDA allocator (PYTORCH_ALLOC_CONF), which decides on what is reserved: "
        "expandable_segments is torchtitan's own",
        "--alloc-conf",
        default=DEFAULT,
        known=(DEFAULT, EXPANDABLE),
        spellings={"expandable_segments:true": EXPANDABLE},
        shown=Shown("gpus"),
    )
    grad_accum: Num = dimension(
        "m", "gradient accumulation: micro-batches per optimizer step", "--grad-accum", default=1, shown=FRONT
    )
    lora: Num | None = dimension("r", "train LoRA adapters of this rank instead of the weights", "--lora", shown=FRONT)
    lora_targets: str = text(
        "modules to adapt, as comma-separated name suffixes", "--lora-targets", default="all-linear"
    )
    dora: bool = choice("DoRA: LoRA with a trained magnitude per output", "--dora/--no-dora", default=False)
    lora_dtype: str = choice(
        "number format of the adapters; auto: fp32 under autocast and by TRL, as peft has them, else the weights'",
        "--lora-dtype",
        default=AUTO,
        known=(AUTO, "fp32", "bf16", "fp16"),
    )
    lora_dropout: str = text("probability of dropout before the adapters; any above 0 costs the same", "--lora-dropout")
    base_weights: str = text(
        "format of the frozen weights under LoRA (nf4, int8, bf16, ...)", "--base-weights", offers="formats"
    )
    quantize_head: bool = choice(
        "store the output head in the format of --base-weights, too, and all matrices by way of fp16, as LitGPT does; "
        "transformers leaves the head as it was",
        "--quantize-head/--no-quantize-head",
        default=False,
    )
    bitsandbytes: str = choice(
        "version that multiplies with 4-bit weights: until 0.43.1 each product saved its input (0.43), later ones do "
        "not (0.44)",
        "--bitsandbytes",
        default=BITSANDBYTES,
        known=(BITSANDBYTES, BITSANDBYTES_OLD),
    )
    freeze: str = text("modules not to train, as comma-separated names or patterns", "--freeze")
    zero: str = choice(
        "ZeRO stage: which model states are sharded over GPUs; auto: 1 with --backend megatron (its distributed "
        "optimizer), else 0",
        "--zero",
        default=AUTO,
        known=(AUTO, *STAGES),
        shown=Shown("gpus", front=True),
    )
    gpus: Num | None = dimension(
        "N",
        "GPUs in all: those that share a copy of the model (--tp, --pp, --cp), times the copies of data parallelism, "
        "over which --zero shards the model states",
        "--gpus",
        follows="tp",
        shown=Shown("gpus", front=True),
    )
    layout: str = choice(
        "how tensors are split over GPUs: one flat buffer, or as DeepSpeed (zero) or FSDP splits them",
        "--layout",
        default="flat",
        known=LAYOUTS,
        shown=Shown("gpus"),
    )
    gradient_as_bucket_view: bool = choice(
        "DDP's gradients are views of its buckets, rather than tensors beside them",
        "--gradient-as-bucket-view/--no-gradient-as-bucket-view",
        default=False,
        shown=Shown("gpus"),
    )
    offload: str = choice(
        "model states offloaded to CPU memory", "--offload", default="none", known=OFFLOADS, shown=Shown("gpus")
    )
    tensor_parallel: Num = dimension(
        "t",
        "tensor parallelism: GPUs over which each layer is split (megatron; or --fsdp)",
        "--tp",
        "--tensor-parallel",
        default=1,
        shown=Shown("gpus", front=True),
    )
    sequence_parallel: bool = choice(
        "sequence parallelism: norms and dropout sharded as well (with --tp)",
        "--sequence-parallel/--no-sequence-parallel",
        default=False,
        shown=Shown("gpus"),
    )
    method: str = choice(
        "method of training: on the next token (sft), on pairs of a chosen and a rejected text (dpo), or on the "
        "model's own completions (grpo; ppo, which has a critic and a reward model), as by TRL",
        "--method",
        default=SFT,
        known=METHODS,
    )
    beta: str = text(
        "weight of the divergence from the reference model (grpo); 0: there is none [default: 0]", "--beta"
    )
    precompute_ref_log_probs: bool = choice(
        "the reference model's log-probabilities are computed before training, and it is freed (dpo)",
        "--precompute-ref-log-probs/--no-precompute-ref-log-probs",
        default=False,
    )
    num_generations: Num | None = dimension(
        "n_g", "completions of each prompt (grpo) [default: 8]", "--num-generations"
    )
    max_prompt_length: Num | None = dimension(
        "l_p", "tokens of a prompt (grpo, ppo) [default: 512]", "--max-prompt-length", length=True
    )
    max_completion_length: Num | None = dimension(
        "l_c",
        "tokens of a completion [default: 256 in grpo and ppo; in dpo the whole sequence]",
        "--max-completion-length",
        length=True,
    )
    vllm_mode: str = choice(
        "what generates completions: the trained model itself, by transformers (none), or vLLM on the same GPUs "
        "(colocate) or on others (server)",
        "--vllm-mode",
        default=NO_ENGINE,
        known=ENGINES,
    )
    vllm_gpu_memory_utilization: str = text(
        "fraction of the GPU's memory that vLLM takes (colocate, with --gpu) [default: 0.3]",
        "--vllm-gpu-memory-utilization",
    )
    sleep: str = choice(
        "vLLM's sleep mode while it does not generate: its weights are copied to the host (1), or dropped (2), and its "
        "cache is dropped (colocate)",
        "--sleep",
        default=AWAKE,
        known=SLEEPS,
    )
    beside: str = text("what is trained beside the model by the same plan: PPO's critic, of which nobody asks alone")
    card_memory: str = text("bytes of the GPU that it runs on, of which vLLM takes a fraction")
    pipeline_parallel: Num = dimension(
        "p",
        "pipeline parallelism: stages of the pipeline (megatron)",
        "--pp",
        "--pipeline-parallel",
        default=1,
        shown=Shown("gpus", front=True),
    )
    virtual_pipeline: Num = dimension(
        "v",
        "virtual pipeline: chunks of layers in each stage (megatron)",
        "--vpp",
        "--virtual-pipeline",
        default=1,
        shown=Shown("gpus"),
    )
    context_parallel: Num = dimension(
        "c_p",
        "context parallelism: GPUs that share each sequence (megatron)",
        "--cp",
        "--context-parallel",
        default=1,
        shown=Shown("gpus"),
    )

    help_group: ClassVar[str] = "training"

    @property
    def megatron(self) -> bool:
        """True if the code is Megatron-LM's, today's or the paper's: layers are shared by its rules."""
        return self.backend.startswith("megatron")

    @property
    def by_trl(self) -> bool:
        """Return whether TRL's trainers run the step, which are those of the other methods."""
        return self.method != SFT

    @property
    def of_2022(self) -> bool:
        """True if the code is that of Megatron-LM's paper of 2022, which has a kind of attention of its own."""
        return self.backend == "megatron-2022"

    @property
    def implied(self) -> dict[str, Num]:
        """Number of GPUs where none is given: as many as one copy of the model takes."""
        return {"gpus": self.model_parallel}

    @property
    def model_parallel(self) -> Num:
        """Number of GPUs that share a copy of the model and its batch: tensor, pipeline and context parallelism."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel

    @property
    def data_parallel(self) -> Num:
        """Number of copies that train on data of their own: all GPUs, over those of one copy."""
        if self.gpus is None:
            return 1
        return self.gpus if self.model_parallel == 1 else divide(self.gpus, self.model_parallel)

    @property
    def copies(self) -> Num:
        """Number of GPUs with the same weights: those that share the batch, and each of its sequences."""
        return self.data_parallel * self.context_parallel


@described()
class Serving(Described):
    """Plan of serving: the format of the weights, the cache, and the number and length of requests.

    ``weights`` "" is the checkpoint's own format, ``kv`` "auto" the format that is computed in.
    """

    weights: str = text(
        "format of the weights [default: the checkpoint's own]", "--weights", shown=FRONT, offers="formats"
    )
    kv: str = choice(
        "KV cache's format; auto: the format computed in",
        "--kv",
        default=AUTO,
        known=(AUTO, *FORMATS),
        spellings=CACHES_ELSEWHERE,
        shown=FRONT,
    )
    cache: str = choice("how the KV cache is stored", "--cache", default=PAGED, known=ALLOCATIONS)
    context: Num | None = dimension(
        "c",
        "tokens of each request, in the cache [default: 8,192, or the model's longest]",
        "--context",
        "--max-model-len",
        length=True,
        shown=FRONT,
    )
    concurrency: Num = dimension("b", "concurrent requests", "--concurrency", default=1, shown=FRONT)
    block: Num = dimension("t_b", "tokens per block of a paged cache", "--block-size", default=BLOCK)
    batched: Num = dimension(
        "m",
        "prompt tokens processed at once with a paged cache",
        "--max-num-batched-tokens",
        default=8192,
        length=True,
    )
    gpus: Num | None = dimension(
        "N", "GPUs in all: those of --tp, --pp and --dp", "--gpus", follows="t·p·d_p", shown=Shown("gpus", front=True)
    )
    tensor_parallel: Num | None = dimension(
        "t",
        "tensor parallelism: GPUs over which each layer is split [default: all of a server that its heads divide by]",
        "--tp",
        "--tensor-parallel",
        shown=Shown("gpus", front=True),
    )
    pipeline_parallel: Num | None = dimension(
        "p",
        "pipeline parallelism: stages of the pipeline [default: as few as hold the model; else replicas]",
        "--pp",
        "--pipeline-parallel",
        shown=Shown("gpus", front=True),
    )
    data_parallel: Num | None = dimension(
        "d_p",
        "data parallelism: groups of GPUs with requests of their own, which share experts",
        "--dp",
        "--data-parallel",
        shown=Shown("gpus"),
    )
    expert_parallel: Num | None = dimension(
        "e_p",
        "expert parallelism: groups of GPUs that share the experts [default: 1]",
        "--ep",
        "--expert-parallel",
        shown=Shown("gpus"),
    )

    gpu_layers: Num | None = dimension(
        "n_gpu",
        "layers on the card, the last ones, and the head as one more; the others are in RAM (llama.cpp) [default: all]",
        "--ngl",
        "--n-gpu-layers",
        shown=Shown("gpus"),
    )

    replicas: str = text("copies of the model, each on GPUs of its own, where these hold more than one")
    profile_run: str = text("bytes at the peak of an engine's profile run, in the place of those of a step")

    help_group: ClassVar[str] = "serving"

    @property
    def asked_layout(self) -> dict[str, Num]:
        """The numbers of GPUs that were asked for, by their fields."""
        given = {name: getattr(self, name) for name in LAYOUT}
        return {name: size for name, size in given.items() if size is not None}

    @property
    def shared(self) -> bool:
        """Return whether several GPUs serve the model together."""
        return any(value_of(size) != 1 for size in self.asked_layout.values())


LAYOUT = ("gpus", "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
"""Fields of how GPUs share a model that is served."""


DATA = Path(__file__).with_name("training_presets.toml")
ABOUT = ("source", "revision", "not_modelled")
"""Keys that say where it stands; the others are fields."""


class TrainingPreset(NamedTuple):
    """A trainer's own options: the fields that it sets, where it stands, and what of it is ``not_modelled``."""

    name: str
    options: Mapping[str, int | str | bool]
    source: str
    revision: str
    not_modelled: tuple[str, ...]

    @property
    def workload(self) -> Workload:
        """Workload of a training step, with the preset's batch and length, or the defaults."""
        return Workload(phase="train", **self._of(Workload))  # type: ignore[arg-type]  # fields by their names

    @property
    def training(self) -> Training:
        """Plan of training with the preset's options."""
        return Training(preset=self.name, **self._of(Training))  # type: ignore[arg-type]

    def _of(self, kind: type) -> dict[str, int | str | bool]:
        own = {item.name for item in fields(kind)}
        return {name: value for name, value in self.options.items() if name in own}

    @property
    def flags(self) -> str:
        """``--batch 2 --checkpointing full``."""
        known = {item.name: facet(item) for kind in (Workload, Training) for item in fields(kind)}
        given = ((known[name], value) for name, value in self.options.items())
        words = (
            shown.flags[0].split("/")[0] + ("" if value is True else f" {value}") for shown, value in given if shown
        )
        return " ".join(words)


@lru_cache(maxsize=1)
def training_presets() -> Mapping[str, TrainingPreset]:
    """Return all presets, by name."""
    import tomllib  # few ask for one

    found = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return {
        name: TrainingPreset(
            name,
            {key: value for key, value in entry.items() if key not in ABOUT},
            entry["source"],
            entry["revision"],
            tuple(entry["not_modelled"]),
        )
        for name, entry in found.items()
    }


def training_preset(name: str) -> TrainingPreset:
    """The options of a trainer's own config, by its name.

    Args:
        name: such as ``torchtune/full-single-device``.

    Returns:
        Its ``workload`` and its ``training``, to be given to :func:`tfcalc.memory`, perhaps ``replaced``.

    Raises:
        UsageError: for one that is not known, with those that are.

    >>> training_preset("torchtune/lora-single-device").training.lora
    8
    """
    known = training_presets()
    if name not in known:
        raise UsageError(f"preset {quoted(name)} is not known", f"choose {', '.join(known)}")
    return known[name]
