"""Peers, each in an environment of its own: ``PYTHON peers.py NAME`` reads questions, one a line, and prints answers.

This file imports the standard library and the peer. A peer is asked what its documents say that it answers, with the
facts of the measurement, as its own reading of a config.json takes them. What it raises is no answer, and is recorded
as it says it. Counts of multiply-adds are doubled.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

Question = Mapping[str, Any]
MIB = 2**20


class Refused(Exception):
    """No answer, because the peer's documents say that it has none."""


# --- counters of PyTorch's modules, on the meta device: nothing is allocated


@lru_cache(4)
def _model(text: str, architecture: str, attention: str) -> Any:
    import torch
    import transformers

    fields = json.loads(text)
    config = transformers.AutoConfig.for_model(**fields)
    with torch.device("meta"):
        model = getattr(transformers, architecture)._from_config(config, attn_implementation=attention).eval()
    return model.to(torch.bfloat16) if _has_experts(fields) else model  # their grouped product takes nothing else


def _has_experts(fields: Mapping[str, Any]) -> bool:
    return any(name in fields for name in ("num_experts", "num_local_experts", "n_routed_experts"))


def _built(asked: Question) -> Any:
    attention = "eager" if asked.get("attention", "eager") == "eager" else "sdpa"
    return _model(json.dumps(asked["config"]), asked["architecture"], attention)


def _asked_of(asked: Question) -> Any:
    """The model of a question; of one about memory that of the config's own class."""
    config = asked["config"]
    return _built({"architecture": (config.get("architectures") or ["none"])[0], **asked})


def _inputs(asked: Question) -> dict[str, Any]:
    import torch

    batch, length = asked["batch"], asked["seq"]
    if asked["config"]["model_type"] == "vit":
        size = asked["config"].get("image_size", 224)
        return {"pixel_values": torch.zeros(batch, 3, size, size, device="meta")}
    found = {"input_ids": torch.zeros(batch, length, dtype=torch.long, device="meta")}
    if asked["config"].get("is_encoder_decoder"):
        target = asked.get("target_seq") or length
        found["decoder_input_ids"] = torch.zeros(batch, target, dtype=torch.long, device="meta")
    return found


def _calflops(asked: Question) -> float:
    from calflops import calculate_flops

    found = calculate_flops(model=_built(asked), kwargs=_inputs(asked), print_results=False, output_as_string=False)
    return float(found[0])


def _ptflops(asked: Question) -> float:
    from ptflops import get_model_complexity_info

    found = get_model_complexity_info(
        _built(asked),
        (1,),
        input_constructor=lambda _: _inputs(asked),
        as_strings=False,
        print_per_layer_stat=False,
        backend="aten",
    )
    return 2 * float(found[0])


