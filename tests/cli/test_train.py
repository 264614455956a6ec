"""``tfcalc train``: does it fit, how long does it take, what does it cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Quick
from tests.laws.train_grid import CARDS, MODES, PRESETS, asked, drawn
from tfcalc import Training, Workload, train
from tfcalc.timing.rates import table

LORA = ("train", "llama-3-8b", "--lora", "16", "--tokens", "100M", "--gpu")


def test_the_first_line_has_hours_and_money(quick: Quick) -> None:
    """Verdict, hours with a band, GPU hours, dollars."""
    line = quick(*LORA, "h100").stdout.splitlines()[0]
    assert line.startswith("FITS: 100M tokens in ")
    assert " hours (" in line
    assert line.endswith(" USD")


@pytest.mark.long
def test_presets_on_cards_answer_or_refuse_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 of the 1,200 questions of tests.laws.train_grid: each preset in full, by LoRA and by QLoRA, on three GPUs.

    A band where runs on such a GPU are known; else a floor or a refusal that says why.
    """
    monkeypatch.setenv("COLUMNS", "200")  # a line of an answer, however long
    cases = list(drawn())
    assert len(set(PRESETS)) == 40
    assert {(case.preset, case.mode) for case in cases} == {(name, mode) for name in PRESETS for mode in MODES}
    assert {(case.card, case.mode) for case in cases} == {(card, mode) for card in CARDS for mode in MODES}
    kinds = {case: asked(case).kind for case in cases}
    assert [case for case, kind in kinds.items() if kind == "NEITHER"] == []
    with_band = {case.card for case, kind in kinds.items() if kind == "band"}
    assert with_band == {"a100-40", "a100-80", "h100", "h200", "b200"}


def test_a_card_without_a_peak_has_no_time_and_says_so(quick: Quick) -> None:
    """A TPU v5p, whose peak in fp32 is not published: what fits is known, and nothing else."""
    done = quick("train", "xlm-roberta-base", "--tokens", "100M", "--gpu", "tpuv5p")
    assert done.stdout.splitlines()[0] == "FITS; how long 100M tokens take is not known"
    assert "nothing is estimated" in done.stdout


def test_hours_follow_from_the_step(quick: Quick) -> None:
    """100M tokens in steps of 4,096; dollars at a price that was given."""
    run = json.loads(quick(*LORA, "h100", "--price", "2", "--json").stdout)["run"]
    assert run["tokens_per_step"] == 4096
    hours = 10**8 / 4096 * run["step_seconds"] / 3600
    assert run["hours"] == pytest.approx(hours)
    assert run["cost"] == pytest.approx(2 * hours)
    assert run["floor_hours"] < run["hours_low"] < run["hours"] < run["hours_high"]


def test_hours_and_money_are_opened_down_to_the_step(quick: Quick) -> None:
    """100M tokens are 24,414.0625 steps of 4,096; hours are these times a step, money hours at their price."""
    words = ("llama-3-8b", "--lora", "--tokens", "100M", "--gpu", "h100", "--price", "2", "--json")
    hours, cost, rate = (
        json.loads(quick("explain", f"train.run.{key}", *words).stdout)
        for key in ("hours", "cost", "tokens_per_second")
    )
    steps, seconds, of_an_hour = (term["value"] for term in hours["terms"])
    assert (steps, of_an_hour) == (1e8 / 4096, 3600)
    assert hours["value"] == pytest.approx(steps * seconds / 3600)
    assert cost["value"] == pytest.approx(2 * hours["value"])
    assert rate["value"] == pytest.approx(4096 / seconds)
    assert [term["path"] for term in cost["terms"]] == ["train.run.gpu_hours", "train.run.price_per_gpu_hour"]


def test_the_run_that_is_told_is_the_one_that_fits(quick: Quick) -> None:
    """An 8B model in full does not fit 24 GB: hours and the line below are those of QLoRA, and nothing is estimated."""
    first, second, *_ = quick("train", "llama-3-8b", "--tokens", "100M", "--gpu", "rtx-4090").stdout.splitlines()
    assert first.startswith("DOES NOT FIT; fits with --qlora 16: ")
    assert second.startswith("llama-3-8b, QLoRA r=16, ")
    assert "rates" not in quick("train", "llama-3-8b", "--tokens", "100M", "--gpu", "rtx-4090", "--assumptions").stdout


