"""A small model's training steps on a GPU, and the bytes that they took. It imports torch."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.cuda.rows import Machine, Measured, used_mib
from tests.cuda.settings import Setting
from tfcalc import load
from tfcalc.configs.published import HFModel
from tfcalc.verify.hugging_face import build

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BACKENDS = {"efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
STEPS = 3
"""The first makes the optimizer's states; the peak is that of the last."""
MIB = 2**20
TIMED = (4, 1.0)
"""Steps that are timed at least, and seconds that are spent on them if they are short."""


def measured(setting: Setting) -> Measured:
    """Train on the first GPU, which no other process is to use, and this one not before (or ``card`` is wrong)."""
    gc.collect()
    torch.cuda.empty_cache()
    before = _card()
    model, inputs = prepared(setting, load_config(setting.model), "cuda")
    saved = None if setting.checkpointing else saved_bytes(setting, model, inputs)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    scaler = torch.amp.GradScaler(enabled=setting.precision == "fp16-mixed")
    held = None
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        held = train_step(setting, model, inputs, optimizer, scaler)
    torch.cuda.synchronize()
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
    card = _card() - before
    del held
    step = partial(train_step, setting, model, inputs, optimizer, scaler)
    seconds = list(step_seconds(step))
    del model, optimizer, step
    torch.cuda.empty_cache()
    scores = softmax_backward(setting) if setting.kernel == "eager" else 0
    return Measured(allocated, reserved, card, saved, scores, median(seconds), min(seconds), max(seconds))


def ran(setting: Setting) -> dict[str, Any]:
    """Whether some steps end, with what they took."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        _train(setting)
        ends = True
    except torch.OutOfMemoryError:
        ends = False
    return {
        "ran": ends,
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "total": torch.cuda.get_device_properties(0).total_memory,
        **asdict(machine()),
    }


def _train(setting: Setting) -> None:
    model, inputs = prepared(setting, load_config(setting.model), "cuda")
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    scaler = torch.amp.GradScaler(enabled=setting.precision == "fp16-mixed")
    held = None
    for _ in range(STEPS):
        held = train_step(setting, model, inputs, optimizer, scaler)
    del held


def step_seconds(step: Callable[[], Any]) -> Iterator[float]:
    """Seconds of steps, each from when the card is idle until it is idle again."""
    least, enough = TIMED
    begin, steps = perf_counter(), 0
    while steps < least or perf_counter() - begin < enough:
        torch.cuda.synchronize()
        before = perf_counter()
        step()
        torch.cuda.synchronize()
        yield perf_counter() - before
        steps += 1


def machine() -> Machine:
    """Where this runs."""
    driver = subprocess.check_output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True)
    return Machine(
        card=torch.cuda.get_device_name(0),
        torch=torch.__version__,
        cuda=str(torch.version.cuda),
        transformers=transformers.__version__,
        driver=f"driver {driver.split()[0]}",
    )


def load_config(preset: str) -> dict[str, Any]:
    """The config that tfcalc has of a preset."""
    model = load(preset)
    assert isinstance(model, HFModel)
    return {**model.config, "architectures": [model.architecture]}


def prepared(setting: Setting, config: Mapping[str, Any], device: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model in training mode, and ids that are their own labels."""
    attention = "eager" if setting.kernel == "eager" else "sdpa"
    usual = torch.get_default_dtype()
    torch.set_default_dtype(FORMATS.get(setting.precision, torch.float32))
    try:
        fields = {**config, "_attn_implementation": attention, "use_cache": False}
        model: Any = build(fields, config["architectures"][0], device=device)
    finally:
        torch.set_default_dtype(usual)
    if setting.base:
        quantize(model)
    if setting.lora:
        adapt(model, setting)
    if setting.backend == "fused":
        import_module("liger_kernel.transformers")._apply_liger_kernel_to_instance(model=model)
    if setting.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if setting.compiled:
        compile_layers(model)
    ids = torch.randint(0, config["vocab_size"], (setting.batch, setting.seq), device=device)
    return model.train(), {"input_ids": ids, "labels": ids.clone()}


def compile_layers(model: Any) -> None:
    """Compile each layer and the loss, as torchtune (training/_compile.py) and torchtitan (parallelize_llama) do."""
    for layer in model.model.layers:
        layer.compile()
    model.loss_function = torch.compile(model.loss_function)


