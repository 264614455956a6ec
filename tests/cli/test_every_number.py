"""Every number of every answer has a path that ``explain`` opens, and what it opens makes the number."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.budgets.sample import sample
from tests.cli.opened_paths import check
from tests.conftest import Program
from tests.schemas.questions import ROOT
from tfcalc import Training, Workload, compare, explain, load, params
from tfcalc.cli.app import settings_of
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.report.number import Opened
from tools.fuzz.questions import classic

LINES = (
    "compare llama-3-8b mixtral-8x7b t5-small mamba2-780m --serve --context 128",
    "compare gpt2 'gpt2 --layers 6' --only-differences --train --seq 64 --lora 4",
    "compare qwen3-8b gpt-oss-20b clip-vit-base-patch16",
    "diff gpt2 llama-3-8b --seq 64",
    "diff gpt2 'gpt2 --heads 8 --layers 3' --seq 16 --checkpointing full",
    "solve 'attention = ffn' --for seq",
    "solve 'memory <= 4GiB' --for batch gpt2 --train --seq 64",
    "solve 'flops <= 1e24' llama-3-8b --for tokens --train --seq 4k",
    "solve 'params.attention <= 2*params.ffn + 3h' gpt2 --for d_model",
    "solve 'trainable_params <= 1M' gpt2 --for layers --lora 8",
    "why 163M gpt2",
    "why 117M gpt2",
    "why 31.5T --model llama-2-7b --of flops --seq 4096",
    "why 512KB llama-3-8b --of cache",
    "why 'Available KV cache memory: 5.38 GiB GPU KV cache size: 78,384 tokens' gpt-oss-120b",
    "why 'mfu 15.34%' gpt2 --gpu v100",
    "shapes layer llama-3-8b --seq 4k",
    "shapes layer mixtral-8x7b --count all",
    "shapes attention gpt2 --phase decode --cached 1k",
    "memory mixtral-8x7b --serve --tp 2 --pp 2 --ep 2 --context 128",
    "memory llama-3-8b --serve --engine llama.cpp --gpu rtx-4090 --weights q4_k_m --ngl 8",
    "memory llama-3-8b --serve --engine vllm --gpu h100 --profiled 1GiB --nontorch 1GiB",
    "ranks llama-3-8b --tp 2 --pp 4 --grad-accum 8",
    "ranks mixtral-8x7b --tp 2 --sequence-parallel --ep 4 --etp 1 --dp 4 --zero 1",
    "sweep --d-model 512,513",
    "sweep gpt2 --of memory --train --seq 8,16 --batch 1..2",
    "sweep llama-3-8b --of cache --context 8k,32k --concurrency 1..2",
    "plot --kind encoder --over seq=128..4096:x2",
    "plot gpt2 --of memory --over layers=1,2",
    "formula",
    "formula complete --model mixtral-8x7b --lora 4 --of trainable",
    "check mha '4h^2 + 4h'",
    "design --compute 1e21",
    "design 3B --tokens 3T --gpu 1024xh100 --mfu 0.4",
    "design --budget-usd 10000 --gpu h100",
    "design --params 1B --like llama-3-8b --groups 4 --multiple-of 128",
    "design --flops-per-token 2e9 gpt2 --train --seq 1024",
    "explain mha --of time",
    "explain 'what is the KV cache?' gpt2",
    "explain 6nd gpt2 --seq 8",
    "explain attention gpt2 --of flops --train --steps",
    "explain complete gpt2 --of memory --dtype int4",
    "explain memory.peak_bytes gpt2 --train --seq 8",
    "explain diff.rows.total_params.percent gpt2 gpt2-medium --seq 8",
    "quiz --seed 7 --number 3",
    "models --family gpt2",
    "models --supported",
    "models --trainable",
    "flops gpt2 --train --compare-conventions",
    "memory gpt2 --train --seq 64 --gpu 2xh200",
    "memory gpt2 --train --method dpo --seq 64 --lora 4",
    "memory gpt2 --train --method grpo --max-prompt-length 8 --max-completion-length 8 --vllm-mode colocate --gpu h100",
    "memory gpt2 --train --method ppo --max-prompt-length 8 --max-completion-length 8",
    "overview gpt2",
    "report gpt2 --layers 2 --seq 64",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --tokens 1M",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --stack fsdp --pareto --micro-batch 1,2",
    "plan gpt2 --gpu h100 --global-batch-size 64 --seq 64 --tokens 1B --budget-days 1 --zero 1",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --why 'dp=8' 'tp=2 pp=2'",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --why-not 'tp=2 pp=2 full'",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --why-not tp=8",
    "plan llama-3-70b --gpu 8xh100 --global-batch-size 8 --seq 64 --why-not 'tp=2 pp=2'",
    "plan llama-3-70b --gpu 2xh100 --global-batch-size 2 --seq 64",
    "fit gpt2 --lora 4 --seq 64",
    "gpus h100",
    "fit llama-3-8b --serve --context 1k",
    "train gpt2 --tokens 1M --gpu 2xh100 --seq 64 --zero 2",
    "train gpt2 --tokens 1M --seq 64 --precision bf16",
    shlex.join(("calibrate", str(ROOT / "tests" / "timing" / "logs" / "megatron.log"), "--gpu", "a100-80")),
    "serve gpt2 --input 64 --output 16 --concurrency 4 --price 2 --slo tpot=9ms --curve",
    "serve mixtral-8x7b --gpu 2xh100 --floor",
    "serve gpt2-xl --speculate 3@0.7 --draft-model gpt2 --input 64 --output 16",
    "serve bge-m3 --input 64 --concurrency 4 --price 2",
    "train gpt2 --tokens 1M --method dpo --seq 64 --gpu h100",
)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("line", LINES)
def test_every_number_is_opened(line: str) -> None:
    assert check(shlex.split(line))


def sizes(draw: random.Random) -> list[str]:
    """Sizes of a classic Transformer that there is."""
    while True:
        found = classic(draw)
        try:
            settings_of(found, command("params").options).model().tree(Workload())
        except InvalidModel:
            continue
        return found


def drawn() -> Iterator[list[str]]:
    """Questions about classic Transformers of random sizes, of each command that is asked about one."""
    draw = random.Random(15)
    for _ in range(2):
        seq = ["--seq", str(draw.choice([1, 7, 64]))]
        one, *others = (sizes(draw) for _ in range(4))
        yield ["params", *one]
        yield ["flops", *one, *seq, "--train", "--count", draw.choice(["matmul", "all"])]
        yield ["memory", *one]
        yield ["compare", *(" ".join(["transformer-base", *each]) for each in others[:2]), *seq]
        yield ["diff", *(" ".join(["transformer-base", *each]) for each in others[1:]), *seq]
        yield ["solve", f"params >= {draw.choice(['1M', '3B'])}", "--for", "vocab_size", *without(one, "--vocab-size")]
        yield ["solve", "flops / 3 <= 1e12", "--for", "seq", *one]
        yield ["why", draw.choice(["7M", "41,000"]), "--of", "params", *one]
        yield ["shapes", "complete", *one, *seq, "--count", draw.choice(["matmul", "all"])]
        yield ["sweep", *without(one, "--layers"), "--layers", "1..3", "--of", draw.choice(["params", "flops"])]
        yield ["plot", *one, "--over", "batch=1,2,3"]
        yield ["formula", *one]
        yield ["explain", "complete", *one, "--of", draw.choice(["params", "flops", "memory"])]


def without(words: list[str], flag: str) -> list[str]:
    """The words without an option and its value."""
    return [*words[: words.index(flag)], *words[words.index(flag) + 2 :]] if flag in words else words


@pytest.mark.one_in(16)
@pytest.mark.parametrize("words", list(drawn()), ids=shlex.join)
def test_every_number_of_random_models_is_opened(words: list[str]) -> None:
    assert check(words)


def test_every_number_of_budgets_and_of_a_first_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert check(["budget"])["items"]
    assert check(["budget", "--base", "HEAD~1"])
    assert check(["budget", "--update"])
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    assert check(["init"])


@pytest.mark.torch
@pytest.mark.parametrize(
    "line",
    [
        "verify bert-tiny",
        "verify --d-model 16 --heads 2 --layers 1 --of flops --train --seq 8",
        "verify --d-model 16 --heads 2 --layers 1 --of memory --train --seq 8",
        "verify --module tests/verify/modules/layers.py:FFN --args 16,64",
        "verify --of flops --module tests/verify/modules/layers.py:Stack --args 16,2",
        "verify --of memory --module tests/verify/modules/layers.py:Stack --args 16,2",
        "verify --module tests/verify/modules/layers.py:WithData --against mha",
    ],
)
def test_every_number_of_a_verification_is_opened(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert check(shlex.split(line))


def test_every_command_with_an_answer_is_asked() -> None:
    """Schemas have no numbers of their own, and a server gives no answer."""
    asked = {shlex.split(line)[0] for line in LINES} | {words[0] for words in drawn()}
    assert asked | {"budget", "init", "verify", "schema", "web"} == set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        # GPT-2 has 124,439,808 parameters and GPT-2 medium 354,823,168, by transformers
        ("compare.models[1].total_params gpt2 gpt2-medium", 354_823_168),
        ("compare.models.gpt2.total_params gpt2 gpt2-medium", 124_439_808),
        ("compare.rows['total_params'].differences[1] gpt2 gpt2-medium", 354_823_168 - 124_439_808),
        ("diff.rows.total_params.percent gpt2 gpt2-medium --seq 8", 100 * 230_383_360 / 124_439_808),
        # its second model's MLPs: 24 of 2 · 1024 · 4096 weights and 4096 + 1024 biases
        (
            "compare.models.1.total_params.components.transformer.h.mlp.params gpt2 gpt2-medium",
            24 * (2 * 1024 * 4096 + 4096 + 1024),
        ),
        ("params.approx_params gpt2 --approx", 124_439_808 - 121_344),
        ("shapes.results.Q.flops mha --batch 2 --seq 5", 2 * 10 * 512 * 512),
        ("explain.items.0.params attention gpt2", 768 * 3 * 768),
    ],
)
def test_a_number_is_named_by_the_words_of_its_command(tfcalc: Program, words: str, value: float) -> None:
    done = tfcalc("explain", *shlex.split(words.replace("'", '"')), "--json")
    said = json.loads(done.stdout)
    totals = [said[key] for key in ("value", "total_params", "total_flops", "total_bytes") if key in said]
    assert totals == [pytest.approx(value, rel=1e-12)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare.rows.total_parms.values.0 gpt2 gpt2-medium", "did you mean total_params?"),
        ("compare.models gpt2 gpt2-medium", "models is no number but has parts; known: gpt2, gpt2-medium"),
        ("compare.models.0.layers.x gpt2 gpt2-medium", "'x' is not in compare.models.0.layers, which has no parts"),
        ("compare.models.0.name gpt2 gpt2-medium", "is no number but 'gpt2'"),
        ("compare.models.0.total_params.x gpt2 gpt2-medium", "'x' is not in the answer"),
        ("compare.models..layers gpt2 gpt2-medium", "is no number"),
        ("shapes.results.Q.flop mha", "did you mean flops?"),
        ("schema.params", "is no number"),
        ("formula.formula mha --latex", "option --latex is not known"),
        ("budget.failed_count --update", "option --update is not known"),
    ],
)
def test_a_path_that_is_not_there_is_refused(tfcalc: Program, words: str, message: str) -> None:
    done = tfcalc("explain", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_library_opens_the_same_numbers() -> None:
    assert explain("models[1].total_params", compare("gpt2", "gpt2-medium")).answer == 354_823_168
    assert explain("compare.models.1.total_params", compare("gpt2", "gpt2-medium")).lines
    gpt2 = load("gpt2")
    assert explain("total_params", gpt2).answer == params(gpt2).answer
    run = Workload(phase="train", seq_len=8)
    step = explain("memory.peak_bytes", gpt2, workload=run, training=Training())
    assert step.answer == explain("peak_bytes", gpt2, workload=run).answer
    with pytest.raises(UsageError, match="did you mean total_params"):
        explain("params.total_parms", gpt2)
    with pytest.raises(UsageError, match="did you mean models"):
        Opened(compare("gpt2", "gpt2-medium")).open(("model",))