def test_seconds_of_a_step_are_opened(quick: Quick) -> None:
    """By rates they are the sum of parts; by a share of the peak FLOPs over that; else as they were said."""
    step = ("explain", "train.run.step_seconds", "llama-3-8b", "--lora", "--tokens", "100M", "--json", "--gpu")
    estimate = json.loads(quick(*step, "h100").stdout)
    assert sum(term["value"] for term in estimate["terms"]) == pytest.approx(estimate["value"])
    rates = table()
    product, memory = rates["stacks"]["transformers"]["hopper"]["product"], rates["machine"]["memory"]
    told = " and ".join(term["what"] for term in estimate["terms"])
    assert f"matrix products with weights: at {100 * product:.3g} % of 989.4 TFLOP/s" in told  # NVIDIA's data sheet
    moved = next(term for term in estimate["terms"] if "all tensors that are made" in term["what"])
    times, size = map(float, re.findall(r": ([\d.]+) times ([\d.]+) GB", moved["what"])[0])
    assert moved["value"] == pytest.approx(times * size * 1e9 / (memory * 3.35e12), rel=5e-3)
    assert "rates of transformers" in estimate["note"]
    share = json.loads(quick(*step, "rtx-4090", "--mfu", "35%").stdout)
    flops, peak, gpus, mfu = (term["value"] for term in share["terms"])
    assert (peak, gpus, mfu) == (165.2e12, 1, 0.35)
    assert share["value"] == pytest.approx(flops / (peak * mfu))
    said = json.loads(quick(*step, "rtx-4090", "--tokens-per-second", "1500").stdout)
    assert said["value"] == pytest.approx(4096 / 1500)
    assert [term["value"] for term in said["terms"]] == [4096, 1500]
    assert json.loads(quick(*step, "rtx-4090", "--step-time", "3").stdout)["note"] == "given by --step-time"


def test_flops_of_a_step_are_opened_down_to_matrices(quick: Quick) -> None:
    """GPT-2, two sequences of 8 tokens on each of two GPUs: 2 FLOPs forward, and 4 backward, of its matrices' weights
    and of visible pairs (QKᵀ and their mean, 12 heads of 64 in 12 layers)."""
    sizes = ("gpt2", "--tokens", "1M", "--gpu", "2xa100-80", "--seq", "8", "--batch", "2", "--json")
    found = json.loads(quick("explain", "train.run.step_flops", *sizes).stdout)
    matrices, pairs, tokens = 12 * 12 * 768**2 + 50257 * 768, 12 * 2 * 768 * (8 + 1) / 2, 2 * 2 * 8
    assert found["value"] == 6 * (matrices + pairs) * tokens
    passes = {term["path"].rpartition(".")[2]: term["value"] for term in found["terms"]}
    assert (passes["forward_flops"], passes["backward_flops"]) == (found["value"] / 3, 2 * found["value"] / 3)
    forward = json.loads(quick("explain", "train.run.step_flops.forward_flops", *sizes).stdout)
    head = next(item for item in forward["items"] if "X W_vocab" in item["names"])
    assert head["flops"] == 2 * tokens * 768 * 50257


def test_a_speed_that_was_said_is_said_again_and_is_no_estimate(quick: Quick) -> None:
    words = (*LORA, "rtx-4090", "--assumptions")
    for option, told in (("--mfu 35%", "35 % of the peak"), ("--tokens-per-second 1500", "1,500 tokens/s")):
        said = quick(*words, *option.split()).stdout
        assert f" hours at {told}, " in said.splitlines()[0]
        assert f"seconds: {told}, as it was said" in said
        assert "rates.toml" not in said


def test_the_floor_by_hand(quick: Quick) -> None:
    """GPT-2: 6 FLOPs for each of its 123,653,376 matrix weights and each token (its tables of tokens are the head's, of
    positions add nothing), and 12 n h l for visible pairs, about half of all; a dense peak of 312 TFLOP/s.
    """
    words = ("train", "gpt2", "--tokens", "10B", "--gpu", "a100-80", "--seq", "1024", "--checkpointing", "none")
    run = json.loads(quick(*words, "--precision", "bf16", "--json").stdout)["run"]
    matrices = 12 * 12 * 768**2 + 50257 * 768
    pairs = 12 * 12 * 768 * (1024 + 1) / 2
    assert run["floor_hours"] == pytest.approx(10**10 * (6 * matrices + pairs) / 312e12 / 3600, rel=1e-6)