def _fvcore(asked: Question) -> float:
    import torch
    from fvcore.nn import FlopCountAnalysis

    model, inputs = _built(asked), _inputs(asked)

    class Logits(torch.nn.Module):
        """It traces positional tensors alone."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: Any) -> Any:
            return self.model(**dict(zip(inputs, given, strict=True)), use_cache=False, return_dict=False)[0]

    counted = FlopCountAnalysis(Logits(), tuple(inputs.values()))
    return 2 * float(counted.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total())


def _thop(asked: Question) -> float:
    import torch
    from thop import profile

    model, inputs = _built(asked), _inputs(asked)

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: Any) -> Any:
            return self.model(**dict(zip(inputs, given, strict=True)))[0]

    return 2 * float(profile(Logits(), inputs=tuple(inputs.values()), verbose=False)[0])


def _torchinfo(asked: Question) -> float:
    from torchinfo import summary

    found = summary(_built(asked), input_data=_inputs(asked), verbose=0, device="meta", depth=12)
    return 2 * float(found.total_mult_adds)


def _accelerate(asked: Question) -> float:
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    _told(asked["asked"])
    _only(asked, "allocated", "active")
    if "lora" in asked["asked"]:
        raise Refused("adapters")
    model = _asked_of(asked)
    precision = asked["asked"]["precision"]
    mixed = {"fp32": "float32", "bf16-mixed": "bfloat16", "bf16-autocast": "bfloat16", "fp16-mixed": "float16"}
    if precision not in mixed:
        raise Refused(f"training in {precision} without weights in fp32")
    return float(max(estimate_training_usage(calculate_maximum_sizes(model)[0], mixed[precision]).values()))


QUANTITIES = {
    "active": "what is allocated",
    "allocated": "what is allocated",
    "nvidia-smi": "the whole card",
    "reserved": "what the allocator reserves",
    "saved": "activations alone",
}


def _only(asked: Question, *quantities: str) -> None:
    if asked["quantity"] not in quantities:
        raise Refused(QUANTITIES[asked["quantity"]])


# --- calculators of memory and serving


UNTOLD = {
    **dict.fromkeys(("fsdp", "tp", "gpus", "sequence-parallel"), "several GPUs"),
    "backend": "kernels that fuse a layer or the loss",
    "compile": "compiled models",
    "loss": "a loss in chunks",
    "optimizer-in-backward": "an optimizer that steps within backward",
    "offload-activations": "activations in the memory of the host",
}
"""What none of these calculators of memory can be told."""


def _told(options: Mapping[str, str]) -> None:
    for name, what in UNTOLD.items():
        if name in options:
            raise Refused(what)


CARDS_OF_FITCHECK = {
    "A100": "a100-80",
    "A100-80": "a100-80",
    "A6000": "a6000",
    "NVIDIA H100 80GB HBM3": "h100",
    "RTX 4090": "4090",
    "Tesla T4": "t4",
}


def _fitcheck(asked: Question) -> float:
    from fitcheck import config_parser, estimator

    raw, options = asked["config"], asked.get("asked", {})
    config_parser._reject_unsupported(raw, "model")
    fields = config_parser._parse_fields(raw)
    derived = config_parser._count_params(fields)
    if asked["kind"] == "params":
        return float(derived)
    _told(options)
    _only(asked, "allocated", "active", "nvidia-smi", "saved")
    count = config_parser._reconcile_param_count("model", asked["params"], derived)
    names = ("hidden_size", "num_layers", "num_attention_heads", "num_kv_heads", "intermediate_size", "vocab_size")
    sizes = {name: getattr(fields, name) for name in (*names, "head_dim", "tie_word_embeddings")}
    config = config_parser.ModelConfig(name="model", num_params=count, **sizes)
    precision, *mixed = options["precision"].split("-")
    if asked["archive"] == "fitcheck":
        precision = "fp16"  # its own measurements: so it calls what they computed in
    checkpointing = options.get("checkpointing", "none")
    if checkpointing not in ("none", "full"):
        raise Refused(f"checkpointing {checkpointing}")
    base = options.get("base-weights", "none")
    optimizers = {"adamw": "adamw", "adamw-forloop": "adamw", "adamw-8bit": "adam8bit"}
    training = estimator.TrainingConfig(
        precision=precision,
        quantization=base.removesuffix("-dq"),
        double_quant=base.endswith("-dq"),
        optimizer=optimizers.get(options.get("optimizer", "adamw"), options.get("optimizer", "")),
        optimizer_dtype="fp32" if mixed or "lora" in options else precision,
        batch_size=int(options.get("batch", "1")),
        seq_len=int(options["seq"]),
        lora_rank=int(options["lora"]) if "lora" in options else None,
        grad_checkpoint=checkpointing == "full",
        flash_attn=options.get("attention-kernel", "flash") != "eager",
        **({"lora_targets": options["lora-targets"].split(",")} if "lora-targets" in options else {}),
    )
    if asked["quantity"] == "saved":
        return float(estimator._compute_components(config, training).activation_mib * MIB)
    parts = estimator._compute_components(config, training, CARDS_OF_FITCHECK.get(asked["card"]))
    overhead = 0 if asked["quantity"] in ("allocated", "active") else parts.overhead_mib
    return float(parts.total_mib - parts.overhead_mib + overhead) * MIB


def _vramcalc(asked: Question) -> float:
    from vramcalc import estimate
    from vramcalc.loaders import load_arch

    config, options = dict(asked["config"]), asked.get("asked", {})
    if asked["kind"] == "params":
        return float(load_arch(config).param_count())
    _told(options)
    _only(asked, "allocated", "active", "nvidia-smi", "saved")
    if options.get("base-weights"):
        raise Refused("quantized weights")
    targets = options.get("lora-targets", "q_proj,k_proj,v_proj,o_proj").split(",")
    if "lora" in options and sorted(targets) != ["k_proj", "o_proj", "q_proj", "v_proj"]:
        raise Refused(f"LoRA on {', '.join(targets)}")
    if options.get("checkpointing", "none") not in ("none", "full"):
        raise Refused("selective checkpointing")
    precision = options["precision"]
    kernels = {"eager": "eager", "flash": "flash", "efficient": "sdpa"}
    found = estimate(
        config,
        mode="train",
        dtype=precision.split("-")[0],
        batch=int(options.get("batch", "1")),
        seq_len=int(options["seq"]),
        lora_rank=int(options["lora"]) if "lora" in options else None,
        grad_checkpoint=options.get("checkpointing") == "full",
        optimizer=options.get("optimizer", "adamw").replace("-forloop", ""),
        precision="amp" if precision.endswith(("mixed", "autocast")) else "pure",
        attn_impl=kernels[options.get("attention-kernel", "flash")],
    )
    if asked["quantity"] == "saved":
        return float(found.activations)
    return float(found.total + (found.overhead if asked["quantity"] == "nvidia-smi" else 0))


CARDS_OF_SERVCALC = {
    "A100-PCIe-80": "A100 80GB",
    "A100-SXM-80": "A100 80GB",
    "A40": "A40",
    "B200-HGX": "B200",
    "H100-PCIe": "H100 80GB",
    "H100-SXM": "H100 80GB",
    "H200-SXM": "H200",
    "L40S": "L40S",
    "RTX-3070": "RTX 3070",
    "RTX-3080": "RTX 3080",
    "RTX-3080Ti": "RTX 3080 Ti",
    "RTX-3090": "RTX 3090",
    "RTX-3090Ti": "RTX 3090 Ti",
    "RTX-4070Ti": "RTX 4070 Ti",
    "RTX-4080": "RTX 4080",
    "RTX-4090": "RTX 4090",
    "RTX-6000-Ada": "RTX 6000 Ada",
    "RTX-A6000": "RTX A6000",
}


def _servcalc(asked: Question) -> float:
    from servcalc import Workload, estimate
    from servcalc.profiles import ollama, vllm

    row = asked["row"]
    if any(int(row[name]) > 1 for name in ("tp", "pp", "dp", "ep")):
        raise Refused("several GPUs")
    if row["gpu"] not in CARDS_OF_SERVCALC:
        raise Refused(f"the GPU {row['gpu']}")
    formats = {"q4_k_m": "gguf_q4_k_m", "fp16": None, "bf16": None, "fp8": "fp8"}
    if row["engine"] not in ("vllm", "llama.cpp") or row["weights"] not in formats:
        raise Refused(f"the engine {row['engine']}, or {row['weights']}")
    requests = max(1, round(float(row["requests"])))
    output = int(row["output"]) or 1024
    length = max(1, int(row["input"])) + output
    weights = formats[row["weights"]]
    profile = vllm(quant=weights) if row["engine"] == "vllm" else ollama(requests, length, weights)
    config = {name: value for name, value in asked["config"].items() if name != "quantization_config"}
    loads = Workload(max(1, int(row["input"])), max(2, output), (requests,))
    point = estimate(config, CARDS_OF_SERVCALC[row["gpu"]], workload=loads, profile=profile).points[0]
    return float((point.itl_ms if asked["kind"] == "token" else point.ttft_ms).mid)


# --- llm-analysis

CARDS_OF_LLM_ANALYSIS = {
    "A100-40": "a100-sxm-40gb",
    "A100-80": "a100-sxm-80gb",
    "A100": "a100-sxm-80gb",
    "A100-PCIe-80": "a100-pcie-80gb",
    "A100-SXM-80": "a100-sxm-80gb",
    "A6000": "a6000-48gb",
    "H100-PCIe": "h100-pcie-80gb",
    "H100-SXM": "h100-sxm-80gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm-80gb",
    "RTX-A6000": "a6000-48gb",
}
FOR_TRAINING, FOR_INFERENCE = {"flops_efficiency": 0.5}, {"flops_efficiency": 0.7, "hbm_memory_efficiency": 0.9}
"""What its README says to assume where nothing was benchmarked."""


@cache
def _read_by_llm_analysis(text: str) -> Any:
    """Its own reading of a config.json: inner sizes and experts are not among what it reads."""
    from llm_analysis.config import get_model_config_from_hf

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")
        return get_model_config_from_hf(folder)


def _llm_analysis(asked: Question) -> float:
    from llm_analysis import analysis
    from llm_analysis.config import DtypeConfig, ModelConfig, ParallelismConfig, gpu_configs

    kind = asked["kind"]
    if kind == "step":
        row, arch = asked["row"], asked["row"]["arch"]
        experts = arch.get("E") or 0
        inner = (arch["fe"] if experts else arch["f"]) * (1.5 if arch["gated"] else 1)  # it has two matrices, not three
        config = ModelConfig(
            name="model",
            num_layers=row["layers"],
            n_head=arch["a"],
            hidden_dim=arch["h"],
            vocab_size=arch["V"],
            max_seq_len=row["seq"],
            num_key_value_heads=arch["g"],
            ffn_embed_dim=inner,
            expansion_ratio=inner / arch["h"],
            moe_num_experts=experts or 1,
            moe_top_k=arch.get("k", 1),
        )
        layout = ParallelismConfig(
            row["tp"], row["pp"], row["dp"], row["ep"] if experts else 1, row["tp"] if row["sp"] else 1
        )
        if row["cp"] > 1:
            raise Refused("context parallelism")
        if row["precision"] not in ("bf16", "fp16"):
            raise Refused(f"training in {row['precision']}")
        one = analysis.LLMAnalysis(config, gpu_configs[_card(row["gpu"])], DtypeConfig(), layout, **FOR_TRAINING)
        recompute = {"none": 0, "selective": 1, "full": 2}[row.get("recompute") or "none"]
        found = one.training(
            batch_size_per_gpu=row["micro_batch"],
            global_batch_size=row["global_batch"],
            seq_len=row["seq"],
            activation_recomputation=analysis.ActivationRecomputation(recompute),
            ds_zero=analysis.DSZeRO(row["zero"]),
            mlp_gated_linear_units=arch["gated"],
        )
        return float(found["latency_per_iter"])
    config = _read_by_llm_analysis(json.dumps(asked["config"]))
    some = gpu_configs["a100-sxm-80gb"]
    if kind == "params":
        return float(analysis.LLMAnalysis(config, some).total_num_params)
    if kind == "flops":
        return float(analysis.LLMAnalysis(config, some).get_num_flops_fwd_total(asked["batch"], asked["seq"]))
    if kind == "memory":
        options = asked["asked"]
        _told(options)
        _only(asked, "allocated", "active", "saved")
        if "lora" in options or options.get("base-weights"):
            raise Refused("adapters")
        precision, checkpointing = options["precision"], options.get("checkpointing", "none")
        bits = 32 if precision == "fp32" else 16
        if checkpointing not in ("none", "full"):
            raise Refused("checkpointing of chosen operations")
        one = analysis.LLMAnalysis(
            config, gpu_configs[_card(asked["card"])], DtypeConfig("asked", bits, bits, bits), **FOR_TRAINING
        )
        found = one.training(
            batch_size_per_gpu=int(options.get("batch", "1")),
            gradient_accumulation_steps=1,
            seq_len=int(options["seq"]),
            activation_recomputation=analysis.ActivationRecomputation(2 if checkpointing == "full" else 0),
            master_weights_dtype_bytes=0 if precision in ("fp32", "bf16", "fp16") else 4,
            other_op_bytes=8 if precision not in ("bf16", "fp16") else 4,
            flash_attn=options.get("attention-kernel", "flash") != "eager",
        )
        if asked["quantity"] == "saved":
            return float(found["activation_memory_per_gpu"])
        return float(found["(weight+op_state+grad+act)_memory_per_gpu"])
    row = asked["row"]
    if int(row["dp"]) > 1 or int(row["ep"]) > 1:
        raise Refused("replicas of attention, or groups of experts")
    width = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4}.get(row["weights"])
    if width is None:
        raise Refused(f"weights in {row['weights']}")
    tp, pp = int(row["tp"]), int(row["pp"])
    layout, numbers = ParallelismConfig(tp, pp, 1, 1, tp), DtypeConfig("asked", width, 16, 16)
    one = analysis.LLMAnalysis(config, gpu_configs[_card(row["gpu"])], numbers, layout, **FOR_INFERENCE)
    found = one.inference(
        batch_size_per_gpu=max(1, round(float(row["requests"]))),
        seq_len=max(1, int(row["input"])),
        num_tokens_to_generate=int(row["output"]) or 1024,
        kv_cache_dtype_bytes=1 if row["kv"] == "fp8" else 2,
    )
    return 1000 * float(found["decode_latency"] if kind == "token" else found["prefill_latency"])


def _card(name: str) -> str:
    if name not in CARDS_OF_LLM_ANALYSIS:
        raise Refused(f"the GPU {name}")
    return CARDS_OF_LLM_ANALYSIS[name]


# --- NVIDIA's AIConfigurator


@cache
def _estimated(text: str) -> Any:
    from aiconfigurator.cli.api import cli_estimate  # type: ignore[import-not-found]

    from benchmarks.beside_aiconfigurator import version_of_tables

    one = json.loads(text)
    return cli_estimate(**one["asked"], **version_of_tables(one))


def _aiconfigurator(asked: Question) -> float:
    if asked["asked"] is None:
        raise Refused("a GPU, engine, model or format without tables")
    found = _estimated(json.dumps({"asked": asked["asked"], "version": asked["version"]}))
    return float(found.tpot if asked["kind"] == "token" else found.ttft)


PEERS: Mapping[str, tuple[Callable[[Question], float], tuple[str, ...]]] = {
    "accelerate": (_accelerate, ("memory",)),
    "aiconfigurator": (_aiconfigurator, ("token", "first token")),
    "calflops": (_calflops, ("flops",)),
    "fitcheck-llm": (_fitcheck, ("params", "memory")),
    "fvcore": (_fvcore, ("flops",)),
    "llm-analysis": (_llm_analysis, ("params", "flops", "memory", "token", "first token", "step")),
    "ptflops": (_ptflops, ("flops",)),
    "servcalc": (_servcalc, ("token", "first token")),
    "thop": (_thop, ("flops",)),
    "torchinfo": (_torchinfo, ("flops",)),
    "vramcalc": (_vramcalc, ("params", "memory")),
}
"""Peers by the name of their package: who answers, and what kinds of questions it is asked."""


COUNTERS = ("accelerate", "calflops", "fvcore", "ptflops", "thop", "torchinfo")
"""Peers that change PyTorch's functions, and leave them changed where they fail: a process of its own asks each."""


def alone(name: str, asked: Question) -> dict[str, Any]:
    """The same in a process of its own, which begins with the model built, and what that needs read."""
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        _asked_of(asked)
        import_module(name.replace("-", "_"))
    receiver, sender = os.pipe()
    if not (child := os.fork()):
        with os.fdopen(sender, "w") as out:
            json.dump(answered(name, asked), out)
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as told:
        text = told.read()
    os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {"id": asked["id"], "refused": "its process died"}


def answered(name: str, asked: Question) -> dict[str, Any]:
    """What a peer says: a number, or why it says none, and the CPU seconds that it took."""
    start = time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found: dict[str, Any] = {"answer": PEERS[name][0](asked)}
    except Refused as reason:
        found = {"refused": f"not among what it models: {reason}"}
    except (Exception, SystemExit) as error:  # whatever it raises is no answer
        found = {"refused": f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]}
    return {"id": asked["id"], **found, "seconds": round(time.process_time() - start, 3)}


def main(name: str) -> None:
    """Answer the questions of standard input. First is said which version answers."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    print(json.dumps({"peer": name, "version": metadata.version(name)}), flush=True)
    ask = alone if name in COUNTERS else answered
    for line in sys.stdin:
        print(json.dumps(ask(name, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
