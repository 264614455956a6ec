"""The command line and the library are two doors to one answer: the same defaults, the same numbers, the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tfcalc import (
    Conventions,
    Serving,
    Training,
    Transformer,
    Workload,
    fits,
    flops,
    formula,
    load,
    memory,
    params,
    plot,
    sweep,
    why,
)
from tfcalc.cli.main import main

TRAIN = Workload(phase="train")
Asked = Callable[[], Any]


def ask(question: Callable[..., Any], name: str | None, *arguments: Any, **more: Any) -> Asked:
    """A question to the library, about a preset by its name, or about the classic model; asked when it is called."""
    return lambda: question(load(name) if name else Transformer(), *arguments, **more)


QUESTIONS: dict[str, Asked] = {
    "why 163M gpt2": lambda: why("163M", load("gpt2")),
    "why 31.5T llama-2-7b --of flops --seq 4096": lambda: why(
        "31.5T", load("llama-2-7b"), "flops", Workload(seq_len=4096)
    ),
    "why 12.6GB llama-2-7b": lambda: why("12.6GB", load("llama-2-7b")),
    "params": ask(params, None),
    "params --d-model 768 --heads 12 --kind decoder": lambda: params(
        Transformer(d_model=768, n_heads=12, kind="decoder")
    ),
    "params llama-3-8b": ask(params, "llama-3-8b"),
    "params deepseek-v3 --depth 2": ask(params, "deepseek-v3", depth=2),
    "params whisper-tiny": ask(params, "whisper-tiny"),
    "params mamba2-780m --approx": ask(params, "mamba2-780m", approx=True),
    "flops": ask(flops, None),
    "flops --train --seq 1k --batch 8": ask(flops, None, Workload(phase="train", seq_len=1024, batch_size=8)),
    "flops bert-base-uncased": ask(flops, "bert-base-uncased"),
    "flops gpt2 --train --checkpointing full": ask(flops, "gpt2", TRAIN.replaced(seq_len=1024, recompute="full")),
    "flops t5-small --train --count all": ask(flops, "t5-small", TRAIN, Conventions(count="all")),
    "flops llama-3-8b --phase prefill --seq 8k --logits last": ask(
        flops, "llama-3-8b", Workload(phase="prefill", seq_len=8192, logits="last")
    ),
    "flops llama-3-8b --phase decode --cached 8k --batch 32": ask(
        flops, "llama-3-8b", Workload(seq_len=4096, phase="decode", cached=8192, batch_size=32)
    ),
    "flops mixtral-8x7b --attention causal": ask(flops, "mixtral-8x7b", Workload(seq_len=4096, attention="causal")),
    "flops deepseek-v2-lite --phase decode --cached 4k --mla absorbed": ask(
        flops, "deepseek-v2-lite", Workload(seq_len=4096, phase="decode", cached=4096, latent="absorbed")
    ),
    "flops vit-base-patch16-224": ask(flops, "vit-base-patch16-224"),
    "memory": ask(memory, None),
    "memory --dtype bf16": ask(memory, None, None, Conventions(dtype="bf16")),
    "memory llama-3-8b": ask(memory, "llama-3-8b"),
    "memory gpt-oss-20b": ask(memory, "gpt-oss-20b"),
    "memory llama-3-8b --weights nf4 --units si": ask(
        memory, "llama-3-8b", None, Conventions(units="si"), weights="nf4"
    ),
    "memory mamba-1.4b --dtype fp16": ask(memory, "mamba-1.4b", None, Conventions(dtype="fp16")),
    "memory --train": ask(memory, None, training=Training()),
    "memory --train --phase train": ask(memory, None, TRAIN),
    "memory gpt2 --train --batch 8 --seq 1024": ask(
        memory, "gpt2", Workload(batch_size=8, seq_len=1024), training=Training()
    ),
    "memory llama-3-8b --train --seq 4k --precision bf16-mixed --gradient-checkpointing": ask(
        memory,
        "llama-3-8b",
        Workload(seq_len=4096, recompute="full"),
        training=Training(precision="bf16-mixed"),
    ),
    "memory llama-3-8b --train --qlora": ask(memory, "llama-3-8b", training=Training(lora=16, base_weights="nf4-dq")),
    "memory llama-3-8b --train --fsdp --gpus 8 --grad-accum 4 --optimizer adamw": ask(
        memory, "llama-3-8b", training=Training(zero="3", layout="fsdp2", gpus=8, grad_accum=4, optimizer="adamw")
    ),
    "memory bert-base-uncased --train --attention-kernel eager --no-dropout": ask(
        memory, "bert-base-uncased", Workload(kernel="eager", dropout=False), training=Training()
    ),
    "memory gpt-3-175b --train --backend megatron --tp 8 --pp 4 --seq 2k": ask(
        memory,
        "gpt-3-175b",
        Workload(seq_len=2048),
        training=Training(backend="megatron", tensor_parallel=8, pipeline_parallel=4),
    ),
    "memory gpt2 --serve": ask(memory, "gpt2", serving=Serving()),
    "memory llama-3-8b --serve --context 8k --concurrency 16 --kv fp8": ask(
        memory, "llama-3-8b", serving=Serving(context=8192, concurrency=16, kv="fp8")
    ),
    "memory qwen3-8b --serve --cache dynamic --weights int4": ask(
        memory, "qwen3-8b", serving=Serving(cache="dynamic", weights="int4")
    ),
    "memory mixtral-8x7b --serve --context 4k --dtype bf16": ask(
        memory, "mixtral-8x7b", None, Conventions(dtype="bf16"), serving=Serving(context=4096)
    ),
    "memory gpt2 --budget 300MB": ask(fits, "gpt2", "300MB"),
    "memory gpt2 --train --batch 32 --seq 1024 --budget 24GB": ask(
        fits, "gpt2", "24GB", Workload(batch_size=32, seq_len=1024), training=Training()
    ),
    "memory llama-3-8b --serve --context 8k --concurrency 4 --budget 80GB": ask(
        fits, "llama-3-8b", "80GB", serving=Serving(context=8192, concurrency=4)
    ),
    "formula mha": partial(formula, "mha"),
    "formula encoder-layer --of flops --train": partial(formula, "encoder-layer", "flops", None, TRAIN),
    "formula layer --model qwen3-8b --of memory": lambda: formula("layer", "memory", load("qwen3-8b")),
    "formula ffn --general --substitute h=512,f=1k": partial(
        formula, "ffn", general=True, substitute={"h": 512, "f": 1000}
    ),
    "formula activations --of memory --model gpt2 --train --precision bf16": lambda: formula(
        "activations", "memory", load("gpt2"), training=Training(precision="bf16")
    ),
}
"""What is typed, and what is called."""


DECODE = Workload(phase="decode")
SWEPT: dict[str, Asked] = {
    "sweep --d-model 512,513,768 --layers 6,12": ask(sweep, None, d_model=[[512], [513], [768]], n_layers=[6, 12]),
    "sweep gpt2 --lora 4,8 --of trainable": ask(sweep, "gpt2", "trainable", training=Training(lora=4), lora=[4, 8]),
    "sweep llama-3-8b --of flops --phase decode --cached 1k,4k --batch 1..3": ask(
        sweep, "llama-3-8b", "flops", DECODE, cached=[1024, 4096], batch_size=[[1], [2], [3]]
    ),
    "sweep mixtral-8x7b --of memory --dtype int4 --layers 8..32:x2": ask(
        sweep, "mixtral-8x7b", "memory", None, Conventions(dtype="int4"), n_layers=[8, 16, 32]
    ),
    "sweep gpt2 --of memory --train --optimizer sgd --seq 64,1024": ask(
        sweep, "gpt2", "memory", TRAIN, training=Training(optimizer="sgd"), seq_len=[64, 1024]
    ),
    "sweep llama-3-8b --of memory --serve --weights int4 --context 1k,8k": ask(
        sweep, "llama-3-8b", "memory", serving=Serving(weights="int4"), context=[1024, 8192]
    ),
    "sweep qwen3-8b --of cache --kv fp8 --context 1k..4k:x2 --concurrency 1,16": ask(
        sweep,
        "qwen3-8b",
        "cache",
        serving=Serving(kv="fp8"),
        context=[[1024], [2048], [4096]],
        concurrency=[1, 16],
    ),
}
GROWN: dict[str, Asked] = {
    "plot --kind encoder --over seq=128..4096:x2": lambda: plot(
        Transformer(kind="encoder"), "seq_len", [128, 256, 512, 1024, 2048, 4096]
    ),
    "plot gpt2 --of params --over d_model=192..768:x2 --parts attention,ffn,embedding": ask(
        plot, "gpt2", "d_model", [192, 384, 768], ["attention", "ffn", "embedding"], "params"
    ),
    "plot llama-3-8b --of memory --dtype bf16 --over layers=8,32": ask(
        plot, "llama-3-8b", "n_layers", [8, 32], (), "memory", None, Conventions(dtype="bf16")
    ),
    "plot mixtral-8x7b --over seq=1k..64k:x4 --train --attention causal --shares": ask(
        plot,
        "mixtral-8x7b",
        "seq_len",
        [1024, 4096, 16384, 65536],
        workload=TRAIN.replaced(attention="causal"),
        shares=True,
    ),
}


def test_there_are_forty_questions() -> None:
    assert len(QUESTIONS) >= 40


@pytest.mark.parametrize("line", QUESTIONS)
def test_the_command_line_and_the_library_agree(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All of the answer, its conventions included; and what -q prints is what the library calls the answer."""
    monkeypatch.chdir(tmp_path)  # away from any settings file
    ours = QUESTIONS[line]()
    assert main([*line.split(), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(ours.to_dict()))
    assert main([*line.split(), "-q"]) in (0, 1)
    answer = getattr(ours, "report", ours)
    assert capsys.readouterr().out.strip() == str(getattr(answer, "answer", answer))


@pytest.mark.parametrize("line", SWEPT)
def test_both_doors_sweep_alike(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same columns in whatever order the sizes were given, the same points without an answer."""
    monkeypatch.chdir(tmp_path)
    ours = SWEPT[line]()
    assert main([*line.split(), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    columns = {column["name"]: column["values"] for column in answer["columns"]}
    points = [sorted(map(str, row.items())) for row in _rows(columns)]
    assert sorted(points) == sorted(sorted(map(str, row.items())) for row in _rows(ours.to_dict()))
    assert {column["name"]: column["unit"] for column in answer["columns"]} == ours.units
    assert [each["message"] for each in answer["refused"]] == [each.error.message for each in ours.refused]
    assert main([*line.split(), "-q"]) == 0
    said = ["-" if value is None else str(value) for value in columns[ours.key]]
    assert capsys.readouterr().out.split() == said


def _rows(columns: dict[str, list[int | None]]) -> list[dict[str, int | None]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("line", GROWN)
def test_both_doors_plot_alike(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    ours = GROWN[line]()
    assert main([*line.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(ours.to_dict()))
    if not ours.shares:
        assert main([*line.split(), "-q"]) == 0
        assert capsys.readouterr().out.split() == ([str(each.at) for each in ours.crossings] or ["none"])