def test_the_cheapest_change_is_taken(quick: Quick) -> None:
    """What does not fit as asked is timed with the change that ``memory`` lists first; its exit code is 1."""
    words = ("llama-3-8b", "--train", "--gpu", "rtx-4090", "--json")
    first = json.loads(quick("memory", *words).stdout)["changes"][0]["flags"]
    found = quick("train", "llama-3-8b", "--tokens", "1B", "--gpu", "rtx-4090", "--json")
    assert found.returncode == 1
    run = json.loads(found.stdout)["run"]
    assert run["change"] == first
    assert run["status"] == "no"


def test_a_card_without_rates_has_a_floor_alone(quick: Quick) -> None:
    """No estimate where no run is known; --mfu says hours."""
    words = ("train", "gpt2", "--tokens", "10B", "--gpu", "rtx-4090", "--precision", "bf16")
    run = json.loads(quick(*words, "--json").stdout)["run"]
    assert "hours" not in run
    assert "No run on RTX-4090 is known" in quick(*words).stdout
    at = json.loads(quick(*words, "--mfu", "40%", "--attention", "causal", "--json").stdout)["run"]
    assert at["hours"] == pytest.approx(run["floor_hours"] / 0.4)
    assert at["mfu"] == pytest.approx(0.4)


def test_a_floor_says_that_it_is_one_with_its_money_and_what_a_share_of_the_peak_gives(quick: Quick) -> None:
    """The floor's hours cost what they do at 0.40 USD, and are opened; hours at 35 % are those that --mfu 35% gives."""
    words = (*LORA, "rtx-4090", "--price", "0.4")
    run = json.loads(quick(*words, "--json").stdout)["run"]
    assert run["floor_cost"] == pytest.approx(0.4 * run["floor_hours"])
    assert "cost" not in run
    opened = json.loads(quick("explain", "train.run.floor_hours", *words[1:], "--json").stdout)
    steps, flops, peak, gpus, of_an_hour = (term["value"] for term in opened["terms"])
    assert (steps, gpus, of_an_hour, peak) == (1e8 / 4096, 1, 3600, 165.2e12)  # NVIDIA's Ada whitepaper, appendix A
    assert opened["value"] == pytest.approx(steps * flops / peak / 3600)
    first, *_, see_also = quick(*words).stdout.splitlines()
    assert first.endswith(" USD (at the GPU's peak; no estimate)")
    at = json.loads(quick(*words, "--mfu", "35%", "--json").stdout)["run"]
    told = f"your share of the peak; with this, masked pairs counted: {at['hours']:.3g} hours, {at['cost']:.2f} USD"
    assert f"--mfu 35% ({told})" in see_also


def test_the_cheapest_is_that_of_those_whose_hours_and_prices_are_known(quick: Quick) -> None:
    """No run on an RTX 4090 is known, and no price of one: it may be cheaper than an H100."""
    words = (*LORA[:-1], "--gpu")
    both = quick(*words, "rtx-4090,h100").stdout
    one = quick(*words, "h100").stdout.splitlines()[0].partition(" in ")[2]
    assert both.splitlines()[0] == f"100M tokens, cheapest on H100-SXM of those with an estimate and a price: {one}"
    assert " to " in one  # with its band
    assert "nine of ten within" in both
    assert "H100-SXM: 2.95 USD a GPU hour" in both
    assert quick(*words, "h200,h100").stdout.startswith("100M tokens, cheapest on H100-SXM: ")


def test_a_speed_that_was_said_stands_beside_the_estimate(quick: Quick) -> None:
    estimate = json.loads(quick(*LORA, "h100", "--json").stdout)["run"]
    said = quick(*LORA, "h100", "--mfu", "35%").stdout
    hours = ", ".join(f"{estimate[key]:.3g} hours" for key in ("hours", "hours_low"))
    assert f"Without a speed that is given the estimate is {hours} to {estimate['hours_high']:.3g} hours" in said
    assert "the estimate is" not in quick(*LORA, "rtx-4090", "--mfu", "35%").stdout


def test_a_rate_goes_both_ways(quick: Quick) -> None:
    """Tokens per second say the hours and the MFU; so do the seconds of a step."""
    rate = json.loads(quick(*LORA, "h100", "--tokens-per-second", "5000", "--json").stdout)["run"]
    assert rate["hours"] == pytest.approx(10**8 / 5000 / 3600)
    step = json.loads(quick(*LORA, "h100", "--step-time", str(4096 / 5000), "--json").stdout)["run"]
    assert step["hours"] == pytest.approx(rate["hours"])
    assert step["mfu"] == pytest.approx(rate["mfu"])
    assert "hours_low" not in rate