def adapt(model: Any, setting: Setting) -> None:
    """LoRA (arXiv 2106.09685) as peft runs it, ``base(x) + B(A(x)) · scale``, by hooks; all else is frozen."""
    model.requires_grad_(False)
    rank, targets = setting.lora, setting.targets.split(",")
    for path, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and path.rpartition(".")[2] in targets:
            number_format = FORMATS.get(setting.precision, torch.float32)
            like: dict[str, Any] = {"bias": False, "device": layer.weight.device, "dtype": number_format}
            layer.lora_A = nn.Linear(layer.in_features, rank, **like)
            layer.lora_B = nn.Linear(rank, layer.out_features, **like)
            nn.init.zeros_(layer.lora_B.weight)
            layer.register_forward_hook(_add_adapter)


def quantize(model: Any) -> None:
    """Store the linear layers but the head in nf4 with quantized scales, as transformers' ``load_in_4bit`` does."""
    bitsandbytes = import_module("bitsandbytes.nn")

    for path, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear) and layer is not model.get_output_embeddings():
            packed = bitsandbytes.Linear4bit(
                layer.in_features,
                layer.out_features,
                bias=layer.bias is not None,
                compute_dtype=layer.weight.dtype,
                compress_statistics=True,
                quant_type="nf4",
                device="meta",
            )
            packed.bias = layer.bias
            packed.weight = bitsandbytes.Params4bit(
                layer.weight.detach(), requires_grad=False, compress_statistics=True, quant_type="nf4", module=packed
            ).to(layer.weight.device)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, packed)
            del layer
    torch.cuda.empty_cache()


def _add_adapter(layer: Any, given: tuple[Tensor], result: Tensor) -> Tensor:
    return result + layer.lora_B(layer.lora_A(given[0])) * 2.0


def train_step(setting: Setting, model: nn.Module, inputs: Mapping[str, Tensor], optimizer: Any, scaler: Any) -> Any:
    """One step: as in transformers' Trainer, or as in tutorials, whose variable holds the whole output until the next.

    Returns what the loop's variable refers to until it is given that of the next step.
    """
    with chosen_kernel(setting):  # where checkpoints run again, too
        held = forward(setting, model, inputs)
        loss = held if setting.loop == "trainer" else held.loss
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return held


def forward(setting: Setting, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
    """What the loop's variable refers to: the loss, or all of the model's output."""
    device = next(iter(inputs.values())).device.type
    name, _, mixed = setting.precision.partition("-")
    region: AbstractContextManager[Any] = torch.autocast(device, FORMATS[name]) if mixed else nullcontext()
    with region, chosen_kernel(setting):
        out = model(**inputs)
    return out.loss if setting.loop == "trainer" else out


def chosen_kernel(setting: Setting) -> AbstractContextManager[Any]:
    """PyTorch's attention is this kernel within, or fails."""
    return sdpa_kernel(BACKENDS[setting.kernel]) if setting.kernel in BACKENDS else nullcontext()


def saved_bytes(setting: Setting, model: nn.Module, inputs: Mapping[str, Tensor]) -> int:
    """Bytes of the storages that autograd saves, without parameters, buffers and the model's inputs."""
    apart = {_storage(one) for one in (*model.parameters(), *model.buffers(), *inputs.values())}
    with _packed() as tensors:
        held = forward(setting, model, inputs)
    sizes = {_storage(one): one.untyped_storage().nbytes() for one in tensors()}
    del held
    return sum(size for storage, size in sizes.items() if storage not in apart)


@contextmanager
def _packed() -> Iterator[Callable[[], list[Tensor]]]:
    """What is saved within, as long as the graph holds it."""
    from weakref import WeakSet

    held: WeakSet[_Held] = WeakSet()

    def pack(tensor: Tensor) -> _Held:
        one = _Held(tensor.detach())  # a result that an operation saves would hold the operation
        held.add(one)
        return one

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one.tensor):
        yield lambda: [one.tensor for one in held]


class _Held:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def softmax_backward(setting: Setting) -> int:
    """What softmax's backward allocates beside the gradient that it returns, for one layer's scores in fp32."""
    config = load_config(setting.model)
    heads = config.get("num_attention_heads") or config["n_head"]
    scores = torch.zeros(setting.batch, heads, setting.seq, setting.seq, device="cuda", requires_grad=True)
    probabilities = scores.softmax(-1)
    gradient = torch.ones_like(probabilities)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(probabilities, scores, gradient)
    return int(torch.cuda.max_memory_allocated() - before - gradient.untyped_storage().nbytes())


def _card() -> int:
    asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return used_mib(subprocess.check_output(asked, text=True)) * MIB