def test_a_table_over_cards(quick: Quick) -> None:
    """Each card on which it fits, as asked or changed; those with a price first, the cheapest first."""
    found = json.loads(quick("train", "gpt2", "--tokens", "1B", "--precision", "bf16", "--json").stdout)
    costs = [one["cost"] for one in found["runs"] if "cost" in one]
    assert costs == sorted(costs)
    assert len(costs) >= 3
    assert {"H100-SXM", "RTX-4090", "T4"} - {one["gpu"] for one in found["runs"]} <= {"T4"}


def test_several_gpus(quick: Quick) -> None:
    """Eight GPUs take eight times the tokens of a step."""
    words = ("train", "llama-3-8b", "--fsdp", "--tokens", "1B", "--json")
    run = json.loads(quick(*words, "--gpu", "8xh100").stdout)["run"]
    assert run["tokens_per_step"] == 8 * 4096
    assert run["gpu_hours"] == pytest.approx(8 * run["hours"])


def test_chunks_of_a_stage_shorten_the_bubble() -> None:
    """Each device waits (p - 1)/(v m) of its work (Narayanan et al. 2021, arXiv 2104.04473, section 2.2)."""
    plan = Training(backend="megatron", tensor_parallel=8, sequence_parallel=True, pipeline_parallel=4, grad_accum=8)
    run = Workload(seq_len=4096, recompute="none")
    plans = (plan.replaced(virtual_pipeline=chunks) for chunks in (1, 2, 4))
    one, two, four = (train("llama-3-70b", 10**9, run, each, gpu="32xh200").run.step_seconds for each in plans)
    assert one - two == pytest.approx(2 * (two - four), rel=0.01)
    work = 2 * two - one
    assert (one - work) / work == pytest.approx(3 / 8, rel=0.1)


@pytest.mark.parametrize("card", ["h100", "a100-80"])
def test_a_step_of_fsdp_is_that_of_plan_or_longer_and_each_names_whose_rates(quick: Quick, card: str) -> None:
    """Of both sources' seconds the longer is told, and the other beside it.

    The steps of fms-fsdp's compiled code on 96 H100s (tests/oracle/planning) take up to a third longer than the rates
    of transformers on one H100 give; code that runs operation by operation is no faster than that.
    """
    shape = f"llama-3-8b --gpu 8x{card} --seq 4096"
    layout = "--stack fsdp --global-batch-size 16 --tp 1 --pp 1 --cp 1 --micro-batch 2 --replicas 1 --zero 3"
    plan = ("plan", *shape.split(), *layout.split(), "--checkpointing", "full")
    planned = quick(*plan, "-q").stdout
    said = " ".join(quick(*plan).stdout.split())
    told = r"Rates of transformers on one H100 or H200 would give ([0-9.]+) s.*allocates ([0-9.]+ GiB): tfcalc "
    ((other, peak, command),) = re.findall(told + "(memory .*? full)", said)
    assert quick(*command.split()).stdout.startswith(f"{peak} peak")
    run = "--fsdp --batch 2 --tokens 1B --precision bf16-fsdp --checkpointing full"
    asked = ("train", *shape.split(), *run.split())
    seconds = json.loads(quick(*asked, "--json").stdout)["run"]["step_seconds"]
    assert seconds == pytest.approx(max(float(planned), float(other)), rel=5e-3)
    table = " ".join(quick(*asked).stdout.split())
    whose = ["FSDP trainers (llm-foundry, fms-fsdp, MaxText)", "transformers on one H100 or H200"]
    first, beside = whose if card == "h100" else whose[::-1]
    assert f"Seconds are an estimate by rates of {first}: few runs" in table
    assert f"Rates of {beside} would give" in table
    compiled = json.loads(quick(*asked, "--compile", "--json").stdout)["run"]["step_seconds"]
    assert compiled <= seconds


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("llama-3-8b --gpu h100 --mfu 40%", "add --tokens 100M"),
        ("qwen2.5-7b --method ppo --gpu 8xh200 --max-steps 9 --zero 3", "--zero 3 with --method ppo is not supported"),
        ("llama-3-8b --tokens 1M --gpu h100 --mfu half", "write 40% or 0.4"),
        ("llama-3-8b --tokens 1M --gpu h100 --mfu 140%", "write 40% or 0.4"),
        ("llama-3-8b --tokens 1M --gpu h100 --mfu 40% --step-time 2", "give one of them"),
        ("llama-3-8b --tokens 1M --gpu h1000", "h1000"),
        ("llama-3-8b --tokens 1M --serve", "serve"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(quick: Quick, words: str, told: str) -> None:
    """Fact, value and remedy; exit 2."""
    found = quick("train", *words.split())
    assert found.returncode == 2
    assert told in found.stderr


def test_a_step_of_which_a_part_was_never_timed_has_a_floor_alone(quick: Quick) -> None:
    """Transfers to the host, and weights that are expanded; what is timed is told beside it."""
    words = ("train", "llama-3-8b", "--tokens", "1M", "--gpu", "h100")
    plain = quick(*words).stdout.partition(" tokens in ")[2].partition(",")[0]
    for further, what in (
        ("--offload optimizer", "transfers to the host"),
        ("--lora 16 --base-weights int8", "expanding the quantized weights"),
        ("--optimizer muon", "Muon's products of matrices"),
    ):
        found = quick(*words, *further.split()).stdout
        assert "1M tokens in at least " in found
        assert f"Nobody timed {what}, so nothing is estimated" in found
        assert f"Without {what}: " in found
    assert f"Without transfers to the host: {plain}\n" in quick(*words, "--offload", "optimizer").stdout
    assert "Nobody timed" not in quick(*words, "--lora", "16").stdout
    assert "1M tokens in 4.1 minutes" in quick(*words, "--offload", "optimizer", "--step-time", "1").stdout


def test_an_optimizer_takes_as_long_as_it_moves_bytes() -> None:
    """Of each parameter AdamW's step moves two moments of 2 bytes, read and written, Lion's one, and SGD's none."""
    sgd, lion, adamw, in_8_bits = (
        train("llama-3.2-1b", 10**8, gpu="h100", training=Training(optimizer=name)).only.seconds_of_step or 0
        for name in ("sgd", "lion", "adamw-fused", "adamw-8bit")
    )
    assert adamw > lion > sgd
    assert adamw - lion == pytest.approx(lion - sgd)
    assert in_8_bits - sgd == pytest.approx((adamw - sgd) * (1 + 4 / 256) / 2)  # an fp32 scale for 256 numbers


def test_pages_of_an_optimizer_are_not_counted_and_said(quick: Quick) -> None:
    """They move where the GPU is full alone."""
    found = quick("train", "llama-3-8b", "--tokens", "1M", "--gpu", "h100", "--optimizer", "paged-adamw-8bit").stdout
    assert "Not in these hours: what pages to the host, where the GPU is full" in found


def test_why_lora_is_slower_than_full_training_is_said_where_it_is() -> None:
    """peft casts what an adapter in fp32 reads and gives; adapters in bf16 are cast nowhere."""

    def seconds(plan: Training) -> tuple[float | None, bool]:
        found = train("llama-3-8b", 10**8, gpu="h200", training=plan)
        return found.only.seconds_of_step, any(
            "fp32 adapters read and give copies" in one for one in found.sheet().notes
        )

    (full, _), (fp32, said), (bf16, said_of_bf16) = (
        seconds(plan) for plan in (Training(), Training(lora=16), Training(lora=16, lora_dtype="bf16"))
    )
    assert full is not None
    assert fp32 is not None
    assert bf16 is not None
    assert (fp32 > full, bf16 > full) == (said, said_of_bf16) == (True, False)


def test_every_fourth_layer_again_is_a_quarter(quick: Quick) -> None:
    """Seconds grow by the same for each layer that runs again: every:4 by a quarter of what full adds."""
    words = ("train", "gpt2", "--tokens", "1M", "--gpu", "h100", "--precision", "bf16", "--json", "--checkpointing")
    none, fourth, full = (
        json.loads(quick(*words, kind).stdout)["run"]["step_seconds"] for kind in ("none", "every:4", "full")
    )
    assert (fourth - none) / (full - none) == pytest.approx(0.25, rel=0.02)


PRICES = "[prices]\nh100 = 2.5\na100 = 1.4\nh100-nvl = 2.2\n"


def test_prices_of_a_settings_file(quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named as the source by train and plan; --price that is typed wins, and one in the file is for all other GPUs."""
    file = tmp_path / "tfcalc.toml"
    file.write_text(f"price = 9\n{PRICES}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = ("train", "gpt2", "--tokens", "10B", "--precision", "bf16", "--json", "--gpu")

    def price(*more: str) -> tuple[float, str]:
        run = json.loads(quick(*words, *more).stdout)["run"]
        assert run["cost"] == pytest.approx(run["gpu_hours"] * run["price_per_gpu_hour"])
        return run["price_per_gpu_hour"], run["price_source"]

    assert price("h100") == (2.5, "[prices] of tfcalc.toml")
    assert price("a100-80") == (1.4, "[prices] of tfcalc.toml")
    assert price("h100", "--price", "3") == (3, "given by --price")
    assert price("b200")[0] == 9
    assert "2.50 USD a GPU hour ([prices] of tfcalc.toml)" in quick(*words[:-2], "--gpu", "h100").stdout
    shape = "--gpu 8xh100 --global-batch-size 64 --tp 1 --pp 1 --cp 1 --zero 1 --micro-batch 8 --tokens 1B --json"
    planned = json.loads(quick("plan", "gpt2", *shape.split()).stdout)
    assert planned["price_per_gpu_hour"], planned["price_source"] == (2.5, "[prices] of tfcalc.toml")
    assert quick("params", "gpt2", "-q").returncode == quick("budget", "--json").returncode - 3 == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[prices]\nh100 = 'cheap'", "is no price of a GPU and an hour"),
        ("[prices]\nh100 = -1", "is no price of a GPU and an hour"),
        ("[prices]\nh100 = nan", "is no price of a GPU and an hour"),
        ("[prices]\nh100 = true", "is no price of a GPU and an hour"),
        ("[prices]\nh100 = [[[]]]", "is no price of a GPU and an hour"),
        ("[prices]\nh1000 = 2", "h1000"),
        ("prices = 2", "is no table of prices"),
    ],
)
def test_prices_that_are_none(
    quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    """One line with the file, exit 3; other commands pass over them."""
    (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = quick("train", "gpt2", "--tokens", "1B", "--gpu", "h100")
    assert (found.returncode, found.stderr.count("\n"), found.stdout) == (3, 1, "")
    assert told in found.stderr
    assert quick("params", "gpt2", "-q").returncode == 0


@pytest.mark.parametrize(
    "words",
    ["gpt2 --tokens 1B --gpu h100", "llama-3-8b --lora 16 --tokens 100M --gpu h100 --seq 2048"],
)
def test_flops_says_the_same_hours(quick: Quick, words: str) -> None:
    """``flops --train --tokens N --gpu NAME`` asks ``train``, and counts the FLOPs of the same steps."""
    run = json.loads(quick("train", *words.split(), "--json").stdout)["run"]
    found = json.loads(quick("flops", "--train", *words.split(), "--json").stdout)
    assert found["tokens"] == run["tokens_per_step"]
    same = [name for name in ("hours", "hours_low", "hours_high", "gpu_hours") if name in run]
    assert {name: found[name] for name in same} == {name: run[name] for name in same}
    assert ("hours" in found) == ("hours" in run)
    title = quick("train", *words.split()).stdout.splitlines()[0]
    assert title in quick("flops", "--train", *words.split()).stdout


@pytest.mark.parametrize(
    ("pairs", "per_token"), [("full", 12 * 32 * 4096 * 8192), ("causal-half", 6 * 32 * 4096 * 8192)]
)
def test_one_mfu(quick: Quick, pairs: str, per_token: int) -> None:
    """The MFU of train is that of flops: 6 FLOPs of each weight of a product and token, and 12·n·h·l of attention.

    Source: Chowdhery et al. 2022 (arXiv 2204.02311), appendix B: all pairs; half of them in Megatron-LM. 9,500 tokens
    per second of Llama-3-8B on an H100 (989.4 TFLOP/s).
    """
    weights = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256
    mfu = 9500 * (6 * weights + per_token) / 989.4e12
    words = (
        "llama-3-8b",
        "--gpu",
        "h100",
        "--seq",
        "8k",
        "--tokens-per-second",
        "9500",
        "--attention",
        pairs,
        "--json",
    )
    tuned = json.loads(quick("train", *words, "--tokens", "1B", "--qlora", "16").stdout)
    counted = json.loads(quick("flops", *words, "--train", "--mfu").stdout)
    assert counted["mfu"] == pytest.approx(mfu, rel=1e-3)
    several = [word if word != "h100" else "8xh100" for word in words]
    full = json.loads(quick("train", *several, "--tokens", "1B", "--fsdp").stdout)
    assert 8 * full["run"]["mfu"] == pytest.approx(mfu, rel=1e-3)
    assert tuned["run"]["mfu"] < counted["mfu"]  # frozen weights have no gradient


@pytest.mark.parametrize(
    ("words", "told"),
    [
        # 6 · 8.03e9 · 1e6 are 48 PFLOP/s, without the pairs of attention: 49 H100s of 989 TFLOP/s
        ("train llama-3-8b --gpu h100 --tokens 1B --tokens-per-second 1000000", "It takes at least 49: --gpus 49"),
        (
            "train llama-3-8b --gpu h100 --tokens 1B --step-time 0.001",
            "a step is 4,096 tokens, and takes at least 0.2 s",
        ),
        ("train llama-3-8b --tokens 1B --tokens-per-second 1000000", "is the rate of several GPUs?"),
        (
            "plan llama-3-70b --gpu 64xh100 --seq 8k --measured 57600",
            "all 64 GPUs together? Of each of 64 it is 900 tok/s",
        ),
    ],
)
def test_a_speed_beyond_the_peak_is_refused(quick: Quick, words: str, told: str) -> None:
    """What needs more than the peak of the GPUs in any format was not measured on these."""
    done = quick(*words.split())
    assert done.returncode == 2
    assert told in done.stderr
    assert "one over 100 % is impossible" in done.stderr


def test_a_speed_beyond_the_own_format_says_so(quick: Quick) -> None:
    """38,055 tokens/s of 0.56B parameters are over the 82.6 TFLOP/s of an RTX 4090 in fp32, and below those in bf16."""
    model = ("--kind", "decoder", "--d-model", "1280", "--layers", "20", "--heads", "10", "--vocab-size", "65536")
    run = ("train", *model, "--seq", "2k", "--gpu", "rtx-4090", "--tokens", "11.2B", "--tokens-per-second", "38055")
    said = "so its products have another format, such as bf16: --precision bf16-mixed"
    assert said in " ".join(quick(*run).stdout.split())
    assert said not in " ".join(quick(*run, "--precision", "bf16-mixed").stdout.split())


def test_grpo_waits_for_its_completions(quick: Quick) -> None:
    """By hand: 256 tokens a step, each of which reads the matrices of Qwen2.5-7B in 16 bits at an H100's 3.35 TB/s.

    Its config.json: 28 layers of width 3,584, 28 heads and 4 of keys of 128, MLPs of 18,944, 152,064 words.
    """
    matrices = 28 * (3584 * (2 * 3584 + 2 * 512) + 3 * 3584 * 18944) + 3584 * 152064
    seconds = 256 * 2 * matrices / 3.35e12
    words = ("train", "qwen2.5-7b", "--method", "grpo", "--gpu", "h100", "--max-steps", "1000")
    plain = json.loads(quick(*words, "--json").stdout)["run"]
    least = 1000 * seconds / 3600
    assert least < plain["floor_hours"] < 1.1 * least
    assert "--mfu" not in quick(*words).stdout  # no share of the peak tells how long writing takes
    said = quick(*words, "--mfu", "35%").stdout
    assert "13 to 51 ms for each token of a completion" in " ".join(said.split())
    shared = json.loads(quick(*words, "--mfu", "35%", "--json").stdout)["run"]
    assert shared["hours"] > plain["floor_hours"]
    elsewhere = json.loads(quick(*words, "--vllm-mode", "server", "--json").stdout)["run"]
    assert elsewhere["floor_hours"] < 0.1 * least  # other GPUs write them


def test_without_tokens_it_says_what_tells_the_hours(quick: Quick) -> None:
    """A question about time without the tokens of the run is answered by a verdict, which has no hours."""
    hint = "See also: --tokens 100M (hours, cost)"
    assert hint in quick("train", "gpt2", "--gpu", "t4").stdout
    assert hint not in quick("memory", "gpt2", "--train", "--gpu", "t4").stdout
    assert "tfcalc train MODEL --tokens 100M (hours, cost)" in quick("train", "gpt2").stdout.replace("\n", " ")
